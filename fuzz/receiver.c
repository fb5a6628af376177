/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive kernel under a script of chunks: several streams, published and retired, in buffers between canaries, and
 * a log of early chunks. A model that knows nothing of stripes (a list of all chunks of a block, walked from the front)
 * says after every chunk what must have changed: these bytes and this bit, or one counter and nothing else.
 */
#include <string.h>

#include "check.h"
#include "proto/receive.h"
#include "script.h"

enum { SLAB = 600, EARLY = 40 };
enum { STREAMS = 3, BUFFER = 2048, MARGIN = 64, WORDS = 8, SIZE = 70, RANK = 3, PSNS = WORDS * 64 };

struct stream {
    struct tt_stream stream;
    _Atomic uint64_t bitmap[WORDS];
    uint32_t tag;
    bool published;
    uint8_t memory[MARGIN + BUFFER + MARGIN];

    /* The model. */
    uint8_t expected[MARGIN + BUFFER + MARGIN];
    uint32_t psn_count, placed;
    bool released;
    uint64_t finished;
    uint32_t rate_kbit, window_chunks;
    uint8_t flags;
    uint64_t has[WORDS];
    uint32_t offset[PSNS], length[PSNS], source[PSNS];
};

struct world {
    struct tt_receiver receiver;
    _Atomic uint64_t heard[2];
    bool expected_heard[SIZE];
    struct stream streams[STREAMS];
    uint64_t placed, stale, range, source, length, duplicate, afar;
    uint64_t hosts[SIZE];
    struct tt_early_pool pool;
    _Alignas(8) uint8_t slabs[TT_EARLY_SLABS * SLAB];
    struct {
        struct tt_receive_chunk chunk;
        uint8_t bytes[512];
        uint64_t sequence;
    } early[EARLY]; /* the model of the log */
    uint32_t early_count, early_bytes;
    uint64_t early_seen;
};

/* Deals the chunks of every block to subgroups one after the other, as many to each as its turn says. */
static void model_layout(struct stream *stream, uint32_t block_bytes, uint32_t chunk_bytes, uint32_t roots,
                         uint32_t subgroups, uint32_t subgroup)
{
    uint32_t chunks = (block_bytes + chunk_bytes - 1) / chunk_bytes;

    for (uint32_t root = 0; root < roots; root++) {
        uint32_t owner = 0, dealt = 0;

        for (uint32_t chunk = 0; chunk < chunks; chunk++, dealt++) {
            if (dealt == chunks / subgroups + (owner < chunks % subgroups)) {
                owner++;
                dealt = 0;
            }
            if (owner == subgroup) {
                uint32_t psn = stream->psn_count++, left = block_bytes - chunk * chunk_bytes;

                FUZZ_CHECK(psn < PSNS);
                stream->offset[psn] = root * block_bytes + chunk * chunk_bytes;
                stream->length[psn] = left < chunk_bytes ? left : chunk_bytes;
                stream->source[psn] = stream->stream.first_source + root;
            }
        }
    }
}

static bool has(const struct stream *stream, uint32_t psn)
{
    return stream->has[psn / 64] >> (psn % 64) & 1;
}

static void set_has(struct stream *stream, uint32_t psn)
{
    stream->has[psn / 64] |= UINT64_C(1) << (psn % 64);
    stream->placed++;
}

static void set_up_stream(struct stream *stream, struct script *script)
{
    uint32_t roots = 1 + script_below(script, 4), subgroups = 1 + script_below(script, 3);
    uint32_t block_bytes = script_below(script, BUFFER / roots + 1), chunk_bytes = 8 + script_below(script, 64);
    uint32_t subgroup = script_below(script, subgroups);
    struct tt_layout layout;

    memset(stream, 0, sizeof *stream);
    memset(stream->memory, 0xC3, sizeof stream->memory);
    memset(stream->expected, 0xC3, sizeof stream->expected);
    FUZZ_CHECK(tt_layout_init(&layout, block_bytes, chunk_bytes, roots, subgroups, PSNS));
    tt_layout_stripe(&layout, subgroup, &stream->stream.stripe);
    stream->stream.first_source = script_below(script, SIZE - 4);
    stream->stream.bitmap = stream->bitmap;
    stream->stream.buffer = stream->memory + MARGIN;
    atomic_store(&stream->stream.notify_at, script_below(script, 64));
    model_layout(stream, block_bytes, chunk_bytes, roots, subgroups, subgroup);
    FUZZ_CHECK(stream->psn_count == stream->stream.stripe.psn_count);
}

