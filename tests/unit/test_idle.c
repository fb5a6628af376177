/* SPDX-License-Identifier: BSD-3-Clause */
/* When an engine looks, and what it does meanwhile: how long it polls, what ends a sleep, a moderated one and one that
 * backs off, and a provider that wakes it up for nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/group.h"
#include "engine/idle.h"
#include "engine/network.h"
#include "engine/objects.h"
#include "engine/progress_thread.h"
#include "engine/request.h"
#include "engine/triggers.h"
#include "engine/wakeup.h"

#define LONG_NS  (60 * TT_NS_PER_S) /* no test waits for this */
#define SHORT_NS (20 * TT_NS_PER_MS)

/* --- What ends which ---------------------------------------------------------------------------------------------- */

struct watched {
    struct tt_wakeup *wakeup;
    int frames, chunks; /* readable */
};

static int setup(void **state)
{
    static struct watched watched;

    assert_int_equal(tt_wakeup_create(&watched.wakeup), TUTTI_OK);
    watched.frames = eventfd(0, EFD_CLOEXEC);
    watched.chunks = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(tt_wakeup_add(watched.wakeup, watched.frames), TUTTI_OK);
    assert_int_equal(tt_wakeup_add_chunks(watched.wakeup, watched.chunks, NULL), TUTTI_OK);
    *state = &watched;
    return 0;
}

static int teardown(void **state)
{
    struct watched *watched = *state;

    tt_wakeup_destroy(watched->wakeup);
    close(watched->frames);
    close(watched->chunks);
    return 0;
}

static void make_readable(int fd)
{
    uint64_t one = 1;

    assert_int_equal(write(fd, &one, sizeof one), sizeof one);
}

typedef void sleep_function(struct tt_wakeup *wakeup, uint64_t timeout_ns);

static uint64_t rest_for(struct watched *watched, sleep_function *rest, uint64_t timeout_ns)
{
    uint64_t begun_ns = tt_clock_now_ns();

    tt_wakeup_prepare(watched->wakeup);
    rest(watched->wakeup, timeout_ns);
    assert_false(watched->wakeup->sleeping);
    return tt_clock_now_ns() - begun_ns;
}

/* By what is readable now. */
static void assert_ended(struct watched *watched, sleep_function *rest)
{
    assert_true(rest_for(watched, rest, LONG_NS) < LONG_NS);
}

/* Only time does. */
static void assert_not_ended(struct watched *watched, sleep_function *rest)
{
    assert_true(rest_for(watched, rest, SHORT_NS) >= SHORT_NS);
}

static void chunks_end_a_sleep_alone(void **state)
{
    struct watched *watched = *state;

    assert_not_ended(watched, tt_wakeup_sleep);
    make_readable(watched->chunks);
    assert_ended(watched, tt_wakeup_sleep);
    assert_not_ended(watched, tt_wakeup_sleep_moderated);
    assert_not_ended(watched, tt_wakeup_sleep_until_rung);
}

static void frames_end_a_sleep_and_a_nap(void **state)
{
    struct watched *watched = *state;

    make_readable(watched->frames);
    assert_ended(watched, tt_wakeup_sleep);
    assert_ended(watched, tt_wakeup_sleep_moderated);
    assert_not_ended(watched, tt_wakeup_sleep_until_rung);
}

static void a_ring_ends_all_of_them_once(void **state)
{
    struct watched *watched = *state;
    sleep_function *const sleeps[] = {tt_wakeup_sleep, tt_wakeup_sleep_moderated, tt_wakeup_sleep_until_rung};

    for (size_t i = 0; i < sizeof sleeps / sizeof sleeps[0]; i++) {
        tt_wakeup_ring_always(watched->wakeup);
        assert_ended(watched, sleeps[i]);
        assert_not_ended(watched, sleeps[i]);
    }
    assert_int_equal(watched->wakeup->wakeups, 6);
}

/* --- A provider that is always about to say something ------------------------------------------------------------- */

struct restless {
    struct tt_p2p base;
    int fd;
    bool moves;                     /* and each time it has moved bytes */
    uint32_t ended_batches, frames; /* frames: that it still has for nobody, one a look */
    uint64_t looks;
    uint64_t due_ns, tended_ns; /* that it was due, at last */
};

static tutti_status no_address(struct tt_p2p *p2p, void *buffer, size_t *length_bytes)
{
    (void)p2p;
    memset(buffer, 0, 1);
    *length_bytes = 1;
    return TUTTI_OK;
}

