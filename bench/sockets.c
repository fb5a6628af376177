/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the least that an Allgather by UDP multicast can take on a machine: bare sockets, every rank multicasts its
 * block in super-packets and takes those of all others, without any protocol. What a library can gain is what lies
 * between this and its own time. Where links have a rate, `--rate` has each rank send at its share of one, as ports
 * that take everything from everybody need it. `testbed/testbed run`, or `tutti run`, starts the ranks.
 *
 * Normal path: for each way of receiving, rounds of: a barrier, then sending and receiving by turns until every byte is
 * here; the slowest rank's time counts. `discard` takes the bytes into memory that stays in the cache, and leaves them
 * there; `staged` copies them from there to their place; `direct` looks at the next header first, and has the system
 * write each chunk to its place.
 *
 * Failures: nothing is repeated: a round with losses ends after a tenth of a second of silence, and no less than a turn
 * takes, and is counted.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/arguments.h"
#include "cli/bench_statistics.h"
#include "cli/command.h"
#include "group_address.h"
#include "tutti/tutti.h"

enum {
    CHUNK_BYTES = 8192,
    HEADER_BYTES = 8,
    DATAGRAM_BYTES = HEADER_BYTES + CHUNK_BYTES,
    FRAMING_BYTES = 42,             /* IP, UDP and Ethernet */
    BATCH = 65507 / DATAGRAM_BYTES, /* chunks of a super-packet */
    BUFFER_BYTES = 64 << 20,
    PORT = 47999,
    ROUND_LIMIT = 1000,
    MOST_BYTES = 1 << 30,
    MOST_RANKS = 64
};

#define GROUP      "239.255.84.7"
#define SILENCE_NS (100 * TT_NS_PER_MS)
#define WAIT_NS    (4 * TT_NS_PER_MS)
#define LOST       1e18 /* nanoseconds */

enum way { DISCARD, STAGED, DIRECT, WAYS };

static const char *const way_names[WAYS] = {"discard", "staged", "direct"};

enum option { OPTION_BYTES, OPTION_ITERATIONS, OPTION_RATE };

static const struct tt_option options[] = {
    {'b', "bytes", "BYTES", "of a rank's block (default 4M)"},
    {'i', "iterations", "N", "rounds of each way (default 20)"},
    {'r', "rate", "RATE", "of a link, shared by those who send: 500mbit (default none)"},
    {0, "help", NULL, "this text"},
};

static const struct tt_command_usage usage = {.name = "sockets",
                                              .synopsis = "[OPTION]...",
                                              .purpose = "Measures multicast over bare sockets.",
                                              .options = options,
                                              .option_count = sizeof options / sizeof options[0]};

struct header {
    uint16_t rank, round; /* what is late is none of the next round's */
    uint32_t chunk;
};

struct bench {
    uint64_t bytes, rounds, chunks; /* of a block */
    uint64_t rate_bps;              /* of a link; 0: as fast as it goes */
    uint64_t due_ns;                /* when the next super-packet may go */
    tutti_context *context;
    tutti_group *group;
    uint32_t rank, size;
    uint16_t round;
    int in, out;
    uint8_t *block, *result, *staging;
    uint64_t sent, received; /* chunks of this round */
    struct header headers[BATCH];
};

static int failed(const char *what)
{
    fprintf(stderr, "sockets: %s: %s\n", what, strerror(errno));
    return -1;
}

/* --- Sockets ------------------------------------------------------------------------------------------------------ */

