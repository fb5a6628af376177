/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a collective ends whose blocks are gathered: lost data, neighbours that ask, failure; and the barrier of nothing
 * that is made of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gather_world.h"

/* --- Loss -----------------------------------------------------------------------------------------------------------
 */

static void what_was_lost_is_fetched_once_the_left_neighbour_has_it(void **state)
{
    struct world world;
    struct tt_frame told;
    const struct tt_action *get;

    (void)state;
    gather_init(&world, 2, 4, 16);
    sends_piece(&world, 0, 32, 16);
    memory_receive(&world.memory, 0, 0, 2);
    world_step(&world, TT_EVENT_TICK, TT_EAGER_ASK_NS - 1);
    no_more(&world.script);
    world_step(&world, TT_EVENT_TICK, TT_EAGER_ASK_NS);
    assert_true(tt_collective_terms_agree(&next_sends(&world.script, TT_FRAME_ASK, 1)->body.ask.terms,
                                          &world.memory.config.terms));
    no_more(&world.script);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
    assert_false(world_hear(&world, 5000001, TT_FRAME_KEPT, 3)); /* the right one was not asked */
    no_more(&world.script);
    assert_true(world_hear(&world, 5000002, TT_FRAME_KEPT, 1));
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    world_step(&world, TT_EVENT_FROZEN, 5000003);
    told = *next_sends(&world.script, TT_FRAME_FETCH, 1);
    no_more(&world.script);
    assert_int_equal(told.body.fetch.window.bits[0], 0xC);
    assert_true(world_hear_frame(&world, 5000004, world_available(&told, 0xC), 1));
    get = next_is(&world.script, TT_ACTION_GET);
    assert_int_equal(get->to, 1);
    assert_true(get->body.get.offset_bytes == 32 && get->body.get.length_bytes == 32);
    assert_true(get->body.get.remote_address == 0x1020);
    no_more(&world.script);
    assert_true(world_got(&world, 5000005, get->body.get.run, TUTTI_OK));
    next_sends(&world.script, TT_FRAME_FINAL, 1); /* reads nothing more of that copy */
    keeps(&world, 64);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
    assert_int_equal(world.collective.counters.fetched_chunks, 2);
}

static void a_right_neighbour_that_asked_is_told_at_the_end(void **state)
{
    struct world world;

    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) { /* the root, and one that is not */
        struct tt_frame ask = {.type = TT_FRAME_ASK};

        gather_init(&world, rank, 3, SMALL);
        ask.body.ask.terms = world.memory.config.terms;
        assert_false(world_hear_frame(&world, 1, ask, (rank + 2) % 3)); /* the left one */
        assert_true(world_hear_frame(&world, 1, ask, rank + 1));
        no_more(&world.script);
        if (rank == 0) {
            hear_blocks(&world, 2, 1, 1, 1);
            hear_blocks(&world, 2, 2, 2, 1);
            world_step(&world, TT_EVENT_SENT, 3);
        } else {
            memory_receive_all(&world.memory);
            world_step(&world, TT_EVENT_TICK, 3);
            next_is(&world.script, TT_ACTION_FREEZE);
        }
        no_more(&world.script);
        world_step(&world, TT_EVENT_FROZEN, 4);
        keeps(&world, 3 * SMALL);
        next_sends(&world.script, TT_FRAME_KEPT, rank + 1);
        next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
    }
}

/* --- A barrier of nothing -------------------------------------------------------------------------------------------
 */

static void barrier_init(struct world *world, enum tt_collective_kind kind, uint32_t rank, uint32_t root)
{
    make_world(world,
               &(struct shape){.kind = kind, .rank = rank, .size = 3, .root = root, .gather = true, .chunk_bytes = 32});
    world->collective.least = (struct tt_release){5, 900, 70, false, false};
    start(world);
}

