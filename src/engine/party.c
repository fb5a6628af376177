/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine's parties: the list of all, those that are awake, and the ways to find one. Normal path: numbers go up, and
 * are given again only once they have all been used, so that what is late for a party that is gone is for nobody.
 * Failures: no memory, or as many parties as there are numbers.
 */
#include "engine/party.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum { LEAST_NUMBERS = 64, NUMBERS = UINT16_MAX }; /* 0 is none */

/* --- Numbers ------------------------------------------------------------------------------------------------------ */

static bool grow(struct tt_parties *parties)
{
    uint32_t capacity = parties->capacity == 0 ? LEAST_NUMBERS : 2 * parties->capacity;
    struct tt_party **numbered;

    assert(capacity <= NUMBERS + 1); /* who asks for more places has a number for them */
    numbered = realloc(parties->numbered, capacity * sizeof(struct tt_party *));

    if (numbered == NULL) {
        return false;
    }
    memset(numbered + parties->capacity, 0, (capacity - parties->capacity) * sizeof(struct tt_party *));
    parties->numbered = numbered;
    parties->capacity = capacity;
    return true;
}

static tutti_status give_number(struct tt_parties *parties, struct tt_party *party)
{
    for (uint32_t tries = 0; tries < NUMBERS; tries++) {
        uint16_t number = parties->last_number == NUMBERS ? 1 : (uint16_t)(parties->last_number + 1);

        if (number >= parties->capacity && !grow(parties)) {
            return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a group's number");
        }
        parties->last_number = number;
        if (parties->numbered[number] == NULL) {
            parties->numbered[number] = party;
            party->number = number;
            return TUTTI_OK;
        }
    }
    return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_RESOURCE, "a context can have %d groups and object groups, not more",
                    NUMBERS);
}

struct tt_party *tt_party_with_number(const struct tt_parties *parties, uint64_t cookie_or_immediate)
{
    uint64_t number = cookie_or_immediate >> TT_PARTY_PAYLOAD_BITS;
    struct tt_party *party = number < parties->capacity ? parties->numbered[number] : NULL;

    assert(party == NULL || party->number == number);
    return party;
}

/* --- Lists -------------------------------------------------------------------------------------------------------- */

static bool is_listed(const struct tt_parties *parties, const struct tt_party *party)
{
    return party->number < parties->capacity && parties->numbered[party->number] == party;
}

static struct tt_party **bucket_of(struct tt_parties *parties, uint64_t key)
{
    return &parties->buckets[key % TT_PARTIES_BUCKETS];
}

tutti_status tt_party_list(struct tt_parties *parties, struct tt_party *party, struct tt_party *after)
{
    struct tt_party **bucket = bucket_of(parties, party->key), **link = after == NULL ? &parties->first : &after->next;
    tutti_status status;

    assert(party->ops != NULL);
    assert(!party->awake);
    assert(!party->owes);
    assert(after == NULL || is_listed(parties, after));
    status = give_number(parties, party);
    if (status != TUTTI_OK) {
        return status;
    }
    party->next = *link;
    *link = party;
    party->next_in_bucket = *bucket;
    *bucket = party;
    parties->listed++;
    tt_party_wake(parties, party);
    return TUTTI_OK;
}

void tt_party_unlist(struct tt_parties *parties, struct tt_party *party)
{
    struct tt_party **link = &parties->first;

    assert(is_listed(parties, party));
    while (*link != party) {
        assert(*link != NULL);
        link = &(*link)->next;
    }
    *link = party->next;
    link = bucket_of(parties, party->key);
    while (*link != party) {
        assert(*link != NULL); /* the key is that with which it was listed */
        link = &(*link)->next_in_bucket;
    }
    *link = party->next_in_bucket;
    link = &parties->awake;
    while (party->awake && *link != party) {
        assert(*link != NULL);
        link = &(*link)->next_awake;
    }
    if (party->awake) {
        *link = party->next_awake;
        party->awake = false;
    }
    parties->numbered[party->number] = NULL;
    assert(parties->listed > 0);
    parties->listed--;
    tt_party_note_owes(parties, party, false);
    parties->removals++;
}

void tt_parties_fini(struct tt_parties *parties)
{
    assert(parties->first == NULL);
    assert(parties->awake == NULL);
    assert(parties->owing == 0);
    free(parties->numbered);
    *parties = (struct tt_parties){0};
}

struct tt_party *tt_party_with_key(const struct tt_parties *parties, uint16_t magic, uint64_t key)
{
    struct tt_party *party = parties->buckets[key % TT_PARTIES_BUCKETS];

    while (party != NULL && (party->key != key || party->ops->magic != magic)) {
        party = party->next_in_bucket;
    }
    return party;
}

void tt_party_note_owes(struct tt_parties *parties, struct tt_party *party, bool owes)
{
    assert(parties->owing >= (uint32_t)party->owes);
    parties->owing += (uint32_t)owes - (uint32_t)party->owes;
    party->owes = owes;
}

/* --- Sleep -------------------------------------------------------------------------------------------------------- */

void tt_parties_fall_asleep(struct tt_parties *parties)
{
    struct tt_party **link = &parties->awake;

    while (*link != NULL) {
        struct tt_party *party = *link;

        assert(party->awake);
        if (party->ops->may_sleep(party)) {
            party->awake = false;
            *link = party->next_awake;
        } else {
            link = &party->next_awake;
        }
    }
}

/* --- Checks ------------------------------------------------------------------------------------------------------- */

static void check_party(const struct tt_parties *parties, const struct tt_party *party)
{
    uint32_t found = 0;

    assert(party->ops != NULL);
    assert(party->number != 0);
    assert(is_listed(parties, party));
    for (const struct tt_party *other = parties->buckets[party->key % TT_PARTIES_BUCKETS]; other != NULL;
         other = other->next_in_bucket) {
        assert(other->key % TT_PARTIES_BUCKETS == party->key % TT_PARTIES_BUCKETS);
        assert(is_listed(parties, other));
        found += other == party;
    }
    assert(found == 1);
    if (party->ops->check != NULL) {
        party->ops->check(party);
    }
}

void tt_parties_check(const struct tt_parties *parties)
{
    uint32_t listed = 0, awake = 0, looked_at = 0, owing = 0;

    for (const struct tt_party *party = parties->first; party != NULL; party = party->next) {
        check_party(parties, party);
        listed++;
        awake += party->awake;
        owing += party->owes;
    }
    for (const struct tt_party *party = parties->awake; party != NULL; party = party->next_awake) {
        assert(party->awake);
        assert(is_listed(parties, party));
        looked_at++;
        assert(looked_at <= awake); /* nobody twice, and no circle */
    }
    assert(looked_at == awake);
    assert(listed == parties->listed);
    assert(owing == parties->owing);
    assert(parties->last_number < parties->capacity || parties->capacity == 0);
}
