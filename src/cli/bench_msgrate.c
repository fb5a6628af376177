/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti bench msgrate`: how many RDMA writes a second several threads post, in each category of endpoints or
 * with one object shared x ways (sections IV and V of the paper on scalable endpoints).
 *
 * Normal path: for each row endpoints are made and connected to a passive target on the same device; every thread posts
 * writes of its buffer to its own place at the target, in lists, some signalled, a few to begin with and then until its
 * number or the time is up.
 * Then the target's memory is compared with what was written.
 *
 * Failures: options that contradict each other: exit status 2; see bench_rdma.c for the rest.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cache_line.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"
#include "cli/bench_msgrate.h"
#include "cli/bench_rdma.h"
#include "cli/crew.h"

enum {
    LEAST_DEPTH = 128,
    MOST_DEPTH = 8192, /* of what devices allow */
    SIZE_MOST = 1 << 20,
    INLINE_MOST = 1024,
    TIMED_MESSAGES = 256 /* between two looks at the clock, or somewhat more */
};

enum {
    OPTION_POSTLIST = TT_RDMA_OPTION_COUNT,
    OPTION_UNSIGNALLED,
    OPTION_INLINE,
    OPTION_SIZE,
    OPTION_SHARE,
    OPTION_WAYS,
    OPTION_MESSAGES,
    OPTION_SECONDS,
    OPTION_COUNT
};

static const struct tt_option options[OPTION_COUNT] = {
    TT_RDMA_OPTIONS,
    [OPTION_POSTLIST] = {'p', "postlist", "P", "writes that are posted with one call (32)"},
    [OPTION_UNSIGNALLED] = {'q', "unsignalled", "Q", "of so many writes one is signalled (64)"},
    [OPTION_INLINE] = {'i', "inline", NULL, "the data is in the work request"},
    [OPTION_SIZE] = {'s', "size", "BYTES", "of a write (2)"},
    [OPTION_SHARE] = {0, "share", "OBJECT",
                      "instead of categories: endpoints of one's own, but for buf, ctx,\npd, mr, cq or qp"},
    [OPTION_WAYS] = {0, "ways", "X", "threads that share it (1, 2, 4, ... up to all)"},
    [OPTION_MESSAGES] = {'n', "messages", "N", "writes of each thread, instead of a time"},
    [OPTION_SECONDS] = {0, "seconds", "S", "how long each row takes (1)"},
};

static const struct tt_command_usage usage = {
    .name = "bench msgrate",
    .synopsis = "[OPTION]...",
    .purpose =
        "Measures how many RDMA writes a second threads post over endpoints of each category, beside what these\n"
        "take from the NIC. Both ends are on one device; what is written is compared at the end.",
    .options = options,
    .option_count = OPTION_COUNT,
};

static const char *const share_words[TT_MSGRATE_SHARE_COUNT] = {
    [TT_MSGRATE_SHARE_NOTHING] = "", [TT_MSGRATE_SHARE_BUF] = "buf", [TT_MSGRATE_SHARE_CTX] = "ctx",
    [TT_MSGRATE_SHARE_PD] = "pd",    [TT_MSGRATE_SHARE_MR] = "mr",   [TT_MSGRATE_SHARE_CQ] = "cq",
    [TT_MSGRATE_SHARE_QP] = "qp",
};

/* --- The command line --------------------------------------------------------------------------------------------- */

static bool read_count(const char *option, const char *text, uint64_t most, uint64_t *count)
{
    return tt_arguments_count(usage.name, option, text, 1, most, count);
}

static bool read_share(struct tt_msgrate *rate, const char *text)
{
    for (unsigned i = TT_MSGRATE_SHARE_BUF; i < TT_MSGRATE_SHARE_COUNT; i++) {
        if (strcmp(text, share_words[i]) == 0) {
            rate->share = (enum tt_msgrate_share)i;
            return true;
        }
    }
    tt_usage_error(usage.name, "--share '%s': not one of buf, ctx, pd, mr, cq, qp", text);
    return false;
}

static bool read_option(void *own, int option, const char *text)
{
    struct tt_msgrate *rate = own;

    switch (option) {
    case OPTION_POSTLIST:
        return read_count("--postlist", text, MOST_DEPTH, &rate->postlist);
    case OPTION_UNSIGNALLED:
        return read_count("--unsignalled", text, MOST_DEPTH, &rate->unsignalled);
    case OPTION_INLINE:
        rate->is_inline = true;
        return true;
    case OPTION_SIZE:
        return tt_arguments_size(usage.name, "--size", text, 1, SIZE_MOST, &rate->size_bytes);
    case OPTION_SHARE:
        return read_share(rate, text);
    case OPTION_WAYS:
        return read_count("--ways", text, TT_ENDPOINT_THREADS_MAX, &rate->ways);
    case OPTION_MESSAGES:
        return read_count("--messages", text, UINT32_MAX, &rate->messages);
    default:
        return read_count("--seconds", text, UINT16_MAX, &rate->seconds);
    }
}

static bool check(void *own, const struct tt_rdma_wish *wish)
{
    const struct tt_msgrate *rate = own;
    uint64_t most = rate->postlist > rate->unsignalled ? rate->postlist : rate->unsignalled;
    uint64_t least = rate->postlist < rate->unsignalled ? rate->postlist : rate->unsignalled;

    if (most % least != 0) {
        tt_usage_error(usage.name, "--postlist '%" PRIu64 "', --unsignalled '%" PRIu64 "': one must divide the other",
                       rate->postlist, rate->unsignalled);
    } else if (rate->is_inline && rate->size_bytes > INLINE_MOST) {
        tt_usage_error(usage.name, "--size '%" PRIu64 "': at most %d with --inline", rate->size_bytes, INLINE_MOST);
    } else if (rate->ways != 0 && rate->share == TT_MSGRATE_SHARE_NOTHING) {
        tt_usage_error(usage.name, "--ways '%" PRIu64 "': only with --share", rate->ways);
    } else if (rate->ways != 0 && wish->threads % rate->ways != 0) {
        tt_usage_error(usage.name, "--ways '%" PRIu64 "': does not divide the %" PRIu32 " threads", rate->ways,
                       wish->threads);
    } else if (rate->share != TT_MSGRATE_SHARE_NOTHING && wish->chose_category) {
        tt_usage_error(usage.name, "--share '%s': not with --category", share_words[rate->share]);
    } else if (rate->messages != 0 && rate->seconds != 0) {
        tt_usage_error(usage.name, "--seconds '%" PRIu64 "': not with --messages", rate->seconds);
    } else {
        return true;
    }
    return false;
}

/* --- One row ------------------------------------------------------------------------------------------------------ */

/* What the threads of a row work with. */
struct row {
    const struct tt_msgrate *rate;
    struct tt_traffic *traffic;
    struct tt_traffic_options options;
    char *near, *far;
    size_t stride;           /* of both: buffers have cache lines of their own (section V-A) */
    uint32_t buffer_sharers; /* threads with one buffer */
    uint32_t region_sharers; /* threads with one registration of their own; 0: the registration is the endpoints' */
    uint32_t *keys;          /* of these, by thread / region_sharers */
    uint64_t *messages;      /* by thread */
};

static char *buffer_of(const struct row *row, uint32_t thread)
{
    return row->near + (size_t)(thread / row->buffer_sharers) * row->stride;
}

static tutti_status write_for_a_time(struct tt_traffic_lane *lane, const struct tt_traffic_work *work, uint64_t batch,
                                     uint64_t seconds, uint64_t *messages)
{
    uint64_t end_ns = tt_clock_now_ns() + seconds * TT_NS_PER_S;
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && tt_clock_now_ns() < end_ns) {
        status = tt_traffic_post(lane, work, batch);
        *messages += batch;
    }
    return status;
}

static tutti_status write_all(void *argument, struct tt_crew *crew, uint32_t thread)
{
    struct row *row = argument;
    const struct tt_msgrate *rate = row->rate;
    struct tt_traffic_lane *lane = tt_traffic_lane(row->traffic, thread, 0);
    struct tt_traffic_work work = {.local = buffer_of(row, thread),
                                   .local_key = row->region_sharers > 0 ? row->keys[thread / row->region_sharers]
                                                                        : tt_traffic_local_key(lane),
                                   .remote = row->far + thread * row->stride,
                                   .remote_key = tt_traffic_remote_key(lane),
                                   .bytes = (uint32_t)rate->size_bytes};
    uint32_t unit = row->options.postlist > row->options.unsignalled ? row->options.postlist : row->options.unsignalled;
    tutti_status status = tt_traffic_post(lane, &work, unit);

    if (status == TUTTI_OK) {
        status = tt_traffic_finish(lane);
    }
    if (status == TUTTI_OK) {
        status = tt_crew_begin(crew);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (rate->messages > 0) {
        row->messages[thread] = rate->messages;
        status = tt_traffic_post(lane, &work, rate->messages);
    } else {
        uint64_t batch = (uint64_t)unit * ((TIMED_MESSAGES + unit - 1) / unit);
        status = write_for_a_time(lane, &work, batch, rate->seconds > 0 ? rate->seconds : 1, &row->messages[thread]);
    }
    return status == TUTTI_OK ? tt_traffic_finish(lane) : status;
}

static void fill(struct row *row, uint32_t threads)
{
    memset(row->far, 0, threads * row->stride);
    for (size_t i = 0; i < threads * row->stride; i++) {
        row->near[i] = (char)(1 + i % 251 % 127); /* never what the target had */
    }
}

static uint64_t count_wrong(const struct row *row, uint32_t threads)
{
    uint64_t wrong = 0;

    for (uint32_t thread = 0; thread < threads; thread++) {
        wrong += memcmp(row->far + thread * row->stride, buffer_of(row, thread), row->rate->size_bytes) != 0;
    }
    return wrong;
}

static tutti_status register_buffers(struct row *row, uint32_t threads)
{
    size_t bytes = row->region_sharers * row->stride;
    tutti_status status = TUTTI_OK;

    for (uint32_t i = 0; i < threads && row->region_sharers > 0 && status == TUTTI_OK; i += row->region_sharers) {
        status = tt_traffic_register(row->traffic, i, buffer_of(row, i), bytes, &row->keys[i / row->region_sharers]);
    }
    return status;
}

static tutti_status measure(struct tt_rdma_wish *wish, struct row *row, struct tt_rdma_row *result)
{
    tutti_status status = tt_traffic_create(&row->options, &row->traffic);

    if (status == TUTTI_OK) {
        fill(row, wish->threads);
        status = register_buffers(row, wish->threads);
    }
    if (status == TUTTI_OK) {
        status = tt_crew_run(wish->threads, write_all, row, &result->duration_ns);
    }
    if (status == TUTTI_OK) {
        result->communication_ns = result->duration_ns;
        for (uint32_t thread = 0; thread < wish->threads; thread++) {
            result->messages += row->messages[thread];
        }
        result->wrong = count_wrong(row, wish->threads);
        status = tt_rdma_print(wish, row->rate, &row->options, tt_traffic_made(row->traffic), result);
    }
    tt_traffic_destroy(row->traffic);
    return status;
}

static tutti_status run_row(struct tt_rdma_wish *wish, struct row *row, struct tt_rdma_row *result)
{
    uint64_t unit = row->rate->postlist > row->rate->unsignalled ? row->rate->postlist : row->rate->unsignalled;
    size_t size = row->rate->size_bytes;
    tutti_status status;

    row->stride = tt_whole_lines(size);
    row->near = aligned_alloc(TT_CACHE_LINE_BYTES, wish->threads * row->stride);
    row->far = aligned_alloc(TT_CACHE_LINE_BYTES, wish->threads * row->stride);
    row->keys = calloc(wish->threads, sizeof(*row->keys));
    row->messages = calloc(wish->threads, sizeof(*row->messages));
    row->options.depth = (uint32_t)((LEAST_DEPTH + unit - 1) / unit * unit);
    row->options.postlist = (uint32_t)row->rate->postlist;
    row->options.unsignalled = (uint32_t)row->rate->unsignalled;
    row->options.inline_bytes = row->rate->is_inline ? (uint32_t)size : 0;
    row->options.near = row->region_sharers > 0 ? NULL : row->near;
    row->options.near_bytes = wish->threads * row->stride;
    row->options.far = row->far;
    row->options.far_bytes = wish->threads * row->stride;
    if (row->near == NULL || row->far == NULL || row->keys == NULL || row->messages == NULL) {
        status = tt_error_note(TUTTI_ERR_NO_MEMORY, "no memory for the buffers of %" PRIu32 " threads", wish->threads);
    } else {
        status = measure(wish, row, result);
    }
    free(row->near);
    free(row->far);
    free(row->keys);
    free(row->messages);
    return status;
}

/* --- All rows ----------------------------------------------------------------------------------------------------- */

static tutti_status run_categories(struct tt_rdma_wish *wish, const struct tt_msgrate *rate)
{
    tutti_status status = TUTTI_OK;

    for (unsigned i = wish->first; i <= (unsigned)wish->last && status == TUTTI_OK; i++) {
        enum tt_endpoint_category category = (enum tt_endpoint_category)i;
        struct row row = {.rate = rate, .options = tt_rdma_traffic(wish, category), .buffer_sharers = 1};
        struct tt_rdma_row result = {.is_base = category == TT_ENDPOINT_MPI_EVERYWHERE};
        status = run_row(wish, &row, &result);
    }
    return status;
}

/* Endpoints as in the figures of section V: each thread has all of its own, in a thread domain where there are any;
 * what is shared is so x ways, and what contains it by all, as queue pairs of different contexts have nothing in
 * common. */
static void share(struct row *row, uint32_t threads, uint32_t ways)
{
    struct tt_traffic_options *traffic = &row->options;

    switch (row->rate->share) {
    case TT_MSGRATE_SHARE_BUF:
        traffic->sets = threads;
        traffic->threads = 1;
        row->buffer_sharers = ways;
        break;
    case TT_MSGRATE_SHARE_CTX:
        traffic->sets = threads / ways;
        traffic->threads = ways;
        break;
    case TT_MSGRATE_SHARE_PD:
        traffic->threads_per_domain = ways;
        break;
    case TT_MSGRATE_SHARE_MR:
        row->region_sharers = ways;
        break;
    case TT_MSGRATE_SHARE_CQ:
        traffic->threads_per_completion_queue = ways;
        break;
    default:
        traffic->threads_per_queue_pair = ways;
        traffic->category = ways > 1 ? TT_ENDPOINT_STATIC : traffic->category; /* a thread domain has no locks */
        break;
    }
}

static tutti_status run_shares(struct tt_rdma_wish *wish, const struct tt_msgrate *rate)
{
    uint32_t first = rate->ways > 0 ? (uint32_t)rate->ways : 1, last = rate->ways > 0 ? first : wish->threads;
    tutti_status status = TUTTI_OK;

    for (uint32_t ways = first; ways <= last && status == TUTTI_OK; ways *= 2) {
        char label[TT_CELL_BYTES];
        struct row row = {.rate = rate, .options = tt_rdma_traffic(wish, TT_ENDPOINT_DYNAMIC), .buffer_sharers = 1};
        struct tt_rdma_row result = {
            .label = label, .share = share_words[rate->share], .ways = ways, .is_base = ways == 1};
        if (wish->threads % ways != 0) {
            continue;
        }
        snprintf(label, sizeof(label), "%s %" PRIu32, result.share, ways);
        share(&row, wish->threads, ways);
        status = run_row(wish, &row, &result);
    }
    return status;
}

tutti_status tt_msgrate_run(void *own, struct tt_rdma_wish *wish)
{
    const struct tt_msgrate *rate = own;

    return rate->share == TT_MSGRATE_SHARE_NOTHING ? run_categories(wish, rate) : run_shares(wish, rate);
}

static void print_json(const void *own, struct tt_json *json)
{
    const struct tt_msgrate *rate = own;

    tt_json_count(json, "postlist", rate->postlist);
    tt_json_count(json, "unsignalled", rate->unsignalled);
    tt_json_flag(json, "inline", rate->is_inline);
    tt_json_count(json, "size_bytes", rate->size_bytes);
}

const struct tt_rdma_bench tt_msgrate_bench = {
    .usage = &usage,
    .label = "shared",
    .read_option = read_option,
    .check = check,
    .run = tt_msgrate_run,
    .print_json = print_json,
};

struct tt_msgrate tt_msgrate_defaults(void)
{
    /* With which the paper found the most (section IV). */
    return (struct tt_msgrate){.postlist = 32, .unsignalled = 64, .size_bytes = 2};
}

int tt_bench_msgrate(int argc, char **argv)
{
    struct tt_msgrate rate = tt_msgrate_defaults();

    return tt_rdma_command(&tt_msgrate_bench, &rate, argc, argv);
}
