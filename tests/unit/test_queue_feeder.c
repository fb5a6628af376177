/* SPDX-License-Identifier: BSD-3-Clause */
/* Who feeds a group's multicast queue: it has its place from when it is attached, and is woken once it is introduced.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/queue.h"
#include "engine/wakeup.h"
#include "patience.h"

enum { QUEUES = 4 };

/* A provider whose queues get another descriptor when they are introduced, and count who looks. */
struct fake_queue {
    struct tt_mcast_queue base;
    uint32_t feeder;
    int attached_fd, introduced_fd;
    bool introduced;
    _Atomic uint32_t polls;
};

static tutti_status attach_status, introduce_status;

static void fake_attributes(struct tt_mcast *mcast, struct tt_mcast_attributes *attributes)
{
    (void)mcast;
    *attributes = (struct tt_mcast_attributes){.max_chunk_bytes = 100, .send_batch = 1};
}

static tutti_status fake_attach(struct tt_mcast *mcast, const struct tt_mcast_queue_options *options,
                                struct tt_mcast_queue **queue)
{
    if (attach_status != TUTTI_OK) {
        return attach_status;
    }
    struct fake_queue *made = calloc(1, sizeof *made);

    assert_non_null(made);
    made->base.ops = mcast->ops;
    made->feeder = options->feeder;
    made->attached_fd = eventfd(1, EFD_CLOEXEC);
    made->introduced_fd = eventfd(0, EFD_CLOEXEC);
    assert_true(made->attached_fd >= 0 && made->introduced_fd >= 0);
    *queue = &made->base;
    return TUTTI_OK;
}

static tutti_status fake_introduce(struct tt_mcast_queue *queue, const void *names, uint32_t stride_bytes,
                                   uint32_t size)
{
    (void)names;
    (void)stride_bytes;
    (void)size;
    ((struct fake_queue *)queue)->introduced = introduce_status == TUTTI_OK;
    return introduce_status;
}

static void fake_detach(struct tt_mcast_queue *queue)
{
    close(((struct fake_queue *)queue)->attached_fd);
    close(((struct fake_queue *)queue)->introduced_fd);
    free(queue);
}

static uint32_t fake_poll(struct tt_mcast_queue *queue, struct tt_receive_chunk *chunks, uint32_t max)
{
    (void)chunks;
    (void)max;
    atomic_fetch_add(&((struct fake_queue *)queue)->polls, 1);
    return 0;
}

static int fake_receive_fd(const struct tt_mcast_queue *queue)
{
    const struct fake_queue *fake = (const struct fake_queue *)queue;

    return fake->introduced ? fake->introduced_fd : fake->attached_fd;
}

static const struct tt_mcast_ops fake_ops = {.name = "fake",
                                             .attributes = fake_attributes,
                                             .attach = fake_attach,
                                             .introduce = fake_introduce,
                                             .detach = fake_detach,
                                             .poll = fake_poll,
                                             .receive_fd = fake_receive_fd};
static struct tt_mcast fake_mcast = {.ops = &fake_ops};
static struct tt_queue queues[QUEUES];

static struct tt_engine *make_engine(uint64_t workers)
{
    struct tt_settings settings;
    struct tt_engine *engine;

    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    settings.workers = workers;
    assert_int_equal(tt_engine_create(&settings, &engine), TUTTI_OK);
    memset(queues, 0, sizeof queues);
    attach_status = introduce_status = TUTTI_OK;
    return engine;
}

static tutti_status attach(struct tt_engine *engine, uint32_t q)
{
    return tt_queue_attach(&queues[q], engine, &fake_mcast, &(struct tt_mcast_queue_options){.chunk_bytes = 100});
}

static struct fake_queue *fake_of(uint32_t q)
{
    return (struct fake_queue *)queues[q].mcast;
}

