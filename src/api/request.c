/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public functions of requests. Arguments are checked here, all of them, before anything is made; what passes is the
 * engine's. A group that has failed refuses new requests and posts with its own error.
 */
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/log.h"

static tutti_status group_status(const struct tt_group *group)
{
    if (atomic_load_explicit(&group->failed, memory_order_acquire)) {
        return tt_error_note(group->member.status, "%s", group->failure_text);
    }
    return TUTTI_OK;
}

static tutti_status check_common(const tutti_group *group, const tutti_request_options *options,
                                 tutti_request **request)
{
    if (group == NULL || request == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%s is NULL", group == NULL ? "group" : "request");
    }
    if (options != NULL && options->struct_size < sizeof *options) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "struct_size of the request options is %zu, not %zu",
                        options->struct_size, sizeof *options);
    }
    if (options != NULL && (unsigned)options->algorithm > TUTTI_ALGORITHM_HYBRID) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "algorithm %d does not exist",
                        (int)options->algorithm);
    }
    return group_status(group->group);
}

static bool overlap(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

static tutti_status check_receive(const void *receive, uint64_t bytes, uint32_t blocks)
{
    uint64_t limit = (UINT64_C(1) << 47) / blocks;

    if (bytes > limit) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%llu bytes from each of %u roots: more than memory",
                        (unsigned long long)bytes, blocks);
    }
    if (receive == NULL && bytes > 0) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "receive is NULL for %llu bytes",
                        (unsigned long long)bytes);
    }
    return TUTTI_OK;
}

/* Where the own block comes from: NULL if it is in place already. */
static tutti_status check_send(const void *send, const uint8_t *block, const void *receive, uint64_t receive_bytes,
                               uint64_t block_bytes, const void **source)
{
    if (send == TUTTI_IN_PLACE || send == block || block_bytes == 0) {
        *source = NULL;
        return TUTTI_OK;
    }
    if (send == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT,
                        "send is NULL for %llu bytes (TUTTI_IN_PLACE is another value)",
                        (unsigned long long)block_bytes);
    }
    if (overlap(send, block_bytes, receive, receive_bytes)) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT,
                        "send (%llu bytes at %p) overlaps receive (%llu bytes at %p)", (unsigned long long)block_bytes,
                        send, (unsigned long long)receive_bytes, receive);
    }
    *source = send;
    return TUTTI_OK;
}

/* The methods and the algorithms that move blocks are in the same order. */
static enum tt_method method_of_blocks(tutti_algorithm algorithm)
{
    return (enum tt_method)(TT_METHOD_SEQUENTIAL + (int)algorithm - (int)TUTTI_ALGORITHM_SEQUENTIAL);
}

/* What the setting ALGORITHM, or the table, says; all ranks know the same. */
static enum tt_method choose_by_size(const struct tt_group *group, const struct tt_choice_question *question)
{
    enum tt_method method;

    switch (group->engine->settings.algorithm) {
    case TT_ALGORITHM_AUTO:
        return tt_choice_of(&group->choice, question);
    case TT_ALGORITHM_EAGER:
        if (tt_choice_possible(question, TT_METHOD_EAGER)) {
            return TT_METHOD_EAGER;
        }
        break;
    case TT_ALGORITHM_GATHER:
        if (tt_choice_possible(question, TT_METHOD_GATHER)) {
            return TT_METHOD_GATHER;
        }
        break;
    case TT_ALGORITHM_TREE:
        return tt_choice_possible(question, TT_METHOD_TREE) ? TT_METHOD_TREE : TT_METHOD_RING;
    case TT_ALGORITHM_SEQUENTIAL:
    case TT_ALGORITHM_BINOMIAL_TREE:
    case TT_ALGORITHM_BINOMIAL_PIPELINE:
    case TT_ALGORITHM_HYBRID:
        method = method_of_blocks((tutti_algorithm)group->engine->settings.algorithm);
        return tt_choice_possible(question, method) && group->size > 1 ? method : TT_METHOD_RING;
    default:
        break;
    }
    return group->multicast ? TT_METHOD_MULTICAST : TT_METHOD_RING;
}

