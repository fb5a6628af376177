/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: tables on a terminal.
 *
 * Normal path: columns are separated by two blanks; no line ends in blanks, so that output can be compared and pasted.
 *
 * Failures: none here; the stream remembers write errors, and the command looks at them once, at its end.
 */
#include "cli/table.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static void pad(FILE *stream, int count)
{
    for (int i = 0; i < count; i++) {
        fputc(' ', stream);
    }
}

/* Blanks are owed until there is something to follow them. */
static int print_cell(FILE *stream, const struct tt_column *column, const char *text, int owed_blanks)
{
    int length = (int)strlen(text);
    int rest = column->width > length ? column->width - length : 0;
    if (length == 0) {
        return owed_blanks + rest;
    }
    if (column->left) {
        pad(stream, owed_blanks);
        fputs(text, stream);
        return rest;
    }
    pad(stream, owed_blanks + rest);
    fputs(text, stream);
    return 0;
}

static void print_row(FILE *stream, const struct tt_column *columns, size_t column_count, const char *const *cells,
                      int indent)
{
    int owed_blanks = indent;
    for (size_t i = 0; i < column_count; i++) {
        owed_blanks = print_cell(stream, &columns[i], cells[i], owed_blanks) + 2;
    }
    fputc('\n', stream);
}

static void print_heading(FILE *stream, const struct tt_column *columns, size_t column_count, const char *mark)
{
    assert(column_count <= TT_TABLE_COLUMN_LIMIT);
    const char *cells[TT_TABLE_COLUMN_LIMIT] = {NULL};
    char units[TT_TABLE_COLUMN_LIMIT][TT_CELL_BYTES];
    bool has_units = false;
    int indent = mark[0] != '\0' ? 1 : 0;
    for (size_t i = 0; i < column_count; i++) {
        cells[i] = columns[i].title;
        has_units = has_units || columns[i].unit != NULL;
    }
    fputs(mark, stream);
    print_row(stream, columns, column_count, cells, indent);
    if (!has_units) {
        return;
    }
    for (size_t i = 0; i < column_count; i++) {
        units[i][0] = '\0';
        if (columns[i].unit != NULL) {
            snprintf(units[i], sizeof(units[i]), "(%s)", columns[i].unit);
        }
        cells[i] = units[i];
    }
    fputs(mark, stream);
    print_row(stream, columns, column_count, cells, indent);
}

void tt_table_heading(FILE *stream, const struct tt_column *columns, size_t column_count)
{
    print_heading(stream, columns, column_count, "#");
}

void tt_table_row(FILE *stream, const struct tt_column *columns, size_t column_count, const char *const *cells)
{
    print_row(stream, columns, column_count, cells, 2);
}

static int max_width(int width, const char *text)
{
    int length = (int)strlen(text);
    return length > width ? length : width;
}

void tt_table_print(FILE *stream, const struct tt_column *columns, size_t column_count, const char *const *cells,
                    size_t row_count)
{
    assert(column_count <= TT_TABLE_COLUMN_LIMIT);
    struct tt_column fitted[TT_TABLE_COLUMN_LIMIT];
    for (size_t i = 0; i < column_count; i++) {
        fitted[i] = columns[i];
        fitted[i].width = max_width(fitted[i].width, columns[i].title);
        if (columns[i].unit != NULL) {
            int unit_width = (int)strlen(columns[i].unit) + 2;
            fitted[i].width = unit_width > fitted[i].width ? unit_width : fitted[i].width;
        }
        for (size_t row = 0; row < row_count; row++) {
            fitted[i].width = max_width(fitted[i].width, cells[row * column_count + i]);
        }
    }
    print_heading(stream, fitted, column_count, "");
    for (size_t row = 0; row < row_count; row++) {
        print_row(stream, fitted, column_count, cells + row * column_count, 0);
    }
}

const char *tt_cell_count(char *cell, uint64_t count)
{
    snprintf(cell, TT_CELL_BYTES, "%" PRIu64, count);
    return cell;
}

const char *tt_cell_fixed(char *cell, double value)
{
    double size = value < 0 ? -value : value;
    int decimals = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
    if (snprintf(cell, TT_CELL_BYTES, "%.*f", decimals, value) >= TT_CELL_BYTES) {
        snprintf(cell, TT_CELL_BYTES, "%.6g", value);
    }
    return cell;
}
