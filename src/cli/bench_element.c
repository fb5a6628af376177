/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the inputs of measured reductions.
 *
 * Normal path: a run of elements is a stretch of random words, a hash of (rank, round, place), which are then shaped in
 * place as type and operation want it. Everything is a loop without a branch over a run, so that inputs of many ranks
 * cost little more than reading them would.
 *
 * Failures: none.
 */
#include "cli/bench_element.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/random.h"

enum {
    RUN_BYTES = TT_BENCH_RUN * TT_BENCH_OPAQUE_BYTES,
    BITS_ACTIVE = 4,    /* of an `and` or `or`: with more, hardly a bit would be other than 0, or 1 */
    SMALL_LIMIT_M = 127 /* of small_limit: eight bits are scaled to it */
};

/* A run is bytes, whatever it is shaped as. */
typedef uint16_t __attribute__((may_alias)) word16;
typedef uint32_t __attribute__((may_alias)) word32;
typedef uint64_t __attribute__((may_alias)) word64;

static const struct tt_bench_format formats[TT_TYPE_COUNT] = {
    [TT_TYPE_FP8_E4M3] = {4, 7, 0x7e},      [TT_TYPE_FP8_E5M2] = {3, 15, 0x7b},
    [TT_TYPE_FP16] = {11, 15, 0x7bff},      [TT_TYPE_BF16] = {8, 127, 0x7f7f},
    [TT_TYPE_FP32] = {24, 127, 0x7f7fffff}, [TT_TYPE_FP64] = {53, 1023, UINT64_C(0x7fefffffffffffff)},
};

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/*
 * How many ranks' elements a result may be made of. Sums: with half as many terms as the unit roundoff goes into 1, the
 * bound on the error stays below 0.65 of what is added up. Products: so many factors of 1/2 are a normal number.
 */
static uint64_t most_active(const struct tt_bench_elements *elements)
{
    const struct tt_bench_format *format = &elements->format;
    bool is_float = tt_type_row(elements->type)->class == TT_CLASS_FLOAT;

    switch (elements->operation) {
    case TT_REDUCE_SUM:
    case TT_REDUCE_AVERAGE:
    case TT_REDUCE_PREMULTIPLIED_SUM:
        return is_float ? UINT64_C(1) << (format->digits - 1) : UINT64_MAX;
    case TT_REDUCE_PRODUCT:
        return is_float ? lesser(UINT64_C(1) << (format->digits - 1), (uint64_t)format->bias - 1) : UINT64_MAX;
    case TT_REDUCE_AND:
    case TT_REDUCE_OR:
        return BITS_ACTIVE;
    default:
        return UINT64_MAX;
    }
}

void tt_bench_elements_init(struct tt_bench_elements *elements, enum tt_type type, enum tt_reduce_operation operation,
                            uint32_t rank_count)
{
    const struct tt_type_row *row = tt_type_row(type);
    bool adds = tt_reduce_operation_row(operation)->step == TT_REDUCE_SUM;

    assert((type == TT_TYPE_OPAQUE) == (operation == TT_REDUCE_USER) && rank_count > 0);
    *elements = (struct tt_bench_elements){.type = type,
                                           .operation = operation,
                                           .element_bytes = row->bytes > 0 ? row->bytes : TT_BENCH_OPAQUE_BYTES,
                                           .rank_count = rank_count,
                                           .format = formats[type]};
    elements->active = (uint32_t)lesser(rank_count, most_active(elements));
    if (row->class == TT_CLASS_FLOAT && adds) {
        uint64_t terms = elements->active;
        terms *= operation == TT_REDUCE_PREMULTIPLIED_SUM ? TT_BENCH_FACTORS : 1;
        uint64_t limit = (UINT64_C(1) << elements->format.digits) / terms;
        elements->small_limit = (int32_t)lesser(limit > 0 ? limit : 1, SMALL_LIMIT_M);
    }
}

bool tt_bench_elements_are_active(const struct tt_bench_elements *elements, uint32_t rank, uint64_t round, uint64_t run)
{
    uint64_t count = elements->rank_count;
    uint64_t begin = ((run % count) * elements->active + round % count) % count;

    return (rank + count - begin) % count < elements->active;
}

/* --- Random words ------------------------------------------------------------------------------------------------- */

static uint32_t mix(uint32_t word)
{
    word ^= word >> 16;
    word *= 0x7feb352dU;
    word ^= word >> 15;
    word *= 0x846ca68bU;
    return word ^ (word >> 16);
}

