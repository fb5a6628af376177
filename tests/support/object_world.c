/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world of object groups' members. Normal path: time goes from one event of the simulator, deadline of a machine or
 * answer of an application to the next; each event is a step, whose actions are carried out as an engine would, and
 * checked. Failures: of the harness itself end the process; of the machines are problems with a text.
 */
#include "support/object_world_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"

enum { EVENTS = 64, NUMBER = 0xBEEF };
#define GROUP UINT64_C(0x0B1EC75A11)

void *object_world_allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count > 0 ? count : 1, bytes);

    if (memory == NULL) {
        fprintf(stderr, "object world: out of memory\n");
        abort();
    }
    return memory;
}

void object_world_expect(bool fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "object world: %s: %s\n", what, tt_last_error());
        abort();
    }
}

void object_world_note_time(struct object_world *world, uint64_t at_ns)
{
    world->soonest_ns = at_ns < world->soonest_ns ? at_ns : world->soonest_ns;
}

/* --- Creation ----------------------------------------------------------------------------------------------------- */

void object_world_options_init(struct object_world_options *options, uint32_t member_count)
{
    memset(options, 0, sizeof *options);
    tt_sim_options_init(&options->sim, member_count);
    options->sim.uplink = options->sim.downlink =
        (struct tt_sim_link){.bits_per_second = UINT64_C(8000000000), .latency_ns = 1000};
    options->sim.header_bytes = 0;
    options->sim.p2p_packet_bytes = 1000;
    options->algorithm = TT_RDMC_BINOMIAL_PIPELINE;
    options->block_bytes = 1000;
    options->credit = TT_OBJECT_MAX_CREDIT;
    options->object_count = 8;
    options->silence_ns = 50 * TT_NS_PER_MS;
    options->deadline_ns = TT_NS_PER_S;
}

static void create_member(struct object_world *world, uint32_t number)
{
    const struct object_world_options *options = &world->options;
    struct object_world_member *member = &world->members[number];
    struct tt_object_config config = {.member = number,
                                      .member_count = world->member_count,
                                      .algorithm = options->algorithm,
                                      .rack_firsts = options->rack_firsts,
                                      .rack_count = options->rack_count,
                                      .block_bytes = options->block_bytes,
                                      .credit = options->credit,
                                      .group = GROUP,
                                      .number = NUMBER,
                                      .object_count = options->object_count,
                                      .silence_ns = options->silence_ns,
                                      .deadline_ns = options->deadline_ns};

    member->neighbours = object_world_allocate(world->member_count, sizeof *member->neighbours);
    config.neighbours = member->neighbours;
    config.peer_count = tt_object_neighbours(&config, member->neighbours);
    object_world_expect(config.peer_count > 0 || world->member_count == 1, "no plan");
    config.peers = member->peers = object_world_allocate(config.peer_count, sizeof *member->peers);
    config.objects = member->objects = object_world_allocate(config.object_count, sizeof *member->objects);
    tt_object_group_init(&member->group, &config);
    member->refused_puts =
        object_world_allocate(TT_OBJECT_MAX_CREDIT * config.peer_count, sizeof *member->refused_puts);
    member->refused_sequences =
        object_world_allocate(TT_OBJECT_MAX_CREDIT * config.peer_count, sizeof *member->refused_sequences);
    member->connections = object_world_allocate(config.peer_count, sizeof(struct tt_p2p_peer *));
    member->p2p = tt_sim_p2p(world->sim, number);
    member->refuse_at = UINT64_MAX;
    member->deadline_ns = member->leave_ns = TT_NEVER;
    member->failed_member = TT_OBJECT_NO_MEMBER;
    for (uint32_t i = 0; i < OBJECT_WORLD_OBJECTS; i++) {
        member->memory[i].answer_ns = TT_NEVER;
    }
    if (tt_object_actions_capacity(&config) > world->actions.capacity) {
        world->actions.capacity = tt_object_actions_capacity(&config);
    }
}

