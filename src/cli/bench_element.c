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
#include <string.h>

#include "base/processor.h"
#include "base/random.h"
#include "cli/bench_loops.h"

enum {
    RUN_BYTES = TT_BENCH_RUN * TT_BENCH_OPAQUE_BYTES,
    BITS_ACTIVE = 4,    /* of an `and` or `or`: with more, hardly a bit would be other than 0, or 1 */
    SMALL_LIMIT_M = 127 /* of small_limit: eight bits are scaled to it */
};

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

const struct tt_bench_loops *tt_bench_loops(void)
{
#ifdef __x86_64__
    if (tt_processor_level() >= TT_PROCESSOR_AVX2) {
        return &tt_bench_loops_avx2;
    }
#endif
    return &tt_bench_loops_plain;
}

/* --- Random words ------------------------------------------------------------------------------------------------- */

static void write_stream(uint32_t rank, uint64_t round, uint64_t first_word, unsigned word_count, void *words)
{
    struct tt_random random;
    tt_random_init(&random, round ^ ((uint64_t)rank << 40));
    /* Past 2^32 words it goes on with another key instead of from the beginning. */
    uint32_t key = (uint32_t)(tt_random_next(&random) >> 32) ^ tt_bench_mix((uint32_t)(first_word >> 32));
    uint32_t first = (uint32_t)first_word;

    tt_bench_loops()->hash(key, first, word_count, words);
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
        tt_bench_loops()->shape(elements, out);
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

void tt_bench_elements_widen(const struct tt_bench_elements *elements, const void *run, double *numbers)
{
    tt_bench_loops()->widen(elements, run, numbers);
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
