/* SPDX-License-Identifier: BSD-3-Clause */
/* Object groups over the simulator, told step by step: sizes, the sender's queue, deaths, refusals, silence, closing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/object_world.h"

enum { BLOCK = 1000, MEMBERS = 8 };
#define LIMIT_NS (20 * TT_NS_PER_S)

static struct object_world *begin(uint32_t count)
{
    struct object_world_options options;

    object_world_options_init(&options, count);
    return object_world_create(&options);
}

/* Everybody that is alive was told this, of this member, once. */
static void assert_told(const struct object_world *world, tutti_status status, uint32_t about)
{
    for (uint32_t i = 0; i < world->member_count; i++) {
        if (!tt_sim_is_crashed(world->sim, i) && i != about) {
            assert_true(world->members[i].has_failed);
            assert_int_equal(world->members[i].status, status);
            assert_int_equal(world->members[i].failed_member, about);
        }
    }
}

static void sizes_around_a_block_reach_everybody_by_every_algorithm(void **state)
{
    static const uint64_t sizes[] = {0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 7 * BLOCK + 13};
    static const uint32_t racks[] = {0, 2, 5};

    (void)state;
    for (unsigned algorithm = 0; algorithm < TT_RDMC_ALGORITHM_COUNT; algorithm++) {
        for (uint32_t n = 1; n <= 20; n++) {
            struct object_world_options options;
            struct object_world *world;

            object_world_options_init(&options, n);
            options.objects.algorithm = (enum tt_rdmc_algorithm)algorithm;
            if (algorithm == TT_RDMC_HYBRID) {
                options.objects.rack_firsts = racks;
                options.objects.rack_count = n > 5 ? 3 : n > 2 ? 2 : 1;
            }
            world = object_world_create(&options);
            for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                assert_int_equal(object_world_send(world, sizes[i]), TUTTI_OK);
            }
            object_world_close_all(world);
            object_world_run(world, LIMIT_NS);
            for (uint32_t i = 0; i < n; i++) {
                assert_int_equal(world->members[i].completed, sizeof sizes / sizeof sizes[0]);
                assert_int_equal(world->members[i].status, TUTTI_OK);
            }
            object_world_end(world);
        }
    }
}

