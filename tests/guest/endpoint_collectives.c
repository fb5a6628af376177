/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs in the guest, with three devices: collectives of three ranks with two receive workers each, whose queues are
 * made according to each category of endpoints in turn, and once by the library's own choice.
 *
 * Normal path: per category one job of forked ranks, each on a device of its own: a Broadcast and an Allgather over
 * multicast in two subgroups, every byte compared. Rank 0 prints what was asked for and what became effective, which
 * must be the same, but for thread domains that the driver does not have.
 *
 * Failures: a line `failed: ...` each and exit status 1. Without three devices: skipped.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint/category.h"
#include "fabric/verbs/verbs.h"
#include "job.h"

enum {
    RANKS = 3,
    ROUNDS = 2,
    BROADCAST_BYTES = 150001,
    BLOCK_BYTES = 40003,
    LIMIT_S = 40,
    MOST_PORTS = 16,
    AUTO_INDEX = TT_ENDPOINT_CATEGORY_COUNT
};

static const char *word_of(unsigned index)
{
    return index == AUTO_INDEX ? "auto" : tt_endpoint_category_word((enum tt_endpoint_category)index);
}

/* auto is dynamic where there are workers. */
static bool may_become(unsigned asked, const char *effective)
{
    unsigned wanted = asked == AUTO_INDEX ? TT_ENDPOINT_DYNAMIC : asked;
    bool wants_domains = tt_endpoint_recipe_of((enum tt_endpoint_category)wanted)->domains != TT_ENDPOINT_NO_DOMAINS;

    return strcmp(effective, word_of(wanted)) == 0 ||
           (wants_domains && strcmp(effective, word_of(TT_ENDPOINT_STATIC)) == 0);
}

static void run(struct job_rank *rank, tutti_request *request)
{
    JOB_OK(rank, tutti_post(request));
    JOB_OK(rank, tutti_wait(request));
}

static void broadcast(struct job_rank *rank, tutti_group *group)
{
    static uint8_t buffer[BROADCAST_BYTES];
    const tutti_request_options options = {.struct_size = sizeof options, .algorithm = TUTTI_ALGORITHM_MULTICAST};
    tutti_request *request;

    JOB_OK(rank, tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, sizeof buffer, 1, &options, &request));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        memset(buffer, 0, sizeof buffer);
        if (rank->rank == 1) {
            job_fill(buffer, sizeof buffer, 1, round);
        }
        run(rank, request);
        JOB_CHECK(rank, job_check(buffer, sizeof buffer, 1, round), "round %u", round);
    }
    JOB_OK(rank, tutti_finalize(request));
}

static void allgather(struct job_rank *rank, tutti_group *group)
{
    static uint8_t blocks[RANKS * BLOCK_BYTES], own[BLOCK_BYTES];
    const tutti_request_options options = {.struct_size = sizeof options, .algorithm = TUTTI_ALGORITHM_MULTICAST};
    tutti_request *request;

    JOB_OK(rank, tutti_allgather_init(group, own, blocks, BLOCK_BYTES, &options, &request));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        memset(blocks, 0, sizeof blocks);
        job_fill(own, BLOCK_BYTES, rank->rank, round);
        run(rank, request);
        for (uint32_t r = 0; r < RANKS; r++) {
            JOB_CHECK(rank, job_check(blocks + (size_t)r * BLOCK_BYTES, BLOCK_BYTES, r, round), "round %u", round);
        }
    }
    JOB_OK(rank, tutti_finalize(request));
}

static void collectives(struct job_rank *rank)
{
    unsigned asked = *(const unsigned *)rank->argument;
    char device[TT_VERBS_NAME_BYTES];
    /* Little staging: an emulated processor takes long to register memory. */
    const char *const settings[] = {
        "MCAST", "verbs",          "P2P",  "verbs",         "DEVICE", device,      "WORKERS",      "2", "SUBGROUPS",
        "2",     "RECEIVE_BUFFER", "768K", "PROBE_TIMEOUT", "5s",     "ENDPOINTS", word_of(asked), NULL};
    tutti_group_info info = {.struct_size = sizeof info};
    tutti_context *context;
    tutti_group *group;

    snprintf(device, sizeof device, "rxe%u", rank->rank);
    job_group(rank, settings, &context, &group);
    JOB_OK(rank, tutti_group_query(group, &info));
    JOB_CHECK(rank, info.multicast && strcmp(info.mcast_provider, "verbs") == 0 && info.subgroups == 2,
              "not multicast");
    JOB_CHECK(rank, may_become(asked, info.endpoints), "%s became %s", word_of(asked), info.endpoints);
    broadcast(rank, group);
    allgather(rank, group);
    if (rank->rank == 0) {
        printf("%-15s effective %s\n", word_of(asked), info.endpoints);
        fflush(stdout);
    }
    job_end(context, group);
}

int main(void)
{
    struct tt_verbs_port ports[MOST_PORTS];
    unsigned passed = 0, failed = 0;
    size_t count = 0;

    if (tt_verbs_list(NULL, ports, MOST_PORTS, &count) != TUTTI_OK || count < RANKS) {
        printf("skipped: there are %zu RDMA devices, not %d\n0 passed, 0 failed, 1 skipped\n", count, RANKS);
        return 0;
    }
    for (unsigned asked = 0; asked <= AUTO_INDEX; asked++) {
        bool good = job_run(RANKS, collectives, &asked, LIMIT_S) == 0;

        passed += good;
        failed += !good;
        if (!good) {
            printf("failed: collectives with endpoints %s\n", word_of(asked));
        }
    }
    printf("%u passed, %u failed, 0 skipped\n", passed, failed);
    return failed > 0 ? 1 : 0;
}
