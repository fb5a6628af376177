/* SPDX-License-Identifier: BSD-3-Clause */
/* The sequencer's chains, for every number of roots up to 64 and every number of chains. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan/chain.h"

enum { MOST = 64 };

static void chains_partition_the_roots_in_order(void **state)
{
    (void)state;
    for (uint32_t roots = 1; roots <= MOST; roots++) {
        for (uint32_t chains = 1; chains <= roots; chains++) {
            uint32_t next = 0;

            for (uint32_t i = 0; i < chains; i++) {
                struct tt_chain chain = tt_chain_at(roots, chains, i);

                assert_int_equal(chain.first, next);
                assert_true(chain.length >= 1);
                next += chain.length;
            }
            assert_int_equal(next, roots);
        }
    }
}

static void lengths_differ_by_one_at_most_and_longer_chains_come_first(void **state)
{
    (void)state;
    for (uint32_t roots = 1; roots <= MOST; roots++) {
        for (uint32_t chains = 1; chains <= roots; chains++) {
            for (uint32_t i = 1; i < chains; i++) {
                uint32_t before = tt_chain_at(roots, chains, i - 1).length;
                uint32_t length = tt_chain_at(roots, chains, i).length;

                assert_true(before == length || before == length + 1);
            }
            assert_true(tt_chain_at(roots, chains, 0).length <= tt_chain_at(roots, chains, chains - 1).length + 1);
        }
    }
}

static void every_root_is_found_in_its_chain(void **state)
{
    (void)state;
    for (uint32_t roots = 1; roots <= MOST; roots++) {
        for (uint32_t chains = 1; chains <= roots; chains++) {
            for (uint32_t root = 0; root < roots; root++) {
                uint32_t of = tt_chain_of(roots, chains, root);
                struct tt_chain chain = tt_chain_at(roots, chains, of);

                assert_true(of < chains);
                assert_true(root >= chain.first && root < chain.first + chain.length);
            }
        }
    }
}

/* Appendix A, where M divides P: at step i the active roots are P_i, P_{R+i}, ..., P_{(M-1)R+i}, with R = P / M. */
static void active_roots_follow_the_papers_formula_when_chains_divide_the_roots(void **state)
{
    (void)state;
    for (uint32_t roots = 1; roots <= MOST; roots++) {
        for (uint32_t chains = 1; chains <= roots; chains++) {
            uint32_t length = roots / chains;

            if (roots % chains != 0) {
                continue;
            }
            for (uint32_t step = 0; step < length; step++) {
                for (uint32_t m = 0; m < chains; m++) {
                    struct tt_chain chain = tt_chain_at(roots, chains, m);

                    assert_int_equal(chain.length, length);
                    assert_int_equal(chain.first + step, m * length + step);
                }
            }
        }
    }
}

static void eight_roots_in_three_chains_are_3_3_2(void **state)
{
    static const struct tt_chain expected[] = {{0, 3}, {3, 3}, {6, 2}};
    static const uint32_t of[] = {0, 0, 0, 1, 1, 1, 2, 2};

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(tt_chain_at(8, 3, i).first, expected[i].first);
        assert_int_equal(tt_chain_at(8, 3, i).length, expected[i].length);
    }
    for (uint32_t root = 0; root < 8; root++) {
        assert_int_equal(tt_chain_of(8, 3, root), of[root]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_partition_the_roots_in_order),
        cmocka_unit_test(lengths_differ_by_one_at_most_and_longer_chains_come_first),
        cmocka_unit_test(every_root_is_found_in_its_chain),
        cmocka_unit_test(active_roots_follow_the_papers_formula_when_chains_divide_the_roots),
        cmocka_unit_test(eight_roots_in_three_chains_are_3_3_2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
