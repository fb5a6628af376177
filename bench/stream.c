/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what the ways cost in which a program can give TCP the bytes of its memory: copied by send(), pages lent
 * with MSG_ZEROCOPY, pages moved by vmsplice() and splice(), and the first two through io_uring, which saves system
 * calls. Two ranks, of which the first sends to the second as a transport does that writes straight from a user's
 * buffer, a piece at a time; `testbed/testbed run`, or `tutti run`, starts them.
 *
 * Normal path: the second one listens, and says where; for each way rounds of: a barrier, all bytes, and one back when
 * they are there. The first one's time counts, and both processes' processor time.
 *
 * Failures: a way that this system does not have is said to be missing; any other error ends both.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/errqueue.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/arguments.h"
#include "cli/bench_statistics.h"
#include "cli/command.h"
#include "group_address.h"
#include "tutti/tutti.h"

enum { ROUND_LIMIT = 1000, MOST_BYTES = 1 << 30, RING_ENTRIES = 64, PIPE_BYTES = 1 << 20, PIECE_BYTES = 36 << 10 };

enum way { COPIED, LENT, SPLICED, RING_COPIED, RING_LENT, WAYS };

static const char *const way_names[WAYS] = {"send", "zerocopy", "splice", "ring", "ring-zc"};

enum option { OPTION_BYTES, OPTION_PIECE, OPTION_ITERATIONS };

static const struct tt_option options[] = {
    {'b', "bytes", "BYTES", "of a round (default 4M)"},
    {'p', "piece", "BYTES", "of a call (default 36K)"},
    {'i', "iterations", "N", "rounds of each way (default 100)"},
    {0, "help", NULL, "this text"},
};

static const struct tt_command_usage usage = {.name = "stream",
                                              .synopsis = "[OPTION]...",
                                              .purpose = "Measures ways of giving TCP the bytes of a buffer.",
                                              .options = options,
                                              .option_count = sizeof options / sizeof options[0]};

/* Submissions and completions, one at a time or a few; memory is shared with the kernel. */
struct ring {
    int fd;
    struct io_uring_params params;
    uint8_t *submissions, *completions;
    struct io_uring_sqe *entries;
    uint32_t pending; /* completions that are still to come */
};

struct bench {
    uint64_t bytes, piece, rounds;
    tutti_context *context;
    tutti_group *group;
    uint32_t rank;
    int peer, pipe[2];
    uint8_t *buffer;
    uint64_t lent, returned,
        copied; /* calls with MSG_ZEROCOPY: all, given back, and those that were copied after all */
    struct ring ring;
};

static int failed(const char *what)
{
    fprintf(stderr, "stream: %s: %s\n", what, strerror(errno));
    return -1;
}

/* --- Both ranks --------------------------------------------------------------------------------------------------- */

/* The same bytes at both: those of the second one. */
static int agree(const struct bench *bench, void *value, size_t bytes)
{
    tutti_request *request = NULL;

    if (tutti_broadcast_init(bench->group, value, value, bytes, 1, NULL, &request) != TUTTI_OK ||
        tutti_post(request) != TUTTI_OK || tutti_wait(request) != TUTTI_OK) {
        fprintf(stderr, "stream: %s\n", tutti_last_error());
        return -1;
    }
    tutti_finalize(request);
    return 0;
}

static int connect_ranks(struct bench *bench)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return failed("socket");
    }
    if (bench->rank == 1 && (group_address(bench->group, "stream", &address.sin_addr) != 0 ||
                             bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 1) != 0 ||
                             getsockname(fd, (struct sockaddr *)&address, &length) != 0)) {
        return failed("listen");
    }
    if (agree(bench, &address, sizeof address) != 0) {
        return -1;
    }
    if (bench->rank == 0) {
        bench->peer = fd;
        return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : failed("connect");
    }
    bench->peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    close(fd);
    return bench->peer >= 0 ? 0 : failed("accept");
}

/* --- Ways --------------------------------------------------------------------------------------------------------- */

static int send_whole(const struct bench *bench, uint64_t offset, uint64_t bytes)
{
    for (uint64_t sent = 0; sent < bytes;) {
        ssize_t got = send(bench->peer, bench->buffer + offset + sent, bytes - sent, MSG_NOSIGNAL);

        if (got < 0) {
            return failed("send");
        }
        sent += (uint64_t)got;
    }
    return 0;
}

