/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings of the triggered engine in a group: short messages go around in frames, long ones are put into slots of the
 * next rank, once that has given some; a ring goes from host to host, wherever ranks are; and what is halved goes in
 * few messages. Links as in support/story.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/triggers.h"
#include "support/story.h"
#include "support/whole_frame.h"

enum { WORD_BYTES = 8, RANKS = 4, BLOCK_BYTES = 1 << 20 };

static struct tt_world_job *reduce_scatter_by(const struct tt_story *story, uint64_t words, enum tt_method method)
{
    return tt_world_job_combine(story->group, TT_REDUCE_SCATTER, 0, words, TT_WORLD_WORDS, false, method);
}

static struct tt_world_job *reduce_scatter(const struct tt_story *story, uint64_t words)
{
    return reduce_scatter_by(story, words, TT_METHOD_TRIGGERED_RING);
}

/* What of each rank does not go in frames, of blocks of so many bytes. */
static void must_be_served(uint64_t block_bytes, uint64_t served_bytes)
{
    struct tt_story story;

    tt_story_start(&story, RANKS);
    tt_story_time_of(&story, reduce_scatter(&story, block_bytes / WORD_BYTES));
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const struct tt_group *group = story.group->members[rank].group;

        assert_int_equal(group->bytes_served, served_bytes);
        assert_int_equal(group->bytes_fetched, served_bytes);
        assert_true((group->triggers->slots.memory != NULL) == (served_bytes > 0));
    }
    tt_story_end(&story);
}

/* A block goes as four messages. */
static void short_messages_are_sent_in_frames(void **state)
{
    enum { LONGEST = TT_TRIGGERS_PORTS * TT_TRIGGERS_PIECED_BYTES, STEPS = RANKS - 1 };

    (void)state;
    must_be_served(WORD_BYTES, 0);
    must_be_served(LONGEST, 0);
    must_be_served(LONGEST + TT_TRIGGERS_PORTS * WORD_BYTES, STEPS * (LONGEST + TT_TRIGGERS_PORTS * WORD_BYTES));
}

static uint32_t arrivals(struct tt_story *story, const char *kind, uint32_t to)
{
    return tt_story_arrivals(story, kind, (to + RANKS - 1) % RANKS, to, 0);
}

/* Of the first messages nobody knows a slot. Later ones take one way instead of three. */
static void long_messages_are_announced_first_and_then_put(void **state)
{
    uint32_t read[RANKS], put[RANKS];
    struct tt_world_job *job;
    uint64_t first_ns, second_ns;
    struct tt_story story;

    (void)state;
    tt_story_start(&story, RANKS);
    job = reduce_scatter(&story, BLOCK_BYTES / WORD_BYTES);
    first_ns = tt_story_time_of(&story, job);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        read[rank] = arrivals(&story, "get-data", rank);
        put[rank] = arrivals(&story, "put-data", rank);
        assert_true(read[rank] > 0 && put[rank] > 0);
    }
    second_ns = tt_story_time_of(&story, job);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const struct tt_triggers *triggers = story.group->members[rank].group->triggers;

        assert_int_equal(arrivals(&story, "get-data", rank), read[rank]);
        assert_int_equal(arrivals(&story, "put-data", rank) - put[rank], read[rank] + put[rank]);
        assert_int_equal(__builtin_popcount(triggers->slots.given), triggers->targets.count);
        assert_int_equal(triggers->slots.landed, 0);
    }
    /* What a link carries, each byte for a nanosecond; of what was read one piece waited for its request. */
    assert_in_range(second_ns, (RANKS - 1) * BLOCK_BYTES, (RANKS - 1) * BLOCK_BYTES * 103 / 100);
    assert_true(second_ns < first_ns);
    tt_story_end(&story);
}

