/* SPDX-License-Identifier: BSD-3-Clause */
/* An engine's parties: how they are found, numbered and ordered, and which of them sleep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/party.h"
#include "wire/frame_header.h"

enum { MAGIC = 0x7474, OTHER_MAGIC = 0x6F74, KEY = 7, NUMBERS = 65535 };

static bool never_moves(struct tt_party *party, uint64_t now_ns, bool looks)
{
    (void)party;
    (void)now_ns;
    (void)looks;
    return false;
}

static bool sleeps_without_deadline(const struct tt_party *party)
{
    return party->deadline_ns == UINT64_MAX;
}

static const struct tt_party_ops looking = {
    .magic = MAGIC, .progress = never_moves, .may_sleep = sleeps_without_deadline};
static const struct tt_party_ops waiting = {.magic = OTHER_MAGIC, .may_sleep = sleeps_without_deadline};

static struct tt_parties parties;
static struct tt_party made[4];
static uint32_t made_count;

static int set_up(void **state)
{
    (void)state;
    parties = (struct tt_parties){0};
    made_count = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tt_parties_check(&parties);
    while (parties.first != NULL) {
        tt_party_unlist(&parties, parties.first);
        tt_parties_check(&parties);
    }
    assert_null(parties.awake);
    assert_int_equal(parties.owing, 0);
    tt_parties_fini(&parties);
    return 0;
}

static struct tt_party *party_with(const struct tt_party_ops *ops, uint64_t key)
{
    struct tt_party *party = &made[made_count++];

    assert_in_range(made_count, 1, sizeof made / sizeof made[0]);
    *party = (struct tt_party){.ops = ops, .key = key, .deadline_ns = UINT64_MAX};
    return party;
}

static void a_party_is_found_by_its_key_and_its_magic(void **state)
{
    struct tt_party *first = party_with(&looking, KEY), *same_key = party_with(&waiting, KEY),
                    *same_bucket = party_with(&looking, KEY + TT_PARTIES_BUCKETS);

    (void)state;
    assert_int_equal(tt_party_list(&parties, first, NULL), TUTTI_OK);
    assert_int_equal(tt_party_list(&parties, same_key, NULL), TUTTI_OK);
    assert_int_equal(tt_party_list(&parties, same_bucket, NULL), TUTTI_OK);
    assert_ptr_equal(tt_party_with_key(&parties, MAGIC, KEY), first);
    assert_ptr_equal(tt_party_with_key(&parties, OTHER_MAGIC, KEY), same_key);
    assert_ptr_equal(tt_party_with_key(&parties, MAGIC, KEY + TT_PARTIES_BUCKETS), same_bucket);
    assert_null(tt_party_with_key(&parties, OTHER_MAGIC, KEY + TT_PARTIES_BUCKETS));
    assert_null(tt_party_with_key(&parties, MAGIC, KEY + 1));
    tt_party_unlist(&parties, first);
    assert_null(tt_party_with_key(&parties, MAGIC, KEY));
}

static void a_cookie_leads_to_its_party_as_long_as_that_is_here(void **state)
{
    struct tt_party *first = party_with(&looking, KEY), *second = party_with(&looking, KEY);
    uint64_t payload = (UINT64_C(1) << TT_PARTY_PAYLOAD_BITS) - 1, cookie;

    (void)state;
    assert_null(tt_party_with_number(&parties, 0));
    assert_null(tt_party_with_number(&parties, UINT64_MAX));
    assert_int_equal(tt_party_list(&parties, first, NULL), TUTTI_OK);
    assert_int_equal(tt_party_list(&parties, second, NULL), TUTTI_OK);
    cookie = tt_party_cookie(second, payload);
    assert_ptr_equal(tt_party_with_number(&parties, cookie), second);
    assert_true(tt_party_payload(cookie) == payload);
    tt_party_unlist(&parties, second);
    assert_null(tt_party_with_number(&parties, cookie));
    assert_int_equal(tt_party_list(&parties, second, NULL), TUTTI_OK);
    assert_null(tt_party_with_number(&parties, cookie)); /* what is late finds nobody else */
}

static void numbers_are_given_again_once_all_have_been_used(void **state)
{
    struct tt_party *stays = party_with(&looking, KEY), *comes = party_with(&looking, KEY);

    (void)state;
    assert_int_equal(tt_party_list(&parties, stays, NULL), TUTTI_OK);
    for (uint32_t i = 2; i <= NUMBERS; i++) {
        assert_int_equal(tt_party_list(&parties, comes, NULL), TUTTI_OK);
        assert_int_equal(comes->number, i);
        tt_party_unlist(&parties, comes);
    }
    assert_int_equal(tt_party_list(&parties, comes, NULL), TUTTI_OK);
    assert_int_equal(comes->number, 2); /* 0 is nobody's, and 1 is taken */
    assert_int_equal(stays->number, 1);
}

