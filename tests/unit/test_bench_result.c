/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The judge of measured reductions is judged: what a right reduction may give, in whatever order and precision it
 * adds, passes; what is off by more than the bound says, or by one rank's element, does not. Right results and exact
 * ones come from the tests' own reference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>

#include "cli/bench_loops.h"
#include "cli/bench_result.h"
#include "offload/reduce.h"
#include "reduce_reference.h"
#include "skip.h"

#ifdef __SIZEOF_FLOAT128__
typedef __float128 wide_float;
#else
typedef long double wide_float;
#endif

enum { FIRST = 200, COUNT = 120, ELEMENT_BYTES = 16, ROUND = 5, RANK_LIMIT = 200 };

/* Elements of all ranks, and what comes of them. */
static uint8_t inputs[RANK_LIMIT][COUNT * ELEMENT_BYTES];
static uint8_t result[COUNT * ELEMENT_BYTES];
static struct tt_bench_result_check check;
static char error[TT_BENCH_ERROR_BYTES];

enum order { ORDER_RANKS, ORDER_BACKWARDS, ORDER_TREE, ORDER_CHAIN, ORDER_COUNT };

static bool is_float(enum tt_type type)
{
    return tt_type_row(type)->class == TT_CLASS_FLOAT;
}

static enum tt_reduce_operation step_of(enum tt_reduce_operation operation)
{
    return tt_reduce_operation_row(operation)->step;
}

static void begin(enum tt_type type, enum tt_reduce_operation operation, uint32_t rank_count)
{
    tt_bench_result_init(&check, type, operation, rank_count);
    for (uint32_t rank = 0; rank < rank_count; rank++) {
        tt_bench_elements_fill(&check.elements, rank, ROUND, FIRST, COUNT, inputs[rank]);
    }
}

static uint64_t wrong(void)
{
    error[0] = '\0';
    return tt_bench_result_wrong(&check, ROUND, FIRST, COUNT, result, error);
}

/* Combines elements of ranks from..to-1 as a binary tree, each step rounded to the type. */
static void combine_tree(uint8_t elements[][ELEMENT_BYTES], uint32_t from, uint32_t to, uint8_t *out)
{
    uint8_t left[ELEMENT_BYTES], right[ELEMENT_BYTES];
    if (to - from == 1) {
        memcpy(out, elements[from], ELEMENT_BYTES);
        return;
    }
    combine_tree(elements, from, from + (to - from) / 2, left);
    combine_tree(elements, from + (to - from) / 2, to, right);
    reference_combine(check.elements.type, step_of(check.elements.operation), left, right, out);
}

/* Small floats in fp32, rounded once. */
static void combine_chain(uint8_t elements[][ELEMENT_BYTES], uint32_t rank_count, uint32_t divisor, uint8_t *out)
{
    enum tt_type type = check.elements.type;
    float sum = (float)reference_decode(type, elements[0]);
    for (uint32_t rank = 1; rank < rank_count; rank++) {
        sum = reference_accumulate(type, step_of(check.elements.operation), sum, elements[rank]);
    }
    reference_encode(type, (double)(sum / (float)divisor), out);
}

static void reduce_one(unsigned at, enum order order)
{
    static uint8_t elements[RANK_LIMIT][ELEMENT_BYTES];
    enum tt_type type = check.elements.type;
    uint32_t bytes = check.elements.element_bytes, ranks = check.elements.rank_count;
    uint32_t divisor = check.elements.operation == TT_REDUCE_AVERAGE ? ranks : 1;
    uint8_t *out = result + (size_t)at * bytes, sum[ELEMENT_BYTES];
    for (uint32_t rank = 0; rank < ranks; rank++) {
        memcpy(elements[rank], inputs[rank] + (size_t)at * bytes, bytes);
        if (check.elements.operation == TT_REDUCE_PREMULTIPLIED_SUM) {
            uint64_t factor = 0;
            tt_bench_factor_encode(type, rank, &factor);
            reference_scale(type, elements[rank], &factor, sum);
            memcpy(elements[rank], sum, bytes);
        }
    }
    if (order == ORDER_CHAIN && tt_type_is_small_float(type)) {
        combine_chain(elements, ranks, divisor, out);
        return;
    }
    if (order == ORDER_TREE) {
        combine_tree(elements, 0, ranks, sum);
    } else {
        memcpy(sum, elements[order == ORDER_BACKWARDS ? ranks - 1 : 0], bytes);
        for (uint32_t i = 1; i < ranks; i++) {
            uint32_t rank = order == ORDER_BACKWARDS ? ranks - 1 - i : i;
            reference_combine(type, step_of(check.elements.operation), sum, elements[rank], sum);
        }
    }
    if (divisor > 1) {
        reference_divide(type, sum, divisor, out);
    } else {
        memcpy(out, sum, bytes);
    }
}

