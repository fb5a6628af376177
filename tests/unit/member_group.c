/* SPDX-License-Identifier: BSD-3-Clause */
/* The surroundings of a group of member machines: carries out their actions, checking that each is legal. */
#include "member_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Addresses that travel in AVAILABLE: of every receive buffer, and of every ring of copies. */
enum { BUFFERS = 0x100000, COPIES = 0x200000 };

void group_init(struct group *group, uint32_t size, uint32_t in_flight, uint64_t seed)
{
    memset(group, 0, offsetof(struct group, worlds));
    group->size = size;
    tt_random_init(&group->random, seed);
    for (uint32_t i = 0; i < GROUP_LETTERS; i++) {
        group->order[i] = i;
    }
    assert_true(size <= GROUP_MOST);
    for (uint32_t rank = 0; rank < size; rank++) {
        world_init(&group->worlds[rank], rank, size, in_flight);
        group->worlds[rank].script.actions.capacity = tt_actions_capacity(size);
    }
}

void group_fini(struct group *group)
{
    for (uint32_t rank = 0; rank < group->size; rank++) {
        world_fini(&group->worlds[rank]);
    }
}

static struct memory *memory_of(const struct tt_collective *collective)
{
    return &((struct request *)collective->owner)->memory;
}

static struct run *run_of(struct group *group, uint32_t rank, const struct tt_collective *collective)
{
    return &group->runs[rank][((struct request *)collective->owner)->number];
}

static void owe(struct group *group, uint32_t rank, struct tt_member_event event)
{
    assert_true(group->answer_count < GROUP_ANSWERS);
    group->answers[group->answer_count++] = (struct answer){rank, event};
}

static void send_frame(struct group *group, uint32_t rank, const struct tt_action *action)
{
    struct tt_frame frame = action->body.frame;
    struct letter *letter = &group->letters[group->order[group->letter_count++]];

    assert_true(group->letter_count < GROUP_LETTERS);
    assert_true(action->to < group->size && action->to != rank);
    assert_int_equal(frame.source, rank);
    if (frame.type == TT_FRAME_AVAILABLE) {
        frame.body.available.address = action->collective != NULL ? BUFFERS : COPIES + frame.body.available.address;
        frame.body.available.key_bytes = 4;
        frame.body.available.key = (const uint8_t *)"keys";
    }
    group->frames[frame.type]++;
    group->fails[rank][action->to] += frame.type == TT_FRAME_FAIL;
    letter->from = rank;
    letter->to = action->to;
    letter->length_bytes = (uint32_t)tt_frame_encode(&frame, letter->bytes, sizeof letter->bytes);
    assert_true(letter->length_bytes > 0);
}

static uint8_t pattern(uint64_t sequence, uint32_t rank, uint64_t offset)
{
    return (uint8_t)(sequence * 31 + rank * 7 + offset + offset / 256);
}

static bool is_gathered(const struct tt_collective *collective)
{
    return collective->config.terms.method == TT_METHOD_GATHER;
}

/* Puts this rank's block in its place, or compares all of them. */
static void for_blocks(struct group *group, uint32_t rank, const struct tt_collective *collective, bool compare)
{
    uint64_t block_bytes = collective->config.terms.block_bytes;

    for (uint32_t source = compare ? 0 : rank; source <= (compare ? group->size - 1 : rank); source++) {
        uint8_t *block = memory_of(collective)->buffer + source * block_bytes;

        for (uint64_t i = 0; i < block_bytes; i++) {
            uint8_t right = pattern(collective->sequence, source, i);

            assert_true(!compare || block[i] == right);
            block[i] = right;
        }
    }
}

/* The request of another rank that takes part in the same run, if it listens, unless chance is against it. */
static struct request *listener(struct group *group, uint32_t rank, const struct tt_collective *collective,
                                uint32_t other)
{
    for (uint32_t i = 0; i < group->worlds[other].request_count && other != rank; i++) {
        const struct run *run = &group->runs[other][i];
        struct request *request = group->worlds[other].requests[i];

        if (run->published && !run->frozen && request->collective.sequence == collective->sequence &&
            !tt_random_chance(&group->random, group->loss_ppm)) {
            return request;
        }
    }
    return NULL;
}

