/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive kernel. Normal path, a chunk: the tag finds the stream, the PSN is checked against the stripe, source and
 * length against the layout, the bit is tested, the bytes are copied to their offset, the bit is set. Chunks may come
 * in any order. Whatever fails a check is counted under its reason and changes nothing.
 *
 * A fabric that writes has put the chunk in place already (section V-B, the UC datapath), and there is nothing to copy.
 * It may do so again after the bit is set, when the network has doubled the chunk, and only with the same bytes: the
 * window that the chunk names is this collective's alone, and all that is under way was read from the root's block
 * before the collective ended there. The bit is what makes bytes count: of a chunk that never completes, a part may be
 * there without it.
 */
#include "proto/receive.h"

#include <assert.h>
#include <string.h>

static void count_one(_Atomic uint64_t *counter)
{
    /* Single writer: a plain add, made of atomics only so that others may read. */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* Late, doubled, forged, or of a rank that means another collective: who has ended this one finds out (eager.h). */
static void doubt(struct tt_receiver *receiver, const struct tt_receive_chunk *chunk)
{
    if (tt_imm_tag(chunk->imm) >= TT_TAG_EAGER) {
        atomic_store_explicit(&receiver->doubt, 1, memory_order_relaxed);
        atomic_store_explicit(&receiver->attention, 1, memory_order_relaxed);
    }
}

static void set_bit(_Atomic uint64_t *word, uint64_t bit)
{
    atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) | bit, memory_order_release);
}

static void receive_probe(struct tt_receiver *receiver, const struct tt_receive_chunk *chunk)
{
    uint32_t source = tt_imm_psn(chunk->imm);

    if (source >= receiver->size) {
        count_one(&receiver->range);
    } else if (source != chunk->source || source == receiver->rank) {
        count_one(&receiver->source);
    } else if (chunk->length_bytes != receiver->probe_bytes) {
        count_one(&receiver->length);
    } else {
        set_bit(&receiver->heard[source / 64], UINT64_C(1) << (source % 64));
        atomic_store_explicit(&receiver->attention, 1, memory_order_relaxed);
    }
}

/* The barrier is over: from the first root, who sends this before any chunk. */
static void receive_release(struct tt_receiver *receiver, struct tt_stream *stream,
                            const struct tt_receive_chunk *chunk)
{
    if (chunk->source != stream->first_source) {
        count_one(&receiver->source);
    } else if (chunk->length_bytes != TT_RELEASE_BYTES) {
        count_one(&receiver->length);
    } else if (atomic_load_explicit(&stream->released, memory_order_relaxed)) {
        count_one(&receiver->duplicate);
    } else {
        tt_release_decode(chunk->address, &stream->release);
        atomic_store_explicit(&stream->released, true, memory_order_release);
        atomic_store_explicit(&receiver->attention, 1, memory_order_relaxed);
    }
}

/* Places one chunk of a stream; returns whether it was new. */
static bool receive_chunk(struct tt_receiver *receiver, struct tt_stream *stream, const struct tt_receive_chunk *chunk)
{
    const struct tt_stripe *stripe = &stream->stripe;
    uint32_t psn = tt_imm_psn(chunk->imm);
    uint32_t root_index, index, received;
    uint64_t bit = UINT64_C(1) << (psn % 64);
    uint8_t *place;

    if (psn >= stripe->psn_count) {
        if (psn == TT_PSN_RELEASE) {
            receive_release(receiver, stream, chunk);
        } else {
            count_one(&receiver->range);
            doubt(receiver, chunk);
        }
        return false;
    }
    root_index = psn / stripe->chunks;
    index = psn - root_index * stripe->chunks;
    if (chunk->source != stream->first_source + root_index) {
        count_one(&receiver->source);
        doubt(receiver, chunk);
        return false;
    }
    if (chunk->length_bytes != tt_stripe_length(stripe, index)) {
        count_one(&receiver->length);
        doubt(receiver, chunk);
        return false;
    }
    if (atomic_load_explicit(&stream->bitmap[psn / 64], memory_order_relaxed) & bit) {
        count_one(&receiver->duplicate);
#ifndef TT_FAULT_BITMAP_UNCHECKED
        return false;
#endif
    }
#ifdef TT_FAULT_BIT_BEFORE_BYTES
    set_bit(&stream->bitmap[psn / 64], bit);
#endif
    place = stream->buffer + tt_stripe_offset(stripe, root_index, index);
    if (chunk->address != place) {
        memcpy(place, chunk->address, chunk->length_bytes);
    }
    set_bit(&stream->bitmap[psn / 64], bit);
    if (tt_imm_tag(chunk->imm) >= TT_TAG_EAGER &&
        tt_imm_behind(chunk->imm) > atomic_load_explicit(&stream->behind, memory_order_relaxed)) {
        atomic_store_explicit(&stream->behind, tt_imm_behind(chunk->imm), memory_order_relaxed);
    }
    received = atomic_load_explicit(&stream->received, memory_order_relaxed) + 1;
    atomic_store_explicit(&stream->received, received, memory_order_release);
    if (received >= atomic_load_explicit(&stream->notify_at, memory_order_relaxed)) {
        atomic_store_explicit(&receiver->attention, 1, memory_order_relaxed);
    }
    return true;
}

