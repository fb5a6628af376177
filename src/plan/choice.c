/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of methods. Normal path: parse() reads a text word by word and adds row after row, or the built-in table
 * is taken; of() finds the section for the group's size and the row for the block's.
 *
 * Failures: a text that is no table is refused as a whole, at its first word that cannot be. A section is a run of
 * ascending sizes that begins at 0, so that every size has an answer; a row that breaks this is refused too, whether it
 * comes from a text or from another rank.
 */
#include "plan/choice.h"

#include <string.h>

#include "plan/layout.h"

#define NOT_A_METHOD                                                                                                   \
    "not a method (eager, multicast, gather, tree, ring, chain, sequential, binomial-tree, binomial-pipeline, "        \
    "hybrid, binomial, double-tree, recursive-doubling, recursive-halving, rabenseifner, triggered-ring, direct, "     \
    "parts or eager-parts)"
#define TOO_MANY_ROWS "more than 256 rows"
#define NOT_A_KIND    "not a collective (broadcast, allgather, reduce, allreduce, reduce-scatter, gather or scatter)"

enum { WHOLE_VECTOR_BYTES = 3072 };

_Static_assert(TT_CHOICE_MAX_ROWS == 256, "as it is told");

/* docs/performance.md has the figures: 2 to 32 hosts, links of 500 Mbit/s and without a limit. A row: the collective, 1
 * if multicast gets through, ranks, bytes of a block from which on, the method. */
#define ROW(kind_name, gets_through, least_ranks, least_bytes, method_name)                                            \
    {                                                                                                                  \
        .kind = TT_##kind_name, .multicast = (gets_through), .ranks = (least_ranks), .from_bytes = (least_bytes),      \
        .method = TT_METHOD_##method_name                                                                              \
    }

