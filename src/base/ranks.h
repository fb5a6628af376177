/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of ranks in sentences: "rank 2", "ranks 2, 5-7". */
#ifndef TT_BASE_RANKS_H
#define TT_BASE_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Writes the ranks below `size` that are in the set, in ascending order with runs drawn together; what does not fit is
 * replaced by ", ... (37 in all)". Returns `text`, which needs 64 bytes or more. "no rank" for the empty set.
 */
const char *tt_ranks_format(bool (*contains)(const void *set, uint32_t rank), const void *set, uint32_t size,
                            char *text, size_t text_bytes);

#endif