static bool comes_from_afar(const struct tt_receiver *receiver, const struct tt_receive_chunk *chunk)
{
    return chunk->source < receiver->size && !tt_is_same_host(receiver->hosts, chunk->source, receiver->rank);
}

/* Keeps a chunk without a stream if it belongs to an eager collective that may still be posted here. What waits in the
 * queue may be old: it is of the first collective with its tag whose chunks have not all been taken out. */
static void keep_early(struct tt_receiver *receiver, const struct tt_receive_chunk *chunk)
{
    uint32_t tag = tt_imm_tag(chunk->imm), first = tt_tag_of_sequence(receiver->drained, true);
    uint64_t sequence = receiver->drained + (tag + TT_TAG_EAGER_COUNT - first) % TT_TAG_EAGER_COUNT;
    bool kept;

    assert(receiver->drained <= receiver->frontier);
    kept = tag >= TT_TAG_EAGER && sequence >= receiver->frontier && sequence < receiver->frontier + TT_EARLY_AHEAD &&
           tt_early_add(&receiver->log, chunk, sequence);

    count_one(kept ? &receiver->early : &receiver->stale);
    if (tt_imm_psn(chunk->imm) != TT_PSN_RELEASE && comes_from_afar(receiver, chunk)) {
        count_one(&receiver->afar);
    }
    if (sequence < receiver->frontier) {
        doubt(receiver, chunk);
    }
}

static void add_placed(struct tt_receiver *receiver, uint32_t placed)
{
    atomic_store_explicit(&receiver->placed, atomic_load_explicit(&receiver->placed, memory_order_relaxed) + placed,
                          memory_order_relaxed);
}

uint32_t tt_receive_early(struct tt_receiver *receiver)
{
    uint32_t offset = 0, placed = 0;

    while (offset < receiver->log.used_bytes) {
        struct tt_receive_chunk chunk;
        uint32_t sequence, next = tt_early_read(&receiver->log, offset, &chunk, &sequence);
        uint32_t tag = tt_imm_tag(chunk.imm);
        struct tt_stream *stream = atomic_load_explicit(&receiver->streams[tag], memory_order_seq_cst);
        bool is_over = (int32_t)(sequence - (uint32_t)receiver->frontier) < 0;

        assert(next > offset && next <= receiver->log.used_bytes);
        if (stream == NULL && !is_over) {
            offset = next;
            continue;
        }
        if (is_over) { /* a stream would be another collective's */
            count_one(&receiver->stale);
        } else {
            placed += receive_chunk(receiver, stream, &chunk);
        }
        tt_early_remove(&receiver->log, offset, next);
    }
    if (placed > 0) {
        add_placed(receiver, placed);
    }
    return placed;
}

uint32_t tt_receive(struct tt_receiver *receiver, const struct tt_receive_chunk *chunks, uint32_t count)
{
    uint32_t placed = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t tag = tt_imm_tag(chunks[i].imm);
        struct tt_stream *stream = atomic_load_explicit(&receiver->streams[tag], memory_order_seq_cst);

        if (tag == TT_TAG_PROBE) {
            receive_probe(receiver, &chunks[i]);
        } else if (stream == NULL) {
            keep_early(receiver, &chunks[i]);
        } else {
            placed += receive_chunk(receiver, stream, &chunks[i]);
        }
    }
    add_placed(receiver, placed);
    return placed;
}

