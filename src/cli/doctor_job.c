/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: one rank of `tutti doctor --job`, from the group to the verdict.
 *
 * Normal path: the ranks make a group, and tell each other their hosts; the lowest rank of each host measures for it
 * (all ranks do, if there is one host only). The steps are: multicast, in which all call; for each round of disjoint
 * pairs what gets through, one direction after the other; then, for some rounds or all, rate and loss in the same way,
 * and once more for what was slow, one path at a time. Before and after every step all ranks meet in an allgather of 16
 * bytes a rank, which carries the step's results: so small that it gets through where large packets do not. Rank 0 also
 * says there when the time is over.
 *
 * Failures: whoever cannot go on says so in the next meeting, and all end. A rank that does not come to a meeting is
 * named by the library, after MEETING_NS.
 */
#include "cli/doctor_job.h"

#include <arpa/inet.h>
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/doctor_exchange.h"
#include "engine/locality.h"
#include "tutti/tutti.h"

enum { ROUNDS = 4, DOUBTFUL = 16, GIVEN_UP = 3, NO_HOST = UINT16_MAX, SENTENCE_BYTES = 512 };

#define MEETING_NS (10 * TT_NS_PER_S) /* a step takes TT_DOCTOR_STEP_NS at most */

/* What a rank brings to a meeting: results of the step before, or 16 bytes of something longer. */
struct record {
    union {
        struct {
            uint32_t number; /* round trip, or rate */
            uint16_t payload_bytes, sent, lost, overflowed;
        } path;
        uint8_t bytes[12];
    } is;
    uint16_t failed;
    uint16_t late; /* rank 0's word, of enum late */
};
_Static_assert(sizeof(struct record) == 16, "a meeting is to fit a small packet");

/* How much of the time is over. What gets through has half of it, so that some is left for the rates. */
enum late { IN_TIME, HALF_OVER, OVER };

/* What the ranks tell each other first. */
struct greeting {
    uint64_t host;
    uint32_t key; /* rank 0's counts */
    struct tt_paths_host own;
};

struct job {
    const struct tt_doctor_job_options *options;
    const struct tt_settings *settings;
    tutti_context *context;
    tutti_group *group;
    tutti_request *meeting;
    uint32_t rank, size;
    uint64_t begun_ns; /* of the first step */
    bool failed;
    enum late late; /* as rank 0 said at the last meeting */
    struct record own;
    struct record *records;     /* by rank */
    struct greeting *greetings; /* by rank */
    uint32_t self;              /* own index among the hosts; NO_HOST: another rank measures for this host */
    uint32_t sizes[TT_PATHS_SIZE_LIMIT];
    uint32_t size_count;
    struct tt_interface interface;
    struct tt_doctor_socket *socket;
    struct tt_paths paths;
};

static tutti_status report_failure(const struct job *job, const char *what, tutti_status status)
{
    const char *text = tutti_status_text(status);
    const char *sentence = tutti_last_error();
    bool says_it = strncmp(sentence, text, strlen(text)) == 0;
    fprintf(stderr, "tutti doctor: rank %" PRIu32 ": %s%s%s (%s)\n", job->rank, says_it ? "" : text,
            says_it ? "" : ": ", sentence, what);
    return status;
}

/* --- Meetings ----------------------------------------------------------------------------------------------------- */

/* Brings job->own, and has everybody's in job->records afterwards. */
static tutti_status meet(struct job *job)
{
    uint64_t now_ns = tt_clock_now_ns();
    job->own.failed = job->failed ? 1 : 0;
    uint64_t passed_ns = job->begun_ns != 0 ? now_ns - job->begun_ns : 0;
    job->own.late = passed_ns > job->options->limit_ns       ? OVER
                    : passed_ns > job->options->limit_ns / 2 ? HALF_OVER
                                                             : IN_TIME;
    tutti_status status = tutti_post(job->meeting);
    if (status == TUTTI_OK) {
        status = tutti_wait(job->meeting);
    }
    if (status != TUTTI_OK) {
        return report_failure(job, "meeting the other ranks", status);
    }
    memset(&job->own, 0, sizeof(job->own));
    job->late = (enum late)job->records[0].late;
    for (uint32_t rank = 0; rank < job->size; rank++) {
        if (job->records[rank].failed != 0) {
            return TUTTI_ERR_PEER_FAILED; /* which has said why */
        }
    }
    return TUTTI_OK;
}

