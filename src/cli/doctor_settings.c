/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the checks of `tutti doctor` of what a job on this machine would fail by at its start: the addresses by
 * which its ranks find each other, and settings that name something.
 *
 * Normal path: a finding for each setting that is given, and one for the address of jobs on one host; none for those of
 * jobs over several hosts.
 *
 * Failures: each is a finding with the sentence that a job would end with.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/doctor_checks.h"
#include "engine/choice_file.h"
#include "engine/network.h"

enum { INTERFACE_LIMIT = 64, NAMES_BYTES = 96 };

/* How loopback gets 127.0.0.1: the kernel gives it that when it comes up, and not again. */
static const char *advise_loopback(const struct tt_interface *interfaces, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (interfaces[i].loopback && interfaces[i].up) {
            return "ip addr add 127.0.0.1/8 dev lo";
        }
    }
    return "ip link set lo up";
}

/* "eth0, eth1, 3 more": what is up, leads to other hosts and has no address there. Returns how many there are. */
static size_t name_without_address(const struct tt_interface *interfaces, size_t count, char names[NAMES_BYTES])
{
    size_t found = 0, named = 0, length = 0;
    names[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (!interfaces[i].up || interfaces[i].loopback || !tt_ip_is_none(interfaces[i].ip)) {
            continue;
        }
        found++;
        if (named + 1 == found && length + sizeof(", , 99 more") + IF_NAMESIZE < NAMES_BYTES) {
            length += (size_t)snprintf(names + length, NAMES_BYTES - length, "%s%s", named > 0 ? ", " : "",
                                       interfaces[i].name);
            named++;
        }
    }
    if (found > named) {
        snprintf(names + length, NAMES_BYTES - length, ", %zu more", found - named);
    }
    return found;
}

void tt_doctor_judge_addresses(const struct tt_interface *interfaces, size_t count, struct tt_findings *findings)
{
    char names[NAMES_BYTES], found[TT_FINDING_BYTES], advice[TT_FINDING_BYTES];
    size_t loopbacks = 0, others = 0;
    size_t without = name_without_address(interfaces, count, names);
    for (size_t i = 0; i < count; i++) {
        bool has_address = interfaces[i].up && !tt_ip_is_none(interfaces[i].ip);
        loopbacks += has_address && interfaces[i].loopback && !tt_ip_is_ipv6(interfaces[i].ip) ? 1 : 0;
        others += has_address && !interfaces[i].loopback ? 1 : 0;
    }
    if (loopbacks + others == 0) {
        snprintf(advice, sizeof(advice), "%s, or %s%s%s", advise_loopback(interfaces, count),
                 without > 0 ? "an IPv4 address for " : "bring up the interface of the cluster", names,
                 without > 1 ? ", whichever is the cluster's" : "");
        tt_findings_add(findings, "interfaces", TT_VERDICT_FAIL, "",
                        "none is up and has an address that a job could use", advice);
    } else if (others == 0 && without > 0) {
        snprintf(
            found, sizeof(found),
            "up without an address (IPv4, or IPv6 that is not link-local): %s; only jobs on this one host will work",
            names);
        snprintf(advice, sizeof(advice),
                 "ip addr add ADDRESS/PREFIX dev %s: jobs over several hosts need an address besides loopback's",
                 without == 1 ? names : "INTERFACE");
        tt_findings_add(findings, "interfaces", TT_VERDICT_WARN, "", found, advice);
    }
}

void tt_doctor_judge_loopback(const struct tt_interface *interfaces, size_t count, struct tt_findings *findings)
{
    char advice[TT_FINDING_BYTES];
    for (size_t i = 0; i < count; i++) {
        if (interfaces[i].up && tt_ip_to_ipv4(interfaces[i].ip) == htonl(INADDR_LOOPBACK)) {
            tt_findings_add(findings, "loopback", TT_VERDICT_OK, interfaces[i].name, "has 127.0.0.1", "");
            return;
        }
    }
    snprintf(advice, sizeof(advice), "%s: jobs on one host need lo", advise_loopback(interfaces, count));
    tt_findings_add(findings, "loopback", TT_VERDICT_WARN, "", "no interface that is up has 127.0.0.1", advice);
}