static uint32_t say_little(struct tt_p2p *p2p, struct tt_p2p_event *events, uint32_t max)
{
    struct restless *restless = (struct restless *)p2p;

    (void)max;
    restless->looks++;
    assert_false(p2p->batches); /* progress may move much, and what waits does not wait for that */
    if (restless->frames == 0) {
        return 0;
    }
    restless->frames--;
    events[0] = (struct tt_p2p_event){.type = TT_P2P_FRAME, .data = "x", .length_bytes = 1};
    return 1;
}

static void flush(struct tt_p2p *p2p)
{
    assert_false(p2p->batches);
    ((struct restless *)p2p)->ended_batches++;
}

static void count(struct tt_p2p *p2p, struct tt_p2p_counters *counters)
{
    const struct restless *restless = (struct restless *)p2p;

    *counters = (struct tt_p2p_counters){.wakeups = restless->moves ? restless->looks : 0};
}

static uint64_t tend(struct tt_p2p *p2p, uint64_t now_ns)
{
    struct restless *restless = (struct restless *)p2p;

    if (now_ns >= restless->due_ns) {
        restless->due_ns = TT_NEVER;
        restless->tended_ns = now_ns;
    }
    return restless->due_ns;
}

static bool is_armed(struct tt_p2p *p2p)
{
    (void)p2p;
    return true;
}

/* Turns are the test's, and so is the time, which the progress thread would read. */
static void be_alone(struct tt_engine *engine)
{
    tt_progress_thread_destroy(engine->progress_thread);
    engine->progress_thread = NULL;
}

/* An engine with this provider and no multicast. */
static struct tt_engine *engine_with(struct restless *restless)
{
    static const struct tt_p2p_ops ops = {.name = "restless",
                                          .address = no_address,
                                          .flush = flush,
                                          .progress = say_little,
                                          .tend = tend,
                                          .arm = is_armed,
                                          .counters = count};
    static const struct tt_mcast_ops none = {.name = "none"};
    static struct tt_mcast mcast = {.ops = &none};
    struct tt_settings settings;
    struct tt_engine *engine;

    restless->base = (struct tt_p2p){.ops = &ops, .has_batch = true};
    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    assert_int_equal(tt_engine_create(&settings, &engine), TUTTI_OK);
    pthread_mutex_lock(&engine->lock); /* the progress thread looks at the networks */
    assert_int_equal(tt_network_borrow(&engine->settings, &mcast, &restless->base, &engine->networks[0]), TUTTI_OK);
    engine->network_count = 1;
    pthread_mutex_unlock(&engine->lock);
    return engine;
}

/* How often it wakes an engine up in a tenth of a second. */
static uint64_t wakeups_by(bool moves)
{
    struct restless restless = {.fd = eventfd(1, EFD_CLOEXEC), .moves = moves, .due_ns = TT_NEVER};
    struct tt_engine *engine = engine_with(&restless);
    _Atomic bool never = false;

    assert_int_equal(tt_wakeup_add(engine->wakeup, restless.fd), TUTTI_OK);
    tt_engine_wait(engine, &never, tt_clock_now_ns() + 100 * TT_NS_PER_MS);
    uint64_t wakeups = engine->wakeup->wakeups;
    tt_engine_destroy(engine);
    close(restless.fd);
    return wakeups;
}

/* Without dozing it is tens of thousands of times; on a slow machine no more than now. */
static void who_is_woken_for_nothing_dozes_for_a_millisecond_after_each_time(void **state)
{
    (void)state;
    assert_in_range(wakeups_by(false), 1, 1000);
}

static void who_is_woken_for_bytes_that_move_does_not_doze(void **state)
{
    (void)state;
    assert_true(wakeups_by(true) > 3 * wakeups_by(false));
}

/* A sleep tells of all groups for which something has come, so nobody asks about them right after it. */
static void who_has_slept_has_asked_about_everybody(void **state)
{
    struct restless restless = {.due_ns = TT_NEVER};
    struct tt_engine *engine = engine_with(&restless);
    uint64_t begun_ns;

    (void)state;
    be_alone(engine);
    pthread_mutex_lock(&engine->lock);
    begun_ns = tt_engine_now(engine);
    engine->around_ns = engine->last_work_ns = 0;
    tt_engine_idle(engine, begun_ns + SHORT_NS);
    assert_true(engine->around_ns >= begun_ns);
    pthread_mutex_unlock(&engine->lock);
    tt_engine_destroy(engine);
}

