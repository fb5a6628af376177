/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a group's triggered engine leaves behind when a request has ended, and whom it misses: answers that are held,
 * packets that are not answered, and ranks that are no neighbours in the group, whose connections break or which leave.
 * Links as in support/story.h; an answer is held for 5 ms, a request times out after 1 s.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/log.h"
#include "engine/triggers.h"
#include "support/story.h"

enum { MANY = 20, ROOT = 0, OTHER = 7, SLOW = 19, BYTES = 100 }; /* of 20 ranks, 0 and 7 are no neighbours */

#define HOLD_NS (5 * TT_NS_PER_MS)

static struct tt_world_job *gather(const struct tt_story *story, uint32_t root, uint64_t bytes)
{
    return tt_world_job_create(story->group, TT_GATHER, root, bytes, TT_METHOD_DIRECT);
}

static void run(struct tt_story *story, struct tt_world_job *job)
{
    tt_world_run_job(job, tt_world_now(story->world) + 10 * TT_NS_PER_S);
}

/* --- What is owed ------------------------------------------------------------------------------------------------- */

/* Rank 1 of two has sent to rank 0, and its request has ended. */
static void start_two(struct tt_story *story)
{
    struct tt_world_job *job;

    tt_story_start(story, 2);
    job = gather(story, 0, BYTES);
    tt_world_post_all(job);
    run(story, job);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
}

/* Else nobody would look after these while the application computes. */
static void what_is_not_answered_and_an_answer_that_is_held_are_owed(void **state)
{
    struct tt_story story;

    (void)state;
    start_two(&story);
    assert_int_equal(story.world->engines[0]->parties.owing, 1);
    assert_int_equal(story.world->engines[1]->parties.owing, 1);
    assert_false(tt_triggers_are_settled(story.group->members[0].group->triggers));
    assert_false(tt_triggers_are_settled(story.group->members[1].group->triggers));
    tt_world_run(story.world, tt_world_now(story.world) + HOLD_NS + TT_NS_PER_MS);
    assert_int_equal(story.world->engines[0]->parties.owing, 0);
    assert_int_equal(story.world->engines[1]->parties.owing, 0);
    tt_story_end(&story);
}

static void in_a_group_that_has_failed_no_answer_is_owed(void **state)
{
    struct tt_story story;

    (void)state;
    start_two(&story);
    tt_sim_crash(story.world->sim, 0, tt_world_now(story.world));
    tt_world_run(story.world, tt_world_now(story.world) + 2 * TT_NS_PER_MS);
    assert_int_equal(story.group->members[1].group->member.status, TUTTI_ERR_PEER_FAILED);
    assert_false(tt_triggers_are_settled(story.group->members[1].group->triggers));
    assert_int_equal(story.world->engines[1]->parties.owing, 0);
    tt_story_end(&story);
}

/* Rank 0 gets from rank 1, and 3 ms later from rank 2: each has its answer 5 ms after what it is to. */
static void an_answer_is_held_for_as_long_whatever_others_are_held(void **state)
{
    enum { RANKS = 3, APART_MS = 3 };
    const struct tt_triggers *triggers;
    struct tt_story story;

    (void)state;
    tt_story_start(&story, RANKS);
    for (uint32_t root = 1; root < RANKS; root++) {
        struct tt_world_job *job = tt_world_job_create(story.group, TT_SCATTER, root, BYTES, TT_METHOD_DIRECT);

        tt_world_post_all(job);
        tt_world_run(story.world, story.start_ns + root * APART_MS * TT_NS_PER_MS);
        tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    }
    triggers = story.group->members[0].group->triggers;
    assert_int_equal(triggers->held_count, 1); /* after 6 ms */
    assert_int_equal(triggers->peers[2].held_count, 1);
    tt_world_run(story.world, story.start_ns + APART_MS * TT_NS_PER_MS + HOLD_NS);
    assert_int_equal(triggers->held_count, 1);
    tt_world_run(story.world, story.start_ns + APART_MS * TT_NS_PER_MS + HOLD_NS + TT_NS_PER_MS);
    assert_int_equal(triggers->held_count, 0);
    assert_true(tt_triggers_are_settled(triggers));
    tt_story_end(&story);
}

