/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of methods: its text, and its answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plan/choice.h"
#include "plan/fold_tree.h"

enum { EAGER_MOST = 32768, TREE_MOST = 65536 };

/* As proto/eager.h has it, of what comes together. */
static uint64_t gather_most(enum tt_collective_kind kind, uint32_t size)
{
    if (tt_kind_row(kind)->combines && tt_fold_tree_serves(size, tt_kind_has_root(kind))) {
        return (uint64_t)EAGER_MOST * (size > 2 ? size : 2);
    }
    return tt_kind_row(kind)->combines ? 2 * EAGER_MOST : EAGER_MOST;
}

static enum tt_method ask_where_eager(const struct tt_choice *choice, enum tt_collective_kind kind, bool multicast,
                                      uint32_t size, uint64_t bytes, uint64_t eager_most)
{
    struct tt_choice_question question = {.kind = kind,
                                          .multicast = multicast,
                                          .size = size,
                                          .block_bytes = bytes,
                                          .eager_most_bytes = eager_most,
                                          .gather_most_bytes = gather_most(kind, size),
                                          .tree_most_bytes = TREE_MOST};

    return tt_choice_of(choice, &question);
}

static enum tt_method ask(const struct tt_choice *choice, enum tt_collective_kind kind, bool multicast, uint32_t size,
                          uint64_t bytes)
{
    return ask_where_eager(choice, kind, multicast, size, bytes, EAGER_MOST);
}

static void parse(const char *text, struct tt_choice *choice)
{
    struct tt_choice_fault fault;
    const char *measured;
    size_t measured_bytes;

    if (!tt_choice_parse(text, strlen(text), choice, &measured, &measured_bytes, &fault)) {
        fail_msg("line %u, '%.*s': %s", fault.line, (int)fault.word_bytes, fault.word, fault.reason);
    }
}

static void the_built_in_table_is_sound_and_knows_every_kind_and_network(void **state)
{
    struct tt_choice copy = *tt_choice_default();

    (void)state;
    assert_true(tt_choice_is_sound(&copy));
    assert_true(tt_choice_complete(&copy));
    assert_int_equal(copy.row_count, tt_choice_default()->row_count);
}

static void the_built_in_table_always_gives_a_method_that_can_serve(void **state)
{
    (void)state;
    for (uint32_t size = 1; size < 70; size++) {
        for (uint64_t bytes = 0; bytes < UINT64_C(1) << 30; bytes = bytes * 2 + 1) {
            for (unsigned multicast = 0; multicast < 2; multicast++) {
                for (unsigned kind = 2 * TT_BROADCAST; kind < 2 * TT_KIND_COUNT; kind++) {
                    struct tt_choice_question question = {.kind = (enum tt_collective_kind)(kind / 2),
                                                          .multicast = multicast,
                                                          .size = size,
                                                          .block_bytes = bytes,
                                                          .one_tree = tt_kind_row(kind / 2)->combines && kind % 2,
                                                          .eager_most_bytes = EAGER_MOST,
                                                          .gather_most_bytes =
                                                              gather_most((enum tt_collective_kind)(kind / 2), size),
                                                          .tree_most_bytes = TREE_MOST};
                    enum tt_method method = tt_choice_of(tt_choice_default(), &question);

                    assert_true(tt_choice_possible(&question, method));
                    assert_true(bytes == 0 || !question.one_tree || tt_method_row(method)->one_tree);
                }
            }
        }
    }
}

/* What the built-in table says on both sides of each limit, written down here once more: whoever changes the table has
 * to mean it. Groups have as many ranks as each section begins with; 32 KiB is all that is eager of all
 * blocks here, or gathered, and of a vector that is combined on the way up, so that a row may end before the next one
 * begins. */
