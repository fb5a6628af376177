/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creating requests: all memory that a collective's runs need, in one block, and the registration of its buffer, so
 * that posting and running allocate nothing. Fails for lack of memory, or of PSNs (TOO_LARGE).
 */
#include "engine/request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cache_line.h"
#include "base/log.h"
#include "engine/relay.h"
#include "engine/triggers.h"
#include "engine/worker.h"

enum { P2P_CHUNK_BYTES = 64 * 1024 }; /* granularity of the point-to-point algorithms */

/* Carves `bytes` off a block that is being measured (base NULL) or filled. */
static void *carve(uint8_t *base, size_t *used, size_t bytes)
{
    void *address = base == NULL ? NULL : base + *used;

    *used += tt_whole_lines(bytes);
    return address;
}

static void lay_out(struct tt_request *request, const struct tt_layout *layout, uint32_t chains, uint8_t *base,
                    size_t *used, struct tt_collective_config *config)
{
    uint32_t subgroups = layout->subgroup_count;
    struct tt_stream *streams = carve(base, used, subgroups * sizeof *streams);

    config->positions = carve(base, used, sizeof(uint32_t) * chains * subgroups);
    config->done = carve(base, used, chains);
    request->turns = carve(base, used, subgroups * sizeof(uint32_t));
    request->transmit.cursors = carve(base, used, subgroups * sizeof(uint32_t));
    request->transmit.marks = carve(base, used, subgroups * sizeof(uint32_t));
    for (uint32_t s = 0; s < subgroups; s++) {
        struct tt_stripe stripe;
        void *bitmap;

        tt_layout_stripe(layout, s, &stripe);
        bitmap = carve(base, used, ((size_t)stripe.psn_count + 63) / 64 * 8);
        if (streams != NULL) {
            streams[s].stripe = stripe;
            streams[s].bitmap = bitmap;
            streams[s].buffer = request->buffer;
            /* Several roots are in the order of ranks, as in an allgather or in what two exchange to come together. */
            streams[s].first_source = layout->root_count > 1 ? 0 : request->options.root;
        }
    }
    config->streams = request->streams = streams;
}

static uint64_t total_bytes(const struct tt_group *group, const struct tt_request_options *options)
{
    if (tt_kind_row(options->kind)->combines && !tt_method_row(options->method)->keeps_copies) {
        return 2 * options->block_bytes; /* there and back */
    }
    return options->block_bytes * (tt_kind_has_blocks(options->kind) ? group->size : 1);
}

static uint64_t timeout_of(const struct tt_group *group, const struct tt_request_options *options)
{
    const struct tt_settings *settings = &group->engine->settings;

    if (options->timeout_ns != 0) {
        return options->timeout_ns;
    }
    if (settings->timeout_ns != TT_AUTO) {
        return settings->timeout_ns;
    }
    return 60 * TT_NS_PER_S + total_bytes(group, options) * 100; /* 10 MB/s */
}

/* Bits a second that the cutoff counts on. */
static uint64_t bandwidth_of(const struct tt_group *group)
{
    uint64_t bandwidth = group->engine->settings.bandwidth;
    uint32_t mbit = group->network->interface.speed_mbit;

    return bandwidth != TT_AUTO ? bandwidth : (mbit != 0 ? mbit : 1000) * UINT64_C(1000000);
}

static uint32_t to_kbit(uint64_t bits)
{
    return bits / 1000 < UINT32_MAX ? (uint32_t)(bits / 1000) : UINT32_MAX;
}

/* 0: the same of all ranks. */
static uint32_t digest_of_counts(const struct tt_request_options *options, uint32_t size)
{
    uint64_t digest = size;
    bool is_even = true;

    for (uint32_t rank = 0; options->counts != NULL && rank < size; rank++) {
        digest = (digest ^ options->counts[rank]) * UINT64_C(0x9E3779B97F4A7C15);
        digest ^= digest >> 29;
        is_even &= options->counts[rank] == options->counts[0];
    }
    return is_even ? 0 : (uint32_t)(digest >> 32) | 1;
}

/* Where ranks share cores nothing comes to all of them as soon as elsewhere; each question then only makes the others
 * later. */
static uint64_t ask_time_of(const struct tt_group *group)
{
    uint32_t cores = group->engine->cores;

    return tt_eager_ask_ns((group->local_ranks + cores - 1) / cores);
}

_Static_assert(TT_P2P_MAX_FRAME_BYTES - TT_FRAME_GATHER_HEAD_BYTES <= UINT16_MAX, "a GATHER says how long it is");

