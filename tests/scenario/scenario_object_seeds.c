/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Seeded random runs of object groups, with deaths, silence, refusals, delays and cancellations; the world checks the
 * failure rules after every step. A seed that fails is printed; `scenario_object_seeds SEED` runs that one alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "patience.h"
#include "support/object_world.h"

enum { MOST_MEMBERS = 12, SEEDS = 5000 / TT_PATIENCE, PLANTED_SEEDS = 300 / TT_PATIENCE };
#define END_NS (20 * TT_NS_PER_S)

static uint64_t first_seed = 1, seed_count = SEEDS;

/* What happened over all seeds, so that a generator that makes nothing happen is noticed. */
static struct {
    uint32_t closed, failed, peer_failed, timed_out, no_memory, canceled, objects;
} seen;

struct run {
    struct tt_random random;
    struct object_world *world;
    uint32_t racks[MOST_MEMBERS];
    uint32_t objects; /* to be sent */
    uint64_t span_ns; /* what is done to members, is done within it */
    bool is_disturbed;
    bool never_closes[MOST_MEMBERS];
};

static uint32_t below(struct run *run, uint32_t limit)
{
    return limit > 0 ? (uint32_t)tt_random_below(&run->random, limit) : 0;
}

static void create(struct run *run, uint64_t seed, enum object_world_plant plant)
{
    struct object_world_options options;
    uint32_t count = 1 + below(run, MOST_MEMBERS);

    object_world_options_init(&options, count);
    options.sim.seed = seed;
    options.objects.algorithm = (enum tt_rdmc_algorithm)below(run, TT_RDMC_ALGORITHM_COUNT);
    options.objects.block_bytes = below(run, 2) == 0 ? 1000 : 10000;
    options.objects.credit = 1 + below(run, TT_OBJECT_MAX_CREDIT);
    options.objects.object_count = 1 + below(run, 4);
    if (below(run, 2) == 0) {
        options.sim.faults = (struct tt_sim_faults){.loss_ppm = below(run, 50000),
                                                    .reorder_ppm = below(run, 50000),
                                                    .spike_ppm = below(run, 20000),
                                                    .reorder_ns = 20000,
                                                    .spike_ns = 50000,
                                                    .retransmit_ns = 20000};
    }
    if (options.objects.algorithm == TT_RDMC_HYBRID) {
        run->racks[options.objects.rack_count++] = 0;
        for (uint32_t member = 1; member < count; member++) {
            if (below(run, 3) == 0) {
                run->racks[options.objects.rack_count++] = member;
            }
        }
        options.objects.rack_firsts = run->racks;
    }
    if (below(run, 2) == 0) { /* while blocks still move */
        options.sim.detection_min_ns = 1000;
        options.sim.detection_max_ns = 50000;
    }
    options.leave_after_ns = below(run, 2) * UINT64_C(100000);
    options.plant = plant;
    options.plant_member = below(run, count);
    run->world = object_world_create(&options);
}

/* One thing that happens to a member, of which the others may be told. */
static void disturb(struct run *run)
{
    uint32_t member = below(run, run->world->member_count);
    uint64_t at_ns = tt_random_below(&run->random, run->span_ns);

    run->is_disturbed = true;
    switch (below(run, 5)) {
    case 0:
    case 1:
        object_world_crash(run->world, member, at_ns);
        break;
    case 2:
        run->world->members[member].refuse_at = below(run, run->objects + 1);
        run->world->members[member].is_guilty = true;
        break;
    case 3:
        run->world->members[member].answer_after_ns = TT_NEVER;
        run->world->members[member].is_guilty = true;
        break;
    default:
        run->never_closes[member] = true;
        run->world->members[member].is_guilty = true;
        break;
    }
}

