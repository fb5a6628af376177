/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider of verbs that exists in memory only: it keeps a trace of the calls, can refuse any of them, gives out
 * doorbell registers as the model of today's mlx5 does, and fails the test when things are not destroyed in the
 * opposite order of their creation. One at a time.
 *
 * Its one device "fake0" carries out RDMA writes and reads between its queue pairs as soon as they are posted. What no
 * device would let pass is counted as a breach, as it may be any thread's: a queue that overflows, and two threads at a
 * completion queue that was made for one, or at a queue pair in a thread domain.
 */
#ifndef TT_TESTS_FAKE_VERBS_H
#define TT_TESTS_FAKE_VERBS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "endpoint/calls.h"
#include "endpoint/registers.h"

enum {
    FAKE_OBJECT_LIMIT = 1024,
    FAKE_COMPLETION_LIMIT = 256,
    FAKE_TRACE_BYTES = 8192,
    FAKE_NO_REASON = -1 /* an error that sets no errno */
};

enum fake_kind { FAKE_OPEN, FAKE_PD, FAKE_PARENT, FAKE_MR, FAKE_TD, FAKE_CQ_EX, FAKE_CQ, FAKE_QP, FAKE_KIND_COUNT };

/* Of a work request that asked for it. */
struct fake_completion {
    struct fake_object *qp;
    uint64_t id;
    enum ibv_wc_status status;
    uint32_t frees; /* entries of the queue pair */
};

struct fake_object {
    union { /* what callers look into */
        struct ibv_qp qp;
        struct ibv_mr mr;
    } verbs;
    enum fake_kind kind;
    struct fake_object *context;
    struct fake_object *parent; /* a parent domain's protection domain, a queue pair's domain of either kind */
    struct fake_object *td;     /* a parent domain's */
    struct fake_object *cq;     /* a queue pair's, for what it sends */
    struct fake_object *receive_cq;
    struct tt_registers registers; /* a context's */
    struct tt_register place;      /* a thread domain's, and a queue pair's */
    enum ibv_qp_state state;       /* a queue pair's, and what follows */
    uint32_t other;                /* the number of its other end */
    uint32_t depth;
    uint32_t posted, unsignalled; /* that take an entry; since the last one that asked for a completion */
    uint32_t capacity;            /* a completion queue's */
    struct fake_completion *completions;
    uint32_t completion_count;
    pthread_t user; /* of what is for one thread */
    bool has_user;
};

struct fake {
    /* The test's. */
    uint32_t refused_call; /* counted from 1; 0: none */
    int refused_error;
    int errors[FAKE_KIND_COUNT];      /* for every call of a kind; 0: none */
    uint32_t limits[FAKE_KIND_COUNT]; /* with ENOSPC from then on; 0: none */
    int busy_error;                   /* of every protection domain that is to be destroyed */
    bool has_doorbells;
    uint32_t failing_request; /* counted from 1: completes with an error; 0: none */
    uint32_t altered_request; /* the same: arrives with a wrong last byte */
    /* What happened. */
    uint32_t call_count; /* of those that create */
    enum fake_kind last_kind;
    uint32_t made[FAKE_KIND_COUNT]; /* in all */
    char trace[FAKE_TRACE_BYTES];   /* "open pd cqx qp " */
    struct fake_object *stack[FAKE_OBJECT_LIMIT];
    uint32_t living;
    uint32_t numbers;  /* given to queue pairs and registrations */
    uint32_t requests; /* carried out */
    uint32_t calls_to_post;
    uint32_t completions;
    uint32_t breaches;
    uint32_t pkey_indices;              /* of all queue pairs that were initialized, added up */
    struct ibv_qp_init_attr queue_pair; /* the last one's */
    struct ibv_cq_init_attr_ex completion_queue;
};

extern struct fake fake;
extern const struct tt_endpoint_calls fake_calls;

void fake_reset(void);

#endif
