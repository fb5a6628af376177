/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX's functions, found in its library when the first instance is made. A job that does not use UCX does not load it:
 * loading alone takes milliseconds, hooks into memory allocation, and handles signals.
 *
 * Whoever includes this calls them by their names. Those that UCX's headers define inline are not among them.
 */
#ifndef TT_FABRIC_UCX_LIBRARY_H
#define TT_FABRIC_UCX_LIBRARY_H

#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

#include "tutti/status.h"

#define TT_UCX_FUNCTIONS(X)                                                                                            \
    X(ucp_am_send_nbx)                                                                                                 \
    X(ucp_cleanup)                                                                                                     \
    X(ucp_config_modify)                                                                                               \
    X(ucp_config_read)                                                                                                 \
    X(ucp_config_release)                                                                                              \
    X(ucp_ep_close_nbx)                                                                                                \
    X(ucp_ep_create)                                                                                                   \
    X(ucp_ep_flush_nbx)                                                                                                \
    X(ucp_ep_print_info)                                                                                               \
    X(ucp_ep_rkey_unpack)                                                                                              \
    X(ucp_get_nbx)                                                                                                     \
    X(ucp_init_version)                                                                                                \
    X(ucp_mem_map)                                                                                                     \
    X(ucp_mem_unmap)                                                                                                   \
    X(ucp_put_nbx)                                                                                                     \
    X(ucp_request_check_status)                                                                                        \
    X(ucp_request_free)                                                                                                \
    X(ucp_rkey_buffer_release)                                                                                         \
    X(ucp_rkey_destroy)                                                                                                \
    X(ucp_rkey_pack)                                                                                                   \
    X(ucp_worker_arm)                                                                                                  \
    X(ucp_worker_create)                                                                                               \
    X(ucp_worker_destroy)                                                                                              \
    X(ucp_worker_get_address)                                                                                          \
    X(ucp_worker_get_efd)                                                                                              \
    X(ucp_worker_progress)                                                                                             \
    X(ucp_worker_release_address)                                                                                      \
    X(ucp_worker_set_am_recv_handler)                                                                                  \
    X(ucs_debug_disable_signal)                                                                                        \
    X(ucs_global_opts_set_value)                                                                                       \
    X(ucs_status_string)

struct tt_ucx_library {
#define TT_UCX_MEMBER(name) __typeof__(name) *name;
    TT_UCX_FUNCTIONS(TT_UCX_MEMBER)
#undef TT_UCX_MEMBER
};

extern struct tt_ucx_library tt_ucx_library;

/* Loads the library unless that has been done. Errors: NOT_SUPPORTED (there is none, or it lacks a function). Safe to
 * call from any thread. */
tutti_status tt_ucx_library_load(void);

#ifndef TT_UCX_LIBRARY_ITSELF
#define ucp_am_send_nbx                tt_ucx_library.ucp_am_send_nbx
#define ucp_cleanup                    tt_ucx_library.ucp_cleanup
#define ucp_config_modify              tt_ucx_library.ucp_config_modify
#define ucp_config_read                tt_ucx_library.ucp_config_read
#define ucp_config_release             tt_ucx_library.ucp_config_release
#define ucp_ep_close_nbx               tt_ucx_library.ucp_ep_close_nbx
#define ucp_ep_create                  tt_ucx_library.ucp_ep_create
#define ucp_ep_flush_nbx               tt_ucx_library.ucp_ep_flush_nbx
#define ucp_ep_print_info              tt_ucx_library.ucp_ep_print_info
#define ucp_ep_rkey_unpack             tt_ucx_library.ucp_ep_rkey_unpack
#define ucp_get_nbx                    tt_ucx_library.ucp_get_nbx
#define ucp_init_version               tt_ucx_library.ucp_init_version
#define ucp_mem_map                    tt_ucx_library.ucp_mem_map
#define ucp_mem_unmap                  tt_ucx_library.ucp_mem_unmap
#define ucp_put_nbx                    tt_ucx_library.ucp_put_nbx
#define ucp_request_check_status       tt_ucx_library.ucp_request_check_status
#define ucp_request_free               tt_ucx_library.ucp_request_free
#define ucp_rkey_buffer_release        tt_ucx_library.ucp_rkey_buffer_release
#define ucp_rkey_destroy               tt_ucx_library.ucp_rkey_destroy
#define ucp_rkey_pack                  tt_ucx_library.ucp_rkey_pack
#define ucp_worker_arm                 tt_ucx_library.ucp_worker_arm
#define ucp_worker_create              tt_ucx_library.ucp_worker_create
#define ucp_worker_destroy             tt_ucx_library.ucp_worker_destroy
#define ucp_worker_get_address         tt_ucx_library.ucp_worker_get_address
#define ucp_worker_get_efd             tt_ucx_library.ucp_worker_get_efd
#define ucp_worker_progress            tt_ucx_library.ucp_worker_progress
#define ucp_worker_release_address     tt_ucx_library.ucp_worker_release_address
#define ucp_worker_set_am_recv_handler tt_ucx_library.ucp_worker_set_am_recv_handler
#define ucs_debug_disable_signal       tt_ucx_library.ucs_debug_disable_signal
#define ucs_global_opts_set_value      tt_ucx_library.ucs_global_opts_set_value
#define ucs_status_string              tt_ucx_library.ucs_status_string
#endif

#endif