/* --- A provider that has something due ---------------------------------------------------------------------------- */

static void who_sleeps_wakes_up_when_a_provider_has_something_due(void **state)
{
    struct restless restless = {.due_ns = tt_clock_now_ns() + SHORT_NS};
    uint64_t due_ns = restless.due_ns;
    struct tt_engine *engine = engine_with(&restless);
    _Atomic bool never = false;

    (void)state;
    tt_engine_wait(engine, &never, due_ns + 10 * SHORT_NS); /* nothing else ends its sleep; a machine may be late */
    assert_true(restless.tended_ns >= due_ns);
    tt_engine_destroy(engine);
}

struct sleeper {
    struct tt_engine *engine;
    _Atomic bool done;
};

static void *sleep_until_done(void *argument)
{
    struct sleeper *sleeper = argument;

    tt_engine_wait(sleeper->engine, &sleeper->done, TT_NEVER);
    return NULL;
}

static uint64_t looks_of(struct tt_engine *engine, const struct restless *restless)
{
    uint64_t looks;

    pthread_mutex_lock(&engine->lock);
    looks = restless->looks;
    pthread_mutex_unlock(&engine->lock);
    return looks;
}

/* A provider that was armed for one thread is not once another one has looked, and what it has then wakes nobody. */
static void nobody_looks_while_another_sleeps_who_will(void **state)
{
    struct restless restless = {.due_ns = TT_NEVER};
    struct tt_engine *engine = engine_with(&restless);
    struct sleeper sleeper = {.engine = engine};
    uint64_t looks, pokes = 0;
    pthread_t thread;

    (void)state;
    engine->settings.poll_ns = 0;
    assert_int_equal(pthread_create(&thread, NULL, sleep_until_done, &sleeper), 0);
    while (!engine->wakeup->sleeping) {
        usleep(1000);
    }
    looks = looks_of(engine, &restless); /* with the lock, so that it has gone to sleep */
    while (pokes++ < 100) {
        tt_engine_poke(engine);
    }
    assert_int_equal(looks_of(engine, &restless), looks);
    sleeper.done = true;
    tt_wakeup_ring_always(engine->wakeup);
    pthread_join(thread, NULL);
    tt_engine_poke(engine);
    assert_true(looks_of(engine, &restless) > looks);
    tt_engine_destroy(engine);
}

/* So answers to what has come do not wait for what comes next. */
static void what_is_sent_waits_until_what_has_come_is_looked_at_and_no_longer(void **state)
{
    struct restless restless = {.due_ns = TT_NEVER};
    struct tt_engine *engine = engine_with(&restless);

    (void)state;
    be_alone(engine);
    pthread_mutex_lock(&engine->lock);
    restless.ended_batches = 0;
    restless.frames = 3;
    tt_engine_progress(engine);
    assert_false(restless.base.batches);
    assert_int_equal(restless.ended_batches, 1 + 3 + 1); /* before the first look, after each frame, and at the end */
    pthread_mutex_unlock(&engine->lock);
    tt_engine_destroy(engine);
}

static void the_progress_thread_stands_in_for_who_left_while_something_was_due(void **state)
{
    struct restless restless = {.due_ns = TT_NEVER};
    struct tt_engine *engine = engine_with(&restless);
    uint64_t begun_ns = tt_clock_now_ns(), tended_ns = 0;

    (void)state;
    restless.due_ns = begun_ns + SHORT_NS;
    tt_engine_poke(engine);
    while (tended_ns == 0 && tt_clock_now_ns() < begun_ns + LONG_NS) {
        usleep(1000);
        pthread_mutex_lock(&engine->lock);
        tended_ns = restless.tended_ns;
        pthread_mutex_unlock(&engine->lock);
    }
    assert_true(tended_ns >= begun_ns + SHORT_NS);
    tt_engine_destroy(engine);
}

/* --- How long an engine polls ------------------------------------------------------------------------------------- */

#define WORKED_NS (5 * TT_NS_PER_S)

enum { BEFORE = 40 };

static _Atomic uint32_t yields;
static bool is_executing; /* the group's triggered engine, something */
static uint64_t pace_ns;  /* at which something has come before, if not 0 */
static bool is_freezing;  /* the second collective waits for a worker that may be in the receive kernel */

