/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is gathered in the fuzz target of the member machine. Each piece consists of the number of the rank that sends
 * it, so that when vectors are combined it shows that all of each is there, and who sent it; and what children say is
 * now and then not what is due.
 */
#include "member_surroundings.h"

#include <string.h>

#include "base/least.h"
#include "check.h"
#include "plan/fold_tree.h"
#include "plan/gather.h"
#include "proto/eager.h"

enum { NOBODY = 0xC3 };

/* --- Setting up --------------------------------------------------------------------------------------------------- */

/* Mostly up to three pieces. */
static uint64_t draw_bytes(uint32_t pick, uint64_t most_bytes)
{
    uint64_t usual = 3 * TT_FRAME_GATHER_BYTES;

    if (pick % 4 != 0 && usual < most_bytes) {
        most_bytes = usual;
    }
    return 1 + pick / 4 % most_bytes;
}

bool world_draw_combined(const struct world *world, uint32_t kind_pick, uint32_t bytes_pick,
                         struct tt_collective_terms *terms)
{
    static const enum tt_collective_kind kinds[] = {TT_KIND_NONE, TT_REDUCE, TT_ALLREDUCE, TT_REDUCE_SCATTER};
    enum tt_collective_kind kind = kinds[kind_pick % 4];

    if (kind == TT_KIND_NONE) {
        return false;
    }
    terms->kind = (uint8_t)kind;
    terms->root = kind == TT_REDUCE ? kind_pick / 4 % world->size : 0;
    terms->type = 0;
    terms->element_bytes = 1;
    terms->block_bytes = draw_bytes(bytes_pick, tt_gather_most_bytes(kind, world->size) / world->size);
    return true;
}

static uint64_t gathered_bytes(const struct world *world, const struct tt_collective_config *config)
{
    uint32_t vectors = tt_terms_fold(&config->terms, world->size)
                           ? 1 + tt_fold_tree_child_count(world->size, config->terms.root, world->rank)
                           : world->size;

    return vectors * config->terms.block_bytes;
}

uint8_t *world_gathered(struct world *world, const struct request *request, const struct tt_collective_config *config)
{
    FUZZ_CHECK(gathered_bytes(world, config) <= GATHERED);
    return world->gathered[request - world->requests] + MARGIN;
}

void world_clear_gathered(struct world *world, const struct request *request)
{
    const struct tt_collective_config *config = &request->collective.config;

    if (config->gathered != NULL) {
        memset(config->gathered - MARGIN, NOBODY, MARGIN + gathered_bytes(world, config) + MARGIN);
    }
}

void world_put_own(const struct world *world, const struct request *request)
{
    const struct tt_collective_config *config = &request->collective.config;
    uint8_t *blocks = config->gathered != NULL ? config->gathered : request->buffer;
    uint32_t place = request->collective.gather.folds ? 0 : world->rank;

    memset(blocks + place * config->terms.block_bytes, (int)world->rank, config->terms.block_bytes);
}

/* --- What has come together --------------------------------------------------------------------------------------- */

/* Who has to have sent vector number `index`. */
static uint32_t giver_of(const struct world *world, const struct tt_collective *collective, uint32_t index)
{
    const struct tt_gather *gather = &collective->gather;
    uint32_t root = collective->config.terms.root, vertex = tt_rank_subtract(index, root, world->size);

    if (gather->folds) {
        return index == 0 ? world->rank : tt_fold_tree_child(world->size, root, world->rank, index - 1);
    }
    for (uint32_t i = 0; i < gather->child_count; i++) {
        struct tt_gather_place child;

        tt_gather_child(world->size, &gather->place, i, &child);
        if (tt_rank_subtract(tt_rank_add(vertex, child.before, world->size), child.vertex, world->size) <=
            child.before + child.after) {
            return tt_rank_add(child.vertex, root, world->size);
        }
    }
    return world->rank;
}

void world_combine(const struct world *world, struct request *request)
{
    const struct tt_collective_config *config = &request->collective.config;
    uint64_t block_bytes = config->terms.block_bytes;
    uint32_t vectors = (uint32_t)(gathered_bytes(world, config) / block_bytes);

    for (uint32_t i = 0; i < vectors; i++) {
        const uint8_t *vector = config->gathered + i * block_bytes;

        FUZZ_CHECK(vector[0] == giver_of(world, &request->collective, i));
        FUZZ_CHECK(memcmp(vector, vector + 1, block_bytes - 1) == 0);
    }
    if (world->rank == config->terms.root && !tt_kind_row(config->terms.kind)->root_gets) {
        memcpy(request->buffer, config->gathered, block_bytes);
    }
}

