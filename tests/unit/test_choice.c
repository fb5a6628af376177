/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of methods: its text, and its answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plan/choice.h"

enum { EAGER_MOST = 32768, TREE_MOST = 65536 };

static enum tt_method ask(const struct tt_choice *choice, enum tt_collective_kind kind, bool multicast, uint32_t size,
                          uint64_t bytes)
{
    struct tt_choice_question question = {.kind = kind,
                                          .multicast = multicast,
                                          .size = size,
                                          .block_bytes = bytes,
                                          .eager_most_bytes = EAGER_MOST,
                                          .tree_most_bytes = TREE_MOST};

    return tt_choice_of(choice, &question);
}

static void parse(const char *text, struct tt_choice *choice)
{
    struct tt_choice_fault fault;
    const char *measured;
    size_t measured_bytes;

    if (!tt_choice_parse(text, strlen(text), choice, &measured, &measured_bytes, &fault)) {
        fail_msg("line %u, '%.*s': %s", fault.line, (int)fault.word_bytes, fault.word, fault.reason);
    }
}

static void the_built_in_table_is_sound_and_knows_every_kind_and_network(void **state)
{
    struct tt_choice copy = *tt_choice_default();

    (void)state;
    assert_true(tt_choice_is_sound(&copy));
    assert_true(tt_choice_complete(&copy));
    assert_int_equal(copy.row_count, tt_choice_default()->row_count);
}

static void the_built_in_table_always_gives_a_method_that_can_serve(void **state)
{
    (void)state;
    for (uint32_t size = 1; size < 70; size++) {
        for (uint64_t bytes = 0; bytes < UINT64_C(1) << 30; bytes = bytes * 2 + 1) {
            for (unsigned multicast = 0; multicast < 2; multicast++) {
                for (unsigned kind = TT_BROADCAST; kind <= TT_ALLGATHER; kind++) {
                    struct tt_choice_question question = {.kind = (enum tt_collective_kind)kind,
                                                          .multicast = multicast,
                                                          .size = size,
                                                          .block_bytes = bytes,
                                                          .eager_most_bytes = EAGER_MOST,
                                                          .tree_most_bytes = TREE_MOST};

                    assert_true(tt_choice_possible(&question, tt_choice_of(tt_choice_default(), &question)));
                }
            }
        }
    }
}

static void limits_hold_at_the_byte(void **state)
{
    const struct tt_choice *choice = tt_choice_default();

    (void)state;
    assert_int_equal(ask(choice, TT_BROADCAST, true, 8, EAGER_MOST), TT_METHOD_EAGER);
    assert_int_equal(ask(choice, TT_BROADCAST, true, 8, EAGER_MOST + 1), TT_METHOD_MULTICAST);
    assert_int_equal(ask(choice, TT_ALLGATHER, true, 8, EAGER_MOST / 8), TT_METHOD_EAGER);
    assert_int_equal(ask(choice, TT_ALLGATHER, true, 8, EAGER_MOST / 8 + 1), TT_METHOD_MULTICAST);
    assert_int_equal(ask(choice, TT_ALLGATHER, true, 7, EAGER_MOST / 7), TT_METHOD_EAGER);
    assert_int_equal(ask(choice, TT_ALLGATHER, true, 7, EAGER_MOST / 7 + 1), TT_METHOD_MULTICAST);
    assert_int_equal(ask(choice, TT_ALLGATHER, true, 8, UINT64_MAX), TT_METHOD_MULTICAST);
    assert_int_equal(ask(choice, TT_BROADCAST, false, 8, 16384), TT_METHOD_TREE);
    assert_int_equal(ask(choice, TT_BROADCAST, false, 8, 16385), TT_METHOD_RING);
    assert_int_equal(ask(choice, TT_ALLGATHER, false, 8, 1), TT_METHOD_RING);
}

static void no_bytes_are_a_barrier(void **state)
{
    (void)state;
    assert_int_equal(ask(tt_choice_default(), TT_BROADCAST, true, 8, 0), TT_METHOD_MULTICAST);
    assert_int_equal(ask(tt_choice_default(), TT_BROADCAST, false, 8, 0), TT_METHOD_RING);
}

