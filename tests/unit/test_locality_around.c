/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of a ring that enters and leaves each host once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/locality.h"

enum { MOST = 12 };

static void must_be(const uint64_t *hosts, uint32_t size, uint32_t first, const uint32_t *order, bool differs)
{
    uint32_t around[MOST];

    assert_true(tt_locality_around(hosts, size, first, around) == differs);
    for (uint32_t i = 0; i < size; i++) {
        assert_int_equal(around[i], order[i]);
    }
}

static void ranks_in_a_row_stay_as_they_are(void **state)
{
    static const uint64_t apart[] = {9, 4, 7, 1, 8}, blocks[] = {5, 5, 5, 2, 2, 2}, one[] = {3, 3, 3};
    static const uint32_t order[] = {0, 1, 2, 3, 4, 5};

    (void)state;
    must_be(apart, 5, 0, order, false);
    must_be(blocks, 6, 0, order, false);
    must_be(one, 3, 0, order, false);
    must_be(one, 1, 0, order, false);
}

static void ranks_that_are_dealt_out_are_put_together(void **state)
{
    static const uint64_t dealt[] = {7, 1, 4, 7, 1, 4, 7, 1}, odd[] = {2, 9, 9, 2, 5, 9, 2};
    static const uint32_t together[] = {0, 3, 6, 1, 4, 7, 2, 5}, of_odd[] = {0, 3, 6, 1, 2, 5, 4};

    (void)state;
    must_be(dealt, 8, 0, together, true);
    must_be(odd, 7, 0, of_odd, true);
}

static void another_rank_may_be_the_first(void **state)
{
    static const uint64_t dealt[] = {7, 1, 4, 7, 1, 4, 7, 1}, apart[] = {9, 4, 7, 1, 8};
    static const uint32_t from_4[] = {4, 7, 1, 5, 2, 6, 0, 3}, turned[] = {3, 4, 0, 1, 2};

    (void)state;
    must_be(dealt, 8, 4, from_4, true);
    must_be(apart, 5, 3, turned, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_in_a_row_stay_as_they_are),
        cmocka_unit_test(ranks_that_are_dealt_out_are_put_together),
        cmocka_unit_test(another_rank_may_be_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
