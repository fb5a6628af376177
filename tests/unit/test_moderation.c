/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a rank may leave chunks where they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "member_world.h"
#include "proto/moderation.h"

enum { CHUNK = 16, CHUNKS = 400, CHUNK_NS = 10000, BEGIN_NS = 1000 };

static const struct shape large = {.block_bytes = CHUNKS * CHUNK}, small = {.block_bytes = CHUNK, .eager = true},
                          rooted_here = {.block_bytes = CHUNKS * CHUNK, .root = 1},
                          allgather = {.block_bytes = CHUNKS * CHUNK, .kind = TT_ALLGATHER},
                          p2p = {.block_bytes = CHUNKS * CHUNK, .p2p = true};

static struct memory *memory_of(struct tt_collective *collective)
{
    return &((struct request *)((char *)collective - offsetof(struct request, collective)))->memory;
}

static void who_waits_for_no_chunks_has_no_say(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 1, 2, 4);
    assert_true(tt_moderation(&world.member, 5) == TT_MODERATION_NONE);
    world_post(&world, 0, p2p);
    assert_true(tt_moderation(&world.member, 5) == TT_MODERATION_NONE);
    world_fini(&world);
}

static uint64_t time_of(uint32_t chunk)
{
    return BEGIN_NS + (uint64_t)chunk * CHUNK_NS;
}

/* As `receive`, with a look at every chunk. */
static uint64_t watch(struct world *world, struct tt_collective *collective, uint32_t first, uint32_t end)
{
    uint64_t moderated_ns = 0;

    for (uint32_t i = first; i < end; i++) {
        memory_receive(memory_of(collective), 0, i, 1);
        if (i == 0) {
            world_tick(world, time_of(i));
        }
        moderated_ns = tt_moderation(&world->member, time_of(i));
    }
    return moderated_ns;
}

static void a_quarter_of_what_is_missing_may_come_meanwhile(void **state)
{
    struct world world;
    struct tt_collective *collective;

    (void)state;
    world_init(&world, 1, 2, 4);
    collective = world_post(&world, 0, large);
    assert_int_equal(tt_moderation(&world.member, 500), 0); /* the release is waited for */
    assert_int_equal(watch(&world, collective, 0, 16), 0);  /* too few to know the pace */
    assert_int_equal(collective->state, TT_COLLECTIVE_RECEIVE);
    /* 200 are missing, a quarter is 50, but 32 is the most. */
    assert_int_equal(watch(&world, collective, 16, 200), 32 * CHUNK_NS);
    assert_int_equal(watch(&world, collective, 200, 352), 12 * CHUNK_NS);
    assert_int_equal(watch(&world, collective, 352, 368), 0); /* the end is near */
    world_fini(&world);
}

static void what_has_ceased_to_come_is_waited_for(void **state)
{
    struct world world;
    struct tt_collective *collective;
    uint64_t now_ns = time_of(199);

    (void)state;
    world_init(&world, 1, 2, 4);
    collective = world_post(&world, 0, large);
    assert_int_equal(watch(&world, collective, 0, 200), 32 * CHUNK_NS);
    assert_int_equal(tt_moderation(&world.member, now_ns + 9 * TT_NS_PER_MS), 0);
    assert_int_equal(tt_moderation(&world.member, now_ns + 1000 * TT_NS_PER_MS), 0);
    /* They come again, and faster: what was long ago does not count. */
    now_ns += 1000 * TT_NS_PER_MS;
    memory_receive(memory_of(collective), 0, 200, 50);
    assert_int_equal(tt_moderation(&world.member, now_ns + 50 * (uint64_t)CHUNK_NS / 2), 32 * CHUNK_NS / 2);
    world_fini(&world);
}

static void roots_that_wait_for_a_report_are_not_left_waiting(void **state)
{
    struct world world;
    struct tt_collective *collective;
    struct shape shallow = large;
    struct tt_release agreed = tt_release_of(0);

    (void)state;
    shallow.window_chunks = 160; /* a report for every 80 */
    world_init(&world, 1, 2, 4);
    collective = world_post(&world, 0, shallow);
    memory_release(memory_of(collective), &agreed);
    tt_link_limit(&memory_of(collective)->link, memory_of(collective)->link.least_bytes); /* the same, and stays so */
    for (uint32_t i = 0; i < 90; i++) {                                                   /* the cutoff is 1 ms */
        watch(&world, collective, i, i + 1);
        world_tick(&world, time_of(i));
    }
    assert_int_equal(collective->flow.own, 80 + 160); /* at the 80th, and the next time at the 160th */
    assert_int_equal(watch(&world, collective, 90, 95), 25 * CHUNK_NS); /* half a step before */
    assert_int_equal(watch(&world, collective, 95, 120), 32 * CHUNK_NS);
    assert_int_equal(watch(&world, collective, 120, 140), 20 * CHUNK_NS);
    assert_int_equal(watch(&world, collective, 140, 149), 11 * CHUNK_NS);
    assert_int_equal(watch(&world, collective, 149, 160), 0);
    world_tick(&world, time_of(90));
    assert_int_equal(collective->flow.own, 160 + 160);
    assert_int_equal(tt_moderation(&world.member, time_of(160)), 32 * CHUNK_NS);
    world_fini(&world);
}

static void others_that_wait_for_chunks_end_it(void **state)
{
    static const struct {
        const struct shape *shape;
        bool ends;
    } cases[] = {{&large, false}, {&p2p, false}, {&small, true}, {&rooted_here, false}, {&allgather, true}};

    (void)state;
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world world;
        struct tt_collective *collective, *other;

        world_init(&world, 1, 2, 4);
        collective = world_post(&world, 0, large);
        watch(&world, collective, 0, 200);
        other = world_post(&world, time_of(199), *cases[i].shape);
        if (cases[i].shape == &rooted_here) { /* its own chunks go out */
            assert_int_equal(tt_moderation(&world.member, time_of(199)), 0);
            world_hear_gather(&world, time_of(199), other, 0, 1);
            assert_true(other->sending.transmitting);
            assert_int_equal(tt_moderation(&world.member, time_of(199)), 0);
            world_answer(&world, time_of(199), TT_MEMBER_SENT, other);
        }
        assert_int_equal(tt_moderation(&world.member, time_of(199)), cases[i].ends ? 0 : 32 * CHUNK_NS);
        world_fini(&world);
    }
}

/* It begins when another one ends; until then that one fills the link. */
static void what_is_large_and_has_still_to_begin_does_not(void **state)
{
    struct shape limited = allgather;
    struct world world;
    struct tt_collective *collective, *other;

    (void)state;
    limited.window_chunks = 160;
    world_init(&world, 1, 2, 4);
    collective = world_post(&world, 0, large);
    watch(&world, collective, 0, 200);
    other = world_post(&world, time_of(199), limited);
    assert_true(other->state == TT_COLLECTIVE_BARRIER && other->flow.enabled);
    assert_int_equal(tt_moderation(&world.member, time_of(199)), 0);
    memory_of(other)->link.users = 1;
    assert_int_equal(tt_moderation(&world.member, time_of(199)), 32 * CHUNK_NS);
    world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_for_no_chunks_has_no_say),
        cmocka_unit_test(a_quarter_of_what_is_missing_may_come_meanwhile),
        cmocka_unit_test(what_has_ceased_to_come_is_waited_for),
        cmocka_unit_test(roots_that_wait_for_a_report_are_not_left_waiting),
        cmocka_unit_test(others_that_wait_for_chunks_end_it),
        cmocka_unit_test(what_is_large_and_has_still_to_begin_does_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
