/* SPDX-License-Identifier: BSD-3-Clause */
/* The device that does nothing by itself, and the queue on it. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "verbs_world.h"

struct verbs_fake fake;
struct verbs_world world;

static uint32_t index_of(const struct ibv_cq *queue)
{
    return queue == &fake.receive_queue;
}

/* --- What libibverbs would do ------------------------------------------------------------------------------------- */

static int fake_post_send(struct ibv_qp *pair, struct ibv_send_wr *request, struct ibv_send_wr **refused)
{
    uint32_t length = 0;
    (void)pair;
    for (; request != NULL; request = request->next, length++) {
        if (fake.refuse_from >= 0 && (int)length == fake.refuse_from) {
            *refused = request;
            return ENOMEM;
        }
        assert_int_equal(request->opcode, IBV_WR_SEND_WITH_IMM);
        assert_true(fake.send_count < MOST_POSTED);
        struct posted *posted = &fake.sends[fake.send_count++];
        *posted = (struct posted){.imm = ntohl(request->imm_data), .flags = request->send_flags, .id = request->wr_id};
        if (request->num_sge > 0) {
            posted->length_bytes = request->sg_list[0].length;
            posted->lkey = request->sg_list[0].lkey;
            posted->address = (const void *)(uintptr_t)request->sg_list[0].addr;
        }
    }
    fake.lists++;
    fake.longest_list = length > fake.longest_list ? length : fake.longest_list;
    return 0;
}

static int fake_post_recv(struct ibv_qp *pair, struct ibv_recv_wr *request, struct ibv_recv_wr **refused)
{
    (void)pair;
    (void)refused;
    for (; request != NULL; request = request->next) {
        assert_true(fake.receive_count < MOST_POSTED);
        fake.receives[fake.receive_count++] = (uint32_t)request->wr_id;
    }
    fake.receive_lists++;
    return 0;
}

static int fake_poll_cq(struct ibv_cq *queue, int count, struct ibv_wc *completions)
{
    uint32_t which = index_of(queue), taken = fake.completion_count[which];
    fake.polls++;
    if (fake.polls_fail) {
        return -1;
    }
    taken = taken < (uint32_t)count ? taken : (uint32_t)count;
    memcpy(completions, fake.completions[which], taken * sizeof(*completions));
    fake.completion_count[which] -= taken;
    memmove(fake.completions[which], fake.completions[which] + taken,
            fake.completion_count[which] * sizeof(*completions));
    return (int)taken;
}

static int fake_req_notify_cq(struct ibv_cq *queue, int solicited)
{
    void (*between)(void) = fake.between;
    assert_int_equal(solicited, 0);
    fake.notifies[index_of(queue)]++;
    fake.between = NULL;
    if (between != NULL) {
        between();
    }
    return 0;
}

/* These take the place of the library's own functions of the same names. */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    uint32_t which = (uint32_t)channel->fd;
    *cq_context = NULL;
    *cq = which == 0 ? &fake.send_queue : &fake.receive_queue;
    if (fake.events[which] == 0) {
        return -1;
    }
    fake.events[which]--;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned nevents)
{
    assert_true(cq == &fake.send_queue || cq == &fake.receive_queue);
    assert_true(nevents > 0);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
    assert_ptr_equal(qp, &fake.pair);
    assert_int_equal(attr_mask, IBV_QP_STATE);
    assert_int_equal(attr->qp_state, IBV_QPS_ERR);
    fake.modified++;
    return 0;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    assert_ptr_equal(context, &fake.context);
    fake.async_reads++;
    if (fake.async_count == 0) {
        return -1;
    }
    *event = fake.async[--fake.async_count];
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    assert_non_null(event);
    fake.async_acks++;
}

/* --- A queue on it ------------------------------------------------------------------------------------------------ */

static uint64_t gid_tail(uint32_t address_be)
{
    uint32_t words[2] = {htonl(0xFFFF), address_be};
    uint64_t tail;
    memcpy(&tail, words, sizeof tail);
    return tail;
}

int verbs_set_up(void **state)
{
    uint32_t nobody;
    (void)state;
    memset(&fake, 0, sizeof fake);
    memset(&world, 0, sizeof world);
    fake.refuse_from = -1;
    fake.context.ops.post_send = fake_post_send;
    fake.context.ops.post_recv = fake_post_recv;
    fake.context.ops.poll_cq = fake_poll_cq;
    fake.context.ops.req_notify_cq = fake_req_notify_cq;
    fake.send_queue.context = fake.receive_queue.context = fake.pair.context = &fake.context;
    world.channels[0].fd = 0;
    world.channels[1].fd = 1;
    world.device = (struct tt_verbs_device){.gid_is_ipv4 = true, .mtu_bytes = 4096};
    world.mcast = (struct tt_verbs_mcast){
        .device = &world.device, .receive_slots = SLOTS, .slot_bytes = TT_VERBS_SLOT_HEAD_BYTES + 4096};
    world.queue.mcast = &world.mcast;
    world.queue.sender.pair = world.queue.receiver.pair = &fake.pair;
    world.queue.options = (struct tt_mcast_queue_options){.rank = RANK, .chunk_bytes = CHUNK_BYTES};
    struct tt_verbs_sender *sender = &world.queue.sender;
    sender->completions = (struct tt_verbs_completions){&world.channels[0], &fake.send_queue};
    sender->max_inline_bytes = INLINE_BYTES;
    sender->copies = world.copies;
    world.copies_region.lkey = 77;
    sender->copies_region = &world.copies_region;
    for (uint32_t i = 0; i < TT_VERBS_SEND_BATCH; i++) {
        sender->requests[i] = (struct ibv_send_wr){.sg_list = &sender->pieces[i], .opcode = IBV_WR_SEND_WITH_IMM};
    }
    struct tt_verbs_receiver *receiver = &world.queue.receiver;
    receiver->completions = (struct tt_verbs_completions){&world.channels[1], &fake.receive_queue};
    receiver->staging = world.staging;
    receiver->requests = world.requests;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        world.requests[slot].wr_id = slot;
    }
    assert_true(tt_verbs_sources_bytes(2) <= sizeof world.table);
    struct tt_verbs_sources *sources = tt_verbs_sources_init(world.table, 2);
    assert_true(tt_verbs_sources_add(sources, &(struct tt_verbs_source){{0, gid_tail(OTHER_ADDRESS)}, 0x11, OTHER_RANK},
                                     &nobody));
    assert_true(
        tt_verbs_sources_add(sources, &(struct tt_verbs_source){{0, gid_tail(OWN_ADDRESS)}, 0x12, RANK}, &nobody));
    atomic_store(&receiver->sources, sources);
    return 0;
}
