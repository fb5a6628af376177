/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any text as a table of methods, and any bytes as one that another rank sent. A table that is taken must be sound,
 * must have an answer that can serve for every question, and must be read again from what is written of it; what is
 * refused must leave the output alone and name a word of the text.
 */
#include <inttypes.h>
#include <string.h>

#include "check.h"
#include "plan/choice.h"

enum { LINE_BYTES = 96, LONGEST_TEXT = LINE_BYTES * (TT_CHOICE_MAX_ROWS + 1) };

static void ask(const struct tt_choice *choice)
{
    static const uint32_t ranks[] = {1, 2, 3, 8, 65, UINT32_MAX};
    static const uint64_t bytes[] = {0, 1, 2049, 32768, 65537, UINT64_MAX};

    for (unsigned i = 0; i < 4 * 36 * (TT_KIND_COUNT - TT_BROADCAST); i++) {
        enum tt_collective_kind kind = (enum tt_collective_kind)(TT_BROADCAST + i / 4 / 36);
        struct tt_choice_question question = {.kind = kind,
                                              .multicast = i & 1,
                                              .one_tree = i & 2 && tt_kind_row(kind)->combines,
                                              .size = ranks[i / 4 % 6],
                                              .block_bytes = bytes[i / 24 % 6],
                                              .eager_most_bytes = 32768,
                                              .gather_most_bytes = 32768,
                                              .tree_most_bytes = 65536};
        enum tt_method method = tt_choice_of(choice, &question);

        FUZZ_CHECK(method < TT_METHOD_COUNT && tt_choice_possible(&question, method));
    }
}

/* What is written of a table is read as the same table. */
static void read_again(const struct tt_choice *choice)
{
    static char text[LONGEST_TEXT];
    struct tt_choice again;
    struct tt_choice_fault fault;
    const char *measured;
    size_t measured_bytes, length = (size_t)sprintf(text, "tutti-table 1\n");

    for (uint32_t i = 0; i < choice->row_count; i++) {
        const struct tt_choice_row *row = &choice->rows[i];

        length += (size_t)snprintf(text + length, LINE_BYTES, "%s %s %" PRIu32 " %" PRIu64 " %s\n",
                                   tt_kind_word(row->kind), tt_choice_network_word(row->multicast), row->ranks,
                                   row->from_bytes, tt_method_row(row->method)->word);
    }
    FUZZ_CHECK(tt_choice_parse(text, length, &again, &measured, &measured_bytes, &fault));
    FUZZ_CHECK(measured == NULL && again.row_count == choice->row_count);
    FUZZ_CHECK(memcmp(again.rows, choice->rows, choice->row_count * sizeof choice->rows[0]) == 0);
}

static void fuzz_text(const char *text, size_t size)
{
    static const struct tt_choice untouched = {.row_count = 77};
    struct tt_choice choice = untouched;
    struct tt_choice_fault fault;
    const char *measured = text;
    size_t measured_bytes = SIZE_MAX;

    if (!tt_choice_parse(text, size, &choice, &measured, &measured_bytes, &fault)) {
        FUZZ_CHECK(memcmp(&choice, &untouched, sizeof choice) == 0);
        FUZZ_CHECK(measured == text && measured_bytes == SIZE_MAX);
        FUZZ_CHECK(fault.reason != NULL && fault.word >= text && fault.word_bytes <= size);
        FUZZ_CHECK((size_t)(fault.word - text) <= size - fault.word_bytes);
        return;
    }
    FUZZ_CHECK(choice.row_count >= 1 && choice.row_count <= TT_CHOICE_MAX_ROWS);
    FUZZ_CHECK(tt_choice_is_sound(&choice));
    FUZZ_CHECK(measured == NULL || (measured >= text && (size_t)(measured - text) + measured_bytes <= size));
    ask(&choice);
    read_again(&choice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tt_choice choice;
    char *text = malloc(size > 0 ? size : 1);

    FUZZ_CHECK(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    fuzz_text(text, size);
    free(text);
    memset(&choice, 0, sizeof choice);
    if (size > 0) {
        memcpy(&choice, data, size < sizeof choice ? size : sizeof choice);
    }
    if (tt_choice_is_sound(&choice)) {
        ask(&choice);
    }
    return 0;
}
