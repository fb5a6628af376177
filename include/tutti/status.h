/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Status codes of tutti: one table for the code, its scope and its text.
 *
 * Every fallible function of the library returns a tutti_status: TUTTI_OK (0) or a negative code. The scope says
 * what an error ends: nothing but the call (OPERATION), everything that involves one peer (PEER), the whole group
 * (GROUP: only tutti_group_destroy() is useful afterwards), or the context (CONTEXT). It is the least that has ended:
 * what tutti_test() or tutti_wait() returns has ended the group, whatever it is, and IO from an _init nothing but that
 * call.
 */
#ifndef TUTTI_STATUS_H
#define TUTTI_STATUS_H

#include "tutti/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, scope, text) */
#define TUTTI_STATUS_TABLE(X)                                                                                          \
    X(TUTTI_OK, 0, OPERATION, "success")                                                                               \
    X(TUTTI_ERR_INVALID_ARGUMENT, -1, OPERATION, "invalid argument")                                                   \
    X(TUTTI_ERR_NO_MEMORY, -2, OPERATION, "out of memory")                                                             \
    X(TUTTI_ERR_NO_RESOURCE, -3, OPERATION, "out of a system resource")                                                \
    X(TUTTI_ERR_NOT_SUPPORTED, -4, OPERATION, "not supported here")                                                    \
    X(TUTTI_ERR_BUSY, -5, OPERATION, "busy")                                                                           \
    X(TUTTI_ERR_TOO_LARGE, -6, OPERATION, "too large")                                                                 \
    X(TUTTI_ERR_IO, -7, CONTEXT, "input/output error")                                                                 \
    X(TUTTI_ERR_IN_USE, -8, OPERATION, "address in use")                                                               \
    X(TUTTI_ERR_PEER_FAILED, -9, GROUP, "a peer failed")                                                               \
    X(TUTTI_ERR_TIMED_OUT, -10, GROUP, "timed out")                                                                    \
    X(TUTTI_ERR_MISMATCH, -11, GROUP, "ranks disagree about a collective")                                             \
    X(TUTTI_ERR_CANCELED, -12, GROUP, "canceled")                                                                      \
    X(TUTTI_ERR_PROTOCOL, -13, GROUP, "protocol violation")                                                            \
    X(TUTTI_ERR_BOOTSTRAP, -14, GROUP, "bootstrap failed")

typedef enum tutti_status {
#define TUTTI_STATUS_ENUM(name, value, scope, text) name = value,
    TUTTI_STATUS_TABLE(TUTTI_STATUS_ENUM)
#undef TUTTI_STATUS_ENUM
} tutti_status;

/* What an error ends. */
typedef enum tutti_scope {
    TUTTI_SCOPE_OPERATION,
    TUTTI_SCOPE_PEER,
    TUTTI_SCOPE_GROUP,
    TUTTI_SCOPE_CONTEXT
} tutti_scope;

/* The text of a status ("a peer failed"), never NULL; static storage. Thread-safe. */
TUTTI_EXPORT const char *tutti_status_text(tutti_status status);

/* The name of a status ("TUTTI_ERR_PEER_FAILED"), never NULL; static storage. Thread-safe. */
TUTTI_EXPORT const char *tutti_status_name(tutti_status status);

/* What the error ends. An unknown status has scope CONTEXT. Thread-safe. */
TUTTI_EXPORT tutti_scope tutti_status_scope(tutti_status status);

#ifdef __cplusplus
}
#endif

#endif
