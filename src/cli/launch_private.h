/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the launcher share; nobody else includes this. */
#ifndef TT_CLI_LAUNCH_PRIVATE_H
#define TT_CLI_LAUNCH_PRIVATE_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/clock.h"
#include "cli/launch.h"
#include "wire/hello.h"

enum { TT_LAUNCH_LINE_BYTES = 4096, TT_LAUNCH_UNREAD = -1 };

/* A process that was killed closes its connections, which ends others, before its own end can be seen: so long after
 * the first failure was seen, who was killed may still have been the first. */
#define TT_LAUNCH_ORDER_NS (100 * TT_NS_PER_MS)

/* The launcher's own two streams, and each rank's. */
enum { TT_LAUNCH_OUT, TT_LAUNCH_ERR, TT_LAUNCH_TARGETS };

/* One of a rank's two output streams on its way through the launcher. */
struct tt_launch_stream {
    int fd;     /* the pipe's end to read; -1: none, or at its end */
    int target; /* where it goes */
    uint32_t rank;
    uint32_t used_bytes;
    int left_bytes;                  /* what is still to be read; -1: all that comes */
    bool has_come;                   /* there is something to read */
    bool is_held;                    /* whole lines wait for their way to be clear */
    char line[TT_LAUNCH_LINE_BYTES]; /* the line so far, if it is not held */
};

/* Where one of the launcher's own two goes; it writes without waiting for the reader. */
struct tt_launch_sink {
    int fd; /* of its own, or the standard descriptor */
    bool is_own;
    bool is_socket;
    bool may_block; /* if more is written than there is room for */
    int reason;     /* errno of the first bytes that could not be written, or TT_LAUNCH_UNREAD; 0: all could */
    char *bytes;    /* what waits to be written: a rank's line, and what the launcher says; NULL: nothing ever has */
    size_t used_bytes, capacity_bytes;
};

struct tt_launch_output {
    struct tt_launch_sink sinks[TT_LAUNCH_TARGETS];
    bool is_one_file; /* both are the same pipe, terminal or file */
};

/* The socket at which the ranks meet, of which rank 0 inherits a copy. */
struct tt_launch_door {
    int listener; /* -1: nobody is waited for there any more, as far as the launcher knows */
    uint16_t port;
    int telling;  /* a connection to rank 0, which has not heard yet who failed; -1: none */
    bool answers; /* whoever comes is answered here */
    bool rank_0_ended;
    uint32_t failed_rank; /* the first one; TT_HELLO_NO_RANK: none */
    bool was_killed;      /* that one; else it may have ended because of another one, which is still on its way out */
    uint64_t told_ns;     /* when the others are told of it; TT_NEVER: nobody has failed, or they have been */
};

struct tt_launch_process {
    pid_t pid;
    bool running;
};

struct tt_launch {
    const struct tt_launch_options *options;
    struct tt_launch_process *processes; /* by rank */
    pid_t *rank_pids;                    /* theirs, in order */
    uint32_t started_count;
    uint32_t running_count;
    struct tt_launch_stream *streams; /* two a rank; NULL without prefixes */
    struct pollfd *waiting;           /* for all streams, the signals, the door and the output */
    struct tt_launch_output output;
    struct tt_launch_door door;
    int signals; /* signalfd */
    int null;    /* /dev/null */
    sigset_t old_mask;
    struct sigaction old_child_action, old_pipe_action;
    struct rlimit old_descriptors;
    int was_subreaper;
    bool adopts_orphans;

    uint64_t looked_ns, look_ns; /* when it was seen who has ended, and when it is next; TT_NEVER: nobody has since */

    int exit_status;       /* of the first rank that failed */
    bool was_asked;        /* to end, when that was seen */
    uint64_t order_ns;     /* until when one that is killed takes its place; 0: none does */
    int signal_count;      /* how many were passed on */
    uint64_t terminate_ns; /* when the rest get SIGTERM; TT_NEVER: nobody has failed */
    uint64_t kill_ns;      /* when the rest get SIGKILL */
    uint64_t give_up_ns;   /* when the output's reader is not waited for any more; TT_NEVER: not asked to end */
};

/* --- launch_spawn.c --- */

/* Starts all ranks; on an error some may have been started. */
tutti_status tt_launch_spawn(struct tt_launch *launch);

/* --- launch_door.c --- */

/* Opens it, on loopback. NO_RESOURCE. */
tutti_status tt_launch_door_open(struct tt_launch_door *door);
void tt_launch_door_close(struct tt_launch_door *door);

/* A rank has ended, with an exit status or killed. */
void tt_launch_door_ended(struct tt_launch_door *door, uint32_t rank, bool failed, bool was_killed);

/* Tells rank 0 of so many what is due. */
void tt_launch_door_tend(struct tt_launch_door *door, uint32_t rank_count, uint64_t now_ns);

/* What to poll for input (-1: nothing), and what to do when there is some. */
int tt_launch_door_waits_for(const struct tt_launch_door *door);
void tt_launch_door_look(struct tt_launch_door *door, uint32_t rank_count);

/* --- launch_orphans.c --- */

/* Whether this process has any. */
bool tt_launch_has_children(void);

/* All ranks have started: other children are orphans. */
void tt_launch_orphans_begin(struct tt_launch *launch);
/* Reaps those that have ended. */
void tt_launch_orphans_reap(const struct tt_launch *launch);
/* Kills and reaps it, unless it has ended; false: it goes on, since it is not this process's to kill. */
bool tt_launch_end_child(pid_t pid);
/* Ends all children, and theirs, which come to this process when these end; says which one goes on. The ranks have been
 * reaped. */
void tt_launch_orphans_end(struct tt_launch *launch);

/* --- launch_sink.c --- */

void tt_launch_output_open(struct tt_launch_output *output);
void tt_launch_output_close(struct tt_launch_output *output);

/* Whether nothing waits on the way there. */
bool tt_launch_output_is_clear(const struct tt_launch_output *output, int target);

/* Writes what can be written by now; the rest waits for the next flush. Never blocks on the reader. */
void tt_launch_output_put(struct tt_launch_output *output, int target, const char *bytes, size_t count);
void tt_launch_output_flush(struct tt_launch_output *output);

/* --- launch_output.c --- */

/* Passes on what has come, in whole lines, and what waits, while it can be written. Never blocks on anybody. */
void tt_launch_streams_tend(struct tt_launch *launch);

/* The ranks have ended: what has come by now is the last. */
void tt_launch_streams_end(struct tt_launch *launch);
/* Whether all has been passed on since then, and written. */
bool tt_launch_streams_are_done(const struct tt_launch *launch);
/* What has not is lost. */
void tt_launch_streams_give_up(struct tt_launch *launch);

/* Says something on standard error, behind what waits there. */
void tt_launch_say(struct tt_launch *launch, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says what output of the ranks has been lost; whether none has. */
bool tt_launch_streams_report(struct tt_launch *launch);

#endif