/* Instead of the C library's. */
int sched_yield(void)
{
    yields++;
    return (int)syscall(SYS_sched_yield);
}

static uint64_t read_time(void *time_ns)
{
    return *(uint64_t *)time_ns;
}

/* An engine that did something at WORKED_NS, and waits for two collectives: whether it sleeps at this time. */
static bool sleeps_at(uint64_t now_ns, uint64_t poll_ns, enum tt_method first, enum tt_method second)
{
    static struct tt_group group;
    static struct tt_request requests[2];
    static struct tt_triggers triggers;
    static struct tt_triggered triggered = {.is_started = true};
    struct tt_settings settings;
    struct tt_engine *engine;
    uint64_t wakeups;

    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    settings.poll_ns = poll_ns;
    assert_int_equal(tt_engine_create(&settings, &engine), TUTTI_OK);
    for (uint32_t i = 0; i < 2; i++) {
        requests[i].collective.config.terms.method = (uint8_t)(i == 0 ? first : second);
        requests[i].collective.state = TT_COLLECTIVE_RECEIVE;
        requests[i].group = &group;
        requests[i].transmit.due_ns = TT_NEVER;
        requests[i].next = i == 0 ? &requests[1] : NULL;
        requests[i].freezing = i == 1 && is_freezing;
    }
    triggers.first = is_executing ? &triggered : NULL;
    group.triggers = &triggers;
    group.engine = engine;
    group.active = requests;
    group.party.deadline_ns = TT_NEVER;
    be_alone(engine);
    pthread_mutex_lock(&engine->lock);
    tt_group_list(&group);
    engine->now_ns = read_time;
    engine->last_work_ns = WORKED_NS - BEFORE * pace_ns;
    for (uint32_t i = 0; i < BEFORE && pace_ns > 0; i++) {
        uint64_t come_ns = engine->last_work_ns + pace_ns;

        engine->now_argument = &come_ns;
        tt_engine_idle(engine, come_ns + 1);
        tt_engine_note_work(engine, come_ns);
    }
    assert_true(engine->last_work_ns == WORKED_NS);
    engine->now_argument = &now_ns;
    wakeups = engine->wakeup->wakeups;
    tt_engine_idle(engine, now_ns + 1);
    wakeups = engine->wakeup->wakeups - wakeups;
    tt_group_unlist(&group);
    pthread_mutex_unlock(&engine->lock);
    tt_engine_destroy(engine);
    return wakeups > 0;
}

static void who_waits_for_triggered_messages_polls_for_400_us(void **state)
{
    const enum tt_method gather = TT_METHOD_GATHER, doubling = TT_METHOD_RECURSIVE_DOUBLING;

    (void)state;
    assert_true(sleeps_at(WORKED_NS + 50000, TT_AUTO, gather, doubling));
    is_executing = true;
    assert_false(sleeps_at(WORKED_NS + 399999, TT_AUTO, gather, doubling));
    assert_true(sleeps_at(WORKED_NS + 400000, TT_AUTO, gather, doubling));
    is_executing = false;
}

/* One message of a large collective after the other comes as fast as the network carries them. */
static void who_waits_for_triggered_messages_that_come_slowly_polls_for_50_us(void **state)
{
    const enum tt_method gather = TT_METHOD_GATHER, doubling = TT_METHOD_RECURSIVE_DOUBLING;

    (void)state;
    is_executing = true;
    pace_ns = 390000;
    assert_false(sleeps_at(WORKED_NS + 399999, TT_AUTO, gather, doubling));
    pace_ns = 500000;
    assert_false(sleeps_at(WORKED_NS + 49999, TT_AUTO, gather, doubling));
    assert_true(sleeps_at(WORKED_NS + 50000, TT_AUTO, gather, doubling));
    is_executing = false;
    assert_false(sleeps_at(WORKED_NS + 99999, TT_AUTO, gather, TT_METHOD_EAGER)); /* of others that says nothing */
    pace_ns = 0;
}

static void who_waits_for_small_collectives_only_polls_for_100_us(void **state)
{
    const enum tt_method gather = TT_METHOD_GATHER, eager = TT_METHOD_EAGER;

    (void)state;
    assert_false(sleeps_at(WORKED_NS + 99999, TT_AUTO, gather, eager));
    assert_true(sleeps_at(WORKED_NS + 100000, TT_AUTO, gather, eager));
}

