/* SPDX-License-Identifier: BSD-3-Clause */
/* Command lines: what they mean, and that what cannot be is refused in one line that holds the offending text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/settings.h"
#include "cli/bench_arguments.h"

enum { WORD_LIMIT = 32, LINE_BYTES = 1024, OUTPUT_BYTES = 8192 };

struct parsed {
    enum tt_parse result;
    struct tt_bench_arguments arguments;
    char line[LINE_BYTES];     /* what was written to standard error */
    char output[OUTPUT_BYTES]; /* and to standard output */
    char words[LINE_BYTES];    /* argv points here, and the settings do */
    char *argv[WORD_LIMIT];
};

/* Sends a descriptor to a file until it is read back. */
static int divert(int fd, FILE *file)
{
    fflush(NULL);
    int saved = dup(fd);
    assert_true(saved >= 0);
    assert_true(dup2(fileno(file), fd) >= 0);
    return saved;
}

static void restore(int fd, int saved, FILE *file, char *text, size_t text_bytes)
{
    fflush(NULL);
    assert_true(dup2(saved, fd) >= 0);
    close(saved);
    rewind(file);
    size_t length = fread(text, 1, text_bytes - 1, file);
    text[length] = '\0';
    fclose(file);
}

static void parse_with(struct parsed *parsed, const struct tt_settings *settings, const char *command_line)
{
    int argc = 0;
    memset(parsed, 0, sizeof(*parsed));
    snprintf(parsed->words, sizeof(parsed->words), "bench %s", command_line);
    for (char *word = strtok(parsed->words, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(argc < WORD_LIMIT - 1);
        parsed->argv[argc++] = word;
    }
    FILE *error_file = tmpfile();
    FILE *output_file = tmpfile();
    assert_non_null(error_file);
    assert_non_null(output_file);
    int saved_error = divert(STDERR_FILENO, error_file);
    int saved_output = divert(STDOUT_FILENO, output_file);
    parsed->result = tt_bench_arguments_parse(argc, parsed->argv, settings, "TUTTI_SIZE=6", &parsed->arguments);
    restore(STDOUT_FILENO, saved_output, output_file, parsed->output, sizeof(parsed->output));
    restore(STDERR_FILENO, saved_error, error_file, parsed->line, sizeof(parsed->line));
}

static struct tt_settings defaults;

static int load_defaults(void **state)
{
    char message[LINE_BYTES];
    (void)state;
    if (tt_settings_load(&defaults) != TUTTI_OK) {
        return 1;
    }
    defaults.size = TT_AUTO;
    defaults.rank = TT_AUTO;
    return tt_log_configure("none", NULL, message, sizeof(message)) == TUTTI_OK ? 0 : 1;
}

static void parse(struct parsed *parsed, const char *command_line)
{
    parse_with(parsed, &defaults, command_line);
}

static void parse_ok(struct parsed *parsed, const char *command_line)
{
    parse(parsed, command_line);
    assert_string_equal(parsed->line, "");
    assert_int_equal(parsed->result, TT_PARSE_OK);
}

/* Refused, in exactly one line that contains `text`. */
static void refused(const char *command_line, const char *text)
{
    struct parsed parsed;
    parse(&parsed, command_line);
    assert_int_equal(parsed.result, TT_PARSE_BAD);
    assert_string_equal(parsed.output, "");
    if (strstr(parsed.line, text) == NULL) {
        fail_msg("`%s`: the line `%s` does not contain `%s`", command_line, parsed.line, text);
    }
    char *end = strchr(parsed.line, '\n');
    assert_non_null(end);
    assert_string_equal(end, "\n");
    assert_true(strncmp(parsed.line, "tutti bench: ", strlen("tutti bench: ")) == 0);
}

static const char *setting(const struct tt_bench_arguments *arguments, const char *name)
{
    for (size_t i = 0; i < arguments->setting_count; i++) {
        if (strcmp(arguments->settings[i].name, name) == 0) {
            return arguments->settings[i].value;
        }
    }
    return NULL;
}

static void defaults_are_those_of_the_manual(void **state)
{
    (void)state;
    struct parsed parsed;
    parse_ok(&parsed, "allgather");
    assert_int_equal(parsed.arguments.job.collective, TT_BENCH_ALLGATHER);
    assert_false(parsed.arguments.is_rank);
    assert_int_equal(parsed.arguments.job.rank_count, 2);
    assert_int_equal(parsed.arguments.min_bytes, 65536);
    assert_int_equal(parsed.arguments.max_bytes, 16 << 20);
    assert_int_equal(parsed.arguments.factor, 2);
    assert_int_equal(parsed.arguments.iterations, 20);
    assert_int_equal(parsed.arguments.warmup, 5);
    assert_int_equal(parsed.arguments.job.root, 0);
    assert_int_equal(parsed.arguments.algorithm, TT_ALGORITHM_AUTO);
    assert_false(parsed.arguments.json);
    assert_int_equal(parsed.arguments.setting_count, 0);
}

static void every_option_arrives_wherever_the_collective_stands(void **state)
{
    (void)state;
    struct parsed parsed;
    parse_ok(&parsed, "-n 4 -b 1K -e 1M broadcast -f 4 -i 7 -w 0 --root 3 --algorithm chain --subgroups 2 --workers 3 "
                      "--loss 0.5 --seed 9 --timeout 2s --json");
    assert_int_equal(parsed.arguments.job.collective, TT_BENCH_BROADCAST);
    assert_int_equal(parsed.arguments.job.rank_count, 4);
    assert_int_equal(parsed.arguments.min_bytes, 1024);
    assert_int_equal(parsed.arguments.max_bytes, 1 << 20);
    assert_int_equal(parsed.arguments.factor, 4);
    assert_int_equal(parsed.arguments.iterations, 7);
    assert_int_equal(parsed.arguments.warmup, 0);
    assert_int_equal(parsed.arguments.job.root, 3);
    assert_true(parsed.arguments.json);
    assert_int_equal(parsed.arguments.algorithm, TT_ALGORITHM_CHAIN);
    assert_int_equal(parsed.arguments.loss_ppm, 5000);
    assert_int_equal(parsed.arguments.timeout_ns, UINT64_C(2000000000));
    assert_int_equal(parsed.arguments.setting_count, 6);
    assert_string_equal(setting(&parsed.arguments, "ALGORITHM"), "chain");
    assert_string_equal(setting(&parsed.arguments, "SUBGROUPS"), "2");
    assert_string_equal(setting(&parsed.arguments, "WORKERS"), "3");
    assert_string_equal(setting(&parsed.arguments, "LOSS"), "0.5");
    assert_string_equal(setting(&parsed.arguments, "SEED"), "9");
    assert_string_equal(setting(&parsed.arguments, "TIMEOUT"), "2s");
    parse_ok(&parsed, "allgather --chains 4");
    assert_string_equal(setting(&parsed.arguments, "CHAINS"), "4");
}

static void what_is_reduced_arrives(void **state)
{
    (void)state;
    struct parsed parsed;
    parse_ok(&parsed, "allreduce");
    assert_int_equal(parsed.arguments.job.collective, TT_BENCH_ALLREDUCE);
    assert_int_equal(parsed.arguments.job.type, TT_TYPE_FP32);
    assert_int_equal(parsed.arguments.job.operation, TT_REDUCE_SUM);
    assert_false(parsed.arguments.job.in_place);
    parse_ok(&parsed, "--type int16 reduce-scatter --operation xor --in-place");
    assert_int_equal(parsed.arguments.job.collective, TT_BENCH_REDUCE_SCATTER);
    assert_int_equal(parsed.arguments.job.type, TT_TYPE_INT16);
    assert_int_equal(parsed.arguments.job.operation, TT_REDUCE_XOR);
    assert_true(parsed.arguments.job.in_place);
    parse_ok(&parsed, "reduce --type opaque --operation user --root 1");
    assert_int_equal(parsed.arguments.job.operation, TT_REDUCE_USER);
    assert_int_equal(parsed.arguments.job.root, 1);
}

static void barrier_has_one_size_which_is_nothing(void **state)
{
    (void)state;
    struct parsed parsed;
    uint64_t size = 0;
    parse_ok(&parsed, "barrier -n 4 -i 7");
    assert_int_equal(parsed.arguments.job.collective, TT_BENCH_BARRIER);
    assert_int_equal(parsed.arguments.min_bytes, 0);
    assert_int_equal(parsed.arguments.max_bytes, 0);
    assert_false(tt_bench_next_size(&parsed.arguments, &size));
}

static void last_of_two_equal_options_counts(void **state)
{
    (void)state;
    struct parsed parsed;
    parse_ok(&parsed, "allgather -n 2 -n 8 --loss 1 --loss 2");
    assert_int_equal(parsed.arguments.job.rank_count, 8);
    assert_int_equal(parsed.arguments.setting_count, 1);
    assert_string_equal(setting(&parsed.arguments, "LOSS"), "2");
}

static void single_limit_moves_the_default_of_the_other(void **state)
{
    (void)state;
    struct parsed parsed;
    parse_ok(&parsed, "broadcast -e 4K");
    assert_int_equal(parsed.arguments.min_bytes, 4096);
    assert_int_equal(parsed.arguments.max_bytes, 4096);
    parse_ok(&parsed, "broadcast -b 64M");
    assert_int_equal(parsed.arguments.min_bytes, 64 << 20);
    assert_int_equal(parsed.arguments.max_bytes, 64 << 20);
}

static void sizes_start_with_zero_and_one_and_never_pass_the_limit(void **state)
{
    (void)state;
    struct parsed parsed;
    static const uint64_t expected[] = {0, 1, 3, 9};
    uint64_t size = 0;
    parse_ok(&parsed, "broadcast -b 0 -e 26 -f 3");
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(size, expected[i]);
        assert_true(tt_bench_next_size(&parsed.arguments, &size) == (i < 3));
    }
    assert_int_equal(size, 9);
    parse_ok(&parsed, "broadcast -b 0 -e 0");
    size = 0;
    assert_false(tt_bench_next_size(&parsed.arguments, &size));
    parse_ok(&parsed, "broadcast -n 1 -b 1 -e 64T -f 4294967295");
    size = UINT64_C(1) << 46;
    assert_false(tt_bench_next_size(&parsed.arguments, &size)); /* the product has more than 64 bits */
}

