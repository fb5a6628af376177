/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "cli/bench_integer.h"
#include "cli/bench_pattern.h"

struct tutti_context {
    int unused;
};
struct tutti_group {
    int unused;
};
struct tutti_request {
    enum role role;
    bool is_broadcast, is_reduction, is_barrier;
    const uint8_t *send;
    uint8_t *receive;
    uint64_t length_bytes;
    uint32_t root;
    uint64_t timeout_ns;
};

struct fake_library fake;
struct fake_asked asked;

static tutti_context the_context;
static tutti_group the_group;

const char *tutti_last_error(void)
{
    return tt_last_error();
}

tutti_status tutti_context_create(const tutti_context_options *options, tutti_context **context)
{
    assert_int_equal(options->struct_size, sizeof(*options));
    fake.live++;
    *context = &the_context;
    return TUTTI_OK;
}

tutti_status tutti_context_destroy(tutti_context *context)
{
    fake.live -= context != NULL ? 1 : 0;
    return TUTTI_OK;
}

tutti_status tutti_group_create_from_environment(tutti_context *context, tutti_group **group)
{
    assert_ptr_equal(context, &the_context);
    if (fake.group_status != TUTTI_OK) {
        return tt_error(TT_PART_API, fake.group_status, "rank 2 never came");
    }
    fake.live++;
    *group = &the_group;
    return TUTTI_OK;
}

tutti_status tutti_group_destroy(tutti_group *group)
{
    fake.live -= group != NULL ? 1 : 0;
    return TUTTI_OK;
}

uint32_t tutti_group_rank(const tutti_group *group)
{
    (void)group;
    return fake.rank;
}

uint32_t tutti_group_size(const tutti_group *group)
{
    (void)group;
    return RANKS;
}

int tutti_group_failed_rank(const tutti_group *group)
{
    (void)group;
    return fake.failed_rank;
}

tutti_status tutti_group_query(const tutti_group *group, tutti_group_info *info)
{
    (void)group;
    assert_int_equal(info->struct_size, sizeof(*info));
    info->mcast_provider = "udp";
    info->p2p_provider = "ucx";
    info->endpoints = "none";
    info->multicast = true;
    return TUTTI_OK;
}

tutti_status tutti_group_counters(const tutti_group *group, tutti_counters *counters)
{
    (void)group;
    assert_int_equal(counters->struct_size, sizeof(*counters));
    *counters = fake.counters;
    counters->struct_size = sizeof(*counters);
    return TUTTI_OK;
}

static tutti_request *new_request(const void *send, void *receive, uint64_t length_bytes, enum role role)
{
    tutti_request *request = calloc(1, sizeof(*request));
    assert_non_null(request);
    request->role = role;
    request->send = send;
    request->receive = receive;
    request->length_bytes = length_bytes;
    fake.live++;
    return request;
}

tutti_status tutti_broadcast_init(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                                  uint32_t root, const tutti_request_options *options, tutti_request **request)
{
    assert_ptr_equal(group, &the_group);
    assert_int_equal(options->algorithm, TUTTI_ALGORITHM_AUTO); /* nobody asked for one */
    fake.measured_inits++;
    *request = new_request(send, receive, length_bytes, ROLE_MEASURED);
    fake.last = ROLE_MEASURED;
    (*request)->is_broadcast = true;
    (*request)->root = root;
    return TUTTI_OK;
}

/* The loop's order of inits tells the requests apart: first the gather, then for every size the barrier and its own. */
tutti_status tutti_allgather_init(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                                  const tutti_request_options *options, tutti_request **request)
{
    enum role role = fake.live == 2 ? ROLE_GATHER : fake.last == ROLE_BARRIER ? ROLE_MEASURED : ROLE_BARRIER;
    assert_ptr_equal(group, &the_group);
    if (role == ROLE_BARRIER) {
        assert_int_equal(length_bytes, 0);
        fake.barrier_timeout_ns = options->timeout_ns;
    }
    if (role == ROLE_GATHER) {
        fake.gather_timeout_ns = options != NULL ? options->timeout_ns : 0;
    }
    fake.measured_inits += role == ROLE_MEASURED ? 1 : 0;
    fake.last = role;
    *request = new_request(send, receive, length_bytes, role);
    return TUTTI_OK;
}

tutti_algorithm tutti_request_algorithm(const tutti_request *request)
{
    return request->is_broadcast ? TUTTI_ALGORITHM_CHAIN : TUTTI_ALGORITHM_RING;
}

static tutti_request *new_reduction(const void *send, void *receive, uint64_t count, tutti_type type,
                                    tutti_operation operation, const tutti_reduction_options *reduction, uint32_t root)
{
    assert_int_equal(reduction->struct_size, sizeof(*reduction));
    asked.count = count;
    asked.type = type;
    asked.operation = operation;
    asked.options = *reduction;
    asked.send = send;
    asked.receive = receive;
    asked.root = root;
    fake.measured_inits++;
    fake.last = ROLE_MEASURED;
    tutti_request *request = new_request(send, receive, count * sizeof(int32_t), ROLE_MEASURED);
    request->is_reduction = true;
    return request;
}

tutti_status tutti_reduce_init(tutti_group *group, const void *send, void *receive, uint64_t count, tutti_type type,
                               tutti_operation operation, const tutti_reduction_options *reduction, uint32_t root,
                               const tutti_request_options *options, tutti_request **request)
{
    assert_ptr_equal(group, &the_group);
    assert_non_null(options);
    *request = new_reduction(send, receive, count, type, operation, reduction, root);
    return TUTTI_OK;
}