static const struct tt_choice built_in = {.row_count = 131,
                                          .rows = {
                                              ROW(BROADCAST, 1, 2, 0, EAGER),
                                              ROW(BROADCAST, 1, 2, 32769, MULTICAST),
                                              ROW(ALLGATHER, 1, 2, 0, EAGER),
                                              ROW(ALLGATHER, 1, 3, 0, GATHER),
                                              ROW(ALLGATHER, 1, 3, 2049, EAGER),
                                              ROW(ALLGATHER, 1, 3, 8193, MULTICAST),
                                              ROW(BROADCAST, 0, 2, 0, BINOMIAL),
                                              ROW(BROADCAST, 0, 2, 131073, RING),
                                              ROW(BROADCAST, 0, 3, 0, TREE),
                                              ROW(BROADCAST, 0, 3, 8193, DOUBLE_TREE),
                                              ROW(BROADCAST, 0, 3, 1048577, BINOMIAL_PIPELINE),
                                              ROW(BROADCAST, 0, 12, 0, TREE),
                                              ROW(BROADCAST, 0, 12, 16385, DOUBLE_TREE),
                                              ROW(BROADCAST, 0, 12, 1048577, BINOMIAL_PIPELINE),
                                              ROW(ALLGATHER, 0, 2, 0, RECURSIVE_DOUBLING),
                                              ROW(ALLGATHER, 0, 2, 65537, RING),
                                              ROW(ALLGATHER, 0, 3, 0, RECURSIVE_DOUBLING),
                                              ROW(ALLGATHER, 0, 3, 16385, TRIGGERED_RING),
                                              ROW(ALLGATHER, 0, 3, 262145, RING),
                                              ROW(ALLGATHER, 0, 5, 0, RECURSIVE_DOUBLING),
                                              ROW(ALLGATHER, 0, 5, 8193, TRIGGERED_RING),
                                              ROW(ALLGATHER, 0, 5, 262145, RING),
                                              ROW(ALLGATHER, 0, 12, 0, RECURSIVE_DOUBLING),
                                              ROW(ALLGATHER, 0, 12, 4097, TRIGGERED_RING),
                                              ROW(ALLGATHER, 0, 12, 262145, RING),
                                              ROW(ALLGATHER, 0, 16, 0, RECURSIVE_DOUBLING),
                                              ROW(ALLGATHER, 0, 16, 8193, TRIGGERED_RING),
                                              ROW(ALLGATHER, 0, 16, 131073, RING),
                                              ROW(ALLGATHER, 0, 17, 0, RECURSIVE_DOUBLING),
                                              ROW(ALLGATHER, 0, 17, 2049, TRIGGERED_RING),
                                              ROW(ALLGATHER, 0, 17, 131073, RING),
                                              ROW(REDUCE, 1, 2, 0, BINOMIAL),
                                              ROW(REDUCE, 1, 2, 16385, RABENSEIFNER),
                                              ROW(REDUCE, 1, 3, 0, GATHER),
                                              ROW(REDUCE, 1, 3, 16385, RABENSEIFNER),
                                              ROW(REDUCE, 1, 17, 0, GATHER),
                                              ROW(REDUCE, 1, 17, 4097, BINOMIAL),
                                              ROW(REDUCE, 1, 17, 16385, RABENSEIFNER),
                                              ROW(REDUCE, 1, 32, 0, GATHER),
                                              ROW(REDUCE, 1, 32, 16385, RABENSEIFNER),
                                              ROW(REDUCE, 1, 33, 0, GATHER),
                                              ROW(REDUCE, 1, 33, 4097, BINOMIAL),
                                              ROW(REDUCE, 1, 33, 16385, RABENSEIFNER),
                                              ROW(ALLREDUCE, 1, 2, 0, EAGER),
                                              ROW(ALLREDUCE, 1, 2, 32769, RECURSIVE_DOUBLING),
                                              ROW(ALLREDUCE, 1, 2, 262145, PARTS),
                                              ROW(ALLREDUCE, 1, 3, 0, GATHER),
                                              ROW(ALLREDUCE, 1, 3, 2049, EAGER),
                                              ROW(ALLREDUCE, 1, 3, 6145, EAGER_PARTS),
                                              ROW(ALLREDUCE, 1, 3, 65537, PARTS),
                                              ROW(ALLREDUCE, 1, 4, 0, GATHER),
                                              ROW(ALLREDUCE, 1, 4, 16385, RABENSEIFNER),
                                              ROW(ALLREDUCE, 1, 4, 131073, PARTS),
                                              ROW(ALLREDUCE, 1, 5, 0, GATHER),
                                              ROW(ALLREDUCE, 1, 5, 32769, PARTS),
                                              ROW(ALLREDUCE, 1, 8, 0, GATHER),
                                              ROW(ALLREDUCE, 1, 8, 16385, RABENSEIFNER),
                                              ROW(ALLREDUCE, 1, 8, 131073, PARTS),
                                              ROW(ALLREDUCE, 1, 9, 0, GATHER),
                                              ROW(ALLREDUCE, 1, 9, 24577, EAGER_PARTS),
                                              ROW(ALLREDUCE, 1, 9, 65537, PARTS),
                                              ROW(ALLREDUCE, 1, 16, 0, GATHER),
                                              ROW(ALLREDUCE, 1, 16, 32769, RABENSEIFNER),
                                              ROW(ALLREDUCE, 1, 16, 114689, PARTS),
                                              ROW(ALLREDUCE, 1, 17, 0, GATHER),
                                              ROW(ALLREDUCE, 1, 17, 32769, RABENSEIFNER),
                                              ROW(ALLREDUCE, 1, 17, 65537, PARTS),
                                              ROW(ALLREDUCE, 1, 32, 0, GATHER),
                                              ROW(ALLREDUCE, 1, 32, 32769, RABENSEIFNER),
                                              ROW(ALLREDUCE, 1, 32, 114689, PARTS),
                                              ROW(ALLREDUCE, 1, 33, 0, GATHER),
                                              ROW(ALLREDUCE, 1, 33, 32769, RABENSEIFNER),
                                              ROW(ALLREDUCE, 1, 33, 65537, PARTS),
                                              ROW(REDUCE_SCATTER, 1, 2, 0, EAGER),
                                              ROW(REDUCE_SCATTER, 1, 2, 32769, DIRECT),
                                              ROW(REDUCE_SCATTER, 1, 3, 0, GATHER),
                                              ROW(REDUCE_SCATTER, 1, 3, 3073, DIRECT),
                                              ROW(REDUCE_SCATTER, 1, 3, 16385, TRIGGERED_RING),
                                              ROW(REDUCE_SCATTER, 1, 4, 0, GATHER),
                                              ROW(REDUCE_SCATTER, 1, 4, 4097, RECURSIVE_HALVING),
                                              ROW(REDUCE_SCATTER, 1, 4, 131073, TRIGGERED_RING),
                                              ROW(REDUCE_SCATTER, 1, 5, 0, GATHER),
                                              ROW(REDUCE_SCATTER, 1, 5, 4097, DIRECT),
                                              ROW(REDUCE_SCATTER, 1, 5, 16385, TRIGGERED_RING),
                                              ROW(REDUCE_SCATTER, 1, 8, 0, GATHER),
                                              ROW(REDUCE_SCATTER, 1, 8, 8193, RECURSIVE_HALVING),
                                              ROW(REDUCE_SCATTER, 1, 8, 131073, TRIGGERED_RING),
                                              ROW(REDUCE_SCATTER, 1, 9, 0, GATHER),
                                              ROW(REDUCE_SCATTER, 1, 9, 12289, RECURSIVE_HALVING),
                                              ROW(REDUCE_SCATTER, 1, 9, 20481, TRIGGERED_RING),
                                              ROW(REDUCE_SCATTER, 1, 16, 0, GATHER),
                                              ROW(REDUCE_SCATTER, 1, 16, 16385, RECURSIVE_HALVING),
                                              ROW(REDUCE_SCATTER, 1, 16, 98305, TRIGGERED_RING),
                                              ROW(REDUCE_SCATTER, 1, 16, 196609, RECURSIVE_HALVING),
                                              ROW(REDUCE_SCATTER, 1, 16, 393217, TRIGGERED_RING),
                                              ROW(REDUCE_SCATTER, 1, 17, 0, GATHER),
                                              ROW(REDUCE_SCATTER, 1, 17, 16385, RECURSIVE_HALVING),
                                              ROW(REDUCE_SCATTER, 1, 17, 49153, TRIGGERED_RING),
                                              ROW(REDUCE_SCATTER, 1, 32, 0, GATHER),
                                              ROW(REDUCE_SCATTER, 1, 32, 16385, RECURSIVE_HALVING),
                                              ROW(REDUCE_SCATTER, 1, 32, 131073, TRIGGERED_RING),
                                              ROW(REDUCE_SCATTER, 1, 33, 0, GATHER),
                                              ROW(REDUCE_SCATTER, 1, 33, 16385, RECURSIVE_HALVING),
                                              ROW(REDUCE_SCATTER, 1, 33, 49153, TRIGGERED_RING),
                                              ROW(GATHER, 1, 2, 0, DIRECT),
                                              ROW(SCATTER, 1, 2, 0, DIRECT),
                                              ROW(REDUCE, 0, 2, 0, BINOMIAL),
                                              ROW(REDUCE, 0, 2, 16385, RABENSEIFNER),
                                              ROW(ALLREDUCE, 0, 2, 0, RECURSIVE_DOUBLING),
                                              ROW(ALLREDUCE, 0, 2, 16385, RABENSEIFNER),
                                              ROW(ALLREDUCE, 0, 2, 65537, TRIGGERED_RING),
                                              ROW(ALLREDUCE, 0, 3, 0, RECURSIVE_DOUBLING),
                                              ROW(ALLREDUCE, 0, 3, 16385, TRIGGERED_RING),
                                              ROW(ALLREDUCE, 0, 4, 0, RECURSIVE_DOUBLING),
                                              ROW(ALLREDUCE, 0, 4, 16385, RABENSEIFNER),
                                              ROW(ALLREDUCE, 0, 4, 65537, TRIGGERED_RING),
                                              ROW(REDUCE_SCATTER, 0, 2, 0, DIRECT),
                                              ROW(REDUCE_SCATTER, 0, 3, 0, DIRECT),
                                              ROW(REDUCE_SCATTER, 0, 3, 16385, TRIGGERED_RING),
                                              ROW(REDUCE_SCATTER, 0, 8, 0, RECURSIVE_HALVING),
                                              ROW(REDUCE_SCATTER, 0, 8, 49153, TRIGGERED_RING),
                                              ROW(REDUCE_SCATTER, 0, 16, 0, RECURSIVE_HALVING),
                                              ROW(REDUCE_SCATTER, 0, 16, 98305, TRIGGERED_RING),
                                              ROW(REDUCE_SCATTER, 0, 17, 0, RECURSIVE_HALVING),
                                              ROW(REDUCE_SCATTER, 0, 17, 49153, TRIGGERED_RING),
                                              ROW(REDUCE_SCATTER, 0, 32, 0, RECURSIVE_HALVING),
                                              ROW(REDUCE_SCATTER, 0, 32, 131073, TRIGGERED_RING),
                                              ROW(REDUCE_SCATTER, 0, 33, 0, RECURSIVE_HALVING),
                                              ROW(REDUCE_SCATTER, 0, 33, 49153, TRIGGERED_RING),
                                              ROW(GATHER, 0, 2, 0, DIRECT),
                                              ROW(SCATTER, 0, 2, 0, DIRECT),
                                          }};

