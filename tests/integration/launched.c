/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What cli_launchers.py starts under launchers: three contexts one after the other, none of which is told anything
 * about the job, and an allgather in each. With WITH_MPI the program uses MPI too, which shares the launcher's PMIx
 * with it; its rank 0 is late, so that the others ask for its address before there is one. Compiled by the test against
 * the shared library. Rank 0 prints "3 rounds of N ranks"; a failure is a sentence and exit status 1.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <tutti/tutti.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif

enum { ROUNDS = 3, MOST_RANKS = 64 };

static void check(tutti_status status, const char *what)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s: %s\n", what, tutti_last_error());
        exit(1);
    }
}

/* Returns the number of ranks, and this rank. */
static uint32_t play(uint32_t round, uint32_t *rank)
{
    tutti_context *context;
    tutti_group *group;
    tutti_request *request;
    uint32_t mine, all[MOST_RANKS] = {0};

    check(tutti_context_create(NULL, &context), "context");
    check(tutti_group_create_from_environment(context, &group), "group");
    uint32_t size = tutti_group_size(group);
    *rank = tutti_group_rank(group);
    mine = 1000 * (round + 1) + *rank;
    if (size > MOST_RANKS) {
        fprintf(stderr, "%u ranks: too many\n", size);
        exit(1);
    }
    check(tutti_allgather_init(group, &mine, all, sizeof(mine), NULL, &request), "init");
    check(tutti_post(request), "post");
    check(tutti_wait(request), "wait");
    for (uint32_t i = 0; i < size; i++) {
        if (all[i] != 1000 * (round + 1) + i) {
            fprintf(stderr, "round %u: %u of rank %u\n", round, all[i], i);
            exit(1);
        }
    }
    check(tutti_finalize(request), "finalize");
    check(tutti_group_destroy(group), "destroy");
    check(tutti_context_destroy(context), "end");
    return size;
}

int main(int argc, char **argv)
{
    uint32_t size = 0, rank = 0;

#ifdef WITH_MPI
    int mpi_rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
    if (mpi_rank == 0) {
        usleep(500000);
    }
#else
    (void)argc;
    (void)argv;
#endif
    for (uint32_t round = 0; round < ROUNDS; round++) {
        size = play(round, &rank);
    }
#ifdef WITH_MPI
    if (rank != (uint32_t)mpi_rank) {
        fprintf(stderr, "rank %u of tutti is rank %d of MPI\n", rank, mpi_rank);
        return 1;
    }
    MPI_Finalize();
#endif
    if (rank == 0) {
        printf("%d rounds of %u ranks\n", ROUNDS, size);
    }
    return 0;
}
