/* SPDX-License-Identifier: BSD-3-Clause */
/* Places of copies, credit, and rounds of acknowledgment of eager collectives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "plan/dissemination.h"
#include "proto/eager.h"
#include "proto/terms.h"

enum { GROUP = 77, IN_FLIGHT = 4, CAPACITY = 64, HALF = 32768 };

static const struct tt_collective_terms terms = {.kind = 1, .method = TT_METHOD_EAGER, .subgroups = 1};

struct world {
    struct tt_eager eager;
    struct tt_eager_entry entries[CAPACITY];
    struct tt_actions actions;
    struct tt_action list[64];
};

static void set_up(struct world *world, uint32_t rank, uint32_t size)
{
    memset(world, 0xEE, sizeof *world);
    world->actions = (struct tt_actions){.capacity = 64, .list = world->list};
    tt_eager_init(&world->eager, rank, size, world->entries, CAPACITY);
}

static uint64_t start(struct world *world, uint64_t sequence, uint64_t bytes)
{
    struct tt_collective_terms own = terms;

    own.block_bytes = bytes;
    return tt_eager_start(&world->eager, sequence, &own, bytes);
}

static bool may_send(const struct world *world, uint64_t sequence)
{
    tt_eager_check(&world->eager);
    return tt_eager_may_send(&world->eager, sequence);
}

/* --- Places ------------------------------------------------------------------------------------------------------- */

static void the_sizes_are_what_the_tests_count_on(void **state)
{
    (void)state;
    assert_int_equal(TT_EAGER_WINDOW, 32);
    assert_int_equal(TT_EAGER_RING_BYTES, 65536);
    assert_int_equal(TT_EAGER_MAX_BYTES, HALF);
    assert_int_equal(tt_eager_most_bytes(TT_BROADCAST, 2), HALF);
    assert_int_equal(tt_eager_most_bytes(TT_ALLGATHER, 2), 2 * HALF);
    assert_int_equal(tt_gather_most_bytes(TT_ALLGATHER, 20), HALF);
    assert_int_equal(tt_gather_most_bytes(TT_ALLREDUCE, 20), 20 * HALF); /* combined on the way up */
    assert_int_equal(tt_gather_most_bytes(TT_REDUCE, 16), 16 * HALF);
    assert_int_equal(tt_gather_most_bytes(TT_REDUCE, 20), 2 * HALF); /* to any root: not all edges are connections */
    assert_int_equal(tt_gather_most_bytes(TT_REDUCE, 32), 32 * HALF);
    assert_int_equal(tt_gather_most_bytes(TT_ALLREDUCE, 1), 2 * HALF);
    assert_int_equal(tt_gather_most_bytes(TT_ALLREDUCE, TT_FOLD_TREE_MOST + 1), 2 * HALF);
    assert_int_equal(TT_EARLY_AHEAD, 64);
    assert_int_equal(tt_eager_capacity(IN_FLIGHT), CAPACITY);
}

static void copies_lie_one_behind_the_other_and_none_wraps_around(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4);
    assert_int_equal(start(&world, 0, 30000), 0);
    assert_int_equal(start(&world, 1, 30000), 30000);
    assert_int_equal(start(&world, 5, 5536), 60000); /* up to the last byte */
    assert_int_equal(start(&world, 6, 1), 0);
    assert_int_equal(start(&world, 7, HALF), 1);
    assert_int_equal(start(&world, 8, HALF), 0); /* 32767 are left */
    assert_int_equal(start(&world, 9, 3), 32768);
    assert_int_equal(tt_eager_find(&world.eager, 8)->start, 131072);
    assert_int_equal(tt_eager_find(&world.eager, 9)->end, 163843);
}

static void what_was_never_started_is_not_found(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4);
    assert_null(tt_eager_find(&world.eager, 0));
    start(&world, 3, 10);
    start(&world, 5, 10);
    assert_null(tt_eager_find(&world.eager, 2));
    assert_int_equal(tt_eager_find(&world.eager, 3)->start, 0);
    assert_false(tt_eager_find(&world.eager, 3)->kept);
    assert_null(tt_eager_find(&world.eager, 4)); /* an ordinary one */
    assert_int_equal(tt_eager_find(&world.eager, 5)->start, 10);
    assert_null(tt_eager_find(&world.eager, 6));
}