#undef ROW

const struct tt_choice *tt_choice_default(void)
{
    return &built_in;
}

/* --- Answers ------------------------------------------------------------------------------------------------------ */

static uint64_t parts_bytes(const struct tt_choice_question *question)
{
    uint32_t element_bytes = question->element_bytes > 0 ? question->element_bytes : 1;

    return tt_layout_part_bytes(question->block_bytes, element_bytes, question->size) * question->size;
}

bool tt_choice_possible(const struct tt_choice_question *question, enum tt_method method)
{
    uint32_t roots = tt_collective_root_count(question->kind, question->size);
    bool serves = tt_method_serves(method, question->kind) || question->block_bytes == 0; /* a barrier */

    if (question->one_tree && question->block_bytes > 0 && !tt_method_row(method)->one_tree) {
        return false;
    }
    switch (method) {
    case TT_METHOD_RING:
        return serves;
    case TT_METHOD_MULTICAST:
        return serves && question->multicast;
    case TT_METHOD_EAGER: /* a barrier of two ranks, too; of more it would be a datagram from each */
        return serves && question->multicast && (question->block_bytes > 0 || roots == 2) &&
               question->block_bytes <= question->eager_most_bytes / roots;
    case TT_METHOD_GATHER:
        return serves && question->multicast && question->block_bytes <= question->gather_most_bytes / question->size;
    case TT_METHOD_PARTS:
        return serves && question->multicast && question->block_bytes > 0;
    case TT_METHOD_EAGER_PARTS:
        return serves && question->multicast && question->block_bytes > 0 &&
               parts_bytes(question) <= question->eager_most_bytes;
    case TT_METHOD_TREE:
        return serves && question->block_bytes > 0 && question->block_bytes <= question->tree_most_bytes;
    default:
        return serves && question->block_bytes > 0;
    }
}