static void sends_queue_and_one_too_many_is_refused_until_there_is_room(void **state)
{
    struct object_world_options options;
    struct object_world *world;

    (void)state;
    object_world_options_init(&options, MEMBERS);
    options.objects.object_count = 3;
    world = object_world_create(&options);
    for (uint32_t i = 0; i < options.objects.object_count; i++) {
        assert_int_equal(object_world_send(world, 10 * BLOCK), TUTTI_OK);
    }
    assert_int_equal(object_world_send(world, 10 * BLOCK), TUTTI_ERR_BUSY);
    object_world_run(world, TT_NS_PER_MS);
    assert_true(object_world_end_of(world, 0) < object_world_end_of(world, 1));
    assert_int_equal(object_world_send(world, 10 * BLOCK), TUTTI_OK);
    object_world_close_all(world);
    assert_int_equal(object_world_send(world, 1), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(object_world_close(world, 0), TUTTI_ERR_INVALID_ARGUMENT);
    object_world_run(world, LIMIT_NS);
    assert_int_equal(world->members[MEMBERS - 1].completed, 4);
    object_world_end(world);
}

/* Memory for the second one is asked for, and its blocks come, while the first one is under way. */
static void two_objects_take_little_longer_than_one_of_both_sizes(void **state)
{
    struct object_world *world = begin(MEMBERS);
    uint64_t both_ns;

    (void)state;
    (void)object_world_send(world, 200 * BLOCK);
    object_world_run(world, TT_NS_PER_S);
    both_ns = object_world_end_of(world, 0);
    object_world_close_all(world);
    object_world_run(world, LIMIT_NS);
    object_world_end(world);
    world = begin(MEMBERS);
    (void)object_world_send(world, 100 * BLOCK);
    (void)object_world_send(world, 100 * BLOCK);
    object_world_run(world, TT_NS_PER_S);
    assert_in_range(object_world_end_of(world, 1), both_ns, both_ns + both_ns / 10);
    object_world_close_all(world);
    object_world_run(world, LIMIT_NS);
    object_world_end(world);
}

static void the_death_of_any_member_at_any_time_is_told_to_all_others(void **state)
{
    enum { OBJECTS = 3, TIMES = 24 };

    (void)state;
    for (uint32_t n = 2; n <= 9; n += n < 5 ? 1 : 4) {
        for (uint32_t dead = 0; dead < n; dead++) {
            for (uint32_t time = 0; time < TIMES; time++) {
                struct object_world *world = begin(n);
                uint64_t at_ns = 1 + time * UINT64_C(10000);

                object_world_crash(world, dead, at_ns);
                for (uint32_t i = 0; i < OBJECTS; i++) {
                    (void)object_world_send(world, 12 * BLOCK + i);
                }
                object_world_run(world, LIMIT_NS);
                assert_told(world, TUTTI_ERR_PEER_FAILED, dead);
                for (uint32_t i = 0; i < n; i++) {
                    /* Noticed in at most 10 ms, and word takes no longer than a few frames. */
                    assert_true(i == dead || world->members[i].failed_ns < at_ns + 11 * TT_NS_PER_MS);
                    assert_true(i == dead || world->members[i].finished_ns < at_ns + TT_NS_PER_S);
                }
                object_world_end(world);
            }
        }
    }
}

static void a_refusal_is_told_to_all_others_and_what_was_complete_stays(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 7; n++) {
        for (uint32_t refuser = 1; refuser < n; refuser++) {
            struct object_world *world = begin(n);

            world->members[refuser].refuse_at = 1;
            world->members[refuser].is_guilty = true;
            (void)object_world_send(world, 5 * BLOCK);
            object_world_run(world, TT_NS_PER_MS);
            (void)object_world_send(world, 5 * BLOCK);
            object_world_run(world, LIMIT_NS);
            assert_told(world, TUTTI_ERR_PEER_FAILED, refuser);
            assert_int_equal(world->members[refuser].status, TUTTI_ERR_NO_MEMORY);
            for (uint32_t i = 0; i < n; i++) {
                assert_true(world->members[i].completed == 1);
            }
            assert_int_equal(object_world_send(world, 1), world->members[0].status);
            object_world_end(world);
        }
    }
}

static void a_member_that_does_not_answer_is_named(void **state)
{
    (void)state;
    for (uint32_t silent = 0; silent < MEMBERS; silent++) {
        struct object_world *world = begin(MEMBERS);
        uint64_t silence_ns = world->options.objects.silence_ns;

        (void)object_world_send(world, 50 * BLOCK);
        object_world_run(world, 30000);
        object_world_stall(world, silent, 3 * TT_NS_PER_S);
        object_world_run(world, LIMIT_NS);
        assert_told(world, TUTTI_ERR_TIMED_OUT, silent);
        for (uint32_t i = 0; i < MEMBERS; i++) {
            assert_true(i == silent || world->members[i].failed_ns < 2 * silence_ns + TT_NS_PER_MS);
        }
        object_world_end(world);
    }
}

/* Nothing moves while it thinks, but everybody answers. */
static void a_member_that_takes_long_to_give_memory_is_waited_for(void **state)
{
    struct object_world *world = begin(MEMBERS);

    (void)state;
    world->members[3].answer_after_ns = world->options.objects.deadline_ns - TT_NS_PER_MS;
    (void)object_world_send(world, 5 * BLOCK);
    object_world_close_all(world);
    object_world_run(world, LIMIT_NS);
    assert_int_equal(world->members[3].completed, 1);
    object_world_end(world);
}

static void one_that_never_gives_any_is_named_by_itself(void **state)
{
    struct object_world *world = begin(MEMBERS);

    (void)state;
    world->members[3].answer_after_ns = TT_NEVER;
    world->members[3].is_guilty = true;
    (void)object_world_send(world, 5 * BLOCK);
    object_world_run(world, LIMIT_NS);
    assert_told(world, TUTTI_ERR_TIMED_OUT, 3);
    assert_int_equal(world->members[3].failed_member, 3);
    assert_in_range(world->members[3].failed_ns, world->options.objects.deadline_ns,
                    world->options.objects.deadline_ns + TT_NS_PER_MS);
    object_world_end(world);
}

