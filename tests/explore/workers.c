/* SPDX-License-Identifier: BSD-3-Clause */
/* Worker threads, and control: what the sender is kicked for it sees; what a receive worker has placed control hears
 * of; and a queue that was taken back from it nobody touches. The threads are those that tt_workers_create starts. */
#include "engine/worker.h"

#include <string.h>
#include <sys/eventfd.h>

#include "chunk_world.h"
#include "engine/group.h"
#include "engine/transmit.h"
#include "engine_world.h"
#include "explore.h"

static int receive_fd;
static struct tt_pacer pacer;
static struct tt_transmit transmit;
static uint32_t cursor, mark;

/* --- Control ------------------------------------------------------------------------------------------------------ */

/* Control's part of a group with workers: it looks when a kernel asks for attention. */
static bool wants(void)
{
    return atomic_load_explicit(&world_queue.receiver.attention, memory_order_seq_cst) != 0;
}

static bool look(void)
{
    if (atomic_exchange_explicit(&world_queue.receiver.attention, 0, memory_order_acquire) == 0) {
        return false;
    }
    if (atomic_load_explicit(&world_stream.stream.received, memory_order_acquire) == WORLD_CHUNKS) {
        atomic_store_explicit(&world_requests[0].done, true, memory_order_release);
        tt_engine_announce(&world_engine);
    }
    return true;
}

static void begin(bool eager)
{
    world_begin(0);
    receive_fd = eventfd(0, 0);
    world_begin_chunks(eager, receive_fd);
    world_wakes(look, wants);
    cursor = mark = 0;
    transmit = (struct tt_transmit){.queues = &world_queue,
                                    .streams = &world_stream.stream,
                                    .subgroups = 1,
                                    .source = world_sent,
                                    .target = (uint8_t *)(uintptr_t)world_sent,
                                    .pacer = &pacer,
                                    .heard = 1,
                                    .cursors = &cursor,
                                    .marks = &mark,
                                    .limit = 1,
                                    .state = TT_TRANSMIT_ACTIVE};
    EXPLORE_CHECK(tt_workers_create(&world_engine, 1) == TUTTI_OK);
}

static void begin_ordinary(void)
{
    begin(false);
}

static void begin_eager(void)
{
    begin(true);
    EXPLORE_CHECK(tt_workers_add_queue(world_engine.workers, 0, &world_queue) == TUTTI_OK);
}

static void end(void)
{
    tt_wakeup_destroy(world_engine.wakeup);
}

static void destroy_workers(void)
{
    tt_workers_destroy(world_engine.workers);
}

/* --- Sending ------------------------------------------------------------------------------------------------------ */

static void send_with_growing_limit(void)
{
    tt_workers_send(world_engine.workers, &transmit);
    atomic_store_explicit(&transmit.limit, WORLD_CHUNKS, memory_order_release);
    tt_workers_kick_sender(world_engine.workers);
    while (atomic_load_explicit(&transmit.state, memory_order_acquire) != TT_TRANSMIT_DONE) {
        sched_yield();
    }
    EXPLORE_CHECK(world_posted == WORLD_CHUNKS && cursor == WORLD_CHUNKS);
    transmit.next = NULL; /* control's again, all of it */
    transmit.due_ns = cursor = mark = 0;
    destroy_workers();
}

/* --- Receiving ---------------------------------------------------------------------------------------------------- */

static void wait_for_chunks(void)
{
    tt_engine_wait(&world_engine, &world_requests[0].done, TT_NEVER);
    EXPLORE_CHECK(memcmp(world_stream.buffer, world_sent, sizeof world_sent) == 0);
}

/* Nobody touches the queue afterwards. */
static void take_back(void)
{
    tt_engine_lock(&world_engine);
    world_sleeps();
    tt_workers_remove_queue(world_engine.workers, 0, &world_queue);
    world_queue.mcast = NULL;
    world_queue.more = world_queue.empty = false;
    tt_engine_unlock(&world_engine);
}

static void receive_and_take_back(void)
{
    tt_engine_lock(&world_engine);
    tt_queue_publish(&world_queue, world_tag, &world_stream.stream, 0);
    EXPLORE_CHECK(tt_workers_add_queue(world_engine.workers, 0, &world_queue) == TUTTI_OK);
    tt_engine_unlock(&world_engine);
    wait_for_chunks();
    take_back();
    explore_no_further();
    destroy_workers();
}

/* As a request's streams are offered: the worker is woken only if something came early. */
static void offer_and_take_back(void)
{
    tt_engine_lock(&world_engine);
    tt_queue_publish(&world_queue, world_tag, &world_stream.stream, 0);
    if (atomic_load_explicit(&world_queue.receiver.log.count, memory_order_seq_cst) > 0) {
        tt_workers_wake_receiver(world_engine.workers, &world_queue);
    }
    tt_engine_unlock(&world_engine);
    wait_for_chunks();
    explore_no_further();
    take_back();
    destroy_workers();
}

static void bring_chunks(void)
{
    atomic_store_explicit(&world_brought, WORLD_CHUNKS, memory_order_release);
    world_ring(receive_fd);
}

static const struct explore_scenario scenarios[] = {
    {.name = "who_is_about_to_sleep_is_told_to_stop",
     .preemptions = 1,
     .begin = begin_ordinary,
     .end = end,
     .threads = {{"application", destroy_workers}}},
    {.name = "what_the_sender_is_kicked_for_it_sees",
     .preemptions = 2,
     .counts_all = true,
     .begin = begin_ordinary,
     .end = end,
     .threads = {{"application", send_with_growing_limit}}},
    {.name = "what_a_worker_has_placed_control_hears_of",
     .preemptions = 2,
     .counts_all = true,
     .begin = begin_ordinary,
     .end = end,
     .threads = {{"application", receive_and_take_back}, {"network", bring_chunks}}},
    {.name = "what_came_early_a_worker_is_woken_for",
     .preemptions = 2,
     .counts_all = true,
     .begin = begin_eager,
     .end = end,
     .threads = {{"application", offer_and_take_back}, {"network", bring_chunks}}},
};

int main(int argc, char **argv)
{
    return explore_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
}