static void bad_command_lines_are_refused_with_their_own_words(void **state)
{
    (void)state;
    refused("", "no collective given");
    refused("alltoall", "unknown collective 'alltoall'");
    refused("allgather extra", "unexpected argument 'extra'");
    refused("allgather --frobnicate", "unknown option '--frobnicate'");
    refused("allgather -q", "unknown option '-q'");
    refused("-é allgather", "unknown option '-é'");
    refused("allgather -é -q", "unknown option '-é'");
    refused("allgather -\xc3", "unknown option '-?'");
    refused("allgather -n", "option '-n' needs a value");
    refused("allgather --loss", "option '--loss' needs a value");
    refused("allgather --json=1", "option '--json=1': takes no value");
    refused("allgather -n four", "-n 'four'");
    refused("allgather -n 0", "-n '0'");
    refused("allgather -n -3", "-n '-3'");
    refused("allgather -n 65537", "-n '65537'");
    refused("allgather -b 12Q", "-b '12Q'");
    refused("allgather -b -1", "-b '-1'");
    refused("allgather -e 99999999999999999999", "-e '99999999999999999999'");
    refused("allgather -f 1", "-f '1'");
    refused("allgather -i 0", "-i '0'");
    refused("allgather -i 1000001", "-i '1000001'");
    refused("allgather -w -1", "-w '-1'");
    refused("allgather -b 2M -e 1M", "-b '2M': more than -e '1M'");
    refused("allgather -n 4 -e 64T", "-e '64T': too large for 4 ranks");
    refused("broadcast --root 2 -n 2", "--root '2': there are 2 ranks");
    refused("broadcast --root x", "--root 'x'");
    refused("allgather --root 0", "--root '0': an allgather has no root");
    refused("broadcast --chains 2", "--chains '2': only an allgather");
    refused("barrier -b 8", "--min-bytes '8': a barrier has no data");
    refused("barrier -e 8", "--max-bytes '8': a barrier has no data");
    refused("barrier -f 2", "--factor '2': a barrier has no data");
    refused("barrier --in-place", "--in-place: a barrier has no data");
    refused("barrier --root 0", "--root '0': a barrier has no root");
    refused("allreduce --root 0", "--root '0': an allreduce has no root");
    refused("reduce --root 2", "--root '2': there are 2 ranks");
    refused("reduce --chains 2", "--chains '2': only an allgather");
    refused("broadcast --type fp32", "--type 'fp32': a broadcast reduces nothing");
    refused("gather --operation sum", "--operation 'sum': a gather reduces nothing");
    refused("allreduce --type int9", "--type 'int9'");
    refused("allreduce --operation mean", "--operation 'mean'");
    refused("allreduce --operation xor", "xor: not defined for fp32: floats have sum");
    refused("reduce --type opaque", "sum: not defined for opaque elements");
    refused("reduce --operation user", "--operation 'user': only with --type opaque");
    refused("--tune --type fp32", "--type 'fp32': not with --tune");
    refused("--tune --operation sum", "--operation 'sum': not with --tune");
    refused("--tune --in-place", "--in-place");
    refused("allgather --algorithm magic", "--algorithm 'magic'");
    refused("allgather --chains 0", "--chains '0'");
    refused("allgather --subgroups 65", "--subgroups '65'");
    refused("allgather --workers x", "--workers 'x'");
    refused("allgather --loss 101", "--loss '101'");
    refused("allgather --loss -1", "--loss '-1'");
    refused("allgather --seed 1.5", "--seed '1.5'");
    refused("allgather --timeout 2", "--timeout '2'");
}