static void connect_member(struct object_world *world, uint32_t number)
{
    struct object_world_member *member = &world->members[number];

    for (uint32_t i = 0; i < member->group.config.peer_count; i++) {
        uint8_t address[TT_P2P_MAX_ADDRESS_BYTES];
        size_t length = sizeof address;
        struct tt_p2p *other = world->members[member->neighbours[i]].p2p;

        object_world_expect(other->ops->address(other, address, &length) == TUTTI_OK, "address");
        object_world_expect(member->p2p->ops->connect(member->p2p, address, length, member->neighbours[i],
                                                      &member->connections[i]) == TUTTI_OK,
                            "connect");
    }
}

struct object_world *object_world_create(const struct object_world_options *options)
{
    struct object_world *world = object_world_allocate(1, sizeof *world);

    world->options = *options;
    world->member_count = options->sim.node_count;
    world->soonest_ns = TT_NEVER;
    world->sim = tt_sim_create(&options->sim);
    object_world_expect(world->sim != NULL, "simulator");
    world->members = object_world_allocate(world->member_count, sizeof *world->members);
    for (uint32_t i = 0; i < world->member_count; i++) {
        create_member(world, i);
    }
    for (uint32_t i = 0; i < world->member_count; i++) {
        connect_member(world, i);
    }
    world->actions.list = object_world_allocate(world->actions.capacity, sizeof *world->actions.list);
    return world;
}

void object_world_destroy(struct object_world *world)
{
    for (uint32_t i = 0; i < world->member_count; i++) {
        struct object_world_member *member = &world->members[i];

        for (uint32_t object = 0; object < OBJECT_WORLD_OBJECTS; object++) {
            if (member->memory[object].registration != NULL) {
                member->p2p->ops->memory_release(member->memory[object].registration);
            }
            free(member->memory[object].bytes);
        }
        free(member->peers);
        free(member->objects);
        free(member->neighbours);
        free(member->connections);
        free(member->refused_puts);
        free(member->refused_sequences);
    }
    tt_sim_destroy(world->sim);
    for (uint32_t object = 0; object < world->sent; object++) {
        free(world->contents[object]);
    }
    free(world->actions.list);
    free(world->members);
    free(world);
}

/* --- Steps -------------------------------------------------------------------------------------------------------- */

static void check_simulator(struct object_world *world)
{
    uint64_t violations = tt_sim_violations(world->sim);

    if (violations > world->violations_seen) {
        object_world_problem(world, "%s", tt_sim_violation_text(world->sim, world->violations_seen));
        world->violations_seen = violations;
    }
}

static void plant_early_release(const struct object_world *world, uint32_t number, const struct tt_object_event *event)
{
    struct object_world_member *member = &world->members[number];
    bool fails = event->type == TT_OBJECT_PEER_DOWN ||
                 (event->type == TT_OBJECT_FRAME && event->frame->type == TT_OBJECT_FRAME_FAIL);

    for (uint32_t i = 0; fails && i < member->group.config.peer_count; i++) {
        member->peers[i].granted = 0;
    }
}

static tutti_status step(struct object_world *world, uint32_t number, struct tt_object_event *event)
{
    struct object_world_member *member = &world->members[number];
    tutti_status status;

    if (number == world->options.plant_member) {
        if (world->options.plant == PLANT_EARLY_RELEASE) {
            plant_early_release(world, number, event);
        } else if (world->options.plant == PLANT_DEAF && event->type == TT_OBJECT_FRAME &&
                   event->frame->type == TT_OBJECT_FRAME_FAIL) {
            return TUTTI_OK;
        }
    }
    event->now_ns = tt_sim_now(world->sim);
    status = tt_object_group_step(&member->group, event, &world->actions);
    world->steps++;
    object_world_carry_out(world, number);
    check_simulator(world);
    while (member->failed_puts > 0) {
        struct tt_object_event failed = {.type = TT_OBJECT_PUT_DONE,
                                         .member = member->refused_puts[0],
                                         .sequence = member->refused_sequences[0],
                                         .status = TUTTI_ERR_PEER_FAILED};

        member->failed_puts--;
        memmove(member->refused_puts, member->refused_puts + 1, member->failed_puts * sizeof *member->refused_puts);
        memmove(member->refused_sequences, member->refused_sequences + 1,
                member->failed_puts * sizeof *member->refused_sequences);
        (void)step(world, number, &failed);
    }
    member->deadline_ns = tt_object_group_deadline(&member->group);
    object_world_note_time(world, member->deadline_ns);
    return status;
}