void world_check_gathered(const struct world *world, const struct request *request)
{
    const struct tt_collective_config *config = &request->collective.config;
    uint64_t bytes = config->gathered == NULL ? 0 : gathered_bytes(world, config);

    for (uint32_t i = 0; i < MARGIN && config->gathered != NULL; i++) {
        FUZZ_CHECK(config->gathered[-1 - (int)i] == NOBODY);
        FUZZ_CHECK(config->gathered[bytes + i] == NOBODY);
    }
}

/* --- What children say -------------------------------------------------------------------------------------------- */

const uint8_t *world_piece(uint32_t source)
{
    static uint8_t pieces[RANKS][TT_FRAME_GATHER_BYTES];
    uint8_t *piece = pieces[source % RANKS];

    memset(piece, (int)(source % RANKS), sizeof pieces[0]);
    return piece;
}

/* What a child speaks for: bytes of a buffer of `all`, from `start` on, which go on at its beginning. */
struct report {
    uint32_t child;
    uint64_t start, bytes, all;
};

static struct report report_of(const struct world *world, const struct tt_collective *collective, uint32_t index)
{
    const struct tt_collective_terms *terms = &collective->config.terms;
    uint64_t block_bytes = terms->method == TT_METHOD_GATHER ? terms->block_bytes : 0;
    struct tt_gather_place child;
    uint32_t first;

    if (collective->gather.folds) {
        return (struct report){.child = tt_fold_tree_child(world->size, terms->root, world->rank, index),
                               .bytes = block_bytes,
                               .all = block_bytes};
    }
    tt_gather_child(world->size, &collective->gather.place, index, &child);
    first = tt_rank_subtract(child.vertex, child.before, world->size);
    return (struct report){.child = tt_rank_add(child.vertex, terms->root, world->size),
                           .start = tt_rank_add(first, terms->root, world->size) * block_bytes,
                           .bytes = (child.before + child.after + 1) * block_bytes,
                           .all = world->size * block_bytes};
}

enum { WRONG = 16 };

/* With some numbers below WRONG what is not due, or has been said before. */
static void make_wrong(struct tt_frame *frame, const struct report *report, uint32_t wrong)
{
    switch (wrong) {
    case 1:
        frame->body.gather.offset_bytes++;
        break;
    case 2:
        frame->body.gather.offset_bytes += TT_FRAME_GATHER_BYTES;
        break;
    case 3:
        frame->body.gather.offset_bytes += (uint32_t)report->bytes;
        break;
    case 4:
        frame->body.gather.length_bytes -= frame->body.gather.length_bytes > 0;
        break;
    case 5:
        frame->body.gather.length_bytes += frame->body.gather.length_bytes < TT_FRAME_GATHER_BYTES;
        break;
    case 6:
        frame->body.gather.offset_bytes = (uint32_t)report->start;
        break;
    default:
        break;
    }
}

/* What child number `index` still has to report, or only the first piece of it. */
static void hear_report(struct world *world, const struct request *request, uint32_t index, uint32_t wrong, bool all)
{
    const struct tt_collective *collective = &request->collective;
    const struct report report = report_of(world, collective, index);
    struct tt_frame frame = {
        .group = GROUP, .type = TT_FRAME_GATHER, .source = report.child, .sequence = collective->sequence};
    uint64_t here = collective->gather.received_bytes[index];

    frame.body.gather.terms = collective->config.terms;
    frame.body.gather.least = tt_release_of(world->member.oldest);
    frame.body.gather.bytes = world_piece(report.child);
    do {
        uint64_t at = report.all == 0 ? 0 : (report.start + here) % report.all;

        frame.body.gather.offset_bytes = (uint32_t)at;
        frame.body.gather.length_bytes =
            (uint16_t)tt_least(tt_least(report.bytes - here, report.all - at), TT_FRAME_GATHER_BYTES);
        here += frame.body.gather.length_bytes;
        make_wrong(&frame, &report, wrong);
        world_hear(world, &frame);
    } while (all && request->run.posted && here < report.bytes);
}

void world_hear_reports(struct world *world, struct script *script, const struct request *request)
{
    const struct tt_gather *gather = &request->collective.gather;
    struct tt_frame remind = {.group = GROUP, .type = TT_FRAME_REMIND, .sequence = request->collective.sequence};
    uint32_t pick = script_below(script, 4 * WRONG);
    bool all = pick % 4 != 0;

    for (uint32_t i = 0; i < gather->child_count && request->run.posted; i++) {
        if (!(gather->complete >> i & 1) && (all || script_below(script, 2) == 0)) {
            hear_report(world, request, i, pick / 4, all);
        }
    }
    if (script_below(script, 4) == 0) { /* the parent reminds */
        remind.body.ready.terms = request->collective.config.terms;
        remind.source = gather->parent;
        world_hear(world, &remind);
    }
    if (script_below(script, 2) == 0) {
        world_release(world, script);
    }
}