/* A rank that sends to the same ones again and again, of whom some are answered at any time, has no need to send an
 * answer alone. */
static void answers_go_with_the_packets_of_a_loop(void **state)
{
    enum { RANKS = 8, PARTNERS = 3, LOOPS = 20 };
    struct tt_world_job *job;
    struct tt_story story;

    (void)state;
    tt_story_start(&story, RANKS);
    job = tt_world_job_combine(story.group, TT_ALLREDUCE, 0, 10, TT_WORLD_WORDS, false, TT_METHOD_RECURSIVE_DOUBLING);
    for (uint32_t loop = 0; loop < LOOPS; loop++) {
        tt_world_post_all(job);
        tt_world_run(story.world, story.start_ns + (loop + 1) * TT_NS_PER_MS);
        tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            assert_int_equal(story.group->members[rank].group->triggers->held_count, PARTNERS);
        }
    }
    tt_story_end(&story);
}

/* --- Pulses ------------------------------------------------------------------------------------------------------- */

static void must_read(uint32_t ranks, uint64_t block_bytes, uint64_t packets)
{
    struct tt_world_job *job;
    struct tt_story story;

    tt_story_start(&story, ranks);
    job = tt_world_job_create(story.group, TT_ALLGATHER, 0, block_bytes, TT_METHOD_RECURSIVE_DOUBLING);
    tt_world_post_all(job);
    run(&story, job);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct tt_triggers *triggers = story.group->members[rank].group->triggers;

        assert_int_equal(tt_offload_counters(triggers->offload)->read, packets);
    }
    tt_story_end(&story);
}

/* Blocks of up to 128 KiB in all: what a rank sends in a step is one message. Longer ones are cut, and then each block
 * of a step is one, in each of two pulses. */
static void what_doubles_is_not_cut_as_long_as_half_of_it_is_a_message(void **state)
{
    enum { STEPS = 3, OTHERS = 7 };

    (void)state;
    must_read(8, 1, STEPS);
    must_read(8, 16384, STEPS);
    must_read(8, 16385, 2 * OTHERS);
    must_read(2, 65536, 1);
    must_read(2, 65537, 2);
}

/* --- Slots -------------------------------------------------------------------------------------------------------- */

static const struct tt_p2p_ops *generous;

/* Slots alone are so long. */
static tutti_status refuse_slots(struct tt_p2p *p2p, void *address, size_t length_bytes, struct tt_p2p_memory **memory)
{
    if (length_bytes == (size_t)TT_TRIGGERS_SLOTS * TT_TRIGGERS_MESSAGE_BYTES) {
        return tt_error_note(TUTTI_ERR_NO_MEMORY, "no memory for %zu bytes", length_bytes);
    }
    return generous->memory_register(p2p, address, length_bytes, memory);
}

static void slots_that_cannot_be_had_are_nobodys_error(void **state)
{
    enum { WORDS = 65536 + 8 }; /* no buffer is as long as the slots */
    struct tt_p2p_ops mean;
    struct tt_world_job *job;
    struct tt_story story;
    struct tt_p2p *p2p;

    (void)state;
    tt_story_start(&story, 2);
    job = tt_world_job_combine(story.group, TT_ALLREDUCE, 0, WORDS, TT_WORLD_WORDS, false, TT_METHOD_TRIGGERED_RING);
    p2p = story.world->engines[0]->networks[0]->p2p;
    generous = p2p->ops;
    mean = *p2p->ops;
    mean.memory_register = refuse_slots;
    p2p->ops = &mean;
    tt_clear_error();
    tt_world_post_all(job);
    assert_string_equal(tt_last_error(), "");
    assert_null(story.group->members[0].group->triggers->slots.memory);
    assert_non_null(story.group->members[1].group->triggers->slots.memory);
    run(&story, job);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    p2p->ops = generous;
    tt_story_end(&story);
}

