/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request whose data the triggered engine moves. Normal path: the schedule's vector lies in the user's receive buffer
 * where that is a whole one, in the send buffer where nothing is written, else in memory of the request's own; what
 * this rank gives goes there when the collective starts, and what it gets from there when it has ended.
 *
 * Failures: no memory, or memory that cannot be registered, when the request is made. While it runs: whoever has failed
 * is the group's to find out; a schedule that does not come out is the group's trouble, once all ranks have
 * agreed on it.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "base/log.h"
#include "base/pages.h"
#include "engine/choice_file.h"
#include "engine/request.h"
#include "engine/triggers.h"
#include "plan/dissemination.h"

/* --- Schedules ---------------------------------------------------------------------------------------------------- */

/* Parts are made as the table has it for a reduce-scatter of the vector, so far as that keeps them where they are
 * multicast from: around the ring, by recursive halving, or directly. */
static enum tt_schedule_algorithm parts_algorithm(const struct tt_request *request)
{
    const struct tt_group *group = request->group;
    const struct tt_request_options *options = &request->options;
    struct tt_choice_question question =
        tt_choice_question_for(TT_REDUCE_SCATTER, group->multicast, group->size, options->block_bytes);

    /* Halves of a pulse are messages, and a pulse has an element of each part. */
    bool has_room = (uint64_t)group->size * request->element_bytes <= TT_TRIGGERS_MESSAGE_BYTES;

    question.element_bytes = request->element_bytes;
    question.one_tree = options->combining.keeps_order;
    switch (tt_choice_of(&group->choice, &question)) {
    case TT_METHOD_TRIGGERED_RING:
        return TT_SCHEDULE_RING;
    case TT_METHOD_RECURSIVE_HALVING:
        return has_room ? TT_SCHEDULE_RECURSIVE_HALVING : TT_SCHEDULE_DIRECT;
    default:
        return TT_SCHEDULE_DIRECT;
    }
}

static enum tt_schedule_algorithm schedule_algorithm(const struct tt_request *request)
{
    static const enum tt_schedule_algorithm algorithms[TT_METHOD_COUNT] = {
        [TT_METHOD_BINOMIAL] = TT_SCHEDULE_BINOMIAL,
        [TT_METHOD_DOUBLE_TREE] = TT_SCHEDULE_DOUBLE_TREE,
        [TT_METHOD_RECURSIVE_DOUBLING] = TT_SCHEDULE_RECURSIVE_DOUBLING,
        [TT_METHOD_RECURSIVE_HALVING] = TT_SCHEDULE_RECURSIVE_HALVING,
        [TT_METHOD_RABENSEIFNER] = TT_SCHEDULE_RABENSEIFNER,
        [TT_METHOD_TRIGGERED_RING] = TT_SCHEDULE_RING,
        [TT_METHOD_DIRECT] = TT_SCHEDULE_DIRECT};
    enum tt_method method = request->options.method;

    assert(tt_method_row(method)->by_triggers || tt_method_row(method)->by_parts);
    return tt_method_row(method)->by_parts ? parts_algorithm(request) : algorithms[method];
}

static enum tt_schedule_collective schedule_collective(const struct tt_request_options *options,
                                                       enum tt_schedule_algorithm algorithm)
{
    static const enum tt_schedule_collective collectives[TT_KIND_COUNT] = {[TT_BROADCAST] = TT_SCHEDULE_BROADCAST,
                                                                           [TT_ALLGATHER] = TT_SCHEDULE_ALLGATHER,
                                                                           [TT_REDUCE] = TT_SCHEDULE_REDUCE,
                                                                           [TT_ALLREDUCE] = TT_SCHEDULE_ALLREDUCE,
                                                                           [TT_GATHER] = TT_SCHEDULE_GATHER,
                                                                           [TT_SCATTER] = TT_SCHEDULE_SCATTER,
                                                                           [TT_REDUCE_SCATTER] =
                                                                               TT_SCHEDULE_REDUCE_SCATTER};

