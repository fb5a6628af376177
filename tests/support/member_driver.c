/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The surroundings of one member machine. Normal path: each action is checked, noted in its run, and what it asks for
 * is owed. Failures: an assertion ends the process.
 */
#include "support/member_driver.h"

#undef NDEBUG /* in every build */
#include <assert.h>

#include "proto/member_private.h"

static struct member_run *run_of(const struct tt_action *action)
{
    return action->collective == NULL ? NULL : action->collective->owner;
}

static const struct tt_method_row *row_of(const struct tt_action *action)
{
    return tt_method_row(action->collective->config.terms.method);
}

static uint64_t bytes_of(const struct tt_action *action)
{
    const struct tt_collective_config *config = &action->collective->config;

    return tt_terms_bytes(&config->terms, config->size);
}

void member_driver_owe(struct member_driver *driver, struct tt_member_event event)
{
    assert(driver->answer_count < MEMBER_DRIVER_ANSWERS);
    driver->answers[driver->answer_count++] = event;
}

static void owe(struct member_driver *driver, enum tt_member_event_type type, const struct tt_action *action,
                uint32_t run)
{
    member_driver_owe(driver, (struct tt_member_event){.type = type, .collective = action->collective, .run = run});
}

/* --- Frames ------------------------------------------------------------------------------------------------------- */

/* What is answered for a collective that has ended, or that serves from a copy. */
static bool is_from_copy(const struct tt_member *member, const struct tt_action *action)
{
    const struct tt_frame *frame = &action->body.frame;

    if (frame->type == TT_FRAME_AVAILABLE) {
        assert(frame->body.available.address < TT_EAGER_RING_BYTES);
    }
    return (frame->type == TT_FRAME_AVAILABLE || frame->type == TT_FRAME_KEPT) &&
           frame->sequence < member->next_sequence &&
           action->to == tt_rank_add(member->config.rank, 1, member->config.size);
}

/* The bytes that a frame carries lie in the buffer, where it says. */
static void check_bytes(const struct tt_member *member, const struct tt_action *action)
{
    const struct tt_frame *frame = &action->body.frame;

    if (frame->type == TT_FRAME_DATA) {
        assert((uint64_t)frame->body.data.offset_bytes + frame->body.data.length_bytes <= bytes_of(action));
        assert(frame->body.data.bytes == action->collective->config.streams[0].buffer + frame->body.data.offset_bytes);
    }
    if (frame->type == TT_FRAME_GATHER) {
        const struct tt_collective_config *config = &action->collective->config;
        const uint8_t *gathered = config->gathered != NULL ? config->gathered : config->streams[0].buffer;
        uint32_t offset = frame->body.gather.offset_bytes, length = frame->body.gather.length_bytes;

        assert(config->terms.method == TT_METHOD_GATHER || length == 0);
        assert(length == 0 || (uint64_t)offset + length <=
                                  config->terms.block_bytes * (action->collective->gather.folds ? 1 : config->size));
        assert(length == 0 || frame->body.gather.bytes == gathered + offset);
        assert(length == 0 || !action->collective->gather.folds || action->collective->gather.child_count == 0 ||
               run_of(action)->combined); /* what goes up is of all that this rank speaks for */
        assert(!action->collective->gather.folds ||
               action->to == tt_fold_tree_parent(config->size, config->terms.root, config->rank));
        assert(frame->body.gather.least.finished <= member->oldest);
    }
}

