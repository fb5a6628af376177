/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as everything that the tcp provider decodes: addresses, greetings, answers, headers of messages, reads,
 * headers of bulk and keys. What decodes must encode to bytes that decode to the same, and where a form has no room for
 * anything else, to the very bytes it came from. The first byte chooses the form; each is given exactly its length, in
 * a block of that size, so that a read past its end is seen.
 */
#include <string.h>

#include "check.h"
#include "fabric/tcp/message.h"

static void fuzz_address(const uint8_t *data, size_t size)
{
    uint8_t again[TT_TCP_ADDRESS_BYTES];
    struct tt_tcp_address address;

    if (!tt_tcp_address_decode(data, size, &address)) {
        return;
    }
    FUZZ_CHECK(size == TT_TCP_ADDRESS_BYTES && address.port != 0 && (address.family == 4 || address.family == 6));
    tt_tcp_address_encode(&address, again);
    FUZZ_CHECK(memcmp(again, data, sizeof(again)) == 0);
}

static void fuzz_greeting(const uint8_t *data)
{
    uint8_t again[TT_TCP_GREETING_BYTES];
    struct tt_tcp_greeting greeting;
    struct tt_tcp_address from;

    if (!tt_tcp_greeting_decode(data, &greeting) || greeting.version != TT_TCP_VERSION) {
        return;
    }
    FUZZ_CHECK(greeting.purpose == TT_TCP_FOR_FRAMES || greeting.purpose == TT_TCP_FOR_BULK);
    FUZZ_CHECK(tt_tcp_address_decode(greeting.from, sizeof(greeting.from), &from));
    tt_tcp_greeting_encode(&greeting, again);
    FUZZ_CHECK(memcmp(again, data, sizeof(again)) == 0);
}

static void fuzz_answer(const uint8_t *data)
{
    uint8_t again[TT_TCP_ANSWER_BYTES];
    enum tt_tcp_answer answer, same;

    if (tt_tcp_answer_decode(data, &answer)) {
        FUZZ_CHECK(answer >= TT_TCP_WELCOME && answer < TT_TCP_ANSWER_LIMIT);
        tt_tcp_answer_encode(answer, again);
        FUZZ_CHECK(tt_tcp_answer_decode(again, &same) && same == answer);
    }
}

static void fuzz_header(const uint8_t *data)
{
    uint8_t again[TT_TCP_HEADER_BYTES];
    enum tt_tcp_kind kind;
    uint32_t payload_bytes;

    if (tt_tcp_header_decode(data, &kind, &payload_bytes)) {
        FUZZ_CHECK(kind >= TT_TCP_FRAME && kind <= TT_TCP_REFUSED && payload_bytes <= TT_P2P_MAX_FRAME_BYTES);
        tt_tcp_header_encode(kind, payload_bytes, again);
        FUZZ_CHECK(memcmp(again, data, sizeof(again)) == 0);
    }
}

static void fuzz_read(const uint8_t *data)
{
    uint8_t again[TT_TCP_READ_BYTES];
    struct tt_tcp_place place;
    uint64_t id;

    tt_tcp_read_decode(data, &id, &place);
    tt_tcp_read_encode(id, &place, again);
    FUZZ_CHECK(memcmp(again, data, sizeof(again)) == 0);
}

static void fuzz_bulk(const uint8_t *data)
{
    uint8_t again[TT_TCP_BULK_HEADER_BYTES];
    struct tt_tcp_bulk_header header;

    if (tt_tcp_bulk_decode(data, &header)) {
        FUZZ_CHECK(header.kind == TT_TCP_DATA || header.kind == TT_TCP_WRITE || header.kind == TT_TCP_PROBE);
        tt_tcp_bulk_encode(&header, again);
        FUZZ_CHECK(memcmp(again, data, sizeof(again)) == 0);
    }
}

static void fuzz_key(const uint8_t *data, size_t size)
{
    uint8_t again[TT_TCP_KEY_BYTES];
    struct tt_tcp_place place = {0};

    if (tt_tcp_key_decode(data, size, &place)) {
        FUZZ_CHECK(size == TT_TCP_KEY_BYTES && place.address == 0 && place.length_bytes == 0);
        tt_tcp_key_encode(place.index, place.token, again);
        FUZZ_CHECK(memcmp(again, data, sizeof(again)) == 0);
    }
}

static void decode(uint32_t form, const uint8_t *bytes, size_t size)
{
    switch (form) {
    case 0:
        fuzz_address(bytes, size);
        break;
    case 1:
        fuzz_greeting(bytes);
        break;
    case 2:
        fuzz_answer(bytes);
        break;
    case 3:
        fuzz_header(bytes);
        break;
    case 4:
        fuzz_read(bytes);
        break;
    case 5:
        fuzz_bulk(bytes);
        break;
    default:
        fuzz_key(bytes, size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t sizes[] = {
        0, TT_TCP_GREETING_BYTES, TT_TCP_ANSWER_BYTES, TT_TCP_HEADER_BYTES, TT_TCP_READ_BYTES, TT_TCP_BULK_HEADER_BYTES,
        0}; /* 0: of any length */
    enum { FORMS = sizeof(sizes) / sizeof(sizes[0]) };

    if (size < 1) {
        return 0;
    }
    uint32_t form = data[0] % FORMS;
    size_t length_bytes = sizes[form] > 0 ? sizes[form] : size - 1;
    if (size - 1 < length_bytes) {
        return 0;
    }
    uint8_t *bytes = malloc(length_bytes > 0 ? length_bytes : 1);
    FUZZ_CHECK(bytes != NULL);
    if (length_bytes > 0) {
        memcpy(bytes, data + 1, length_bytes);
    }
    decode(form, bytes, length_bytes);
    free(bytes);
    return 0;
}
