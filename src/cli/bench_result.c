/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the verdict on results of reductions; the bounds are derived in the header.
 *
 * Normal path: run by run, the inputs of all ranks are made again and combined: integers as they are, floats as
 * numbers with a tolerance. Then the run of the result is compared; only if something is wrong, one by one.
 *
 * Failures: a wrong element is no failure here but a count, and the first is described.
 */
#include "cli/bench_result.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/bench_integer.h"
#include "cli/bench_loops.h"

enum { RUN_BYTES = TT_BENCH_RUN * TT_BENCH_OPAQUE_BYTES };

/* Bounds, and differences that are compared with them, are computed in fp64 from at most 2^16 operations, or in halves
 * of 26 bits: so much more makes up for their own roundings. */
#define SLACK (1 + 0x1p-20)

static bool is_float(const struct tt_bench_elements *elements)
{
    return tt_type_row(elements->type)->class == TT_CLASS_FLOAT;
}

static bool is_extreme(const struct tt_bench_elements *elements)
{
    return elements->operation == TT_REDUCE_MIN || elements->operation == TT_REDUCE_MAX;
}

void tt_bench_result_init(struct tt_bench_result_check *check, enum tt_type type, enum tt_reduce_operation operation,
                          uint32_t rank_count)
{
    struct tt_bench_result_check made = {.divisor = 1};
    tt_bench_elements_init(&made.elements, type, operation, rank_count);
    if (!is_float(&made.elements)) {
        *check = made;
        return;
    }
    const struct tt_bench_format *format = &made.elements.format;
    const bool premultiplies = operation == TT_REDUCE_PREMULTIPLIED_SUM;
    const double unit = ldexp(1, -(int)format->digits);
    uint64_t roundings = made.elements.active - (premultiplies ? 0U : 1U);
    made.step = tt_type_is_small_float(type) ? unit + 0x1p-24 + unit * 0x1p-24 : unit;
    for (uint64_t i = 0; i < roundings && !is_extreme(&made.elements); i++) {
        made.growth += made.step + made.growth * made.step;
    }
    made.growth *= SLACK;
    made.exact_to = premultiplies ? 0.5 : 1; /* 2^p times 2^-p, or half of it */
    if (type == TT_TYPE_FP64) {
        made.exact_to /= SLACK; /* here alone the sum of magnitudes is rounded itself */
    }
    if (operation == TT_REDUCE_AVERAGE) {
        made.divisor = rank_count;
        made.subnormal = ldexp(1, 1 - format->bias - (int)format->digits);
    }
    *check = made;
}

/* --- What floats must give ---------------------------------------------------------------------------------------- */

/* The elements of one rank as numbers; false: all are neutral, and nothing is set. */
static bool read_rank(const struct tt_bench_elements *elements, uint32_t rank, uint64_t round, uint64_t run,
                      double *numbers)
{
    _Alignas(64) uint8_t bytes[RUN_BYTES] = {0};
    if (!tt_bench_elements_are_active(elements, rank, round, run)) {
        return false;
    }
    tt_bench_elements_run(elements, rank, round, run, bytes);
    tt_bench_elements_widen(elements, bytes, numbers);
    return true;
}

/* The same sum, with the number nearest to it in `high`; exactly, as Knuth's two-sum. */
static void normalize(double *high, double *low)
{
    double sum = *high + *low, part = sum - *high;
    *low = (*high - (sum - part)) + (*low - part);
    *high = sum;
}

static void expect_sum(const struct tt_bench_result_check *check, uint64_t round, uint64_t run,
                       struct tt_bench_expected *sum)
{
    const struct tt_bench_elements *elements = &check->elements;
    const bool averages = elements->operation == TT_REDUCE_AVERAGE;
    double numbers[TT_BENCH_RUN];

    memset(sum, 0, sizeof(*sum));
    for (uint32_t rank = 0; rank < elements->rank_count; rank++) {
        if (read_rank(elements, rank, round, run, numbers)) {
            double factor =
                elements->operation == TT_REDUCE_PREMULTIPLIED_SUM ? tt_bench_factor(elements->type, rank) : 1;
            tt_bench_loops()->add(numbers, factor, elements->type == TT_TYPE_FP64, sum->high, sum->low, sum->tolerance);
        }
    }
    for (unsigned i = 0; i < TT_BENCH_RUN; i++) { /* so far `tolerance` is sum |x| */
        normalize(&sum->high[i], &sum->low[i]);
        double error = sum->tolerance[i] <= check->exact_to ? 0 : check->growth * sum->tolerance[i];
        double quotient = check->step * (fabs(sum->high[i] + sum->low[i]) + error) + check->divisor * check->subnormal;
        sum->tolerance[i] = (averages ? error + quotient : error) * SLACK;
    }
}

