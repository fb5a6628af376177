/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of one member machine, in few words. */
#include "member_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/dissemination.h"

void world_init(struct world *world, uint32_t rank, uint32_t size, uint32_t in_flight)
{
    struct tt_member_config config = {.rank = rank,
                                      .size = size,
                                      .group = MACHINE_GROUP,
                                      .in_flight = in_flight,
                                      .slots = world->slots,
                                      .copies = world->copies,
                                      .pool = &world->pool,
                                      .present = world->present,
                                      .heard = world->heard,
                                      .heard_count = 1,
                                      .multicast = true,
                                      .probe_timeout_ns = 1000000};

    assert_true(size <= 8 * sizeof world->present && in_flight <= WORLD_IN_FLIGHT);
    memset(world, 0, offsetof(struct world, script));
    script_init(&world->script, 0);
    tt_early_pool_init(&world->pool, world->slabs, WORLD_SLAB);
    tt_member_init(&world->member, &config);
}

void world_fini(struct world *world)
{
    tt_member_fini(&world->member);
    while (world->request_count > 0) {
        free(world->requests[--world->request_count]);
    }
}

struct tt_collective *world_request(struct world *world, struct shape shape)
{
    struct request *request = calloc(1, sizeof *request);

    assert_true(request != NULL && world->request_count < WORLD_REQUESTS);
    world->requests[world->request_count++] = request;
    shape.rank = world->member.config.rank;
    shape.size = world->member.config.size;
    memory_init(&request->memory, &shape);
    tt_collective_init(&request->collective, &request->memory.config);
    request->collective.owner = request;
    return &request->collective;
}

void world_step(struct world *world, const struct tt_member_event *event)
{
    script_clear(&world->script);
    tt_member_step(&world->member, event, &world->script.actions);
    tt_member_check(&world->member);
    tt_early_pool_check(&world->pool);
}

struct tt_collective *world_post(struct world *world, uint64_t now_ns, struct shape shape)
{
    struct tt_collective *collective = world_request(world, shape);

    world_answer(world, now_ns, TT_MEMBER_POST, collective);
    return collective;
}

void world_answer(struct world *world, uint64_t now_ns, enum tt_member_event_type type,
                  struct tt_collective *collective)
{
    world_step(world, &(struct tt_member_event){.type = type, .now_ns = now_ns, .collective = collective});
}

void world_tick(struct world *world, uint64_t now_ns)
{
    world_step(world, &(struct tt_member_event){.type = TT_MEMBER_TICK, .now_ns = now_ns});
}

void world_peer_down(struct world *world, uint64_t now_ns, uint32_t rank)
{
    world_step(world, &(struct tt_member_event){.type = TT_MEMBER_PEER_DOWN, .now_ns = now_ns, .rank = rank});
}

void world_hear(struct world *world, uint64_t now_ns, struct tt_frame frame, uint32_t source, uint64_t sequence)
{
    frame.source = source;
    frame.group = MACHINE_GROUP;
    frame.sequence = sequence;
    world_step(world, &(struct tt_member_event){.type = TT_MEMBER_FRAME, .now_ns = now_ns, .frame = &frame});
}

void world_hear_type(struct world *world, uint64_t now_ns, enum tt_frame_type type, uint32_t source, uint64_t sequence)
{
    world_hear(world, now_ns, (struct tt_frame){.type = type}, source, sequence);
}

/* Whoever starts a collective has finished what is a flight before it. */
static uint64_t finished_at(const struct world *world, uint64_t sequence)
{
    uint32_t in_flight = world->member.config.in_flight;

    return sequence < in_flight ? 0 : sequence + 1 - in_flight;
}

void world_hear_barrier(struct world *world, uint64_t now_ns, const struct tt_collective *like, uint64_t sequence,
                        uint32_t round)
{
    const struct tt_member_config *config = &world->member.config;
    struct tt_frame frame = {.type = TT_FRAME_BARRIER,
                             .body.barrier = {.round = (uint8_t)round,
                                              .terms = like->config.terms,
                                              .finished = finished_at(world, sequence)}};

    world_hear(world, now_ns, frame, tt_dissemination_from(config->rank, config->size, round), sequence);
}

void world_hear_gather(struct world *world, uint64_t now_ns, const struct tt_collective *like, uint32_t source,
                       uint64_t sequence)
{
    struct tt_frame frame = {
        .type = TT_FRAME_GATHER,
        .body.gather = {.terms = like->config.terms, .least = tt_release_of(finished_at(world, sequence))}};

    world_hear(world, now_ns, frame, source, sequence);
}

void world_release(struct world *world, uint64_t now_ns, struct tt_collective *collective, uint64_t finished)
{
    struct tt_release release = tt_release_of(finished);

    memory_release(&((struct request *)collective->owner)->memory, &release);
    world_tick(world, now_ns);
}

void world_next_is_for(struct world *world, enum tt_action_type type, const struct tt_collective *collective,
                       const char *file, int line)
{
    (void)script_next_about(&world->script, type, collective, file, line);
}

void world_next_finish(struct world *world, const struct tt_collective *collective, tutti_status status, uint32_t rank,
                       const char *file, int line)
{
    const struct tt_action *action = script_next_about(&world->script, TT_ACTION_FINISH, collective, file, line);

    if (action->body.finish.status != status || action->body.finish.rank != rank) {
        print_error("FINISH with status %d about rank %u\n", action->body.finish.status, action->body.finish.rank);
        _fail(file, line);
    }
}

void world_next_fail(struct world *world, uint32_t to, tutti_status status, uint32_t rank, const char *file, int line)
{
    const struct tt_frame *frame = script_next_send(&world->script, TT_FRAME_FAIL, to, file, line);

    assert_true(frame->group == MACHINE_GROUP && frame->source == world->member.config.rank);
    if (frame->body.fail.status != (int32_t)status || frame->body.fail.rank != rank) {
        print_error("FAIL with status %d about rank %u\n", frame->body.fail.status, frame->body.fail.rank);
        _fail(file, line);
    }
}
