/* SPDX-License-Identifier: BSD-3-Clause */
/* What object_world.c, which runs the world, and object_world_check.c, which watches it, share. */
#ifndef TT_TESTS_SUPPORT_OBJECT_WORLD_PRIVATE_H
#define TT_TESTS_SUPPORT_OBJECT_WORLD_PRIVATE_H

#include "support/object_world.h"

void *object_world_allocate(size_t count, size_t bytes);
void object_world_expect(bool fine, const char *what);
void object_world_note_time(struct object_world *world, uint64_t at_ns);

/* The actions of the member's last step. */
void object_world_carry_out(struct object_world *world, uint32_t number);
void object_world_start_late_puts(struct object_world *world);
void object_world_disconnect(struct object_world_member *member, uint32_t to);
void object_world_leave(struct object_world_member *member);

void object_world_give_memory(struct object_world *world, struct object_world_member *member, uint64_t sequence);
void object_world_take_back(struct object_world *world, uint32_t number, uint64_t sequence, bool is_complete);
void object_world_ask(struct object_world *world, uint32_t number, const struct tt_object_action *action);
void object_world_on_complete(struct object_world *world, uint32_t number, uint64_t sequence);
void object_world_on_fail(struct object_world *world, uint32_t number, tutti_status status, uint32_t about);
void object_world_on_finish(struct object_world *world, uint32_t number, const struct tt_object_action *action);

#endif
