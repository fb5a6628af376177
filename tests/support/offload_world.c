/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the virtual network of triggered engines, see the header.
 *
 * Normal path: what happens next, a packet's arrival, a post or an engine's deadline, is taken in the order of virtual
 * time; each is a step of one engine, whose actions are carried out and which is then checked. At the end every result
 * is compared with what the collective means, computed from the ranks' inputs alone.
 *
 * Failures: a sequence that ends in an error, but of a job that a node died of, a result that is wrong, nothing that
 * may still happen while sequences have not ended, or no end. The first one is kept.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "offload/compile.h"
#include "offload_world_private.h"

enum { MOST_STEPS = 60000 };

/* --- Operations --------------------------------------------------------------------------------------------------- */

static void compose(void *destination, const void *left, const void *right, uint64_t count, void *context)
{
    struct affine *results = destination;
    const struct affine *outer = left, *inner = right;

    (void)context;
    for (uint64_t i = 0; i < count; i++) {
        results[i] = affine_compose(outer[i], inner[i]);
    }
}

static const struct tt_reduction reduction = {
    .type = TT_TYPE_OPAQUE, .element_bytes = sizeof(struct affine), .function = compose};

/* --- The network -------------------------------------------------------------------------------------------------- */

static bool is_before(const struct offload_flight *a, const struct offload_flight *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->order < b->order;
}

static void swap(struct offload_flight *a, struct offload_flight *b)
{
    struct offload_flight c = *a;

    *a = *b;
    *b = c;
}