static void who_waits_for_others_polls_for_50_us(void **state)
{
    const enum tt_method gather = TT_METHOD_GATHER, multicast = TT_METHOD_MULTICAST;

    (void)state;
    assert_false(sleeps_at(WORKED_NS + 49999, TT_AUTO, gather, multicast));
    assert_true(sleeps_at(WORKED_NS + 50000, TT_AUTO, gather, multicast));
    assert_true(sleeps_at(WORKED_NS + 50000, TT_AUTO, multicast, gather));
}

/* The worker may want this very core. */
static void who_waits_for_a_worker_neither_sleeps_nor_keeps_the_core(void **state)
{
    uint32_t before = yields;

    (void)state;
    is_freezing = true;
    assert_false(sleeps_at(WORKED_NS + TT_NS_PER_S, TT_AUTO, TT_METHOD_GATHER, TT_METHOD_MULTICAST));
    assert_false(sleeps_at(WORKED_NS + TT_NS_PER_S, 0, TT_METHOD_MULTICAST, TT_METHOD_MULTICAST));
    is_freezing = false;
    assert_int_equal(yields - before, 2);
}

static void who_is_told_how_long_to_poll_polls_that_long(void **state)
{
    const enum tt_method gather = TT_METHOD_GATHER, multicast = TT_METHOD_MULTICAST;

    (void)state;
    assert_false(sleeps_at(WORKED_NS + 29999, 30000, gather, gather));
    assert_true(sleeps_at(WORKED_NS + 30000, 30000, gather, gather));
    assert_true(sleeps_at(WORKED_NS, 0, gather, gather));
    assert_false(sleeps_at(WORKED_NS + 999999, TT_NS_PER_MS, multicast, multicast));
}

/* --- What a post looks at ----------------------------------------------------------------------------------------- */

static uint32_t polls;

static uint32_t count_poll(struct tt_mcast_queue *queue, struct tt_receive_chunk *chunks, uint32_t max)
{
    (void)queue;
    (void)chunks;
    (void)max;
    polls++;
    return 0;
}

/* So a group with this queue does not fall asleep. */
static int no_fd(const struct tt_mcast_queue *queue)
{
    (void)queue;
    return -1;
}

/* Both at frames and at chunks. */
static void assert_looks(const struct restless *restless, uint32_t expected)
{
    assert_int_equal(restless->looks, expected);
    assert_int_equal(polls, expected);
}

static void who_has_just_looked_begins_without_looking_again(void **state)
{
    static const struct tt_mcast_ops ops = {.name = "counts", .poll = count_poll, .receive_fd = no_fd};
    static struct tt_queue queue;
    static struct tt_group group;
    struct tt_mcast_queue counts = {.ops = &ops};
    struct restless restless = {.fd = -1};
    struct tt_engine *engine = engine_with(&restless);
    uint64_t now_ns = WORKED_NS;

    (void)state;
    queue.mcast = &counts;
    group = (struct tt_group){.engine = engine, .queues = &queue, .queue_count = 1, .party.deadline_ns = TT_NEVER};
    be_alone(engine);
    pthread_mutex_lock(&engine->lock);
    tt_group_list(&group);
    engine->now_ns = read_time;
    engine->now_argument = &now_ns;
    tt_engine_begin(engine);
    assert_looks(&restless, 1); /* nobody has ever looked */
    assert_false(engine->begun);
    now_ns += 199999;
    tt_engine_begin(engine);
    assert_looks(&restless, 1);
    assert_true(engine->begun);
    now_ns += 1; /* to begin was no look */
    tt_engine_begin(engine);
    assert_looks(&restless, 2);
    assert_false(engine->begun);
    tt_engine_begin(engine);
    assert_looks(&restless, 2);
    tt_engine_take_control(engine);
    tt_engine_turn(engine, now_ns); /* who waits does look */
    tt_engine_leave_control(engine);
    assert_looks(&restless, 3);
    assert_false(engine->begun);
    pthread_mutex_unlock(&engine->lock);
    tt_engine_poke(engine); /* and who tests */
    assert_looks(&restless, 4);
    pthread_mutex_lock(&engine->lock);
    tt_group_unlist(&group);
    pthread_mutex_unlock(&engine->lock);
    tt_engine_destroy(engine);
}

