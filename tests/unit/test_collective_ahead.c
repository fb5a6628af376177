/* SPDX-License-Identifier: BSD-3-Clause */
/* How far the roots of a collective may be ahead: offered in the barrier, agreed on, used, and learnt from at the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collective_world.h"

enum { CHUNKS = 400, QUANTUM = 16, LEAST = 4 * QUANTUM, MOST = 1000 };

struct subject {
    struct world world;
    struct tt_pace pace;
    struct tt_ahead ahead;
};

/* Rank 1 of 2 in an Allgather of 400 chunks each, in two chains. */
static void start(struct subject *subject, uint32_t chunks, uint32_t agreed_chunks)
{
    struct tt_collective_config *config = &subject->world.collective.config;

    world_init(&subject->world, &(struct shape){.kind = TT_ALLGATHER,
                                                .rank = 1,
                                                .size = 2,
                                                .chains = 2,
                                                .block_bytes = 16 * CHUNKS,
                                                .depth_chunks = LEAST});
    assert_int_equal(subject->world.collective.credit.quantum, QUANTUM);
    tt_pace_init(&subject->pace, TT_PACE_UNKNOWN);
    subject->ahead =
        (struct tt_ahead){.least_chunks = LEAST, .most_chunks = MOST, .chunks = chunks, .agreed_chunks = agreed_chunks};
    config->pace = &subject->pace;
    config->ahead = &subject->ahead;
    tt_collective_reset(&subject->world.collective, COLLECTIVE_SEQUENCE);
    world_step(&subject->world, TT_EVENT_START, 0);
    next_is(&subject->world.script, TT_ACTION_PUBLISH);
    assert_int_equal(next_sends(&subject->world.script, TT_FRAME_GATHER, 0)->body.gather.least.ahead_chunks, chunks);
    no_more(&subject->world.script);
}

static void release(struct subject *subject, uint64_t now_ns, uint32_t ahead_chunks)
{
    memory_release(&subject->world.memory, &(struct tt_release){0, UINT32_MAX, ahead_chunks});
    world_step(&subject->world, TT_EVENT_TICK, now_ns);
}

static void transmits(struct subject *subject, uint32_t limit)
{
    next_is(&subject->world.script, TT_ACTION_TRANSMIT);
    no_more(&subject->world.script);
    assert_int_equal(tt_collective_send_limit(&subject->world.collective, 0), limit);
}

/* All chunks come and all is sent; `lost` is how many were fetched instead. */
static void end(struct subject *subject, uint32_t lost)
{
    struct world *world = &subject->world;

    memory_receive(&world->memory, 0, 0, CHUNKS);
    world_step(world, TT_EVENT_TICK, 10);
    world->collective.sample.received -= lost;
    world_step(world, TT_EVENT_FROZEN, 11);
    world_step(world, TT_EVENT_SENT, 12);
    world_hear(world, 13, TT_FRAME_FINAL, 0);
    next_finishes(world, TUTTI_OK, TT_RANK_NONE);
}

static void roots_are_as_far_ahead_as_the_release_says(void **state)
{
    struct subject subject;

    (void)state;
    start(&subject, 150, LEAST);
    release(&subject, 1, 128);
    transmits(&subject, 4 * QUANTUM);
    assert_int_equal(subject.ahead.agreed_chunks, 128);
    start(&subject, 150, LEAST);
    release(&subject, 1, 0); /* two quanta in any case */
    transmits(&subject, 2 * QUANTUM);
}

static void without_the_release_what_was_agreed_on_last_counts(void **state)
{
    struct subject subject;

    (void)state;
    start(&subject, 900, 96);
    memory_receive(&subject.world.memory, 0, 0, 1);
    world_step(&subject.world, TT_EVENT_TICK, 1);
    transmits(&subject, 3 * QUANTUM);
    release(&subject, 2, 160); /* it comes later */
    transmits(&subject, 5 * QUANTUM);
    release(&subject, 3, 200); /* once */
    no_more(&subject.world.script);
    assert_int_equal(subject.ahead.agreed_chunks, 160);
}

static void what_is_learnt_begins_with_what_was_agreed_on(void **state)
{
    struct subject subject;

    (void)state;
    start(&subject, 150, LEAST);
    release(&subject, 1, 128);
    end(&subject, 0);
    assert_int_equal(subject.ahead.chunks, 256);
    start(&subject, 900, LEAST);
    release(&subject, 1, 128);
    end(&subject, 60);
    assert_int_equal(subject.ahead.chunks, LEAST);
}

static void a_rate_that_was_found_keeps_it_small(void **state)
{
    struct subject subject;

    (void)state;
    start(&subject, 150, LEAST);
    subject.pace.limit_kbit = 8000;
    release(&subject, 1, 128);
    end(&subject, 0);
    assert_int_equal(subject.ahead.chunks, LEAST);
}

static void who_has_not_heard_the_release_learns_nothing(void **state)
{
    struct subject subject;

    (void)state;
    start(&subject, 900, LEAST);
    memory_receive(&subject.world.memory, 0, 0, 1);
    world_step(&subject.world, TT_EVENT_TICK, 1);
    end(&subject, 60);
    assert_int_equal(subject.ahead.chunks, 900);
    assert_int_equal(subject.ahead.agreed_chunks, LEAST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roots_are_as_far_ahead_as_the_release_says),
        cmocka_unit_test(without_the_release_what_was_agreed_on_last_counts),
        cmocka_unit_test(what_is_learnt_begins_with_what_was_agreed_on),
        cmocka_unit_test(a_rate_that_was_found_keeps_it_small),
        cmocka_unit_test(who_has_not_heard_the_release_learns_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
