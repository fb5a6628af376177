/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive kernel: chunks one by one and in arrays, and the bitmap functions that control uses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/receive.h"

enum { RANK = 1, SIZE = 70, TAG = 9, BUFFER = 1024, MARGIN = 64, GUARD = 0xC3 };

/* A receiver with one stream of two roots (ranks 2 and 3), blocks of 10 bytes in chunks of 4: PSNs 0 1 2 and 3 4 5. */
struct world {
    struct tt_receiver receiver;
    struct tt_stream stream, other;
    _Atomic uint64_t bitmap[4], other_bitmap[4], heard[2];
    uint8_t memory[MARGIN + BUFFER + MARGIN], other_memory[MARGIN + BUFFER + MARGIN];
    uint8_t payload[256];
};

static void make_stream(struct tt_stream *stream, uint64_t block_bytes, uint32_t chunk_bytes, uint32_t roots,
                        uint32_t first_source, uint8_t *buffer, _Atomic uint64_t *bitmap)
{
    struct tt_layout layout;

    assert_true(tt_layout_init(&layout, block_bytes, chunk_bytes, roots, 1, 256));
    tt_layout_stripe(&layout, 0, &stream->stripe);
    stream->first_source = first_source;
    stream->buffer = buffer;
    stream->bitmap = bitmap;
    atomic_store(&stream->notify_at, 1000);
}

static void set_up(struct world *world)
{
    memset(world, 0, sizeof *world);
    memset(world->memory, GUARD, sizeof world->memory);
    memset(world->other_memory, GUARD, sizeof world->other_memory);
    for (uint32_t i = 0; i < sizeof world->payload; i++) {
        world->payload[i] = (uint8_t)(i + 1);
    }
    world->receiver.rank = RANK;
    world->receiver.size = SIZE;
    world->receiver.probe_bytes = 4;
    world->receiver.heard = world->heard;
    make_stream(&world->stream, 10, 4, 2, 2, world->memory + MARGIN, world->bitmap);
    tt_receiver_publish(&world->receiver, TAG, &world->stream);
}

static uint32_t receive(struct world *world, uint32_t tag, uint32_t psn, uint32_t source, uint32_t length_bytes,
                        uint8_t first_byte)
{
    struct tt_receive_chunk chunk = {.imm = tt_imm_encode(tag, psn),
                                     .length_bytes = length_bytes,
                                     .source = source,
                                     .address = world->payload + first_byte - 1};

    return tt_receive(&world->receiver, &chunk, 1);
}

/* placed, stale, range, source, length, duplicate, early */
static void assert_counters(struct world *world, const uint64_t *expected)
{
    uint32_t i = 0;

#define CHECK(name) assert_int_equal(atomic_load(&world->receiver.name), expected[i++]);
    TT_RECEIVE_COUNTERS(CHECK)
#undef CHECK
}

static void assert_untouched(const uint8_t *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(bytes[i], GUARD);
    }
}

static void assert_nothing_changed(struct world *world)
{
    assert_untouched(world->memory, sizeof world->memory);
    assert_int_equal(atomic_load(&world->bitmap[0]), 0);
    assert_int_equal(atomic_load(&world->stream.received), 0);
    assert_int_equal(atomic_load(&world->receiver.attention), 0);
}

static void chunks_land_at_their_offsets_in_any_order(void **state)
{
    static const uint32_t order[] = {4, 0, 5, 2, 3, 1};
    static const uint8_t expected[20] = {1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 4, 5, 6, 7, 5, 6, 7, 8, 6, 7};
    struct world world;

    (void)state;
    set_up(&world);
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t psn = order[i];

        assert_int_equal(receive(&world, TAG, psn, 2 + psn / 3, psn % 3 == 2 ? 2 : 4, (uint8_t)(psn + 1)), 1);
        assert_int_equal(atomic_load(&world.stream.received), i + 1);
    }
    assert_memory_equal(world.memory + MARGIN, expected, sizeof expected);
    assert_untouched(world.memory, MARGIN);
    assert_untouched(world.memory + MARGIN + 20, BUFFER + MARGIN - 20);
    assert_int_equal(atomic_load(&world.bitmap[0]), 0x3F);
    assert_counters(&world, (uint64_t[]){6, 0, 0, 0, 0, 0, 0});
}

