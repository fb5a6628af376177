/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as everything that the ucx provider decodes: headers of messages, reads, headers of bulk, keys and
 * addresses. What decodes must be within bounds, and must encode to the very bytes it came from. The first byte chooses
 * the form, and whether magic numbers, the length and the checksum are put right first, which no fuzzer guesses; each
 * is given exactly its length, in a block of that size, so that a read past its end is seen.
 */
#include <string.h>

#include "check.h"
#include "fabric/p2p.h"
#include "fabric/ucx/message.h"
#include "wire/cursor.h"

enum { MESSAGE, BULK, KEY, ADDRESS, FORMS, MENDED = 0x80, DATA_BYTES_BYTES = 4 };

static void mend(uint32_t form, uint8_t *bytes, size_t size)
{
    static const char magic[FORMS][5] = {"ttp1", "ttb1", "ttk1", "tta1"};

    memcpy(bytes, magic[form], size < 4 ? size : 4);
    if (form == MESSAGE && size >= TT_UCX_HEADER_BYTES) {
        tt_bytes_put(bytes + 6, size - TT_UCX_HEADER_BYTES, 2);
    } else if (form == ADDRESS && size > TT_UCX_ADDRESS_HEADER_BYTES) {
        uint64_t instance = tt_bytes_get(bytes + 8, 8);
        tt_ucx_address_encode(bytes, instance, size - TT_UCX_ADDRESS_HEADER_BYTES);
    }
}

static void fuzz_read(const uint8_t *data)
{
    uint8_t again[TT_UCX_READ_BYTES];
    struct tt_ucx_connection connection;
    struct tt_ucx_place place;

    tt_ucx_read_decode(data, &connection, &place);
    tt_ucx_read_encode(&connection, &place, again);
    FUZZ_CHECK(memcmp(again, data, sizeof(again)) == 0);
}

static void fuzz_message(const uint8_t *data, size_t size)
{
    uint8_t again[TT_UCX_HEADER_BYTES];
    struct tt_ucx_header header;

    if (!tt_ucx_header_decode(data, size, &header)) {
        return;
    }
    FUZZ_CHECK(header.kind >= TT_UCX_FRAME && header.kind < TT_UCX_KIND_LIMIT);
    FUZZ_CHECK(header.payload_bytes <= TT_P2P_LEAST_FRAME_BYTES && TT_UCX_HEADER_BYTES + header.payload_bytes == size);
    tt_ucx_header_encode(&header, again);
    FUZZ_CHECK(memcmp(again, data, sizeof(again)) == 0);
    if (header.kind == TT_UCX_READ) {
        fuzz_read(data + TT_UCX_HEADER_BYTES);
    }
}

/* A piece of bulk lies within its place, computed without an overflow. */
static void fuzz_bulk(const uint8_t *data, size_t size, size_t data_bytes)
{
    uint8_t again[TT_UCX_BULK_HEADER_MAX_BYTES];
    struct tt_ucx_bulk bulk;

    if (!tt_ucx_bulk_decode(data, size, data_bytes, &bulk)) {
        return;
    }
    FUZZ_CHECK(data_bytes > 0 && (bulk.kind == TT_UCX_READ_DATA || bulk.kind == TT_UCX_WRITE_DATA));
    __extension__ typedef unsigned __int128 wide;
    FUZZ_CHECK(bulk.kind == TT_UCX_READ_DATA || (wide)bulk.offset_bytes + data_bytes <= bulk.place.length_bytes);
    FUZZ_CHECK(tt_ucx_bulk_encode(&bulk, again) == size);
    FUZZ_CHECK(memcmp(again, data, size) == 0);
}

static void fuzz_key(const uint8_t *data, size_t size)
{
    uint8_t again[TT_UCX_KEY_HEADER_BYTES];
    struct tt_ucx_place place;

    if (tt_ucx_key_decode(data, size, &place)) {
        FUZZ_CHECK(size >= TT_UCX_KEY_HEADER_BYTES && size <= TT_P2P_MAX_KEY_BYTES);
        tt_ucx_key_encode(again, place.index, place.token);
        FUZZ_CHECK(memcmp(again, data, sizeof(again)) == 0);
    }
}

static void fuzz_address(uint8_t *data, size_t size)
{
    uint8_t header[TT_UCX_ADDRESS_HEADER_BYTES];
    uint64_t instance;

    if (tt_ucx_address_decode(data, size, &instance)) {
        FUZZ_CHECK(size > TT_UCX_ADDRESS_HEADER_BYTES && size <= TT_P2P_MAX_ADDRESS_BYTES);
        memcpy(header, data, sizeof(header));
        tt_ucx_address_encode(data, instance, size - TT_UCX_ADDRESS_HEADER_BYTES);
        FUZZ_CHECK(memcmp(header, data, sizeof(header)) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 + DATA_BYTES_BYTES) {
        return 0;
    }
    uint32_t form = (data[0] & ~(uint32_t)MENDED) % FORMS;
    size_t data_bytes = (size_t)tt_bytes_get(data + 1, DATA_BYTES_BYTES); /* of a piece of bulk */
    size_t skipped = form == BULK ? 1 + DATA_BYTES_BYTES : 1;
    size_t length = size - skipped;
    uint8_t *bytes = malloc(length > 0 ? length : 1);
    FUZZ_CHECK(bytes != NULL);
    memcpy(bytes, data + skipped, length);
    if ((data[0] & MENDED) != 0) {
        mend(form, bytes, length);
    }
    switch (form) {
    case MESSAGE:
        fuzz_message(bytes, length);
        break;
    case BULK:
        fuzz_bulk(bytes, length, data_bytes);
        break;
    case KEY:
        fuzz_key(bytes, length);
        break;
    default:
        fuzz_address(bytes, length);
        break;
    }
    free(bytes);
    return 0;
}