static bool wakes_up(const struct tt_engine *engine)
{
    struct pollfd set = {.fd = engine->wakeup->epoll_fd, .events = POLLIN};

    return poll(&set, 1, 0) == 1;
}

static void without_workers_a_queue_wakes_the_engine_from_its_introduction_on(void **state)
{
    struct tt_engine *engine = make_engine(0);

    (void)state;
    assert_int_equal(attach(engine, 0), TUTTI_OK);
    assert_false(wakes_up(engine)); /* though the first descriptor is readable */
    introduce_status = TUTTI_ERR_MISMATCH;
    assert_int_equal(tt_queue_introduce(&queues[0], engine, NULL, NULL, 0, 2), TUTTI_ERR_MISMATCH);
    assert_false(wakes_up(engine));
    introduce_status = TUTTI_OK;
    assert_int_equal(tt_queue_introduce(&queues[0], engine, NULL, NULL, 0, 2), TUTTI_OK);
    assert_false(wakes_up(engine));
    assert_int_equal(eventfd_write(fake_of(0)->introduced_fd, 1), 0);
    assert_true(wakes_up(engine));
    tt_queue_detach(&queues[0], engine);
    assert_null(queues[0].mcast);
    assert_false(wakes_up(engine));
    assert_int_equal(attach(engine, 1), TUTTI_OK);
    tt_queue_detach(&queues[1], engine); /* never introduced */
    tt_queue_detach(&queues[1], engine);
    tt_engine_destroy(engine);
}

static void await_polls(uint32_t q)
{
    uint64_t deadline_ns = tt_clock_now_ns() + 5 * TT_NS_PER_S * TT_PATIENCE;
    uint32_t before = atomic_load(&fake_of(q)->polls);

    while (atomic_load(&fake_of(q)->polls) == before) {
        assert_in_range(tt_clock_now_ns(), 0, deadline_ns);
        usleep(1000);
    }
}

static void workers_share_the_queues_before_they_feed_them(void **state)
{
    struct tt_engine *engine = make_engine(2);

    (void)state;
    for (uint32_t q = 0; q < 3; q++) {
        assert_int_equal(attach(engine, q), TUTTI_OK);
        assert_int_equal(fake_of(q)->feeder, q % 2);
    }
    attach_status = TUTTI_ERR_IN_USE; /* takes no place */
    assert_int_equal(attach(engine, 3), TUTTI_ERR_IN_USE);
    attach_status = TUTTI_OK;
    assert_int_equal(attach(engine, 3), TUTTI_OK);
    assert_int_equal(fake_of(3)->feeder, 1);
    for (uint32_t q = 0; q < 3; q++) {
        assert_int_equal(tt_queue_introduce(&queues[q], engine, NULL, NULL, 0, 2), TUTTI_OK);
        assert_int_equal(eventfd_write(fake_of(q)->introduced_fd, 1), 0);
    }
    for (uint32_t q = 0; q < 3; q++) {
        await_polls(q);
    }
    tt_engine_lock(engine);
    tt_engine_check(engine);
    tt_engine_unlock(engine);
    assert_int_equal(atomic_load(&fake_of(3)->polls), 0); /* nobody was told to */
    tt_queue_detach(&queues[3], engine);
    tt_queue_detach(&queues[1], engine);
    for (uint32_t i = 0; i < 2; i++) { /* the places of those that have left, also of one that was never fed */
        uint32_t q = 2 * i + 1;
        assert_int_equal(attach(engine, q), TUTTI_OK);
        assert_int_equal(fake_of(q)->feeder, 1);
    }
    for (uint32_t q = 0; q < QUEUES; q++) {
        tt_queue_detach(&queues[q], engine);
    }
    tt_engine_destroy(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_workers_a_queue_wakes_the_engine_from_its_introduction_on),
        cmocka_unit_test(workers_share_the_queues_before_they_feed_them),
    };

    tt_log_configure("none", NULL, (char[64]){0}, 64);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
