/* SPDX-License-Identifier: BSD-3-Clause */
/* The members of a p2p world, what each of them was told, and waiting for it. */
#ifndef TT_TESTS_CONFORMANCE_P2P_WORLD_H
#define TT_TESTS_CONFORMANCE_P2P_WORLD_H

#include "base/clock.h"
#include "fixture.h"

#define P2P_PATIENCE_NS (20 * TT_NS_PER_S)   /* for what must come */
#define P2P_QUIET_NS    (100 * TT_NS_PER_MS) /* for what must not */
enum { P2P_NONE = CONFORMANCE_MEMBERS };     /* no member */

/* An event with its frame's bytes. */
enum { P2P_KNOWN_ADDRESS_BYTES = 64 }; /* the longest one that comes with a frame */

struct p2p_record {
    struct tt_p2p_event event;
    unsigned char *frame;                           /* or what goes with an immediate */
    unsigned char address[P2P_KNOWN_ADDRESS_BYTES]; /* of who sent the frame; event.address_bytes of it */
};

struct p2p_member {
    struct tt_p2p *p2p;                             /* NULL: destroyed, or never there */
    struct tt_p2p_peer *peers[CONFORMANCE_MEMBERS]; /* NULL: none; the cookie is p2p_cookie() */
    struct p2p_record *records;
    uint32_t record_count, record_capacity;
    bool is_idle; /* its software does not call progress */
};

struct p2p_world {
    const struct conformance_fixture *fixture;
    void *world;
    struct p2p_member members[CONFORMANCE_MEMBERS];
};

/* A registration with its packed key. */
struct p2p_region {
    struct tt_p2p_memory *memory;
    unsigned char *bytes;
    size_t length_bytes;
    unsigned char key[TT_P2P_MAX_KEY_BYTES];
    size_t key_bytes;
};

/* Makes the world with the first so many of its members, without connections. A
 * member more is a second more where a provider has much to set up, and the processor is emulated. */
struct p2p_world *p2p_begin(void **state, uint32_t members);
/* As p2p_begin, and everyone is connected to everyone. */
struct p2p_world *p2p_begin_connected(void **state, uint32_t members);
void p2p_end(struct p2p_world *world);

uint64_t p2p_cookie(uint32_t member, uint32_t other);
void p2p_connect(struct p2p_world *world, uint32_t member, uint32_t other);
void p2p_disconnect(struct p2p_world *world, uint32_t member, uint32_t other);
void p2p_destroy(struct p2p_world *world, uint32_t member);
void p2p_send(struct p2p_world *world, uint32_t from, uint32_t to, const void *frame, uint32_t length_bytes);

/* Where the provider has no batches nothing waits, which is right as well. */
void p2p_batch(struct p2p_world *world, uint32_t member, bool on);

/* All members but idle ones call progress once, and keep what they are told; then time passes if nothing was. */
void p2p_step(struct p2p_world *world);
uint32_t p2p_count(const struct p2p_world *world, uint32_t member, enum tt_p2p_event_type type);
/* The index-th record of this type, which must be there. */
const struct p2p_record *p2p_record_of(const struct p2p_world *world, uint32_t member, enum tt_p2p_event_type type,
                                       uint32_t index);
/* Until the member has been told `count` events of this type, and not one more. */
void p2p_await(struct p2p_world *world, uint32_t member, enum tt_p2p_event_type type, uint32_t count);
/* For a while: whatever is under way arrives. */
void p2p_settle(struct p2p_world *world, uint64_t time_ns);

/* Memory of the member with a pattern in it, registered. */
struct p2p_region p2p_register(struct p2p_world *world, uint32_t member, size_t length_bytes, uint32_t salt);
void p2p_release(struct p2p_world *world, struct p2p_region *region);
unsigned char p2p_pattern(size_t place, uint32_t salt);
void p2p_assert_pattern(const unsigned char *bytes, size_t offset, size_t length_bytes, uint32_t salt);

/* Start a get of, or a put into, the other member's region; they must be accepted. */
void p2p_get(struct p2p_world *world, uint32_t from, uint32_t at, const struct p2p_region *region, size_t offset,
             void *local, uint64_t length_bytes, uint64_t cookie);
void p2p_put(struct p2p_world *world, uint32_t from, uint32_t at, const struct p2p_region *region, size_t offset,
             const void *local, uint64_t length_bytes, uint64_t immediate, uint64_t cookie);
void p2p_put_with(struct p2p_world *world, uint32_t from, uint32_t at, const struct p2p_region *region, size_t offset,
                  const void *local, uint64_t length_bytes, const struct tt_p2p_immediate *immediate, uint64_t cookie);

/* A frame of this length and salt, and that the index-th frame that a member was told is such a one. */
void p2p_fill(unsigned char *frame, uint32_t length_bytes, uint32_t salt);
void p2p_assert_frame(const struct p2p_world *world, uint32_t member, uint32_t index, uint32_t length_bytes,
                      uint32_t salt);

#endif