static void reasons_do_not_repeat_what_was_written(void **state)
{
    (void)state;
    struct parsed parsed;
    parse(&parsed, "allgather --loss 101");
    assert_null(strstr(parsed.line, "TUTTI_LOSS"));
    parse(&parsed, "allgather -b 12Q");
    assert_ptr_equal(strstr(parsed.line, "12Q"), strstr(parsed.line, "'12Q'") + 1);
    assert_null(strstr(strstr(parsed.line, "12Q") + 1, "12Q"));
}

static void control_characters_do_not_reach_the_terminal(void **state)
{
    (void)state;
    refused("allgather -n \x1b[31m\n", "-n '?[31m?'");
}

static void rank_of_a_job_takes_its_number_of_ranks_from_the_environment(void **state)
{
    (void)state;
    struct parsed parsed;
    struct tt_settings job = defaults;
    job.size = 6;
    job.rank = 1;
    parse_with(&parsed, &job, "broadcast --root 5");
    assert_int_equal(parsed.result, TT_PARSE_OK);
    assert_true(parsed.arguments.is_rank);
    assert_int_equal(parsed.arguments.job.rank_count, 6);
    parse_with(&parsed, &job, "broadcast -n 6");
    assert_int_equal(parsed.result, TT_PARSE_OK);
    parse_with(&parsed, &job, "broadcast -n 4");
    assert_int_equal(parsed.result, TT_PARSE_BAD);
    assert_non_null(strstr(parsed.line, "-n '4'"));
    assert_non_null(strstr(parsed.line, "TUTTI_SIZE=6"));
}

