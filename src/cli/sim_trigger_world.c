/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the world of `tutti sim trigger`: nodes, the network between them, and a run of all jobs.
 *
 * Normal path: all ranks of all jobs post at the beginning; then what happens next is taken in the order of virtual
 * time until nothing is left. A packet passes what is on its way in one stream: it occupies each place for as long as
 * its bytes take there, and is there when its last byte is.
 *
 * Failures: no memory, and what cannot be, end the run with a sentence.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "cli/sim_trigger_world_private.h"
#include "offload/buffer.h"

/* --- The network -------------------------------------------------------------------------------------------------- */

static uint64_t wire_bytes(const struct tt_costsim_flight *flight)
{
    return TT_TRIGGER_PACKET_BYTES + (uint64_t)flight->packet.length_bytes * TT_COSTSIM_ELEMENT_BYTES;
}

/* Out of the sender's memory, unless its NIC has the data, and through its port. */
static void leave(struct tt_costsim_world *world, struct tt_costsim_flight *flight)
{
    const struct tt_costsim_costs *costs = &world->terms->costs;
    struct tt_costsim_node *node = &world->nodes[flight->from];
    uint64_t bytes = wire_bytes(flight), head_ns = world->now_ns, tail_ns = world->now_ns;

    if (world->through_memory) {
        uint64_t begin_ns = tt_costsim_later(world->now_ns, node->read_free_ns);

        node->read_free_ns = begin_ns + tt_costsim_span(bytes, costs->io_rate);
        head_ns = begin_ns + costs->io_ns;
        tail_ns = node->read_free_ns + costs->io_ns;
    }
    head_ns = tt_costsim_later(head_ns, node->out_free_ns);
    node->out_free_ns = head_ns + tt_costsim_span(bytes, costs->net_rate);
    flight->tail_ns = tt_costsim_later(tail_ns, node->out_free_ns) + costs->net_ns;
    world->result->sent_bytes += bytes;
    uint64_t held_up_ns = tt_random_below(&world->random, costs->jitter_ns + 1);

    flight->tail_ns += held_up_ns;
    tt_costsim_push(world, head_ns + costs->net_ns + held_up_ns,
                    (struct tt_costsim_event){.kind = TT_COSTSIM_HEAD, .node = flight->to, .flight = flight});
}

/* Through the receiver's port, and into its memory if that is where it is executed. */
static void enter(struct tt_costsim_world *world, struct tt_costsim_flight *flight)
{
    const struct tt_costsim_costs *costs = &world->terms->costs;
    struct tt_costsim_node *node = &world->nodes[flight->to];
    uint64_t bytes = wire_bytes(flight), head_ns = tt_costsim_later(world->now_ns, node->in_free_ns);

    node->in_free_ns = head_ns + tt_costsim_span(bytes, costs->net_rate);
    uint64_t tail_ns = tt_costsim_later(flight->tail_ns, node->in_free_ns);

    if (world->through_memory) {
        node->write_free_ns = tt_costsim_later(head_ns, node->write_free_ns) + tt_costsim_span(bytes, costs->io_rate);
        tail_ns = tt_costsim_later(tail_ns, node->write_free_ns) + costs->io_ns;
    }
    world->result->received_bytes += bytes;
    tt_costsim_push(world, tail_ns,
                    (struct tt_costsim_event){.kind = TT_COSTSIM_ARRIVE, .node = flight->to, .flight = flight});
}

/* --- What happens ------------------------------------------------------------------------------------------------- */

static uint32_t thread_of(const struct tt_costsim_world *world, uint32_t port)
{
    return world->terms->is_offloaded ? port : port / world->terms->lane_count;
}

static void wish_to_post(struct tt_costsim_world *world, uint32_t node, uint32_t job)
{
    const struct tt_operation *operation = &world->nodes[node].operations[job];
    struct tt_costsim_flight *flight = tt_costsim_flight_new(world);
    uint32_t lane = (uint32_t)(operation->next % world->terms->lane_count);

    if (flight != NULL) {
        flight->is_post = true;
        flight->job = job;
        tt_costsim_execute(world, node, thread_of(world, job * world->terms->lane_count + lane), flight);
    }
}

/* What a pulse has of each block. Those of all jobs are the same; behind the last one there is nothing. */
static struct tt_blocks pulse_blocks(const struct tt_costsim_world *world, uint64_t pulse)
{
    const struct tt_operation *operation = &world->operations[0];
    struct tt_blocks blocks = world->blocks;

