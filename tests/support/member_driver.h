/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A member machine without an engine, for tests and a fuzz target. The engine carries out FREEZE, CANCEL and GET in its
 * own order and mostly at once, and lets no frame in that its sender would not send; here each answer comes when the
 * test wants it, among any frames.
 *
 * Every action is checked: to whom it goes, that it is this run's turn for it, that what it names lies inside of the
 * buffer. What it asks for is owed until the test gives it. What an action does beyond that is the test's (`effect`).
 */
#ifndef TT_TESTS_SUPPORT_MEMBER_DRIVER_H
#define TT_TESTS_SUPPORT_MEMBER_DRIVER_H

#include "proto/member.h"

enum { MEMBER_DRIVER_ANSWERS = 256 };

/* What is known of a collective's run; its `owner`. */
struct member_run {
    bool posted; /* and not finished */
    bool published, frozen, combined, transmitting, sent, canceled, kept;
    uint32_t limit; /* of chunks, as the last TRANSMIT said */
    uint32_t gets;  /* a bit a run that is under way */
    bool finished;  /* with this: */
    tutti_status status;
    uint32_t failed_rank;
};

struct member_driver {
    struct tt_member *member;
    struct tt_actions *actions;
    void (*effect)(void *argument, const struct tt_action *action); /* after the action has been checked */
    void *argument;
    struct tt_member_event answers[MEMBER_DRIVER_ANSWERS];
    uint32_t answer_count;
    bool probing, probed;
};

/* Steps, carries out the actions, and goes on with TICK while there is more. */
void member_driver_step(struct member_driver *driver, struct tt_member_event event, uint64_t now_ns);

/* Posts a collective whose owner is its run. */
void member_driver_post(struct member_driver *driver, struct tt_collective *collective, uint64_t now_ns);

/* Owes an event that no action asked for. */
void member_driver_owe(struct member_driver *driver, struct tt_member_event event);

/* Gives answer number `pick`, a get's with this status. */
void member_driver_answer(struct member_driver *driver, uint32_t pick, tutti_status got, uint64_t now_ns);

#endif
