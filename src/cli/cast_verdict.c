/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the result of a cast, for people and for programs.
 *
 * Normal path: a line for the sender, and a row for each receiver.
 *
 * Failures: none here; standard output remembers its errors for tt_command_finish(). What came from other hosts may
 * hold any bytes, of which a terminal gets the printable ones.
 */
#include "cli/cast_verdict.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/json.h"
#include "cli/table.h"

enum { DIGEST_TEXT_BYTES = 2 * TT_CAST_DIGEST_BYTES + 1, REASON_BYTES = 1024 };

enum column {
    COLUMN_HOST,
    COLUMN_RANK,
    COLUMN_STATUS,
    COLUMN_DIGEST,
    COLUMN_BYTES,
    COLUMN_SECONDS,
    COLUMN_REASON,
    COLUMN_COUNT
};

static const struct tt_column columns[COLUMN_COUNT] = {
    [COLUMN_HOST] = {"host", NULL, 12, true},    [COLUMN_RANK] = {"rank", NULL, 4, false},
    [COLUMN_STATUS] = {"status", NULL, 6, true}, [COLUMN_DIGEST] = {"digest", NULL, 6, true},
    [COLUMN_BYTES] = {"bytes", NULL, 12, false}, [COLUMN_SECONDS] = {"seconds", NULL, 8, false},
    [COLUMN_REASON] = {"reason", NULL, 0, true},
};

static bool has_file(const struct tt_cast_verdict *verdict, uint32_t rank)
{
    return verdict->has_ended && !verdict->reports[0].failed && !verdict->reports[rank].failed;
}

/* Only then is there a time, and a rate, and a digest of what was sent. */
static bool any_has_file(const struct tt_cast_verdict *verdict)
{
    for (uint32_t rank = 1; rank < verdict->size; rank++) {
        if (has_file(verdict, rank)) {
            return true;
        }
    }
    return false;
}

/* Whether there are two to compare: not where the cast failed as a whole, nor at a receiver that failed before all was
 * written. */
static bool has_digest(const struct tt_cast_verdict *verdict, uint32_t rank)
{
    const struct tt_cast_report *report = &verdict->reports[rank];
    bool is_whole = report->bytes > 0 && report->bytes == verdict->reports[0].bytes;
    return verdict->has_ended && !verdict->reports[0].failed && (!report->failed || is_whole);
}

static bool has_right_digest(const struct tt_cast_verdict *verdict, uint32_t rank)
{
    return has_digest(verdict, rank) && tt_cast_same_data(&verdict->reports[rank], &verdict->reports[0]);
}

bool tt_cast_same_data(const struct tt_cast_report *receiver, const struct tt_cast_report *sender)
{
    return receiver->bytes == sender->bytes && memcmp(receiver->digest, sender->digest, TT_CAST_DIGEST_BYTES) == 0;
}

static const char *format_digest(const struct tt_cast_report *report, char text[DIGEST_TEXT_BYTES])
{
    for (size_t i = 0; i < TT_CAST_DIGEST_BYTES; i++) {
        snprintf(text + 2 * i, 3, "%02x", report->digest[i]);
    }
    return text;
}

static const char *reason_of(const struct tt_cast_verdict *verdict)
{
    return verdict->reason != NULL ? verdict->reason : verdict->reports[0].text;
}

static double seconds_of(const struct tt_cast_report *report)
{
    return (double)report->duration_ns / 1e9;
}

static double rate_of(const struct tt_cast_report *report)
{
    return report->duration_ns > 0 ? (double)report->bytes / 1e6 / seconds_of(report) : 0;
}

static const char *printable(const char *text, char *copy, size_t copy_bytes)
{
    snprintf(copy, copy_bytes, "%s", text);
    tt_text_clean(copy);
    return copy;
}

