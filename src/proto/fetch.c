/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fetch ring. Normal path of the asking side: scan the frozen bitmaps for windows with holes, send FETCH, on
 * AVAILABLE start gets for runs of consecutive chunks, on each get's end mark the chunks; a window without holes frees
 * its slot for the next. Of the answering side: keep what the right neighbour wants, and tell it whatever of that is
 * present, at once and whenever more arrives. A frame that contradicts the layout, or answers what was not asked, is
 * refused; a get that fails changes nothing (the peer-down path ends the collective).
 */
#include "proto/fetch.h"

#include <assert.h>
#include <string.h>

void tt_fetch_init(struct tt_fetch *fetch, struct tt_stream *streams, uint32_t subgroups, uint32_t own_root_index)
{
    memset(fetch, 0, sizeof *fetch);
    fetch->streams = streams;
    fetch->subgroups = subgroups;
    fetch->own_root_index = own_root_index;
}

void tt_fetch_reset(struct tt_fetch *fetch)
{
    if (fetch->used) {
        tt_fetch_init(fetch, fetch->streams, fetch->subgroups, fetch->own_root_index);
        return;
    }
    fetch->own_ready = false; /* mostly nothing is lost, and the windows are four kilobytes */
    fetch->scan_subgroup = fetch->scan_psn = 0;
}

static uint32_t words_of(const struct tt_window *window)
{
    return (window->count + 63U) / 64;
}

static bool window_is_empty(const struct tt_window *window)
{
    for (uint32_t i = 0; i < words_of(window); i++) {
        if (window->bits[i] != 0) {
            return false;
        }
    }
    return true;
}

/* The unmarked PSNs of a window, from the bitmap. */
static void window_of_holes(const struct tt_stream *stream, struct tt_window *window)
{
    assert(window->base % 64 == 0); /* a window's words are the bitmap's */
    for (uint32_t i = 0; i < words_of(window); i++) {
        uint32_t rest = window->count - i * 64;
        uint64_t valid = rest >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << rest) - 1;

        window->bits[i] = ~tt_stream_word(stream, window->base / 64 + i) & valid;
    }
}

/* Finds the next window with holes at or after the scan position; false at the end. */
static bool next_window(struct tt_fetch *fetch, struct tt_window *window)
{
    while (fetch->scan_subgroup < fetch->subgroups) {
        const struct tt_stream *stream = &fetch->streams[fetch->scan_subgroup];
        uint32_t left = stream->stripe.psn_count - fetch->scan_psn;

        assert(fetch->scan_psn <= stream->stripe.psn_count);
        if (left == 0) {
            fetch->scan_subgroup++;
            fetch->scan_psn = 0;
            continue;
        }
        window->subgroup = (uint16_t)fetch->scan_subgroup;
        window->base = fetch->scan_psn;
        window->count = (uint16_t)(left < TT_FETCH_WINDOW ? left : TT_FETCH_WINDOW);
        memset(window->bits, 0, sizeof window->bits);
        window_of_holes(stream, window);
        fetch->scan_psn += window->count;
        if (!window_is_empty(window)) {
            return true;
        }
    }
    return false;
}

static void ask(struct tt_fetch *fetch, const struct tt_frame *template, uint32_t left,
                struct tt_collective *collective, struct tt_actions *actions)
{
    for (uint8_t i = 0; i < TT_FETCH_SLOTS; i++) {
        struct tt_fetch_slot *slot = &fetch->slots[i];
        struct tt_frame *frame;

        if (slot->active) {
            continue;
        }
        if (!next_window(fetch, &slot->missing)) {
            return;
        }
        fetch->used = true;
        slot->active = true;
        slot->gets = 0;
        memset(slot->told, 0, sizeof slot->told);
        memset(slot->available, 0, sizeof slot->available);
        fetch->active_slots++;
        frame = tt_actions_send(actions, collective, TT_FRAME_FETCH, left, template);
        frame->body.fetch.slot = i;
        frame->body.fetch.window = slot->missing;
    }
}

static bool test_bit(const uint64_t *bits, uint32_t index)
{
    return bits[index / 64] >> (index % 64) & 1;
}

static void clear_bit(uint64_t *bits, uint32_t index)
{
    bits[index / 64] &= ~(UINT64_C(1) << (index % 64));
}

static struct tt_fetch_run *free_run(struct tt_fetch *fetch)
{
    for (uint32_t i = 0; i < TT_FETCH_RUNS; i++) {
        if (!fetch->runs[i].active) {
            return &fetch->runs[i];
        }
    }
    return NULL;
}

