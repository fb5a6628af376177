/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which method serves which collective: a table of rows (kind, does multicast get through, ranks, bytes of a block from
 * which on, method). All ranks of a group ask the same table with the same question, so they get the same answer.
 *
 * Of the rows for the kind and the network, those with the most ranks that are not more than the group's count (if all
 * have more: those with the fewest); among these the last that begins at or below the block's size. A method that
 * cannot serve a size stands aside for the next row of these that can, and where there is none for one that can serve
 * any: multicast, or without it the ring; direct messages, where neither has the collective; where blocks are combined,
 * Rabenseifner's halves, and of an allreduce with multicast that need not be along one tree, parts.
 *
 * As text, a table is lines of words; empty lines, and what follows a '#', are skipped:
 *
 *     tutti-table 1                       first: the version
 *     measured 8 hosts, 500 Mbit/s        optional: the conditions, to the end of the line
 *     broadcast multicast 8 0 eager       kind, network, ranks, bytes, method
 *     broadcast multicast 8 32K multicast
 */
#ifndef TT_PLAN_CHOICE_H
#define TT_PLAN_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/method.h"

enum { TT_CHOICE_MAX_ROWS = 256, TT_CHOICE_VERSION = 1 };

/* These travel between ranks as they are: no padding. */
struct tt_choice_row {
    uint8_t kind;      /* enum tt_collective_kind */
    uint8_t multicast; /* 1: for groups where it gets through; 0: for the others */
    uint8_t method;    /* enum tt_method */
    uint8_t reserved;
    uint32_t ranks;
    uint64_t from_bytes; /* of a block */
};

struct tt_choice {
    uint32_t row_count;
    uint32_t reserved;
    struct tt_choice_row rows[TT_CHOICE_MAX_ROWS];
};

struct tt_choice_question {
    enum tt_collective_kind kind;
    bool multicast; /* gets through to every rank */
    uint32_t size;  /* ranks */
    uint64_t block_bytes;
    uint32_t element_bytes; /* of what is combined; 0: it may be as short as a byte */
    bool uneven;            /* ranks get parts of different lengths */
    bool one_tree;          /* what is combined has to be combined along the tree of docs/triggered.md, "Same bits" */
    uint64_t eager_most_bytes, gather_most_bytes; /* of all that ranks give */
    uint64_t tree_most_bytes;
};

/* The table that is built in. */
const struct tt_choice *tt_choice_default(void);

/* Whether the method can serve this at all. */
bool tt_choice_possible(const struct tt_choice_question *question, enum tt_method method);

enum tt_method tt_choice_of(const struct tt_choice *choice, const struct tt_choice_question *question);

/* What is wrong with a text: the line, the word (in the text, not terminated), and why. */
struct tt_choice_fault {
    uint32_t line;
    const char *word;
    size_t word_bytes;
    const char *reason; /* static */
};

/* Reads a table. `measured` is in the text, of `measured_bytes`, or NULL. Outputs are set only on success, the fault
 * otherwise. */
bool tt_choice_parse(const char *text, size_t length_bytes, struct tt_choice *choice, const char **measured,
                     size_t *measured_bytes, struct tt_choice_fault *fault);

/* Whether a table that another rank sent holds what parse would have let through. */
bool tt_choice_is_sound(const struct tt_choice *choice);

/* Adds a row behind the others; false if there is no room for it, or it makes no sense there: then *reason says why. */
bool tt_choice_add(struct tt_choice *choice, const struct tt_choice_row *row, const char **reason);

/* Adds the rows of the built-in table for each kind and network that has none. False if there is no room. */
bool tt_choice_complete(struct tt_choice *choice);

const char *tt_choice_network_word(bool multicast);

#endif
