/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Instances of the "verbs" p2p provider over a device that does nothing by itself: what is posted to it is kept,
 * completions come when the test says so, and any of its creations can be refused. Real devices are in tests/guest.
 * There is one of each.
 */
#ifndef TT_TESTS_UNIT_RC_WORLD_H
#define TT_TESTS_UNIT_RC_WORLD_H

#include "fabric/verbs/rc.h"
#include "fabric/verbs/rc_instance.h"

enum { RC_MOST_POSTED = 1024, RC_MOST_COMPLETIONS = 256 };

/* A work request to send. */
struct rc_posted {
    uint32_t queue_pair;
    enum ibv_wr_opcode opcode;
    uint64_t id;
    uint8_t bytes[TT_RC_GREETING_BYTES]; /* of a greeting */
    const struct ibv_ah *handle;         /* that it goes by; in use until the greeting has been sent */
};

struct rc_world {
    /* The test's. */
    uint32_t refused_creation; /* counted from 1; 0: none */
    bool knows_no_way;         /* no address handle is made */
    bool polls_fail;
    int resize_error; /* of every completion queue that is to grow; 0: it grows */
    /* What happened. */
    uint32_t creations, living, handles; /* living: of all objects of the device, handles too */
    uint32_t numbers;                    /* given to queue pairs */
    struct rc_posted posted[RC_MOST_POSTED];
    uint32_t posted_count;
    struct tt_rc_datagram *hearing[2 * TT_RC_GREETINGS_IN]; /* posted to receive greetings */
    uint32_t hearing_count;
    struct tt_rc_buffer *offered[TT_RC_SHARED_RECEIVES]; /* posted to receive messages; no more are kept */
    uint32_t offered_count;
    uint8_t ack_timeout;                  /* of the last queue pair that was made ready to send */
    uint8_t traffic_class, service_level; /* of its path */
    uint16_t pkey_index;                  /* of the last queue pair of any kind that was initialized */
    uint32_t restarts;                    /* of queue pairs: how often one was reset */
    struct ibv_wc sent[RC_MOST_COMPLETIONS], received[RC_MOST_COMPLETIONS]; /* to be polled */
    uint32_t sent_count, received_count;
    struct tt_verbs_device device;
};

extern struct rc_world world;

void rc_reset(void);
void rc_forget_device(void); /* its endpoints go */

/* An instance on the device; its status. */
tutti_status rc_create(bool own_receives, struct tt_p2p **p2p);
tutti_status rc_create_patient(uint64_t ack_timeout_ns, struct tt_p2p **p2p);

/* An instance on a new device, and its end, where nobody would answer a goodbye. */
struct tt_rc *rc_begin(bool own_receives);
void rc_end(struct tt_rc *rc);

/* What progress says; `wanted` is counted. */
uint32_t rc_turn(struct tt_rc *rc, enum tt_p2p_event_type wanted);

/* What the service has sent is on its way, and all else that was posted is forgotten. */
void rc_greetings_leave(const struct tt_rc *rc);

/* Somebody else's address, whose number is in it. */
struct tt_rc_address rc_stranger(uint64_t instance);

/* The instance hears this of a stranger. */
void rc_hear(struct tt_rc *rc, const struct tt_rc_greeting *greeting);

/* Connects to the stranger, who has greeted back: everything moves. */
struct tt_p2p_peer *rc_connected(struct tt_rc *rc, uint64_t instance);

/* A message of the other side has come, of zeros; progress has not looked. */
void rc_message(const struct tt_p2p_peer *peer, enum tt_rc_message_kind kind, uint32_t payload_bytes);

/* Posted work requests of this kind. */
uint32_t rc_count_posted(enum ibv_wr_opcode opcode);

#endif
