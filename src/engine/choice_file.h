/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of methods, from a file or built in; see plan/choice.h for what it says. */
#ifndef TT_ENGINE_CHOICE_FILE_H
#define TT_ENGINE_CHOICE_FILE_H

#include "plan/choice.h"
#include "tutti/status.h"

enum { TT_CHOICE_TEXT_BYTES = 256 };

/* A table, and what is to be said about it. */
struct tt_choice_source {
    struct tt_choice choice;
    char path[TT_CHOICE_TEXT_BYTES];     /* "": built in */
    char measured[TT_CHOICE_TEXT_BYTES]; /* under these conditions; "": nobody says */
};

/* Reads the file, or takes the built-in table if `path` is "". INVALID_ARGUMENT with file, line and word for what is no
 * table, and with the reason for a file that cannot be read; NO_RESOURCE or NO_MEMORY if that is for want of these. */
tutti_status tt_choice_load(const char *path, struct tt_choice_source *source);

/* The question for a collective in a group of `size`, with the limits of the methods as they are in this build. */
struct tt_choice_question tt_choice_question_for(enum tt_collective_kind kind, bool multicast, uint32_t size,
                                                 uint64_t block_bytes);

#endif
