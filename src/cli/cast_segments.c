/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: hands segments of a file from one thread to another, and the buffers back.
 *
 * Normal path: four counters that only grow; a segment's place is its number modulo TT_SEGMENT_COUNT. Towards the end
 * the pages go back to the system one segment after the other, while the network still has the rest.
 *
 * Failures: whoever fails cancels, and both sides then get nothing more. What waits for a file has a limit.
 */
#include "cli/cast_segments.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/thread.h"

tutti_status tt_segments_init(struct tt_segments *segments, uint64_t segment_bytes)
{
    *segments = (struct tt_segments){.segment_bytes = segment_bytes, .first = TT_SEGMENT_COUNT};
    for (uint32_t i = 0; i < TT_SEGMENT_COUNT; i++) {
        segments->segments[i].memory = malloc(TT_SEGMENT_HEAD_BYTES + segment_bytes);
        if (segments->segments[i].memory == NULL) {
            while (i-- > 0) {
                free(segments->segments[i].memory);
            }
            return tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "no memory for %d segments of %" PRIu64 " bytes",
                            TT_SEGMENT_COUNT, segment_bytes);
        }
    }
    pthread_mutex_init(&segments->lock, NULL);
    tt_thread_condition_init(&segments->changed);
    return TUTTI_OK;
}

void tt_segments_fini(struct tt_segments *segments)
{
    for (uint32_t i = 0; i < TT_SEGMENT_COUNT; i++) {
        free(segments->segments[i].memory);
    }
    pthread_cond_destroy(&segments->changed);
    pthread_mutex_destroy(&segments->lock);
}

void tt_segments_limit_first(struct tt_segments *segments, uint64_t count)
{
    assert(count > 0 && count <= TT_SEGMENT_COUNT);
    segments->first = count;
}

uint32_t tt_segment_index(const struct tt_segments *segments, const struct tt_segment *segment)
{
    return (uint32_t)(segment - segments->segments);
}

static struct tt_segment *segment_of(struct tt_segments *segments, uint64_t number)
{
    return &segments->segments[number % TT_SEGMENT_COUNT];
}

/* A counter of one side moves, and the other side may go on. */
static void advance(struct tt_segments *segments, uint64_t *counter, const uint64_t *bound)
{
    pthread_mutex_lock(&segments->lock);
    assert(*counter < *bound);
    (void)bound;
    ++*counter;
    pthread_cond_broadcast(&segments->changed);
    pthread_mutex_unlock(&segments->lock);
}

/* Holds the lock. */
static bool may_acquire(const struct tt_segments *segments)
{
    uint64_t most = segments->taken > 0 ? TT_SEGMENT_COUNT : segments->first;
    return segments->acquired - segments->released < most;
}

static bool all_released(const struct tt_segments *segments)
{
    return segments->released == segments->published;
}

/* Until the condition holds, it is canceled, or the time is over. Holds the lock before and after. */
static void wait_until(struct tt_segments *segments, bool (*holds)(const struct tt_segments *segments),
                       uint64_t wait_ns)
{
    uint64_t now_ns = tt_clock_now_ns();
    bool is_limited = wait_ns < TT_NEVER - now_ns;
    struct timespec until = tt_clock_timespec(is_limited ? now_ns + wait_ns : 0);
    int error = 0;
    while (error == 0 && wait_ns > 0 && !segments->canceled && !holds(segments)) {
        error = is_limited ? pthread_cond_timedwait(&segments->changed, &segments->lock, &until)
                           : pthread_cond_wait(&segments->changed, &segments->lock);
    }
}

struct tt_segment *tt_segments_acquire(struct tt_segments *segments, uint64_t wait_ns)
{
    struct tt_segment *segment = NULL;
    pthread_mutex_lock(&segments->lock);
    wait_until(segments, may_acquire, wait_ns);
    if (!segments->canceled && may_acquire(segments)) {
        segment = segment_of(segments, segments->acquired++);
    }
    pthread_mutex_unlock(&segments->lock);
    return segment;
}

void tt_segments_publish(struct tt_segments *segments)
{
    advance(segments, &segments->published, &segments->acquired);
}

