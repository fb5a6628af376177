/* SPDX-License-Identifier: BSD-3-Clause */
/* What `tutti doctor` looks at, and what it makes of it. */
#ifndef TT_CLI_DOCTOR_CHECKS_H
#define TT_CLI_DOCTOR_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/settings.h"
#include "fabric/udp/interface.h"
#include "fabric/verbs/verbs.h"

enum tt_verdict { TT_VERDICT_OK, TT_VERDICT_WARN, TT_VERDICT_FAIL };

enum { TT_FINDING_LIMIT = 192, TT_FINDING_BYTES = 240, TT_FINDING_SUBJECT_BYTES = 104 };

struct tt_json;

struct tt_finding {
    const char *check; /* static storage */
    enum tt_verdict verdict;
    char subject[TT_FINDING_SUBJECT_BYTES]; /* an interface, a host or a pair of hosts; "" for the machine or all */
    char found[TT_FINDING_BYTES];
    char advice[TT_FINDING_BYTES]; /* "" if there is nothing to do */
};

struct tt_findings {
    size_t count; /* those beyond the limit are left out, but still worsen the verdict */
    enum tt_verdict worst;
    struct tt_finding items[TT_FINDING_LIMIT];
};

/* This machine's limits. UINT64_MAX: none, or the system does not say. */
struct tt_machine {
    uint64_t receive_limit_bytes;   /* net.core.rmem_max */
    uint64_t receive_granted_bytes; /* what a socket really gets that asks for receive_wanted_bytes */
    uint64_t receive_wanted_bytes;
    uint64_t send_limit_bytes; /* net.core.wmem_max */
    uint64_t send_granted_bytes;
    uint64_t send_wanted_bytes;
    uint64_t memlock_bytes;
    uint64_t descriptors;
    uint64_t memberships; /* net.ipv4.igmp_max_memberships, of one socket */
    uint32_t cores;       /* that this process may use */
    bool has_rdma;
};

void tt_machine_examine(const struct tt_settings *settings, struct tt_machine *machine);

/* Judges the limits for `rank_count` ranks on this machine (0: not said). Pure. */
void tt_doctor_judge_machine(const struct tt_machine *machine, const struct tt_settings *settings, uint32_t rank_count,
                             struct tt_findings *findings);

/* Judges an interface's MTU. Pure. */
void tt_doctor_judge_mtu(const struct tt_interface *interface, const struct tt_settings *settings,
                         struct tt_findings *findings);

/* Tries multicast on an interface. `required`: it is the one that the settings name. Returns whether it works. */
bool tt_doctor_try_multicast(const struct tt_interface *interface, bool required, struct tt_findings *findings);

/* doctor_settings.c. Whether an interface has an address that other hosts can reach, and loopback has 127.0.0.1, by
 * which ranks that are started here find each other. Pure; of tt_interface_list(). */
void tt_doctor_judge_addresses(const struct tt_interface *interfaces, size_t count, struct tt_findings *findings);
void tt_doctor_judge_loopback(const struct tt_interface *interfaces, size_t count, struct tt_findings *findings);
void tt_doctor_check_loopback(struct tt_findings *findings);

/* doctor_settings.c. Whether what the settings name is there: the table of algorithms, and an RDMA device. */
void tt_doctor_check_settings(const struct tt_settings *settings, struct tt_findings *findings);

/* Judges the port that a setting asks for and `options` have led to. Pure. */
void tt_doctor_judge_device(const struct tt_settings *settings, const struct tt_verbs_device_options *options,
                            const struct tt_verbs_port *port, struct tt_findings *findings);

void tt_findings_add(struct tt_findings *findings, const char *check, enum tt_verdict verdict, const char *subject,
                     const char *found, const char *advice);

const char *tt_verdict_name(enum tt_verdict verdict);

/* The array "checks" of the object that is open; `subject`: the key of what a finding is about. */
void tt_findings_put_json(const struct tt_findings *findings, const char *subject, struct tt_json *json);

#endif
