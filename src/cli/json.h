/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON, written as it comes, on one line. The caller balances begin and end; commas come by themselves. */
#ifndef TT_CLI_JSON_H
#define TT_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { TT_JSON_DEPTH_LIMIT = 16 };

struct tt_json {
    FILE *stream;
    unsigned depth;
    bool has_member[TT_JSON_DEPTH_LIMIT]; /* at each depth: a comma is due before the next */
};

void tt_json_init(struct tt_json *json, FILE *stream);

/* In an object `key` is the member's name; in an array, and outside, it is NULL. */
void tt_json_begin_object(struct tt_json *json, const char *key);
void tt_json_end_object(struct tt_json *json); /* of the outermost: and the line */
void tt_json_begin_array(struct tt_json *json, const char *key);
void tt_json_end_array(struct tt_json *json);
void tt_json_text(struct tt_json *json, const char *key, const char *text);
void tt_json_count(struct tt_json *json, const char *key, uint64_t count);
void tt_json_number(struct tt_json *json, const char *key, double number); /* not finite: null */
void tt_json_flag(struct tt_json *json, const char *key, bool flag);

#endif
