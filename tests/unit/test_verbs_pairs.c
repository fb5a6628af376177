/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the engine's threads get of a device for their multicast queues, in each category of endpoints: two receive
 * workers and the send worker, over the provider of fake_verbs.h. The control thread is the fourth.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "endpoint_fixture.h"
#include "engine/worker.h"
#include "fabric/verbs/mcast_queue.h"

enum { WORKERS = 2, QUEUES = 2, SLOTS = 128, MOST_CHANNELS = 8 };

static struct ibv_comp_channel channels[MOST_CHANNELS];
static uint32_t channel_count;

/* These take the place of the library's own functions of the same names. */
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct ibv_comp_channel *channel = &channels[channel_count++];

    *channel = (struct ibv_comp_channel){.context = context, .fd = eventfd(0, 0)};
    assert_true(channel->fd >= 0 && channel_count <= MOST_CHANNELS);
    return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    channel_count--;
    return close(channel->fd);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    return fake_calls.destroy_cq(cq);
}

static uint32_t pkey_indices, initialized;

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
    assert_non_null(qp);
    if (attr_mask & IBV_QP_PKEY_INDEX) {
        pkey_indices += attr->pkey_index;
        initialized++;
    }
    return 0;
}

/* --- A device and its queues -------------------------------------------------------------------------------------- */

static struct tt_verbs_device device;
static struct tt_verbs_mcast mcast;
static struct tt_verbs_queue queues[QUEUES];

static void open_device(enum tt_endpoint_category category)
{
    struct tt_endpoint_options options = endpoint_options(category, tt_workers_threads(WORKERS), 0);

    fake_reset();
    device = (struct tt_verbs_device){
        .calls = &fake_calls, .endpoints = endpoint_create(&options), .threads = options.threads, .name = "fake0"};
    device.shares_queue_pairs = tt_endpoint_recipe_of(tt_endpoints_made(device.endpoints)->effective)->one_for_all;
    mcast = (struct tt_verbs_mcast){.device = &device, .receive_slots = SLOTS};
    fake.trace[0] = '\0';
}

/* As attach does. */
static tutti_status open_queue(struct tt_verbs_queue *queue, uint32_t feeder, uint32_t sender)
{
    memset(queue, 0, sizeof(*queue));
    queue->mcast = &mcast;
    queue->options = (struct tt_mcast_queue_options){.feeder = feeder, .sender = sender};
    queue->receiver.lane = tt_verbs_lane(&device, feeder);
    queue->sender.lane = tt_verbs_lane(&device, sender);
    assert_true(tt_verbs_completions_init(&queue->receiver.completions, &device, queue->receiver.lane, SLOTS));
    assert_true(
        tt_verbs_completions_init(&queue->sender.completions, &device, queue->sender.lane, TT_VERBS_SEND_DEPTH));
    return tt_verbs_pairs_create(queue);
}

static void close_queue(struct tt_verbs_queue *queue)
{
    tt_verbs_pairs_destroy(queue);
    tt_verbs_completions_fini(&queue->sender.completions);
    tt_verbs_completions_fini(&queue->receiver.completions);
}

/* A queue for each receive worker. */
static void open_all(enum tt_endpoint_category category)
{
    open_device(category);
    for (uint32_t i = 0; i < QUEUES; i++) {
        assert_int_equal(open_queue(&queues[i], i, tt_workers_sender_index(WORKERS)), TUTTI_OK);
    }
}

static void close_all(void)
{
    for (uint32_t i = QUEUES; i-- > 0;) {
        close_queue(&queues[i]);
    }
    assert_int_equal(mcast.pairs, 0);
    assert_int_equal(channel_count, 0);
    endpoint_destroy(device.endpoints);
}

static const struct fake_object *pair_of(const struct ibv_qp *pair)
{
    return (const struct fake_object *)(const void *)pair;
}

/* --- The tests ---------------------------------------------------------------------------------------------------- */

static void each_category_has_its_sequence_of_calls(void **state)
{
    static const char *const traces[TT_ENDPOINT_CATEGORY_COUNT] = {
        [TT_ENDPOINT_MPI_EVERYWHERE] = "cqx cqx qp qp cqx cqx qp qp ",
        [TT_ENDPOINT_2XDYNAMIC] = "cqx cqx qp qp cqx cqx qp qp ",
        [TT_ENDPOINT_DYNAMIC] = "cqx cqx qp qp cqx cqx qp qp ",
        [TT_ENDPOINT_SHARED_DYNAMIC] = "cqx cqx qp qp cqx cqx qp qp ",
        [TT_ENDPOINT_STATIC] = "cqx cqx qp qp cqx cqx qp qp ",
        [TT_ENDPOINT_MPI_THREADS] = "cq cq qp cq cq qp ",
    };

    (void)state;
    for (unsigned i = 0; i < TT_ENDPOINT_CATEGORY_COUNT; i++) {
        open_all((enum tt_endpoint_category)i);
        assert_string_equal(fake.trace, traces[i]);
        close_all();
    }
}