/* Stalls begin now, so they are drawn as time goes on. Short ones are nobody's fault. */
static void stall(struct run *run)
{
    uint32_t member = below(run, run->world->member_count);
    uint64_t now_ns = object_world_now(run->world), silence_ns = run->world->options.objects.silence_ns;
    bool was_guilty = run->world->members[member].is_guilty;

    if (below(run, 4) == 0) {
        run->is_disturbed = true;
        object_world_stall(run->world, member, now_ns + silence_ns + tt_random_below(&run->random, 8 * silence_ns));
        return;
    }
    object_world_stall(run->world, member, now_ns + tt_random_below(&run->random, silence_ns / 4));
    run->world->members[member].is_guilty = was_guilty;
}

static void send_and_close(struct run *run)
{
    struct object_world *world = run->world;
    bool is_closed[MOST_MEMBERS] = {false};

    for (uint32_t turn = 0; turn < 60; turn++) {
        if (world->sent < run->objects && !is_closed[0] && !tt_sim_is_crashed(world->sim, 0) &&
            !tt_sim_is_stalled(world->sim, 0)) {
            uint32_t size_bytes =
                below(run, 3) == 0 ? below(run, 3) : below(run, 30 * world->options.objects.block_bytes);
            tutti_status status = object_world_send(world, size_bytes);

            if (status != TUTTI_OK && status != TUTTI_ERR_BUSY && world->members[0].status == TUTTI_OK) {
                tt_world_problem(world->world, "a send is refused: %s", tutti_status_name(status));
            }
        }
        for (uint32_t member = 0; member < world->member_count; member++) {
            bool may = turn >= 40 || below(run, 30) == 0;

            if (member == 0) {
                may = world->sent == run->objects || world->members[0].has_failed;
            }
            if (may && !is_closed[member] && !run->never_closes[member] && !tt_sim_is_stalled(world->sim, member) &&
                !tt_sim_is_crashed(world->sim, member)) {
                (void)object_world_close(world, member);
                is_closed[member] = true;
            }
        }
        if (below(run, 100) == 0) {
            stall(run);
        }
        if (below(run, 2000) == 0) {
            uint32_t member = below(run, world->member_count);

            if (!tt_sim_is_stalled(world->sim, member) && !tt_sim_is_crashed(world->sim, member)) {
                run->is_disturbed = true;
                object_world_cancel(world, member);
            }
        }
        object_world_run(world, object_world_now(world) + 1 + tt_random_below(&run->random, run->span_ns / 20));
    }
    /* Whoever was stalled closes late; the sender goes on as far as it has to. */
    for (uint32_t turn = 0; turn < 300; turn++) {
        for (uint32_t member = 0; member < world->member_count; member++) {
            bool is_there = !tt_sim_is_stalled(world->sim, member) && !tt_sim_is_crashed(world->sim, member);

            if (is_there && member == 0 && world->sent < run->objects && world->members[0].status == TUTTI_OK) {
                (void)object_world_send(world, below(run, 5000));
            } else if (is_there && !is_closed[member] && !run->never_closes[member]) {
                (void)object_world_close(world, member);
                is_closed[member] = true;
            }
        }
        object_world_run(world, object_world_now(world) + 2 * TT_NS_PER_MS);
    }
}

/* A group that nobody closes waits for nothing: somebody has to end it. */
static void end_unclosed(struct run *run)
{
    for (uint32_t member = 0; member < run->world->member_count; member++) {
        if (!run->never_closes[member] && !tt_sim_is_crashed(run->world->sim, member)) {
            return;
        }
    }
    for (uint32_t member = 0; member < run->world->member_count; member++) {
        if (!tt_sim_is_crashed(run->world->sim, member)) {
            object_world_cancel(run->world, member);
        }
    }
    object_world_run(run->world, END_NS + TT_NS_PER_S);
}

static void count_ends(const struct run *run)
{
    for (uint32_t member = 0; member < run->world->member_count; member++) {
        const struct object_world_member *at = &run->world->members[member];

        seen.objects += at->completed;
        seen.closed += at->has_finished && !at->has_failed;
        seen.failed += at->has_failed;
        seen.peer_failed += at->status == TUTTI_ERR_PEER_FAILED;
        seen.timed_out += at->status == TUTTI_ERR_TIMED_OUT;
        seen.no_memory += at->status == TUTTI_ERR_NO_MEMORY;
        seen.canceled += at->status == TUTTI_ERR_CANCELED;
        if (at->has_failed && !run->is_disturbed) {
            tt_world_problem(run->world->world, "member %u failed, and nothing was done to anybody", member);
        }
    }
}

