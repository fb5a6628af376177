/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How large blocks are where nobody says.
 *
 * A plan takes k + d steps, where d is what the last member's first block takes on its way. A step takes the time of a
 * block of b bytes and of the READY and the put's way before it, which is as much as some bytes c would take. With
 * k = N / b the whole is (N / b + d) (b + c), which is least at b = sqrt(N c / d). Small blocks cost more calls and
 * switches between members than that counts, so b is rounded up to a power of two. Never fails.
 */
#include "plan/rdmc.h"

#include "plan/dissemination.h"

enum { STEP_BYTES = 32 * 1024, LEAST_BYTES = 4 * 1024, MOST_BYTES = 16 * 1024 * 1024 };

/* Steps of the plan beyond those of its blocks. */
static uint64_t depth_of(enum tt_rdmc_algorithm algorithm, uint32_t member_count)
{
    switch (algorithm) {
    case TT_RDMC_CHAIN:
        return member_count > 2 ? member_count - 2 : 0;
    case TT_RDMC_BINOMIAL_PIPELINE:
    case TT_RDMC_HYBRID:
        return member_count > 2 ? tt_dissemination_rounds(member_count) - 1 : 0;
    default:
        return 0; /* whole objects go from member to member */
    }
}

uint64_t tt_rdmc_block_bytes(enum tt_rdmc_algorithm algorithm, uint32_t member_count, uint64_t size_bytes)
{
    uint64_t depth = depth_of(algorithm, member_count), bytes = LEAST_BYTES;

    while (bytes < MOST_BYTES && (depth == 0 || bytes * bytes / STEP_BYTES < size_bytes / depth)) {
        bytes *= 2;
    }
    return bytes;
}
