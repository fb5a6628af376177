/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The smallest program of tutti: rank 0 sends 16 MiB to all other ranks.
 *
 * Every rank creates a context and the group of the job, makes one request, posts it ten times, and checks each time
 * that what it holds is what rank 0 wrote. Start it as four ranks of this machine with `tutti run -n 4 ./broadcast`;
 * started alone it is a group of one.
 *
 * Failures: every call's status is looked at; the first bad one is printed with the library's sentence about it, and
 * ends this rank with status 1.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tutti/tutti.h>

enum { ROOT = 0, LENGTH_BYTES = 16 << 20, ROUNDS = 10 };

static void check(tutti_status status, const char *what)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, tutti_status_text(status), tutti_last_error());
        exit(1);
    }
}

/* The byte that belongs at this place in this round: neighbours and rounds differ. */
static unsigned char pattern(size_t offset, int round)
{
    return (unsigned char)(offset * 31 + (offset >> 12) + (size_t)round * 7);
}

static void fill(unsigned char *buffer, int round)
{
    for (size_t i = 0; i < LENGTH_BYTES; i++) {
        buffer[i] = pattern(i, round);
    }
}

static void compare(const unsigned char *buffer, int round, uint32_t rank)
{
    for (size_t i = 0; i < LENGTH_BYTES; i++) {
        if (buffer[i] != pattern(i, round)) {
            fprintf(stderr, "rank %u: wrong byte at offset %zu in round %d\n", rank, i, round);
            exit(1);
        }
    }
}

int main(void)
{
    tutti_context *context = NULL;
    tutti_group *group = NULL;
    tutti_request *request = NULL;

    check(tutti_context_create(NULL, &context), "context");
    check(tutti_group_create_from_environment(context, &group), "group");
    uint32_t rank = tutti_group_rank(group);

    unsigned char *buffer = malloc(LENGTH_BYTES);
    if (buffer == NULL) {
        fprintf(stderr, "rank %u: out of memory\n", rank);
        return 1;
    }
    /* In place: the root sends from the buffer in which the others receive. */
    check(tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, LENGTH_BYTES, ROOT, NULL, &request), "request");
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == ROOT) {
            fill(buffer, round);
        }
        check(tutti_post(request), "post");
        check(tutti_wait(request), "wait");
        compare(buffer, round, rank);
    }
    check(tutti_finalize(request), "finalize");

    printf("rank %u of %u: %d broadcasts of %d bytes, every byte right\n", rank, tutti_group_size(group), ROUNDS,
           LENGTH_BYTES);
    check(tutti_group_destroy(group), "group");
    check(tutti_context_destroy(context), "context");
    free(buffer);
    return 0;
}
