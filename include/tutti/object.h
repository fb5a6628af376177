/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Object groups: large objects from one member to all others, by transfers of blocks between two members each, in which
 * every member sends and receives at the rate of its link. No multicast is needed.
 *
 *     tutti_object_options options = {.struct_size = sizeof options, .incoming = ..., .completion = ...};
 *     tutti_object_group *objects;
 *
 *     tutti_object_group_create(group, &options, &objects);       every member
 *     tutti_object_send(objects, data, bytes);                    member 0, as often as it likes
 *     tutti_object_wait(objects, timeout_ns, NULL);               every member: callbacks run in here
 *     tutti_object_group_close(objects);                          OK: every object has reached every member
 *     tutti_object_group_destroy(objects);
 *
 * Only member 0 sends. Objects are numbered from 0 and may have any size from 0 bytes up. A receiver is asked for
 * memory (`incoming`) and told when the object is there (`completion`), in the order in which they were sent. Sizes are
 * in bytes, times in nanoseconds; what a failing call says is in tutti_last_error().
 *
 * Failure: a member that dies, is stuck, or refuses memory ends the group, for all members. Each of them is told once,
 * with the rank that it is about, and completes nothing after that. The tutti_group that the members come from goes on,
 * unless a rank of it has died.
 *
 * Threads: as with requests, one object group by only one thread at a time; several groups, and the requests of the
 * tutti_group, may be used by several threads at once. Callbacks run in the thread that calls tutti_object_test(),
 * tutti_object_wait() or tutti_object_group_close(), and in no other; they may call every function of the library but
 * those three, and tutti_object_group_destroy(), for their own group.
 *
 * Protocol: Behrens et al., "RDMC: A Reliable RDMA Multicast for Large Objects", DSN'18, section 4.
 */
#ifndef TUTTI_OBJECT_H
#define TUTTI_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/export.h"
#include "tutti/status.h"
#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tutti_object_group tutti_object_group;

/* Who sends which block to whom; `tutti plan rdmc` draws them. With n members and k blocks: */
typedef enum tutti_object_algorithm {
    TUTTI_OBJECT_AUTO,              /* BINOMIAL_PIPELINE */
    TUTTI_OBJECT_SEQUENTIAL,        /* member 0 sends everything to each in turn: k (n - 1) block times */
    TUTTI_OBJECT_CHAIN,             /* each passes on to the next: k + n - 2 */
    TUTTI_OBJECT_BINOMIAL_TREE,     /* whole objects down a tree: k ceil(log2 n) */
    TUTTI_OBJECT_BINOMIAL_PIPELINE, /* block by block along a hypercube: k + ceil(log2 n) - 1 */
    TUTTI_OBJECT_HYBRID             /* a pipeline among the first members of racks, and one in each rack */
} tutti_object_algorithm;

enum {
    TUTTI_OBJECT_MIN_BLOCK_BYTES = 4096,
    TUTTI_OBJECT_MAX_BLOCK_BYTES = 16777216,
    TUTTI_OBJECT_QUEUE = 32 /* objects that member 0 may have sent and not been given back */
};

/* All but the callbacks, their argument and `registrations` must be the same at every member. */
typedef struct tutti_object_options {
    size_t struct_size;      /* sizeof(tutti_object_options) */
    const uint32_t *members; /* ranks of the tutti_group, each once; the first is member 0. NULL: all, in their order */
    uint32_t member_count;   /* 0 if members is NULL */
    tutti_object_algorithm algorithm;
    uint64_t block_bytes;       /* 0: chosen for each object by its size and the number of members */
    uint32_t credit;            /* blocks that a neighbour is told to be ready for at once: 1 or 2; 0: 2 */
    const uint32_t *rack_sizes; /* HYBRID: how many members each rack has, in the order of members; else NULL */
    uint32_t rack_count;
    uint32_t registrations; /* How many buffers stay registered with the network, so that the same address and length
                               again cost nothing. They must then stay allocated until the group is destroyed.
                               0: each object's memory is registered for that object only. At most 64. */
    uint64_t timeout_ns;    /* how long creation waits for the other members, and a member is waited for that neither
                               takes its callbacks nor closes; 0: the setting TIMEOUT, or 60 s */
    void *argument;         /* handed to the callbacks, not looked at */

    /*
     * An object of `size_bytes` is coming: sets *memory to where it is to be placed, and returns TUTTI_OK. The memory
     * is the library's until `completion` or `failure` has been called. NULL will do for 0 bytes; for more it is the
     * error INVALID_ARGUMENT. An error refuses the object, and fails the group: with this error here, with PEER_FAILED
     * and this member's rank at the others. Up to two objects are asked for ahead of the one that completes next. Not
     * called at member 0; needed at all others.
     */
    tutti_status (*incoming)(void *argument, uint64_t sequence, uint64_t size_bytes, void **memory);

    /* The object is whole, and has been passed on: the memory is the caller's again. At member 0, where `memory` is the
     * data that was sent: it may be reused, but that it has reached everybody only a close says. May be NULL. */
    void (*completion)(void *argument, uint64_t sequence, void *memory, uint64_t size_bytes);

    /* The group has failed, because of that rank of the tutti_group (-1: of none in particular). Called once. Nothing
     * is under way any more, and all memory is the caller's again. May be NULL. */
    void (*failure)(void *argument, tutti_status status, int rank);
} tutti_object_options;

