/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what works between two hosts that met by hand, what does not, why, and what to do, in words.
 *
 * Normal path: settings that differ and TCP first, since a job that cannot connect never comes to its multicast; then
 * what is said of any job's paths; then a line for each thing of which nothing bad was to be said.
 *
 * Failures: none here. TCP that gets through one way only is a warning: of two ranks either may connect.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/doctor_job.h"
#include "cli/doctor_verdict.h"

enum { LIST_BYTES = 32, CAUSE_BYTES = 128 };

/* --- Settings ----------------------------------------------------------------------------------------------------- */

static void judge_settings(struct tt_doctor_view *view)
{
    static const char *const advice = "the same value on every host: ranks that differ look for each other's multicast "
                                      "at the wrong place";
    const struct tt_paths_host *one = &view->paths->hosts[0], *other = &view->paths->hosts[1];
    char one_text[TT_PATHS_HOST_TEXT_BYTES], other_text[TT_PATHS_HOST_TEXT_BYTES];
    if (one->first_port != other->first_port || one->last_port != other->last_port) {
        tt_doctor_add(view, "settings", TT_VERDICT_FAIL, "TUTTI_PORTS", advice, "%u-%u at %s, %u-%u at %s",
                      one->first_port, one->last_port, tt_doctor_subject(view, 0, one_text), other->first_port,
                      other->last_port, tt_doctor_subject(view, 1, other_text));
    }
    if (one->group_first != other->group_first || one->group_count != other->group_count) {
        tt_doctor_add(view, "settings", TT_VERDICT_FAIL, "TUTTI_GROUP_RANGE", advice, "differs between the hosts");
    }
}

/* --- TCP ---------------------------------------------------------------------------------------------------------- */

/* "47000, 48500 and 49999": of the tries that ended so. Returns how many there are. */
static uint32_t list_ports(const struct tt_path *path, enum tt_knock knock, char text[LIST_BYTES])
{
    uint32_t count = 0, written = 0;
    size_t length = 0;
    for (int i = 0; i < TT_DOCTOR_PORTS; i++) {
        count += path->tcp_port[i] != 0 && path->tcp[i] == knock ? 1 : 0;
    }
    text[0] = '\0';
    for (int i = 0; i < TT_DOCTOR_PORTS; i++) {
        if (path->tcp_port[i] != 0 && path->tcp[i] == knock) {
            const char *between = written == 0 ? "" : written + 1 == count ? " and " : ", ";
            length += (size_t)snprintf(text + length, LIST_BYTES - length, "%s%u", between, path->tcp_port[i]);
            written++;
        }
    }
    return count;
}

static const char *cause_of(enum tt_knock knock, const char *to, char text[CAUSE_BYTES])
{
    switch (knock) {
    case TT_KNOCK_REFUSED:
        snprintf(text, CAUSE_BYTES, "refused, though %s listens there: a firewall, likely its own, rejects TCP", to);
        break;
    case TT_KNOCK_REJECTED:
        snprintf(text, CAUSE_BYTES, "turned away by ICMP: a firewall of %s or on the way rejects TCP", to);
        break;
    case TT_KNOCK_SILENT:
        snprintf(text, CAUSE_BYTES, "no answer in 3 s: a firewall of %s or on the way drops TCP", to);
        break;
    case TT_KNOCK_STALLED:
        snprintf(text, CAUSE_BYTES, "connects, but full packets do not arrive: an MTU on the way is too small");
        break;
    default:
        snprintf(text, CAUSE_BYTES, "connects, and then something else than %s answers", to);
        break;
    }
    return text;
}

static bool is_open(const struct tt_path *path)
{
    char ports[LIST_BYTES];
    for (int knock = TT_KNOCK_REFUSED; knock < TT_KNOCK_COUNT; knock++) {
        if (list_ports(path, (enum tt_knock)knock, ports) > 0) {
            return false;
        }
    }
    return list_ports(path, TT_KNOCK_OPEN, ports) > 0;
}