/* The rank whose message is on its way into a slot dies: who waits for it is told, and so are all. */
static void rank_that_dies_while_it_puts_is_named(void **state)
{
    struct tt_world_job *job;
    struct tt_story story;
    uint32_t put;

    (void)state;
    tt_story_start(&story, RANKS);
    job = reduce_scatter(&story, BLOCK_BYTES / WORD_BYTES);
    tt_story_time_of(&story, job);
    put = tt_story_arrivals(&story, "put-data", 0, 1, 0);
    tt_world_post_all(job);
    do {
        tt_world_run(story.world, tt_world_now(story.world) + TT_NS_PER_MS / 100);
    } while (tt_story_arrivals(&story, "put-data", 0, 1, 0) < put + 3); /* a part of the first message */
    assert_int_equal(story.group->members[1].group->triggers->slots.landed, 0);
    tt_sim_crash(story.world->sim, 0, tt_world_now(story.world));
    tt_world_run_job(job, tt_world_now(story.world) + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_ERR_PEER_FAILED, 0, UINT64_C(1) << 0);
    tt_story_forgive_reads(&story);
    tt_story_end(&story);
}

/* Rank 1 is late: what the others send to it stays in slots. */
static struct tt_world_job *be_early(struct tt_story *story)
{
    struct tt_world_job *job;

    tt_story_start(story, RANKS);
    job = reduce_scatter(story, BLOCK_BYTES / WORD_BYTES);
    tt_story_time_of(story, job);
    tt_story_post_but(job, 1);
    tt_world_run(story->world, tt_world_now(story->world) + 5 * TT_NS_PER_MS);
    return job;
}