    blocks.slice_first = pulse < operation->pulse_count ? pulse * operation->each : operation->whole;
    blocks.slice_count = tt_least(operation->whole - blocks.slice_first, operation->each);
    return blocks;
}

/* When the host has the end of a pulse. What a NIC has reduced streams to memory from its last reduction on. */
static uint64_t end_of_pulse(struct tt_costsim_world *world, uint32_t index, const struct tt_costsim_event *event)
{
    const struct tt_costsim_costs *costs = &world->terms->costs;
    struct tt_costsim_node *node = &world->nodes[index];
    uint64_t end_ns = world->now_ns;

    if (!world->terms->is_offloaded) {
        return end_ns;
    }
    struct tt_blocks blocks = pulse_blocks(world, event->cookie);
    uint64_t bytes = tt_costsim_result_bytes(world, index, &blocks);

    if (!world->is_rdma && bytes > 0) {
        node->write_free_ns = tt_costsim_later(node->threads[event->thread].reduced_ns, node->write_free_ns) +
                              tt_costsim_span(bytes, costs->io_rate);
        end_ns = tt_costsim_later(end_ns, node->write_free_ns);
    }
    return end_ns + costs->io_ns;
}

/* A reduction's operand is fetched by the NIC for each pulse, and its units begin as it streams in. Of the next `count`
 * pulses; when the first is there. */
static uint64_t fetch(struct tt_costsim_world *world, uint32_t index, uint32_t job, uint64_t count)
{
    const struct tt_costsim_costs *costs = &world->terms->costs;
    struct tt_costsim_node *node = &world->nodes[index];
    uint64_t begin_ns = tt_costsim_later(world->now_ns, node->read_free_ns), bytes = 0;
    struct tt_costsim_operands *operands = &node->operands[job];

    if (!world->terms->is_offloaded || world->is_rdma || world->terms->collective == TT_SCHEDULE_BARRIER) {
        return world->now_ns;
    }
    for (uint64_t i = 0; i < count; i++) {
        struct tt_blocks blocks = pulse_blocks(world, operands->fetched++);

        for (uint32_t block = 0; block < blocks.block_count; block++) {
            bytes += TT_COSTSIM_ELEMENT_BYTES * tt_block_at(&blocks, block).count;
        }
    }
    if (bytes == 0) {
        return tt_costsim_later(world->now_ns, operands->ready_ns);
    }
    node->read_free_ns = begin_ns + tt_costsim_span(bytes, costs->io_rate);
    operands->ready_ns = begin_ns + costs->io_ns;
    return operands->ready_ns;
}

static void complete(struct tt_costsim_world *world, const struct tt_costsim_event *event)
{
    struct tt_costsim_node *node = &world->nodes[event->node];
    uint32_t job = event->thread / world->terms->lane_count;
    struct tt_operation *operation = &node->operations[job];
    struct tt_offload_action action = {
        .kind = TT_OFFLOAD_COMPLETE, .port = (uint16_t)event->thread, .cookie = event->cookie, .status = event->status};
    uint64_t end_ns = end_of_pulse(world, event->node, event);
    tutti_status status = TUTTI_OK;

    world->end_ns[job] = tt_costsim_later(world->end_ns[job], end_ns);
    tt_operation_ended(operation, node->offload, &node->pulses, &action);
    if (tt_operation_is_done(operation, &status)) {
        world->running--;
    }
    if (event->status != TUTTI_OK || status != TUTTI_OK) {
        TT_COSTSIM_FAULT(world, "node %" PRIu32 ", job %" PRIu32 ": a sequence ended with %s", event->node, job,
                         tutti_status_name(event->status));
    }
    tt_costsim_push(world, fetch(world, event->node, job, 1),
                    (struct tt_costsim_event){.kind = TT_COSTSIM_POST, .node = event->node, .thread = job});
}

static void happen(struct tt_costsim_world *world, const struct tt_costsim_event *event)
{
    switch (event->kind) {
    case TT_COSTSIM_POST:
        wish_to_post(world, event->node, event->thread);
        break;
    case TT_COSTSIM_SEND:
        leave(world, event->flight);
        break;
    case TT_COSTSIM_HEAD:
        enter(world, event->flight);
        break;
    case TT_COSTSIM_ARRIVE:
        tt_costsim_execute(world, event->node, thread_of(world, event->flight->packet.port), event->flight);
        break;
    case TT_COSTSIM_DONE:
        tt_costsim_done(world, event->node, event->thread);
        break;
    case TT_COSTSIM_COMPLETE:
        complete(world, event);
        break;
    case TT_COSTSIM_TICK:
        tt_costsim_tick(world, event->node);
        break;
    }
}

