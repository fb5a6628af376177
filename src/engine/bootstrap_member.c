/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the bootstrap of every rank but 0.
 *
 * Normal path: connect to rank 0 (which may start later: retry until the deadline), say hello, be welcomed, which tells
 * the rank to who had none, wait for READY. An allgather sends the contribution and reads the result on the same
 * connection; what rank 0 says is read first, so that its reason for a failure is not lost to a broken pipe.
 *
 * Failures: rank 0's refusal or FAIL is taken over word for word. Without a word from it: who waited for what, at which
 * address. After a failure the connection is shut down, which tells rank 0 that it was heard.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "engine/bootstrap_private.h"

#define FIRST_PAUSE_NS   (5 * TT_NS_PER_MS)
#define LONGEST_PAUSE_NS (250 * TT_NS_PER_MS)
#define RANK_PAUSE_NS    (TT_NS_PER_MS / 2) /* times the number of ranks, for the host that all of them try */
#define BRIEF_PAUSE_NS   (50 * TT_NS_PER_MS)

/* How long a connection may take to be made before another one is tried: the system repeats a lost first packet only
 * after a second, and more seldom from then on. The first patience is that of a near network; the last one is longer
 * than any path, and no longer than a host that swallows packets has to cost. */
#define FIRST_ATTEMPT_NS   (100 * TT_NS_PER_MS)
#define LONGEST_ATTEMPT_NS (5 * TT_NS_PER_S)

/* How long whoever has accepted may take to answer, where rank 0 may be at another address: at the most, and as a part
 * of the time-out. Rank 0 answers as soon as it gets to it. */
#define LONGEST_ANSWER_NS (5 * TT_NS_PER_S)
enum { ANSWER_PART = 4 };

enum { TIME_TEXT_BYTES = 48 };

/* What a try to join came to. */
enum join { JOIN_WELCOME, JOIN_AGAIN, JOIN_FAILED };

/* Rank 0 decides when it is over, and its sentence needs time to get here. */
static uint64_t patience_ns(uint64_t timeout_ns)
{
    return timeout_ns + timeout_ns / 2 + 2 * TT_NS_PER_S;
}

static tutti_status fail_and_hang_up(struct tt_bootstrap *bootstrap, tutti_status status)
{
    assert(status == bootstrap->failure);
    shutdown(bootstrap->root_channel.fd, SHUT_RDWR);
    return status;
}

static tutti_status fail_lost(struct tt_bootstrap *bootstrap, int reason, const char *during)
{
    return fail_and_hang_up(bootstrap,
                            tt_bootstrap_fail(bootstrap, TUTTI_ERR_PEER_FAILED, 0, "rank 0 at %s died or left %s%s%s%s",
                                              bootstrap->root, during, reason != 0 ? " (" : "",
                                              reason != 0 ? strerror(reason) : "", reason != 0 ? ")" : ""));
}

static tutti_status fail_garbled(struct tt_bootstrap *bootstrap, const char *during)
{
    return fail_and_hang_up(bootstrap,
                            tt_bootstrap_fail(bootstrap, TUTTI_ERR_PROTOCOL, 0,
                                              "rank 0 at %s sent what makes no sense %s", bootstrap->root, during));
}

/* Waits until the connection has something; false once the deadline has passed. `also_out`: or has room. */
static bool wait_for_root(struct tt_bootstrap *bootstrap, bool also_out, uint64_t deadline_ns)
{
    struct pollfd waiting = {.fd = bootstrap->root_channel.fd, .events = (short)(POLLIN | (also_out ? POLLOUT : 0))};
    for (;;) {
        int timeout_ms = tt_bootstrap_poll_ms(deadline_ns);
        int ready = poll(&waiting, 1, timeout_ms);
        if (ready > 0) {
            return true;
        }
        if (ready == 0 && timeout_ms == 0) {
            return false;
        }
    }
}