static bool is_of(const struct tt_choice_row *row, const struct tt_choice_question *question)
{
    return row->kind == question->kind && (row->multicast != 0) == question->multicast;
}

/* Which section counts: its number of ranks, or 0 if there is none for the kind and the network. */
static uint32_t section_for(const struct tt_choice *choice, const struct tt_choice_question *question)
{
    uint32_t best = 0;

    for (uint32_t i = 0; i < choice->row_count; i++) {
        uint32_t ranks = choice->rows[i].ranks;
        bool fits = ranks <= question->size, best_fits = best != 0 && best <= question->size;

        if (is_of(&choice->rows[i], question) &&
            (best == 0 || (fits && (!best_fits || ranks > best)) || (!fits && !best_fits && ranks < best))) {
            best = ranks;
        }
    }
    return best;
}

/* A method that can serve any size of it. */
static enum tt_method last_resort(const struct tt_choice_question *question)
{
    bool may_part = tt_method_serves(TT_METHOD_PARTS, question->kind) && question->multicast && !question->one_tree;

    if (tt_kind_row(question->kind)->combines && question->block_bytes > 0) {
        return may_part ? TT_METHOD_PARTS : TT_METHOD_RABENSEIFNER;
    }
    if (question->block_bytes > 0 && !tt_method_serves(TT_METHOD_RING, question->kind)) {
        return TT_METHOD_DIRECT;
    }
    return question->multicast ? TT_METHOD_MULTICAST : TT_METHOD_RING;
}

