/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: moves segments by Broadcasts.
 *
 * Normal path: one persistent request for each buffer, and several Broadcasts in progress everywhere: the next ones'
 * barriers and the last ones' handshakes cost nothing, as the link carries data meanwhile, nor does a repair of which a
 * packet is lost itself, which TCP repeats after 0.2 s. For that receivers have to know sizes before the data: those of
 * the first ones are in the offer, and in front of each segment is the size of the one so many after it.
 * Segments that are not full (the last one, those of a source that pauses) have a request for once.
 *
 * Failures: a failing Broadcast fails the job. Whoever waits for the file while a Broadcast is in progress would hold
 * it up, since it moves only inside the library: so the file is waited for only when nothing else is, and no longer
 * than others wait for this host. A reader of standard output may stop for good.
 */
#include "cli/cast_transfer.h"

#include <assert.h>
#include <string.h>

#include "api/create.h"
#include "base/clock.h"
#include "base/log.h"

/* How often who waits for the file looks whether the others are still there. */
#define LOOK_NS (100 * TT_NS_PER_MS)

_Static_assert((int)TT_SEGMENT_COUNT == 2 * (int)TT_CAST_AHEAD + 2, "announced segments have a place");

/* A Broadcast in progress. */
struct flight {
    tutti_request *request;
    struct tt_segment *segment;
};

struct transfer {
    struct tt_cast_job *job;
    struct tt_segments *segments;
    tutti_request *full[TT_SEGMENT_COUNT]; /* of full segments, by buffer, once it was needed */
    tutti_request *failed;                 /* of one that is not full, where post or wait failed */
    struct flight flights[TT_CAST_AHEAD];
    uint32_t ahead; /* of them are used; the offer says it */
    uint64_t posted, completed;
};

/* The Broadcast with this number, among those in progress. */
static struct flight *flight_of(struct transfer *transfer, uint64_t number)
{
    assert(transfer->ahead > 0 && transfer->ahead <= TT_CAST_AHEAD); /* the offer was checked */
    return &transfer->flights[number % transfer->ahead];
}

static uint8_t *header_of(const struct tt_segment *segment)
{
    return tt_segment_data(segment) - TT_SEGMENT_HEADER_BYTES;
}

static tutti_status init_request(const struct transfer *transfer, const struct tt_segment *segment,
                                 tutti_request **request)
{
    tutti_request_options options = {.struct_size = sizeof(options), .timeout_ns = transfer->job->timeout_ns};
    if (segment->bytes == transfer->segments->segment_bytes) {
        options.algorithm = TUTTI_ALGORITHM_MULTICAST;
    }
    return tutti_broadcast_init(transfer->job->group, TUTTI_IN_PLACE, header_of(segment),
                                TT_SEGMENT_HEADER_BYTES + segment->bytes, 0, &options, request);
}

static tutti_status post(struct transfer *transfer, struct tt_segment *segment)
{
    struct flight *flight = flight_of(transfer, transfer->posted);
    tutti_status status = TUTTI_OK;

    assert(transfer->posted - transfer->completed < transfer->ahead);
    *flight = (struct flight){.segment = segment};
    if (segment->bytes == transfer->segments->segment_bytes) {
        tutti_request **full = &transfer->full[tt_segment_index(transfer->segments, segment)];
        status = *full == NULL ? init_request(transfer, segment, full) : TUTTI_OK;
        flight->request = *full;
    } else {
        status = init_request(transfer, segment, &flight->request);
    }
    if (status == TUTTI_OK) {
        status = tutti_post(flight->request);
    }
    if (status == TUTTI_OK) {
        transfer->posted++;
    } else if (segment->bytes != transfer->segments->segment_bytes) {
        transfer->failed = flight->request; /* given back when the error has been told, which that clears */
    }
    return status;
}