static void entries_beyond_the_capacity_are_forgotten(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4);
    for (uint64_t i = 0; i < CAPACITY; i++) {
        start(&world, 2 * i, 1);
    }
    assert_int_equal(tt_eager_find(&world.eager, 0)->end, 1);
    start(&world, 2 * CAPACITY, 1);
    assert_null(tt_eager_find(&world.eager, 0));
    assert_int_equal(tt_eager_find(&world.eager, 2)->end, 2);
    assert_int_equal(tt_eager_find(&world.eager, 2 * CAPACITY)->end, CAPACITY + 1);
}

static void a_copy_is_not_found_any_more_once_another_one_lies_there(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4);
    for (uint64_t i = 0; i < 3; i++) {
        start(&world, i, HALF);
    }
    tt_eager_keep(&world.eager, 0);
    tt_eager_keep(&world.eager, 1);
    assert_true(tt_eager_find(&world.eager, 0)->kept);
    assert_false(tt_eager_find(&world.eager, 2)->kept);
    tt_eager_keep(&world.eager, 2); /* the third lies where the first did */
    assert_null(tt_eager_find(&world.eager, 0));
    assert_true(tt_eager_find(&world.eager, 1)->kept);
    assert_true(tt_eager_find(&world.eager, 2)->kept);
}

/* --- Credit ------------------------------------------------------------------------------------------------------- */

static void credit_is_the_bytes_of_the_ring(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4);
    for (uint64_t i = 0; i < 4; i++) {
        start(&world, i, HALF);
    }
    assert_true(may_send(&world, 0));
    assert_true(may_send(&world, 1));
    assert_false(may_send(&world, 2));
    tt_eager_advance(&world.eager, 1);
    assert_true(may_send(&world, 2));
    assert_false(may_send(&world, 3));
    tt_eager_advance(&world.eager, 2);
    assert_true(may_send(&world, 3));
}

/* Who has heard from everybody in one knows that all have started it; the place of its copy is another matter. */
static void in_allgathers_credit_is_the_room_in_the_logs_of_who_has_not_started(void **state)
{
    const struct tt_collective_terms all_send = {
        .kind = TT_ALLGATHER, .method = TT_METHOD_EAGER, .subgroups = 1, .block_bytes = HALF / 2};
    struct world world;

    (void)state;
    set_up(&world, 0, 4);
    tt_eager_start(&world.eager, 0, &all_send, 2 * HALF);
    tt_eager_start(&world.eager, 1, &all_send, 2 * HALF);
    assert_true(may_send(&world, 0) && tt_eager_may_keep(&world.eager, 0));
    assert_false(may_send(&world, 1) || tt_eager_may_keep(&world.eager, 1));
    tt_eager_note_started(&world.eager, 1);
    assert_true(may_send(&world, 1));
    assert_false(tt_eager_may_keep(&world.eager, 1)); /* somebody may still ask for the one before */
    start(&world, 2, 1);                              /* a broadcast's root sees to both at once */
    tt_eager_note_started(&world.eager, 2);
    assert_false(may_send(&world, 2));
    tt_eager_learn(&world.eager, 1);
    assert_true(tt_eager_may_keep(&world.eager, 1));
    assert_false(may_send(&world, 2)); /* 64 KiB and a byte */
    tt_eager_learn(&world.eager, 2);
    assert_true(may_send(&world, 2));
}

/* A record has 16 bytes beside the chunk's: six Allgathers of 512 ranks are 73,728 bytes in a log, though only 24,576
 * of data, and seven are more than it holds. */