/* As rows mean it. Two ranks that get equal parts exchange halves of vectors (tt_terms_swap()); with others it would be
 * whole ones, which pays only while the time is that of a datagram. */
static bool row_serves(const struct tt_choice_question *question, enum tt_method method)
{
    bool whole = method == TT_METHOD_EAGER && question->uneven && question->size == 2;

    return tt_choice_possible(question, method) && (!whole || question->block_bytes <= WHOLE_VECTOR_BYTES);
}

enum tt_method tt_choice_of(const struct tt_choice *choice, const struct tt_choice_question *question)
{
    enum tt_method method = last_resort(question), otherwise = method;
    uint32_t ranks = section_for(choice, question);

    if (question->block_bytes == 0 && question->kind != TT_ALLGATHER) { /* a barrier, whatever it is called */
        struct tt_choice_question barrier = *question;

        barrier.kind = TT_ALLGATHER;
        method = tt_choice_of(choice, &barrier);
        return tt_choice_possible(question, method) ? method : otherwise;
    }
    if (question->block_bytes == 0 && question->multicast && question->size > 2) {
        otherwise = TT_METHOD_GATHER; /* nothing can be eager there; two ranks need one message each way */
    }

    /* Ascending: the last one that begins below counts, or where that cannot serve so much, the next one that can. */
    for (uint32_t i = 0; i < choice->row_count; i++) {
        const struct tt_choice_row *row = &choice->rows[i];

        if (is_of(row, question) && row->ranks == ranks &&
            (row->from_bytes <= question->block_bytes || !row_serves(question, method))) {
            method = (enum tt_method)row->method;
        }
    }
    return row_serves(question, method) ? method : otherwise;
}

/* --- Rows --------------------------------------------------------------------------------------------------------- */

static const char *row_fault(const struct tt_choice *choice, const struct tt_choice_row *row)
{
    const struct tt_choice_row *last = NULL;

    if (row->kind == TT_KIND_NONE || row->kind >= TT_KIND_COUNT) {
        return NOT_A_KIND;
    }
    if (row->multicast > 1) {
        return "not a network (multicast or point-to-point)";
    }
    if (row->method >= TT_METHOD_COUNT) {
        return NOT_A_METHOD;
    }
    if (row->multicast == 0 && tt_method_row(row->method)->multicasts) {
        return "cannot serve where multicast does not get through";
    }
    if (!tt_method_serves(row->method, row->kind)) {
        return "the collective does not have this method";
    }
    if (row->ranks == 0) {
        return "a group has at least 1 rank";
    }
    for (uint32_t i = 0; i < choice->row_count; i++) {
        const struct tt_choice_row *other = &choice->rows[i];

        if (other->kind == row->kind && other->multicast == row->multicast && other->ranks == row->ranks) {
            last = other;
        }
    }
    if (last == NULL && row->from_bytes != 0) {
        return "the first row of a collective, network and number of ranks is from 0 bytes on";
    }
    if (last != NULL && row->from_bytes <= last->from_bytes) {
        return "not more bytes than the row before it has";
    }
    return choice->row_count < TT_CHOICE_MAX_ROWS ? NULL : TOO_MANY_ROWS;
}

