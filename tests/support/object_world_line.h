/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of an object world's members on which something is late or lost on purpose. */
#ifndef TT_TESTS_SUPPORT_OBJECT_WORLD_LINE_H
#define TT_TESTS_SUPPORT_OBJECT_WORLD_LINE_H

#include "support/object_world.h"

/* From now on all that goes from one member to the other, if they are neighbours, goes over a line. */
void object_world_lay_line(struct object_world *world, uint32_t from, uint32_t to);

/* Starts the puts of this member that are due, and has it called when others are. */
void object_world_start_late_puts(struct object_world *world, uint32_t number);

/* After the engines that used them are gone. */
void object_world_free_lines(struct object_world *world);

#endif