static void limits_of_the_built_in_table_hold_at_the_byte(void **state)
{
    static const struct {
        enum tt_collective_kind kind;
        uint32_t multicast, ranks;
        uint64_t bytes;
        enum tt_method method;
    } limits[] = {
        {TT_BROADCAST, 1, 2, 1, TT_METHOD_EAGER},
        {TT_BROADCAST, 1, 2, 32768, TT_METHOD_EAGER},
        {TT_BROADCAST, 1, 2, 32769, TT_METHOD_MULTICAST},
        {TT_BROADCAST, 1, 2, UINT64_MAX, TT_METHOD_MULTICAST},
        {TT_ALLGATHER, 1, 2, 1, TT_METHOD_EAGER},
        {TT_ALLGATHER, 1, 2, 16384, TT_METHOD_EAGER},
        {TT_ALLGATHER, 1, 2, 16385, TT_METHOD_MULTICAST},
        {TT_ALLGATHER, 1, 2, UINT64_MAX, TT_METHOD_MULTICAST},
        {TT_ALLGATHER, 1, 3, 1, TT_METHOD_GATHER},
        {TT_ALLGATHER, 1, 3, 2048, TT_METHOD_GATHER},
        {TT_ALLGATHER, 1, 3, 2049, TT_METHOD_EAGER},
        {TT_ALLGATHER, 1, 3, 8192, TT_METHOD_EAGER},
        {TT_ALLGATHER, 1, 3, 8193, TT_METHOD_MULTICAST},
        {TT_ALLGATHER, 1, 3, UINT64_MAX, TT_METHOD_MULTICAST},
        {TT_REDUCE, 1, 2, 1, TT_METHOD_BINOMIAL},
        {TT_REDUCE, 1, 2, 16384, TT_METHOD_BINOMIAL},
        {TT_REDUCE, 1, 2, 16385, TT_METHOD_RABENSEIFNER},
        {TT_REDUCE, 1, 2, UINT64_MAX, TT_METHOD_RABENSEIFNER},
        {TT_REDUCE, 1, 3, 1, TT_METHOD_GATHER},
        {TT_REDUCE, 1, 3, 16384, TT_METHOD_GATHER},
        {TT_REDUCE, 1, 3, 16385, TT_METHOD_RABENSEIFNER},
        {TT_REDUCE, 1, 3, UINT64_MAX, TT_METHOD_RABENSEIFNER},
        {TT_REDUCE, 1, 17, 1, TT_METHOD_GATHER},
        {TT_REDUCE, 1, 17, 3855, TT_METHOD_GATHER},
        {TT_REDUCE, 1, 17, 3856, TT_METHOD_BINOMIAL},
        {TT_REDUCE, 1, 17, 4097, TT_METHOD_BINOMIAL},
        {TT_REDUCE, 1, 17, 16384, TT_METHOD_BINOMIAL},
        {TT_REDUCE, 1, 17, 16385, TT_METHOD_RABENSEIFNER},
        {TT_REDUCE, 1, 17, UINT64_MAX, TT_METHOD_RABENSEIFNER},
        {TT_REDUCE, 1, 32, 1, TT_METHOD_GATHER},
        {TT_REDUCE, 1, 32, 16384, TT_METHOD_GATHER},
        {TT_REDUCE, 1, 32, 16385, TT_METHOD_RABENSEIFNER},
        {TT_REDUCE, 1, 32, UINT64_MAX, TT_METHOD_RABENSEIFNER},
        {TT_REDUCE, 1, 33, 1, TT_METHOD_GATHER},
        {TT_REDUCE, 1, 33, 1985, TT_METHOD_GATHER},
        {TT_REDUCE, 1, 33, 1986, TT_METHOD_BINOMIAL},
        {TT_REDUCE, 1, 33, 4097, TT_METHOD_BINOMIAL},
        {TT_REDUCE, 1, 33, 16384, TT_METHOD_BINOMIAL},
        {TT_REDUCE, 1, 33, 16385, TT_METHOD_RABENSEIFNER},
        {TT_REDUCE, 1, 33, UINT64_MAX, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 1, 2, 1, TT_METHOD_EAGER},
        {TT_ALLREDUCE, 1, 2, 16384, TT_METHOD_EAGER},
        {TT_ALLREDUCE, 1, 2, 16385, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLREDUCE, 1, 2, 32769, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLREDUCE, 1, 2, 262144, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLREDUCE, 1, 2, 262145, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 2, UINT64_MAX, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 3, 1, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 3, 2048, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 3, 2049, TT_METHOD_EAGER},
        {TT_ALLREDUCE, 1, 3, 6144, TT_METHOD_EAGER},
        {TT_ALLREDUCE, 1, 3, 6145, TT_METHOD_EAGER_PARTS},
        {TT_ALLREDUCE, 1, 3, 32766, TT_METHOD_EAGER_PARTS},
        {TT_ALLREDUCE, 1, 3, 32767, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 3, 65537, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 3, UINT64_MAX, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 4, 1, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 4, 16384, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 4, 16385, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 1, 4, 131072, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 1, 4, 131073, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 4, UINT64_MAX, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 5, 1, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 5, 32768, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 5, 32769, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 5, UINT64_MAX, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 8, 1, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 8, 16384, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 8, 16385, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 1, 8, 131072, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 1, 8, 131073, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 8, UINT64_MAX, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 9, 1, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 9, 24576, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 9, 24577, TT_METHOD_EAGER_PARTS},
        {TT_ALLREDUCE, 1, 9, 32760, TT_METHOD_EAGER_PARTS},
        {TT_ALLREDUCE, 1, 9, 32761, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 9, 65537, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 9, UINT64_MAX, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 16, 1, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 16, 32768, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 16, 32769, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 1, 16, 114688, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 1, 16, 114689, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 16, UINT64_MAX, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 17, 1, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 17, 32768, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 17, 32769, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 1, 17, 65536, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 1, 17, 65537, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 17, UINT64_MAX, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 32, 1, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 32, 32768, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 32, 32769, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 1, 32, 114688, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 1, 32, 114689, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 32, UINT64_MAX, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 33, 1, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 33, 32768, TT_METHOD_GATHER},
        {TT_ALLREDUCE, 1, 33, 32769, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 1, 33, 65536, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 1, 33, 65537, TT_METHOD_PARTS},
        {TT_ALLREDUCE, 1, 33, UINT64_MAX, TT_METHOD_PARTS},
        {TT_REDUCE_SCATTER, 1, 2, 1, TT_METHOD_EAGER},
        {TT_REDUCE_SCATTER, 1, 2, 16384, TT_METHOD_EAGER},
        {TT_REDUCE_SCATTER, 1, 2, 16385, TT_METHOD_DIRECT},
        {TT_REDUCE_SCATTER, 1, 2, 32769, TT_METHOD_DIRECT},
        {TT_REDUCE_SCATTER, 1, 2, UINT64_MAX, TT_METHOD_DIRECT},
        {TT_REDUCE_SCATTER, 1, 3, 1, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 3, 3072, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 3, 3073, TT_METHOD_DIRECT},
        {TT_REDUCE_SCATTER, 1, 3, 16384, TT_METHOD_DIRECT},
        {TT_REDUCE_SCATTER, 1, 3, 16385, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 3, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 4, 1, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 4, 4096, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 4, 4097, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 4, 131072, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 4, 131073, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 4, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 5, 1, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 5, 4096, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 5, 4097, TT_METHOD_DIRECT},
        {TT_REDUCE_SCATTER, 1, 5, 16384, TT_METHOD_DIRECT},
        {TT_REDUCE_SCATTER, 1, 5, 16385, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 5, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 8, 1, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 8, 8192, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 8, 8193, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 8, 131072, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 8, 131073, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 8, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 9, 1, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 9, 12288, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 9, 12289, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 9, 20480, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 9, 20481, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 9, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 16, 1, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 16, 16384, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 16, 16385, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 16, 98304, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 16, 98305, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 16, 196608, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 16, 196609, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 16, 393216, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 16, 393217, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 16, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 17, 1, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 17, 16384, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 17, 16385, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 17, 49152, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 17, 49153, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 17, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 32, 1, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 32, 16384, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 32, 16385, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 32, 131072, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 32, 131073, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 32, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 33, 1, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 33, 16384, TT_METHOD_GATHER},
        {TT_REDUCE_SCATTER, 1, 33, 16385, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 33, 49152, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 1, 33, 49153, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 1, 33, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_GATHER, 1, 2, 1, TT_METHOD_DIRECT},
        {TT_GATHER, 1, 2, UINT64_MAX, TT_METHOD_DIRECT},
        {TT_SCATTER, 1, 2, 1, TT_METHOD_DIRECT},
        {TT_SCATTER, 1, 2, UINT64_MAX, TT_METHOD_DIRECT},
        {TT_BROADCAST, 0, 2, 1, TT_METHOD_BINOMIAL},
        {TT_BROADCAST, 0, 2, 131072, TT_METHOD_BINOMIAL},
        {TT_BROADCAST, 0, 2, 131073, TT_METHOD_RING},
        {TT_BROADCAST, 0, 2, UINT64_MAX, TT_METHOD_RING},
        {TT_BROADCAST, 0, 3, 1, TT_METHOD_TREE},
        {TT_BROADCAST, 0, 3, 8192, TT_METHOD_TREE},
        {TT_BROADCAST, 0, 3, 8193, TT_METHOD_DOUBLE_TREE},
        {TT_BROADCAST, 0, 3, 1048576, TT_METHOD_DOUBLE_TREE},
        {TT_BROADCAST, 0, 3, 1048577, TT_METHOD_BINOMIAL_PIPELINE},
        {TT_BROADCAST, 0, 3, UINT64_MAX, TT_METHOD_BINOMIAL_PIPELINE},
        {TT_BROADCAST, 0, 12, 1, TT_METHOD_TREE},
        {TT_BROADCAST, 0, 12, 16384, TT_METHOD_TREE},
        {TT_BROADCAST, 0, 12, 16385, TT_METHOD_DOUBLE_TREE},
        {TT_BROADCAST, 0, 12, 1048576, TT_METHOD_DOUBLE_TREE},
        {TT_BROADCAST, 0, 12, 1048577, TT_METHOD_BINOMIAL_PIPELINE},
        {TT_BROADCAST, 0, 12, UINT64_MAX, TT_METHOD_BINOMIAL_PIPELINE},
        {TT_ALLGATHER, 0, 2, 1, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLGATHER, 0, 2, 65536, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLGATHER, 0, 2, 65537, TT_METHOD_RING},
        {TT_ALLGATHER, 0, 2, UINT64_MAX, TT_METHOD_RING},
        {TT_ALLGATHER, 0, 3, 1, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLGATHER, 0, 3, 16384, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLGATHER, 0, 3, 16385, TT_METHOD_TRIGGERED_RING},
        {TT_ALLGATHER, 0, 3, 262144, TT_METHOD_TRIGGERED_RING},
        {TT_ALLGATHER, 0, 3, 262145, TT_METHOD_RING},
        {TT_ALLGATHER, 0, 3, UINT64_MAX, TT_METHOD_RING},
        {TT_ALLGATHER, 0, 5, 1, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLGATHER, 0, 5, 8192, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLGATHER, 0, 5, 8193, TT_METHOD_TRIGGERED_RING},
        {TT_ALLGATHER, 0, 5, 262144, TT_METHOD_TRIGGERED_RING},
        {TT_ALLGATHER, 0, 5, 262145, TT_METHOD_RING},
        {TT_ALLGATHER, 0, 5, UINT64_MAX, TT_METHOD_RING},
        {TT_ALLGATHER, 0, 12, 1, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLGATHER, 0, 12, 4096, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLGATHER, 0, 12, 4097, TT_METHOD_TRIGGERED_RING},
        {TT_ALLGATHER, 0, 12, 262144, TT_METHOD_TRIGGERED_RING},
        {TT_ALLGATHER, 0, 12, 262145, TT_METHOD_RING},
        {TT_ALLGATHER, 0, 12, UINT64_MAX, TT_METHOD_RING},
        {TT_ALLGATHER, 0, 16, 1, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLGATHER, 0, 16, 8192, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLGATHER, 0, 16, 8193, TT_METHOD_TRIGGERED_RING},
        {TT_ALLGATHER, 0, 16, 131072, TT_METHOD_TRIGGERED_RING},
        {TT_ALLGATHER, 0, 16, 131073, TT_METHOD_RING},
        {TT_ALLGATHER, 0, 16, UINT64_MAX, TT_METHOD_RING},
        {TT_ALLGATHER, 0, 17, 1, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLGATHER, 0, 17, 2048, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLGATHER, 0, 17, 2049, TT_METHOD_TRIGGERED_RING},
        {TT_ALLGATHER, 0, 17, 131072, TT_METHOD_TRIGGERED_RING},
        {TT_ALLGATHER, 0, 17, 131073, TT_METHOD_RING},
        {TT_ALLGATHER, 0, 17, UINT64_MAX, TT_METHOD_RING},
        {TT_REDUCE, 0, 2, 1, TT_METHOD_BINOMIAL},
        {TT_REDUCE, 0, 2, 16384, TT_METHOD_BINOMIAL},
        {TT_REDUCE, 0, 2, 16385, TT_METHOD_RABENSEIFNER},
        {TT_REDUCE, 0, 2, UINT64_MAX, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 0, 2, 1, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLREDUCE, 0, 2, 16384, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLREDUCE, 0, 2, 16385, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 0, 2, 65536, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 0, 2, 65537, TT_METHOD_TRIGGERED_RING},
        {TT_ALLREDUCE, 0, 2, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_ALLREDUCE, 0, 3, 1, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLREDUCE, 0, 3, 16384, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLREDUCE, 0, 3, 16385, TT_METHOD_TRIGGERED_RING},
        {TT_ALLREDUCE, 0, 3, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_ALLREDUCE, 0, 4, 1, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLREDUCE, 0, 4, 16384, TT_METHOD_RECURSIVE_DOUBLING},
        {TT_ALLREDUCE, 0, 4, 16385, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 0, 4, 65536, TT_METHOD_RABENSEIFNER},
        {TT_ALLREDUCE, 0, 4, 65537, TT_METHOD_TRIGGERED_RING},
        {TT_ALLREDUCE, 0, 4, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 0, 2, 1, TT_METHOD_DIRECT},
        {TT_REDUCE_SCATTER, 0, 2, UINT64_MAX, TT_METHOD_DIRECT},
        {TT_REDUCE_SCATTER, 0, 3, 1, TT_METHOD_DIRECT},
        {TT_REDUCE_SCATTER, 0, 3, 16384, TT_METHOD_DIRECT},
        {TT_REDUCE_SCATTER, 0, 3, 16385, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 0, 3, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 0, 8, 1, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 0, 8, 49152, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 0, 8, 49153, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 0, 8, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 0, 16, 1, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 0, 16, 98304, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 0, 16, 98305, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 0, 16, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 0, 17, 1, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 0, 17, 49152, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 0, 17, 49153, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 0, 17, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 0, 32, 1, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 0, 32, 131072, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 0, 32, 131073, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 0, 32, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 0, 33, 1, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 0, 33, 49152, TT_METHOD_RECURSIVE_HALVING},
        {TT_REDUCE_SCATTER, 0, 33, 49153, TT_METHOD_TRIGGERED_RING},
        {TT_REDUCE_SCATTER, 0, 33, UINT64_MAX, TT_METHOD_TRIGGERED_RING},
        {TT_GATHER, 0, 2, 1, TT_METHOD_DIRECT},
        {TT_GATHER, 0, 2, UINT64_MAX, TT_METHOD_DIRECT},
        {TT_SCATTER, 0, 2, 1, TT_METHOD_DIRECT},
        {TT_SCATTER, 0, 2, UINT64_MAX, TT_METHOD_DIRECT},
    };
    const struct tt_choice *choice = tt_choice_default();

    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        enum tt_method method = ask(choice, limits[i].kind, limits[i].multicast, limits[i].ranks, limits[i].bytes);

        if (method != limits[i].method) {
            fail_msg("%s of %u ranks, %llu bytes: %s, not %s", tt_kind_word(limits[i].kind), limits[i].ranks,
                     (unsigned long long)limits[i].bytes, tt_method_row(method)->word,
                     tt_method_row(limits[i].method)->word);
        }
    }
    /* No row is without an expectation. */
    assert_int_equal(choice->row_count, 131);
    for (uint32_t i = 0; i < choice->row_count; i++) {
        const struct tt_choice_row *row = &choice->rows[i];
        bool is_expected = false;

        for (size_t k = 0; k < sizeof limits / sizeof limits[0]; k++) {
            is_expected |= limits[k].kind == row->kind && limits[k].multicast == row->multicast &&
                           limits[k].ranks == row->ranks &&
                           limits[k].bytes == (row->from_bytes == 0 ? 1 : row->from_bytes);
        }
        if (!is_expected) {
            fail_msg("nothing is expected of %s of %u ranks from %llu bytes on", tt_kind_word(row->kind), row->ranks,
                     (unsigned long long)row->from_bytes);
        }
    }
}

