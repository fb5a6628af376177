/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps by which the hosts of `tutti doctor --job`, or of `tutti doctor --listen` and `--peer`, are measured. How
 * the ranks meet between two steps is the caller's.
 */
#ifndef TT_CLI_DOCTOR_STEPS_H
#define TT_CLI_DOCTOR_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/settings.h"
#include "cli/doctor_exchange.h"
#include "cli/doctor_job.h"
#include "cli/doctor_paths.h"
#include "cli/doctor_socket.h"

#define TT_DOCTOR_MEETING_NS (10 * TT_NS_PER_S) /* of one; a step takes TT_DOCTOR_STEP_NS at most */

/* What a rank brings to a meeting: results of the step before, or 12 bytes of something longer. */
struct tt_doctor_record {
    union {
        struct {
            uint32_t number; /* round trip, or rate */
            uint16_t payload_bytes, sent, lost, overflowed;
        } path;
        uint8_t bytes[12];
    } is;
    uint16_t failed;
    uint16_t late; /* rank 0's word, of enum tt_doctor_late */
};
_Static_assert(sizeof(struct tt_doctor_record) == 16, "a meeting is to fit a small packet");

/* How much of the time is over. What gets through has half of it, so that some is left for the rates. */
enum tt_doctor_late { TT_DOCTOR_IN_TIME, TT_DOCTOR_HALF_OVER, TT_DOCTOR_OVER };

/* What the ranks tell each other first. */
struct tt_doctor_greeting {
    uint64_t host;
    uint32_t key; /* rank 0's counts */
    struct tt_paths_host own;
};

struct tt_doctor_steps {
    /* The caller's, before tt_doctor_steps_init(). */
    const struct tt_doctor_job_options *options;
    const struct tt_settings *settings;
    uint32_t rank, size;
    const char *who; /* of whom errors are said: "rank 3: ", or "" */
    /* Brings steps->own, and has everybody's in steps->records when it returns OK. An error has been reported. */
    tutti_status (*meet)(struct tt_doctor_steps *steps);
    void *how; /* the caller's own */

    /* The caller's, before tt_doctor_steps_prepare(). */
    struct tt_interface interface;

    struct tt_doctor_record own;
    struct tt_doctor_record *records;     /* by rank */
    struct tt_doctor_greeting *greetings; /* by rank */
    uint64_t begun_ns;                    /* of the first step */
    bool failed;
    enum tt_doctor_late late; /* as rank 0 said at the last meeting */
    uint32_t self;            /* own index among the hosts; TT_DOCTOR_NO_HOST: another rank measures for this host */
    uint32_t sizes[TT_PATHS_SIZE_LIMIT];
    uint32_t size_count;
    struct tt_doctor_socket *socket;
    struct tt_paths paths;
};

enum { TT_DOCTOR_NO_HOST = UINT16_MAX };

/* Allocates; tt_doctor_steps_fini() frees, also after an error. */
tutti_status tt_doctor_steps_init(struct tt_doctor_steps *steps);
void tt_doctor_steps_fini(struct tt_doctor_steps *steps);

/* Sets steps->interface by what TUTTI_INTERFACE may be. Errors: those of tt_interface_find; NOT_SUPPORTED (its address
 * is of IPv6, over which nothing is measured). */
tutti_status tt_doctor_steps_take(struct tt_doctor_steps *steps, const char *interface);

/* Tells the others this rank's host, lists theirs in steps->paths, and opens the sockets. */
tutti_status tt_doctor_steps_prepare(struct tt_doctor_steps *steps);

/* Fills steps->paths. */
tutti_status tt_doctor_steps_measure(struct tt_doctor_steps *steps);

/* An allgather of any length, in meetings. */
tutti_status tt_doctor_share(struct tt_doctor_steps *steps, const void *send, void *receive, size_t length_bytes);

/* One line on standard error. Returns `status`. */
tutti_status tt_doctor_report_failure(const struct tt_doctor_steps *steps, const char *what, tutti_status status);

/* A rank that cannot go on still comes to the next meeting, to say so. */
void tt_doctor_note(struct tt_doctor_steps *steps, const char *what, tutti_status status);

#endif
