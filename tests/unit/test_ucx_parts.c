/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the UCX provider that need no UCX: message headers, the pool, the inbox. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/p2p.h"
#include "fabric/ucx/inbox.h"
#include "fabric/ucx/message.h"
#include "fabric/ucx/pool.h"

static void headers_that_are_not_ours_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[TT_UCX_HEADER_BYTES + TT_P2P_MAX_FRAME_BYTES + 1] = {0};
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
    header = (struct tt_ucx_header){.kind = TT_UCX_FRAME, .payload_bytes = TT_P2P_MAX_FRAME_BYTES + 1};
    tt_ucx_header_encode(&header, bytes);
    assert_false(tt_ucx_header_decode(bytes, sizeof(bytes), &decoded));
}

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
        cmocka_unit_test(harmed_addresses_are_refused),
        cmocka_unit_test(pool_grows_and_takes_objects_back),
        cmocka_unit_test(inbox_keeps_records_in_order_while_it_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