static void take_event(struct object_world *world, uint32_t number, const struct tt_p2p_event *event)
{
    struct tt_object_frame frame;
    struct tt_object_event told = {.frame = &frame};

    switch (event->type) {
    case TT_P2P_FRAME:
        object_world_expect(tt_object_frame_decode(event->data, event->length_bytes, &frame) && frame.group == GROUP,
                            "frame");
        told.type = TT_OBJECT_FRAME;
        break;
    case TT_P2P_DONE:
        told.type = TT_OBJECT_PUT_DONE;
        told.member = (uint32_t)(event->cookie >> 32);
        told.sequence = event->cookie & UINT32_MAX;
        told.status = event->status;
        break;
    case TT_P2P_IMMEDIATE:
        told.type = TT_OBJECT_IMMEDIATE;
        told.immediate = event->immediate;
        break;
    case TT_P2P_PEER_DOWN:
        told.type = TT_OBJECT_PEER_DOWN;
        told.member = (uint32_t)event->peer_cookie;
        break;
    }
    (void)step(world, number, &told);
}

static bool runs(const struct object_world *world, uint32_t number)
{
    return !tt_sim_is_crashed(world->sim, number) && !tt_sim_is_stalled(world->sim, number);
}

static void poll_all(struct object_world *world)
{
    uint32_t number;

    while (tt_sim_take_ready(world->sim, &number)) {
        struct object_world_member *member = &world->members[number];
        struct tt_p2p_event events[EVENTS];
        uint32_t count;

        while ((count = member->p2p->ops->progress(member->p2p, events, EVENTS)) > 0) {
            for (uint32_t i = 0; i < count; i++) {
                take_event(world, number, &events[i]);
            }
        }
    }
}

static void answer(struct object_world *world, uint32_t number, uint64_t sequence)
{
    struct object_world_member *member = &world->members[number];
    struct tt_object_event event = {.type = TT_OBJECT_MEMORY, .sequence = sequence};

    member->memory[sequence].answer_ns = TT_NEVER;
    if (member->refuse_at == sequence) {
        event.type = TT_OBJECT_REFUSE;
        event.status = TUTTI_ERR_NO_MEMORY;
    } else {
        object_world_give_memory(world, member, sequence);
    }
    (void)step(world, number, &event);
}

/* Ticks and answers that are due; finds when the next one is. */
static void run_timers(struct object_world *world)
{
    uint64_t now_ns = tt_sim_now(world->sim);

    if (now_ns < world->soonest_ns) {
        return;
    }
    world->soonest_ns = TT_NEVER;
    object_world_start_late_puts(world);
    for (uint32_t number = 0; number < world->member_count; number++) {
        struct object_world_member *member = &world->members[number];

        if (tt_sim_is_crashed(world->sim, number)) {
            continue;
        }
        if (tt_sim_is_stalled(world->sim, number)) {
            object_world_note_time(world, now_ns + TT_NS_PER_MS);
            continue;
        }
        for (uint64_t object = 0; object < world->sent; object++) {
            if (member->memory[object].answer_ns <= now_ns) {
                answer(world, number, object);
            }
            object_world_note_time(world, member->memory[object].answer_ns);
        }
        if (member->deadline_ns <= now_ns) {
            (void)step(world, number, &(struct tt_object_event){.type = TT_OBJECT_TICK});
            if (member->deadline_ns <= now_ns) {
                object_world_problem(world, "member %u has a deadline that has passed, after a tick", number);
                member->deadline_ns = TT_NEVER;
            }
        }
        object_world_note_time(world, member->deadline_ns);
        if (member->leave_ns <= now_ns) {
            object_world_leave(member);
        }
        object_world_note_time(world, member->leave_ns);
    }
}

