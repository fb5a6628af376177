/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as what the other ranks of a group say while it is set up: who they are, on which terms, and where. What
 * is taken must be sound: a table of methods with an answer for everything, names that end and can be printed, networks
 * that can be. Goes up to the network, where descriptors would be opened.
 */
#include <string.h>

#include "check.h"
#include "engine/engine.h"
#include "engine/setup_private.h"
#include "script.h"

enum { RANKS = 3, RANK = 1, CONTRIBUTION_BYTES = 8192 };

static struct tt_engine *the_engine(void)
{
    static struct tt_engine *engine;
    struct tt_settings settings;

    if (engine == NULL) {
        FUZZ_CHECK(tt_settings_load(&settings) == TUTTI_OK && tt_settings_set(&settings, "MCAST", "udp") == TUTTI_OK &&
                   tt_settings_set(&settings, "LOG", "error") == TUTTI_OK);
        FUZZ_CHECK(tt_engine_create(&settings, &engine) == TUTTI_OK);
    }
    return engine;
}

/* As it is in the input, and behind that as it is here: so that some of it agrees. */
static void say(struct script *script, void *contribution, size_t bytes)
{
    for (size_t i = 0; i < bytes && !script_ended(script); i++) {
        ((uint8_t *)contribution)[i] = (uint8_t)script_take(script, 1);
    }
}

/* What this rank says is what it says; the others say the same, but where the input has other bytes. */
static void fill(struct script *script, uint8_t *all, size_t bytes)
{
    FUZZ_CHECK(bytes <= CONTRIBUTION_BYTES);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (rank != RANK) {
            memcpy(all + rank * bytes, all + RANK * bytes, bytes);
            say(script, all + rank * bytes, script_below(script, (uint32_t)bytes + 1));
        }
    }
}

static tutti_status hear_hello(struct tt_setup *setup, struct script *script)
{
    static struct tt_setup_hello all[RANKS];
    bool in_order = script_below(script, 8) > 0; /* or hardly anything gets further */
    tutti_status status;

    memset(all, 0, sizeof all);
    tt_setup_produce_hello(setup, &all[RANK]);
    fill(script, (uint8_t *)all, sizeof all[0]);
    for (uint32_t rank = 0; in_order && rank < RANKS; rank++) {
        all[rank].version = all[RANK].version;
        all[rank].rank = (uint16_t)rank;
    }
    status = tt_setup_compare_versions(setup, all);
    FUZZ_CHECK(!in_order || status == TUTTI_OK);
    if (status == TUTTI_OK) {
        tt_setup_consume_hello(setup, all);
        FUZZ_CHECK(setup->group->local_ranks >= 1 && setup->group->local_ranks <= RANKS);
        FUZZ_CHECK(tt_setup_places_bytes(setup) <= CONTRIBUTION_BYTES);
    }
    return status;
}

static tutti_status hear_terms(struct tt_setup *setup, struct script *script)
{
    static struct tt_setup_terms all[RANKS];
    tutti_status status;

    memset(all, 0, sizeof all);
    tt_setup_produce_terms(setup, &all[RANK]);
    fill(script, (uint8_t *)all, sizeof all[0]);
    status = tt_setup_consume_terms(setup, all);
    FUZZ_CHECK(status != TUTTI_OK || tt_choice_is_sound(&setup->group->choice));
    return status;
}

static void hear_places(struct tt_setup *setup, struct script *script)
{
    static uint8_t all[RANKS * CONTRIBUTION_BYTES];
    size_t bytes = tt_setup_places_bytes(setup);

    memset(all, 0, RANKS * bytes);
    tt_setup_produce_places(setup, all + RANK * bytes);
    fill(script, all, bytes);
    tt_setup_consume_places(setup, all);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const char *name = setup->group->names[rank].text,
                   *end = memchr(name, '\0', sizeof setup->group->names[0].text);

        FUZZ_CHECK(end != NULL);
        for (; name < end; name++) {
            FUZZ_CHECK(*name > ' ' && *name <= '~');
        }
    }
    FUZZ_CHECK(tt_locality_without_multicast(setup->places, sizeof setup->places[0], RANKS) <= RANKS);
    (void)tt_locality_has_verbs(setup->places, sizeof setup->places[0], RANKS);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        (void)tt_locality_uses_ipv6(setup->places, sizeof setup->places[0], RANKS, rank);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script = {data, data + size};
    struct tt_engine *engine = the_engine();
    struct tt_setup *setup;
    tutti_status status;

    tt_engine_lock(engine);
    FUZZ_CHECK(tt_setup_begin(engine, RANK, RANKS, &setup) == TUTTI_OK);
    tt_engine_unlock(engine);
    tt_setup_find_place(setup);
    tt_engine_lock(engine);
    status = hear_hello(setup, &script);
    if (status == TUTTI_OK && setup->round == TT_SETUP_TERMS) {
        status = hear_terms(setup, &script);
    }
    if (status == TUTTI_OK && tt_setup_places_bytes(setup) > 0) {
        hear_places(setup, &script);
    }
    tt_setup_end(setup);
    tt_engine_unlock(engine);
    return 0;
}