/* A kernel that asks for attention while more waits: a probe. */
static uint32_t probe_poll(struct tt_mcast_queue *queue, struct tt_receive_chunk *chunks, uint32_t max)
{
    static const uint8_t payload[8];

    (void)queue;
    (void)max;
    polls++;
    chunks[0] = (struct tt_receive_chunk){
        .imm = tt_imm_encode(TT_TAG_PROBE, 1), .source = 1, .length_bytes = 8, .address = payload};
    return 1;
}

static void repost(struct tt_mcast_queue *queue, const struct tt_receive_chunk *chunks, uint32_t count)
{
    (void)queue;
    (void)chunks;
    (void)count;
}

static struct tt_engine *ending; /* where each poll ends a request */

static uint32_t end_poll(struct tt_mcast_queue *queue, struct tt_receive_chunk *chunks, uint32_t max)
{
    ending->ended = true;
    return count_poll(queue, chunks, max);
}

/* Frames are looked at every 200 us at least. */
static void assert_frames_wait(const struct tt_mcast_ops *ops, enum tt_method method, uint32_t polls_to_drain,
                               uint32_t polls_in_haste)
{
    struct tt_request request = {.transmit.due_ns = TT_NEVER,
                                 .collective.config.terms.method = (uint8_t)method,
                                 .collective.state = TT_COLLECTIVE_RECEIVE};
    static _Atomic uint64_t heard[1];
    struct tt_queue queue = {.receiver = {.size = 2, .probe_bytes = 8, .heard = heard}};
    struct tt_mcast_queue fake = {.ops = ops};
    struct tt_group group = {.queues = &queue, .queue_count = 1, .party.deadline_ns = TT_NEVER, .active = &request};
    struct restless restless = {.fd = -1};
    struct tt_engine *engine = engine_with(&restless);
    uint64_t now_ns = WORKED_NS;

    queue.mcast = &fake;
    group.engine = ending = engine;
    request.group = &group;
    polls = 0;
    be_alone(engine);
    pthread_mutex_lock(&engine->lock);
    tt_group_list(&group);
    engine->now_ns = read_time;
    engine->now_argument = &now_ns;
    tt_engine_progress(engine);
    assert_int_equal(restless.looks, 1);
    assert_int_equal(polls, polls_to_drain);
    now_ns += 199999;
    tt_engine_progress(engine);
    assert_int_equal(restless.looks, polls_in_haste < polls_to_drain || ops->poll == end_poll ? 1 : 2);
    assert_int_equal(polls, polls_to_drain + polls_in_haste);
    now_ns += 200000;
    tt_engine_progress(engine);
    assert_true(restless.looks >= 2);
    assert_int_equal(polls, 2 * polls_to_drain + polls_in_haste);
    tt_group_unlist(&group);
    pthread_mutex_unlock(&engine->lock);
    tt_engine_destroy(engine);
}

static void frames_do_not_keep_who_has_what_it_waited_for(void **state)
{
    static const struct tt_mcast_ops ops = {.name = "ends", .poll = end_poll};

    (void)state;
    assert_frames_wait(&ops, TT_METHOD_EAGER, 1, 1);
    assert_frames_wait(&ops, TT_METHOD_MULTICAST, 1, 1);
}

/* In a small collective they are not; of others, none are left. */
static void frames_are_not_looked_at_before_chunks_that_were_left(void **state)
{
    static const struct tt_mcast_ops ops = {.name = "probes", .poll = probe_poll, .repost = repost};

    (void)state;
    assert_frames_wait(&ops, TT_METHOD_EAGER, 4 * TT_QUEUE_BATCH, 1);
    assert_frames_wait(&ops, TT_METHOD_MULTICAST, 4 * TT_QUEUE_BATCH, 4 * TT_QUEUE_BATCH);
}

/* --- What is due -------------------------------------------------------------------------------------------------- */

