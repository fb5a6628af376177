/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and operations by name, what goes with what, and users' own operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "offload/reduce.h"

static void types_and_operations_are_parsed_by_their_names(void **state)
{
    enum tt_type type;
    enum tt_reduce_operation operation;

    (void)state;
    for (unsigned i = 0; i < TT_TYPE_COUNT; i++) {
        assert_int_equal(tt_type_parse(tt_type_row(i)->name, &type), TUTTI_OK);
        assert_int_equal(type, i);
    }
    for (unsigned i = 0; i < TT_REDUCE_OPERATION_COUNT; i++) {
        assert_int_equal(tt_reduce_operation_parse(tt_reduce_operation_row(i)->name, &operation), TUTTI_OK);
        assert_int_equal(operation, i);
    }
    assert_int_equal(tt_type_parse("bf16", &type), TUTTI_OK);
    assert_int_equal(type, TT_TYPE_BF16);
    assert_int_equal(tt_type_row(TT_TYPE_FP8_E5M2)->bytes, 1);
    assert_int_equal(tt_type_row(TT_TYPE_FP8_E5M2)->accumulator, TT_TYPE_FP32);
    assert_int_equal(tt_reduce_operation_row(TT_REDUCE_AVERAGE)->step, TT_REDUCE_SUM);
}