/* In a group twice as much is eager of what all ranks give to, so that no row of it is hidden by the next one. */
static void rows_of_eager_parts_hold_at_the_byte_where_twice_as_much_is_eager(void **state)
{
    static const struct {
        uint32_t ranks;
        uint64_t bytes;
        enum tt_method method;
    } limits[] = {
        {3, 65535, TT_METHOD_EAGER_PARTS}, {3, 65536, TT_METHOD_PARTS},  {5, 32768, TT_METHOD_GATHER},
        {5, 32769, TT_METHOD_PARTS},       {9, 24576, TT_METHOD_GATHER}, {9, 24577, TT_METHOD_EAGER_PARTS},
        {9, 65529, TT_METHOD_EAGER_PARTS}, {9, 65530, TT_METHOD_PARTS},  {12, 65532, TT_METHOD_EAGER_PARTS},
        {12, 65533, TT_METHOD_PARTS},
    };

    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        assert_int_equal(ask_where_eager(tt_choice_default(), TT_ALLREDUCE, true, limits[i].ranks, limits[i].bytes,
                                         (uint64_t)2 * EAGER_MOST),
                         limits[i].method);
    }
}

/* Two ranks that get parts of different lengths send whole vectors, and only short ones. */
static void two_ranks_exchange_uneven_parts_only_while_vectors_are_short(void **state)
{
    struct tt_choice_question question = {.kind = TT_REDUCE_SCATTER,
                                          .multicast = true,
                                          .size = 2,
                                          .block_bytes = 3072,
                                          .uneven = true,
                                          .eager_most_bytes = (uint64_t)2 * EAGER_MOST};

    (void)state;
    assert_int_equal(tt_choice_of(tt_choice_default(), &question), TT_METHOD_EAGER);
    question.block_bytes++;
    assert_int_equal(tt_choice_of(tt_choice_default(), &question), TT_METHOD_DIRECT);
    question.uneven = false;
    assert_int_equal(tt_choice_of(tt_choice_default(), &question), TT_METHOD_EAGER);
}