/* One chunk of this rank's block, to everybody who listens. */
static void multicast(struct group *group, uint32_t rank, const struct tt_collective *collective, uint32_t subgroup,
                      uint32_t index)
{
    const struct tt_stripe *stripe = &collective->config.streams[subgroup].stripe;
    uint32_t psn = collective->own_root_index * stripe->chunks + index;
    uint64_t offset = tt_stripe_offset(stripe, collective->own_root_index, index);

    for (uint32_t other = 0; other < group->size; other++) {
        struct request *request = listener(group, rank, collective, other);

        if (request != NULL && is_gathered(collective)) {
            memcpy(request->memory.buffer + offset, memory_of(collective)->buffer + offset,
                   tt_stripe_length(stripe, index));
        }
        if (request != NULL) {
            memory_receive(&request->memory, subgroup, psn, 1);
        }
    }
}

static void release(struct group *group, uint32_t rank, const struct tt_collective *collective)
{
    assert_true(collective->everybody);
    for (uint32_t other = 0; other < group->size; other++) {
        struct request *request = listener(group, rank, collective, other);

        if (request != NULL) {
            memory_release(&request->memory, &collective->least);
        }
    }
}

static void transmit(struct group *group, uint32_t rank, struct tt_collective *collective)
{
    struct run *run = run_of(group, rank, collective);
    uint32_t limit = tt_collective_send_limit(collective), posted = 0, chunks = 0;

    assert_false(run->sent || run->canceled);
    if (tt_collective_releases(collective) && !run->released) {
        run->released = true;
        release(group, rank, collective);
    }
    for (uint32_t s = 0; s < collective->config.terms.subgroups; s++) {
        chunks += collective->config.streams[s].stripe.chunks;
        posted += run->cursors[s];
    }
    assert_true(limit <= chunks && limit >= posted);
    /* In turn, as the engine does. */
    for (uint32_t s = 0; tt_method_is_multicast(collective->config.terms.method) && posted < limit;
         s = s + 1 < collective->config.terms.subgroups ? s + 1 : 0) {
        if (run->cursors[s] < collective->config.streams[s].stripe.chunks) {
            multicast(group, rank, collective, s, run->cursors[s]++);
            posted++;
        }
    }
    if (posted == chunks || !tt_method_is_multicast(collective->config.terms.method)) {
        run->sent = true;
        owe(group, rank, (struct tt_member_event){.type = TT_MEMBER_SENT, .collective = collective});
    }
}

static uint64_t bytes_of(const struct group *group, const struct tt_collective *collective)
{
    const struct tt_collective_terms *terms = &collective->config.terms;

    return tt_terms_bytes(terms, group->size);
}

static void get(struct group *group, uint32_t rank, const struct tt_action *action)
{
    struct tt_collective *collective = action->collective;
    struct tt_member_event event = {.type = TT_MEMBER_GOT, .collective = collective, .run = action->body.get.run};
    uint64_t offset = action->body.get.offset_bytes, length = action->body.get.length_bytes;
    uint64_t remote = action->body.get.remote_address;

    assert_true(length > 0 && offset + length <= bytes_of(group, collective));
    assert_true(action->body.get.key_bytes == 4 && memcmp(action->body.get.key, "keys", 4) == 0);
    if (is_gathered(collective)) {
        assert_true(remote == COPIES + collective->copy_offset + offset);
        memcpy(memory_of(collective)->buffer + offset, group->copies[action->to] + (remote - COPIES), length);
    } else {
        assert_true(remote == BUFFERS + offset);
    }
    event.status = group->dead[action->to] ? TUTTI_ERR_PEER_FAILED : TUTTI_OK;
    owe(group, rank, event);
}