static void check_stream(const struct stream *stream)
{
    uint32_t bits = 0;

    FUZZ_CHECK(memcmp(stream->memory, stream->expected, sizeof stream->memory) == 0);
    for (uint32_t word = 0; word < WORDS; word++) {
        FUZZ_CHECK(atomic_load(&stream->bitmap[word]) == stream->has[word]);
        bits += (uint32_t)__builtin_popcountll(stream->has[word]);
    }
    FUZZ_CHECK(atomic_load(&stream->stream.released) == stream->released);
    FUZZ_CHECK(!stream->released || (stream->stream.release.finished == stream->finished &&
                                     stream->stream.release.rate_kbit == stream->rate_kbit &&
                                     stream->stream.release.window_chunks == stream->window_chunks &&
                                     tt_release_flags(&stream->stream.release) == stream->flags));
    tt_stream_check(&stream->stream);
    FUZZ_CHECK(bits == stream->placed && atomic_load(&stream->stream.received) == bits);
    FUZZ_CHECK(tt_stream_highest(&stream->stream, 0, stream->psn_count) <= stream->psn_count);
}

static void check(const struct world *world)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        check_stream(&world->streams[i]);
    }
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        FUZZ_CHECK((world->heard[rank / 64] >> (rank % 64) & 1) == world->expected_heard[rank]);
    }
    FUZZ_CHECK(world->receiver.placed == world->placed && world->receiver.stale == world->stale);
    FUZZ_CHECK(world->receiver.range == world->range && world->receiver.source == world->source);
    FUZZ_CHECK(world->receiver.length == world->length && world->receiver.duplicate == world->duplicate);
    FUZZ_CHECK(world->receiver.early == world->early_seen && world->receiver.log.count == world->early_count);
    FUZZ_CHECK(world->receiver.afar == world->afar);
    FUZZ_CHECK(world->pool.taken == (world->early_count > 0));
    tt_receiver_check(&world->receiver);
}

static void model_probe(struct world *world, uint32_t psn, const struct tt_receive_chunk *chunk)
{
    if (psn >= SIZE) {
        world->range++;
    } else if (psn != chunk->source || psn == RANK) {
        world->source++;
    } else if (chunk->length_bytes != world->receiver.probe_bytes) {
        world->length++;
    } else {
        world->expected_heard[psn] = true;
    }
}

/* Three numbers, lowest byte first, and two bits. */
static void model_release(struct world *world, struct stream *stream, const struct tt_receive_chunk *chunk)
{
    const uint8_t *bytes = chunk->address;

    if (chunk->source != stream->stream.first_source) {
        world->source++;
    } else if (chunk->length_bytes != 17) {
        world->length++;
    } else if (stream->released) {
        world->duplicate++;
    } else {
        stream->released = true;
        stream->finished = stream->rate_kbit = stream->window_chunks = 0;
        stream->flags = bytes[16] & 3;
        for (uint32_t i = 16; i-- > 0;) {
            if (i < 8) {
                stream->finished = stream->finished << 8 | bytes[i];
            } else if (i >= 12) {
                stream->window_chunks = stream->window_chunks << 8 | bytes[i];
            } else {
                stream->rate_kbit = stream->rate_kbit << 8 | bytes[i];
            }
        }
    }
}

/* Of which collective a chunk from the queue can be, if that is still to come; UINT64_MAX: of none. */
static uint64_t ahead(const struct world *world, uint32_t tag)
{
    uint64_t sequence = world->receiver.drained;

    while (tag >= TT_TAG_EAGER && tt_tag_of_sequence(sequence, true) != tag) {
        sequence++;
    }
    return tag >= TT_TAG_EAGER && sequence >= world->receiver.frontier && sequence < world->receiver.frontier + 64
               ? sequence
               : UINT64_MAX;
}