static void the_built_in_table_gathers_small_blocks_from_three_ranks_on(void **state)
{
    (void)state;
    assert_int_equal(ask(tt_choice_default(), TT_ALLGATHER, true, 2, 1), TT_METHOD_EAGER);
    for (uint32_t size = 3; size < 70; size++) {
        assert_int_equal(ask(tt_choice_default(), TT_ALLGATHER, true, size, 1), TT_METHOD_GATHER);
        assert_int_equal(ask(tt_choice_default(), TT_BROADCAST, true, size, 1), TT_METHOD_EAGER);
    }
}

static void methods_that_keep_copies_have_room_for_all_blocks_at_the_byte(void **state)
{
    static const enum tt_method methods[] = {TT_METHOD_EAGER, TT_METHOD_GATHER};
    struct tt_choice choices[2];

    (void)state;
    parse("tutti-table 1\nbroadcast multicast 2 0 eager\nallgather multicast 2 0 eager\n", &choices[0]);
    parse("tutti-table 1\nbroadcast multicast 2 0 eager\nallgather multicast 2 0 gather\n", &choices[1]);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ask(&choices[i], TT_BROADCAST, true, 8, EAGER_MOST), TT_METHOD_EAGER);
        assert_int_equal(ask(&choices[i], TT_BROADCAST, true, 8, EAGER_MOST + 1), TT_METHOD_MULTICAST);
        for (uint32_t size = 2; size < 70; size++) {
            assert_int_equal(ask(&choices[i], TT_ALLGATHER, true, size, EAGER_MOST / size), methods[i]);
            assert_int_equal(ask(&choices[i], TT_ALLGATHER, true, size, EAGER_MOST / size + 1), TT_METHOD_MULTICAST);
        }
        assert_int_equal(ask(&choices[i], TT_ALLGATHER, true, 8, UINT64_MAX), TT_METHOD_MULTICAST);
    }
}