static void an_array_of_good_and_bad_chunks_places_the_good_ones(void **state)
{
    struct world world;
    struct tt_receive_chunk chunks[7];

    (void)state;
    set_up(&world);
    for (uint32_t i = 0; i < 7; i++) {
        chunks[i] = (struct tt_receive_chunk){
            .imm = tt_imm_encode(TAG, 0), .length_bytes = 4, .source = 2, .address = world.payload};
    }
    chunks[1].imm = tt_imm_encode(TAG + 1, 1); /* stale */
    chunks[2].imm = tt_imm_encode(TAG, 6);     /* range */
    chunks[3].source = 3;                      /* not PSN 0's root */
    chunks[4].imm = tt_imm_encode(TAG, 1);
    chunks[5].length_bytes = 3;
    assert_int_equal(tt_receive(&world.receiver, chunks, 7), 2); /* 6 is a duplicate of 0 */
    assert_int_equal(tt_receive(&world.receiver, chunks, 0), 0);
    assert_counters(&world, (uint64_t[]){2, 1, 1, 1, 1, 1, 0});
    assert_int_equal(atomic_load(&world.bitmap[0]), 3);
}

static void a_duplicate_does_not_write_again(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    assert_int_equal(receive(&world, TAG, 1, 2, 4, 10), 1);
    assert_int_equal(receive(&world, TAG, 1, 2, 4, 50), 0);
    assert_int_equal(world.memory[MARGIN + 4], 10);
    assert_int_equal(atomic_load(&world.stream.received), 1);
    assert_counters(&world, (uint64_t[]){1, 0, 0, 0, 0, 1, 0});
}

static void a_tag_without_a_stream_is_stale(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    for (uint32_t tag = 1; tag < TT_TAG_COUNT; tag++) {
        if (tag != TAG) {
            assert_int_equal(receive(&world, tag, 0, 2, 4, 1), 0);
        }
    }
    tt_receiver_retire(&world.receiver, TAG);
    assert_int_equal(receive(&world, TAG, 0, 2, 4, 1), 0);
    assert_nothing_changed(&world);
    assert_counters(&world, (uint64_t[]){0, 255, 0, 0, 0, 0, 0});
}

/* --- Early chunks ------------------------------------------------------------------------------------------------- */

enum { FRONTIER = 1000, SLAB = 256 }; /* 1000 = 7 * 128 + 104: its eager tag is 128 + 104 */

struct early_world {
    struct world world;
    struct tt_early_pool pool;
    _Alignas(8) uint8_t slabs[TT_EARLY_SLABS * SLAB];
};

static void set_up_early(struct early_world *early)
{
    set_up(&early->world);
    tt_early_pool_init(&early->pool, early->slabs, SLAB);
    early->world.receiver.log.pool = &early->pool;
    early->world.receiver.frontier = early->world.receiver.drained = FRONTIER;
}

static uint32_t receive_eager(struct early_world *early, uint64_t sequence, uint32_t psn, uint8_t first_byte)
{
    return receive(&early->world, tt_tag_of_sequence(sequence, true), psn, 2, 4, first_byte);
}

static void chunks_are_early_from_the_frontier_to_64_sequence_numbers_ahead(void **state)
{
    struct early_world early;
    struct tt_receiver *receiver = &early.world.receiver;

    (void)state;
    set_up_early(&early);
    receiver->drained = FRONTIER - 64; /* what is older has been taken out of the queue */
    for (uint64_t sequence = FRONTIER - 64; sequence < FRONTIER + 64; sequence++) {
        bool is_early = sequence >= FRONTIER;
        uint64_t stale = atomic_load(&receiver->stale);

        assert_int_equal(receive_eager(&early, sequence, 0, 1), 0);
        assert_int_equal(atomic_load(&receiver->stale), stale + !is_early);
        if (is_early) { /* make room */
            assert_int_equal(atomic_load(&receiver->log.count), 1);
            tt_early_remove(&receiver->log, 0, 24);
        }
    }
    assert_int_equal(receive(&early.world, tt_tag_of_sequence(FRONTIER, false), 0, 2, 4, 1), 0); /* an ordinary tag */
    assert_counters(&early.world, (uint64_t[]){0, 65, 0, 0, 0, 0, 64});
    assert_nothing_changed(&early.world);
}

