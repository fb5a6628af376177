/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: from what a launcher leaves in the environment to a rank, a size and an address; the order of precedence is
 * in environment.h and nowhere else.
 *
 * Normal path: find looks from the top of that list to the bottom; meet turns the answer into settings for the
 * bootstrap.
 *
 * Failures: a variable that is there but cannot be is an error with its value, never a reason to look further down. A
 * launcher that says there are several ranks, but not how they find each other, is an error that says what to do.
 */
#include "engine/environment.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/meeting.h"
#include "engine/pmix.h"

/* Launchers that tell a process its rank and size in variables, and how else it could be started. */
static const struct launcher {
    const char *rank, *size;
    const char *advice;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "start it with an mpirun whose PMIx reaches the ranks"},
    {"PMI_RANK", "PMI_SIZE", "start it with a launcher that speaks PMIx, such as Open MPI's mpirun"},
    /* SLURM_NTASKS is also in a batch script, which is no task; this one is in the tasks of a step only. */
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "start it with srun --mpi=pmix"},
    {"RANK", "WORLD_SIZE", "set MASTER_ADDR and MASTER_PORT, as torchrun does"},
};

enum { LAUNCHER_COUNT = sizeof(launchers) / sizeof(launchers[0]), TORCH = LAUNCHER_COUNT - 1 };

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0';
}

/* --- Finding ------------------------------------------------------------------------------------------------------ */

static tutti_status read_number(const char *name, uint64_t minimum, uint64_t maximum, uint64_t *number)
{
    const char *value = getenv(name);
    uint64_t read = 0;

    if (value == NULL || tt_parse_count(value, &read) != TUTTI_OK || read < minimum || read > maximum) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_INVALID_ARGUMENT,
                        "%s=%.64s: must be a number from %" PRIu64 " to %" PRIu64, name, value != NULL ? value : "",
                        minimum, maximum);
    }
    *number = read;
    return TUTTI_OK;
}

/* Rank and size from a launcher's variables, of which the size's is set. */
static tutti_status read_launcher(const struct launcher *launcher, struct tt_environment *environment)
{
    uint64_t rank = 0, size = 0;
    tutti_status status = read_number(launcher->size, 1, TT_MAX_RANKS, &size);

    if (status == TUTTI_OK) {
        status = read_number(launcher->rank, 0, size - 1, &rank);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    environment->rank = (uint32_t)rank;
    environment->size = (uint32_t)size;
    snprintf(environment->text, sizeof(environment->text), "%s=%u", launcher->size, environment->size);
    return TUTTI_OK;
}

static tutti_status find_settings(const struct tt_settings *settings, struct tt_environment *environment)
{
    environment->source = TT_ENVIRONMENT_SETTINGS;
    environment->size = (uint32_t)settings->size;
    environment->rank = settings->rank == TT_AUTO ? 0 : (uint32_t)settings->rank;
    snprintf(environment->text, sizeof(environment->text), "TUTTI_SIZE=%u", environment->size);
    if (settings->rank == TT_AUTO && settings->size > 1) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_INVALID_ARGUMENT,
                        "TUTTI_SIZE is %" PRIu64 ", but TUTTI_RANK is not set", settings->size);
    }
    return tt_settings_check(settings);
}

static bool is_torch(const struct tt_settings *settings)
{
    return is_set("RANK") && is_set("WORLD_SIZE") &&
           (settings->root[0] != '\0' || (is_set("MASTER_ADDR") && is_set("MASTER_PORT")));
}

static tutti_status find_torch(struct tt_environment *environment)
{
    environment->source = TT_ENVIRONMENT_TORCH;
    return read_launcher(&launchers[TORCH], environment);
}

static const struct launcher *find_launcher(void)
{
    for (int i = 0; i < LAUNCHER_COUNT; i++) {
        if (is_set(launchers[i].rank) && is_set(launchers[i].size)) {
            return &launchers[i];
        }
    }
    return NULL;
}

static tutti_status find_pmix(const struct tt_settings *settings, struct tt_environment *environment)
{
    environment->source = TT_ENVIRONMENT_PMIX;
    tutti_status status = tt_pmix_enter(settings->bootstrap_timeout_ns, &environment->rank, &environment->size);
    if (status == TUTTI_OK) {
        environment->in_session = true;
        snprintf(environment->text, sizeof(environment->text), "PMIx, %u rank%s", environment->size,
                 environment->size == 1 ? "" : "s");
    }
    return status;
}

/* A launcher's rank and size, and nothing else. A job of one needs no more; a larger one needs an address. */
static tutti_status find_rank_only(const struct tt_settings *settings, const struct launcher *launcher,
                                   struct tt_environment *environment)
{
    tutti_status status = read_launcher(launcher, environment);

    environment->source = TT_ENVIRONMENT_RANK_ONLY;
    if (status != TUTTI_OK || environment->size == 1 || settings->root[0] != '\0') {
        return status;
    }
    bool is_missing_in_build = is_set("PMIX_NAMESPACE") && tt_pmix_built_version() == NULL;
    return tt_error(TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED,
                    "%s says that this is one of %u ranks, but not where the others are%s: %s, or set "
                    "TUTTI_ROOT=host:port of rank 0, or TUTTI_SIZE=1 for jobs of one",
                    environment->text, environment->size,
                    is_missing_in_build ? ", and this build of tutti has no PMIx to ask" : "",
                    is_missing_in_build ? "build it with -Dpmix=enabled" : launcher->advice);
}