static void records_of_small_chunks_count_as_long_as_they_are(void **state)
{
    const struct tt_collective_terms small = {
        .kind = TT_ALLGATHER, .method = TT_METHOD_EAGER, .subgroups = 1, .chunk_bytes = 4096, .block_bytes = 8};
    const struct tt_collective_terms large = {
        .kind = TT_ALLGATHER, .method = TT_METHOD_EAGER, .subgroups = 1, .chunk_bytes = 8, .block_bytes = 100};
    struct world world;

    (void)state;
    set_up(&world, 0, 512);
    for (uint64_t i = 0; i < 7; i++) {
        tt_eager_start(&world.eager, i, &small, 512 * 8);
        assert_int_equal(may_send(&world, i), i < 6);
        tt_eager_refresh(&world.eager, i);
        assert_int_equal(world.eager.wanted, i < 3 ? 0 : 3); /* a round starts when half of it is taken */
    }
    tt_eager_note_started(&world.eager, 1);
    assert_true(may_send(&world, 6));
    /* 12 chunks of 8 bytes and one of 4, from each: more than a log, but nothing is before it. */
    tt_eager_start(&world.eager, 7, &large, 512 * 100);
    tt_eager_note_started(&world.eager, 6);
    assert_false(may_send(&world, 7));
    tt_eager_note_started(&world.eager, 7);
    assert_true(may_send(&world, 7));
    assert_int_equal(tt_eager_find(&world.eager, 7)->log_end - tt_eager_find(&world.eager, 7)->log_start,
                     512 * 13 * 24);
}

static void bytes_that_are_skipped_at_the_end_of_the_ring_count_as_well(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4);
    start(&world, 0, 32000);
    start(&world, 1, 32000);
    start(&world, 2, 1536);  /* 65536 in all */
    start(&world, 3, 32000); /* from 65536 to 97536 */
    start(&world, 4, 32000); /* to 129536 */
    start(&world, 5, 2000);  /* skips 1536: from 131072 to 133072 */
    assert_true(may_send(&world, 2));
    tt_eager_advance(&world.eager, 1);
    assert_true(may_send(&world, 3));
    assert_false(may_send(&world, 4));
    tt_eager_advance(&world.eager, 2);
    assert_true(may_send(&world, 4)); /* 129536 - 64000 = 65536 */
    assert_false(may_send(&world, 5));
    tt_eager_advance(&world.eager, 3);
    assert_false(may_send(&world, 5)); /* 133072 - 65536 = 67536: 536 and the skipped too many */
    tt_eager_advance(&world.eager, 4);
    assert_true(may_send(&world, 5));
}

static void credit_is_a_number_of_collectives(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4);
    for (uint64_t i = 0; i < 34; i++) {
        start(&world, i, 1);
    }
    assert_true(may_send(&world, 31));
    assert_false(may_send(&world, 32));
    tt_eager_advance(&world.eager, 1);
    assert_true(may_send(&world, 32));
    assert_false(may_send(&world, 33));
}

static void credit_is_a_distance_in_sequence_numbers(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4);
    start(&world, 0, 1);
    start(&world, 63, 1);
    start(&world, 64, 1); /* others might take its chunks for ones that are over: a tag comes again after 128 */
    assert_true(may_send(&world, 63));
    assert_false(may_send(&world, 64));
    tt_eager_advance(&world.eager, 1);
    assert_true(may_send(&world, 64));
}

static void nobody_sends_while_the_oldest_that_somebody_may_miss_is_forgotten(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4);
    for (uint64_t i = 0; i < CAPACITY + 1; i++) {
        start(&world, i, 1);
    }
    assert_false(may_send(&world, CAPACITY));
    tt_eager_refresh(&world.eager, CAPACITY - 3);
    assert_int_equal(world.eager.wanted, CAPACITY - 3); /* not rounded: this is urgent */
    tt_eager_advance(&world.eager, CAPACITY - 3);
    assert_true(may_send(&world, CAPACITY));
}