/* --- Keys --------------------------------------------------------------------------------------------------------- */

/* Rank 4 sends to each root on one port again and again, and gets nothing back that an answer could go with. */
static void a_packet_does_not_wait_for_the_answer_to_one_of_an_earlier_collective(void **state)
{
    enum { RANKS = 5, LOOPS = 20 };
    struct tt_world_job *jobs[RANKS - 1];
    struct tt_story story;

    (void)state;
    tt_story_start(&story, RANKS);
    for (uint32_t root = 0; root + 1 < RANKS; root++) {
        jobs[root] = gather(&story, root, BYTES);
    }
    for (uint32_t loop = 0; loop < LOOPS; loop++) {
        uint64_t begun_ns = tt_world_now(story.world);

        for (uint32_t root = 0; root + 1 < RANKS; root++) {
            tt_world_post_all(jobs[root]);
        }
        for (uint32_t root = 0; root + 1 < RANKS; root++) {
            run(&story, jobs[root]);
            tt_story_all_ended(jobs[root], TUTTI_OK, TT_RANK_NONE, 0);
        }
        assert_true(tt_world_now(story.world) - begun_ns < TT_NS_PER_MS);
    }
    tt_story_end(&story);
}

/* --- A group that has failed ---------------------------------------------------------------------------------------
 */

/* All at once, and not all fit into a step in which they are told that the group has failed. */
static void who_is_not_told_yet_that_the_group_has_failed_does_not_end_well(void **state)
{
    enum { JOBS = 64, LONG = 400000, FEW = 16 };
    struct tt_world_job *jobs[JOBS];
    bool was_running[JOBS];
    struct tt_actions *actions;
    struct tt_story story;
    uint32_t capacity;

    (void)state;
    tt_story_prepare(&story, 2);
    story.options.settings.in_flight = JOBS;
    tt_story_begin(&story, 2);
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = gather(&story, 1, LONG);
        tt_world_post_all(jobs[i]);
    }
    tt_world_run(story.world, story.start_ns + TT_NS_PER_MS);
    tt_sim_crash(story.world->sim, 1, tt_world_now(story.world));
    tt_world_run(story.world, tt_world_now(story.world) + TT_NS_PER_MS - 1); /* then rank 0 notices */
    for (uint32_t i = 0; i < JOBS; i++) {
        was_running[i] = jobs[i]->parts[0].is_running;
    }
    assert_true(was_running[JOBS - 1]);
    assert_int_equal(jobs[JOBS - 1]->parts[0].request->collective.state, TT_COLLECTIVE_RECEIVE);
    actions = &story.world->engines[0]->actions;
    capacity = actions->capacity;
    actions->capacity = FEW;
    tt_world_run(story.world, tt_world_now(story.world) + 2 * TT_NS_PER_MS);
    actions->capacity = capacity;
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_false(jobs[i]->parts[0].is_running);
        assert_int_equal(jobs[i]->parts[0].status, was_running[i] ? TUTTI_ERR_PEER_FAILED : TUTTI_OK);
    }
    tt_story_end(&story);
}

/* --- Ranks that are no neighbours --------------------------------------------------------------------------------- */

/* As if a switch in between had lost the connection; both ranks are well. */
static void cut(struct tt_story *story)
{
    struct tt_group *group = story->group->members[ROOT].group;

    tt_network_abandon(group->network, group->triggers->peers[OTHER].peer);
    tt_sim_mark_ready(story->world->sim, ROOT);
}

/* A rank leaves, and ends its connection to the root, as a process that ends does. */
static void leave(struct tt_story *story, uint32_t rank, uint64_t root_context)
{
    struct tt_peer **link = &story->world->engines[rank]->networks[0]->peers, *peer;

    tt_world_leave(story->group, rank);
    while (*link != NULL && (*link)->context_id != root_context) {
        link = &(*link)->next;
    }
    peer = *link;
    if (peer != NULL && peer->connection != NULL && peer->users == 0) {
        *link = peer->next;
        peer->connection->ops->disconnect(peer->connection);
        free(peer);
    }
}