static void model_unknown(struct world *world, uint32_t tag, const struct tt_receive_chunk *chunk)
{
    uint32_t bytes = 16 + (chunk->length_bytes + 7) / 8 * 8;

    /* Two ranks a host, one behind the other. */
    world->afar += tt_imm_psn(chunk->imm) != 0xFFFFFF && chunk->source < SIZE && chunk->source / 2 != RANK / 2;
    if (ahead(world, tag) == UINT64_MAX || world->early_bytes + bytes > SLAB) {
        world->stale++;
        return;
    }
    FUZZ_CHECK(world->early_count < EARLY);
    world->early[world->early_count].chunk = *chunk;
    world->early[world->early_count].sequence = ahead(world, tag);
    memcpy(world->early[world->early_count].bytes, chunk->address, chunk->length_bytes);
    world->early_count++;
    world->early_bytes += bytes;
    world->early_seen++;
}

static struct stream *stream_of(struct world *world, uint32_t tag)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        if (world->streams[i].published && world->streams[i].tag == tag) {
            return &world->streams[i];
        }
    }
    return NULL;
}

/* What the chunk ought to do. */
static void model_chunk(struct world *world, uint32_t tag, uint32_t psn, const struct tt_receive_chunk *chunk)
{
    struct stream *stream = stream_of(world, tag);

    if (tag == TT_TAG_PROBE) {
        model_probe(world, psn, chunk);
    } else if (stream == NULL) {
        model_unknown(world, tag, chunk);
    } else if (psn == 0xFFFFFF) {
        model_release(world, stream, chunk);
    } else if (psn >= stream->psn_count) {
        world->range++;
    } else if (chunk->source != stream->source[psn]) {
        world->source++;
    } else if (chunk->length_bytes != stream->length[psn]) {
        world->length++;
    } else if (has(stream, psn)) {
        world->duplicate++;
    } else {
        memcpy(stream->expected + MARGIN + stream->offset[psn], chunk->address, chunk->length_bytes);
        set_has(stream, psn);
        world->placed++;
    }
}

/* As a fabric that writes: the bytes are in their place before the kernel hears of them, the same each time. */
static const uint8_t *write_in_place(struct stream *stream, uint32_t psn)
{
    uint32_t at = MARGIN + stream->offset[psn];

    if (!has(stream, psn)) {
        memset(stream->memory + at, (int)psn, stream->length[psn]);
        memset(stream->expected + at, (int)psn, stream->length[psn]);
    }
    return stream->memory + at;
}

/* Some chunks of one array: mostly such as a sender would send, with at most one thing wrong. */
static void receive(struct world *world, struct script *script)
{
    static uint8_t payload[256 + 512];
    struct tt_receive_chunk chunks[8];
    uint32_t count = script_below(script, 9);
    uint64_t before = world->placed;

    for (uint32_t i = 0; i < sizeof payload; i++) {
        payload[i] = (uint8_t)(i * 13);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct stream *stream = &world->streams[script_below(script, STREAMS)];
        uint32_t wrong = script_below(script, 16), psn = script_below(script, PSNS), tag = stream->tag;
        struct tt_receive_chunk *chunk = &chunks[i];

        psn = wrong != 1 && stream->psn_count > 0 ? psn % stream->psn_count : psn;
        psn = wrong == 2 ? (uint32_t)script_take(script, 3) : wrong >= 7 && wrong <= 8 ? 0xFFFFFF : psn;
        tag = wrong == 3 ? script_below(script, TT_TAG_COUNT) : wrong == 4 ? TT_TAG_PROBE : tag;
        tag = wrong >= 14 ? tt_tag_of_sequence(world->receiver.frontier + script_below(script, 80), true) : tag;
        *chunk =
            (struct tt_receive_chunk){.imm = tt_imm_encode(tag, psn), .address = payload + script_below(script, 256)};
        chunk->source = tag == TT_TAG_PROBE ? psn : psn < PSNS ? stream->source[psn] : stream->stream.first_source;
        chunk->length_bytes = tag == TT_TAG_PROBE ? world->receiver.probe_bytes : psn < PSNS ? stream->length[psn] : 17;
        chunk->source += wrong == 8;
        chunk->length_bytes += wrong == 8 && script_below(script, 2) == 0;
        chunk->source = wrong == 5 ? (uint32_t)script_take(script, 4) : chunk->source;
        chunk->address = wrong == 9 && psn < stream->psn_count ? write_in_place(stream, psn) : chunk->address;
        chunk->length_bytes = wrong == 6 ? script_below(script, 512) : chunk->length_bytes;
        model_chunk(world, tag, tt_imm_psn(chunk->imm), chunk); /* of an eager one fewer bits count */
    }
    FUZZ_CHECK(tt_receive(&world->receiver, chunks, count) == world->placed - before);
}

