/* SPDX-License-Identifier: BSD-3-Clause */
/* Text tables: rows that appear one by one under a heading, and tables whose columns fit their contents. */
#ifndef TT_CLI_TABLE_H
#define TT_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct tt_column {
    const char *title;
    const char *unit; /* on a line of its own, in brackets; NULL: none */
    int width;        /* 0: as the widest cell (tt_table_print only) */
    bool left;        /* aligned to the left */
};

enum { TT_TABLE_COLUMN_LIMIT = 24, TT_CELL_BYTES = 32 };

/* The titles, and the units if there are any, each on a line that begins with '#'. Widths must be set. */
void tt_table_heading(FILE *stream, const struct tt_column *columns, size_t column_count);

/* A cell that is wider than its column pushes the others aside; it is never cut. */
void tt_table_row(FILE *stream, const struct tt_column *columns, size_t column_count, const char *const *cells);

/* Heading without '#' and all rows, `cells` row after row; columns as wide as they need to be. */
void tt_table_print(FILE *stream, const struct tt_column *columns, size_t column_count, const char *const *cells,
                    size_t row_count);

/* Cells: each writes at most TT_CELL_BYTES to `cell` and returns it. */
const char *tt_cell_count(char *cell, uint64_t count);
const char *tt_cell_fixed(char *cell,
                          double value); /* four significant digits or more, no exponent: 0.0312, 12.35, 1234567 */

#endif