static void what_all_have_finished_never_goes_back(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4);
    start(&world, 2, 10);
    start(&world, 4, 10);
    assert_true(tt_eager_owes(&world.eager));
    tt_eager_advance(&world.eager, 2); /* all before 2 */
    assert_int_equal(world.eager.live, 0);
    tt_eager_advance(&world.eager, 4);
    assert_int_equal(world.eager.live, 1);
    tt_eager_advance(&world.eager, 3);
    assert_int_equal(world.eager.all_finished, 4);
    assert_int_equal(world.eager.live, 1);
    assert_true(tt_eager_owes(&world.eager));
    tt_eager_advance(&world.eager, 9);
    assert_int_equal(world.eager.live, 2);
    assert_false(tt_eager_owes(&world.eager));
}

/* --- When a round is wanted --------------------------------------------------------------------------------------- */

static void a_round_begins_when_half_the_collectives_are_used(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4);
    for (uint64_t i = 0; i < 15; i++) {
        start(&world, i, 1);
        tt_eager_refresh(&world.eager, i);
        assert_int_equal(world.eager.wanted, 0);
    }
    start(&world, 15, 1);
    tt_eager_refresh(&world.eager, 15);
    assert_int_equal(world.eager.wanted, 8); /* down to a multiple of 8, so that several roots mean the same */
    tt_eager_refresh(&world.eager, 16);
    assert_int_equal(world.eager.wanted, 8); /* one at a time */
    tt_eager_advance(&world.eager, 8);
    tt_eager_refresh(&world.eager, 16);
    assert_int_equal(world.eager.wanted, 8); /* 8 are left, that is few */
}

static void a_round_begins_when_half_the_bytes_are_used(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4);
    start(&world, 0, HALF - 1);
    tt_eager_refresh(&world.eager, 0);
    start(&world, 1, 1);
    tt_eager_refresh(&world.eager, 0); /* nothing has ended here: nothing can be said */
    assert_int_equal(world.eager.wanted, 0);
    tt_eager_refresh(&world.eager, 1); /* rounded it would be 0 */
    assert_int_equal(world.eager.wanted, 1);
}

static void a_round_begins_when_the_sequence_numbers_have_gone_far(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4);
    start(&world, 0, 1);
    start(&world, 31, 1);
    tt_eager_refresh(&world.eager, 31);
    assert_int_equal(world.eager.wanted, 0);
    start(&world, 32, 1);
    tt_eager_refresh(&world.eager, 32);
    assert_int_equal(world.eager.wanted, 32);
}

static void no_round_goes_beyond_the_last_eager_collective_or_repeats_what_is_known(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4);
    tt_eager_want(&world.eager, 10);
    assert_int_equal(world.eager.wanted, 0); /* none has been */
    start(&world, 3, 1);
    tt_eager_want(&world.eager, 10); /* as a group that is left says it */
    assert_int_equal(world.eager.wanted, 4);
    tt_eager_want(&world.eager, 2);
    assert_int_equal(world.eager.wanted, 4);
    tt_eager_advance(&world.eager, 8); /* a barrier said so */
    start(&world, 7, 1);
    tt_eager_want(&world.eager, 10);
    assert_int_equal(world.eager.wanted, 4);
    set_up(&world, 0, 1);
    start(&world, 3, 1);
    tt_eager_want(&world.eager, 10);
    assert_int_equal(world.eager.wanted, 0); /* nobody to ask */
}

/* --- Rounds ------------------------------------------------------------------------------------------------------- */

static bool round_of(struct world *world, uint64_t oldest)
{
    world->actions.count = 0;
    return tt_eager_round(&world->eager, oldest, GROUP, &world->actions);
}

static bool hear(struct world *world, uint32_t source, uint64_t sequence, uint8_t round)
{
    struct tt_frame frame = {
        .type = TT_FRAME_ACK, .source = source, .group = GROUP, .sequence = sequence, .body.ack.round = round};

    return tt_eager_frame(&world->eager, &frame);
}

