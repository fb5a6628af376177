/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What only the UCX provider has: what it is made with, strangers that speak UCX, what UCX is asked for and when, and
 * the signal handlers that UCX brings along. What all providers have is in test_pair*.c.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/ucx/library.h"
#include "fabric/ucx/message.h"
#include "fabric/ucx/ucx.h"
#include "pair_fixture.h"
#include "skip.h"

enum { REGION_BYTES = 300000 };

static uint8_t theirs[REGION_BYTES], mine[REGION_BYTES];

/* --- What UCX is asked for while it hands out what arrived ------------------------------------------------------- */

static bool handing_out;
static uint32_t sent_by_callbacks, sent_otherwise;

/* Called by name in the table of UCX's functions, so that these may stand before them. */
#undef ucp_worker_progress
#undef ucp_am_send_nbx
#undef ucp_config_modify

static struct tt_ucx_library real;

static unsigned progress(ucp_worker_h worker)
{
    handing_out = true;
    unsigned count = real.ucp_worker_progress(worker);
    handing_out = false;
    return count;
}

static ucs_status_ptr_t am_send(ucp_ep_h ep, unsigned id, const void *header, size_t header_length, const void *buffer,
                                size_t count, const ucp_request_param_t *param)
{
    sent_by_callbacks += handing_out;
    sent_otherwise += !handing_out;
    return real.ucp_am_send_nbx(ep, id, header, header_length, buffer, count, param);
}

/* UCX 1.13 ends the process if a connection breaks by a send from there and has an event in the same batch. */
static void what_arrives_is_answered_when_ucx_has_handed_it_out(void **state)
{
    struct tt_p2p_peer *peer = pair_sides[A].peer;
    struct remote remote;
    (void)state;
    pair_expose(&pair_sides[B], theirs, REGION_BYTES, &remote);
    sent_by_callbacks = sent_otherwise = 0;
    real = tt_ucx_library;
    tt_ucx_library.ucp_worker_progress = progress;
    tt_ucx_library.ucp_am_send_nbx = am_send;
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t address = i == 0 ? 1 : (uintptr_t)theirs;
        assert_int_equal(peer->ops->get(peer, remote.key, remote.key_bytes, address, mine, REGION_BYTES, 1), TUTTI_OK);
        assert_true(pair_reaches(&pair_sides[A].dones, 2 * i + 1));
        assert_int_equal(pair_sides[A].last_status, i == 0 ? TUTTI_ERR_PROTOCOL : TUTTI_OK);
        assert_int_equal(peer->ops->put(peer, remote.key, remote.key_bytes, address, mine, REGION_BYTES,
                                        &(struct tt_p2p_immediate){.value = 9}, 2),
                         TUTTI_OK);
        assert_true(pair_reaches(&pair_sides[A].dones, 2 * i + 2));
        assert_int_equal(pair_sides[A].last_status, i == 0 ? TUTTI_ERR_PROTOCOL : TUTTI_OK);
    }
    tt_ucx_library = real;
    assert_int_equal(sent_by_callbacks, 0);
    assert_true(sent_otherwise >= 8); /* each has a question (or data) and an answer */
    pair_sides[B].p2p->ops->memory_release(remote.memory);
}

/* --- How UCX is configured --------------------------------------------------------------------------------------- */

static char configured[4096]; /* " NAME=VALUE" of each that was set */

static ucs_status_t modify(ucp_config_t *config, const char *name, const char *value)
{
    size_t length = strlen(configured);
    (void)snprintf(configured + length, sizeof configured - length, " %s=%s", name, value);
    return real.ucp_config_modify(config, name, value);
}

/* What an instance of these transports sets, between spaces. */
static const char *configured_for(const char *tls)
{
    struct tt_p2p *p2p = NULL;
    configured[0] = '\0';
    real = tt_ucx_library;
    tt_ucx_library.ucp_config_modify = modify;
    assert_int_equal(tt_ucx_create(&(struct tt_ucx_options){.tls = tls}, &p2p), TUTTI_OK);
    tt_ucx_library = real;
    p2p->ops->destroy(p2p);
    return strcat(configured, " ");
}

/* UCX 1.13 ends what TCP sends from there twice when a connection breaks. Its values have no prefix there, and others
 * have one of the same name, which they need. */
static void tcp_sends_no_bulk_from_where_it_lies_and_others_may(void **state)
{
    static const char *const sharing[] = {"tcp,sm", "tcp,shm", "tcp,cma", "all"};
    (void)state;
    assert_non_null(strstr(configured_for("tcp"), " TCP_MAX_IOV=1 "));
    assert_non_null(strstr(configured, " MAX_IOV=1 "));
    assert_non_null(strstr(configured, " TX_SEG_SIZE=128k "));
    for (size_t i = 0; i < sizeof(sharing) / sizeof(sharing[0]); i++) {
        assert_non_null(strstr(configured_for(sharing[i]), " TCP_MAX_IOV=1 "));
        assert_null(strstr(configured, " MAX_IOV="));
    }
    assert_int_equal(setenv("UCX_TCP_MAX_IOV", "4", 1), 0);
    assert_null(strstr(configured_for("tcp"), "MAX_IOV"));
    assert_int_equal(unsetenv("UCX_TCP_MAX_IOV"), 0);
}

/* --- Arguments and strangers ------------------------------------------------------------------------------------ */

