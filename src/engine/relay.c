/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcasts through object groups. Normal path: every rank numbers a relay's requests as they are posted. Behind its
 * barrier the root sends, in the order of the numbers; the others give memory when they are asked for that of a number,
 * which their request of it has, since all ranks have posted before the root sends, and when their own barrier is over.
 * An object that is complete ends its request.
 *
 * Failures: the object group's failure is the group's, with the same status and rank, and ends all its requests; the
 * other way round the group's failure is told to the object group, which lets go of the memory. An object that no
 * request here waits for, or of another size, is a peer's error.
 */
#include "engine/relay.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "engine/locality.h"

enum { SPARE_OBJECTS = 8 }; /* beyond those in flight: REACHED takes its time */

static enum tt_rdmc_algorithm algorithm_of(enum tt_method method)
{
    static const enum tt_rdmc_algorithm algorithms[TT_METHOD_COUNT] = {
        [TT_METHOD_SEQUENTIAL] = TT_RDMC_SEQUENTIAL,
        [TT_METHOD_BINOMIAL_TREE] = TT_RDMC_BINOMIAL_TREE,
        [TT_METHOD_BINOMIAL_PIPELINE] = TT_RDMC_BINOMIAL_PIPELINE,
        [TT_METHOD_HYBRID] = TT_RDMC_HYBRID};

    assert(tt_method_row(method)->by_objects);
    return algorithms[method];
}

/* --- Creation ----------------------------------------------------------------------------------------------------- */

/* The ranks from the root on; for the hybrid host by host, each host at the place of its first rank. `rack_firsts` has
 * room for all; returns how many racks there are, 0 without. */
static uint32_t order_members(const struct tt_group *group, enum tt_method method, uint32_t root, uint32_t *members,
                              uint32_t *rack_firsts)
{
    uint32_t rack_count = 0;

    if (algorithm_of(method) != TT_RDMC_HYBRID) {
        for (uint32_t i = 0; i < group->size; i++) {
            members[i] = tt_rank_add(root, i, group->size);
        }
        return 0;
    }
    tt_locality_around(group->hosts, group->size, root, members);
    for (uint32_t i = 0; i < group->size; i++) {
        if (i == 0 || group->hosts[members[i]] != group->hosts[members[i - 1]]) {
            rack_firsts[rack_count++] = i;
        }
    }
    return rack_count;
}

static tutti_status create_objects(struct tt_relay *relay, uint32_t *members, uint32_t *rack_firsts)
{
    struct tt_group *group = relay->group;
    uint64_t key = tt_locality_key(tt_locality_key(group->party.key, UINT64_MAX - relay->method), relay->root);
    struct tt_objects_options options = {.name = {.key = key},
                                         .members = members,
                                         .member_count = group->size,
                                         .algorithm = algorithm_of(relay->method),
                                         .credit = TT_OBJECT_MAX_CREDIT,
                                         .object_count = (uint32_t)group->engine->settings.in_flight + SPARE_OBJECTS,
                                         .may_leave = true,
                                         .silence_ns = TT_NEVER, /* requests have deadlines */
                                         .deadline_ns = TT_NEVER};

    if (members == NULL || rack_firsts == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a broadcast among %u ranks", group->size);
    }
    options.rack_count = order_members(group, relay->method, relay->root, members, rack_firsts);
    options.rack_firsts = options.rack_count > 0 ? rack_firsts : NULL;
    options.owner = &group->party;
    return tt_objects_create(group, &options, &relay->objects);
}

tutti_status tt_relay_find(struct tt_group *group, enum tt_method method, uint32_t root, struct tt_relay **relay)
{
    struct tt_relay *made = group->relays;
    uint32_t *members, *rack_firsts;
    tutti_status status;

    assert(root < group->size);
    while (made != NULL && (made->method != method || made->root != root)) {
        made = made->next;
    }
    if (made != NULL) {
        *relay = made;
        return TUTTI_OK;
    }
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a request");
    }
    made->group = group;
    made->method = method;
    made->root = root;
    members = calloc(group->size, sizeof *members);
    rack_firsts = calloc(group->size, sizeof *rack_firsts);
    status = create_objects(made, members, rack_firsts);
    free(members);
    free(rack_firsts);
    if (status != TUTTI_OK) {
        free(made);
        return status;
    }
    made->next = group->relays;
    group->relays = made;
    *relay = made;
    return TUTTI_OK;
}