static void environment_counts_where_no_option_was_given(void **state)
{
    (void)state;
    struct parsed parsed;
    struct tt_settings environment = defaults;
    environment.algorithm = TT_ALGORITHM_RING;
    environment.loss_ppm = 20000;
    parse_with(&parsed, &environment, "allgather");
    assert_int_equal(parsed.arguments.algorithm, TT_ALGORITHM_RING);
    assert_int_equal(parsed.arguments.loss_ppm, 20000);
    assert_int_equal(parsed.arguments.setting_count, 0);
    parse_with(&parsed, &environment, "allgather --algorithm multicast --loss 0");
    assert_int_equal(parsed.arguments.algorithm, TT_ALGORITHM_MULTICAST);
    assert_int_equal(parsed.arguments.loss_ppm, 0);
}

static void help_goes_to_standard_output_and_lists_every_option(void **state)
{
    (void)state;
    static const char *const names[] = {"-n, --ranks RANKS",
                                        "-b, --min-bytes MIN",
                                        "-e, --max-bytes MAX",
                                        "-f, --factor FACTOR",
                                        "--root RANK",
                                        "--type TYPE",
                                        "--operation OPERATION",
                                        "--in-place",
                                        "--algorithm ALGORITHM",
                                        "--chains M",
                                        "--subgroups S",
                                        "--workers W",
                                        "--loss PERCENT",
                                        "--seed SEED",
                                        "--timeout TIME",
                                        "--json",
                                        "-h, --help"};
    struct parsed parsed;
    parse(&parsed, "--help -n nonsense");
    assert_int_equal(parsed.result, TT_PARSE_HELP);
    assert_string_equal(parsed.line, "");
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strstr(parsed.output, names[i]) == NULL) {
            fail_msg("the help does not list %s", names[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_manual),
        cmocka_unit_test(every_option_arrives_wherever_the_collective_stands),
        cmocka_unit_test(what_is_reduced_arrives),
        cmocka_unit_test(barrier_has_one_size_which_is_nothing),
        cmocka_unit_test(last_of_two_equal_options_counts),
        cmocka_unit_test(single_limit_moves_the_default_of_the_other),
        cmocka_unit_test(sizes_start_with_zero_and_one_and_never_pass_the_limit),
        cmocka_unit_test(bad_command_lines_are_refused_with_their_own_words),
        cmocka_unit_test(reasons_do_not_repeat_what_was_written),
        cmocka_unit_test(control_characters_do_not_reach_the_terminal),
        cmocka_unit_test(rank_of_a_job_takes_its_number_of_ranks_from_the_environment),
        cmocka_unit_test(environment_counts_where_no_option_was_given),
        cmocka_unit_test(help_goes_to_standard_output_and_lists_every_option),
    };
    return cmocka_run_group_tests(tests, load_defaults, NULL);
}
