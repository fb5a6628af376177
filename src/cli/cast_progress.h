/* SPDX-License-Identifier: BSD-3-Clause */
/* How far a cast has come, on one line of standard error. */
#ifndef TT_CLI_CAST_PROGRESS_H
#define TT_CLI_CAST_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TT_PROGRESS_BYTES = 512 };

struct tt_cast_progress {
    bool is_shown;
    bool has_escapes;       /* the terminal can clear the rest of a line */
    uint32_t drawn_columns; /* of the line that is there now; 0: none is */
    uint64_t size_bytes;    /* or TT_CAST_UNKNOWN */
    uint64_t done_bytes;
    uint64_t begun_ns, drawn_ns;
};

void tt_cast_progress_begin(struct tt_cast_progress *progress, uint64_t size_bytes, bool is_shown);

/* Further bytes have come; draws now and then. */
void tt_cast_progress_add(struct tt_cast_progress *progress, uint64_t bytes);

/* Draws the last state and ends the line. */
void tt_cast_progress_end(struct tt_cast_progress *progress);

/* Removes the line, so that something else can be said. */
void tt_cast_progress_clear(struct tt_cast_progress *progress);

/* "[=====>    ]  45 %  461 MiB of 1024 MiB  59.8 MB/s  0:09 left"; of a size that is unknown: bytes and rate. */
void tt_cast_progress_format(const struct tt_cast_progress *progress, uint64_t now_ns, char text[TT_PROGRESS_BYTES]);

/*
 * What is written so that `text` is what the line shows: it is cut to a terminal of `columns` (0: no terminal), whose
 * last column stays free, since some begin a new line there. What was drawn before goes with an escape sequence, or
 * under blanks. Returns how many columns the text has.
 */
uint32_t tt_cast_progress_line(const struct tt_cast_progress *progress, const char *text, uint32_t columns,
                               char line[2 * TT_PROGRESS_BYTES]);

/* "0 B", "999 B", "1.5 KiB", "1023 MiB": three digits at least, in the largest unit of which there is one. */
const char *tt_format_bytes(uint64_t bytes, char *text, size_t text_bytes);

#endif
