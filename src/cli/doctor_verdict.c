/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what is wrong with the paths between the hosts of a job, in words.
 *
 * Normal path: each check looks at all hosts first, and names those that stand out; what all have in common is one
 * finding, and so is what only one pair has.
 *
 * Failures: none here. What keeps packets or multicast from arriving is a failure; what makes a job slow is a warning.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/doctor_job.h"
#include "cli/doctor_verdict.h"

enum { SLOW_TRIP_FACTOR = 5, PAIRS_LIMIT = 8 /* named one by one */, NAMES_BYTES = 160 };

#define SLOW_TRIP_NS UINT32_C(1000000)

void tt_doctor_add(struct tt_doctor_view *view, const char *check, enum tt_verdict verdict, const char *subject,
                   const char *advice, const char *format, ...)
{
    char found[TT_FINDING_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(found, sizeof(found), format, arguments);
    va_end(arguments);
    tt_findings_add(view->findings, check, verdict, subject, found, advice);
}

const char *tt_doctor_subject(const struct tt_doctor_view *view, uint32_t host, char text[TT_PATHS_HOST_TEXT_BYTES])
{
    return tt_paths_host_text(&view->paths->hosts[host], text);
}

bool tt_doctor_subject_pair(struct tt_doctor_view *view, uint32_t from, uint32_t to, const char *between,
                            char text[TT_FINDING_SUBJECT_BYTES])
{
    const struct tt_paths_host *hosts = view->paths->hosts;
    char one[TT_PATHS_HOST_TEXT_BYTES], other[TT_PATHS_HOST_TEXT_BYTES];
    if (view->paths->one_host) {
        snprintf(text, TT_FINDING_SUBJECT_BYTES, "rank %" PRIu32 "%srank %" PRIu32, hosts[from].rank, between,
                 hosts[to].rank);
    } else {
        snprintf(text, TT_FINDING_SUBJECT_BYTES, "%s%s%s", tt_doctor_subject(view, from, one), between,
                 tt_doctor_subject(view, to, other));
    }
    return view->pairs++ < PAIRS_LIMIT;
}

void tt_doctor_close_pairs(struct tt_doctor_view *view, const char *check, enum tt_verdict verdict)
{
    if (view->pairs > PAIRS_LIMIT) {
        tt_doctor_add(view, check, verdict, "", "look at all pairs with --pairs", "%" PRIu32 " more pairs",
                      view->pairs - PAIRS_LIMIT);
    }
    view->pairs = 0;
}

/* --- Reach -------------------------------------------------------------------------------------------------------- */

/* Of a pair of which one at least does not get through to the other. */
static void say_unreached(struct tt_doctor_view *view, uint32_t host, uint32_t other, const char *subject)
{
    const struct tt_paths_host *hosts = view->paths->hosts;
    const struct tt_path *there = tt_paths_at(view->paths, host, other);
    const struct tt_path *back = tt_paths_at(view->paths, other, host);
    bool only_back = back->arrived && !there->arrived;
    const struct tt_path *broken = only_back || !there->arrived ? there : back;
    char to[TT_PATHS_HOST_TEXT_BYTES];
    tt_doctor_subject(view, broken == there ? other : host, to);
    bool refused = broken->udp == TT_KNOCK_REFUSED || broken->udp == TT_KNOCK_REJECTED;
    char advice[TT_FINDING_BYTES];
    snprintf(advice, sizeof(advice),
             "%s: let UDP at TUTTI_PORTS in, for example `nft add rule inet filter input udp "
             "dport %u-%u accept` at %s",
             refused                          ? "a firewall turns it away"
             : broken->udp == TT_KNOCK_SILENT ? "a firewall drops it, or its host has no way back"
                                              : "look for a packet filter",
             hosts[other].first_port, hosts[other].last_port, to);
    if (there->arrived && back->arrived) {
        bool answered = there->round_trip_ns > 0 && back->round_trip_ns > 0;
        tt_doctor_add(view, "reach", TT_VERDICT_FAIL, subject,
                      "look for a link that loses: `ip -s link` counts errors and drops",
                      "UDP gets through both ways, but %s",
                      answered ? "of the datagrams of all lengths that are tried next none is answered"
                               : "so much is lost that one waits in vain for an answer");
    } else if (!there->arrived && !back->arrived) {
        tt_doctor_add(view, "reach", TT_VERDICT_FAIL, subject, advice, "UDP does not get through, neither way%s",
                      refused ? ": it is rejected" : "");
    } else {
        tt_doctor_add(view, "reach", TT_VERDICT_FAIL, subject, advice,
                      "UDP does not get through to %s%s; the other way it does", to, refused ? ": it is rejected" : "");
    }
}

static void judge_reach(struct tt_doctor_view *view)
{
    static const char *const advice = "look for a packet filter: UDP at TUTTI_PORTS must get through both ways";
    const struct tt_paths *paths = view->paths;
    char subject[TT_FINDING_SUBJECT_BYTES];
    bool cut_off[TT_PATHS_HOST_LIMIT];
    uint32_t count = 0;
    for (uint32_t host = 0; host < paths->host_count; host++) {
        cut_off[host] = tt_paths_is_cut_off(paths, host, 2);
        count += cut_off[host] ? 1 : 0;
    }
    if (count > 0 && count == paths->host_count) {
        tt_doctor_add(view, "reach", TT_VERDICT_FAIL, "", advice, "UDP between two hosts gets through nowhere");
        return;
    }
    for (uint32_t host = 0; host < paths->host_count; host++) {
        if (cut_off[host]) {
            tt_doctor_add(view, "reach", TT_VERDICT_FAIL, tt_doctor_subject(view, host, subject), advice,
                          "exchanges UDP with none of the others");
        }
        for (uint32_t other = host + 1; other < paths->host_count; other++) {
            if (!cut_off[host] && !cut_off[other] && tt_paths_is_tried(paths, host, other) &&
                !tt_paths_is_connected(paths, host, other) &&
                tt_doctor_subject_pair(view, host, other, " and ", subject)) {
                say_unreached(view, host, other, subject);
            }
        }
    }
    tt_doctor_close_pairs(view, "reach", TT_VERDICT_FAIL);
}

/* --- Multicast ---------------------------------------------------------------------------------------------------- */

/* "h1, h3, 5 more" */
static void add_name(char *names, uint32_t *named, const char *name)
{
    size_t length = strlen(names);
    if (length + TT_PATHS_HOST_TEXT_BYTES < NAMES_BYTES) {
        snprintf(names + length, NAMES_BYTES - length, "%s%s", length > 0 ? ", " : "", name);
        (*named)++;
    }
}

static uint32_t listeners_of(const struct tt_paths *paths, uint32_t host)
{
    uint32_t listeners = 0;
    for (uint32_t other = 0; other < paths->host_count; other++) {
        listeners += other != host && tt_paths_at(paths, host, other)->multicast_heard ? 1 : 0;
    }
    return listeners;
}

/* Whom a host does not hear, but for those that nobody hears. */
static void judge_hearing(struct tt_doctor_view *view, uint32_t host, const bool *mute)
{
    const struct tt_paths *paths = view->paths;
    char subject[TT_PATHS_HOST_TEXT_BYTES];
    char names[NAMES_BYTES] = "", more[32] = "";
    uint32_t missed = 0, named = 0;
    for (uint32_t other = 0; other < paths->host_count; other++) {
        const struct tt_path *path = tt_paths_at(paths, other, host);
        if (other != host && path->multicast_tried && !path->multicast_heard && !mute[other]) {
            missed++;
            add_name(names, &named, tt_doctor_subject(view, other, subject));
        }
    }
    if (missed == 0) {
        return;
    }
    if (missed > named) {
        snprintf(more, sizeof(more), " and %" PRIu32 " more", missed - named);
    }
    bool deaf = view->figures[host].heard == 0;
    tt_doctor_add(
        view, "multicast", TT_VERDICT_FAIL, tt_doctor_subject(view, host, subject),
        deaf
            ? "look there for a packet filter or `ip link set ... multicast off`, at its switch port for IGMP snooping "
              "without a querier"
            : "look at the switches between them: IGMP snooping without a querier, a filter for 239.0.0.0/8",
        "%s%s%s", deaf ? "hears the multicast of none of the others: not of " : "does not hear the multicast of ",
        names, more);
}

/* A network of interfaces without the flag needs no switch to be without multicast. */
static bool judge_flags(struct tt_doctor_view *view)
{
    const struct tt_paths *paths = view->paths;
    char subject[TT_PATHS_HOST_TEXT_BYTES], advice[TT_FINDING_BYTES];
    uint32_t found = 0;
    for (uint32_t host = 0; host < paths->host_count; host++) {
        const struct tt_paths_host *own = &paths->hosts[host];
        if (own->multicast == 0) {
            snprintf(advice, sizeof(advice),
                     "`ip link set %s multicast on`, where the network has multicast; without, the library still runs, "
                     "over slower point-to-point algorithms",
                     own->interface);
            tt_doctor_add(view, "multicast", TT_VERDICT_FAIL, tt_doctor_subject(view, host, subject), advice,
                          "its interface %s does not have the flag MULTICAST", own->interface);
            found++;
        }
    }
    return found > 0;
}

/* What keeps multicast from all alike: a router, if they are of several networks, else the switch. */
static void say_nothing_heard(struct tt_doctor_view *view)
{
    const struct tt_paths *paths = view->paths;
    char advice[TT_FINDING_BYTES];
    for (uint32_t host = 1; host < paths->host_count; host++) {
        if (!tt_paths_are_neighbours(paths, 0, host)) {
            snprintf(advice, sizeof(advice),
                     "the hosts are of different networks, and multicast is sent with a TTL of %u: TUTTI_TTL must be "
                     "above the number of routers between them, which must route multicast",
                     paths->hosts[0].ttl);
            tt_doctor_add(view, "multicast", TT_VERDICT_FAIL, "", advice, "no host hears another one's");
            return;
        }
    }
    tt_doctor_add(view, "multicast", TT_VERDICT_FAIL, "",
                  "look at the switch: IGMP snooping without a querier, a filter for 239.0.0.0/8; the library still "
                  "runs, over slower point-to-point algorithms",
                  "no host hears another one's");
}

static void judge_multicast(struct tt_doctor_view *view)
{
    const struct tt_paths *paths = view->paths;
    char subject[TT_PATHS_HOST_TEXT_BYTES];
    bool mute[TT_PATHS_HOST_LIMIT] = {false};
    uint32_t heard = 0, tried = 0;
    for (uint32_t host = 0; host < paths->host_count; host++) {
        heard += view->figures[host].heard;
        tried += view->figures[host].heard_of;
        mute[host] = paths->host_count > 2 && paths->hosts[host].multicast != 0 && listeners_of(paths, host) == 0;
    }
    bool flagless = judge_flags(view);
    if (tried > 0 && heard == 0 && !flagless) {
        say_nothing_heard(view);
        return;
    }
    for (uint32_t host = 0; host < paths->host_count; host++) {
        if (mute[host]) {
            tt_doctor_add(view, "multicast", TT_VERDICT_FAIL, tt_doctor_subject(view, host, subject),
                          "look there for a packet filter for what it sends to 239.0.0.0/8",
                          "none of the others hears its multicast");
        }
        judge_hearing(view, host, mute);
    }
}

/* --- The rest ----------------------------------------------------------------------------------------------------- */

static void judge_round_trip(struct tt_doctor_view *view)
{
    char subject[TT_PATHS_HOST_TEXT_BYTES];
    uint32_t trips[TT_PATHS_HOST_LIMIT];
    for (uint32_t host = 0; host < view->paths->host_count; host++) {
        trips[host] = view->figures[host].round_trip_ns;
    }
    uint64_t median_ns = tt_paths_median(trips, view->paths->host_count);
    for (uint32_t host = 0; host < view->paths->host_count; host++) {
        uint32_t own_ns = view->figures[host].round_trip_ns;
        if (own_ns > SLOW_TRIP_NS && own_ns > SLOW_TRIP_FACTOR * median_ns) {
            tt_doctor_add(view, "round trip", TT_VERDICT_WARN, tt_doctor_subject(view, host, subject),
                          "look at its load, its power saving and its adapter's interrupt moderation (ethtool -c)",
                          "%.4g us; the median is %.4g", own_ns / 1e3, (double)median_ns / 1e3);
        }
    }
}

static void judge_rest(struct tt_doctor_view *view)
{
    const struct tt_paths *paths = view->paths;
    uint32_t heard = 0, tried = 0;
    for (uint32_t host = 0; host < paths->host_count; host++) {
        heard += view->figures[host].heard;
        tried += view->figures[host].heard_of;
    }
    if (!paths->one_host) {
        judge_round_trip(view);
    }
    if (heard == tried && tried > 0 && !paths->group_multicast && view->findings->worst != TT_VERDICT_FAIL) {
        tt_doctor_add(view, "multicast", TT_VERDICT_WARN, "",
                      "a longer TUTTI_PROBE_TIMEOUT; TUTTI_LOG=warn says what the group missed",
                      "every host hears every other, but the job's own group does without");
    }
    if (paths->stopped) {
        tt_doctor_add(view, "time", TT_VERDICT_WARN, "", "a longer --limit",
                      "it was over after %.3g s, before all was measured",
                      (double)paths->duration_ns / (double)TT_NS_PER_S);
    }
}

void tt_doctor_judge_paths(const struct tt_paths *paths, struct tt_findings *findings)
{
    static struct tt_doctor_view view;
    memset(&view, 0, sizeof(view));
    view.paths = paths;
    view.findings = findings;
    for (uint32_t host = 0; host < paths->host_count; host++) {
        tt_paths_figure(paths, host, &view.figures[host]);
    }
    judge_reach(&view);
    judge_multicast(&view);
    tt_doctor_judge_packet_sizes(&view);
    if (!paths->one_host) { /* there it is the processors' */
        tt_doctor_judge_rate(&view);
    }
    tt_doctor_judge_loss(&view);
    judge_rest(&view);
}