    if (tt_method_row(options->method)->by_parts) {
        return TT_SCHEDULE_REDUCE_SCATTER;
    }
    if (!tt_schedule_is_known(collectives[options->kind], algorithm)) {
        return TT_SCHEDULE_ALLREDUCE; /* of a reduce-scatter: all but the own part is dropped */
    }
    return collectives[options->kind];
}

enum {
    PASSED_ON_BYTES = TT_TRIGGERS_MESSAGE_BYTES / 2,
    APART_LEAST_BYTES = 8 * 1024,  /* of a message, of ranks' blocks */
    SLOTS_LEAST_BYTES = 24 * 1024, /* around a ring: what is longer goes into slots, without the copy of what is sent */
    APART_BYTES = 60 * 1024 /* where it takes several: they go through a host's stack at once, with all headers */
};

static bool sends_each_block(const struct tt_triggered *t)
{
    return t->schedule.algorithm == TT_SCHEDULE_RING || t->schedule.algorithm == TT_SCHEDULE_DIRECT;
}

/* Whether messages are runs of ranks' blocks. Cut blocks do not lie in one piece, and make a message each. */
static bool sends_runs(const struct tt_triggered *t)
{
    return tt_schedule_has_rank_blocks(&t->schedule) && !sends_each_block(t);
}

/* How many messages a pulse makes at least, of the same length. A run is half of all at most, but where a rank that is
 * too many for a power of two gives all that it has. */
static uint64_t parts_of(const struct tt_triggered *t)
{
    bool gives_all = t->schedule.algorithm == TT_SCHEDULE_RECURSIVE_HALVING && !tt_is_power_of_two(t->schedule.size);

    return sends_each_block(t) ? t->blocks.block_count : sends_runs(t) && !gives_all ? 2 : 1;
}

/* Of a message that is sent rather than announced. */
static uint64_t sent_bytes(const struct tt_triggered *t)
{
    const struct tt_group *group = t->request->group;

    return tt_triggers_inline_bytes(group->network->p2p->frame_bytes, group->size);
}

/* A pulse whose longest message is just sent: that is half of it, but where a rank that is too many for a power of two
 * gives all that it has. */
static uint64_t halved_pulse(const struct tt_triggered *t)
{
    return tt_is_power_of_two(t->schedule.size) ? tt_most(PASSED_ON_BYTES, 2 * sent_bytes(t)) : PASSED_ON_BYTES;
}

/* Of a message: what is cut further is not worth it. */
static uint64_t shortest_message(const struct tt_triggered *t)
{
    if (sends_runs(t)) {
        return TT_TRIGGERS_MESSAGE_BYTES;
    }
    if (parts_of(t) > 1) {
        return APART_LEAST_BYTES;
    }
    return t->schedule.algorithm == TT_SCHEDULE_RABENSEIFNER ? halved_pulse(t) : PASSED_ON_BYTES / 2;
}

/* The longest message of a pulse, but for halves. What goes down a tree to all is passed on when all of it is there, so
 * there messages are shorter. */
static uint64_t longest_message(const struct tt_triggered *t)
{
    if (sends_runs(t) || parts_of(t) > 1) {
        return TT_TRIGGERS_MESSAGE_BYTES;
    }
    return t->schedule.algorithm == TT_SCHEDULE_RABENSEIFNER ? halved_pulse(t) : PASSED_ON_BYTES;
}

/* Of what is longer. */
static uint64_t cut_message(const struct tt_triggered *t)
{
    return parts_of(t) > 1 && !sends_runs(t) ? APART_BYTES : longest_message(t);
}

/* Around a ring what would just be sent is announced instead, and put into a slot, where it is long enough: blocks are
 * cut into fewer messages, of about the same length. Of ranks' blocks, as else the bits would depend on how much is
 * sent. */
