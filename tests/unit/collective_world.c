/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of one collective machine, in few words. */
#include "collective_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "plan/dissemination.h"

void world_init(struct world *world, const struct shape *shape)
{
    memory_init(&world->memory, shape);
    script_init(&world->script, 0);
    tt_collective_init(&world->collective, &world->memory.config);
    tt_collective_reset(&world->collective, COLLECTIVE_SEQUENCE);
}

static bool step(struct world *world, const struct tt_collective_event *event)
{
    bool fine;

    script_clear(&world->script);
    fine = tt_collective_step(&world->collective, event, &world->script.actions, &world->mismatch);
    tt_collective_check(&world->collective);
    return fine;
}

bool world_step(struct world *world, enum tt_collective_event_type type, uint64_t now_ns)
{
    return step(world, &(struct tt_collective_event){.type = type, .now_ns = now_ns});
}

bool world_got(struct world *world, uint64_t now_ns, uint32_t run, tutti_status status)
{
    return step(world,
                &(struct tt_collective_event){.type = TT_EVENT_GOT, .now_ns = now_ns, .run = run, .status = status});
}

void world_fail(struct world *world, uint64_t now_ns, tutti_status status, uint32_t rank)
{
    assert_true(step(
        world, &(struct tt_collective_event){.type = TT_EVENT_FAIL, .now_ns = now_ns, .status = status, .rank = rank}));
}

void world_fail_without_right(struct world *world, uint64_t now_ns, tutti_status status, uint32_t rank)
{
    struct tt_collective_event event = {
        .type = TT_EVENT_FAIL, .now_ns = now_ns, .status = status, .rank = rank, .right_gone = true};

    assert_true(step(world, &event));
}

bool world_hear_frame(struct world *world, uint64_t now_ns, struct tt_frame frame, uint32_t source)
{
    frame.source = source;
    frame.group = MACHINE_GROUP;
    frame.sequence = COLLECTIVE_SEQUENCE;
    return step(world, &(struct tt_collective_event){.type = TT_EVENT_FRAME, .now_ns = now_ns, .frame = &frame});
}

bool world_hear(struct world *world, uint64_t now_ns, enum tt_frame_type type, uint32_t source)
{
    return world_hear_frame(world, now_ns, (struct tt_frame){.type = type}, source);
}

bool world_hear_done(struct world *world, uint64_t now_ns, uint32_t source, uint32_t chain)
{
    return world_hear_frame(world, now_ns, (struct tt_frame){.type = TT_FRAME_DONE, .body.done.chain = chain}, source);
}

bool world_hear_barrier(struct world *world, uint64_t now_ns, uint32_t round)
{
    const struct tt_collective_config *config = &world->memory.config;
    struct tt_frame frame = {.type = TT_FRAME_BARRIER,
                             .body.barrier = {.round = (uint8_t)round, .terms = config->terms}};

    return world_hear_frame(world, now_ns, frame, tt_dissemination_from(config->rank, config->size, round));
}

bool world_hear_gather(struct world *world, uint64_t now_ns, uint32_t source)
{
    struct tt_frame frame = {
        .type = TT_FRAME_GATHER,
        .body.gather = {.terms = world->memory.config.terms, .least = {0, UINT32_MAX, UINT32_MAX, false, false}}};

    return world_hear_frame(world, now_ns, frame, source);
}

bool world_hear_remind(struct world *world, uint64_t now_ns, uint32_t source)
{
    struct tt_frame frame = {.type = TT_FRAME_REMIND, .body.ready.terms = world->memory.config.terms};

    return world_hear_frame(world, now_ns, frame, source);
}

void world_release(struct world *world, uint64_t now_ns)
{
    struct tt_release release = tt_release_of(0);

    release.all_deaf = false;
    memory_release(&world->memory, &release);
    assert_true(world_step(world, TT_EVENT_TICK, now_ns));
}

/* All that comes of the barrier's frames but what the last of them starts is other tests' subject. */
static void pass_gathering(struct world *world, uint64_t now_ns)
{
    const struct tt_collective_config *config = &world->memory.config;
    const struct tt_gather_place *place = &world->collective.gather.place;
    struct tt_gather_place child;

    for (uint32_t i = 0; i < tt_gather_child_count(config->size, place); i++) {
        tt_gather_child(config->size, place, i, &child);
        assert_true(world_hear_gather(world, now_ns, tt_rank_add(child.vertex, config->terms.root, config->size)));
    }
    if (config->rank != config->terms.root) {
        assert_int_equal(world->collective.state, TT_COLLECTIVE_BARRIER);
        world_release(world, now_ns);
    }
}

static void pass_rounds(struct world *world, uint64_t now_ns)
{
    for (uint32_t round = 0; round < tt_dissemination_rounds(world->memory.config.size); round++) {
        assert_true(world_hear_barrier(world, now_ns, round));
    }
    while (world->script.at < world->script.actions.count &&
           world->script.list[world->script.at].type == TT_ACTION_SEND &&
           world->script.list[world->script.at].body.frame.type == TT_FRAME_BARRIER) {
        world->script.at++;
    }
}

void world_pass_barrier(struct world *world, uint64_t now_ns)
{
    bool gathers = world->collective.way->gate->releases;

    assert_true(world_step(world, TT_EVENT_START, 0));
    (gathers ? pass_gathering : pass_rounds)(world, now_ns);
    assert_true(world->collective.state > TT_COLLECTIVE_BARRIER);
}

void world_init_receiver(struct world *world)
{
    world_init(world, &(struct shape){.rank = 1, .size = 3, .block_bytes = RECEIVER_BYTES});
    world_pass_barrier(world, 1);
    no_more(&world->script);
}

struct tt_frame world_available(const struct tt_frame *fetch, uint64_t bits)
{
    struct tt_frame frame = {.type = TT_FRAME_AVAILABLE, .body.available = {.slot = fetch->body.fetch.slot}};

    frame.body.available.window = fetch->body.fetch.window;
    memset(frame.body.available.window.bits, 0, sizeof frame.body.available.window.bits);
    frame.body.available.window.bits[0] = bits;
    frame.body.available.address = 0x1000;
    return frame;
}

void world_next_finish(struct world *world, tutti_status status, uint32_t rank, const char *file, int line)
{
    const struct tt_action *action = script_next_of(&world->script, TT_ACTION_FINISH, file, line);

    assert_ptr_equal(action->collective, &world->collective);
    assert_int_equal(action->body.finish.status, status);
    assert_int_equal(action->body.finish.rank, rank);
    assert_int_equal(world->collective.state, TT_COLLECTIVE_FINISHED);
    script_end(&world->script, file, line);
}
