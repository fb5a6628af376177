/* SPDX-License-Identifier: BSD-3-Clause */
/* What is printed: tables, cells, JSON, and a benchmark's report. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/bench_report.h"
#include "cli/doctor_checks.h"
#include "cli/json.h"
#include "cli/table.h"

struct output {
    FILE *stream;
    char *text;
    size_t length;
};

static void open_output(struct output *output)
{
    output->text = NULL;
    output->stream = open_memstream(&output->text, &output->length);
    assert_non_null(output->stream);
}

static void close_output(struct output *output, const char *expected)
{
    fclose(output->stream);
    assert_string_equal(output->text, expected);
    free(output->text);
}

static void columns_line_up_under_heading_with_units(void **state)
{
    (void)state;
    static const struct tt_column columns[] = {
        {"size", "B", 8, false}, {"algorithm", NULL, 10, true}, {"time", "us", 6, false}};
    static const char *const cells[] = {"65536", "multicast", "12.5"};
    struct output output;
    open_output(&output);
    tt_table_heading(output.stream, columns, 3);
    tt_table_row(output.stream, columns, 3, cells);
    close_output(&output, "#     size  algorithm     time\n"
                          "#      (B)                (us)\n"
                          "     65536  multicast     12.5\n");
}

static void wide_cell_is_never_cut(void **state)
{
    (void)state;
    static const struct tt_column columns[] = {{"a", NULL, 2, false}, {"b", NULL, 2, false}};
    static const char *const cells[] = {"123456", "7"};
    struct output output;
    open_output(&output);
    tt_table_row(output.stream, columns, 2, cells);
    close_output(&output, "  123456   7\n");
}

static void fitted_table_is_as_wide_as_its_widest_cell(void **state)
{
    (void)state;
    static const struct tt_column columns[] = {{"name", NULL, 0, true}, {"MTU", NULL, 0, false}, {"x", NULL, 0, true}};
    static const char *const cells[] = {"lo", "65536", "up", "enp65s0f0np0", "1500", ""};
    struct output output;
    open_output(&output);
    tt_table_print(output.stream, columns, 3, cells, 2);
    close_output(&output, "name            MTU  x\n"
                          "lo            65536  up\n"
                          "enp65s0f0np0   1500\n");
}

static void cells_keep_the_digits_that_matter(void **state)
{
    (void)state;
    char cell[TT_CELL_BYTES];
    assert_string_equal(tt_cell_fixed(cell, 0), "0.0000");
    assert_string_equal(tt_cell_fixed(cell, 0.03124), "0.0312");
    assert_string_equal(tt_cell_fixed(cell, 1.23456), "1.235");
    assert_string_equal(tt_cell_fixed(cell, 12.3456), "12.35");
    assert_string_equal(tt_cell_fixed(cell, 123.456), "123.5");
    assert_string_equal(tt_cell_fixed(cell, 1234567.8), "1234568");
    assert_string_equal(tt_cell_fixed(cell, 1e300), "1e+300");
    assert_string_equal(tt_cell_count(cell, UINT64_MAX), "18446744073709551615");
}

static void json_has_commas_and_nesting_where_they_belong(void **state)
{
    (void)state;
    struct output output;
    struct tt_json json;
    open_output(&output);
    tt_json_init(&json, output.stream);
    for (int line = 0; line < 2; line++) {
        tt_json_begin_object(&json, NULL);
        tt_json_text(&json, "a", "b");
        tt_json_begin_array(&json, "list");
        tt_json_count(&json, NULL, UINT64_MAX);
        tt_json_begin_object(&json, NULL);
        tt_json_end_object(&json);
        tt_json_flag(&json, NULL, false);
        tt_json_end_array(&json);
        tt_json_number(&json, "x", 0.125);
        tt_json_number(&json, "none", (double)INFINITY);
        tt_json_end_object(&json);
    }
    close_output(&output,
                 "{\"a\": \"b\", \"list\": [18446744073709551615, {}, false], \"x\": 0.125, \"none\": null}\n"
                 "{\"a\": \"b\", \"list\": [18446744073709551615, {}, false], \"x\": 0.125, \"none\": null}\n");
}

static void json_text_is_escaped_and_always_utf8(void **state)
{
    (void)state;
    struct output output;
    struct tt_json json;
    open_output(&output);
    tt_json_init(&json, output.stream);
    tt_json_begin_array(&json, NULL);
    tt_json_text(&json, NULL, "\"\\\n\x1b\x7f");
    tt_json_text(&json, NULL, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x8e\xb5");
    tt_json_text(&json, NULL, "\xff\xc0\xaf\xed\xa0\x80\xe2\x82");
    tt_json_end_array(&json);
    close_output(&output, "[\"\\\"\\\\\\u000a\\u001b\\u007f\", \"\xc3\xa9\xe2\x82\xac\xf0\x9f\x8e\xb5\", "
                          "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"]\n");
}

/* --- A benchmark's report ----------------------------------------------------------------------------------------- */