/* --- Setup -------------------------------------------------------------------------------------------------------- */

/* A sum modulo 256, of which the node's elements are counted. */
static void add(void *destination, const void *left, const void *right, uint64_t count, void *context)
{
    uint64_t *reduced = context;

    tt_reduce_to(TT_TYPE_UINT8, TT_REDUCE_SUM, destination, left, right, count);
    *reduced += count;
}

static bool lay_out(struct tt_costsim_world *world)
{
    uint32_t count = tt_schedule_block_count(&world->schedule);

    world->blocks = (struct tt_blocks){.block_count = count, .slice_count = world->elements};
    if (!tt_schedule_has_rank_blocks(&world->schedule)) {
        return true;
    }
    world->firsts = calloc(count, sizeof *world->firsts);
    world->counts = calloc(count, sizeof *world->counts);
    if (world->firsts == NULL || world->counts == NULL) {
        return false;
    }
    tt_blocks_give_to_ranks(&world->blocks, world->firsts, world->counts);
    return true;
}

static struct tt_operation_terms operation_terms(const struct tt_costsim_world *world, uint32_t job, uint32_t rank)
{
    const struct tt_costsim_terms *terms = world->terms;

    return (struct tt_operation_terms){.compile = {.schedule = &world->schedule,
                                                   .blocks = &world->blocks,
                                                   .rank = rank,
                                                   .job = (uint8_t)job,
                                                   .port = (uint16_t)(job * terms->lane_count),
                                                   .element_bytes = 1},
                                       .lane_count = terms->lane_count,
                                       .pulse_elements = world->pulse_elements,
                                       .buffer = tt_costsim_data(world, job, rank),
                                       .reduction = &world->reductions[rank],
                                       .retry_ns = 2 * terms->costs.net_ns + 1};
}

/* The longest operand of any rank's first pulse, which is as long as any; UINT64_MAX: no memory. */
static uint64_t longest_operand(const struct tt_costsim_world *world, uint64_t pulse_elements)
{
    bool is_ranks = world->blocks.counts != NULL;
    struct tt_blocks blocks = world->blocks;
    uint64_t each = is_ranks ? pulse_elements / blocks.block_count : pulse_elements, longest = 0;
    uint64_t whole = is_ranks ? world->counts[0] : world->elements; /* the first block is as long as any */

    blocks.slice_count = each < whole ? each : whole;
    blocks.is_apart = is_ranks && each < whole;
    for (uint32_t rank = 0; rank < world->terms->node_count; rank++) {
        struct tt_compile_terms terms = operation_terms(world, 0, rank).compile;
        uint64_t count, largest_bytes = UINT64_MAX;

        terms.blocks = &blocks;
        uint64_t room = tt_compile_room(&terms);
        struct tt_schedule_step *steps = calloc(room, sizeof *steps);
        uint8_t *descriptors = calloc(room, TT_DESCRIPTOR_BYTES);

        if (steps != NULL && descriptors != NULL) {
            (void)tt_compile(&terms, steps, descriptors, &count, &largest_bytes);
        }
        free(steps);
        free(descriptors);
        longest = largest_bytes > longest ? largest_bytes : longest;
    }
    return longest;
}

/* Pulses are as long as packets let them be: two packets, or one of each rank's blocks, or less. */
static bool choose_pulses(struct tt_costsim_world *world)
{
    uint64_t packet = world->terms->packet_bytes / TT_COSTSIM_ELEMENT_BYTES;
    uint32_t least = world->blocks.counts != NULL ? world->blocks.block_count : 1;
    uint64_t pulse = packet * (world->blocks.counts != NULL ? least : 2);

    while (pulse >= least && longest_operand(world, pulse) > packet) {
        pulse /= 2;
    }
    if (pulse < least) {
        TT_COSTSIM_FAULT(world, "packets of %" PRIu64 " bytes are too short", world->terms->packet_bytes);
        return false;
    }
    world->pulse_elements = pulse;
    return true;
}

static struct tt_offload_terms engine_terms(const struct tt_costsim_world *world, uint32_t node)
{
    const struct tt_costsim_terms *terms = world->terms;
    uint32_t packet = (uint32_t)(terms->packet_bytes / TT_COSTSIM_ELEMENT_BYTES);
    uint64_t slots = tt_buffer_slot_count(terms->unit_bytes, (uint32_t)terms->packet_bytes);