/* Of a broadcast there is nothing to gather; but of a barrier, which has no bytes. */
static void gathering_serves_allgathers_and_barriers_where_multicast_gets_through(void **state)
{
    (void)state;
    for (uint32_t variant = 0; variant < 8; variant++) {
        struct tt_choice_question question = {.kind = variant & 1 ? TT_ALLGATHER : TT_BROADCAST,
                                              .multicast = variant & 2,
                                              .size = 8,
                                              .block_bytes = variant & 4 ? 1 : 0,
                                              .eager_most_bytes = EAGER_MOST,
                                              .gather_most_bytes = EAGER_MOST,
                                              .tree_most_bytes = TREE_MOST};

        assert_int_equal(tt_choice_possible(&question, TT_METHOD_GATHER), variant == 2 || variant == 3 || variant == 7);
    }
}

/* An eager Broadcast has one sender, who would learn nothing of the other rank. */
static enum tt_method of_two(enum tt_method method, enum tt_collective_kind kind)
{
    return method == TT_METHOD_EAGER && kind == TT_BROADCAST ? TT_METHOD_MULTICAST : method;
}

static void no_bytes_are_a_barrier_whatever_it_is_called(void **state)
{
    static const struct {
        const char *text;
        enum tt_method of_two, of_three; /* where multicast gets through */
    } tables[] = {
        {"broadcast multicast 2 0 eager\n", TT_METHOD_EAGER, TT_METHOD_GATHER},
        {"allgather multicast 2 0 eager\n", TT_METHOD_EAGER, TT_METHOD_GATHER},
        {"allgather multicast 2 0 gather\n", TT_METHOD_GATHER, TT_METHOD_GATHER},
        {"allgather multicast 2 0 multicast\n", TT_METHOD_MULTICAST, TT_METHOD_MULTICAST},
        {"broadcast multicast 2 0 tree\nallgather multicast 2 0 ring\n", TT_METHOD_RING, TT_METHOD_RING},
        {"allgather multicast 2 0 ring\nallgather multicast 3 0 eager\n", TT_METHOD_RING, TT_METHOD_GATHER},
    };

    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        struct tt_choice choice;
        char text[128];

        strcpy(text, "tutti-table 1\n");
        strcat(text, tables[i].text);
        parse(text, &choice);
        for (unsigned kind = TT_BROADCAST; kind <= TT_ALLGATHER; kind++) {
            assert_int_equal(ask(&choice, (enum tt_collective_kind)kind, true, 2, 0),
                             of_two(tables[i].of_two, (enum tt_collective_kind)kind));
            assert_int_equal(ask(&choice, (enum tt_collective_kind)kind, true, 3, 0), tables[i].of_three);
            assert_int_equal(ask(&choice, (enum tt_collective_kind)kind, true, 64, 0), tables[i].of_three);
            assert_int_equal(ask(&choice, (enum tt_collective_kind)kind, false, 8, 0), TT_METHOD_RING);
        }
    }
    for (unsigned kind = TT_BROADCAST; kind <= TT_ALLGATHER; kind++) {
        assert_int_equal(ask(tt_choice_default(), (enum tt_collective_kind)kind, true, 2, 0),
                         of_two(TT_METHOD_EAGER, (enum tt_collective_kind)kind));
        assert_int_equal(ask(tt_choice_default(), (enum tt_collective_kind)kind, true, 3, 0), TT_METHOD_GATHER);
        assert_int_equal(ask(tt_choice_default(), (enum tt_collective_kind)kind, false, 8, 0), TT_METHOD_RING);
    }
}