static uint64_t for_slots(const struct tt_triggered *t, uint64_t message, uint64_t block, uint32_t element_bytes)
{
    uint64_t most = sent_bytes(t) / element_bytes, pulses, longer;

    if (t->schedule.algorithm != TT_SCHEDULE_RING || !tt_schedule_has_rank_blocks(&t->schedule) || message > most ||
        message * element_bytes <= SLOTS_LEAST_BYTES) {
        return message;
    }
    pulses = tt_most(block / (most + 1), 1);
    longer = (block + pulses - 1) / pulses;
    return longer * element_bytes <= TT_TRIGGERS_MESSAGE_BYTES ? longer : message;
}

/* All ports are busy, equally often, with messages that are worth it. In whole elements: a part may not come out
 * longer. */
static uint64_t pulse_elements(const struct tt_triggered *t, uint64_t elements, uint32_t element_bytes)
{
    uint64_t longest = longest_message(t) / element_bytes;
    uint64_t cut = tt_most(cut_message(t) / element_bytes, 1);
    uint64_t least = shortest_message(t) / element_bytes;
    uint64_t message = elements / TT_TRIGGERS_PORTS / parts_of(t);
    uint64_t rounds = message > longest ? (message + cut - 1) / cut : 1;

    message = (message + rounds - 1) / rounds;
    message = message > least ? message : least;
    message = for_slots(t, message, (elements + parts_of(t) - 1) / parts_of(t), element_bytes);
    return parts_of(t) * (message > 0 ? message : 1);
}

/* How many messages go out before the first one is read, where they do not depend on each other: as many as need no
 * answer soon, and do not fill the link, where what is read first would wait behind the last one. */
static uint32_t sends_ahead(const struct tt_triggered *t, uint64_t elements, uint32_t element_bytes)
{
    enum { AHEAD_BYTES = 8 * 1024 };
    uint64_t message = tt_least(t->terms.pulse_elements, elements) / parts_of(t) * element_bytes;

    return (uint32_t)tt_least(message > 0 ? AHEAD_BYTES / message : TT_TRIGGERS_COPIES, TT_TRIGGERS_COPIES);
}

/* --- Memory ------------------------------------------------------------------------------------------------------- */

/* Where the vector is, of which a rank of a direct schedule touches only what it gives or gets. */
struct place {
    struct tt_combine_range range;
    uint8_t *memory;    /* NULL: the request's own */
    const void *source; /* all of the vector as this rank gives it; NULL: what it gives is copied */
};

static bool is_same(struct tt_combine_range a, struct tt_combine_range b)
{
    return a.first == b.first && a.count == b.count;
}

/* What this rank is to have combined, or to get, once the schedule has ended, and where. Of parts it is the own one, in
 * the buffer that is multicast. */
static struct tt_combine_range result_of(const struct tt_request *request, uint8_t **memory)
{
    const struct tt_request_options *options = &request->options;
    bool by_parts = tt_method_row(options->method)->by_parts;
    struct tt_combine_range range =
        by_parts ? tt_combine_part(request, request->group->rank) : tt_combine_gets(request);

    *memory = by_parts ? request->buffer + range.first * request->element_bytes : options->receive;
    return range;
}

static struct place place_of(const struct tt_request *request)
{
    const struct tt_request_options *options = &request->options;
    const struct tt_triggered *t = request->triggered;
    bool combines = tt_kind_row(options->kind)->combines, is_direct = t->schedule.algorithm == TT_SCHEDULE_DIRECT;
    struct tt_combine_range all = tt_combine_all(request), gives = tt_combine_gives(request), gets;
    struct place place = {.range = all};
    uint8_t *result;

    gets = result_of(request, &result);
    if (is_same(gives, all) && t->scaled != NULL) {
        place.source = t->scaled;
    } else if (is_same(gives, all) && options->combining.factor == NULL) {
        place.source = request->source;
    }
    /* Who combines writes his part alone, and reads the others where they are given; who does not, sends or gets. */
    if (is_direct && combines && gets.count > 0 && place.source != NULL) {
        place.range = gets;
    } else if (is_direct && !combines && !is_same(gives, all) && !is_same(gets, all)) {
        place.range = gets.count > 0 ? gets : gives;
    }
    if (is_same(place.range, gets)) {
        place.memory = result;
    } else if (!combines && is_same(place.range, gives)) { /* it only sends */
        place.memory = (uint8_t *)(uintptr_t)request->source;
    } else if (place.source != NULL && tt_method_row(options->method)->by_parts) {
        /* What others multicast replaces sums that are on their way to it, and comes only once these have been read. */
        place.memory = request->buffer;
    } else if (is_direct && combines && gets.count == 0 && place.source != NULL) { /* it only sends, too */
        place.memory = (uint8_t *)(uintptr_t)place.source;
    }
    if (place.source == place.memory && is_same(place.range, all)) {
        place.source = NULL; /* in place */
    }
    return place;
}

