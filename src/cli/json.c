/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: one line of JSON for programs to read.
 *
 * Normal path: every value first writes the comma that it owes and its name.
 *
 * Failures: text that is not UTF-8 would make the line unreadable, so bytes that begin no valid sequence are written as
 * U+FFFD; numbers that JSON cannot say become null. Numbers have 15 digits, enough to be told apart.
 */
#include "cli/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/text.h"

void tt_json_init(struct tt_json *json, FILE *stream)
{
    memset(json, 0, sizeof(*json));
    json->stream = stream;
}

static void write_string(FILE *stream, const char *text)
{
    fputc('"', stream);
    for (const char *c = text; *c != '\0';) {
        unsigned length = tt_text_sequence(c);
        if (length == 0) {
            fputs("\\ufffd", stream);
            c++;
        } else if (*c == '"' || *c == '\\') {
            fprintf(stream, "\\%c", *c++);
        } else if (length == 1 && ((unsigned char)*c < 0x20 || *c == 0x7F)) {
            fprintf(stream, "\\u%04x", (unsigned char)*c++);
        } else {
            fwrite(c, 1, length, stream);
            c += length;
        }
    }
    fputc('"', stream);
}

static void begin_value(struct tt_json *json, const char *key)
{
    if (json->has_member[json->depth]) {
        fputs(", ", json->stream);
    }
    json->has_member[json->depth] = json->depth > 0;
    if (key != NULL) {
        write_string(json->stream, key);
        fputs(": ", json->stream);
    }
}

static void descend(struct tt_json *json, const char *key, char bracket)
{
    begin_value(json, key);
    fputc(bracket, json->stream);
    json->depth++;
    assert(json->depth < TT_JSON_DEPTH_LIMIT);
    json->has_member[json->depth] = false;
}

static void ascend(struct tt_json *json, char bracket)
{
    assert(json->depth > 0);
    json->depth--;
    fputc(bracket, json->stream);
    if (json->depth == 0) {
        fputc('\n', json->stream);
        fflush(json->stream); /* a line is useful as soon as it is whole, also to a reader of a pipe */
    }
}

void tt_json_begin_object(struct tt_json *json, const char *key)
{
    descend(json, key, '{');
}

void tt_json_end_object(struct tt_json *json)
{
    ascend(json, '}');
}

void tt_json_begin_array(struct tt_json *json, const char *key)
{
    descend(json, key, '[');
}

void tt_json_end_array(struct tt_json *json)
{
    ascend(json, ']');
}

void tt_json_text(struct tt_json *json, const char *key, const char *text)
{
    begin_value(json, key);
    write_string(json->stream, text);
}

void tt_json_count(struct tt_json *json, const char *key, uint64_t count)
{
    begin_value(json, key);
    fprintf(json->stream, "%" PRIu64, count);
}

void tt_json_number(struct tt_json *json, const char *key, double number)
{
    begin_value(json, key);
    if (isfinite(number)) {
        fprintf(json->stream, "%.15g", number);
    } else {
        fputs("null", json->stream);
    }
}

void tt_json_flag(struct tt_json *json, const char *key, bool flag)
{
    begin_value(json, key);
    fputs(flag ? "true" : "false", json->stream);
}
