/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tests of the protocol machines share: the memory of one rank's collective, laid out from a shape, and a list of
 * actions that the test reads one by one, so that each test says every action that it expects, and no other. In which
 * order counts only where it does to the protocol (actions_are_ordered).
 */
#ifndef TT_TEST_MACHINE_H
#define TT_TEST_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/collective.h"
#include "proto/eager.h"

enum { MACHINE_SUBGROUPS = 4, MACHINE_WORDS = 160, MACHINE_CHAINS = 16, MACHINE_ACTIONS = 1024 };
/* More than is gathered in all, so that blocks of more than a frame fit in groups of some size. */
enum {
    MACHINE_BUFFER_BYTES = 2 * TT_EAGER_MAX_BYTES,
    MACHINE_VECTORS_BYTES = 6 * TT_EAGER_MAX_BYTES, /* of one of 20 ranks and its children, where vectors fold */
    MACHINE_GUARD = 0xC3
};

/* What of a collective a test cares for; fields that are 0 get the value in brackets. */
struct shape {
    enum tt_collective_kind kind; /* [broadcast] */
    uint32_t rank, size, root;
    uint64_t block_bytes;
    uint32_t chunk_bytes;    /* [16] */
    uint32_t subgroups;      /* [1] */
    uint32_t chains;         /* [1] */
    uint32_t window_chunks;  /* [no flow control] */
    bool p2p, eager, gather; /* [multicast with barrier and handshake] */
    bool parts, eager_parts; /* of bytes that are summed up */
    uint64_t ask_ns;         /* [5 ms] */
};

/* The times of every collective here, in ns. */
enum {
    MACHINE_WIRE_NS = 10000,
    MACHINE_ALPHA_NS = 1000,
    MACHINE_TAIL_NS = 100,
    MACHINE_STALL_NS = 500,
    MACHINE_TIMEOUT_NS = 1000000,
    MACHINE_ROLLCALL_NS = 100000
};
#define MACHINE_GROUP UINT64_C(0xABCDEF0123456789)

struct memory {
    struct tt_collective_config config;
    struct tt_stream streams[MACHINE_SUBGROUPS];
    _Atomic uint64_t bitmaps[MACHINE_SUBGROUPS][MACHINE_WORDS];
    struct tt_link link;
    uint32_t positions[MACHINE_CHAINS * MACHINE_SUBGROUPS];
    uint8_t done[MACHINE_CHAINS];
    uint8_t buffer[MACHINE_BUFFER_BYTES];    /* where blocks are gathered */
    uint8_t gathered[MACHINE_VECTORS_BYTES]; /* the same, if they are combined: the buffer is for the result */
};

/* Sets up streams and config. Only where blocks are gathered the streams have a buffer; it is full of MACHINE_GUARD. */
void memory_init(struct memory *memory, const struct shape *shape);

/* As if the kernel had placed these chunks: bits and count. */
void memory_receive(struct memory *memory, uint32_t subgroup, uint32_t first_psn, uint32_t count);

/* As if it had placed everything that other roots send. */
void memory_receive_all(struct memory *memory);

/* As if the release had come, with these numbers. */
void memory_release(struct memory *memory, const struct tt_release *release);

/* The actions of the last step. */
struct script {
    struct tt_actions actions;
    uint32_t at; /* so many have been read, and stand first */
    struct tt_action list[MACHINE_ACTIONS];
};

/* `capacity`: of the list; 0: as much as a group of any tested size needs. */
void script_init(struct script *script, uint32_t capacity);

/* Before steps of machines other than the member, which empties the list itself. */
void script_clear(struct script *script);

/*
 * Whether it counts which of two actions of a step comes first. Frames come to a rank in the order in which they go,
 * and nothing comes once its connection is broken; a copy is kept before anybody hears that it is; a collective is
 * published before a frame says that chunks may come; what has finished asks for nothing more.
 */
bool actions_are_ordered(const struct tt_action *one, const struct tt_action *other);

/* An action that may be next must be of this type. */
struct tt_action *script_next_of(struct script *script, enum tt_action_type type, const char *file, int line);
#define next_is(script, type) script_next_of((script), (type), __FILE__, __LINE__)

/* The same, and about this collective. */
struct tt_action *script_next_about(struct script *script, enum tt_action_type type,
                                    const struct tt_collective *collective, const char *file, int line);

/* An action that may be next must send a frame of this type to this rank. */
const struct tt_frame *script_next_send(struct script *script, enum tt_frame_type type, uint32_t to, const char *file,
                                        int line);
#define next_sends(script, type, to) script_next_send((script), (type), (to), __FILE__, __LINE__)

/* All actions have been read. */
void script_end(const struct script *script, const char *file, int line);
#define no_more(script) script_end((script), __FILE__, __LINE__)

const char *action_name(enum tt_action_type type);

#endif
