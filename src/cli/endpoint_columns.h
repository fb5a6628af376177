/* SPDX-License-Identifier: BSD-3-Clause */
/* What endpoints take from a NIC, as columns of a table and members of a JSON object; and their category's option. */
#ifndef TT_CLI_ENDPOINT_COLUMNS_H
#define TT_CLI_ENDPOINT_COLUMNS_H

#include <stdbool.h>

#include "cli/json.h"
#include "cli/table.h"
#include "endpoint/plan.h"

enum { TT_ENDPOINT_COLUMNS = 12 };

extern const struct tt_column tt_endpoint_columns[TT_ENDPOINT_COLUMNS];

/* Fills in a row; `text` is what the cells point to. */
void tt_endpoint_cells(const struct tt_endpoint_plan *plan, char text[TT_ENDPOINT_COLUMNS][TT_CELL_BYTES],
                       const char *cells[TT_ENDPOINT_COLUMNS]);

void tt_endpoint_json(struct tt_json *json, const struct tt_endpoint_plan *plan);

/* The value of --category; false after one line on standard error. */
bool tt_endpoint_read_category(const char *command, const char *text, enum tt_endpoint_category *category);
bool tt_endpoint_read_driver(const char *command, const char *text, enum tt_endpoint_driver *driver);

#endif