/* Waits for the Broadcast that was posted first. */
static tutti_status wait_for_oldest(struct transfer *transfer, struct tt_segment **segment)
{
    struct flight *flight = flight_of(transfer, transfer->completed++);
    assert(flight->segment != NULL);
    tutti_status status = tutti_wait(flight->request);
    *segment = flight->segment;
    bool is_full = flight->segment->bytes == transfer->segments->segment_bytes;
    if (!is_full && status != TUTTI_OK && transfer->failed == NULL) {
        transfer->failed = flight->request; /* as in post() */
    } else if (!is_full) {
        tutti_finalize(flight->request);
    }
    if (status == TUTTI_OK) {
        tt_cast_progress_add(&transfer->job->progress, flight->segment->bytes);
    }
    return status;
}

/* Ends what is in progress and gives back the requests. */
static tutti_status finish(struct transfer *transfer, const char *what, tutti_status status)
{
    struct tt_segment *segment;
    if (status != TUTTI_OK) {
        tt_cast_fail(transfer->job, what, status, -1);
    }
    while (transfer->completed < transfer->posted) {
        wait_for_oldest(transfer, &segment); /* the group has failed, and this with it */
    }
    for (uint32_t i = 0; i < TT_SEGMENT_COUNT; i++) {
        tutti_finalize(transfer->full[i]);
    }
    tutti_finalize(transfer->failed);
    return status;
}

/* --- The sender --------------------------------------------------------------------------------------------------- */

static tutti_status complete_sent(struct transfer *transfer)
{
    struct tt_segment *segment;
    tutti_status status = wait_for_oldest(transfer, &segment);
    tt_segments_release(transfer->segments);
    return status;
}

static tutti_status send_all(struct transfer *transfer)
{
    tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK) {
        struct tt_segment_header header = {.number = transfer->posted, .later_bytes = TT_CAST_END};
        uint64_t in_progress = transfer->posted - transfer->completed;
        if (in_progress == transfer->ahead || tt_segments_peek(transfer->segments, transfer->ahead, in_progress == 0,
                                                               &header.later_bytes) == TT_SEGMENT_NOT_YET) {
            status = complete_sent(transfer);
            continue;
        }
        struct tt_segment *segment = tt_segments_take(transfer->segments);
        if (segment == NULL) {
            break;
        }
        tt_segment_header_encode(&header, header_of(segment));
        status = post(transfer, segment);
    }
    while (status == TUTTI_OK && transfer->completed < transfer->posted) {
        status = complete_sent(transfer);
    }
    return status;
}

tutti_status tt_cast_send(struct tt_cast_job *job, struct tt_segments *segments)
{
    if (job->offers[0].by == TT_CAST_BY_PIPELINE) {
        return tt_cast_pipeline_send(job, segments);
    }
    struct transfer transfer = {.job = job, .segments = segments, .ahead = job->offers[0].ahead};
    return finish(&transfer, "sending", send_all(&transfer));
}

/* --- A receiver --------------------------------------------------------------------------------------------------- */

static uint64_t deadline_of(const struct tt_cast_job *job)
{
    uint64_t now_ns = tt_clock_now_ns();
    return job->timeout_ns < TT_NEVER - now_ns ? now_ns + job->timeout_ns : TT_NEVER;
}

static tutti_status stalled(const struct tt_cast_job *job)
{
    if (strcmp(job->arguments->path, "-") == 0) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_TIMED_OUT, "nobody takes what is written to standard output");
    }
    return tt_error(TT_PART_CLI, TUTTI_ERR_TIMED_OUT, "%s: what was written does not get to the disk",
                    job->arguments->path);
}

/* Whether it makes sense to wait longer for what is written. If others have given up, it is because of this host where
 * they say so, or where it has waited for most of the time that they have. */
static tutti_status look_around(struct tt_cast_job *job, tutti_object_group *objects, uint64_t deadline_ns)
{
    tt_engine_poke(job->context->engine);
    int rank = objects != NULL ? tutti_object_group_failed_rank(objects) : tutti_group_failed_rank(job->group);
    uint64_t now_ns = tt_clock_now_ns();
    if (rank >= 0 && (uint32_t)rank != job->rank) {
        tutti_status status = objects != NULL ? TUTTI_ERR_CANCELED : tt_api_group_status(job->group->group);
        bool has_waited_long = now_ns >= deadline_ns - job->timeout_ns / 2;
        return status == TUTTI_ERR_PEER_FAILED || !has_waited_long ? status : stalled(job);
    }
    return rank < 0 && now_ns < deadline_ns ? TUTTI_OK : stalled(job);
}