/* As the channel's receive functions, but waits. */
static enum tt_bootstrap_io receive_header(struct tt_bootstrap *bootstrap, uint64_t deadline_ns)
{
    enum tt_bootstrap_io io;
    while ((io = tt_channel_receive_header(&bootstrap->root_channel)) == TT_IO_AGAIN) {
        if (!wait_for_root(bootstrap, false, deadline_ns)) {
            return TT_IO_AGAIN;
        }
    }
    return io;
}

/* Takes over what a REFUSE or FAIL says. */
static tutti_status fail_as_told(struct tt_bootstrap *bootstrap, const struct tt_hello *hello)
{
    char text[TT_HELLO_MAX_TEXT_BYTES + 1];
    uint64_t deadline_ns = tt_clock_now_ns() + TT_NS_PER_S; /* the text comes with its header */
    enum tt_bootstrap_io io;
    while ((io = tt_channel_receive_payload(&bootstrap->root_channel, text, hello->length_bytes)) == TT_IO_AGAIN &&
           wait_for_root(bootstrap, false, deadline_ns)) {
    }
    assert(hello->length_bytes < sizeof(text)); /* decoding has seen to that */
    text[io == TT_IO_DONE ? hello->length_bytes : 0] = '\0';
    /* Decoding has compared the rank with the frame's own size; TT_HELLO_NO_RANK is larger than any. */
    int rank = hello->type == TT_HELLO_FAIL && hello->rank < bootstrap->size ? (int)hello->rank : -1;
    tutti_status status = hello->version == TT_HELLO_VERSION ? hello->status : TUTTI_ERR_MISMATCH;
    return fail_and_hang_up(bootstrap, tt_bootstrap_fail(bootstrap, status, rank, "%s",
                                                         text[0] != '\0' ? text : "rank 0 gave up without a reason"));
}

/* Says hello and reads the answer. On AGAIN, *reason says why; on FAILED, *status is recorded. */
static enum join say_hello(struct tt_bootstrap *bootstrap, uint64_t deadline_ns, uint64_t *root_waits_ns,
                           const char **reason, tutti_status *status)
{
    struct tt_bootstrap_channel *channel = &bootstrap->root_channel;
    struct tt_hello hello = {.type = TT_HELLO_HELLO,
                             .version = TT_HELLO_VERSION,
                             .rank = bootstrap->rank,
                             .size = bootstrap->size,
                             .nonce = bootstrap->nonce};
    tt_channel_begin_send(channel, &hello);
    if (tt_channel_send(channel, NULL, 0) == TT_IO_CLOSED) {
        *reason = strerror(errno);
        return JOIN_AGAIN;
    }
    enum tt_bootstrap_io io = receive_header(bootstrap, deadline_ns);
    if (io == TT_IO_AGAIN) {
        *reason = "it does not answer";
        return JOIN_AGAIN;
    }
    if (io == TT_IO_CLOSED) {
        *reason = errno != 0 ? strerror(errno) : "it closes the connection";
        return JOIN_AGAIN;
    }
    if (tt_hello_decode(channel->in_header, &hello) != TUTTI_OK ||
        (hello.type != TT_HELLO_REFUSE && hello.type != TT_HELLO_FAIL &&
         (hello.type != TT_HELLO_WELCOME || hello.nonce != bootstrap->nonce))) {
        *reason = "what answers there is not rank 0";
        return JOIN_AGAIN;
    }
    if (hello.type != TT_HELLO_WELCOME) { /* FAIL: the launcher's, where a rank has ended already */
        *status = fail_as_told(bootstrap, &hello);
        return JOIN_FAILED;
    }
    if (hello.rank == 0 || (bootstrap->rank != TT_HELLO_NO_RANK && hello.rank != bootstrap->rank) ||
        hello.size != bootstrap->size) {
        *reason = "what answers there welcomes another rank";
        return JOIN_AGAIN;
    }
    assert(hello.rank < bootstrap->size);
    bootstrap->rank = hello.rank;
    tt_channel_begin_receive(channel);
    *root_waits_ns = hello.value;
    return JOIN_WELCOME;
}

