/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the UCX provider that need no connection: headers and keys, the text about lanes, the pool, the inbox.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/p2p.h"
#include "fabric/session/pool.h"
#include "fabric/ucx/inbox.h"
#include "fabric/ucx/instance.h"
#include "fabric/ucx/message.h"

static void headers_that_are_not_ours_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[TT_UCX_HEADER_BYTES + TT_P2P_LEAST_FRAME_BYTES + 1] = {0};
    struct tt_ucx_header header = {.kind = TT_UCX_FRAME, .payload_bytes = 5, .value = 77}, decoded;
    tt_ucx_header_encode(&header, bytes);
    assert_true(tt_ucx_header_decode(bytes, TT_UCX_HEADER_BYTES + 5, &decoded));
    assert_int_equal(decoded.kind, TT_UCX_FRAME);
    assert_int_equal(decoded.payload_bytes, 5);
    assert_true(decoded.value == 77);
    assert_false(tt_ucx_header_decode(bytes, TT_UCX_HEADER_BYTES + 4, &decoded));
    assert_false(tt_ucx_header_decode(bytes, TT_UCX_HEADER_BYTES + 6, &decoded));
    assert_false(tt_ucx_header_decode(bytes, 3, &decoded));
    bytes[0] ^= 1;
    assert_false(tt_ucx_header_decode(bytes, TT_UCX_HEADER_BYTES + 5, &decoded));
    header = (struct tt_ucx_header){.kind = TT_UCX_BYE, .payload_bytes = 5};
    tt_ucx_header_encode(&header, bytes);
    assert_false(tt_ucx_header_decode(bytes, TT_UCX_HEADER_BYTES + 5, &decoded));
    header = (struct tt_ucx_header){.kind = TT_UCX_KIND_LIMIT};
    tt_ucx_header_encode(&header, bytes);
    assert_false(tt_ucx_header_decode(bytes, TT_UCX_HEADER_BYTES, &decoded));
    header = (struct tt_ucx_header){.kind = TT_UCX_FRAME, .payload_bytes = TT_P2P_LEAST_FRAME_BYTES + 1};
    tt_ucx_header_encode(&header, bytes);
    assert_false(tt_ucx_header_decode(bytes, sizeof(bytes), &decoded));
}

/* --- Gets and puts by messages ---------------------------------------------------------------------------------- */

static const struct tt_ucx_bulk a_write = {
    .kind = TT_UCX_WRITE_DATA,
    .id = UINT64_C(0x0123456789abcdef),
    .offset_bytes = 1000,
    .connection = {.instance = UINT64_C(0xfedcba9876543210), .serial = 0x89abcdef},
    .place = {.index = 0x12345678,
              .token = UINT64_C(0x1122334455667788),
              .address = UINT64_C(0x99aabbccddeeff00),
              .length_bytes = 1500},
    .immediate = {.value = UINT64_C(0xf0e1d2c3b4a59687), .data_bytes = 3, .data = {7, 8, 9}},
};

static void assert_same_place(const struct tt_ucx_place *one, const struct tt_ucx_place *other)
{
    assert_int_equal(one->index, other->index);
    assert_true(one->token == other->token && one->address == other->address);
    assert_true(one->length_bytes == other->length_bytes);
}

static void reads_and_bulk_arrive_as_they_were_sent(void **state)
{
    (void)state;
    uint8_t bytes[TT_UCX_BULK_HEADER_MAX_BYTES];
    struct tt_ucx_bulk got = {0};
    size_t length_bytes = tt_ucx_bulk_encode(&a_write, bytes);
    assert_int_equal(length_bytes, sizeof(bytes));
    assert_true(tt_ucx_bulk_decode(bytes, length_bytes, 500, &got));
    assert_int_equal(got.kind, TT_UCX_WRITE_DATA);
    assert_true(got.id == a_write.id && got.offset_bytes == 1000);
    assert_true(got.immediate.value == a_write.immediate.value);
    assert_int_equal(got.immediate.data_bytes, 3);
    assert_memory_equal(got.immediate.data, a_write.immediate.data, 3);
    assert_true(got.connection.instance == a_write.connection.instance);
    assert_int_equal(got.connection.serial, a_write.connection.serial);
    assert_same_place(&got.place, &a_write.place);

    struct tt_ucx_bulk read = {.kind = TT_UCX_READ_DATA, .id = 5, .offset_bytes = UINT64_C(1) << 40};
    length_bytes = tt_ucx_bulk_encode(&read, bytes);
    assert_int_equal(length_bytes, 24);
    assert_true(tt_ucx_bulk_decode(bytes, length_bytes, 1, &got));
    assert_int_equal(got.kind, TT_UCX_READ_DATA);
    assert_true(got.id == 5 && got.offset_bytes == UINT64_C(1) << 40);

    struct tt_ucx_connection connection;
    struct tt_ucx_place place;
    tt_ucx_read_encode(&a_write.connection, &a_write.place, bytes);
    tt_ucx_read_decode(bytes, &connection, &place);
    assert_true(connection.instance == a_write.connection.instance);
    assert_int_equal(connection.serial, a_write.connection.serial);
    assert_same_place(&place, &a_write.place);
}

