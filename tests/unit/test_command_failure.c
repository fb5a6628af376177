/* SPDX-License-Identifier: BSD-3-Clause */
/* What the program says when the library fails: the status, the rank at fault and what was tried, each once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/command.h"

static const char *failure(tutti_status status, const char *said, int rank, const char *host)
{
    static char text[256];

    tt_command_failure(text, sizeof text, status, said, rank, host, "sending");
    return text;
}

static void status_and_rank_are_said_once(void **state)
{
    (void)state;
    assert_string_equal(failure(TUTTI_ERR_PEER_FAILED, "a peer failed: rank 1", 1, ""),
                        "a peer failed: rank 1 (sending)");
    assert_string_equal(failure(TUTTI_ERR_PEER_FAILED, "a peer failed: rank 1 (10.0.0.1:7: refused)", 1, "h1"),
                        "a peer failed: rank 1 on h1 (sending) (10.0.0.1:7: refused)");
    assert_string_equal(failure(TUTTI_ERR_PEER_FAILED, "a peer failed: rank 1 on h1 (10.0.0.1:7: refused)", 1, "h1"),
                        "a peer failed: rank 1 on h1 (sending) (10.0.0.1:7: refused)");
    assert_string_equal(failure(TUTTI_ERR_PEER_FAILED, "", 1, "h1"), "a peer failed: rank 1 on h1 (sending)");
}

static void what_the_library_says_of_others_stays(void **state)
{
    (void)state;
    assert_string_equal(failure(TUTTI_ERR_PEER_FAILED, "a peer failed: rank 2 on h2 cannot reach rank 1 on h1", 1, ""),
                        "a peer failed: rank 1 (sending): rank 2 on h2 cannot reach rank 1 on h1");
    assert_string_equal(failure(TUTTI_ERR_PEER_FAILED, "a peer failed: rank 1 cannot reach this rank", 1, ""),
                        "a peer failed: rank 1 (sending): rank 1 cannot reach this rank");
    assert_string_equal(failure(TUTTI_ERR_PEER_FAILED, "a peer failed: rank 12", 1, ""),
                        "a peer failed: rank 1 (sending): rank 12");
}

static void sentence_of_another_kind_follows(void **state)
{
    (void)state;
    assert_string_equal(failure(TUTTI_ERR_TIMED_OUT, "rank 0 waited 30 s", -1, ""),
                        "timed out (sending): rank 0 waited 30 s");
    assert_string_equal(failure(TUTTI_ERR_TIMED_OUT, "timed out", -1, ""), "timed out (sending)");
    assert_string_equal(failure(TUTTI_ERR_TIMED_OUT, "", -1, ""), "timed out (sending)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_and_rank_are_said_once),
        cmocka_unit_test(what_the_library_says_of_others_stays),
        cmocka_unit_test(sentence_of_another_kind_follows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