static void pause_ns(uint64_t duration_ns, uint64_t deadline_ns)
{
    uint64_t now_ns = tt_clock_now_ns();
    if (now_ns >= deadline_ns) {
        return;
    }
    if (duration_ns > deadline_ns - now_ns) {
        duration_ns = deadline_ns - now_ns;
    }
    struct timespec duration = tt_clock_timespec(duration_ns);
    nanosleep(&duration, NULL);
}

/* The longest pause before the next try: who has not waited for long looks often. However short the time for all of
 * them, there are some twenty tries in it. */
static uint64_t longest_pause(const struct tt_bootstrap *bootstrap, uint64_t waited_ns)
{
    uint64_t least_ns = bootstrap->size * RANK_PAUSE_NS, pause_ns = waited_ns / 100;
    pause_ns = pause_ns < BRIEF_PAUSE_NS ? pause_ns : BRIEF_PAUSE_NS;
    least_ns = least_ns < FIRST_PAUSE_NS ? FIRST_PAUSE_NS : least_ns;
    pause_ns = pause_ns < least_ns ? least_ns : pause_ns;
    pause_ns = pause_ns < LONGEST_PAUSE_NS ? pause_ns : LONGEST_PAUSE_NS;
    return bootstrap->timeout_ns / 20 < pause_ns ? bootstrap->timeout_ns / 20 + 2 : pause_ns;
}

/* Another connection is tried after twice the time if this one was not answered. */
static uint64_t next_attempt(uint64_t attempt_ns, uint64_t taken_ns)
{
    if (taken_ns < attempt_ns) {
        return attempt_ns; /* refused */
    }
    return 2 * attempt_ns < LONGEST_ATTEMPT_NS ? 2 * attempt_ns : LONGEST_ATTEMPT_NS;
}

/* When an answer is no longer waited for. */
static uint64_t answer_deadline(const struct tt_bootstrap *bootstrap, const struct tt_bootstrap_search *search,
                                uint64_t deadline_ns)
{
    uint64_t patience_ns = bootstrap->timeout_ns / ANSWER_PART, until_ns;

    patience_ns = patience_ns < LONGEST_ANSWER_NS ? patience_ns : LONGEST_ANSWER_NS;
    until_ns = tt_clock_now_ns() + patience_ns;
    return search->has_others && until_ns < deadline_ns ? until_ns : deadline_ns;
}

/* One try to join. From an address that does not answer as rank 0 does the walk goes on with the next one, and after
 * the last one it begins anew. */
static enum join try_to_join(struct tt_bootstrap *bootstrap, struct tt_bootstrap_search *search, uint64_t attempt_ns,
                             uint64_t deadline_ns, uint64_t *root_waits_ns, tutti_status *status)
{
    const char *reason = "";
    enum join result;
    int fd = tt_bootstrap_connect(bootstrap, search, attempt_ns, deadline_ns);

    if (fd < 0) {
        search->skip = 0;
        return JOIN_AGAIN;
    }
    tt_channel_open(&bootstrap->root_channel, fd);
    result = say_hello(bootstrap, answer_deadline(bootstrap, search, deadline_ns), root_waits_ns, &reason, status);
    if (result != JOIN_WELCOME) {
        tt_channel_close(&bootstrap->root_channel);
        snprintf(search->reason, sizeof(search->reason), "%s", reason);
    }
    search->skip = search->has_others ? search->number + 1 : 0;
    return result;
}

static tutti_status fail_to_reach(struct tt_bootstrap *bootstrap, const struct tt_bootstrap_search *search)
{
    tutti_status shortage = tt_shortage_status(search->error);
    char waited[TIME_TEXT_BYTES], name[TT_BOOTSTRAP_NAME_BYTES], address[TT_BOOTSTRAP_ADDRESS_BYTES + 3];

    tt_bootstrap_name(bootstrap->rank, name);
    tt_bootstrap_describe_address(bootstrap, search->address, address);
    if (shortage != TUTTI_OK) {
        return tt_bootstrap_fail(bootstrap, shortage, -1, "%s cannot reach rank 0 at %s%s: %s", name, bootstrap->root,
                                 address, search->reason);
    }
    tt_format_time(bootstrap->timeout_ns, waited, sizeof(waited));
    if (search->error == EADDRNOTAVAIL) { /* nothing has been asked of rank 0 */
        return tt_bootstrap_fail(bootstrap, TUTTI_ERR_NO_RESOURCE, -1,
                                 "%s cannot reach rank 0 at %s%s in %s: %s (no port of this host is free, or its own "
                                 "address is gone)",
                                 name, bootstrap->root, address, waited, search->reason);
    }
    return tt_bootstrap_fail(bootstrap, TUTTI_ERR_TIMED_OUT, 0, "%s cannot reach rank 0 at %s%s in %s: %s", name,
                             bootstrap->root, address, waited, search->reason);
}

