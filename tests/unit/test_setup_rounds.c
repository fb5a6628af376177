/* SPDX-License-Identifier: BSD-3-Clause */
/* The rounds that begin a group: which there are, what travels in them, and that it arrives. Ranks of one process that
 * take themselves for several hosts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/setup_private.h"
#include "fabric/tcp/message.h"
#include "fabric/verbs/rc_message.h"

enum { RANKS = 3 };

static struct tt_engine *engines[RANKS];
static struct tt_setup *setups[RANKS];

/* With what *state says of the setting MCAST; NULL: udp. */
static int setup(void **state)
{
    struct tt_settings settings;

    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    assert_int_equal(tt_settings_set(&settings, "MCAST", *state != NULL ? *state : "udp"), TUTTI_OK);
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

/* Rank 1 takes itself for another host. */
static void move_apart(struct tt_setup_hello *all)
{
    all[1].host++;
    setups[1]->places[1].host++;
}

static uint32_t without_device; /* a rank; RANKS: none is */

/* Each rank takes itself for a host with one network, the same, and there for one with an RDMA device. */
static void move_to_devices(struct tt_setup_hello *all)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct tt_locality *place = &setups[rank]->places[rank];

        place->host = all[rank].host = 100 + rank;
        place->net_count = all[rank].net_count = 1;
        place->nets[0].ip = tt_ip_from_ipv4(htonl(0xCB007101 + rank)); /* 203.0.113.0/24 is nobody's */
        place->nets[0].prefix_bits = 24;
        place->nets[0].multicast = 1;
        place->nets[0].verbs = rank != without_device;
    }
}

/* One round, with what `move` makes of the HELLOs, if it is not NULL. Returns how long a contribution was. */
static size_t play(void (*move)(struct tt_setup_hello *all))
{
    size_t bytes = tt_setup_bytes(setups[0]);
    uint8_t *all = calloc(RANKS, bytes + 1);

    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(tt_setup_bytes(setups[rank]), bytes);
        tt_setup_produce(setups[rank], all + rank * bytes);
    }
    if (move != NULL) {
        assert_int_equal(bytes, sizeof(struct tt_setup_hello));
        move((struct tt_setup_hello *)(void *)all);
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
    assert_int_equal(here->chosen, there->chosen);
    assert_int_equal(here->chosen_ipv6, there->chosen_ipv6);
    assert_int_equal(here->net_count, there->net_count);
    assert_memory_equal(here->nets, there->nets, here->net_count * sizeof here->nets[0]);
}

static void hosts_tell_each_other_their_names_and_as_many_networks_as_they_have(void **state)
{
    (void)state;
    assert_int_equal(play(move_apart), 40);
    assert_int_equal(setups[0]->round, TT_SETUP_PLACES);
    size_t expected = setups[0]->places[0].net_count * 18 + strlen(setups[0]->places[0].name);
    assert_int_equal(play(NULL), expected);
    assert_int_equal(setups[0]->round, TT_SETUP_ADDRESS);
    assert_int_equal(tt_setup_bytes(setups[0]), 12 + 24); /* of tcp */
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (uint32_t other = 0; other < RANKS; other++) {
            assert_same_place(&setups[rank]->places[other], &setups[other]->places[other]);
            assert_string_equal(setups[rank]->group->names[other].text, setups[other]->places[other].name);
        }
    }
}

/* Each rank takes itself for a host: the first with two networks, of both families, the others with one of IPv6. */
static void move_to_both_families(struct tt_setup_hello *all)
{
    static const char *const addresses[RANKS] = {"fd00:113::1", "fd00:113::2", "fd00:113::3"};

    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct tt_locality *place = &setups[rank]->places[rank];

        place->host = all[rank].host = 100 + rank;
        place->net_count = all[rank].net_count = rank == 0 ? 2 : 1;
        assert_true(tt_ip_parse("203.0.113.1", &place->nets[0].ip));
        place->nets[0].prefix_bits = 24;
        place->nets[0].multicast = 1;
        assert_true(tt_ip_parse(addresses[rank], &place->nets[rank == 0].ip));
        place->nets[rank == 0].prefix_bits = 112;
        place->nets[rank == 0].multicast = 0;
    }
}

static void networks_of_both_families_are_told_as_they_are(void **state)
{
    (void)state;
    play(move_to_both_families);
    assert_int_equal(play(NULL), 2 * 18 + strlen(setups[0]->places[0].name));
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (uint32_t other = 0; other < RANKS; other++) {
            assert_same_place(&setups[rank]->places[other], &setups[other]->places[other]);
        }
    }
}