/* --- Requests ----------------------------------------------------------------------------------------------------- */

/* Numbers a request that is being posted. */
static void post(struct tt_request *request)
{
    assert(request->relay != NULL);
    request->relay_number = request->relay->posted++;
}

/* The request with this number, if it has been posted and has not ended; `in_flight`: nor waits in line. */
static struct tt_request *find_request(const struct tt_relay *relay, uint64_t number, bool in_flight)
{
    struct tt_request *request = number < relay->posted ? relay->group->active : NULL;

    while (request != NULL && (request->relay != relay || request->relay_number != number)) {
        request = in_flight ? tt_request_in_flight(request->next) : request->next;
    }
    return request;
}

static void fail_group(const struct tt_relay *relay, tutti_status status)
{
    const struct tt_objects *objects = relay->objects;
    uint32_t culprit = objects->machine.culprit;
    struct tt_member_event fail = {.type = TT_MEMBER_FAIL,
                                   .now_ns = tt_engine_now(relay->group->engine),
                                   .status = status,
                                   .rank = culprit == TT_OBJECT_NO_MEMBER ? TT_RANK_NONE : objects->members[culprit],
                                   .noticed_by = objects->members[objects->machine.noticed_by]};

    assert(status != TUTTI_OK);
    if (relay->group->member.status == TUTTI_OK) {
        tt_group_step(relay->group, &fail);
    }
}

/* At the root: what is its turn, as long as there is room. Called again whenever something has moved. */
static void send_next(struct tt_relay *relay)
{
    struct tt_request *request = find_request(relay, relay->sent, true);

    assert(relay->group->rank == relay->root);
    assert(relay->sent <= relay->posted);
    while (request != NULL && request->relay_started &&
           tt_object_group_may_send(&relay->objects->machine, request->options.block_bytes) != TUTTI_ERR_BUSY) {
        const void *send = request->options.send;
        tutti_status status;

        relay->sent++; /* first: what follows may come back here */
        status = tt_objects_send(relay->objects, send != NULL ? send : request->options.receive,
                                 request->options.block_bytes, send != NULL ? NULL : request->key, request->key_bytes);
        if (status != TUTTI_OK && relay->objects->machine.status == TUTTI_OK) {
            relay->group->trouble = status;
            relay->group->stepping_needed = true;
        }
        request = find_request(relay, relay->sent, true);
    }
}

/* All requests under way have ended: nothing comes through this relay any more. */
static void end_all(struct tt_relay *relay)
{
    for (struct tt_request *request = relay->group->active; request != NULL; request = request->next) {
        request->relay_done |= request->relay == relay;
    }
    relay->group->stepping_needed = true;
}

static void give_memory(struct tt_request *request)
{
    tt_objects_give(request->relay->objects, request->relay_number, request->options.receive, request->key,
                    request->key_bytes);
}

static void start(struct tt_request *request)
{
    assert(request->relay != NULL);
    assert(!request->relay_started);
    request->relay_started = true;
    request->relay_done |= request->relay->objects->machine.state == TT_OBJECT_FINISHED;
    request->group->stepping_needed = true; /* it may be complete */
    if (request->relay_offered && !request->relay_done) {
        give_memory(request);
    }
    if (request->group->rank == request->relay->root) {
        send_next(request->relay);
    }
}

static uint32_t member_of(const struct tt_objects *objects, uint32_t rank)
{
    for (uint32_t i = 0; i < objects->machine.config.member_count; i++) {
        if (objects->members[i] == rank) {
            return i;
        }
    }
    return TT_OBJECT_NO_MEMBER;
}