/* Until rank 0 has welcomed this rank; *root_waits_ns is how long it will wait for others. */
static tutti_status join(struct tt_bootstrap *bootstrap, uint64_t *root_waits_ns)
{
    const uint64_t begun_ns = tt_clock_now_ns(), deadline_ns = begun_ns + bootstrap->timeout_ns;
    uint64_t attempt_ns = FIRST_ATTEMPT_NS, now_ns = begun_ns;
    struct tt_bootstrap_search search = {0};
    tutti_status status = TUTTI_OK;
    struct tt_random random;

    assert(bootstrap->rank != 0);
    assert(bootstrap->root_channel.fd < 0);
    tt_random_init(&random, bootstrap->nonce);
    do {
        enum join result = try_to_join(bootstrap, &search, attempt_ns, deadline_ns, root_waits_ns, &status);
        if (result == JOIN_WELCOME || result == JOIN_FAILED) {
            return status;
        }
        if (tt_shortage_status(search.error) != TUTTI_OK) {
            break; /* it is not rank 0 that is waited for */
        }
        if (search.error != 0) {
            attempt_ns = next_attempt(attempt_ns, tt_clock_now_ns() - now_ns);
        }
        /* Many ranks that look for one host shall not do so in step. */
        uint64_t longest_ns = longest_pause(bootstrap, tt_clock_now_ns() - begun_ns);
        pause_ns(longest_ns / 2 + tt_random_below(&random, longest_ns / 2), deadline_ns);
        now_ns = tt_clock_now_ns();
    } while (now_ns < deadline_ns);
    return fail_to_reach(bootstrap, &search);
}

tutti_status tt_bootstrap_member_start(struct tt_bootstrap *bootstrap)
{
    static const char during[] = "while the job started";
    uint64_t root_waits_ns = 0;
    struct tt_hello hello;

    tutti_status status = join(bootstrap, &root_waits_ns);
    if (status != TUTTI_OK) {
        return status;
    }
    TT_LOG(TT_PART_ENGINE, TT_LOG_DEBUG, "rank 0 at %s has welcomed rank %u", bootstrap->root, bootstrap->rank);
    /* A strange value only makes for a long wait, not for an overflow. */
    root_waits_ns = root_waits_ns < 2 * bootstrap->timeout_ns ? root_waits_ns : 2 * bootstrap->timeout_ns;
    enum tt_bootstrap_io io = receive_header(bootstrap, tt_clock_now_ns() + patience_ns(root_waits_ns));
    if (io == TT_IO_AGAIN) {
        return tt_bootstrap_fail(bootstrap, TUTTI_ERR_TIMED_OUT, 0,
                                 "rank %u was welcomed by rank 0 at %s, which then fell silent", bootstrap->rank,
                                 bootstrap->root);
    }
    if (io == TT_IO_CLOSED) {
        return fail_lost(bootstrap, errno, during);
    }
    if (tt_hello_decode(bootstrap->root_channel.in_header, &hello) != TUTTI_OK ||
        (hello.type != TT_HELLO_READY && hello.type != TT_HELLO_FAIL)) {
        return fail_garbled(bootstrap, during);
    }
    if (hello.type == TT_HELLO_FAIL) {
        return fail_as_told(bootstrap, &hello);
    }
    tt_channel_begin_receive(&bootstrap->root_channel);
    return TUTTI_OK;
}