static void check_send(const struct tt_member *member, const struct tt_action *action)
{
    const struct member_run *run = run_of(action);
    struct tt_frame frame = action->body.frame, again;
    uint8_t bytes[TT_FRAME_MAX_BYTES];
    size_t length;

    assert(tt_member_neighbour_index(member, action->to) != TT_RANK_NONE);
    assert(frame.source == member->config.rank && frame.group == member->config.group);
    assert(run == NULL || (run->posted && frame.sequence == action->collective->sequence));
    assert(run != NULL || frame.type == TT_FRAME_PROBE || frame.type == TT_FRAME_FAIL ||
           frame.type == TT_FRAME_ROLLCALL || frame.type == TT_FRAME_BYE || frame.type == TT_FRAME_ACK ||
           is_from_copy(member, action));
    if (frame.type == TT_FRAME_AVAILABLE) { /* which the surroundings fill in */
        frame.body.available.key_bytes = 0;
        frame.body.available.address = 0;
    }
    check_bytes(member, action);
    length = tt_frame_encode(&frame, bytes, sizeof bytes);
    assert(length > 0 && tt_frame_decode(bytes, length, &again));
}

/* --- The other actions -------------------------------------------------------------------------------------------- */

static void get(struct member_driver *driver, const struct tt_action *action, struct member_run *run)
{
    const struct tt_member_config *config = &driver->member->config;
    uint64_t bytes = bytes_of(action);
    uint32_t number = action->body.get.run;

    assert(config->size > 1 && action->to == tt_rank_subtract(config->rank, 1, config->size));
    assert(action->body.get.length_bytes > 0 && action->body.get.length_bytes <= bytes);
    assert(action->body.get.offset_bytes <= bytes - action->body.get.length_bytes);
    assert(!run->published || run->frozen); /* nobody else may write any more */
    assert(number < TT_FETCH_RUNS && !(run->gets >> number & 1));
    run->gets |= UINT32_C(1) << number;
    owe(driver, TT_MEMBER_GOT, action, number);
}

static void be_sent(struct member_driver *driver, const struct tt_action *action, struct member_run *run)
{
    if (!run->sent) {
        run->sent = true;
        owe(driver, TT_MEMBER_SENT, action, 0);
    }
}

static void transmit(struct member_driver *driver, const struct tt_action *action, struct member_run *run)
{
    const struct tt_collective *collective = action->collective;
    uint32_t chunks = 0, limit = tt_collective_send_limit(collective);

    assert(collective->own_root_index != TT_RANK_NONE && !run->sent && !run->canceled);
    assert(run->combined == tt_terms_combine(&collective->config.terms));
    if (collective->config.terms.method == TT_METHOD_GATHER || tt_collective_releases(collective)) {
        assert(collective->everybody); /* has reported */
    }
    for (uint32_t s = 0; s < collective->config.terms.subgroups; s++) {
        chunks += collective->config.streams[s].stripe.chunks;
    }
    assert(limit <= chunks && limit >= run->limit);
    run->limit = limit;
    run->transmitting = true;
    if (limit == chunks || !row_of(action)->multicasts) {
        be_sent(driver, action, run);
    }
}

static void check_keep(const struct tt_action *action, const struct member_run *run)
{
    uint64_t bytes = bytes_of(action);

    assert(row_of(action)->keeps_copies && run->frozen);
    assert(action->body.keep.length_bytes == bytes);
    assert(action->body.keep.offset_bytes <= TT_EAGER_RING_BYTES - bytes);
}

static void finish(const struct member_driver *driver, const struct tt_action *action, struct member_run *run)
{
    const struct tt_collective_config *config = &action->collective->config;
    tutti_status status = action->body.finish.status;

    tt_collective_check(action->collective);
    assert((!run->published || run->frozen) && run->gets == 0);
    for (uint32_t i = 0; i < driver->answer_count; i++) {
        assert(driver->answers[i].collective != action->collective); /* it could be posted again, or freed */
    }
    assert(status == TUTTI_OK || status == driver->member->status);
    assert(status != TUTTI_OK || run->kept == row_of(action)->keeps_copies);
    /* Of a tree bytes are counted, not chunks. */
    for (uint32_t s = 0; s < config->terms.subgroups && status == TUTTI_OK && config->terms.method != TT_METHOD_TREE;
         s++) {
        for (uint32_t psn = 0; psn < config->streams[s].stripe.psn_count; psn++) {
            assert(tt_stream_word(&config->streams[s], psn / 64) >> (psn % 64) & 1);
        }
    }
    run->posted = false;
    run->finished = true;
    run->status = status;
    run->failed_rank = action->body.finish.rank;
}