static void there_are_as_many_parties_as_numbers(void **state)
{
    struct tt_party *all = calloc(NUMBERS + 1, sizeof *all);

    (void)state;
    assert_non_null(all);
    for (uint32_t i = 0; i <= NUMBERS; i++) {
        all[i] = (struct tt_party){.ops = &looking, .key = i};
        assert_int_equal(tt_party_list(&parties, &all[i], NULL), i < NUMBERS ? TUTTI_OK : TUTTI_ERR_NO_RESOURCE);
    }
    assert_ptr_equal(parties.first, &all[NUMBERS - 1]);
    assert_null(tt_party_with_key(&parties, MAGIC, NUMBERS));
    while (parties.first != NULL) {
        tt_party_unlist(&parties, parties.first);
    }
    free(all);
}

static void what_belongs_to_a_party_comes_behind_it(void **state)
{
    struct tt_party *old = party_with(&looking, 1), *young = party_with(&looking, 2), *part = party_with(&waiting, 3);

    (void)state;
    assert_int_equal(tt_party_list(&parties, old, NULL), TUTTI_OK);
    assert_int_equal(tt_party_list(&parties, young, NULL), TUTTI_OK);
    assert_int_equal(tt_party_list(&parties, part, young), TUTTI_OK);
    assert_ptr_equal(parties.first, young);
    assert_ptr_equal(young->next, part);
    assert_ptr_equal(part->next, old);
}

static void who_has_a_deadline_stays_awake(void **state)
{
    struct tt_party *due = party_with(&waiting, 1), *idle = party_with(&waiting, 2);

    (void)state;
    due->deadline_ns = 5;
    assert_int_equal(tt_party_list(&parties, due, NULL), TUTTI_OK);
    assert_int_equal(tt_party_list(&parties, idle, NULL), TUTTI_OK);
    tt_parties_fall_asleep(&parties);
    assert_ptr_equal(parties.awake, due);
    assert_null(due->next_awake);
    assert_false(idle->awake);
    tt_party_wake(&parties, idle);
    tt_party_wake(&parties, idle);
    assert_ptr_equal(parties.awake, idle);
    assert_ptr_equal(idle->next_awake, due);
}

static void what_is_owed_is_counted_once_a_party(void **state)
{
    struct tt_party *first = party_with(&looking, 1), *second = party_with(&waiting, 2);

    (void)state;
    assert_int_equal(tt_party_list(&parties, first, NULL), TUTTI_OK);
    assert_int_equal(tt_party_list(&parties, second, NULL), TUTTI_OK);
    tt_party_note_owes(&parties, first, true);
    tt_party_note_owes(&parties, first, true);
    tt_party_note_owes(&parties, second, true);
    assert_int_equal(parties.owing, 2);
    tt_party_note_owes(&parties, first, false);
    assert_int_equal(parties.owing, 1);
    tt_party_unlist(&parties, second);
    assert_int_equal(parties.owing, 0);
}

static void a_frame_of_either_kind_says_whom_it_is_for(void **state)
{
    static const struct tt_frame_kind kind = {.magic = OTHER_MAGIC, .version = 1, .type_count = 2};
    const struct tt_frame_header header = {.type = 1, .source = 3, .group = UINT64_C(0x0123456789ABCDEF)};
    uint8_t bytes[24];
    struct tt_writer writer = {.at = bytes, .end = bytes + sizeof bytes};
    uint16_t magic;
    uint64_t group;

    (void)state;
    tt_frame_header_write(&writer, &kind, &header);
    assert_true(tt_frame_header_address(bytes, 16, &magic, &group));
    assert_int_equal(magic, OTHER_MAGIC);
    assert_true(group == header.group);
    assert_false(tt_frame_header_address(bytes, 15, &magic, &group));
    assert_false(tt_frame_header_address(bytes, 0, &magic, &group));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_party_is_found_by_its_key_and_its_magic, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cookie_leads_to_its_party_as_long_as_that_is_here, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers_are_given_again_once_all_have_been_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(there_are_as_many_parties_as_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_belongs_to_a_party_comes_behind_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_has_a_deadline_stays_awake, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_owed_is_counted_once_a_party, set_up, tear_down),
        cmocka_unit_test(a_frame_of_either_kind_says_whom_it_is_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
