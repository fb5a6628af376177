/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames that name a rank which did not send them, of a group, of an object group and of a triggered engine: dropped
 * and counted, whatever they say, and whether the receiver has connected to their sender or not. Links as in
 * support/story.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/relay.h"
#include "engine/triggers.h"
#include "support/story.h"
#include "support/whole_frame.h"
#include "wire/trigger_frame.h"

enum { RANKS = 4, SENDER = 1, NAMED = 2, BLAMED = 3, COOKIE = 77 };

static struct tt_group *group_of(const struct tt_story *story, uint32_t rank)
{
    return story->group->members[rank].group;
}

static struct tt_p2p_peer *unknown; /* a connection from SENDER to rank 0, who has not made its end; NULL: none */

/* From SENDER to rank 0. */
static void send_bytes(struct tt_story *story, const uint8_t *bytes, size_t length_bytes)
{
    struct tt_p2p_peer *connection = unknown != NULL ? unknown : group_of(story, SENDER)->peers[0]->connection;

    assert_true(length_bytes > 0);
    assert_int_equal(tt_p2p_send(connection, bytes, (uint32_t)length_bytes, false), TUTTI_OK);
    tt_world_run(story->world, tt_world_now(story->world) + TT_NS_PER_MS);
}

/* Word that the group has failed, from the rank that it names. */
static void send_failure(struct tt_story *story, uint32_t source)
{
    struct tt_frame frame = {.type = TT_FRAME_FAIL, .source = source, .group = group_of(story, 0)->party.key};
    uint8_t bytes[TT_FRAME_MAX_BYTES];

    frame.body.fail.status = TUTTI_ERR_PEER_FAILED;
    frame.body.fail.rank = BLAMED;
    send_bytes(story, bytes, tt_frame_encode(&frame, bytes, sizeof bytes));
}

static void send_object_failure(struct tt_story *story, uint32_t source)
{
    struct tt_object_frame frame = {
        .type = TT_OBJECT_FRAME_FAIL, .source = source, .group = group_of(story, 0)->relays->objects->party.key};
    uint8_t bytes[TT_OBJECT_FRAME_MAX_BYTES];

    frame.body.fail.status = TUTTI_ERR_PEER_FAILED;
    frame.body.fail.member = BLAMED;
    send_bytes(story, bytes, tt_object_frame_encode(&frame, bytes, sizeof bytes));
}

/* So that its frames come without a cookie. */
static void connect_unknown(struct tt_story *story)
{
    const struct tt_network *to = group_of(story, 0)->network;
    struct tt_p2p *from = group_of(story, SENDER)->network->p2p;

    assert_int_equal(from->ops->connect(from, to->address, to->address_bytes, COOKIE, &unknown), TUTTI_OK);
}

static void disconnect_unknown(void)
{
    unknown->ops->disconnect(unknown);
    unknown = NULL;
}

/* A message of a triggered collective, for a port where nothing waits for it. */
static void send_packet(struct tt_story *story, const struct tt_triggers *triggers, uint32_t source)
{
    struct tt_trigger_frame frame = {.source = source,
                                     .group = triggers->party.key,
                                     .packet = {.kind = TT_TRIGGER_DATA, .node = source, .length_bytes = 8},
                                     .piece_bytes = 8,
                                     .piece = "8 bytes"};
    uint8_t bytes[TT_TRIGGER_FRAME_HEAD_BYTES + 8];

    send_bytes(story, bytes, whole_trigger_frame(&frame, bytes));
}

static uint64_t drops_of(const struct tt_group *group)
{
    struct tutti_counters counters = {.struct_size = sizeof counters};

    tt_group_read_counters(group, &counters);
    return counters.drops_frame;
}

