/* SPDX-License-Identifier: BSD-3-Clause */
/* What the udp provider's queues share and what each has to itself, and how they adapt to paths without super-packets.
 */
#include <errno.h>
#include <malloc.h>
#include <netinet/udp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "fabric/udp/queue.h"
#include "skip.h"
#include "udp_fixture.h"

enum { DATAGRAM_BYTES = TT_DATAGRAM_HEADER_BYTES + 10 };

static struct tt_udp_receiver *receiver_of(struct tt_mcast_queue *queue)
{
    return &((struct tt_udp_queue *)queue)->receiver;
}

static uint32_t count_stagings(const struct tt_mcast *mcast)
{
    uint32_t count = 0;

    for (const struct tt_udp_staging *s = ((const struct tt_udp *)mcast)->stagings; s != NULL; s = s->next) {
        count++;
    }
    return count;
}

static void queue_itself_is_small(void **state)
{
    (void)state;
    assert_in_range(sizeof(struct tt_udp_queue), 1, 1024);
    /* And what a feeder has besides stays in a processor's second-level cache. */
    assert_in_range(sizeof(struct tt_udp_staging), 4 * TT_UDP_SLOT_BYTES, 288 * 1024);
}

static void staging_is_there_once_a_feeder_and_goes_with_its_last_queue(void **state)
{
    const uint32_t feeders[] = {5, 0, 5, 9};
    struct tt_mcast_queue *queues[4];
    struct tt_interface interface;

    (void)state;
    assert_int_equal(tt_interface_find("lo", &interface), TUTTI_OK);
    struct tt_mcast *mcast = udp_fixture_provider(&interface, TT_AUTO, false);
    assert_int_equal(count_stagings(mcast), 0);
    for (uint32_t i = 0; i < 4; i++) {
        struct tt_mcast_queue_options options = {
            .address = udp_fixture_address(), .chunk_bytes = 100, .feeder = feeders[i]};
        assert_int_equal(mcast->ops->attach(mcast, &options, &queues[i]), TUTTI_OK);
    }
    assert_int_equal(count_stagings(mcast), 3);
    assert_ptr_equal(receiver_of(queues[0])->staging, receiver_of(queues[2])->staging);
    assert_ptr_not_equal(receiver_of(queues[0])->staging, receiver_of(queues[1])->staging);
    mcast->ops->detach(queues[0]);
    assert_int_equal(count_stagings(mcast), 3);
    mcast->ops->detach(queues[2]);
    assert_int_equal(count_stagings(mcast), 2);
    mcast->ops->detach(queues[3]);
    mcast->ops->detach(queues[1]);
    assert_int_equal(count_stagings(mcast), 0);
    mcast->ops->destroy(mcast);
}

/* So that nobody waits for a page in a collective. */
static void all_of_the_staging_has_its_pages_from_the_first_queue_on(void **state)
{
    enum { PAGE_BYTES = 4096, PAGES = (sizeof(struct tt_udp_staging) + PAGE_BYTES - 1) / PAGE_BYTES };
    struct tt_mcast_queue_options options = {.address = udp_fixture_address(), .chunk_bytes = 100};
    unsigned char resident[PAGES];
    struct tt_mcast_queue *queue;
    struct tt_interface interface;

    (void)state;
    mallopt(M_PERTURB, 0); /* which would write to it */
    assert_int_equal(tt_interface_find("lo", &interface), TUTTI_OK);
    struct tt_mcast *mcast = udp_fixture_provider(&interface, TT_AUTO, false);
    assert_int_equal(mcast->ops->attach(mcast, &options, &queue), TUTTI_OK);
    assert_int_equal(mincore(receiver_of(queue)->staging, sizeof(struct tt_udp_staging), resident), 0);
    for (uint32_t page = 0; page < PAGES; page++) {
        assert_int_equal(resident[page] & 1, 1);
    }
    mcast->ops->detach(queue);
    mcast->ops->destroy(mcast);
}

/* Sends rounds of `round` chunks, numbers from 0 on, and receives each; returns the most that one poll brought. */
static uint32_t exchange(struct udp_fixture *fixture, uint32_t rounds, uint32_t round, uint32_t length_bytes)
{
    struct tt_receive_chunk chunks[UDP_FIXTURE_MAX];
    uint32_t most = 0;

    for (uint32_t i = 0; i < rounds; i++) {
        uint32_t came = 0;
        udp_fixture_send(fixture, 0, round, length_bytes, round);
        for (uint32_t n; (n = fixture->receiver->ops->poll(fixture->receiver, chunks, UDP_FIXTURE_MAX)) > 0;
             came += n) {
            most = n > most ? n : most;
            for (uint32_t c = 0; c < n; c++) {
                assert_int_equal(chunks[c].imm, came + c);
                assert_int_equal(chunks[c].length_bytes, length_bytes);
                udp_fixture_check(fixture, &chunks[c]);
            }
            fixture->receiver->ops->repost(fixture->receiver, chunks, n);
        }
        assert_int_equal(came, round);
    }
    return most;
}

