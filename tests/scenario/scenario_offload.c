/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives in pulses over several nodes: what does not fit any buffer goes through in the end, no node reduces more
 * at a time than its capacity, and who finds no credit for too long is told. The network takes a packet or a fetch at
 * random of those that are under way. Random runs print the seed that failed; `scenario_offload SEED` runs that one
 * alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "offload/operation.h"

enum { SEEDS = 300, NODES = 5, MOST_OPERATIONS = 3, MOST_FLIGHTS = 4096, ELEMENTS = 3000, LANES = 4, RETRY_NS = 1000 };

struct part {
    struct tt_operation operation;
    void *memory;
    int64_t *vector, *source; /* NULL: what is sent lies in the vector */
    uint64_t first;           /* element of the vector */
};

/* What a node has asked for, and is under way. */
struct flight {
    uint32_t node;
    struct tt_offload_action action;
};

static uint64_t only_seed, last_seed;

static struct {
    struct tt_random random;
    uint64_t now_ns;
    struct tt_offload *nodes[NODES];
    struct tt_pulses pulses[NODES];
    uint64_t most_elements[NODES]; /* in flight at once */
    uint32_t most_taken;
    uint32_t operation_count;
    bool has_sources, has_own_blocks; /* of operations that are added: a vector only of the own block */
    struct tt_schedule schedules[MOST_OPERATIONS];
    struct tt_blocks blocks[MOST_OPERATIONS];
    uint64_t firsts[NODES], counts[NODES];
    struct part parts[MOST_OPERATIONS][NODES];
    struct flight flights[MOST_FLIGHTS];
    uint32_t flight_count;
} w;

static struct tt_reduction sums;

static int64_t initial(uint32_t operation, uint32_t rank, uint64_t element)
{
    return (int64_t)(element * 31 + rank * 1000003 + operation * 777);
}

/* Every node gets so many elements of capacity, in so many pulses, and a unit of `unit_bytes`. */
static void open_nodes(uint64_t seed, uint64_t capacity, uint32_t in_flight, uint64_t unit_bytes, uint32_t inline_bytes)
{
    memset(&w, 0, sizeof w);
    tt_random_init(&w.random, seed);
    for (uint32_t node = 0; node < NODES; node++) {
        struct tt_offload_terms terms = {.node = node,
                                         .unit_count = 2,
                                         .port_count = MOST_OPERATIONS * LANES,
                                         .unit_bytes = unit_bytes,
                                         .packet_bytes = 1024,
                                         .inline_bytes = inline_bytes,
                                         .window = 4,
                                         .queue_length = 1,
                                         .retry_ns = 50};
        void *memory = malloc(tt_offload_memory_bytes(&terms));

        assert_non_null(memory);
        w.nodes[node] = tt_offload_init(&terms, memory);
        tt_pulses_init(&w.pulses[node], capacity, in_flight);
    }
}

static void close_nodes(void)
{
    for (uint32_t node = 0; node < NODES; node++) {
        free(w.nodes[node]);
        for (uint32_t i = 0; i < w.operation_count; i++) {
            free(w.parts[i][node].memory);
            free(w.parts[i][node].vector);
            free(w.parts[i][node].source);
        }
    }
}

