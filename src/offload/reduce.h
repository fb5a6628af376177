/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reduction unit's arithmetic: what every operation does with elements of every type. docs/reductions.md says what
 * results mean; in short:
 *
 * - Integers wrap. A quotient of an average is truncated.
 * - Floats are rounded to nearest even after each operation. fp8, fp16 and bf16 compute in fp32: a step rounds its
 *   result to the type; a chain of steps may keep its accumulator in fp32 and be rounded once.
 * - Minimum and maximum are those of IEEE 754-2019, section 9.6: NaN if either is NaN, and -0 is below +0.
 * - A NaN that a kernel makes or passes on becomes the positive quiet one without payload.
 *
 * So all operations but a user's are commutative to the bit, and each version of a kernel, on each processor, gives the
 * same bits; what remains is the order in which a reduction adds, which is the caller's.
 *
 * Buffers need no alignment, but an accumulator that is a float *, which has a float's. A destination is exactly an
 * operand, or apart from it; operands may be the same. A count of 0 touches nothing, and then pointers may be NULL.
 * All functions are thread-safe, and none allocates.
 */
#ifndef TT_OFFLOAD_REDUCE_H
#define TT_OFFLOAD_REDUCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/element.h"
#include "offload/reduce_kernels.h"

/* More ranks than this have no average: up to here a float holds any number of them. */
enum { TT_REDUCE_DIVISOR_LIMIT = 1 << 24 };

/*
 * A user's operation: destination[i] = left[i] operation right[i]. `destination` is left, right, or apart. It is called
 * on the thread that drives the reduction, must not call the library, and has to be associative.
 */
typedef void tt_reduce_function(void *destination, const void *left, const void *right, uint64_t count, void *context);

/* Whether the operation is defined for the type; if not, tt_last_error() says what is. */
tutti_status tt_reduce_supported(unsigned type, unsigned operation);

/* --- Steps ---------------------------------------------------------------------------------------------------------
 */

/* accumulator = accumulator operation operand. Here and below: not a user's operation, and one that is supported. */
void tt_reduce(enum tt_type type, enum tt_reduce_operation operation, void *accumulator, const void *operand,
               uint64_t count);

/* destination = left operation right */
void tt_reduce_to(enum tt_type type, enum tt_reduce_operation operation, void *destination, const void *left,
                  const void *right, uint64_t count);

/*
 * A pre-multiplied sum's own elements: destination = factor * source, and, in one go with the same bits,
 * destination = left + factor * right. The factor is one element of tt_type_row(type)->accumulator: fp32 for the small
 * floats, else the type itself.
 */
void tt_reduce_scale(enum tt_type type, void *destination, const void *source, const void *factor, uint64_t count);
void tt_reduce_add_scaled(enum tt_type type, void *destination, const void *left, const void *right, const void *factor,
                          uint64_t count);

/* An average's end: destination = source / rank_count, of 1 to TT_REDUCE_DIVISOR_LIMIT ranks. */
void tt_reduce_divide(enum tt_type type, void *destination, const void *source, uint32_t rank_count, uint64_t count);

/* --- Chains over small floats (tt_type_is_small_float), with an accumulator in fp32 --------------------------------
 */

/* accumulator = source, to begin with. The accumulator is apart from it. */
void tt_reduce_widen(enum tt_type type, float *accumulator, const void *source, uint64_t count);
void tt_reduce_widen_scaled(enum tt_type type, float *accumulator, const void *source, float factor, uint64_t count);

/* accumulator = accumulator operation operand. Two accumulators are combined as TT_TYPE_FP32. */
void tt_reduce_accumulate(enum tt_type type, enum tt_reduce_operation operation, float *accumulator,
                          const void *operand, uint64_t count);

/* accumulator = accumulator + factor * operand; the product is rounded to fp32 only. */
void tt_reduce_accumulate_scaled(enum tt_type type, float *accumulator, const void *operand, float factor,
                                 uint64_t count);

/* destination = accumulator / rank_count, rounded once; rank_count is 1 where nothing is averaged. They are apart. */
void tt_reduce_narrow(enum tt_type type, void *destination, const float *accumulator, uint32_t rank_count,
                      uint64_t count);

/* --- A reduction: type and operation looked up once, also a user's --------------------------------------------------
 */

struct tt_reduction {
    enum tt_type type;
    enum tt_reduce_operation operation;
    uint32_t element_bytes;
    bool is_commutative;
    tt_combine_kernel *combine; /* NULL: the user's function */
    tt_reduce_function *function;
    void *context; /* the user's */
};

/* Fails as tt_reduce_supported() does; not for a user's operation. */
tutti_status tt_reduction_init(struct tt_reduction *reduction, unsigned type, unsigned operation);

/*
 * `element_bytes` must be the type's, or at least 1 where it is TT_TYPE_OPAQUE. If the function is not commutative, the
 * caller combines in the order of ranks. `context` is not looked at, and must be there as long as the function is
 * called.
 */
tutti_status tt_reduction_init_user(struct tt_reduction *reduction, unsigned type, uint32_t element_bytes,
                                    tt_reduce_function *function, void *context, bool is_commutative);

/* destination = left operation right */
void tt_reduction_combine(const struct tt_reduction *reduction, void *destination, const void *left, const void *right,
                          uint64_t count);

/* --- Versions of the kernels, by what they are compiled for: for tests and measurements ----------------------------
 */

/* Those that this processor runs; the last one is what everything above uses. */
unsigned tt_reduce_version_count(void);
const char *tt_reduce_version_name(unsigned version);
const struct tt_reduce_row *tt_reduce_version_row(unsigned version, enum tt_type type); /* not opaque */

#endif