static void early_chunks_are_placed_once_when_their_collective_is_published(void **state)
{
    struct early_world early;
    struct world *world = &early.world;

    (void)state;
    set_up_early(&early);
    receive_eager(&early, FRONTIER + 3, 1, 9); /* another one's, which stays */
    receive_eager(&early, FRONTIER, 0, 10);
    receive_eager(&early, FRONTIER, 1, 20);
    receive_eager(&early, FRONTIER, 0, 30); /* a duplicate */
    assert_int_equal(tt_receive_early(&world->receiver), 0);
    assert_int_equal(atomic_load(&world->receiver.log.count), 4);
    tt_receiver_publish(&world->receiver, tt_tag_of_sequence(FRONTIER, true), &world->stream);
    assert_int_equal(receive_eager(&early, FRONTIER, 1, 40), 1); /* straight into place, before the log is looked at */
    assert_int_equal(tt_receive_early(&world->receiver), 1);
    assert_int_equal(tt_receive_early(&world->receiver), 0);
    assert_int_equal(world->memory[MARGIN], 10);
    assert_int_equal(world->memory[MARGIN + 4], 40);
    assert_int_equal(atomic_load(&world->stream.received), 2);
    assert_int_equal(atomic_load(&world->bitmap[0]), 3);
    assert_counters(world, (uint64_t[]){2, 0, 0, 0, 0, 2, 4});
    assert_int_equal(atomic_load(&world->receiver.log.count), 1);
}

static void early_chunks_that_do_not_fit_their_collective_are_counted_and_change_nothing(void **state)
{
    struct early_world early;
    struct world *world = &early.world;
    uint32_t tag = tt_tag_of_sequence(FRONTIER, true);

    (void)state;
    set_up_early(&early);
    receive(world, tag, 6, 2, 4, 1); /* range */
    receive(world, tag, 0, 3, 4, 1); /* source */
    receive(world, tag, 0, 2, 3, 1); /* length */
    tt_receiver_publish(&world->receiver, tag, &world->stream);
    assert_int_equal(tt_receive_early(&world->receiver), 0);
    assert_counters(world, (uint64_t[]){0, 0, 1, 1, 1, 0, 3});
    assert_nothing_changed(world);
    assert_int_equal(atomic_load(&early.pool.taken), 0);
}

/* They were fetched meanwhile, or sent twice, and their tag will mean something else. */
static void early_chunks_that_the_frontier_has_passed_are_dropped(void **state)
{
    struct early_world early;
    struct world *world = &early.world;

    (void)state;
    set_up_early(&early);
    receive_eager(&early, FRONTIER, 0, 10);
    receive_eager(&early, FRONTIER + 1, 0, 20);
    receive_eager(&early, FRONTIER + 2, 0, 30);
    world->receiver.frontier = FRONTIER + 2;
    assert_int_equal(tt_receive_early(&world->receiver), 0);
    assert_counters(world, (uint64_t[]){0, 2, 0, 0, 0, 0, 3});
    tt_receiver_publish(&world->receiver, tt_tag_of_sequence(FRONTIER + 2, true), &world->stream);
    assert_int_equal(tt_receive_early(&world->receiver), 1);
    assert_int_equal(world->memory[MARGIN], 30);
    assert_int_equal(atomic_load(&early.pool.taken), 0);
}

static void what_finds_no_room_in_the_log_is_stale(void **state)
{
    struct early_world early;

    (void)state;
    set_up_early(&early);
    for (uint32_t i = 0; i < 11; i++) { /* 10 of 24 bytes in 256 */
        receive_eager(&early, FRONTIER, i, 1);
    }
    assert_counters(&early.world, (uint64_t[]){0, 1, 0, 0, 0, 0, 10});
}

/* --- Chunks that do not fit --------------------------------------------------------------------------------------- */

static void psns_out_of_range_change_nothing(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    assert_int_equal(receive(&world, TAG, 6, 4, 4, 1), 0);
    assert_int_equal(receive(&world, TAG, 63, 2, 4, 1), 0);
    assert_int_equal(receive(&world, TAG, TT_PSN_LIMIT - 1, 2, 4, 1), 0);
    assert_nothing_changed(&world);
    assert_counters(&world, (uint64_t[]){0, 0, 3, 0, 0, 0, 0});
}

static void a_chunk_of_another_roots_block_is_not_believed(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    for (uint32_t psn = 0; psn < 6; psn++) {
        assert_int_equal(receive(&world, TAG, psn, 2 + (psn < 3), psn % 3 == 2 ? 2 : 4, 1), 0);
    }
    assert_int_equal(receive(&world, TAG, 0, 0xFFFFFFFF, 4, 1), 0);
    assert_nothing_changed(&world);
    assert_counters(&world, (uint64_t[]){0, 0, 0, 7, 0, 0, 0});
}

