/* SPDX-License-Identifier: BSD-3-Clause */
/* Normal path: the state of four words takes eight bytes at a time, then the rest with the length. Never fails. */
#include "base/siphash.h"

enum { WORD_BYTES = 8, COMPRESSIONS = 2, FINALIZATIONS = 4 };

struct state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static void play_rounds(struct state *s, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        s->v0 += s->v1;
        s->v2 += s->v3;
        s->v1 = rotate(s->v1, 13) ^ s->v0;
        s->v3 = rotate(s->v3, 16) ^ s->v2;
        s->v0 = rotate(s->v0, 32);
        s->v2 += s->v1;
        s->v0 += s->v3;
        s->v1 = rotate(s->v1, 17) ^ s->v2;
        s->v3 = rotate(s->v3, 21) ^ s->v0;
        s->v2 = rotate(s->v2, 32);
    }
}

static void take(struct state *s, uint64_t word)
{
    s->v3 ^= word;
    play_rounds(s, COMPRESSIONS);
    s->v0 ^= word;
}

static uint64_t read_word(const uint8_t *bytes, size_t count)
{
    uint64_t word = 0;

    for (size_t i = 0; i < count; i++) {
        word |= (uint64_t)bytes[i] << 8 * i;
    }
    return word;
}

uint64_t tt_siphash(uint64_t key_0, uint64_t key_1, const void *bytes, size_t count)
{
    /* The paper's constants: "somepseudorandomlygeneratedbytes". */
    struct state s = {key_0 ^ UINT64_C(0x736F6D6570736575), key_1 ^ UINT64_C(0x646F72616E646F6D),
                      key_0 ^ UINT64_C(0x6C7967656E657261), key_1 ^ UINT64_C(0x7465646279746573)};
    const uint8_t *at = bytes;
    size_t rest = count % WORD_BYTES;

    for (size_t i = 0; i < count - rest; i += WORD_BYTES) {
        take(&s, read_word(at + i, WORD_BYTES));
    }
    take(&s, (uint64_t)count << 56 | read_word(at + (count - rest), rest));
    s.v2 ^= 0xFF;
    play_rounds(&s, FINALIZATIONS);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