/*
 * Creates an object group. Every member calls it; ranks that are no members do not. It returns when all members have
 * called it (at member 0), or those have with whom this one will speak. Several groups may exist at once, also of the
 * same members: groups with members in common must be created in the same order at all of these, where a call that
 * fails counts, unless `members` or struct_size is what is wrong, or there is no memory to begin with. Members whose
 * calls do not count alike never meet again with the same `members`: in another order these are others. `options` and
 * its arrays are read during the call only. The caller owns the object group until tutti_object_group_destroy(), and
 * must keep the tutti_group until then. Errors: INVALID_ARGUMENT (this rank is no member, or one is there twice; a
 * block size, credit or racks that cannot be), NO_MEMORY, NO_RESOURCE, MISMATCH (members with different options),
 * PEER_FAILED, CANCELED (a member has destroyed the group already), TIMED_OUT (names who did not come, or came with
 * other members).
 */
TUTTI_EXPORT tutti_status tutti_object_group_create(tutti_group *group, const tutti_object_options *options,
                                                    tutti_object_group **objects);

/*
 * Sends an object to all other members; only member 0 may. Never blocks: it queues behind those sent before. The data
 * is the library's, and must stay as it is, until `completion` or `failure` has been called. Errors: BUSY with
 * TUTTI_OBJECT_QUEUE objects under way (wait, and try again), TOO_LARGE (more than 2^32 blocks), INVALID_ARGUMENT (not
 * member 0; closed; NULL with a size; memory that an RDMA device does not find), NO_MEMORY, NO_RESOURCE, IO (memory
 * that cannot be registered); a group that has failed: its error.
 */
TUTTI_EXPORT tutti_status tutti_object_send(tutti_object_group *objects, const void *data, uint64_t size_bytes);

/*
 * Moves communication along and runs the callbacks that are due. Never blocks. *callbacks, if it is not NULL, is set to
 * how many have been called, or would have been if they were not NULL, also where an error is returned: that of the
 * group, once it has failed. BUSY, and nothing happens, from a callback of this group, as with those below.
 */
TUTTI_EXPORT tutti_status tutti_object_test(tutti_object_group *objects, uint32_t *callbacks);

/* As tutti_object_test(), but waits until a callback has run, the group has failed or `timeout_ns` has passed (that is
 * no error: *callbacks is 0 then; UINT64_MAX: no limit). Sleeps when nothing moves. */
TUTTI_EXPORT tutti_status tutti_object_wait(tutti_object_group *objects, uint64_t timeout_ns, uint32_t *callbacks);

/*
 * Ends the group with success: waits until every object that member 0 sent before it closed has reached every member,
 * and every member has closed. Callbacks run meanwhile: a receiver may close at once, and gets all objects in here.
 * Errors: the group's; TIMED_OUT names who did not close; BUSY from a callback of this group.
 */
TUTTI_EXPORT tutti_status tutti_object_group_close(tutti_object_group *objects);

/* Which rank of the tutti_group the error that ended this group is about; -1 while there is none, or if it is about no
 * single rank. As tutti_group_failed_rank(), also in what it says where a connection broke. */
TUTTI_EXPORT int tutti_object_group_failed_rank(const tutti_object_group *objects);

/*
 * Frees the object group. One that was not closed ends here: the others are told that this member CANCELED it; that may
 * take up to a second, and with blocks of 16 MiB up to five, since memory must not be in use. Runs no callbacks. NULL
 * is allowed. From a callback of this group it is BUSY, and nothing is freed.
 */
TUTTI_EXPORT tutti_status tutti_object_group_destroy(tutti_object_group *objects);

#ifdef __cplusplus
}
#endif

#endif