static void a_method_that_cannot_serve_stands_aside(void **state)
{
    struct tt_choice choice;

    (void)state;
    parse("tutti-table 1\n"
          "broadcast multicast 2 0 tree\n"
          "broadcast point-to-point 2 0 tree\n"
          "allgather multicast 2 0 eager\n",
          &choice);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, TREE_MOST), TT_METHOD_TREE);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, TREE_MOST + 1), TT_METHOD_MULTICAST);
    assert_int_equal(ask(&choice, TT_BROADCAST, false, 8, TREE_MOST + 1), TT_METHOD_RING);
    assert_int_equal(ask(&choice, TT_ALLGATHER, true, 8, EAGER_MOST), TT_METHOD_MULTICAST);
}

static void the_section_with_the_most_ranks_that_fit_counts(void **state)
{
    struct tt_choice choice;

    (void)state;
    parse("tutti-table 1\n"
          "broadcast multicast 16 0 multicast\n"
          "broadcast multicast 4 0 chain\n"
          "broadcast multicast 8 0 tree\n",
          &choice);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 2, 100), TT_METHOD_RING); /* none fits: the one with the fewest */
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 4, 100), TT_METHOD_RING);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 7, 100), TT_METHOD_RING);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, 100), TT_METHOD_TREE);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 15, 100), TT_METHOD_TREE);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 16, 100), TT_METHOD_MULTICAST);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 60000, 100), TT_METHOD_MULTICAST);
}

