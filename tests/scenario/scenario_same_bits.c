/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allreduce of floats has the same bits whatever happens (docs/triggered.md, "Same bits"): a thousand random orders
 * of arrival for each algorithm and type, each with units, a window, copies and fetches of its own; and of the
 * algorithms that combine along the one tree, also with pulses of another length, and the same bits as that tree where
 * one rank does it all. The network takes any packet or fetch that is under way. `scenario_same_bits SEED` runs one
 * order of each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "offload/fold.h"
#include "offload/operation.h"

enum { NODES = 7, ELEMENTS = 61, LANES = 3, MOST_FLIGHTS = 1024, ORDERS = 1000, VECTOR_BYTES = ELEMENTS * 4 };

/* What a node has asked for, and is under way. */
struct flight {
    uint32_t node;
    struct tt_offload_action action;
};

static struct {
    struct tt_random random;
    uint64_t now_ns;
    struct tt_offload *nodes[NODES];
    struct tt_pulses pulses[NODES];
    struct tt_operation operations[NODES];
    void *memory[NODES];
    _Alignas(16) uint8_t vectors[NODES][VECTOR_BYTES];
    struct flight flights[MOST_FLIGHTS];
    uint32_t flight_count;
} w;

static uint64_t first_seed, end_seed = ORDERS;

/* Of very different sizes, so that another order gives other bits. */
static void fill(enum tt_type type, uint32_t rank, uint8_t *vector)
{
    struct tt_random random;
    float wide[ELEMENTS];

    tt_random_init(&random, rank + 1);
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        wide[i] = (float)tt_random_below(&random, 1 << 20) / (float)(1U << tt_random_below(&random, 24)) *
                  (tt_random_below(&random, 2) == 0 ? 1.0F : -1.0F);
    }
    if (type == TT_TYPE_FP32) {
        memcpy(vector, wide, sizeof wide);
    } else {
        tt_reduce_narrow(type, vector, wide, 1, ELEMENTS);
    }
}

static uint32_t draw(uint32_t limit)
{
    return (uint32_t)tt_random_below(&w.random, limit);
}

static void open_node(uint32_t node, const struct tt_operation_terms *each)
{
    struct tt_operation_terms terms = *each;
    uint32_t inline_bytes = draw(2) == 0 ? 512 : 8 * draw(8);
    struct tt_offload_terms engine = {.node = node,
                                      .unit_count = 1 + draw(8),
                                      .port_count = LANES,
                                      .unit_bytes = draw(2) == 0 ? 1024 : 16384,
                                      .packet_bytes = 512,
                                      .inline_bytes = inline_bytes,
                                      .window = 1 + draw(4),
                                      .queue_length = 1,
                                      .retry_ns = 50};

    engine.copies = draw(engine.window + 1);
    w.nodes[node] = tt_offload_init(&engine, malloc(tt_offload_memory_bytes(&engine)));
    tt_pulses_init(&w.pulses[node], 4096, 8);
    terms.compile.rank = node;
    terms.buffer = w.vectors[node];
    w.memory[node] = malloc(tt_operation_memory_bytes(&terms));
    assert_non_null(w.memory[node]);
    tt_operation_init(&w.operations[node], &terms, w.memory[node]);
}

