/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The actions of a step, read as a set: what a test names next may stand behind actions that it has not read yet,
 * unless one of these has to be carried out before it. So a test says all that is asked for, and only the order that
 * counts.
 */
#ifndef TT_TEST_PICK_H
#define TT_TEST_PICK_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct pick {
    size_t action_bytes;
    bool (*fits)(const void *action, const void *wanted);
    bool (*ordered)(const void *one, const void *other); /* which of them comes first counts */
};

/* Moves the first action that fits to place `at` of `count`; those that it passes keep their order. False: there is
 * none, or it may not pass one of them. */
static inline bool pick_next(const struct pick *pick, void *list, uint32_t at, uint32_t count, const void *wanted)
{
    uint8_t *first = (uint8_t *)list + at * pick->action_bytes, *end = (uint8_t *)list + count * pick->action_bytes;
    uint8_t found[512];

    assert(pick->action_bytes <= sizeof found);
    for (uint8_t *action = first; action < end; action += pick->action_bytes) {
        if (!pick->fits(action, wanted)) {
            continue;
        }
        for (const uint8_t *passed = first; passed < action; passed += pick->action_bytes) {
            if (pick->ordered(passed, action)) {
                return false;
            }
        }
        memcpy(found, action, pick->action_bytes);
        memmove(first + pick->action_bytes, first, (size_t)(action - first));
        memcpy(first, found, pick->action_bytes);
        return true;
    }
    return false;
}

#endif