static tutti_status find(const struct tt_settings *settings, struct tt_environment *environment)
{
    const struct launcher *launcher = find_launcher();

    if (settings->size != TT_AUTO) {
        return find_settings(settings, environment);
    }
    if (is_torch(settings) && is_set("TORCHELASTIC_RUN_ID")) {
        return find_torch(environment);
    }
    if (is_set("PMIX_NAMESPACE") && is_set("PMIX_RANK") && (tt_pmix_built_version() != NULL || launcher == NULL)) {
        return find_pmix(settings, environment);
    }
    if (is_torch(settings)) {
        return find_torch(environment);
    }
    if (launcher != NULL) {
        return find_rank_only(settings, launcher, environment);
    }
    snprintf(environment->text, sizeof(environment->text), "no launcher");
    return tt_settings_check(settings);
}

tutti_status tt_environment_find(const struct tt_settings *settings, struct tt_environment *environment)
{
    struct tt_environment found = {.rank = 0, .size = 1};
    tutti_status status = find(settings, &found);

    if (status != TUTTI_OK) {
        return status;
    }
    /* Half of a pair that says something else than the launcher. */
    if (settings->size == TT_AUTO && settings->rank != TT_AUTO && found.size > 1) {
        tt_environment_release(&found);
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_INVALID_ARGUMENT,
                        "TUTTI_RANK=%" PRIu64 ", but TUTTI_SIZE is not set, and %s says that this is rank %u",
                        settings->rank, found.text, found.rank);
    }
    assert(found.rank < found.size);
    assert(found.in_session == (found.source == TT_ENVIRONMENT_PMIX));
    *environment = found;
    return TUTTI_OK;
}

void tt_environment_release(struct tt_environment *environment)
{
    if (environment->in_session) {
        tt_pmix_leave();
        environment->in_session = false;
    }
}

/* --- Meeting ------------------------------------------------------------------------------------------------------ */

static tutti_status meet_by_torch(const struct tt_environment *environment, struct tt_settings *settings)
{
    const char *host = getenv("MASTER_ADDR");
    bool is_ipv6 = host != NULL && strchr(host, ':') != NULL;
    uint64_t number = 0;
    tutti_status status = read_number("MASTER_PORT", 1, UINT16_MAX, &number);

    if (status != TUTTI_OK) {
        return status;
    }
    assert(host != NULL); /* else it would not be torchrun's */
    uint16_t port = (uint16_t)(number + TT_ENVIRONMENT_PORT_OFFSET <= UINT16_MAX ? number + TT_ENVIRONMENT_PORT_OFFSET
                                                                                 : number - TT_ENVIRONMENT_PORT_OFFSET);
    char root[TT_SETTING_TEXT_BYTES];
    int length = snprintf(root, sizeof(root), "%s%s%s:%u", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", port);
    if (length >= (int)sizeof(root)) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_INVALID_ARGUMENT, "MASTER_ADDR=%.64s...: too long", host);
    }
    if (environment->rank == 0) {
        /* Everywhere: on its own host a host's name may stand for an address that others cannot reach. */
        int fd;
        status = tt_meeting_listen(&port, &fd);
        if (status != TUTTI_OK) {
            return status;
        }
        settings->root_fd = (uint64_t)fd;
    }
    memcpy(settings->root, root, sizeof(root));
    return TUTTI_OK;
}

/* All sessions of a process meet at the same address, so that it is published, and asked for, once. */
static tutti_status meet_by_pmix(const struct tt_environment *environment, struct tt_settings *settings)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char description[TT_SETTING_TEXT_BYTES];
    tutti_status status = TUTTI_OK;
    uint16_t port = 0;
    int fd = -1;

    pthread_mutex_lock(&lock);
    if (environment->rank == 0) {
        status = tt_meeting_listen(&port, &fd);
    }
    if (status == TUTTI_OK && description[0] == '\0') {
        char text[TT_SETTING_TEXT_BYTES];
        if (environment->rank == 0) {
            status = tt_meeting_describe(settings, port, text, sizeof(text));
            status = status == TUTTI_OK ? tt_pmix_publish(settings->bootstrap_timeout_ns, text) : status;
        } else {
            status = tt_pmix_lookup(settings->bootstrap_timeout_ns, text, sizeof(text));
        }
        if (status == TUTTI_OK) {
            snprintf(description, sizeof(description), "%s", text);
        }
    }
    if (status == TUTTI_OK && environment->rank == 0) {
        settings->root_fd = (uint64_t)fd;
    } else if (status == TUTTI_OK) {
        status = tt_meeting_choose(settings, description, settings->root, sizeof(settings->root));
    }
    pthread_mutex_unlock(&lock);
    return status;
}

tutti_status tt_environment_meet(const struct tt_environment *environment, struct tt_settings *settings)
{
    struct tt_settings found = *settings;
    tutti_status status = TUTTI_OK;

    assert(environment->rank < environment->size);
    found.rank = environment->rank;
    found.size = environment->size;
    if (environment->size > 1 && found.root[0] == '\0' && found.root_fd == TT_AUTO) {
        if (environment->source == TT_ENVIRONMENT_PMIX) {
            status = meet_by_pmix(environment, &found);
        } else if (environment->source == TT_ENVIRONMENT_TORCH) {
            status = meet_by_torch(environment, &found);
        }
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (environment->source != TT_ENVIRONMENT_SETTINGS && environment->size > 1) {
        TT_LOG(TT_PART_ENGINE, TT_LOG_INFO, "%s: this is rank %u; rank 0 is at %s", environment->text,
               environment->rank, environment->rank == 0 ? "this host" : found.root);
    }
    *settings = found;
    return TUTTI_OK;
}