/* One more collective of all nodes. Rank blocks have 0, 300, 600, ... elements. */
static void add_operation(enum tt_schedule_collective collective, enum tt_schedule_algorithm algorithm, uint32_t tries)
{
    uint32_t index = w.operation_count++;
    struct tt_schedule *schedule = &w.schedules[index];
    struct tt_blocks *blocks = &w.blocks[index];

    assert_true(tt_schedule_init(schedule, collective, algorithm, NODES, 0));
    *blocks = (struct tt_blocks){.block_count = tt_schedule_block_count(schedule), .slice_count = ELEMENTS};
    if (tt_schedule_has_rank_blocks(schedule)) {
        for (uint32_t i = 0; i < NODES; i++) {
            w.counts[i] = UINT64_C(300) * i;
            w.firsts[i] = UINT64_C(150) * i * (i - 1) * (i > 0);
        }
        blocks->firsts = w.firsts;
        blocks->counts = w.counts;
        assert_int_equal(w.firsts[NODES - 1] + w.counts[NODES - 1], ELEMENTS);
    }
    for (uint32_t rank = 0; rank < NODES; rank++) {
        struct part *part = &w.parts[index][rank];
        struct tt_operation_terms terms = {
            .compile = {.schedule = schedule,
                        .blocks = blocks,
                        .rank = rank,
                        .job = (uint8_t)index,
                        .port = (uint16_t)(index * LANES),
                        .element_bytes = sizeof(int64_t)},
            .lane_count = LANES,
            .pulse_elements = w.pulses[rank].pulse_elements,
            .reduction = &sums,
            .retry_ns = RETRY_NS,
            .tries = tries,
        };

        uint64_t elements = w.has_own_blocks ? w.counts[rank] : ELEMENTS;

        if (w.has_own_blocks) {
            part->first = w.firsts[rank];
            terms.window = (struct tt_block_range){.first = w.firsts[rank], .count = w.counts[rank]};
        }
        terms.buffer = part->vector = malloc(elements * sizeof(int64_t) + 1);
        part->memory = malloc(tt_operation_memory_bytes(&terms));
        assert_true(part->vector != NULL && part->memory != NULL);
        memset(part->vector, 0xBB, elements * sizeof(int64_t));
        int64_t *inputs = part->vector;

        if (w.has_sources) {
            terms.source = inputs = part->source = malloc(ELEMENTS * sizeof(int64_t));
            assert_non_null(inputs);
        }
        for (uint64_t i = 0; i < ELEMENTS; i++) {
            inputs[i] = initial(index, rank, i);
        }
        tt_operation_init(&part->operation, &terms, part->memory);
    }
}

static void step(uint32_t node, struct tt_offload_event event)
{
    struct tt_offload_action actions[8];

    event.now_ns = w.now_ns;
    for (uint32_t i = 0; i < w.operation_count; i++) {
        tt_operation_advance(&w.parts[i][node].operation, w.nodes[node], &w.pulses[node], w.now_ns);
    }
    do {
        struct tt_offload_actions list = {.actions = actions, .capacity = 8};

        assert_int_equal(tt_offload_step(w.nodes[node], &event, &list), TUTTI_OK);
        tt_offload_check(w.nodes[node]);
        for (uint32_t i = 0; i < list.count; i++) {
            if (actions[i].kind != TT_OFFLOAD_COMPLETE) {
                assert_true(w.flight_count < MOST_FLIGHTS);
                w.flights[w.flight_count++] = (struct flight){node, actions[i]};
            } else {
                struct tt_operation *operation = &w.parts[actions[i].port / LANES][node].operation;

                tt_operation_ended(operation, w.nodes[node], &w.pulses[node], &actions[i]);
                tt_operation_advance(operation, w.nodes[node], &w.pulses[node], w.now_ns);
            }
        }
        event.kind = TT_OFFLOAD_TICK;
    } while (tt_offload_deadline(w.nodes[node]) == 0);
    tt_pulses_check(&w.pulses[node]);
    w.most_elements[node] =
        w.pulses[node].elements > w.most_elements[node] ? w.pulses[node].elements : w.most_elements[node];
    w.most_taken = w.pulses[node].taken > w.most_taken ? w.pulses[node].taken : w.most_taken;
}

static uint32_t count_done(tutti_status wanted)
{
    uint32_t done = 0;
    tutti_status status = TUTTI_OK;

    for (uint32_t i = 0; i < w.operation_count; i++) {
        for (uint32_t rank = 0; rank < NODES; rank++) {
            done += tt_operation_is_done(&w.parts[i][rank].operation, &status) && status == wanted;
        }
    }
    return done;
}

/* A packet arrives, with the operand's address as its reference; or data has been fetched from there. */
static void land(const struct flight *flight)
{
    const struct tt_offload_action *action = &flight->action;
    struct tt_trigger_packet packet = action->packet;
    struct tt_offload_event event = {.kind = TT_OFFLOAD_PACKET, .packet = &packet, .payload = action->payload};
    const void *operand = action->payload;

    if (action->kind == TT_OFFLOAD_FETCH) {
        memcpy(&operand, action->payload, sizeof operand);
        memcpy(action->destination, operand, packet.length_bytes);
        step(flight->node, (struct tt_offload_event){.kind = TT_OFFLOAD_FETCHED, .port = action->port});
        return;
    }
    if (packet.kind == TT_TRIGGER_REMOTE) {
        packet.reference_bytes = sizeof operand;
        event.payload = &operand;
    }
    step(action->node, event);
}

