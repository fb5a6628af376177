/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allgather that overlaps with work: every rank contributes 1 MiB, and computes while the others' parts arrive.
 *
 * Every rank fills its own block, posts the request, and calls tutti_test() between two slices of its work, which is
 * what moves communication along when there are no worker threads. At the end it checks the blocks of all ranks and
 * prints what the network had to carry. Start it with `tutti run -n 4 ./allgather`.
 *
 * Failures: a rank that died or was too slow ends the wait on all others with a status and its number; it is printed,
 * and the program ends with status 1.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

enum { BLOCK_BYTES = 1 << 20 };

static tutti_group *group;

static void check(tutti_status status, const char *what)
{
    if (status == TUTTI_OK) {
        return;
    }
    fprintf(stderr, "%s: %s (%s)\n", what, tutti_status_text(status), tutti_last_error());
    if (group != NULL && tutti_group_failed_rank(group) >= 0) {
        fprintf(stderr, "%s: rank %d is the cause\n", what, tutti_group_failed_rank(group));
    }
    exit(1);
}

/* Stands for the application's own work: a slice of it between two looks at the network. */
static uint64_t work(uint64_t state)
{
    for (int i = 0; i < 10000; i++) {
        state = state * UINT64_C(6364136223846793005) + 1;
    }
    return state;
}

static void gather(tutti_request *request)
{
    uint64_t state = 1;
    uint64_t slices = 0;
    bool done = false;

    check(tutti_post(request), "post");
    while (!done) {
        state = work(state);
        slices++;
        check(tutti_test(request, &done), "test");
    }
    printf("%" PRIu64 " slices of work while the data moved (result %" PRIx64 ")\n", slices, state);
}

static void compare(const unsigned char *all, uint32_t size)
{
    for (uint32_t rank = 0; rank < size; rank++) {
        const unsigned char *block = all + (size_t)rank * BLOCK_BYTES;
        for (size_t i = 0; i < BLOCK_BYTES; i++) {
            if (block[i] != (unsigned char)(rank + 1)) {
                fprintf(stderr, "wrong byte at offset %zu of rank %u's block\n", i, rank);
                exit(1);
            }
        }
    }
}

int main(void)
{
    tutti_context *context = NULL;
    tutti_request *request = NULL;
    tutti_counters counters = {.struct_size = sizeof(counters)};

    check(tutti_context_create(NULL, &context), "context");
    check(tutti_group_create_from_environment(context, &group), "group");
    uint32_t rank = tutti_group_rank(group);
    uint32_t size = tutti_group_size(group);

    unsigned char *own = malloc(BLOCK_BYTES);
    unsigned char *all = malloc((size_t)size * BLOCK_BYTES);
    if (own == NULL || all == NULL) {
        fprintf(stderr, "rank %u: out of memory for %u blocks\n", rank, size);
        return 1;
    }
    memset(own, (int)(rank + 1), BLOCK_BYTES);
    check(tutti_allgather_init(group, own, all, BLOCK_BYTES, NULL, &request), "request");
    gather(request);
    check(tutti_finalize(request), "finalize");
    compare(all, size);

    check(tutti_group_counters(group, &counters), "counters");
    printf("rank %u of %u: every byte right; sent %" PRIu64 " bytes by multicast, %" PRIu64 " point to point\n", rank,
           size, counters.mcast_bytes_sent, counters.p2p_bytes_sent);
    check(tutti_group_destroy(group), "group");
    check(tutti_context_destroy(context), "context");
    free(own);
    free(all);
    return 0;
}