static void bad_arguments_of_ucx_are_refused_with_their_value(void **state)
{
    struct tt_p2p *p2p = pair_sides[A].p2p, *nothing = NULL;
    struct tt_p2p_peer *none;
    (void)state;
    pair_sides[B].address[30] ^= 1;
    assert_int_equal(p2p->ops->connect(p2p, pair_sides[B].address, pair_sides[B].address_bytes, 0, &none),
                     TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(tt_ucx_create(&(struct tt_ucx_options){.interface = "nosuch0"}, &nothing),
                     TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "nosuch0"));
    assert_int_equal(tt_ucx_create(&(struct tt_ucx_options){.tls = "nosuchtls"}, &nothing), TUTTI_ERR_NOT_SUPPORTED);
    assert_non_null(strstr(tt_last_error(), "nosuchtls"));
    assert_null(nothing);
}

/* A UCX program that is not tutti sends `length_bytes` zero bytes, under an id, to B. */
static void send_as_stranger(ucp_worker_h worker, ucp_ep_h ep, unsigned id, size_t length_bytes)
{
    static const uint8_t zeros[1 << 20];
    ucp_request_param_t param = {0};
    ucs_status_ptr_t request = tt_ucx_library.ucp_am_send_nbx(ep, id, NULL, 0, zeros, length_bytes, &param);
    uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS) {
        assert_true(tt_clock_now_ns() < deadline_ns);
        tt_ucx_library.ucp_worker_progress(worker);
        pair_turn(&pair_sides[B]);
    }
    assert_false(UCS_PTR_IS_ERR(request));
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
}

static void messages_of_strangers_are_dropped_and_counted(void **state)
{
    (void)state;
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM};
    ucp_worker_params_t worker_params = {0};
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    ucp_config_t *config;
    assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
    assert_int_equal(tt_ucx_library.ucp_config_modify(config, "TLS", "tcp"), UCS_OK);
    assert_int_equal(tt_ucx_library.ucp_config_modify(config, "NET_DEVICES", "lo"), UCS_OK);
    assert_int_equal(ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context), UCS_OK);
    ucp_config_release(config);
    assert_int_equal(ucp_worker_create(context, &worker_params, &worker), UCS_OK);
    ucp_ep_params_t ep_params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = (const ucp_address_t *)(pair_sides[B].address + TT_UCX_ADDRESS_HEADER_BYTES),
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
    };
    assert_int_equal(ucp_ep_create(worker, &ep_params, &ep), UCS_OK);
    send_as_stranger(worker, ep, 0x2a, 40);      /* tutti's id, not tutti's bytes */
    send_as_stranger(worker, ep, 0x2a, 3);       /* shorter than a header */
    send_as_stranger(worker, ep, 0x2a, 1 << 20); /* far over the limit, by rendezvous */
    send_as_stranger(worker, ep, 5, 40);         /* another id */
    pair_send(&pair_sides[A], 0);
    assert_true(pair_reaches(&pair_sides[B].frames, 1));
    struct tt_p2p_counters counters = {0};
    uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    while (counters.frames_dropped < 4 && tt_clock_now_ns() < deadline_ns) {
        tt_ucx_library.ucp_worker_progress(worker);
        pair_turn(&pair_sides[B]);
        pair_sides[B].p2p->ops->counters(pair_sides[B].p2p, &counters);
    }
    assert_int_equal(counters.frames_dropped, 4);
    assert_int_equal(counters.frames_received, 1);
    ucp_request_param_t close = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t request = ucp_ep_close_nbx(ep, &close);
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
}

/* --- Signal handlers -------------------------------------------------------------------------------------------- */

static const int fatal_signals[] = {SIGHUP, SIGILL, SIGBUS, SIGFPE, SIGSEGV};
static bool of_ucx_when_loaded, of_ucx_when_created;

static bool handlers_of_ucx(void)
{
    bool found = false;
    for (size_t i = 0; i < sizeof(fatal_signals) / sizeof(fatal_signals[0]); i++) {
        struct sigaction action;
        Dl_info info;
        void *address;
        sigaction(fatal_signals[i], NULL, &action);
        memcpy(&address, &action.sa_sigaction, sizeof(address));
        found |= dladdr(address, &info) != 0 && strstr(info.dli_fname, "libucs") != NULL;
    }
    return found;
}

/* Before cmocka installs handlers of its own. */
static void look_at_handlers(void)
{
    struct tt_p2p *p2p;
    of_ucx_when_loaded = handlers_of_ucx();
    if (tt_ucx_create(NULL, &p2p) == TUTTI_OK) {
        of_ucx_when_created = handlers_of_ucx();
        p2p->ops->destroy(p2p);
    }
}

static void signal_handlers_of_ucx_are_taken_off(void **state)
{
    (void)state;
    if (!of_ucx_when_loaded) {
        TT_SKIP("this UCX installs no signal handlers (or UCX_HANDLE_ERRORS=none)");
    }
    assert_false(of_ucx_when_created);
}

#define WITH_CONNECTED(name) cmocka_unit_test_setup_teardown(name, pair_make_connected, pair_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signal_handlers_of_ucx_are_taken_off),
        cmocka_unit_test(tcp_sends_no_bulk_from_where_it_lies_and_others_may),
        WITH_CONNECTED(what_arrives_is_answered_when_ucx_has_handed_it_out),
        WITH_CONNECTED(bad_arguments_of_ucx_are_refused_with_their_value),
        WITH_CONNECTED(messages_of_strangers_are_dropped_and_counted),
    };
    look_at_handlers();
    return pair_run("ucx", "ucx_own", tests, sizeof(tests) / sizeof(tests[0]));
}