static void assert_sent(const struct world *world, uint32_t index, uint32_t to, uint64_t sequence, uint8_t round)
{
    const struct tt_action *action = &world->list[index];

    assert_true(index < world->actions.count);
    assert_int_equal(action->type, TT_ACTION_SEND);
    assert_null(action->collective);
    assert_int_equal(action->to, to);
    assert_int_equal(action->body.frame.type, TT_FRAME_ACK);
    assert_int_equal(action->body.frame.source, world->eager.rank);
    assert_int_equal(action->body.frame.group, GROUP);
    assert_int_equal(action->body.frame.sequence, sequence);
    assert_int_equal(action->body.frame.body.ack.round, round);
}

/* Rank 1 of 5 sends to 2, 3 and 0, and hears from 0, 4 and 2. */
static void a_round_goes_as_far_as_frames_have_come(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 1, 5);
    start(&world, 6, 1);
    tt_eager_want(&world.eager, 7);
    assert_false(round_of(&world, 7));
    assert_int_equal(world.actions.count, 1);
    assert_sent(&world, 0, 2, 7, 0);
    assert_true(hear(&world, 4, 7, 1)); /* the second before the first */
    assert_false(round_of(&world, 7));
    assert_int_equal(world.actions.count, 0);
    assert_true(hear(&world, 0, 7, 0));
    assert_false(round_of(&world, 7));
    assert_int_equal(world.actions.count, 2);
    assert_sent(&world, 0, 3, 7, 1);
    assert_sent(&world, 1, 0, 7, 2);
    assert_true(hear(&world, 2, 7, 2));
    assert_true(tt_eager_owes(&world.eager));
    assert_true(round_of(&world, 7));
    assert_int_equal(world.actions.count, 0);
    assert_int_equal(world.eager.all_finished, 7);
    assert_false(tt_eager_owes(&world.eager));
    assert_false(round_of(&world, 8)); /* over */
    assert_int_equal(world.actions.count, 0);
}

static bool hear_terms(struct world *world, uint32_t source, uint64_t sequence, uint8_t round,
                       const struct tt_collective_terms *said)
{
    struct tt_frame frame = {.type = TT_FRAME_ACK,
                             .source = source,
                             .group = GROUP,
                             .sequence = sequence,
                             .body.ack = {.round = round, .terms = *said}};

    return tt_eager_frame(&world->eager, &frame);
}

/* Two collectives have ended here, of which the first has the length `first_bytes`; rank 0 of 2 starts a round. */
static struct tt_collective_terms say_two(struct world *world, uint32_t rank, uint64_t first_bytes)
{
    set_up(world, rank, 2);
    start(world, 4, first_bytes);
    start(world, 6, 7);
    tt_eager_want(&world->eager, 7);
    round_of(world, 7);
    assert_sent(world, 0, 1 - rank, 7, 0);
    return world->list[0].body.frame.body.ack.terms;
}

/* Only what the last one's terms say of those before it differs. */
static void a_round_shows_who_meant_another_collective_long_before(void **state)
{
    struct tt_collective_terms said, here, there;
    struct world world, other;

    (void)state;
    said = say_two(&other, 0, 5);
    say_two(&world, 1, 5);
    assert_true(hear_terms(&world, 0, 7, 0, &said));
    assert_int_equal(tt_eager_disagrees(&world.eager, 7, &here, &there), TT_RANK_NONE);
    say_two(&world, 1, 6);
    assert_true(hear_terms(&world, 0, 7, 0, &said));
    assert_int_equal(tt_eager_disagrees(&world.eager, 6, &here, &there), TT_RANK_NONE); /* it cannot say yet */
    assert_int_equal(tt_eager_disagrees(&world.eager, 7, &here, &there), 0);
    assert_true(here.block_bytes == there.block_bytes && here.before != there.before);
    assert_int_equal(tt_eager_disagrees(&world.eager, 7, &here, &there), TT_RANK_NONE); /* it has said so */
    assert_true(hear_terms(&world, 0, 7, 0, &said));
    assert_int_equal(tt_eager_disagrees(&world.eager, 7, &here, &there), 0);
    say_two(&world, 1, 6);
    said.kind = TT_KIND_NONE; /* rank 0 has forgotten it */
    assert_true(hear_terms(&world, 0, 7, 0, &said));
    assert_int_equal(tt_eager_disagrees(&world.eager, 7, &here, &there), TT_RANK_NONE);
}