static void expect_product(const struct tt_bench_result_check *check, uint64_t round, uint64_t run,
                           struct tt_bench_expected *expected)
{
    const struct tt_bench_elements *elements = &check->elements;
    const bool is_wide = elements->type == TT_TYPE_FP64;
    const double own_error = elements->active * (is_wide ? (double)LDBL_EPSILON : DBL_EPSILON);
    double numbers[TT_BENCH_RUN], product[TT_BENCH_RUN];
    long double wide[TT_BENCH_RUN];

    for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
        product[i] = 1;
        wide[i] = 1;
    }
    for (uint32_t rank = 0; rank < elements->rank_count; rank++) {
        bool counts = read_rank(elements, rank, round, run, numbers);
        for (unsigned i = 0; i < TT_BENCH_RUN && counts && is_wide; i++) {
            wide[i] *= (long double)numbers[i];
        }
        for (unsigned i = 0; i < TT_BENCH_RUN && counts && !is_wide; i++) {
            product[i] *= numbers[i];
        }
    }
    for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
        expected->high[i] = is_wide ? (double)wide[i] : product[i];
        expected->low[i] = is_wide ? (double)(wide[i] - (long double)expected->high[i]) : 0;
        expected->tolerance[i] = (i & 1U) != 0 ? (check->growth + own_error) * fabs(expected->high[i]) * SLACK : 0;
    }
}

static void expect_extreme(const struct tt_bench_result_check *check, uint64_t round, uint64_t run,
                           struct tt_bench_expected *expected)
{
    const struct tt_bench_elements *elements = &check->elements;
    const double sign = elements->operation == TT_REDUCE_MIN ? 1 : -1;
    double numbers[TT_BENCH_RUN] = {0};

    memset(expected, 0, sizeof(*expected));
    for (uint32_t rank = 0; rank < elements->rank_count; rank++) {
        read_rank(elements, rank, round, run, numbers); /* all are active */
        for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
            bool is_less = rank == 0 || sign * numbers[i] < sign * expected->high[i];
            expected->high[i] = is_less ? numbers[i] : expected->high[i];
        }
    }
}

void tt_bench_result_expect(const struct tt_bench_result_check *check, uint64_t round, uint64_t run,
                            struct tt_bench_expected *expected)
{
    if (is_extreme(&check->elements)) {
        expect_extreme(check, round, run, expected);
    } else if (check->elements.operation == TT_REDUCE_PRODUCT) {
        expect_product(check, round, run, expected);
    } else {
        expect_sum(check, round, run, expected);
    }
}

/* --- Verdicts ----------------------------------------------------------------------------------------------------- */

/* The part of a result that lies in one run. */
struct part {
    uint64_t run;
    unsigned offset; /* of its first element in the run */
    unsigned count;
    uint64_t place; /* of its first element in the result */
    const uint8_t *in;
};

/* The first 26 digits, so that a number of ranks times each half is exact. */
static double upper_half(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    bits &= ~UINT64_C(0x7ffffff);
    memcpy(&number, &bits, sizeof(number));
    return number;
}

/* Not more than the tolerance, and no NaN. */
static bool is_within(const struct tt_bench_result_check *check, const struct tt_bench_expected *expected, unsigned i,
                      double number)
{
    double upper = check->divisor > 1 ? upper_half(number) : number, lower = number - upper;
    double difference = (upper * check->divisor - expected->high[i]) + (lower * check->divisor - expected->low[i]);
    return fabs(difference) <= expected->tolerance[i];
}

static uint64_t wrong_floats(const struct tt_bench_result_check *check, uint64_t round, const struct part *part,
                             bool describes, char *error)
{
    struct tt_bench_expected expected;
    _Alignas(64) uint8_t bytes[RUN_BYTES] = {0};
    double numbers[TT_BENCH_RUN];
    uint64_t wrong = 0;

    tt_bench_result_expect(check, round, part->run, &expected);
    memcpy(bytes, part->in, (size_t)part->count * check->elements.element_bytes);
    tt_bench_elements_widen(&check->elements, bytes, numbers);
    for (unsigned i = 0; i < part->count; i++) {
        wrong += is_within(check, &expected, part->offset + i, numbers[i]) ? 0 : 1;
    }
    for (unsigned i = 0; i < part->count && wrong > 0 && describes; i++) {
        unsigned at = part->offset + i;
        if (!is_within(check, &expected, at, numbers[i])) {
            snprintf(error, TT_BENCH_ERROR_BYTES, "element %" PRIu64 ": %.17g instead of %.17g, give or take %.3g",
                     part->place + i, numbers[i], (expected.high[at] + expected.low[at]) / check->divisor,
                     expected.tolerance[at] / check->divisor);
            break;
        }
    }
    return wrong;
}

