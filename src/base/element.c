/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the rows of base/element.h as tables, and their names.
 *
 * Failures: a name that no row has leaves the output alone; tt_last_error() has it with the names that there are.
 */
#include "base/element.h"

#include <stddef.h>
#include <string.h>

#include "base/log.h"

const struct tt_type_row *tt_type_row(unsigned type)
{
#define ROW(type, name, bytes, class, accumulator) {name, bytes, TT_CLASS_##class, TT_TYPE_##accumulator},
    static const struct tt_type_row rows[TT_TYPE_COUNT] = {TT_TYPES(ROW)};
#undef ROW
    static const struct tt_type_row none = {"unknown type", 0, TT_CLASS_OPAQUE, TT_TYPE_OPAQUE};

    return type < TT_TYPE_COUNT ? &rows[type] : &none;
}

const struct tt_reduce_operation_row *tt_reduce_operation_row(unsigned operation)
{
#define ROW(operation, name, step, takes_floats) {name, TT_REDUCE_##step, takes_floats},
    static const struct tt_reduce_operation_row rows[TT_REDUCE_OPERATION_COUNT] = {TT_REDUCE_OPERATIONS(ROW)};
#undef ROW
    static const struct tt_reduce_operation_row none = {"unknown operation", TT_REDUCE_USER, false};

    return operation < TT_REDUCE_OPERATION_COUNT ? &rows[operation] : &none;
}

tutti_status tt_type_parse(const char *text, enum tt_type *type)
{
#define NAME(type, name, ...) " " name
    static const char names[] = TT_TYPES(NAME);
#undef NAME

    for (unsigned i = 0; i < TT_TYPE_COUNT; i++) {
        if (strcmp(text, tt_type_row(i)->name) == 0) {
            *type = (enum tt_type)i;
            return TUTTI_OK;
        }
    }
    return tt_error_note(TUTTI_ERR_INVALID_ARGUMENT, "%.64s: is no type of elements; there are%s", text, names);
}

tutti_status tt_reduce_operation_parse(const char *text, enum tt_reduce_operation *operation)
{
#define NAME(operation, name, ...) " " name
    static const char names[] = TT_REDUCE_OPERATIONS(NAME);
#undef NAME

    for (unsigned i = 0; i < TT_REDUCE_OPERATION_COUNT; i++) {
        if (strcmp(text, tt_reduce_operation_row(i)->name) == 0) {
            *operation = (enum tt_reduce_operation)i;
            return TUTTI_OK;
        }
    }
    return tt_error_note(TUTTI_ERR_INVALID_ARGUMENT, "%.64s: is no operation; there are%s", text, names);
}
