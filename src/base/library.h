/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared libraries that are loaded when something of them is used, and that a host need not have. */
#ifndef TT_BASE_LIBRARY_H
#define TT_BASE_LIBRARY_H

#include <stddef.h>

struct tt_library_function {
    const char *name;
    void *place; /* the caller's pointer to the function */
};

/*
 * Loads a library (`flags` as dlopen(3)'s) and sets the pointers to its functions. It stays loaded. Returns NULL, or
 * why it cannot be used: the loader's words, until this thread calls the loader again. Thread-safe, but for the
 * pointers.
 */
const char *tt_library_load(const char *file, int flags, const struct tt_library_function *functions, size_t count);

#endif
