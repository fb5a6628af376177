/* SPDX-License-Identifier: BSD-3-Clause */
/* The start-up probe of whole groups, whose ranks exchange frames and probes in memory, each after a time of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "probe_world.h"

enum { US = 1000, MOST = 100 };

enum { LETTERS = 16384, FRAME_NS = 10 * US, PROBE_NS = 20 * US };

/* A frame on its way, or a probe. */
struct letter {
    uint64_t at_ns;
    uint32_t from, to;
    bool is_probe;
    struct tt_frame frame;
};

struct group {
    uint32_t size;
    struct world worlds[MOST];
    uint64_t start_ns[MOST];
    bool deaf[MOST][MOST]; /* [who][whom it does not hear] */
    struct letter letters[LETTERS];
    uint32_t letter_count, frame_count, probe_count;
    uint32_t ended[MOST];
    uint64_t ended_ns[MOST];
    bool multicast[MOST];
    uint32_t failed_rank[MOST];
    uint32_t loss_ppm;           /* of probes */
    uint32_t jitter_ms;          /* frames and probes may take up to so much longer */
    uint32_t lost_from, lost_to; /* one probe, the first */
    struct tt_random random;
};

static void group_init(struct group *group, uint32_t size)
{
    assert_true(size <= MOST);
    group->size = size;
    group->letter_count = group->frame_count = group->probe_count = 0;
    group->loss_ppm = 0;
    group->jitter_ms = 0;
    group->lost_from = group->lost_to = TT_RANK_NONE;
    memset(group->deaf, 0, sizeof group->deaf);
    memset(group->ended, 0, sizeof group->ended);
    memset(group->start_ns, 0, sizeof group->start_ns);
    for (uint32_t rank = 0; rank < size; rank++) {
        world_init(&group->worlds[rank], rank, size, true, 1);
    }
}

static struct letter *write_letter(struct group *group, uint64_t at_ns, uint32_t from, uint32_t to)
{
    struct letter *letter = &group->letters[group->letter_count++];

    assert_true(group->letter_count <= LETTERS && to < group->size && to != from);
    letter->at_ns = at_ns + tt_random_below(&group->random, group->jitter_ms + 1U) * MS;
    letter->from = from;
    letter->to = to;
    return letter;
}

static void multicast(struct group *group, uint64_t now_ns, uint32_t rank)
{
    group->probe_count++;
    for (uint32_t other = 0; other < group->size; other++) {
        if (other == rank || group->deaf[other][rank] || tt_random_chance(&group->random, group->loss_ppm)) {
            continue;
        }
        if (group->lost_from == rank && group->lost_to == other) {
            group->lost_from = TT_RANK_NONE;
            continue;
        }
        write_letter(group, now_ns + PROBE_NS, rank, other)->is_probe = true;
    }
}

static void carry_out(struct group *group, uint64_t now_ns, uint32_t rank)
{
    struct script *script = &group->worlds[rank].script;

    assert_true(script->actions.count <= tt_actions_worst(group->size));
    for (uint32_t i = 0; i < script->actions.count; i++) {
        const struct tt_action *action = &script->list[i];
        struct letter *letter;

        switch (action->type) {
        case TT_ACTION_SEND:
            letter = write_letter(group, now_ns + FRAME_NS, rank, action->to);
            letter->is_probe = false;
            letter->frame = action->body.frame;
            group->frame_count++;
            break;
        case TT_ACTION_PROBE:
            multicast(group, now_ns, rank);
            break;
        default:
            assert_int_equal(action->type, TT_ACTION_PROBED);
            group->ended[rank]++;
            group->ended_ns[rank] = now_ns;
            group->multicast[rank] = action->body.probe.multicast;
            group->failed_rank[rank] = action->body.probe.failed_rank;
        }
    }
}

