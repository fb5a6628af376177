/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups in which nothing moves: nobody looks at them, until something is there for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "engine/group.h"
#include "engine/idle.h"
#include "engine/objects.h"
#include "engine/progress_thread.h"
#include "engine/relay.h"
#include "engine/request.h"

enum { GROUPS = 3 };

#define BEGIN_NS  (5 * TT_NS_PER_S)
#define AROUND_NS (200 * TT_NS_PER_US)

/* A group whose chunks come from a descriptor. */
struct place {
    struct tt_mcast_queue mcast; /* first */
    struct tt_queue queue;
    struct tt_group group;
    _Atomic uint64_t heard[1];
    int fd; /* -1: there is none */
    uint32_t waiting, polls;
};

static struct place places[GROUPS];
static struct tt_engine *engine;
static uint64_t now_ns;

static uint64_t read_time(void *argument)
{
    (void)argument;
    return now_ns;
}

static uint32_t poll_place(struct tt_mcast_queue *queue, struct tt_receive_chunk *chunks, uint32_t max)
{
    struct place *place = (struct place *)queue;
    uint32_t count = place->waiting < max ? place->waiting : max;

    place->polls++;
    for (uint32_t i = 0; i < count; i++) {
        chunks[i] = (struct tt_receive_chunk){.imm = tt_imm_encode(TT_TAG_PROBE, 0), .source = 1};
    }
    place->waiting -= count;
    return count;
}

static void repost_place(struct tt_mcast_queue *queue, const struct tt_receive_chunk *chunks, uint32_t count)
{
    (void)queue;
    (void)chunks;
    (void)count;
}

static int fd_of_place(const struct tt_mcast_queue *queue)
{
    return ((const struct place *)queue)->fd;
}

static const struct tt_mcast_ops ops = {
    .name = "place", .poll = poll_place, .repost = repost_place, .receive_fd = fd_of_place};