/* Returns how many problems there were. */
static uint32_t run_seed(uint64_t seed, enum object_world_plant plant)
{
    struct run run = {.span_ns = 300000};
    uint32_t problems;

    tt_random_init(&run.random, seed);
    create(&run, seed, plant);
    run.objects = below(&run, 6);
    for (uint32_t member = 0; member < run.world->member_count; member++) {
        run.world->members[member].answer_after_ns = below(&run, 3) == 0 ? below(&run, 40000) : 0;
    }
    for (uint32_t i = below(&run, 3); i > 0; i--) {
        disturb(&run);
    }
    send_and_close(&run);
    object_world_run(run.world, END_NS);
    end_unclosed(&run);
    object_world_check_end(run.world);
    count_ends(&run);
    problems = run.world->world->problem_count;
    for (uint32_t i = 0; plant == PLANT_NOTHING && i < problems && i < TT_WORLD_PROBLEMS; i++) {
        print_error("seed %llu (%u members, %s): %s\n", (unsigned long long)seed, run.world->member_count,
                    tt_rdmc_word(run.world->options.objects.algorithm), run.world->world->problems[i]);
    }
    object_world_destroy(run.world);
    return problems;
}

static void no_seed_breaks_a_rule(void **state)
{
    uint32_t failed = 0;

    (void)state;
    memset(&seen, 0, sizeof seen);
    for (uint64_t seed = first_seed; seed < first_seed + seed_count; seed++) {
        if (run_seed(seed, PLANT_NOTHING) > 0) {
            failed++;
        }
    }
    print_message(
        "%llu seeds from %llu: %u ends with success, %u told of a failure (%u dead or refusing, %u timed out, "
        "%u refused, %u canceled), %u objects complete\n",
        (unsigned long long)seed_count, (unsigned long long)first_seed, seen.closed, seen.failed, seen.peer_failed,
        seen.timed_out, seen.no_memory, seen.canceled, seen.objects);
    assert_int_equal(failed, 0);
    if (seed_count == SEEDS) {
        assert_true(seen.closed > SEEDS && seen.failed > SEEDS && seen.peer_failed > SEEDS / 50 &&
                    seen.timed_out > SEEDS / 50);
        assert_true(seen.no_memory > SEEDS / 250 && seen.canceled > SEEDS / 250 && seen.objects > SEEDS);
    }
}

static uint32_t seeds_that_see(enum object_world_plant plant)
{
    uint32_t caught = 0;

    for (uint64_t seed = 1; seed <= PLANTED_SEEDS; seed++) {
        caught += run_seed(seed, plant) > 0;
    }
    print_message("%u of %u seeds see it\n", caught, PLANTED_SEEDS);
    return caught;
}

static void a_member_that_is_deaf_to_failure_is_noticed(void **state)
{
    (void)state;
    assert_in_range(seeds_that_see(PLANT_DEAF), 1, PLANTED_SEEDS);
}

static void memory_that_is_released_while_somebody_may_put_there_is_noticed(void **state)
{
    (void)state;
    assert_in_range(seeds_that_see(PLANT_EARLY_RELEASE), 1, PLANTED_SEEDS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_seed_breaks_a_rule),
        cmocka_unit_test(a_member_that_is_deaf_to_failure_is_noticed),
        cmocka_unit_test(memory_that_is_released_while_somebody_may_put_there_is_noticed),
    };

    if (argc > 1) {
        first_seed = strtoull(argv[1], NULL, 10);
        seed_count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
        return cmocka_run_group_tests_name("one", ((struct CMUnitTest[]){tests[0]}), NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