void tt_doctor_check_loopback(struct tt_findings *findings)
{
    static struct tt_interface interfaces[INTERFACE_LIMIT];
    size_t count = 0;
    if (tt_interface_list(interfaces, INTERFACE_LIMIT, &count) == TUTTI_OK) { /* else it is another check's finding */
        tt_doctor_judge_loopback(interfaces, count < INTERFACE_LIMIT ? count : INTERFACE_LIMIT, findings);
    }
}

static void check_table(const struct tt_settings *settings, struct tt_findings *findings)
{
    static struct tt_choice_source source;
    char found[TT_FINDING_BYTES];
    if (tt_choice_load(settings->table, &source) != TUTTI_OK) {
        tt_findings_add(findings, "table", TT_VERDICT_FAIL, "", tt_last_error(),
                        "unset TUTTI_TABLE, or set it to what `tutti bench --tune --write` has written");
        return;
    }
    snprintf(found, sizeof(found), "TUTTI_TABLE=%.200s is a table", settings->table);
    tt_findings_add(findings, "table", TT_VERDICT_OK, "", found, "");
}

/* The setting that wants an RDMA device; NULL: none does. */
static const char *find_wish(const struct tt_settings *settings)
{
    if (strcmp(settings->device, "auto") != 0) {
        return "TUTTI_DEVICE";
    }
    if (strcmp(settings->mcast, "verbs") == 0) {
        return "TUTTI_MCAST=verbs";
    }
    return strcmp(settings->p2p, "verbs") == 0 ? "TUTTI_P2P=verbs" : NULL;
}

void tt_doctor_judge_device(const struct tt_settings *settings, const struct tt_verbs_device_options *options,
                            const struct tt_verbs_port *port, struct tt_findings *findings)
{
    const char *wish = find_wish(settings);
    char found[TT_FINDING_BYTES];
    bool joins = strcmp(settings->mcast, "verbs") == 0 ||
                 (strcmp(settings->mcast, "auto") == 0 && strcmp(settings->device, "auto") != 0);
    bool has_address = options->address_be != 0 || strncmp(port->gid, "::ffff:", strlen("::ffff:")) == 0;
    /* Without a setting the interface is not known yet. */
    if (joins && !has_address && strcmp(settings->interface, "auto") != 0 && settings->mgid[0] == '\0') {
        snprintf(found, sizeof(found),
                 "%s: %s, port %" PRIu32
                 ", is active, but without an IPv4 address of %.64s it joins no multicast group",
                 wish, port->device, port->port, settings->interface);
        tt_findings_add(findings, "RDMA device", TT_VERDICT_FAIL, "", found,
                        "give the interface an IPv4 address, or set TUTTI_MGID, or TUTTI_MCAST=udp");
        return;
    }
    snprintf(found, sizeof(found), "%s: %s, port %" PRIu32 ", is active", wish, port->device, port->port);
    tt_findings_add(findings, "RDMA device", TT_VERDICT_OK, "", found, "");
}

static void check_device(const struct tt_settings *settings, const char *wish, struct tt_findings *findings)
{
    struct tt_interface interface = {.loopback = true}; /* any device serves it */
    struct tt_verbs_port port;
    char found[TT_FINDING_BYTES];
    if (strcmp(settings->interface, "auto") != 0 && tt_interface_find(settings->interface, &interface) != TUTTI_OK) {
        return; /* which is a finding of another check */
    }
    struct tt_verbs_device_options options = tt_network_device(settings, &interface);
    if (tt_verbs_find(&options, &port) == TUTTI_OK) {
        tt_doctor_judge_device(settings, &options, &port, findings);
        return;
    }
    const char *reason = tt_last_error();
    bool is_said = strncmp(reason, "TUTTI_", strlen("TUTTI_")) == 0;
    snprintf(found, sizeof(found), "%s%s%s", is_said ? "" : wish, is_said ? "" : ": ", reason);
    tt_findings_add(findings, "RDMA device", TT_VERDICT_FAIL, "", found,
                    "choose one that `tutti info -d` lists as active, or set TUTTI_DEVICE, TUTTI_MCAST and TUTTI_P2P "
                    "to auto");
}

void tt_doctor_check_settings(const struct tt_settings *settings, struct tt_findings *findings)
{
    const char *wish = find_wish(settings);
    if (settings->table[0] != '\0') {
        check_table(settings, findings);
    }
    if (wish != NULL) {
        check_device(settings, wish, findings);
    }
}
