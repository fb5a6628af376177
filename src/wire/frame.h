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

#include "base/method.h"
#include "wire/chunk.h"

enum {
    TT_FRAME_MAGIC = 0x7474, /* "tt" */
    TT_FRAME_VERSION = 18,
    TT_FRAME_HEADER_BYTES = 24,
    TT_FRAME_MAX_BYTES = 2176, /* but for what a GATHER has more */
    TT_FRAME_MAX_KEY_BYTES = 256,
    TT_FETCH_WINDOW = 1024,                       /* chunks that one fetch request speaks of */
    TT_FETCH_WINDOW_WORDS = TT_FETCH_WINDOW / 64, /* and its bitmap */
    TT_ROLLCALL_RANKS = 7680,                     /* that one frame tells of, 8 a byte */
    TT_FRAME_DATA_BYTES = 992,                    /* of a block, in one DATA frame */
    TT_FRAME_GATHER_HEAD_BYTES = 96,              /* at most, before the bytes of a GATHER */
    TT_FRAME_GATHER_BYTES = TT_FRAME_MAX_BYTES - TT_FRAME_GATHER_HEAD_BYTES /* of a GATHER in a frame of that length */
};

enum tt_frame_type {
    TT_FRAME_BARRIER = 1, /* RNR barrier, a round of it, with the sender's idea of the collective */
    TT_FRAME_ACTIVATE,    /* sequencer: the receiver is its chain's next root */
    TT_FRAME_DONE,        /* a chain's roots have sent everything */
    TT_FRAME_CREDIT,      /* flow control: so far may roots go, for all that the sender speaks for */
    TT_FRAME_GRANT,       /* flow control: so far may roots go */
    TT_FRAME_FETCH,       /* the sender misses these chunks */
    TT_FRAME_AVAILABLE,   /* these of them may be read, at this address under this key */
    TT_FRAME_FINAL,       /* the sender reads nothing more from the receiver */
    TT_FRAME_PROBE,       /* start-up probe: a word of it, up or down the gather tree of rank 0 */
    TT_FRAME_FAIL,        /* the group has failed: the status, the rank that it is about, and who noticed */
    TT_FRAME_ROLLCALL,    /* who has posted the collective with this sequence number? */
    TT_FRAME_ASK,         /* eager: say KEPT when you have it; the sender waits for this collective */
    TT_FRAME_ACK,         /* eager: all before `sequence` have ended at whomever the sender speaks for; a round of it */
    TT_FRAME_BYE,         /* the sender leaves; `sequence` is the first that it has not taken part in */
    TT_FRAME_READY,       /* tree: the sender has posted this */
    TT_FRAME_DATA,        /* tree: a piece of the block */
    TT_FRAME_GATHER,      /* gather: all that the sender speaks for have posted this; a piece of their blocks */
    TT_FRAME_REMIND,      /* tree, gather: the sender waits for what the receiver has to say */
    TT_FRAME_KEPT,        /* eager: what ASK was for is here */
    TT_FRAME_OPEN,        /* to whom multicast may not reach: the barrier is over; the release, if the sender has it */
    TT_FRAME_TYPE_COUNT
};

/* What PROBE says; the first two go up the gather tree, the others down. */
enum tt_probe_phase {
    TT_PHASE_PROBING,     /* the sender and those it speaks for are probing */
    TT_PHASE_VOTE,        /* their vote; they are probing */
    TT_PHASE_ALL_PROBING, /* all ranks are */
    TT_PHASE_RESULT,      /* what all votes come to */
    TT_PHASE_COUNT
};

enum { TT_DONE_ALL_CHAINS = 0xFFFFFFFF, TT_RANK_NONE = 0xFFFFFFFF };