static void configure(struct tt_request *request, const struct tt_layout *layout, struct tt_collective_config *config)
{
    const struct tt_group *group = request->group;
    const struct tt_request_options *options = &request->options;

    config->rank = group->rank;
    config->size = group->size;
    config->group = group->party.key;
    config->terms = tt_request_terms(options, options->method, group->size);
    config->terms.subgroups = (uint16_t)layout->subgroup_count;
    config->terms.chunk_bytes = layout->chunk_bytes;
    config->terms.chains = tt_kind_row(options->kind)->root_gives ? 1 : group->chains;
    config->gathered = tt_terms_combine(&config->terms) ? request->vectors : NULL;
    config->vector_bytes = group->network->p2p->frame_bytes - TT_FRAME_GATHER_HEAD_BYTES;
    config->tree_is_eager = group->member.pieces.own != NULL;
    config->hosts = group->hosts;
    config->heard = config->terms.chains == group->size ? group->port_roots : config->terms.chains;
    config->link = &request->group->network->link;
    config->bandwidth_kbit = to_kbit(bandwidth_of(group));
    config->wire_ns = (uint64_t)((double)total_bytes(group, options) * 8e9 / (double)bandwidth_of(group));
    config->alpha_ns = group->engine->settings.alpha_ns;
    config->tail_ns = group->engine->settings.tail_ns;
    config->stall_ns = 50 * TT_NS_PER_MS;
    config->ask_ns = ask_time_of(group);
    config->timeout_ns = timeout_of(group, options);
    config->rollcall_ns = config->timeout_ns / 4 < 500 * TT_NS_PER_MS ? config->timeout_ns / 4 : 500 * TT_NS_PER_MS;
}

struct tt_collective_terms tt_request_terms(const struct tt_request_options *options, enum tt_method method,
                                            uint32_t size)
{
    struct tt_collective_terms terms = {.kind = (uint8_t)options->kind,
                                        .method = (uint8_t)method,
                                        .root = options->root,
                                        .block_bytes = options->block_bytes};

    if (tt_kind_row(options->kind)->combines) {
        terms.type = (uint8_t)options->combining.type;
        terms.operation = (uint8_t)options->combining.operation;
        terms.element_bytes = options->combining.element_bytes;
        terms.counts = digest_of_counts(options, size);
    }
    return terms;
}

tutti_status tt_request_check_method(const struct tt_collective_terms *terms, uint32_t size)
{
    enum tt_collective_kind kind = (enum tt_collective_kind)terms->kind;
    const struct tt_mover *mover = tt_way_of(terms->method, false)->mover;
    const char *word = tt_method_word(kind, terms->method);
    uint32_t roots = tt_collective_root_count(kind, size);
    uint64_t most_bytes = mover->most_bytes != NULL ? mover->most_bytes(kind, size) : 0;
    bool is_barrier = terms->block_bytes == 0, by_parts = tt_method_row(terms->method)->by_parts;
    uint64_t block_bytes;

    if (!tt_method_serves(terms->method, kind) && !is_barrier) {
        const char *other = tt_method_row(terms->method)->broadcast_word; /* what it may have been asked for by */

        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED, "algorithm %s%s%s does not serve %s", word,
                        other != NULL ? " or " : "", other != NULL ? other : "", tt_kind_word(kind));
    }
    block_bytes = by_parts && !is_barrier ? tt_terms_part_bytes(terms, size) : terms->block_bytes;
    if (most_bytes > 0 && block_bytes > most_bytes / roots) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_TOO_LARGE,
                        "algorithm %s: %llu bytes from each of %u roots, and %llu in all is the most", word,
                        (unsigned long long)block_bytes, roots, (unsigned long long)most_bytes);
    }
    return TUTTI_OK;
}

/* False: there are not enough PSNs. */
static bool choose_layout(const struct tt_group *group, const struct tt_request_options *options,
                          struct tt_layout *layout)
{
    struct tt_collective_terms terms = tt_request_terms(options, options->method, group->size);
    uint32_t roots = tt_terms_roots(&terms, group->size), chunk_bytes = group->chunk_bytes, limit = TT_PSN_LIMIT;
    uint32_t subgroups = tt_method_row(options->method)->keeps_copies ? 1 : group->queue_count;
    uint64_t block_bytes = tt_terms_root_bytes(&terms, group->size);

    if (!tt_method_row(options->method)->multicasts) {
        subgroups = 1;
        limit = UINT32_C(1) << 31;
        chunk_bytes = tt_layout_chunk_for(block_bytes, roots > 0 ? roots : 1, P2P_CHUNK_BYTES, TT_PSN_LIMIT);
    }
    if (tt_terms_is_exchange(&terms)) {
        tt_layout_init_empty(layout, chunk_bytes, roots, subgroups);
        return true;
    }
    return tt_layout_init(layout, block_bytes, chunk_bytes, roots > 0 ? roots : 1, subgroups, limit);
}