static void note_in_run(struct member_driver *driver, const struct tt_action *action, struct member_run *run)
{
    assert(run != NULL && run->posted);
    switch (action->type) {
    case TT_ACTION_PUBLISH:
        assert(!run->published && row_of(action)->multicasts);
        run->published = true;
        break;
    case TT_ACTION_COMBINE:
        assert(action->collective->gather.told);
        assert(action->collective->gather.folds || action->collective->own_root_index != TT_RANK_NONE);
        assert(tt_terms_combine(&action->collective->config.terms) && !run->combined && !run->transmitting);
        run->combined = true;
        break;
    case TT_ACTION_TRANSMIT:
        transmit(driver, action, run);
        break;
    case TT_ACTION_CANCEL:
        assert(run->transmitting && !run->canceled);
        run->canceled = true;
        be_sent(driver, action, run);
        break;
    case TT_ACTION_FREEZE:
        assert(run->published && !run->frozen);
        run->frozen = true;
        owe(driver, TT_MEMBER_FROZEN, action, 0);
        break;
    case TT_ACTION_GET:
        get(driver, action, run);
        break;
    case TT_ACTION_ABANDON: /* gets are answered in any case */
        assert(tt_member_neighbour_index(driver->member, action->to) != TT_RANK_NONE);
        break;
    case TT_ACTION_KEEP:
        check_keep(action, run);
        run->kept = true;
        break;
    case TT_ACTION_FINISH:
        finish(driver, action, run);
        break;
    default:
        assert(!"an action of a machine that nobody drives here");
    }
}

static void carry_out(struct member_driver *driver, const struct tt_action *action)
{
    switch (action->type) {
    case TT_ACTION_SEND:
        check_send(driver->member, action);
        break;
    case TT_ACTION_PROBE:
    case TT_ACTION_PROBED:
        assert(driver->probing && !driver->probed);
        driver->probed = action->type == TT_ACTION_PROBED;
        break;
    default:
        note_in_run(driver, action, run_of(action));
        break;
    }
    driver->effect(driver->argument, action);
}

/* --- Events ------------------------------------------------------------------------------------------------------- */

void member_driver_step(struct member_driver *driver, struct tt_member_event event, uint64_t now_ns)
{
    uint32_t steps = 0;

    driver->probing |= event.type == TT_MEMBER_PROBE;
    do {
        event.now_ns = now_ns;
        tt_member_step(driver->member, &event, driver->actions);
        assert(driver->actions->count <= driver->actions->capacity);
        tt_member_check(driver->member);
        if (driver->member->config.pool != NULL) {
            tt_early_pool_check(driver->member->config.pool);
        }
        for (uint32_t i = 0; i < driver->actions->count; i++) {
            carry_out(driver, &driver->actions->list[i]);
        }
        event = (struct tt_member_event){.type = TT_MEMBER_TICK};
        assert(++steps < 100);
    } while (driver->actions->more);
}

void member_driver_post(struct member_driver *driver, struct tt_collective *collective, uint64_t now_ns)
{
    struct member_run *run = collective->owner;

    assert(!run->posted);
    *run = (struct member_run){.posted = true};
    member_driver_step(driver, (struct tt_member_event){.type = TT_MEMBER_POST, .collective = collective}, now_ns);
}

void member_driver_answer(struct member_driver *driver, uint32_t pick, tutti_status got, uint64_t now_ns)
{
    struct tt_member_event event = driver->answers[pick];

    driver->answers[pick] = driver->answers[--driver->answer_count];
    if (event.type == TT_MEMBER_GOT) {
        event.status = got;
        ((struct member_run *)event.collective->owner)->gets &= ~(UINT32_C(1) << event.run);
    }
    member_driver_step(driver, event, now_ns);
}
