/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks give in a collective that combines, and what comes of it. Normal path: a rank's vector is its pattern of
 * bytes, of which floats are tamed; the result is worked out here, from the ranks' patterns, along the tree that the
 * methods with one_tree promise, which keeps the order of ranks: by plain arithmetic, or as unit/reduce_reference.h has
 * it. It is kept for the other ranks that ask.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "support/affine.h"
#include "support/world_private.h"
#include "unit/reduce_reference.h"

enum { OPAQUE_BYTES = 12, FP8_GIVERS = 4 };

/* Any bytes are a function here: scales are made odd, so that nothing is forgotten. */
static struct affine read_affine(const void *bytes)
{
    struct affine value;

    memcpy(&value, bytes, sizeof value);
    value.scale |= 1;
    return value;
}

static void compose(void *destination, const void *left, const void *right, uint64_t count, void *context)
{
    (void)context;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = i * sizeof(struct affine);
        struct affine both =
            affine_compose(read_affine((const uint8_t *)left + at), read_affine((const uint8_t *)right + at));

        memcpy((uint8_t *)destination + at, &both, sizeof both);
    }
}

struct tt_combining tt_world_combining(enum tt_world_elements elements)
{
    switch (elements) {
    case TT_WORLD_AFFINE:
        return (struct tt_combining){.type = TT_TYPE_OPAQUE,
                                     .operation = TT_REDUCE_USER,
                                     .element_bytes = sizeof(struct affine),
                                     .function = compose,
                                     .keeps_order = true};
    case TT_WORLD_FLOATS:
        return (struct tt_combining){.type = TT_TYPE_FP32, .operation = TT_REDUCE_SUM, .element_bytes = 4};
    case TT_WORLD_BYTES:
        return (struct tt_combining){.type = TT_TYPE_UINT8, .operation = TT_REDUCE_SUM, .element_bytes = 1};
    default:
        return (struct tt_combining){.type = TT_TYPE_UINT64, .operation = TT_REDUCE_SUM, .element_bytes = 8};
    }
}

/* Each byte is the sum of both and 1, so that an operand too few or too many shows, in whatever order. */
static void add_bytes(void *destination, const void *left, const void *right, uint64_t count, void *context)
{
    const uint8_t *a = left, *b = right;
    uint8_t *to = destination;

    for (uint64_t i = 0; i < count * *(const uint32_t *)context; i++) {
        to[i] = (uint8_t)(a[i] + b[i] + 1);
    }
}

struct tt_combining tt_world_combining_of(enum tt_type type, enum tt_reduce_operation operation)
{
    static uint32_t element_bytes[TT_TYPE_COUNT];
    bool is_user = operation == TT_REDUCE_USER;

    element_bytes[type] = type == TT_TYPE_OPAQUE ? OPAQUE_BYTES : tt_type_row(type)->bytes;
    return (struct tt_combining){.type = type,
                                 .operation = operation,
                                 .element_bytes = element_bytes[type],
                                 .function = is_user ? add_bytes : NULL,
                                 .context = is_user ? &element_bytes[type] : NULL};
}

/* A rank's own: anything of integers and where there is one tree, else such that sums of few digits stay exact. */
static void make_factor(enum tt_type type, bool one_tree, uint32_t rank, void *factor)
{
    static const double exact[] = {1, -2, -1, 2};

    if (tt_type_row(type)->class != TT_CLASS_FLOAT) {
        reference_set(type, (rank + 1) * UINT64_C(0x9E3779B97F4A7C15), factor);
    } else {
        reference_encode(tt_type_row(type)->accumulator, one_tree ? (rank + 1) / 7.0 : exact[rank % 4], factor);
    }
}

static void give_factors(struct tt_world_job *job, const struct tt_combining *combining, enum tt_method method)
{
    job->factors = tt_world_allocate(job->group->size, sizeof *job->factors);
    for (uint32_t rank = 0; rank < job->group->size; rank++) {
        make_factor(combining->type, tt_method_row(method)->one_tree, rank, &job->factors[rank]);
        job->parts[rank].terms.combining.factor = &job->factors[rank];
    }
}

struct tt_world_job *tt_world_job_combine(struct tt_world_group *group, enum tt_collective_kind kind, uint32_t root,
                                          uint64_t count, enum tt_world_elements elements, bool uneven,
                                          enum tt_method method)
{
    return tt_world_job_combine_as(group, kind, root, count, tt_world_combining(elements), uneven, method);
}

struct tt_world_job *tt_world_job_combine_as(struct tt_world_group *group, enum tt_collective_kind kind, uint32_t root,
                                             uint64_t count, struct tt_combining combining, bool uneven,
                                             enum tt_method method)
{
    struct tt_world_job *job = tt_world_job_create(group, kind, root, count * combining.element_bytes, method);
    uint64_t all = kind == TT_REDUCE_SCATTER ? count * group->size : count;

