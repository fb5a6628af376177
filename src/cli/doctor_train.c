/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what a path carries, and what it loses.
 *
 * Normal path: the receiver orders a train and looks at its arrival. A short one first, then as many bytes as the rate
 * seen so far carries in a tenth of a second, so that a slow network is not filled for long; the better of two long
 * ones counts, since what disturbs a train makes it slower. Then one at less than half of that rate, in which nothing
 * should be missing.
 *
 * Failures: an order that is not followed is repeated. A train whose end does not come ends with a silence, the one for
 * the loss with a longer one, after which what is still under way is waited for, so that it disturbs nobody.
 */
#include "cli/doctor_train.h"

#include <time.h>

#include "base/least.h"

enum {
    FIRST_TRAIN_BYTES = 64 << 10,
    MOST_TRAIN_BYTES = 512 << 20,
    LARGEST_PAYLOAD_BYTES = 8972, /* in trains; loopback could do more */
    LOSS_PAYLOAD_BYTES = 1472,    /* many small datagrams say more about loss */
    SEGMENTS_LIMIT = 64,          /* the kernel's */
    SUPER_PACKET_BYTES = 65000,
    TRAINS_LIMIT = 10,
    LONG_TRAINS = 2,
    ORDER_TRIES = 3,
    END_COPIES = 3,
    LEAST_LOSS_DATAGRAMS = 20,
    LOSS_DATAGRAMS_PER_S = 20000, /* at most: less than a receiver's kernel takes */
    LOSS_PERCENT = 40             /* of the rate */
};

#define TRAIN_NS       (100 * TT_NS_PER_MS) /* that a train should take */
#define LONG_NS        (60 * TT_NS_PER_MS)  /* that it must take to count */
#define SEND_LIMIT_NS  (400 * TT_NS_PER_MS)
#define ARRIVE_NS      (1200 * TT_NS_PER_MS)
#define ORDER_RETRY_NS (200 * TT_NS_PER_MS)
#define GAP_NS         (150 * TT_NS_PER_MS) /* without a datagram: nothing comes any more */
#define QUIET_NS       (20 * TT_NS_PER_MS)
#define DRAIN_NS       (500 * TT_NS_PER_MS)
#define PACE_NS        (1 * TT_NS_PER_MS) /* between the small bursts of a paced train */
#define BURST_NS       (500 * TT_NS_PER_US)

/* --- Sending ------------------------------------------------------------------------------------------------------ */

static uint32_t send_fast(struct tt_doctor_socket *doctor, const struct sockaddr_in *to,
                          const struct tt_doctor_header *header, uint32_t payload_bytes, uint32_t count, uint32_t burst)
{
    uint64_t end_ns = tt_clock_now_ns() + SEND_LIMIT_NS;
    uint32_t sent = 0;
    for (uint32_t offered = 0; offered < count && tt_clock_now_ns() < end_ns; offered += burst) {
        uint32_t rest = count - offered;
        sent += tt_doctor_send_many(doctor, to, header, payload_bytes, rest < burst ? rest : burst);
    }
    return sent;
}

/* Who is late does not catch up: that would be a burst. */
static uint32_t send_paced(struct tt_doctor_socket *doctor, const struct sockaddr_in *to,
                           const struct tt_doctor_header *header, uint32_t payload_bytes, uint32_t count,
                           uint32_t rate_kbit)
{
    uint64_t gap_ns = (uint64_t)(payload_bytes + TT_PATHS_FRAME_BYTES) * 8 * TT_NS_PER_MS / rate_kbit;
    uint64_t now_ns = tt_clock_now_ns();
    uint64_t end_ns = now_ns + SEND_LIMIT_NS;
    uint64_t due_ns = now_ns;
    uint32_t sent = 0;
    for (uint32_t offered = 0; offered < count && now_ns < end_ns; now_ns = tt_clock_now_ns()) {
        if (now_ns < due_ns) {
            struct timespec pause = tt_clock_timespec(tt_most(tt_least(due_ns, end_ns) - now_ns, PACE_NS));
            nanosleep(&pause, NULL);
            continue;
        }
        due_ns = now_ns - due_ns > 2 * PACE_NS ? now_ns - 2 * PACE_NS : due_ns;
        sent += tt_doctor_send(doctor, to, header, payload_bytes) ? 1 : 0;
        offered++;
        due_ns += gap_ns;
    }
    return sent;
}

