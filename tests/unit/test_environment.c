/* SPDX-License-Identifier: BSD-3-Clause */
/* Where rank, size and the way to rank 0 come from: every launcher's variables, and who wins. Ranks under real
 * launchers are in tests/integration/cli_launchers.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/environment.h"
#include "engine/pmix.h"
#include "free_port.h"
#include "skip.h"

static struct tt_settings settings;
static struct tt_environment environment;

static int setup(void **state)
{
    static const char *const names[] = {
        "PMIX_NAMESPACE", "PMIX_RANK",  "PMI_RANK",   "PMI_SIZE",    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
        "SLURM_PROCID",   "RANK",       "WORLD_SIZE", "MASTER_ADDR", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
        "MASTER_PORT",    "TUTTI_RANK", "TUTTI_SIZE", "TUTTI_ROOT",  "TORCHELASTIC_RUN_ID"};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        unsetenv(names[i]);
    }
    memset(&environment, 0, sizeof(environment));
    return tt_settings_load(&settings) == TUTTI_OK ? 0 : 1;
}

static void set(const char *name, const char *value)
{
    assert_int_equal(setenv(name, value, 1), 0);
}

static void set_torch(const char *rank, const char *size, const char *port)
{
    set("RANK", rank);
    set("WORLD_SIZE", size);
    set("MASTER_ADDR", "127.0.0.1");
    set("MASTER_PORT", port);
}

static void assert_found(enum tt_environment_source source, uint32_t rank, uint32_t size, const char *text)
{
    assert_int_equal(tt_environment_find(&settings, &environment), TUTTI_OK);
    assert_int_equal(environment.source, source);
    assert_int_equal(environment.rank, rank);
    assert_int_equal(environment.size, size);
    assert_string_equal(environment.text, text);
    assert_false(environment.in_session);
}

/* Every part must be in the sentence. */
static void assert_refused(tutti_status status, const char *one, const char *other)
{
    assert_int_equal(tt_environment_find(&settings, &environment), status);
    if (strstr(tt_last_error(), one) == NULL || strstr(tt_last_error(), other) == NULL) {
        fail_msg("no '%s' and '%s' in '%s'", one, other, tt_last_error());
    }
    assert_int_equal(environment.size, 0); /* nothing was set */
}

/* --- Finding ------------------------------------------------------------------------------------------------------ */

static void without_a_launcher_a_process_is_a_job_of_one(void **state)
{
    (void)state;
    assert_found(TT_ENVIRONMENT_NONE, 0, 1, "no launcher");
    set("SLURM_PROCID", "0"); /* a batch script: in a job, but no task of a step */
    set("SLURM_NTASKS", "16");
    assert_found(TT_ENVIRONMENT_NONE, 0, 1, "no launcher");
}

static void settings_win_over_every_launcher(void **state)
{
    (void)state;
    settings.rank = 2;
    settings.size = 5;
    set_torch("1", "4", "29500");
    set("TORCHELASTIC_RUN_ID", "none");
    set("PMIX_NAMESPACE", "job");
    set("PMIX_RANK", "0");
    set("OMPI_COMM_WORLD_RANK", "7");
    set("OMPI_COMM_WORLD_SIZE", "8");
    assert_found(TT_ENVIRONMENT_SETTINGS, 2, 5, "TUTTI_SIZE=5");
}