static const tutti_group_info group_info = {.struct_size = sizeof(tutti_group_info),
                                            .mcast_provider = "udp",
                                            .p2p_provider = "ucx",
                                            .interface = "lo (127.0.0.1)",
                                            .local_ranks = 4,
                                            .chunk_bytes = 8192,
                                            .subgroups = 1,
                                            .chains = 2,
                                            .multicast = true,
                                            .endpoints = "none"};

static struct tt_bench_arguments make_arguments(enum tt_bench_collective collective, bool json)
{
    return (struct tt_bench_arguments){
        .job = {.collective = collective, .rank_count = 4}, .iterations = 10, .warmup = 5, .factor = 2, .json = json};
}

static struct tt_bench_result make_result(void)
{
    static const uint64_t iteration_ns[15] = {7500000, 3000000, [14] = 1999000};
    static const uint64_t iteration_repaired[15] = {30, 5, [14] = 2};
    return (struct tt_bench_result){.size_bytes = 1000000,
                                    .iterations = 10,
                                    .algorithm = TUTTI_ALGORITHM_MULTICAST,
                                    .time = {.min_ns = 5e5, .median_ns = 1e6, .mean_ns = 1.25e6, .max_ns = 4e6},
                                    .slowest_ns = 2e6,
                                    .cpu_ns = 500000000,
                                    .counters = {.mcast_datagrams_sent = 40,
                                                 .mcast_bytes_sent = 40000000,
                                                 .p2p_bytes_sent = 400,
                                                 .mcast_bytes_received = 120000000,
                                                 .p2p_bytes_received = 800,
                                                 .chunks_multicast = 1200,
                                                 .chunks_repaired = 12},
                                    .wrong_bytes = 3,
                                    .iteration_count = 15,
                                    .iteration_ns = iteration_ns,
                                    .iteration_repaired = iteration_repaired};
}

static void report_has_a_json_line_with_all_that_was_measured(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "{\"collective\": \"allgather\", \"algorithm\": \"multicast\", \"ranks\": 4, \"size_bytes\": 1000000, "
        "\"iterations\": 10, ",
        "\"time_us\": {\"min\": 500, \"median\": 1000, \"mean\": 1250, \"max\": 4000, \"slowest\": 2000}, "
        "\"cpu_s\": 0.5, ",
        "\"algbw_GBps\": 4, \"busbw_GBps\": 3, \"wire_sent_bytes\": 40000400, \"wire_received_bytes\": 120000800, "
        "\"chunks_multicast\": 1200, \"chunks_repaired\": 12, \"wrong\": 3, ",
        "\"first_us\": 7500, \"chunks_expected\": 121, \"first_repaired\": 30, \"last_repaired\": 2, "
        "\"iteration_us\": [7500, 3000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1999], "
        "\"iteration_repaired\": [30, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2], ",
        "\"chunks_fetched\": 0"};
    struct tt_bench_arguments arguments = make_arguments(TT_BENCH_ALLGATHER, true);
    struct tt_bench_result result = make_result();
    struct tt_bench_report report;
    struct output output;
    open_output(&output);
    tt_bench_report_begin(&report, &arguments, &group_info, output.stream, false);
    tt_bench_report_row(&report, &result);
    tt_bench_report_end(&report);
    fclose(output.stream);
    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strstr(output.text, parts[i]) == NULL) {
            fail_msg("`%s` does not contain `%s`", output.text, parts[i]);
        }
    }
    assert_ptr_equal(strchr(output.text, '\n'), output.text + output.length - 1);
    free(output.text);
}

static void report_table_has_means_per_rank_and_says_when_bytes_were_wrong(void **state)
{
    (void)state;
    struct tt_bench_arguments arguments = make_arguments(TT_BENCH_BROADCAST, false);
    struct tt_bench_result result = make_result();
    struct tt_bench_report report;
    struct output output;
    arguments.job.root = 2;
    arguments.loss_ppm = 10000;
    open_output(&output);
    tt_bench_report_begin(&report, &arguments, &group_info, output.stream, false);
    tt_bench_report_row(&report, &result);
    tt_bench_report_end(&report);
    fclose(output.stream);
    assert_non_null(strstr(output.text, "broadcast: 4 ranks"));
    assert_non_null(strstr(output.text, "# root 2\n"));
    assert_non_null(strstr(output.text, "# 1 % of the received chunks"));
    /* 40,000,400 bytes over 4 ranks and 10 iterations: 1,000,010. */
    assert_non_null(strstr(
        output.text,
        "    1000000    10  multicast             500.0      1000      2000      4000      7500    1.000    1.000"
        "     1000010     3000020        12       3\n"));
    assert_non_null(strstr(output.text, "# wrong bytes: 3 FAILED\n"));
    free(output.text);
}