static void push_flight(struct offload_world *world, const struct offload_flight *flight)
{
    if (world->flight_count == world->flight_room) {
        world->flight_room = 2 * world->flight_room + 64;
        world->flights = realloc(world->flights, world->flight_room * sizeof *world->flights);
        assert(world->flights != NULL);
    }
    uint32_t at = world->flight_count++;

    world->flights[at] = *flight;
    while (at > 0 && is_before(&world->flights[at], &world->flights[(at - 1) / 2])) {
        swap(&world->flights[at], &world->flights[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static struct offload_flight pop_flight(struct offload_world *world)
{
    struct offload_flight first = world->flights[0];
    uint32_t at = 0;

    world->flights[0] = world->flights[--world->flight_count];
    for (;;) {
        uint32_t least = at;

        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < world->flight_count; child++) {
            least = is_before(&world->flights[child], &world->flights[least]) ? child : least;
        }
        if (least == at) {
            return first;
        }
        swap(&world->flights[at], &world->flights[least]);
        at = least;
    }
}

static uint64_t draw_delay(struct offload_world *world)
{
    uint64_t delay_ns = 1 + tt_random_below(&world->random, world->plan->most_delay_ns);

    return tt_random_chance(&world->random, 20000) ? 50 * delay_ns : delay_ns;
}

static void send_packet(struct offload_world *world, const struct tt_offload_action *action)
{
    struct offload_flight flight = {.from = action->packet.node,
                                    .to = action->node,
                                    .payload = action->payload,
                                    .order = world->order++,
                                    .time_ns = world->now_ns + draw_delay(world),
                                    .length_bytes = TT_TRIGGER_PACKET_BYTES};

    tt_trigger_packet_encode(&action->packet, flight.header);
    if (action->packet.kind == TT_TRIGGER_REMOTE) {
        struct offload_reference reference = {.operand = action->payload, .length_bytes = action->packet.length_bytes};
        uint32_t most = TT_TRIGGER_MAX_REFERENCE_BYTES - sizeof reference;

        memcpy(flight.header + TT_TRIGGER_PACKET_BYTES, &reference, sizeof reference);
        flight.length_bytes += sizeof reference + (uint32_t)tt_random_below(&world->random, most + 1);
    } else if (action->packet.kind == TT_TRIGGER_DATA) {
        flight.length_bytes += action->packet.length_bytes;
    }
    push_flight(world, &flight);
}

/* The data is read once, at any time; what is there until then is nothing that anybody may rely on. */
static void fetch(struct offload_world *world, uint32_t node, const struct tt_offload_action *action)
{
    struct offload_reference reference;
    uint64_t one_ns = world->now_ns + draw_delay(world), other_ns = world->now_ns + draw_delay(world);

    memcpy(&reference, action->payload, sizeof reference);
    if (reference.length_bytes != action->packet.length_bytes) {
        FAULT(world, "node %u, port %u: a fetch with another packet's reference", node, action->port);
        return;
    }
    struct offload_flight flight = {.kind = OFFLOAD_IS_READ,
                                    .from = action->node,
                                    .to = node,
                                    .order = world->order++,
                                    .time_ns = one_ns < other_ns ? one_ns : other_ns,
                                    .done_ns = one_ns < other_ns ? other_ns : one_ns,
                                    .payload = reference.operand,
                                    .length_bytes = reference.length_bytes,
                                    .destination = action->destination,
                                    .port = action->port};

    memset(flight.destination, 0xDD, flight.length_bytes);
    push_flight(world, &flight);
}

/* --- Steps -------------------------------------------------------------------------------------------------------- */

static struct offload_lane *find_lane(struct offload_world *world, uint32_t node, uint16_t port)
{
    for (uint32_t i = 0; i < world->lane_count; i++) {
        const struct offload_lane *lane = &world->lanes[i];

        if (lane->node == node && lane->job * OFFLOAD_MOST_LANES + lane->lane == port) {
            return &world->lanes[i];
        }
    }
    return NULL;
}

/* The buffer is the user's again, who writes to it. */
static void end_iteration(struct offload_job *job, uint32_t rank, uint64_t iteration)
{
    struct affine *buffer = job->buffers[rank] + iteration * job->total;

    memcpy(job->results[rank] + iteration * job->total, buffer, job->total * sizeof *buffer);
    memset(buffer, 0xEE, job->total * sizeof *buffer);
}

static void end_sequence(struct offload_world *world, uint32_t node, const struct tt_offload_action *action)
{
    struct offload_lane *lane = find_lane(world, node, action->port);

    uint64_t each = lane == NULL ? 0 : offload_pulses_of(world->jobs[lane->job].plan, lane->lane);

    if (each == 0 || lane->ended == lane->posted || action->cookie != lane->ended) {
        FAULT(world, "node %u, port %u: sequence %" PRIu64 " ends out of turn", node, action->port, action->cookie);
        return;
    }
    bool may_fail = offload_is_hit(world, lane->job) && world->now_ns >= world->plan->death_ns;

    if (action->status != TUTTI_OK && !(may_fail && action->status == TUTTI_ERR_PEER_FAILED)) {
        FAULT(world, "node %u, port %u: sequence %" PRIu64 " ends with %d", node, action->port, action->cookie,
              (int)action->status);
    }
    struct offload_job *job = &world->jobs[lane->job];
    uint64_t iteration = lane->ended / each;

    world->result->sequences++;
    lane->ended++;
    if (action->status != TUTTI_OK) {
        lane->count = lane->posted; /* what it sent may still be read: the buffer is nobody's until the end */
        return;
    }
    lane->next_ns = world->now_ns;
    if (++job->ended[lane->rank][iteration] == job->plan->pulses) {
        end_iteration(job, lane->rank, iteration);
    }
}

static void take_actions(struct offload_world *world, uint32_t node, const struct tt_offload_actions *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        switch (list->actions[i].kind) {
        case TT_OFFLOAD_SEND:
            send_packet(world, &list->actions[i]);
            break;
        case TT_OFFLOAD_FETCH:
            fetch(world, node, &list->actions[i]);
            break;
        default:
            end_sequence(world, node, &list->actions[i]);
        }
    }
}

static void step(struct offload_world *world, uint32_t node, struct tt_offload_event event)
{
    struct tt_offload_action actions[16];

    event.now_ns = world->now_ns;
    do {
        struct tt_offload_actions list = {.actions = actions, .capacity = world->plan->action_capacity};
        tutti_status status = tt_offload_step(world->nodes[node], &event, &list);

        if (status != TUTTI_OK) {
            FAULT(world, "node %u: a packet is a stray (%d)", node, (int)status);
        }
        tt_offload_check(world->nodes[node]);
        world->result->steps++;
        take_actions(world, node, &list);
        event.kind = TT_OFFLOAD_TICK;
    } while (tt_offload_deadline(world->nodes[node]) == 0);
}

static void tick(struct offload_world *world, uint32_t node)
{
    step(world, node, (struct tt_offload_event){.kind = TT_OFFLOAD_TICK});
}

static void arrive(struct offload_world *world, const struct offload_flight *flight)
{
    struct tt_trigger_packet packet;

    if (!tt_trigger_packet_decode(flight->header, flight->length_bytes, &packet)) {
        FAULT(world, "a packet for node %u cannot be read", flight->to);
        return;
    }
    if (world->log != NULL) {
        fprintf(world->log, "%" PRIu64 " to %u: kind %d job %u node %u port %u seq %u length %u%s\n", world->now_ns,
                flight->to, (int)packet.kind, packet.job, packet.node, packet.port, packet.sequence,
                packet.length_bytes, packet.collective_end ? " end" : "");
    }
    const void *reference = flight->header + TT_TRIGGER_PACKET_BYTES;

    step(world, flight->to,
         (struct tt_offload_event){.kind = TT_OFFLOAD_PACKET,
                                   .packet = &packet,
                                   .payload = packet.kind == TT_TRIGGER_REMOTE ? reference : flight->payload});
}

/* Some data is handed over where it is, as if it had been put into memory of the reader's. */
static bool is_read_in_place(const struct offload_flight *flight)
{
    return flight->port % 2 == 1 && (uintptr_t)flight->payload % TT_OFFLOAD_ALIGNMENT == 0;
}

static void land(struct offload_world *world, const struct offload_flight *flight)
{
    switch (flight->kind) {
    case OFFLOAD_ARRIVES:
        arrive(world, flight);
        break;
    case OFFLOAD_IS_READ: {
        struct offload_flight done = *flight;

        if (offload_is_dead(world, flight->from)) {
            done.status = TUTTI_ERR_PEER_FAILED;
        } else if (!is_read_in_place(flight)) {
            memcpy(flight->destination, flight->payload, flight->length_bytes);
        }
        done.kind = OFFLOAD_IS_FETCHED;
        done.time_ns = flight->done_ns;
        push_flight(world, &done);
        break;
    }
    default:
        step(world, flight->to,
             (struct tt_offload_event){.kind = TT_OFFLOAD_FETCHED,
                                       .port = flight->port,
                                       .payload = is_read_in_place(flight) ? flight->payload : NULL,
                                       .status = flight->status});
    }
}

/* A node hears of the death: the jobs that it shares with the dead one end there. */
static void close_ports(struct offload_world *world, uint32_t node)
{
    world->closes_ns[node] = UINT64_MAX;
    for (uint32_t i = 0; i < world->lane_count; i++) {
        struct offload_lane *lane = &world->lanes[i];

        if (lane->node == node && offload_is_hit(world, lane->job)) {
            lane->count = lane->posted;
            tt_offload_close_port(world->nodes[node], (uint16_t)(lane->job * OFFLOAD_MOST_LANES + lane->lane),
                                  TUTTI_ERR_PEER_FAILED);
        }
    }
    tick(world, node);
}

/* --- Posting ------------------------------------------------------------------------------------------------------ */

/* The slice of the vector, or of each block, that a pulse is about. */
static void slice(const struct offload_job *job, uint64_t pulse, struct tt_blocks *blocks)
{
    uint64_t whole = job->blocks.counts == NULL ? job->total : job->longest;
    uint64_t each = (whole + job->plan->pulses - 1) / job->plan->pulses;
    uint64_t first = pulse * each < whole ? pulse * each : whole;

    *blocks = job->blocks;
    blocks->slice_first = first;
    blocks->slice_count = whole - first < each ? whole - first : each;
}

static void post(struct offload_world *world, struct offload_lane *lane)
{
    const struct offload_job *job = &world->jobs[lane->job];
    uint64_t each = offload_pulses_of(job->plan, lane->lane);

    assert(each > 0); /* a lane without pulses has nothing to post */
    uint64_t iteration = lane->posted / each, pulse = lane->lane + lane->posted % each * job->plan->lanes;
    struct tt_blocks blocks;
    struct tt_compile_terms terms = {.schedule = &job->schedule,
                                     .blocks = &blocks,
                                     .rank = lane->rank,
                                     .job = (uint8_t)lane->job,
                                     .port = (uint16_t)(lane->job * OFFLOAD_MOST_LANES + lane->lane),
                                     .nodes = job->plan->nodes,
                                     .element_bytes = sizeof(struct affine)};
    uint64_t count, largest_bytes;

    slice(job, pulse, &blocks);
    uint64_t room = tt_compile_room(&terms);
    struct tt_schedule_step *steps = calloc(room, sizeof *steps);
    uint8_t *descriptors = calloc(room, TT_DESCRIPTOR_BYTES);

    assert(steps != NULL && descriptors != NULL);
    if (tt_compile(&terms, steps, descriptors, &count, &largest_bytes) != TUTTI_OK) {
        FAULT(world, "job %u cannot be compiled", lane->job);
    }
    free(steps);
    struct tt_sequence sequence = {.descriptors = descriptors,
                                   .count = count,
                                   .buffer = job->buffers[lane->rank] + iteration * job->total,
                                   .buffer_bytes = job->total * sizeof(struct affine),
                                   .source_bytes = job->total * sizeof(struct affine),
                                   .reduction = &reduction,
                                   .cookie = lane->posted};

    if (job->sources[lane->rank] != NULL) {
        sequence.source = job->sources[lane->rank] + iteration * job->total;
    }
    tutti_status status = tt_offload_post(world->nodes[lane->node], terms.port, &sequence);

    if (status == TUTTI_OK) {
        lane->descriptors[lane->posted++] = descriptors;
        lane->next_ns = world->now_ns + tt_random_below(&world->random, world->plan->post_span_ns / 8 + 1);
        tick(world, lane->node);
        return;
    }
    free(descriptors);
    lane->next_ns = UINT64_MAX; /* until one ends */
    if (status == TUTTI_ERR_PEER_FAILED && offload_is_hit(world, lane->job)) {
        lane->count = lane->posted;
    } else if (status != TUTTI_ERR_BUSY) {
        FAULT(world, "job %u cannot be posted (%d)", lane->job, (int)status);
    }
}

/* Whether the node is not there any more at a time that comes. */
static bool dies_before(const struct offload_world *world, uint32_t node, uint64_t time_ns)
{
    return node == world->plan->dead_node &&
           world->plan->death_ns <= (time_ns > world->now_ns ? time_ns : world->now_ns);
}

static struct offload_lane *next_poster(struct offload_world *world, uint64_t *next_ns)
{
    struct offload_lane *poster = NULL;

    for (uint32_t i = 0; i < world->lane_count; i++) {
        struct offload_lane *lane = &world->lanes[i];

        if (lane->posted < lane->count && lane->next_ns < *next_ns && !dies_before(world, lane->node, lane->next_ns)) {
            *next_ns = lane->next_ns;
            poster = lane;
        }
    }
    return poster;
}

/* A node with something due, or that hears of the death then; OFFLOAD_NOBODY. */
static uint32_t next_node(const struct offload_world *world, uint64_t *next_ns, bool *closes)
{
    uint32_t due = OFFLOAD_NOBODY;

    for (uint32_t i = 0; i < world->plan->node_count; i++) {
        uint64_t deadline_ns = tt_offload_deadline(world->nodes[i]), close_ns = world->closes_ns[i];
        uint64_t own_ns = deadline_ns < close_ns ? deadline_ns : close_ns;

        if (own_ns < *next_ns && !dies_before(world, i, own_ns)) {
            *next_ns = own_ns;
            *closes = close_ns <= deadline_ns;
            due = i;
        }
    }
    return due;
}

/* What is due first: an arrival, a post or an engine. False: nothing will happen any more. */
static bool happen(struct offload_world *world)
{
    uint64_t next_ns = world->flight_count > 0 ? world->flights[0].time_ns : UINT64_MAX;
    struct offload_lane *poster = next_poster(world, &next_ns);
    bool closes = false;
    uint32_t due = next_node(world, &next_ns, &closes);

    if (next_ns == UINT64_MAX) {
        return false;
    }
    world->now_ns = next_ns > world->now_ns ? next_ns : world->now_ns;
    if (due != OFFLOAD_NOBODY) {
        (closes ? close_ports : tick)(world, due);
    } else if (poster != NULL) {
        post(world, poster);
    } else {
        struct offload_flight flight = pop_flight(world);

        if (!offload_is_dead(world, flight.to)) {
            land(world, &flight);
        }
    }
    return true;
}

void offload_world_run(const struct offload_plan *plan, FILE *log, struct offload_result *result)
{
    static struct offload_world world;

    memset(&world, 0, sizeof world);
    *result = (struct offload_result){.digest = UINT64_C(0xCBF29CE484222325)};
    world.plan = plan;
    world.result = result;
    world.log = log;
    tt_random_init(&world.random, plan->network_seed);
    offload_world_create(&world);
    while (result->fault[0] == '\0' && happen(&world)) {
        if (result->steps > MOST_STEPS) {
            FAULT(&world, "no end after %d steps", MOST_STEPS);
        }
    }
    offload_world_judge(&world);
    result->end_ns = world.now_ns;
    offload_world_destroy(&world);
}
