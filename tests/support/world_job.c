/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of the world and their buffers.
 *
 * Normal path: the first post of a part lays out its buffers between guards and creates the request; every post fills
 * the own block with a pattern that depends on job, rank, number of the post and offset, and the rest of the receive
 * buffer with something else. When the request ends, the bytes are compared at once, and scribbled over.
 *
 * Failures: wrong bytes, a changed send buffer, a changed guard, and a change of what was scribbled are problems.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "support/world_private.h"

enum { GUARD_BYTES = 64, GUARD = 0xA7, UNTOUCHED = 0x5C, PIECE_BYTES = 4096 };

/* --- Patterns ----------------------------------------------------------------------------------------------------- */

static uint64_t pattern_key(const struct tt_world_job *job, uint32_t rank, uint32_t posts)
{
    struct tt_random random;

    tt_random_init(&random, ((uint64_t)job->index << 48) ^ ((uint64_t)rank << 24) ^ posts);
    return tt_random_next(&random);
}

/* Fills `bytes` (at most PIECE_BYTES) of the pattern from `offset`, a multiple of 8. */
static void fill_piece(uint8_t *target, uint64_t key, uint64_t offset, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = (key ^ ((offset + i) / 8)) * UINT64_C(0x9E3779B97F4A7C15);
        size_t rest = bytes - i < 8 ? bytes - i : 8;

        word ^= word >> 29;
        memcpy(target + i, &word, rest);
    }
}

static void fill_pattern(uint8_t *target, uint64_t key, uint64_t length_bytes)
{
    for (uint64_t done = 0; done < length_bytes; done += PIECE_BYTES) {
        fill_piece(target + done, key, done, length_bytes - done < PIECE_BYTES ? length_bytes - done : PIECE_BYTES);
    }
}

/* The offset of the first byte that differs; length_bytes if none does. */
static uint64_t compare_pattern(const uint8_t *target, uint64_t key, uint64_t length_bytes)
{
    for (uint64_t done = 0; done < length_bytes; done += PIECE_BYTES) {
        size_t bytes = length_bytes - done < PIECE_BYTES ? length_bytes - done : PIECE_BYTES;
        _Alignas(8) uint8_t right[PIECE_BYTES];

        fill_piece(right, key, done, bytes);
        if (memcmp(target + done, right, bytes) != 0) {
            size_t at = 0;

            while (target[done + at] == right[at]) {
                at++;
            }
            return done + at;
        }
    }
    return length_bytes;
}

static bool is_all(const uint8_t *bytes, uint64_t length_bytes, uint8_t value)
{
    return length_bytes == 0 ||
           (bytes[0] == value && (length_bytes == 1 || memcmp(bytes, bytes + 1, length_bytes - 1) == 0));
}

static uint8_t scribble_of(const struct tt_world_part *part)
{
    return (uint8_t)(0xC0 + part->posts % 16);
}

/* --- Buffers ------------------------------------------------------------------------------------------------------ */

/* At an address that is odd more often than not, because users' are. */
static uint8_t *take_buffer(struct tt_world *world, uint64_t length_bytes)
{
    size_t odd = (world->arena_used_bytes / 64) % 8;
    uint8_t *buffer = tt_world_take_arena(world, length_bytes + 2 * GUARD_BYTES + odd) + GUARD_BYTES + odd;

    memset(buffer - GUARD_BYTES, GUARD, GUARD_BYTES);
    memset(buffer + length_bytes, GUARD, GUARD_BYTES);
    return buffer;
}

static void check_guards(struct tt_world *world, const struct tt_world_job *job, uint32_t rank, const uint8_t *buffer,
                         uint64_t length_bytes, const char *what)
{
    if (buffer != NULL &&
        (!is_all(buffer - GUARD_BYTES, GUARD_BYTES, GUARD) || !is_all(buffer + length_bytes, GUARD_BYTES, GUARD))) {
        tt_world_problem(world, "job %u: bytes next to the %s buffer of rank %u have changed", job->index, what, rank);
    }
}

/* How much a rank sends and receives, and where its own part of the longer of the two begins. */
struct shape {
    uint64_t send_bytes, receive_bytes, own_bytes;
};

static uint64_t part_bytes(const struct tt_request_options *terms, uint32_t size, uint32_t rank)
{
    return terms->counts != NULL ? terms->counts[rank] * terms->combining.element_bytes : terms->block_bytes / size;
}

static struct shape shape_of(const struct tt_request_options *terms, uint32_t size, uint32_t rank)
{
    uint64_t block = terms->block_bytes, all = block * size;
    bool is_root = terms->root == rank;
    struct shape shape = {.send_bytes = block};

