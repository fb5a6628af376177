/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each rank puts into a collective, and what has to come out, worked out one element after the other. Floats have
 * values of which every result is exact, in whatever order they are combined.
 */
#ifndef TT_TESTS_DIFFERENTIAL_REFERENCE_H
#define TT_TESTS_DIFFERENTIAL_REFERENCE_H

#include "plan.h"

enum {
    AFFINE_BYTES = 8
}; /* an element of the type OPAQUE: a map x -> a x + b, and the operation is one after another */

uint32_t reference_element_bytes(tutti_type type);

/* Elements `first` to `first + count - 1` of what `rank` gives. */
void reference_fill(void *to, const struct collective *collective, uint32_t rank, uint64_t first, uint64_t count,
                    uint64_t salt);

/* The factor of a rank's premultiplied sum, as tutti_reduction_options wants it: 8 bytes are enough. */
void reference_factor(void *to, tutti_type type, uint32_t rank);

/* For the operation USER. */
void reference_affine(void *destination, const void *left, const void *right, uint64_t count, void *context);

/* Compares elements with what `rank` alone gives, or what `size` ranks give together. Returns the first one that
 * differs, or `count`. */
uint64_t reference_compare_one(const void *got, const struct collective *collective, uint32_t rank, uint64_t first,
                               uint64_t count, uint64_t salt);
uint64_t reference_compare_all(const void *got, const struct collective *collective, uint32_t size, uint64_t first,
                               uint64_t count, uint64_t salt);

#endif