/* An allgather of any length, in meetings. */
static tutti_status share(struct job *job, const void *send, void *receive, size_t length_bytes)
{
    const size_t part_bytes = sizeof(job->own.is.bytes);
    for (size_t offset = 0; offset < length_bytes; offset += part_bytes) {
        size_t length = length_bytes - offset < part_bytes ? length_bytes - offset : part_bytes;
        memcpy(job->own.is.bytes, (const uint8_t *)send + offset, length);
        tutti_status status = meet(job);
        if (status != TUTTI_OK) {
            return status;
        }
        for (uint32_t rank = 0; rank < job->size; rank++) {
            memcpy((uint8_t *)receive + rank * length_bytes + offset, job->records[rank].is.bytes, length);
        }
    }
    return TUTTI_OK;
}

/* --- Beginning ---------------------------------------------------------------------------------------------------- */

static tutti_status create_group(struct job *job)
{
    tutti_status status = tutti_context_create(NULL, &job->context);
    if (status != TUTTI_OK) {
        return report_failure(job, "creating the context", status);
    }
    status = tutti_group_create_from_environment(job->context, &job->group);
    if (status != TUTTI_OK) {
        return report_failure(job, "creating the group", status);
    }
    job->rank = tutti_group_rank(job->group);
    job->size = tutti_group_size(job->group);
    job->records = calloc(job->size, sizeof(*job->records));
    job->greetings = calloc(job->size, sizeof(*job->greetings));
    job->socket = malloc(sizeof(*job->socket));
    if (job->records == NULL || job->greetings == NULL || job->socket == NULL) {
        status = tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "%" PRIu32 " ranks: out of memory", job->size);
        return report_failure(job, "allocating", status);
    }
    job->socket->fd = -1;
    job->socket->multicast_fd = -1;
    tutti_request_options options = {.struct_size = sizeof(options), .timeout_ns = MEETING_NS};
    status = tutti_allgather_init(job->group, &job->own, job->records, sizeof(job->own), &options, &job->meeting);
    return status == TUTTI_OK ? status : report_failure(job, "preparing the meetings", status);
}

/* The interface that the group uses, which it tells as "name (address)". */
static tutti_status find_interface(struct job *job)
{
    tutti_group_info info = {.struct_size = sizeof(info)};
    char address[INET_ADDRSTRLEN] = "";
    tutti_status status = tutti_group_query(job->group, &info);
    if (status != TUTTI_OK) {
        return status;
    }
    const char *bracket = strchr(info.interface, '(');
    if (bracket == NULL || sscanf(bracket, "(%15[0-9.])", address) != 1) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_NOT_SUPPORTED, "interface %s: has no IPv4 address", info.interface);
    }
    job->paths.group_multicast = info.multicast;
    return tt_interface_find(address, &job->interface);
}

static void fill_greeting(struct job *job, struct greeting *own)
{
    own->host = tt_locality_host();
    if (getrandom(&own->key, sizeof(own->key), 0) != sizeof(own->key)) {
        own->key = (uint32_t)tt_clock_now_ns();
    }
    own->own.rank = job->rank;
    own->own.rank_count = 1;
    own->own.address_be = job->interface.address_be;
    own->own.mtu_bytes = job->interface.mtu;
    snprintf(own->own.interface, sizeof(own->own.interface), "%s", job->interface.name);
    if (gethostname(own->own.name, sizeof(own->own.name)) != 0) {
        snprintf(own->own.name, sizeof(own->own.name), "?");
    }
    own->own.name[sizeof(own->own.name) - 1] = '\0';
}