static int set_up(void **state)
{
    struct tt_settings settings;

    (void)state;
    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    settings.workers = 0;
    assert_int_equal(tt_engine_create(&settings, &engine), TUTTI_OK);
    tt_progress_thread_destroy(engine->progress_thread); /* turns are the tests', and so is the time */
    engine->progress_thread = NULL;
    pthread_mutex_lock(&engine->lock);
    now_ns = BEGIN_NS;
    engine->now_ns = read_time;
    engine->around_ns = now_ns;
    for (uint32_t i = 0; i < GROUPS; i++) {
        struct place *place = &places[i];

        *place = (struct place){.mcast = {.ops = &ops}, .fd = eventfd(0, EFD_NONBLOCK)};
        assert_true(place->fd >= 0);
        place->queue.mcast = &place->mcast;
        place->queue.receiver = (struct tt_receiver){.size = 2, .heard = place->heard};
        place->group = (struct tt_group){.engine = engine,
                                         .queues = &place->queue,
                                         .queue_count = 1,
                                         .size = 2,
                                         .party.key = 7 + i * TT_PARTIES_BUCKETS, /* in one bucket */
                                         .party.deadline_ns = TT_NEVER};
        assert_int_equal(tt_wakeup_add_chunks(engine->wakeup, place->fd, &place->group.party), TUTTI_OK);
        tt_group_list(&place->group);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    while (engine->parties.first != NULL) {
        tt_group_unlist(tt_group_of(engine->parties.first));
    }
    assert_null(engine->parties.awake);
    for (uint32_t i = 0; i < GROUPS; i++) {
        close(places[i].fd);
        assert_false(places[i].group.party.awake);
    }
    pthread_mutex_unlock(&engine->lock);
    tt_engine_destroy(engine);
    return 0;
}

static void assert_polls(uint32_t first, uint32_t second, uint32_t third)
{
    assert_int_equal(places[0].polls, first);
    assert_int_equal(places[1].polls, second);
    assert_int_equal(places[2].polls, third);
}

/* It has to have been found empty: before, its descriptor need not tell of what is there. */
static void a_group_falls_asleep_once_nothing_waits_for_it(void **state)
{
    (void)state;
    places[1].waiting = 2;
    tt_engine_progress(engine);
    assert_true(!places[0].group.party.awake && !places[2].group.party.awake);
    assert_false(places[1].group.party.awake); /* a look goes on until nothing is there */
    assert_polls(1, 2, 1);
    tt_engine_progress(engine);
    assert_polls(1, 2, 1);
}

static void a_look_that_found_something_is_not_the_last(void **state)
{
    (void)state;
    places[0].mcast.dry = true; /* the provider says so with what it brings */
    places[0].waiting = 1;
    tt_engine_progress(engine);
    assert_true(places[0].group.party.awake);
    tt_engine_progress(engine);
    assert_false(places[0].group.party.awake);
    assert_polls(2, 1, 1);
}

static void what_is_in_progress_or_due_keeps_it_awake(void **state)
{
    struct tt_request request = {
        .group = &places[0].group, .transmit.due_ns = TT_NEVER, .collective.state = TT_COLLECTIVE_RECEIVE};

    (void)state;
    places[0].group.active = &request;
    places[1].group.party.deadline_ns = now_ns + TT_NS_PER_MS;
    places[0].group.heard_ns = places[1].group.heard_ns = now_ns;
    tt_engine_progress(engine);
    tt_engine_progress(engine);
    assert_polls(2, 2, 1);
    assert_true(tt_engine_deadline(engine) == now_ns + TT_NS_PER_MS);
    places[0].group.active = NULL;
    places[1].group.party.deadline_ns = TT_NEVER;
    tt_engine_progress(engine);
    tt_engine_progress(engine);
    assert_polls(3, 3, 1);
}

static void without_a_descriptor_a_group_is_always_looked_at(void **state)
{
    int fd = places[1].fd;

    (void)state;
    places[1].fd = -1;
    for (uint32_t i = 0; i < 5; i++) {
        tt_engine_progress(engine);
    }
    assert_polls(1, 5, 1);
    places[1].fd = fd;
}

static void its_descriptor_wakes_it_up(void **state)
{
    uint64_t one = 1;

    (void)state;
    tt_engine_progress(engine);
    assert_int_equal(write(places[2].fd, &one, sizeof one), sizeof one);
    places[2].waiting = 1;
    now_ns += TT_NS_PER_S; /* it has polled for long enough */
    engine->around_ns = now_ns;
    tt_engine_idle(engine, TT_NEVER);
    assert_true(places[2].group.party.awake);
    assert_false(places[0].group.party.awake || places[1].group.party.awake);
    tt_engine_progress(engine);
    assert_polls(1, 1, 3);
    assert_int_equal(places[2].waiting, 0);
}

/* Those of the sleep before may be gone. */
static void a_sleep_that_no_descriptor_ends_names_nobody(void **state)
{
    uint64_t one = 1;

    (void)state;
    assert_int_equal(write(places[2].fd, &one, sizeof one), sizeof one);
    tt_wakeup_sleep(engine->wakeup, TT_NS_PER_S);
    assert_int_equal(engine->wakeup->ready_count, 1);
    assert_ptr_equal(engine->wakeup->ready[0], &places[2].group);
    tt_wakeup_sleep_until_rung(engine->wakeup, 1);
    assert_int_equal(engine->wakeup->ready_count, 0);
    tt_wakeup_sleep(engine->wakeup, TT_NS_PER_S);
    assert_int_equal(engine->wakeup->ready_count, 1);
    tt_wakeup_sleep_moderated(engine->wakeup, 1);
    assert_int_equal(engine->wakeup->ready_count, 0);
}

/* The next turn's look finds it again, should it be there still. */
static void nobody_is_woken_where_a_group_has_gone_meanwhile(void **state)
{
    uint64_t one = 1;
    uint32_t removals = engine->parties.removals;

    (void)state;
    tt_group_unlist(&places[2].group);
    assert_int_equal(engine->parties.removals, removals + 1);
    tt_wakeup_remove(engine->wakeup, places[2].fd);
    assert_int_equal(write(places[2].fd, &one, sizeof one), sizeof one);
    tt_engine_progress(engine);
    now_ns += TT_NS_PER_S;
    engine->around_ns = now_ns;
    tt_engine_idle(engine, now_ns + TT_NS_PER_MS);
    assert_null(engine->parties.awake);
}

static void something_comes_to(uint32_t index)
{
    uint64_t one = 1;

    assert_int_equal(write(places[index].fd, &one, sizeof one), sizeof one);
    places[index].waiting = 1;
}

/* As the provider would have done with what made it readable. */
static void is_read(uint32_t index)
{
    uint64_t all;

    assert_int_equal(places[index].waiting, 0);
    assert_int_equal(read(places[index].fd, &all, sizeof all), sizeof all);
}

static void who_never_sleeps_hears_of_what_comes_to_those_that_do(void **state)
{
    (void)state;
    tt_engine_progress(engine);
    assert_polls(1, 1, 1);
    for (uint32_t i = 0; i < GROUPS; i++) {
        something_comes_to(i);
        now_ns += AROUND_NS - 1;
        tt_engine_progress(engine);
        assert_int_equal(places[i].waiting, 1);
        now_ns += 1;
        tt_engine_progress(engine);
        is_read(i);
        now_ns += AROUND_NS;
        tt_engine_progress(engine); /* nothing more has come to it */
    }
    assert_polls(3, 3, 3); /* each once more, as what is found is followed by a look that finds nothing */
    assert_null(engine->parties.awake);
}

/* That may be another one's, which must still be armed when this one goes to sleep. */
static void a_look_leaves_the_bell_to_who_sleeps(void **state)
{
    void *ready[TT_WAKEUP_EVENTS];

    (void)state;
    tt_engine_progress(engine);
    tt_wakeup_ring_always(engine->wakeup);
    assert_int_equal(tt_wakeup_look(engine->wakeup, ready), 0);
    tt_wakeup_sleep(engine->wakeup, UINT64_MAX); /* ends at once */
    something_comes_to(1);
    assert_int_equal(tt_wakeup_look(engine->wakeup, ready), 1);
    assert_ptr_equal(ready[0], &places[1].group);
    assert_int_equal(engine->wakeup->ready_count, 0); /* the sleeper's */
}

/* --- Groups in which something is due, but nothing comes ------------------------------------------------------------
 */

static void keep_awake(uint32_t index)
{
    places[index].group.party.deadline_ns = now_ns + TT_NS_PER_S;
    places[index].group.heard_ns = now_ns;
    tt_party_wake(&engine->parties, &places[index].group.party);
}

static void progress_often(uint32_t times)
{
    for (uint32_t i = 0; i < times; i++) {
        tt_engine_progress(engine);
    }
}

static void where_nothing_comes_for_a_while_polling_ends_if_there_are_others(void **state)
{
    (void)state;
    keep_awake(0);
    keep_awake(1);
    tt_engine_progress(engine);
    now_ns += 200 * TT_NS_PER_US - 1;
    progress_often(5);
    assert_polls(6, 6, 1);
    now_ns += 1;
    progress_often(5);
    assert_polls(7, 7, 1); /* found empty once more */
    assert_true(places[0].group.party.awake && places[1].group.party.awake);
    something_comes_to(1);
    now_ns += AROUND_NS;
    progress_often(1);
    is_read(1);
    keep_awake(1);
    progress_often(3); /* it is polled again, and the other one is not */
    assert_polls(7, 12, 1);
    for (uint32_t i = 0; i < 2; i++) {
        places[i].group.party.deadline_ns = TT_NEVER;
        tt_party_wake(&engine->parties, &places[i].group.party);
    }
    tt_engine_progress(engine);
}

static void what_is_due_is_judged_by_what_has_come(void **state)
{
    (void)state;
    keep_awake(0);
    keep_awake(1);
    now_ns += AROUND_NS;
    progress_often(5);
    assert_polls(1, 1, 1);
    now_ns = places[1].group.party.deadline_ns;
    engine->around_ns = now_ns;
    places[0].group.party.deadline_ns = TT_NEVER;
    progress_often(1);
    assert_polls(1, 2, 1);
}

static void a_group_alone_is_polled(void **state)
{
    (void)state;
    keep_awake(0);
    now_ns += AROUND_NS;
    progress_often(5);
    assert_polls(5, 1, 1);
    places[0].group.party.deadline_ns = TT_NEVER;
    tt_engine_progress(engine);
}

static void small_collectives_are_polled_for(void **state)
{
    struct tt_request request = {
        .group = &places[0].group, .transmit.due_ns = TT_NEVER, .collective.state = TT_COLLECTIVE_RECEIVE};

    (void)state;
    request.collective.config.terms.method = TT_METHOD_EAGER;
    places[0].group.active = &request;
    keep_awake(0);
    keep_awake(1);
    now_ns += AROUND_NS;
    progress_often(5);
    assert_polls(5, 1, 1);
    request.collective.config.terms.method = TT_METHOD_MULTICAST;
    progress_often(5);
    assert_polls(6, 1, 1);
    places[0].group.active = NULL;
    places[0].group.party.deadline_ns = places[1].group.party.deadline_ns = TT_NEVER;
    tt_party_wake(&engine->parties, &places[0].group.party);
    tt_party_wake(&engine->parties, &places[1].group.party);
    tt_engine_progress(engine);
}

static void who_asks_for_a_time_to_poll_gets_that(void **state)
{
    (void)state;
    engine->settings.poll_ns = TT_NS_PER_S;
    keep_awake(0);
    keep_awake(1);
    now_ns += AROUND_NS;
    progress_often(5);
    assert_polls(5, 5, 1);
    places[0].group.party.deadline_ns = places[1].group.party.deadline_ns = TT_NEVER;
    tt_engine_progress(engine);
}

/* Nothing comes to it but frames and puts, which wake it up. */
static void an_object_group_is_awake_while_something_is_due_in_it(void **state)
{
    struct tt_objects objects = {.group = &places[0].group,
                                 .party = {.ops = &tt_objects_ops, .key = 1, .deadline_ns = now_ns + TT_NS_PER_MS}};

    (void)state;
    assert_int_equal(tt_party_list(&engine->parties, &objects.party, &places[0].group.party), TUTTI_OK);
    tt_engine_progress(engine);
    assert_true(objects.party.awake);
    assert_true(tt_engine_deadline(engine) == now_ns + TT_NS_PER_MS);
    objects.party.deadline_ns = TT_NEVER;
    tt_engine_progress(engine);
    assert_false(objects.party.awake);
    tt_party_unlist(&engine->parties, &objects.party);
}

/* What its relay's object group has done is looked at once, and then it may sleep. */
static void a_group_is_due_when_its_relay_has_moved(void **state)
{
    struct tt_objects objects = {.group = &places[0].group};
    struct tt_relay relay = {.group = &places[0].group, .objects = &objects, .root = 1};

    (void)state;
    tt_engine_progress(engine);
    places[0].group.relays = &relay;
    objects.has_moved = true;
    tt_party_wake(&engine->parties, &places[0].group.party);
    assert_int_equal(tt_engine_deadline(engine), 0);
    tt_engine_progress(engine);
    assert_false(objects.has_moved);
    assert_false(places[0].group.party.awake);
    assert_true(tt_engine_deadline(engine) == TT_NEVER);
    places[0].group.relays = NULL;
}

static void what_is_owed_is_counted_by_groups(void **state)
{
    struct tt_request request = {
        .group = &places[0].group, .transmit.due_ns = TT_NEVER, .collective.state = TT_COLLECTIVE_RECEIVE};

    (void)state;
    assert_int_equal(engine->parties.owing, 0);
    tt_group_unlist(&places[0].group);
    places[0].group.active = &request;
    tt_group_list(&places[0].group);
    assert_int_equal(engine->parties.owing, 1);
    tt_group_unlist(&places[0].group);
    assert_int_equal(engine->parties.owing, 0);
    places[0].group.active = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_group_falls_asleep_once_nothing_waits_for_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_look_that_found_something_is_not_the_last, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_in_progress_or_due_keeps_it_awake, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_descriptor_a_group_is_always_looked_at, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_descriptor_wakes_it_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_sleep_that_no_descriptor_ends_names_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_is_woken_where_a_group_has_gone_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_never_sleeps_hears_of_what_comes_to_those_that_do, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_look_leaves_the_bell_to_who_sleeps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(where_nothing_comes_for_a_while_polling_ends_if_there_are_others, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_due_is_judged_by_what_has_come, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_group_alone_is_polled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(small_collectives_are_polled_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_asks_for_a_time_to_poll_gets_that, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_object_group_is_awake_while_something_is_due_in_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_group_is_due_when_its_relay_has_moved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_owed_is_counted_by_groups, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
