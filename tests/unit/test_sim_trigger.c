/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world of `tutti sim trigger`: exact virtual times, added up by hand from the model in docs/trigger-costs.md, of
 * what is small enough; data that is right, which the world checks itself; and nothing that is lost or done twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/sim_trigger_world.h"

/* Rates at which a header, or one with an element, takes 1 ns. */
static struct tt_costsim_terms terms_of(enum tt_schedule_collective collective, enum tt_schedule_algorithm algorithm,
                                        bool is_offloaded)
{
    return (struct tt_costsim_terms){.collective = collective,
                                     .algorithm = algorithm,
                                     .node_count = 2,
                                     .job_count = 1,
                                     .bytes = 8,
                                     .is_offloaded = is_offloaded,
                                     .unit_count = 8,
                                     .lane_count = 1,
                                     .window = 16,
                                     .credits = 8,
                                     .unit_bytes = 65536,
                                     .packet_bytes = 1024,
                                     .seed = 1,
                                     .costs = {.net_ns = 1000,
                                               .io_ns = 300,
                                               .cpu_ns = 250,
                                               .poll_ns = 4000,
                                               .unit_ns = 80,
                                               .net_rate = 32000,
                                               .io_rate = 32000,
                                               .unit_rate = 8000,
                                               .host_rate = 4000,
                                               .copy_rate = 4000,
                                               .cores = 8}};
}

static struct tt_costsim_result run(const struct tt_costsim_terms *terms)
{
    struct tt_costsim_result result;
    char fault[TT_COSTSIM_FAULT_BYTES];

    if (!tt_costsim_world_run(terms, &result, fault)) {
        fail_msg("%s", fault);
    }
    assert_int_equal(result.sent_bytes, result.received_bytes);
    assert_int_equal(result.counters.accepted, result.packets);
    assert_int_equal(result.counters.stray, 0);
    return result;
}

static void barrier_of_two_takes_what_its_parts_take(void **state)
{
    struct tt_costsim_terms terms = terms_of(TT_SCHEDULE_BARRIER, TT_SCHEDULE_DISSEMINATION, true);

    (void)state;
    /* Descriptors made (250) and fetched (300); posted and fired (80 + 80); a header (1) over the network (1000); read
     * there (80), answered (1 + 1000); the answer is taken (80), and the host told (300). */
    assert_int_equal(run(&terms).time_ns, 250 + 300 + 160 + 1001 + 80 + 1001 + 80 + 300);

    /* A descriptor (250); from memory (300), over the network (1 + 1000), to memory (300); the answer the same way. */
    terms.is_offloaded = false;
    assert_int_equal(run(&terms).time_ns, 250 + 300 + 1001 + 300 + 1 + 300 + 1000 + 300);
    terms.polls_always = true;
    assert_int_equal(run(&terms).time_ns, 250 + 300 + 1001 + 300 + 4000 + 1 + 300 + 1000 + 300);
}

static void rdma_is_announced_and_goes_from_memory_to_memory(void **state)
{
    struct tt_costsim_terms terms = terms_of(TT_SCHEDULE_BROADCAST, TT_SCHEDULE_BINOMIAL, true);

    (void)state;
    /* Two descriptors (80 + 160), the announcement (300 + 1000 + 300), the data (300 + 1 + 1000 + 300), its answer. */
    assert_int_equal(run(&terms).time_ns, 250 + 300 + 240 + 1600 + 1601 + 80 + 1001 + 80 + 300);

    /* Equation (1): the same, and L_poll. */
    terms.is_offloaded = false;
    assert_int_equal(run(&terms).time_ns, 500 + 1600 + 1601 + 4000 + 1601);
}

static void reduction_goes_from_unit_to_unit(void **state)
{
    struct tt_costsim_terms terms = terms_of(TT_SCHEDULE_REDUCE, TT_SCHEDULE_BINOMIAL, true);

    (void)state;
    /* The operand is fetched (300) behind the descriptors; then sent, reduced (1), and answered. */
    assert_int_equal(run(&terms).time_ns, 250 + 300 + 300 + 160 + 1001 + 80 + 1 + 1001 + 80 + 300);

    /* Equation (2), with the time of 8 bytes at 4000 MB/s. */
    terms.is_offloaded = false;
    assert_int_equal(run(&terms).time_ns, 250 + 300 + 1001 + 300 + 2 + 1601);
}