tutti_status tutti_allreduce_init(tutti_group *group, const void *send, void *receive, uint64_t count, tutti_type type,
                                  tutti_operation operation, const tutti_reduction_options *reduction,
                                  const tutti_request_options *options, tutti_request **request)
{
    return tutti_reduce_init(group, send, receive, count, type, operation, reduction, 0, options, request);
}

tutti_status tutti_reduce_scatter_init(tutti_group *group, const void *send, void *receive, uint64_t count,
                                       tutti_type type, tutti_operation operation,
                                       const tutti_reduction_options *reduction, const tutti_request_options *options,
                                       tutti_request **request)
{
    return tutti_reduce_init(group, send, receive, count, type, operation, reduction, 0, options, request);
}

tutti_status tutti_gather_init(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                               uint32_t root, const tutti_request_options *options, tutti_request **request)
{
    (void)root;
    return tutti_allgather_init(group, send, receive, length_bytes, options, request);
}

tutti_status tutti_scatter_init(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                                uint32_t root, const tutti_request_options *options, tutti_request **request)
{
    (void)send;
    return tutti_broadcast_init(group, send, receive, length_bytes, root, options, request);
}

tutti_status tutti_barrier_init(tutti_group *group, const tutti_request_options *options, tutti_request **request)
{
    assert_ptr_equal(group, &the_group);
    assert_non_null(options);
    fake.measured_inits++;
    fake.last = ROLE_MEASURED;
    *request = new_request(NULL, NULL, 0, ROLE_MEASURED);
    (*request)->is_barrier = true;
    return TUTTI_OK;
}

/* What an allreduce, or a reduce at its root, leaves: the sum of all ranks' elements. */
static void deliver_sum(const tutti_request *request)
{
    struct tt_bench_elements elements;
    uint64_t sums[TT_BENCH_RUN / 2];
    uint64_t length = request->length_bytes;
    tt_bench_elements_init(&elements, TT_TYPE_INT32, TT_REDUCE_SUM, RANKS);
    for (uint64_t at = 0; at < length; at += sizeof(sums)) {
        tt_bench_integer_expect(&elements, (uint64_t)fake.round, at / sizeof(sums), sums);
        memcpy(request->receive + at, sums, length - at < sizeof(sums) ? length - at : sizeof(sums));
    }
}

static uint32_t owner_of(const tutti_request *request, uint32_t block)
{
    return request->is_broadcast ? request->root : block;
}

/* Plays all ranks' part of one round. */
static void deliver(const tutti_request *request)
{
    uint64_t round = (uint64_t)fake.round;
    uint64_t size = request->length_bytes;
    uint32_t blocks = request->is_broadcast ? 1 : RANKS;
    bool is_root = request->is_broadcast && request->root == fake.rank;
    if (request->is_barrier) {
        return;
    }
    if (request->is_reduction) {
        deliver_sum(request);
        blocks = 0;
    }
    for (uint32_t block = 0; block < blocks; block++) {
        struct tt_pattern_error first;
        uint8_t *to = request->receive + block * size;
        uint64_t wrong = tt_pattern_check(to, size, owner_of(request, block), round, &first);
        fake.was_poisoned = fake.was_poisoned && wrong == (is_root ? 0 : size);
        tt_pattern_fill(to, size, owner_of(request, block), round);
    }
    if (fake.round == fake.skip_in_round) {
        fake.skipped = &request->receive[size - 1];
        *fake.skipped ^= 0x40;
    }
    if (fake.round == fake.overrun_in_round) {
        request->receive[blocks * size] ^= 0x40;
    }
    fake.counters.mcast_bytes_sent += 1000;
    fake.counters.p2p_bytes_sent += 10;
    fake.counters.mcast_datagrams_sent += 1;
    fake.counters.chunks_repaired += fake.loses_less ? 10 - (unsigned)fake.round % 10 : 2;
}

tutti_status tutti_post(tutti_request *request)
{
    switch (request->role) {
    case ROLE_BARRIER:
        fake.aligned = true;
        if (fake.mends && fake.skipped != NULL) {
            *fake.skipped ^= 0x40;
            fake.skipped = NULL;
        }
        fake.counters.p2p_bytes_sent += 77777; /* must not be found in any result */
        break;
    case ROLE_MEASURED:
        assert_true(fake.aligned);
        fake.aligned = false;
        if (fake.round != fake.fail_in_round) {
            deliver(request);
        }
        break;
    case ROLE_GATHER:
        /* All ranks measured the same, but what is late. */
        assert_int_equal(request->receive != NULL, fake.rank == 0);
        fake.gathers++;
        if (request->receive == NULL) {
            break;
        }
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            memcpy(request->receive + rank * request->length_bytes, request->send, request->length_bytes);
        }
        if (fake.late_at_first) {
            uint64_t sample_ns;
            memcpy(&sample_ns, request->receive + 3 * request->length_bytes, sizeof(sample_ns));
            sample_ns += LATE_US * UINT64_C(1000);
            memcpy(request->receive + 3 * request->length_bytes, &sample_ns, sizeof(sample_ns));
        }
        break;
    }
    return TUTTI_OK;
}

tutti_status tutti_wait(tutti_request *request)
{
    if (request->role != ROLE_MEASURED) {
        return TUTTI_OK;
    }
    if (fake.round++ == fake.fail_in_round) {
        fake.failed_rank = 3;
        return tt_error(TT_PART_API, TUTTI_ERR_PEER_FAILED, "rank 3 failed: connection reset");
    }
    return TUTTI_OK;
}

tutti_status tutti_finalize(tutti_request *request)
{
    fake.live -= request != NULL ? 1 : 0;
    free(request);
    return TUTTI_OK;
}
