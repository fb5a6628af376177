/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the first bytes that `tutti doctor --listen` and `--peer` say to each other.
 *
 * Normal path: a word that says what it is, one for version, order of bytes and layout at once, and who speaks.
 *
 * Failures: whatever else comes is a stranger's.
 */
#include "cli/doctor_hello.h"

#include <string.h>

#include "cli/doctor_steps.h"

static const char magic[8] = {'t', 'u', 't', 't', 'i', '-', 'd', 'r'};

/* Says version, order of bytes and layout at once: what is exchanged later is the memory of structs. */
static uint32_t layout_word(void)
{
    return UINT32_C(0x01000000) | (uint32_t)sizeof(struct tt_doctor_greeting);
}

void tt_doctor_hello_encode(enum tt_doctor_hello hello, uint8_t bytes[TT_DOCTOR_HELLO_BYTES])
{
    uint32_t words[2] = {layout_word(), (uint32_t)hello};
    memcpy(bytes, magic, sizeof(magic));
    memcpy(bytes + sizeof(magic), words, sizeof(words));
}

enum tt_doctor_hello tt_doctor_hello_decode(const uint8_t bytes[TT_DOCTOR_HELLO_BYTES])
{
    uint32_t words[2];
    memcpy(words, bytes + sizeof(magic), sizeof(words));
    if (memcmp(bytes, magic, sizeof(magic)) != 0) {
        return TT_DOCTOR_STRANGER;
    }
    if (words[0] != layout_word()) {
        return TT_DOCTOR_OTHER_VERSION;
    }
    return words[1] == TT_DOCTOR_GUEST || words[1] == TT_DOCTOR_WELCOME || words[1] == TT_DOCTOR_BUSY
               ? (enum tt_doctor_hello)words[1]
               : TT_DOCTOR_STRANGER;
}
