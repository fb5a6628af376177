/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the checks of `tutti doctor`. Reading the machine and judging what was read are kept apart, so that every
 * verdict can be tested without such a machine.
 *
 * Normal path: examine, judge, then multicast on each interface.
 *
 * Failures: what the system does not say counts as no limit, since a guess would be worse; what does not work is a
 * finding with the advice that helps, never an error of the program.
 */
#include "cli/doctor_checks.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/json.h"
#include "fabric/udp/udp.h"
#include "wire/datagram.h"

enum {
    HEADER_BYTES = 28 + TT_DATAGRAM_HEADER_BYTES /* of IP, UDP and tutti */,
    JUMBO_MTU = 9000,
    SMALLEST_MTU = 1280,
    DESCRIPTORS_OF_A_PROCESS = 64, /* the program's own, sockets to neighbours, epoll's */
    DESCRIPTORS_OF_A_PEER = 3,     /* a TCP connection, one to read by, and at rank 0 that by which it has come */
    DESCRIPTORS_OF_A_SUBGROUP = 2  /* to send and to receive */
};

#define SMALL_BUFFER_BYTES   (UINT64_C(64) << 10) /* below this one super-packet does not fit */
#define WANTED_MEMLOCK_BYTES (UINT64_C(1) << 30)
#define PROBE_TIMEOUT_NS     (500 * TT_NS_PER_MS)

const char *tt_verdict_name(enum tt_verdict verdict)
{
    static const char *const names[] = {"ok", "warn", "fail"};
    return names[verdict];
}

void tt_findings_add(struct tt_findings *findings, const char *check, enum tt_verdict verdict, const char *subject,
                     const char *found, const char *advice)
{
    if (verdict > findings->worst) {
        findings->worst = verdict;
    }
    if (findings->count == TT_FINDING_LIMIT) {
        return;
    }
    struct tt_finding *finding = &findings->items[findings->count++];
    finding->check = check;
    finding->verdict = verdict;
    snprintf(finding->subject, sizeof(finding->subject), "%s", subject);
    snprintf(finding->found, sizeof(finding->found), "%s", found);
    snprintf(finding->advice, sizeof(finding->advice), "%s", advice);
}

/* --- Reading the machine ------------------------------------------------------------------------------------------ */

static uint64_t read_number(const char *path)
{
    char line[32];
    char *end;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return UINT64_MAX;
    }
    const char *read = fgets(line, sizeof(line), file);
    fclose(file);
    if (read == NULL) {
        return UINT64_MAX;
    }
    errno = 0;
    uint64_t number = strtoull(line, &end, 10);
    return errno == 0 && end != line ? number : UINT64_MAX;
}

static uint64_t read_resource(int resource)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return UINT64_MAX;
    }
    return limit.rlim_cur;
}

/* What a socket gets that asks as the library does: with privilege first, then without. */
static uint64_t try_buffer(int force_option, int option, uint64_t wanted_bytes)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int wanted = (int)wanted_bytes;
    int granted = 0;
    socklen_t length = sizeof(granted);
    if (fd < 0) {
        return 0;
    }
    if (setsockopt(fd, SOL_SOCKET, force_option, &wanted, sizeof(wanted)) != 0) {
        setsockopt(fd, SOL_SOCKET, option, &wanted, sizeof(wanted));
    }
    getsockopt(fd, SOL_SOCKET, option, &granted, &length);
    close(fd);
    return (uint64_t)granted / 2; /* the kernel doubles what is asked for, for its own records */
}

static bool find_rdma(void)
{
    DIR *directory = opendir("/sys/class/infiniband");
    if (directory == NULL) {
        return false;
    }
    bool found = false;
    for (struct dirent *entry = readdir(directory); entry != NULL && !found; entry = readdir(directory)) {
        found = entry->d_name[0] != '.';
    }
    closedir(directory);
    return found;
}

static uint32_t count_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        return (uint32_t)CPU_COUNT(&set);
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

void tt_machine_examine(const struct tt_settings *settings, struct tt_machine *machine)
{
    uint64_t wanted =
        settings->receive_buffer_bytes == TT_AUTO ? TT_UDP_RECEIVE_BUFFER_BYTES : settings->receive_buffer_bytes;
    *machine = (struct tt_machine){
        .receive_limit_bytes = read_number("/proc/sys/net/core/rmem_max"),
        .receive_granted_bytes = try_buffer(SO_RCVBUFFORCE, SO_RCVBUF, wanted),
        .receive_wanted_bytes = wanted,
        .send_limit_bytes = read_number("/proc/sys/net/core/wmem_max"),
        .send_granted_bytes = try_buffer(SO_SNDBUFFORCE, SO_SNDBUF, TT_UDP_SEND_BUFFER_BYTES),
        .send_wanted_bytes = TT_UDP_SEND_BUFFER_BYTES,
        .memlock_bytes = read_resource(RLIMIT_MEMLOCK),
        .descriptors = read_resource(RLIMIT_NOFILE),
        .memberships = read_number("/proc/sys/net/ipv4/igmp_max_memberships"),
        .cores = count_cores(),
        .has_rdma = find_rdma(),
    };
}