    if (kind == TT_REDUCE_SCATTER && uneven) {
        job->counts = tt_world_allocate(group->size, sizeof *job->counts);
        all = 0;
        for (uint32_t rank = 0; rank < group->size; rank++) {
            job->counts[rank] = (count + rank) % 5 * count / 3;
            all += job->counts[rank];
        }
    }
    for (uint32_t rank = 0; rank < group->size; rank++) {
        job->parts[rank].terms.combining = combining;
        job->parts[rank].terms.counts = job->counts;
        job->parts[rank].terms.block_bytes = all * combining.element_bytes;
    }
    if (combining.operation == TT_REDUCE_PREMULTIPLIED_SUM) {
        give_factors(job, &combining, method);
    }
    return job;
}

/* Floats that differ in magnitude, so that in another order they add up to other bits, and never overflow. */
static void cut_exponents(uint8_t *vector, uint64_t bytes)
{
    for (uint64_t at = 0; at + 4 <= bytes; at += 4) {
        uint32_t bits;

        memcpy(&bits, vector + at, 4);
        bits = (bits & 0x807FFFFFU) | (100 + (bits >> 23 & 0xFF) % 40) << 23;
        memcpy(vector + at, &bits, 4);
    }
}

/* Small integers, which add up exactly in any order among 33 ranks, also doubled: in fp8, which counts to 8 by ones, a
 * few ranks' 1 and -1 at each element. In products 1 and -1. */
static void make_exact(const struct tt_world_job *job, uint32_t rank, const struct tt_combining *combining,
                       uint8_t *vector, uint64_t bytes)
{
    bool multiplies = combining->operation == TT_REDUCE_PRODUCT, is_fp8 = combining->element_bytes == 1;
    uint32_t apart = (job->group->size + FP8_GIVERS - 1) / FP8_GIVERS; /* givers from each other */

    for (uint64_t i = 0, step = combining->element_bytes; (i + 1) * step <= bytes; i++) {
        int sign = 1 - 2 * (vector[i * step] % 2), value = vector[i * step] % 7 - 3;

        if (is_fp8) {
            value = (rank + i) % apart == 0 ? sign : 0;
        }
        reference_encode(combining->type, multiplies ? sign : value, vector + i * step);
    }
}

void tt_world_tame(const struct tt_world_job *job, uint32_t rank, const struct tt_request_options *terms,
                   uint8_t *vector, uint64_t bytes)
{
    const struct tt_combining *combining = &terms->combining;
    enum tt_reduce_operation step = tt_reduce_operation_row(combining->operation)->step;

    if (!tt_kind_row(terms->kind)->combines || tt_type_row(combining->type)->class != TT_CLASS_FLOAT) {
        return;
    }
    if (!tt_method_row(terms->method)->one_tree) {
        if (step == TT_REDUCE_SUM || step == TT_REDUCE_PRODUCT) {
            make_exact(job, rank, combining, vector, bytes);
        }
    } else if (combining->type == TT_TYPE_FP32) {
        cut_exponents(vector, bytes);
    }
}

static void combine_by_reference(const struct tt_combining *combining, uint8_t *left, const uint8_t *right,
                                 uint64_t count)
{
    enum tt_reduce_operation step = tt_reduce_operation_row(combining->operation)->step;

    for (uint64_t at = 0; at < count * combining->element_bytes; at += combining->element_bytes) {
        reference_combine(combining->type, step, left + at, right + at, left + at);
    }
}

static void add(const struct tt_combining *combining, uint8_t *left, const uint8_t *right, uint64_t count)
{
    bool is_plain =
        combining->operation == TT_REDUCE_SUM &&
        (combining->type == TT_TYPE_FP32 || combining->type == TT_TYPE_UINT8 || combining->type == TT_TYPE_UINT64);

    if (combining->operation == TT_REDUCE_USER) {
        combining->function(left, left, right, count, combining->context);
        return;
    }
    if (!is_plain) {
        combine_by_reference(combining, left, right, count);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (combining->type == TT_TYPE_FP32) {
            float a, b;

            memcpy(&a, left + 4 * i, 4);
            memcpy(&b, right + 4 * i, 4);
            a += b;
            memcpy(left + 4 * i, &a, 4);
        } else if (combining->type == TT_TYPE_UINT8) {
            left[i] = (uint8_t)(left[i] + right[i]);
        } else if (combining->type == TT_TYPE_UINT64) {
            uint64_t a, b;

            memcpy(&a, left + 8 * i, 8);
            memcpy(&b, right + 8 * i, 8);
            a += b;
            memcpy(left + 8 * i, &a, 8);
        }
    }
}

/* The tree: pairs of the first ranks until their number is a power of two, then halves of it, each added up before. */
static void add_tree(const struct tt_combining *combining, uint8_t **vectors, uint32_t size, uint64_t count)
{
    uint32_t power = 1, left = 0;

    while (2 * power <= size) {
        power *= 2;
    }
    for (uint32_t place = 0; place < power; place++) {
        vectors[place] = vectors[left];
        if (place < size - power) {
            add(combining, vectors[place], vectors[left + 1], count);
        }
        left += place < size - power ? 2 : 1;
    }
    for (; power > 1; power /= 2) {
        for (uint32_t place = 0; place < power / 2; place++) {
            vectors[place] = vectors[2 * place];
            add(combining, vectors[place], vectors[2 * place + 1], count);
        }
    }
}