bool tt_choice_add(struct tt_choice *choice, const struct tt_choice_row *row, const char **reason)
{
    const char *fault = row_fault(choice, row);

    if (fault != NULL) {
        *reason = fault;
        return false;
    }
    choice->rows[choice->row_count++] = *row;
    return true;
}

bool tt_choice_is_sound(const struct tt_choice *choice)
{
    struct tt_choice again = {0};
    const char *reason;

    if (choice->row_count > TT_CHOICE_MAX_ROWS) {
        return false;
    }
    for (uint32_t i = 0; i < choice->row_count; i++) {
        if (!tt_choice_add(&again, &choice->rows[i], &reason)) {
            return false;
        }
    }
    return true;
}

bool tt_choice_complete(struct tt_choice *choice)
{
    uint32_t own = choice->row_count;
    const char *reason;

    for (uint32_t i = 0; i < built_in.row_count; i++) {
        const struct tt_choice_row *row = &built_in.rows[i];
        bool is_there = false;

        for (uint32_t k = 0; k < own; k++) {
            is_there |= choice->rows[k].kind == row->kind && choice->rows[k].multicast == row->multicast;
        }
        if (!is_there && !tt_choice_add(choice, row, &reason)) {
            return false;
        }
    }
    return true;
}

/* --- Words -------------------------------------------------------------------------------------------------------- */

const char *tt_choice_network_word(bool multicast)
{
    return multicast ? "multicast" : "point-to-point";
}

struct reader {
    const char *at, *end;
    struct tt_choice_fault *fault; /* line: of the word that was read last */
};

static bool is_blank(char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r';
}

/* The next word of this line; at its end the word is empty. */
static void read_word(struct reader *reader)
{
    while (reader->at < reader->end && is_blank(*reader->at)) {
        reader->at++;
    }
    if (reader->at < reader->end && *reader->at == '#') {
        while (reader->at < reader->end && *reader->at != '\n') {
            reader->at++;
        }
    }
    reader->fault->word = reader->at;
    while (reader->at < reader->end && !is_blank(*reader->at) && *reader->at != '\n' && *reader->at != '#') {
        reader->at++;
    }
    reader->fault->word_bytes = (size_t)(reader->at - reader->fault->word);
}

/* Goes to the next line that has a word, and reads that; false at the end of the text. */
static bool read_line(struct reader *reader)
{
    while (reader->at < reader->end) {
        reader->fault->line++;
        read_word(reader);
        if (reader->fault->word_bytes > 0) {
            return true;
        }
        reader->at += reader->at < reader->end; /* the newline */
    }
    return false;
}

static bool word_is(const struct reader *reader, const char *word)
{
    return reader->fault->word_bytes == strlen(word) && memcmp(reader->fault->word, word, strlen(word)) == 0;
}

static bool refuse(struct reader *reader, const char *reason)
{
    reader->fault->reason = reason;
    return false;
}

