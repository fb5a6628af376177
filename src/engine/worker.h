/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Worker threads (Khalilov et al., sections IV-B, IV-C and V): receive workers that own multicast queues and run the
 * receive kernel, one send worker, and the control thread that runs the machines. Groups share them: a queue is given
 * to the receive worker with the fewest queues. They meet the control context in atomics only:
 *
 *   - the kernel's streams are published and retired by atomic pointers, and a retirement is complete when the queue's
 *     turn shows that its worker is outside of the kernel (tt_queue_is_quiet);
 *   - the kernel raises `attention`, and the worker then rings the control thread, which sleeps when nothing moves;
 *   - transmissions go to the send worker through a lock-free queue; limits, cancelation and state are atomics in them.
 *
 * Queues are added and removed while the worker stands still, which happens only when groups are created and destroyed.
 */
#ifndef TT_ENGINE_WORKER_H
#define TT_ENGINE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/status.h"

struct tt_engine;
struct tt_queue;
struct tt_transmit;
struct tt_workers;

/*
 * Who uses an engine's queues, as the indices that providers are told (fabric/mcast.h): the receive workers from 0 on,
 * the send worker, and for the reliable side the control thread. Without workers that is all one: whoever holds the
 * lock. `count` is the setting WORKERS.
 */
static inline uint32_t tt_workers_sender_index(uint64_t count)
{
    return (uint32_t)count;
}

static inline uint32_t tt_workers_control_index(uint64_t count)
{
    return count > 0 ? (uint32_t)count + 1 : 0;
}

static inline uint32_t tt_workers_threads(uint64_t count)
{
    return tt_workers_control_index(count) + 1;
}

/* Starts `count` receive workers, a send worker and the control thread of the engine, and sets engine->workers, which
 * the threads read, before the first of them runs. */
tutti_status tt_workers_create(struct tt_engine *engine, uint32_t count);

/* Ends and joins all threads; no queue and no transmission may be left. NULL is allowed. */
void tt_workers_destroy(struct tt_workers *workers);

/* Asserts what holds between two calls. Control. */
void tt_workers_check(const struct tt_workers *workers);

/* Control: keeps a place for a queue at the receive worker that has the fewest, which the provider is told as the
 * queue's feeder; gives the place back. */
tutti_status tt_workers_reserve(struct tt_workers *workers, uint32_t *index);
void tt_workers_release(struct tt_workers *workers, uint32_t index);

/* Control: gives a queue to the receive worker that has a place for it; takes it back, if it was given, after which no
 * worker touches it. */
tutti_status tt_workers_add_queue(struct tt_workers *workers, uint32_t index, struct tt_queue *queue);
void tt_workers_remove_queue(struct tt_workers *workers, uint32_t index, struct tt_queue *queue);

/* Control: hands over a transmission that is ACTIVE; it is the worker's until it is DONE. */
void tt_workers_send(struct tt_workers *workers, struct tt_transmit *transmit);

/* The queue's worker looks at the log of early chunks. */
void tt_workers_wake_receiver(struct tt_workers *workers, const struct tt_queue *queue);

/* Control: a limit has grown, or a transmission was canceled. */
void tt_workers_kick_sender(struct tt_workers *workers);

#endif
