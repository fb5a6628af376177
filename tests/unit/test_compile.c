/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules as descriptors: known sequences as a whole, and what holds of all of them for every rank of up to 33. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "offload/compile.h"

enum { MOST = 33, MOST_DESCRIPTORS = 400, ELEMENT_BYTES = 8, VECTOR = 64 };

static struct tt_descriptor compiled[MOST_DESCRIPTORS];
static uint64_t firsts[MOST], counts[MOST];

/* Compiles and decodes; returns how many there are. */
static uint64_t compile(enum tt_schedule_collective collective, enum tt_schedule_algorithm algorithm, uint32_t size,
                        uint32_t rank, const uint32_t *nodes)
{
    static struct tt_schedule_step steps[MOST_DESCRIPTORS];
    static uint8_t bytes[MOST_DESCRIPTORS * TT_DESCRIPTOR_BYTES];
    struct tt_schedule schedule;
    struct tt_compile_terms terms = {
        .schedule = &schedule, .rank = rank, .job = 7, .port = 3, .nodes = nodes, .element_bytes = ELEMENT_BYTES};
    uint64_t count = 0, largest_bytes = 0;

    assert_true(tt_schedule_init(&schedule, collective, algorithm, size, 0));
    struct tt_blocks blocks = {.block_count = tt_schedule_block_count(&schedule), .slice_count = VECTOR};

    if (tt_schedule_has_rank_blocks(&schedule)) {
        for (uint32_t i = 0; i < size; i++) {
            firsts[i] = 2 * i;
            counts[i] = 2;
        }
        blocks.firsts = firsts;
        blocks.counts = counts;
    }
    terms.blocks = &blocks;
    assert_true(tt_compile_room(&terms) <= MOST_DESCRIPTORS);
    assert_int_equal(tt_compile(&terms, steps, bytes, &count, &largest_bytes), TUTTI_OK);
    assert_in_range(count, 1, tt_compile_room(&terms));
    uint64_t longest = 0;

    for (uint64_t i = 0; i < count; i++) {
        assert_true(tt_descriptor_decode(bytes + i * TT_DESCRIPTOR_BYTES, &compiled[i]));
        longest = compiled[i].length_bytes > longest ? compiled[i].length_bytes : longest;
    }
    assert_int_equal(longest, largest_bytes);
    return count;
}

static void recursive_doubling_of_four_reduces_and_sends_in_one(void **state)
{
    (void)state;
    assert_int_equal(compile(TT_SCHEDULE_ALLREDUCE, TT_SCHEDULE_RECURSIVE_DOUBLING, 4, 2, NULL), 3);
    /* Send to 3; reduce what 3 sent, from the right, and send to 0; reduce what 0 sent, from the left. */
    assert_true(compiled[0].head && compiled[0].triggers && compiled[0].source_count == 0 && compiled[0].count == 0);
    assert_true(compiled[0].destination_node == 3 && compiled[0].sequence == 0 && !compiled[0].reduce);
    assert_true(!compiled[1].head && compiled[1].triggers && compiled[1].count == 1 && compiled[1].reduce);
    assert_true(compiled[1].sources[0] == 3 && !compiled[1].reduce_before);
    assert_true(compiled[1].destination_node == 0 && compiled[1].sequence == 1 && compiled[1].collective_end);
    assert_true(compiled[2].tail && !compiled[2].triggers && compiled[2].count == 2 && compiled[2].reduce);
    assert_true(compiled[2].sources[0] == 0 && compiled[2].reduce_before);
    assert_int_equal(compiled[2].length_bytes, VECTOR * ELEMENT_BYTES);
}

static void vertex_of_a_binomial_tree_fires_once_for_all_its_children(void **state)
{
    (void)state;
    assert_int_equal(compile(TT_SCHEDULE_REDUCE, TT_SCHEDULE_BINOMIAL, 16, 8, NULL), 1);
    assert_true(compiled[0].head && compiled[0].tail && compiled[0].reduce && compiled[0].triggers);
    assert_true(compiled[0].count == 3 && compiled[0].source_count == 3);
    assert_true(compiled[0].sources[0] == 9 && compiled[0].sources[1] == 10 && compiled[0].sources[2] == 12);
    /* It is the last child of the root, which is done then. */
    assert_true(compiled[0].destination_node == 0 && compiled[0].sequence == 3 && compiled[0].collective_end);
}

static void barrier_has_no_operand(void **state)
{
    (void)state;
    assert_int_equal(compile(TT_SCHEDULE_BARRIER, TT_SCHEDULE_DISSEMINATION, 5, 1, NULL), 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(compiled[i].length_bytes, 0);
        assert_false(compiled[i].reduce || compiled[i].swap_local_data);
        assert_int_equal(compiled[i].count, i);
    }
}