static void reduce(enum order order)
{
    for (unsigned at = 0; at < COUNT; at++) {
        reduce_one(at, order);
    }
}

/* Calls it for every type and operation that has a reference. */
static void for_all(uint32_t rank_count, void (*judge)(void))
{
    for (unsigned type = 0; type < TT_TYPE_OPAQUE; type++) {
        for (unsigned operation = 0; operation < TT_REDUCE_USER; operation++) {
            if (tt_reduce_supported(type, operation) == TUTTI_OK) {
                begin((enum tt_type)type, (enum tt_reduce_operation)operation, rank_count);
                judge();
            }
        }
    }
}

static void fail_with_name(const char *what, unsigned order)
{
    fail_msg("%s of %s, %u ranks, order %u: %s: %s", tt_reduce_operation_row(check.elements.operation)->name,
             tt_type_row(check.elements.type)->name, check.elements.rank_count, order, what, error);
}

static void every_order_is_right(void)
{
    for (unsigned order = 0; order < ORDER_COUNT; order++) {
        reduce((enum order)order);
        if (wrong() != 0) {
            fail_with_name("a right result is refused", order);
        }
    }
}

static void right_results_pass_in_every_order_and_precision(void **state)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 8, 13, 40, RANK_LIMIT};
    (void)state;
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for_all(counts[i], every_order_is_right);
    }
}

static void poison_is_wrong(void)
{
    tt_bench_result_poison(&check, ROUND, FIRST, COUNT, result);
    if (wrong() != COUNT) {
        fail_with_name("what was never written passes", 0);
    }
}

static void result_that_was_never_written_is_wrong_in_every_element(void **state)
{
    (void)state;
    for_all(1, poison_is_wrong);
    for_all(5, poison_is_wrong);
    begin(TT_TYPE_OPAQUE, TT_REDUCE_USER, 3);
    poison_is_wrong();
}

/* Elements whose result without the rank's is another one, by the reference's exact arithmetic where the bound is 0. */
static void each_missing_rank_is_seen(void)
{
    uint32_t ranks = check.elements.rank_count, bytes = check.elements.element_bytes;
    for (uint32_t absent = 0; absent < ranks; absent++) {
        static uint8_t kept[COUNT * ELEMENT_BYTES];
        memcpy(kept, inputs[absent], sizeof(kept));
        uint8_t neutral[ELEMENT_BYTES] = {0};
        if (check.elements.operation == TT_REDUCE_AND) {
            memset(neutral, 0xFF, sizeof(neutral));
        } else if (check.elements.operation == TT_REDUCE_PRODUCT && is_float(check.elements.type)) {
            reference_encode(check.elements.type, 1, neutral);
        } else if (check.elements.operation == TT_REDUCE_PRODUCT) {
            reference_set(check.elements.type, 1, neutral);
        }
        for (unsigned at = 0; at < COUNT; at++) {
            memcpy(inputs[absent] + (size_t)at * bytes, neutral, bytes);
        }
        reduce(ORDER_RANKS);
        memcpy(inputs[absent], kept, sizeof(kept));
        if (wrong() < COUNT / 10) {
            fail_with_name("a missing rank is not seen", absent);
        }
    }
}

