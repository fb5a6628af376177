/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An object group's machine, stepped by hand: memory for one member, an event a line, and a list of actions that the
 * test reads one by one, so that each test says every action that it expects, and no other. In which order counts only
 * where it does to the protocol.
 */
#ifndef TT_TEST_OBJECT_MACHINE_H
#define TT_TEST_OBJECT_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/object.h"

enum {
    MACHINE_PEERS = 64,
    MACHINE_OBJECTS = 4,
    MACHINE_ACTIONS = 1024,
    MACHINE_BLOCK = 1000,
    MACHINE_NUMBER = 0x1234,
    MACHINE_SILENCE_NS = 1000,
    MACHINE_DEADLINE_NS = 100000
};
#define MACHINE_GROUP UINT64_C(0xABCDEF0123456789)

struct object_machine {
    struct tt_object_group group;
    struct tt_object_peer peers[MACHINE_PEERS];
    struct tt_object objects[MACHINE_OBJECTS];
    uint32_t neighbours[MACHINE_PEERS + 1];
    uint64_t now_ns; /* of the next step */
    uint32_t at;     /* so many actions have been read, and stand first */
    struct tt_object_actions actions;
    struct tt_object_action list[MACHINE_ACTIONS];
};

void machine_init(struct object_machine *machine, enum tt_rdmc_algorithm algorithm, uint32_t member, uint32_t count,
                  uint32_t credit);

/* Steps; the actions of the step before must have been read. */
tutti_status machine_step(struct object_machine *machine, struct tt_object_event event);
void machine_frame(struct object_machine *machine, struct tt_object_frame frame);

/* Frames as a neighbour sends them. */
void machine_offer(struct object_machine *machine, uint32_t from, uint64_t sequence, uint64_t size_bytes);
void machine_ready(struct object_machine *machine, uint32_t from, uint64_t sequence, uint64_t block);
void machine_says(struct object_machine *machine, enum tt_object_frame_type type, uint32_t from, uint64_t sequence);
void machine_fails(struct object_machine *machine, uint32_t from, tutti_status status, uint32_t about, uint64_t puts);

/* Answers of the surroundings. */
void machine_gives_memory(struct object_machine *machine, uint64_t sequence);
void machine_block_comes(struct object_machine *machine, uint64_t sequence, uint64_t block);
void machine_put_done(struct object_machine *machine, uint32_t to, uint64_t sequence, tutti_status status);
void machine_peer_down(struct object_machine *machine, uint32_t member);
void machine_tick(struct object_machine *machine, uint64_t now_ns);

uint64_t machine_immediate(uint64_t sequence, uint64_t block);

/* An action that may be next must be this one. */
const struct tt_object_action *machine_next(struct object_machine *machine, enum tt_object_action_type type,
                                            uint32_t to, uint64_t sequence, const char *file, int line);
#define next_is(machine, type, to, sequence) machine_next((machine), (type), (to), (sequence), __FILE__, __LINE__)

const struct tt_object_frame *machine_next_send(struct object_machine *machine, enum tt_object_frame_type type,
                                                uint32_t to, uint64_t sequence, const char *file, int line);
#define next_sends(machine, type, to, sequence)                                                                        \
    machine_next_send((machine), (type), (to), (sequence), __FILE__, __LINE__)

/* READY for this block, and FAIL, FINISH of this. */
#define next_grants(machine, to, object, number)                                                                       \
    assert_int_equal(next_sends((machine), TT_OBJECT_FRAME_READY, (to), (object))->body.ready.block, (number))
void machine_next_end(struct object_machine *machine, enum tt_object_action_type type, tutti_status status,
                      uint32_t about, const char *file, int line);
#define next_ends(machine, type, status, about)                                                                        \
    machine_next_end((machine), (type), (status), (about), __FILE__, __LINE__)

void machine_no_more(const struct object_machine *machine, const char *file, int line);
#define no_more(machine) machine_no_more((machine), __FILE__, __LINE__)

#endif
