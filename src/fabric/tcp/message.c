/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes and decodes what goes over the sockets; see the header. Normal path: fields in their order. Failures: what is
 * not as it should be is not decoded, and its reader breaks the connection.
 */
#include "fabric/tcp/message.h"

#include <string.h>

#include "wire/cursor.h"

enum {
    MAGIC = 0x70637474,        /* "ttcp" */
    ANSWER_MAGIC = 0x61637474, /* "ttca": a socket that has got connected to itself hears no answer */
    KEY_MAGIC = 0x6b637474     /* "ttck" */
};

void tt_tcp_address_encode(const struct tt_tcp_address *address, uint8_t bytes[TT_TCP_ADDRESS_BYTES])
{
    struct tt_writer writer = {.at = bytes, .end = bytes + TT_TCP_ADDRESS_BYTES};
    tt_write(&writer, address->family, 1);
    tt_write(&writer, address->instance, 5);
    tt_write(&writer, address->port, 2);
    tt_write_bytes(&writer, address->ip, sizeof(address->ip));
}

bool tt_tcp_address_decode(const void *bytes, size_t length_bytes, struct tt_tcp_address *address)
{
    const uint8_t *begin = bytes;
    struct tt_reader reader = {.at = begin, .end = begin + length_bytes};
    struct tt_tcp_address read = {0};
    read.family = (uint8_t)tt_read(&reader, 1);
    read.instance = tt_read(&reader, 5);
    read.port = (uint16_t)tt_read(&reader, 2);
    const uint8_t *ip = tt_read_bytes(&reader, sizeof(read.ip));
    static const uint8_t zeros[12] = {0};
    if (!tt_reader_is_done(&reader) || (read.family != 4 && read.family != 6) || read.port == 0 ||
        (read.family == 4 && memcmp(ip + 4, zeros, sizeof(zeros)) != 0)) {
        return false;
    }
    memcpy(read.ip, ip, sizeof(read.ip));
    *address = read;
    return true;
}

void tt_tcp_greeting_encode(const struct tt_tcp_greeting *greeting, uint8_t bytes[TT_TCP_GREETING_BYTES])
{
    struct tt_writer writer = {.at = bytes, .end = bytes + TT_TCP_GREETING_BYTES};
    tt_write(&writer, MAGIC, 4);
    tt_write(&writer, greeting->version, 1);
    tt_write(&writer, greeting->purpose, 1);
    tt_write(&writer, 0, 2);
    tt_write_bytes(&writer, greeting->to, TT_TCP_ADDRESS_BYTES);
    tt_write_bytes(&writer, greeting->from, TT_TCP_ADDRESS_BYTES);
    tt_write(&writer, greeting->serial, 4);
}

bool tt_tcp_greeting_decode(const uint8_t bytes[TT_TCP_GREETING_BYTES], struct tt_tcp_greeting *greeting)
{
    struct tt_reader reader = {.at = bytes, .end = bytes + TT_TCP_GREETING_BYTES};
    struct tt_tcp_greeting read = {0};
    struct tt_tcp_address from;
    if (tt_read(&reader, 4) != MAGIC) {
        return false;
    }
    read.version = (uint8_t)tt_read(&reader, 1);
    if (read.version != TT_TCP_VERSION) {
        *greeting = read;
        return true;
    }
    uint32_t purpose = (uint32_t)tt_read(&reader, 1);
    uint32_t zero = (uint32_t)tt_read(&reader, 2);
    memcpy(read.to, tt_read_bytes(&reader, TT_TCP_ADDRESS_BYTES), TT_TCP_ADDRESS_BYTES);
    memcpy(read.from, tt_read_bytes(&reader, TT_TCP_ADDRESS_BYTES), TT_TCP_ADDRESS_BYTES);
    read.serial = (uint32_t)tt_read(&reader, 4);
    if ((purpose != TT_TCP_FOR_FRAMES && purpose != TT_TCP_FOR_BULK) || zero != 0 ||
        !tt_tcp_address_decode(read.from, sizeof(read.from), &from)) {
        return false;
    }
    read.purpose = (enum tt_tcp_purpose)purpose;
    *greeting = read;
    return true;
}

void tt_tcp_answer_encode(enum tt_tcp_answer answer, uint8_t bytes[TT_TCP_ANSWER_BYTES])
{
    struct tt_writer writer = {.at = bytes, .end = bytes + TT_TCP_ANSWER_BYTES};
    tt_write(&writer, ANSWER_MAGIC, 4);
    tt_write(&writer, answer, 1);
    tt_write(&writer, TT_TCP_VERSION, 1);
    tt_write(&writer, 0, 2);
}

bool tt_tcp_answer_decode(const uint8_t bytes[TT_TCP_ANSWER_BYTES], enum tt_tcp_answer *answer)
{
    uint8_t kind = bytes[4];
    if (tt_bytes_get(bytes, 4) != ANSWER_MAGIC || kind < TT_TCP_WELCOME || kind >= TT_TCP_ANSWER_LIMIT) {
        return false;
    }
    *answer = (enum tt_tcp_answer)kind;
    return true;
}

void tt_tcp_header_encode(enum tt_tcp_kind kind, uint32_t payload_bytes, uint8_t bytes[TT_TCP_HEADER_BYTES])
{
    bytes[0] = (uint8_t)kind;
    bytes[1] = 0;
    tt_bytes_put(bytes + 2, payload_bytes, 2);
}

