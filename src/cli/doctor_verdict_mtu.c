/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: which hosts and pairs of a job do not get packets through that are as long as their interfaces' MTU.
 *
 * Normal path: an interface with another MTU than most is named. Then it is looked at each way for itself, since a
 * filter or a switch port may let long packets through one way only: a host is named if all that is sent to it, or all
 * that it sends, falls short, else a pair is; what falls short everywhere is one finding. Where the two ways differ the
 * smaller figure is said, with the way.
 *
 * Failures: none here.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/least.h"
#include "cli/doctor_verdict.h"

/* The MTU that most hosts' interfaces have. */
static uint32_t usual_mtu(const struct tt_paths *paths, uint32_t *having)
{
    uint32_t usual = 0;
    *having = 0;
    for (uint32_t i = 0; i < paths->host_count; i++) {
        uint32_t mtu = paths->hosts[i].mtu_bytes;
        uint32_t same = 0;
        for (uint32_t j = 0; j < paths->host_count; j++) {
            same += paths->hosts[j].mtu_bytes == mtu ? 1 : 0;
        }
        if (same > *having || (same == *having && mtu > usual)) {
            usual = mtu;
            *having = same;
        }
    }
    return usual;
}

/* The largest packet that both interfaces allow. */
static uint32_t allowed_bytes(const struct tt_paths *paths, uint32_t one, uint32_t other)
{
    return (uint32_t)tt_least(tt_least(paths->hosts[one].mtu_bytes, paths->hosts[other].mtu_bytes), UINT16_MAX);
}

static bool falls_short(const struct tt_paths *paths, uint32_t from, uint32_t to)
{
    const struct tt_path *path = tt_paths_at(paths, from, to);
    return path->payload_bytes > 0 && path->payload_bytes + TT_PATHS_PACKET_BYTES < allowed_bytes(paths, from, to);
}

/* Of all paths between connected hosts. */
struct passage {
    uint32_t path_count, short_count;       /* of the latter: what falls short of what the interfaces promise */
    uint32_t largest_bytes, smallest_bytes; /* packets that pass: of the path where the longest do, or the shortest */
    uint32_t smallest_from, smallest_to;
};

static uint32_t packet_bytes(const struct tt_paths *paths, uint32_t from, uint32_t to)
{
    return tt_paths_at(paths, from, to)->payload_bytes + TT_PATHS_PACKET_BYTES;
}

static void add_passage(const struct tt_paths *paths, uint32_t from, uint32_t to, struct passage *passage)
{
    if (from == to || !tt_paths_is_connected(paths, from, to)) {
        return;
    }
    uint32_t bytes = packet_bytes(paths, from, to);
    if (passage->path_count == 0 || bytes < passage->smallest_bytes) {
        passage->smallest_bytes = bytes;
        passage->smallest_from = from;
        passage->smallest_to = to;
    }
    passage->largest_bytes = bytes > passage->largest_bytes ? bytes : passage->largest_bytes;
    passage->path_count++;
    passage->short_count += falls_short(paths, from, to) ? 1 : 0;
}

/* Of the paths that lead to a host, or away from it. */
static struct passage passage_of(const struct tt_paths *paths, uint32_t host, bool in)
{
    struct passage passage = {0};
    for (uint32_t other = 0; other < paths->host_count; other++) {
        add_passage(paths, in ? other : host, in ? host : other, &passage);
    }
    return passage;
}

/* Whether everything falls short that was tried with a host this way, and it was tried with more than one: else it is
 * the pair's. */
static bool is_narrow(const struct passage *passage)
{
    return passage->path_count > 1 && passage->short_count == passage->path_count;
}

/* What lets long packets through one way only is more likely a filter than an MTU. */
static void advise(const struct tt_doctor_view *view, uint32_t to, uint32_t bytes, bool one_way,
                   char advice[TT_FINDING_BYTES])
{
    const struct tt_paths_host *host = &view->paths->hosts[to];
    char text[TT_PATHS_HOST_TEXT_BYTES];
    if (one_way) {
        snprintf(advice, TT_FINDING_BYTES,
                 "a packet filter that drops long packets this way, or the MTU of a switch port or tunnel; or `ip link "
                 "set %s mtu %" PRIu32 "` at %s: larger packets vanish, those of TCP, too",
                 host->interface, bytes, tt_doctor_subject(view, to, text));
    } else {
        snprintf(advice, TT_FINDING_BYTES,
                 "the MTU of the interfaces at every switch port and in every tunnel on the way, or `ip link set %s "
                 "mtu %" PRIu32 "` at the hosts: larger packets vanish, those of TCP, too",
                 host->interface, bytes);
    }
}