/* Starts a get for the run of available chunks that begins at `index` of the slot's window; returns its length. */
static uint32_t start_get(struct tt_fetch *fetch, uint8_t slot_index, uint32_t index, struct tt_fetch_run *run,
                          struct tt_action *action)
{
    struct tt_fetch_slot *slot = &fetch->slots[slot_index];
    const struct tt_stripe *stripe = &fetch->streams[slot->missing.subgroup].stripe;
    uint32_t psn = slot->missing.base + index;
    uint32_t root_index = psn / stripe->chunks;
    uint32_t chunk = psn - root_index * stripe->chunks;
    uint64_t length_bytes = 0, offset = tt_stripe_offset(stripe, root_index, chunk);
    uint32_t count = 0;

    /* Up to the end of the block: the next PSN lies elsewhere in the buffer. */
    while (index + count < slot->missing.count && chunk + count < stripe->chunks &&
           test_bit(slot->available, index + count)) {
        uint32_t chunk_bytes = tt_stripe_length(stripe, chunk + count);

        if (count > 0 && length_bytes + chunk_bytes > TT_FETCH_RUN_BYTES) {
            break;
        }
        length_bytes += chunk_bytes;
        clear_bit(slot->available, index + count);
        count++;
    }
    assert(count >= 1); /* the first was available */
    assert(!run->active);
    *run = (struct tt_fetch_run){.active = true, .slot = slot_index, .first = psn, .count = count};
    action->body.get.run = (uint32_t)(run - fetch->runs);
    action->body.get.offset_bytes = offset;
#ifdef TT_FAULT_WRONG_RANGE
    offset = offset >= stripe->chunk_bytes ? offset - stripe->chunk_bytes : offset;
#endif
    action->body.get.remote_address = fetch->remote_address + offset;
    action->body.get.length_bytes = length_bytes;
    action->body.get.key = fetch->key;
    action->body.get.key_bytes = fetch->key_bytes;
    slot->gets++;
    fetch->active_runs++;
    return count;
}

static void start_gets(struct tt_fetch *fetch, uint32_t left, struct tt_collective *collective,
                       struct tt_actions *actions)
{
    for (uint8_t i = 0; i < TT_FETCH_SLOTS; i++) {
        struct tt_fetch_slot *slot = &fetch->slots[i];

        for (uint32_t word = 0; slot->active && word < words_of(&slot->missing); word++) {
            while (slot->available[word] != 0) {
                struct tt_fetch_run *run = free_run(fetch);
                struct tt_action *action;

                if (run == NULL) {
                    return;
                }
                action = tt_actions_add(actions, TT_ACTION_GET, collective);
                action->to = left;
                start_get(fetch, i, word * 64 + (uint32_t)__builtin_ctzll(slot->available[word]), run, action);
                if (action->body.get.length_bytes == 0) { /* that it may be read is all there is to know */
                    actions->count--;
                    tt_fetch_got(fetch, action->body.get.run, TUTTI_OK);
                }
            }
        }
    }
}

bool tt_fetch_pump(struct tt_fetch *fetch, const struct tt_frame *template, uint32_t left,
                   struct tt_collective *collective, struct tt_actions *actions)
{
    start_gets(fetch, left, collective, actions);
    ask(fetch, template, left, collective, actions);
    return fetch->active_slots == 0;
}