static void each_of_the_terms_counts_in_their_digest(void **state)
{
    const struct tt_collective_terms one = {.kind = TT_ALLREDUCE, .method = TT_METHOD_EAGER, .block_bytes = 8};
    struct tt_collective_terms others[11];

    (void)state;
    for (size_t i = 0; i < 11; i++) {
        others[i] = one;
    }
    others[0].kind = TT_ALLGATHER;
    others[1].method = TT_METHOD_TREE;
    others[2].subgroups = 1;
    others[3].root = 1;
    others[4].chunk_bytes = 1;
    others[5].chains = 1;
    others[6].block_bytes = 16;
    others[7].type = 1;
    others[8].operation = 1;
    others[9].element_bytes = 1;
    others[10].before = 1;
    for (size_t i = 0; i < 11; i++) {
        assert_int_not_equal(tt_terms_digest(&others[i]), tt_terms_digest(&one));
        assert_int_not_equal(tt_terms_digest(&others[i]), 0);
    }
    others[0] = one;
    others[0].counts = 1;
    assert_int_not_equal(tt_terms_digest(&others[0]), tt_terms_digest(&one));
}

static void who_has_not_finished_all_joins_later(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 1, 2);
    start(&world, 4, 1);
    assert_true(hear(&world, 0, 5, 0));
    assert_int_equal(world.eager.wanted, 5);
    assert_false(round_of(&world, 4));
    assert_int_equal(world.actions.count, 0);
    assert_true(round_of(&world, 5));
    assert_int_equal(world.actions.count, 1);
    assert_sent(&world, 0, 0, 5, 0);
    assert_int_equal(world.eager.all_finished, 5);
}

/* Others may not know yet, and cannot without this rank. */
static void a_round_about_what_is_known_here_is_joined_as_well(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 2);
    start(&world, 4, 1);
    tt_eager_advance(&world.eager, 9);
    assert_true(hear(&world, 1, 5, 0));
    assert_false(round_of(&world, 9)); /* nothing new */
    assert_int_equal(world.actions.count, 1);
    assert_sent(&world, 0, 1, 5, 0);
    assert_int_equal(world.eager.all_finished, 9);
}

/* The release of a barrier in front of multicast may be lost at others. */
static void what_others_may_not_have_heard_is_still_said_to_them_in_a_round(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 2);
    start(&world, 4, 1);
    tt_eager_learn(&world.eager, 5);
    assert_int_equal(world.eager.live, 1); /* its room is free, */
    assert_true(tt_eager_owes(&world.eager));
    tt_eager_refresh(&world.eager, 5); /* so that nobody here needs a round, */
    assert_int_equal(world.eager.wanted, 0);
    tt_eager_want(&world.eager, 5); /* but who leaves takes part in one */
    assert_false(round_of(&world, 5));
    assert_int_equal(world.actions.count, 1);
    assert_sent(&world, 0, 1, 5, 0);
    assert_true(hear(&world, 1, 5, 0));
    assert_true(round_of(&world, 5));
    assert_false(tt_eager_owes(&world.eager));
}

static void the_highest_of_several_rounds_wins(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 1, 5);
    start(&world, 20, 1);
    tt_eager_want(&world.eager, 8);
    assert_false(round_of(&world, 16));
    assert_sent(&world, 0, 2, 8, 0);
    assert_true(hear(&world, 0, 8, 0));
    assert_true(hear(&world, 4, 16, 1)); /* another root's: the frames of the old one count no more */
    assert_false(round_of(&world, 16));
    assert_int_equal(world.actions.count, 1);
    assert_sent(&world, 0, 2, 16, 0);
    assert_true(hear(&world, 2, 8, 2)); /* in turn, but of the old one */
    assert_true(hear(&world, 0, 16, 0));
    assert_false(round_of(&world, 16));
    assert_int_equal(world.actions.count, 2);
    assert_true(hear(&world, 2, 16, 2));
    assert_true(round_of(&world, 16));
    assert_int_equal(world.eager.all_finished, 16);
}