static void premultiply(const struct tt_combining *combining, uint8_t *vector, uint64_t count)
{
    for (uint64_t i = 0; i < count && combining->factor != NULL; i++) {
        uint8_t *element = vector + i * combining->element_bytes;

        reference_scale(combining->type, element, combining->factor, element);
    }
}

const uint8_t *tt_world_result(struct tt_world_job *job, const struct tt_request_options *terms, uint32_t posts)
{
    uint32_t size = job->group->size;
    uint64_t bytes = terms->block_bytes, count = bytes / terms->combining.element_bytes;
    uint8_t **vectors, *all;

    if (job->result != NULL && job->result_posts == posts) {
        return job->result;
    }
    vectors = tt_world_allocate(size, sizeof *vectors);
    all = tt_world_allocate(size, bytes);
    for (uint32_t rank = 0; rank < size; rank++) {
        vectors[rank] = all + rank * bytes;
        tt_world_give(job, rank, posts, terms, vectors[rank], bytes);
        premultiply(&job->parts[rank].terms.combining, vectors[rank], count);
    }
    add_tree(&terms->combining, vectors, size, count);
    free(job->result);
    job->result = tt_world_allocate(1, bytes);
    memcpy(job->result, vectors[0], bytes);
    for (uint64_t i = 0; i < count && terms->combining.operation == TT_REDUCE_AVERAGE; i++) {
        uint64_t at = i * terms->combining.element_bytes;

        reference_divide(terms->combining.type, vectors[0] + at, size, job->result + at);
    }
    job->result_posts = posts;
    free(vectors);
    free(all);
    return job->result;
}

/* --- Memory that travels in frames -------------------------------------------------------------------------------- */

enum { MOST_TRIES = 1000 }; /* where a node is short of memory, which is not meant here */

static void register_again(const struct tt_request *request, struct tt_p2p_memory **memory, uint8_t *address,
                           uint64_t bytes, uint8_t *key, uint32_t *key_bytes)
{
    struct tt_p2p *p2p = request->group->network->p2p;
    size_t length = TT_P2P_MAX_KEY_BYTES;

    if (*memory == NULL) {
        return;
    }
    (*memory)->ops->memory_release(*memory);
    *memory = NULL;
    for (uint32_t tries = 0; *memory == NULL && tries < MOST_TRIES; tries++) {
        if (p2p->ops->memory_register(p2p, address, bytes, memory) != TUTTI_OK) {
            *memory = NULL;
        }
    }
    if (*memory == NULL || (*memory)->ops->memory_pack(*memory, key, &length) != TUTTI_OK) {
        abort();
    }
    *key_bytes = (uint32_t)length;
}

void tt_world_move_scratch(struct tt_world *world, struct tt_request *request)
{
    const struct tt_collective_terms *terms = &request->collective.config.terms;
    struct tt_triggered *t = request->triggered;
    uint8_t *old = request->scratch, *moved;
    uint64_t bytes;

    if (old == NULL || t == NULL || t->regions[0].memory == NULL) {
        return;
    }
    bytes = tt_method_row(terms->method)->by_parts ? tt_terms_bytes(terms, request->group->size)
                                                   : t->regions[0].length_bytes;
    moved = tt_world_take_arena(world, bytes);
    t->terms.buffer = moved + ((uint8_t *)t->terms.buffer - old);
    t->regions[0].address = moved + (t->regions[0].address - old);
    register_again(request, &t->regions[0].memory, (uint8_t *)(uintptr_t)t->regions[0].address,
                   t->regions[0].length_bytes, t->regions[0].key, &t->regions[0].key_bytes);
    if (request->buffer == old) {
        const uint8_t *source = request->transmit.source;

        register_again(request, &request->memory, moved, bytes, request->key, &request->key_bytes);
        request->buffer = moved;
        request->transmit.source = source == request->transmit.target ? moved + (source - old) : source;
        request->transmit.target = moved + (request->transmit.target - old);
        if (request->transmit.memory != NULL) {
            struct tt_mcast *mcast = request->group->network->mcast;

            request->transmit.memory->ops->memory_release(request->transmit.memory);
            request->transmit.memory =
                mcast->ops->memory_register(mcast, 0, request->transmit.source, request->transmit.block_bytes);
        }
        for (uint32_t s = 0; s < terms->subgroups; s++) {
            request->streams[s].buffer = moved;
        }
    }
    request->scratch = moved;
    free(old);
}

void tt_world_destroy_request(struct tt_world *world, struct tt_request *request)
{
    if (request->scratch >= world->arena && request->scratch < world->arena + world->arena_used_bytes) {
        request->scratch = NULL;
    }
    tt_request_destroy(request);
}