static void whoever_is_the_last_to_close_is_named(void **state)
{
    (void)state;
    for (uint32_t last = 0; last < MEMBERS; last++) {
        struct object_world *world = begin(MEMBERS);

        world->members[last].is_guilty = true;
        (void)object_world_send(world, 5 * BLOCK);
        for (uint32_t i = 0; i < MEMBERS; i++) {
            if (i != last) {
                (void)object_world_close(world, i);
            }
        }
        object_world_run(world, LIMIT_NS);
        assert_told(world, TUTTI_ERR_TIMED_OUT, last);
        object_world_end(world);
    }
}

static void a_member_that_dies_before_it_has_closed_fails_the_close(void **state)
{
    struct object_world *world = begin(MEMBERS);

    (void)state;
    (void)object_world_send(world, 5 * BLOCK);
    object_world_run(world, TT_NS_PER_MS);
    for (uint32_t i = 0; i < MEMBERS - 1; i++) {
        (void)object_world_close(world, i);
    }
    object_world_crash(world, MEMBERS - 1, 2 * TT_NS_PER_MS);
    object_world_run(world, LIMIT_NS);
    assert_told(world, TUTTI_ERR_PEER_FAILED, MEMBERS - 1);
    object_world_end(world);
}

static void a_member_that_gives_up_is_told_to_all_others(void **state)
{
    struct object_world *world = begin(MEMBERS);

    (void)state;
    (void)object_world_send(world, 50 * BLOCK);
    object_world_run(world, 20000);
    object_world_cancel(world, 5);
    object_world_run(world, LIMIT_NS);
    assert_told(world, TUTTI_ERR_CANCELED, 5);
    object_world_end(world);
}

/* The connection is the ranks' group's, too, which has not failed. */
static void a_member_that_gives_up_waits_for_blocks_that_take_long(void **state)
{
    enum { LARGE = 4 << 20, PACKET = 4096 }; /* two take 0.7 s */

    (void)state;
    for (uint32_t member = 0; member < 2; member++) {
        struct object_world_options options;
        struct object_world *world;

        object_world_options_init(&options, 2);
        options.objects.block_bytes = LARGE;
        options.sim.p2p_packet_bytes = PACKET;
        options.sim.uplink.bits_per_second = 96000000;
        options.leave_after_ns = 2 * LIMIT_NS;
        world = object_world_create(&options);
        (void)object_world_send(world, 4 * LARGE);
        object_world_run(world, 10 * TT_NS_PER_MS);
        object_world_cancel(world, member);
        object_world_run(world, LIMIT_NS);
        assert_told(world, TUTTI_ERR_CANCELED, member);
        for (uint32_t i = 0; i < 2; i++) {
            assert_in_range(world->members[i].finished_ns, 690 * TT_NS_PER_MS, 710 * TT_NS_PER_MS);
            assert_int_equal(world->group->members[i].group->member.status, TUTTI_OK);
        }
        object_world_end(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_around_a_block_reach_everybody_by_every_algorithm),
        cmocka_unit_test(sends_queue_and_one_too_many_is_refused_until_there_is_room),
        cmocka_unit_test(two_objects_take_little_longer_than_one_of_both_sizes),
        cmocka_unit_test(the_death_of_any_member_at_any_time_is_told_to_all_others),
        cmocka_unit_test(a_refusal_is_told_to_all_others_and_what_was_complete_stays),
        cmocka_unit_test(a_member_that_does_not_answer_is_named),
        cmocka_unit_test(a_member_that_takes_long_to_give_memory_is_waited_for),
        cmocka_unit_test(one_that_never_gives_any_is_named_by_itself),
        cmocka_unit_test(whoever_is_the_last_to_close_is_named),
        cmocka_unit_test(a_member_that_dies_before_it_has_closed_fails_the_close),
        cmocka_unit_test(a_member_that_gives_up_is_told_to_all_others),
        cmocka_unit_test(a_member_that_gives_up_waits_for_blocks_that_take_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