static void missing_rank_is_seen_in_every_reduction_that_adds_or_multiplies(void **state)
{
    static const enum tt_reduce_operation operations[] = {TT_REDUCE_SUM, TT_REDUCE_PRODUCT, TT_REDUCE_AVERAGE,
                                                          TT_REDUCE_PREMULTIPLIED_SUM, TT_REDUCE_XOR};
    static const uint32_t counts[] = {2, 3, 4, 8};
    (void)state;
    for (unsigned type = 0; type < TT_TYPE_OPAQUE; type++) {
        for (unsigned i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
            for (unsigned n = 0; n < sizeof(counts) / sizeof(counts[0]); n++) {
                /* With more than half of the digits' worth of ranks, not all put something in at an element. */
                tt_bench_elements_init(&check.elements, (enum tt_type)type,
                                       type >= TT_TYPE_FP8_E4M3 ? TT_REDUCE_SUM : operations[i], counts[n]);
                if (tt_reduce_supported(type, operations[i]) == TUTTI_OK && check.elements.active == counts[n]) {
                    begin((enum tt_type)type, operations[i], counts[n]);
                    if (check.elements.active == counts[n]) {
                        each_missing_rank_is_seen();
                    }
                }
            }
        }
    }
}

/* --- The bound, to the last unit ---------------------------------------------------------------------------------- */

static wide_float magnitude(wide_float number)
{
    return number < 0 ? -number : number;
}

/* The exact result of one element, and the header's bound, in another precision and from the inputs. */
static void exact_result(unsigned at, wide_float *exact, wide_float *bound)
{
    const struct tt_bench_elements *elements = &check.elements;
    enum tt_type type = elements->type;
    const unsigned digits = elements->format.digits;
    bool multiplies = elements->operation == TT_REDUCE_PRODUCT,
         scales = elements->operation == TT_REDUCE_PREMULTIPLIED_SUM, all_are_powers = true;
    wide_float sum = multiplies ? 1 : 0, weight = 0, growth = 1, unit = ldexp(1, -(int)digits);
    wide_float step = tt_type_is_small_float(type) ? (1 + unit) * (1 + (wide_float)0x1p-24) - 1 : unit;
    unsigned roundings = scales ? 0 : (unsigned)-1;
    for (uint32_t rank = 0; rank < elements->rank_count; rank++) {
        wide_float x = reference_decode(type, inputs[rank] + (size_t)at * elements->element_bytes);
        int exponent;
        x *= scales ? (wide_float)tt_bench_factor(type, rank) : 1;
        sum = multiplies ? sum * x : sum + x;
        weight += magnitude(x);
        all_are_powers = all_are_powers && fabs(frexp((double)x, &exponent)) == 0.5;
    }
    roundings += elements->active;
    for (unsigned i = 0; i < roundings; i++) {
        growth *= 1 + step;
    }
    weight = multiplies ? magnitude(sum) : weight;
    bool is_exact = multiplies ? all_are_powers && at % 2 == FIRST % 2 : weight <= (scales ? 0.5 : 1);
    *exact = sum;
    *bound = is_exact ? 0 : (growth - 1) * weight;
    if (elements->operation == TT_REDUCE_AVERAGE) {
        wide_float count = elements->rank_count;
        *exact = sum / count;
        *bound = (*bound + step * (magnitude(sum) + *bound)) / count +
                 (wide_float)ldexp(1, 1 - elements->format.bias - (int)digits);
    }
}

/* Moves an element by one, away from 0 or towards it. */
static bool next_to(uint8_t *element, bool up)
{
    enum tt_type type = check.elements.type;
    uint64_t bits = reference_bits(type, element), sign = UINT64_C(1) << (check.elements.element_bytes * 8 - 1);
    uint64_t code = bits & (sign - 1);
    bool away = up == ((bits & sign) == 0);
    if ((!away && code == 0) || (away && code == check.elements.format.finite)) {
        return false;
    }
    reference_set(type, (bits & sign) | (away ? code + 1 : code - 1), element);
    return true;
}

