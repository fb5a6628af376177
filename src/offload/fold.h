/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All ranks' vectors, which one rank has, combined along the tree of recursive doubling (plan/schedule.h): the first
 * ranks in pairs if their number is no power of two, then neighbours, then pairs of neighbours, and so on; left is what
 * lower ranks gave. So the bits are those of the methods that exchange along this tree.
 */
#ifndef TT_OFFLOAD_FOLD_H
#define TT_OFFLOAD_FOLD_H

#include <stdint.h>

#include "offload/reduce.h"

/*
 * `vectors` are `size` of `count` elements each, `stride_bytes` apart, in the order of ranks. They are worked on in
 * place; returns where the result is, valid as long as they are.
 */
const void *tt_fold(const struct tt_reduction *reduction, void *vectors, uint64_t stride_bytes, uint32_t size,
                    uint64_t count);

#endif
