/* SPDX-License-Identifier: BSD-3-Clause */
/* Group keys, and what multicast addresses and subgroups' keys come of: each SipHash under the secret before it, for a
 * purpose of its own. With an invertible mix, whoever overheard one datagram had all keys of the job. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/settings.h"
#include "base/siphash.h"
#include "engine/locality.h"

/* The second half of each key: numbers of purposes, the same in all versions that are to understand each other. */
enum { OF_ADDRESS = 1, OF_QUEUE, OF_GROUP };

enum { GROUPS = 64 };

#define CONTEXT UINT64_C(0x0123456789ABCDEF)

static struct tt_mcast_address address_of(uint64_t key, uint32_t attempt, uint32_t subgroup)
{
    struct tt_mcast_address address;
    struct tt_settings settings;

    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    assert_int_equal(tt_locality_address(&settings, key, attempt, subgroup, &address), TUTTI_OK);
    return address;
}

static void a_groups_key_is_hashed_under_its_first_ranks_context(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < GROUPS; n++) {
        assert_true(tt_locality_key(CONTEXT, n) == tt_siphash(CONTEXT, OF_GROUP, &n, sizeof n));
        assert_true(tt_locality_key(CONTEXT, n) != tt_locality_key(CONTEXT + 1, n));
    }
}

/* The address and the port are seen by everybody, subgroups' keys by who listens: none is made of another. */
static void an_address_and_a_subgroups_key_are_hashed_under_the_groups_key_each_for_itself(void **state)
{
    uint64_t group = tt_locality_key(CONTEXT, 0);

    (void)state;
    for (uint32_t n = 0; n < GROUPS; n++) {
        struct tt_mcast_address here = address_of(group, 0, n), tried = address_of(group, n, 0);
        uint64_t place = tt_siphash(group, OF_ADDRESS, &n, sizeof n);

        assert_true(here.key == tt_siphash(group, OF_QUEUE, &n, sizeof n));
        assert_true(here.key != group && here.key != tt_locality_key(group, n));
        assert_true(tried.key == address_of(group, 0, 0).key); /* another place, and still the same queue */
        assert_int_equal(ntohl(tried.group_be) & 0xFFFF, (uint32_t)place & 0xFFFF);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_groups_key_is_hashed_under_its_first_ranks_context),
        cmocka_unit_test(an_address_and_a_subgroups_key_are_hashed_under_the_groups_key_each_for_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