static void blocks_of_all_ranks_are_fetched_and_the_own_one_is_written(void **state)
{
    struct tt_costsim_terms terms = terms_of(TT_SCHEDULE_REDUCE_SCATTER, TT_SCHEDULE_DIRECT, true);

    (void)state;
    terms.bytes = 32;
    terms.packet_bytes = 8;  /* so in two pulses, each with an element of both blocks */
    terms.costs.io_rate = 1; /* an element takes 8000 */
    /* The first pulse's operand (2 * 8000), and the second's first bytes (300); sent, reduced, and the own block
     * written (8000). */
    assert_int_equal(run(&terms).time_ns, 16000 + 300 + 160 + 1001 + 8000 + 300);
}

static void operands_are_fetched_once_and_before_their_pulse_begins(void **state)
{
    struct tt_costsim_terms terms = terms_of(TT_SCHEDULE_REDUCE, TT_SCHEDULE_BINOMIAL, true);
    const uint64_t first_ns = 250 + 300 + 300 + 160 + 1001; /* when the first sum is there, as above */
    struct tt_costsim_result result;

    (void)state;
    terms.job_count = 3;
    terms.bytes = 24; /* in three pulses, of which two begin, and end, together */
    terms.packet_bytes = 8;
    terms.lane_count = 2;
    terms.costs.io_rate = 1; /* an operand takes 8000, and so does a result */
    result = run(&terms);
    /* The jobs' last pulses come behind all of their first ones: results are the 7th, 8th and 9th. */
    assert_int_equal(result.time_ns, first_ns + 9 * 8000 + 300);
    assert_int_equal(result.mean_ns, first_ns + 8 * 8000 + 300);
}

static void jobs_wait_for_units_and_processors(void **state)
{
    struct tt_costsim_terms terms = terms_of(TT_SCHEDULE_BARRIER, TT_SCHEDULE_DISSEMINATION, true);
    uint64_t alone_ns = run(&terms).time_ns;

    (void)state;
    terms.job_count = 2;
    assert_in_range(run(&terms).time_ns, alone_ns, alone_ns + 1); /* the second header waits for the first */
    terms.unit_count = 1;
    assert_int_equal(run(&terms).time_ns, alone_ns + 160);

    terms.is_offloaded = false;
    terms.job_count = 1;
    alone_ns = run(&terms).time_ns;
    terms.job_count = 2;
    terms.costs.cores = 1;
    assert_int_equal(run(&terms).time_ns, alone_ns + 250);
}

static void bytes_of_a_large_broadcast_are_those_of_its_tree(void **state)
{
    struct tt_costsim_terms terms = terms_of(TT_SCHEDULE_BROADCAST, TT_SCHEDULE_DOUBLE_TREE, true);

    (void)state;
    terms.node_count = 7;
    terms.job_count = 3;
    terms.bytes = 100008;
    for (int model = 0; model < 2; model++) {
        terms.is_offloaded = model == 0;
        struct tt_costsim_result result = run(&terms);

        assert_int_equal(result.data_bytes, 3 * 6 * 100008);
        assert_int_equal(result.pulse_bytes, 2048);
        assert_int_equal(result.pulses, (100008 + 2047) / 2048);
        /* Nothing is faster than the port and the memory of the root, which sends all of it. */
        assert_true(result.time_ns > 3 * 100008 * 1000 / terms.costs.io_rate);
    }
}

static void every_collective_is_right_and_repeats_itself(void **state)
{
    uint32_t runs = 0;

    (void)state;
    for (int c = 0; c < TT_SCHEDULE_COLLECTIVE_COUNT; c++) {
        for (int a = 0; a < TT_SCHEDULE_ALGORITHM_COUNT; a++) {
            for (uint32_t nodes = 1; nodes <= 9 && tt_schedule_is_known(c, a); nodes += 2) {
                struct tt_costsim_terms terms = terms_of(c, a, runs % 2 == 0);

                terms.node_count = nodes;
                terms.root = tt_schedule_has_root(c) ? nodes - 1 : 0;
                terms.job_count = 3;
                terms.bytes = 8 * 1001;
                terms.lane_count = 3;
                terms.unit_bytes = 4096; /* three packets: some are refused */
                terms.skew_ns = 5000;
                terms.costs.jitter_ns = 3000;
                struct tt_costsim_result first = run(&terms), second = run(&terms);

                assert_memory_equal(&first, &second, sizeof first);
                assert_true(first.use_most <= 150 && first.use_mean <= first.use_most);
                runs++;
            }
        }
    }
    assert_int_equal(runs, 17 * 5);
}