void tt_stream_mark(struct tt_stream *stream, uint32_t first, uint32_t count)
{
    assert(first <= stream->stripe.psn_count && count <= stream->stripe.psn_count - first);
    for (uint32_t psn = first; psn < first + count;) {
        uint32_t bit = psn % 64;
        uint32_t bits = first + count - psn < 64 - bit ? first + count - psn : 64 - bit;
        uint64_t mask = (bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1) << bit;

        set_bit(&stream->bitmap[psn / 64], mask);
        psn += bits;
    }
}

void tt_stream_reset(struct tt_stream *stream)
{
    uint32_t words = tt_stream_words(stream);

    for (uint32_t i = 0; i < words; i++) {
        atomic_store_explicit(&stream->bitmap[i], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&stream->received, 0, memory_order_relaxed);
    atomic_store_explicit(&stream->behind, 0, memory_order_relaxed);
    atomic_store_explicit(&stream->released, false, memory_order_relaxed);
}

uint32_t tt_stream_highest(const struct tt_stream *stream, uint32_t first, uint32_t limit)
{
    uint32_t highest = first;

    assert(limit <= stream->stripe.psn_count);
    for (uint32_t psn = first; psn < limit; psn = (psn / 64 + 1) * 64) {
        uint64_t word = tt_stream_word(stream, psn / 64) & (~UINT64_C(0) << (psn % 64));
        uint32_t end;

        if (limit - psn / 64 * 64 < 64) {
            word &= (UINT64_C(1) << (limit % 64)) - 1;
        }
        if (word != 0) {
            end = psn / 64 * 64 + 64 - (uint32_t)__builtin_clzll(word);
            highest = end;
        }
    }
    return highest;
}

/* --- Checks ------------------------------------------------------------------------------------------------------- */

uint32_t tt_stream_marked(const struct tt_stream *stream)
{
    uint32_t words = tt_stream_words(stream), sum = 0;

    for (uint32_t i = 0; i < words; i++) {
        sum += (uint32_t)__builtin_popcountll(tt_stream_word(stream, i));
    }
    return sum;
}

void tt_stream_check(const struct tt_stream *stream)
{
    const struct tt_stripe *stripe = &stream->stripe;
    uint32_t words = tt_stream_words(stream), rest = stripe->psn_count % 64;

    assert(stripe->psn_count <= TT_PSN_LIMIT);
    assert(stripe->chunks == 0 ? stripe->psn_count == 0 : stripe->psn_count % stripe->chunks == 0);
    assert(rest == 0 || tt_stream_word(stream, words - 1) >> rest == 0); /* nothing is marked past the end */
    assert(atomic_load_explicit(&stream->received, memory_order_relaxed) <= stripe->psn_count);
}

/* Every early chunk is of a collective that its tag can mean, and not further ahead than credit reaches. */
static void check_log(const struct tt_receiver *receiver)
{
    struct tt_receive_chunk chunk;
    uint32_t sequence;

    tt_early_check(&receiver->log);
    for (uint32_t offset = 0; offset < receiver->log.used_bytes;) {
        offset = tt_early_read(&receiver->log, offset, &chunk, &sequence);
        assert(tt_imm_tag(chunk.imm) == tt_tag_of_sequence(sequence, true));
        assert((int32_t)(sequence - (uint32_t)receiver->frontier) < TT_EARLY_AHEAD);
    }
}

void tt_receiver_check(const struct tt_receiver *receiver)
{
    assert(receiver->rank < receiver->size);
    assert(receiver->drained <= receiver->frontier);
    /* Probes are no collective's, and nobody hears his own. */
    assert(atomic_load_explicit(&receiver->streams[TT_TAG_PROBE], memory_order_relaxed) == NULL);
    assert(!(receiver->heard[receiver->rank / 64] >> (receiver->rank % 64) & 1));
    assert(receiver->size % 64 == 0 || receiver->heard[receiver->size / 64] >> (receiver->size % 64) == 0);
    assert(receiver->log.count <= receiver->early);
    check_log(receiver);
}
