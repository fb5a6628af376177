/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping until something happens: an epoll set of the fabric's descriptors and an event descriptor that other threads
 * ring. A bell that rings between the last look and the sleep is not lost: the sleeper announces itself first, looks
 * once more, and only then sleeps.
 */
#ifndef TT_ENGINE_WAKEUP_H
#define TT_ENGINE_WAKEUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tutti/status.h"

enum { TT_WAKEUP_EVENTS = 16 }; /* that one sleep tells of; the next one tells of the others */

struct tt_wakeup {
    int epoll_fd, event_fd;
    int moderated_fd; /* an epoll set without what tt_wakeup_add_chunks added */
    bool is_coarse;   /* the kernel knows no limits in less than milliseconds */
    _Atomic bool sleeping;
    _Atomic uint64_t wakeups;
    uint32_t ready_count; /* the sleeper's: owners of descriptors that ended its last sleep */
    void *ready[TT_WAKEUP_EVENTS];
};

tutti_status tt_wakeup_create(struct tt_wakeup **wakeup);
void tt_wakeup_destroy(struct tt_wakeup *wakeup); /* NULL is allowed */

/* Asserts what holds between two calls; the sleeper's. */
void tt_wakeup_check(const struct tt_wakeup *wakeup);

/* Wakes the sleeper up while `fd` is readable; one where chunks come not from a moderated sleep. A negative fd is
 * ignored. `owner` is named in `ready` after a sleep that this ended; NULL is not. */
tutti_status tt_wakeup_add(struct tt_wakeup *wakeup, int fd);
tutti_status tt_wakeup_add_chunks(struct tt_wakeup *wakeup, int fd, void *owner);
void tt_wakeup_remove(struct tt_wakeup *wakeup, int fd);

/* Wakes the sleeper up once, when `fd` is readable or writable. */
void tt_wakeup_once(struct tt_wakeup *wakeup, int fd);

/* Wakes the sleeper, if there is one. Any thread. */
void tt_wakeup_ring(struct tt_wakeup *wakeup);

/* Makes the next sleep end at once even if it has not been announced yet. Any thread. */
void tt_wakeup_ring_always(struct tt_wakeup *wakeup);

/* Announces the sleep; then the caller must look once more at everything that rings, and sleep or call off. */
static inline void tt_wakeup_prepare(struct tt_wakeup *wakeup)
{
    atomic_store_explicit(&wakeup->sleeping, true, memory_order_seq_cst);
}

/* Sleeps for at most timeout_ns (UINT64_MAX: no limit). Ends the announcement. */
void tt_wakeup_sleep(struct tt_wakeup *wakeup, uint64_t timeout_ns);

/* The same, but chunks, and room for chunks to be sent, do not end it. */
void tt_wakeup_sleep_moderated(struct tt_wakeup *wakeup, uint64_t timeout_ns);

/* The same, but only a ring ends it: for who is woken again and again by what turns out to be nothing. */
void tt_wakeup_sleep_until_rung(struct tt_wakeup *wakeup, uint64_t timeout_ns);

/* Who does not sleep, though another thread may, asks what would end a sleep: `ready` gets owners of descriptors that
 * are readable. Returns how many. */
uint32_t tt_wakeup_look(const struct tt_wakeup *wakeup, void *ready[TT_WAKEUP_EVENTS]);

static inline void tt_wakeup_call_off(struct tt_wakeup *wakeup)
{
    atomic_store_explicit(&wakeup->sleeping, false, memory_order_seq_cst);
}

#endif