    switch (terms->kind) {
    case TT_BROADCAST:
        return (struct shape){is_root ? block : 0, block, 0};
    case TT_ALLGATHER:
        return (struct shape){block, all, rank * block};
    case TT_REDUCE:
        return (struct shape){block, is_root ? block : 0, 0};
    case TT_GATHER:
        return (struct shape){block, is_root ? all : 0, rank * block};
    case TT_SCATTER:
        return (struct shape){is_root ? all : 0, block, rank * block};
    case TT_REDUCE_SCATTER:
        for (uint32_t other = 0; other < rank; other++) {
            shape.own_bytes += part_bytes(terms, size, other);
        }
        shape.receive_bytes = part_bytes(terms, size, rank);
        return shape;
    default:
        return (struct shape){block, block, 0};
    }
}

static bool gives(const struct tt_world_part *part, uint32_t rank)
{
    return !tt_kind_row(part->terms.kind)->root_gives || part->terms.root == rank;
}

static bool gets(const struct tt_world_part *part, uint32_t rank)
{
    return !tt_kind_row(part->terms.kind)->root_gets || part->terms.root == rank;
}

static void lay_out(struct tt_world_job *job, uint32_t rank)
{
    struct tt_world *world = job->group->world;
    struct tt_world_part *part = &job->parts[rank];
    struct shape shape = shape_of(&part->terms, job->group->size, rank);
    bool in_vector = part->terms.kind == TT_REDUCE_SCATTER || part->terms.kind == TT_SCATTER;
    bool in_place = part->in_place && gives(part, rank) && gets(part, rank);

    part->is_laid_out = true;
    part->is_within = in_place && in_vector;
    part->receive_bytes = shape.receive_bytes;
    if (gets(part, rank) && !part->is_within) {
        part->receive = take_buffer(world, part->receive_bytes);
    }
    if (gives(part, rank) && (!in_place || in_vector)) {
        part->send_bytes = shape.send_bytes;
        part->send = take_buffer(world, part->send_bytes);
    }
    if (part->is_within) {
        part->receive = part->send + shape.own_bytes;
    }
    part->terms.receive = part->receive;
    part->terms.send = part->send;
}

void tt_world_give(const struct tt_world_job *job, uint32_t rank, uint32_t posts,
                   const struct tt_request_options *terms, uint8_t *target, uint64_t bytes)
{
    fill_pattern(target, pattern_key(job, rank, posts), bytes);
    tt_world_tame(job, rank, terms, target, bytes);
}

static void fill(struct tt_world_job *job, uint32_t rank)
{
    struct tt_world_part *part = &job->parts[rank];
    struct shape shape = shape_of(&part->terms, job->group->size, rank);

    if (part->receive != NULL) {
        memset(part->receive, UNTOUCHED, part->receive_bytes);
    }
    if (part->send != NULL) {
        tt_world_give(job, rank, part->posts, &part->terms, part->send, part->send_bytes);
    } else if (gives(part, rank)) {
        tt_world_give(job, rank, part->posts, &part->terms, part->receive + shape.own_bytes, shape.send_bytes);
    }
}

/* What is the user's again must be as the user left it. */
static void check_scribble(struct tt_world *world, const struct tt_world_job *job, uint32_t rank)
{
    const struct tt_world_part *part = &job->parts[rank];

    if (part->is_scribbled && part->receive != NULL && !is_all(part->receive, part->receive_bytes, scribble_of(part))) {
        tt_world_problem(world, "job %u: the receive buffer of rank %u was written after the end of post %u",
                         job->index, rank, part->posts);
    }
    if (part->is_scribbled && part->send != NULL && !is_all(part->send, part->send_bytes, scribble_of(part))) {
        tt_world_problem(world, "job %u: the send buffer of rank %u was written after the end of post %u", job->index,
                         rank, part->posts);
    }
}

/* Ranks that post different things get what the protocol lets through. */
static bool ranks_agree(const struct tt_world_job *job)
{
    const struct tt_request_options *first = &job->parts[0].terms;

    for (uint32_t rank = 1; rank < job->group->size; rank++) {
        const struct tt_request_options *terms = &job->parts[rank].terms;

        if (terms->kind != first->kind || terms->block_bytes != first->block_bytes || terms->root != first->root ||
            terms->combining.type != first->combining.type ||
            terms->combining.operation != first->combining.operation) {
            return false;
        }
    }
    return true;
}

static void wrong_byte(struct tt_world *world, const struct tt_world_job *job, uint32_t rank, const uint8_t *bytes,
                       uint64_t at)
{
    tt_world_problem(world, "job %u, post %u: rank %u has a wrong byte at %llu of %llu of its result%s", job->index,
                     job->parts[rank].posts, rank, (unsigned long long)at,
                     (unsigned long long)job->parts[rank].receive_bytes,
                     bytes[at] == UNTOUCHED ? " (never written)" : "");
}