/* The verdict on `at` alone is what the bound says, but for a hair's breadth of the bound itself. */
static unsigned judge_one(unsigned at, wide_float exact, wide_float bound, bool *was_wrong)
{
    const uint8_t *element = result + (size_t)at * check.elements.element_bytes;
    wide_float off = magnitude((wide_float)reference_decode(check.elements.type, element) - exact);
    wide_float hair = bound * (wide_float)4e-6;
    if (check.elements.operation == TT_REDUCE_PRODUCT && bound > 0) { /* the judge's own roundings */
        hair += magnitude(exact) * check.elements.active *
                (wide_float)(check.elements.type == TT_TYPE_FP64 ? LDBL_EPSILON : DBL_EPSILON) * 2;
    }
    uint64_t found = tt_bench_result_wrong(&check, ROUND, FIRST + at, 1, element, error);
    *was_wrong = found != 0;
    if (off <= bound && found != 0) {
        fail_with_name("within the bound, and refused", at);
    }
    if (off > bound + hair && found == 0) {
        fail_with_name("outside of the bound, and passed", at);
    }
    return off <= bound || off > bound + hair;
}

static unsigned judged, refused;

/* From where the bound ends, some elements to both sides. */
static void edges_are_where_they_should_be(void)
{
    enum { STEPS = 4 };
    const uint32_t bytes = check.elements.element_bytes;
    for (unsigned at = 0; at < 40; at++) {
        wide_float exact, bound;
        exact_result(at, &exact, &bound);
        for (unsigned side = 0; side < 2; side++) {
            uint8_t *element = result + (size_t)at * bytes;
            reference_encode(check.elements.type, (double)(side == 0 ? exact - bound : exact + bound), element);
            for (unsigned i = 0; i < STEPS / 2 && next_to(element, side == 0); i++) {
            }
            for (unsigned i = 0; i < STEPS; i++) {
                bool was_wrong;
                judged += judge_one(at, exact, bound, &was_wrong);
                refused += was_wrong ? 1 : 0;
                if (!next_to(element, side == 1)) {
                    break;
                }
            }
        }
    }
}

static void value_beyond_the_bound_is_wrong_and_one_at_its_edge_is_not(void **state)
{
    static const enum tt_reduce_operation operations[] = {TT_REDUCE_SUM, TT_REDUCE_PRODUCT, TT_REDUCE_AVERAGE,
                                                          TT_REDUCE_PREMULTIPLIED_SUM};
    static const uint32_t counts[] = {1, 2, 3, 7, 64};
    (void)state;
    for (unsigned type = TT_TYPE_FP8_E4M3; type <= TT_TYPE_FP64; type++) {
        for (unsigned i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
            judged = refused = 0;
            for (unsigned n = 0; n < sizeof(counts) / sizeof(counts[0]); n++) {
                begin((enum tt_type)type, operations[i], counts[n]);
                edges_are_where_they_should_be();
            }
            assert_true(judged > 1000 && refused > 300 && judged - refused > 300);
        }
    }
}

static void single_unit_in_the_last_place_of_a_minimum_is_wrong(void **state)
{
    (void)state;
    for (unsigned type = TT_TYPE_FP8_E4M3; type <= TT_TYPE_FP64; type++) {
        begin((enum tt_type)type, type % 2 == 0 ? TT_REDUCE_MIN : TT_REDUCE_MAX, 9);
        reduce(ORDER_RANKS);
        for (unsigned at = 0; at < COUNT; at++) {
            next_to(result + (size_t)at * check.elements.element_bytes, at % 3 == 0);
        }
        assert_int_equal(wrong(), COUNT);
    }
}

static void sentence_names_the_first_wrong_element(void **state)
{
    (void)state;
    begin(TT_TYPE_INT32, TT_REDUCE_SUM, 3);
    reduce(ORDER_RANKS);
    result[90 * 4] ^= 1;
    result[95 * 4 + 3] ^= 0x80;
    assert_int_equal(wrong(), 2);
    assert_ptr_equal(strstr(error, "element 90: 0x"), error);
    begin(TT_TYPE_FP64, TT_REDUCE_SUM, 3);
    reduce(ORDER_RANKS);
    memset(result + 70 * 8, 0xFF, 8);
    assert_int_equal(wrong(), 1);
    assert_ptr_equal(strstr(error, "element 70: "), error);
    assert_non_null(strstr(error, "nan instead of "));
}