static void lengths_must_be_exact_also_of_the_short_last_chunk(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    assert_int_equal(receive(&world, TAG, 0, 2, 3, 1), 0);
    assert_int_equal(receive(&world, TAG, 0, 2, 5, 1), 0);
    assert_int_equal(receive(&world, TAG, 0, 2, 0, 1), 0);
    assert_int_equal(receive(&world, TAG, 2, 2, 4, 1), 0); /* 2 of the 4 would be the next block's */
    assert_int_equal(receive(&world, TAG, 5, 3, 1, 1), 0);
    assert_nothing_changed(&world);
    assert_counters(&world, (uint64_t[]){0, 0, 0, 0, 5, 0, 0});
    assert_int_equal(receive(&world, TAG, 2, 2, 2, 1), 1);
    assert_untouched(world.memory + MARGIN + 10, 10);
}

static void a_collective_of_nothing_takes_no_chunk(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    make_stream(&world.stream, 0, 4, 2, 2, NULL, NULL);
    assert_int_equal(receive(&world, TAG, 0, 2, 0, 1), 0);
    assert_counters(&world, (uint64_t[]){0, 0, 1, 0, 0, 0, 0});
}

static void streams_in_progress_do_not_mix(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    make_stream(&world.other, 100, 50, 1, 7, world.other_memory + MARGIN, world.other_bitmap);
    tt_receiver_publish(&world.receiver, 255, &world.other);
    assert_int_equal(receive(&world, 255, 1, 7, 50, 1), 1);
    assert_int_equal(receive(&world, TAG, 1, 2, 4, 90), 1);
    assert_int_equal(receive(&world, 255, 0, 2, 50, 1), 0); /* the other stream's root */
    assert_int_equal(atomic_load(&world.other_bitmap[0]), 2);
    assert_int_equal(atomic_load(&world.bitmap[0]), 2);
    assert_memory_equal(world.other_memory + MARGIN + 50, world.payload, 50);
    assert_untouched(world.other_memory, MARGIN + 50);
    assert_untouched(world.other_memory + MARGIN + 100, BUFFER + MARGIN - 100);
    assert_int_equal(world.memory[MARGIN + 4], 90);
    tt_receiver_retire(&world.receiver, 255);
    assert_int_equal(receive(&world, 255, 0, 7, 50, 1), 0);
    assert_int_equal(receive(&world, TAG, 0, 2, 4, 1), 1);
    assert_counters(&world, (uint64_t[]){3, 1, 0, 1, 0, 0, 0});
}

/* A stripe that begins in the middle of the block, as the second subgroup's does. */
static void a_stripe_places_relative_to_the_whole_buffer(void **state)
{
    struct world world;
    struct tt_layout layout;

    (void)state;
    set_up(&world);
    assert_true(tt_layout_init(&layout, 10, 4, 2, 2, 256)); /* chunks 0 1 | 2 */
    tt_layout_stripe(&layout, 1, &world.stream.stripe);
    assert_int_equal(receive(&world, TAG, 1, 3, 2, 77), 1);
    assert_int_equal(world.memory[MARGIN + 18], 77);
    assert_int_equal(world.memory[MARGIN + 19], 78);
    assert_untouched(world.memory, MARGIN + 18);
    assert_untouched(world.memory + MARGIN + 20, BUFFER + MARGIN - 20);
}

static void attention_is_raised_once_enough_has_come(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    atomic_store(&world.stream.notify_at, 2);
    receive(&world, TAG, 0, 2, 4, 1);
    receive(&world, TAG, 0, 2, 4, 1);
    assert_int_equal(atomic_load(&world.receiver.attention), 0); /* a duplicate does not count */
    receive(&world, TAG, 1, 2, 4, 1);
    assert_int_equal(atomic_load(&world.receiver.attention), 1);
    atomic_store(&world.receiver.attention, 0);
    receive(&world, TAG, 2, 2, 2, 1); /* still above the mark: asked for again */
    assert_int_equal(atomic_load(&world.receiver.attention), 1);
}

static void probes_are_heard_by_rank_and_raise_attention(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    assert_int_equal(receive(&world, TT_TAG_PROBE, 0, 0, 4, 1), 0);
    assert_int_equal(receive(&world, TT_TAG_PROBE, 69, 69, 4, 1), 0);
    assert_int_equal(receive(&world, TT_TAG_PROBE, 69, 69, 4, 1), 0); /* they are repeated */
    assert_int_equal(atomic_load(&world.heard[0]), 1);
    assert_int_equal(atomic_load(&world.heard[1]), 1 << 5);
    assert_int_equal(atomic_load(&world.receiver.attention), 1);
    assert_counters(&world, (uint64_t[]){0, 0, 0, 0, 0, 0, 0});
}