/* What the system has given back, at least until `least` calls are back. */
static int take_back(struct bench *bench, uint64_t least)
{
    while (bench->returned < least) {
        uint8_t control[128];
        struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
        struct sock_extended_err error;

        if (recvmsg(bench->peer, &message, MSG_ERRQUEUE) < 0) {
            if (errno == EAGAIN) {
                continue; /* it never waits */
            }
            return failed("MSG_ERRQUEUE");
        }
        memcpy(&error, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof error);
        bench->returned += (uint64_t)error.ee_data - error.ee_info + 1;
        bench->copied += error.ee_code == SO_EE_CODE_ZEROCOPY_COPIED ? error.ee_data - error.ee_info + 1 : 0;
    }
    return 0;
}

static int lend(struct bench *bench, uint64_t offset, uint64_t bytes)
{
    for (uint64_t sent = 0; sent < bytes; bench->lent++) {
        ssize_t got = send(bench->peer, bench->buffer + offset + sent, bytes - sent, MSG_NOSIGNAL | MSG_ZEROCOPY);

        if (got < 0) {
            return failed("MSG_ZEROCOPY");
        }
        sent += (uint64_t)got;
    }
    return 0;
}

static int splice_piece(const struct bench *bench, uint64_t offset, uint64_t bytes)
{
    struct iovec part = {bench->buffer + offset, bytes};

    while (part.iov_len > 0) {
        ssize_t in = vmsplice(bench->pipe[1], &part, 1, 0);

        if (in < 0) {
            return failed("vmsplice");
        }
        part.iov_base = (uint8_t *)part.iov_base + in;
        part.iov_len -= (size_t)in;
        while (in > 0) {
            ssize_t out = splice(bench->pipe[0], NULL, bench->peer, NULL, (size_t)in, SPLICE_F_MOVE);

            if (out < 0) {
                return failed("splice");
            }
            in -= out;
        }
    }
    return 0;
}

/* --- io_uring ----------------------------------------------------------------------------------------------------- */

