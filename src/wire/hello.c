/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: bootstrap frame headers to and from bytes.
 *
 * Normal path: fixed offsets. Decoding accepts exactly what encoding writes: a field that a type does not use is zero.
 *
 * Failures: anything else is TUTTI_ERR_PROTOCOL. The bytes may come from anybody who found the port.
 */
#include "wire/hello.h"

#include <stdbool.h>

#include "wire/cursor.h"

enum { MAGIC = 0x62747474 /* "tttb" */ };

enum offset {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_TYPE = 6,
    AT_RANK = 8,
    AT_SIZE = 12,
    AT_SEQUENCE = 16,
    AT_STATUS = 20,
    AT_NONCE = 24,
    AT_VALUE = 32,
    AT_LENGTH = 40
};

void tt_hello_encode(const struct tt_hello *hello, uint8_t bytes[TT_HELLO_BYTES])
{
    tt_bytes_put(bytes + AT_MAGIC, MAGIC, 4);
    tt_bytes_put(bytes + AT_VERSION, hello->version, 2);
    tt_bytes_put(bytes + AT_TYPE, (uint64_t)hello->type, 2);
    tt_bytes_put(bytes + AT_RANK, hello->rank, 4);
    tt_bytes_put(bytes + AT_SIZE, hello->size, 4);
    tt_bytes_put(bytes + AT_SEQUENCE, hello->sequence, 4);
    tt_bytes_put(bytes + AT_STATUS, (uint64_t) - (int64_t)hello->status, 4);
    tt_bytes_put(bytes + AT_NONCE, hello->nonce, 8);
    tt_bytes_put(bytes + AT_VALUE, hello->value, 8);
    tt_bytes_put(bytes + AT_LENGTH, hello->length_bytes, 8);
}

/* Which fields may differ from zero. */
struct use {
    bool sequence, status, nonce, value, text, data;
};

static bool unused_fields_are_zero(const struct tt_hello *hello, const struct use *use)
{
    return (use->sequence || hello->sequence == 0) && (use->status || hello->status == TUTTI_OK) &&
           (use->nonce || hello->nonce == 0) && (use->value || hello->value == 0) &&
           (use->text || use->data || hello->length_bytes == 0);
}

static bool is_valid(const struct tt_hello *hello)
{
    static const struct use uses[] = {
        [TT_HELLO_HELLO] = {.nonce = true},
        [TT_HELLO_WELCOME] = {.nonce = true, .value = true},
        [TT_HELLO_REFUSE] = {.status = true, .text = true},
        [TT_HELLO_READY] = {.sequence = false},
        [TT_HELLO_FAIL] = {.status = true, .text = true},
        [TT_HELLO_GATHER] = {.sequence = true, .data = true},
        [TT_HELLO_RESULT] = {.sequence = true, .data = true},
    };
    const struct use *use = &uses[hello->type];

    if (hello->size == 0 || hello->size > TT_HELLO_MAX_RANKS || !unused_fields_are_zero(hello, use)) {
        return false;
    }
    bool may_have_none = hello->type == TT_HELLO_HELLO || hello->type == TT_HELLO_FAIL;
    if (hello->rank >= hello->size && !(may_have_none && hello->rank == TT_HELLO_NO_RANK)) {
        return false;
    }
    if (use->text && (hello->status == TUTTI_OK || hello->length_bytes > TT_HELLO_MAX_TEXT_BYTES)) {
        return false;
    }
    return !use->sequence || hello->sequence > 0;
}

tutti_status tt_hello_decode(const uint8_t bytes[TT_HELLO_BYTES], struct tt_hello *hello)
{
    struct tt_hello decoded;
    uint64_t type = tt_bytes_get(bytes + AT_TYPE, 2);
    uint64_t status = tt_bytes_get(bytes + AT_STATUS, 4);

    if (tt_bytes_get(bytes + AT_MAGIC, 4) != MAGIC || type < TT_HELLO_HELLO || type > TT_HELLO_RESULT) {
        return TUTTI_ERR_PROTOCOL;
    }
    decoded.type = (enum tt_hello_type)type;
    decoded.version = (uint16_t)tt_bytes_get(bytes + AT_VERSION, 2);
    decoded.rank = (uint32_t)tt_bytes_get(bytes + AT_RANK, 4);
    decoded.size = (uint32_t)tt_bytes_get(bytes + AT_SIZE, 4);
    decoded.sequence = (uint32_t)tt_bytes_get(bytes + AT_SEQUENCE, 4);
    /* Enumerations hold what they were declared to: a number that is no status here reads as a general one. */
    decoded.status = status <= -TUTTI_ERR_BOOTSTRAP ? (tutti_status)(-(int)status) : TUTTI_ERR_BOOTSTRAP;
    decoded.nonce = tt_bytes_get(bytes + AT_NONCE, 8);
    decoded.value = tt_bytes_get(bytes + AT_VALUE, 8);
    decoded.length_bytes = tt_bytes_get(bytes + AT_LENGTH, 8);
    if (decoded.version != TT_HELLO_VERSION) {
        bool stable = decoded.type == TT_HELLO_HELLO || decoded.type == TT_HELLO_REFUSE;
        if (!stable || (decoded.type == TT_HELLO_REFUSE && decoded.length_bytes > TT_HELLO_MAX_TEXT_BYTES)) {
            return TUTTI_ERR_PROTOCOL;
        }
    } else if (!is_valid(&decoded)) {
        return TUTTI_ERR_PROTOCOL;
    }
    *hello = decoded;
    return TUTTI_OK;
}
