/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: round trip, sizes and multicast between the hosts of a job, and serving who measures.
 *
 * Normal path: a few pings, of which the shortest counts; one datagram of each size, and then the question which have
 * come, which travels behind them, so that a partner that waits for its core is only late.
 *
 * Failures: a question is repeated; a size that did not come is sent again, since it may have been lost. Nothing is
 * waited for beyond a time.
 */
#include "cli/doctor_exchange.h"

#include <string.h>

#include "cli/doctor_train.h"

enum { PINGS = 11, SILENT_TRIES = 16, SIZE_TRIES = 4, CALLS = 20, DONE_COPIES = 3 };

#define RETRY_NS    (50 * TT_NS_PER_MS)
#define SILENCE_NS  (1 * TT_NS_PER_S) /* of a partner, until it is given up */
#define CALL_GAP_NS (10 * TT_NS_PER_MS)
#define CALL_NS     (800 * TT_NS_PER_MS)

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

bool tt_doctor_expect(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner, uint16_t kind,
                      uint32_t number, uint64_t deadline_ns, struct tt_doctor_datagram *datagram)
{
    while (tt_doctor_next(doctor, doctor->fd, deadline_ns, datagram)) {
        const struct tt_doctor_header *header = &datagram->header;
        if (header->from == partner->index && header->kind == kind && header->number == number) {
            return true;
        }
    }
    return false;
}

static void say_done(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner)
{
    struct tt_doctor_header header = {.kind = TT_DOCTOR_DONE};
    for (int i = 0; i < DONE_COPIES; i++) {
        tt_doctor_send(doctor, &partner->address, &header, 0);
    }
}

/* --- Serving ------------------------------------------------------------------------------------------------------ */

uint32_t tt_doctor_serve(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner,
                         const uint32_t *sizes, uint32_t size_count)
{
    uint64_t end_ns = tt_clock_now_ns() + TT_DOCTOR_STEP_NS;
    uint32_t mask = 0, pings = 0;
    struct tt_doctor_datagram datagram;
    while (tt_doctor_next(doctor, doctor->fd, earlier(end_ns, tt_clock_now_ns() + SILENCE_NS), &datagram)) {
        struct tt_doctor_header *header = &datagram.header;
        if (header->from != partner->index) {
            continue;
        }
        if (header->kind == TT_DOCTOR_PING) {
            pings++;
            struct tt_doctor_header pong = {.kind = TT_DOCTOR_PONG, .number = header->number};
            tt_doctor_send(doctor, &partner->address, &pong, 0);
        } else if (header->kind == TT_DOCTOR_SIZE && header->number < size_count &&
                   datagram.payload_bytes == sizes[header->number]) {
            mask |= UINT32_C(1) << header->number;
        } else if (header->kind == TT_DOCTOR_ASK) {
            struct tt_doctor_header answer = {.kind = TT_DOCTOR_SIZES, .number = header->number, .value = mask};
            tt_doctor_send(doctor, &partner->address, &answer, 0);
        } else if (header->kind == TT_DOCTOR_ORDER) {
            tt_doctor_send_train(doctor, partner, header);
        } else if (header->kind == TT_DOCTOR_DONE) {
            break;
        }
    }
    return pings < UINT16_MAX ? pings : UINT16_MAX;
}

/* --- Asking ------------------------------------------------------------------------------------------------------- */

/* The shortest of some round trips; 0 if none came back. */
static uint32_t ping(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner, uint64_t end_ns)
{
    uint64_t shortest_ns = UINT32_MAX;
    uint32_t answers = 0, silent = 0;
    while (answers < PINGS && silent < SILENT_TRIES) {
        struct tt_doctor_header header = {.kind = TT_DOCTOR_PING, .number = answers + silent};
        struct tt_doctor_datagram datagram;
        uint64_t begun_ns = tt_clock_now_ns();
        tt_doctor_send(doctor, &partner->address, &header, 0);
        if (tt_doctor_expect(doctor, partner, TT_DOCTOR_PONG, header.number, earlier(end_ns, begun_ns + RETRY_NS),
                             &datagram)) {
            shortest_ns = earlier(shortest_ns, tt_clock_now_ns() - begun_ns);
            answers++;
        } else {
            silent++;
        }
    }
    return answers > 0 ? (uint32_t)shortest_ns : 0;
}