bool tt_fetch_available(struct tt_fetch *fetch, const struct tt_frame *frame)
{
    const struct tt_window *told = &frame->body.available.window;
    struct tt_fetch_slot *slot;

    if (frame->body.available.slot >= TT_FETCH_SLOTS) {
        return false;
    }
    slot = &fetch->slots[frame->body.available.slot];
    if (!slot->active || told->subgroup != slot->missing.subgroup || told->base != slot->missing.base ||
        told->count != slot->missing.count) {
        return false;
    }
    for (uint32_t i = 0; i < words_of(told); i++) {
        if (told->bits[i] & (~slot->missing.bits[i] | slot->told[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < words_of(told); i++) {
        slot->told[i] |= told->bits[i];
        slot->available[i] |= told->bits[i];
    }
    fetch->remote_address = frame->body.available.address;
    fetch->key_bytes = frame->body.available.key_bytes;
    if (fetch->key_bytes > 0) {
        memcpy(fetch->key, frame->body.available.key, fetch->key_bytes);
    }
    return true;
}

bool tt_fetch_got(struct tt_fetch *fetch, uint32_t run_index, tutti_status status)
{
    struct tt_fetch_run *run;
    struct tt_fetch_slot *slot;

    if (run_index >= TT_FETCH_RUNS || !fetch->runs[run_index].active) {
        return false;
    }
    run = &fetch->runs[run_index];
    slot = &fetch->slots[run->slot];
    assert(slot->active && slot->gets > 0);
    run->active = false;
    fetch->active_runs--;
    slot->gets--;
    if (status != TUTTI_OK) {
        return true;
    }
    tt_stream_mark(&fetch->streams[slot->missing.subgroup], run->first, run->count);
    for (uint32_t i = 0; i < run->count; i++) {
        clear_bit(slot->missing.bits, run->first - slot->missing.base + i);
    }
    fetch->fetched_chunks += run->count;
    assert(slot->gets == 0 || !window_is_empty(&slot->missing)); /* what other gets read is missing */
    if (slot->gets == 0 && window_is_empty(&slot->missing)) {
        slot->active = false;
        fetch->active_slots--;
    }
    return true;
}

bool tt_fetch_wanted(struct tt_fetch *fetch, const struct tt_frame *frame)
{
    const struct tt_window *window = &frame->body.fetch.window;
    uint32_t psn_count;

    if (frame->body.fetch.slot >= TT_FETCH_SLOTS || window->subgroup >= fetch->subgroups || window->base % 64 != 0 ||
        fetch->wanted[frame->body.fetch.slot].active) {
        return false;
    }
    /* An empty window would never be answered, and its slot never be free again. */
    psn_count = fetch->streams[window->subgroup].stripe.psn_count;
    if (window->base >= psn_count || window->count > psn_count - window->base || window_is_empty(window)) {
        return false;
    }
    fetch->used = true;
    fetch->wanted[frame->body.fetch.slot].active = true;
    fetch->wanted[frame->body.fetch.slot].window = *window;
    fetch->wanted_count++;
    return true;
}

/* What of a wanted window may be read here now. Own chunks count only once they are in place. */
static uint64_t present_word(const struct tt_fetch *fetch, const struct tt_window *window, uint32_t word)
{
    const struct tt_stream *stream = &fetch->streams[window->subgroup];
    uint64_t present = tt_stream_word(stream, window->base / 64 + word) & window->bits[word];

    if (present != 0 && !fetch->own_ready && fetch->own_root_index != TT_RANK_NONE) {
        uint32_t first = fetch->own_root_index * stream->stripe.chunks, end = first + stream->stripe.chunks;
        uint32_t base = window->base + word * 64;

        for (uint32_t bit = 0; bit < 64; bit++) {
            if (base + bit >= first && base + bit < end) {
                present &= ~(UINT64_C(1) << bit);
            }
        }
    }
    return present;
}

static uint64_t bytes_of(const struct tt_stripe *stripe, const struct tt_window *window)
{
    uint64_t bytes = 0;

    for (uint32_t word = 0; word < words_of(window); word++) {
        for (uint64_t rest = window->bits[word]; rest != 0; rest &= rest - 1) {
            uint32_t psn = window->base + word * 64 + (uint32_t)__builtin_ctzll(rest);

            bytes += tt_stripe_length(stripe, psn % stripe->chunks);
        }
    }
    return bytes;
}

static void answer(struct tt_fetch *fetch, uint8_t slot, const struct tt_frame *template, uint32_t right,
                   struct tt_collective *collective, struct tt_actions *actions)
{
    struct tt_window *wanted = &fetch->wanted[slot].window;
    struct tt_window told = *wanted;
    struct tt_frame *frame;

    assert(!window_is_empty(wanted));
    for (uint32_t word = 0; word < words_of(wanted); word++) {
        told.bits[word] = present_word(fetch, wanted, word);
        wanted->bits[word] &= ~told.bits[word];
    }
    if (window_is_empty(&told)) {
        return;
    }
    fetch->served_bytes += bytes_of(&fetch->streams[told.subgroup].stripe, &told);
    frame = tt_actions_send(actions, collective, TT_FRAME_AVAILABLE, right, template);
    frame->body.available.slot = slot;
    frame->body.available.window = told;
    if (window_is_empty(wanted)) {
        fetch->wanted[slot].active = false;
        fetch->wanted_count--;
    }
}

bool tt_fetch_can_serve(const struct tt_fetch *fetch)
{
    for (uint8_t slot = 0; slot < TT_FETCH_SLOTS && fetch->wanted_count > 0; slot++) {
        const struct tt_window *wanted = &fetch->wanted[slot].window;

        for (uint32_t word = 0; fetch->wanted[slot].active && word < words_of(wanted); word++) {
            if (present_word(fetch, wanted, word) != 0) {
                return true;
            }
        }
    }
    return false;
}

void tt_fetch_serve(struct tt_fetch *fetch, const struct tt_frame *template, uint32_t right,
                    struct tt_collective *collective, struct tt_actions *actions)
{
    if (fetch->wanted_count == 0) {
        return;
    }
    for (uint8_t slot = 0; slot < TT_FETCH_SLOTS; slot++) {
        if (fetch->wanted[slot].active) {
            answer(fetch, slot, template, right, collective, actions);
        }
    }
}

/* --- Checks ------------------------------------------------------------------------------------------------------- */

static void check_window(const struct tt_fetch *fetch, const struct tt_window *window)
{
    uint32_t psn_count;

    assert(window->subgroup < fetch->subgroups);
    psn_count = fetch->streams[window->subgroup].stripe.psn_count;
    assert(window->base % 64 == 0);
    assert(window->count >= 1 && window->count <= TT_FETCH_WINDOW);
    assert(window->base < psn_count && window->count <= psn_count - window->base);
    assert(!window_is_empty(window)); /* it would keep its slot for ever */
}

/* What is under request is missing, comes before the scan, and is read once. */
static void check_slot(const struct tt_fetch *fetch, const struct tt_fetch_slot *slot)
{
    const struct tt_window *window = &slot->missing;
    const struct tt_stream *stream = &fetch->streams[window->subgroup];

    check_window(fetch, window);
    assert(window->subgroup < fetch->scan_subgroup || window->base + window->count <= fetch->scan_psn);
    for (uint32_t i = 0; i < words_of(window); i++) {
        assert((slot->available[i] & ~window->bits[i]) == 0);
        assert((slot->available[i] & ~slot->told[i]) == 0);
        assert((tt_stream_word(stream, window->base / 64 + i) & window->bits[i]) == 0);
    }
    for (const struct tt_fetch_slot *other = fetch->slots; other < slot; other++) {
        assert(!other->active || other->missing.subgroup != window->subgroup || other->missing.base != window->base);
    }
}

/* A get reads missing chunks of one block, that no other get is to read. */
static void check_run(const struct tt_fetch *fetch, const struct tt_fetch_run *run)
{
    const struct tt_fetch_slot *slot = &fetch->slots[run->slot];
    uint32_t first = run->first - slot->missing.base, chunks;

    assert(run->slot < TT_FETCH_SLOTS && slot->active);
    chunks = fetch->streams[slot->missing.subgroup].stripe.chunks;
    assert(run->first >= slot->missing.base && run->count >= 1);
    assert(first + run->count <= slot->missing.count);
    assert(run->first / chunks == (run->first + run->count - 1) / chunks);
    for (uint32_t i = first; i < first + run->count; i++) {
        assert(test_bit(slot->missing.bits, i));
        assert(!test_bit(slot->available, i));
    }
}

static void check_scan(const struct tt_fetch *fetch)
{
    assert(fetch->scan_subgroup <= fetch->subgroups);
    assert(fetch->scan_psn == 0 || fetch->scan_subgroup < fetch->subgroups);
    assert(fetch->scan_psn == 0 || fetch->scan_psn <= fetch->streams[fetch->scan_subgroup].stripe.psn_count);
}

void tt_fetch_check(const struct tt_fetch *fetch)
{
    uint32_t slots = 0, gets = 0, runs = 0, wanted = 0;

    check_scan(fetch);
    if (!fetch->used) { /* tt_fetch_reset leaves it all alone then */
        assert(fetch->active_slots == 0 && fetch->active_runs == 0);
        assert(fetch->wanted_count == 0 && fetch->served_bytes == 0 && fetch->fetched_chunks == 0);
        return;
    }
    for (uint32_t i = 0; i < TT_FETCH_SLOTS; i++) {
        if (fetch->slots[i].active) {
            check_slot(fetch, &fetch->slots[i]);
            slots++;
            gets += fetch->slots[i].gets;
        }
        if (fetch->wanted[i].active) {
            check_window(fetch, &fetch->wanted[i].window);
            wanted++;
        }
    }
    for (uint32_t i = 0; i < TT_FETCH_RUNS; i++) {
        if (fetch->runs[i].active) {
            check_run(fetch, &fetch->runs[i]);
            runs++;
        }
    }
    assert(fetch->active_slots == slots);
    assert(fetch->active_runs == runs);
    assert(gets == runs);
    assert(fetch->wanted_count == wanted);
    assert(fetch->key_bytes <= TT_FRAME_MAX_KEY_BYTES);
}