static void full_buffers_refuse_and_nothing_is_lost(void **state)
{
    struct tt_costsim_terms terms = terms_of(TT_SCHEDULE_REDUCE, TT_SCHEDULE_RABENSEIFNER, true);

    (void)state;
    terms.node_count = 16;
    terms.job_count = 8;
    terms.bytes = 8 * 4096;
    terms.lane_count = 8;
    terms.credits = 64;
    terms.unit_count = 2;
    terms.unit_bytes = 2200; /* two packets */
    struct tt_costsim_result result = run(&terms);

    assert_true(result.counters.refused > 0 && result.counters.repeated == result.counters.refused);
    assert_true(result.sent_bytes > result.data_bytes);
    assert_true(result.use_most > 90);
}

/* As many as JobIDs, on as many ports as there are, with a credit each. */
static void as_many_jobs_as_there_can_be_share_a_few_packets_of_room(void **state)
{
    static const struct {
        enum tt_schedule_collective collective;
        enum tt_schedule_algorithm algorithm;
    } kinds[] = {{TT_SCHEDULE_ALLREDUCE, TT_SCHEDULE_RABENSEIFNER}, {TT_SCHEDULE_GATHER, TT_SCHEDULE_DIRECT}};

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct tt_costsim_terms terms = terms_of(kinds[i].collective, kinds[i].algorithm, i == 0);
        struct tt_costsim_result result;

        terms.node_count = 3;
        terms.job_count = TT_COSTSIM_MOST_JOBS;
        terms.lane_count = TT_TRIGGER_PORTS / TT_COSTSIM_MOST_JOBS;
        terms.credits = TT_COSTSIM_MOST_JOBS;
        terms.unit_count = TT_OFFLOAD_MOST_UNITS;
        terms.unit_bytes = 4096;
        terms.bytes = 8 * 24;
        terms.skew_ns = 100000;
        result = run(&terms);
        assert_true(result.counters.completed >= (uint64_t)terms.node_count * terms.job_count);
        assert_int_equal(result.counters.repeated, result.counters.refused);
    }
}

/* A credit for each job, and ranks that begin at different times: other jobs come first elsewhere. */
static void jobs_that_begin_apart_leave_each_other_a_credit(void **state)
{
    struct tt_costsim_terms terms = terms_of(TT_SCHEDULE_BROADCAST, TT_SCHEDULE_BINOMIAL, true);

    (void)state;
    terms.node_count = 6;
    terms.job_count = 6;
    terms.lane_count = 3;
    terms.credits = 9;
    terms.packet_bytes = 8;
    terms.bytes = 8 * 1024;
    terms.skew_ns = 100000;
    assert_in_range(run(&terms).time_ns, 1, 100000000);
    terms.is_offloaded = false;
    assert_in_range(run(&terms).time_ns, 1, 100000000);
}

static void what_cannot_be_is_a_fault(void **state)
{
    struct tt_costsim_terms terms = terms_of(TT_SCHEDULE_REDUCE, TT_SCHEDULE_RABENSEIFNER, true);
    struct tt_costsim_result result;
    char fault[TT_COSTSIM_FAULT_BYTES];

    (void)state;
    terms.unit_bytes = 1024;
    assert_false(tt_costsim_world_run(&terms, &result, fault));
    assert_non_null(strstr(fault, "no room"));
    terms = terms_of(TT_SCHEDULE_REDUCE, TT_SCHEDULE_RING, true);
    assert_false(tt_costsim_world_run(&terms, &result, fault));
    assert_non_null(strstr(fault, "no such schedule"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(barrier_of_two_takes_what_its_parts_take),
        cmocka_unit_test(rdma_is_announced_and_goes_from_memory_to_memory),
        cmocka_unit_test(reduction_goes_from_unit_to_unit),
        cmocka_unit_test(blocks_of_all_ranks_are_fetched_and_the_own_one_is_written),
        cmocka_unit_test(operands_are_fetched_once_and_before_their_pulse_begins),
        cmocka_unit_test(jobs_wait_for_units_and_processors),
        cmocka_unit_test(bytes_of_a_large_broadcast_are_those_of_its_tree),
        cmocka_unit_test(every_collective_is_right_and_repeats_itself),
        cmocka_unit_test(full_buffers_refuse_and_nothing_is_lost),
        cmocka_unit_test(as_many_jobs_as_there_can_be_share_a_few_packets_of_room),
        cmocka_unit_test(jobs_that_begin_apart_leave_each_other_a_credit),
        cmocka_unit_test(what_cannot_be_is_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