static void keep(struct group *group, uint32_t rank, const struct tt_action *action)
{
    assert_true(is_gathered(action->collective) && run_of(group, rank, action->collective)->frozen);
    assert_true(action->body.keep.length_bytes == bytes_of(group, action->collective));
    assert_true(action->body.keep.offset_bytes + action->body.keep.length_bytes <= TT_EAGER_RING_BYTES);
    memcpy(group->copies[rank] + action->body.keep.offset_bytes, memory_of(action->collective)->buffer,
           action->body.keep.length_bytes);
    run_of(group, rank, action->collective)->kept = true;
}

/* A barrier's bytes are the release. */
static void check_gathered(struct group *group, uint32_t rank, const struct tt_collective *collective)
{
    struct tt_release release;

    assert_true(run_of(group, rank, collective)->kept);
    if (collective->config.terms.block_bytes > 0) {
        for_blocks(group, rank, collective, true);
        return;
    }
    tt_release_decode(memory_of(collective)->buffer, &release);
    assert_true(release.finished <= collective->sequence && release.rate_kbit == UINT32_MAX);
    for (uint32_t other = 0; other < group->size; other++) {
        assert_true(group->worlds[other].member.next_sequence > collective->sequence); /* has posted it */
    }
}

static void finish(struct group *group, uint32_t rank, const struct tt_action *action)
{
    struct run *run = run_of(group, rank, action->collective);
    const struct memory *memory = memory_of(action->collective);

    assert_false(run->finished);
    assert_true(!run->published || run->frozen);
    for (uint32_t i = 0; i < group->answer_count; i++) {
        assert_ptr_not_equal(group->answers[i].event.collective, action->collective);
    }
    run->finished = true;
    run->status = action->body.finish.status;
    run->failed_rank = action->body.finish.rank;
    for (uint32_t s = 0; s < memory->config.terms.subgroups && run->status == TUTTI_OK; s++) {
        for (uint32_t psn = 0; psn < memory->streams[s].stripe.psn_count; psn++) {
            assert_true(tt_stream_word(&memory->streams[s], psn / 64) >> (psn % 64) & 1);
        }
    }
    if (is_gathered(action->collective) && run->status == TUTTI_OK) {
        check_gathered(group, rank, action->collective);
    }
}

static void carry_out(struct group *group, uint32_t rank, const struct tt_action *action)
{
    /* What is about no collective is sent or probed: none of that looks at the run. */
    static struct run none;
    struct run *run = action->collective == NULL ? &none : run_of(group, rank, action->collective);

    assert_true(!run->finished);
    switch (action->type) {
    case TT_ACTION_SEND:
        send_frame(group, rank, action);
        break;
    case TT_ACTION_PUBLISH:
        run->published = true;
        if (action->collective != NULL && is_gathered(action->collective)) {
            for_blocks(group, rank, action->collective, false);
        }
        break;
    case TT_ACTION_TRANSMIT:
        transmit(group, rank, action->collective);
        break;
    case TT_ACTION_CANCEL:
        run->canceled = true;
        if (!run->sent) {
            run->sent = true;
            owe(group, rank, (struct tt_member_event){.type = TT_MEMBER_SENT, .collective = action->collective});
        }
        break;
    case TT_ACTION_FREEZE:
        assert_true(run->published && !run->frozen);
        run->frozen = true;
        owe(group, rank, (struct tt_member_event){.type = TT_MEMBER_FROZEN, .collective = action->collective});
        break;
    case TT_ACTION_GET:
        get(group, rank, action);
        break;
    case TT_ACTION_KEEP:
        keep(group, rank, action);
        break;
    case TT_ACTION_FINISH:
        finish(group, rank, action);
        break;
    default: /* gets are answered in any case; nobody probes */
        assert_int_equal(action->type, TT_ACTION_ABANDON);
        break;
    }
}

/* Steps a rank until it has nothing more to ask for. */
static void step(struct group *group, uint32_t rank, struct tt_member_event event)
{
    struct world *world = &group->worlds[rank];

    event.now_ns = group->now_ns;
    do {
        world_step(world, &event);
        for (uint32_t i = 0; i < world->script.actions.count; i++) {
            carry_out(group, rank, &world->script.list[i]);
        }
        event = (struct tt_member_event){.type = TT_MEMBER_TICK, .now_ns = group->now_ns};
    } while (world->script.actions.more);
}

