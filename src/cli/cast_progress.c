/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: a line that says how far it is, how fast it goes, and when it will be over.
 *
 * Normal path: begin, add for every segment, end. The rate is that since the beginning; the time left follows from it.
 *
 * Failures: a size that is unknown, or that was wrong (a file that has grown), gives a line without share and time.
 */
#include "cli/cast_progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cast_record.h"

#define INTERVAL_NS (200 * TT_NS_PER_MS)
#define TOO_LONG_S  (100 * 3600)

enum { BAR_WIDTH = 20, TEXT_BYTES = 32 };

const char *tt_format_bytes(uint64_t bytes, char *text, size_t text_bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned unit = 0;
    /* What would be rounded up to 1024 is one of the next unit. */
    while (value >= (unit == 0 ? 1024 : 1023.5)) {
        value /= 1024;
        unit++;
    }
    snprintf(text, text_bytes, "%.*f %s", unit == 0 || value >= 99.95 ? 0 : 1, value, units[unit]);
    return text;
}

/* "1:02:03" or "2:03". */
static void format_left(double seconds, char text[TEXT_BYTES])
{
    uint64_t whole = seconds < TOO_LONG_S ? (uint64_t)(seconds + 0.5) : TOO_LONG_S;
    if (seconds >= TOO_LONG_S) {
        snprintf(text, TEXT_BYTES, "long");
    } else if (whole >= 3600) {
        snprintf(text, TEXT_BYTES, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, whole / 3600, whole / 60 % 60, whole % 60);
    } else {
        snprintf(text, TEXT_BYTES, "%" PRIu64 ":%02" PRIu64, whole / 60, whole % 60);
    }
}

static void format_bar(double share, char bar[BAR_WIDTH + 1])
{
    int full = (int)(share * BAR_WIDTH);
    memset(bar, ' ', BAR_WIDTH);
    memset(bar, '=', (size_t)full);
    if (full < BAR_WIDTH) {
        bar[full] = '>';
    }
    bar[BAR_WIDTH] = '\0';
}

void tt_cast_progress_format(const struct tt_cast_progress *progress, uint64_t now_ns, char text[TT_PROGRESS_BYTES])
{
    char done[TEXT_BYTES], size[TEXT_BYTES], left[TEXT_BYTES], bar[BAR_WIDTH + 1];
    double seconds = (double)(now_ns - progress->begun_ns) / (double)TT_NS_PER_S;
    double rate = seconds > 0 ? (double)progress->done_bytes / seconds : 0;

    tt_format_bytes(progress->done_bytes, done, sizeof(done));
    if (progress->size_bytes == TT_CAST_UNKNOWN || progress->done_bytes > progress->size_bytes) {
        snprintf(text, TT_PROGRESS_BYTES, "%s  %.1f MB/s", done, rate / 1e6);
        return;
    }
    double share = progress->size_bytes == 0 ? 1 : (double)progress->done_bytes / (double)progress->size_bytes;
    format_bar(share, bar);
    format_left(rate > 0 ? (double)(progress->size_bytes - progress->done_bytes) / rate : 0, left);
    bool has_rate = rate > 0 || progress->done_bytes == progress->size_bytes;
    snprintf(text, TT_PROGRESS_BYTES, "[%s] %3d %%  %s of %s  %.1f MB/s  %s left", bar, (int)(share * 100), done,
             tt_format_bytes(progress->size_bytes, size, sizeof(size)), rate / 1e6, has_rate ? left : "?");
}

void tt_cast_progress_begin(struct tt_cast_progress *progress, uint64_t size_bytes, bool is_shown)
{
    *progress =
        (struct tt_cast_progress){.is_shown = is_shown, .size_bytes = size_bytes, .begun_ns = tt_clock_now_ns()};
}

static void draw(struct tt_cast_progress *progress, uint64_t now_ns)
{
    char text[TT_PROGRESS_BYTES];
    tt_cast_progress_format(progress, now_ns, text);
    fprintf(stderr, "\r%s\033[K", text);
    progress->drawn_ns = now_ns;
    progress->is_drawn = true;
}

void tt_cast_progress_add(struct tt_cast_progress *progress, uint64_t bytes)
{
    uint64_t now_ns = tt_clock_now_ns();
    progress->done_bytes += bytes;
    if (progress->is_shown && now_ns - progress->drawn_ns >= INTERVAL_NS) {
        draw(progress, now_ns);
    }
}

void tt_cast_progress_end(struct tt_cast_progress *progress)
{
    if (progress->is_shown) {
        draw(progress, tt_clock_now_ns());
        fputc('\n', stderr);
        progress->is_drawn = false;
    }
}

void tt_cast_progress_clear(struct tt_cast_progress *progress)
{
    if (progress->is_drawn) {
        fputs("\r\033[K", stderr);
        progress->is_drawn = false;
    }
}