static void write_stream(uint32_t rank, uint64_t round, uint64_t first_word, unsigned word_count, word32 *words)
{
    struct tt_random random;
    tt_random_init(&random, round ^ ((uint64_t)rank << 40));
    /* Past 2^32 words it goes on with another key instead of from the beginning. */
    uint32_t key = (uint32_t)(tt_random_next(&random) >> 32) ^ mix((uint32_t)(first_word >> 32));
    uint32_t first = (uint32_t)first_word;

    for (unsigned i = 0; i < word_count; i++) {
        words[i] = mix((first + i) * 0x9e3779b1U + key);
    }
}

/* --- Shapes of floats --------------------------------------------------------------------------------------------- */

/*
 * m of one word of so many bits: at odd indices, or if all are alike, from its highest bits, p + 1 with the sign; at
 * even ones its highest eight, scaled to [-limit, limit].
 */
#define MAKE_M(word, signed_type, bits, index)                                                                         \
    (((index)&1U) != 0 || limit == 0                                                                                   \
         ? ((signed_type)(word) >> ((bits)-1 - digits)) | never_0                                                      \
         : (signed_type)((int32_t)((uint32_t)((word) >> ((bits)-8)) * (uint32_t)(2 * limit + 1) >> 8) - limit))

#define SHAPE_BEGIN                                                                                                    \
    const unsigned digits = elements->format.digits;                                                                   \
    const int32_t limit = elements->small_limit, never_0 = limit == 0

/* A small float's code, of a number that it holds exactly and that is 0 or normal: the exponent's bias is exchanged by
 * a multiplication, the rest is bits of fp32. */
static inline uint32_t encode_small(float number, float rebias, unsigned dropped_bits, unsigned sign_shift)
{
    uint32_t bits;
    number *= rebias;
    memcpy(&bits, &number, sizeof(bits));
    return ((bits & 0x7fffffffU) >> dropped_bits) | (bits >> 31 << sign_shift);
}

static void shape_sum_8(const struct tt_bench_elements *elements, uint8_t *run)
{
    SHAPE_BEGIN;
    const float scale = ldexpf(1, -(int)digits), rebias = ldexpf(1, elements->format.bias - 127);
    for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
        int32_t m = MAKE_M(run[i], int8_t, 8, i);
        run[i] = (uint8_t)encode_small((float)m * scale, rebias, 24 - digits, 7);
    }
}

static void shape_sum_16(const struct tt_bench_elements *elements, word16 *run)
{
    SHAPE_BEGIN;
    const float scale = ldexpf(1, -(int)digits), rebias = ldexpf(1, elements->format.bias - 127);
    for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
        int32_t m = MAKE_M(run[i], int16_t, 16, i);
        run[i] = (uint16_t)encode_small((float)m * scale, rebias, 24 - digits, 15);
    }
}

static void shape_sum_32(const struct tt_bench_elements *elements, word32 *run)
{
    SHAPE_BEGIN;
    for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
        float number = (float)MAKE_M(run[i], int32_t, 32, i) * 0x1p-24F;
        memcpy(&run[i], &number, sizeof(number));
    }
}

static void shape_sum_64(const struct tt_bench_elements *elements, word64 *run)
{
    SHAPE_BEGIN;
    for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
        double number = (double)MAKE_M(run[i], int64_t, 64, i) * 0x1p-53;
        memcpy(&run[i], &number, sizeof(number));
    }
}

/* Sign, the exponent of 1 or 1/2, and at odd indices a fraction: all from the word's own bits. */
#define SHAPE_PRODUCT(type)                                                                                            \
    do {                                                                                                               \
        type *words = run;                                                                                             \
        for (unsigned i = 0; i < TT_BENCH_RUN; i++) {                                                                  \
            type word = words[i];                                                                                      \
            type kept = (type)((i & 1U) != 0 ? sign | fraction : sign);                                                \
            type below_1 = (type)((word >> fraction_bits) & 1U);                                                       \
            words[i] = (type)((word & kept) | (type)((type)(bias - below_1) << fraction_bits));                        \
        }                                                                                                              \
    } while (0)

