/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UCX provider with two instances in one process: how connections end, what is refused, what strangers may send,
 * and what is left of an instance.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/ucx/message.h"
#include "patience.h"
#include "ucx_fixture.h"

/* --- Leaving ---------------------------------------------------------------------------------------------------- */

static void disconnect_delivers_the_last_frames_and_then_raises_one_peer_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 5000; i++) {
        pair_send(&pair_sides[A], i);
    }
    pair_leave(&pair_sides[A]);
    assert_true(pair_reaches(&pair_sides[B].downs, 1));
    assert_int_equal(pair_sides[B].frames_at_down, 5000);
    assert_false(pair_sides[B].order_broken);
    assert_true(pair_sides[B].down_cookie == 200);
    pair_turn_for(50 * TT_NS_PER_MS);
    assert_int_equal(pair_sides[B].downs, 1);
    assert_int_equal(pair_sides[A].downs, 0);
    assert_int_equal(pair_sides[B].peer->ops->send(pair_sides[B].peer, "x", 1), TUTTI_ERR_PEER_FAILED);
    uint8_t byte;
    assert_int_equal(pair_sides[B].peer->ops->get(pair_sides[B].peer, "k", 1, 1, &byte, 1, 0), TUTTI_ERR_PEER_FAILED);
    assert_int_equal(pair_sides[B].peer->ops->put(pair_sides[B].peer, "k", 1, 1, &byte, 1, 0, 0),
                     TUTTI_ERR_PEER_FAILED);
}

static void destroy_delivers_the_last_frames(void **state)
{
    (void)state;
    pair_turn_for(20 * TT_NS_PER_MS);
    for (uint32_t i = 0; i < 100; i++) {
        pair_send(&pair_sides[A], i);
    }
    uint64_t start_ns = tt_clock_now_ns();
    pair_sides[A].p2p->ops->destroy(
        pair_sides[A].p2p); /* B does not answer the goodbye: this takes the full two seconds */
    assert_true(tt_clock_now_ns() - start_ns < 4 * TT_NS_PER_S * TT_PATIENCE);
    pair_sides[A].p2p = NULL;
    pair_sides[A].peer = NULL;
    assert_true(pair_reaches(&pair_sides[B].downs, 1));
    assert_int_equal(pair_sides[B].frames_at_down, 100);
}

static void two_that_leave_at_once_see_no_event_and_do_not_wait(void **state)
{
    (void)state;
    pair_turn_for(20 * TT_NS_PER_MS);
    pair_leave(&pair_sides[A]);
    pair_leave(&pair_sides[B]);
    pair_turn_for(50 * TT_NS_PER_MS);
    uint64_t start_ns = tt_clock_now_ns();
    pair_sides[A].p2p->ops->destroy(pair_sides[A].p2p);
    pair_sides[A].p2p = NULL;
    pair_turn_for(10 * TT_NS_PER_MS);
    pair_sides[B].p2p->ops->destroy(pair_sides[B].p2p);
    pair_sides[B].p2p = NULL;
    assert_true(tt_clock_now_ns() - start_ns <
                1800 * TT_NS_PER_MS * TT_PATIENCE); /* who waits, waits for two seconds */
    assert_int_equal(pair_sides[A].downs, 0);
    assert_int_equal(pair_sides[B].downs, 0);
}

static void peer_that_left_before_it_was_connected_is_down_at_once(void **state)
{
    (void)state;
    pair_join(A, B, 1);
    pair_send(&pair_sides[A], 0);
    pair_leave(&pair_sides[A]);
    assert_true(pair_reaches(&pair_sides[B].frames, 1));
    pair_turn_for(20 * TT_NS_PER_MS);
    pair_join(B, A, 77);
    assert_true(pair_reaches(&pair_sides[B].downs, 1));
    assert_true(pair_sides[B].down_cookie == 77);
    pair_turn_for(50 * TT_NS_PER_MS);
    assert_int_equal(pair_sides[B].downs, 1);
}

static void two_connections_of_the_same_instances_end_one_by_one(void **state)
{
    (void)state;
    struct tt_p2p_peer *first_a, *first_b;
    pair_join(A, B, 1);
    pair_join(B, A, 11);
    first_a = pair_sides[A].peer;
    first_b = pair_sides[B].peer;
    pair_join(A, B, 2);
    pair_join(B, A, 22);
    pair_turn_for(20 * TT_NS_PER_MS);
    pair_leave(&pair_sides[A]); /* the second */
    assert_true(pair_reaches(&pair_sides[B].downs, 1));
    assert_true(pair_sides[B].down_cookie == 22);
    pair_leave(&pair_sides[B]);
    pair_sides[A].peer = first_a;
    pair_sides[B].peer = first_b;
    pair_send(&pair_sides[A], 0);
    pair_send(&pair_sides[B], 0);
    assert_true(pair_reaches(&pair_sides[A].frames, 1));
    assert_true(pair_reaches(&pair_sides[B].frames, 1));
    assert_int_equal(pair_sides[B].downs, 1);
    pair_leave(&pair_sides[B]);
    assert_true(pair_reaches(&pair_sides[A].downs, 1));
    assert_true(pair_sides[A].down_cookie == 1);
}

