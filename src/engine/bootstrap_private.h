/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the bootstrap share; nobody else includes this. */
#ifndef TT_ENGINE_BOOTSTRAP_PRIVATE_H
#define TT_ENGINE_BOOTSTRAP_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shortage.h"
#include "engine/bootstrap.h"
#include "wire/hello.h"

enum {
    TT_BOOTSTRAP_HOST_BYTES = 256,
    TT_BOOTSTRAP_NAME_BYTES = 32,
    TT_BOOTSTRAP_SPARE_STRANGERS = 64, /* connections without a hello that rank 0 keeps, beyond one a rank */
    TT_BOOTSTRAP_ADDRESSES = 16        /* of a host name, tried in turn */
};

/* One connection, with how far the frame has come that is on its way in, and the one on its way out. */
struct tt_bootstrap_channel {
    int fd; /* -1: none */
    uint8_t in_header[TT_HELLO_BYTES];
    uint8_t out_header[TT_HELLO_BYTES];
    size_t in_bytes, out_bytes; /* of header and payload so far */
};

enum tt_bootstrap_io { TT_IO_DONE, TT_IO_AGAIN, TT_IO_CLOSED };

/* Another rank, as rank 0 sees it. */
enum { TT_BOOTSTRAP_REFUSED_BYTES = 352 };

struct tt_bootstrap_member {
    struct tt_bootstrap_channel channel;
    uint64_t nonce;
    bool present;  /* connected and welcomed */
    bool left;     /* was present */
    bool rankless; /* had no rank when it came */
    bool finished; /* with the current phase of the allgather */
};

struct tt_bootstrap {
    uint32_t rank; /* TT_HELLO_NO_RANK: until rank 0 has given one */
    uint32_t size;
    uint64_t timeout_ns;
    int traffic_class; /* of all that is sent; 0: the system's */
    uint64_t nonce;
    uint32_t sequence; /* of the last allgather that was begun, from 1 */
    char root[TT_SETTING_TEXT_BYTES];
    char host[TT_BOOTSTRAP_HOST_BYTES];
    uint16_t port;

    tutti_status failure; /* OK until something ended it */
    int failed_rank;
    char failure_text[TT_HELLO_MAX_TEXT_BYTES + 1];

    struct tt_bootstrap_channel root_channel; /* other ranks: to rank 0 */

    /* Rank 0's. */
    int listener, epoll;
    bool listener_is_inherited;
    uint32_t present_count;                 /* members that are present */
    struct tt_bootstrap_member *members;    /* by rank; 0 is unused */
    struct tt_bootstrap_channel *strangers; /* that have said no valid hello yet: a ring, next is the oldest's place */
    uint32_t stranger_places, next_stranger;
    uint64_t stranger_count;                  /* who came and were none of ours */
    char refused[TT_BOOTSTRAP_REFUSED_BYTES]; /* whom, and why, the last one; "": nobody */
};

/* --- bootstrap_check.c --- */

/* Asserts what holds between two calls, and at rank 0 between two events. */
void tt_bootstrap_check(const struct tt_bootstrap *bootstrap);

/* --- bootstrap_io.c --- */

/* Records the failure for good, logs it, and returns its status. `failed_rank` may be -1. */
tutti_status tt_bootstrap_fail(struct tt_bootstrap *bootstrap, tutti_status status, int failed_rank, const char *format,
                               ...) __attribute__((format(printf, 4, 5)));

/* "rank 3", or what to call who has none. Returns `text`. */
const char *tt_bootstrap_name(uint32_t rank, char text[TT_BOOTSTRAP_NAME_BYTES]);

/* Milliseconds from now to the deadline for poll(2), rounded up; 0 if it has passed. */
int tt_bootstrap_poll_ms(uint64_t deadline_ns);

/*
 * Whether it is over for those that rank 0 misses, before a look for as long as `timeout_ms`. Rank 0 may have been
 * stopped past the deadline, and has not seen what came before it: so there is a last look, and another one for as long
 * as each makes them fewer. *least: more than are missed, at first.
 */
bool tt_bootstrap_is_late(int timeout_ms, uint32_t missing, uint32_t *least);

/* "host:port" or "[v6]:port". INVALID_ARGUMENT with the text and what is wrong with it. */
tutti_status tt_bootstrap_parse_root(const char *text, char host[TT_BOOTSTRAP_HOST_BYTES], uint16_t *port);

/* A listening socket at the bootstrap's address, or the inherited one: of several addresses, at the first that is this
 * host's. IN_USE where another process has the port there. */
tutti_status tt_bootstrap_listen(struct tt_bootstrap *bootstrap, const struct tt_settings *settings);