static uint64_t next_time(const struct group *group, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;

    for (uint32_t i = 0; i < group->letter_count; i++) {
        next_ns = group->letters[i].at_ns < next_ns ? group->letters[i].at_ns : next_ns;
    }
    for (uint32_t rank = 0; rank < group->size; rank++) {
        const struct tt_probe *probe = &group->worlds[rank].probe;
        uint64_t due_ns = probe->state == TT_PROBE_IDLE ? group->start_ns[rank] : tt_probe_deadline(probe);

        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    assert_true(next_ns >= now_ns);
    return next_ns;
}

static void deliver(struct group *group, uint64_t now_ns, const struct letter *letter)
{
    struct world *world = &group->worlds[letter->to];

    script_clear(&world->script);
    if (letter->is_probe) {
        atomic_fetch_or(&world->heard[letter->from / 64], UINT64_C(1) << (letter->from % 64));
        tt_probe_tick(&world->probe, now_ns, &world->script.actions);
    } else {
        assert_true(tt_probe_frame(&world->probe, now_ns, &letter->frame, &world->script.actions));
    }
    carry_out(group, now_ns, letter->to);
}

/* Until everybody has ended. Nothing may be under way for ever. */
static void run_group(struct group *group)
{
    for (uint64_t now_ns = next_time(group, 0); now_ns != UINT64_MAX; now_ns = next_time(group, now_ns)) {
        assert_true(now_ns < 10000 * UINT64_C(1000000));
        for (uint32_t i = 0; i < group->letter_count; i++) {
            struct letter letter = group->letters[i];

            if (letter.at_ns == now_ns) {
                group->letters[i--] = group->letters[--group->letter_count];
                deliver(group, now_ns, &letter);
            }
        }
        for (uint32_t rank = 0; rank < group->size; rank++) {
            struct world *world = &group->worlds[rank];

            if (world->probe.state == TT_PROBE_IDLE && group->start_ns[rank] == now_ns) {
                world_start(world, now_ns);
                carry_out(group, now_ns, rank);
            } else if (tt_probe_deadline(&world->probe) <= now_ns) {
                world_tick(world, now_ns);
                carry_out(group, now_ns, rank);
            }
        }
    }
}

static void all_ended(const struct group *group, bool multicast, uint32_t failed_rank)
{
    for (uint32_t rank = 0; rank < group->size; rank++) {
        assert_int_equal(group->ended[rank], 1);
        assert_int_equal(group->multicast[rank], multicast);
        assert_int_equal(group->failed_rank[rank], failed_rank);
    }
}

static uint32_t level_of(uint32_t size, uint32_t rank)
{
    uint32_t level = 0;
    struct tt_gather_place place;

    for (tt_gather_place(size, rank, &place); place.vertex != 0; level++) {
        tt_gather_place(size, place.parent, &place);
    }
    return level;
}

static struct group group;

static const uint32_t sizes[] = {1, 2, 3, 8, 16, 17, 18, 64, 100};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* When the last rank's first probe comes: each waits for that of TT_PROBE_AT_ONCE ranks below. */
static uint64_t last_probe_ns(uint32_t size)
{
    return ((size - 1) / TT_PROBE_AT_ONCE + 1) * PROBE_NS;
}

static void where_nothing_is_slow_a_frame_goes_up_and_one_down_for_each_rank(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SIZES; i++) {
        uint32_t size = sizes[i], levels = 0;

        group_init(&group, size);
        run_group(&group);
        all_ended(&group, true, TT_RANK_NONE);
        assert_int_equal(group.frame_count, 2 * (size - 1));
        assert_int_equal(group.probe_count, size);
        for (uint32_t rank = 0; rank < size; rank++) {
            levels = level_of(size, rank) > levels ? level_of(size, rank) : levels;
        }
        for (uint32_t rank = 0; rank < size && size > 1; rank++) {
            assert_int_equal(group.ended_ns[rank], last_probe_ns(size) + (levels + level_of(size, rank)) * FRAME_NS);
        }
    }
}

static void a_lost_probe_is_heard_when_it_is_repeated(void **state)
{
    (void)state;
    for (uint32_t i = 1; i < SIZES; i++) {
        uint32_t size = sizes[i];

        group_init(&group, size);
        group.lost_from = size - 1;
        group.lost_to = 0;
        run_group(&group);
        all_ended(&group, true, TT_RANK_NONE);
        assert_int_equal(group.ended_ns[0], 5 * MS + last_probe_ns(size));
        assert_int_equal(group.frame_count, 2 * (size - 1)); /* nobody but the root waits: all others have voted */
        assert_int_equal(group.probe_count, 2 * size);
    }
}