/* One allgather under way. */
struct exchange {
    const void *send;
    void *receive;
    size_t length_bytes;
    bool sent;        /* the whole contribution, or as much as ever will be */
    bool send_broken; /* rank 0 takes no more: it has said why, or it is gone */
    bool received;
    char during[64];
};

/* Reads what there is. OK: nothing went wrong so far. */
static tutti_status receive_result(struct tt_bootstrap *bootstrap, struct exchange *exchange)
{
    struct tt_bootstrap_channel *channel = &bootstrap->root_channel;
    struct tt_hello hello;
    enum tt_bootstrap_io io = channel->in_bytes < TT_HELLO_BYTES ? tt_channel_receive_header(channel) : TT_IO_DONE;
    if (io == TT_IO_AGAIN) {
        return TUTTI_OK;
    }
    if (io == TT_IO_CLOSED) {
        return fail_lost(bootstrap, errno, exchange->during);
    }
    if (tt_hello_decode(channel->in_header, &hello) != TUTTI_OK) {
        return fail_garbled(bootstrap, exchange->during);
    }
    if (hello.type == TT_HELLO_FAIL) {
        return fail_as_told(bootstrap, &hello);
    }
    /* Rank 0 has our contribution before it sends a result, but then all of it has been sent. */
    if (hello.type != TT_HELLO_RESULT || hello.sequence != bootstrap->sequence || !exchange->sent ||
        exchange->send_broken || hello.length_bytes != (uint64_t)exchange->length_bytes * bootstrap->size) {
        return fail_garbled(bootstrap, exchange->during);
    }
    assert(channel->in_bytes >= TT_HELLO_BYTES);
    io = tt_channel_receive_payload(channel, exchange->receive, hello.length_bytes);
    if (io == TT_IO_CLOSED) {
        return fail_lost(bootstrap, errno, exchange->during);
    }
    exchange->received = io == TT_IO_DONE;
    return TUTTI_OK;
}

tutti_status tt_bootstrap_member_allgather(struct tt_bootstrap *bootstrap, const void *send, void *receive,
                                           size_t length_bytes)
{
    const uint64_t deadline_ns = tt_clock_now_ns() + patience_ns(bootstrap->timeout_ns);
    struct exchange exchange = {.send = send, .receive = receive, .length_bytes = length_bytes};
    const struct tt_hello hello = {.type = TT_HELLO_GATHER,
                                   .version = TT_HELLO_VERSION,
                                   .rank = bootstrap->rank,
                                   .size = bootstrap->size,
                                   .sequence = bootstrap->sequence,
                                   .length_bytes = length_bytes};

    assert(bootstrap->rank > 0);
    assert(bootstrap->rank < bootstrap->size);
    snprintf(exchange.during, sizeof(exchange.during), "during allgather %u", bootstrap->sequence);
    tt_channel_begin_send(&bootstrap->root_channel, &hello);
    for (;;) {
        tutti_status status = receive_result(bootstrap, &exchange);
        if (status != TUTTI_OK || exchange.received) {
            tt_channel_begin_receive(&bootstrap->root_channel);
            return status;
        }
        assert(!exchange.send_broken || exchange.sent);
        if (!exchange.sent) {
            enum tt_bootstrap_io io = tt_channel_send(&bootstrap->root_channel, send, length_bytes);
            exchange.sent = io != TT_IO_AGAIN;
            exchange.send_broken = io == TT_IO_CLOSED;
        }
        if (!wait_for_root(bootstrap, !exchange.sent, deadline_ns)) {
            char waited[TIME_TEXT_BYTES];
            return fail_and_hang_up(
                bootstrap,
                tt_bootstrap_fail(bootstrap, TUTTI_ERR_TIMED_OUT, 0,
                                  "rank %u waited %s: rank 0 at %s did not finish allgather %u", bootstrap->rank,
                                  tt_format_time(patience_ns(bootstrap->timeout_ns), waited, sizeof(waited)),
                                  bootstrap->root, bootstrap->sequence));
        }
    }
}
