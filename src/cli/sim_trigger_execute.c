/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the time that engines' work takes in the world of `tutti sim trigger`.
 *
 * Normal path: what a thread has to do waits until the thread is free, and then until a unit (or a processor) is. The
 * engine is stepped when it begins; what the step did says how long it takes, what is sent leaves on the way, and what
 * has ended is told at the end.
 *
 * Failures: a packet that the engine calls a stray is the run's fault.
 */
#include "cli/sim_trigger_world_private.h"

enum { MOST_ACTIONS = 64 };

/* What a step did. */
struct work {
    uint64_t begin_ns;
    bool is_post, is_data; /* what it was for: a post; a packet with data or a signal, not an answer */
    bool is_noticed;       /* the process was not at work when it came, and so has to poll for it */
    uint64_t posted, fired, reduced, sent;
    uint64_t early_bytes; /* of a packet that is kept */
};

static bool polls(const struct tt_costsim_world *world, const struct work *work)
{
    return work->is_noticed && (world->is_rdma || world->terms->polls_always);
}

/* What has to be done before anything can be sent. */
static uint64_t first_part(const struct tt_costsim_world *world, const struct work *work)
{
    const struct tt_costsim_costs *costs = &world->terms->costs;
    uint64_t reduced_bytes = work->reduced * TT_COSTSIM_ELEMENT_BYTES;

    if (!world->terms->is_offloaded) {
        return (polls(world, work) ? costs->poll_ns : 0) + tt_costsim_span(reduced_bytes, costs->host_rate) +
               tt_costsim_span(work->early_bytes, costs->copy_rate);
    }
    return (work->is_post && work->posted == 0 ? 0 : costs->unit_ns) + tt_costsim_span(reduced_bytes, costs->unit_rate);
}

/* Ports that are posted to together are in as many units. */
static uint64_t spread(const struct tt_costsim_world *world, const struct work *work, uint64_t count)
{
    uint64_t units = work->posted < world->terms->unit_count ? work->posted : world->terms->unit_count;

    return world->terms->is_offloaded && units > 1 ? (count + units - 1) / units : count;
}

/* One packet of data: its descriptor, and where data is announced the announcement's. */
static uint64_t sending_ns(const struct tt_costsim_world *world)
{
    const struct tt_costsim_costs *costs = &world->terms->costs;

    return (world->terms->is_offloaded ? costs->unit_ns : costs->cpu_ns) * (world->is_rdma ? 2 : 1);
}

static uint64_t all_of_it(const struct tt_costsim_world *world, const struct work *work)
{
    uint64_t silent = work->fired > work->sent ? work->fired - work->sent : 0; /* descriptors without a packet */

    return first_part(world, work) + spread(world, work, work->sent) * sending_ns(world) +
           (world->terms->is_offloaded ? spread(world, work, silent) * world->terms->costs.unit_ns : 0);
}

/* --- Actions ------------------------------------------------------------------------------------------------------ */

static void send(struct tt_costsim_world *world, uint32_t node, const struct tt_offload_action *action,
                 uint64_t time_ns)
{
    const struct tt_costsim_costs *costs = &world->terms->costs;
    struct tt_costsim_flight *flight = tt_costsim_flight_new(world);
    bool is_data = action->packet.kind == TT_TRIGGER_DATA;

    if (flight == NULL) {
        return;
    }
    flight->from = node;
    flight->to = action->node;
    flight->packet = action->packet;
    flight->payload = action->payload;
    if (is_data) {
        uint64_t announced_ns = world->is_rdma ? 2 * costs->io_ns + costs->net_ns : 0;

        tt_costsim_push(world, time_ns + announced_ns,
                        (struct tt_costsim_event){.kind = TT_COSTSIM_SEND, .node = node, .flight = flight});
        return;
    }
    if (action->packet.kind == TT_TRIGGER_ACCEPTED) {
        world->result->packets++;
        world->result->data_bytes += (uint64_t)action->packet.length_bytes * TT_COSTSIM_ELEMENT_BYTES;
    }
    /* A host's is written and read in its memory, as any packet. */
    time_ns += tt_costsim_span(TT_TRIGGER_PACKET_BYTES, costs->net_rate) + costs->net_ns;
    tt_costsim_push(world, time_ns + (world->terms->is_offloaded ? 0 : 2 * costs->io_ns),
                    (struct tt_costsim_event){.kind = TT_COSTSIM_ARRIVE, .node = action->node, .flight = flight});
}

