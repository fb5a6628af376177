/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixture of object groups' tests: one member's memory, events, and reading actions one by one. */
#include "object_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "pick.h"

void machine_init(struct object_machine *machine, enum tt_rdmc_algorithm algorithm, uint32_t member, uint32_t count,
                  uint32_t credit)
{
    struct tt_object_config config = {.member = member,
                                      .member_count = count,
                                      .algorithm = algorithm,
                                      .block_bytes = MACHINE_BLOCK,
                                      .credit = credit,
                                      .group = MACHINE_GROUP,
                                      .number = MACHINE_NUMBER,
                                      .objects = machine->objects,
                                      .object_count = MACHINE_OBJECTS,
                                      .neighbours = machine->neighbours,
                                      .peers = machine->peers,
                                      .silence_ns = MACHINE_SILENCE_NS,
                                      .deadline_ns = MACHINE_DEADLINE_NS};

    assert_true(count <= MACHINE_PEERS);
    memset(machine, 0, sizeof *machine);
    config.peer_count = tt_object_neighbours(&config, machine->neighbours);
    tt_object_group_init(&machine->group, &config);
    machine->now_ns = 1;
    machine->actions = (struct tt_object_actions){.capacity = MACHINE_ACTIONS, .list = machine->list};
    assert_true(tt_object_actions_capacity(&config) <= MACHINE_ACTIONS);
}

tutti_status machine_step(struct object_machine *machine, struct tt_object_event event)
{
    tutti_status status;

    no_more(machine);
    event.now_ns = machine->now_ns;
    status = tt_object_group_step(&machine->group, &event, &machine->actions);
    tt_object_group_check(&machine->group);
    machine->at = 0;
    return status;
}

void machine_frame(struct object_machine *machine, struct tt_object_frame frame)
{
    frame.group = MACHINE_GROUP;
    assert_int_equal(machine_step(machine, (struct tt_object_event){.type = TT_OBJECT_FRAME, .frame = &frame}),
                     TUTTI_OK);
}

void machine_offer(struct object_machine *machine, uint32_t from, uint64_t sequence, uint64_t size_bytes)
{
    machine_frame(machine, (struct tt_object_frame){.type = TT_OBJECT_FRAME_OFFER,
                                                    .source = from,
                                                    .sequence = sequence,
                                                    .body.offer.size_bytes = size_bytes});
}

void machine_ready(struct object_machine *machine, uint32_t from, uint64_t sequence, uint64_t block)
{
    static const uint8_t key[] = {7, 8, 9};

    machine_frame(machine, (struct tt_object_frame){.type = TT_OBJECT_FRAME_READY,
                                                    .source = from,
                                                    .sequence = sequence,
                                                    .body.ready = {.block = block,
                                                                   .address = 0x10000 + block * MACHINE_BLOCK,
                                                                   .immediate = 0x500 + block,
                                                                   .key = key,
                                                                   .key_bytes = sizeof key}});
}

void machine_says(struct object_machine *machine, enum tt_object_frame_type type, uint32_t from, uint64_t sequence)
{
    machine_frame(machine, (struct tt_object_frame){.type = type, .source = from, .sequence = sequence});
}

void machine_fails(struct object_machine *machine, uint32_t from, tutti_status status, uint32_t about, uint64_t puts)
{
    machine_frame(machine, (struct tt_object_frame){.type = TT_OBJECT_FRAME_FAIL,
                                                    .source = from,
                                                    .body.fail = {(int32_t)status, about, from, puts}});
}

void machine_gives_memory(struct object_machine *machine, uint64_t sequence)
{
    (void)machine_step(machine, (struct tt_object_event){.type = TT_OBJECT_MEMORY, .sequence = sequence});
}

uint64_t machine_immediate(uint64_t sequence, uint64_t block)
{
    return (uint64_t)MACHINE_NUMBER << 48 | sequence << 32 | block;
}

void machine_block_comes(struct object_machine *machine, uint64_t sequence, uint64_t block)
{
    (void)machine_step(machine, (struct tt_object_event){.type = TT_OBJECT_IMMEDIATE,
                                                         .immediate = machine_immediate(sequence, block)});
}

void machine_put_done(struct object_machine *machine, uint32_t to, uint64_t sequence, tutti_status status)
{
    (void)machine_step(machine, (struct tt_object_event){
                                    .type = TT_OBJECT_PUT_DONE, .member = to, .sequence = sequence, .status = status});
}

