/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: moves segments as objects of an object group, from host to host, without multicast.
 *
 * Normal path: a segment is an object. The sender keeps a few under way; a receiver closes at once and gets all of them
 * in there, into free segments. That the close succeeds says that everybody has everything.
 *
 * Failures: the object group's are the job's. A receiver whose disk is behind makes its neighbours wait, until it has
 * done so for too long.
 */
#include "cli/cast_transfer.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "tutti/object.h"

enum { UNDER_WAY = TT_SEGMENT_COUNT - 2 }; /* the other two are for the file */

struct pipeline {
    struct tt_cast_job *job;
    struct tt_segments *segments;
    tutti_object_group *objects;
    uint32_t under_way;   /* the sender's */
    tutti_status refusal; /* why this receiver takes no more, in its words; or OK */
    char refusal_text[TT_CAST_TEXT_BYTES];
};

/* The object group knows the status only. */
static tutti_status refuse(struct pipeline *pipeline, tutti_status status)
{
    pipeline->refusal = status;
    snprintf(pipeline->refusal_text, sizeof(pipeline->refusal_text), "%s", tt_last_error());
    return status;
}

static tutti_status take_memory(void *argument, uint64_t sequence, uint64_t size_bytes, void **memory)
{
    struct pipeline *pipeline = argument;
    if (size_bytes > pipeline->segments->segment_bytes) {
        return refuse(pipeline, tt_error(TT_PART_CLI, TUTTI_ERR_TOO_LARGE,
                                         "segment %" PRIu64 " has %" PRIu64 " bytes, and may have %" PRIu64, sequence,
                                         size_bytes, pipeline->segments->segment_bytes));
    }
    struct tt_segment *segment;
    tutti_status status = tt_cast_acquire(pipeline->job, pipeline->segments, pipeline->objects, &segment);
    if (status == TUTTI_ERR_CANCELED) {
        return status; /* the object group has failed meanwhile */
    }
    if (status != TUTTI_OK) {
        return refuse(pipeline, status);
    }
    segment->bytes = size_bytes;
    *memory = tt_segment_data(segment);
    return TUTTI_OK;
}

static void publish_received(void *argument, uint64_t sequence, void *memory, uint64_t size_bytes)
{
    struct pipeline *pipeline = argument;
    (void)sequence;
    (void)memory;
    tt_segments_publish(pipeline->segments);
    tt_cast_progress_add(&pipeline->job->progress, size_bytes);
}

static void release_sent(void *argument, uint64_t sequence, void *memory, uint64_t size_bytes)
{
    struct pipeline *pipeline = argument;
    (void)sequence;
    (void)memory;
    pipeline->under_way--;
    tt_segments_release(pipeline->segments);
    tt_cast_progress_add(&pipeline->job->progress, size_bytes);
}

static tutti_status create(struct pipeline *pipeline, bool is_sender)
{
    tutti_object_options options = {.struct_size = sizeof(options),
                                    .registrations = TT_SEGMENT_COUNT,
                                    .timeout_ns = pipeline->job->timeout_ns,
                                    .argument = pipeline,
                                    .incoming = is_sender ? NULL : take_memory,
                                    .completion = is_sender ? release_sent : publish_received};
    return tutti_object_group_create(pipeline->job->group, &options, &pipeline->objects);
}

/* Reports a failure, and frees the object group. */
static tutti_status finish(struct pipeline *pipeline, const char *what, tutti_status status)
{
    if (status != TUTTI_OK) {
        int rank = pipeline->objects != NULL ? tutti_object_group_failed_rank(pipeline->objects) : -1;
        tt_cast_fail(pipeline->job, what, status, rank);
    }
    tutti_object_group_destroy(pipeline->objects);
    return status;
}

static tutti_status send_all(struct pipeline *pipeline)
{
    tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK) {
        uint64_t bytes;
        /* Who waits for the file while something is under way holds that up. */
        if (pipeline->under_way == UNDER_WAY ||
            tt_segments_peek(pipeline->segments, 0, pipeline->under_way == 0, &bytes) == TT_SEGMENT_NOT_YET) {
            uint32_t callbacks = 0;
            status = tutti_object_wait(pipeline->objects, pipeline->job->timeout_ns, &callbacks);
            if (status == TUTTI_OK && callbacks == 0) {
                status = tt_error(TT_PART_CLI, TUTTI_ERR_TIMED_OUT, "no segment has got through");
            }
            continue;
        }
        struct tt_segment *segment = tt_segments_take(pipeline->segments);
        if (segment == NULL) {
            break;
        }
        status = tutti_object_send(pipeline->objects, tt_segment_data(segment), segment->bytes);
        pipeline->under_way++;
    }
    return status;
}

tutti_status tt_cast_pipeline_send(struct tt_cast_job *job, struct tt_segments *segments)
{
    struct pipeline pipeline = {.job = job, .segments = segments};
    tutti_status status = create(&pipeline, true);
    if (status == TUTTI_OK) {
        status = send_all(&pipeline);
    }
    if (status == TUTTI_OK) {
        status = tutti_object_group_close(pipeline.objects);
    }
    return finish(&pipeline, "sending", status);
}

tutti_status tt_cast_pipeline_receive(struct tt_cast_job *job, struct tt_segments *segments)
{
    struct pipeline pipeline = {.job = job, .segments = segments};
    tutti_status status = create(&pipeline, false);
    if (status == TUTTI_OK) {
        status = tutti_object_group_close(pipeline.objects);
    }
    if (pipeline.refusal != TUTTI_OK && status != TUTTI_ERR_PEER_FAILED) {
        status = tt_error_note(pipeline.refusal, "%s", pipeline.refusal_text);
    }
    return finish(&pipeline, "receiving", status);
}
