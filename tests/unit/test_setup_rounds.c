/* SPDX-License-Identifier: BSD-3-Clause */
/* The rounds that begin a group: which there are, what travels in them, and that it arrives. Ranks of one process that
 * take themselves for several hosts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/setup_private.h"

enum { RANKS = 3 };

static struct tt_engine *engines[RANKS];
static struct tt_setup *setups[RANKS];

static int setup(void **state)
{
    struct tt_settings settings;

    (void)state;
    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    assert_int_equal(tt_settings_set(&settings, "MCAST", "udp"), TUTTI_OK);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(tt_engine_create(&settings, &engines[rank]), TUTTI_OK);
        tt_engine_lock(engines[rank]);
        assert_int_equal(tt_setup_begin(engines[rank], rank, RANKS, &setups[rank]), TUTTI_OK);
        tt_engine_unlock(engines[rank]);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        tt_engine_lock(engines[rank]);
        tt_setup_end(setups[rank]);
        tt_engine_unlock(engines[rank]);
        tt_engine_destroy(engines[rank]);
    }
    return 0;
}

/* One round, in which rank 1 takes itself for another host if `apart`. Returns how long a contribution was. */
static size_t play(bool apart)
{
    size_t bytes = tt_setup_bytes(setups[0]);
    uint8_t *all = calloc(RANKS, bytes + 1);

    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(tt_setup_bytes(setups[rank]), bytes);
        tt_setup_produce(setups[rank], all + rank * bytes);
    }
    if (apart) {
        assert_int_equal(bytes, sizeof(struct tt_setup_hello));
        ((struct tt_setup_hello *)(void *)all)[1].host++;
        setups[1]->places[1].host++;
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(tt_setup_consume(setups[rank], all), TUTTI_OK);
        assert_int_equal(setups[rank]->round, setups[0]->round);
    }
    free(all);
    return bytes;
}

static void assert_same_place(const struct tt_locality *here, const struct tt_locality *there)
{
    assert_string_equal(here->name, there->name);
    assert_true(here->host == there->host);
    assert_int_equal(here->chosen_be, there->chosen_be);
    assert_int_equal(here->net_count, there->net_count);
    assert_memory_equal(here->nets, there->nets, here->net_count * sizeof here->nets[0]);
}

static void hosts_tell_each_other_their_names_and_as_many_networks_as_they_have(void **state)
{
    (void)state;
    assert_int_equal(play(true), 40);
    assert_int_equal(setups[0]->round, TT_SETUP_PLACES);
    size_t expected = setups[0]->places[0].net_count * 8 + strlen(setups[0]->places[0].name);
    assert_int_equal(play(false), expected);
    assert_int_equal(setups[0]->round, TT_SETUP_ADDRESS);
    assert_int_equal(tt_setup_bytes(setups[0]), 12 + 24); /* of tcp */
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (uint32_t other = 0; other < RANKS; other++) {
            assert_same_place(&setups[rank]->places[other], &setups[other]->places[other]);
            assert_string_equal(setups[rank]->group->names[other].text, setups[other]->places[other].name);
        }
    }
}

static void one_host_says_nothing_of_places(void **state)
{
    (void)state;
    assert_int_equal(play(false), 40);
    assert_int_equal(setups[0]->round, TT_SETUP_ADDRESS);
    assert_int_equal(play(false), 12 + 24);
    assert_int_equal(setups[0]->round, TT_SETUP_ATTACH);
    assert_int_equal(tt_setup_bytes(setups[0]), 8); /* udp asks for names among two only */
}

static void a_table_of_its_own_is_told_where_digests_differ_and_rank_0s_counts(void **state)
{
    const struct tt_choice *first = &engines[0]->table.choice;

    (void)state;
    engines[1]->table.choice.row_count--;
    play(true);
    assert_int_equal(setups[0]->round, TT_SETUP_TERMS);
    assert_int_equal(play(false), sizeof(struct tt_setup_terms));
    assert_int_equal(setups[0]->round, TT_SETUP_PLACES);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(setups[rank]->group->choice.row_count, first->row_count);
        assert_memory_equal(setups[rank]->group->choice.rows, first->rows, first->row_count * sizeof first->rows[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hosts_tell_each_other_their_names_and_as_many_networks_as_they_have, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_host_says_nothing_of_places, setup, teardown),
        cmocka_unit_test_setup_teardown(a_table_of_its_own_is_told_where_digests_differ_and_rank_0s_counts, setup,
                                        teardown),
    };
    char message[128];

    tt_log_configure("none", NULL, message, sizeof(message));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