void tt_doctor_send_train(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner,
                          const struct tt_doctor_header *order)
{
    struct tt_doctor_header header = {.kind = TT_DOCTOR_TRAIN, .number = order->number};
    uint32_t sent;
    if (order->length_bytes < sizeof(header) || order->burst == 0 || order->burst > SEGMENTS_LIMIT ||
        order->length_bytes > SUPER_PACKET_BYTES / order->burst) {
        return;
    }
    if (order->rate_kbit == 0) {
        sent = send_fast(doctor, &partner->address, &header, order->length_bytes, order->value, order->burst);
    } else {
        sent = send_paced(doctor, &partner->address, &header, order->length_bytes, order->value, order->rate_kbit);
    }
    struct tt_doctor_header end = {.kind = TT_DOCTOR_END, .number = order->number, .value = sent};
    for (int i = 0; i < END_COPIES; i++) {
        tt_doctor_send(doctor, &partner->address, &end, 0);
    }
}

/* --- Receiving ---------------------------------------------------------------------------------------------------- */

struct train {
    uint32_t count; /* ordered */
    uint32_t payload_bytes;
    uint32_t rate_kbit;
    uint32_t burst;
    uint32_t received;
    uint32_t sent; /* as its end says; if that was lost, as ordered */
    uint32_t overflowed;
    bool answered;
    struct tt_arrivals arrivals;
};

static uint64_t deadline(uint64_t wait_ns, uint64_t end_ns)
{
    uint64_t until_ns = tt_clock_now_ns() + wait_ns;
    return until_ns < end_ns ? until_ns : end_ns;
}

/* Waits until nothing comes any more. */
static void drain(struct tt_doctor_socket *doctor, uint64_t end_ns)
{
    struct tt_doctor_datagram datagram;
    uint64_t until_ns = deadline(DRAIN_NS, end_ns);
    while (tt_clock_now_ns() < until_ns &&
           tt_doctor_next(doctor, doctor->fd, deadline(QUIET_NS, until_ns), &datagram)) {
    }
}

/* Takes what comes of a train until its end; false if nothing came. How much of a paced one was lost only its end says,
 * which may be late: a sender that had no processor for a while has sent less, and what it did not send is not lost. */
static bool receive(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner, uint32_t number,
                    struct train *train, uint64_t end_ns)
{
    struct tt_doctor_datagram datagram;
    uint64_t until_ns = deadline(ARRIVE_NS, end_ns);
    uint64_t wait_ns = ORDER_RETRY_NS;
    while (tt_clock_now_ns() < until_ns && tt_doctor_next(doctor, doctor->fd, deadline(wait_ns, until_ns), &datagram)) {
        const struct tt_doctor_header *header = &datagram.header;
        if (header->from != partner->index || header->number != number) {
            continue;
        }
        if (header->kind == TT_DOCTOR_END) {
            train->sent = header->value;
            train->answered = true;
            return true;
        }
        if (header->kind == TT_DOCTOR_TRAIN) {
            train->received++;
            train->answered = true;
            tt_arrivals_add(&train->arrivals, datagram.payload_bytes + TT_PATHS_FRAME_BYTES, datagram.stamp_ns);
            wait_ns = train->rate_kbit == 0 ? GAP_NS : ARRIVE_NS;
        }
    }
    if (train->answered) {
        drain(doctor, end_ns);
    }
    return train->answered;
}