static void compare(struct tt_world *world, const struct tt_world_job *job, uint32_t rank, const uint8_t *right)
{
    const struct tt_world_part *part = &job->parts[rank];

    for (uint64_t at = 0; at < part->receive_bytes; at++) {
        if (part->receive[at] != right[at]) {
            wrong_byte(world, job, rank, part->receive, at);
            return;
        }
    }
}

/* What is combined, gathered or scattered. */
static void check_result(struct tt_world *world, struct tt_world_job *job, uint32_t rank)
{
    const struct tt_world_part *part = &job->parts[rank];
    uint32_t size = job->group->size;
    struct shape shape = shape_of(&part->terms, size, rank);
    uint64_t block = part->terms.block_bytes;
    uint8_t *right;

    if (!ranks_agree(job) || part->receive == NULL) {
        return;
    }
    if (tt_kind_row(part->terms.kind)->combines) {
        compare(world, job, rank, tt_world_result(job, &part->terms, part->posts) + shape.own_bytes);
        return;
    }
    right = tt_world_allocate(size, block);
    if (part->terms.kind == TT_SCATTER) {
        tt_world_give(job, part->terms.root, part->posts, &part->terms, right, block * size);
        compare(world, job, rank, right + shape.own_bytes);
    } else {
        for (uint32_t other = 0; other < size; other++) {
            tt_world_give(job, other, part->posts, &part->terms, right + other * block, block);
        }
        compare(world, job, rank, right);
    }
    free(right);
}

static void check_content(struct tt_world *world, struct tt_world_job *job, uint32_t rank)
{
    const struct tt_world_part *part = &job->parts[rank];
    uint32_t roots = part->terms.kind == TT_ALLGATHER ? job->group->size : 1;
    uint64_t block_bytes = part->terms.block_bytes;

    if (part->terms.kind != TT_BROADCAST && part->terms.kind != TT_ALLGATHER) {
        check_result(world, job, rank);
        return;
    }
    for (uint32_t i = 0; i < roots; i++) {
        uint32_t root = roots > 1 ? i : part->terms.kind == TT_ALLGATHER ? 0 : part->terms.root;
        const uint8_t *block = part->receive + i * block_bytes;
        uint64_t at = compare_pattern(block, pattern_key(job, root, part->posts), block_bytes);

        if (at < block_bytes) {
            tt_world_problem(world, "job %u, post %u: rank %u has a wrong byte at %llu of %llu of rank %u's block%s",
                             job->index, part->posts, rank, (unsigned long long)at, (unsigned long long)block_bytes,
                             root, block[at] == UNTOUCHED ? " (never written)" : "");
            return;
        }
    }
}

static void check_send(struct tt_world *world, const struct tt_world_job *job, uint32_t rank)
{
    const struct tt_world_part *part = &job->parts[rank];
    uint64_t first = part->is_within ? (uint64_t)(part->receive - part->send) : part->send_bytes;
    uint64_t end = part->is_within ? first + part->receive_bytes : part->send_bytes;
    uint8_t *right;

    if (part->send == NULL) {
        return;
    }
    right = tt_world_allocate(1, part->send_bytes);
    tt_world_give(job, rank, part->posts, &part->terms, right, part->send_bytes);
    if (memcmp(part->send, right, first) != 0 || memcmp(part->send + end, right + end, part->send_bytes - end) != 0) {
        tt_world_problem(world, "job %u: the send buffer of rank %u has changed", job->index, rank);
    }
    free(right);
}

static void scribble(struct tt_world_part *part)
{
    if (part->receive != NULL) {
        memset(part->receive, scribble_of(part), part->receive_bytes);
    }
    if (part->send != NULL) {
        memset(part->send, scribble_of(part), part->send_bytes);
    }
    part->is_scribbled = true;
}

/* --- Jobs --------------------------------------------------------------------------------------------------------- */

struct tt_world_job *tt_world_job_create(struct tt_world_group *group, enum tt_collective_kind kind, uint32_t root,
                                         uint64_t block_bytes, enum tt_method method)
{
    struct tt_world *world = group->world;
    struct tt_world_job *job = tt_world_allocate(1, sizeof *job), **link = &world->jobs;

    job->group = group;
    job->index = world->job_count++;
    job->parts = tt_world_allocate(group->size, sizeof *job->parts);
    for (uint32_t rank = 0; rank < group->size; rank++) {
        job->parts[rank].terms =
            (struct tt_request_options){.kind = kind, .root = root, .block_bytes = block_bytes, .method = method};
        job->parts[rank].failed_rank = TT_RANK_NONE;
    }
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = job;
    return job;
}

/* Where multicast does not get through. */
static enum tt_method method_without_multicast(enum tt_collective_kind kind)
{
    return kind == TT_REDUCE             ? TT_METHOD_BINOMIAL
           : tt_kind_row(kind)->combines ? TT_METHOD_RABENSEIFNER
                                         : TT_METHOD_RING;
}

