/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world: its life and its time.
 *
 * Normal path of a step: time goes to the next event of the simulator, deadline of an engine or alarm of an
 * application, whichever is first; then every node that has something new, or whose time has come, runs until it is
 * dry, and so do those that this makes ready, until nothing more happens at this instant.
 *
 * Failures: an engine that never gets dry, or asks to be called again and again at one instant, is a problem and is
 * left alone until something else happens. Violations of the fabric's contracts are problems. What the harness itself
 * cannot do without (memory, the arena, an engine) ends the process.
 */
#include "support/world.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/least.h"
#include "base/log.h"
#include "support/world_private.h"

#define ARENA_ADDRESS ((void *)(uintptr_t)UINT64_C(0x200000000000))
#define ARENA_BYTES   ((size_t)1 << 34) /* reserved; pages come with their use */
enum { SPIN_LIMIT = 10000 };

static void *shared_arena; /* stays from world to world, so that its pages need not be made again */

void *tt_world_allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count > 0 ? count : 1, bytes);

    if (memory == NULL) {
        fprintf(stderr, "world: no memory for %zu times %zu bytes\n", count, bytes);
        abort();
    }
    return memory;
}

/* --- Life --------------------------------------------------------------------------------------------------------- */

static void set_defaults(struct tt_settings *settings)
{
    memset(settings, 0, sizeof *settings);
    for (size_t i = 0; i < tt_settings_count(); i++) {
        struct tt_setting_description description;

        tt_settings_describe(settings, i, &description);
        if (tt_settings_set(settings, description.name, description.default_text) != TUTTI_OK) {
            fprintf(stderr, "world: %s\n", tt_last_error());
            abort();
        }
    }
}

/* A byte takes 1 ns on a link, a link's latency is 1 us, a chunk has 1000 bytes, and nothing has a header: a chunk that
 * meets no other arrives 1000 + 1000 + 1000 + 1000 ns after it was posted. A crash is noticed after 1 ms. */
void tt_world_options_init(struct tt_world_options *options, uint32_t node_count)
{
    struct tt_sim_link link = {.bits_per_second = 8 * TT_NS_PER_S, .latency_ns = 1000};

    memset(options, 0, sizeof *options);
    tt_sim_options_init(&options->sim, node_count);
    options->sim.uplink = options->sim.downlink = link;
    options->sim.max_chunk_bytes = 1000;
    options->sim.header_bytes = 0;
    options->sim.p2p_packet_bytes = 1000;
    options->sim.detection_min_ns = options->sim.detection_max_ns = TT_NS_PER_MS;
    set_defaults(&options->settings);
    options->settings.chunk_bytes = 1000;
    options->settings.bandwidth = link.bits_per_second;
    options->settings.alpha_ns = TT_NS_PER_MS;
    options->settings.tail_ns = 100 * TT_NS_PER_US;
    options->settings.timeout_ns = TT_NS_PER_S;
    options->settings.probe_timeout_ns = 50 * TT_NS_PER_MS;
    options->settings.bootstrap_timeout_ns = 10 * TT_NS_PER_S;
    options->settle_ns = 5 * TT_NS_PER_S; /* as tutti_group_destroy */
}