static void bulk_that_is_not_ours_or_reaches_beyond_its_place_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[TT_UCX_BULK_HEADER_MAX_BYTES];
    struct tt_ucx_bulk bulk = a_write, got;
    size_t length_bytes = tt_ucx_bulk_encode(&bulk, bytes);
    assert_false(tt_ucx_bulk_decode(bytes, length_bytes, 501, &got)); /* 1000 + 501 of 1500 */
    assert_false(tt_ucx_bulk_decode(bytes, length_bytes, 0, &got));
    bytes[TT_UCX_BULK_HEADER_MAX_BYTES - 1] = 1; /* behind the immediate's data */
    assert_false(tt_ucx_bulk_decode(bytes, length_bytes, 500, &got));
    bytes[TT_UCX_BULK_HEADER_MAX_BYTES - 1] = 0;
    bytes[72] = TT_P2P_MAX_IMMEDIATE_BYTES + 1;
    assert_false(tt_ucx_bulk_decode(bytes, length_bytes, 500, &got));
    (void)tt_ucx_bulk_encode(&a_write, bytes);
    for (size_t less_bytes = 0; less_bytes < length_bytes; less_bytes++) {
        assert_false(tt_ucx_bulk_decode(bytes, less_bytes, 500, &got));
    }
    bytes[2] ^= 1;
    assert_false(tt_ucx_bulk_decode(bytes, length_bytes, 500, &got));
    bytes[2] ^= 1;
    bytes[4] = TT_UCX_READ_DATA; /* with the length of a write */
    assert_false(tt_ucx_bulk_decode(bytes, length_bytes, 500, &got));
    bytes[4] = TT_UCX_FRAME;
    assert_false(tt_ucx_bulk_decode(bytes, length_bytes, 500, &got));
    bulk.offset_bytes = UINT64_MAX;
    tt_ucx_bulk_encode(&bulk, bytes);
    assert_false(tt_ucx_bulk_decode(bytes, length_bytes, 500, &got));
}

static void messages_with_a_payload_that_is_not_their_kinds_are_refused(void **state)
{
    (void)state;
    static const struct {
        enum tt_ucx_message_kind kind;
        uint32_t least_bytes, most_bytes; /* UINT32_MAX: none will do */
    } kinds[] = {{TT_UCX_IMMEDIATE, 0, TT_P2P_MAX_IMMEDIATE_BYTES},
                 {TT_UCX_HELLO, 4, 4},
                 {TT_UCX_BYE, 4, 4},
                 {TT_UCX_BYE_HEARD, 4, 4},
                 {TT_UCX_READ, 40, 40},
                 {TT_UCX_READ_DATA, UINT32_MAX, UINT32_MAX},
                 {TT_UCX_WRITE_DATA, UINT32_MAX, UINT32_MAX},
                 {TT_UCX_WRITTEN, 0, 0},
                 {TT_UCX_REFUSED, 0, 0}};
    uint8_t bytes[TT_UCX_HEADER_BYTES + 100] = {0};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        for (uint32_t payload_bytes = 0; payload_bytes <= 100; payload_bytes++) {
            struct tt_ucx_header header = {.kind = kinds[i].kind, .payload_bytes = payload_bytes}, got;
            tt_ucx_header_encode(&header, bytes);
            assert_int_equal(tt_ucx_header_decode(bytes, TT_UCX_HEADER_BYTES + payload_bytes, &got),
                             payload_bytes >= kinds[i].least_bytes && payload_bytes <= kinds[i].most_bytes);
        }
    }
}

