/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creating requests: all memory that a collective's runs need, in one block, and the registration of its buffer, so
 * that posting and running allocate nothing. Fails for lack of memory, or of PSNs (TOO_LARGE).
 */
#include "engine/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/relay.h"
#include "engine/worker.h"

enum { P2P_CHUNK_BYTES = 64 * 1024 }; /* granularity of the point-to-point algorithms */

/* Carves `bytes` off a block that is being measured (base NULL) or filled. */
static void *carve(uint8_t *base, size_t *used, size_t bytes)
{
    void *address = base == NULL ? NULL : base + *used;

    *used += (bytes + 63) / 64 * 64;
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
            streams[s].first_source = request->options.root; /* 0 in an allgather: roots are in the order of ranks */
        }
    }
    config->streams = request->streams = streams;
}

static uint64_t total_bytes(const struct tt_group *group, const struct tt_request_options *options)
{
    return options->block_bytes * tt_collective_root_count(options->kind, group->size);
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

static void configure(struct tt_request *request, const struct tt_layout *layout, struct tt_collective_config *config)
{
    const struct tt_group *group = request->group;
    const struct tt_request_options *options = &request->options;

    config->rank = group->rank;
    config->size = group->size;
    config->group = group->key;
    config->terms = (struct tt_collective_terms){.kind = (uint8_t)options->kind,
                                                 .method = (uint8_t)options->method,
                                                 .subgroups = (uint16_t)layout->subgroup_count,
                                                 .root = options->root,
                                                 .chunk_bytes = layout->chunk_bytes,
                                                 .chains = options->kind == TT_ALLGATHER ? group->chains : 1,
                                                 .block_bytes = options->block_bytes};
    config->hosts = group->hosts;
    config->heard = config->terms.chains == group->size ? group->port_roots : config->terms.chains;
    config->link = &request->group->network->link;
    config->bandwidth_kbit = to_kbit(bandwidth_of(group));
    config->wire_ns = (uint64_t)((double)total_bytes(group, options) * 8e9 / (double)bandwidth_of(group));
    config->alpha_ns = group->engine->settings.alpha_ns;
    config->tail_ns = group->engine->settings.tail_ns;
    config->stall_ns = 50 * TT_NS_PER_MS;
    config->timeout_ns = timeout_of(group, options);
    config->rollcall_ns = config->timeout_ns / 4 < 500 * TT_NS_PER_MS ? config->timeout_ns / 4 : 500 * TT_NS_PER_MS;
}

static tutti_status check_tree(const struct tt_request_options *options)
{
    if (options->kind != TT_BROADCAST) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED,
                        "algorithm tree: an allgather has none, only a broadcast");
    }
    if (options->block_bytes > TT_TREE_MAX_BYTES) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_TOO_LARGE, "algorithm tree: %llu bytes, and %d is the most",
                        (unsigned long long)options->block_bytes, TT_TREE_MAX_BYTES);
    }
    return TUTTI_OK;
}

/* Of methods that leave a copy of everything with everybody. */
static tutti_status check_copies(const struct tt_group *group, const struct tt_request_options *options)
{
    uint32_t roots = tt_collective_root_count(options->kind, group->size);
    uint32_t most_bytes = options->method == TT_METHOD_EAGER ? tt_eager_most_bytes(options->kind) : TT_EAGER_MAX_BYTES;

    if (options->block_bytes > most_bytes / roots) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_TOO_LARGE,
                        "algorithm %s: %llu bytes from each of %u roots, and %u in all is the most",
                        options->method == TT_METHOD_EAGER ? "eager" : "gather",
                        (unsigned long long)options->block_bytes, roots, most_bytes);
    }
    if (options->method == TT_METHOD_GATHER && options->kind != TT_ALLGATHER && options->block_bytes > 0) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED,
                        "algorithm gather: a broadcast has none, only an allgather");
    }
    return TUTTI_OK;
}

static tutti_status check_method(const struct tt_group *group, const struct tt_request_options *options)
{
    if (options->method == TT_METHOD_TREE) {
        return check_tree(options);
    }
    if (tt_method_is_relayed(options->method) && options->kind != TT_BROADCAST) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED,
                        "algorithm %s: an allgather has none, only a broadcast",
                        tt_choice_method_word(options->kind, options->method));
    }
    return tt_method_keeps_copies(options->method) ? check_copies(group, options) : TUTTI_OK;
}