static void a_method_that_cannot_serve_stands_aside(void **state)
{
    struct tt_choice choice;

    (void)state;
    parse("tutti-table 1\n"
          "broadcast multicast 2 0 tree\n"
          "broadcast point-to-point 2 0 tree\n"
          "allgather multicast 2 0 eager\n",
          &choice);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, TREE_MOST), TT_METHOD_TREE);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, TREE_MOST + 1), TT_METHOD_MULTICAST);
    assert_int_equal(ask(&choice, TT_BROADCAST, false, 8, TREE_MOST + 1), TT_METHOD_RING);
    assert_int_equal(ask(&choice, TT_ALLGATHER, true, 8, EAGER_MOST), TT_METHOD_MULTICAST);
}

static void the_section_with_the_most_ranks_that_fit_counts(void **state)
{
    struct tt_choice choice;

    (void)state;
    parse("tutti-table 1\n"
          "broadcast multicast 16 0 multicast\n"
          "broadcast multicast 4 0 chain\n"
          "broadcast multicast 8 0 tree\n",
          &choice);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 2, 100), TT_METHOD_RING); /* none fits: the one with the fewest */
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 4, 100), TT_METHOD_RING);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 7, 100), TT_METHOD_RING);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, 100), TT_METHOD_TREE);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 15, 100), TT_METHOD_TREE);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 16, 100), TT_METHOD_MULTICAST);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 60000, 100), TT_METHOD_MULTICAST);
}

static void a_text_says_sizes_with_units_and_comments(void **state)
{
    static const char text[] = "# by hand\r\n"
                               "\r\n"
                               "  tutti-table\t1   # the version\r\n"
                               "measured 8 hosts, # 500 Mbit/s\n"
                               "broadcast multicast 8 0 eager\n"
                               "broadcast multicast 8 2K tree#small\n"
                               "broadcast multicast 8 5000 multicast\n"
                               "broadcast multicast 8 1M chain";
    struct tt_choice choice;
    struct tt_choice_fault fault;
    const char *measured;
    size_t measured_bytes;

    (void)state;
    assert_true(tt_choice_parse(text, sizeof text - 1, &choice, &measured, &measured_bytes, &fault));
    assert_int_equal(measured_bytes, strlen("8 hosts, # 500 Mbit/s"));
    assert_memory_equal(measured, "8 hosts, # 500 Mbit/s", measured_bytes);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, 2047), TT_METHOD_EAGER);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, 2048), TT_METHOD_TREE);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, 4999), TT_METHOD_TREE);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, 5000), TT_METHOD_MULTICAST);
    assert_int_equal(ask(&choice, TT_BROADCAST, true, 8, 1 << 20), TT_METHOD_RING);
    /* What it does not speak of is as built in. */
    assert_int_equal(ask(&choice, TT_ALLGATHER, true, 8, 1), TT_METHOD_EAGER);
    assert_int_equal(ask(&choice, TT_BROADCAST, false, 8, 1), TT_METHOD_TREE);
}

struct bad {
    const char *text;
    uint32_t line;
    const char *word;
};

