/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what `tutti doctor --job` prints.
 *
 * Normal path: one line a host, the pairs if they were asked for and fit, then what was found and what to do.
 *
 * Failures: none here; what was not measured is "-", and null in JSON.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/doctor_job.h"
#include "cli/json.h"
#include "cli/table.h"

enum { COLUMNS = 12, MATRIX_LIMIT = 16, LINE_CELLS = COLUMNS * TT_PATHS_HOST_LIMIT };

typedef char cell[TT_PATHS_NAME_BYTES];

static const char *cell_of_rate(char *text, uint32_t kbit)
{
    if (kbit == 0) {
        snprintf(text, TT_CELL_BYTES, "-");
        return text;
    }
    return tt_cell_fixed(text, kbit / 1000.0);
}

static const char *cell_of_loss(char *text, uint32_t ppm, uint32_t sent)
{
    snprintf(text, TT_CELL_BYTES, sent > 0 ? "%" PRIu32 : "-", ppm);
    return text;
}

static const char *cell_of_packet(char *text, uint32_t payload_bytes)
{
    snprintf(text, TT_CELL_BYTES, payload_bytes > 0 ? "%" PRIu32 : "-", payload_bytes + TT_PATHS_PACKET_BYTES);
    return text;
}

static const char *cell_of_time(char *text, uint32_t ns)
{
    if (ns == 0) {
        snprintf(text, TT_CELL_BYTES, "-");
        return text;
    }
    return tt_cell_fixed(text, ns / 1000.0);
}

static void fill_row(const struct tt_paths *paths, uint32_t index, cell *room, const char **cells)
{
    const struct tt_paths_host *host = &paths->hosts[index];
    struct tt_paths_figures figures;
    tt_paths_figure(paths, index, &figures);
    inet_ntop(AF_INET, &host->address_be, room[3], sizeof(room[3]));
    snprintf(room[6], sizeof(room[6]), "%" PRIu32 " of %" PRIu32, figures.heard, figures.heard_of);
    const char *const row[COLUMNS] = {tt_cell_count(room[0], host->rank),
                                      host->name,
                                      host->interface,
                                      room[3],
                                      tt_cell_count(room[4], host->mtu_bytes),
                                      cell_of_packet(room[5], figures.payload_bytes),
                                      room[6],
                                      cell_of_rate(room[7], figures.rate_out_kbit),
                                      cell_of_rate(room[8], figures.rate_in_kbit),
                                      cell_of_loss(room[9], figures.loss_out_ppm, figures.sent_out),
                                      cell_of_loss(room[10], figures.loss_in_ppm, figures.sent_in),
                                      cell_of_time(room[11], figures.round_trip_ns)};
    for (int i = 0; i < COLUMNS; i++) {
        cells[i] = row[i];
    }
}

static void print_hosts(const struct tt_paths *paths)
{
    static const struct tt_column columns[COLUMNS] = {
        {"rank", NULL, 0, false},      {"host", NULL, 0, true},      {"interface", NULL, 0, true},
        {"address", NULL, 0, true},    {"MTU", "B", 0, false},       {"passes", "B", 0, false},
        {"hears", "hosts", 0, false},  {"out", "Mbit/s", 0, false},  {"in", "Mbit/s", 0, false},
        {"loss out", "ppm", 0, false}, {"loss in", "ppm", 0, false}, {"round trip", "us", 0, false},
    };
    const size_t skipped = paths->rankless ? 1 : 0; /* the ranks */
    static cell room[LINE_CELLS];
    static const char *cells[LINE_CELLS];
    for (uint32_t host = 0; host < paths->host_count; host++) {
        const char *row[COLUMNS];
        fill_row(paths, host, &room[(size_t)host * COLUMNS], row);
        memcpy(&cells[(size_t)host * (COLUMNS - skipped)], row + skipped, (COLUMNS - skipped) * sizeof(*row));
    }
    tt_table_print(stdout, columns + skipped, COLUMNS - skipped, cells, paths->host_count);
}