/* And all end well. */
static void come_at_last(struct tt_story *story, struct tt_world_job *job)
{
    tt_world_post(job, 1);
    tt_world_run_job(job, tt_world_now(story->world) + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    tt_story_end(story);
}

/* What rank 0 knows of free slots is what rank 1 has given. */
static void none_is_lost(const struct tt_story *story)
{
    const struct tt_triggers *triggers = story->group->members[0].group->triggers;

    assert_int_not_equal(triggers->targets.count, 0);
    assert_int_equal(triggers->targets.count,
                     __builtin_popcount(story->group->members[1].group->triggers->slots.given));
}

/* Rank 1 has made what goes around the ring, and rank 0 before it has not, while rank 0 sends it something long: with
 * the answers it has slots, which must not be lost. */
static void slots_that_come_before_the_ring_is_known_are_kept(void **state)
{
    struct tt_world_job *gather, *ring;
    struct tt_story story;

    (void)state;
    tt_story_start(&story, RANKS);
    gather = tt_world_job_create(story.group, TT_GATHER, 1, BLOCK_BYTES, TT_METHOD_DIRECT);
    ring = reduce_scatter(&story, BLOCK_BYTES / WORD_BYTES);
    tt_story_time_of(&story, gather);
    tt_world_post_all(gather);
    tt_world_post(ring, 1);
    tt_world_run_job(gather, tt_world_now(story.world) + TT_NS_PER_S);
    assert_null(story.group->members[0].group->triggers->slots.memory);
    none_is_lost(&story);
    tt_story_post_but(ring, 1);
    tt_world_run_job(ring, tt_world_now(story.world) + TT_NS_PER_S);
    tt_story_all_ended(ring, TUTTI_OK, TT_RANK_NONE, 0);
    none_is_lost(&story);
    tt_story_end(&story);
}

static struct tt_trigger_packet packet_of(const struct tt_triggers_put *put)
{
    return (struct tt_trigger_packet){.kind = TT_TRIGGER_REMOTE,
                                      .job = (uint8_t)(put->key >> 40),
                                      .port = put->key >> 5 & (TT_TRIGGER_PORTS - 1),
                                      .source_port = put->key >> 5 & (TT_TRIGGER_PORTS - 1),
                                      .sequence = put->key & (TT_TRIGGER_STEPS - 1),
                                      .length_bytes = TT_TRIGGERS_MESSAGE_BYTES};
}

static void message_that_is_sent_again_stays_in_its_slot(void **state)
{
    struct tt_offload_action again = {.kind = TT_OFFLOAD_SEND, .node = 1};
    const struct tt_offload_actions actions = {.actions = &again, .capacity = 1, .count = 1};
    struct tt_triggers *triggers;
    struct tt_world_job *job;
    struct tt_story story;
    uint64_t immediate = 0;
    uint32_t put, frames, free;

    (void)state;
    job = be_early(&story);
    put = arrivals(&story, "put-data", 1);
    frames = arrivals(&story, "frame", 1);
    triggers = story.group->members[0].group->triggers;
    free = triggers->targets.count;
    for (uint32_t i = 0; i < TT_TRIGGERS_PORTS; i++) { /* of each lane the first step, which needs nothing of rank 1 */
        assert_true(triggers->puts[i].is_unanswered && triggers->puts[i].of == NULL);
        again.packet = packet_of(&triggers->puts[i]);
        assert_true(tt_triggers_slots_hold(triggers, 1, &again.packet, &immediate));
        assert_true(immediate == triggers->puts[i].immediate);
        tt_triggers_carry_out(triggers, &actions);
    }
    tt_world_run(story.world, tt_world_now(story.world) + TT_NS_PER_MS);
    assert_int_equal(arrivals(&story, "put-data", 1), put);
    assert_int_equal(arrivals(&story, "frame", 1), frames + TT_TRIGGERS_PORTS);
    assert_int_equal(triggers->targets.count, free);
    come_at_last(&story, job);
}

/* One more slot of rank 1's is rank 0's, and that does not know. Returns its immediate. */
static uint64_t lend(const struct tt_story *story)
{
    uint8_t reference[TT_TRIGGER_MAX_REFERENCE_BYTES];
    struct tt_trigger_slot slot;
    uint32_t length_bytes = tt_triggers_slots_give(story->group->members[1].group->triggers, 0, reference);

    assert_true(tt_trigger_slot_decode(reference, length_bytes, &slot));
    return slot.immediate;
}

/* What names no slot that was given to its sender and filled is none of a schedule's. */
static void slots_of_nobody_are_not_read(void **state)
{
    enum { PORT = TT_TRIGGERS_PORTS - 1 };
    const struct tt_triggers_slots *slots;
    struct tt_triggers *triggers;
    struct tt_world_job *job;
    struct tt_story story;
    uint64_t filled, empty;

    (void)state;
    job = be_early(&story);
    triggers = story.group->members[1].group->triggers;
    slots = &triggers->slots;
    assert_int_not_equal(slots->landed, 0);
    filled = slots->immediates[__builtin_ctz(slots->landed)];
    empty = lend(&story);
    assert_false(tt_triggers_slots_fetch(triggers, PORT, 0, empty));
    assert_false(tt_triggers_slots_fetch(triggers, PORT, 2, filled));
    assert_false(tt_triggers_slots_fetch(triggers, PORT, 0, filled - TT_TRIGGERS_SLOTS)); /* the loan before */
    assert_false(tt_triggers_slots_fetch(triggers, PORT, 0, tt_party_cookie(&triggers->party, 0)));
    assert_int_equal(slots->of_port[PORT], 0);
    come_at_last(&story, job);
}

/* Raises an immediate at rank 1 with a packet, of which so many bytes come. */
static void raise_with(const struct tt_triggers *triggers, uint64_t immediate, const struct tt_trigger_packet *packet,
                       uint32_t length_bytes)
{
    uint8_t bytes[TT_TRIGGER_PACKET_BYTES + 1] = {0};
    struct tt_party *party = (struct tt_party *)(uintptr_t)&triggers->party;

    tt_trigger_packet_encode(packet, bytes);
    party->ops->immediate(party, immediate, bytes, length_bytes);
}

/* Only the rank that has a slot raises its immediate, once and with a packet that says so: all else changes nothing. */
static void immediates_of_nobody_are_dropped(void **state)
{
    enum { ALL = TT_TRIGGER_PACKET_BYTES };
    struct tt_trigger_packet packet = {.kind = TT_TRIGGER_REMOTE, .job = 77, .length_bytes = TT_TRIGGERS_MESSAGE_BYTES};
    const struct tt_triggers *triggers;
    const struct tt_group *group;
    struct tt_world_job *job;
    struct tt_story story;
    uint64_t filled, empty, drops;
    uint32_t landed;

    (void)state;
    job = be_early(&story);
    group = story.group->members[1].group;
    triggers = group->triggers;
    drops = group->member.drops_frame;
    landed = triggers->slots.landed;
    filled = triggers->slots.immediates[__builtin_ctz(landed)];
    empty = lend(&story);
    raise_with(triggers, filled, &packet, ALL); /* again */
    raise_with(triggers, empty + TT_TRIGGERS_SLOTS, &packet, ALL);
    for (uint32_t length_bytes = 0; length_bytes <= ALL + 1; length_bytes++) {
        if (length_bytes != ALL) {
            raise_with(triggers, empty, &packet, length_bytes);
        }
    }
    packet.node = 2;
    raise_with(triggers, empty, &packet, ALL);
    packet.node = 0;
    packet.kind = TT_TRIGGER_ACCEPTED;
    raise_with(triggers, empty, &packet, ALL);
    assert_int_equal(group->member.drops_frame, drops + 4 + ALL + 1);
    assert_int_equal(triggers->slots.landed, landed);
    come_at_last(&story, job);
}

/* A put of rank 0 whose end has not come, beside those that there are. */
static struct tt_triggers *hold_put(const struct tt_story *story, uint32_t index)
{
    struct tt_triggers *triggers = story->group->members[0].group->triggers;

    assert_true(triggers->first != NULL && triggers->puts[index].of == NULL);
    triggers->puts[index] = (struct tt_triggers_put){.rank = 1, .of = triggers->first};
    triggers->first->putting++;
    return triggers;
}

/* All its packets are answered, and its buffer is still the fabric's. */
static void operation_ends_when_its_puts_have(void **state)
{
    enum { INDEX = TT_TRIGGERS_PUTS - 1 };
    struct tt_triggers *triggers;
    struct tt_world_job *job;
    struct tt_story story;

    (void)state;
    job = be_early(&story);
    triggers = hold_put(&story, INDEX);
    tt_world_post(job, 1);
    tt_world_run(story.world, tt_world_now(story.world) + 50 * TT_NS_PER_MS);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, UINT64_C(1) << 0);
    assert_true(tt_offload_is_settled(triggers->offload));
    assert_non_null(triggers->first);
    triggers->party.ops->done(&triggers->party, TT_TRIGGERS_PORTS + INDEX, TUTTI_OK);
    assert_null(triggers->first);
    tt_world_run_job(job, tt_world_now(story.world) + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    tt_story_end(&story);
}

/* Nobody reads what was not put: else all would wait for it until their deadline. */
static void put_that_ends_badly_fails_its_group(void **state)
{
    enum { INDEX = TT_TRIGGERS_PUTS - 1 };
    struct tt_triggers *triggers;
    struct tt_world_job *job;
    struct tt_story story;

    (void)state;
    job = be_early(&story);
    triggers = hold_put(&story, INDEX);
    triggers->party.ops->done(&triggers->party, TT_TRIGGERS_PORTS + INDEX, TUTTI_ERR_NO_MEMORY);
    tt_world_post(job, 1);
    tt_world_run_job(job, tt_world_now(story.world) + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_ERR_NO_MEMORY, TT_RANK_NONE, 0);
    tt_story_forgive_reads(&story);
    tt_story_end(&story);
}

static void answer_with_slot(const struct tt_story *story, uint32_t from, struct tt_trigger_packet packet)
{
    struct tt_peer *peer = story->group->members[from].group->triggers->peers[0].peer;
    uint8_t reference[TT_TRIGGER_MAX_REFERENCE_BYTES],
        bytes[TT_TRIGGER_FRAME_HEAD_BYTES + TT_TRIGGER_MAX_REFERENCE_BYTES];
    const struct tt_trigger_slot slot = {.immediate = 1, .address = 2, .key = "key", .key_bytes = 3};
    struct tt_trigger_frame frame = {
        .source = from, .group = story->group->members[0].group->triggers->party.key, .packet = packet};

    frame.packet.kind = TT_TRIGGER_ACCEPTED;
    frame.packet.node = from;
    frame.packet.reference_bytes = (uint16_t)tt_trigger_slot_encode(&slot, reference);
    frame.piece = reference;
    frame.piece_bytes = frame.packet.reference_bytes;
    assert_int_equal(tt_p2p_send(peer->connection, bytes, (uint32_t)whole_trigger_frame(&frame, bytes), false),
                     TUTTI_OK);
    tt_world_run(story->world, tt_world_now(story->world) + TT_NS_PER_MS);
}

/* What each rank reads. */
static void must_be_messages(enum tt_method method, uint64_t block_bytes, uint64_t messages)
{
    struct tt_story story;

    tt_story_start(&story, RANKS);
    tt_story_time_of(&story, reduce_scatter_by(&story, block_bytes / WORD_BYTES, method));
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const struct tt_triggers *triggers = story.group->members[rank].group->triggers;

        assert_int_equal(tt_offload_counters(triggers->offload)->read, messages);
    }
    tt_story_end(&story);
}