static void a_groups_frame_that_names_another_rank_is_dropped(void **state)
{
    struct tt_story story;

    (void)state;
    tt_story_prepare(&story, RANKS);
    tt_story_begin(&story, RANKS);
    send_failure(&story, NAMED);
    send_failure(&story, RANKS); /* which does not exist */
    assert_int_equal(group_of(&story, 0)->member.status, TUTTI_OK);
    assert_int_equal(drops_of(group_of(&story, 0)), 2);
    send_failure(&story, SENDER);
    assert_int_equal(group_of(&story, 0)->member.status, TUTTI_ERR_PEER_FAILED);
    assert_int_equal(group_of(&story, 0)->member.failed_rank, BLAMED);
    assert_int_equal(drops_of(group_of(&story, 0)), 2);
    tt_story_end(&story);
}

/* Its members are numbered from the root on, which is rank 1 here. */
static void an_object_groups_frame_that_names_another_member_is_dropped(void **state)
{
    enum { ROOT = 1, BYTES = 5000 };
    struct tt_world_job *job;
    struct tt_story story;

    (void)state;
    tt_story_prepare(&story, RANKS);
    tt_story_begin(&story, RANKS);
    job = tt_world_job_create(story.group, TT_BROADCAST, ROOT, BYTES, TT_METHOD_RING);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        job->parts[rank].terms.method = TT_METHOD_BINOMIAL_PIPELINE;
    }
    tt_world_post_all(job);
    tt_world_run_job(job, story.start_ns + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    send_object_failure(&story, SENDER); /* as if a member were a rank */
    send_object_failure(&story, RANKS);
    assert_int_equal(group_of(&story, 0)->relays->objects->machine.status, TUTTI_OK);
    assert_int_equal(drops_of(group_of(&story, 0)), 2);
    send_object_failure(&story, 0);
    assert_int_equal(group_of(&story, 0)->relays->objects->machine.status, TUTTI_ERR_PEER_FAILED);
    assert_int_equal(drops_of(group_of(&story, 0)), 2);
    tt_story_end(&story);
}

/* By a connection that this rank has not made, or has given up: as other ranks begin theirs. */
static void a_frame_by_a_connection_of_nobodys_is_taken_of_its_sender_only(void **state)
{
    struct tt_story story;

    (void)state;
    tt_story_prepare(&story, RANKS);
    tt_story_begin(&story, RANKS);
    connect_unknown(&story);
    send_failure(&story, NAMED);
    send_failure(&story, 0); /* who receives it */
    send_failure(&story, RANKS);
    assert_int_equal(group_of(&story, 0)->member.status, TUTTI_OK);
    assert_int_equal(drops_of(group_of(&story, 0)), 3);
    send_failure(&story, SENDER);
    assert_int_equal(group_of(&story, 0)->member.status, TUTTI_ERR_PEER_FAILED);
    assert_int_equal(group_of(&story, 0)->member.failed_rank, BLAMED);
    assert_int_equal(drops_of(group_of(&story, 0)), 3);
    disconnect_unknown();
    tt_story_end(&story);
}

static void a_triggered_engines_frame_that_names_another_rank_is_dropped(void **state)
{
    struct tt_triggers *triggers = NULL;
    struct tt_story story;

    (void)state;
    tt_story_prepare(&story, RANKS);
    tt_story_begin(&story, RANKS);
    assert_int_equal(tt_triggers_find(group_of(&story, 0), &triggers), TUTTI_OK);
    for (int is_unknown = 0; is_unknown <= 1; is_unknown++) {
        uint64_t before = group_of(&story, 0)->drops_sender;
        if (is_unknown != 0) {
            connect_unknown(&story);
        }
        send_packet(&story, triggers, NAMED);
        send_packet(&story, triggers, RANKS);
        assert_int_equal(group_of(&story, 0)->drops_sender, before + 2);
        send_packet(&story, triggers, SENDER);
        assert_int_equal(group_of(&story, 0)->drops_sender, before + 2);
    }
    disconnect_unknown();
    tt_story_end(&story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_groups_frame_that_names_another_rank_is_dropped),
        cmocka_unit_test(an_object_groups_frame_that_names_another_member_is_dropped),
        cmocka_unit_test(a_frame_by_a_connection_of_nobodys_is_taken_of_its_sender_only),
        cmocka_unit_test(a_triggered_engines_frame_that_names_another_rank_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
