/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rounds in either order: which goes when, whom a rank waits for, and that nobody is through before everybody has
 * begun, whatever the order in which frames come.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "proto/rounds.h"

enum { MOST = 40, FRAMES = MOST * TT_DISSEMINATION_MAX_ROUNDS };

struct frame {
    uint32_t to, round;
};

static struct {
    uint32_t size, frame_count;
    bool has_begun[MOST];
    struct tt_rounds rounds[MOST];
    struct frame frames[FRAMES]; /* under way */
} group;

static void advance(uint32_t rank)
{
    uint32_t round;

    while (group.has_begun[rank] && tt_rounds_next(&group.rounds[rank], group.size, &round)) {
        group.frames[group.frame_count++] =
            (struct frame){.to = tt_dissemination_to(rank, group.size, round), .round = round};
        assert_true(tt_rounds_is_from(group.frames[group.frame_count - 1].to, group.size, round, rank));
    }
    tt_rounds_check(&group.rounds[rank], group.size);
}

/* Frames come one after the other, in any order, until there are none. */
static void deliver(struct tt_random *random)
{
    while (group.frame_count > 0) {
        uint32_t pick = (uint32_t)tt_random_below(random, group.frame_count);
        struct frame frame = group.frames[pick];

        group.frames[pick] = group.frames[--group.frame_count];
        assert_false(tt_rounds_has(&group.rounds[frame.to], frame.round));
        tt_rounds_hear(&group.rounds[frame.to], frame.round);
        advance(frame.to);
    }
}

static uint32_t count_over(void)
{
    uint32_t over = 0;

    for (uint32_t rank = 0; rank < group.size; rank++) {
        over += group.has_begun[rank] && tt_rounds_are_over(&group.rounds[rank], group.size);
    }
    return over;
}

static void run(uint32_t size, uint32_t late, bool far_first, struct tt_random *random)
{
    group.size = size;
    group.frame_count = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        group.rounds[rank] = (struct tt_rounds){.far_first = far_first};
        group.has_begun[rank] = rank != late;
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        advance(rank);
    }
    deliver(random);
    assert_int_equal(count_over(), 0);
    group.has_begun[late] = true;
    advance(late);
    deliver(random);
    assert_int_equal(count_over(), size);
    for (uint32_t rank = 0; rank < size; rank++) {
        assert_int_equal(tt_rounds_wait_for(&group.rounds[rank], rank, size), TT_RANK_NONE);
    }
}

static void nobody_is_through_before_everybody_has_begun(void **state)
{
    struct tt_random random;

    (void)state;
    tt_random_init(&random, 7);
    for (uint32_t size = 1; size <= MOST; size++) {
        for (uint32_t late = 0; late < size; late++) {
            run(size, late, false, &random);
            run(size, late, true, &random);
        }
    }
}

static void the_farthest_rank_may_be_the_first(void **state)
{
    struct tt_rounds rounds = {.far_first = true};
    uint32_t round;

    (void)state;
    assert_true(tt_rounds_next(&rounds, 8, &round));
    assert_int_equal(round, 2);
    assert_false(tt_rounds_next(&rounds, 8, &round));
    assert_int_equal(tt_rounds_wait_for(&rounds, 3, 8), 7);
    tt_rounds_hear(&rounds, 0); /* early */
    assert_false(tt_rounds_next(&rounds, 8, &round));
    tt_rounds_hear(&rounds, 2);
    assert_true(tt_rounds_next(&rounds, 8, &round));
    assert_int_equal(round, 1);
    assert_int_equal(tt_rounds_wait_for(&rounds, 3, 8), 1);
    tt_rounds_hear(&rounds, 1);
    assert_false(tt_rounds_are_over(&rounds, 8));
    assert_true(tt_rounds_next(&rounds, 8, &round));
    assert_int_equal(round, 0);
    assert_true(tt_rounds_are_over(&rounds, 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_through_before_everybody_has_begun),
        cmocka_unit_test(the_farthest_rank_may_be_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
