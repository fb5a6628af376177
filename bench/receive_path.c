/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measured receive path.
 *
 * Normal path: a stream is published in a receiver of its own, and two queues are attached, over loopback or the RDMA
 * device that the settings choose, and introduced; blocks of known bytes are sent, received with what a receive worker
 * calls (poll, the receive kernel, repost), timed, and compared. The sender never runs ahead of what the receive queue
 * holds, so that nothing may be lost. Each side attaches in its own process: memory that a device writes to is not
 * forked.
 * Failures: a chunk that does not come, or a block with a wrong byte, ends the program with status 1 and a sentence.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/settings.h"
#include "engine/network.h"
#include "fabric/udp/udp.h"
#include "fabric/verbs/mcast.h"
#include "plan/layout.h"
#include "proto/receive.h"
#include "receive_path.h"

enum {
    TAG = 1,
    POST_CHUNKS = 64,
    POLL_CHUNKS = 256,
    PATTERNS = 2,
    SENDER_RANK = 0,
    RECEIVER_RANK = 1,
    RANKS = 2,
    MEMBERS = RANKS + 1, /* and one that is not there: two would send by unicast */
    SETTLE_MS = 2
};

#define PATIENCE_NS (10 * TT_NS_PER_S)

/* Between the two processes. */
struct shared {
    uint8_t names[MEMBERS][TT_MCAST_NAME_BYTES];
    _Atomic bool named[RANKS];
    _Atomic uint64_t opened;               /* blocks that the receiver is ready for */
    _Alignas(128) _Atomic uint64_t placed; /* chunks of all blocks so far */
};

struct path {
    const struct receive_options *options;
    struct tt_mcast *mcast;
    struct tt_mcast_queue *queue;
    struct tt_mcast_memory *memory; /* the sender's patterns; NULL: they need no registration */
    struct tt_mcast_queue_options queue_options;
    struct tt_receiver receiver;
    struct tt_stream stream;
    uint8_t *buffer;   /* received */
    uint8_t *patterns; /* PATTERNS blocks to send in turn, shared with the sender */
    struct shared *shared;
    /* Of all blocks: */
    uint64_t polls, dry_polls, poll_ns, place_ns;
    bool timed; /* step by step; the clock is a system call */
};

static void fail(const char *what)
{
    fprintf(stderr, "receive: %s%s%s\n", what, tt_last_error()[0] != '\0' ? ": " : "", tt_last_error());
    exit(1);
}

static void *shared_memory(size_t length_bytes)
{
    void *memory = mmap(NULL, length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        fail("no memory");
    }
    return memory;
}

/* This process to the n-th of the processors that it may use; false if it has fewer. */
static bool pin(int n)
{
    cpu_set_t all, one;

    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all) != 0) {
        return false;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all) && n-- == 0) {
            CPU_SET(cpu, &one);
            return sched_setaffinity(0, sizeof one, &one) == 0;
        }
    }
    return false;
}

static tutti_status create_udp(const struct receive_options *options, struct tt_mcast **mcast)
{
    struct tt_udp_options udp = {
        .receive_buffer_bytes = options->buffer_bytes, .ttl = 0, .loop = true, .plain = options->plain};
    tutti_status status = tt_interface_find("127.0.0.1", &udp.interface);

    return status == TUTTI_OK ? tt_udp_create(&udp, mcast) : status;
}

/* Over the device that a group would take. */
static tutti_status create_verbs(const struct receive_options *options, struct tt_mcast **mcast)
{
    static struct tt_settings settings;
    struct tt_interface interface = {.loopback = true}; /* none in particular */
    struct tt_verbs_mcast_options verbs = {.receive_buffer_bytes = options->buffer_bytes};
    tutti_status status = tt_settings_load(&settings);

    if (status == TUTTI_OK && strcmp(settings.interface, "auto") != 0) {
        status = tt_interface_find(settings.interface, &interface);
    }
    if (status == TUTTI_OK) {
        struct tt_verbs_device_options device = tt_network_device(&settings, &interface);
        status = tt_verbs_device_open(&device, &verbs.device);
    }
    if (status == TUTTI_OK) {
        status = tt_verbs_mcast_create(&verbs, mcast);
        tt_verbs_device_close(verbs.device); /* the provider has a reference of its own */
    }
    return status;
}