static int open_sockets(struct bench *bench)
{
    static const int on = 1, buffer_bytes = BUFFER_BYTES, segment_bytes = DATAGRAM_BYTES;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    struct ip_mreq join;

    inet_pton(AF_INET, GROUP, &to.sin_addr);
    join.imr_multiaddr = to.sin_addr;
    bench->in = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bench->out = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bench->in < 0 || bench->out < 0) {
        return failed("socket");
    }
    if (group_address(bench->group, "sockets", &join.imr_interface) != 0) {
        return -1;
    }
    if (setsockopt(bench->in, SOL_SOCKET, SO_RCVBUFFORCE, &buffer_bytes, sizeof buffer_bytes) != 0) {
        setsockopt(bench->in, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    }
    if (setsockopt(bench->in, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(bench->in, (struct sockaddr *)&to, sizeof to) != 0 ||
        setsockopt(bench->in, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join) != 0 ||
        setsockopt(bench->in, IPPROTO_UDP, UDP_GRO, &on, sizeof on) != 0 ||
        setsockopt(bench->out, IPPROTO_IP, IP_MULTICAST_IF, &join.imr_interface, sizeof join.imr_interface) != 0 ||
        setsockopt(bench->out, IPPROTO_UDP, UDP_SEGMENT, &segment_bytes, sizeof segment_bytes) != 0 ||
        connect(bench->out, (struct sockaddr *)&to, sizeof to) != 0) {
        return failed(GROUP);
    }
    return 0;
}

/* --- A round ------------------------------------------------------------------------------------------------------ */

/* How long a link has chunks of all that send to it, for this many of each: bits a second are nanoseconds by 1e9. */
static uint64_t share_ns(const struct bench *bench, uint64_t chunks)
{
    double bits = 8.0 * (double)(chunks * (DATAGRAM_BYTES + FRAMING_BYTES) * (bench->size - 1));

    return bench->rate_bps == 0 ? 0 : (uint64_t)(bits * 1e9 / (double)bench->rate_bps);
}

/* One super-packet, if it is its turn and there is room for it. */
static bool send_some(struct bench *bench)
{
    struct iovec parts[2 * BATCH];
    struct msghdr message = {.msg_iov = parts};
    uint64_t count = bench->chunks - bench->sent < BATCH ? bench->chunks - bench->sent : BATCH;

    if (bench->rate_bps != 0 && tt_clock_now_ns() < bench->due_ns) {
        return false;
    }
    for (uint64_t i = 0; i < count; i++) {
        bench->headers[i] =
            (struct header){.rank = (uint16_t)bench->rank, .round = bench->round, .chunk = (uint32_t)(bench->sent + i)};
        parts[2 * i] = (struct iovec){.iov_base = &bench->headers[i], .iov_len = HEADER_BYTES};
        parts[2 * i + 1] =
            (struct iovec){.iov_base = bench->block + (bench->sent + i) * CHUNK_BYTES, .iov_len = CHUNK_BYTES};
    }
    message.msg_iovlen = 2 * count;
    if (count == 0 || sendmsg(bench->out, &message, 0) < 0) {
        return false;
    }
    bench->sent += count;
    bench->due_ns += share_ns(bench, count);
    return true;
}

static uint8_t *place_of(const struct bench *bench, const struct header *header)
{
    return bench->result + header->rank * bench->bytes + (uint64_t)header->chunk * CHUNK_BYTES;
}

static bool is_wanted(const struct bench *bench, const struct header *header)
{
    return header->round == bench->round && header->rank != bench->rank && header->rank < bench->size &&
           header->chunk < bench->chunks;
}

/* The number of chunks that came into staging, copied to their places or not. */
static uint64_t take_staged(struct bench *bench, enum way way)
{
    ssize_t bytes = recv(bench->in, bench->staging, (size_t)BATCH * DATAGRAM_BYTES, 0);
    uint64_t count = 0;

    for (ssize_t at = 0; at < bytes; at += DATAGRAM_BYTES) {
        struct header header;

        memcpy(&header, bench->staging + at, sizeof header);
        if (!is_wanted(bench, &header)) {
            continue;
        }
        if (way == STAGED) {
            memcpy(place_of(bench, &header), bench->staging + at + HEADER_BYTES, CHUNK_BYTES);
        }
        count++;
    }
    return bytes < 0 ? UINT64_MAX : count;
}

/* The same, into the places where the chunks of the next super-packet belong. */
static uint64_t take_direct(struct bench *bench)
{
    struct header first, headers[BATCH];
    struct iovec parts[2 * BATCH];
    struct msghdr message = {.msg_iov = parts};

    if (recv(bench->in, &first, sizeof first, MSG_PEEK) < 0) {
        return UINT64_MAX;
    }
    if (!is_wanted(bench, &first)) {
        recv(bench->in, &first, sizeof first, 0);
        return 0;
    }
    uint64_t count = bench->chunks - first.chunk < BATCH ? bench->chunks - first.chunk : BATCH;
    for (uint64_t i = 0; i < count; i++) {
        parts[2 * i] = (struct iovec){.iov_base = &headers[i], .iov_len = HEADER_BYTES};
        parts[2 * i + 1] =
            (struct iovec){.iov_base = place_of(bench, &first) + i * CHUNK_BYTES, .iov_len = CHUNK_BYTES};
    }
    message.msg_iovlen = 2 * count;
    ssize_t bytes = recvmsg(bench->in, &message, 0);
    return bytes < 0 ? UINT64_MAX : (uint64_t)bytes / DATAGRAM_BYTES;
}

/* Without a rate for what comes; with one for the next turn, so that what comes meanwhile is taken at once. */
static void wait_some(const struct bench *bench)
{
    struct pollfd waiting = {.fd = bench->in, .events = POLLIN};
    uint64_t now_ns = tt_clock_now_ns();

    if (bench->rate_bps == 0) {
        poll(&waiting, 1, 1);
        return;
    }
    uint64_t until_ns = now_ns + WAIT_NS;
    until_ns = bench->sent < bench->chunks && bench->due_ns < until_ns ? bench->due_ns : until_ns;
    struct timespec pause = {.tv_nsec = until_ns > now_ns ? (long)(until_ns - now_ns) : 0};
    nanosleep(&pause, NULL);
}

/* Until all is sent and here; nanoseconds, or 0: something was lost. */
static uint64_t run_round(struct bench *bench, enum way way)
{
    uint64_t all = bench->chunks * (bench->size - 1), begun_ns = tt_clock_now_ns(), last_ns = begun_ns;
    uint64_t turn_ns = share_ns(bench, BATCH);

    bench->due_ns = begun_ns + turn_ns * bench->rank / bench->size; /* not all at once */
    bench->sent = bench->received = 0;
    while (bench->sent < bench->chunks || bench->received < all) {
        bool moved = send_some(bench);
        uint64_t taken;

        while ((taken = way == DIRECT ? take_direct(bench) : take_staged(bench, way)) != UINT64_MAX) {
            bench->received += taken;
            moved = true;
            if (bench->sent < bench->chunks) {
                break;
            }
        }
        if (moved) {
            last_ns = tt_clock_now_ns();
        } else if (tt_clock_now_ns() - last_ns > SILENCE_NS + turn_ns) {
            return 0;
        } else {
            wait_some(bench);
        }
    }
    return tt_clock_now_ns() - begun_ns;
}

/* --- Ranks -------------------------------------------------------------------------------------------------------- */

/* An Allgather of eight bytes a rank: their largest; the last one to come decides when all go on. */
static int agree(const struct bench *bench, double own, double *most, double *sum)
{
    double all[MOST_RANKS];
    tutti_request *request = NULL;

    if (tutti_allgather_init(bench->group, &own, all, sizeof own, NULL, &request) != TUTTI_OK ||
        tutti_post(request) != TUTTI_OK || tutti_wait(request) != TUTTI_OK) {
        fprintf(stderr, "sockets: %s\n", tutti_last_error());
        return -1;
    }
    tutti_finalize(request);
    *most = *sum = 0;
    for (uint32_t rank = 0; rank < bench->size; rank++) {
        *most = all[rank] > *most ? all[rank] : *most;
        *sum += all[rank];
    }
    return 0;
}

static int measure(struct bench *bench, enum way way)
{
    uint64_t slowest_ns[ROUND_LIMIT];
    struct tt_statistics statistics;
    double cpu_s = 0, most, sum;
    uint64_t good = 0;

    for (uint64_t round = 0; round < bench->rounds; round++) {
        bench->round++;
        if (agree(bench, 0, &most, &sum) != 0) {
            return -1;
        }
        uint64_t cpu_begun_ns = tt_clock_cpu_ns();
        uint64_t taken_ns = run_round(bench, way);
        double used_s = (double)(tt_clock_cpu_ns() - cpu_begun_ns) / TT_NS_PER_S;

        if (agree(bench, taken_ns == 0 ? LOST : (double)taken_ns, &most, &sum) != 0) {
            return -1;
        }
        if (most < LOST) {
            slowest_ns[good++] = (uint64_t)most;
            cpu_s += used_s;
        }
    }
    if (agree(bench, good > 0 ? cpu_s / (double)good : 0, &most, &sum) != 0) {
        return -1;
    }
    if (bench->rank == 0) {
        tt_statistics_compute(slowest_ns, good, &statistics);
        double delivered = (double)(bench->bytes * (bench->size - 1)) * bench->size / 1e9;

        printf("%-8s %10.0f %14.2f %8" PRIu64 "\n", way_names[way], statistics.median_ns / 1e3, sum / delivered,
               bench->rounds - good);
        fflush(stdout);
    }
    return 0;
}

static int run(struct bench *bench)
{
    bench->chunks = bench->bytes / CHUNK_BYTES;
    bench->block = calloc(1, bench->bytes);
    bench->result = calloc(bench->size, bench->bytes);
    bench->staging = malloc((size_t)BATCH * DATAGRAM_BYTES);
    if (bench->block == NULL || bench->result == NULL || bench->staging == NULL || open_sockets(bench) != 0) {
        return -1;
    }
    memset(bench->block, (int)bench->rank, bench->bytes);
    if (bench->rank == 0) {
        printf("# %u ranks, %" PRIu64 " bytes each; without any protocol\n%-8s %10s %14s %8s\n", bench->size,
               bench->bytes, "way", "slowest us", "cpu s per GB", "lossy");
    }
    for (int way = 0; way < WAYS; way++) {
        if (measure(bench, (enum way)way) != 0) {
            return -1;
        }
    }
    return 0;
}

static bool take_option(void *target, int option, const char *value)
{
    struct bench *bench = target;

    if (option == OPTION_RATE) {
        if (tt_parse_rate(value, &bench->rate_bps) != TUTTI_OK) {
            tt_usage_error("sockets", "--rate %s: not a rate, like 500mbit", value);
            return false;
        }
        return true;
    }
    if (option == OPTION_ITERATIONS) {
        return tt_arguments_count("sockets", "--iterations", value, 1, ROUND_LIMIT, &bench->rounds);
    }
    if (tt_parse_size(value, &bench->bytes) != TUTTI_OK || bench->bytes == 0 || bench->bytes % CHUNK_BYTES != 0 ||
        bench->bytes > MOST_BYTES) {
        tt_usage_error("sockets", "--bytes %s: not a multiple of 8K up to 1G", value);
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct bench bench = {.bytes = 4 << 20, .rounds = 20, .in = -1, .out = -1};
    enum tt_parse parse = tt_arguments_read_all(&usage, argc, argv, take_option, &bench);

    if (parse != TT_PARSE_OK) {
        return parse == TT_PARSE_HELP ? TT_EXIT_OK : TT_EXIT_USAGE;
    }
    if (tutti_context_create(NULL, &bench.context) != TUTTI_OK ||
        tutti_group_create_from_environment(bench.context, &bench.group) != TUTTI_OK) {
        fprintf(stderr, "sockets: %s\n", tutti_last_error());
        tutti_context_destroy(bench.context);
        return TT_EXIT_FAILED;
    }
    bench.rank = tutti_group_rank(bench.group);
    bench.size = tutti_group_size(bench.group);
    if (bench.size > MOST_RANKS) {
        fprintf(stderr, "sockets: %u ranks: there may be %d\n", bench.size, MOST_RANKS);
    }
    int result = bench.size <= MOST_RANKS ? run(&bench) : -1;
    close(bench.in);
    close(bench.out);
    tutti_group_destroy(bench.group);
    tutti_context_destroy(bench.context);
    free(bench.block);
    free(bench.result);
    free(bench.staging);
    return result == 0 ? TT_EXIT_OK : TT_EXIT_FAILED;
}