static void must_be_cut(uint64_t block_bytes, uint64_t messages)
{
    must_be_messages(TT_METHOD_TRIGGERED_RING, block_bytes, (RANKS - 1) * messages);
}

/* A message and all headers around it have 64 KiB at most, but where it would take two for a little more. */
static void long_messages_go_through_a_hosts_stack_at_once(void **state)
{
    enum { KIB = 1024 };

    (void)state;
    must_be_cut(240 * KIB, 4);
    must_be_cut(256 * KIB, 4);
    must_be_cut(256 * KIB + 32, 8);
    must_be_cut(BLOCK_BYTES, 20);
}

/* By halving a rank reads the sums of two blocks, then of one. What is longer is cut, and each block is a message. */
static void runs_of_blocks_are_messages_up_to_the_longest(void **state)
{
    enum { HALF_BYTES = TT_TRIGGERS_MESSAGE_BYTES / 2 };

    (void)state;
    must_be_messages(TT_METHOD_RECURSIVE_HALVING, WORD_BYTES, 2);
    must_be_messages(TT_METHOD_RECURSIVE_HALVING, HALF_BYTES / 2, 2);
    must_be_messages(TT_METHOD_RECURSIVE_HALVING, HALF_BYTES, 2);
    must_be_messages(TT_METHOD_RECURSIVE_HALVING, HALF_BYTES + WORD_BYTES, 2 * 3);
}