static void shape_product(const struct tt_bench_elements *elements, void *run)
{
    const unsigned fraction_bits = elements->format.digits - 1;
    const uint64_t fraction = (UINT64_C(1) << fraction_bits) - 1;
    const uint64_t sign = UINT64_C(1) << (elements->element_bytes * 8 - 1);
    const uint64_t bias = (uint64_t)elements->format.bias;

    switch (elements->element_bytes) {
    case 1:
        SHAPE_PRODUCT(uint8_t);
        break;
    case 2:
        SHAPE_PRODUCT(word16);
        break;
    case 4:
        SHAPE_PRODUCT(word32);
        break;
    default:
        SHAPE_PRODUCT(word64);
        break;
    }
}

static void shape_float(const struct tt_bench_elements *elements, void *run)
{
    if (elements->operation == TT_REDUCE_PRODUCT) {
        shape_product(elements, run);
        return;
    }
    switch (elements->element_bytes) {
    case 1:
        shape_sum_8(elements, run);
        break;
    case 2:
        shape_sum_16(elements, run);
        break;
    case 4:
        shape_sum_32(elements, run);
        break;
    default:
        shape_sum_64(elements, run);
        break;
    }
}

/* --- Runs --------------------------------------------------------------------------------------------------------- */

/* Sets the lowest bit of every element, or of every other 64-bit word of opaque ones: the scale. */
static void make_odd(uint32_t element_bytes, uint8_t *run)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const uint32_t lowest = 0;
#else
    const uint32_t lowest = (element_bytes < 8 ? element_bytes : 8) - 1;
#endif
    for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
        run[i * element_bytes + lowest] |= 1;
    }
}

/* 1 of a product, all bits of an `and`, otherwise 0. */
static void write_neutral(const struct tt_bench_elements *elements, void *run)
{
    memset(run, elements->operation == TT_REDUCE_AND ? 0xFF : 0, (size_t)TT_BENCH_RUN * elements->element_bytes);
    if (elements->operation == TT_REDUCE_PRODUCT) { /* of floats: integers are always active */
        const uint64_t one = (uint64_t)elements->format.bias << (elements->format.digits - 1);
        const uint8_t one8 = (uint8_t)one;
        const uint16_t one16 = (uint16_t)one;
        const uint32_t one32 = (uint32_t)one;
        const void *const ones[] = {&one8, &one16, &one32, &one};
        unsigned which = elements->element_bytes < 4 ? elements->element_bytes - 1 : elements->element_bytes / 4 + 1;
        for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
            memcpy((uint8_t *)run + (size_t)i * elements->element_bytes, ones[which], elements->element_bytes);
        }
    }
}

void tt_bench_elements_run(const struct tt_bench_elements *elements, uint32_t rank, uint64_t round, uint64_t run,
                           void *out)
{
    const unsigned words = TT_BENCH_RUN * elements->element_bytes / sizeof(uint32_t);
    if (elements->active < elements->rank_count && !tt_bench_elements_are_active(elements, rank, round, run)) {
        write_neutral(elements, out);
        return;
    }
    write_stream(rank, round, run * words, words, out);
    if (tt_type_row(elements->type)->class == TT_CLASS_FLOAT) {
        shape_float(elements, out);
    } else if (elements->operation == TT_REDUCE_PRODUCT || elements->operation == TT_REDUCE_USER) {
        make_odd(elements->element_bytes, out);
    }
}

/* A stretch of elements run by run: what of a run begins at `offset` of it, `count` elements. */
struct stretch {
    uint64_t run;
    unsigned offset, count;
};

static struct stretch next_stretch(uint64_t first, uint64_t count)
{
    unsigned offset = (unsigned)(first % TT_BENCH_RUN);
    return (struct stretch){first / TT_BENCH_RUN, offset, (unsigned)lesser(count, TT_BENCH_RUN - offset)};
}

void tt_bench_elements_fill(const struct tt_bench_elements *elements, uint32_t rank, uint64_t round, uint64_t first,
                            uint64_t count, void *out)
{
    _Alignas(64) uint8_t run[RUN_BYTES] = {0};
    uint8_t *to = out;
    for (uint64_t done = 0; done < count;) {
        struct stretch part = next_stretch(first + done, count - done);
        tt_bench_elements_run(elements, rank, round, part.run, run);
        memcpy(to + done * elements->element_bytes, run + (size_t)part.offset * elements->element_bytes,
               (size_t)part.count * elements->element_bytes);
        done += part.count;
    }
}