static void frames_out_of_turn_are_refused(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 1, 5);
    assert_false(hear(&world, 0, 7, 3)); /* 5 ranks have 3 rounds: 0, 1, 2 */
    assert_false(hear(&world, 0, 7, 31));
    assert_false(hear(&world, 4, 7, 0));
    assert_false(hear(&world, 0, 7, 1));
    assert_false(hear(&world, 3, 7, 2));
    assert_int_equal(world.eager.wanted, 0);
    assert_int_equal(world.eager.rounds.heard, 0);
}

/* --- Whole groups ------------------------------------------------------------------------------------------------- */

enum { MOST_RANKS = 33, MOST_LETTERS = 20000, COLLECTIVES = 40 };

struct letter {
    uint32_t to;
    struct tt_frame frame;
};

struct group {
    uint32_t size, letter_count;
    uint64_t oldest[MOST_RANKS];
    struct tt_random random;
    struct world worlds[MOST_RANKS];
    struct letter letters[MOST_LETTERS];
};

/* Nobody may believe more than is true. */
static void check(const struct group *group)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t rank = 0; rank < group->size; rank++) {
        least = group->oldest[rank] < least ? group->oldest[rank] : least;
    }
    for (uint32_t rank = 0; rank < group->size; rank++) {
        assert_true(group->worlds[rank].eager.all_finished <= least);
    }
}

static void take_round(struct group *group, uint32_t rank)
{
    struct world *world = &group->worlds[rank];

    round_of(world, group->oldest[rank]);
    for (uint32_t i = 0; i < world->actions.count; i++) {
        assert_true(group->letter_count < MOST_LETTERS);
        group->letters[group->letter_count++] = (struct letter){world->list[i].to, world->list[i].body.frame};
    }
    check(group);
}

static void deliver_one(struct group *group)
{
    uint32_t pick = (uint32_t)tt_random_below(&group->random, group->letter_count);
    struct letter letter = group->letters[pick];

    group->letters[pick] = group->letters[--group->letter_count];
    assert_true(tt_eager_frame(&group->worlds[letter.to].eager, &letter.frame));
    take_round(group, letter.to);
}

/* Ranks finish collectives and want rounds as chance has it, and frames overtake each other. */
static void drive(struct group *group, uint32_t size, uint64_t seed)
{
    group->size = size;
    group->letter_count = 0;
    tt_random_init(&group->random, seed);
    for (uint32_t rank = 0; rank < size; rank++) {
        group->oldest[rank] = 0;
        set_up(&group->worlds[rank], rank, size);
        for (uint64_t i = 0; i < COLLECTIVES; i++) {
            start(&group->worlds[rank], i, 1);
        }
    }
    for (uint32_t step = 0; step < 40 * size; step++) {
        uint32_t rank = (uint32_t)tt_random_below(&group->random, size);

        if (tt_random_below(&group->random, 2) == 0 && group->letter_count > 0) {
            deliver_one(group);
        } else if (group->oldest[rank] < COLLECTIVES) {
            group->oldest[rank]++;
            if (tt_random_below(&group->random, 4) == 0) {
                tt_eager_want(&group->worlds[rank].eager, group->oldest[rank]);
            }
            take_round(group, rank);
        }
    }
    for (uint32_t rank = 0; rank < size; rank++) { /* the end: everybody has everything, and one wants to know */
        group->oldest[rank] = COLLECTIVES;
        tt_eager_want(&group->worlds[rank].eager, rank == 0 ? COLLECTIVES : 0);
        take_round(group, rank);
    }
    while (group->letter_count > 0) {
        deliver_one(group);
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        assert_int_equal(group->worlds[rank].eager.all_finished, COLLECTIVES);
        assert_false(tt_eager_owes(&group->worlds[rank].eager));
    }
}