static void carry_out(struct tt_costsim_world *world, uint32_t node, struct work *work,
                      const struct tt_offload_actions *list)
{
    uint64_t first_ns = work->begin_ns + first_part(world, work);

    for (uint32_t i = 0; i < list->count; i++) {
        const struct tt_offload_action *action = &list->actions[i];

        if (action->kind == TT_OFFLOAD_SEND && action->packet.kind == TT_TRIGGER_DATA) {
            work->sent++;
            send(world, node, action, first_ns + spread(world, work, work->sent) * sending_ns(world));
        } else if (action->kind == TT_OFFLOAD_SEND) {
            send(world, node, action, first_ns);
        }
    }
    for (uint32_t i = 0; i < list->count; i++) {
        const struct tt_offload_action *action = &list->actions[i];

        if (action->kind == TT_OFFLOAD_COMPLETE) {
            tt_costsim_push(world, work->begin_ns + all_of_it(world, work),
                            (struct tt_costsim_event){.kind = TT_COSTSIM_COMPLETE,
                                                      .node = node,
                                                      .thread = action->port,
                                                      .cookie = action->cookie,
                                                      .status = action->status});
        }
    }
}

/* --- Steps -------------------------------------------------------------------------------------------------------- */

void tt_costsim_note_use(struct tt_costsim_world *world)
{
    struct tt_offload_use use;

    world->used_area += (double)world->used * (double)(world->now_ns - world->used_since_ns);
    world->used_since_ns = world->now_ns;
    world->used = 0;
    for (uint32_t unit = 0; unit < world->terms->unit_count; unit++) {
        tt_offload_use(world->nodes[world->terms->root].offload, unit, &use);
        world->used += use.used;
    }
    if ((double)world->used > world->result->use_most) {
        world->result->use_most = (double)world->used;
    }
}

static void step(struct tt_costsim_world *world, uint32_t index, struct tt_offload_event *event, struct work *work)
{
    struct tt_costsim_node *node = &world->nodes[index];
    struct tt_offload_action actions[MOST_ACTIONS];
    struct tt_offload_counters before = *tt_offload_counters(node->offload);
    const struct tt_offload_counters *now = tt_offload_counters(node->offload);
    uint64_t reduced = node->reduced;

    do {
        struct tt_offload_actions list = {.actions = actions, .capacity = MOST_ACTIONS};

        if (tt_offload_step(node->offload, event, &list) != TUTTI_OK) {
            TT_COSTSIM_FAULT(world, "node %" PRIu32 ": a packet that nobody waits for", index);
        }
        if (work->is_data && now->accepted > before.accepted && now->read_at_once == before.read_at_once &&
            event->kind == TT_OFFLOAD_PACKET) {
            work->early_bytes = (uint64_t)event->packet->length_bytes * TT_COSTSIM_ELEMENT_BYTES;
        }
        work->fired = now->fired - before.fired;
        work->reduced = node->reduced - reduced;
        carry_out(world, index, work, &list);
        event->kind = TT_OFFLOAD_TICK;
    } while (tt_offload_deadline(node->offload) == 0);
    if (tt_offload_deadline(node->offload) < node->tick_ns) {
        node->tick_ns = tt_offload_deadline(node->offload);
        tt_costsim_push(world, tt_costsim_later(node->tick_ns, world->now_ns),
                        (struct tt_costsim_event){.kind = TT_COSTSIM_TICK, .node = index});
    }
    if (index == world->terms->root) {
        tt_costsim_note_use(world);
    }
}

/* Packets that are sent again take no unit's time. */
void tt_costsim_tick(struct tt_costsim_world *world, uint32_t node)
{
    struct tt_offload_event event = {.kind = TT_OFFLOAD_TICK, .now_ns = world->now_ns};
    struct work work = {.begin_ns = world->now_ns, .is_post = true};

    if (world->nodes[node].tick_ns > world->now_ns) {
        return; /* another one is under way */
    }
    world->nodes[node].tick_ns = UINT64_MAX;
    step(world, node, &event, &work);
}

/* Credits that nobody has are offered to other jobs that have begun, each in turn; whose operand is still to come posts
 * then. */
