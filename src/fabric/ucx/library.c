/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loading UCX. Normal path: the library of the interface's version, once in a process, and each function in it by its
 * name; UCX's other library comes along. It stays loaded: its hooks do.
 *
 * Failures: what cannot be loaded is said, with the loader's reason, to everybody who asks.
 */
#define TT_UCX_LIBRARY_ITSELF
#include "fabric/ucx/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/library.h"
#include "base/log.h"

struct tt_ucx_library tt_ucx_library;

static char why_not[256]; /* empty: it is loaded */

static void load(void)
{
    static const struct tt_library_function functions[] = {
#define FUNCTION(name) {#name, &tt_ucx_library.name},
        TT_UCX_FUNCTIONS(FUNCTION)
#undef FUNCTION
    };
    /* It opens its log while it is loaded, by itself on standard output, which is the application's. Not /dev/stderr,
     * which would empty a file that standard error goes to. */
    setenv("UCX_LOG_FILE", "stderr", 0);
    const char *why =
        tt_library_load("libucp.so.0", RTLD_NOW | RTLD_LOCAL, functions, sizeof(functions) / sizeof(functions[0]));
    if (why != NULL) {
        (void)snprintf(why_not, sizeof(why_not), "%s", why);
    }
}

tutti_status tt_ucx_library_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return why_not[0] == '\0' ? TUTTI_OK
                              : tt_error(TT_PART_FABRIC, TUTTI_ERR_NOT_SUPPORTED,
                                         "ucx: its library cannot be loaded: %s (TUTTI_P2P=tcp needs none)", why_not);
}
