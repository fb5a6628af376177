/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shortages. Normal path: an errno is looked up. The soft limit of descriptors is raised only when it has been met,
 * since a program that has not met it may count on low numbers (select). Failures: a limit that cannot be read or set
 * is as good as one that is met.
 */
#include "base/shortage.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"

tutti_status tt_shortage_status(int error)
{
    switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOSPC:
        return TUTTI_ERR_NO_RESOURCE;
    case ENOMEM:
        return TUTTI_ERR_NO_MEMORY;
    default:
        return TUTTI_OK;
    }
}

tutti_status tt_shortage_status_or(int error, tutti_status otherwise)
{
    tutti_status shortage = tt_shortage_status(error);

    return shortage != TUTTI_OK ? shortage : otherwise;
}

const char *tt_shortage_text(int error, char text[TT_SHORTAGE_TEXT_BYTES])
{
    struct rlimit limit;

    if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        snprintf(text, TT_SHORTAGE_TEXT_BYTES, "%s (this process may have %llu: ulimit -n)", strerror(error),
                 (unsigned long long)limit.rlim_cur);
    } else {
        snprintf(text, TT_SHORTAGE_TEXT_BYTES, "%s", strerror(error));
    }
    return text;
}

bool tt_shortage_raise_descriptors(int error)
{
    struct rlimit limit;
    rlim_t before;
    int saved_errno = errno;
    bool raised = false;

    if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        before = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        raised = setrlimit(RLIMIT_NOFILE, &limit) == 0;
        if (raised) {
            TT_LOG(TT_PART_BASE, TT_LOG_INFO, "this process may have %llu descriptors from now on: %llu did not do",
                   (unsigned long long)limit.rlim_max, (unsigned long long)before);
        }
    }
    errno = saved_errno;
    return raised;
}