uint64_t tt_bench_elements_differ(const struct tt_bench_elements *elements, uint32_t rank, uint64_t round,
                                  uint64_t first, uint64_t count, const void *data, uint64_t *first_wrong)
{
    _Alignas(64) uint8_t run[RUN_BYTES] = {0};
    uint64_t wrong = 0;
    for (uint64_t done = 0; done < count;) {
        struct stretch part = next_stretch(first + done, count - done);
        const uint8_t *in = (const uint8_t *)data + done * elements->element_bytes;
        const uint8_t *expected = run + (size_t)part.offset * elements->element_bytes;
        size_t bytes = (size_t)part.count * elements->element_bytes;
        tt_bench_elements_run(elements, rank, round, part.run, run);
        for (size_t i = 0; memcmp(in, expected, bytes) != 0 && i < bytes; i++) {
            if (in[i] != expected[i]) {
                *first_wrong = wrong == 0 ? done * elements->element_bytes + i : *first_wrong;
                wrong++;
            }
        }
        done += part.count;
    }
    return wrong;
}

/* --- Numbers ------------------------------------------------------------------------------------------------------ */

/* A small float's bits as those of fp32, by the same multiplication, which also makes subnormal ones normal. */
static inline double widen_small(uint32_t code, uint32_t finite, unsigned sign_shift, unsigned shift, float rebias)
{
    uint32_t magnitude = code & ((1U << sign_shift) - 1), bits = magnitude << shift;
    float number;
    memcpy(&number, &bits, sizeof(number));
    number *= rebias;
    memcpy(&bits, &number, sizeof(bits));
    bits |= code >> sign_shift << 31;
    bits = magnitude > finite ? 0x7fc00000U : bits;
    memcpy(&number, &bits, sizeof(number));
    return (double)number;
}

void tt_bench_elements_widen(const struct tt_bench_elements *elements, const void *run, double *numbers)
{
    const struct tt_bench_format *format = &elements->format;
    const uint8_t *run8 = run;
    const word16 *run16 = run;
    const float rebias = ldexpf(1, 127 - format->bias);
    const uint32_t finite = (uint32_t)format->finite;
    const unsigned shift = 24 - format->digits;

    switch (elements->element_bytes) {
    case 1:
        for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
            numbers[i] = widen_small(run8[i], finite, 7, shift, rebias);
        }
        break;
    case 2:
        for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
            numbers[i] = widen_small(run16[i], finite, 15, shift, rebias);
        }
        break;
    case 4:
        for (unsigned i = 0; i < TT_BENCH_RUN; i++) {
            float number;
            memcpy(&number, run8 + i * sizeof(number), sizeof(number));
            numbers[i] = (double)number;
        }
        break;
    default:
        memcpy(numbers, run, TT_BENCH_RUN * sizeof(double));
        break;
    }
}

double tt_bench_factor(enum tt_type type, uint32_t rank)
{
    return (1 + rank % TT_BENCH_FACTORS) * (tt_type_row(type)->class == TT_CLASS_FLOAT ? 0.5 : 1);
}

void tt_bench_factor_encode(enum tt_type type, uint32_t rank, void *factor)
{
    const double number = tt_bench_factor(type, rank);
    const float fp32 = (float)number;
    const uint8_t integer8 = (uint8_t)number;
    const uint16_t integer16 = (uint16_t)number;
    const uint32_t integer32 = (uint32_t)number;
    const uint64_t integer64 = (uint64_t)number;

    switch (tt_type_row(type)->accumulator) {
    case TT_TYPE_FP32:
        memcpy(factor, &fp32, sizeof(fp32));
        return;
    case TT_TYPE_FP64:
        memcpy(factor, &number, sizeof(number));
        return;
    default:
        break;
    }
    switch (tt_type_row(type)->bytes) {
    case 1:
        memcpy(factor, &integer8, sizeof(integer8));
        break;
    case 2:
        memcpy(factor, &integer16, sizeof(integer16));
        break;
    case 4:
        memcpy(factor, &integer32, sizeof(integer32));
        break;
    default:
        memcpy(factor, &integer64, sizeof(integer64));
        break;
    }
}

void tt_bench_compose(void *destination, const void *left, const void *right, uint64_t count, void *context)
{
    (void)context;
    for (uint64_t i = 0; i < count; i++) {
        struct tt_bench_affine a, b, both;
        memcpy(&a, (const uint8_t *)left + i * sizeof(a), sizeof(a));
        memcpy(&b, (const uint8_t *)right + i * sizeof(b), sizeof(b));
        both.scale = a.scale * b.scale;
        both.offset = a.scale * b.offset + a.offset;
        memcpy((uint8_t *)destination + i * sizeof(both), &both, sizeof(both));
    }
}