static void a_single_rank_has_one_descriptor_that_waits_for_nothing(void **state)
{
    (void)state;
    assert_int_equal(compile(TT_SCHEDULE_ALLREDUCE, TT_SCHEDULE_RING, 1, 0, NULL), 1);
    assert_true(compiled[0].head && compiled[0].tail && !compiled[0].triggers && compiled[0].source_count == 0);
}

static void ranks_are_named_by_their_nodes(void **state)
{
    static const uint32_t nodes[] = {0xABCDEF, 17, 0xFFFFFF};

    (void)state;
    assert_int_equal(compile(TT_SCHEDULE_BROADCAST, TT_SCHEDULE_BINOMIAL, 3, 0, nodes), 2);
    assert_int_equal(compiled[0].destination_node, 0xFFFFFF);
    assert_int_equal(compiled[1].destination_node, 17);
    assert_int_equal(compile(TT_SCHEDULE_BROADCAST, TT_SCHEDULE_BINOMIAL, 3, 1, nodes), 1);
    assert_int_equal(compiled[0].sources[0], 0xABCDEF);
}

/* SeqID counts a receiver's packets modulo 32, CPCount modulo 64. */
static void long_sequences_count_around(void **state)
{
    uint64_t read = 0, sent = 0;

    (void)state;
    uint64_t count = compile(TT_SCHEDULE_ALLREDUCE, TT_SCHEDULE_RING, 33, 5, NULL);

    for (uint64_t i = 0; i < count; i++) {
        read += compiled[i].source_count;
        assert_int_equal(compiled[i].count, read % 64);
        if (compiled[i].triggers) {
            assert_int_equal(compiled[i].sequence, sent % 32);
            sent++;
        }
    }
    assert_int_equal(read, 64);
    assert_int_equal(sent, 64);
}

/* Every packet that a rank sends is one that its destination reads under that number, and the other way round. */
static void check_pair(enum tt_schedule_collective collective, enum tt_schedule_algorithm algorithm)
{
    static uint8_t expected[MOST][MOST][TT_TRIGGER_STEPS], sent[MOST][MOST][TT_TRIGGER_STEPS]; /* to, from, SeqID */

    for (uint32_t size = 1; size <= MOST; size++) {
        memset(expected, 0, sizeof expected);
        memset(sent, 0, sizeof sent);
        for (uint32_t rank = 0; rank < size; rank++) {
            uint64_t count = compile(collective, algorithm, size, rank, NULL), read = 0;

            for (uint64_t i = 0; i < count; i++) {
                const struct tt_descriptor *d = &compiled[i];

                assert_true(d->collective && d->job == 7 && d->source_port == 3);
                assert_true(d->head == (i == 0) && d->tail == (i + 1 == count));
                assert_true(d->source_count > 0 || d->triggers || count == 1);
                for (uint32_t s = 0; s < d->source_count; s++) {
                    expected[rank][d->sources[s]][read++ % TT_TRIGGER_STEPS]++;
                }
                if (d->triggers) {
                    assert_int_equal(d->destination_port, 3);
                    sent[d->destination_node][rank][d->sequence]++;
                }
            }
        }
        assert_memory_equal(expected, sent, sizeof sent);
    }
}

static void what_is_sent_is_what_is_read(void **state)
{
    int pairs = 0;

    (void)state;
    for (int c = 0; c < TT_SCHEDULE_COLLECTIVE_COUNT; c++) {
        for (int a = 0; a < TT_SCHEDULE_ALGORITHM_COUNT; a++) {
            if (tt_schedule_is_known((enum tt_schedule_collective)c, (enum tt_schedule_algorithm)a)) {
                check_pair((enum tt_schedule_collective)c, (enum tt_schedule_algorithm)a);
                pairs++;
            }
        }
    }
    assert_int_equal(pairs, 17);
}

/* What has FromSource is what nothing was received into, element by element, and what is read from the buffer is all
 * given or written. */
