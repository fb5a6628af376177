/* SPDX-License-Identifier: BSD-3-Clause */
/* A group's network and memory, around the drivers of its member machines. */
#include "member_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Addresses that travel in AVAILABLE: of every receive buffer, and of every ring of copies. */
enum { BUFFERS = 0x100000, COPIES = 0x200000 };

static struct request *request_of(const struct tt_collective *collective)
{
    return collective->owner;
}

static struct memory *memory_of(const struct tt_collective *collective)
{
    return &request_of(collective)->memory;
}

static void send_frame(struct rank *from, const struct tt_action *action)
{
    struct group *group = from->group;
    struct tt_frame frame = action->body.frame;
    struct letter *letter = &group->letters[group->order[group->letter_count++]];

    assert_true(group->letter_count < GROUP_LETTERS);
    if (frame.type == TT_FRAME_AVAILABLE) {
        frame.body.available.address = action->collective != NULL ? BUFFERS : COPIES + frame.body.available.address;
        frame.body.available.key_bytes = 4;
        frame.body.available.key = (const uint8_t *)"keys";
    }
    group->frames[frame.type]++;
    from->fails[action->to] += frame.type == TT_FRAME_FAIL;
    letter->from = from->number;
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

static uint8_t *blocks_of(const struct tt_collective *collective)
{
    return collective->config.gathered != NULL ? collective->config.gathered : memory_of(collective)->buffer;
}

/* Byte by byte exclusive or: of all, at the root, or where vectors fold of the own one and the children's. */
static void combine(const struct tt_collective *collective)
{
    uint64_t block_bytes = collective->config.terms.block_bytes;
    bool folds = collective->gather.folds;
    uint32_t vectors = folds ? 1 + collective->gather.child_count : collective->config.size;

    for (uint64_t i = 0; i < block_bytes && folds; i++) {
        for (uint32_t child = 1; child < vectors; child++) {
            blocks_of(collective)[i] ^= blocks_of(collective)[child * block_bytes + i];
        }
    }
    for (uint64_t i = 0;
         i < block_bytes && collective->own_root_index != TT_RANK_NONE && !tt_terms_releases(&collective->config.terms);
         i++) {
        memory_of(collective)->buffer[i] = 0;
        for (uint32_t source = 0; source < (folds ? 1 : vectors); source++) {
            memory_of(collective)->buffer[i] ^= blocks_of(collective)[source * block_bytes + i];
        }
    }
}

static void compare_combined(const struct group *group, const struct tt_collective *collective, const uint8_t *result)
{
    for (uint64_t i = 0; i < collective->config.terms.block_bytes; i++) {
        uint8_t right = 0;

        for (uint32_t source = 0; source < group->size; source++) {
            right ^= pattern(collective->sequence, source, i);
        }
        assert_int_equal(result[i], right);
    }
}

/* Puts this rank's block in its place, or compares all of them. */
static void for_blocks(struct group *group, uint32_t rank, const struct tt_collective *collective, bool compare)
{
    uint64_t block_bytes = collective->config.terms.block_bytes;

    for (uint32_t source = compare ? 0 : rank; source <= (compare ? group->size - 1 : rank); source++) {
        uint8_t *block = blocks_of(collective) + (collective->gather.folds ? 0 : source) * block_bytes;

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
        struct request *request = group->worlds[other].requests[i];

        if (request->run.published && !request->run.frozen && request->collective.sequence == collective->sequence &&
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

/* As far as the run's limit says, subgroups in turn, as the engine does. */
static void transmit(struct group *group, uint32_t rank, struct tt_collective *collective)
{
    struct request *request = request_of(collective);
    uint32_t posted = 0;

    if (tt_collective_releases(collective) && !request->released) {
        request->released = true;
        release(group, rank, collective);
    }
    for (uint32_t s = 0; s < collective->config.terms.subgroups; s++) {
        posted += request->cursors[s];
    }
    for (uint32_t s = 0; tt_method_row(collective->config.terms.method)->multicasts && posted < request->run.limit;
         s = s + 1 < collective->config.terms.subgroups ? s + 1 : 0) {
        if (request->cursors[s] < collective->config.streams[s].stripe.chunks) {
            multicast(group, rank, collective, s, request->cursors[s]++);
            posted++;
        }
    }
}

static void get(struct group *group, const struct tt_action *action)
{
    const struct tt_collective *collective = action->collective;
    uint64_t offset = action->body.get.offset_bytes, remote = action->body.get.remote_address;

    assert_true(action->body.get.key_bytes == 4 && memcmp(action->body.get.key, "keys", 4) == 0);
    if (is_gathered(collective)) {
        assert_true(remote == COPIES + collective->copy.offset + offset);
        memcpy(memory_of(collective)->buffer + offset, group->ranks[action->to].copies + (remote - COPIES),
               action->body.get.length_bytes);
    } else {
        assert_true(remote == BUFFERS + offset);
    }
}

/* A barrier's bytes are the release, and those of a result that is the root's. */
static void check_gathered(struct group *group, uint32_t rank, const struct tt_collective *collective)
{
    struct tt_release release;

    if (!tt_terms_releases(&collective->config.terms) && tt_terms_combine(&collective->config.terms)) {
        compare_combined(group, collective, memory_of(collective)->buffer);
        return;
    }
    if (collective->gather.folds && rank == collective->config.terms.root) {
        compare_combined(group, collective, blocks_of(collective));
    } else if (!tt_terms_releases(&collective->config.terms) ||
               (tt_terms_combine(&collective->config.terms) && rank == collective->config.terms.root)) {
        for_blocks(group, rank, collective, true);
    }
    if (!tt_terms_releases(&collective->config.terms)) {
        return;
    }
    tt_release_decode(memory_of(collective)->buffer, &release);
    assert_true(release.finished <= collective->sequence && release.rate_kbit == UINT32_MAX);
    for (uint32_t other = 0; other < group->size; other++) {
        assert_true(group->worlds[other].member.next_sequence > collective->sequence); /* has posted it */
    }
}

static void effect(void *argument, const struct tt_action *action)
{
    struct rank *rank = argument;
    struct group *group = rank->group;
    struct tt_collective *collective = action->collective;

    switch (action->type) {
    case TT_ACTION_SEND:
        send_frame(rank, action);
        break;
    case TT_ACTION_PUBLISH:
        if (is_gathered(collective)) {
            for_blocks(group, rank->number, collective, false);
        }
        break;
    case TT_ACTION_COMBINE:
        combine(collective);
        break;
    case TT_ACTION_TRANSMIT:
        transmit(group, rank->number, collective);
        break;
    case TT_ACTION_GET:
        get(group, action);
        break;
    case TT_ACTION_KEEP:
        assert_true(is_gathered(collective));
        memcpy(rank->copies + action->body.keep.offset_bytes, memory_of(collective)->buffer,
               action->body.keep.length_bytes);
        break;
    case TT_ACTION_FINISH:
        if (is_gathered(collective) && action->body.finish.status == TUTTI_OK) {
            check_gathered(group, rank->number, collective);
        }
        break;
    default:
        break;
    }
}

void group_init(struct group *group, uint32_t size, uint32_t in_flight, uint64_t seed)
{
    memset(group, 0, offsetof(struct group, worlds));
    group->size = size;
    tt_random_init(&group->random, seed);
    for (uint32_t i = 0; i < GROUP_LETTERS; i++) {
        group->order[i] = i;
    }
    assert_true(size <= GROUP_MOST);
    for (uint32_t number = 0; number < size; number++) {
        struct world *world = &group->worlds[number];
        struct rank *rank = &group->ranks[number];

        world_init(world, number, size, in_flight);
        world->script.actions.capacity = tt_actions_capacity(size);
        rank->group = group;
        rank->number = number;
        rank->driver = (struct member_driver){
            .member = &world->member, .actions = &world->script.actions, .effect = effect, .argument = rank};
    }
}

void group_fini(struct group *group)
{
    for (uint32_t rank = 0; rank < group->size; rank++) {
        world_fini(&group->worlds[rank]);
    }
}

static void step(struct group *group, uint32_t rank, struct tt_member_event event)
{
    member_driver_step(&group->ranks[rank].driver, event, group->now_ns);
}

struct tt_collective *group_post(struct group *group, uint32_t rank, struct shape shape, uint64_t timeout_ns)
{
    struct tt_collective *collective = world_request(&group->worlds[rank], shape);

    collective->config.timeout_ns = timeout_ns;
    member_driver_post(&group->ranks[rank].driver, collective, group->now_ns);
    return collective;
}

void group_kill(struct group *group, uint32_t rank)
{
    const struct tt_member *member = &group->worlds[rank].member;

    group->ranks[rank].dead = true;
    for (uint32_t i = 0; i < member->neighbour_count; i++) {
        member_driver_owe(&group->ranks[member->neighbours[i]].driver,
                          (struct tt_member_event){.type = TT_MEMBER_PEER_DOWN, .rank = rank});
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
    if (!group->ranks[to].dead && !group->ranks[from].dead) {
        step(group, to, (struct tt_member_event){.type = TT_MEMBER_FRAME, .frame = &frame});
    }
}

/* Answer number `pick` of all that are owed to anybody. */
static void answer(struct group *group, uint32_t pick)
{
    uint32_t number = 0, left = tt_rank_subtract(0, 1, group->size);

    while (pick >= group->ranks[number].driver.answer_count) {
        pick -= group->ranks[number].driver.answer_count;
        left = number++;
    }
    if (group->ranks[number].dead) {
        group->ranks[number].driver.answer_count = 0;
    } else {
        member_driver_answer(&group->ranks[number].driver, pick,
                             group->ranks[left].dead ? TUTTI_ERR_PEER_FAILED : TUTTI_OK, group->now_ns);
    }
}

static uint32_t answers(const struct group *group)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < group->size; rank++) {
        count += group->ranks[rank].driver.answer_count;
    }
    return count;
}

static void tick_all(struct group *group)
{
    for (uint32_t rank = 0; rank < group->size; rank++) {
        if (!group->ranks[rank].dead) {
            step(group, rank, (struct tt_member_event){.type = TT_MEMBER_TICK});
        }
    }
}

bool group_move(struct group *group, uint64_t until_ns)
{
    uint64_t next_ns = UINT64_MAX;
    uint32_t waiting = group->letter_count + answers(group);

    if (waiting > 0) {
        uint32_t pick = (uint32_t)tt_random_below(&group->random, waiting);

        if (pick < group->letter_count) {
            deliver(group);
        } else {
            answer(group, pick - group->letter_count);
        }
        return true;
    }
    tick_all(group); /* chunks may have come */
    if (group->letter_count + answers(group) > 0) {
        return true;
    }
    for (uint32_t rank = 0; rank < group->size; rank++) {
        uint64_t deadline_ns = tt_member_deadline(&group->worlds[rank].member);

        assert_true(group->ranks[rank].dead || deadline_ns > group->now_ns); /* or else nobody ever sleeps */
        next_ns = !group->ranks[rank].dead && deadline_ns < next_ns ? deadline_ns : next_ns;
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
        count += group_run_of(group, rank, i)->finished;
    }
    return count;
}