struct tt_collective *group_post(struct group *group, uint32_t rank, struct shape shape, uint64_t timeout_ns)
{
    struct tt_collective *collective = world_request(&group->worlds[rank], shape);

    collective->config.timeout_ns = timeout_ns;
    step(group, rank, (struct tt_member_event){.type = TT_MEMBER_POST, .collective = collective});
    return collective;
}

void group_kill(struct group *group, uint32_t rank)
{
    const struct tt_member *member = &group->worlds[rank].member;

    group->dead[rank] = true;
    for (uint32_t i = 0; i < member->neighbour_count; i++) {
        owe(group, member->neighbours[i], (struct tt_member_event){.type = TT_MEMBER_PEER_DOWN, .rank = rank});
    }
}

/* The oldest letter between the two ranks of one that is picked by chance. */
static void deliver(struct group *group)
{
    uint32_t pick = (uint32_t)tt_random_below(&group->random, group->letter_count), first = 0;
    const struct letter *letter = &group->letters[group->order[pick]];
    uint32_t from = letter->from, to = letter->to, place;
    struct tt_frame frame;

    do {
        place = group->order[first++];
        letter = &group->letters[place];
    } while (letter->from != from || letter->to != to);
    group->letter_count--;
    memmove(&group->order[first - 1], &group->order[first], (group->letter_count + 1 - first) * sizeof *group->order);
    group->order[group->letter_count] = group->order[GROUP_LETTERS - 1]; /* not at once: it is being read */
    group->order[GROUP_LETTERS - 1] = place;
    assert_true(tt_frame_decode(letter->bytes, letter->length_bytes, &frame));
    if (!group->dead[to] && !group->dead[from]) {
        step(group, to, (struct tt_member_event){.type = TT_MEMBER_FRAME, .frame = &frame});
    }
}

static void answer(struct group *group)
{
    uint32_t pick = (uint32_t)tt_random_below(&group->random, group->answer_count);
    struct answer owed = group->answers[pick];

    group->answers[pick] = group->answers[--group->answer_count];
    if (!group->dead[owed.rank]) {
        step(group, owed.rank, owed.event);
    }
}

static void tick_all(struct group *group)
{
    for (uint32_t rank = 0; rank < group->size; rank++) {
        if (!group->dead[rank]) {
            step(group, rank, (struct tt_member_event){.type = TT_MEMBER_TICK});
        }
    }
}

bool group_move(struct group *group, uint64_t until_ns)
{
    uint64_t next_ns = UINT64_MAX;
    uint32_t waiting = group->letter_count + group->answer_count;

    if (waiting > 0) {
        if (tt_random_below(&group->random, waiting) < group->letter_count) {
            deliver(group);
        } else {
            answer(group);
        }
        return true;
    }
    tick_all(group); /* chunks may have come */
    if (group->letter_count + group->answer_count > 0) {
        return true;
    }
    for (uint32_t rank = 0; rank < group->size; rank++) {
        uint64_t deadline_ns = tt_member_deadline(&group->worlds[rank].member);

        assert_true(group->dead[rank] || deadline_ns > group->now_ns); /* or else nobody ever sleeps */
        next_ns = !group->dead[rank] && deadline_ns < next_ns ? deadline_ns : next_ns;
    }
    if (next_ns > until_ns) {
        group->now_ns = until_ns;
        return false;
    }
    group->now_ns = next_ns;
    tick_all(group);
    return true;
}

void group_run(struct group *group, uint64_t until_ns)
{
    uint32_t moves = 0;

    while (group_move(group, until_ns)) {
        assert_true(++moves < 400000);
    }
}

uint32_t group_finished(const struct group *group, uint32_t rank)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < group->worlds[rank].request_count; i++) {
        count += group->runs[rank][i].finished;
    }
    return count;
}
