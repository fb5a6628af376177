/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a frame of an object group. What decodes must encode to the very bytes it came from (a frame has one
 * form only), and a key must lie inside of them. Then the frame goes to a member that is in the middle of an object, as
 * if it came from any other: whatever it says, the machine takes it or fails the group, and asks for nothing after the
 * end. The input is copied to a block of its own size, so that a read past its end is seen.
 */
#include <string.h>

#include "check.h"
#include "proto/object.h"
#include "wire/object_frame.h"

enum { MEMBERS = 5, OBJECTS = 4, PEERS = 8, ACTIONS = 512, BLOCK = 4096 };

struct machine {
    struct tt_object_group group;
    struct tt_object_peer peers[PEERS];
    struct tt_object objects[OBJECTS];
    struct tt_object_actions actions;
    struct tt_object_action list[ACTIONS];
};

static void step(struct machine *machine, struct tt_object_event event)
{
    bool is_over = machine->group.state == TT_OBJECT_FINISHED;

    event.now_ns = 1;
    (void)tt_object_group_step(&machine->group, &event, &machine->actions);
    tt_object_group_check(&machine->group);
    for (uint32_t i = 0; i < machine->actions.count; i++) {
        const struct tt_object_action *action = &machine->list[i];

        FUZZ_CHECK(!is_over || action->type == TT_OBJECT_DO_SEND); /* who comes too late is told */
        FUZZ_CHECK(action->type != TT_OBJECT_DO_SEND || action->to < MEMBERS);
        if (action->type == TT_OBJECT_DO_PUT) {
            FUZZ_CHECK(action->body.put.offset_bytes + action->body.put.length_bytes <= 3 * BLOCK);
        }
    }
}

/* Member 1, which has the first of three blocks and passes it on. */
static void begin(struct machine *machine, bool joins)
{
    uint32_t neighbours[MEMBERS];
    struct tt_object_config config = {.member = 1,
                                      .member_count = MEMBERS,
                                      .algorithm = TT_RDMC_BINOMIAL_PIPELINE,
                                      .block_bytes = BLOCK,
                                      .credit = TT_OBJECT_MAX_CREDIT,
                                      .group = 7,
                                      .number = 3,
                                      .objects = machine->objects,
                                      .object_count = OBJECTS,
                                      .neighbours = neighbours,
                                      .peers = machine->peers,
                                      .silence_ns = 1000,
                                      .deadline_ns = 1000};
    struct tt_object_frame offer = {
        .type = TT_OBJECT_FRAME_OFFER, .source = 0, .group = 7, .body.offer.size_bytes = 3 * BLOCK};

    memset(machine, 0, sizeof(*machine));
    config.peer_count = tt_object_neighbours(&config, neighbours);
    FUZZ_CHECK(config.peer_count <= PEERS && tt_object_actions_capacity(&config) <= ACTIONS);
    tt_object_group_init(&machine->group, &config);
    machine->actions = (struct tt_object_actions){.capacity = ACTIONS, .list = machine->list};
    if (joins) {
        step(machine, (struct tt_object_event){.type = TT_OBJECT_JOIN});
        return;
    }
    step(machine, (struct tt_object_event){.type = TT_OBJECT_FRAME, .frame = &offer});
    step(machine, (struct tt_object_event){.type = TT_OBJECT_MEMORY, .sequence = 0});
    step(machine, (struct tt_object_event){.type = TT_OBJECT_IMMEDIATE, .immediate = UINT64_C(3) << 48});
}

static void check_frame(const struct tt_object_frame *frame, const uint8_t *bytes, size_t size)
{
    uint8_t again[TT_OBJECT_FRAME_MAX_BYTES];

    FUZZ_CHECK(size <= TT_OBJECT_FRAME_MAX_BYTES);
    FUZZ_CHECK(frame->type >= TT_OBJECT_FRAME_OFFER && frame->type < TT_OBJECT_FRAME_TYPE_COUNT);
    FUZZ_CHECK(tt_object_frame_name(frame->type) != NULL);
    if (frame->type == TT_OBJECT_FRAME_READY && frame->body.ready.key_bytes > 0) {
        const uint8_t *key = frame->body.ready.key;

        FUZZ_CHECK(frame->body.ready.key_bytes <= TT_OBJECT_FRAME_MAX_KEY_BYTES && key >= bytes &&
                   (size_t)(key - bytes) + frame->body.ready.key_bytes <= size);
    }
    FUZZ_CHECK(tt_object_frame_encode(frame, again, sizeof(again)) == size);
    FUZZ_CHECK(memcmp(again, bytes, size) == 0);
    FUZZ_CHECK(tt_object_frame_encode(frame, again, size - 1) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    static struct machine machine;
    struct tt_object_frame frame;

    FUZZ_CHECK(bytes != NULL);
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    if (size > 2) {
        bytes[2] = TT_OBJECT_FRAME_VERSION; /* so that the corpus stays good */
    }
    if (tt_object_frame_decode(bytes, size, &frame)) {
        check_frame(&frame, bytes, size);
        for (int joins = 0; joins < 2; joins++) {
            begin(&machine, joins != 0);
            for (int times = 0; times < 2; times++) {
                step(&machine, (struct tt_object_event){.type = TT_OBJECT_FRAME, .frame = &frame});
            }
            step(&machine, (struct tt_object_event){
                               .type = TT_OBJECT_FAIL, .status = TUTTI_ERR_CANCELED, .member = 1, .noticed_by = 1});
            step(&machine, (struct tt_object_event){.type = TT_OBJECT_FRAME, .frame = &frame});
        }
    }
    free(bytes);
    return 0;
}