static void instances_can_leave_and_connect_again(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        pair_sides[A].next_value = pair_sides[B].next_value = i;
        pair_join(A, B, i);
        pair_join(B, A, i);
        pair_send(&pair_sides[A], i);
        pair_send(&pair_sides[B], i);
        assert_true(pair_reaches(&pair_sides[A].frames, i + 1));
        assert_true(pair_reaches(&pair_sides[B].frames, i + 1));
        pair_leave(&pair_sides[A]);
        pair_leave(&pair_sides[B]);
    }
    pair_turn_for(20 * TT_NS_PER_MS);
    assert_int_equal(pair_sides[A].downs + pair_sides[B].downs, 0);
}

/* --- Arguments, strangers, what the process is left with --------------------------------------------------------- */

static void bad_arguments_are_refused_with_their_value(void **state)
{
    (void)state;
    uint8_t frame[TT_P2P_MAX_FRAME_BYTES + 1] = {0}, small[8];
    struct tt_p2p_peer *peer = pair_sides[A].peer, *none;
    struct tt_p2p *p2p = pair_sides[A].p2p, *nothing = NULL;
    size_t length_bytes = sizeof(small);
    assert_int_equal(peer->ops->send(peer, frame, 0), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(peer->ops->send(peer, frame, sizeof(frame)), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "2177"));
    assert_int_equal(p2p->ops->address(p2p, small, &length_bytes), TUTTI_ERR_TOO_LARGE);
    assert_int_equal(length_bytes, sizeof(small));
    assert_int_equal(p2p->ops->connect(p2p, frame, sizeof(frame), 0, &none), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(p2p->ops->connect(p2p, pair_sides[B].address, pair_sides[B].address_bytes - 1, 0, &none),
                     TUTTI_ERR_INVALID_ARGUMENT);
    pair_sides[B].address[30] ^= 1;
    assert_int_equal(p2p->ops->connect(p2p, pair_sides[B].address, pair_sides[B].address_bytes, 0, &none),
                     TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(p2p->ops->connect(p2p, pair_sides[A].address, pair_sides[A].address_bytes, 0, &none),
                     TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(peer->ops->get(peer, small, 8, 1, small, 0, 0), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(peer->ops->get(peer, small, TT_P2P_MAX_KEY_BYTES + 1, 1, small, 1, 0), TUTTI_ERR_INVALID_ARGUMENT);
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
    ucs_status_ptr_t request = ucp_am_send_nbx(ep, id, NULL, 0, zeros, length_bytes, &param);
    uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS) {
        assert_true(tt_clock_now_ns() < deadline_ns);
        ucp_worker_progress(worker);
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
    assert_int_equal(ucp_config_modify(config, "TLS", "tcp"), UCS_OK);
    assert_int_equal(ucp_config_modify(config, "NET_DEVICES", "lo"), UCS_OK);
    assert_int_equal(ucp_init(&params, config, &context), UCS_OK);
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
        ucp_worker_progress(worker);
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

static int count_entries(const char *path)
{
    int count = 0;
    DIR *directory = opendir(path);
    assert_non_null(directory);
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

static void nothing_is_left_of_an_instance(void **state)
{
    pair_make_connected(state); /* what UCX opens once for the process */
    pair_end(state);
    int descriptors = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
    int segments = count_entries("/dev/shm");
    for (int i = 0; i < 5; i++) {
        pair_make_connected(state);
        pair_send(&pair_sides[A], 0);
        assert_true(pair_reaches(&pair_sides[B].frames, 1));
        pair_end(state);
    }
    assert_int_equal(count_entries("/proc/self/fd"), descriptors);
    assert_int_equal(count_entries("/proc/self/task"), threads);
    assert_true(count_entries("/dev/shm") <= segments);
}

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
        skip(); /* this UCX installs none (or UCX_HANDLE_ERRORS=none) */
    }
    assert_false(of_ucx_when_created);
}

#define WITH_TWO(name)       cmocka_unit_test_setup_teardown(name, pair_make, pair_end)
#define WITH_CONNECTED(name) cmocka_unit_test_setup_teardown(name, pair_make_connected, pair_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signal_handlers_of_ucx_are_taken_off),
        cmocka_unit_test(nothing_is_left_of_an_instance),
        WITH_CONNECTED(disconnect_delivers_the_last_frames_and_then_raises_one_peer_down),
        WITH_CONNECTED(destroy_delivers_the_last_frames),
        WITH_CONNECTED(two_that_leave_at_once_see_no_event_and_do_not_wait),
        WITH_TWO(peer_that_left_before_it_was_connected_is_down_at_once),
        WITH_TWO(two_connections_of_the_same_instances_end_one_by_one),
        WITH_TWO(instances_can_leave_and_connect_again),
        WITH_CONNECTED(bad_arguments_are_refused_with_their_value),
        WITH_CONNECTED(messages_of_strangers_are_dropped_and_counted),
    };
    look_at_handlers();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
