/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: which vector instructions there are, asked of the processor and the operating system.
 *
 * Normal path: the compiler's own functions, which also look whether the system saves the wide registers. The answer is
 * kept in an atomic: several threads may ask the first time, and find the same. No ifunc is used: resolvers run before
 * a sanitizer's runtime is up, and not every linker and C library has them.
 */
#include "base/processor.h"

#include <stdatomic.h>

static enum tt_processor_level ask(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2")) {
        return TT_PROCESSOR_PLAIN;
    }
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
               ? TT_PROCESSOR_AVX512
               : TT_PROCESSOR_AVX2;
#else
    return TT_PROCESSOR_PLAIN;
#endif
}

enum tt_processor_level tt_processor_level(void)
{
    static _Atomic int known = -1;
    int level = atomic_load_explicit(&known, memory_order_relaxed);

    if (level < 0) {
        level = (int)ask();
        atomic_store_explicit(&known, level, memory_order_relaxed);
    }
    return (enum tt_processor_level)level;
}
