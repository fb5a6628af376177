/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the world of `tutti sim trigger` share; nobody else includes it. */
#ifndef TT_CLI_SIM_TRIGGER_WORLD_PRIVATE_H
#define TT_CLI_SIM_TRIGGER_WORLD_PRIVATE_H

#include <inttypes.h>
#include <stdio.h>

#include "base/random.h"
#include "cli/sim_trigger_world.h"
#include "offload/operation.h"

enum tt_costsim_event_kind {
    TT_COSTSIM_POST,     /* a rank wants to post pulses */
    TT_COSTSIM_SEND,     /* a packet goes towards the wire */
    TT_COSTSIM_HEAD,     /* its first byte is at the other port */
    TT_COSTSIM_ARRIVE,   /* all of it is where it is executed */
    TT_COSTSIM_DONE,     /* a unit or a processor is free again */
    TT_COSTSIM_COMPLETE, /* a sequence has ended */
    TT_COSTSIM_TICK      /* an engine's deadline */
};

/* A packet under way, or a wish to post that waits for its turn. */
struct tt_costsim_flight {
    struct tt_costsim_flight *next; /* in a thread's queue, or of those that are free */
    bool is_post;
    bool finds_idle;        /* its thread had nothing to do when it came */
    uint32_t from, to, job; /* job: of a post */
    struct tt_trigger_packet packet;
    const void *payload; /* the sender's memory until the packet is accepted */
    uint64_t tail_ns;    /* when its last byte can be at the other port */
};

struct tt_costsim_event {
    uint64_t time_ns, order;
    enum tt_costsim_event_kind kind;
    uint32_t node;
    uint32_t thread;                  /* of POST the job, of COMPLETE the port */
    uint64_t cookie;                  /* of COMPLETE */
    tutti_status status;              /* the same */
    struct tt_costsim_flight *flight; /* of SEND, HEAD and ARRIVE */
};

/* What is done one after the other: what a port has to do (offloaded), or a job's process (host). */
struct tt_costsim_thread {
    struct tt_costsim_flight *first, *last;
    bool is_busy, is_ready;
    uint32_t next_ready;
    uint64_t reduced_ns; /* when it last reduced something */
};

/* What the NIC has fetched for a job, or begun to: of so many pulses, the last of them from then on. */
struct tt_costsim_operands {
    uint64_t fetched, ready_ns;
};

struct tt_costsim_node {
    struct tt_offload *offload;
    struct tt_pulses pulses;
    struct tt_operation *operations;      /* of jobs */
    struct tt_costsim_operands *operands; /* of jobs */
    struct tt_costsim_thread *threads;
    uint32_t first_ready, last_ready;     /* threads that wait for a unit or a processor */
    uint32_t idle;                        /* units or processors */
    uint64_t out_free_ns, in_free_ns;     /* the port's directions */
    uint64_t write_free_ns, read_free_ns; /* of memory, by the NIC */
    uint64_t tick_ns;                     /* when one is due; UINT64_MAX: none */
    uint64_t reduced;                     /* elements, ever */
};

struct tt_costsim_world {
    const struct tt_costsim_terms *terms;
    struct tt_costsim_result *result;
    char *fault;
    bool is_rdma, through_memory; /* through_memory: packets come from and go to the host's memory */
    struct tt_schedule schedule;
    struct tt_blocks blocks;
    uint64_t *firsts, *counts; /* of ranks' blocks */
    uint64_t elements, pulse_elements;
    struct tt_reduction *reductions; /* of nodes */
    struct tt_costsim_node *nodes;
    struct tt_operation *operations;
    struct tt_costsim_operands *operands;
    struct tt_costsim_thread *threads;
    uint8_t **memory;               /* of engines, and of operations behind them */
    uint8_t *data;                  /* of job, rank */
    uint8_t *tape;                  /* what data begins as pieces of */
    uint64_t *end_ns;               /* of jobs */
    uint32_t thread_count, running; /* running: ranks of jobs that have not ended */
    struct tt_costsim_event *heap;
    uint32_t event_count, event_room;
    struct tt_costsim_flight *free_flights;
    struct tt_random random;
    uint64_t now_ns, order;
    uint64_t used, used_since_ns; /* slots of the root's units */
    double used_area;
};

#define TT_COSTSIM_NONE UINT32_MAX

#define TT_COSTSIM_FAULT(world, ...)                                                                                   \
    ((world)->fault[0] == '\0' ? (void)snprintf((world)->fault, TT_COSTSIM_FAULT_BYTES, __VA_ARGS__) : (void)0)

static inline uint8_t *tt_costsim_data(const struct tt_costsim_world *world, uint32_t job, uint32_t rank)
{
    return world->data + ((uint64_t)job * world->terms->node_count + rank) * world->elements;
}

static inline uint64_t tt_costsim_later(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* How long so many bytes take. */
static inline uint64_t tt_costsim_span(uint64_t bytes, uint64_t rate)
{
    return (bytes * 1000 + rate - 1) / rate;
}

/* --- sim_trigger_events.c ----------------------------------------------------------------------------------------- */

/* Time and order are set here. Without memory it is lost, and a fault is noted. */
void tt_costsim_push(struct tt_costsim_world *world, uint64_t time_ns, struct tt_costsim_event event);
bool tt_costsim_pop(struct tt_costsim_world *world, struct tt_costsim_event *event);
struct tt_costsim_flight *tt_costsim_flight_new(struct tt_costsim_world *world); /* NULL: no memory, which is noted */
void tt_costsim_flight_free(struct tt_costsim_world *world, struct tt_costsim_flight *flight);
void tt_costsim_events_destroy(struct tt_costsim_world *world);

/* --- sim_trigger_execute.c ---------------------------------------------------------------------------------------- */

/* Something for the thread at `at` of a node to do; it is the thread's now. */
void tt_costsim_execute(struct tt_costsim_world *world, uint32_t node, uint32_t at, struct tt_costsim_flight *flight);
void tt_costsim_done(struct tt_costsim_world *world, uint32_t index, uint32_t at);
void tt_costsim_tick(struct tt_costsim_world *world, uint32_t node);
void tt_costsim_note_use(struct tt_costsim_world *world);

/* --- sim_trigger_data.c ------------------------------------------------------------------------------------------- */

bool tt_costsim_data_create(struct tt_costsim_world *world); /* false: no memory */
void tt_costsim_data_check(struct tt_costsim_world *world);
/* How much of a pulse, which has these of the blocks, a rank gets as its result. */
uint64_t tt_costsim_result_bytes(const struct tt_costsim_world *world, uint32_t rank, const struct tt_blocks *blocks);

#endif
