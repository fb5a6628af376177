/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: which hosts and pairs of a job are slow, and which lose datagrams.
 *
 * Normal path: a host is compared with the median of all; it loses datagrams if most of its partners see that, else a
 * pair does. Two hosts have no median: one direction is compared with the other.
 *
 * Failures: none here.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cli/doctor_verdict.h"
#include "cli/table.h"

enum {
    SLOW_PERCENT = 90,      /* of the median: below it a host is slow */
    SLOW_PAIR_PERCENT = 75, /* of what both its hosts do elsewhere */
    LOSS_WARN_PPM = 100,
    LOSS_FAIL_PPM = 100000,
    LOSS_LEAST = 3, /* datagrams: fewer may be chance */
    OVERFLOW_PPM = 1000
};

/* --- Rate --------------------------------------------------------------------------------------------------------- */

static bool is_below(uint32_t value, uint32_t percent, uint32_t of)
{
    return value > 0 && (uint64_t)value * 100 < (uint64_t)of * percent;
}

/* In Mbit/s. */
static const char *rate_text(uint32_t rate_kbit, char text[TT_CELL_BYTES])
{
    return tt_cell_fixed(text, rate_kbit / 1000.0);
}

static uint32_t median_rate(const struct tt_doctor_view *view, bool out)
{
    uint32_t rates[TT_PATHS_HOST_LIMIT];
    size_t count = 0;
    for (uint32_t host = 0; host < view->paths->host_count; host++) {
        uint32_t rate = out ? view->figures[host].rate_out_kbit : view->figures[host].rate_in_kbit;
        if (rate > 0) {
            rates[count++] = rate;
        }
    }
    return tt_paths_upper_median(rates, count); /* with few hosts the better one: slow ones are what is looked for */
}

static void judge_slow_host(struct tt_doctor_view *view, uint32_t host, uint32_t median_out, uint32_t median_in,
                            bool *slow)
{
    char texts[4][TT_CELL_BYTES];
    const struct tt_paths_figures *figures = &view->figures[host];
    char subject[TT_PATHS_HOST_TEXT_BYTES];
    bool slow_out = is_below(figures->rate_out_kbit, SLOW_PERCENT, median_out);
    bool slow_in = is_below(figures->rate_in_kbit, SLOW_PERCENT, median_in);
    *slow = slow_out || slow_in;
    if (!*slow) {
        return;
    }
    tt_doctor_add(
        view, "rate", TT_VERDICT_WARN, tt_doctor_subject(view, host, subject),
        "look at its link's speed (ethtool), its switch port and its load: the slowest host is what a collective waits "
        "for",
        "%s Mbit/s out and %s in; the median is %s out and %s in", rate_text(figures->rate_out_kbit, texts[0]),
        rate_text(figures->rate_in_kbit, texts[1]), rate_text(median_out, texts[2]), rate_text(median_in, texts[3]));
}

static void judge_slow_pairs(struct tt_doctor_view *view, const bool *slow)
{
    char texts[4][TT_CELL_BYTES];
    const struct tt_paths *paths = view->paths;
    char subject[TT_FINDING_SUBJECT_BYTES];
    for (uint32_t from = 0; from < paths->host_count; from++) {
        for (uint32_t to = 0; to < paths->host_count; to++) {
            uint32_t rate = tt_paths_at(paths, from, to)->rate_kbit;
            uint32_t out = view->figures[from].rate_out_kbit;
            uint32_t in = view->figures[to].rate_in_kbit;
            uint32_t least = out < in ? out : in;
            if (from != to && !slow[from] && !slow[to] && is_below(rate, SLOW_PAIR_PERCENT, least) &&
                tt_doctor_subject_pair(view, from, to, " to ", subject)) {
                tt_doctor_add(view, "rate", TT_VERDICT_WARN, subject, "look at the switches and cables between them",
                              "%s Mbit/s, both do %s with others", rate_text(rate, texts[0]),
                              rate_text(least, texts[1]));
            }
        }
    }
    tt_doctor_close_pairs(view, "rate", TT_VERDICT_WARN);
}

static void judge_two(struct tt_doctor_view *view)
{
    char texts[4][TT_CELL_BYTES];
    uint32_t there = tt_paths_at(view->paths, 0, 1)->rate_kbit;
    uint32_t back = tt_paths_at(view->paths, 1, 0)->rate_kbit;
    uint32_t from = there < back ? 0 : 1;
    uint32_t slower = there < back ? there : back;
    uint32_t faster = there < back ? back : there;
    char subject[TT_FINDING_SUBJECT_BYTES];
    if (is_below(slower, SLOW_PERCENT, faster)) {
        tt_doctor_subject_pair(view, from, 1 - from, " to ", subject);
        view->pairs = 0;
        tt_doctor_add(view, "rate", TT_VERDICT_WARN, subject,
                      "look at both links' speed (ethtool), and at the hosts' load", "%s Mbit/s, %s the other way",
                      rate_text(slower, texts[0]), rate_text(faster, texts[1]));
    }
}

void tt_doctor_judge_rate(struct tt_doctor_view *view)
{
    bool slow[TT_PATHS_HOST_LIMIT] = {false};
    if (view->paths->host_count == 2) {
        judge_two(view);
        return;
    }
    uint32_t median_out = median_rate(view, true);
    uint32_t median_in = median_rate(view, false);
    for (uint32_t host = 0; host < view->paths->host_count; host++) {
        judge_slow_host(view, host, median_out, median_in, &slow[host]);
    }
    judge_slow_pairs(view, slow);
}

/* --- Loss --------------------------------------------------------------------------------------------------------- */

static uint32_t loss_ppm(const struct tt_path *path)
{
    return tt_paths_ppm(path->lost, path->sent);
}