tutti_status tt_cast_acquire(struct tt_cast_job *job, struct tt_segments *segments, tutti_object_group *objects,
                             struct tt_segment **segment)
{
    uint64_t deadline_ns = deadline_of(job);
    tutti_status status = TUTTI_OK;
    struct tt_segment *acquired = NULL;
    while (status == TUTTI_OK && (acquired = tt_segments_acquire(segments, LOOK_NS)) == NULL) {
        status = look_around(job, objects, deadline_ns);
    }
    if (status == TUTTI_OK) {
        *segment = acquired;
    }
    return status;
}

/* Waits until all has been written, for which each segment has the whole time. */
static tutti_status wait_until_written(struct tt_cast_job *job, struct tt_segments *segments)
{
    uint64_t deadline_ns = 0, least = UINT64_MAX, left;
    tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK && (left = tt_segments_wait_released(segments, LOOK_NS)) > 0) {
        deadline_ns = left < least ? deadline_of(job) : deadline_ns;
        least = left;
        status = look_around(job, NULL, deadline_ns);
    }
    return status == TUTTI_OK ? status : tt_cast_fail(job, "writing", status, -1);
}

/* Posts what may be posted; `sizes` are those of the next segments, by number modulo `ahead`. */
static tutti_status post_known(struct transfer *transfer, const uint64_t sizes[TT_CAST_AHEAD])
{
    tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK && transfer->posted - transfer->completed < transfer->ahead) {
        uint64_t bytes = sizes[transfer->posted % transfer->ahead];
        if (bytes == TT_CAST_END) {
            tt_segments_enough(transfer->segments);
            break;
        }
        struct tt_segment *segment = tt_segments_acquire(transfer->segments, 0);
        if (segment == NULL && transfer->posted > transfer->completed) {
            break; /* the disk is behind */
        }
        if (segment == NULL) {
            status = tt_cast_acquire(transfer->job, transfer->segments, NULL, &segment);
        }
        if (status == TUTTI_OK) {
            segment->bytes = bytes;
            status = post(transfer, segment);
        }
    }
    return status;
}

static tutti_status receive_all(struct transfer *transfer)
{
    const struct tt_cast_offer *offer = &transfer->job->offers[0];
    uint64_t sizes[TT_CAST_AHEAD];
    struct tt_segment *segment;

    memcpy(sizes, offer->first_bytes, sizeof(sizes));
    tutti_status status = post_known(transfer, sizes);
    while (status == TUTTI_OK && transfer->completed < transfer->posted) {
        uint64_t number = transfer->completed;
        struct tt_segment_header header;
        status = wait_for_oldest(transfer, &segment);
        if (status == TUTTI_OK) {
            status = tt_segment_header_decode(header_of(segment), number, offer->segment_bytes, &header);
            if (status != TUTTI_OK) {
                return tt_error(TT_PART_CLI, status, "segment %llu is not what was announced",
                                (unsigned long long)number);
            }
            sizes[number % transfer->ahead] = header.later_bytes;
            tt_segments_publish(transfer->segments);
            status = post_known(transfer, sizes);
        }
    }
    return status;
}

tutti_status tt_cast_receive(struct tt_cast_job *job, struct tt_segments *segments)
{
    tutti_status status;
    if (job->offers[0].by == TT_CAST_BY_PIPELINE) {
        status = tt_cast_pipeline_receive(job, segments);
    } else {
        struct transfer transfer = {.job = job, .segments = segments, .ahead = job->offers[0].ahead};
        status = finish(&transfer, "receiving", receive_all(&transfer));
    }
    tt_segments_end(segments);
    return status == TUTTI_OK ? wait_until_written(job, segments) : status;
}