enum { TT_BOOTSTRAP_ADDRESS_BYTES = 64 }; /* of IPv6 with its interface */

/* " (10.0.0.1)": what a name came to, which may be the very fault; "" where TUTTI_ROOT says it. Returns `text`. */
const char *tt_bootstrap_describe_address(const struct tt_bootstrap *bootstrap, const char *address,
                                          char text[TT_BOOTSTRAP_ADDRESS_BYTES + 3]);

/* A walk over the addresses of rank 0: those of its host, or of each host in a list with commas, numbered from 0. */
struct tt_bootstrap_search {
    uint32_t skip;   /* so many are passed over: who listens there has not answered as rank 0 */
    uint32_t number; /* of the address that was tried last */
    bool has_others; /* it is not the only one */
    int error;       /* why it failed: an errno, or 0 for a name that is not known */
    char reason[TT_SHORTAGE_TEXT_BYTES];
    char address[TT_BOOTSTRAP_ADDRESS_BYTES]; /* that this is about, as numbers; "": none */
};

/* Tries every address that is not passed over once, until one accepts, each for no longer than `attempt_ns`; -1 with
 * the error and the reason in *search. For want of descriptors or memory it ends at once. */
int tt_bootstrap_connect(const struct tt_bootstrap *bootstrap, struct tt_bootstrap_search *search, uint64_t attempt_ns,
                         uint64_t deadline_ns);

/* Close-on-exec, non-blocking, without delay, of the traffic class, and what is lost is repeated soon, where the system
 * can do that. */
void tt_bootstrap_tune(const struct tt_bootstrap *bootstrap, int fd);

void tt_channel_open(struct tt_bootstrap_channel *channel, int fd);
void tt_channel_close(struct tt_bootstrap_channel *channel);

/* Starts a frame; the payload is given to each send. */
void tt_channel_begin_send(struct tt_bootstrap_channel *channel, const struct tt_hello *hello);
enum tt_bootstrap_io tt_channel_send(struct tt_bootstrap_channel *channel, const void *payload, uint64_t length_bytes);

/* Reads the rest of the header: once it is done, of the bytes in in_header; then the payload. After a frame,
 * tt_channel_begin_receive() makes ready for the next. On CLOSED, errno is the reason, 0 for an orderly end. */
void tt_channel_begin_receive(struct tt_bootstrap_channel *channel);
enum tt_bootstrap_io tt_channel_receive_header(struct tt_bootstrap_channel *channel);
enum tt_bootstrap_io tt_channel_receive_payload(struct tt_bootstrap_channel *channel, void *payload,
                                                uint64_t length_bytes);

/* A whole small frame with a text (or "") in one go; false if it could not be sent at once. */
bool tt_channel_send_text(struct tt_bootstrap_channel *channel, struct tt_hello *hello, const char *text);

/* --- bootstrap_root.c --- */

/* What an epoll event is about; its index is in the low 32 bits. */
enum tt_bootstrap_subject { TT_SUBJECT_LISTENER, TT_SUBJECT_STRANGER, TT_SUBJECT_MEMBER };

bool tt_bootstrap_watch(struct tt_bootstrap *bootstrap, int operation, int fd, uint32_t events,
                        enum tt_bootstrap_subject subject, uint32_t index);

/* Closes a connection that is watched. A child of vfork() or _Fork() may have inherited it, and closing alone would
 * then leave it watched, in the name of whoever has its place next. */
void tt_bootstrap_hang_up(struct tt_bootstrap *bootstrap, struct tt_bootstrap_channel *channel);

void tt_member_leave(struct tt_bootstrap *bootstrap, struct tt_bootstrap_member *member);

/* The lowest rank of a set of members; -1 if it is empty. */
int tt_bootstrap_first_of(bool (*contains)(const void *set, uint32_t rank), const struct tt_bootstrap *bootstrap);

/* Tells all members of the failure, and gives those who listen a moment to hear it. Returns the failure's status. */
tutti_status tt_bootstrap_tell_all(struct tt_bootstrap *bootstrap);

/* --- The two sides: bootstrap_assembly.c, bootstrap_root.c and bootstrap_member.c --- */

tutti_status tt_bootstrap_root_start(struct tt_bootstrap *bootstrap);
tutti_status tt_bootstrap_root_allgather(struct tt_bootstrap *bootstrap, const void *send, void *receive,
                                         size_t length_bytes);
tutti_status tt_bootstrap_member_start(struct tt_bootstrap *bootstrap);
tutti_status tt_bootstrap_member_allgather(struct tt_bootstrap *bootstrap, const void *send, void *receive,
                                           size_t length_bytes);

#endif
