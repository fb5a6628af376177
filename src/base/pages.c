/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: memory with its pages.
 *
 * Normal path: the system is asked for all of them at once; one after the other, each by its own fault, takes twenty
 * times as long in a virtual machine. Failures: a system that cannot (before Linux 5.14) gives them as they are zeroed.
 */
#include "base/pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Of newer systems than these headers. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { PAGE_BYTES = 4096 };

void *tt_pages_allocate(size_t length_bytes)
{
    size_t whole_bytes = length_bytes / PAGE_BYTES * PAGE_BYTES;
    void *memory;

    errno = posix_memalign(&memory, PAGE_BYTES, length_bytes);
    if (errno != 0) {
        return NULL;
    }
    if (whole_bytes > 0) {
        (void)madvise(memory, whole_bytes, MADV_POPULATE_WRITE);
    }
    memset(memory, 0, length_bytes);
    return memory;
}
