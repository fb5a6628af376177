/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: naming the ranks that an error is about, in a sentence that stays readable when there are a thousand.
 *
 * Normal path: one pass over the ranks; consecutive ones become a run "5-7".
 *
 * Failures: none; a list that would be too long ends with how many there are.
 */
#include "base/ranks.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { TAIL_BYTES = 32, RUN_BYTES = 32 };

const char *tt_ranks_format(bool (*contains)(const void *set, uint32_t rank), const void *set, uint32_t size,
                            char *text, size_t text_bytes)
{
    assert(text_bytes >= 2 * TAIL_BYTES);
    static const char plural[] = "ranks ";
    const size_t start = sizeof(plural) - 1;
    uint32_t count = 0, last = 0;
    size_t used = start;
    bool full = false;

    for (uint32_t rank = 0; rank < size; rank++) {
        if (!contains(set, rank)) {
            continue;
        }
        uint32_t first = rank;
        while (rank + 1 < size && contains(set, rank + 1)) {
            rank++;
        }
        count += rank - first + 1;
        last = rank;
        if (full) {
            continue;
        }
        char run[RUN_BYTES];
        const char *comma = used > start ? ", " : "";
        int length = first == rank ? snprintf(run, sizeof(run), "%s%u", comma, first)
                                   : snprintf(run, sizeof(run), "%s%u-%u", comma, first, rank);
        /* Room for the tail stays free. */
        full = used + (size_t)length + TAIL_BYTES > text_bytes;
        if (!full) {
            memcpy(text + used, run, (size_t)length + 1);
            used += (size_t)length;
        }
    }
    if (count == 0) {
        snprintf(text, text_bytes, "no rank");
        return text;
    }
    if (count == 1) {
        snprintf(text, text_bytes, "rank %u", last);
        return text;
    }
    memcpy(text, plural, start);
    if (full) {
        snprintf(text + used, text_bytes - used, ", ... (%u in all)", count);
    }
    return text;
}