static void a_barrier_of_nothing_is_heard_by_the_root_and_said_to_all(void **state)
{
    static const uint8_t said[TT_RELEASE_BYTES] = {4, [8] = 0x20, 0x03, [12] = 70}; /* all before 4; 800 */
    struct world world;
    struct tt_frame frame;

    (void)state;
    for (uint32_t root = 0; root < 3; root += 2) {
        barrier_init(&world, root == 0 ? TT_ALLGATHER : TT_BROADCAST, root, root);
        next_is(&world.script, TT_ACTION_FREEZE);
        no_more(&world.script);
        assert_true(hear_piece(&world, 1, (root + 1) % 3, 0, 0));
        no_more(&world.script);
        assert_guarded(world.memory.buffer, MACHINE_BUFFER_BYTES);
        frame = piece_of(&world, 0, 0);
        frame.body.gather.least = (struct tt_release){4, 800, 0x0160, false, false};
        assert_false(world_hear_frame(&world, 2, frame, root));
        assert_true(world_hear_frame(&world, 2, frame, (root + 2) % 3));
        next_is(&world.script, TT_ACTION_TRANSMIT);
        no_more(&world.script);
        assert_memory_equal(world.memory.buffer, said, sizeof said);
        assert_guarded(world.memory.buffer + sizeof said, MACHINE_BUFFER_BYTES - sizeof said);
        assert_int_equal(tt_collective_send_limit(&world.collective), 1);
        world_step(&world, TT_EVENT_FROZEN, 3);
        no_more(&world.script);
        world_step(&world, TT_EVENT_SENT, 4);
        keeps(&world, TT_RELEASE_BYTES);
        next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
        assert_true(world.collective.everybody && world.collective.least.finished == 4);
        assert_int_equal(world.collective.least.rate_kbit, 800);
    }
}

/* As the kernel places it, or a read. */
static void place_release(struct world *world, uint64_t finished, uint32_t rate_kbit)
{
    struct tt_release release = {finished, rate_kbit, UINT32_MAX, false, false};

    tt_release_encode(&release, world->memory.buffer);
}

static void sends_nothing_up(struct world *world, uint32_t to)
{
    const struct tt_frame *frame = next_sends(&world->script, TT_FRAME_GATHER, to);

    assert_true(frame->body.gather.offset_bytes == 0 && frame->body.gather.length_bytes == 0);
    assert_null(frame->body.gather.bytes);
    assert_true(frame->body.gather.least.finished == 5 && frame->body.gather.least.rate_kbit == 900);
}

static void the_others_leave_a_barrier_with_what_its_release_says(void **state)
{
    struct world world;

    (void)state;
    barrier_init(&world, TT_ALLGATHER, 1, 0);
    sends_nothing_up(&world, 0);
    no_more(&world.script);
    assert_int_equal(tt_collective_deadline(&world.collective), TT_EAGER_ASK_NS);
    place_release(&world, 3, 1000);
    memory_receive(&world.memory, 0, 0, 1);
    world_step(&world, TT_EVENT_TICK, 1);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    assert_false(world.collective.everybody);
    world_step(&world, TT_EVENT_FROZEN, 2);
    keeps(&world, TT_RELEASE_BYTES);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
    assert_true(world.collective.everybody && world.collective.least.finished == 3);
    assert_int_equal(world.collective.least.rate_kbit, 900);
}

static void a_release_that_is_lost_is_fetched_from_the_left_neighbour(void **state)
{
    struct world world;
    struct tt_frame told;
    const struct tt_action *get;

    (void)state;
    barrier_init(&world, TT_BROADCAST, 1, 2);
    sends_nothing_up(&world, 2);
    world_step(&world, TT_EVENT_TICK, TT_EAGER_ASK_NS);
    next_sends(&world.script, TT_FRAME_ASK, 0);
    no_more(&world.script);
    assert_true(world_hear(&world, 6000000, TT_FRAME_KEPT, 0));
    next_is(&world.script, TT_ACTION_FREEZE);
    world_step(&world, TT_EVENT_FROZEN, 6000001);
    told = *next_sends(&world.script, TT_FRAME_FETCH, 0);
    assert_true(told.body.fetch.window.count == 1 && told.body.fetch.window.bits[0] == 1);
    assert_true(world_hear_frame(&world, 6000002, world_available(&told, 1), 0));
    get = next_is(&world.script, TT_ACTION_GET);
    assert_true(get->body.get.offset_bytes == 0 && get->body.get.length_bytes == TT_RELEASE_BYTES);
    no_more(&world.script);
    place_release(&world, 4, UINT32_MAX);
    assert_true(world_got(&world, 6000003, get->body.get.run, TUTTI_OK));
    next_sends(&world.script, TT_FRAME_FINAL, 0);
    keeps(&world, TT_RELEASE_BYTES);
    next_finishes(&world, TUTTI_OK, TT_RANK_NONE);
    assert_true(world.collective.everybody && world.collective.least.finished == 4);
}