/* A decimal number; with a K or an M behind it as bytes are. */
static bool word_number(const struct reader *reader, bool units, uint64_t most, uint64_t *number)
{
    size_t digits = reader->fault->word_bytes;
    const char *word = reader->fault->word;
    uint64_t value = 0, factor = 1;

    if (units && digits > 0 && (word[digits - 1] == 'K' || word[digits - 1] == 'M')) {
        factor = word[--digits] == 'K' ? 1024 : 1024 * 1024;
    }
    if (digits == 0 || digits > 15) {
        return false;
    }
    for (size_t i = 0; i < digits; i++) {
        if (word[i] < '0' || word[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(word[i] - '0');
    }
    if (value > most / factor) {
        return false;
    }
    *number = value * factor;
    return true;
}

static bool read_end_of_line(struct reader *reader)
{
    read_word(reader);
    return reader->fault->word_bytes == 0 || refuse(reader, "more words than a line has");
}

static bool read_method(const struct reader *reader, uint8_t *method)
{
    for (uint8_t m = 0; m < TT_METHOD_COUNT; m++) {
        const struct tt_method_row *row = tt_method_row(m);

        if (word_is(reader, row->word) || (row->broadcast_word != NULL && word_is(reader, row->broadcast_word))) {
            *method = m;
            return true;
        }
    }
    return false;
}

/* A row, of which the first word has been read. */
static bool read_row(struct reader *reader, struct tt_choice *choice)
{
    struct tt_choice_row row = {0};
    uint64_t number;
    const char *reason;

    row.kind = TT_KIND_NONE + 1;
    while (row.kind < TT_KIND_COUNT && !word_is(reader, tt_kind_word(row.kind))) {
        row.kind++;
    }
    if (row.kind == TT_KIND_COUNT) {
        return refuse(reader, NOT_A_KIND);
    }
    read_word(reader);
    row.multicast = word_is(reader, "multicast");
    if (!row.multicast && !word_is(reader, "point-to-point")) {
        return refuse(reader, "not a network (multicast or point-to-point)");
    }
    read_word(reader);
    if (!word_number(reader, false, UINT32_MAX, &number) || number == 0) {
        return refuse(reader, "not a number of ranks");
    }
    row.ranks = (uint32_t)number;
    read_word(reader);
    if (!word_number(reader, true, UINT64_C(1) << 47, &row.from_bytes)) {
        return refuse(reader, "not a number of bytes (4096, 4K or 1M)");
    }
    read_word(reader);
    if (!read_method(reader, &row.method)) {
        return refuse(reader, NOT_A_METHOD);
    }
    if (!tt_choice_add(choice, &row, &reason)) {
        return refuse(reader, reason);
    }
    return read_end_of_line(reader);
}

static bool read_version(struct reader *reader)
{
    uint64_t version;

    if (!read_line(reader) || !word_is(reader, "tutti-table")) {
        return refuse(reader, "a table begins with the line \"tutti-table 1\"");
    }
    read_word(reader);
    if (!word_number(reader, false, UINT32_MAX, &version) || version != TT_CHOICE_VERSION) {
        return refuse(reader, "not a version of tables that is known here (1)");
    }
    return read_end_of_line(reader);
}

bool tt_choice_parse(const char *text, size_t length_bytes, struct tt_choice *choice, const char **measured,
                     size_t *measured_bytes, struct tt_choice_fault *fault)
{
    struct reader reader = {.at = text, .end = text + length_bytes, .fault = fault};
    struct tt_choice read = {0};
    const char *conditions = NULL;
    size_t conditions_bytes = 0;

    *fault = (struct tt_choice_fault){.word = text};
    if (!read_version(&reader)) {
        return false;
    }
    reader.at += reader.at < reader.end;
    while (read_line(&reader)) {
        if (word_is(&reader, "measured")) {
            while (reader.at < reader.end && is_blank(*reader.at)) {
                reader.at++;
            }
            conditions = reader.at;
            while (reader.at < reader.end && *reader.at != '\n') {
                reader.at++;
            }
            conditions_bytes = (size_t)(reader.at - conditions);
        } else if (!read_row(&reader, &read)) {
            return false;
        }
        reader.at += reader.at < reader.end;
    }
    if (read.row_count == 0) {
        return refuse(&reader, "a table without a row");
    }
    if (!tt_choice_complete(&read)) {
        return refuse(&reader, TOO_MANY_ROWS ", with those of the built-in table for what is missing");
    }
    *choice = read;
    *measured = conditions;
    *measured_bytes = conditions_bytes;
    return true;
}