static void queue_behind_a_path_that_never_merges_does_without_and_looks_again(void **state)
{
    const uint32_t sizes[] = {1452, 8192, 4076};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct udp_fixture fixture;
        udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = sizes[i], .plain_sender = true});
        struct tt_udp_sender *sender = &((struct tt_udp_queue *)fixture.sender)->sender;
        assert_true(receiver_of(fixture.receiver)->merging);
        assert_int_equal(exchange(&fixture, 2, 64, sizes[i]), 4); /* a slot of 64 KiB for each */
        assert_true(receiver_of(fixture.receiver)->merging);
        exchange(&fixture, 32, 64, sizes[i]);
        assert_false(receiver_of(fixture.receiver)->merging);
        assert_in_range(exchange(&fixture, 4, 64, sizes[i]), 28, 64);
        exchange(&fixture, 4, 64, 1); /* shorter than a slot */
        /* Super-packets now come as what they are made of. */
        sender->segmentation = true;
        exchange(&fixture, 4, 64, sizes[i]);
        assert_false(receiver_of(fixture.receiver)->merging);
        exchange(&fixture, 65536 / 64, 64, sizes[i]);
        assert_true(receiver_of(fixture.receiver)->merging);
        assert_true(exchange(&fixture, 40, 64, sizes[i]) > 4);
        assert_true(receiver_of(fixture.receiver)->merging);
        udp_fixture_close(&fixture);
    }
}

static void lone_and_short_datagrams_say_nothing_about_the_path(void **state)
{
    struct udp_fixture fixture;

    (void)state;
    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 1000});
    exchange(&fixture, 3000, 1, 1000);
    ((struct tt_udp_queue *)fixture.sender)->sender.segmentation = false;
    exchange(&fixture, 50, 64, 999);
    assert_int_equal(receiver_of(fixture.receiver)->evidence, 0);
    /* One super-packet is worth more than any number of single datagrams before it. */
    exchange(&fixture, 10, 64, 1000);
    assert_in_range(receiver_of(fixture.receiver)->evidence, 100, 1000);
    ((struct tt_udp_queue *)fixture.sender)->sender.segmentation = true;
    exchange(&fixture, 1, 2, 1000);
    assert_int_equal(receiver_of(fixture.receiver)->evidence, 0);
    assert_true(receiver_of(fixture.receiver)->merging);
    udp_fixture_close(&fixture);
}

static void poll_ends_though_foreign_datagrams_keep_coming(void **state)
{
    struct udp_fixture fixture;
    struct tt_receive_chunk chunk;

    (void)state;
    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 1000});
    assert_in_range(receiver_of(fixture.receiver)->capacity, 1000, 100000);
    receiver_of(fixture.receiver)->capacity = 8;
    int fd = udp_fixture_stranger(&fixture);
    for (int i = 0; i < 41; i++) {
        assert_int_equal(send(fd, "foreign", 7, 0), 7);
    }
    udp_fixture_send(&fixture, 0, 1, 1000, 1);
    uint32_t polls = 0;
    while (udp_fixture_poll_one(fixture.receiver, &chunk) == 0) {
        polls++;
        assert_in_range(polls, 1, 41);
        assert_int_equal(udp_fixture_counters(fixture.receiver).drops_key, 8 * polls < 41 ? 8 * polls : 41);
    }
    assert_int_equal(polls, 5);
    udp_fixture_check(&fixture, &chunk);
    close(fd);
    udp_fixture_close(&fixture);
}

static void super_packet_of_more_datagrams_than_a_member_sends_is_cut(void **state)
{
    enum { SENT = 2 * TT_UDP_SEGMENTS };
    struct udp_fixture fixture;
    uint8_t bytes[SENT * DATAGRAM_BYTES] = {0};
    int size = DATAGRAM_BYTES;

    (void)state;
    udp_fixture_open(&fixture, &(struct udp_fixture_options){.chunk_bytes = 10});
    int fd = udp_fixture_stranger(&fixture);
    for (uint32_t i = 0; i < SENT; i++) {
        struct tt_datagram header = {.key = fixture.options.address.key, .imm = i, .length_bytes = 10};
        tt_datagram_encode(&header, bytes + (size_t)i * DATAGRAM_BYTES);
        memcpy(bytes + (size_t)i * DATAGRAM_BYTES + TT_DATAGRAM_HEADER_BYTES,
               udp_fixture_chunk(&fixture, i, 10).address, 10);
    }
    assert_int_equal(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &size, sizeof(size)), 0);
    if (send(fd, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        assert_int_equal(errno, EINVAL);
        close(fd);
        udp_fixture_close(&fixture);
        TT_SKIP("this system sends no super-packets of %d datagrams", SENT);
    }
    assert_int_equal(udp_fixture_drain(&fixture, UDP_FIXTURE_MAX, SENT, NULL), TT_UDP_SEGMENTS);
    assert_int_equal(udp_fixture_counters(fixture.receiver).datagrams_received, SENT);
    assert_int_equal(udp_fixture_counters(fixture.receiver).drops_length, SENT - TT_UDP_SEGMENTS);
    close(fd);
    udp_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue_itself_is_small),
        cmocka_unit_test(staging_is_there_once_a_feeder_and_goes_with_its_last_queue),
        cmocka_unit_test(all_of_the_staging_has_its_pages_from_the_first_queue_on),
        cmocka_unit_test(queue_behind_a_path_that_never_merges_does_without_and_looks_again),
        cmocka_unit_test(lone_and_short_datagrams_say_nothing_about_the_path),
        cmocka_unit_test(poll_ends_though_foreign_datagrams_keep_coming),
        cmocka_unit_test(super_packet_of_more_datagrams_than_a_member_sends_is_cut),
    };
    tt_log_configure("none", NULL, (char[64]){0}, 64);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