static void a_size_without_a_rank_is_an_error(void **state)
{
    (void)state;
    settings.size = 5;
    assert_refused(TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_SIZE is 5", "TUTTI_RANK is not set");
    settings.size = 1;
    assert_found(TT_ENVIRONMENT_SETTINGS, 0, 1, "TUTTI_SIZE=1");
}

static void a_rank_beside_a_launcher_is_an_error_that_names_both(void **state)
{
    (void)state;
    set_torch("1", "4", "29500");
    settings.rank = 0;
    assert_refused(TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_RANK=0", "WORLD_SIZE=4 says that this is rank 1");
}

static void torchrun_is_believed(void **state)
{
    (void)state;
    set_torch("3", "4", "29500");
    assert_found(TT_ENVIRONMENT_TORCH, 3, 4, "WORLD_SIZE=4");
}

static void torchrun_below_another_launcher_knows_better(void **state)
{
    (void)state;
    set_torch("3", "4", "29500");
    set("TORCHELASTIC_RUN_ID", "none");
    set("PMIX_NAMESPACE", "job");
    set("PMIX_RANK", "1");
    set("SLURM_PROCID", "1");
    set("SLURM_STEP_NUM_TASKS", "2");
    assert_found(TT_ENVIRONMENT_TORCH, 3, 4, "WORLD_SIZE=4");
}

static void numbers_that_cannot_be_are_named(void **state)
{
    (void)state;
    set_torch("4", "4", "29500");
    assert_refused(TUTTI_ERR_INVALID_ARGUMENT, "RANK=4", "from 0 to 3");
    set_torch("-1", "4", "29500");
    assert_refused(TUTTI_ERR_INVALID_ARGUMENT, "RANK=-1", "from 0 to 3");
    set_torch("0", "many", "29500");
    assert_refused(TUTTI_ERR_INVALID_ARGUMENT, "WORLD_SIZE=many", "from 1 to 65535");
    set_torch("0", "65536", "29500");
    assert_refused(TUTTI_ERR_INVALID_ARGUMENT, "WORLD_SIZE=65536", "from 1 to 65535");
}

static void a_launcher_that_says_rank_and_size_only_needs_an_address(void **state)
{
    static const struct {
        const char *rank, *size, *advice;
    } launchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "TUTTI_ROOT=host:port"},
                     {"PMI_RANK", "PMI_SIZE", "speaks PMIx"},
                     {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun --mpi=pmix"},
                     {"RANK", "WORLD_SIZE", "set MASTER_ADDR and MASTER_PORT"}};
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        char text[TT_ENVIRONMENT_TEXT_BYTES];
        setup(state);
        set(launchers[i].rank, "2");
        set(launchers[i].size, "6");
        snprintf(text, sizeof(text), "%s=6", launchers[i].size);
        assert_refused(TUTTI_ERR_NOT_SUPPORTED, text, launchers[i].advice);
        strcpy(settings.root, "example.org:1234");
        assert_int_equal(tt_environment_find(&settings, &environment), TUTTI_OK);
        assert_int_equal(environment.rank, 2);
        assert_int_equal(environment.size, 6);
        assert_int_equal(tt_environment_meet(&environment, &settings), TUTTI_OK);
        assert_int_equal(settings.rank, 2);
        assert_int_equal(settings.size, 6);
        assert_string_equal(settings.root, "example.org:1234");
        assert_true(settings.root_fd == TT_AUTO);
    }
}

static void a_launcher_of_one_process_needs_nothing(void **state)
{
    (void)state;
    set("OMPI_COMM_WORLD_RANK", "0");
    set("OMPI_COMM_WORLD_SIZE", "1");
    assert_found(TT_ENVIRONMENT_RANK_ONLY, 0, 1, "OMPI_COMM_WORLD_SIZE=1");
}

/* --- PMIx --------------------------------------------------------------------------------------------------------- */

static void set_pmix_server(uint16_t port)
{
    static const char *const names[] = {"PMIX_SERVER_URI2", "PMIX_SERVER_URI21", "PMIX_SERVER_URI3", "PMIX_SERVER_URI4",
                                        "PMIX_SERVER_URI41"};
    char uri[64];
    snprintf(uri, sizeof(uri), "job.0;tcp4://127.0.0.1:%u", port);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        set(names[i], uri);
    }
    set("PMIX_NAMESPACE", "job");
    set("PMIX_RANK", "0");
}

static void a_build_without_pmix_says_so(void **state)
{
    (void)state;
    if (tt_pmix_built_version() != NULL) {
        TT_SKIP("this build has PMIx");
    }
    set_pmix_server(1);
    assert_refused(TUTTI_ERR_NOT_SUPPORTED, "this build of tutti has no PMIx", "-Dpmix=enabled");
    set("OMPI_COMM_WORLD_RANK", "1");
    set("OMPI_COMM_WORLD_SIZE", "2");
    assert_refused(TUTTI_ERR_NOT_SUPPORTED, "one of 2 ranks", "-Dpmix=enabled");
}

static void a_pmix_server_that_is_gone_is_named(void **state)
{
    (void)state;
    if (tt_pmix_built_version() == NULL) {
        TT_SKIP("this build has no PMIx");
    }
    set_pmix_server(tt_free_port());
    settings.bootstrap_timeout_ns = 20 * TT_NS_PER_S;
    assert_refused(TUTTI_ERR_BOOTSTRAP, "PMIX_NAMESPACE=job", "PMIx_Init");
}

/* The last of the file: PMIx_Init never returns, and is not called again. */
static void a_pmix_server_that_does_not_answer_ends_at_the_deadline(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    (void)state;
    if (tt_pmix_built_version() == NULL) {
        TT_SKIP("this build has no PMIx");
    }
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    set_pmix_server(ntohs(address.sin_port));
    settings.bootstrap_timeout_ns = 300 * TT_NS_PER_MS;
    uint64_t start_ns = tt_clock_now_ns();
    assert_refused(TUTTI_ERR_TIMED_OUT, "PMIX_NAMESPACE=job", "no answer in 300 ms");
    assert_in_range(tt_clock_now_ns() - start_ns, 290 * TT_NS_PER_MS, 15 * TT_NS_PER_S);
    assert_refused(TUTTI_ERR_TIMED_OUT, "PMIx_Init", "an earlier call has not returned");
    close(listener);
}

/* --- Meeting under torchrun --------------------------------------------------------------------------------------- */