static void cancel(struct tt_request *request)
{
    struct tt_objects *objects = request->relay->objects;
    const struct tt_member *member = &request->group->member;
    struct tt_object_event fail = {.type = TT_OBJECT_FAIL,
                                   .status = request->collective.status,
                                   .member = member_of(objects, member->culprit),
                                   .noticed_by = member_of(objects, member->noticed_by)};

    assert(request->collective.status == member->status && member->status != TUTTI_OK);
    (void)tt_objects_step(objects, &fail);
    request->relay_done |= objects->machine.state == TT_OBJECT_FINISHED;
    request->group->stepping_needed = true;
}

const struct tt_carrier tt_relay_carrier = {.post = post, .start = start, .cancel = cancel};

/* --- Events ------------------------------------------------------------------------------------------------------- */

/* Not before the barrier is over here: a request that fails sooner ends without asking who has its buffer. */
static void take_offer(const struct tt_relay *relay, const struct tt_objects_event *event)
{
    struct tt_request *request = find_request(relay, event->sequence, false);

    assert(relay->group->rank != relay->root); /* who sends has its memory */
    if (relay->group->member.status != TUTTI_OK && request == NULL) {
        return; /* it has ended; all hear of that from the group */
    }
    if (request == NULL || request->options.block_bytes != event->size_bytes) {
        tutti_status status =
            tt_error(TT_PART_ENGINE, TUTTI_ERR_PROTOCOL, "rank %u broadcasts %llu bytes, which nobody has posted here",
                     relay->root, (unsigned long long)event->size_bytes);

        tt_objects_refuse(relay->objects, event->sequence, status, tt_last_error());
        return;
    }
    if (request->relay_started) {
        give_memory(request);
    } else {
        request->relay_offered = true;
    }
}

static void take(struct tt_relay *relay, const struct tt_objects_event *event)
{
    struct tt_request *request;

    switch (event->type) {
    case TT_OBJECTS_INCOMING:
        take_offer(relay, event);
        break;
    case TT_OBJECTS_COMPLETE:
        request = find_request(relay, event->sequence, false);
        if (request != NULL) {
            request->relay_done = true;
            relay->group->stepping_needed = true;
        }
        break;
    case TT_OBJECTS_FAILED:
        end_all(relay);
        fail_group(relay, relay->objects->machine.status);
        break;
    case TT_OBJECTS_CLOSED:
        break;
    }
}

bool tt_relays_have_moved(const struct tt_group *group)
{
    const struct tt_relay *relay = group->relays;

    while (relay != NULL && !relay->objects->has_moved) {
        relay = relay->next;
    }
    return relay != NULL;
}

bool tt_relays_progress(struct tt_group *group)
{
    bool any = false;

    for (struct tt_relay *relay = group->relays; relay != NULL; relay = relay->next) {
        struct tt_objects_event event;

        relay->objects->has_moved = false; /* first: what follows may move it again */
        while (atomic_load_explicit(&relay->objects->has_events, memory_order_relaxed) &&
               tt_objects_take(relay->objects, &event)) {
            take(relay, &event);
            any = true;
        }
        if (group->rank == relay->root) {
            send_next(relay);
        }
    }
    return any;
}

void tt_relays_leave(struct tt_group *group)
{
    while (group->relays != NULL) {
        struct tt_relay *relay = group->relays;

        group->relays = relay->next;
        tt_objects_leave(relay->objects);
        free(relay);
    }
}

void tt_relay_check(const struct tt_relay *relay)
{
    const struct tt_objects *objects = relay->objects;

    assert(relay->root < relay->group->size);
    assert(relay->sent <= relay->posted);
    assert(relay->sent == 0 || relay->group->rank == relay->root);
    assert(objects->group == relay->group);
    assert(objects->owner == &relay->group->party);
    assert(objects->members[0] == relay->root);
    assert(objects->sent <= relay->sent);
    assert(objects->machine.config.member_count == relay->group->size);
}