/* --- The doctor's verdicts ---------------------------------------------------------------------------------------- */

static const struct tt_machine healthy = {.receive_limit_bytes = 4 << 20,
                                          .receive_granted_bytes = 4 << 20,
                                          .receive_wanted_bytes = 4 << 20,
                                          .send_limit_bytes = 1 << 20,
                                          .send_granted_bytes = 1 << 20,
                                          .send_wanted_bytes = 1 << 20,
                                          .memlock_bytes = 8 << 20,
                                          .descriptors = 1024,
                                          .memberships = 20,
                                          .cores = 8};
static const struct tt_settings plain_settings = {.subgroups = TT_AUTO, .chunk_bytes = TT_AUTO};

/* The verdict on one check; all others must be ok. */
static enum tt_verdict judge(const struct tt_machine *machine, uint32_t rank_count, const char *check)
{
    static struct tt_findings findings;
    enum tt_verdict verdict = TT_VERDICT_OK;
    bool seen = false;
    memset(&findings, 0, sizeof(findings));
    tt_doctor_judge_machine(machine, &plain_settings, rank_count, &findings);
    for (size_t i = 0; i < findings.count; i++) {
        if (strcmp(findings.items[i].check, check) == 0) {
            seen = true;
            verdict = findings.items[i].verdict;
            /* Who is warned is told what to do. */
            assert_true((verdict == TT_VERDICT_OK) == (findings.items[i].advice[0] == '\0'));
        } else {
            assert_int_equal(findings.items[i].verdict, TT_VERDICT_OK);
        }
    }
    assert_true(seen);
    assert_int_equal(findings.worst, verdict);
    return verdict;
}

static void healthy_machine_is_ok(void **state)
{
    (void)state;
    assert_int_equal(judge(&healthy, 8, "cores"), TT_VERDICT_OK);
    assert_int_equal(judge(&healthy, 0, "receive buffer"), TT_VERDICT_OK);
}

static void each_limit_that_is_too_low_is_found(void **state)
{
    (void)state;
    struct tt_machine machine = healthy;
    machine.receive_granted_bytes = 212992;
    assert_int_equal(judge(&machine, 4, "receive buffer"), TT_VERDICT_WARN);
    machine.receive_granted_bytes = 4096;
    assert_int_equal(judge(&machine, 4, "receive buffer"), TT_VERDICT_FAIL);
    machine = healthy;
    machine.send_granted_bytes = 212992;
    assert_int_equal(judge(&machine, 4, "send buffer"), TT_VERDICT_WARN);
    machine = healthy;
    machine.has_rdma = true;
    assert_int_equal(judge(&machine, 4, "memlock limit"), TT_VERDICT_WARN);
    machine.memlock_bytes = UINT64_MAX;
    assert_int_equal(judge(&machine, 4, "memlock limit"), TT_VERDICT_OK);
    machine = healthy;
    machine.descriptors = 64;
    assert_int_equal(judge(&machine, 4, "file descriptors"), TT_VERDICT_FAIL);
    machine = healthy;
    machine.memberships = 0;
    assert_int_equal(judge(&machine, 4, "multicast memberships"), TT_VERDICT_FAIL);
    assert_int_equal(judge(&healthy, 9, "cores"), TT_VERDICT_WARN);
}

static void chunk_that_does_not_fit_the_mtu_fails(void **state)
{
    (void)state;
    static struct tt_findings findings;
    struct tt_interface interface = {.name = "eth7", .mtu = 1500, .up = true};
    struct tt_settings settings = plain_settings;
    settings.chunk_bytes = 1456;
    tt_doctor_judge_mtu(&interface, &settings, &findings);
    assert_int_equal(findings.worst, TT_VERDICT_OK);
    settings.chunk_bytes = 1457;
    tt_doctor_judge_mtu(&interface, &settings, &findings);
    assert_int_equal(findings.worst, TT_VERDICT_FAIL);
    assert_non_null(strstr(findings.items[1].advice, "1457"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_line_up_under_heading_with_units),
        cmocka_unit_test(wide_cell_is_never_cut),
        cmocka_unit_test(fitted_table_is_as_wide_as_its_widest_cell),
        cmocka_unit_test(cells_keep_the_digits_that_matter),
        cmocka_unit_test(json_has_commas_and_nesting_where_they_belong),
        cmocka_unit_test(json_text_is_escaped_and_always_utf8),
        cmocka_unit_test(report_has_a_json_line_with_all_that_was_measured),
        cmocka_unit_test(report_table_has_means_per_rank_and_says_when_bytes_were_wrong),
        cmocka_unit_test(healthy_machine_is_ok),
        cmocka_unit_test(each_limit_that_is_too_low_is_found),
        cmocka_unit_test(chunk_that_does_not_fit_the_mtu_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