static bool is_lossy(uint32_t ppm, uint64_t lost)
{
    return ppm >= LOSS_WARN_PPM && lost >= LOSS_LEAST;
}

/* The middle of what a host's partners see: above 0 if most of them see it, so that it is the host's. */
static uint32_t middle_loss_ppm(const struct tt_paths *paths, uint32_t host, bool in)
{
    uint32_t losses[TT_PATHS_HOST_LIMIT];
    size_t count = 0;
    for (uint32_t other = 0; other < paths->host_count; other++) {
        const struct tt_path *path = in ? tt_paths_at(paths, other, host) : tt_paths_at(paths, host, other);
        if (other != host && path->sent > 0) {
            losses[count++] = loss_ppm(path);
        }
    }
    return tt_paths_median(losses, count);
}

static enum tt_verdict loss_verdict(uint32_t ppm)
{
    return ppm >= LOSS_FAIL_PPM ? TT_VERDICT_FAIL : TT_VERDICT_WARN;
}

/* Whether what is said of one of the hosts, for all of its paths, is as bad as this path is. */
static bool is_covered(const struct tt_doctor_view *view, const bool *in, const bool *out, uint32_t from, uint32_t to,
                       enum tt_verdict verdict)
{
    return (out[from] && loss_verdict(view->figures[from].loss_out_ppm) >= verdict) ||
           (in[to] && loss_verdict(view->figures[to].loss_in_ppm) >= verdict);
}

/* Of paths that are not named, the worst counts. */
static void name_losses(struct tt_doctor_view *view, const bool *in, const bool *out)
{
    static const char *const advice = "look at its cable, its port's error counters (ethtool -S) and its pauses";
    const struct tt_paths *paths = view->paths;
    enum tt_verdict rest = TT_VERDICT_WARN;
    char subject[TT_FINDING_SUBJECT_BYTES];
    for (uint32_t host = 0; host < paths->host_count; host++) {
        const struct tt_paths_figures *figures = &view->figures[host];
        if (in[host]) {
            tt_doctor_add(view, "loss", loss_verdict(figures->loss_in_ppm), tt_doctor_subject(view, host, subject),
                          advice, "%" PRIu32 " ppm of what is sent to it are lost, far below its rate",
                          figures->loss_in_ppm);
        }
        if (out[host]) {
            tt_doctor_add(view, "loss", loss_verdict(figures->loss_out_ppm), tt_doctor_subject(view, host, subject),
                          advice, "%" PRIu32 " ppm of what it sends are lost, far below its rate",
                          figures->loss_out_ppm);
        }
        for (uint32_t to = 0; to < paths->host_count; to++) {
            const struct tt_path *path = tt_paths_at(paths, host, to);
            enum tt_verdict verdict = loss_verdict(loss_ppm(path));
            if (to == host || !is_lossy(loss_ppm(path), path->lost) || is_covered(view, in, out, host, to, verdict)) {
                continue;
            }
            if (tt_doctor_subject_pair(view, host, to, " to ", subject)) {
                tt_doctor_add(view, "loss", verdict, subject, "look at the switches and cables between them",
                              "%" PRIu32 " of %" PRIu32 " datagrams were lost", path->lost, path->sent);
            } else {
                rest = verdict > rest ? verdict : rest;
            }
        }
    }
    tt_doctor_close_pairs(view, "loss", rest);
}

static void judge_overflow(struct tt_doctor_view *view)
{
    char subject[TT_PATHS_HOST_TEXT_BYTES];
    for (uint32_t host = 0; host < view->paths->host_count; host++) {
        uint32_t ppm = view->figures[host].overflow_ppm;
        if (ppm >= OVERFLOW_PPM) {
            tt_doctor_add(view, "receive buffer", TT_VERDICT_WARN, tt_doctor_subject(view, host, subject),
                          "run tutti doctor there: net.core.rmem_max, or more ranks than cores",
                          "%" PRIu32 " ppm of what came found the socket full", ppm);
        }
    }
}

void tt_doctor_judge_loss(struct tt_doctor_view *view)
{
    const struct tt_paths *paths = view->paths;
    bool in[TT_PATHS_HOST_LIMIT] = {false}, out[TT_PATHS_HOST_LIMIT] = {false};
    uint32_t count = 0, least = UINT32_MAX, most = 0;
    for (uint32_t host = 0; host < paths->host_count; host++) {
        const struct tt_paths_figures *figures = &view->figures[host];
        in[host] = is_lossy(figures->loss_in_ppm, figures->lost_in) && middle_loss_ppm(paths, host, true) > 0;
        if (in[host]) {
            count++;
            least = figures->loss_in_ppm < least ? figures->loss_in_ppm : least;
            most = figures->loss_in_ppm > most ? figures->loss_in_ppm : most;
        }
    }
    for (uint32_t host = 0; host < paths->host_count && paths->host_count > 2; host++) {
        const struct tt_paths_figures *figures = &view->figures[host];
        out[host] = count < paths->host_count && is_lossy(figures->loss_out_ppm, figures->lost_out) &&
                    middle_loss_ppm(paths, host, false) > 0 && count * 2 < paths->host_count;
    }
    if (paths->host_count > 2 && count * 2 > paths->host_count) {
        tt_doctor_add(view, "loss", loss_verdict(most), "",
                      "look at the switch: error counters, policers, storm control",
                      "datagrams to %" PRIu32 " of %" PRIu32 " hosts are lost, %" PRIu32 " to %" PRIu32
                      " ppm, far below the rate",
                      count, paths->host_count, least, most);
    } else {
        name_losses(view, in, out);
    }
    judge_overflow(view);
}