void machine_peer_down(struct object_machine *machine, uint32_t member)
{
    (void)machine_step(machine, (struct tt_object_event){.type = TT_OBJECT_PEER_DOWN, .member = member});
}

void machine_tick(struct object_machine *machine, uint64_t now_ns)
{
    machine->now_ns = now_ns;
    (void)machine_step(machine, (struct tt_object_event){.type = TT_OBJECT_TICK});
}

/* To a member. */
static bool goes_out(const struct tt_object_action *action)
{
    return action->type == TT_OBJECT_DO_SEND || action->type == TT_OBJECT_DO_PUT ||
           action->type == TT_OBJECT_DO_ABANDON;
}

/* Members get what goes to them in its order (FAIL says how many puts came before); the user hears things in theirs,
 * and nothing comes after the end. */
static bool ordered(const void *one, const void *other)
{
    const struct tt_object_action *first = one, *then = other;

    if (first->type == TT_OBJECT_DO_FINISH || then->type == TT_OBJECT_DO_FINISH) {
        return true;
    }
    return goes_out(first) == goes_out(then) && (!goes_out(first) || first->to == then->to);
}

static bool fits(const void *action, const void *wanted)
{
    const struct tt_object_action *found = action, *want = wanted;

    if (found->type != want->type) {
        return false;
    }
    if (found->type == TT_OBJECT_DO_FAIL || found->type == TT_OBJECT_DO_FINISH) {
        return true; /* to nobody, of no object */
    }
    return found->to == want->to && found->sequence == want->sequence &&
           (found->type != TT_OBJECT_DO_SEND || want->body.frame.type == 0 ||
            found->body.frame.type == want->body.frame.type);
}

static const struct tt_object_action *next(struct object_machine *machine, const struct tt_object_action *wanted,
                                           const char *file, int line)
{
    static const struct pick pick = {sizeof(struct tt_object_action), fits, ordered};
    const struct tt_object_action *action = &machine->list[machine->at];

    if (!pick_next(&pick, machine->list, machine->at, machine->actions.count, wanted)) {
        print_error("expected %u to %u of %llu\n", wanted->type, wanted->to, (unsigned long long)wanted->sequence);
        machine_no_more(machine, file, line);
        _fail(file, line);
    }
    machine->at++;
    return action;
}

const struct tt_object_action *machine_next(struct object_machine *machine, enum tt_object_action_type type,
                                            uint32_t to, uint64_t sequence, const char *file, int line)
{
    return next(machine, &(struct tt_object_action){.type = type, .to = to, .sequence = sequence}, file, line);
}

const struct tt_object_frame *machine_next_send(struct object_machine *machine, enum tt_object_frame_type type,
                                                uint32_t to, uint64_t sequence, const char *file, int line)
{
    struct tt_object_action wanted = {
        .type = TT_OBJECT_DO_SEND, .to = to, .sequence = sequence, .body.frame.type = type};
    const struct tt_object_frame *frame = &next(machine, &wanted, file, line)->body.frame;

    if (frame->sequence != sequence || frame->source != machine->group.config.member || frame->group != MACHINE_GROUP) {
        print_error("frame %s is from %u, of %llu\n", tt_object_frame_name(type), frame->source,
                    (unsigned long long)frame->sequence);
        _fail(file, line);
    }
    return frame;
}

void machine_next_end(struct object_machine *machine, enum tt_object_action_type type, tutti_status status,
                      uint32_t about, const char *file, int line)
{
    const struct tt_object_action *action = machine_next(machine, type, TT_OBJECT_NO_MEMBER, 0, file, line);

    if (action->body.finish.status != status || action->body.finish.member != about) {
        print_error("expected %s of %u, found %s of %u\n", tutti_status_name(status), about,
                    tutti_status_name(action->body.finish.status), action->body.finish.member);
        _fail(file, line);
    }
}

void machine_no_more(const struct object_machine *machine, const char *file, int line)
{
    if (machine->at != machine->actions.count) {
        print_error("expected nothing, found action %u of %u: %u to %u\n", machine->at, machine->actions.count,
                    machine->list[machine->at].type, machine->list[machine->at].to);
        _fail(file, line);
    }
}