bool tt_request_fits(const struct tt_group *group, const struct tt_request_options *options)
{
    struct tt_layout layout;

    return choose_layout(group, options, &layout);
}

static tutti_status refuse_size(const struct tt_group *group, const struct tt_request_options *options)
{
    return tt_error(TT_PART_ENGINE, TUTTI_ERR_TOO_LARGE,
                    "%llu bytes from each of %u roots need more than %u chunks of %u bytes a subgroup; use a larger "
                    "TUTTI_CHUNK, more TUTTI_SUBGROUPS, or a point-to-point algorithm",
                    (unsigned long long)options->block_bytes, tt_collective_root_count(options->kind, group->size),
                    TT_PSN_LIMIT, group->chunk_bytes);
}

static tutti_status register_buffer(struct tt_request *request)
{
    struct tt_p2p *p2p = request->group->network == NULL ? NULL : request->group->network->p2p;
    size_t key_bytes = sizeof request->key;
    tutti_status status;

    if (p2p == NULL || request->group->size == 1 || !tt_method_row(request->options.method)->is_read) {
        return TUTTI_OK; /* nobody reads it, or a copy instead */
    }
    status = p2p->ops->memory_register(p2p, request->buffer,
                                       tt_terms_bytes(&request->collective.config.terms, request->group->size),
                                       &request->memory);
    if (status == TUTTI_OK) {
        status = p2p->ops->memory_pack(request->memory, request->key, &key_bytes);
        assert(key_bytes <= sizeof request->key);
        request->key_bytes = (uint32_t)key_bytes;
    }
    return status;
}

/* A root sends its block from where it is, which some fabrics want to know before. */
static void register_source(struct tt_request *request)
{
    const struct tt_network *network = request->group->network;
    const struct tt_settings *settings = &request->group->engine->settings;
    struct tt_transmit *transmit = &request->transmit;
    bool is_root = request->collective.own_root_index != TT_RANK_NONE;

    if (network != NULL && transmit->queues != NULL && is_root) {
        transmit->memory = network->mcast->ops->memory_register(
            network->mcast, tt_workers_sender_index(settings->workers), transmit->source, transmit->block_bytes);
    }
}

static void prepare_transmit(struct tt_request *request)
{
    struct tt_transmit *transmit = &request->transmit;
    const struct tt_collective_terms *terms = &request->collective.config.terms;
    uint32_t root_index = tt_terms_roots(terms, request->group->size) > 1 ? request->group->rank : 0;

    transmit->queues =
        tt_method_row(request->options.method)->multicasts && request->group->size > 1 ? request->group->queues : NULL;
    transmit->pacer = request->group->network != NULL ? &request->group->network->pacer : NULL;
    transmit->heard = request->collective.config.heard;
    transmit->streams = request->streams;
    transmit->subgroups = request->collective.config.terms.subgroups;
    transmit->root_index = root_index;
    transmit->block_bytes = tt_terms_root_bytes(terms, request->group->size);
    transmit->target = request->buffer;
    if (transmit->block_bytes > 0) {
        transmit->target += root_index * transmit->block_bytes;
    }
    transmit->source = transmit->target;
    if (request->options.send != NULL && !tt_kind_row(request->options.kind)->combines &&
        !tt_method_row(request->options.method)->gathers) { /* these are in place by then */
        transmit->source = request->options.send;
    }
    register_source(request);
}

static const void *source_of(const struct tt_group *group, const struct tt_request_options *options)
{
    bool is_own = tt_kind_row(options->kind)->gives == TT_SHARE_OWN;

    if (options->send != NULL || options->receive == NULL || !is_own) {
        return options->send != NULL ? options->send : options->receive;
    }
    return (const uint8_t *)options->receive + group->rank * options->block_bytes;
}

static tutti_status copy_counts(struct tt_request *request, const uint64_t *counts)
{
    size_t bytes = request->group->size * sizeof *counts;
    uint64_t *copy;

    if (counts == NULL) {
        return TUTTI_OK;
    }
    copy = malloc(bytes);
    if (copy == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a request");
    }
    memcpy(copy, counts, bytes);
    request->options.counts = copy;
    return TUTTI_OK;
}

/* Whether the root says no more than that all have posted. */
static bool has_record(const struct tt_group *group, const struct tt_request_options *options)
{
    const struct tt_collective_terms terms = tt_request_terms(options, options->method, group->size);

    return tt_terms_releases(&terms) || tt_terms_is_exchange(&terms);
}

/* What the caller says, and what that comes to. */
static tutti_status take_options(struct tt_request *made, struct tt_group *group,
                                 const struct tt_request_options *options)
{
    tutti_status status;

    made->post.party = &group->party;
    made->group = group;
    made->options = *options;
    made->options.counts = NULL;
    made->buffer = has_record(group, options) ? made->record : options->receive;
    made->source = source_of(group, options);
    made->element_bytes = tt_kind_row(options->kind)->combines ? options->combining.element_bytes : 1;
    status = copy_counts(made, options->counts);
    return status == TUTTI_OK ? tt_combine_create(made) : status;
}