static void one_host_says_nothing_of_places(void **state)
{
    (void)state;
    assert_int_equal(play(NULL), 40);
    assert_int_equal(setups[0]->round, TT_SETUP_ADDRESS);
    assert_int_equal(play(NULL), 12 + 24);
    assert_int_equal(setups[0]->round, TT_SETUP_ATTACH);
    assert_int_equal(tt_setup_bytes(setups[0]), 8); /* udp asks for names among two only */
}

static void a_table_of_its_own_is_told_where_digests_differ_and_rank_0s_counts(void **state)
{
    const struct tt_choice *first = &engines[0]->table.choice;

    (void)state;
    engines[1]->table.choice.row_count--;
    play(move_apart);
    assert_int_equal(setups[0]->round, TT_SETUP_TERMS);
    assert_int_equal(play(NULL), sizeof(struct tt_setup_terms));
    assert_int_equal(setups[0]->round, TT_SETUP_PLACES);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(setups[rank]->group->choice.row_count, first->row_count);
        assert_memory_equal(setups[rank]->group->choice.rows, first->rows, first->row_count * sizeof first->rows[0]);
    }
}

/* The device itself is not there, which each rank says in the next round. */
static void assert_address_bytes(uint32_t expected)
{
    play(move_to_devices);
    assert_int_equal(setups[0]->round, TT_SETUP_PLACES);
    play(NULL);
    assert_int_equal(setups[0]->round, TT_SETUP_ADDRESS);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (uint32_t other = 0; other < RANKS; other++) {
            assert_int_equal(setups[rank]->places[other].nets[0].verbs, other != without_device);
        }
        assert_int_equal(setups[rank]->status, TUTTI_ERR_NOT_SUPPORTED);
        assert_int_equal(tt_setup_bytes(setups[rank]), 12 + expected);
    }
}

static void hosts_that_have_devices_take_them_and_their_queue_pairs(void **state)
{
    (void)state;
    without_device = RANKS;
    assert_address_bytes(TT_RC_ADDRESS_BYTES);
}

static void a_host_that_has_no_device_keeps_all_from_taking_theirs(void **state)
{
    (void)state;
    without_device = 1;
    assert_address_bytes(TT_TCP_ADDRESS_BYTES);
}

/* The third rank has no error of its own, and is to put as many bytes together as the two. */
static void a_rank_that_has_failed_tells_it_in_as_many_bytes(void **state)
{
    (void)state;
    engines[2]->context_id = engines[1]->context_id;
    play(NULL);
    assert_int_equal(setups[0]->round, TT_SETUP_ADDRESS);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(setups[rank]->status, rank == 0 ? TUTTI_OK : TUTTI_ERR_INVALID_ARGUMENT);
        assert_int_equal(tt_setup_bytes(setups[rank]), 12 + 24);
    }
}

static void a_port_that_is_taken_is_no_error_while_there_are_others(void **state)
{
    (void)state;
    play(NULL);
    play(NULL);
    assert_int_equal(setups[0]->round, TT_SETUP_ATTACH);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        setups[rank]->status = tt_error_note(TUTTI_ERR_IN_USE, "another program has it");
    }
    play(NULL);
    assert_int_equal(setups[0]->round, TT_SETUP_ATTACH);
    assert_int_equal(setups[0]->attempt, 1);
    assert_int_equal(setups[0]->status, TUTTI_OK);
    assert_string_equal(tt_last_error(), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hosts_tell_each_other_their_names_and_as_many_networks_as_they_have, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(networks_of_both_families_are_told_as_they_are, setup, teardown),
        cmocka_unit_test_setup_teardown(one_host_says_nothing_of_places, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rank_that_has_failed_tells_it_in_as_many_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_port_that_is_taken_is_no_error_while_there_are_others, setup, teardown),
        cmocka_unit_test_setup_teardown(a_table_of_its_own_is_told_where_digests_differ_and_rank_0s_counts, setup,
                                        teardown),
        cmocka_unit_test_prestate_setup_teardown(hosts_that_have_devices_take_them_and_their_queue_pairs, setup,
                                                 teardown, (void *)(uintptr_t) "auto"),
        cmocka_unit_test_prestate_setup_teardown(a_host_that_has_no_device_keeps_all_from_taking_theirs, setup,
                                                 teardown, (void *)(uintptr_t) "auto"),
    };
    char message[128];

    tt_log_configure("none", NULL, message, sizeof(message));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