static void check_sources(enum tt_schedule_collective collective, enum tt_schedule_algorithm algorithm)
{
    for (uint32_t size = 1; size <= MOST; size++) {
        for (uint32_t rank = 0; rank < size; rank++) {
            bool is_here[VECTOR + 2 * MOST] = {false};
            struct tt_schedule schedule;
            uint64_t count = compile(collective, algorithm, size, rank, NULL);
            uint32_t first = 0;

            assert_true(tt_schedule_init(&schedule, collective, algorithm, size, 0));
            struct tt_blocks blocks = {.block_count = tt_schedule_block_count(&schedule), .slice_count = VECTOR};

            if (tt_schedule_has_rank_blocks(&schedule)) {
                blocks.firsts = firsts;
                blocks.counts = counts;
            }
            for (uint32_t i = tt_schedule_given_blocks(&schedule, rank, &first); i > 0; i--) {
                struct tt_block_range range = tt_block_at(&blocks, first + i - 1);

                memset(is_here + range.first, true, range.count);
            }
            for (uint64_t i = 0; i < count; i++) {
                const struct tt_descriptor *d = &compiled[i];
                uint64_t begin = d->address_bytes / ELEMENT_BYTES, length = d->length_bytes / ELEMENT_BYTES;
                bool reads_own = d->reduce || d->source_count == 0;

                for (uint64_t e = begin; e < begin + length; e++) {
                    assert_true(!reads_own || d->from_source == !is_here[e]);
                    is_here[e] = is_here[e] || d->source_count > 0;
                }
            }
            /* So a rank that ends with all of the result has all of it. */
            bool has_all = collective == TT_SCHEDULE_ALLREDUCE || collective == TT_SCHEDULE_ALLGATHER ||
                           collective == TT_SCHEDULE_BROADCAST ||
                           (rank == 0 && (collective == TT_SCHEDULE_REDUCE || collective == TT_SCHEDULE_GATHER));

            for (uint32_t block = 0; block < blocks.block_count && collective != TT_SCHEDULE_BARRIER; block++) {
                struct tt_block_range range = tt_block_at(&blocks, block);
                bool is_own = tt_schedule_has_rank_blocks(&schedule) && block == rank;

                for (uint64_t e = range.first; e < range.first + range.count; e++) {
                    assert_true(is_here[e] || !(has_all || is_own));
                }
            }
        }
    }
}

static void what_is_read_from_a_source_has_not_been_written(void **state)
{
    (void)state;
    for (int c = 0; c < TT_SCHEDULE_COLLECTIVE_COUNT; c++) {
        for (int a = 0; a < TT_SCHEDULE_ALGORITHM_COUNT; a++) {
            if (tt_schedule_is_known((enum tt_schedule_collective)c, (enum tt_schedule_algorithm)a)) {
                check_sources((enum tt_schedule_collective)c, (enum tt_schedule_algorithm)a);
            }
        }
    }
}

static void rabenseifner_on_32_nodes_takes_the_papers_ten_steps(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 32; rank++) {
        uint64_t count = compile(TT_SCHEDULE_ALLREDUCE, TT_SCHEDULE_RABENSEIFNER, 32, rank, NULL);

        assert_int_equal(compiled[count - 1].count, 10);
    }
}

static void operand_that_no_packet_can_hold_is_refused(void **state)
{
    struct tt_schedule schedule;
    struct tt_blocks blocks = {.block_count = 1, .slice_count = UINT64_C(1) << 32};
    struct tt_schedule_step steps[4];
    uint8_t bytes[4 * TT_DESCRIPTOR_BYTES];
    uint64_t count = 0, largest_bytes = 0;

    (void)state;
    assert_true(tt_schedule_init(&schedule, TT_SCHEDULE_BROADCAST, TT_SCHEDULE_BINOMIAL, 2, 0));
    struct tt_compile_terms terms = {.schedule = &schedule, .blocks = &blocks, .element_bytes = 1};

    assert_int_equal(tt_compile(&terms, steps, bytes, &count, &largest_bytes), TUTTI_ERR_TOO_LARGE);
    assert_int_equal(count, 0);
    blocks.slice_count--;
    assert_int_equal(tt_compile(&terms, steps, bytes, &count, &largest_bytes), TUTTI_OK);
    assert_true(count == 1 && largest_bytes == UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recursive_doubling_of_four_reduces_and_sends_in_one),
        cmocka_unit_test(vertex_of_a_binomial_tree_fires_once_for_all_its_children),
        cmocka_unit_test(barrier_has_no_operand),
        cmocka_unit_test(a_single_rank_has_one_descriptor_that_waits_for_nothing),
        cmocka_unit_test(ranks_are_named_by_their_nodes),
        cmocka_unit_test(long_sequences_count_around),
        cmocka_unit_test(what_is_sent_is_what_is_read),
        cmocka_unit_test(what_is_read_from_a_source_has_not_been_written),
        cmocka_unit_test(rabenseifner_on_32_nodes_takes_the_papers_ten_steps),
        cmocka_unit_test(operand_that_no_packet_can_hold_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