bool tt_tcp_header_decode(const uint8_t bytes[TT_TCP_HEADER_BYTES], enum tt_tcp_kind *kind, uint32_t *payload_bytes)
{
    uint32_t length_bytes = (uint32_t)tt_bytes_get(bytes + 2, 2);
    bool fits;
    switch (bytes[0]) {
    case TT_TCP_FRAME:
        fits = length_bytes > 0 && length_bytes <= TT_P2P_MAX_FRAME_BYTES;
        break;
    case TT_TCP_READ:
        fits = length_bytes == TT_TCP_READ_BYTES;
        break;
    case TT_TCP_WRITTEN:
    case TT_TCP_REFUSED:
        fits = length_bytes == TT_TCP_ID_BYTES;
        break;
    case TT_TCP_BYE:
    case TT_TCP_BYE_HEARD:
    case TT_TCP_PROBE:
    case TT_TCP_WANT_BULK:
        fits = length_bytes == 0;
        break;
    default:
        fits = false;
    }
    if (!fits || bytes[1] != 0) {
        return false;
    }
    *kind = (enum tt_tcp_kind)bytes[0];
    *payload_bytes = length_bytes;
    return true;
}

static void write_place(struct tt_writer *writer, const struct tt_tcp_place *place)
{
    tt_write(writer, place->index, 4);
    tt_write(writer, place->token, 8);
    tt_write(writer, place->address, 8);
    tt_write(writer, place->length_bytes, 8);
}

static void read_place(struct tt_reader *reader, struct tt_tcp_place *place)
{
    place->index = (uint32_t)tt_read(reader, 4);
    place->token = tt_read(reader, 8);
    place->address = tt_read(reader, 8);
    place->length_bytes = tt_read(reader, 8);
}

void tt_tcp_read_encode(uint64_t id, const struct tt_tcp_place *place, uint8_t bytes[TT_TCP_READ_BYTES])
{
    struct tt_writer writer = {.at = bytes, .end = bytes + TT_TCP_READ_BYTES};
    tt_write(&writer, id, 8);
    write_place(&writer, place);
}

void tt_tcp_read_decode(const uint8_t bytes[TT_TCP_READ_BYTES], uint64_t *id, struct tt_tcp_place *place)
{
    struct tt_reader reader = {.at = bytes, .end = bytes + TT_TCP_READ_BYTES};
    *id = tt_read(&reader, 8);
    read_place(&reader, place);
}

void tt_tcp_bulk_encode(const struct tt_tcp_bulk_header *header, uint8_t bytes[TT_TCP_BULK_HEADER_BYTES])
{
    struct tt_writer writer = {.at = bytes, .end = bytes + TT_TCP_BULK_HEADER_BYTES};
    tt_write(&writer, header->kind, 1);
    tt_write(&writer, 0, 2);
    tt_write(&writer, header->immediate.data_bytes, 1);
    tt_write(&writer, header->id, 8);
    write_place(&writer, &header->place);
    tt_write(&writer, header->immediate.value, 8);
    tt_write_bytes(&writer, header->immediate.data, header->immediate.data_bytes);
    memset(writer.at, 0, (size_t)(writer.end - writer.at));
}

bool tt_tcp_bulk_decode(const uint8_t bytes[TT_TCP_BULK_HEADER_BYTES], struct tt_tcp_bulk_header *header)
{
    struct tt_reader reader = {.at = bytes, .end = bytes + TT_TCP_BULK_HEADER_BYTES};
    struct tt_tcp_bulk_header read = {0};
    uint32_t kind = (uint32_t)tt_read(&reader, 1);
    uint32_t zero = (uint32_t)tt_read(&reader, 2);
    read.immediate.data_bytes = (uint32_t)tt_read(&reader, 1);
    read.id = tt_read(&reader, 8);
    read_place(&reader, &read.place);
    read.immediate.value = tt_read(&reader, 8);
    memcpy(read.immediate.data, tt_read_bytes(&reader, sizeof(read.immediate.data)), sizeof(read.immediate.data));
    if (zero != 0 || !tt_p2p_immediate_is_sound(&read.immediate) ||
        (kind != TT_TCP_DATA && kind != TT_TCP_WRITE && kind != TT_TCP_PROBE) ||
        (kind == TT_TCP_PROBE && read.place.length_bytes != 0)) {
        return false;
    }
    read.kind = (enum tt_tcp_kind)kind;
    *header = read;
    return true;
}

void tt_tcp_key_encode(uint32_t index, uint64_t token, uint8_t bytes[TT_TCP_KEY_BYTES])
{
    struct tt_writer writer = {.at = bytes, .end = bytes + TT_TCP_KEY_BYTES};
    tt_write(&writer, KEY_MAGIC, 4);
    tt_write(&writer, index, 4);
    tt_write(&writer, token, 8);
}

bool tt_tcp_key_decode(const void *bytes, size_t length_bytes, struct tt_tcp_place *place)
{
    const uint8_t *begin = bytes;
    if (length_bytes != TT_TCP_KEY_BYTES || tt_bytes_get(begin, 4) != KEY_MAGIC) {
        return false;
    }
    place->index = (uint32_t)tt_bytes_get(begin + 4, 4);
    place->token = tt_bytes_get(begin + 8, 8);
    return true;
}
