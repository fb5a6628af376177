/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixture of the protocol machines' tests: memory from a shape, and reading actions one by one. */
#include "machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pick.h"

static enum tt_method method_of(const struct shape *shape)
{
    return shape->p2p           ? TT_METHOD_RING
           : shape->eager       ? TT_METHOD_EAGER
           : shape->gather      ? TT_METHOD_GATHER
           : shape->parts       ? TT_METHOD_PARTS
           : shape->eager_parts ? TT_METHOD_EAGER_PARTS
                                : TT_METHOD_MULTICAST;
}

void memory_init(struct memory *memory, const struct shape *shape)
{
    struct tt_collective_config *config = &memory->config;
    uint32_t kind = shape->kind == 0 ? TT_BROADCAST : shape->kind, subgroups = shape->subgroups + !shape->subgroups;
    struct tt_collective_terms terms = {
        .kind = (uint8_t)kind, .method = (uint8_t)method_of(shape), .block_bytes = shape->block_bytes};
    terms.element_bytes = tt_kind_row(kind)->combines; /* bytes that are summed up */
    uint32_t chains = shape->chains + !shape->chains;
    struct tt_layout layout;

    assert_true(subgroups <= MACHINE_SUBGROUPS && chains <= MACHINE_CHAINS);
    memset(memory, 0, sizeof *memory);
    assert_true(tt_layout_init(&layout, tt_terms_root_bytes(&terms, shape->size),
                               shape->chunk_bytes == 0 ? 16 : shape->chunk_bytes, tt_terms_roots(&terms, shape->size),
                               subgroups, MACHINE_WORDS * 64));
    assert_true(!shape->gather || tt_terms_root_bytes(&terms, shape->size) <= MACHINE_BUFFER_BYTES);
    memset(memory->buffer, MACHINE_GUARD, sizeof memory->buffer);
    memset(memory->gathered, MACHINE_GUARD, sizeof memory->gathered);
    for (uint32_t s = 0; s < subgroups; s++) {
        tt_layout_stripe(&layout, s, &memory->streams[s].stripe);
        memory->streams[s].first_source = kind == TT_ALLGATHER || shape->parts || shape->eager_parts ? 0 : shape->root;
        memory->streams[s].bitmap = memory->bitmaps[s];
        memory->streams[s].buffer = shape->gather ? memory->buffer : NULL;
    }
    terms.subgroups = (uint16_t)subgroups;
    terms.root = shape->root;
    terms.chunk_bytes = layout.chunk_bytes;
    terms.chains = chains;
    tt_link_init(&memory->link, TT_PACER_UNKNOWN);
    memory->link.window_bytes = memory->link.least_bytes =
        shape->window_chunks * (layout.chunk_bytes + TT_PACER_OVERHEAD_BYTES);
    *config = (struct tt_collective_config){
        .rank = shape->rank,
        .size = shape->size,
        .group = MACHINE_GROUP,
        .terms = terms,
        .streams = memory->streams,
        .gathered = tt_terms_combine(&terms) ? memory->gathered : NULL,
        .positions = memory->positions,
        .done = memory->done,
        .heard = chains,
        .link = shape->window_chunks > 0 ? &memory->link : NULL,
        .wire_ns = MACHINE_WIRE_NS,
        .alpha_ns = MACHINE_ALPHA_NS,
        .tail_ns = MACHINE_TAIL_NS,
        .stall_ns = MACHINE_STALL_NS,
        .ask_ns = shape->ask_ns > 0 ? shape->ask_ns : TT_EAGER_ASK_NS,
        .timeout_ns = MACHINE_TIMEOUT_NS,
        .rollcall_ns = MACHINE_ROLLCALL_NS,
    };
}

void memory_receive(struct memory *memory, uint32_t subgroup, uint32_t first_psn, uint32_t count)
{
    struct tt_stream *stream = &memory->streams[subgroup];

    assert_true(first_psn + count <= stream->stripe.psn_count);
    for (uint32_t psn = first_psn; psn < first_psn + count; psn++) {
        if (!(tt_stream_word(stream, psn / 64) >> (psn % 64) & 1)) {
            tt_stream_mark(stream, psn, 1);
            atomic_fetch_add(&stream->received, 1);
        }
    }
}

void memory_receive_all(struct memory *memory)
{
    for (uint32_t s = 0; s < memory->config.terms.subgroups; s++) {
        memory_receive(memory, s, 0, memory->streams[s].stripe.psn_count);
    }
}

void memory_release(struct memory *memory, const struct tt_release *release)
{
    memory->streams[0].release = *release;
    atomic_store(&memory->streams[0].released, true);
}