static int open_ring(struct ring *ring)
{
    const struct io_sqring_offsets *sq = &ring->params.sq_off;
    const struct io_cqring_offsets *cq = &ring->params.cq_off;
    size_t sq_bytes, cq_bytes;

    ring->fd = (int)syscall(SYS_io_uring_setup, RING_ENTRIES, &ring->params);
    if (ring->fd < 0) {
        return -1;
    }
    sq_bytes = sq->array + ring->params.sq_entries * sizeof(uint32_t);
    cq_bytes = cq->cqes + ring->params.cq_entries * sizeof(struct io_uring_cqe);
    ring->submissions = mmap(NULL, sq_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
    ring->completions = mmap(NULL, cq_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_CQ_RING);
    ring->entries = mmap(NULL, ring->params.sq_entries * sizeof *ring->entries, PROT_READ | PROT_WRITE, MAP_SHARED,
                         ring->fd, IORING_OFF_SQES);
    return ring->submissions == MAP_FAILED || ring->completions == MAP_FAILED || ring->entries == MAP_FAILED ? -1 : 0;
}

static _Atomic uint32_t *word_at(uint8_t *memory, uint32_t offset)
{
    return (_Atomic uint32_t *)(void *)(memory + offset);
}

/* Takes what has come; of a send the bytes are to be all. */
static int take_completions(struct bench *bench)
{
    struct ring *ring = &bench->ring;
    _Atomic uint32_t *head = word_at(ring->completions, ring->params.cq_off.head);
    uint32_t tail = atomic_load(word_at(ring->completions, ring->params.cq_off.tail)), at = atomic_load(head);
    const struct io_uring_cqe *all = (void *)(ring->completions + ring->params.cq_off.cqes);

    for (; at != tail; at++) {
        const struct io_uring_cqe *one = &all[at & (ring->params.cq_entries - 1)];

        if ((one->flags & IORING_CQE_F_NOTIF) == 0 && one->res != (int)(one->user_data)) {
            errno = one->res < 0 ? -one->res : EIO;
            return failed("io_uring");
        }
        ring->pending -= (one->flags & IORING_CQE_F_MORE) == 0; /* the pages come back later */
    }
    atomic_store(head, at);
    return 0;
}

/* A whole round in batches, each call in order behind the one before. */
static int send_by_ring(struct bench *bench, bool lent)
{
    struct ring *ring = &bench->ring;
    _Atomic uint32_t *tail = word_at(ring->submissions, ring->params.sq_off.tail);
    uint32_t *array = (void *)(ring->submissions + ring->params.sq_off.array), mask = ring->params.sq_entries - 1;

    for (uint64_t offset = 0; offset < bench->bytes;) {
        uint32_t count = 0, at = atomic_load(tail);

        for (; count < RING_ENTRIES / 4 && offset < bench->bytes; count++, at++) {
            uint64_t left = bench->bytes - offset, bytes = left < bench->piece ? left : bench->piece;
            bool last = count + 1 == RING_ENTRIES / 4 || bytes == left;
            struct io_uring_sqe *entry = &ring->entries[at & mask];

            *entry = (struct io_uring_sqe){.opcode = lent ? IORING_OP_SEND_ZC : IORING_OP_SEND,
                                           .flags = last ? 0 : IOSQE_IO_LINK,
                                           .fd = bench->peer,
                                           .addr = (uint64_t)(uintptr_t)(bench->buffer + offset),
                                           .len = (uint32_t)bytes,
                                           .msg_flags = MSG_NOSIGNAL | MSG_WAITALL,
                                           .user_data = bytes};
            array[at & mask] = at & mask;
            offset += bytes;
        }
        atomic_store(tail, at);
        ring->pending += count;
        while (ring->pending > 0) {
            if (syscall(SYS_io_uring_enter, ring->fd, count, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0) {
                return failed("io_uring_enter");
            }
            count = 0;
            if (take_completions(bench) != 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* --- Rounds ------------------------------------------------------------------------------------------------------- */

/* Whether this system has the way; asked at the sender. */
static bool has_way(struct bench *bench, enum way way)
{
    static const int on = 1;

    switch (way) {
    case LENT:
        return setsockopt(bench->peer, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) == 0;
    case SPLICED:
        return pipe2(bench->pipe, O_CLOEXEC) == 0 && fcntl(bench->pipe[1], F_SETPIPE_SZ, PIPE_BYTES) >= 0;
    case RING_COPIED:
        return open_ring(&bench->ring) == 0;
    case RING_LENT:
        return bench->ring.fd >= 0 && bench->ring.entries != NULL;
    default:
        return true;
    }
}

static int send_all(struct bench *bench, enum way way)
{
    if (way == RING_COPIED || way == RING_LENT) {
        return send_by_ring(bench, way == RING_LENT);
    }
    for (uint64_t offset = 0; offset < bench->bytes; offset += bench->piece) {
        uint64_t left = bench->bytes - offset, bytes = left < bench->piece ? left : bench->piece;
        int result = way == LENT      ? lend(bench, offset, bytes)
                     : way == SPLICED ? splice_piece(bench, offset, bytes)
                                      : send_whole(bench, offset, bytes);

        if (result != 0) {
            return -1;
        }
    }
    return way == LENT ? take_back(bench, bench->lent) : 0;
}

static int receive_all(struct bench *bench)
{
    for (uint64_t here = 0; here < bench->bytes;) {
        ssize_t got = recv(bench->peer, bench->buffer + here, bench->bytes - here, 0);

        if (got <= 0) {
            return failed("recv");
        }
        here += (uint64_t)got;
    }
    return send(bench->peer, "", 1, MSG_NOSIGNAL) == 1 ? 0 : failed("send");
}

static int run_round(struct bench *bench, enum way way)
{
    char answer;

    if (bench->rank == 1) {
        return receive_all(bench);
    }
    if (send_all(bench, way) != 0) {
        return -1;
    }
    return recv(bench->peer, &answer, 1, 0) == 1 ? 0 : failed("recv");
}

static int measure(struct bench *bench, enum way way)
{
    static uint64_t taken_ns[ROUND_LIMIT];
    struct tt_statistics statistics;
    uint64_t cpu_ns = tt_clock_cpu_ns(), other_ns = 0;

    for (uint64_t round = 0; round < bench->rounds; round++) {
        uint64_t begun_ns = tt_clock_now_ns();

        if (run_round(bench, way) != 0) {
            return -1;
        }
        taken_ns[round] = tt_clock_now_ns() - begun_ns;
    }
    cpu_ns = tt_clock_cpu_ns() - cpu_ns;
    other_ns = cpu_ns;
    if (agree(bench, &other_ns, sizeof other_ns) != 0) {
        return -1;
    }
    if (bench->rank == 0) {
        double bytes = (double)bench->bytes * (double)bench->rounds;

        tt_statistics_compute(taken_ns, bench->rounds, &statistics);
        printf("%-8s %10.0f %12.3f %12.3f", way_names[way], statistics.median_ns / 1e3, (double)cpu_ns / bytes,
               (double)other_ns / bytes);
        if (way == LENT) {
            printf("   %.0f %% copied after all", 100 * (double)bench->copied / (double)bench->lent);
        }
        printf("\n");
        fflush(stdout);
    }
    return 0;
}

static int run(struct bench *bench)
{
    bench->buffer = malloc(bench->bytes);
    if (bench->buffer == NULL || connect_ranks(bench) != 0) {
        return -1;
    }
    memset(bench->buffer, (int)bench->rank, bench->bytes);
    if (bench->rank == 0) {
        printf("# %" PRIu64 " bytes in pieces of %" PRIu64 "; processor seconds a GB of each rank\n", bench->bytes,
               bench->piece);
        printf("%-8s %10s %12s %12s\n", "way", "median us", "sender", "receiver");
    }
    for (int way = 0; way < WAYS; way++) {
        int has = 1 - (int)bench->rank; /* the sender knows, and tells by a byte of the stream */

        if (bench->rank == 0) {
            has = has_way(bench, (enum way)way);
            if (send(bench->peer, &has, sizeof has, MSG_NOSIGNAL) != sizeof has) {
                return failed("send");
            }
        } else if (recv(bench->peer, &has, sizeof has, MSG_WAITALL) != sizeof has) {
            return failed("recv");
        }
        if (has && measure(bench, (enum way)way) != 0) {
            return -1;
        }
        if (!has && bench->rank == 0) {
            printf("%-8s missing here\n", way_names[way]);
        }
    }
    return 0;
}

static bool take_option(void *target, int option, const char *value)
{
    struct bench *bench = target;
    uint64_t *bytes = option == OPTION_PIECE ? &bench->piece : &bench->bytes;

    if (option == OPTION_ITERATIONS) {
        return tt_arguments_count("stream", "--iterations", value, 1, ROUND_LIMIT, &bench->rounds);
    }
    if (tt_parse_size(value, bytes) != TUTTI_OK || *bytes == 0 || *bytes > MOST_BYTES) {
        tt_usage_error("stream", "%s %s: not a size up to 1G", option == OPTION_PIECE ? "--piece" : "--bytes", value);
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct bench bench = {.bytes = 4 << 20, .piece = PIECE_BYTES, .rounds = 100, .peer = -1, .ring = {.fd = -1}};
    enum tt_parse parse = tt_arguments_read_all(&usage, argc, argv, take_option, &bench);

    if (parse != TT_PARSE_OK) {
        return parse == TT_PARSE_HELP ? TT_EXIT_OK : TT_EXIT_USAGE;
    }
    if (tutti_context_create(NULL, &bench.context) != TUTTI_OK ||
        tutti_group_create_from_environment(bench.context, &bench.group) != TUTTI_OK) {
        fprintf(stderr, "stream: %s\n", tutti_last_error());
        tutti_context_destroy(bench.context);
        return TT_EXIT_FAILED;
    }
    bench.rank = tutti_group_rank(bench.group);
    if (tutti_group_size(bench.group) != 2) {
        fprintf(stderr, "stream: %u ranks: it takes 2\n", tutti_group_size(bench.group));
    }
    int result = tutti_group_size(bench.group) == 2 ? run(&bench) : -1;
    close(bench.peer);
    tutti_group_destroy(bench.group);
    tutti_context_destroy(bench.context);
    free(bench.buffer);
    return result == 0 ? TT_EXIT_OK : TT_EXIT_FAILED;
}