/* --- The end --------------------------------------------------------------------------------------------------------
 */

static void failing_while_gathering_lets_go_once_the_streams_are_frozen(void **state)
{
    struct world world;

    (void)state;
    gather_init(&world, 8, 20, LARGE);
    assert_true(hear_piece(&world, 1, 9, 9 * LARGE, PIECE));
    world_fail(&world, 2, TUTTI_ERR_PEER_FAILED, 6);
    next_is(&world.script, TT_ACTION_FREEZE);
    no_more(&world.script);
    assert_true(tt_collective_deadline(&world.collective) == UINT64_MAX);
    assert_int_equal(tt_collective_waits_for(&world.collective), TT_RANK_NONE);
    assert_true(hear_piece(&world, 3, 9, 9 * LARGE + PIECE, REST));
    assert_true(world_hear_remind(&world, 3, 0));
    world_step(&world, TT_EVENT_TICK, TT_TREE_REMIND_NS);
    no_more(&world.script);
    assert_guarded(world.memory.buffer + 9 * LARGE + PIECE, REST); /* that buffer is on its way out */
    world_step(&world, TT_EVENT_FROZEN, TT_TREE_REMIND_NS + 1);
    next_finishes(&world, TUTTI_ERR_PEER_FAILED, 6);
}

static void a_root_that_fails_while_gathering_has_nothing_to_wait_for(void **state)
{
    struct world world;

    (void)state;
    gather_init(&world, 0, 3, SMALL);
    next_is(&world.script, TT_ACTION_FREEZE);
    world_fail(&world, 1, TUTTI_ERR_TIMED_OUT, 2);
    no_more(&world.script);
    world_step(&world, TT_EVENT_FROZEN, 2);
    next_finishes(&world, TUTTI_ERR_TIMED_OUT, 2);
    gather_init(&world, 0, 3, SMALL);
    world_step(&world, TT_EVENT_FROZEN, 1);
    world_fail(&world, 2, TUTTI_ERR_TIMED_OUT, 2);
    next_finishes(&world, TUTTI_ERR_TIMED_OUT, 2);
}

static void a_root_that_fails_while_sending_cancels(void **state)
{
    struct world world;

    (void)state;
    gather_init(&world, 0, 2, SMALL);
    world_step(&world, TT_EVENT_FROZEN, 1);
    hear_blocks(&world, 2, 1, 1, 1);
    next_is(&world.script, TT_ACTION_TRANSMIT);
    world_fail(&world, 3, TUTTI_ERR_PEER_FAILED, 1);
    next_is(&world.script, TT_ACTION_CANCEL);
    no_more(&world.script);
    world_step(&world, TT_EVENT_SENT, 4);
    next_finishes(&world, TUTTI_ERR_PEER_FAILED, 1); /* nor a copy of it */
}

static void what_has_ended_says_nothing_again(void **state)
{
    struct world world;

    (void)state;
    gather_init(&world, 1, 3, SMALL);
    memory_receive_all(&world.memory);
    world_step(&world, TT_EVENT_TICK, 1);
    world_step(&world, TT_EVENT_FROZEN, 2);
    assert_int_equal(world.collective.state, TT_COLLECTIVE_FINISHED);
    assert_true(world_hear_remind(&world, 3, 0)); /* the buffer is the user's */
    no_more(&world.script);
    assert_int_equal(tt_collective_waits_for(&world.collective), TT_RANK_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_lost_is_fetched_once_the_left_neighbour_has_it),
        cmocka_unit_test(a_right_neighbour_that_asked_is_told_at_the_end),
        cmocka_unit_test(a_barrier_of_nothing_is_heard_by_the_root_and_said_to_all),
        cmocka_unit_test(the_others_leave_a_barrier_with_what_its_release_says),
        cmocka_unit_test(a_release_that_is_lost_is_fetched_from_the_left_neighbour),
        cmocka_unit_test(failing_while_gathering_lets_go_once_the_streams_are_frozen),
        cmocka_unit_test(a_root_that_fails_while_gathering_has_nothing_to_wait_for),
        cmocka_unit_test(a_root_that_fails_while_sending_cancels),
        cmocka_unit_test(what_has_ended_says_nothing_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