/* The two workers' queue pairs, and the sender's two. */
static void threads_have_apart_what_their_category_gives_them(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TT_ENDPOINT_CATEGORY_COUNT; i++) {
        const struct tt_endpoint_recipe *recipe = tt_endpoint_recipe_of((enum tt_endpoint_category)i);
        bool has_domains = recipe->domains != TT_ENDPOINT_NO_DOMAINS;

        open_all((enum tt_endpoint_category)i);
        const struct fake_object *receives[QUEUES] = {pair_of(queues[0].receiver.pair),
                                                      pair_of(queues[1].receiver.pair)};
        const struct fake_object *sends[QUEUES] = {pair_of(queues[0].sender.pair), pair_of(queues[1].sender.pair)};

        assert_int_equal(receives[0] == sends[0], recipe->one_for_all);
        assert_int_equal(receives[0]->context != receives[1]->context, recipe->context_per_thread);
        assert_int_equal(receives[0]->context != sends[0]->context, recipe->context_per_thread);
        assert_ptr_equal(sends[0]->context, sends[1]->context); /* one thread */
        assert_int_equal(receives[0]->parent->kind, has_domains ? FAKE_PARENT : FAKE_PD);
        if (has_domains) {
            assert_ptr_equal(sends[0]->parent, sends[1]->parent);
            assert_int_equal(sends[0]->place.uuar, sends[1]->place.uuar);
            assert_int_not_equal(sends[0]->place.uuar, receives[0]->place.uuar);
            assert_int_not_equal(receives[0]->place.uuar, receives[1]->place.uuar);
            assert_int_equal(receives[0]->place.page == receives[1]->place.page,
                             recipe->domains == TT_ENDPOINT_PAIRED_DOMAINS);
        }
        close_all();
    }
}

static void queue_pair_that_only_sends_or_receives_takes_no_other_requests(void **state)
{
    (void)state;
    open_device(TT_ENDPOINT_STATIC);
    assert_int_equal(open_queue(&queues[0], 0, 1), TUTTI_OK); /* the last made is the sender's */
    assert_int_equal(fake.queue_pair.cap.max_send_wr, TT_VERBS_SEND_DEPTH);
    assert_int_equal(fake.queue_pair.cap.max_recv_wr, 0);
    assert_ptr_equal(fake.queue_pair.recv_cq, queues[0].sender.completions.queue);
    close_queue(&queues[0]);
    assert_int_equal(open_queue(&queues[0], 1, 1), TUTTI_OK);
    assert_ptr_equal(queues[0].sender.pair, queues[0].receiver.pair);
    assert_int_equal(fake.queue_pair.cap.max_send_wr, TT_VERBS_SEND_DEPTH);
    assert_int_equal(fake.queue_pair.cap.max_recv_wr, SLOTS);
    assert_ptr_equal(fake.queue_pair.recv_cq, queues[0].receiver.completions.queue);
    close_queue(&queues[0]);
    endpoint_destroy(device.endpoints);
}

static void both_queue_pairs_are_of_the_chosen_partition(void **state)
{
    (void)state;
    open_device(TT_ENDPOINT_STATIC);
    device.pkey_index = 3;
    pkey_indices = initialized = 0;
    assert_int_equal(open_queue(&queues[0], 0, 1), TUTTI_OK);
    assert_int_equal(tt_verbs_pairs_start(&queues[0]), TUTTI_OK);
    assert_int_equal(initialized, 2);
    assert_int_equal(pkey_indices, 6);
    close_queue(&queues[0]);
    endpoint_destroy(device.endpoints);
}

static void without_thread_domains_the_queue_pairs_are_those_of_static(void **state)
{
    struct tt_endpoint_options options = endpoint_options(TT_ENDPOINT_DYNAMIC, tt_workers_threads(WORKERS), 0);

    (void)state;
    fake_reset();
    fake.errors[FAKE_TD] = EOPNOTSUPP;
    struct tt_endpoints *endpoints = endpoint_create(&options);
    device = (struct tt_verbs_device){.calls = &fake_calls, .endpoints = endpoints, .threads = options.threads};
    mcast = (struct tt_verbs_mcast){.device = &device, .receive_slots = SLOTS};
    assert_string_equal(tt_verbs_device_endpoints(&device), "static");
    assert_int_equal(open_queue(&queues[0], 0, 2), TUTTI_OK);
    assert_int_equal(pair_of(queues[0].sender.pair)->parent->kind, FAKE_PD);
    close_queue(&queues[0]);
    endpoint_destroy(endpoints);
}

/* The receive worker's second queue pair is the third in all; that of the sender never comes about. */
static void no_more_queue_pairs_is_told_with_their_number(void **state)
{
    (void)state;
    open_device(TT_ENDPOINT_DYNAMIC);
    fake.limits[FAKE_QP] = 2;
    assert_int_equal(open_queue(&queues[0], 0, 2), TUTTI_OK);
    assert_int_equal(open_queue(&queues[1], 1, 2), TUTTI_ERR_NO_RESOURCE);
    assert_non_null(strstr(tt_last_error(), "a queue pair to receive, number 3 (endpoints dynamic, 4 threads)"));
    close_queue(&queues[1]);
    close_queue(&queues[0]);
    endpoint_destroy(device.endpoints);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_category_has_its_sequence_of_calls),
        cmocka_unit_test(threads_have_apart_what_their_category_gives_them),
        cmocka_unit_test(queue_pair_that_only_sends_or_receives_takes_no_other_requests),
        cmocka_unit_test(both_queue_pairs_are_of_the_chosen_partition),
        cmocka_unit_test(without_thread_domains_the_queue_pairs_are_those_of_static),
        cmocka_unit_test(no_more_queue_pairs_is_told_with_their_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
