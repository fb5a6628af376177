/* SPDX-License-Identifier: BSD-3-Clause */
/* Nothing can fail. */
#include "reference.h"

#include <string.h>

#include "support/affine.h"

/* One element, whatever its type: an integer as its bits, sign-extended; a float as a double. */
union element {
    uint64_t bits;
    double number;
    struct affine affine;
};

static bool is_float(tutti_type type)
{
    return type == TUTTI_BF16 || type == TUTTI_FP32 || type == TUTTI_FP64;
}

static bool is_signed(tutti_type type)
{
    return type <= TUTTI_INT64;
}

uint32_t reference_element_bytes(tutti_type type)
{
    switch (type) {
    case TUTTI_INT8:
    case TUTTI_UINT8:
        return 1;
    case TUTTI_INT16:
    case TUTTI_UINT16:
    case TUTTI_BF16:
        return 2;
    case TUTTI_INT32:
    case TUTTI_UINT32:
    case TUTTI_FP32:
        return 4;
    case TUTTI_OPAQUE:
        return sizeof(struct affine);
    default:
        return 8;
    }
}

/* An integer has as many bits as its type. */
static uint64_t wrap(tutti_type type, uint64_t bits)
{
    uint32_t unused = 64 - 8 * reference_element_bytes(type);

    return is_signed(type) ? (uint64_t)((int64_t)(bits << unused) >> unused) : bits << unused >> unused;
}

static void store(void *to, tutti_type type, union element element)
{
    float single = (float)element.number;
    uint32_t bits;

    if (type == TUTTI_BF16) {
        memcpy(&bits, &single, sizeof bits);
        memcpy(to, &(uint16_t){(uint16_t)(bits >> 16)}, 2);
    } else if (type == TUTTI_FP32) {
        memcpy(to, &single, sizeof single);
    } else {
        memcpy(to, &element, reference_element_bytes(type)); /* of an integer the low bytes come first */
    }
}

static uint64_t mix(uint64_t rank, uint64_t index, uint64_t salt)
{
    struct tt_random random;

    tt_random_init(&random, salt * UINT64_C(0xBF58476D1CE4E5B9) + rank * UINT64_C(0x94D049BB133111EB) + index);
    return tt_random_next(&random);
}

static union element value_of(const struct collective *collective, uint32_t rank, uint64_t index, uint64_t salt)
{
    uint64_t bits = mix(rank, index, salt);

    if (collective->type == TUTTI_OPAQUE) {
        return (union element){.affine = affine_initial(false, salt, rank, index)};
    }
    if (!is_float(collective->type)) {
        return (union element){.bits = wrap(collective->type, bits)};
    }
    switch (collective->operation) {
    case TUTTI_PRODUCT:
        return (union element){.number = (double)(1 + bits % 2)};
    case TUTTI_MIN:
    case TUTTI_MAX:
        return (union element){.number = (double)(bits % 255) - 127};
    default:
        return (union element){.number = (double)(bits % 15) - 7};
    }
}

static uint64_t factor_of(uint32_t rank)
{
    return 1 + rank % 3;
}

void reference_factor(void *to, tutti_type type, uint32_t rank)
{
    union element factor = {.bits = factor_of(rank)};

    if (is_float(type)) {
        factor.number = (double)factor_of(rank);
    }
    store(to, type == TUTTI_BF16 ? TUTTI_FP32 : type, factor);
}

static double combine_floats(tutti_operation operation, double left, double right)
{
    switch (operation) {
    case TUTTI_PRODUCT:
        return left * right;
    case TUTTI_MIN:
        return left < right ? left : right;
    case TUTTI_MAX:
        return left > right ? left : right;
    default:
        return left + right;
    }
}

static bool is_less(tutti_type type, uint64_t left, uint64_t right)
{
    return is_signed(type) ? (int64_t)left < (int64_t)right : left < right;
}

static uint64_t combine_integers(tutti_type type, tutti_operation operation, uint64_t left, uint64_t right)
{
    switch (operation) {
    case TUTTI_PRODUCT:
        return wrap(type, left * right);
    case TUTTI_MIN:
        return is_less(type, left, right) ? left : right;
    case TUTTI_MAX:
        return is_less(type, left, right) ? right : left;
    case TUTTI_AND:
        return left & right;
    case TUTTI_OR:
        return left | right;
    case TUTTI_XOR:
        return left ^ right;
    default:
        return wrap(type, left + right);
    }
}

static union element combine(const struct collective *collective, union element left, union element right)
{
    if (collective->type == TUTTI_OPAQUE) {
        return (union element){.affine = affine_compose(left.affine, right.affine)};
    }
    if (is_float(collective->type)) {
        return (union element){.number = combine_floats(collective->operation, left.number, right.number)};
    }
    return (union element){.bits = combine_integers(collective->type, collective->operation, left.bits, right.bits)};
}

/* A rank's operand: its element, times its factor where there is one. */
static union element operand_of(const struct collective *collective, uint32_t rank, uint64_t index, uint64_t salt)
{
    union element value = value_of(collective, rank, index, salt);

    if (collective->operation == TUTTI_PREMULTIPLIED_SUM) {
        if (is_float(collective->type)) {
            value.number *= (double)factor_of(rank);
        } else {
            value.bits = wrap(collective->type, value.bits * factor_of(rank));
        }
    }
    return value;
}

void reference_fill(void *to, const struct collective *collective, uint32_t rank, uint64_t first, uint64_t count,
                    uint64_t salt)
{
    uint32_t bytes = reference_element_bytes(collective->type);

    for (uint64_t i = 0; i < count; i++) {
        store((uint8_t *)to + i * bytes, collective->type, value_of(collective, rank, first + i, salt));
    }
}

static bool is_at(const void *got, tutti_type type, uint64_t i, union element wanted)
{
    uint32_t bytes = reference_element_bytes(type);
    uint8_t stored[sizeof(union element)];

    store(stored, type, wanted);
    return memcmp((const uint8_t *)got + i * bytes, stored, bytes) == 0;
}

uint64_t reference_compare_one(const void *got, const struct collective *collective, uint32_t rank, uint64_t first,
                               uint64_t count, uint64_t salt)
{
    uint64_t i = 0;

    while (i < count && is_at(got, collective->type, i, value_of(collective, rank, first + i, salt))) {
        i++;
    }
    return i;
}

uint64_t reference_compare_all(const void *got, const struct collective *collective, uint32_t size, uint64_t first,
                               uint64_t count, uint64_t salt)
{
    for (uint64_t i = 0; i < count; i++) {
        union element wanted = operand_of(collective, 0, first + i, salt);

        for (uint32_t rank = 1; rank < size; rank++) {
            wanted = combine(collective, wanted, operand_of(collective, rank, first + i, salt));
        }
        if (!is_at(got, collective->type, i, wanted)) {
            return i;
        }
    }
    return count;
}