void object_world_run(struct object_world *world, uint64_t until_ns)
{
    for (;;) {
        uint64_t next_ns;

        poll_all(world);
        run_timers(world);
        poll_all(world);
        next_ns = tt_sim_next_event_time(world->sim);
        next_ns = world->soonest_ns < next_ns ? world->soonest_ns : next_ns;
        if (next_ns > until_ns || next_ns == TT_NEVER) {
            break;
        }
        (void)tt_sim_advance(world->sim, next_ns);
    }
    if (until_ns != TT_NEVER) {
        (void)tt_sim_advance(world->sim, until_ns);
    }
}

/* --- What tests do ------------------------------------------------------------------------------------------------ */

tutti_status object_world_send(struct object_world *world, uint64_t size_bytes)
{
    struct tt_object_event event = {.type = TT_OBJECT_SEND, .size_bytes = size_bytes};
    struct object_world_member *member = &world->members[0];
    uint32_t sequence = world->sent;
    tutti_status status = tt_object_group_may_send(&member->group, size_bytes);

    if (status != TUTTI_OK) {
        tutti_status said = step(world, 0, &event);

        if (said != status && !member->has_finished) {
            object_world_problem(world, "may_send says %s, send %s", tutti_status_name(status),
                                 tutti_status_name(said));
        }
        return said;
    }
    object_world_expect(sequence < OBJECT_WORLD_OBJECTS, "too many objects");
    world->contents[sequence] = object_world_allocate(size_bytes, 1);
    for (uint64_t i = 0; i < size_bytes; i++) {
        world->contents[sequence][i] = (uint8_t)((i * 2654435761U + sequence * 40503U) >> 11);
    }
    world->sizes[sequence] = size_bytes;
    world->sent++;
    object_world_give_memory(world, member, sequence);
    if (size_bytes > 0) {
        memcpy(member->memory[sequence].bytes, world->contents[sequence], size_bytes);
    }
    return step(world, 0, &event);
}

tutti_status object_world_close(struct object_world *world, uint32_t member)
{
    return step(world, member, &(struct tt_object_event){.type = TT_OBJECT_CLOSE});
}

void object_world_close_all(struct object_world *world)
{
    for (uint32_t i = 0; i < world->member_count; i++) {
        if (runs(world, i)) {
            (void)object_world_close(world, i);
        }
    }
}

void object_world_cancel(struct object_world *world, uint32_t member)
{
    world->members[member].is_guilty = true;
    (void)step(world, member,
               &(struct tt_object_event){.type = TT_OBJECT_FAIL, .status = TUTTI_ERR_CANCELED, .member = member});
}

void object_world_crash(struct object_world *world, uint32_t member, uint64_t at_ns)
{
    world->members[member].is_guilty = true;
    tt_sim_crash(world->sim, member, at_ns);
}

void object_world_stall(struct object_world *world, uint32_t member, uint64_t until_ns)
{
    world->members[member].is_guilty = true;
    tt_sim_stall(world->sim, member, until_ns);
    object_world_note_time(world, until_ns);
}

uint64_t object_world_end_of(struct object_world *world, uint64_t sequence)
{
    uint64_t last_ns = 0;

    for (uint32_t i = 0; i < world->member_count; i++) {
        assert_true(world->members[i].completed > sequence);
        if (world->members[i].memory[sequence].completed_ns > last_ns) {
            last_ns = world->members[i].memory[sequence].completed_ns;
        }
    }
    return last_ns;
}

void object_world_end(struct object_world *world)
{
    uint32_t problems;

    object_world_check_end(world);
    problems = world->problem_count;
    for (uint32_t i = 0; i < problems && i < OBJECT_WORLD_PROBLEMS; i++) {
        print_error("%s\n", world->problems[i]);
    }
    object_world_destroy(world);
    assert_int_equal(problems, 0);
}