/* --- Judging it --------------------------------------------------------------------------------------------------- */

static void add(struct tt_findings *findings, const char *check, enum tt_verdict verdict, const char *advice,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

static void add(struct tt_findings *findings, const char *check, enum tt_verdict verdict, const char *advice,
                const char *format, ...)
{
    char found[TT_FINDING_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(found, sizeof(found), format, arguments);
    va_end(arguments);
    tt_findings_add(findings, check, verdict, "", found, verdict == TT_VERDICT_OK ? "" : advice);
}

static void judge_buffer(const char *check, const char *limit_name, uint64_t limit_bytes, uint64_t granted_bytes,
                         uint64_t wanted_bytes, struct tt_findings *findings)
{
    enum tt_verdict verdict = TT_VERDICT_OK;
    char advice[TT_FINDING_BYTES];
    char limit[32] = "not known";
    if (granted_bytes < wanted_bytes) {
        verdict = granted_bytes < SMALL_BUFFER_BYTES ? TT_VERDICT_FAIL : TT_VERDICT_WARN;
    }
    if (limit_bytes != UINT64_MAX) {
        snprintf(limit, sizeof(limit), "%" PRIu64, limit_bytes);
    }
    snprintf(advice, sizeof(advice), "sysctl -w net.core.%s=%" PRIu64 " (bursts that do not fit are lost and repaired)",
             limit_name, wanted_bytes);
    add(findings, check, verdict, advice, "a socket gets %" PRIu64 " of %" PRIu64 " bytes (%s %s)", granted_bytes,
        wanted_bytes, limit_name, limit);
}

static void judge_memlock(const struct tt_machine *machine, struct tt_findings *findings)
{
    if (machine->memlock_bytes == UINT64_MAX) {
        add(findings, "memlock limit", TT_VERDICT_OK, "", "unlimited");
        return;
    }
    bool matters = machine->has_rdma && machine->memlock_bytes < WANTED_MEMLOCK_BYTES;
    add(findings, "memlock limit", matters ? TT_VERDICT_WARN : TT_VERDICT_OK,
        "ulimit -l unlimited, or memlock in limits.conf: RDMA locks the memory of every buffer", "%" PRIu64 " KiB%s",
        machine->memlock_bytes >> 10, machine->has_rdma ? "" : "; there is no RDMA device that would need it");
}

static void judge_descriptors(const struct tt_machine *machine, const struct tt_settings *settings, uint32_t rank_count,
                              struct tt_findings *findings)
{
    uint64_t subgroups = settings->subgroups != TT_AUTO ? settings->subgroups
                         : settings->workers > 1        ? settings->workers
                                                        : 1;
    uint64_t need =
        DESCRIPTORS_OF_A_PROCESS + (uint64_t)DESCRIPTORS_OF_A_PEER * rank_count + DESCRIPTORS_OF_A_SUBGROUP * subgroups;
    char advice[TT_FINDING_BYTES];
    if (machine->descriptors == UINT64_MAX) {
        add(findings, "file descriptors", TT_VERDICT_OK, "", "unlimited");
        return;
    }
    snprintf(advice, sizeof(advice), "ulimit -n %" PRIu64 ", or nofile in limits.conf", need);
    add(findings, "file descriptors", machine->descriptors < need ? TT_VERDICT_FAIL : TT_VERDICT_OK, advice,
        "%" PRIu64 ", a rank needs about %" PRIu64, machine->descriptors, need);
}

static void judge_memberships(const struct tt_machine *machine, struct tt_findings *findings)
{
    if (machine->memberships == UINT64_MAX) {
        add(findings, "multicast memberships", TT_VERDICT_OK, "", "not known");
        return;
    }
    add(findings, "multicast memberships", machine->memberships == 0 ? TT_VERDICT_FAIL : TT_VERDICT_OK,
        "sysctl -w net.ipv4.igmp_max_memberships=20", "%" PRIu64 " a socket, one is needed", machine->memberships);
}

static void judge_cores(const struct tt_machine *machine, const struct tt_settings *settings, uint32_t rank_count,
                        struct tt_findings *findings)
{
    if (rank_count == 0) {
        add(findings, "cores", TT_VERDICT_OK, "", "%" PRIu32 "; say -n RANKS to compare", machine->cores);
        return;
    }
    uint64_t threads = rank_count * (1 + settings->workers);
    char advice[TT_FINDING_BYTES];
    snprintf(advice, sizeof(advice), "fewer ranks%s; it works, but %" PRIu64 " threads take turns",
             settings->workers > 0 ? ", or TUTTI_WORKERS=0" : "", threads);
    add(findings, "cores", threads > machine->cores ? TT_VERDICT_WARN : TT_VERDICT_OK, advice,
        "%" PRIu32 " for %" PRIu32 " ranks with %" PRIu64 " workers each", machine->cores, rank_count,
        settings->workers);
}

void tt_doctor_judge_machine(const struct tt_machine *machine, const struct tt_settings *settings, uint32_t rank_count,
                             struct tt_findings *findings)
{
    judge_buffer("receive buffer", "rmem_max", machine->receive_limit_bytes, machine->receive_granted_bytes,
                 machine->receive_wanted_bytes, findings);
    judge_buffer("send buffer", "wmem_max", machine->send_limit_bytes, machine->send_granted_bytes,
                 machine->send_wanted_bytes, findings);
    judge_memlock(machine, findings);
    judge_descriptors(machine, settings, rank_count, findings);
    judge_memberships(machine, findings);
    judge_cores(machine, settings, rank_count, findings);
}

void tt_doctor_judge_mtu(const struct tt_interface *interface, const struct tt_settings *settings,
                         struct tt_findings *findings)
{
    char subject[TT_INTERFACE_TEXT_BYTES];
    char found[TT_FINDING_BYTES];
    char advice[TT_FINDING_BYTES] = "";
    enum tt_verdict verdict = TT_VERDICT_OK;
    snprintf(found, sizeof(found), "%" PRIu32 " bytes", interface->mtu);
    if (settings->chunk_bytes < TT_CHUNK_FRAME && settings->chunk_bytes + HEADER_BYTES > interface->mtu) {
        verdict = TT_VERDICT_FAIL;
        snprintf(advice, sizeof(advice), "TUTTI_CHUNK=auto, or below the MTU: %" PRIu64 " bytes do not fit",
                 settings->chunk_bytes);
    } else if (interface->mtu < SMALLEST_MTU) {
        verdict = TT_VERDICT_WARN;
        snprintf(advice, sizeof(advice), "ip link set %s mtu 1500: every datagram costs the same, small ones waste it",
                 interface->name);
    } else if (!interface->loopback && interface->mtu < JUMBO_MTU) {
        snprintf(advice, sizeof(advice), "%d is faster, if all switches and hosts can", JUMBO_MTU);
    }
    tt_findings_add(findings, "MTU", verdict, tt_interface_format(interface, subject), found, advice);
}

bool tt_doctor_try_multicast(const struct tt_interface *interface, bool required, struct tt_findings *findings)
{
    char subject[TT_INTERFACE_TEXT_BYTES];
    char found[TT_FINDING_BYTES];
    char advice_text[TT_FINDING_BYTES];
    const char *advice = "";
    enum tt_verdict verdict = TT_VERDICT_OK;
    struct tt_udp_probe probe;
    if (!tt_interface_does_multicast(interface)) {
        bool ipv6 = tt_ip_is_ipv6(interface->ip);
        snprintf(advice_text, sizeof(advice_text),
                 ipv6 ? "an IPv4 address for %s, on all hosts; without, jobs run over slower point-to-point algorithms"
                      : "`ip link set %s multicast on`, where its network has multicast; without, "
                        "jobs run over slower point-to-point algorithms",
                 interface->name);
        tt_findings_add(findings, "multicast", required ? TT_VERDICT_FAIL : TT_VERDICT_WARN,
                        tt_interface_format(interface, subject),
                        ipv6 ? "there is none over IPv6" : "the interface does not have the flag MULTICAST",
                        advice_text);
        return false;
    }
    tutti_status status = tt_udp_probe_loop(interface, PROBE_TIMEOUT_NS, &probe);
    if (status == TUTTI_OK) {
        snprintf(found, sizeof(found), "came back after %" PRIu64 " us", probe.round_trip_ns / TT_NS_PER_US);
    } else {
        verdict = required ? TT_VERDICT_FAIL : TT_VERDICT_WARN;
        snprintf(found, sizeof(found), "failed at %s: %s", probe.step,
                 probe.error != 0 ? strerror(probe.error) : "nothing came back");
        advice = status == TUTTI_ERR_TIMED_OUT ? "look for a packet filter that drops UDP to 239.0.0.0/8"
                                               : "choose another interface with TUTTI_INTERFACE";
    }
    tt_findings_add(findings, "multicast", verdict, tt_interface_format(interface, subject), found, advice);
    return status == TUTTI_OK;
}

void tt_findings_put_json(const struct tt_findings *findings, const char *subject, struct tt_json *json)
{
    tt_json_begin_array(json, "checks");
    for (size_t i = 0; i < findings->count; i++) {
        const struct tt_finding *finding = &findings->items[i];
        tt_json_begin_object(json, NULL);
        tt_json_text(json, "check", finding->check);
        tt_json_text(json, subject, finding->subject);
        tt_json_text(json, "verdict", tt_verdict_name(finding->verdict));
        tt_json_text(json, "found", finding->found);
        tt_json_text(json, "advice", finding->advice);
        tt_json_end_object(json);
    }
    tt_json_end_array(json);
}