    if (!terms->is_offloaded) { /* a host's memory has room for whatever comes */
        slots = (uint64_t)terms->job_count * terms->lane_count * 4 + 64;
    }
    return (struct tt_offload_terms){.node = node,
                                     .unit_count = terms->unit_count,
                                     .port_count = terms->job_count * terms->lane_count,
                                     .unit_bytes = slots * (TT_TRIGGER_PACKET_BYTES + packet),
                                     .packet_bytes = packet,
                                     .inline_bytes = packet,
                                     .window = terms->window,
                                     .queue_length = 1,
                                     .retry_ns = 2 * terms->costs.net_ns + 1};
}

static void create_node(struct tt_costsim_world *world, uint32_t index, const struct tt_offload_terms *engine,
                        uint8_t *at)
{
    const struct tt_costsim_terms *terms = world->terms;
    struct tt_costsim_node *node = &world->nodes[index];

    *node = (struct tt_costsim_node){.operations = world->operations + (size_t)index * terms->job_count,
                                     .operands = world->operands + (size_t)index * terms->job_count,
                                     .threads = world->threads + (size_t)index * world->thread_count,
                                     .first_ready = TT_COSTSIM_NONE,
                                     .idle = terms->is_offloaded ? terms->unit_count : (uint32_t)terms->costs.cores,
                                     .tick_ns = UINT64_MAX};
    (void)tt_reduction_init_user(&world->reductions[index], TT_TYPE_OPAQUE, 1, add, &node->reduced, true);
    tt_pulses_init(&node->pulses, world->pulse_elements * terms->credits, terms->credits);
    node->offload = tt_offload_init(engine, at);
    at += tt_offload_memory_bytes(engine);
    for (uint32_t job = 0; job < terms->job_count; job++) {
        struct tt_operation_terms operation = operation_terms(world, job, index);

        tt_operation_init(&node->operations[job], &operation, at);
        /* Else the first jobs of a node could have all credits, and wait for others that are the first elsewhere. */
        node->operations[job].is_admitted = tt_pulses_admit(&node->pulses);
        at += tt_operation_memory_bytes(&operation);
    }
}

static bool create_nodes(struct tt_costsim_world *world)
{
    const struct tt_costsim_terms *terms = world->terms;

    for (uint32_t i = 0; i < terms->node_count; i++) {
        struct tt_offload_terms engine = engine_terms(world, i);
        struct tt_operation_terms operation = operation_terms(world, 0, i);
        size_t engine_bytes = tt_offload_memory_bytes(&engine);
        size_t operation_bytes = tt_operation_memory_bytes(&operation);

        if (engine_bytes == 0 || operation_bytes == 0) {
            TT_COSTSIM_FAULT(world, "a buffer of %" PRIu64 " bytes has no room for a packet of %" PRIu64,
                             terms->unit_bytes, terms->packet_bytes);
            return false;
        }
        world->memory[i] = malloc(engine_bytes + operation_bytes * terms->job_count);
        if (world->memory[i] == NULL) {
            return false;
        }
        create_node(world, i, &engine, world->memory[i]);
    }
    return true;
}

static bool allocate(struct tt_costsim_world *world)
{
    const struct tt_costsim_terms *terms = world->terms;
    size_t ranks = (size_t)terms->node_count * terms->job_count;

    world->thread_count = terms->job_count * (terms->is_offloaded ? terms->lane_count : 1);
    world->nodes = calloc(terms->node_count, sizeof *world->nodes);
    world->reductions = calloc(terms->node_count, sizeof *world->reductions);
    world->memory = calloc(terms->node_count, sizeof *world->memory);
    world->operations = calloc(ranks, sizeof *world->operations);
    world->threads = calloc((size_t)terms->node_count * world->thread_count, sizeof *world->threads);
    world->end_ns = calloc(terms->job_count, sizeof *world->end_ns);
    world->operands = calloc(ranks, sizeof *world->operands);
    return world->nodes != NULL && world->reductions != NULL && world->memory != NULL && world->operations != NULL &&
           world->threads != NULL && world->end_ns != NULL && world->operands != NULL;
}

static bool create(struct tt_costsim_world *world)
{
    const struct tt_costsim_terms *terms = world->terms;

    if (!tt_schedule_init(&world->schedule, terms->collective, terms->algorithm, terms->node_count, terms->root)) {
        TT_COSTSIM_FAULT(world, "there is no such schedule");
        return false;
    }
    world->elements = terms->bytes / TT_COSTSIM_ELEMENT_BYTES;
    world->is_rdma = tt_costsim_is_rdma(terms->collective);
    world->through_memory = world->is_rdma || !terms->is_offloaded;
    return allocate(world) && lay_out(world) && tt_costsim_data_create(world) && choose_pulses(world) &&
           create_nodes(world);
}

