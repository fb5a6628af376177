/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings of the triggered engine in a group: short blocks go around in messages that are sent, long ones are announced
 * and read; and a ring goes from host to host, wherever ranks are. Links as in support/story.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/triggers.h"
#include "support/story.h"

enum { WORD_BYTES = 8 };

static struct tt_world_job *reduce_scatter(const struct tt_story *story, uint64_t words)
{
    return tt_world_job_combine(story->group, TT_REDUCE_SCATTER, 0, words, TT_WORLD_WORDS, false,
                                TT_METHOD_TRIGGERED_RING);
}

/* What is read of each rank, of blocks of so many bytes. */
static void must_be_read(uint64_t block_bytes, uint64_t read_bytes)
{
    enum { RANKS = 4 };
    struct tt_story story;

    tt_story_start(&story, RANKS);
    tt_story_time_of(&story, reduce_scatter(&story, block_bytes / WORD_BYTES));
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(story.group->members[rank].group->bytes_served, read_bytes);
    }
    tt_story_end(&story);
}

static void short_blocks_are_sent_and_long_ones_are_read(void **state)
{
    enum { MIB = 1024 * 1024 };

    (void)state;
    must_be_read(WORD_BYTES, 0);
    must_be_read(MIB, 0);
    must_be_read(MIB + WORD_BYTES, 3 * MIB); /* a message of one word is short again */
}

/* Ranks 0, 3, 6 are of one host, 1, 4, 7 of another, 2, 5 of the last one. */
static void a_ring_goes_from_host_to_host(void **state)
{
    enum { RANKS = 8, HOSTS = 3 };
    static const uint32_t around[RANKS] = {0, 3, 6, 1, 4, 7, 2, 5};
    struct tt_story story;

    (void)state;
    tt_story_prepare(&story, RANKS);
    story.options.hosts = HOSTS;
    tt_story_begin(&story, RANKS);
    tt_story_time_of(&story, reduce_scatter(&story, 1000));
    for (uint32_t i = 0; i < RANKS; i++) {
        const struct tt_triggers *triggers = story.group->members[around[i]].group->triggers;

        for (uint32_t k = 0; k < RANKS; k++) {
            bool is_next = k == (i + 1) % RANKS || (k + 1) % RANKS == i;

            assert_true((tt_triggers_peer(triggers, around[k]) != NULL) == is_next);
        }
    }
    tt_story_end(&story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_blocks_are_sent_and_long_ones_are_read),
        cmocka_unit_test(a_ring_goes_from_host_to_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