static bool run_train(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner, uint64_t end_ns,
                      uint32_t *trains, struct train *train)
{
    for (int try = 0; try < ORDER_TRIES && tt_clock_now_ns() < end_ns; try++) {
        struct tt_doctor_header order = {.kind = TT_DOCTOR_ORDER,
                                         .number = (*trains)++,
                                         .value = train->count,
                                         .length_bytes = train->payload_bytes,
                                         .rate_kbit = train->rate_kbit,
                                         .burst = train->burst};
        uint32_t overflowed = doctor->overflowed;
        train->sent = train->count;
        tt_arrivals_init(&train->arrivals, (uint64_t)train->count * (train->payload_bytes + TT_PATHS_FRAME_BYTES));
        tt_doctor_send(doctor, &partner->address, &order, 0);
        if (receive(doctor, partner, order.number, train, end_ns)) {
            train->overflowed = doctor->overflowed - overflowed;
            return true;
        }
    }
    return false;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* As many datagrams as pass in BURST_NS: a burst is where a buffer on the way begins or ends, and the error of a rate.
 */
static uint32_t burst_of(uint32_t payload_bytes, uint32_t rate_kbit)
{
    uint64_t passing = (uint64_t)rate_kbit * (BURST_NS / TT_NS_PER_US) / 8000 / payload_bytes;
    uint32_t fitting = smaller(SUPER_PACKET_BYTES / payload_bytes, SEGMENTS_LIMIT);
    return passing < 1 ? 1 : passing < fitting ? (uint32_t)passing : fitting;
}

uint32_t tt_doctor_find_rate(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner,
                             uint32_t payload_bytes, uint64_t end_ns, uint32_t *trains)
{
    uint64_t bytes = FIRST_TRAIN_BYTES;
    uint32_t best_kbit = 0, last_kbit = 0;
    int long_ones = 0;
    for (int i = 0; i < TRAINS_LIMIT && long_ones < LONG_TRAINS && tt_clock_now_ns() < end_ns; i++) {
        struct train train = {.payload_bytes = smaller(payload_bytes, LARGEST_PAYLOAD_BYTES)};
        train.count = (uint32_t)(bytes / train.payload_bytes) + 1;
        train.burst = burst_of(train.payload_bytes, last_kbit);
        if (!run_train(doctor, partner, end_ns, trains, &train)) {
            break;
        }
        uint32_t rate_kbit = tt_arrivals_rate_kbit(&train.arrivals);
        if (train.arrivals.last_ns - train.arrivals.first_ns >= LONG_NS || bytes >= MOST_TRAIN_BYTES) {
            long_ones++;
            best_kbit = rate_kbit > best_kbit ? rate_kbit : best_kbit;
        }
        last_kbit = rate_kbit;
        bytes = tt_train_next_bytes(bytes, rate_kbit, TRAIN_NS);
        bytes = bytes > MOST_TRAIN_BYTES ? MOST_TRAIN_BYTES : bytes < FIRST_TRAIN_BYTES ? FIRST_TRAIN_BYTES : bytes;
    }
    return best_kbit > 0 ? best_kbit : last_kbit;
}

void tt_doctor_find_loss(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner,
                         uint32_t payload_bytes, uint64_t end_ns, uint32_t *trains, struct tt_path *path)
{
    struct train train = {.payload_bytes = smaller(payload_bytes, LOSS_PAYLOAD_BYTES)};
    uint64_t frame_bits = (uint64_t)(train.payload_bytes + TT_PATHS_FRAME_BYTES) * 8;
    uint64_t most_kbit = LOSS_DATAGRAMS_PER_S * frame_bits / 1000;
    uint64_t rate_kbit = (uint64_t)path->rate_kbit * LOSS_PERCENT / 100 + 1;
    train.rate_kbit = (uint32_t)(rate_kbit < most_kbit ? rate_kbit : most_kbit);
    train.count = (uint32_t)(train.rate_kbit * (TRAIN_NS / TT_NS_PER_MS) / frame_bits);
    train.burst = 1;
    train.count = train.count < LEAST_LOSS_DATAGRAMS ? LEAST_LOSS_DATAGRAMS : train.count;
    if (run_train(doctor, partner, end_ns, trains, &train)) {
        uint32_t missing = train.sent > train.received ? train.sent - train.received : 0;
        path->sent = train.sent;
        path->overflowed = smaller(train.overflowed, missing);
        path->lost = missing - path->overflowed;
    }
}
