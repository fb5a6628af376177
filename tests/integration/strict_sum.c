/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What testbed_strict.py starts on hosts: sums of floats that in another order add up to other bits, with
 * TUTTI_DETERMINISTIC=strict, by every algorithm that strict lets serve the size. Each rank prints "TYPE COUNT HASH" of
 * each result; a failure, or an algorithm that gives other bits than the one that is chosen, is a sentence and exit
 * status 1.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "base/siphash.h"
#include "support/wild.h"
#include "tutti/reduction.h"
#include "tutti/tutti.h"

/* Up to SMALL elements 12 ranks can be eager, and up to GATHERED gather, longer ones combined on the way up. */
enum { MOST = 300000, SMALL = 480, GATHERED = 8192 };

static void check(tutti_status status, const char *what)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s: %s\n", what, tutti_last_error());
        exit(1);
    }
}

/* Returns the hash of the result. */
static uint64_t sum(tutti_group *group, tutti_type type, uint64_t count, tutti_algorithm algorithm)
{
    static uint8_t send[MOST * 4], receive[MOST * 4];
    tutti_request_options options = {.struct_size = sizeof options, .algorithm = algorithm};
    uint64_t bytes = type == TUTTI_FP32 ? 4 : 2, hash;
    tutti_request *request;
    struct tt_random random;

    tt_random_init(&random, tutti_group_rank(group));
    for (uint64_t i = 0; i < count; i++) {
        tt_wild_next(&random, send + i * bytes, bytes);
    }
    check(tutti_allreduce_init(group, send, receive, count, type, TUTTI_SUM, NULL, &options, &request), "init");
    if (algorithm != TUTTI_ALGORITHM_AUTO && tutti_request_algorithm(request) != algorithm) {
        fprintf(stderr, "algorithm %d instead of %d\n", (int)tutti_request_algorithm(request), (int)algorithm);
        exit(1);
    }
    check(tutti_post(request), "post");
    check(tutti_wait(request), "wait");
    hash = tt_siphash(0, 0, receive, count * bytes);
    printf("%s %" PRIu64 " %016" PRIx64 "\n", bytes == 4 ? "fp32" : "bf16", count, hash);
    check(tutti_finalize(request), "finalize");
    return hash;
}

static void sum_by_all(tutti_group *group, tutti_type type, uint64_t count)
{
    static const tutti_algorithm algorithms[] = {TUTTI_ALGORITHM_RECURSIVE_DOUBLING, TUTTI_ALGORITHM_RABENSEIFNER,
                                                 TUTTI_ALGORITHM_GATHER, TUTTI_ALGORITHM_EAGER};
    uint64_t chosen = sum(group, type, count, TUTTI_ALGORITHM_AUTO);

    for (size_t i = 0; i < (count <= SMALL ? 4 : count <= GATHERED ? 3 : 2); i++) {
        if (sum(group, type, count, algorithms[i]) != chosen) {
            fprintf(stderr, "%" PRIu64 " elements have other bits by algorithm %d\n", count, (int)algorithms[i]);
            exit(1);
        }
    }
}

int main(void)
{
    static const uint64_t counts[] = {1, 7, 480, 3001, 40000, MOST};
    tutti_context *context;
    tutti_group *group;

    check(tutti_context_create(NULL, &context), "context");
    check(tutti_group_create_from_environment(context, &group), "group");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        sum_by_all(group, TUTTI_FP32, counts[i]);
        sum_by_all(group, TUTTI_BF16, counts[i]);
    }
    check(tutti_group_destroy(group), "destroy");
    check(tutti_context_destroy(context), "end");
    return 0;
}