static void judge_tcp(struct tt_doctor_view *view, uint32_t from, uint32_t to)
{
    const struct tt_path *path = tt_paths_at(view->paths, from, to);
    const struct tt_paths_host *there = &view->paths->hosts[to], *here = &view->paths->hosts[from];
    bool back = is_open(tt_paths_at(view->paths, to, from));
    char subject[TT_FINDING_SUBJECT_BYTES], ports[LIST_BYTES], open_ports[LIST_BYTES], address[INET_ADDRSTRLEN] = "";
    char to_text[TT_PATHS_HOST_TEXT_BYTES];
    char advice[TT_FINDING_BYTES], cause[CAUSE_BYTES];
    uint32_t open = list_ports(path, TT_KNOCK_OPEN, open_ports);
    inet_ntop(AF_INET, &here->address_be, address, sizeof(address));
    tt_doctor_subject(view, to, to_text);
    tt_doctor_subject_pair(view, from, to, " to ", subject);
    view->pairs = 0;
    if (is_open(path)) {
        tt_doctor_add(view, "TCP", TT_VERDICT_OK, subject, "", "connects at port%s %s", open > 1 ? "s" : "",
                      open_ports);
        return;
    }
    for (int knock = TT_KNOCK_REFUSED; knock < TT_KNOCK_COUNT; knock++) {
        if (list_ports(path, (enum tt_knock)knock, ports) == 0) {
            continue;
        }
        if (knock == TT_KNOCK_STALLED) {
            snprintf(advice, sizeof(advice), "see MTU");
        } else {
            snprintf(advice, sizeof(advice),
                     "let TUTTI_PORTS and the port of TUTTI_ROOT in at %s, for example `nft add rule inet filter "
                     "input ip saddr %s tcp dport %u-%u accept`",
                     to_text, address, there->first_port, there->last_port);
        }
        tt_doctor_add(view, "TCP", back && knock != TT_KNOCK_STALLED ? TT_VERDICT_WARN : TT_VERDICT_FAIL, subject,
                      advice, "port %s: %s%s%s%s", ports, cause_of((enum tt_knock)knock, to_text, cause),
                      open > 0 ? "; connects at " : "", open_ports,
                      back ? ". The other way TCP works, which is enough for two ranks" : "");
    }
}

/* --- What works --------------------------------------------------------------------------------------------------- */

static bool is_said(const struct tt_findings *findings, const char *check)
{
    bool said = false;
    for (size_t i = 0; i < findings->count; i++) {
        said = said || strcmp(findings->items[i].check, check) == 0;
    }
    return said;
}

static void say_what_works(struct tt_doctor_view *view)
{
    const struct tt_paths *paths = view->paths;
    const struct tt_path *there = tt_paths_at(paths, 0, 1), *back = tt_paths_at(paths, 1, 0);
    bool connected = tt_paths_is_connected(paths, 0, 1);
    if (connected) {
        tt_doctor_add(view, "UDP", TT_VERDICT_OK, "", "", "gets through both ways, round trip %.4g us",
                      view->figures[0].round_trip_ns / 1e3);
    }
    if (there->multicast_heard && back->multicast_heard && !is_said(view->findings, "multicast")) {
        tt_doctor_add(view, "multicast", TT_VERDICT_OK, "",
                      "if it stops after some minutes of a job: IGMP snooping without a querier",
                      "each hears the other");
    }
    if (connected && !is_said(view->findings, "MTU")) {
        tt_doctor_add(view, "MTU", TT_VERDICT_OK, "", "", "packets of %" PRIu32 " bytes pass both ways",
                      view->figures[0].payload_bytes + TT_PATHS_PACKET_BYTES);
    }
}

void tt_doctor_judge_pair(const struct tt_paths *paths, struct tt_findings *findings)
{
    static struct tt_doctor_view view;
    memset(&view, 0, sizeof(view));
    view.paths = paths;
    view.findings = findings;
    for (uint32_t host = 0; host < paths->host_count; host++) {
        tt_paths_figure(paths, host, &view.figures[host]);
    }
    judge_settings(&view);
    judge_tcp(&view, 0, 1);
    judge_tcp(&view, 1, 0);
    tt_doctor_judge_paths(paths, findings);
    say_what_works(&view);
}
