/* SPDX-License-Identifier: BSD-3-Clause */
/* How tests read the actions of a step: in any order, but where the protocol means one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "machine.h"
#include "pick.h"

static struct tt_collective one, other;

static struct tt_action send(uint32_t to, enum tt_frame_type type)
{
    return (struct tt_action){.type = TT_ACTION_SEND, .to = to, .collective = &one, .body.frame = {.type = type}};
}

static struct tt_action about(enum tt_action_type type, struct tt_collective *collective)
{
    return (struct tt_action){.type = type, .to = TT_RANK_NONE, .collective = collective};
}

static void frames_to_different_ranks_are_read_in_any_order(void **state)
{
    static struct script script;

    (void)state;
    script_init(&script, 0);
    script.list[0] = send(1, TT_FRAME_FINAL);
    script.list[1] = send(2, TT_FRAME_DONE);
    script.list[2] = send(3, TT_FRAME_DONE);
    script.actions.count = 3;
    next_sends(&script, TT_FRAME_DONE, 3);
    next_sends(&script, TT_FRAME_FINAL, 1);
    next_sends(&script, TT_FRAME_DONE, 2);
    no_more(&script);
}

static void what_is_passed_keeps_its_order(void **state)
{
    static struct script script;

    (void)state;
    script_init(&script, 0);
    script.list[0] = send(1, TT_FRAME_FINAL);
    script.list[1] = send(1, TT_FRAME_DONE);
    script.list[2] = about(TT_ACTION_FREEZE, &one);
    script.actions.count = 3;
    next_is(&script, TT_ACTION_FREEZE);
    assert_int_equal(script.list[1].body.frame.type, TT_FRAME_FINAL);
    assert_int_equal(script.list[2].body.frame.type, TT_FRAME_DONE);
}

static bool fits_last(const void *action, const void *wanted)
{
    return ((const struct tt_action *)action)->type == ((const struct tt_action *)wanted)->type &&
           ((const struct tt_action *)action)->to == ((const struct tt_action *)wanted)->to;
}

static bool ordered(const void *first, const void *second)
{
    return actions_are_ordered(first, second);
}

/* Whether a test may read one before the other, whichever comes first. */
static bool may_pass(struct tt_action first, struct tt_action second)
{
    static const struct pick pick = {sizeof(struct tt_action), fits_last, ordered};
    struct tt_action list[2] = {first, second}, back[2] = {second, first};
    bool may = pick_next(&pick, list, 0, 2, &second);

    assert_int_equal(pick_next(&pick, back, 0, 2, &first), may);
    return may;
}

static void what_has_an_order_is_read_in_it(void **state)
{
    struct tt_action abandon = about(TT_ACTION_ABANDON, &one), get = about(TT_ACTION_GET, &one);

    (void)state;
    abandon.to = get.to = 1;
    assert_false(may_pass(about(TT_ACTION_PUBLISH, &one), send(1, TT_FRAME_GATHER)));
    assert_false(may_pass(about(TT_ACTION_KEEP, &one), send(1, TT_FRAME_KEPT)));
    assert_false(may_pass(send(1, TT_FRAME_FINAL), about(TT_ACTION_FINISH, &one)));
    assert_false(may_pass(about(TT_ACTION_FINISH, &one), send(1, TT_FRAME_FINAL)));
    assert_false(may_pass(send(1, TT_FRAME_FAIL), abandon));
    assert_false(may_pass(get, abandon));
    assert_true(may_pass(about(TT_ACTION_FINISH, &other), send(1, TT_FRAME_FINAL)));
    assert_true(may_pass(about(TT_ACTION_PUBLISH, &other), send(1, TT_FRAME_FINAL)));
    assert_true(may_pass(send(2, TT_FRAME_FAIL), abandon));
    assert_true(may_pass(about(TT_ACTION_FREEZE, &one), about(TT_ACTION_TRANSMIT, &one)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_to_different_ranks_are_read_in_any_order),
        cmocka_unit_test(what_is_passed_keeps_its_order),
        cmocka_unit_test(what_has_an_order_is_read_in_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