/* --- Inputs ------------------------------------------------------------------------------------------------------- */

static void no_result_overflows_or_loses_digits_with_65536_ranks(void **state)
{
    (void)state;
    for (unsigned type = TT_TYPE_FP8_E4M3; type <= TT_TYPE_FP32; type++) {
        tt_bench_result_init(&check, (enum tt_type)type, TT_REDUCE_SUM, 65536);
        const struct tt_bench_format *format = &check.elements.format;
        double largest = ldexp(1, format->bias); /* no type's is less */
        assert_true(1.5 * check.elements.active * (1 + check.growth) <= largest);
        assert_true(type == TT_TYPE_FP32 || check.growth < 0.65);
        tt_bench_result_init(&check, (enum tt_type)type, TT_REDUCE_PRODUCT, 65536);
        assert_true(ldexp(1, -(int)check.elements.active) >= ldexp(1, 1 - format->bias));
        assert_true(ldexp(1, (int)check.elements.active) <= largest);
    }
}

static void every_rank_takes_its_turn(void **state)
{
    (void)state;
    tt_bench_elements_init(&check.elements, TT_TYPE_FP8_E5M2, TT_REDUCE_SUM, 10);
    assert_int_equal(check.elements.active, 4);
    for (uint32_t rank = 0; rank < 10; rank++) {
        unsigned turns = 0, rounds = 0;
        for (unsigned i = 0; i < 10; i++) {
            turns += tt_bench_elements_are_active(&check.elements, rank, 7, i);
            rounds += tt_bench_elements_are_active(&check.elements, rank, i, 0);
        }
        assert_true(turns > 0);
        assert_int_equal(rounds, 4);
    }
}

static void elements_do_not_depend_on_where_a_request_for_them_begins(void **state)
{
    enum { WHOLE = 1000 };
    (void)state;
    for (unsigned type = 0; type <= TT_TYPE_OPAQUE; type++) {
        static uint8_t whole[WHOLE * ELEMENT_BYTES], part[WHOLE * ELEMENT_BYTES];
        tt_bench_elements_init(&check.elements, (enum tt_type)type,
                               type == TT_TYPE_OPAQUE ? TT_REDUCE_USER : TT_REDUCE_SUM, 6);
        uint32_t bytes = check.elements.element_bytes;
        tt_bench_elements_fill(&check.elements, 4, 9, 0, WHOLE, whole);
        for (unsigned first = 0; first < WHOLE; first += 97) {
            uint64_t place = 0;
            uint64_t count = (WHOLE - first) / 2;
            tt_bench_elements_fill(&check.elements, 4, 9, first, count, part + 1);
            assert_memory_equal(part + 1, whole + (size_t)first * bytes, count * bytes);
            assert_int_equal(tt_bench_elements_differ(&check.elements, 4, 9, first, count, part + 1, &place), 0);
            if (count > 0) {
                part[count * bytes] ^= 4;
                assert_int_equal(tt_bench_elements_differ(&check.elements, 4, 9, first, count, part + 1, &place), 1);
                assert_int_equal(place, count * bytes - 1);
            }
        }
    }
}

static void stale_or_displaced_result_is_wrong(void)
{
    reduce(ORDER_RANKS);
    uint64_t stale = tt_bench_result_wrong(&check, ROUND + 1, FIRST, COUNT, result, error);
    uint64_t displaced = tt_bench_result_wrong(&check, ROUND, FIRST + TT_BENCH_RUN, COUNT, result, error);
    if (stale < COUNT / 8 || displaced < COUNT / 8) {
        fail_with_name("a result of another round or place passes", 0);
    }
}

static void result_of_another_round_or_place_is_wrong(void **state)
{
    (void)state;
    for_all(4, stale_or_displaced_result_is_wrong);
}