/* Sizes that an algorithm cannot serve are the engine's to refuse. */
static tutti_status choose_method(const struct tt_group *group, const struct tt_request_options *options,
                                  tutti_algorithm algorithm, enum tt_method *method)
{
    struct tt_choice_question question =
        tt_choice_question_for(options->kind, group->multicast, group->size, options->block_bytes);
    bool multicast = algorithm == TUTTI_ALGORITHM_MULTICAST || algorithm == TUTTI_ALGORITHM_EAGER ||
                     algorithm == TUTTI_ALGORITHM_GATHER;

    if (multicast && !group->multicast && group->size > 1) {
        return tt_error(TT_PART_API, TUTTI_ERR_NOT_SUPPORTED,
                        "algorithm %s: multicast is switched off in this group, or does not get through to every rank",
                        tt_algorithm_name((enum tt_algorithm)algorithm));
    }
    if (algorithm == TUTTI_ALGORITHM_AUTO) {
        *method = choose_by_size(group, &question);
    } else if (algorithm == TUTTI_ALGORITHM_TREE) {
        *method = TT_METHOD_TREE;
    } else if (algorithm >= TUTTI_ALGORITHM_SEQUENTIAL && group->size > 1) {
        *method = method_of_blocks(algorithm);
    } else if (algorithm == TUTTI_ALGORITHM_GATHER && group->size > 1) {
        *method = TT_METHOD_GATHER;
    } else if (algorithm == TUTTI_ALGORITHM_EAGER && group->size > 1) {
        *method = options->block_bytes > 0 || tt_choice_possible(&question, TT_METHOD_EAGER) ? TT_METHOD_EAGER
                                                                                             : TT_METHOD_MULTICAST;
    } else {
        *method = multicast && group->size > 1 ? TT_METHOD_MULTICAST : TT_METHOD_RING;
    }
    return TUTTI_OK;
}

static tutti_status create(tutti_group *group, struct tt_request_options *inner, const tutti_request_options *options,
                           tutti_request **request)
{
    struct tt_engine *engine = group->context->engine;
    tutti_algorithm algorithm = options != NULL ? options->algorithm : TUTTI_ALGORITHM_AUTO;
    tutti_request *made;
    tutti_status status = choose_method(group->group, inner, algorithm, &inner->method);

    if (status != TUTTI_OK) {
        return status;
    }
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_NO_MEMORY, "no memory for a request");
    }
    inner->timeout_ns = options != NULL ? options->timeout_ns : 0;
    tt_engine_lock(engine);
    status = tt_request_create(group->group, inner, &made->request);
    if (status == TUTTI_ERR_TOO_LARGE && algorithm == TUTTI_ALGORITHM_AUTO) {
        inner->method = TT_METHOD_RING; /* more chunks than PSNs: the ring has no such limit */
        tt_clear_error();
        status = tt_request_create(group->group, inner, &made->request);
    }
    tt_engine_unlock(engine);
    if (status != TUTTI_OK) {
        free(made);
        return status;
    }
    made->owner = group;
    *request = made;
    return TUTTI_OK;
}

tutti_status tutti_broadcast_init(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                                  uint32_t root, const tutti_request_options *options, tutti_request **request)
{
    struct tt_request_options inner = {
        .kind = TT_BROADCAST, .receive = receive, .block_bytes = length_bytes, .root = root};
    tutti_status status;

    tt_clear_error();
    status = check_common(group, options, request);
    if (status == TUTTI_OK && root >= group->group->size) {
        status = tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "root %u in a group of %u ranks", root,
                          group->group->size);
    }
    if (status == TUTTI_OK) {
        status = check_receive(receive, length_bytes, 1);
    }
    if (status == TUTTI_OK && root == group->group->rank) {
        status = check_send(send, receive, receive, length_bytes, length_bytes, &inner.send);
    }
    return status == TUTTI_OK ? create(group, &inner, options, request) : status;
}