/* What all ranks must agree on about a collective. */
struct tt_collective_terms {
    uint8_t kind;   /* enum tt_collective_kind */
    uint8_t method; /* enum tt_method */
    uint16_t subgroups;
    uint32_t root;
    uint32_t chunk_bytes;
    uint32_t chains;      /* below 2^16 */
    uint64_t block_bytes; /* that a rank gives; of a scatter, that it gets */
    uint8_t type;         /* enum tt_type; this and the rest are 0, and not said, where nothing is combined */
    uint8_t operation;    /* enum tt_reduce_operation */
    uint32_t element_bytes;
    uint32_t counts; /* of a reduce-scatter with parts of different lengths: a digest of these */
    uint16_t before; /* a digest of all collectives before it that began without hearing from all; 0: there is none */
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
            uint64_t finished; /* of all that the sender speaks for: the collectives before this one have ended */
        } barrier;
        struct {
            struct tt_collective_terms terms;
            uint64_t digest; /* of what the sender has */
        } ask;
        struct {
            struct tt_collective_terms terms;
        } ready;
        struct {
            struct tt_collective_terms terms;
            uint32_t offset_bytes;
            uint16_t length_bytes; /* 1 .. TT_FRAME_DATA_BYTES */
            const uint8_t *bytes;  /* decoded: inside the frame's bytes */
        } data;
        struct {
            struct tt_collective_terms terms;
            struct tt_release least; /* of all that the sender speaks for */
            uint32_t offset_bytes;   /* in the receive buffer */
            uint16_t length_bytes;   /* of vectors more than TT_FRAME_GATHER_BYTES, where frames are longer */
            const uint8_t *bytes;    /* decoded: inside the frame's bytes */
        } gather;
        struct {
            bool known; /* the release has come to the sender; else `least` means nothing */
            struct tt_release least;
        } open;
        struct {
            uint8_t round;
            struct tt_collective_terms terms; /* of the last collective before the frame's sequence number that began
                                                 without hearing from all; kind 0: the sender does not know any more */
        } ack;
        struct {
            uint32_t chain;
        } done;
        struct {
            uint32_t turns; /* proto/flow.h; 0xFFFFFFFF: to the end */
        } credit;           /* and grant */
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
            uint8_t phase;        /* enum tt_probe_phase */
            uint8_t heard_all;    /* vote, result */
            uint32_t failed_rank; /* lowest rank that some rank did not hear; TT_RANK_NONE */
            uint32_t deaf_rank;   /* lowest rank that did not hear some rank; TT_RANK_NONE */
            uint32_t deaf_count;  /* how many did not */
        } probe;
        struct {
            int32_t status; /* a negative tutti_status */
            uint32_t rank;
            uint32_t noticed_by; /* the rank that has noticed it */
            /* MISMATCH: what that one posted, and what `rank` did; kind 0: not known */
            struct tt_collective_terms here, there;
        } fail;
        struct {
            uint32_t rank_count;    /* of the group */
            const uint8_t *present; /* one bit a rank, `first` first; decoded: inside the frame's bytes */
            uint32_t first;         /* of those that this frame tells of: a multiple of TT_ROLLCALL_RANKS */
        } rollcall;
    } body;
};

/* How many ranks a ROLLCALL tells of. */
static inline uint32_t tt_rollcall_ranks(uint32_t rank_count, uint32_t first)
{
    uint32_t left = rank_count - first;

    return left < TT_ROLLCALL_RANKS ? left : TT_ROLLCALL_RANKS;
}

/* Writes the frame without the bytes of a GATHER, which are to follow at once; returns its length, 0 if the capacity
 * does not do. TT_FRAME_MAX_BYTES always does. */
size_t tt_frame_encode_head(const struct tt_frame *frame, uint8_t *bytes, size_t capacity_bytes);

/* Writes all of the frame, as above; TT_FRAME_MAX_BYTES does but for a longer GATHER. */
size_t tt_frame_encode(const struct tt_frame *frame, uint8_t *bytes, size_t capacity_bytes);

/* Reads a frame; false if it is malformed, and then *frame is undefined. Pointers in *frame point into `bytes`. */
bool tt_frame_decode(const uint8_t *bytes, size_t length_bytes, struct tt_frame *frame);

const char *tt_frame_name(enum tt_frame_type type);

/* What the sender means by the collective; NULL if frames of this type do not say. */
static inline const struct tt_collective_terms *tt_frame_terms(const struct tt_frame *frame)
{
    switch (frame->type) {
    case TT_FRAME_BARRIER:
        return &frame->body.barrier.terms;
    case TT_FRAME_ASK:
        return &frame->body.ask.terms;
    case TT_FRAME_READY:
    case TT_FRAME_REMIND:
        return &frame->body.ready.terms;
    case TT_FRAME_DATA:
        return &frame->body.data.terms;
    case TT_FRAME_GATHER:
        return &frame->body.gather.terms;
    default:
        return NULL;
    }
}

#endif