static bool ask(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner, uint32_t number,
                uint64_t end_ns, uint32_t *mask)
{
    struct tt_doctor_header header = {.kind = TT_DOCTOR_ASK, .number = number};
    struct tt_doctor_datagram datagram;
    for (int try = 0; try < SILENT_TRIES; try++) {
        tt_doctor_send(doctor, &partner->address, &header, 0);
        if (tt_doctor_expect(doctor, partner, TT_DOCTOR_SIZES, number, earlier(end_ns, tt_clock_now_ns() + RETRY_NS),
                             &datagram)) {
            *mask = datagram.header.value;
            return true;
        }
    }
    return false;
}

static uint32_t find_payload(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner,
                             const uint32_t *sizes, uint32_t size_count, uint64_t end_ns)
{
    uint32_t payload_bytes = 0;
    uint32_t came = 0;
    bool missing = true;
    for (uint32_t try = 0; try < SIZE_TRIES && missing; try++) {
        uint32_t accepted = 0;
        for (uint32_t i = 0; i < size_count; i++) {
            struct tt_doctor_header header = {.kind = TT_DOCTOR_SIZE, .number = i};
            /* What is larger than the own interface's MTU is refused at once. */
            if ((came & UINT32_C(1) << i) == 0 && tt_doctor_send(doctor, &partner->address, &header, sizes[i])) {
                accepted |= UINT32_C(1) << i;
            }
        }
        if (!ask(doctor, partner, try, end_ns, &came)) {
            return 0;
        }
        missing = (accepted & ~came) != 0;
    }
    for (uint32_t i = 0; i < size_count; i++) {
        payload_bytes = (came & UINT32_C(1) << i) != 0 ? sizes[i] : payload_bytes;
    }
    return payload_bytes;
}

void tt_doctor_reach(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner, const uint32_t *sizes,
                     uint32_t size_count, struct tt_path *path)
{
    uint64_t end_ns = tt_clock_now_ns() + TT_DOCTOR_STEP_NS;
    path->round_trip_ns = ping(doctor, partner, end_ns);
    path->payload_bytes = path->round_trip_ns > 0 ? find_payload(doctor, partner, sizes, size_count, end_ns) : 0;
    say_done(doctor, partner);
}

void tt_doctor_measure(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner, uint32_t payload_bytes,
                       struct tt_path *path)
{
    uint64_t end_ns = tt_clock_now_ns() + TT_DOCTOR_STEP_NS;
    uint32_t trains = 0;
    path->rate_kbit = tt_doctor_find_rate(doctor, partner, payload_bytes, end_ns, &trains);
    if (path->rate_kbit > 0) {
        tt_doctor_find_loss(doctor, partner, payload_bytes, end_ns, &trains, path);
    }
    say_done(doctor, partner);
}

void tt_doctor_call(struct tt_doctor_socket *doctor, uint32_t host_count, bool *heard)
{
    uint64_t next_ns = tt_clock_now_ns();
    uint64_t end_ns = next_ns + CALL_NS;
    uint32_t missing = host_count - 1;
    int calls = 0;
    memset(heard, 0, host_count * sizeof(*heard));
    while (calls < CALLS || (missing > 0 && tt_clock_now_ns() < end_ns)) {
        struct tt_doctor_datagram datagram;
        if (calls < CALLS && tt_clock_now_ns() >= next_ns) {
            struct tt_doctor_header header = {.kind = TT_DOCTOR_CALL};
            tt_doctor_send(doctor, &doctor->multicast, &header, 0);
            calls++;
            next_ns += CALL_GAP_NS;
        }
        uint64_t until_ns = calls < CALLS ? next_ns : end_ns;
        if (tt_doctor_next(doctor, doctor->multicast_fd, until_ns, &datagram) &&
            datagram.header.kind == TT_DOCTOR_CALL && datagram.header.from < host_count &&
            !heard[datagram.header.from]) {
            heard[datagram.header.from] = true;
            missing--;
        }
    }
}