static void publish(struct world *world, struct script *script)
{
    struct stream *stream = &world->streams[script_below(script, STREAMS)];
    uint32_t tag = 1 + script_below(script, TT_TAG_COUNT - 1);

    if (script_below(script, 2) == 0) {
        tag = tt_tag_of_sequence(world->receiver.frontier + script_below(script, 64), true);
    }
    for (uint32_t i = 0; i < STREAMS; i++) {
        if (world->streams[i].published && world->streams[i].tag == tag) {
            return; /* a tag is one collective's at a time */
        }
    }
    if (!stream->published) {
        stream->tag = tag;
        stream->published = true;
        tt_receiver_publish(&world->receiver, tag, &stream->stream);
    }
}

/* Takes a stream away; then control may mark or clear it. */
static void retire(struct world *world, struct script *script)
{
    struct stream *stream = &world->streams[script_below(script, STREAMS)];
    uint32_t psn = script_below(script, PSNS);

    if (stream->published) {
        stream->published = false;
        tt_receiver_retire(&world->receiver, stream->tag);
    }
    if (psn % 4 == 0) {
        tt_stream_reset(&stream->stream);
        memset(stream->has, 0, sizeof stream->has);
        stream->placed = 0;
        stream->released = false;
    } else if (psn < stream->psn_count && !has(stream, psn)) {
        tt_stream_mark(&stream->stream, psn, 1); /* as a get does, but that it also counts here */
        atomic_fetch_add(&stream->stream.received, 1);
        set_has(stream, psn);
    }
}

/* Collectives end here, or not, and then the log is looked at. */
static void look_at_log(struct world *world, struct script *script)
{
    uint64_t before = world->placed;
    uint32_t left = 0;

    world->receiver.frontier += script_below(script, 4) == 0 ? script_below(script, 80) : 0;
    world->receiver.drained = script_below(script, 2) == 0 ? world->receiver.frontier : world->receiver.drained;
    world->early_bytes = 0;
    for (uint32_t i = 0; i < world->early_count; i++) {
        struct tt_receive_chunk chunk = world->early[i].chunk;
        uint32_t tag = tt_imm_tag(chunk.imm);

        chunk.address = world->early[i].bytes;
        if (world->early[i].sequence < world->receiver.frontier) {
            world->stale++;
        } else if (stream_of(world, tag) != NULL) {
            model_chunk(world, tag, tt_imm_psn(chunk.imm), &chunk);
        } else {
            world->early_bytes += 16 + (chunk.length_bytes + 7) / 8 * 8;
            memmove(&world->early[left++], &world->early[i], sizeof world->early[i]);
        }
    }
    world->early_count = left;
    FUZZ_CHECK(tt_receive_early(&world->receiver) == world->placed - before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world world;
    struct script script = {.at = data, .end = data + size};

    memset(&world, 0, sizeof world);
    world.receiver.rank = RANK;
    world.receiver.size = SIZE;
    world.receiver.probe_bytes = 1 + script_below(&script, 200);
    world.receiver.heard = world.heard;
    world.receiver.hosts = world.hosts;
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        world.hosts[rank] = rank / 2;
    }
    tt_early_pool_init(&world.pool, world.slabs, SLAB);
    world.receiver.log.pool = &world.pool;
    world.receiver.frontier = world.receiver.drained = script_below(&script, 300);
    for (uint32_t i = 0; i < STREAMS; i++) {
        set_up_stream(&world.streams[i], &script);
    }
    while (!script_ended(&script)) {
        switch (script_below(&script, 5)) {
        case 4:
            look_at_log(&world, &script);
            break;
        case 0:
            publish(&world, &script);
            break;
        case 1:
            retire(&world, &script);
            break;
        default:
            receive(&world, &script);
            break;
        }
        check(&world);
    }
    return 0;
}
