/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the checks of `tutti doctor` of what a job on this machine would fail by at its start: the address by which
 * its ranks find each other, and settings that name something.
 *
 * Normal path: a finding for each setting that is given, and one for the address.
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
#include "fabric/verbs/verbs.h"

enum { INTERFACE_LIMIT = 64 };

void tt_doctor_check_loopback(struct tt_findings *findings)
{
    static struct tt_interface interfaces[INTERFACE_LIMIT];
    size_t count = 0;
    if (tt_interface_list(interfaces, INTERFACE_LIMIT, &count) != TUTTI_OK) {
        return; /* which is a finding of another check */
    }
    for (size_t i = 0; i < count && i < INTERFACE_LIMIT; i++) {
        if (interfaces[i].up && interfaces[i].address_be == htonl(INADDR_LOOPBACK)) {
            tt_findings_add(findings, "loopback", TT_VERDICT_OK, interfaces[i].name, "has 127.0.0.1", "");
            return;
        }
    }
    tt_findings_add(findings, "loopback", TT_VERDICT_WARN, "", "no interface that is up has 127.0.0.1",
                    "ip link set lo up: jobs on one host need lo");
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
        snprintf(found, sizeof(found), "%s: %s, port %" PRIu32 ", is active", wish, port.device, port.port);
        tt_findings_add(findings, "RDMA device", TT_VERDICT_OK, "", found, "");
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