/* Of who is not the next one, or behind an answer that nobody waits for. */
static void slots_that_are_no_answers_are_not_taken(void **state)
{
    const struct tt_triggers *triggers;
    struct tt_world_job *job;
    struct tt_story story;
    uint32_t free;

    (void)state;
    job = be_early(&story);
    triggers = story.group->members[0].group->triggers;
    free = triggers->targets.count;
    for (uint32_t from = 1; from < RANKS; from += 2) {
        answer_with_slot(&story, from,
                         (struct tt_trigger_packet){.job = 200, .length_bytes = TT_TRIGGERS_MESSAGE_BYTES});
    }
    assert_int_equal(triggers->targets.count, free);
    assert_int_equal(triggers->targets.rank, 1);
    come_at_last(&story, job);
}

/* Ranks 0, 3, 6 are of one host, 1, 4, 7 of another, 2, 5 of the last one. */
static void a_ring_goes_from_host_to_host(void **state)
{
    enum { EIGHT = 8, HOSTS = 3 };
    static const uint32_t around[EIGHT] = {0, 3, 6, 1, 4, 7, 2, 5};
    struct tt_story story;

    (void)state;
    tt_story_prepare(&story, EIGHT);
    story.options.hosts = HOSTS;
    tt_story_begin(&story, EIGHT);
    tt_story_time_of(&story, reduce_scatter(&story, 1000));
    for (uint32_t i = 0; i < EIGHT; i++) {
        const struct tt_triggers *triggers = story.group->members[around[i]].group->triggers;

        for (uint32_t k = 0; k < EIGHT; k++) {
            bool is_next = k == (i + 1) % EIGHT || (k + 1) % EIGHT == i;

            assert_true((tt_triggers_peer(triggers, around[k]) != NULL) == is_next);
        }
    }
    tt_story_end(&story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_messages_are_sent_in_frames),
        cmocka_unit_test(long_messages_are_announced_first_and_then_put),
        cmocka_unit_test(long_messages_go_through_a_hosts_stack_at_once),
        cmocka_unit_test(runs_of_blocks_are_messages_up_to_the_longest),
        cmocka_unit_test(slots_that_come_before_the_ring_is_known_are_kept),
        cmocka_unit_test(rank_that_dies_while_it_puts_is_named),
        cmocka_unit_test(message_that_is_sent_again_stays_in_its_slot),
        cmocka_unit_test(slots_of_nobody_are_not_read),
        cmocka_unit_test(immediates_of_nobody_are_dropped),
        cmocka_unit_test(slots_that_are_no_answers_are_not_taken),
        cmocka_unit_test(operation_ends_when_its_puts_have),
        cmocka_unit_test(put_that_ends_badly_fails_its_group),
        cmocka_unit_test(a_ring_goes_from_host_to_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