static void rank_0_listens_beside_the_store_of_torchrun(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct tt_settings again;
    char text[16], expected[32];
    uint16_t port =
        (uint16_t)(tt_free_port() - TT_ENVIRONMENT_PORT_OFFSET); /* the store's; the one beside it is free */
    (void)state;
    snprintf(text, sizeof(text), "%u", port);
    snprintf(expected, sizeof(expected), "127.0.0.1:%u", port + TT_ENVIRONMENT_PORT_OFFSET);
    set_torch("0", "4", text);
    again = settings;
    assert_int_equal(tt_environment_find(&settings, &environment), TUTTI_OK);
    assert_int_equal(tt_environment_meet(&environment, &settings), TUTTI_OK);
    assert_string_equal(settings.root, expected);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_port = htons((uint16_t)(port + TT_ENVIRONMENT_PORT_OFFSET));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
    /* The second group of the process meets at the same socket. */
    assert_int_equal(tt_environment_meet(&environment, &again), TUTTI_OK);
    assert_true(again.root_fd == settings.root_fd);
    /* Another rank has no socket. */
    set("RANK", "1");
    assert_int_equal(setup(NULL), 0);
    set_torch("1", "4", text);
    assert_int_equal(tt_environment_find(&settings, &environment), TUTTI_OK);
    assert_int_equal(tt_environment_meet(&environment, &settings), TUTTI_OK);
    assert_string_equal(settings.root, expected);
    assert_true(settings.root_fd == TT_AUTO);
}

static void ports_near_the_end_are_met_below(void **state)
{
    (void)state;
    set_torch("1", "2", "64536");
    assert_int_equal(tt_environment_find(&settings, &environment), TUTTI_OK);
    assert_int_equal(tt_environment_meet(&environment, &settings), TUTTI_OK);
    assert_string_equal(settings.root, "127.0.0.1:63536");
    assert_int_equal(setup(NULL), 0);
    set_torch("1", "2", "64535");
    set("MASTER_ADDR", "fe80::1");
    assert_int_equal(tt_environment_find(&settings, &environment), TUTTI_OK);
    assert_int_equal(tt_environment_meet(&environment, &settings), TUTTI_OK);
    assert_string_equal(settings.root, "[fe80::1]:65535");
}

static void a_port_that_is_taken_or_none_is_named(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    char text[16], expected[64];
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    snprintf(text, sizeof(text), "%u", ntohs(address.sin_port) - TT_ENVIRONMENT_PORT_OFFSET);
    snprintf(expected, sizeof(expected), "port %u", ntohs(address.sin_port));
    set_torch("0", "2", text);
    assert_int_equal(tt_environment_find(&settings, &environment), TUTTI_OK);
    assert_int_equal(tt_environment_meet(&environment, &settings), TUTTI_ERR_IN_USE);
    assert_non_null(strstr(tt_last_error(), expected));
    assert_non_null(strstr(tt_last_error(), "TUTTI_ROOT"));
    assert_string_equal(settings.root, "");
    close(fd);
    set("MASTER_PORT", "65536");
    assert_int_equal(tt_environment_meet(&environment, &settings), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "MASTER_PORT=65536"));
}

static void an_address_that_was_given_wins_over_the_launchers(void **state)
{
    (void)state;
    set_torch("0", "2", "29500");
    strcpy(settings.root, "10.0.0.1:7000");
    assert_int_equal(tt_environment_find(&settings, &environment), TUTTI_OK);
    assert_int_equal(tt_environment_meet(&environment, &settings), TUTTI_OK);
    assert_string_equal(settings.root, "10.0.0.1:7000");
    assert_true(settings.root_fd == TT_AUTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_a_launcher_a_process_is_a_job_of_one, setup),
        cmocka_unit_test_setup(settings_win_over_every_launcher, setup),
        cmocka_unit_test_setup(a_size_without_a_rank_is_an_error, setup),
        cmocka_unit_test_setup(a_rank_beside_a_launcher_is_an_error_that_names_both, setup),
        cmocka_unit_test_setup(torchrun_is_believed, setup),
        cmocka_unit_test_setup(torchrun_below_another_launcher_knows_better, setup),
        cmocka_unit_test_setup(numbers_that_cannot_be_are_named, setup),
        cmocka_unit_test_setup(a_launcher_that_says_rank_and_size_only_needs_an_address, setup),
        cmocka_unit_test_setup(a_launcher_of_one_process_needs_nothing, setup),
        cmocka_unit_test_setup(rank_0_listens_beside_the_store_of_torchrun, setup),
        cmocka_unit_test_setup(ports_near_the_end_are_met_below, setup),
        cmocka_unit_test_setup(a_port_that_is_taken_or_none_is_named, setup),
        cmocka_unit_test_setup(an_address_that_was_given_wins_over_the_launchers, setup),
        cmocka_unit_test_setup(a_build_without_pmix_says_so, setup),
        cmocka_unit_test_setup(a_pmix_server_that_is_gone_is_named, setup),
        cmocka_unit_test_setup(a_pmix_server_that_does_not_answer_ends_at_the_deadline, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