/* Until nothing is under way and nobody is due, or for so many steps. */
static void run(uint32_t most_steps)
{
    for (uint32_t i = 0; i < most_steps; i++) {
        w.now_ns += 10;
        step((uint32_t)tt_random_below(&w.random, NODES), (struct tt_offload_event){.kind = TT_OFFLOAD_TICK});
        if (w.flight_count > 0) {
            uint32_t which = (uint32_t)tt_random_below(&w.random, w.flight_count);
            struct flight flight = w.flights[which];

            w.flights[which] = w.flights[--w.flight_count];
            land(&flight);
        }
    }
}

static void run_to_the_end(void)
{
    for (uint32_t i = 0; i < 200 && count_done(TUTTI_OK) < w.operation_count * NODES; i++) {
        run(1000);
    }
    assert_int_equal(count_done(TUTTI_OK), w.operation_count * NODES);
    for (uint32_t node = 0; node < NODES; node++) {
        assert_true(w.pulses[node].admitted == 0 && w.pulses[node].taken == 0);
    }
}

static void must_be_sums(uint32_t index, uint32_t rank, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        int64_t sum = 0;

        for (uint32_t r = 0; r < NODES; r++) {
            sum += initial(index, r, i);
        }
        assert_true(w.parts[index][rank].vector[i - w.parts[index][rank].first] == sum);
    }
}

static void allreduce_of_many_times_the_capacity_never_reduces_more_than_it(void **state)
{
    static const enum tt_schedule_algorithm algorithms[] = {TT_SCHEDULE_RECURSIVE_DOUBLING, TT_SCHEDULE_RABENSEIFNER,
                                                            TT_SCHEDULE_RING};

    (void)state;
    for (uint64_t seed = 0; seed < 9; seed++) {
        open_nodes(seed, 250, 4, 4096, 1024);
        add_operation(TT_SCHEDULE_ALLREDUCE, algorithms[seed % 3], 0);
        assert_int_equal(w.parts[0][0].operation.pulse_count, 48); /* of 63 elements */
        run_to_the_end();
        for (uint32_t rank = 0; rank < NODES; rank++) {
            must_be_sums(0, rank, 0, ELEMENTS);
            assert_true(w.most_elements[rank] <= 250);
        }
        assert_int_equal(w.most_taken, 3); /* four times 63 would be more than 250 */
        close_nodes();
    }
}

static void reduce_scatter_of_unequal_counts_takes_a_slice_of_every_block(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        open_nodes(seed, 240, 2, 4096, 1024);
        add_operation(TT_SCHEDULE_REDUCE_SCATTER, seed % 2 == 0 ? TT_SCHEDULE_RING : TT_SCHEDULE_RECURSIVE_HALVING, 0);
        assert_int_equal(w.parts[0][0].operation.pulse_count, 50); /* of 24 elements of 1,200 */
        run_to_the_end();
        for (uint32_t rank = 0; rank < NODES; rank++) {
            must_be_sums(0, rank, w.firsts[rank], w.counts[rank]);
        }
        close_nodes();
    }
}

static void reduce_scatter_from_a_source_needs_room_for_the_own_block_only(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        open_nodes(seed, 240, 2, 4096, seed % 2 == 0 ? 1024 : 100);
        w.has_sources = w.has_own_blocks = true;
        add_operation(TT_SCHEDULE_REDUCE_SCATTER, TT_SCHEDULE_DIRECT, 0);
        run_to_the_end();
        for (uint32_t rank = 0; rank < NODES; rank++) {
            must_be_sums(0, rank, w.firsts[rank], w.counts[rank]);
            for (uint64_t i = 0; i < ELEMENTS; i++) {
                assert_true(w.parts[0][rank].source[i] == initial(0, rank, i));
            }
        }
        close_nodes();
    }
}

