/* SPDX-License-Identifier: BSD-3-Clause */
/* The world of engine_world.h: a reliable provider that has a count of frames and a descriptor. */
#include "engine_world.h"

#include <unistd.h>

#include "explore.h"
#include "system.h"

struct tt_engine world_engine;
struct tt_party world_party;
struct world_request world_requests[WORLD_REQUESTS];

static struct tt_network network;
static int network_fd;
static _Atomic uint32_t arrived; /* frames that the network has brought */
static uint32_t seen, posted;    /* control's: frames and requests */
static uint32_t ended;
static int ended_fd; /* 0: none */
static bool (*party_moves)(void), (*workers_have)(void);

static uint64_t now(void *argument)
{
    (void)argument;
    return tt_clock_now_ns();
}

/* --- The network -------------------------------------------------------------------------------------------------- */

void world_ring(int fd)
{
    uint64_t one = 1;

    EXPLORE_CHECK(write(fd, &one, sizeof one) == sizeof one);
}

void world_arrive(void)
{
    atomic_fetch_add_explicit(&arrived, 1, memory_order_seq_cst);
    world_ring(network_fd);
}

static uint32_t progress(struct tt_p2p *p2p, struct tt_p2p_event *events, uint32_t most)
{
    static uint8_t frame[TT_FRAME_HEADER_BYTES];
    struct tt_frame body = {.type = TT_FRAME_FINAL, .group = world_party.key};

    (void)p2p;
    (void)most;
    if (seen == atomic_load_explicit(&arrived, memory_order_seq_cst)) {
        return 0;
    }
    seen++;
    events[0] = (struct tt_p2p_event){
        .type = TT_P2P_FRAME, .data = frame, .length_bytes = (uint32_t)tt_frame_encode(&body, frame, sizeof frame)};
    return 1;
}

static bool arm(struct tt_p2p *p2p)
{
    uint64_t count;

    (void)p2p;
    (void)read(network_fd, &count, sizeof count);
    return seen == atomic_load_explicit(&arrived, memory_order_seq_cst);
}

static uint64_t tend(struct tt_p2p *p2p, uint64_t now_ns)
{
    (void)p2p;
    (void)now_ns;
    return TT_NEVER;
}

static void counters(struct tt_p2p *p2p, struct tt_p2p_counters *read)
{
    (void)p2p;
    *read = (struct tt_p2p_counters){0};
}

static const struct tt_p2p_ops provider = {
    .name = "fake", .progress = progress, .arm = arm, .tend = tend, .counters = counters};
static struct tt_p2p p2p_provider = {.ops = &provider};

/* --- The party ---------------------------------------------------------------------------------------------------- */

/* As what carries out the end of a collective does it. */
static void end_requests(void)
{
    while (ended < posted && ended < seen) {
        world_engine.parties.owing--;
        atomic_store_explicit(&world_requests[ended++].done, true, memory_order_release);
        tt_engine_announce(&world_engine);
        if (ended == posted && ended_fd != 0) {
            world_ring(ended_fd);
        }
    }
}

static void take_post(struct tt_party *party, struct tt_post *post, uint64_t now_ns)
{
    (void)now_ns;
    (void)party;
    EXPLORE_CHECK(posted < WORLD_REQUESTS && post == &world_requests[posted].post);
    world_engine.parties.owing++;
    posted++;
    end_requests();
}

static void take_frame(struct tt_party *party, const struct tt_origin *origin, const uint8_t *bytes,
                       uint32_t length_bytes)
{
    (void)party;
    (void)origin;
    (void)bytes;
    (void)length_bytes;
    end_requests();
}

static bool move(struct tt_party *party, uint64_t now_ns, bool looks)
{
    (void)party;
    (void)now_ns;
    (void)looks;
    return party_moves();
}

static bool nothing_after_frames(struct tt_party *party, uint64_t now_ns, bool looked)
{
    (void)party;
    (void)now_ns;
    (void)looked;
    return false;
}

static uint64_t no_deadline(const struct tt_party *party)
{
    (void)party;
    return TT_NEVER;
}

static bool stays_awake(const struct tt_party *party)
{
    (void)party;
    return false;
}

static bool workers_want(const struct tt_party *party)
{
    (void)party;
    return workers_have();
}

static const struct tt_party_ops party_ops = {.magic = TT_FRAME_MAGIC,
                                              .post = take_post,
                                              .frame = take_frame,
                                              .progress = move,
                                              .after_frames = nothing_after_frames,
                                              .deadline = no_deadline,
                                              .may_sleep = stays_awake,
                                              .workers_want = workers_want};

/* --- The world ---------------------------------------------------------------------------------------------------- */

void world_begin(uint32_t in_progress)
{
    explore_system_begin();
    memset(&world_engine, 0, sizeof world_engine);
    memset(world_requests, 0, sizeof world_requests);
    world_party = (struct tt_party){.ops = &party_ops, .key = 1, .deadline_ns = TT_NEVER};
    for (uint32_t i = 0; i < WORLD_REQUESTS; i++) {
        world_requests[i].post.party = &world_party;
    }
    network = (struct tt_network){.p2p = &p2p_provider, .tend_ns = TT_NEVER};
    network_fd = eventfd(0, 0);
    arrived = 0;
    seen = ended = 0;
    ended_fd = 0;
    posted = in_progress;
    world_engine.parties.owing = in_progress;
    world_engine.parties.buckets[world_party.key % TT_PARTIES_BUCKETS] = &world_party;
    world_engine.now_ns = now;
    pthread_mutex_init(&world_engine.lock, NULL);
    pthread_cond_init(&world_engine.finished, NULL);
    pthread_cond_init(&world_engine.entry, NULL);
    world_engine.networks[0] = &network;
    world_engine.network_count = 1;
    EXPLORE_CHECK(tt_wakeup_create(&world_engine.wakeup) == TUTTI_OK);
    EXPLORE_CHECK(tt_wakeup_add(world_engine.wakeup, network_fd) == TUTTI_OK);
}

void world_rings_at_end(int fd)
{
    ended_fd = fd;
}

void world_wakes(bool (*moves)(void), bool (*wants)(void))
{
    party_moves = moves;
    workers_have = wants;
    tt_party_wake(&world_engine.parties, &world_party);
}

void world_sleeps(void)
{
    world_engine.parties.awake = NULL;
    world_party.awake = false;
}

void world_end(void)
{
    EXPLORE_CHECK(ended == posted);
    EXPLORE_CHECK(!world_engine.controlled && world_engine.waiters == 0 && world_engine.lock_wanted == 0);
    tt_wakeup_destroy(world_engine.wakeup);
}