static void user_function_in_another_order_is_wrong(void **state)
{
    (void)state;
    begin(TT_TYPE_OPAQUE, TT_REDUCE_USER, 4);
    tt_bench_compose(result, inputs[2], inputs[3], COUNT, NULL);
    tt_bench_compose(result, inputs[1], result, COUNT, NULL);
    tt_bench_compose(result, inputs[0], result, COUNT, NULL);
    assert_int_equal(wrong(), 0);
    tt_bench_compose(result, inputs[0], inputs[2], COUNT, NULL);
    tt_bench_compose(result, result, inputs[1], COUNT, NULL);
    tt_bench_compose(result, result, inputs[3], COUNT, NULL);
    assert_int_equal(wrong(), COUNT);
}

/* The version that this processor runs, beside the one that all can. */
static void same_bits(enum tt_type type, enum tt_reduce_operation operation, uint32_t rank_count)
{
    enum { WORDS = TT_BENCH_RUN * 2 };
    const struct tt_bench_loops *versions[] = {&tt_bench_loops_plain, tt_bench_loops()};
    static uint64_t runs[2][TT_BENCH_RUN];
    static double numbers[2][TT_BENCH_RUN], sums[2][3][TT_BENCH_RUN];
    struct tt_bench_elements elements;

    tt_bench_elements_init(&elements, type, operation, rank_count);
    memset(sums, 0, sizeof(sums));
    for (uint32_t key = 1; key <= rank_count; key++) {
        for (int v = 0; v < 2; v++) {
            versions[v]->hash(key, UINT32_MAX - 100, WORDS, runs[v]);
            versions[v]->widen(&elements, runs[v], numbers[v]); /* also what is subnormal, infinite or NaN */
        }
        assert_memory_equal(numbers[0], numbers[1], sizeof(numbers[0]));
        for (int v = 0; v < 2; v++) {
            versions[v]->shape(&elements, runs[v]);
            versions[v]->widen(&elements, runs[v], numbers[v]);
            versions[v]->add(numbers[v], tt_bench_factor(type, key), type == TT_TYPE_FP64, sums[v][0], sums[v][1],
                             sums[v][2]);
        }
        assert_memory_equal(runs[0], runs[1], sizeof(runs[0]));
        assert_memory_equal(numbers[0], numbers[1], sizeof(numbers[0]));
    }
    assert_memory_equal(sums[0], sums[1], sizeof(sums[0]));
}

static void loops_for_other_processors_give_the_same_bits(void **state)
{
    (void)state;
    if (tt_bench_loops() == &tt_bench_loops_plain) {
        TT_SKIP("this processor runs one version of the loops only");
    }
    for (enum tt_type type = TT_TYPE_FP8_E4M3; type <= TT_TYPE_FP64; type++) {
        for (uint32_t rank_count = 2; rank_count <= 2048; rank_count *= 4) { /* few and many have other limits */
            same_bits(type, TT_REDUCE_SUM, rank_count);
            same_bits(type, TT_REDUCE_PREMULTIPLIED_SUM, rank_count);
            same_bits(type, TT_REDUCE_PRODUCT, rank_count);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_results_pass_in_every_order_and_precision),
        cmocka_unit_test(result_that_was_never_written_is_wrong_in_every_element),
        cmocka_unit_test(missing_rank_is_seen_in_every_reduction_that_adds_or_multiplies),
        cmocka_unit_test(value_beyond_the_bound_is_wrong_and_one_at_its_edge_is_not),
        cmocka_unit_test(single_unit_in_the_last_place_of_a_minimum_is_wrong),
        cmocka_unit_test(sentence_names_the_first_wrong_element),
        cmocka_unit_test(no_result_overflows_or_loses_digits_with_65536_ranks),
        cmocka_unit_test(every_rank_takes_its_turn),
        cmocka_unit_test(elements_do_not_depend_on_where_a_request_for_them_begins),
        cmocka_unit_test(result_of_another_round_or_place_is_wrong),
        cmocka_unit_test(user_function_in_another_order_is_wrong),
        cmocka_unit_test(loops_for_other_processors_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