/* By place in the schedule: its ranks; NULL: as they are numbered. A ring enters and leaves each host once, so the
 * host's link carries what one rank sends and another one reads, however many there are. */
static const uint32_t *places_of(const struct tt_request *request, const struct tt_triggered *t)
{
    return t->schedule.algorithm == TT_SCHEDULE_RING ? request->group->around : NULL;
}

static uint32_t own_place(const struct tt_request *request, const uint32_t *places)
{
    uint32_t place = 0;

    if (places == NULL) {
        return request->group->rank;
    }
    while (places[place] != request->group->rank) {
        place++;
    }
    return place;
}

/* The blocks of a schedule whose blocks are ranks', by place; else the vector is cut evenly. */
static bool lay_out_blocks(const struct tt_request *request, struct tt_triggered *t)
{
    const uint32_t *places = places_of(request, t);
    uint32_t count = tt_schedule_block_count(&t->schedule);
    uint64_t *firsts;

    t->blocks = (struct tt_blocks){.block_count = count, .slice_count = tt_combine_all(request).count};
    if (!tt_schedule_has_rank_blocks(&t->schedule)) {
        return true;
    }
    assert(count == request->group->size);
    firsts = calloc((size_t)2 * count, sizeof *firsts);
    if (firsts == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct tt_combine_range part = tt_combine_part(request, places != NULL ? places[i] : i);

        firsts[i] = part.first;
        firsts[count + i] = part.count;
    }
    t->blocks.firsts = firsts;
    t->blocks.counts = firsts + count;
    return true;
}

static tutti_status register_region(const struct tt_request *request, struct tt_triggers_region *region,
                                    const void *memory, uint64_t length_bytes)
{
    struct tt_p2p *p2p = request->group->network->p2p;
    size_t key_bytes = sizeof region->key;
    tutti_status status;

    region->address = memory;
    region->length_bytes = length_bytes;
    status = p2p->ops->memory_register(p2p, (void *)(uintptr_t)memory, length_bytes, &region->memory);
    if (status != TUTTI_OK) {
        region->memory = NULL;
        return status;
    }
    status = p2p->ops->memory_pack(region->memory, region->key, &key_bytes);
    if (status == TUTTI_OK && key_bytes > TT_TRIGGER_FRAME_MAX_KEY_BYTES) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED, "a key of %zu bytes: packets have room for %d",
                        key_bytes, TT_TRIGGER_FRAME_MAX_KEY_BYTES);
    }
    region->key_bytes = (uint32_t)key_bytes;
    return status;
}

static tutti_status no_memory(uint64_t bytes)
{
    return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a request of %llu bytes",
                    (unsigned long long)bytes);
}

/* --- Creation ----------------------------------------------------------------------------------------------------- */

static tutti_status check_order(const struct tt_request *request, const struct tt_triggered *t)
{
    const char *word = tt_method_word(request->options.kind, request->options.method);

    if (tt_kind_row(request->options.kind)->combines && request->options.combining.keeps_order &&
        !tt_schedule_keeps_order(&t->schedule)) {
        return tt_error(
            TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED,
            "algorithm %s: it cannot keep the order of ranks, which a function that is not commutative needs", word);
    }
    return TUTTI_OK;
}