static void a_rank_that_starts_two_seconds_late_is_waited_for(void **state)
{
    static const uint64_t LATE_NS = 2000 * (uint64_t)MS;

    (void)state;
    for (uint32_t i = 1; i < SIZES; i++) {
        for (uint32_t late = 0; late < sizes[i]; late += sizes[i] - 1) {
            group_init(&group, sizes[i]);
            group.start_ns[late] = LATE_NS;
            run_group(&group);
            all_ended(&group, true, TT_RANK_NONE);
            for (uint32_t rank = 0; rank < sizes[i]; rank++) { /* it hears the others' next probes, 40 ms apart */
                assert_in_range(group.ended_ns[rank], LATE_NS + PROBE_NS, LATE_NS + 41 * MS);
            }
            assert_true(group.frame_count <= 4 * (sizes[i] - 1));
        }
    }
}

static void a_rank_that_nobody_hears_is_named_by_all(void **state)
{
    (void)state;
    for (uint32_t i = 1; i < SIZES; i++) {
        for (uint32_t mute = 0; mute < sizes[i]; mute += sizes[i] - 1) {
            uint32_t size = sizes[i];

            group_init(&group, size);
            for (uint32_t rank = 0; rank < size; rank++) {
                group.deaf[rank][mute] = rank != mute;
            }
            run_group(&group);
            all_ended(&group, false, mute);
            for (uint32_t rank = 0; rank < size; rank++) {
                /* Those whose first probe waits for its probe begin 5 ms later. */
                assert_in_range(group.ended_ns[rank], TIMEOUT_NS,
                                TIMEOUT_NS + (size <= TT_PROBE_AT_ONCE ? 6 : 11) * MS);
            }
            assert_true(group.frame_count <= 4 * (size - 1));
        }
    }
}

/* The parent of a rank that votes no at its own time-out passes on what that one found. */
static void a_rank_that_alone_does_not_hear_another_makes_it_no_for_all(void **state)
{
    (void)state;
    for (uint32_t i = 2; i < SIZES; i++) {
        group_init(&group, sizes[i]);
        group.deaf[sizes[i] - 1][1] = true;
        run_group(&group);
        all_ended(&group, false, 1);
        assert_true(group.frame_count <= 4 * (sizes[i] - 1));
    }
}

static void all_ranks_learn_the_same_answer_and_it_is_right(void **state)
{
    (void)state;
    tt_random_init(&group.random, 77);
    for (uint32_t run = 0; run < 160; run++) {
        uint32_t size = run % 8 == 7 ? sizes[SIZES - 1 - run / 8 % 4] : 1 + run % 20;
        uint32_t deaf = run % 4 == 0 ? 0 : (uint32_t)tt_random_below(&group.random, 3);
        bool unheard[MOST] = {0}, fine = true;

        group_init(&group, size);
        group.loss_ppm = 300000;
        group.jitter_ms = 20;
        for (uint32_t i = 0; i < deaf && size > 1; i++) {
            uint32_t who = (uint32_t)tt_random_below(&group.random, size);
            uint32_t whom = (who + 1 + (uint32_t)tt_random_below(&group.random, size - 1)) % size;

            group.deaf[who][whom] = true;
            unheard[whom] = true;
            fine = false;
        }
        for (uint32_t rank = 0; rank < size; rank++) {
            group.start_ns[rank] = tt_random_below(&group.random, 500) * MS;
        }
        run_group(&group);
        all_ended(&group, fine, group.failed_rank[0]);
        assert_true(fine ? group.failed_rank[0] == TT_RANK_NONE : unheard[group.failed_rank[0]]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_nothing_is_slow_a_frame_goes_up_and_one_down_for_each_rank),
        cmocka_unit_test(a_lost_probe_is_heard_when_it_is_repeated),
        cmocka_unit_test(a_rank_that_starts_two_seconds_late_is_waited_for),
        cmocka_unit_test(a_rank_that_nobody_hears_is_named_by_all),
        cmocka_unit_test(a_rank_that_alone_does_not_hear_another_makes_it_no_for_all),
        cmocka_unit_test(all_ranks_learn_the_same_answer_and_it_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