static void an_unknown_name_is_refused_with_those_that_there_are(void **state)
{
    enum tt_type type = TT_TYPE_FP16;
    enum tt_reduce_operation operation = TT_REDUCE_XOR;

    (void)state;
    assert_int_equal(tt_type_parse("fp8", &type), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(type, TT_TYPE_FP16);
    assert_non_null(strstr(tt_last_error(), "fp8: is no type"));
    assert_non_null(strstr(tt_last_error(), "fp8-e4m3 fp8-e5m2 fp16"));
    assert_int_equal(tt_type_parse("", &type), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(tt_type_parse("fp32 ", &type), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(tt_reduce_operation_parse("mean", &operation), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(operation, TT_REDUCE_XOR);
    assert_non_null(strstr(tt_last_error(), "average premultiplied-sum"));
}

static void values_that_are_none_have_a_row_that_says_so(void **state)
{
    (void)state;
    assert_string_equal(tt_type_row(99)->name, "unknown type");
    assert_string_equal(tt_reduce_operation_row(99)->name, "unknown operation");
    assert_int_equal(tt_reduce_supported(99, TT_REDUCE_SUM), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "type 99"));
    assert_int_equal(tt_reduce_supported(TT_TYPE_INT8, 99), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "operation 99"));
}

static void what_makes_no_sense_is_refused_and_all_else_has_a_kernel(void **state)
{
    unsigned supported = 0;

    (void)state;
    for (unsigned type = 0; type < TT_TYPE_COUNT; type++) {
        for (unsigned operation = 0; operation < TT_REDUCE_OPERATION_COUNT; operation++) {
            enum tt_element_class class = tt_type_row(type)->class;
            int is_bitwise = operation == TT_REDUCE_AND || operation == TT_REDUCE_OR || operation == TT_REDUCE_XOR;
            int makes_sense =
                class == TT_CLASS_OPAQUE ? operation == TT_REDUCE_USER : !(class == TT_CLASS_FLOAT && is_bitwise);
            struct tt_reduction reduction;

            assert_int_equal(tt_reduce_supported(type, operation) == TUTTI_OK, makes_sense);
            supported += makes_sense;
            if (operation != TT_REDUCE_USER) {
                assert_int_equal(tt_reduction_init(&reduction, type, operation) == TUTTI_OK, makes_sense);
                assert_true(!makes_sense || reduction.combine != NULL);
            }
        }
    }
    assert_int_equal(supported, 8 * 10 + 6 * 7 + 1);
    assert_int_equal(tt_reduce_supported(TT_TYPE_BF16, TT_REDUCE_XOR), TUTTI_ERR_INVALID_ARGUMENT);
    assert_string_equal(tt_last_error(), "xor: not defined for bf16: floats have sum, product, min, max, average, "
                                         "premultiplied-sum and a user's function");
    assert_int_equal(tt_reduce_supported(TT_TYPE_OPAQUE, TT_REDUCE_SUM), TUTTI_ERR_INVALID_ARGUMENT);
    assert_string_equal(tt_last_error(),
                        "sum: not defined for opaque elements, which only a user's function can reduce");
}

/* --- A user's own ------------------------------------------------------------------------------------------------- */

/* x -> m x + t modulo 2^8, in three bytes of which the last one is unused; joining two such is not commutative. */
struct affine {
    uint8_t m, t, unused;
};

static void join(void *destination, const void *left, const void *right, uint64_t count, void *context)
{
    const struct affine *a = left, *b = right;
    struct affine *to = destination;

    *(uint64_t *)context += count;
    for (uint64_t i = 0; i < count; i++) {
        to[i] = (struct affine){(uint8_t)(a[i].m * b[i].m), (uint8_t)(a[i].m * b[i].t + a[i].t), 7};
    }
}

static void a_users_function_gets_its_operands_in_order(void **state)
{
    struct affine a[5], b[5], c[5];
    struct tt_reduction reduction;
    uint64_t joined = 0;

    (void)state;
    assert_int_equal(tt_reduction_init_user(&reduction, TT_TYPE_OPAQUE, sizeof(a[0]), join, &joined, false), TUTTI_OK);
    assert_false(reduction.is_commutative);
    assert_int_equal(reduction.element_bytes, 3);
    for (uint8_t i = 0; i < 5; i++) {
        a[i] = (struct affine){3, i, 0};
        b[i] = (struct affine){5, 11, 0};
    }
    tt_reduction_combine(&reduction, c, a, b, 5);
    tt_reduction_combine(&reduction, b, a, b, 5);
    assert_memory_equal(b, c, sizeof(c));
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(c[i].m, 15);
        assert_int_equal(c[i].t, 33 + i); /* the other way round it would be 5 i + 11 */
    }
    tt_reduction_combine(&reduction, NULL, NULL, NULL, 0);
    assert_int_equal(joined, 10);
}

static void a_users_function_needs_elements_and_itself(void **state)
{
    struct tt_reduction reduction;
    uint64_t joined;

    (void)state;
    assert_int_equal(tt_reduction_init_user(&reduction, TT_TYPE_OPAQUE, 0, join, &joined, true),
                     TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "opaque elements of 0 bytes"));
    assert_int_equal(tt_reduction_init_user(&reduction, TT_TYPE_FP64, 4, join, &joined, true),
                     TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "fp64 elements of 4 bytes"));
    assert_int_equal(tt_reduction_init_user(&reduction, TT_TYPE_FP64, 8, NULL, NULL, true), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(tt_reduction_init_user(&reduction, 99, 8, join, &joined, true), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(tt_reduction_init_user(&reduction, TT_TYPE_FP64, 8, join, &joined, true), TUTTI_OK);
    assert_true(reduction.is_commutative);
}

static void a_built_in_reduction_combines_as_its_step_does(void **state)
{
    float a[] = {1, 2, 3}, b[] = {10, 20, 30}, c[3];
    struct tt_reduction reduction;

    (void)state;
    assert_int_equal(tt_reduction_init(&reduction, TT_TYPE_FP32, TT_REDUCE_PREMULTIPLIED_SUM), TUTTI_OK);
    tt_reduction_combine(&reduction, c, a, b, 3);
    assert_true(c[0] == 11 && c[1] == 22 && c[2] == 33);
    assert_int_equal(reduction.element_bytes, 4);
    assert_true(reduction.is_commutative);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_and_operations_are_parsed_by_their_names),
        cmocka_unit_test(an_unknown_name_is_refused_with_those_that_there_are),
        cmocka_unit_test(values_that_are_none_have_a_row_that_says_so),
        cmocka_unit_test(what_makes_no_sense_is_refused_and_all_else_has_a_kernel),
        cmocka_unit_test(a_users_function_gets_its_operands_in_order),
        cmocka_unit_test(a_users_function_needs_elements_and_itself),
        cmocka_unit_test(a_built_in_reduction_combines_as_its_step_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