static tutti_status prepare_operation(struct tt_request *request, struct tt_triggered *t, const struct place *place)
{
    const uint32_t *places = places_of(request, t);
    uint64_t elements = tt_combine_all(request).count;
    uint64_t least = t->blocks.counts != NULL ? t->blocks.block_count : 1; /* elements: one of each block */
    size_t bytes;

    t->first_bytes = place->range.first * request->element_bytes;
    t->terms = (struct tt_operation_terms){
        .compile = {.schedule = &t->schedule,
                    .blocks = &t->blocks,
                    .rank = own_place(request, places),
                    .nodes = places,
                    .element_bytes = request->element_bytes},
        .lane_count = TT_TRIGGERS_PORTS,
        .pulse_elements = pulse_elements(t, elements, request->element_bytes),
        .buffer = place->memory,
        .window = {place->range.first, place->range.count},
        .source = place->source,
        .reduction = tt_kind_row(request->options.kind)->combines ? &request->reduction : NULL,
        .retry_ns = TT_NS_PER_MS};
    if (t->terms.pulse_elements < least) {
        t->terms.pulse_elements = least;
    }
    t->terms.compile.ahead = sends_ahead(t, elements, request->element_bytes);
    if (t->terms.pulse_elements * request->element_bytes > parts_of(t) * TT_TRIGGERS_MESSAGE_BYTES) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_TOO_LARGE,
                        "elements of %u bytes; algorithm %s among %u ranks: %llu is the most", request->element_bytes,
                        tt_method_word(request->options.kind, request->options.method), request->group->size,
                        (unsigned long long)(parts_of(t) * TT_TRIGGERS_MESSAGE_BYTES / least));
    }
    bytes = tt_operation_memory_bytes(&t->terms);
    assert(bytes > 0);
    t->memory = calloc(1, bytes);
    if (t->memory == NULL) {
        return no_memory(bytes);
    }
    tt_operation_init(&t->operation, &t->terms, t->memory);
    return TUTTI_OK;
}

static tutti_status prepare(struct tt_request *request, struct tt_triggered *t)
{
    const struct tt_request_options *options = &request->options;
    bool is_scaled = tt_method_row(options->method)->by_parts && options->combining.factor != NULL;
    enum tt_schedule_algorithm algorithm = schedule_algorithm(request);
    uint64_t length_bytes, all_bytes = tt_combine_all(request).count * request->element_bytes;
    struct tt_triggers *triggers;
    struct place place;
    tutti_status status;

    if (!tt_schedule_init(&t->schedule, schedule_collective(options, algorithm), algorithm, request->group->size,
                          options->root)) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED, "algorithm %s: a %s has none",
                        tt_method_word(options->kind, options->method), tt_kind_word(options->kind));
    }
    status = check_order(request, t);
    if (status != TUTTI_OK || request->group->size == 1) {
        return status;
    }
    if (tt_method_row(options->method)->by_parts) {
        request->collective.config.parts_by = (uint8_t)algorithm;
    }
    if (is_scaled) {
        t->scaled = tt_pages_allocate(options->block_bytes);
        if (t->scaled == NULL) {
            return no_memory(options->block_bytes);
        }
    }
    place = place_of(request);
    length_bytes = place.range.count * request->element_bytes;
    if (place.memory == NULL) {
        assert(request->scratch == NULL);
        request->scratch = place.memory = tt_pages_allocate(length_bytes);
    }
    if (place.memory == NULL || !lay_out_blocks(request, t)) {
        return no_memory(length_bytes);
    }
    status = prepare_operation(request, t, &place);
    if (status == TUTTI_OK) {
        status = register_region(request, &t->regions[0], place.memory, length_bytes);
    }
    if (status == TUTTI_OK && place.source != NULL) {
        status = register_region(request, &t->regions[1], place.source, all_bytes);
    }
    if (status == TUTTI_OK) {
        status = tt_triggers_find(request->group, &triggers);
    }
    return status == TUTTI_OK ? tt_triggers_connect(triggers, t) : status;
}

tutti_status tt_triggered_create(struct tt_request *request)
{
    struct tt_triggered *made = calloc(1, sizeof *made);
    tutti_status status;

    if (made == NULL) {
        return no_memory(sizeof *made);
    }
    made->request = request;
    request->triggered = made;
    status = prepare(request, made);
    return status;
}

