/* SPDX-License-Identifier: BSD-3-Clause */
/* Whom a rank names that is said to be out of reach. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/failure.h"
#include "engine/group.h"

enum { OWN = 1, OTHER = 2 };

static uint64_t refused;

static void count(struct tt_p2p *p2p, struct tt_p2p_counters *counters)
{
    (void)p2p;
    *counters = (struct tt_p2p_counters){.refused = refused};
}

/* Rank 2 says that it cannot reach this one: that is this one's fault only if it has turned somebody away meanwhile. */
static void who_had_no_descriptor_is_named_unless_that_was_before_the_group(void **state)
{
    static const struct tt_p2p_ops ops = {.name = "counting", .counters = count};
    static struct tt_p2p p2p = {.ops = &ops};
    static struct tt_network network = {.p2p = &p2p};
    static struct tt_group group = {
        .network = &network,
        .rank = OWN,
        .size = 3,
        .member = {.status = TUTTI_ERR_PEER_FAILED, .culprit = OWN, .noticed_by = OTHER},
    };

    (void)state;
    refused = 5;
    tt_failure_begin(&group);
    assert_int_equal(tt_failure_about(&group, OTHER), OTHER);
    refused++;
    assert_int_equal(tt_failure_about(&group, OTHER), OWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_had_no_descriptor_is_named_unless_that_was_before_the_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