static uint64_t root_context(const struct tt_story *story)
{
    return story->group->members[ROOT].group->directory.contexts[ROOT];
}

/* How many ranks ended with an error; soon, and about one of the two. */
static uint32_t count_failed(struct tt_story *story, const struct tt_world_job *job, uint64_t cut_ns)
{
    uint32_t failed = 0;

    for (uint32_t rank = 0; rank < MANY; rank++) {
        const struct tt_world_part *part = &job->parts[rank];

        assert_false(part->is_running);
        if (part->status != TUTTI_OK) {
            assert_int_equal(part->status, TUTTI_ERR_PEER_FAILED);
            assert_true(part->failed_rank == ROOT || part->failed_rank == OTHER);
            assert_true(tt_story_end_of(story, job, rank) < cut_ns + 10 * TT_NS_PER_MS);
            failed++;
        }
    }
    return failed;
}

/* Sent inline, announced, and announced by both. */
static struct tt_world_job *exchange(const struct tt_story *story, uint32_t number)
{
    enum { LONG = 40000, LONG_WORDS = 16384 };

    if (number == 2) {
        return tt_world_job_combine(story->group, TT_REDUCE_SCATTER, 0, LONG_WORDS, TT_WORLD_WORDS, false,
                                    TT_METHOD_DIRECT);
    }
    return gather(story, ROOT, number == 0 ? BYTES : LONG);
}

/* Before the two have exchanged anything, in the middle, and when all is done. */
static void a_connection_that_breaks_between_ranks_that_are_no_neighbours_fails_the_group(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t failures = 0, times = 0;

        for (uint64_t cut_ns = 1000; cut_ns < TT_NS_PER_S; cut_ns = cut_ns * (i < 2 ? 125 : 103) / 100) {
            struct tt_story story;
            struct tt_world_job *job;

            tt_story_start(&story, MANY);
            job = exchange(&story, i);
            tt_world_post_all(job);
            tt_world_run(story.world, story.start_ns + cut_ns);
            if (!tt_world_is_running(job)) {
                cut_ns = TT_NS_PER_S;
            }
            if (i < 2) {
                cut(&story);
            } else {
                (void)tt_sim_sever(story.world->sim, ROOT, OTHER);
            }
            run(&story, job);
            failures += count_failed(&story, job, cut_ns) > 0;
            times++;
            tt_story_forgive_reads(&story);
            tt_story_end(&story);
        }
        assert_in_range(failures, 5, times - 1);
    }
}

static bool fetches_only_from(const struct tt_triggers *triggers, uint32_t rank)
{
    for (uint32_t port = 0; port < TT_TRIGGERS_PORTS; port++) {
        if ((triggers->fetching >> port & 1) != 0 && triggers->sources[port] != rank) {
            return false;
        }
    }
    return triggers->fetching != 0;
}

/* The last gets of a collective end with the connection, and with them the collective, before it is known to be gone.
 * The root notices by itself. */
static void who_could_not_be_fetched_from_is_missed_though_nothing_is_left_to_do(void **state)
{
    enum { LONG = 400000, SLOW_BITS = 10000000 };
    struct tt_sim_link slow = {.bits_per_second = SLOW_BITS, .latency_ns = 1000};
    const struct tt_group *group;
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    tt_story_start(&story, MANY);
    tt_sim_set_links(story.world->sim, OTHER, slow, slow);
    group = story.group->members[ROOT].group;
    job = gather(&story, ROOT, LONG);
    tt_world_post_all(job);
    while (!fetches_only_from(group->triggers, OTHER)) {
        assert_true(tt_world_step(story.world, story.start_ns + TT_NS_PER_S));
    }
    cut(&story);
    run(&story, job);
    assert_int_equal(group->member.status, TUTTI_ERR_PEER_FAILED);
    assert_int_equal(group->member.noticed_by, ROOT);
    assert_int_equal(group->member.culprit, OTHER);
    tt_story_forgive_reads(&story);
    tt_story_end(&story);
}

