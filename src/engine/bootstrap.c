/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the bootstrap's life: from settings to connected ranks, allgathers, and the end.
 *
 * Normal path: create checks the settings and starts rank 0's part (bootstrap_root.c) or another rank's
 * (bootstrap_member.c); every allgather is handed to the same part.
 *
 * Failures: the first one is kept with its sentence and answers every later call.
 */
#include "engine/bootstrap.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "base/socket.h"
#include "engine/bootstrap_private.h"

static tutti_status check_settings(const struct tt_settings *settings)
{
    tutti_status status = tt_settings_check(settings);
    if (status != TUTTI_OK || settings->size == TT_AUTO || settings->size == 1) {
        return status;
    }
    /* Whoever listens already needs no address. */
    if (settings->root[0] == '\0' && !(settings->rank == 0 && settings->root_fd != TT_AUTO)) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_ROOT is not set, but TUTTI_SIZE=%" PRIu64,
                        settings->size);
    }
    return TUTTI_OK;
}

static struct tt_bootstrap *allocate(const struct tt_settings *settings)
{
    struct tt_bootstrap *bootstrap = calloc(1, sizeof(*bootstrap));
    if (bootstrap == NULL) {
        return NULL;
    }
    bootstrap->size = settings->size == TT_AUTO ? 1 : (uint32_t)settings->size;
    bootstrap->rank = (uint32_t)settings->rank;
    if (settings->rank == TT_AUTO) {
        bootstrap->rank = bootstrap->size == 1 ? 0 : TT_HELLO_NO_RANK;
    }
    bootstrap->timeout_ns = settings->bootstrap_timeout_ns;
    bootstrap->traffic_class = (int)settings->traffic_class;
    bootstrap->failed_rank = -1;
    bootstrap->listener = -1;
    bootstrap->epoll = -1;
    bootstrap->root_channel.fd = -1;
    memcpy(bootstrap->root, settings->root, sizeof(bootstrap->root));
    if (bootstrap->size > 1 && bootstrap->rank == 0) {
        bootstrap->stranger_places = bootstrap->size + TT_BOOTSTRAP_SPARE_STRANGERS;
        bootstrap->members = calloc(bootstrap->size, sizeof(*bootstrap->members));
        bootstrap->strangers = calloc(bootstrap->stranger_places, sizeof(*bootstrap->strangers));
        if (bootstrap->members == NULL || bootstrap->strangers == NULL) {
            free(bootstrap->members);
            free(bootstrap->strangers);
            free(bootstrap);
            return NULL;
        }
        for (uint32_t i = 0; i < bootstrap->size; i++) {
            bootstrap->members[i].channel.fd = -1;
        }
        for (uint32_t i = 0; i < bootstrap->stranger_places; i++) {
            bootstrap->strangers[i].fd = -1;
        }
    }
    return bootstrap;
}

static tutti_status begin(struct tt_bootstrap *bootstrap, const struct tt_settings *settings)
{
    tutti_status status = TUTTI_OK;
    if (bootstrap->size == 1) {
        return TUTTI_OK;
    }
    if (bootstrap->root[0] != '\0') {
        status = tt_bootstrap_parse_root(bootstrap->root, bootstrap->host, &bootstrap->port);
    }
    if (status == TUTTI_OK && getrandom(&bootstrap->nonce, sizeof(bootstrap->nonce), 0) != sizeof(bootstrap->nonce)) {
        status = tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_RESOURCE, "no random numbers: %s", strerror(errno));
    }
    return status == TUTTI_OK && bootstrap->rank == 0 ? tt_bootstrap_listen(bootstrap, settings) : status;
}

tutti_status tt_bootstrap_open(const struct tt_settings *settings, struct tt_bootstrap **bootstrap)
{
    tutti_status status = check_settings(settings);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tt_bootstrap *opened = allocate(settings);
    if (opened == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory to bootstrap %" PRIu64 " ranks",
                        settings->size == TT_AUTO ? 1 : settings->size);
    }
    status = begin(opened, settings);
    if (status != TUTTI_OK) {
        tt_bootstrap_destroy(opened);
        return status;
    }
    tt_bootstrap_check(opened);
    *bootstrap = opened;
    return TUTTI_OK;
}

tutti_status tt_bootstrap_meet(struct tt_bootstrap *bootstrap)
{
    assert(bootstrap->failure == TUTTI_OK);
    assert(bootstrap->sequence == 0); /* once */
    if (bootstrap->size == 1) {
        return TUTTI_OK;
    }
    return bootstrap->rank == 0 ? tt_bootstrap_root_start(bootstrap) : tt_bootstrap_member_start(bootstrap);
}

tutti_status tt_bootstrap_create(const struct tt_settings *settings, struct tt_bootstrap **bootstrap)
{
    struct tt_bootstrap *opened = NULL;
    tutti_status status = tt_bootstrap_open(settings, &opened);
    if (status == TUTTI_OK) {
        status = tt_bootstrap_meet(opened);
        if (status == TUTTI_OK) {
            *bootstrap = opened;
        } else {
            tt_bootstrap_destroy(opened);
        }
    }
    return status;
}

int tt_bootstrap_allgather(void *bootstrap, const void *send, void *receive, size_t length_bytes)
{
    struct tt_bootstrap *self = bootstrap;
    size_t total_bytes;

    tt_bootstrap_check(self);
    if (self->failure != TUTTI_OK) {
        return (int)tt_error_note(self->failure, "%s", self->failure_text);
    }
    if (__builtin_mul_overflow(length_bytes, (size_t)self->size, &total_bytes) || total_bytes > PTRDIFF_MAX) {
        return (int)tt_error(TT_PART_ENGINE, TUTTI_ERR_TOO_LARGE, "an allgather of %u times %zu bytes", self->size,
                             length_bytes);
    }
    assert(self->rank != TT_HELLO_NO_RANK); /* meeting has given one */
    self->sequence++;
    if (self->size == 1) {
        if (length_bytes > 0) {
            memmove(receive, send, length_bytes);
        }
        return 0;
    }
    return (int)(self->rank == 0 ? tt_bootstrap_root_allgather(self, send, receive, length_bytes)
                                 : tt_bootstrap_member_allgather(self, send, receive, length_bytes));
}

uint32_t tt_bootstrap_rank(const struct tt_bootstrap *bootstrap)
{
    return bootstrap->rank;
}

int tt_bootstrap_failed_rank(const struct tt_bootstrap *bootstrap)
{
    return bootstrap->failed_rank;
}

uint64_t tt_bootstrap_strangers(const struct tt_bootstrap *bootstrap)
{
    return bootstrap->stranger_count;
}

void tt_bootstrap_destroy(struct tt_bootstrap *bootstrap)
{
    if (bootstrap == NULL) {
        return;
    }
    tt_channel_close(&bootstrap->root_channel);
    for (uint32_t i = 0; bootstrap->members != NULL && i < bootstrap->size; i++) {
        tt_channel_close(&bootstrap->members[i].channel);
    }
    for (uint32_t i = 0; bootstrap->strangers != NULL && i < bootstrap->stranger_places; i++) {
        tt_channel_close(&bootstrap->strangers[i]);
    }
    if (bootstrap->listener >= 0 && !bootstrap->listener_is_inherited) {
        tt_socket_close(bootstrap->listener);
    }
    if (bootstrap->epoll >= 0) {
        close(bootstrap->epoll);
    }
    free(bootstrap->members);
    free(bootstrap->strangers);
    free(bootstrap);
}
