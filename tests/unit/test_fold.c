/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectors in one place, combined: the function gets the order of ranks, and floats the tree that exchanges have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "offload/fold.h"
#include "support/affine.h"

enum { MOST = 33, COUNT = 5 };

static void compose(void *destination, const void *left, const void *right, uint64_t count, void *context)
{
    (void)context;
    for (uint64_t i = 0; i < count; i++) {
        ((struct affine *)destination)[i] =
            affine_compose(((const struct affine *)left)[i], ((const struct affine *)right)[i]);
    }
}

static void the_order_is_that_of_ranks_for_every_number_of_them(void **state)
{
    static struct affine vectors[MOST][COUNT + 1];
    struct tt_reduction reduction;

    (void)state;
    assert_int_equal(tt_reduction_init_user(&reduction, TT_TYPE_OPAQUE, sizeof(struct affine), compose, NULL, false),
                     TUTTI_OK);
    for (uint32_t size = 1; size <= MOST; size++) {
        const struct affine *result;

        for (uint32_t rank = 0; rank < size; rank++) {
            for (uint32_t i = 0; i < COUNT; i++) {
                vectors[rank][i] = affine_initial(false, size, rank, i);
            }
        }
        result = tt_fold(&reduction, vectors, sizeof vectors[0], size, COUNT);
        for (uint32_t i = 0; i < COUNT; i++) {
            struct affine want = affine_initial(false, size, 0, i);

            for (uint32_t rank = 1; rank < size; rank++) {
                want = affine_compose(want, affine_initial(false, size, rank, i));
            }
            assert_true(affine_is(result[i], want));
        }
    }
}

/* What each exchange of recursive doubling makes of it: every rank with its partner, then with the partner's pair. */
static void floats_are_added_along_the_tree_of_recursive_doubling(void **state)
{
    struct tt_reduction reduction;

    (void)state;
    assert_int_equal(tt_reduction_init(&reduction, TT_TYPE_FP32, TT_REDUCE_SUM), TUTTI_OK);
    for (uint32_t size = 1; size <= MOST; size++) {
        float vectors[MOST] = {0}, places[MOST], result;
        uint32_t power = 1;
        uint32_t count = 0;

        while (2 * power <= size) {
            power *= 2;
        }
        for (uint32_t rank = 0; rank < size; rank++) {
            vectors[rank] = (rank % 3 == 0 ? 1e7F : 0.37F) * (float)(rank + 1);
        }
        for (uint32_t rank = 0; rank < size; rank++) {
            bool pair = count < size - power;

            places[count++] = pair ? vectors[rank] + vectors[rank + 1] : vectors[rank];
            rank += pair;
        }
        for (uint32_t distance = 1; distance < count; distance *= 2) {
            float next[MOST];

            for (uint32_t place = 0; place < count; place++) {
                next[place] = places[place] + places[place ^ distance];
            }
            memcpy(places, next, sizeof places);
        }
        memcpy(&result, tt_fold(&reduction, vectors, sizeof(float), size, 1), sizeof result);
        assert_memory_equal(&result, &places[0], sizeof result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_is_that_of_ranks_for_every_number_of_them),
        cmocka_unit_test(floats_are_added_along_the_tree_of_recursive_doubling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