/* Member 1 of two, which has joined and waits for the other one for SHORT_NS. Its frames go nowhere. */
static void join(struct tt_objects *objects, struct tt_group *group)
{
    static struct tt_object_peer peers[1];
    static struct tt_object places[1];
    static struct tt_object_action actions[256];
    static struct tt_objects_event events[4];
    static uint32_t members[] = {0, 1}, neighbours[2];
    static struct tt_peer left, *connected[] = {&left};
    struct tt_object_config config = {.member = 1,
                                      .member_count = 2,
                                      .algorithm = TT_RDMC_CHAIN,
                                      .credit = 1,
                                      .objects = places,
                                      .object_count = 1,
                                      .neighbours = neighbours,
                                      .peers = peers,
                                      .silence_ns = TT_NEVER,
                                      .deadline_ns = SHORT_NS};

    config.peer_count = tt_object_neighbours(&config, neighbours);
    assert_int_equal(config.peer_count, 1);
    assert_true(tt_object_actions_capacity(&config) <= sizeof actions / sizeof actions[0]);
    objects->actions = (struct tt_object_actions){.capacity = sizeof actions / sizeof actions[0], .list = actions};
    objects->group = group;
    objects->members = members;
    objects->peers = connected;
    objects->events = events;
    objects->event_capacity = sizeof events / sizeof events[0];
    tt_object_group_init(&objects->machine, &config);
    assert_int_equal(tt_party_list(&group->engine->parties, &objects->party, NULL), TUTTI_OK);
    (void)tt_objects_step(objects, &(struct tt_object_event){.type = TT_OBJECT_JOIN});
}

/* One thread sleeps in a wait, the process does not run for a while, and another thread posts first. */
static void nobody_is_given_up_before_frames_are_looked_at(void **state)
{
    struct restless restless = {.due_ns = TT_NEVER};
    struct tt_engine *engine = engine_with(&restless);
    struct tt_group group = {.engine = engine, .rank = 1};
    struct tt_objects objects = {.party = {.ops = &tt_objects_ops, .deadline_ns = TT_NEVER}};
    uint64_t now_ns = WORKED_NS, looks;

    (void)state;
    be_alone(engine);
    pthread_mutex_lock(&engine->lock);
    engine->now_ns = read_time;
    engine->now_argument = &now_ns;
    join(&objects, &group);
    tt_engine_take_control(engine);
    tt_engine_turn(engine, now_ns);
    now_ns += SHORT_NS;
    looks = restless.looks;
    tt_engine_begin(engine);
    assert_int_equal(restless.looks, looks);
    assert_int_equal(objects.machine.status, TUTTI_OK);
    assert_true(tt_engine_deadline(engine) <= now_ns); /* so whoever has control does not sleep */
    tt_engine_turn(engine, now_ns);
    assert_true(restless.looks > looks);
    assert_int_equal(objects.machine.status, TUTTI_ERR_TIMED_OUT);
    tt_engine_leave_control(engine);
    tt_party_unlist(&engine->parties, &objects.party);
    pthread_mutex_unlock(&engine->lock);
    tt_engine_destroy(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(chunks_end_a_sleep_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(frames_end_a_sleep_and_a_nap, setup, teardown),
        cmocka_unit_test_setup_teardown(a_ring_ends_all_of_them_once, setup, teardown),
        cmocka_unit_test(who_is_woken_for_nothing_dozes_for_a_millisecond_after_each_time),
        cmocka_unit_test(who_is_woken_for_bytes_that_move_does_not_doze),
        cmocka_unit_test(who_has_slept_has_asked_about_everybody),
        cmocka_unit_test(who_sleeps_wakes_up_when_a_provider_has_something_due),
        cmocka_unit_test(nobody_looks_while_another_sleeps_who_will),
        cmocka_unit_test(what_is_sent_waits_until_what_has_come_is_looked_at_and_no_longer),
        cmocka_unit_test(the_progress_thread_stands_in_for_who_left_while_something_was_due),
        cmocka_unit_test(who_waits_for_triggered_messages_polls_for_400_us),
        cmocka_unit_test(who_waits_for_triggered_messages_that_come_slowly_polls_for_50_us),
        cmocka_unit_test(who_waits_for_small_collectives_only_polls_for_100_us),
        cmocka_unit_test(who_waits_for_others_polls_for_50_us),
        cmocka_unit_test(who_waits_for_a_worker_neither_sleeps_nor_keeps_the_core),
        cmocka_unit_test(who_is_told_how_long_to_poll_polls_that_long),
        cmocka_unit_test(who_has_just_looked_begins_without_looking_again),
        cmocka_unit_test(frames_do_not_keep_who_has_what_it_waited_for),
        cmocka_unit_test(frames_are_not_looked_at_before_chunks_that_were_left),
        cmocka_unit_test(nobody_is_given_up_before_frames_are_looked_at),
    };
    char message[128];

    tt_log_configure("none", NULL, message, sizeof message);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