static tutti_status choose_layout(struct tt_group *group, const struct tt_request_options *options,
                                  struct tt_layout *layout)
{
    struct tt_collective_terms terms = {
        .kind = (uint8_t)options->kind, .method = (uint8_t)options->method, .block_bytes = options->block_bytes};
    uint32_t roots = tt_terms_roots(&terms, group->size), chunk_bytes = group->chunk_bytes, limit = TT_PSN_LIMIT;
    uint32_t subgroups = tt_method_keeps_copies(options->method) ? 1 : group->queue_count;
    uint64_t block_bytes = tt_terms_root_bytes(&terms, group->size);

    if (!tt_method_is_multicast(options->method)) {
        subgroups = 1;
        limit = UINT32_C(1) << 31;
        chunk_bytes = tt_layout_chunk_for(block_bytes, roots, P2P_CHUNK_BYTES, TT_PSN_LIMIT);
    }
    if (tt_terms_is_exchange(&terms)) {
        tt_layout_init_empty(layout, chunk_bytes, roots, subgroups);
        return TUTTI_OK;
    }
    if (!tt_layout_init(layout, block_bytes, chunk_bytes, roots, subgroups, limit)) {
        return tt_error(
            TT_PART_ENGINE, TUTTI_ERR_TOO_LARGE,
            "%llu bytes from each of %u roots need more than %u chunks of %u bytes a subgroup; use a larger "
            "TUTTI_CHUNK, more TUTTI_SUBGROUPS, or a point-to-point algorithm",
            (unsigned long long)options->block_bytes, roots, TT_PSN_LIMIT, chunk_bytes);
    }
    return TUTTI_OK;
}

static tutti_status register_buffer(struct tt_request *request)
{
    struct tt_p2p *p2p = request->group->network == NULL ? NULL : request->group->network->p2p;
    size_t key_bytes = sizeof request->key;
    tutti_status status;

    if (p2p == NULL || request->group->size == 1 || request->options.method == TT_METHOD_TREE ||
        tt_method_keeps_copies(request->options.method)) {
        return TUTTI_OK; /* nobody reads it, or a copy instead */
    }
    status = p2p->ops->memory_register(p2p, request->options.receive, total_bytes(request->group, &request->options),
                                       &request->memory);
    if (status == TUTTI_OK) {
        status = p2p->ops->memory_pack(request->memory, request->key, &key_bytes);
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
        tt_method_is_multicast(request->options.method) && request->group->size > 1 ? request->group->queues : NULL;
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
    if (request->options.send != NULL && request->options.method != TT_METHOD_GATHER) { /* gathered: in place by then */
        transmit->source = request->options.send;
    }
    register_source(request);
}

tutti_status tt_request_create(struct tt_group *group, const struct tt_request_options *options,
                               struct tt_request **request)
{
    struct tt_collective_config config = {0};
    struct tt_request *made;
    struct tt_layout layout;
    size_t measure = 0, used = 0;
    tutti_status status = check_method(group, options);

    if (status == TUTTI_OK) {
        status = choose_layout(group, options, &layout);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    made = aligned_alloc(TT_REQUEST_ALIGNMENT,
                         (sizeof *made + TT_REQUEST_ALIGNMENT - 1) / TT_REQUEST_ALIGNMENT * TT_REQUEST_ALIGNMENT);
    if (made == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a request");
    }
    memset(made, 0, sizeof *made);
    made->group = group;
    made->options = *options;
    made->buffer =
        tt_method_keeps_copies(options->method) && options->block_bytes == 0 ? made->record : options->receive;
    lay_out(made, &layout, group->chains, NULL, &measure, &config);
    made->block = aligned_alloc(64, measure);
    if (made->block == NULL) {
        free(made);
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a request of %zu bytes", measure);
    }
    memset(made->block, 0, measure);
    lay_out(made, &layout, group->chains, made->block, &used, &config);
    configure(made, &layout, &config);
    tt_collective_init(&made->collective, &config);
    made->collective.owner = made;
    prepare_transmit(made);
    atomic_store_explicit(&made->done, true, memory_order_relaxed);
    status = register_buffer(made);
    if (status == TUTTI_OK && tt_method_is_relayed(options->method) && options->block_bytes > 0) {
        status = tt_relay_find(group, options->method, options->root, &made->relay);
    }
    if (status != TUTTI_OK) {
        tt_request_destroy(made);
        return status;
    }
    group->request_count++;
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
    free(request->block);
    free(request);
}