/* Whether there is a segment `distance` after the next one. Holds the lock. */
static enum tt_segment_sight look_for(struct tt_segments *segments, uint32_t distance, bool waits)
{
    assert(distance < TT_SEGMENT_COUNT);
    while (!segments->canceled && segments->published <= segments->taken + distance) {
        if (segments->ended) {
            return TT_SEGMENT_NONE;
        }
        if (!waits) {
            return TT_SEGMENT_NOT_YET;
        }
        pthread_cond_wait(&segments->changed, &segments->lock);
    }
    return segments->canceled ? TT_SEGMENT_NONE : TT_SEGMENT_THERE;
}

struct tt_segment *tt_segments_take(struct tt_segments *segments)
{
    struct tt_segment *segment = NULL;
    pthread_mutex_lock(&segments->lock);
    if (look_for(segments, 0, true) == TT_SEGMENT_THERE) {
        segment = segment_of(segments, segments->taken++);
        pthread_cond_broadcast(&segments->changed); /* the first one that is taken makes room */
    }
    pthread_mutex_unlock(&segments->lock);
    return segment;
}

enum tt_segment_sight tt_segments_peek(struct tt_segments *segments, uint32_t distance, bool waits, uint64_t *bytes)
{
    pthread_mutex_lock(&segments->lock);
    enum tt_segment_sight sight = look_for(segments, distance, waits);
    if (sight == TT_SEGMENT_THERE) {
        *bytes = segment_of(segments, segments->taken + distance)->bytes;
    }
    pthread_mutex_unlock(&segments->lock);
    return sight;
}

/* The pages that lie wholly in it; what is read there from now on is zero. */
static void give_back(const struct tt_segments *segments, const struct tt_segment *segment)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)segment->memory;
    uintptr_t end = (begin + TT_SEGMENT_HEAD_BYTES + segments->segment_bytes) / page * page;
    begin = (begin + page - 1) / page * page;
    if (begin < end) {
        madvise((void *)begin, end - begin, MADV_DONTNEED); /* if not, it stays until fini */
    }
}

/* Once there is enough: the pages of the segment that is released next, and of some that were free before. */
static void give_some_back(struct tt_segments *segments)
{
    enum { AT_ONCE = 2 }; /* whoever releases has more to do */
    pthread_mutex_lock(&segments->lock);
    bool enough = segments->enough;
    uint64_t own = segments->released, first = segments->given_back, end = first;
    if (enough) {
        uint64_t oldest = segments->acquired > TT_SEGMENT_COUNT ? segments->acquired - TT_SEGMENT_COUNT : 0;
        first = first > oldest ? first : oldest; /* the places of older ones are in use again */
        end = own - first < AT_ONCE ? own : first + AT_ONCE;
        segments->given_back = end;
    }
    pthread_mutex_unlock(&segments->lock);
    if (enough) {
        for (uint64_t number = first; number < end; number++) {
            give_back(segments, segment_of(segments, number));
        }
        give_back(segments, segment_of(segments, own));
    }
}

void tt_segments_release(struct tt_segments *segments)
{
    give_some_back(segments);
    advance(segments, &segments->released, &segments->taken);
}

uint64_t tt_segments_wait_released(struct tt_segments *segments, uint64_t wait_ns)
{
    pthread_mutex_lock(&segments->lock);
    wait_until(segments, all_released, wait_ns);
    uint64_t left = segments->published - segments->released;
    pthread_mutex_unlock(&segments->lock);
    return left;
}

static void raise_flag(struct tt_segments *segments, bool *flag)
{
    pthread_mutex_lock(&segments->lock);
    *flag = true;
    pthread_cond_broadcast(&segments->changed);
    pthread_mutex_unlock(&segments->lock);
}

void tt_segments_enough(struct tt_segments *segments)
{
    raise_flag(segments, &segments->enough);
}

void tt_segments_end(struct tt_segments *segments)
{
    tt_segments_enough(segments);
    raise_flag(segments, &segments->ended);
}

void tt_segments_cancel(struct tt_segments *segments)
{
    raise_flag(segments, &segments->canceled);
}

bool tt_segments_canceled(struct tt_segments *segments)
{
    pthread_mutex_lock(&segments->lock);
    bool canceled = segments->canceled;
    pthread_mutex_unlock(&segments->lock);
    return canceled;
}