/* The queue of this rank, and its name for the other. */
static void attach(struct path *path, uint32_t rank)
{
    const struct receive_options *options = path->options;

    if ((options->verbs ? create_verbs(options, &path->mcast) : create_udp(options, &path->mcast)) != TUTTI_OK) {
        fail(options->verbs ? "no multicast through an RDMA device" : "no multicast over loopback");
    }
    path->queue_options.rank = rank;
    if (path->mcast->ops->attach(path->mcast, &path->queue_options, &path->queue) != TUTTI_OK ||
        tt_mcast_join(path->queue) != TUTTI_OK) {
        fail("cannot attach");
    }
    path->queue->ops->describe(path->queue, path->shared->names[rank]);
    atomic_store_explicit(&path->shared->named[rank], true, memory_order_release);
}

static void introduce(struct path *path)
{
    uint64_t deadline_ns = tt_clock_now_ns() + PATIENCE_NS;

    for (uint32_t rank = 0; rank < RANKS; rank++) {
        while (!atomic_load_explicit(&path->shared->named[rank], memory_order_acquire)) {
            if (tt_clock_now_ns() > deadline_ns) {
                fail("the other side does not attach");
            }
            sched_yield();
        }
    }
    if (path->queue->ops->introduce(path->queue, path->shared->names, TT_MCAST_NAME_BYTES, MEMBERS) != TUTTI_OK) {
        fail("cannot introduce the queues");
    }
}

static void detach(struct path *path)
{
    path->mcast->ops->memory_release(path->memory);
    path->queue->ops->detach(path->queue);
    path->mcast->ops->destroy(path->mcast);
}

/* The sender's path, beside the receiver's. */
static void attach_sender(struct path *sending, const struct path *path)
{
    *sending = *path;
    attach(sending, SENDER_RANK);
    sending->memory =
        sending->mcast->ops->memory_register(sending->mcast, 0, path->patterns, PATTERNS * path->options->block_bytes);
}

static void open_path(struct path *path, const struct receive_options *options)
{
    struct tt_random random;
    struct tt_layout layout;

    memset(path, 0, sizeof *path);
    path->options = options;
    tt_random_init(&random, (uint64_t)getpid());
    path->queue_options = (struct tt_mcast_queue_options){
        .address = {.group_be = htonl(0xEFC50000U | ((uint32_t)getpid() & 0xFFFF)), /* 239.197.x.y */
                    .port = (uint16_t)(30000 + getpid() % 10000),
                    .key = tt_random_next(&random)},
        .chunk_bytes = (uint32_t)options->chunk_bytes};
    if (!tt_layout_init(&layout, options->block_bytes, (uint32_t)options->chunk_bytes, 1, 1, TT_PSN_LIMIT)) {
        fail("the block has more chunks than a subgroup can number");
    }
    tt_layout_stripe(&layout, 0, &path->stream.stripe);
    path->shared = shared_memory(sizeof *path->shared);
    path->patterns = shared_memory(PATTERNS * options->block_bytes);
    path->buffer = shared_memory(options->block_bytes);
    path->stream.bitmap = shared_memory((tt_stream_words(&path->stream) + 1) * sizeof *path->stream.bitmap);
    for (uint64_t i = 0; i < PATTERNS * options->block_bytes; i++) {
        path->patterns[i] = (uint8_t)(tt_random_next(&random) >> 32);
    }
    memset(path->buffer, 0, options->block_bytes);
    path->stream.buffer = path->buffer;
    path->stream.first_source = SENDER_RANK;
    atomic_store(&path->stream.notify_at, UINT32_MAX);
    path->receiver.rank = RECEIVER_RANK;
    path->receiver.size = 2;
    tt_receiver_publish(&path->receiver, TAG, &path->stream);
}

static void close_path(struct path *path)
{
    detach(path);
    munmap(path->patterns, PATTERNS * path->options->block_bytes);
    munmap(path->buffer, path->options->block_bytes);
    munmap((void *)path->stream.bitmap, (tt_stream_words(&path->stream) + 1) * sizeof *path->stream.bitmap);
    munmap(path->shared, sizeof *path->shared);
}