static void a_text_says_sizes_with_units_and_comments(void **state)
{
    static const char text[] = "# by hand\r\n"
                               "\r\n"
                               "  tutti-table\t1   # the version\r\n"
                               "measured 8 hosts, # 500 Mbit/s\n"
                               "broadcast multicast 8 0 eager\n"
                               "broadcast multicast 8 2K tree#small\n"
                               "broadcast multicast 8 5000 multicast\n"
                               "broadcast multicast 8 1M chain";
    struct tt_choice choice;
    struct tt_choice_fault fault;
    const char *measured;
    size_t measured_bytes;

    (void)state;
    assert_true(tt_choice_parse(text, sizeof text - 1, &choice, &measured, &measured_bytes, &fault));
    assert_int_equal(measured_bytes, strlen("8 hosts, # 500 Mbit/s"));
    assert_memory_equal(measured, "8 hosts, # 500 Mbit/s", measured_bytes);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, 2047), TT_METHOD_EAGER);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, 2048), TT_METHOD_TREE);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, 4999), TT_METHOD_TREE);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, 5000), TT_METHOD_MULTICAST);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, 1 << 20), TT_METHOD_RING);
    /* What it does not speak of is as built in. */
    for (uint64_t bytes = 1; bytes < UINT64_C(1) << 30; bytes *= 2) {
        assert_int_equal(ask(&choice, TT_ALLGATHER, true, 8, bytes),
                         ask(tt_choice_default(), TT_ALLGATHER, true, 8, bytes));
        assert_int_equal(ask(&choice, TT_BROADCAST, false, 8, bytes),
                         ask(tt_choice_default(), TT_BROADCAST, false, 8, bytes));
    }
}

struct bad {
    const char *text;
    uint32_t line;
    const char *word;
};

