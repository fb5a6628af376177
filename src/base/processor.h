/* SPDX-License-Identifier: BSD-3-Clause */
/* What the processor can do beyond what the library is compiled for, so that code compiled for more may be called. */
#ifndef TT_BASE_PROCESSOR_H
#define TT_BASE_PROCESSOR_H

/* In rising order: who has one has all before it. */
enum tt_processor_level {
    TT_PROCESSOR_PLAIN,  /* what the compiler's flags say */
    TT_PROCESSOR_AVX2,   /* x86: AVX2 */
    TT_PROCESSOR_AVX512, /* x86: AVX-512 F, BW, DQ and VL, and AVX2 */
    TT_PROCESSOR_LEVEL_COUNT
};

/* Asks once, remembers then. Thread-safe. */
enum tt_processor_level tt_processor_level(void);

#endif
