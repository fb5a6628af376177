/* SPDX-License-Identifier: BSD-3-Clause */
/* The hash buffer of a unit, against a list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "offload/buffer.h"
#include "patience.h"

enum { PAYLOAD = 40, KEYS = 400 };

static struct tt_buffer *create(uint64_t bytes, uint32_t payload_bytes)
{
    struct tt_buffer *buffer = malloc(sizeof *buffer);
    void *memory = malloc(tt_buffer_memory_bytes(bytes, payload_bytes));

    assert_true(buffer != NULL && memory != NULL);
    tt_buffer_init(buffer, bytes, payload_bytes, memory);
    return buffer;
}

static void destroy(struct tt_buffer *buffer)
{
    free(buffer->valid);
    free(buffer);
}

static struct tt_trigger_packet packet_number(uint32_t number)
{
    return (struct tt_trigger_packet){.kind = TT_TRIGGER_DATA,
                                      .job = number % 7,
                                      .node = number * 3,
                                      .port = number % 2048,
                                      .sequence = number % 32,
                                      .length_bytes = number % (PAYLOAD + 1)};
}

static void one_slot_in_ten_is_kept_for_collisions(void **state)
{
    static const struct {
        uint32_t slots, home;
    } known[] = {{1, 1}, {2, 1}, {3, 2}, {10, 9}, {19, 18}, {20, 18}, {500, 450}};

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct tt_buffer *buffer = create((uint64_t)known[i].slots * (TT_TRIGGER_PACKET_BYTES + PAYLOAD), PAYLOAD);

        assert_int_equal(buffer->slot_count, known[i].slots);
        assert_int_equal(buffer->home_count, known[i].home);
        destroy(buffer);
    }
    /* The paper's 512 KB hold this many packets of 1 KiB. */
    assert_int_equal(tt_buffer_slot_count(512 << 10, 1024), 500);
    assert_int_equal(tt_buffer_slot_count(1000, 1000), 0);
}

/* Puts, finds and frees at random, and compares with what must be there. */
static void holds_what_was_put_until_it_is_freed(void **state)
{
    static bool is_in[KEYS];
    struct tt_buffer *buffer = create(100 * (TT_TRIGGER_PACKET_BYTES + PAYLOAD), PAYLOAD);
    uint32_t refused = 0, collided = 0, used = 0;
    struct tt_random random;

    (void)state;
    memset(is_in, 0, sizeof is_in);
    tt_random_init(&random, 1);
    for (int i = 0; i < 100000 / TT_PATIENCE; i++) {
        uint32_t number = (uint32_t)tt_random_below(&random, KEYS);
        struct tt_trigger_packet packet = packet_number(number);
        uint32_t slot = tt_buffer_find(buffer, tt_trigger_packet_key(&packet));
        uint8_t payload[PAYLOAD];

        memset(payload, (int)(number % 251), sizeof payload);
        assert_int_equal(slot != TT_BUFFER_NO_SLOT, is_in[number]);
        if (is_in[number]) {
            assert_memory_equal(tt_buffer_payload(buffer, slot), payload, packet.length_bytes);
            assert_int_equal(buffer->packets[slot].length_bytes, packet.length_bytes);
            tt_buffer_free_slot(buffer, slot);
            is_in[number] = false;
            used--;
        } else if (tt_buffer_put(buffer, &packet, payload)) {
            is_in[number] = true;
            used++;
        } else {
            /* It is never refused while there is room for collisions. */
            assert_int_equal(buffer->reserve_used, buffer->slot_count - buffer->home_count);
            refused++;
        }
        collided += buffer->reserve_used > 0;
        assert_int_equal(buffer->used, used);
        tt_buffer_check(buffer);
    }
    assert_true(refused > 100 && collided > 100);
    destroy(buffer);
}

/* Keys that share their places go on to the reserve, and are found there. */
static void keys_with_the_same_places_fill_them_and_the_reserve(void **state)
{
    struct tt_buffer *buffer = create(4000 * (uint64_t)(TT_TRIGGER_PACKET_BYTES + PAYLOAD), PAYLOAD);
    struct tt_buffer *probe = create(4000 * (uint64_t)(TT_TRIGGER_PACKET_BYTES + PAYLOAD), PAYLOAD);
    uint32_t first = TT_BUFFER_NO_SLOT, put = 0, numbers[64];

    (void)state;
    for (uint32_t number = 0; put < TT_BUFFER_PLACES + 3; number++) {
        struct tt_trigger_packet packet = packet_number(number);
        uint8_t payload[PAYLOAD] = {0};

        packet.port = 1;
        /* Into an empty buffer it goes to its first place. */
        assert_true(tt_buffer_put(probe, &packet, payload));
        uint32_t home = tt_buffer_find(probe, tt_trigger_packet_key(&packet));

        tt_buffer_free_slot(probe, home);
        if (first == TT_BUFFER_NO_SLOT) {
            first = home;
        }
        if (home == first) {
            assert_true(tt_buffer_put(buffer, &packet, payload));
            numbers[put++] = number;
        }
        assert_true(number < 200000);
    }
    destroy(probe);
    assert_int_equal(buffer->reserve_used, 3);
    for (uint32_t i = 0; i < put; i++) {
        struct tt_trigger_packet packet = packet_number(numbers[i]);

        packet.port = 1;
        uint32_t slot = tt_buffer_find(buffer, tt_trigger_packet_key(&packet));

        assert_true(slot != TT_BUFFER_NO_SLOT);
        assert_int_equal(slot >= buffer->home_count, i >= TT_BUFFER_PLACES);
    }
    tt_buffer_check(buffer);
    destroy(buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_slot_in_ten_is_kept_for_collisions),
        cmocka_unit_test(holds_what_was_put_until_it_is_freed),
        cmocka_unit_test(keys_with_the_same_places_fill_them_and_the_reserve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