/* From the greetings: one host a lowest rank, or, on one host, one a rank. */
static tutti_status list_hosts(struct job *job)
{
    struct tt_paths *paths = &job->paths;
    bool one_host = true;
    paths->rank_count = job->size;
    paths->hosts = calloc(job->size, sizeof(*paths->hosts));
    if (paths->hosts == NULL) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "%" PRIu32 " hosts: out of memory", job->size);
    }
    for (uint32_t rank = 1; rank < job->size; rank++) {
        one_host = one_host && job->greetings[rank].host == job->greetings[0].host;
    }
    for (uint32_t rank = 0; rank < job->size; rank++) {
        uint32_t host = 0;
        while (host < paths->host_count &&
               (one_host || job->greetings[paths->hosts[host].rank].host != job->greetings[rank].host)) {
            host++;
        }
        if (host < paths->host_count) {
            paths->hosts[host].rank_count++;
            continue;
        }
        job->self = rank == job->rank ? host : job->self;
        paths->hosts[host] = job->greetings[rank].own;
        tt_line_clean(paths->hosts[host].name);
        paths->host_count++;
    }
    paths->one_host = one_host;
    if (paths->host_count > TT_PATHS_HOST_LIMIT) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_TOO_LARGE, "%" PRIu32 " hosts: at most %d are measured",
                        paths->host_count, TT_PATHS_HOST_LIMIT);
    }
    paths->paths = calloc((size_t)paths->host_count * paths->host_count, sizeof(*paths->paths));
    return paths->paths != NULL
               ? TUTTI_OK
               : tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "%" PRIu32 " hosts: out of memory", paths->host_count);
}

/* A rank that cannot measure still comes to the next meeting, to say so. */
static void note(struct job *job, const char *what, tutti_status status)
{
    if (status != TUTTI_OK && !job->failed) {
        job->failed = true;
        report_failure(job, what, status);
    }
}

static tutti_status prepare(struct job *job)
{
    struct greeting own;
    memset(&own, 0, sizeof(own)); /* padding travels, too */
    tutti_status status = find_interface(job);
    note(job, "finding the group's interface", status);
    if (status == TUTTI_OK) {
        fill_greeting(job, &own);
        note(job, "opening a socket",
             tt_doctor_socket_open(job->socket, job->settings, &job->interface, &own.own.port));
    }
    status = share(job, &own, job->greetings, sizeof(own));
    if (status != TUTTI_OK) {
        return status;
    }
    job->self = NO_HOST;
    note(job, "listing the hosts", list_hosts(job));
    job->socket->key = job->greetings[0].key;
    job->socket->self = (uint16_t)job->self;
    if (!job->failed && job->self != NO_HOST) {
        note(job, "joining a multicast group", tt_doctor_socket_join(job->socket, job->settings));
    }
    job->size_count = tt_paths_sizes(job->paths.hosts, job->paths.host_count, job->sizes);
    return meet(job);
}

/* --- Steps -------------------------------------------------------------------------------------------------------- */

static tutti_status call_all(struct job *job)
{
    enum { MASK_BYTES = TT_PATHS_HOST_LIMIT / 8 };
    struct tt_paths *paths = &job->paths;
    bool heard[TT_PATHS_HOST_LIMIT] = {false};
    uint8_t mask[MASK_BYTES] = {0};
    size_t length_bytes = (paths->host_count + 7) / 8;
    uint8_t *masks = calloc(job->size, length_bytes);
    note(job, "allocating", masks != NULL ? TUTTI_OK : tt_error_note(TUTTI_ERR_NO_MEMORY, "out of memory"));
    job->socket->step++;
    if (job->self != NO_HOST) {
        tt_doctor_call(job->socket, paths->host_count, heard);
    }
    for (uint32_t host = 0; host < paths->host_count; host++) {
        mask[host / 8] |= (uint8_t)(heard[host] ? 1 << host % 8 : 0);
    }
    tutti_status status = meet(job);
    if (status != TUTTI_OK || masks == NULL) {
        free(masks);
        return status;
    }
    status = share(job, mask, masks, length_bytes);
    for (uint32_t to = 0; status == TUTTI_OK && to < paths->host_count; to++) {
        const uint8_t *heard_there = masks + paths->hosts[to].rank * length_bytes;
        for (uint32_t from = 0; from < paths->host_count; from++) {
            struct tt_path *path = tt_paths_at(paths, from, to);
            path->multicast_tried = from != to;
            path->multicast_heard = from != to && (heard_there[from / 8] >> from % 8 & 1) != 0;
        }
    }
    free(masks);
    return status;
}