static void destroy(struct tt_costsim_world *world)
{
    for (uint32_t i = 0; world->threads != NULL && i < world->terms->node_count * world->thread_count; i++) {
        while (world->threads[i].first != NULL) {
            struct tt_costsim_flight *flight = world->threads[i].first;

            world->threads[i].first = flight->next;
            free(flight);
        }
    }
    for (uint32_t i = 0; world->memory != NULL && i < world->terms->node_count; i++) {
        free(world->memory[i]);
    }
    tt_costsim_events_destroy(world);
    free(world->nodes);
    free(world->reductions);
    free((void *)world->memory);
    free(world->operations);
    free(world->threads);
    free(world->end_ns);
    free(world->operands);
    free(world->firsts);
    free(world->counts);
    free(world->data);
    free(world->tape);
}

/* --- A run -------------------------------------------------------------------------------------------------------- */

static void start(struct tt_costsim_world *world)
{
    const struct tt_costsim_terms *terms = world->terms;
    /* The host makes the descriptors, and the NIC fetches them. */
    uint64_t made_ns = terms->is_offloaded ? terms->costs.cpu_ns + terms->costs.io_ns : 0;

    tt_random_init(&world->random, terms->seed);
    world->running = terms->node_count * terms->job_count;
    for (uint32_t job = 0; job < terms->job_count; job++) {
        for (uint32_t node = 0; node < terms->node_count; node++) {
            uint64_t ready_ns = fetch(world, node, job, terms->lane_count);

            tt_costsim_push(world, made_ns + ready_ns + tt_random_below(&world->random, terms->skew_ns + 1),
                            (struct tt_costsim_event){.kind = TT_COSTSIM_POST, .node = node, .thread = job});
        }
    }
}

static void finish(struct tt_costsim_world *world)
{
    struct tt_costsim_result *result = world->result;
    double slots = 0;

    if (world->running > 0) {
        TT_COSTSIM_FAULT(world, "%" PRIu32 " ranks of jobs are stuck", world->running);
        return;
    }
    for (uint32_t job = 0; job < world->terms->job_count; job++) {
        result->time_ns = tt_costsim_later(result->time_ns, world->end_ns[job]);
        result->mean_ns += (double)world->end_ns[job] / world->terms->job_count;
    }
    for (uint32_t unit = 0; unit < world->terms->unit_count; unit++) {
        struct tt_offload_use use;

        tt_offload_use(world->nodes[world->terms->root].offload, unit, &use);
        slots += use.home_count;
    }
    result->use_mean = result->time_ns == 0 ? 0 : 100 * world->used_area / slots / (double)result->time_ns;
    result->use_most = 100 * result->use_most / slots;
    result->pulses = world->operations[0].pulse_count;
    result->pulse_bytes = world->pulse_elements * TT_COSTSIM_ELEMENT_BYTES;
    for (uint32_t node = 0; node < world->terms->node_count; node++) {
        const uint64_t *counters = (const uint64_t *)tt_offload_counters(world->nodes[node].offload);
        uint64_t *sums = (uint64_t *)&result->counters;

        for (size_t i = 0; i < sizeof result->counters / sizeof *sums; i++) {
            sums[i] += counters[i];
        }
    }
    tt_costsim_data_check(world);
}

bool tt_costsim_world_run(const struct tt_costsim_terms *terms, struct tt_costsim_result *result, char *fault)
{
    struct tt_costsim_world world = {.terms = terms, .result = result, .fault = fault};
    struct tt_costsim_event event;

    assert(terms->credits >= terms->job_count && terms->bytes % TT_COSTSIM_ELEMENT_BYTES == 0);
    *result = (struct tt_costsim_result){.time_ns = 0};
    fault[0] = '\0';
    if (create(&world)) {
        start(&world);
        while (fault[0] == '\0' && tt_costsim_pop(&world, &event)) {
            world.now_ns = event.time_ns;
            result->events++;
            happen(&world, &event);
        }
        if (fault[0] == '\0') {
            finish(&world);
        }
    } else {
        TT_COSTSIM_FAULT(&world, "not enough memory for so many nodes and jobs");
    }
    destroy(&world);
    return fault[0] == '\0';
}