void script_init(struct script *script, uint32_t capacity)
{
    /* The list itself stays as it is: nobody may look at what a step has not written. */
    script->actions = (struct tt_actions){.capacity = capacity == 0 ? MACHINE_ACTIONS : capacity, .list = script->list};
    script->at = 0;
    assert_true(capacity <= MACHINE_ACTIONS);
}

void script_clear(struct script *script)
{
    script->actions.count = 0;
    script->actions.more = false;
    script->at = 0;
}

const char *action_name(enum tt_action_type type)
{
    static const char *const names[] = {
        [TT_ACTION_SEND] = "SEND",       [TT_ACTION_PUBLISH] = "PUBLISH", [TT_ACTION_TRANSMIT] = "TRANSMIT",
        [TT_ACTION_CANCEL] = "CANCEL",   [TT_ACTION_FREEZE] = "FREEZE",   [TT_ACTION_GET] = "GET",
        [TT_ACTION_ABANDON] = "ABANDON", [TT_ACTION_PROBE] = "PROBE",     [TT_ACTION_PROBED] = "PROBED",
        [TT_ACTION_KEEP] = "KEEP",       [TT_ACTION_RELAY] = "RELAY",     [TT_ACTION_UNRELAY] = "UNRELAY",
        [TT_ACTION_FINISH] = "FINISH",   [TT_ACTION_COMBINE] = "COMBINE"};

    return names[type];
}

static void describe(const struct tt_action *action, char *text, size_t capacity)
{
    if (action->type == TT_ACTION_SEND) {
        snprintf(text, capacity, "SEND %s to %u", tt_frame_name(action->body.frame.type), action->to);
    } else {
        snprintf(text, capacity, "%s", action_name(action->type));
    }
}

static void complain(const char *expected, const struct script *script, const char *file, int line)
{
    char found[64] = "nothing";

    if (script->at < script->actions.count) {
        describe(&script->actions.list[script->at], found, sizeof found);
    }
    print_error("action %u: expected %s, found %s\n", script->at, expected, found);
    _fail(file, line);
}

bool actions_are_ordered(const struct tt_action *one, const struct tt_action *other)
{
    if (one->type == TT_ACTION_KEEP || other->type == TT_ACTION_KEEP) {
        return true;
    }
    if (one->type == TT_ACTION_ABANDON || other->type == TT_ACTION_ABANDON ||
        (one->type == TT_ACTION_SEND && other->type == TT_ACTION_SEND)) {
        return one->to == other->to;
    }
    return one->collective == other->collective &&
           (one->type == TT_ACTION_PUBLISH || other->type == TT_ACTION_PUBLISH || one->type == TT_ACTION_COMBINE ||
            other->type == TT_ACTION_COMBINE || one->type == TT_ACTION_FINISH || other->type == TT_ACTION_FINISH);
}

static bool ordered(const void *one, const void *other)
{
    return actions_are_ordered(one, other);
}

/* What a test names of an action. */
struct wanted {
    enum tt_action_type type;
    const struct tt_collective *collective; /* NULL: any */
    enum tt_frame_type frame;               /* 0: any */
    uint32_t to;
};

static bool fits(const void *action, const void *wanted)
{
    const struct tt_action *found = action;
    const struct wanted *want = wanted;

    return found->type == want->type && (want->collective == NULL || found->collective == want->collective) &&
           (want->frame == 0 || (found->body.frame.type == want->frame && found->to == want->to));
}

static struct tt_action *next(struct script *script, const struct wanted *wanted, const char *file, int line)
{
    static const struct pick pick = {sizeof(struct tt_action), fits, ordered};

    if (!pick_next(&pick, script->list, script->at, script->actions.count, wanted)) {
        struct tt_action expected = {.type = wanted->type, .to = wanted->to, .body.frame.type = wanted->frame};
        char text[64];

        describe(&expected, text, sizeof text);
        complain(text, script, file, line);
    }
    return &script->list[script->at++];
}

struct tt_action *script_next_of(struct script *script, enum tt_action_type type, const char *file, int line)
{
    return next(script, &(struct wanted){.type = type}, file, line);
}

struct tt_action *script_next_about(struct script *script, enum tt_action_type type,
                                    const struct tt_collective *collective, const char *file, int line)
{
    return next(script, &(struct wanted){.type = type, .collective = collective}, file, line);
}

const struct tt_frame *script_next_send(struct script *script, enum tt_frame_type type, uint32_t to, const char *file,
                                        int line)
{
    return &next(script, &(struct wanted){.type = TT_ACTION_SEND, .frame = type, .to = to}, file, line)->body.frame;
}

void script_end(const struct script *script, const char *file, int line)
{
    if (script->at != script->actions.count) {
        complain("nothing", script, file, line);
    }
}
