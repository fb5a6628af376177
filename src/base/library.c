/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Normal path: the library is loaded, and each function found by its name. Failures: no such library, or one of an
 * interface that lacks a function; nobody may call any of them then.
 */
#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

const char *tt_library_load(const char *file, int flags, const struct tt_library_function *functions, size_t count)
{
    void *library = dlopen(file, flags);

    for (size_t i = 0; library != NULL && i < count; i++) {
        void *function = dlsym(library, functions[i].name);

        if (function == NULL) {
            library = NULL;
        }
        memcpy(functions[i].place, &function, sizeof function); /* ISO C has no cast for it */
    }
    return library != NULL ? NULL : dlerror();
}