/* Rank 7 has done its part and goes, while the root still waits for a slow rank. */
static void a_rank_that_is_no_neighbour_may_leave_when_its_part_is_done(void **state)
{
    enum { LONG = 4000, SLOW_BITS = 1000000 };
    struct tt_sim_link slow = {.bits_per_second = SLOW_BITS, .latency_ns = 1000};
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    tt_story_start(&story, MANY);
    tt_sim_set_links(story.world->sim, SLOW, slow, slow);
    job = gather(&story, ROOT, LONG);
    tt_world_post_all(job);
    while (job->parts[OTHER].is_running || !tt_world_settle(story.group, OTHER)) {
        assert_true(tt_world_step(story.world, story.start_ns + TT_NS_PER_S / 2));
    }
    assert_true(job->parts[ROOT].is_running);
    leave(&story, OTHER, root_context(&story));
    run(&story, job);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    assert_int_equal(story.group->members[ROOT].group->triggers->down_count, 1);
    tt_story_end(&story);
}

/* Each rank leaves as soon as it knows, before others do, who must not take it for the dead one: rank 3 dies when the
 * exchange has begun, rank 11 waits for it, and the root, which is no neighbour of either, for rank 11. */
static void die_and_leave(uint64_t seed)
{
    enum { DEAD = 3 };
    struct tt_story story;
    struct tt_world_job *job;
    uint64_t context;

    tt_story_prepare(&story, MANY);
    story.options.sim.seed = seed;
    story.options.sim.detection_max_ns = 50 * TT_NS_PER_MS;
    tt_story_begin(&story, MANY);
    context = root_context(&story);
    job = tt_world_job_combine(story.group, TT_REDUCE_SCATTER, 0, 10, TT_WORLD_WORDS, false, TT_METHOD_DIRECT);
    tt_world_post_all(job);
    tt_world_run(story.world, story.start_ns + 14 * TT_NS_PER_US);
    tt_sim_crash(story.world->sim, DEAD, tt_world_now(story.world));
    while (tt_world_is_running(job)) {
        assert_true(tt_world_step(story.world, story.start_ns + TT_NS_PER_S / 2));
        for (uint32_t rank = 0; rank < MANY; rank++) {
            const struct tt_world_part *part = &job->parts[rank];

            if (!part->is_running && part->status != TUTTI_OK && !story.group->members[rank].has_left) {
                assert_int_equal(part->status, TUTTI_ERR_PEER_FAILED);
                assert_int_equal(part->failed_rank, DEAD);
                leave(&story, rank, context);
            }
        }
    }
    assert_true(story.group->members[ROOT].has_left);
    tt_story_end(&story);
}

static void a_rank_that_leaves_a_failed_group_is_not_taken_for_the_one_that_failed(void **state)
{
    enum { SEEDS = 30 }; /* rank 11 is the first one to know in some of them */

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        die_and_leave(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_answered_and_an_answer_that_is_held_are_owed),
        cmocka_unit_test(in_a_group_that_has_failed_no_answer_is_owed),
        cmocka_unit_test(an_answer_is_held_for_as_long_whatever_others_are_held),
        cmocka_unit_test(answers_go_with_the_packets_of_a_loop),
        cmocka_unit_test(what_doubles_is_not_cut_as_long_as_half_of_it_is_a_message),
        cmocka_unit_test(slots_that_cannot_be_had_are_nobodys_error),
        cmocka_unit_test(a_packet_does_not_wait_for_the_answer_to_one_of_an_earlier_collective),
        cmocka_unit_test(who_is_not_told_yet_that_the_group_has_failed_does_not_end_well),
        cmocka_unit_test(a_connection_that_breaks_between_ranks_that_are_no_neighbours_fails_the_group),
        cmocka_unit_test(who_could_not_be_fetched_from_is_missed_though_nothing_is_left_to_do),
        cmocka_unit_test(a_rank_that_is_no_neighbour_may_leave_when_its_part_is_done),
        cmocka_unit_test(a_rank_that_leaves_a_failed_group_is_not_taken_for_the_one_that_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