tutti_status tutti_allgather_init(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                                  const tutti_request_options *options, tutti_request **request)
{
    struct tt_request_options inner = {.kind = TT_ALLGATHER, .receive = receive, .block_bytes = length_bytes};
    tutti_status status;

    tt_clear_error();
    status = check_common(group, options, request);
    if (status == TUTTI_OK) {
        status = check_receive(receive, length_bytes, group->group->size);
    }
    if (status == TUTTI_OK) {
        const uint8_t *block =
            length_bytes > 0 ? (const uint8_t *)receive + group->group->rank * length_bytes : receive;

        status = check_send(send, block, receive, length_bytes * group->group->size, length_bytes, &inner.send);
    }
    return status == TUTTI_OK ? create(group, &inner, options, request) : status;
}

tutti_algorithm tutti_request_algorithm(const tutti_request *request)
{
    const struct tt_request_options *options = &request->request->options;

    switch (options->method) {
    case TT_METHOD_MULTICAST:
        return TUTTI_ALGORITHM_MULTICAST;
    case TT_METHOD_EAGER:
        return TUTTI_ALGORITHM_EAGER;
    case TT_METHOD_TREE:
        return TUTTI_ALGORITHM_TREE;
    case TT_METHOD_GATHER:
        return TUTTI_ALGORITHM_GATHER;
    case TT_METHOD_SEQUENTIAL:
    case TT_METHOD_BINOMIAL_TREE:
    case TT_METHOD_BINOMIAL_PIPELINE:
    case TT_METHOD_HYBRID:
        return (tutti_algorithm)(TUTTI_ALGORITHM_SEQUENTIAL + (int)options->method - (int)TT_METHOD_SEQUENTIAL);
    default:
        return options->kind == TT_ALLGATHER ? TUTTI_ALGORITHM_RING : TUTTI_ALGORITHM_CHAIN;
    }
}

tutti_status tutti_post(tutti_request *request)
{
    struct tt_request *inner;
    tutti_status status;

    tt_clear_error();
    if (request == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "request is NULL");
    }
    inner = request->request;
    if (!atomic_load_explicit(&inner->done, memory_order_acquire)) {
        return tt_error(TT_PART_API, TUTTI_ERR_BUSY, "the request is in progress");
    }
    status = group_status(inner->group);
    if (status != TUTTI_OK) {
        return status;
    }
    inner->status = TUTTI_OK;
    atomic_store_explicit(&inner->done, false, memory_order_relaxed);
    tt_engine_post(inner->group->engine, inner);
    return TUTTI_OK;
}

static tutti_status result(const struct tt_request *request)
{
    return request->status == TUTTI_OK ? TUTTI_OK : tt_error_note(request->status, "%s", request->error);
}

tutti_status tutti_test(tutti_request *request, bool *done)
{
    struct tt_request *inner;

    tt_clear_error();
    if (request == NULL || done == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%s is NULL", request == NULL ? "request" : "done");
    }
    inner = request->request;
    if (!atomic_load_explicit(&inner->done, memory_order_acquire)) {
        tt_engine_poke(inner->group->engine);
    }
    *done = atomic_load_explicit(&inner->done, memory_order_acquire);
    return *done ? result(inner) : TUTTI_OK;
}

tutti_status tutti_wait(tutti_request *request)
{
    tt_clear_error();
    if (request == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "request is NULL");
    }
    if (!atomic_load_explicit(&request->request->done, memory_order_acquire)) {
        tt_engine_wait(request->request->group->engine, &request->request->done, TT_NEVER);
    }
    return result(request->request);
}

tutti_status tutti_finalize(tutti_request *request)
{
    struct tt_group *group;

    tt_clear_error();
    if (request == NULL) {
        return TUTTI_OK;
    }
    if (!atomic_load_explicit(&request->request->done, memory_order_acquire)) {
        return tt_error(TT_PART_API, TUTTI_ERR_BUSY, "the request is in progress");
    }
    group = request->request->group;
    tt_engine_lock(group->engine);
    tt_request_destroy(request->request);
    group->request_count--;
    tt_engine_unlock(group->engine);
    free(request);
    return TUTTI_OK;
}