/* Returns whether it is so. */
static bool say_all_narrow(struct tt_doctor_view *view)
{
    const struct tt_paths *paths = view->paths;
    char advice[TT_FINDING_BYTES], subject[TT_FINDING_SUBJECT_BYTES], exception[TT_FINDING_BYTES] = "";
    struct passage all = {0};
    for (uint32_t from = 0; from < paths->host_count; from++) {
        for (uint32_t to = 0; to < paths->host_count; to++) {
            add_passage(paths, from, to, &all);
        }
    }
    if (all.path_count == 0 || all.short_count < all.path_count) {
        return false;
    }
    if (all.smallest_bytes < all.largest_bytes) {
        tt_doctor_subject_pair(view, all.smallest_from, all.smallest_to, " to ", subject);
        view->pairs = 0;
        snprintf(exception, sizeof(exception), "; %s at most %" PRIu32, subject, all.smallest_bytes);
    }
    advise(view, all.smallest_to, all.smallest_bytes, false, advice);
    tt_doctor_add(view, "MTU", TT_VERDICT_FAIL, "", advice,
                  "packets of at most %" PRIu32 " bytes pass, less than the interfaces' %" PRIu32 "%s",
                  all.largest_bytes, allowed_bytes(paths, all.smallest_from, all.smallest_to), exception);
    return true;
}

static void say_narrow_host(struct tt_doctor_view *view, uint32_t host, const struct passage *in,
                            const struct passage *out)
{
    const struct tt_paths_host *own = &view->paths->hosts[host];
    char advice[TT_FINDING_BYTES], subject[TT_PATHS_HOST_TEXT_BYTES];
    bool both = is_narrow(in) && is_narrow(out);
    bool to_it = both ? in->largest_bytes < out->largest_bytes : is_narrow(in);
    uint32_t least = to_it ? in->largest_bytes : out->largest_bytes;
    uint32_t other_way = to_it ? out->largest_bytes : in->largest_bytes;
    advise(view, host, least, !both, advice);
    tt_doctor_subject(view, host, subject);
    if (both && least == other_way) {
        tt_doctor_add(view, "MTU", TT_VERDICT_FAIL, subject, advice,
                      "packets of at most %" PRIu32 " bytes pass, but its interface has MTU %" PRIu32, least,
                      own->mtu_bytes);
    } else {
        tt_doctor_add(view, "MTU", TT_VERDICT_FAIL, subject, advice,
                      "%s it packets of at most %" PRIu32 " bytes pass, %s it up to %" PRIu32
                      ", and its interface has MTU %" PRIu32,
                      to_it ? "to" : "from", least, to_it ? "from" : "to", other_way, own->mtu_bytes);
    }
}

static void say_narrow_pair(struct tt_doctor_view *view, uint32_t from, uint32_t to, const char *subject)
{
    const struct tt_paths *paths = view->paths;
    char advice[TT_FINDING_BYTES], back[64] = "";
    bool one_way = tt_paths_is_connected(paths, from, to) && !falls_short(paths, to, from);
    if (one_way) {
        snprintf(back, sizeof(back), "; the other way up to %" PRIu32, packet_bytes(paths, to, from));
    }
    advise(view, to, packet_bytes(paths, from, to), one_way, advice);
    tt_doctor_add(view, "MTU", TT_VERDICT_FAIL, subject, advice,
                  "packets of at most %" PRIu32 " bytes pass, less than the interfaces' %" PRIu32 "%s",
                  packet_bytes(paths, from, to), allowed_bytes(paths, from, to), back);
}

static void judge_passing(struct tt_doctor_view *view)
{
    const struct tt_paths *paths = view->paths;
    char subject[TT_FINDING_SUBJECT_BYTES];
    bool narrow_in[TT_PATHS_HOST_LIMIT], narrow_out[TT_PATHS_HOST_LIMIT];
    if (say_all_narrow(view)) {
        return;
    }
    for (uint32_t host = 0; host < paths->host_count; host++) {
        struct passage in = passage_of(paths, host, true), out = passage_of(paths, host, false);
        narrow_in[host] = is_narrow(&in);
        narrow_out[host] = is_narrow(&out);
        if (narrow_in[host] || narrow_out[host]) {
            say_narrow_host(view, host, &in, &out);
        }
    }
    for (uint32_t from = 0; from < paths->host_count; from++) {
        for (uint32_t to = 0; to < paths->host_count; to++) {
            if (from != to && !narrow_out[from] && !narrow_in[to] && falls_short(paths, from, to) &&
                tt_doctor_subject_pair(view, from, to, " to ", subject)) {
                say_narrow_pair(view, from, to, subject);
            }
        }
    }
    tt_doctor_close_pairs(view, "MTU", TT_VERDICT_FAIL);
}

void tt_doctor_judge_packet_sizes(struct tt_doctor_view *view)
{
    const struct tt_paths *paths = view->paths;
    char subject[TT_PATHS_HOST_TEXT_BYTES], advice[TT_FINDING_BYTES];
    uint32_t having;
    uint32_t usual = usual_mtu(paths, &having);
    for (uint32_t host = 0; host < paths->host_count; host++) {
        const struct tt_paths_host *own = &paths->hosts[host];
        if (own->mtu_bytes != usual) {
            snprintf(advice, sizeof(advice),
                     "ip link set %s mtu %" PRIu32 " there; the smallest MTU is what all datagrams of a "
                     "job are made for",
                     own->interface, usual);
            tt_doctor_add(view, "MTU", TT_VERDICT_WARN, tt_doctor_subject(view, host, subject), advice,
                          "its interface has %" PRIu32 ", those of %" PRIu32 " of %" PRIu32 " hosts have %" PRIu32,
                          own->mtu_bytes, having, paths->host_count, usual);
        }
    }
    judge_passing(view);
}