static void take_arena(struct tt_world *world)
{
    if (shared_arena == NULL) {
        shared_arena = mmap(ARENA_ADDRESS, ARENA_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (shared_arena != ARENA_ADDRESS) {
            fprintf(stderr, "world: no arena at %p\n", ARENA_ADDRESS);
            abort();
        }
    }
    world->arena = shared_arena;
}

uint8_t *tt_world_take_arena(struct tt_world *world, uint64_t length_bytes)
{
    uint8_t *memory = world->arena + world->arena_used_bytes;

    world->arena_used_bytes += (length_bytes + 63) / 64 * 64;
    if (world->arena_used_bytes > ARENA_BYTES) {
        fprintf(stderr, "world: the arena is full\n");
        abort();
    }
    return memory;
}

static uint64_t now_of(void *argument)
{
    const struct tt_world_clock *clock = argument;

    return tt_sim_now(clock->sim) + clock->ahead_ns;
}

/* When that is for the world. */
static uint64_t world_time(const struct tt_world *world, uint32_t node, uint64_t time_ns)
{
    uint64_t ahead_ns = world->clocks[node].ahead_ns;

    return time_ns == TT_NEVER ? TT_NEVER : time_ns > ahead_ns ? time_ns - ahead_ns : 0;
}

static uint64_t wanted_at(const struct tt_world *world, uint32_t node)
{
    return tt_least(world->alarms_ns[node], world->deadlines_ns[node]);
}

static void note_soonest(struct tt_world *world, uint32_t node, uint64_t soonest_ns)
{
    uint64_t *tree = world->soonest_ns;
    uint32_t i = world->leaves + node;

    for (tree[i] = soonest_ns; i > 1; i /= 2) {
        tree[i / 2] = tt_least(tree[i], tree[i ^ 1]);
    }
}

/* The first node from `from` on that wants to run by now; else as many as there are leaves. */
static uint32_t first_due(const struct tt_world *world, uint32_t from, uint64_t now_ns)
{
    uint32_t i = world->leaves + from;

    while (from < world->leaves && world->soonest_ns[i] > now_ns) {
        while (i % 2 == 1) { /* all below it are after what it is the right one of */
            i /= 2;
        }
        if (i == 0) {
            return world->leaves;
        }
        i++;
    }
    while (from < world->leaves && i < world->leaves) {
        i = world->soonest_ns[2 * i] <= now_ns ? 2 * i : 2 * i + 1;
    }
    return from < world->leaves ? i - world->leaves : world->leaves;
}

void tt_world_wake_at(struct tt_world *world, uint32_t node, uint64_t at_ns)
{
    world->alarms_ns[node] = tt_least(world->alarms_ns[node], at_ns);
    note_soonest(world, node, wanted_at(world, node));
}

void tt_world_jump(struct tt_world *world, uint32_t node, uint64_t by_ns)
{
    world->clocks[node].ahead_ns += by_ns;
    tt_sim_mark_ready(world->sim, node); /* its deadlines are sooner */
    tt_world_note(world, "node=%u its clock jumps", node);
}

/* What is asked of a table in the world is how parts are made; the method of a job is its own. */
static void have_parts_made(struct tt_engine *engine, enum tt_method method)
{
    engine->table.choice = (struct tt_choice){
        .row_count = 1, .rows = {{.kind = TT_REDUCE_SCATTER, .multicast = 1, .ranks = 1, .method = (uint8_t)method}}};
}

struct tt_world *tt_world_create(const struct tt_world_options *options)
{
    uint32_t count = options->sim.node_count;
    struct tt_world *world = tt_world_allocate(1, sizeof *world);
    struct tt_random random, clocks;

    world->options = *options;
    world->sim = tt_sim_create(&options->sim);
    if (world->sim == NULL) {
        fprintf(stderr, "world: %s\n", tt_last_error());
        abort();
    }
    take_arena(world);
    world->engines = tt_world_allocate(count, sizeof(struct tt_engine *));
    world->deadlines_ns = tt_world_allocate(count, sizeof *world->deadlines_ns);
    world->alarms_ns = tt_world_allocate(count, sizeof *world->alarms_ns);
    world->clocks = tt_world_allocate(count, sizeof *world->clocks);
    tt_random_init(&clocks, options->sim.seed + 1);
    for (world->leaves = 1; world->leaves < count; world->leaves *= 2) {
    }
    world->soonest_ns = tt_world_allocate(2 * (size_t)world->leaves, sizeof *world->soonest_ns);
    memset(world->soonest_ns, 0xFF, 2 * (size_t)world->leaves * sizeof *world->soonest_ns); /* TT_NEVER */
    tt_random_init(&random, options->sim.seed);
    for (uint32_t node = 0; node < count; node++) {
        uint64_t context_id = tt_random_next(&random);

        world->clocks[node].sim = world->sim;
        world->clocks[node].ahead_ns = tt_random_below(&clocks, options->clocks_ahead_ns + 1);
        world->deadlines_ns[node] = world->alarms_ns[node] = TT_NEVER;
        if (tt_engine_create_simulated(&options->settings, context_id, tt_sim_mcast(world->sim, node),
                                       tt_sim_p2p(world->sim, node), now_of, &world->clocks[node],
                                       &world->engines[node]) != TUTTI_OK) {
            fprintf(stderr, "world: %s\n", tt_last_error());
            abort();
        }
        if (tt_method_serves(options->parts_by, TT_REDUCE_SCATTER)) {
            have_parts_made(world->engines[node], options->parts_by);
        }
    }
    return world;
}

uint32_t tt_world_destroy(struct tt_world *world, char *first_problem)
{
    uint32_t problems;

    for (struct tt_world_job *job = world->jobs; job != NULL; job = job->next) {
        for (uint32_t rank = 0; rank < job->group->size; rank++) {
            tt_world_check_part(world, job, rank);
        }
    }
    if (first_problem != NULL && world->problem_count > 0) {
        memcpy(first_problem, world->problems[0], TT_WORLD_PROBLEM_BYTES);
    }
    problems = world->problem_count;
    for (struct tt_world_group *group = world->groups; group != NULL; group = group->next) {
        tt_world_free_group(group);
    }
    while (world->jobs != NULL) {
        struct tt_world_job *job = world->jobs;

        world->jobs = job->next;
        tt_world_free_parts(job);
        free(job);
    }
    while (world->groups != NULL) {
        struct tt_world_group *group = world->groups;

        world->groups = group->next;
        free(group->members);
        free(group->ranks);
        free(group);
    }
    for (uint32_t node = 0; node < world->options.sim.node_count; node++) {
        tt_engine_destroy(world->engines[node]);
    }
    tt_sim_destroy(world->sim);
    free(world->engines);
    free(world->deadlines_ns);
    free(world->alarms_ns);
    free(world->clocks);
    free(world->soonest_ns);
    free(world);
    return problems;
}

/* --- Problems ----------------------------------------------------------------------------------------------------- */

void tt_world_note(struct tt_world *world, const char *format, ...)
{
    FILE *log = world->options.sim.log;
    va_list arguments;

    if (log == NULL) {
        return;
    }
    fprintf(log, "%llu world ", (unsigned long long)tt_world_now(world));
    va_start(arguments, format);
    vfprintf(log, format, arguments);
    va_end(arguments);
    fputc('\n', log);
}

void tt_world_problem(struct tt_world *world, const char *format, ...)
{
    char text[TT_WORLD_PROBLEM_BYTES];
    int length = snprintf(text, sizeof text, "%llu ns: ", (unsigned long long)tt_world_now(world));
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    if (world->problem_count < TT_WORLD_PROBLEMS) {
        memcpy(world->problems[world->problem_count], text, sizeof text);
    }
    world->problem_count++;
    tt_world_note(world, "problem: %s", text);
}

static void look_at_violations(struct tt_world *world)
{
    while (world->violations_seen < tt_sim_violations(world->sim)) {
        tt_world_problem(world, "violation of a fabric's contract: %s",
                         tt_sim_violation_text(world->sim, world->violations_seen));
        world->violations_seen++;
    }
}

/* --- Time --------------------------------------------------------------------------------------------------------- */

/* The link counts whom it is shared among. */
static void check_link(const struct tt_engine *engine)
{
    const struct tt_link *link = &engine->networks[0]->link;
    uint32_t users = 0, turns = 0;

    for (struct tt_party *party = engine->parties.first; party != NULL; party = party->next) {
        const struct tt_group *group = tt_group_of(party);
        const struct tt_request *request = group != NULL ? group->active : NULL;

        for (; request != NULL; request = request->next) {
            users += request->collective.flow.counted;
            turns += request->collective.flow.turn.is_on;
        }
    }
    assert(link->users == users);
    assert(link->turns == turns);
}

static void run_engine(struct tt_world *world, uint32_t node)
{
    struct tt_engine *engine = world->engines[node];
    bool again = true;

    for (uint32_t turn = 0; again; turn++) {
        again = tt_engine_progress(engine);
        if (again || turn == 0) { /* what moves nothing, and is not due, takes no step */
            tt_engine_check(engine);
            check_link(engine);
        }
        tt_world_look_at_ends(world, node);
        again |= tt_engine_deadline(engine) == 0;
        if (turn == SPIN_LIMIT) {
            tt_world_problem(world, "the engine of node %u does not come to rest", node);
            return;
        }
    }
}

static void run_node(struct tt_world *world, uint32_t node)
{
    const struct tt_world_hooks *hooks = &world->options.hooks;
    uint64_t deadline_ns, setup_ns;

    run_engine(world, node);
    setup_ns = tt_world_look_at_setups(world, node);
    if (world->alarms_ns[node] <= tt_world_now(world)) {
        world->alarms_ns[node] = TT_NEVER;
    }
    if (hooks->application != NULL) {
        hooks->application(hooks->argument, node);
    }
    deadline_ns = world_time(world, node, tt_engine_deadline(world->engines[node]));
    world->deadlines_ns[node] = tt_least(deadline_ns, setup_ns);
    note_soonest(world, node, wanted_at(world, node));
    look_at_violations(world);
}

/* The same, of those that run. Who stalls wants nothing until it is ready again. */
static uint32_t next_due(struct tt_world *world, uint32_t from, uint64_t now_ns)
{
    uint32_t node = first_due(world, from, now_ns);

    while (node < world->leaves && !tt_world_node_runs(world, node)) {
        note_soonest(world, node, TT_NEVER);
        node = first_due(world, node + 1, now_ns);
    }
    return node;
}

/* Runs whoever has something to do at this instant; returns whether anybody had. */
static bool settle(struct tt_world *world)
{
    uint64_t now_ns = tt_world_now(world);
    uint32_t node;
    bool again = true, any = false;

    for (uint32_t turn = 0; again; turn++) {
        again = false;
        while (tt_sim_take_ready(world->sim, &node)) {
            run_node(world, node);
            again = true;
        }
        for (node = next_due(world, 0, now_ns); node < world->leaves; node = next_due(world, node + 1, now_ns)) {
            run_node(world, node);
            again = true;
        }
        if (turn == SPIN_LIMIT) {
            tt_world_problem(world, "the world does not come to rest");
            for (node = 0; node < world->options.sim.node_count; node++) {
                world->deadlines_ns[node] = world->deadlines_ns[node] <= now_ns ? TT_NEVER : world->deadlines_ns[node];
                note_soonest(world, node, wanted_at(world, node));
            }
            return true;
        }
        any |= again;
    }
    return any;
}

static uint64_t next_time(struct tt_world *world)
{
    uint64_t next_ns = tt_sim_next_event_time(world->sim), soonest_ns;

    do {
        soonest_ns = world->soonest_ns[1];
    } while (soonest_ns < next_ns && next_due(world, 0, soonest_ns) == world->leaves);
    return tt_least(soonest_ns, next_ns);
}

bool tt_world_step(struct tt_world *world, uint64_t until_ns)
{
    uint64_t next_ns;

    if (settle(world)) {
        return true; /* what somebody did to the world since the last step */
    }
    next_ns = next_time(world);
    if (next_ns > until_ns) {
        tt_sim_advance(world->sim, until_ns);
        return false;
    }
    tt_sim_advance(world->sim, next_ns);
    settle(world);
    return true;
}

void tt_world_run(struct tt_world *world, uint64_t until_ns)
{
    while (tt_world_step(world, until_ns)) {
    }
}
