/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the world share. */
#ifndef TT_TESTS_SUPPORT_WORLD_PRIVATE_H
#define TT_TESTS_SUPPORT_WORLD_PRIVATE_H

#include "engine/triggers.h"
#include "proto/terms.h"
#include "support/world.h"

/* Zeroed; running out ends the process. */
void *tt_world_allocate(size_t count, size_t bytes);

/* Memory at an address that is the same in every run, until the world ends. */
uint8_t *tt_world_take_arena(struct tt_world *world, uint64_t length_bytes);

static inline bool tt_world_node_runs(const struct tt_world *world, uint32_t node)
{
    return !tt_sim_is_crashed(world->sim, node) && !tt_sim_is_stalled(world->sim, node);
}

/* After a node's engine ran: takes groups that have been probed, or gives them up; the time when to look again. */
uint64_t tt_world_look_at_setups(struct tt_world *world, uint32_t node);

/* After a node's engine ran: handles requests that have ended. */
void tt_world_look_at_ends(struct tt_world *world, uint32_t node);

/* The end: promises about the buffers, then the memory. */
void tt_world_check_part(struct tt_world *world, const struct tt_world_job *job, uint32_t rank);
/* What a rank gives at its n-th post, of these terms. */
void tt_world_give(const struct tt_world_job *job, uint32_t rank, uint32_t posts,
                   const struct tt_request_options *terms, uint8_t *target, uint64_t bytes);

/* Floats get values whose result is known: any that the one tree combines, else such that no order rounds anything.
 * Others stay. */
void tt_world_tame(const struct tt_world_job *job, uint32_t rank, const struct tt_request_options *terms,
                   uint8_t *vector, uint64_t bytes);

/* All ranks' vectors combined; the job's, until it is asked for another post's. */
const uint8_t *tt_world_result(struct tt_world_job *job, const struct tt_request_options *terms, uint32_t posts);

/* A request's own memory that others read goes where runs do not differ; and such a request's end. */
void tt_world_move_scratch(struct tt_world *world, struct tt_request *request);
void tt_world_destroy_request(struct tt_world *world, struct tt_request *request);

void tt_world_free_parts(struct tt_world_job *job);
void tt_world_free_group(struct tt_world_group *group);

#endif