bool tt_world_post(struct tt_world_job *job, uint32_t rank)
{
    struct tt_world *world = job->group->world;
    struct tt_world_member *member = &job->group->members[rank];
    struct tt_world_part *part = &job->parts[rank];

    if (member->group == NULL || atomic_load(&member->group->failed)) {
        return false; /* as the public functions refuse it */
    }
    if (!part->is_laid_out) {
        lay_out(job, rank);
    }
    if (part->request == NULL) {
        if (!member->multicast && tt_method_row(part->terms.method)->multicasts) {
            part->terms.method = method_without_multicast(part->terms.kind);
        }
        tutti_status status = tt_request_create(member->group, &part->terms, &part->request);

        if (status == TUTTI_ERR_NO_MEMORY && tt_sim_refuses(world->sim, member->node)) {
            tt_world_note(world, "job=%u rank=%u cannot post", job->index, rank);
            return false;
        }
        if (status != TUTTI_OK) {
            tt_world_problem(world, "job %u: rank %u gets no request: %s", job->index, rank, tt_last_error());
            return false;
        }
        tt_world_move_scratch(world, part->request);
    }
    assert(part->request != NULL);
    check_scribble(world, job, rank);
    part->is_scribbled = false;
    part->posts++;
    fill(job, rank);
    part->is_running = true;
    part->posted_ns = tt_world_now(world);
    member->running++;
    tt_world_note(world, "job=%u rank=%u posted post=%u", job->index, rank, part->posts);
    part->request->status = TUTTI_OK;
    atomic_store(&part->request->done, false);
    tt_combine_read(part->request);
    tt_engine_post(member->group->engine, &part->request->post);
    tt_sim_mark_ready(world->sim, member->node);
    return true;
}

void tt_world_post_all(struct tt_world_job *job)
{
    for (uint32_t rank = 0; rank < job->group->size; rank++) {
        if (!tt_world_post(job, rank)) {
            tt_world_problem(job->group->world, "job %u: rank %u cannot post", job->index, rank);
        }
    }
}

bool tt_world_is_running(const struct tt_world_job *job)
{
    for (uint32_t rank = 0; rank < job->group->size; rank++) {
        if (job->parts[rank].is_running && !tt_sim_is_crashed(job->group->world->sim, job->group->members[rank].node)) {
            return true;
        }
    }
    return false;
}

void tt_world_run_job(struct tt_world_job *job, uint64_t until_ns)
{
    while (tt_world_is_running(job)) {
        if (!tt_world_step(job->group->world, until_ns)) {
            tt_world_problem(job->group->world, "job %u still runs", job->index);
            return;
        }
    }
}

/* --- Ends --------------------------------------------------------------------------------------------------------- */

static void end(struct tt_world_job *job, uint32_t rank)
{
    struct tt_world *world = job->group->world;
    struct tt_world_part *part = &job->parts[rank];

    tt_collective_check(&part->request->collective);
    part->is_running = false;
    part->status = part->request->status;
    part->failed_rank = part->request->failed_rank;
    part->ended_ns = tt_world_now(world);
    job->group->members[rank].running--;
    tt_world_note(world, "job=%u rank=%u ended post=%u status=%d about=%d", job->index, rank, part->posts, part->status,
                  (int)part->failed_rank);
    if (part->status == TUTTI_OK) {
        check_content(world, job, rank);
    }
    check_send(world, job, rank);
    if (world->options.hooks.ended != NULL) {
        world->options.hooks.ended(world->options.hooks.argument, job, rank);
    }
    scribble(part);
}

void tt_world_look_at_ends(struct tt_world *world, uint32_t node)
{
    for (struct tt_world_job *job = world->jobs; job != NULL; job = job->next) {
        uint32_t rank = job->group->ranks[node];

        if (rank != TT_RANK_NONE && job->parts[rank].is_running &&
            atomic_load_explicit(&job->parts[rank].request->done, memory_order_acquire)) {
            end(job, rank);
        }
    }
}

void tt_world_check_part(struct tt_world *world, const struct tt_world_job *job, uint32_t rank)
{
    const struct tt_world_part *part = &job->parts[rank];

    check_scribble(world, job, rank);
    check_guards(world, job, rank, part->is_within ? NULL : part->receive, part->receive_bytes, "receive");
    check_guards(world, job, rank, part->send, part->send_bytes, "send");
}

void tt_world_free_parts(struct tt_world_job *job)
{
    for (uint32_t rank = 0; rank < job->group->size; rank++) {
        if (job->parts[rank].request != NULL) {
            tt_world_destroy_request(job->group->world, job->parts[rank].request);
        }
    }
    free(job->counts);
    free(job->factors);
    free(job->result);
    free(job->parts);
}
