/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what a status is called, what it says and what it ends, from the one table in tutti/status.h.
 *
 * Normal path: a look-up in the table.
 *
 * Failures: a number that is no status (a caller's cast, a newer library) still has a text, and ends the most there is.
 */
#include "base/status.h"

#include <stddef.h>

struct entry {
    tutti_status status;
    tutti_scope scope;
    const char *name;
    const char *text;
};

static const struct entry entries[] = {
#define ENTRY(name, value, scope, text) {name, TUTTI_SCOPE_##scope, #name, text},
    TUTTI_STATUS_TABLE(ENTRY)
#undef ENTRY
};

static const struct entry unknown = {0, TUTTI_SCOPE_CONTEXT, "TUTTI_ERR_UNKNOWN", "unknown status"};

static const struct entry *find(tutti_status status)
{
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        if (entries[i].status == status) {
            return &entries[i];
        }
    }
    return &unknown;
}

bool tt_status_exists(int status)
{
    return find((tutti_status)status) != &unknown;
}

const char *tutti_status_text(tutti_status status)
{
    return find(status)->text;
}

const char *tutti_status_name(tutti_status status)
{
    return find(status)->name;
}

tutti_scope tutti_status_scope(tutti_status status)
{
    return find(status)->scope;
}
