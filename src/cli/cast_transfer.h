/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ways from the sender's segments to the receivers'. */
#ifndef TT_CLI_CAST_TRANSFER_H
#define TT_CLI_CAST_TRANSFER_H

#include "cli/cast_job.h"
#include "cli/cast_segments.h"
#include "tutti/object.h"

/*
 * Sends all segments, or receives as many, the way that the sender's offer says; returns when that is done, at a
 * receiver when all of them have been released, or when the job has failed, which has been reported. It does not use
 * the segments any more then.
 */
tutti_status tt_cast_send(struct tt_cast_job *job, struct tt_segments *segments);
tutti_status tt_cast_receive(struct tt_cast_job *job, struct tt_segments *segments);

/*
 * The next free segment of a receiver, once what was written has made room, for which it waits as long as the job's
 * collectives may take. Meanwhile the library goes on learning whether the others are there. `objects`: the object
 * group that waits too, or NULL. Errors: TIMED_OUT if nothing was written for that long; that of the group if it has
 * failed, or CANCELED if the object group has, whose error its own functions return.
 */
tutti_status tt_cast_acquire(struct tt_cast_job *job, struct tt_segments *segments, tutti_object_group *objects,
                             struct tt_segment **segment);

/* --- cast_pipeline.c: as objects from block to block --- */

tutti_status tt_cast_pipeline_send(struct tt_cast_job *job, struct tt_segments *segments);
tutti_status tt_cast_pipeline_receive(struct tt_cast_job *job, struct tt_segments *segments);

#endif
