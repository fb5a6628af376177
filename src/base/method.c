/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of base/method.h as a table. */
#include "base/method.h"

#include <stddef.h>

#define ROW(kind, ...) [TT_##kind] = {__VA_ARGS__},
const struct tt_kind_row tt_kind_rows[TT_KIND_COUNT] = {[TT_KIND_NONE] = {.word = "unknown collective"}, TT_KINDS(ROW)};
#undef ROW

#define ROW(method, gate, mover, completion, ...) [TT_METHOD_##method] = {__VA_ARGS__},
const struct tt_method_row tt_method_rows[TT_METHOD_COUNT + 1] = {
    TT_METHODS(ROW)[TT_METHOD_COUNT] = {.word = "none", .name = "unknown method"}};
#undef ROW

const char *tt_method_word(unsigned kind, unsigned method)
{
    const struct tt_method_row *row = tt_method_row(method);

    return kind == TT_BROADCAST && row->broadcast_word != NULL ? row->broadcast_word : row->word;
}

enum tt_algorithm tt_method_algorithm(unsigned kind, unsigned method)
{
    const struct tt_method_row *row = tt_method_row(method);
    bool other = kind == TT_BROADCAST && row->broadcast_algorithm != TT_ALGORITHM_AUTO;

    return other ? row->broadcast_algorithm : row->algorithm;
}

enum tt_method tt_method_of_algorithm(enum tt_algorithm algorithm)
{
    unsigned method = 0;

    while (method < TT_METHOD_COUNT && tt_method_row(method)->algorithm != algorithm &&
           tt_method_row(method)->broadcast_algorithm != algorithm) {
        method++;
    }
    return algorithm == TT_ALGORITHM_AUTO ? TT_METHOD_COUNT : (enum tt_method)method;
}