static struct tt_doctor_partner partner_of(const struct job *job, uint32_t host)
{
    const struct tt_paths_host *other = &job->paths.hosts[host];
    struct tt_doctor_partner partner = {.index = (uint16_t)host};
    partner.address = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = other->address_be, .sin_port = htons(other->port)};
    return partner;
}

/* Who asks in a step: the lower of two first, then the other. */
static bool asks(uint32_t host, uint32_t other, uint32_t turn)
{
    return (host < other) == (turn == 0);
}

/* What this rank does in a step; its results go to job->own. */
static void take_part(struct job *job, uint32_t other, bool measure, bool asking)
{
    struct tt_doctor_partner partner = partner_of(job, other);
    struct tt_path path = {0};
    if (!asking) {
        tt_doctor_serve(job->socket, &partner, job->sizes, job->size_count);
    } else if (measure) {
        uint32_t payload_bytes = tt_paths_at(&job->paths, other, job->self)->payload_bytes;
        tt_doctor_measure(job->socket, &partner, payload_bytes, &path);
        job->own.is.path.number = path.rate_kbit;
        job->own.is.path.sent = (uint16_t)path.sent;
        job->own.is.path.lost = (uint16_t)path.lost;
        job->own.is.path.overflowed = (uint16_t)path.overflowed;
    } else {
        tt_doctor_reach(job->socket, &partner, job->sizes, job->size_count, &path);
        job->own.is.path.number = path.round_trip_ns;
        job->own.is.path.payload_bytes = (uint16_t)path.payload_bytes;
    }
}

/* Notes what `asker` has found. */
static void keep(struct job *job, uint32_t asker, uint32_t other, bool measure)
{
    const struct record *record = &job->records[job->paths.hosts[asker].rank];
    if (measure) {
        struct tt_path *path = tt_paths_at(&job->paths, other, asker);
        path->measured = true;
        path->rate_kbit = record->is.path.number > path->rate_kbit ? record->is.path.number : path->rate_kbit;
        path->sent += record->is.path.sent;
        path->lost += record->is.path.lost;
        path->overflowed += record->is.path.overflowed;
    } else {
        struct tt_path *path = tt_paths_at(&job->paths, asker, other);
        path->tried = true;
        path->round_trip_ns = record->is.path.number;
        path->payload_bytes = record->is.path.payload_bytes;
    }
}

/* With whom a host has a step in this round; host_count: it rests. */
static uint32_t partner_in(const struct job *job, uint32_t round, uint32_t host, bool measure)
{
    uint32_t other = tt_paths_partner(job->paths.host_count, round, host);
    if (other < job->paths.host_count && (measure ? !tt_paths_is_connected(&job->paths, host, other)
                                                  : tt_paths_is_cut_off(&job->paths, host, GIVEN_UP) ||
                                                        tt_paths_is_cut_off(&job->paths, other, GIVEN_UP))) {
        return job->paths.host_count; /* nothing would come, and be waited for */
    }
    return other;
}