/* One matrix: a row a sender, a column a receiver. */
static void print_matrix(const struct tt_paths *paths, const char *title, bool loss)
{
    static cell room[MATRIX_LIMIT * (MATRIX_LIMIT + 1)];
    static const char *cells[MATRIX_LIMIT * (MATRIX_LIMIT + 1)];
    struct tt_column columns[MATRIX_LIMIT + 1] = {{"from \\ to", NULL, 0, true}};
    uint32_t width = paths->host_count + 1;
    for (uint32_t from = 0; from < paths->host_count; from++) {
        columns[from + 1].title = paths->hosts[from].name;
        cells[(size_t)from * width] = paths->hosts[from].name;
        for (uint32_t to = 0; to < paths->host_count; to++) {
            const struct tt_path *path = tt_paths_at(paths, from, to);
            size_t place = (size_t)from * width + to + 1;
            cells[place] = loss ? cell_of_loss(room[place], tt_paths_ppm(path->lost, path->sent), path->sent)
                                : cell_of_rate(room[place], path->rate_kbit);
        }
    }
    printf("\n%s\n", title);
    tt_table_print(stdout, columns, width, cells, paths->host_count);
}

void tt_doctor_print_findings(const struct tt_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        const struct tt_finding *finding = &findings->items[i];
        printf("%s: %s%s%s: %s\n", tt_verdict_name(finding->verdict), finding->check,
               finding->subject[0] != '\0' ? " of " : "", finding->subject, finding->found);
        if (finding->advice[0] != '\0') {
            printf("      %s: %s\n", finding->verdict == TT_VERDICT_OK ? "hint" : "to do", finding->advice);
        }
    }
    printf("verdict: %s\n", tt_verdict_name(findings->worst));
}