static void step(uint32_t node, struct tt_offload_event event)
{
    struct tt_offload_action actions[8];

    event.now_ns = w.now_ns;
    tt_operation_advance(&w.operations[node], w.nodes[node], &w.pulses[node], w.now_ns);
    do {
        struct tt_offload_actions list = {.actions = actions, .capacity = 8};

        assert_int_equal(tt_offload_step(w.nodes[node], &event, &list), TUTTI_OK);
        for (uint32_t i = 0; i < list.count; i++) {
            if (actions[i].kind == TT_OFFLOAD_COMPLETE) {
                tt_operation_ended(&w.operations[node], w.nodes[node], &w.pulses[node], &actions[i]);
                tt_operation_advance(&w.operations[node], w.nodes[node], &w.pulses[node], w.now_ns);
            } else {
                assert_true(w.flight_count < MOST_FLIGHTS);
                w.flights[w.flight_count++] = (struct flight){node, actions[i]};
            }
        }
        event.kind = TT_OFFLOAD_TICK;
    } while (tt_offload_deadline(w.nodes[node]) == 0);
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

static bool all_done(void)
{
    tutti_status status = TUTTI_OK;
    bool done = true;

    for (uint32_t node = 0; node < NODES; node++) {
        done = tt_operation_is_done(&w.operations[node], &status) && done;
        assert_int_equal(status, TUTTI_OK);
    }
    return done;
}

static void run(void)
{
    for (uint32_t i = 0; i < 200000 && !all_done(); i++) {
        w.now_ns += 10;
        step(draw(NODES), (struct tt_offload_event){.kind = TT_OFFLOAD_TICK});
        if (w.flight_count > 0) {
            uint32_t which = draw(w.flight_count);
            struct flight flight = w.flights[which];

            w.flights[which] = w.flights[--w.flight_count];
            land(&flight);
        }
    }
    assert_true(all_done());
}

/* One allreduce in an order of the seed's; *result is what all ranks have. */
static void allreduce(enum tt_schedule_algorithm algorithm, const struct tt_reduction *reduction,
                      uint64_t pulse_elements, uint64_t seed, uint8_t *result)
{
    struct tt_schedule schedule;
    struct tt_blocks blocks;
    struct tt_operation_terms terms = {
        .compile = {.schedule = &schedule, .blocks = &blocks, .element_bytes = reduction->element_bytes},
        .lane_count = LANES,
        .pulse_elements = pulse_elements,
        .reduction = reduction,
        .retry_ns = 1000};
    size_t bytes = (size_t)ELEMENTS * reduction->element_bytes;

    memset(&w, 0, sizeof w);
    tt_random_init(&w.random, seed);
    assert_true(tt_schedule_init(&schedule, TT_SCHEDULE_ALLREDUCE, algorithm, NODES, 0));
    blocks = (struct tt_blocks){.block_count = tt_schedule_block_count(&schedule), .slice_count = ELEMENTS};
    for (uint32_t node = 0; node < NODES; node++) {
        fill(reduction->type, node, w.vectors[node]);
    }
    uint32_t seed_of_terms = draw(UINT32_MAX); /* inline_bytes must be the same at all nodes */

    for (uint32_t node = 0; node < NODES; node++) {
        tt_random_init(&w.random, seed_of_terms);
        open_node(node, &terms);
    }
    tt_random_init(&w.random, seed);
    run();
    memcpy(result, w.vectors[0], bytes);
    for (uint32_t node = 0; node < NODES; node++) {
        if (memcmp(result, w.vectors[node], bytes) != 0) {
            fail_msg("ranks 0 and %u have other bits; replay: scenario_same_bits %llu", node, (unsigned long long)seed);
        }
        free(w.nodes[node]);
        free(w.memory[node]);
    }
}

static void must_have_one_pattern(enum tt_schedule_algorithm algorithm, const struct tt_reduction *reduction,
                                  uint8_t *pattern)
{
    uint8_t result[VECTOR_BYTES];
    size_t bytes = (size_t)ELEMENTS * reduction->element_bytes;

    allreduce(algorithm, reduction, 16, first_seed, pattern);
    for (uint64_t seed = first_seed; seed < end_seed; seed++) {
        allreduce(algorithm, reduction, 16, seed, result);
        if (memcmp(result, pattern, bytes) != 0) {
            fail_msg("%s of %s: other bits; replay: scenario_same_bits %llu", tt_schedule_algorithm_word(algorithm),
                     tt_type_row(reduction->type)->name, (unsigned long long)seed);
        }
    }
}

static void a_thousand_orders_of_arrival_give_one_pattern(void **state)
{
    static const enum tt_type types[] = {TT_TYPE_FP32, TT_TYPE_BF16};

    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        uint8_t fold[NODES][VECTOR_BYTES], doubling[VECTOR_BYTES], halves[VECTOR_BYTES], ring[VECTOR_BYTES];
        struct tt_reduction sum;
        const void *folded;
        size_t bytes;

        assert_int_equal(tt_reduction_init(&sum, types[i], TT_REDUCE_SUM), TUTTI_OK);
        bytes = (size_t)ELEMENTS * sum.element_bytes;
        must_have_one_pattern(TT_SCHEDULE_RECURSIVE_DOUBLING, &sum, doubling);
        must_have_one_pattern(TT_SCHEDULE_RABENSEIFNER, &sum, halves);
        must_have_one_pattern(TT_SCHEDULE_RING, &sum, ring);
        for (uint32_t rank = 0; rank < NODES; rank++) {
            fill(types[i], rank, fold[rank]);
        }
        folded = tt_fold(&sum, fold, VECTOR_BYTES, NODES, ELEMENTS);
        assert_memory_equal(doubling, folded, bytes);
        assert_memory_equal(halves, folded, bytes);
        assert_memory_not_equal(ring, folded, bytes); /* or the elements would not tell orders apart */
    }
}

static void the_one_tree_does_not_depend_on_pulses(void **state)
{
    static const enum tt_schedule_algorithm algorithms[] = {TT_SCHEDULE_RECURSIVE_DOUBLING, TT_SCHEDULE_RABENSEIFNER};
    static const uint64_t pulses[] = {1, 5, 16, 61};
    struct tt_reduction sum;

    (void)state;
    assert_int_equal(tt_reduction_init(&sum, TT_TYPE_FP32, TT_REDUCE_SUM), TUTTI_OK);
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
        uint8_t first[VECTOR_BYTES], result[VECTOR_BYTES];

        for (size_t k = 0; k < sizeof pulses / sizeof pulses[0]; k++) {
            allreduce(algorithms[i], &sum, pulses[k], k, k == 0 ? first : result);
            assert_true(k == 0 || memcmp(first, result, sizeof first) == 0);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_orders_of_arrival_give_one_pattern),
        cmocka_unit_test(the_one_tree_does_not_depend_on_pulses),
    };

    if (argc == 2) {
        first_seed = strtoull(argv[1], NULL, 10);
        end_seed = first_seed + 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