static void offer_credits(struct tt_costsim_world *world, uint32_t index, uint32_t job)
{
    const struct tt_costsim_node *node = &world->nodes[index];
    uint32_t left = node->pulses.counter_count - node->pulses.taken - node->pulses.idle;

    for (uint32_t i = 1; left > 0 && i < world->terms->job_count; i++) {
        uint32_t other = (job + i) % world->terms->job_count;
        const struct tt_operation *operation = &node->operations[other];

        if (operation->next > 0 && operation->next < operation->pulse_count &&
            node->operands[other].ready_ns <= world->now_ns &&
            !operation->lanes[operation->next % operation->terms.lane_count].is_busy) {
            tt_costsim_push(world, world->now_ns,
                            (struct tt_costsim_event){.kind = TT_COSTSIM_POST, .node = index, .thread = other});
            left--;
        }
    }
}

static void post(struct tt_costsim_world *world, uint32_t index, uint32_t job, struct work *work)
{
    struct tt_costsim_node *node = &world->nodes[index];
    struct tt_operation *operation = &node->operations[job];
    struct tt_offload_event event = {.kind = TT_OFFLOAD_TICK, .now_ns = world->now_ns};
    uint64_t before = operation->next;

    tt_operation_advance(operation, node->offload, &node->pulses, world->now_ns);
    work->is_post = true;
    work->posted = operation->next - before;
    step(world, index, &event, work);
    offer_credits(world, index, job);
}

/* --- Threads ------------------------------------------------------------------------------------------------------ */

static void make_ready(struct tt_costsim_node *node, uint32_t thread)
{
    node->threads[thread].is_ready = true;
    node->threads[thread].next_ready = TT_COSTSIM_NONE;
    if (node->first_ready == TT_COSTSIM_NONE) {
        node->first_ready = thread;
    } else {
        node->threads[node->last_ready].next_ready = thread;
    }
    node->last_ready = thread;
}

static void begin(struct tt_costsim_world *world, uint32_t index, uint32_t at)
{
    struct tt_costsim_node *node = &world->nodes[index];
    struct tt_costsim_thread *thread = &node->threads[at];
    struct tt_costsim_flight *flight = thread->first;
    struct work work = {.begin_ns = world->now_ns};

    thread->first = flight->next;
    thread->is_busy = true;
    node->idle--;
    if (flight->is_post) {
        post(world, index, flight->job, &work);
    } else {
        struct tt_offload_event event = {
            .kind = TT_OFFLOAD_PACKET, .now_ns = world->now_ns, .packet = &flight->packet, .payload = flight->payload};

        work.is_data = flight->packet.kind == TT_TRIGGER_DATA;
        work.is_noticed = work.is_data && flight->finds_idle;
        step(world, index, &event, &work);
    }
    tt_costsim_flight_free(world, flight);
    thread->reduced_ns = work.reduced > 0 ? world->now_ns : thread->reduced_ns;
    world->result->busy_ns += all_of_it(world, &work);
    tt_costsim_push(world, world->now_ns + all_of_it(world, &work),
                    (struct tt_costsim_event){.kind = TT_COSTSIM_DONE, .node = index, .thread = at});
}

static void begin_ready(struct tt_costsim_world *world, uint32_t index)
{
    struct tt_costsim_node *node = &world->nodes[index];

    while (node->idle > 0 && node->first_ready != TT_COSTSIM_NONE) {
        uint32_t thread = node->first_ready;

        node->first_ready = node->threads[thread].next_ready;
        node->threads[thread].is_ready = false;
        begin(world, index, thread);
    }
}

void tt_costsim_execute(struct tt_costsim_world *world, uint32_t node, uint32_t at, struct tt_costsim_flight *flight)
{
    struct tt_costsim_thread *thread = &world->nodes[node].threads[at];

    flight->next = NULL;
    flight->finds_idle = !thread->is_busy && thread->first == NULL;
    if (thread->first == NULL) {
        thread->first = flight;
    } else {
        thread->last->next = flight;
    }
    thread->last = flight;
    if (!thread->is_busy && !thread->is_ready) {
        make_ready(&world->nodes[node], at);
    }
    begin_ready(world, node);
}

void tt_costsim_done(struct tt_costsim_world *world, uint32_t index, uint32_t at)
{
    struct tt_costsim_node *node = &world->nodes[index];

    node->threads[at].is_busy = false;
    node->idle++;
    if (node->threads[at].first != NULL) {
        make_ready(node, at);
    }
    begin_ready(world, index);
}