static void print_row(const struct tt_cast_verdict *verdict, uint32_t rank, FILE *stream)
{
    const struct tt_cast_report *report = &verdict->reports[rank];
    char text[COLUMN_COUNT][TT_CELL_BYTES], host[TT_CAST_HOST_BYTES], reason[TT_CAST_TEXT_BYTES];
    const char *cells[COLUMN_COUNT];
    cells[COLUMN_HOST] = printable(verdict->offers[rank].host, host, sizeof(host));
    cells[COLUMN_RANK] = tt_cell_count(text[COLUMN_RANK], rank);
    cells[COLUMN_STATUS] = report->failed ? "FAILED" : "ok";
    cells[COLUMN_DIGEST] = !has_digest(verdict, rank) ? "-" : has_right_digest(verdict, rank) ? "right" : "wrong";
    cells[COLUMN_BYTES] = tt_cell_count(text[COLUMN_BYTES], report->bytes);
    cells[COLUMN_SECONDS] = has_file(verdict, rank) ? tt_cell_fixed(text[COLUMN_SECONDS], seconds_of(report)) : "-";
    cells[COLUMN_REASON] = printable(report->text, reason, sizeof(reason));
    tt_table_row(stream, columns, COLUMN_COUNT, cells);
}

static void print_table(const struct tt_cast_verdict *verdict, FILE *stream)
{
    const struct tt_cast_report *sender = &verdict->reports[0];
    char digest[DIGEST_TEXT_BYTES], name[TT_CAST_TEXT_BYTES], reason[REASON_BYTES];
    fprintf(stream, "# %s: %" PRIu64 " byte%s by %s to %" PRIu32 " host%s",
            printable(verdict->name, name, sizeof(name)), sender->bytes, sender->bytes == 1 ? "" : "s",
            tt_cast_way_name(verdict->offers[0].by), verdict->size - 1, verdict->size == 2 ? "" : "s");
    if (any_has_file(verdict)) {
        fprintf(stream, " in %.2f s, %.1f MB/s", seconds_of(sender), rate_of(sender));
    }
    fputc('\n', stream);
    if (sender->failed) {
        fprintf(stream, "# FAILED: %s\n", printable(reason_of(verdict), reason, sizeof(reason)));
    } else if (any_has_file(verdict)) {
        fprintf(stream, "# XXH128 %s\n", format_digest(sender, digest));
    }
    tt_table_heading(stream, columns, COLUMN_COUNT);
    for (uint32_t rank = 1; rank < verdict->size; rank++) {
        print_row(verdict, rank, stream);
    }
}

static void print_json(const struct tt_cast_verdict *verdict, bool is_good, FILE *stream)
{
    const struct tt_cast_report *sender = &verdict->reports[0];
    bool is_somewhere = any_has_file(verdict);
    char digest[DIGEST_TEXT_BYTES];
    struct tt_json json;
    tt_json_init(&json, stream);
    tt_json_begin_object(&json, NULL);
    tt_json_text(&json, "file", verdict->name);
    tt_json_text(&json, "by", tt_cast_way_name(verdict->offers[0].by));
    tt_json_flag(&json, "ok", is_good);
    tt_json_text(&json, "reason", reason_of(verdict));
    tt_json_count(&json, "bytes", sender->bytes);
    tt_json_number(&json, "seconds", is_somewhere ? seconds_of(sender) : 0);
    tt_json_text(&json, "xxh128", is_somewhere ? format_digest(sender, digest) : "");
    tt_json_begin_array(&json, "hosts");
    for (uint32_t rank = 1; rank < verdict->size; rank++) {
        const struct tt_cast_report *report = &verdict->reports[rank];
        tt_json_begin_object(&json, NULL);
        tt_json_text(&json, "host", verdict->offers[rank].host);
        tt_json_count(&json, "rank", rank);
        tt_json_flag(&json, "ok", !report->failed);
        tt_json_flag(&json, "digest_ok", has_right_digest(verdict, rank));
        tt_json_text(&json, "reason", report->text);
        tt_json_count(&json, "bytes", report->bytes);
        tt_json_number(&json, "seconds", has_file(verdict, rank) ? seconds_of(report) : 0);
        tt_json_end_object(&json);
    }
    tt_json_end_array(&json);
    tt_json_end_object(&json);
}

bool tt_cast_verdict_print(const struct tt_cast_verdict *verdict, bool json, FILE *stream)
{
    bool is_good = true;
    for (uint32_t rank = 0; rank < verdict->size; rank++) {
        is_good = is_good && !verdict->reports[rank].failed;
    }
    if (json) {
        print_json(verdict, is_good, stream);
    } else {
        print_table(verdict, stream);
    }
    return is_good;
}