static void release(struct tt_triggered *t)
{
    for (uint32_t i = 0; i < TT_TRIGGERS_REGIONS; i++) {
        if (t->regions[i].memory != NULL) {
            t->regions[i].memory->ops->memory_release(t->regions[i].memory);
            t->regions[i].memory = NULL;
        }
    }
}

void tt_triggered_destroy(struct tt_request *request)
{
    struct tt_triggered *t = request->triggered;

    if (t == NULL) {
        return;
    }
    assert(!t->is_queued);
    release(t);
    free((void *)(uintptr_t)t->blocks.firsts);
    free(t->scaled);
    free(t->memory);
    free(t);
}

/* --- A run -------------------------------------------------------------------------------------------------------- */

/* Where an element of the vector is in memory. */
static uint8_t *vector_at(const struct tt_request *request, uint64_t element)
{
    const struct tt_triggered *t = request->triggered;

    assert(element * request->element_bytes >= t->first_bytes);
    return (uint8_t *)t->terms.buffer + (element * request->element_bytes - t->first_bytes);
}

/* What this rank gives, in its place in the vector, if the engine does not read it from where it is. */
static void give(const struct tt_request *request)
{
    struct tt_combine_range gives = tt_combine_gives(request);

    if (request->triggered->scaled != NULL) {
        tt_combine_give(request, request->triggered->scaled, request->source, gives.count);
    } else if (request->triggered->terms.source == NULL && gives.count > 0) {
        tt_combine_give(request, vector_at(request, gives.first), request->source, gives.count);
    }
}

static void take(const struct tt_request *request)
{
    uint8_t *memory;
    struct tt_combine_range range = result_of(request, &memory);

    if (range.count > 0) {
        tt_combine_take(request, memory, vector_at(request, range.first), range.count);
    }
}

/* One rank alone: what it gives is what it gets. */
static void do_alone(const struct tt_request *request)
{
    uint64_t count = tt_combine_gets(request).count;

    if (count > 0) {
        tt_combine_give(request, request->options.receive, request->source, count);
        tt_combine_take(request, request->options.receive, request->options.receive, count);
    }
}

static void post(struct tt_request *request)
{
    if (request->group->size > 1) {
        tt_triggers_queue(request->group->triggers, request->triggered);
    }
}

static void start(struct tt_request *request)
{
    struct tt_triggered *t = request->triggered;

    assert(!request->relay_started);
    request->relay_started = true;
    if (request->group->size == 1) {
        do_alone(request);
        request->relay_done = request->group->stepping_needed = true;
        return;
    }
    give(request);
    tt_operation_again(&t->operation, &t->terms);
    tt_triggers_start(request->group->triggers, t);
}

void tt_triggered_ended(struct tt_triggered *triggered, tutti_status status)
{
    struct tt_request *request = triggered->request;
    struct tt_group *group = request->group;

    if (status == TUTTI_OK) {
        take(request);
    } else if (group->member.status == TUTTI_OK) {
        if (status != TUTTI_ERR_PEER_FAILED) { /* of that the group hears by its own event, and then cancels this */
            group->misfit = status;
            group->stepping_needed = true;
        }
        return;
    }
    request->relay_done = group->stepping_needed = true;
    tt_party_wake(&group->engine->parties, &group->party);
}

static void cancel(struct tt_request *request)
{
    assert(request->collective.status != TUTTI_OK);
    if (request->triggered->is_queued) {
        tt_triggers_cancel(request->group->triggers, request->collective.status);
        return;
    }
    request->relay_done = request->group->stepping_needed = true;
}

/* After an error others may still be reading here, and must not see what the application does from now on. */
static void end(struct tt_request *request)
{
    struct tt_triggered *t = request->triggered;

    if (t->is_queued) {
        tt_triggers_forget(request->group->triggers, t);
    }
    if (request->status != TUTTI_OK) {
        release(t);
    }
}

const struct tt_carrier tt_triggered_carrier = {.post = post, .start = start, .cancel = cancel, .end = end};
