/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as everything that the "verbs" p2p provider decodes: addresses, greetings, keys, headers of messages. What
 * decodes must be within bounds, and must encode to bytes that decode and encode to the same. The first byte chooses
 * the form, and whether magic numbers and the checksum are put right first, which no fuzzer guesses; each is given
 * exactly its length, in a block of that size, so that a read past its end is seen.
 */
#include <string.h>

#include "check.h"
#include "fabric/verbs/rc_message.h"
#include "wire/cursor.h"

enum { ADDRESS, GREETING, KEY, HEADER, FORMS };

/* As rc_message.c has it. */
static void mend_address(uint8_t *bytes)
{
    uint32_t hash = UINT32_C(2166136261);

    memcpy(bytes, "tva2", 4);
    for (size_t i = 0; i < TT_RC_ADDRESS_BYTES; i++) {
        bool is_checksum = i >= TT_RC_IDENTITY_BYTES && i < TT_RC_IDENTITY_BYTES + 4;
        hash = is_checksum ? hash : (hash ^ bytes[i]) * UINT32_C(16777619);
    }
    tt_bytes_put(bytes + TT_RC_IDENTITY_BYTES, hash, 4);
}

static void mend(uint32_t form, uint8_t *bytes, size_t size)
{
    static const char *const magic[FORMS] = {"tva2", "tvg1", "tvk1", "tvm1"};

    memcpy(bytes, magic[form], size < 4 ? size : 4);
    if (form == ADDRESS && size == TT_RC_ADDRESS_BYTES) {
        mend_address(bytes);
    } else if (form == GREETING && size == TT_RC_GREETING_BYTES) {
        mend_address(bytes + TT_RC_GREETING_BYTES - TT_RC_ADDRESS_BYTES);
    } else if (form == HEADER && size >= TT_RC_HEADER_BYTES) {
        tt_bytes_put(bytes + 6, size - TT_RC_HEADER_BYTES, 2);
    }
}

static void check_address(const struct tt_rc_address *address)
{
    uint8_t first[TT_RC_ADDRESS_BYTES], second[TT_RC_ADDRESS_BYTES];
    struct tt_rc_address same;

    FUZZ_CHECK(address->mtu >= 1 && address->mtu <= 5 && address->queue_pair <= TT_RC_PSN_MASK);
    FUZZ_CHECK(address->reads_out > 0 && address->reads_in > 0);
    tt_rc_address_encode(address, first);
    FUZZ_CHECK(tt_rc_address_decode(first, sizeof first, &same));
    tt_rc_address_encode(&same, second);
    FUZZ_CHECK(memcmp(first, second, sizeof first) == 0);
}

static void fuzz_address(const uint8_t *data, size_t size)
{
    struct tt_rc_address address;

    if (tt_rc_address_decode(data, size, &address)) {
        FUZZ_CHECK(size == TT_RC_ADDRESS_BYTES);
        check_address(&address);
    }
}

static void fuzz_greeting(const uint8_t *data, size_t size)
{
    uint8_t first[TT_RC_GREETING_BYTES], second[TT_RC_GREETING_BYTES];
    struct tt_rc_greeting greeting, same;

    if (!tt_rc_greeting_decode(data, size, &greeting)) {
        return;
    }
    FUZZ_CHECK(size == TT_RC_GREETING_BYTES && greeting.stage <= TT_RC_OPEN);
    FUZZ_CHECK(greeting.kind == TT_RC_HELLO || greeting.kind == TT_RC_GONE);
    FUZZ_CHECK(greeting.queue_pair <= TT_RC_PSN_MASK && greeting.psn <= TT_RC_PSN_MASK);
    check_address(&greeting.from);
    tt_rc_greeting_encode(&greeting, first);
    FUZZ_CHECK(tt_rc_greeting_decode(first, sizeof first, &same));
    tt_rc_greeting_encode(&same, second);
    FUZZ_CHECK(memcmp(first, second, sizeof first) == 0);
}

/* The bytes behind the key are a range: it is covered if it lies in the key's, computed without an overflow. */
static void fuzz_key(const uint8_t *data, size_t size)
{
    uint8_t again[TT_RC_KEY_BYTES];
    struct tt_rc_key key;

    FUZZ_CHECK(!tt_rc_key_decode(data, size - 1, &key) || size - 1 == TT_RC_KEY_BYTES);
    if (size < TT_RC_KEY_BYTES + 16 || !tt_rc_key_decode(data, TT_RC_KEY_BYTES, &key)) {
        return;
    }
    tt_rc_key_encode(&key, again);
    FUZZ_CHECK(memcmp(again, data, sizeof again) == 0);
    __extension__ typedef unsigned __int128 wide;
    uint64_t address = tt_bytes_get(data + TT_RC_KEY_BYTES, 8), length_bytes = tt_bytes_get(data + 32, 8);
    bool covered = address >= key.address && (wide)address + length_bytes <= (wide)key.address + (wide)key.length_bytes;
    FUZZ_CHECK(tt_rc_key_covers(&key, address, length_bytes) == covered);
    FUZZ_CHECK(tt_rc_key_covers(&key, key.address, key.length_bytes));
}

static void fuzz_header(const uint8_t *data, size_t size)
{
    uint8_t again[TT_RC_HEADER_BYTES];
    enum tt_rc_message_kind kind;
    uint32_t payload_bytes;

    if (tt_rc_header_decode(data, size, &kind, &payload_bytes)) {
        FUZZ_CHECK(kind >= TT_RC_FRAME && kind <= TT_RC_BYE_HEARD && payload_bytes <= TT_P2P_LEAST_FRAME_BYTES);
        FUZZ_CHECK(TT_RC_HEADER_BYTES + payload_bytes == size);
        tt_rc_header_encode(kind, payload_bytes, again);
        FUZZ_CHECK(memcmp(again, data, sizeof again) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    uint32_t form = data[0] % FORMS;
    uint8_t *bytes = malloc(size - 1);
    FUZZ_CHECK(bytes != NULL);
    memcpy(bytes, data + 1, size - 1);
    if (data[0] & 0x80) {
        mend(form, bytes, size - 1);
    }
    if (form == ADDRESS) {
        fuzz_address(bytes, size - 1);
    } else if (form == GREETING) {
        fuzz_greeting(bytes, size - 1);
    } else if (form == KEY) {
        fuzz_key(bytes, size - 1);
    } else {
        fuzz_header(bytes, size - 1);
    }
    free(bytes);
    return 0;
}