void tt_doctor_print_paths(const struct tt_paths *paths, const struct tt_findings *findings, bool pairs)
{
    char one[TT_PATHS_HOST_TEXT_BYTES], other[TT_PATHS_HOST_TEXT_BYTES];
    double duration_s = (double)paths->duration_ns / (double)TT_NS_PER_S;
    if (paths->rankless) {
        printf("%s and %s, measured for %.1f s\n\n", tt_paths_host_text(&paths->hosts[0], one),
               tt_paths_host_text(&paths->hosts[1], other), duration_s);
    } else {
        printf("%" PRIu32 " ranks on %" PRIu32 " host%s, measured for %.1f s; the group uses %s\n\n", paths->rank_count,
               paths->one_host ? 1 : paths->host_count, paths->one_host ? "" : "s", duration_s,
               paths->group_multicast ? "multicast" : "no multicast");
    }
    print_hosts(paths);
    if (pairs && paths->host_count <= MATRIX_LIMIT) {
        print_matrix(paths, "rate in Mbit/s", false);
        print_matrix(paths, "loss in ppm", true);
    } else if (pairs) {
        printf("\nthe pairs of more than %d hosts are shown with --json only\n", MATRIX_LIMIT);
    }
    printf("\n");
    tt_doctor_print_findings(findings);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

void tt_doctor_print_findings_json(const struct tt_findings *findings, const char *subject)
{
    struct tt_json json;
    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_json_text(&json, "verdict", tt_verdict_name(findings->worst));
    tt_findings_put_json(findings, subject, &json);
    tt_json_end_object(&json);
}

/* A number, or null if it was not measured. */
static void put(struct tt_json *json, const char *key, bool measured, double number)
{
    tt_json_number(json, key, measured ? number : (double)NAN);
}

static void print_host_json(struct tt_json *json, const struct tt_paths *paths, uint32_t index)
{
    const struct tt_paths_host *host = &paths->hosts[index];
    struct tt_paths_figures figures;
    char address[INET_ADDRSTRLEN] = "";
    tt_paths_figure(paths, index, &figures);
    inet_ntop(AF_INET, &host->address_be, address, sizeof(address));
    tt_json_begin_object(json, NULL);
    tt_json_count(json, "rank", host->rank);
    tt_json_text(json, "host", host->name);
    tt_json_count(json, "ranks", host->rank_count);
    tt_json_text(json, "interface", host->interface);
    tt_json_text(json, "address", address);
    tt_json_count(json, "mtu_bytes", host->mtu_bytes);
    put(json, "payload_bytes", figures.payload_bytes > 0, figures.payload_bytes);
    tt_json_count(json, "multicast_heard", figures.heard);
    tt_json_begin_array(json, "multicast_not_heard");
    for (uint32_t other = 0; other < paths->host_count; other++) {
        const struct tt_path *path = tt_paths_at(paths, other, index);
        if (path->multicast_tried && !path->multicast_heard) {
            tt_json_count(json, NULL, paths->hosts[other].rank);
        }
    }
    tt_json_end_array(json);
    put(json, "rate_out_mbit_per_s", figures.rate_out_kbit > 0, figures.rate_out_kbit / 1000.0);
    put(json, "rate_in_mbit_per_s", figures.rate_in_kbit > 0, figures.rate_in_kbit / 1000.0);
    put(json, "loss_out_ppm", figures.sent_out > 0, figures.loss_out_ppm);
    put(json, "loss_in_ppm", figures.sent_in > 0, figures.loss_in_ppm);
    put(json, "overflow_ppm", figures.sent_in > 0, figures.overflow_ppm);
    put(json, "round_trip_us", figures.round_trip_ns > 0, figures.round_trip_ns / 1000.0);
    tt_json_end_object(json);
}

/* What became of the connections from the first to the second, and of datagrams where none arrives. */
static void print_knocks_json(struct tt_json *json, const struct tt_path *path)
{
    static const char *const words[TT_KNOCK_COUNT] = {
        [TT_KNOCK_NONE] = "untried",      [TT_KNOCK_OPEN] = "open",     [TT_KNOCK_REFUSED] = "refused",
        [TT_KNOCK_REJECTED] = "rejected", [TT_KNOCK_SILENT] = "silent", [TT_KNOCK_STALLED] = "stalled",
        [TT_KNOCK_BROKEN] = "broken"};
    tt_json_text(json, "udp", path->arrived ? words[TT_KNOCK_OPEN] : words[path->udp]);
    tt_json_begin_array(json, "tcp");
    for (int i = 0; i < TT_DOCTOR_PORTS; i++) {
        if (path->tcp_port[i] != 0) {
            tt_json_begin_object(json, NULL);
            tt_json_count(json, "port", path->tcp_port[i]);
            tt_json_text(json, "result", words[path->tcp[i]]);
            tt_json_end_object(json);
        }
    }
    tt_json_end_array(json);
}

static void print_pairs_json(struct tt_json *json, const struct tt_paths *paths)
{
    tt_json_begin_array(json, "pairs");
    for (uint32_t from = 0; from < paths->host_count; from++) {
        for (uint32_t to = 0; to < paths->host_count; to++) {
            const struct tt_path *path = tt_paths_at(paths, from, to);
            if (from == to) {
                continue;
            }
            tt_json_begin_object(json, NULL);
            tt_json_count(json, "from", paths->hosts[from].rank);
            tt_json_count(json, "to", paths->hosts[to].rank);
            tt_json_flag(json, "multicast_heard", path->multicast_heard);
            put(json, "payload_bytes", path->payload_bytes > 0, path->payload_bytes);
            put(json, "round_trip_us", path->round_trip_ns > 0, path->round_trip_ns / 1000.0);
            put(json, "rate_mbit_per_s", path->rate_kbit > 0, path->rate_kbit / 1000.0);
            if (paths->rankless) {
                print_knocks_json(json, path);
            }
            tt_json_count(json, "sent", path->sent);
            put(json, "loss_ppm", path->sent > 0, tt_paths_ppm(path->lost, path->sent));
            tt_json_end_object(json);
        }
    }
    tt_json_end_array(json);
}

void tt_doctor_print_paths_json(const struct tt_paths *paths, const struct tt_findings *findings)
{
    struct tt_json json;
    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_json_text(&json, "verdict", tt_verdict_name(findings->worst));
    tt_json_count(&json, "ranks", paths->rank_count);
    if (!paths->rankless) {
        tt_json_flag(&json, "group_multicast", paths->group_multicast);
    }
    tt_json_flag(&json, "stopped", paths->stopped);
    tt_json_number(&json, "duration_s", (double)paths->duration_ns / (double)TT_NS_PER_S);
    tt_json_begin_array(&json, "hosts");
    for (uint32_t host = 0; host < paths->host_count; host++) {
        print_host_json(&json, paths, host);
    }
    tt_json_end_array(&json);
    print_pairs_json(&json, paths);
    tt_findings_put_json(findings, "subject", &json);
    tt_json_end_object(&json);
}
