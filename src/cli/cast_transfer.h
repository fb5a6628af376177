/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ways from the sender's segments to the receivers'. */
#ifndef TT_CLI_CAST_TRANSFER_H
#define TT_CLI_CAST_TRANSFER_H

#include "cli/cast_job.h"
#include "cli/cast_segments.h"

/*
 * Sends all segments, or receives as many, the way that the sender's offer says; returns when that is done, or when the
 * job has failed, which has been reported. Nothing uses the segments any more then.
 */
tutti_status tt_cast_send(struct tt_cast_job *job, struct tt_segments *segments);
tutti_status tt_cast_receive(struct tt_cast_job *job, struct tt_segments *segments);

/* --- cast_pipeline.c: as objects from block to block --- */

tutti_status tt_cast_pipeline_send(struct tt_cast_job *job, struct tt_segments *segments);
tutti_status tt_cast_pipeline_receive(struct tt_cast_job *job, struct tt_segments *segments);

#endif
