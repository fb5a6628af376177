/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control frames: what the members of a group say to each other over p2p. Little-endian, a header of 24 bytes and a
 * body by type. Decoding checks everything that can be checked without knowing the group; it never reads past the end.
 */
#ifndef TT_WIRE_FRAME_H
#define TT_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TT_FRAME_MAGIC = 0x7474, /* "tt" */
    TT_FRAME_VERSION = 2,
    TT_FRAME_HEADER_BYTES = 24,
    TT_FRAME_MAX_BYTES = 1024,
    TT_FRAME_MAX_KEY_BYTES = 256,
    TT_FETCH_WINDOW = 1024,                       /* chunks that one fetch request speaks of */
    TT_FETCH_WINDOW_WORDS = TT_FETCH_WINDOW / 64, /* and its bitmap */
    TT_ROLLCALL_MAX_RANKS = 7680                  /* what fits a frame, 8 ranks a byte */
};

enum tt_frame_type {
    TT_FRAME_BARRIER = 1, /* RNR barrier, a round of it, with the sender's idea of the collective */
    TT_FRAME_ACTIVATE,    /* sequencer: the receiver is its chain's next root */
    TT_FRAME_DONE,        /* a chain's roots have sent everything */
    TT_FRAME_CREDIT,      /* flow control: the sender's subtree has consumed this many quanta */
    TT_FRAME_GRANT,       /* flow control: all ranks have; on its way to a root */
    TT_FRAME_FETCH,       /* the sender misses these chunks */
    TT_FRAME_AVAILABLE,   /* these of them may be read, at this address under this key */
    TT_FRAME_FINAL,       /* the sender has everything, or reads nothing more because the group has failed */
    TT_FRAME_PROBE,       /* start-up probe: barrier and vote */
    TT_FRAME_FAIL,        /* the group has failed: the status, and the rank that it is about */
    TT_FRAME_ROLLCALL,    /* who has posted the collective with this sequence number? */
    TT_FRAME_ASK,         /* eager: tell me when you have it; the sender waits for this collective */
    TT_FRAME_ACK,         /* eager: all before `sequence` have ended at whomever the sender speaks for; a round of it */
    TT_FRAME_BYE,         /* the sender leaves; `sequence` is the first that it has not taken part in */
    TT_FRAME_TYPE_COUNT
};

enum { TT_DONE_ALL_CHAINS = 0xFFFFFFFF, TT_RANK_NONE = 0xFFFFFFFF };

/* How the data of a collective moves. */
enum tt_method {
    TT_METHOD_RING,      /* point to point, block by block around the ring; a broadcast's is a chain */
    TT_METHOD_MULTICAST, /* barrier, multicast, handshake */
    TT_METHOD_EAGER,     /* multicast without a barrier before or a handshake after it */
    TT_METHOD_TREE,      /* point to point, down a binomial tree */
    TT_METHOD_COUNT
};

static inline bool tt_method_is_multicast(unsigned method)
{
    return method == TT_METHOD_MULTICAST || method == TT_METHOD_EAGER;
}

const char *tt_method_name(unsigned method);

/* What all ranks must agree on about a collective. */
struct tt_collective_terms {
    uint8_t kind;   /* enum tt_collective_kind */
    uint8_t method; /* enum tt_method */
    uint16_t subgroups;
    uint32_t root;
    uint32_t chunk_bytes;
    uint32_t chains;
    uint64_t block_bytes;
};

/* A window of a subgroup's PSNs: base, and a bit for each of the `count` PSNs from there. */
struct tt_window {
    uint32_t base;
    uint16_t subgroup;
    uint16_t count; /* 1 .. TT_FETCH_WINDOW */
    uint64_t bits[TT_FETCH_WINDOW_WORDS];
};

struct tt_frame {
    enum tt_frame_type type;
    uint32_t source; /* rank */
    uint64_t group;  /* the group's key */
    uint64_t sequence;
    union {
        struct {
            uint8_t round;
            struct tt_collective_terms terms;
            uint64_t finished;  /* of all that the sender speaks for: the collectives before this one have ended */
            uint32_t rate_kbit; /* and the least bandwidth that any of them can take */
        } barrier;
        struct {
            struct tt_collective_terms terms;
            uint64_t digest; /* of what the sender has */
        } ask;
        struct {
            uint8_t round;
        } ack;
        struct {
            uint32_t chain;
        } done;
        struct {
            uint32_t quanta;
        } credit;
        struct {
            uint32_t quanta;
            uint32_t target; /* root index */
        } grant;
        struct {
            uint8_t slot;
            struct tt_window window;
        } fetch; /* and available, which has these too: */
        struct {
            uint8_t slot;
            struct tt_window window;
            uint64_t address; /* of the sender's receive buffer */
            uint16_t key_bytes;
            const uint8_t *key; /* decoded: inside the frame's bytes */
        } available;
        struct {
            uint8_t phase; /* 0 barrier, 1 vote */
            uint8_t round;
            uint8_t heard_all;
            uint32_t failed_rank; /* lowest rank that some rank did not hear; TT_RANK_NONE */
        } probe;
        struct {
            int32_t status; /* a negative tutti_status */
            uint32_t rank;
        } fail;
        struct {
            uint32_t rank_count;
            const uint8_t *present; /* one bit a rank, lowest first; decoded: inside the frame's bytes */
        } rollcall;
    } body;
};

/* Writes the frame; returns its length, 0 if the capacity does not do (TT_FRAME_MAX_BYTES always does). */
size_t tt_frame_encode(const struct tt_frame *frame, uint8_t *bytes, size_t capacity_bytes);

/* Reads a frame; false if it is malformed, and then *frame is undefined. Pointers in *frame point into `bytes`. */
bool tt_frame_decode(const uint8_t *bytes, size_t length_bytes, struct tt_frame *frame);

const char *tt_frame_name(enum tt_frame_type type);

#endif