/* Who moves the data, where somebody else does. */
static tutti_status find_carrier(struct tt_request *request)
{
    const struct tt_method_row *row = tt_method_row(request->options.method);

    if (row->by_objects) {
        request->carrier = &tt_relay_carrier;
        return tt_relay_find(request->group, request->options.method, request->options.root, &request->relay);
    }
    if (row->by_triggers || row->by_parts) {
        request->carrier = &tt_triggered_carrier;
        return tt_triggered_create(request);
    }
    return TUTTI_OK;
}

tutti_status tt_request_create(struct tt_group *group, const struct tt_request_options *options,
                               struct tt_request **request)
{
    struct tt_collective_config config = {0};
    struct tt_collective_terms terms;
    struct tt_request *made;
    struct tt_layout layout;
    size_t measure = 0, used = 0;
    tutti_status status;

    assert(options->root < group->size);
    assert(options->receive != NULL || options->block_bytes == 0 || tt_kind_has_root(options->kind) ||
           options->kind == TT_REDUCE_SCATTER); /* of which the own part may have no elements */
    terms = tt_request_terms(options, options->method, group->size);
    status = tt_request_check_method(&terms, group->size);
    if (status == TUTTI_OK && !choose_layout(group, options, &layout)) {
        status = refuse_size(group, options);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a request");
    }
    status = take_options(made, group, options);
    if (status != TUTTI_OK) {
        tt_request_destroy(made);
        return status;
    }
    lay_out(made, &layout, group->chains, NULL, &measure, &config);
    made->block = aligned_alloc(TT_CACHE_LINE_BYTES, measure);
    if (made->block == NULL) {
        tt_request_destroy(made);
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a request of %zu bytes", measure);
    }
    memset(made->block, 0, measure);
    lay_out(made, &layout, group->chains, made->block, &used, &config);
    assert(used == measure);
    configure(made, &layout, &config);
    tt_collective_init(&made->collective, &config);
    made->collective.owner = made;
    prepare_transmit(made);
    atomic_store_explicit(&made->done, true, memory_order_relaxed);
    status = register_buffer(made);
    if (status == TUTTI_OK && options->block_bytes > 0) {
        status = find_carrier(made);
    }
    if (status != TUTTI_OK) {
        tt_request_destroy(made);
        return status;
    }
    group->request_count++;
    tt_request_check(made);
    *request = made;
    return TUTTI_OK;
}

void tt_request_destroy(struct tt_request *request)
{
    if (request->memory != NULL) {
        request->memory->ops->memory_release(request->memory);
    }
    if (request->transmit.memory != NULL) {
        request->transmit.memory->ops->memory_release(request->transmit.memory);
    }
    tt_triggered_destroy(request);
    free(request->scratch);
    free((void *)(uintptr_t)request->options.counts);
    free(request->block);
    free(request);
}

/* --- Checks ------------------------------------------------------------------------------------------------------- */

static void check_relay(const struct tt_request *request)
{
    assert(request->carrier != NULL || !request->relay_started);
    assert((request->relay != NULL) == (request->carrier == &tt_relay_carrier));
    assert((request->triggered != NULL) == (request->carrier == &tt_triggered_carrier));
    if (request->relay == NULL) {
        return;
    }
    assert(request->relay->group == request->group);
    assert(request->relay->root == request->options.root);
    assert(request->relay->method == request->options.method);
    assert(request->relay_number < request->relay->posted || request->relay->posted == 0);
}

void tt_request_check(const struct tt_request *request)
{
    const struct tt_collective_config *config = &request->collective.config;

    assert(request->post.party == &request->group->party);
    assert(request->collective.owner == request);
    assert(config->streams == request->streams);
    assert(config->terms.subgroups == request->transmit.subgroups);
    assert(request->buffer == request->record || request->buffer == request->options.receive ||
           request->buffer == request->scratch);
    assert(request->key_bytes <= sizeof request->key);
    /* A run is under way, or has failed to start; each has a bit. */
    assert(request->gets + (uint32_t)__builtin_popcount(request->failed_runs) <= TT_FETCH_RUNS);
    assert(request->transmit.queues == NULL || request->transmit.queues == request->group->queues);
    if (request->group->engine->workers == NULL) {
        tt_transmit_check(&request->transmit);
        assert(!request->sent ||
               atomic_load_explicit(&request->transmit.state, memory_order_relaxed) == TT_TRANSMIT_DONE);
    }
    assert(!request->freezing || request->collective.receiving.freezing);
    check_relay(request);
}
