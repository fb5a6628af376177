/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public functions of requests. Arguments are checked here, all of them, before anything is made; what passes is the
 * engine's. A group that has failed refuses new requests and posts with its own error.
 */
#include <stdlib.h>
#include <string.h>

#include "api/create.h"
#include "base/log.h"

tutti_status tutti_broadcast_init(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                                  uint32_t root, const tutti_request_options *options, tutti_request **request)
{
    struct tt_request_options inner = {
        .kind = TT_BROADCAST, .receive = receive, .block_bytes = length_bytes, .root = root};
    tutti_status status;

    tt_clear_error();
    status = tt_api_check_common(group, options, request);
    if (status == TUTTI_OK) {
        status = tt_api_check_root(group, root);
    }
    if (status == TUTTI_OK) {
        status = tt_api_check_receive(receive, length_bytes, 1);
    }
    if (status == TUTTI_OK && root == group->group->rank) {
        status = tt_api_check_send(send, receive, receive, length_bytes, length_bytes, &inner.send);
    }
    return status == TUTTI_OK ? tt_api_create_request(group, &inner, options, request) : status;
}

tutti_status tutti_allgather_init(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                                  const tutti_request_options *options, tutti_request **request)
{
    struct tt_request_options inner = {.kind = TT_ALLGATHER, .receive = receive, .block_bytes = length_bytes};
    tutti_status status;

    tt_clear_error();
    status = tt_api_check_common(group, options, request);
    if (status == TUTTI_OK) {
        status = tt_api_check_receive(receive, length_bytes, group->group->size);
    }
    if (status == TUTTI_OK) {
        const uint8_t *block =
            length_bytes > 0 ? (const uint8_t *)receive + group->group->rank * length_bytes : receive;

        status = tt_api_check_send(send, block, receive, length_bytes * group->group->size, length_bytes, &inner.send);
    }
    return status == TUTTI_OK ? tt_api_create_request(group, &inner, options, request) : status;
}

tutti_algorithm tutti_request_algorithm(const tutti_request *request)
{
    const struct tt_request_options *options = &request->request->options;

    return (tutti_algorithm)tt_method_algorithm(options->kind, options->method);
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
    status = tt_api_group_status(inner->group);
    if (status != TUTTI_OK) {
        return status;
    }
    inner->status = TUTTI_OK;
    tt_combine_read(inner);
    atomic_store_explicit(&inner->done, false, memory_order_relaxed);
    tt_engine_post(inner->group->engine, &inner->post);
    return TUTTI_OK;
}

static tutti_status result(const struct tt_request *request)
{
    if (request->status == TUTTI_OK) {
        return TUTTI_OK;
    }
    atomic_store(&request->group->failure_told, true);
    return tt_error_note(request->status, "%s", request->error);
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