static void what_is_no_table_is_refused_with_line_and_word(void **state)
{
    static const struct bad bads[] = {
        {"", 0, ""},
        {"\n\n# nothing\n", 3, ""},
        {"tutti-tables 1\n", 1, "tutti-tables"},
        {"tutti-table\n", 1, ""},
        {"tutti-table 2\n", 1, "2"},
        {"tutti-table 1 1\n", 1, "1"},
        {"tutti-table 1\n", 1, ""},
        {"tutti-table 1\nmeasured x\n", 2, "measured"},
        {"tutti-table 1\n\nreduce multicast 2 0 eager\n", 3, "reduce"},
        {"tutti-table 1\nbroadcast ethernet 2 0 eager\n", 2, "ethernet"},
        {"tutti-table 1\nbroadcast multicast 0 0 eager\n", 2, "0"},
        {"tutti-table 1\nbroadcast multicast two 0 eager\n", 2, "two"},
        {"tutti-table 1\nbroadcast multicast 4294967296 0 eager\n", 2, "4294967296"},
        {"tutti-table 1\nbroadcast multicast 2 -1 eager\n", 2, "-1"},
        {"tutti-table 1\nbroadcast multicast 2 K eager\n", 2, "K"},
        {"tutti-table 1\nbroadcast multicast 2 99999999999999M eager\n", 2, "99999999999999M"},
        {"tutti-table 1\nbroadcast multicast 2 9999999999999999 eager\n", 2, "9999999999999999"},
        {"tutti-table 1\nbroadcast multicast 2 0 fast\n", 2, "fast"},
        {"tutti-table 1\nbroadcast multicast 2 0\n", 2, ""},
        {"tutti-table 1\nbroadcast multicast 2 0 eager now\n", 2, "now"},
        {"tutti-table 1\nbroadcast multicast 2 1 eager\n", 2, "eager"},
        {"tutti-table 1\nbroadcast point-to-point 2 0 eager\n", 2, "eager"},
        {"tutti-table 1\nbroadcast point-to-point 2 0 multicast\n", 2, "multicast"},
        {"tutti-table 1\nallgather multicast 2 0 tree\n", 2, "tree"},
        {"tutti-table 1\nallgather multicast 2 0 ring\nallgather multicast 2 0 ring\n", 3, "ring"},
        {"tutti-table 1\nallgather multicast 2 0 ring\nallgather multicast 2 9 ring\nallgather multicast 2 8 ring\n", 4,
         "ring"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        struct tt_choice choice = {.row_count = 77};
        struct tt_choice_fault fault;
        const char *measured;
        size_t measured_bytes;

        if (tt_choice_parse(bads[i].text, strlen(bads[i].text), &choice, &measured, &measured_bytes, &fault)) {
            fail_msg("text %zu was taken", i);
        }
        if (fault.line != bads[i].line || fault.reason == NULL || fault.word_bytes != strlen(bads[i].word) ||
            memcmp(fault.word, bads[i].word, fault.word_bytes) != 0) {
            fail_msg("text %zu: line %u, '%.*s': %s", i, fault.line, (int)fault.word_bytes, fault.word, fault.reason);
        }
        assert_int_equal(choice.row_count, 77);
    }
}

static void there_is_room_for_32_rows(void **state)
{
    struct tt_choice choice = {0};
    struct tt_choice_row row = {.kind = TT_ALLGATHER, .multicast = 1, .method = TT_METHOD_RING};
    const char *reason;

    (void)state;
    for (uint32_t i = 0; i < TT_CHOICE_MAX_ROWS; i++) {
        row.ranks = i + 1;
        assert_true(tt_choice_add(&choice, &row, &reason));
    }
    row.ranks++;
    assert_false(tt_choice_add(&choice, &row, &reason));
    assert_true(tt_choice_is_sound(&choice));
    assert_false(tt_choice_complete(&choice));
}

static void a_table_from_another_rank_is_checked_like_a_text(void **state)
{
    struct tt_choice choice = *tt_choice_default();

    (void)state;
    choice.rows[0].method = TT_METHOD_COUNT;
    assert_false(tt_choice_is_sound(&choice));
    choice = *tt_choice_default();
    choice.rows[0].kind = 3;
    assert_false(tt_choice_is_sound(&choice));
    choice = *tt_choice_default();
    choice.rows[0].multicast = 2;
    assert_false(tt_choice_is_sound(&choice));
    choice = *tt_choice_default();
    choice.rows[1].from_bytes = 0;
    assert_false(tt_choice_is_sound(&choice));
    choice = *tt_choice_default();
    choice.row_count = TT_CHOICE_MAX_ROWS + 1;
    assert_false(tt_choice_is_sound(&choice));
    memset(&choice, 0xFF, sizeof choice);
    assert_false(tt_choice_is_sound(&choice));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_built_in_table_is_sound_and_knows_every_kind_and_network),
        cmocka_unit_test(the_built_in_table_always_gives_a_method_that_can_serve),
        cmocka_unit_test(limits_hold_at_the_byte),
        cmocka_unit_test(no_bytes_are_a_barrier),
        cmocka_unit_test(a_method_that_cannot_serve_stands_aside),
        cmocka_unit_test(the_section_with_the_most_ranks_that_fit_counts),
        cmocka_unit_test(a_text_says_sizes_with_units_and_comments),
        cmocka_unit_test(what_is_no_table_is_refused_with_line_and_word),
        cmocka_unit_test(there_is_room_for_32_rows),
        cmocka_unit_test(a_table_from_another_rank_is_checked_like_a_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