static void what_is_no_table_is_refused_with_line_and_word(void **state)
{
    static const struct bad bads[] = {
        {"", 0, ""},
        {"\n\n# nothing\n", 3, ""},
        {"tutti-tables 1\n", 1, "tutti-tables"},
        {"tutti-table\n", 1, ""},
        {"tutti-table 2\n", 1, "2"},
        {"tutti-table 1 1\n", 1, "1"},
        {"tutti-table 1\n", 1, ""},
        {"tutti-table 1\nmeasured x\n", 2, "measured"},
        {"tutti-table 1\n\nreduction multicast 2 0 eager\n", 3, "reduction"},
        {"tutti-table 1\nreduce multicast 2 0 eager\n", 2, "eager"},
        {"tutti-table 1\nallreduce multicast 2 0 tree\n", 2, "tree"},
        {"tutti-table 1\nbroadcast ethernet 2 0 eager\n", 2, "ethernet"},
        {"tutti-table 1\nbroadcast multicast 0 0 eager\n", 2, "0"},
        {"tutti-table 1\nbroadcast multicast two 0 eager\n", 2, "two"},
        {"tutti-table 1\nbroadcast multicast 4294967296 0 eager\n", 2, "4294967296"},
        {"tutti-table 1\nbroadcast multicast 2 -1 eager\n", 2, "-1"},
        {"tutti-table 1\nbroadcast multicast 2 K eager\n", 2, "K"},
        {"tutti-table 1\nbroadcast multicast 2 99999999999999M eager\n", 2, "99999999999999M"},
        {"tutti-table 1\nbroadcast multicast 2 9999999999999999 eager\n", 2, "9999999999999999"},
        {"tutti-table 1\nbroadcast multicast 2 0 fast\n", 2, "fast"},
        {"tutti-table 1\nbroadcast multicast 2 0\n", 2, ""},
        {"tutti-table 1\nbroadcast multicast 2 0 eager now\n", 2, "now"},
        {"tutti-table 1\nbroadcast multicast 2 1 eager\n", 2, "eager"},
        {"tutti-table 1\nbroadcast point-to-point 2 0 eager\n", 2, "eager"},
        {"tutti-table 1\nbroadcast point-to-point 2 0 multicast\n", 2, "multicast"},
        {"tutti-table 1\nallgather multicast 2 0 tree\n", 2, "tree"},
        {"tutti-table 1\nbroadcast multicast 2 0 gather\n", 2, "gather"},
        {"tutti-table 1\nallgather point-to-point 2 0 gather\n", 2, "gather"},
        {"tutti-table 1\nallgather multicast 2 0 ring\nallgather multicast 2 0 ring\n", 3, "ring"},
        {"tutti-table 1\nallgather multicast 2 0 ring\nallgather multicast 2 9 ring\nallgather multicast 2 8 ring\n", 4,
         "ring"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        struct tt_choice choice = {.row_count = 77};
        struct tt_choice_fault fault;
        const char *measured;
        size_t measured_bytes;

        if (tt_choice_parse(bads[i].text, strlen(bads[i].text), &choice, &measured, &measured_bytes, &fault)) {
            fail_msg("text %zu was taken", i);
        }
        if (fault.line != bads[i].line || fault.reason == NULL || fault.word_bytes != strlen(bads[i].word) ||
            memcmp(fault.word, bads[i].word, fault.word_bytes) != 0) {
            fail_msg("text %zu: line %u, '%.*s': %s", i, fault.line, (int)fault.word_bytes, fault.word, fault.reason);
        }
        assert_int_equal(choice.row_count, 77);
    }
}

static void there_is_room_for_so_many_rows(void **state)
{
    struct tt_choice choice = {0};
    struct tt_choice_row row = {.kind = TT_ALLGATHER, .multicast = 1, .method = TT_METHOD_RING};
    const char *reason;

    (void)state;
    for (uint32_t i = 0; i < TT_CHOICE_MAX_ROWS; i++) {
        row.ranks = i + 1;
        assert_true(tt_choice_add(&choice, &row, &reason));
    }
    row.ranks++;
    assert_false(tt_choice_add(&choice, &row, &reason));
    assert_true(tt_choice_is_sound(&choice));
    assert_false(tt_choice_complete(&choice));
}

static void a_table_from_another_rank_is_checked_like_a_text(void **state)
{
    struct tt_choice choice = *tt_choice_default();

    (void)state;
    choice.rows[0].method = TT_METHOD_COUNT;
    assert_false(tt_choice_is_sound(&choice));
    choice = *tt_choice_default();
    choice.rows[0].kind = TT_KIND_COUNT;
    assert_false(tt_choice_is_sound(&choice));
    choice = *tt_choice_default();
    choice.rows[0].multicast = 2;
    assert_false(tt_choice_is_sound(&choice));
    choice = *tt_choice_default();
    choice.rows[1].from_bytes = 0;
    assert_false(tt_choice_is_sound(&choice));
    choice = *tt_choice_default();
    choice.row_count = TT_CHOICE_MAX_ROWS + 1;
    assert_false(tt_choice_is_sound(&choice));
    memset(&choice, 0xFF, sizeof choice);
    assert_false(tt_choice_is_sound(&choice));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_built_in_table_is_sound_and_knows_every_kind_and_network),
        cmocka_unit_test(the_built_in_table_always_gives_a_method_that_can_serve),
        cmocka_unit_test(limits_of_the_built_in_table_hold_at_the_byte),
        cmocka_unit_test(rows_of_eager_parts_hold_at_the_byte_where_twice_as_much_is_eager),
        cmocka_unit_test(two_ranks_exchange_uneven_parts_only_while_vectors_are_short),
        cmocka_unit_test(the_built_in_table_gathers_small_blocks_from_three_ranks_on),
        cmocka_unit_test(methods_that_keep_copies_have_room_for_all_blocks_at_the_byte),
        cmocka_unit_test(gathering_serves_allgathers_and_barriers_where_multicast_gets_through),
        cmocka_unit_test(no_bytes_are_a_barrier_whatever_it_is_called),
        cmocka_unit_test(a_method_that_cannot_serve_stands_aside),
        cmocka_unit_test(the_section_with_the_most_ranks_that_fit_counts),
        cmocka_unit_test(a_text_says_sizes_with_units_and_comments),
        cmocka_unit_test(what_is_no_table_is_refused_with_line_and_word),
        cmocka_unit_test(there_is_room_for_so_many_rows),
        cmocka_unit_test(a_table_from_another_rank_is_checked_like_a_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
