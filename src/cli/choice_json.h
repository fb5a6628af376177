/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of algorithms for programs to read, the same wherever it is printed. */
#ifndef TT_CLI_CHOICE_JSON_H
#define TT_CLI_CHOICE_JSON_H

#include "cli/json.h"
#include "plan/choice.h"

/* Adds the member "table" to the object that is open: an array with an object a row. */
void tt_choice_write_json(struct tt_json *json, const struct tt_choice *choice);

#endif
