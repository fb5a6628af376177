/* SPDX-License-Identifier: BSD-3-Clause */
/* What is aligned to cache lines, and as long as so many of them. */
#ifndef TT_BASE_CACHE_LINE_H
#define TT_BASE_CACHE_LINE_H

#include <stddef.h>

enum { TT_CACHE_LINE_BYTES = 64 };

static inline size_t tt_whole_lines(size_t bytes)
{
    return (bytes + TT_CACHE_LINE_BYTES - 1) / TT_CACHE_LINE_BYTES * TT_CACHE_LINE_BYTES;
}

#endif