static tutti_status run_round(struct job *job, uint32_t round, bool measure)
{
    for (uint32_t turn = 0; turn < 2; turn++) {
        uint32_t host_count = job->paths.host_count;
        job->socket->step++;
        if (job->self != NO_HOST) {
            uint32_t other = partner_in(job, round, job->self, measure);
            if (other < host_count) {
                take_part(job, other, measure, asks(job->self, other, turn));
            }
        }
        tutti_status status = meet(job);
        if (status != TUTTI_OK) {
            return status;
        }
        for (uint32_t host = 0; host < host_count; host++) {
            uint32_t other = partner_in(job, round, host, measure);
            if (other < host_count && asks(host, other, turn)) {
                keep(job, host, other, measure);
            }
        }
    }
    return TUTTI_OK;
}

/* Measures one path while all other hosts are quiet. */
static tutti_status run_alone(struct job *job, const struct tt_paths_pair *pair)
{
    job->socket->step++;
    if (job->self == pair->to || job->self == pair->from) {
        take_part(job, job->self == pair->to ? pair->from : pair->to, true, job->self == pair->to);
    }
    tutti_status status = meet(job);
    if (status == TUTTI_OK) {
        keep(job, pair->to, pair->from, true);
    }
    return status;
}

static tutti_status measure_doubtful(struct job *job)
{
    struct tt_paths_pair pairs[DOUBTFUL];
    uint32_t count = tt_paths_doubtful(&job->paths, pairs, DOUBTFUL);
    tutti_status status = TUTTI_OK;
    for (uint32_t i = 0; i < count && status == TUTTI_OK && job->late < OVER; i++) {
        status = run_alone(job, &pairs[i]);
    }
    return status;
}

static tutti_status measure_all(struct job *job)
{
    uint32_t rounds = tt_paths_round_count(job->paths.host_count);
    uint32_t tried = 0, measured = 0;
    job->begun_ns = tt_clock_now_ns();
    tutti_status status = call_all(job);
    for (; tried < rounds && status == TUTTI_OK && job->late < HALF_OVER; tried++) {
        status = run_round(job, tried, false);
    }
    uint32_t wanted = job->options->pairs || tried < ROUNDS ? tried : ROUNDS;
    for (; measured < wanted && status == TUTTI_OK && job->late < OVER; measured++) {
        status = run_round(job, measured * tried / wanted, true);
    }
    if (status == TUTTI_OK) {
        status = measure_doubtful(job);
    }
    job->paths.stopped = tried < rounds || measured < wanted;
    job->paths.duration_ns = tt_clock_now_ns() - job->begun_ns;
    return status;
}

/* --- The whole ---------------------------------------------------------------------------------------------------- */

static int report(struct job *job)
{
    static struct tt_findings findings;
    if (job->rank != 0) {
        return TT_EXIT_OK;
    }
    tt_doctor_judge_paths(&job->paths, &findings);
    if (job->options->json) {
        tt_doctor_print_paths_json(&job->paths, &findings);
    } else {
        tt_doctor_print_paths(&job->paths, &findings, job->options->pairs);
    }
    return findings.worst == TT_VERDICT_FAIL ? TT_EXIT_FAILED : TT_EXIT_OK;
}

int tt_doctor_job(const struct tt_doctor_job_options *options, const struct tt_settings *settings)
{
    struct job job = {
        .options = options, .settings = settings, .rank = settings->rank == TT_AUTO ? 0 : (uint32_t)settings->rank};
    tutti_status status = create_group(&job);
    if (status == TUTTI_OK) {
        status = prepare(&job);
    }
    if (status == TUTTI_OK) {
        status = measure_all(&job);
    }
    int exit_status = status == TUTTI_OK ? report(&job) : TT_EXIT_FAILED;
    if (job.socket != NULL) {
        tt_doctor_socket_close(job.socket);
    }
    /* After an error that left it in progress the request goes with the process. */
    tutti_finalize(job.meeting);
    tutti_group_destroy(job.group);
    tutti_context_destroy(job.context);
    free(job.socket);
    free(job.records);
    free(job.greetings);
    free(job.paths.hosts);
    free(job.paths.paths);
    return exit_status;
}