static void hardware_reads_and_writes_only_where_all_such_lanes_are_verbs(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum tt_ucx_path path;
    } lanes[] = {
        {"", TT_UCX_PATH_MESSAGES},
        {"#  lane[0]:  0:tcp/lo.0 md[0]  -> md[0]/tcp/sysdev[255] am am_bw#0 keepalive wireup\n", TT_UCX_PATH_MESSAGES},
        {"#  lane[0]:  0:tcp/lo.0 md[0]  -> md[0]/tcp/sysdev[255] rma_bw#0 am wireup\n", TT_UCX_PATH_MESSAGES},
        {"#  lane[0]:  2:rc_mlx5/mlx5_0:1.0 md[1] -> md[1]/ib/sysdev[0] rma#0 am am_bw#0 wireup\n",
         TT_UCX_PATH_HARDWARE},
        {"#  lane[0]: 12:dc_mlx5/mlx5_0:1.0 md[1] -> md[1]/ib/sysdev[0] rma_bw#0 rma#0 am\n"
         "#  lane[1]:  0:tcp/eth0.0 md[0] -> md[0]/tcp/sysdev[255] wireup\n",
         TT_UCX_PATH_HARDWARE},
        {"#  lane[0]:  0:tcp/eth0.0 md[0] -> md[0]/tcp/sysdev[255] am wireup\n"
         "#  lane[1]:  2:rc_verbs/rxe0:1.0 md[1] -> md[1]/ib/sysdev[0] am_bw#0\n",
         TT_UCX_PATH_MESSAGES},
        {"#  lane[0]:  1:posix/memory.0 md[2] -> md[2]/posix/sysdev[255] rma#0 am\n", TT_UCX_PATH_MESSAGES},
        {"#  lane[0]:  2:rc_verbs/rxe0:1.0 md[1] -> md[1]/ib/sysdev[0] rma#0\n"
         "#  lane[1]:  1:sysv/memory.0 md[2] -> md[2]/sysv/sysdev[255] rma#1 am\n",
         TT_UCX_PATH_MESSAGES},
        {"#  lane[0]:  3:ud_verbs/rxe0:1.0 md[1] -> md[1]/ib/sysdev[0] rma#0 am\n", TT_UCX_PATH_MESSAGES},
        {"#  lane[0] rma#0", TT_UCX_PATH_MESSAGES},
    };
    for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) {
        assert_int_equal(tt_ucx_path_of_text(lanes[i].text), lanes[i].path);
    }
}

/* --- Containers ------------------------------------------------------------------------------------------------- */

static void pool_grows_and_takes_objects_back(void **state)
{
    (void)state;
    struct tt_pool pool;
    void *objects[10];
    assert_int_equal(tt_pool_init(&pool, 24, 4), TUTTI_OK);
    for (int i = 0; i < 10; i++) {
        objects[i] = tt_pool_take(&pool);
        assert_non_null(objects[i]);
        memset(objects[i], i, 24);
    }
    for (int i = 0; i < 10; i++) {
        assert_int_equal(*(uint8_t *)objects[i], i);
        assert_int_equal(*((uint8_t *)objects[i] + 23), i);
    }
    assert_int_equal(pool.used_count, 10);
    tt_pool_give(&pool, objects[3]);
    assert_ptr_equal(tt_pool_take(&pool), objects[3]);
    tt_pool_fini(&pool);
}

static void inbox_keeps_records_in_order_while_it_grows(void **state)
{
    (void)state;
    struct tt_inbox inbox;
    uint8_t data[100];
    assert_int_equal(tt_inbox_init(&inbox, 64), TUTTI_OK);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 100; i++) {
            memset(data, (int)i, sizeof(data));
            struct tt_inbox_record record = {.kind = i, .value = i * 3, .length_bytes = i};
            assert_int_equal(tt_inbox_push(&inbox, &record, data), TUTTI_OK);
        }
        for (uint32_t i = 0; i < 100; i++) {
            struct tt_inbox_record record;
            const void *got;
            memset(data, (int)i, sizeof(data));
            tt_inbox_pop(&inbox, &record, &got);
            assert_int_equal(record.kind, i);
            assert_int_equal(record.value, i * 3);
            assert_int_equal(record.length_bytes, i);
            assert_memory_equal(got, data, i);
        }
        assert_true(tt_inbox_empty(&inbox));
        tt_inbox_reset(&inbox);
    }
    tt_inbox_fini(&inbox);
}

static void harmed_addresses_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[TT_UCX_ADDRESS_HEADER_BYTES + 20] = {0};
    uint64_t instance;
    memset(bytes + TT_UCX_ADDRESS_HEADER_BYTES, 0x5a, 20);
    tt_ucx_address_encode(bytes, UINT64_C(0x123456789abcdef0), 20);
    assert_true(tt_ucx_address_decode(bytes, sizeof(bytes), &instance));
    assert_true(instance == UINT64_C(0x123456789abcdef0));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 0x10;
        assert_false(tt_ucx_address_decode(bytes, sizeof(bytes), &instance));
        bytes[i] ^= 0x10;
        assert_false(tt_ucx_address_decode(bytes, i, &instance));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_that_are_not_ours_are_refused),
        cmocka_unit_test(reads_and_bulk_arrive_as_they_were_sent),
        cmocka_unit_test(bulk_that_is_not_ours_or_reaches_beyond_its_place_is_refused),
        cmocka_unit_test(messages_with_a_payload_that_is_not_their_kinds_are_refused),
        cmocka_unit_test(hardware_reads_and_writes_only_where_all_such_lanes_are_verbs),
        cmocka_unit_test(harmed_addresses_are_refused),
        cmocka_unit_test(pool_grows_and_takes_objects_back),
        cmocka_unit_test(inbox_keeps_records_in_order_while_it_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