static void jobs_share_the_credits_and_all_come_through(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        open_nodes(seed, 360, 3, 4096, 1024);
        add_operation(TT_SCHEDULE_ALLREDUCE, TT_SCHEDULE_RABENSEIFNER, 0);
        add_operation(TT_SCHEDULE_ALLGATHER, TT_SCHEDULE_RECURSIVE_DOUBLING, 0);
        add_operation(TT_SCHEDULE_ALLREDUCE, TT_SCHEDULE_RING, 0);
        run_to_the_end();
        for (uint32_t rank = 0; rank < NODES; rank++) {
            must_be_sums(0, rank, 0, ELEMENTS);
            must_be_sums(2, rank, 0, ELEMENTS);
            for (uint32_t block = 0; block < NODES; block++) {
                for (uint64_t i = w.firsts[block]; i < w.firsts[block] + w.counts[block]; i++) {
                    assert_true(w.parts[1][rank].vector[i] == initial(1, block, i));
                }
            }
            assert_true(w.most_elements[rank] <= 360);
        }
        close_nodes();
    }
}

/* Every rank's result, element by element. */
static void must_be_right(uint32_t index)
{
    const struct tt_schedule *schedule = &w.schedules[index];

    for (uint32_t rank = 0; rank < NODES; rank++) {
        const int64_t *vector = w.parts[index][rank].vector;

        for (uint32_t block = 0; block < w.blocks[index].block_count; block++) {
            struct tt_block_range range = tt_block_at(&w.blocks[index], block);
            bool is_own = rank == block, is_root = rank == schedule->root;

            switch (schedule->collective) {
            case TT_SCHEDULE_BARRIER:
                break;
            case TT_SCHEDULE_BROADCAST:
            case TT_SCHEDULE_SCATTER:
                for (uint64_t i = range.first; i < range.first + range.count; i++) {
                    assert_true((schedule->collective == TT_SCHEDULE_SCATTER && !is_own) ||
                                vector[i] == initial(index, schedule->root, i));
                }
                break;
            case TT_SCHEDULE_ALLGATHER:
            case TT_SCHEDULE_GATHER:
                for (uint64_t i = range.first; i < range.first + range.count; i++) {
                    assert_true((schedule->collective == TT_SCHEDULE_GATHER && !is_root) ||
                                vector[i] == initial(index, block, i));
                }
                break;
            default:
                if (schedule->collective == TT_SCHEDULE_ALLREDUCE ||
                    (schedule->collective == TT_SCHEDULE_REDUCE ? is_root : is_own)) {
                    must_be_sums(index, rank, range.first, range.count);
                }
            }
        }
    }
}

static void run_seed(uint64_t seed)
{
    struct tt_random random;

    last_seed = seed;
    tt_random_init(&random, seed);
    uint64_t capacity = 200 + tt_random_below(&random, 200);
    uint32_t operations = 1 + (uint32_t)tt_random_below(&random, MOST_OPERATIONS);

    /* A counter at least for each, and pulses that fit packets of 128 elements. */
    open_nodes(seed, capacity, operations + 3 + (uint32_t)tt_random_below(&random, 4),
               1048 + tt_random_below(&random, 8000), seed % 2 == 0 ? 1024 : (uint32_t)tt_random_below(&random, 1024));
    w.has_sources = tt_random_below(&random, 2) == 0;
    for (uint32_t i = 0; i < operations; i++) {
        enum tt_schedule_collective collective;
        enum tt_schedule_algorithm algorithm;

        do {
            collective = (enum tt_schedule_collective)tt_random_below(&random, TT_SCHEDULE_COLLECTIVE_COUNT);
            algorithm = (enum tt_schedule_algorithm)tt_random_below(&random, TT_SCHEDULE_ALGORITHM_COUNT);
        } while (!tt_schedule_is_known(collective, algorithm));
        add_operation(collective, algorithm, 0);
    }
    run_to_the_end();
    for (uint32_t i = 0; i < operations; i++) {
        must_be_right(i);
    }
    for (uint32_t node = 0; node < NODES; node++) {
        assert_true(w.most_elements[node] > 0 && w.most_elements[node] <= capacity);
    }
    close_nodes();
}

static void any_collectives_in_pulses_are_right_whatever_comes_first(void **state)
{
    (void)state;
    if (only_seed != 0) {
        run_seed(only_seed);
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_seed(seed);
    }
}

static int say_seed(void **state)
{
    (void)state;
    print_message("the last random seed was %llu\n", (unsigned long long)last_seed);
    return 0;
}