/* The bytes of an element as one number, lowest first wherever the machine has it; of opaque ones the first eight. */
static uint64_t bits_of(const uint8_t *element, uint32_t element_bytes)
{
    uint64_t bits = 0;
    uint32_t count = element_bytes < sizeof(bits) ? element_bytes : (uint32_t)sizeof(bits);
    for (uint32_t i = 0; i < count; i++) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        bits |= (uint64_t)element[i] << (8 * i);
#else
        bits = bits << 8 | element[i];
#endif
    }
    return bits;
}

static bool is_complement(const uint8_t *a, const uint8_t *b, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        if ((a[i] ^ b[i]) != UINT8_MAX) {
            return false;
        }
    }
    return true;
}

static uint64_t wrong_bits(const struct tt_bench_result_check *check, uint64_t round, const struct part *part,
                           bool describes, char *error)
{
    _Alignas(64) uint8_t expected[RUN_BYTES] = {0};
    const uint32_t bytes = check->elements.element_bytes;
    uint64_t wrong = 0;

    tt_bench_integer_expect(&check->elements, round, part->run, expected);
    const uint8_t *right = expected + (size_t)part->offset * bytes;
    if (memcmp(part->in, right, (size_t)part->count * bytes) == 0) {
        return 0;
    }
    for (unsigned i = 0; i < part->count; i++) {
        const uint8_t *found = part->in + (size_t)i * bytes, *wanted = right + (size_t)i * bytes;
        if (memcmp(found, wanted, bytes) == 0) {
            continue;
        }
        if (wrong == 0 && describes) {
            snprintf(error, TT_BENCH_ERROR_BYTES, "element %" PRIu64 ": 0x%" PRIx64 " instead of 0x%" PRIx64 "%s",
                     part->place + i, bits_of(found, bytes), bits_of(wanted, bytes),
                     is_complement(found, wanted, bytes) ? " (never written)" : "");
        }
        wrong++;
    }
    return wrong;
}

static struct part part_at(uint64_t first, uint64_t done, uint64_t count, const uint8_t *in)
{
    unsigned offset = (unsigned)((first + done) % TT_BENCH_RUN);
    uint64_t rest = count - done, room = TT_BENCH_RUN - offset;
    return (struct part){(first + done) / TT_BENCH_RUN, offset, (unsigned)(rest < room ? rest : room), done, in};
}

uint64_t tt_bench_result_wrong(const struct tt_bench_result_check *check, uint64_t round, uint64_t first,
                               uint64_t count, const void *result, char error[TT_BENCH_ERROR_BYTES])
{
    uint64_t wrong = 0;
    for (uint64_t done = 0; done < count;) {
        struct part part = part_at(first, done, count, (const uint8_t *)result + done * check->elements.element_bytes);
        wrong += is_float(&check->elements) ? wrong_floats(check, round, &part, wrong == 0, error)
                                            : wrong_bits(check, round, &part, wrong == 0, error);
        done += part.count;
    }
    return wrong;
}

void tt_bench_result_poison(const struct tt_bench_result_check *check, uint64_t round, uint64_t first, uint64_t count,
                            void *result)
{
    _Alignas(64) uint8_t expected[RUN_BYTES] = {0};
    const uint32_t bytes = check->elements.element_bytes;
    uint8_t *out = result;

    if (is_float(&check->elements) && count > 0) {
        memset(result, 0xFF, count * bytes); /* NaN in all of them */
        return;
    }
    for (uint64_t done = 0; done < count;) {
        struct part part = part_at(first, done, count, NULL);
        tt_bench_integer_expect(&check->elements, round, part.run, expected);
        for (size_t i = 0; i < (size_t)part.count * bytes; i++) {
            out[done * bytes + i] = (uint8_t)~expected[(size_t)part.offset * bytes + i];
        }
        done += part.count;
    }
}
