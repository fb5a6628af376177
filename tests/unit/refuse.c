/* SPDX-License-Identifier: BSD-3-Clause */
/* Normal path: libc's functions. Failures: those that the test asked for. */
#include "refuse.h"

#include <errno.h>
#include <stddef.h>

_Thread_local bool refuse_counts;
_Atomic uint32_t refuse_after;

static bool is_refused(void)
{
    return refuse_counts && refuse_after > 0 && --refuse_after == 0;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return is_refused() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return is_refused() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    return is_refused() ? NULL : __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return is_refused() ? NULL : __real_aligned_alloc(alignment, bytes);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    return is_refused() ? ENOMEM : __real_posix_memalign(memory, alignment, bytes);
}