static void rounds_tell_everybody_what_everybody_has_finished_and_never_more(void **state)
{
    static const uint32_t sizes[] = {2, 3, 4, 5, 6, 7, 8, 9, 33};
    struct group *group = malloc(sizeof *group);

    (void)state;
    assert_non_null(group);
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (uint64_t seed = 0; seed < 30; seed++) {
            drive(group, sizes[i], seed);
        }
    }
    free(group);
}

/* Of two ranks each needs of the other one's vector the own part alone. */
static void two_ranks_that_reduce_and_scatter_equal_parts_send_half_of_a_vector(void **state)
{
    static const struct {
        uint8_t kind, method;
        uint32_t counts, size;
        uint64_t bytes;
    } known[] = {{TT_REDUCE_SCATTER, TT_METHOD_EAGER, 0, 2, 500},  {TT_REDUCE_SCATTER, TT_METHOD_EAGER, 7, 2, 1000},
                 {TT_REDUCE_SCATTER, TT_METHOD_EAGER, 0, 3, 1000}, {TT_REDUCE_SCATTER, TT_METHOD_GATHER, 0, 2, 1000},
                 {TT_ALLREDUCE, TT_METHOD_EAGER, 0, 2, 1000},      {TT_BROADCAST, TT_METHOD_EAGER, 0, 2, 1000}};

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const struct tt_collective_terms meant = {.kind = known[i].kind,
                                                  .method = known[i].method,
                                                  .block_bytes = 1000,
                                                  .element_bytes = 4,
                                                  .counts = known[i].counts};

        assert_int_equal(tt_terms_root_bytes(&meant, known[i].size), known[i].bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_that_reduce_and_scatter_equal_parts_send_half_of_a_vector),
        cmocka_unit_test(the_sizes_are_what_the_tests_count_on),
        cmocka_unit_test(copies_lie_one_behind_the_other_and_none_wraps_around),
        cmocka_unit_test(what_was_never_started_is_not_found),
        cmocka_unit_test(entries_beyond_the_capacity_are_forgotten),
        cmocka_unit_test(a_copy_is_not_found_any_more_once_another_one_lies_there),
        cmocka_unit_test(credit_is_the_bytes_of_the_ring),
        cmocka_unit_test(in_allgathers_credit_is_the_room_in_the_logs_of_who_has_not_started),
        cmocka_unit_test(records_of_small_chunks_count_as_long_as_they_are),
        cmocka_unit_test(bytes_that_are_skipped_at_the_end_of_the_ring_count_as_well),
        cmocka_unit_test(credit_is_a_number_of_collectives),
        cmocka_unit_test(credit_is_a_distance_in_sequence_numbers),
        cmocka_unit_test(nobody_sends_while_the_oldest_that_somebody_may_miss_is_forgotten),
        cmocka_unit_test(what_all_have_finished_never_goes_back),
        cmocka_unit_test(a_round_begins_when_half_the_collectives_are_used),
        cmocka_unit_test(a_round_begins_when_half_the_bytes_are_used),
        cmocka_unit_test(a_round_begins_when_the_sequence_numbers_have_gone_far),
        cmocka_unit_test(no_round_goes_beyond_the_last_eager_collective_or_repeats_what_is_known),
        cmocka_unit_test(a_round_goes_as_far_as_frames_have_come),
        cmocka_unit_test(a_round_shows_who_meant_another_collective_long_before),
        cmocka_unit_test(each_of_the_terms_counts_in_their_digest),
        cmocka_unit_test(who_has_not_finished_all_joins_later),
        cmocka_unit_test(a_round_about_what_is_known_here_is_joined_as_well),
        cmocka_unit_test(what_others_may_not_have_heard_is_still_said_to_them_in_a_round),
        cmocka_unit_test(the_highest_of_several_rounds_wins),
        cmocka_unit_test(frames_out_of_turn_are_refused),
        cmocka_unit_test(rounds_tell_everybody_what_everybody_has_finished_and_never_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
