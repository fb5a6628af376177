/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive kernel: chunks one by one and in arrays, and the bitmap functions that control uses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "receive_world.h"

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

/* What a fabric has written must not be touched: here that would kill the test. */
static void a_chunk_that_is_in_place_is_marked_and_not_copied(void **state)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    struct tt_receive_chunk chunk = {.imm = tt_imm_encode(TAG, 1), .length_bytes = 4, .source = 2};
    struct world world;
    uint8_t *page = mmap(NULL, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_ptr_not_equal(page, MAP_FAILED);
    set_up(&world);
    world.stream.buffer = page;
    chunk.address = page + 4;
    assert_int_equal(tt_receive(&world.receiver, &chunk, 1), 1);
    assert_int_equal(atomic_load(&world.bitmap[0]), 2);
    assert_int_equal(atomic_load(&world.stream.received), 1);
    assert_int_equal(tt_receive(&world.receiver, &chunk, 1), 0); /* again */
    chunk.source = 3;
    chunk.imm = tt_imm_encode(TAG, 2);
    assert_int_equal(tt_receive(&world.receiver, &chunk, 1), 0);
    assert_counters(&world, (uint64_t[]){1, 0, 0, 1, 0, 1, 0});
    munmap(page, page_bytes);
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

/* By these a rank that waits for no chunk finds out that it hears some. */
static void chunks_without_a_stream_count_if_they_come_from_another_host(void **state)
{
    uint64_t hosts[SIZE] = {[RANK] = 5, [2] = 5};
    struct world world;

    (void)state;
    set_up(&world);
    for (uint32_t tag = TAG + 1; tag <= TT_TAG_EAGER + 1; tag += TT_TAG_EAGER - TAG) { /* stale, and early */
        uint64_t before = world.receiver.afar;

        world.receiver.hosts = NULL; /* all differ */
        receive(&world, tag, 0, 2, 4, 1);
        assert_int_equal(world.receiver.afar, before + 1);
        world.receiver.hosts = hosts;
        receive(&world, tag, 0, 2, 4, 1);
        receive(&world, tag, 0, RANK, 4, 1);
        receive(&world, tag, 0, SIZE, 4, 1); /* nobody */
        if (tag < TT_TAG_EAGER) {            /* the others have none */
            receive(&world, tag, TT_PSN_RELEASE, 3, TT_RELEASE_BYTES, 1);
        }
        assert_int_equal(world.receiver.afar, before + 1);
        receive(&world, tag, 0, 3, 4, 1);
        assert_int_equal(world.receiver.afar, before + 2);
    }
    receive(&world, TAG, 3, 3, 4, 1); /* has a stream */
    assert_int_equal(world.receiver.afar, 4);
}

/* --- Releases -------------------------------------------------------------------------------------------------------
 */

static uint32_t receive_release(struct world *world, uint32_t source, uint32_t length_bytes,
                                const struct tt_release *release)
{
    struct tt_receive_chunk chunk = {.imm = tt_imm_encode(TAG, TT_PSN_RELEASE),
                                     .length_bytes = length_bytes,
                                     .source = source,
                                     .address = world->payload};

    tt_release_encode(release, world->payload);
    return tt_receive(&world->receiver, &chunk, 1);
}

static void a_release_is_left_for_control_and_raises_attention(void **state)
{
    static const struct tt_release release = {UINT64_C(0x0102030405060708), 0x090A0B0C, 0x0D0E0F10, false, false};
    struct world world;

    (void)state;
    set_up(&world);
    assert_int_equal(receive_release(&world, 2, TT_RELEASE_BYTES, &release), 0); /* no data */
    assert_true(atomic_load(&world.stream.released));
    assert_true(world.stream.release.finished == release.finished);
    assert_int_equal(world.stream.release.rate_kbit, release.rate_kbit);
    assert_int_equal(world.stream.release.window_chunks, release.window_chunks);
    assert_int_equal(atomic_load(&world.receiver.attention), 1);
    assert_int_equal(atomic_load(&world.stream.received), 0);
    assert_int_equal(atomic_load(&world.bitmap[0]), 0);
    assert_untouched(world.memory, sizeof world.memory);
    assert_counters(&world, (uint64_t[]){0, 0, 0, 0, 0, 0, 0});
}

static void a_release_comes_from_the_first_root_and_has_its_length(void **state)
{
    static const struct tt_release release = {7, 9, 11, false, false};
    struct world world;

    (void)state;
    set_up(&world);
    receive_release(&world, 3, TT_RELEASE_BYTES, &release); /* a root too, but not the first */
    receive_release(&world, RANK, TT_RELEASE_BYTES, &release);
    receive_release(&world, 2, TT_RELEASE_BYTES - 1, &release);
    receive_release(&world, 2, TT_RELEASE_BYTES + 1, &release);
    receive_release(&world, 2, 0, &release);
    assert_false(atomic_load(&world.stream.released));
    assert_nothing_changed(&world);
    assert_counters(&world, (uint64_t[]){0, 0, 0, 2, 3, 0, 0});
    tt_receiver_retire(&world.receiver, TAG);
    receive_release(&world, 2, TT_RELEASE_BYTES, &release);
    assert_false(atomic_load(&world.stream.released));
    assert_counters(&world, (uint64_t[]){0, 1, 0, 2, 3, 0, 0});
}

/* Control may be reading the first one. */
static void a_second_release_changes_nothing_until_the_stream_is_reset(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    receive_release(&world, 2, TT_RELEASE_BYTES, &(struct tt_release){7, 9, 11, false, false});
    atomic_store(&world.receiver.attention, 0);
    receive_release(&world, 2, TT_RELEASE_BYTES, &(struct tt_release){8, 10, 12, false, false});
    assert_int_equal(world.stream.release.finished, 7);
    assert_int_equal(atomic_load(&world.receiver.attention), 0);
    assert_counters(&world, (uint64_t[]){0, 0, 0, 0, 0, 1, 0});
    tt_receiver_retire(&world.receiver, TAG);
    tt_stream_reset(&world.stream);
    assert_false(atomic_load(&world.stream.released));
    tt_receiver_publish(&world.receiver, TAG, &world.stream);
    receive_release(&world, 2, TT_RELEASE_BYTES, &(struct tt_release){8, 10, 12, false, false});
    assert_true(atomic_load(&world.stream.released));
    assert_int_equal(world.stream.release.finished, 8);
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
        cmocka_unit_test(a_chunk_that_is_in_place_is_marked_and_not_copied),
        cmocka_unit_test(a_duplicate_does_not_write_again),
        cmocka_unit_test(a_tag_without_a_stream_is_stale),
        cmocka_unit_test(psns_out_of_range_change_nothing),
        cmocka_unit_test(a_chunk_of_another_roots_block_is_not_believed),
        cmocka_unit_test(lengths_must_be_exact_also_of_the_short_last_chunk),
        cmocka_unit_test(chunks_without_a_stream_count_if_they_come_from_another_host),
        cmocka_unit_test(a_collective_of_nothing_takes_no_chunk),
        cmocka_unit_test(a_release_is_left_for_control_and_raises_attention),
        cmocka_unit_test(a_release_comes_from_the_first_root_and_has_its_length),
        cmocka_unit_test(a_second_release_changes_nothing_until_the_stream_is_reset),
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