/* Posts `count` chunks of a block from `first` on, and waits for room where there is none. */
static void post(const struct path *path, uint32_t block, uint32_t first, uint32_t count)
{
    struct tt_mcast_queue *queue = path->queue;
    const struct tt_stripe *stripe = &path->stream.stripe;
    const uint8_t *source = path->patterns + block % PATTERNS * path->options->block_bytes;
    struct tt_send_chunk chunks[POST_CHUNKS];
    uint64_t deadline_ns = tt_clock_now_ns() + PATIENCE_NS;

    for (uint32_t done = 0; done < count;) {
        uint32_t batch = count - done < POST_CHUNKS ? count - done : POST_CHUNKS;
        for (uint32_t i = 0; i < batch; i++) {
            uint32_t psn = first + done + i;
            chunks[i] = (struct tt_send_chunk){.imm = tt_imm_encode(TAG, psn),
                                               .length_bytes = tt_stripe_length(stripe, psn),
                                               .address = source + tt_stripe_offset(stripe, 0, psn),
                                               .memory = path->memory};
        }
        uint32_t accepted = queue->ops->post(queue, chunks, batch);
        done += accepted;
        if (accepted == 0 && tt_clock_now_ns() > deadline_ns) {
            fail("the send queue stays full");
        }
    }
}

/* Of this thread: what others do with the processor meanwhile does not count. */
static uint64_t cpu_time(void)
{
    return tt_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

/*
 * One round of the receive path; returns how many chunks were polled. What tt_queue_receive of the engine does, with a
 * clock in between. Not inlined: tools that count look for its name.
 */
__attribute__((noinline)) static uint32_t take(struct path *path)
{
    struct tt_receive_chunk chunks[POLL_CHUNKS];
    const struct tt_mcast_ops *ops = path->queue->ops;
    uint64_t begun_ns = path->timed ? cpu_time() : 0;
    uint32_t count = ops->poll(path->queue, chunks, POLL_CHUNKS);
    uint64_t polled_ns = path->timed ? cpu_time() : 0;

    path->polls++;
    if (count == 0) {
        path->dry_polls++;
        return 0;
    }
    tt_receive(&path->receiver, chunks, count);
    ops->repost(path->queue, chunks, count);
    path->poll_ns += polled_ns - begun_ns;
    path->place_ns += path->timed ? cpu_time() - polled_ns : 0;
    return count;
}

static uint32_t received(const struct path *path)
{
    return atomic_load_explicit(&path->stream.received, memory_order_relaxed);
}

/* After a block: it must be what was sent. Makes the stream ready for the next. */
static void check_block(struct path *path, uint32_t block)
{
    const struct receive_options *options = path->options;

    if (memcmp(path->buffer, path->patterns + block % PATTERNS * options->block_bytes, options->block_bytes) != 0) {
        fail("a block has wrong bytes");
    }
    tt_stream_reset(&path->stream);
}

/* --- Stream ------------------------------------------------------------------------------------------------------- */

static void run_sender(const struct path *path)
{
    struct path sending;
    uint32_t chunks = path->stream.stripe.chunks;

    attach_sender(&sending, path);
    introduce(&sending);
    uint32_t ahead = sending.queue->ops->depth_chunks(sending.queue); /* the receiver's queue is of the same kind */
    uint64_t deadline_ns = tt_clock_now_ns() + PATIENCE_NS;

    for (uint32_t block = 0; block < path->options->blocks; block++) {
        for (uint32_t posted = 0; posted < chunks;) {
            uint64_t before = (uint64_t)block * chunks;
            bool open = atomic_load_explicit(&path->shared->opened, memory_order_acquire) > block;
            uint64_t placed = atomic_load_explicit(&path->shared->placed, memory_order_acquire);
            uint64_t limit = open ? placed + ahead - before : 0;
            uint32_t most = ahead < POST_CHUNKS ? ahead : POST_CHUNKS;
            uint32_t batch = chunks - posted < most ? chunks - posted : most;
            if (posted + batch <= limit) {
                post(&sending, block, posted, batch);
                posted += batch;
                deadline_ns = tt_clock_now_ns() + PATIENCE_NS;
            } else if (tt_clock_now_ns() > deadline_ns) {
                fail("the receiver takes no more");
            } else {
                sched_yield();
            }
        }
    }
    detach(&sending);
}

static double receive_block(struct path *path, uint32_t block)
{
    uint64_t begun_ns = tt_clock_now_ns(), moved_ns = begun_ns;
    uint64_t before = (uint64_t)block * path->stream.stripe.chunks;
    struct pollfd readable = {.fd = path->queue->ops->receive_fd(path->queue), .events = POLLIN};

    atomic_store_explicit(&path->shared->opened, block + 1, memory_order_release);
    while (received(path) < path->stream.stripe.psn_count) {
        if (take(path) > 0) {
            atomic_store_explicit(&path->shared->placed, before + received(path), memory_order_release);
            moved_ns = tt_clock_now_ns();
        } else if (tt_clock_now_ns() - moved_ns > PATIENCE_NS) {
            fail("chunks were lost");
        } else {
            poll(&readable, 1, 1); /* as a worker does: the processor may have something else to do */
        }
    }
    return (double)(tt_clock_now_ns() - begun_ns) / TT_NS_PER_S;
}

static void run_stream(struct path *path, double *seconds, uint64_t *cpu_ns)
{
    pid_t parent = getpid(), sender;
    int status;

    sender = fork();
    if (sender == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent) {
            pin(1);
            run_sender(path);
        }
        _exit(0);
    }
    if (sender < 0) {
        fail(strerror(errno));
    }
    attach(path, RECEIVER_RANK);
    introduce(path);
    for (uint32_t block = 0; block < path->options->blocks; block++) {
        uint64_t before_ns = cpu_time();
        seconds[block] = receive_block(path, block);
        *cpu_ns += cpu_time() - before_ns;
        check_block(path, block);
    }
    if (waitpid(sender, &status, 0) != sender || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail("the sender failed");
    }
}

