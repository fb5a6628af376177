/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: a line that says how far it is, how fast it goes, and when it will be over.
 *
 * Normal path: begin, add for every segment, end. The rate is that since the beginning; the time left follows from it.
 *
 * Failures: a size that is unknown, or that was wrong (a file that has grown), gives a line without share and time.
 * What the terminal cannot show in one line is cut, as a line that has been broken cannot be drawn over.
 */
#include "cli/cast_progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

uint32_t tt_cast_progress_line(const struct tt_cast_progress *progress, const char *text, uint32_t columns,
                               char line[2 * TT_PROGRESS_BYTES])
{
    uint32_t length = (uint32_t)strlen(text);
    if (columns > 0 && length > columns - 1) {
        length = columns - 1;
    }
    uint32_t blanks = !progress->has_escapes && progress->drawn_columns > length ? progress->drawn_columns - length : 0;
    snprintf(line, 2 * (size_t)TT_PROGRESS_BYTES, "\r%.*s%*s%s", (int)length, text, (int)blanks, "",
             progress->has_escapes ? "\033[K" : "");
    return length;
}

void tt_cast_progress_begin(struct tt_cast_progress *progress, uint64_t size_bytes, bool is_shown)
{
    const char *terminal = getenv("TERM");
    *progress = (struct tt_cast_progress){.is_shown = is_shown,
                                          .has_escapes =
                                              terminal != NULL && terminal[0] != '\0' && strcmp(terminal, "dumb") != 0,
                                          .size_bytes = size_bytes,
                                          .begun_ns = tt_clock_now_ns()};
}

/* Of the terminal, which may change; 0: it is none, or does not say. */
static uint32_t count_columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static void draw(struct tt_cast_progress *progress, uint64_t now_ns)
{
    char text[TT_PROGRESS_BYTES], line[2 * TT_PROGRESS_BYTES];
    tt_cast_progress_format(progress, now_ns, text);
    progress->drawn_columns = tt_cast_progress_line(progress, text, count_columns(), line);
    fputs(line, stderr);
    progress->drawn_ns = now_ns;
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
        progress->drawn_columns = 0;
    }
}

void tt_cast_progress_clear(struct tt_cast_progress *progress)
{
    char line[2 * TT_PROGRESS_BYTES];
    if (progress->drawn_columns > 0) {
        tt_cast_progress_line(progress, "", 0, line);
        fprintf(stderr, "%s%s", line, progress->has_escapes ? "" : "\r");
        progress->drawn_columns = 0;
    }
}
