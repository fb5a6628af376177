/* SPDX-License-Identifier: BSD-3-Clause */
/* Words of 32 and 64 bits, the highest byte first: as pictures of bits are drawn. */
#ifndef TT_WIRE_WORD_H
#define TT_WIRE_WORD_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define TT_WORD_SWAP_32(value) __builtin_bswap32(value)
#define TT_WORD_SWAP_64(value) __builtin_bswap64(value)
#else
#define TT_WORD_SWAP_32(value) (value)
#define TT_WORD_SWAP_64(value) (value)
#endif

static inline void tt_word_put_32(uint8_t *bytes, uint32_t value)
{
    value = TT_WORD_SWAP_32(value);
    memcpy(bytes, &value, sizeof value);
}

static inline void tt_word_put_64(uint8_t *bytes, uint64_t value)
{
    value = TT_WORD_SWAP_64(value);
    memcpy(bytes, &value, sizeof value);
}

static inline uint32_t tt_word_get_32(const uint8_t *bytes)
{
    uint32_t value;

    memcpy(&value, bytes, sizeof value);
    return TT_WORD_SWAP_32(value);
}

static inline uint64_t tt_word_get_64(const uint8_t *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof value);
    return TT_WORD_SWAP_64(value);
}

#undef TT_WORD_SWAP_32
#undef TT_WORD_SWAP_64

#endif