/* One counter and three jobs: whoever is not admitted anywhere tries five times, 1 us apart, and is told. */
static void job_that_is_never_admitted_ends_in_an_error_in_a_bounded_time(void **state)
{
    tutti_status status = TUTTI_OK;

    (void)state;
    open_nodes(1, 60, 1, 4096, 1024);
    add_operation(TT_SCHEDULE_BARRIER, TT_SCHEDULE_DISSEMINATION, 5);
    /* Somebody else has node 2's only credit, and keeps it. */
    assert_true(tt_pulses_admit(&w.pulses[2]));
    run(2000);
    assert_true(tt_operation_is_done(&w.parts[0][2].operation, &status));
    assert_int_equal(status, TUTTI_ERR_NO_RESOURCE);
    assert_int_equal(w.parts[0][2].operation.tried, 5);
    assert_false(tt_operation_is_done(&w.parts[0][0].operation, &status)); /* it waits for node 2 */
    assert_int_equal(tt_operation_deadline(&w.parts[0][0].operation), UINT64_MAX);
    /* Who is told of it closes a port: all of the operation ends. */
    tt_offload_close_port(w.nodes[0], 0, TUTTI_ERR_PEER_FAILED);
    run(200);
    assert_true(tt_operation_is_done(&w.parts[0][0].operation, &status));
    assert_int_equal(status, TUTTI_ERR_PEER_FAILED);
    assert_int_equal(w.pulses[0].admitted, 0);
    close_nodes();
}

static void credit_that_is_given_back_in_time_is_taken(void **state)
{
    (void)state;
    open_nodes(1, 60, 1, 4096, 1024);
    add_operation(TT_SCHEDULE_BARRIER, TT_SCHEDULE_DISSEMINATION, 0);
    assert_true(tt_pulses_admit(&w.pulses[2]));
    run(2000);
    assert_int_equal(count_done(TUTTI_OK), 0);
    assert_true(tt_operation_deadline(&w.parts[0][2].operation) < UINT64_MAX);
    tt_pulses_dismiss(&w.pulses[2]);
    run_to_the_end();
    close_nodes();
}

static void terms_that_make_no_sense_need_no_memory(void **state)
{
    static const uint64_t firsts[] = {0, 5, 10}, counts[] = {5, 5, 5};
    struct tt_schedule schedule;
    struct tt_blocks blocks = {.block_count = 3, .firsts = firsts, .counts = counts};

    (void)state;
    assert_true(tt_schedule_init(&schedule, TT_SCHEDULE_ALLGATHER, TT_SCHEDULE_RING, 3, 0));
    struct tt_operation_terms good = {.compile = {.schedule = &schedule, .blocks = &blocks, .element_bytes = 4},
                                      .lane_count = 2,
                                      .pulse_elements = 3,
                                      .retry_ns = 1};
    struct tt_operation_terms bad = good;

    assert_true(tt_operation_memory_bytes(&good) > 0);
    bad.pulse_elements = 2; /* less than an element of each block */
    assert_int_equal(tt_operation_memory_bytes(&bad), 0);
    bad = good;
    bad.lane_count = 0;
    assert_int_equal(tt_operation_memory_bytes(&bad), 0);
    bad.lane_count = TT_OPERATION_MOST_LANES + 1;
    assert_int_equal(tt_operation_memory_bytes(&bad), 0);
    bad = good;
    bad.compile.port = TT_TRIGGER_PORTS - 1;
    assert_int_equal(tt_operation_memory_bytes(&bad), 0);
}

int main(int argc, char **argv)
{
    only_seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    if (tt_reduction_init(&sums, TT_TYPE_INT64, TT_REDUCE_SUM) != TUTTI_OK) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_of_many_times_the_capacity_never_reduces_more_than_it),
        cmocka_unit_test(reduce_scatter_of_unequal_counts_takes_a_slice_of_every_block),
        cmocka_unit_test(reduce_scatter_from_a_source_needs_room_for_the_own_block_only),
        cmocka_unit_test(jobs_share_the_credits_and_all_come_through),
        cmocka_unit_test_teardown(any_collectives_in_pulses_are_right_whatever_comes_first, say_seed),
        cmocka_unit_test(job_that_is_never_admitted_ends_in_an_error_in_a_bounded_time),
        cmocka_unit_test(credit_that_is_given_back_in_time_is_taken),
        cmocka_unit_test(terms_that_make_no_sense_need_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
