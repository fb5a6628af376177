/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SipHash-2-4 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", INDOCRYPT 2012, section 2): who knows many
 * results and not the key learns neither the key nor other results, so what is overheard of one queue says nothing of
 * others.
 */
#ifndef TT_BASE_SIPHASH_H
#define TT_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* Of `count` bytes, under a key of two words. */
uint64_t tt_siphash(uint64_t key_0, uint64_t key_1, const void *bytes, size_t count);

#endif