/* --- Turns -------------------------------------------------------------------------------------------------------- */

/*
 * Until a burst is where polls find all of it. Loopback delivers while it is sent. A device says when it has sent, and
 * brings it a moment later; polls that found half a burst would make every run a different one.
 */
static void settle(const struct path *sending, uint32_t posted)
{
    uint64_t deadline_ns = tt_clock_now_ns() + PATIENCE_NS;

    if (!sending->options->verbs) {
        return;
    }
    while (sending->queue->ops->sent(sending->queue) != posted) {
        if (tt_clock_now_ns() > deadline_ns) {
            fail("what was posted is not sent");
        }
        sched_yield();
    }
    poll(NULL, 0, SETTLE_MS);
}

/* Receives until `end` chunks of the block are there; returns the processor time that it took. */
static uint64_t take_until(struct path *path, uint32_t end)
{
    uint64_t cpu_ns = 0, deadline_ns = tt_clock_now_ns() + PATIENCE_NS;

    while (received(path) < end) {
        uint64_t begun_ns = cpu_time();
        uint32_t count = take(path);
        cpu_ns += cpu_time() - begun_ns;
        if (count > 0) {
            continue;
        }
        if (!path->options->verbs || tt_clock_now_ns() > deadline_ns) {
            fail("chunks were lost");
        }
        poll(NULL, 0, SETTLE_MS);
    }
    return cpu_ns;
}

static void run_turns(struct path *path, double *seconds, uint64_t *cpu_ns)
{
    struct path sending;

    attach(path, RECEIVER_RANK);
    attach_sender(&sending, path);
    introduce(path);
    introduce(&sending);
    uint32_t depth = path->queue->ops->depth_chunks(path->queue), chunks = path->stream.stripe.chunks;
    uint32_t burst = path->options->burst_chunks < depth ? (uint32_t)path->options->burst_chunks : depth;
    for (uint32_t block = 0; block < path->options->blocks; block++) {
        seconds[block] = 0;
        for (uint32_t first = 0; first < chunks; first += burst) {
            uint32_t end = chunks - first < burst ? chunks : first + burst;
            post(&sending, block, first, end - first);
            settle(&sending, block * chunks + end);
            uint64_t taken_ns = take_until(path, end);
            seconds[block] += (double)taken_ns / TT_NS_PER_S;
            *cpu_ns += taken_ns;
        }
        check_block(path, block);
    }
    detach(&sending);
}

/* --- Measuring ---------------------------------------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static struct receive_result measure(const struct receive_options *options, const char *mode,
                                     void (*run)(struct path *path, double *seconds, uint64_t *cpu_ns))
{
    static struct path path;
    static double seconds[RECEIVE_BLOCKS_LIMIT];
    struct receive_result result = {.mode = mode};

    open_path(&path, options);
    path.timed = !options->untimed;
    pin(0);
    run(&path, seconds, &result.cpu_ns);
    qsort(seconds, options->blocks, sizeof *seconds, compare);
    result.median_s = seconds[options->blocks / 2];
    result.best_s = seconds[0];
    result.polls = path.polls;
    result.dry_polls = path.dry_polls;
    result.poll_ns = path.poll_ns;
    result.place_ns = path.place_ns;
    result.chunks = (uint64_t)path.stream.stripe.chunks * options->blocks;
    close_path(&path);
    return result;
}

struct receive_result receive_stream(const struct receive_options *options)
{
    return measure(options, "stream", run_stream);
}

struct receive_result receive_turns(const struct receive_options *options)
{
    return measure(options, "turns", run_turns);
}
