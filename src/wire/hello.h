/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bootstrap frames: what ranks say to rank 0 over TCP while a job starts, and what rank 0 answers. Pure.
 *
 * Little-endian; every frame has one header of TT_HELLO_BYTES, then `length_bytes` of payload. The header, and the
 * meaning of HELLO and REFUSE, stay the same in all versions, so that different versions can still tell each other so.
 */
#ifndef TT_WIRE_HELLO_H
#define TT_WIRE_HELLO_H

#include <stdint.h>

#include "tutti/status.h"

enum {
    TT_HELLO_BYTES = 48,
    TT_HELLO_VERSION = 3,
    TT_HELLO_MAX_RANKS = 65536,
    TT_HELLO_MAX_TEXT_BYTES = 1024 /* of REFUSE and FAIL, without a terminator */
};

#define TT_HELLO_NO_RANK UINT32_MAX

enum tt_hello_type {
    TT_HELLO_HELLO = 1,   /* rank, or NO_RANK: give me one; size, nonce: I am here */
    TT_HELLO_WELCOME = 2, /* rank: yours; nonce: of the HELLO; value: ns that rank 0 will still wait for the others */
    TT_HELLO_REFUSE = 3,  /* status, text: you cannot take part */
    TT_HELLO_READY = 4,   /* all ranks are here */
    TT_HELLO_FAIL = 5,    /* status, text, rank: it is over, because of this rank (or NO_RANK) */
    TT_HELLO_GATHER = 6,  /* rank, sequence, payload: my contribution to this allgather */
    TT_HELLO_RESULT = 7   /* sequence, payload: all of them, in the order of ranks */
};

struct tt_hello {
    enum tt_hello_type type;
    uint16_t version;
    uint32_t rank;         /* of the sender; in WELCOME: of the receiver; in FAIL: that failed */
    uint32_t size;         /* ranks in the job, as the sender knows it */
    uint32_t sequence;     /* GATHER, RESULT: which allgather, from 1 */
    tutti_status status;   /* REFUSE, FAIL */
    uint64_t nonce;        /* HELLO, WELCOME: the same for all connections of one process */
    uint64_t value;        /* WELCOME */
    uint64_t length_bytes; /* of the payload */
};

void tt_hello_encode(const struct tt_hello *hello, uint8_t bytes[TT_HELLO_BYTES]);

/*
 * TUTTI_ERR_PROTOCOL for anything that encode cannot have written, but that a HELLO or REFUSE may be of another
 * version; of such a HELLO only `version` and `rank` mean something. Says nothing itself: bytes from strangers are not
 * an error.
 */
tutti_status tt_hello_decode(const uint8_t bytes[TT_HELLO_BYTES], struct tt_hello *hello);

#endif
