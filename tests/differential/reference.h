/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each rank puts into a collective, and what has to come out, worked out one element after the other. Floats have
 * values of which every result is exact, in whatever order they are combined.
 */
#ifndef TT_TESTS_DIFFERENTIAL_REFERENCE_H
#define TT_TESTS_DIFFERENTIAL_REFERENCE_H

#include "plan.h"

/* Of the type OPAQUE: of a struct affine (support/affine.h), whose composition is the operation USER. */
uint32_t reference_element_bytes(tutti_type type);

/* Elements `first` to `first + count - 1` of what `rank` gives. */
void reference_fill(void *to, const struct collective *collective, uint32_t rank, uint64_t first, uint64_t count,
                    uint64_t salt);

/* The factor of a rank's premultiplied sum, as tutti_reduction_options wants it: 8 bytes are enough. */
void reference_factor(void *to, tutti_type type, uint32_t rank);

/* Compares elements with what `rank` alone gives, or what `size` ranks give together. Returns the first one that
 * differs, or `count`. */
uint64_t reference_compare_one(const void *got, const struct collective *collective, uint32_t rank, uint64_t first,
                               uint64_t count, uint64_t salt);
uint64_t reference_compare_all(const void *got, const struct collective *collective, uint32_t size, uint64_t first,
                               uint64_t count, uint64_t salt);

#endif