static void probes_that_lie_are_not_heard(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    receive(&world, TT_TAG_PROBE, 70, 70, 4, 1);     /* no such rank */
    receive(&world, TT_TAG_PROBE, 1 << 23, 3, 4, 1); /* far outside of the bits */
    receive(&world, TT_TAG_PROBE, 3, 4, 4, 1);       /* from another than it says */
    receive(&world, TT_TAG_PROBE, RANK, RANK, 4, 1); /* from here */
    receive(&world, TT_TAG_PROBE, 3, 3, 3, 1);       /* cut */
    assert_int_equal(atomic_load(&world.heard[0]), 0);
    assert_int_equal(atomic_load(&world.heard[1]), 0);
    assert_int_equal(atomic_load(&world.receiver.attention), 0);
    assert_counters(&world, (uint64_t[]){0, 0, 2, 2, 1, 0, 0});
}

static void marking_sets_exactly_the_bits_named(void **state)
{
    _Atomic uint64_t bitmap[4];
    struct tt_stream stream = {.bitmap = bitmap, .stripe.psn_count = 250};

    (void)state;
    for (uint32_t first = 0; first < 140; first += 7) {
        for (uint32_t count = 0; first + count <= 250; count++) {
            tt_stream_reset(&stream);
            tt_stream_mark(&stream, first, count);
            for (uint32_t psn = 0; psn < 256; psn++) {
                bool set = tt_stream_word(&stream, psn / 64) >> (psn % 64) & 1;

                assert_int_equal(set, psn >= first && psn < first + count);
            }
        }
    }
}

static void resetting_clears_what_the_stream_has(void **state)
{
    _Atomic uint64_t bitmap[3] = {~UINT64_C(0), ~UINT64_C(0), 7};
    struct tt_stream stream = {.bitmap = bitmap, .stripe.psn_count = 65};

    (void)state;
    atomic_store(&stream.received, 12);
    tt_stream_reset(&stream);
    assert_int_equal(atomic_load(&bitmap[0]), 0);
    assert_int_equal(atomic_load(&bitmap[1]), 0);
    assert_int_equal(atomic_load(&bitmap[2]), 7); /* not its */
    assert_int_equal(atomic_load(&stream.received), 0);
}

static void the_highest_mark_is_looked_for_inside_of_the_range_only(void **state)
{
    _Atomic uint64_t bitmap[4];
    struct tt_stream stream = {.bitmap = bitmap, .stripe.psn_count = 256};

    (void)state;
    for (uint32_t bit = 0; bit < 256; bit += 3) {
        tt_stream_reset(&stream);
        tt_stream_mark(&stream, bit, 1);
        for (uint32_t first = 0; first <= 256; first += 5) {
            for (uint32_t limit = first; limit <= 256; limit++) {
                uint32_t expected = bit >= first && bit < limit ? bit + 1 : first;

                assert_int_equal(tt_stream_highest(&stream, first, limit), expected);
            }
        }
    }
    tt_stream_mark(&stream, 10, 1);
    assert_int_equal(tt_stream_highest(&stream, 0, 256), 256);
    assert_int_equal(tt_stream_highest(&stream, 0, 255), 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_land_at_their_offsets_in_any_order),
        cmocka_unit_test(an_array_of_good_and_bad_chunks_places_the_good_ones),
        cmocka_unit_test(a_duplicate_does_not_write_again),
        cmocka_unit_test(a_tag_without_a_stream_is_stale),
        cmocka_unit_test(chunks_are_early_from_the_frontier_to_64_sequence_numbers_ahead),
        cmocka_unit_test(early_chunks_are_placed_once_when_their_collective_is_published),
        cmocka_unit_test(early_chunks_that_do_not_fit_their_collective_are_counted_and_change_nothing),
        cmocka_unit_test(early_chunks_that_the_frontier_has_passed_are_dropped),
        cmocka_unit_test(what_finds_no_room_in_the_log_is_stale),
        cmocka_unit_test(psns_out_of_range_change_nothing),
        cmocka_unit_test(a_chunk_of_another_roots_block_is_not_believed),
        cmocka_unit_test(lengths_must_be_exact_also_of_the_short_last_chunk),
        cmocka_unit_test(a_collective_of_nothing_takes_no_chunk),
        cmocka_unit_test(streams_in_progress_do_not_mix),
        cmocka_unit_test(a_stripe_places_relative_to_the_whole_buffer),
        cmocka_unit_test(attention_is_raised_once_enough_has_come),
        cmocka_unit_test(probes_are_heard_by_rank_and_raise_attention),
        cmocka_unit_test(probes_that_lie_are_not_heard),
        cmocka_unit_test(marking_sets_exactly_the_bits_named),
        cmocka_unit_test(resetting_clears_what_the_stream_has),
        cmocka_unit_test(the_highest_mark_is_looked_for_inside_of_the_range_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
