/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens UCX for one instance: configuration, context, worker, and the descriptor that wakes it.
 *
 * Normal path: UCX's own configuration is read, the values below replace its defaults where the environment does not
 * say otherwise, and a context with one worker is made from it.
 *
 * Failures: an interface that does not exist is the caller's error; a system without any of the transports is
 * NOT_SUPPORTED; what was opened before the failure is closed again by tt_ucx_close.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <net/if.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fabric/ucx/instance.h"
#include "fabric/ucx/ports.h"

/*
 * TCP even within a host: its end of file tells within milliseconds that a process died, also to a sleeper, also while
 * the dead process is a zombie, and nothing is left behind. UCX itself leaves shared memory out where errors of peers
 * matter, unless UCX_MM_ERROR_HANDLING=y. Then it halves the time of a barrier and reads several times faster where CMA
 * is allowed; but a death is noticed only by the keepalive timer (0.4 to 1.4 s), never while the process is a zombie,
 * frames to a process that was stopped for a while got stuck (UCX 1.13), a sender that is killed or stopped in the
 * middle of enqueuing blocks all others, and ranks in network namespaces that stand for hosts go around the network.
 * "rc,dc" are InfiniBand's and RoCE's, where there are devices. UD is left out: a stopped process does not answer there
 * and would be taken for dead.
 */
#define DEFAULT_TLS "tcp,rc,dc"

enum { PORTS_BYTES = 300 }; /* names of devices' ports */

/* A value, and its name in the environment. A transport's own value has a second name: UCX before 1.14 looks for it
 * without the transport's prefix when it is set by a program. What a transport does not know is left alone. */
struct config_value {
    const char *name;
    const char *short_name;
    const char *value;
};

static const struct config_value config_values[] = {
    {"WARN_INVALID_CONFIG", NULL, "n"},         /* the values of a transport that is not used are no mistake */
    {"KEEPALIVE_INTERVAL", NULL, "1s"},         /* finds the dead where a transport does not say so itself */
    {"RCACHE_ENABLE", NULL, "n"},               /* hooks the application's munmap; a device's own cache stays */
    {"ADAPTIVE_PROGRESS", NULL, "n"},           /* its changes ask the interface the same thing thirty times over */
    {"TCP_CONN_NB", "CONN_NB", "y"},            /* connect must not block, even if the host does not answer */
    {"TCP_KEEPIDLE", "KEEPIDLE", "5s"},         /* finds dead hosts; the kernel of a stopped process answers */
    {"TCP_KEEPINTVL", "KEEPINTVL", "2s"},       /* (the same) */
    {"TCP_KEEPCNT", "KEEPCNT", "5"},            /* (the same) */
    {"TCP_RX_SEG_SIZE", "RX_SEG_SIZE", "128k"}, /* a bulk message fits, and rarely lies across two receives */
    {"TCP_TX_SEG_SIZE", "TX_SEG_SIZE", "128k"}, /* or it would be cut into pieces of 8 KiB */
    {"RC_TIMEOUT", NULL, "50ms"},               /* a dead queue pair is silent: 7 retries take 0.4 s, not 7 s */
};

/*
 * Over TCP, UCX sends from a copy of its own. What it sends from our memory it ends twice if the connection breaks when
 * the kernel has taken a part of it (tcp_ep.c, sendv), and then the process by an assertion (UCX 1.13). Where there is
 * only TCP that way is closed altogether. The gets and puts of devices need it; there TCP may send one piece from where
 * it lies. Bulk, which has a header of ours, would be two, so it is copied, and frames are too short for that way.
 * (None at all is what UCX 1.13 cannot do: what is short and has a header goes by the same number.)
 */
static const struct config_value tcp_copies = {"TCP_MAX_IOV", "MAX_IOV", "1"};
static const struct config_value values_without_hardware[] = {{"ZCOPY_THRESH", NULL, "inf"}};

tutti_status tt_ucx_status(ucs_status_t status)
{
    switch (status) {
    case UCS_OK:
        return TUTTI_OK;
    case UCS_ERR_NO_MEMORY:
        return TUTTI_ERR_NO_MEMORY;
    case UCS_ERR_NO_RESOURCE:
    case UCS_ERR_EXCEEDS_LIMIT:
        return TUTTI_ERR_NO_RESOURCE;
    case UCS_ERR_NO_DEVICE:
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
        return TUTTI_ERR_NOT_SUPPORTED;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
        return TUTTI_ERR_INVALID_ARGUMENT;
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
        return TUTTI_ERR_PEER_FAILED;
    default:
        return TUTTI_ERR_IO;
    }
}

static bool in_environment(const char *name)
{
    char variable[64];
    snprintf(variable, sizeof(variable), "UCX_%s", name);
    return getenv(variable) != NULL;
}

/* Takes UCX's handler off a signal, unless somebody has replaced it since. */
static void disable_handler(int signal_number)
{
    struct sigaction current;
    Dl_info handler;
    void *address;
    if (sigaction(signal_number, NULL, &current) != 0 || current.sa_handler == SIG_DFL ||
        current.sa_handler == SIG_IGN) {
        return;
    }
    memcpy(&address, &current.sa_sigaction, sizeof(address));
    if (dladdr(address, &handler) != 0 && strstr(handler.dli_fname, "libucs") != NULL) {
        ucs_debug_disable_signal(signal_number);
    }
}

/* What UCX did to the process when it was loaded: warnings on standard output, handlers for signals. */
static void quieten(void)
{
    static const int signals[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
    if (!in_environment("LOG_LEVEL")) {
        ucs_global_opts_set_value("LOG_LEVEL", "fatal");
    }
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]) && !in_environment("HANDLE_ERRORS"); i++) {
        disable_handler(signals[i]);
    }
    if (!in_environment("DEBUG_SIGNO")) {
        disable_handler(SIGHUP); /* or a closed terminal would not end the program */
    }
}

static tutti_status set_value(ucp_config_t *config, const char *name, const char *value)
{
    ucs_status_t status = ucp_config_modify(config, name, value);
    if (status != UCS_OK) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "ucx: %s=%s: %s", name, value,
                        ucs_status_string(status));
    }
    return TUTTI_OK;
}

/* Unless the environment says otherwise. */
static tutti_status set_default(ucp_config_t *config, const struct config_value *entry)
{
    if (in_environment(entry->name)) {
        return TUTTI_OK;
    }
    tutti_status status = set_value(config, entry->name, entry->value);
    if (status == TUTTI_OK && entry->short_name != NULL) {
        status = set_value(config, entry->short_name, entry->value);
    }
    return status;
}

static tutti_status restrict_devices(ucp_config_t *config, const char *interface)
{
    /* Or the routes are read for every connection, to find which interface is the better one. */
    static const struct config_value only_one = {"TCP_PREFER_DEFAULT", "PREFER_DEFAULT", "n"};
    char ports[PORTS_BYTES], devices[PORTS_BYTES + 100];
    if (interface == NULL || in_environment("NET_DEVICES")) {
        return TUTTI_OK;
    }
    if (if_nametoindex(interface) == 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "ucx: no such network interface: %s", interface);
    }
    snprintf(devices, sizeof(devices), "%s", interface);
    if (tt_ucx_find_ports("/sys/class/net", interface, ports, sizeof(ports))) {
        snprintf(devices, sizeof(devices), "%s,%s", interface, ports);
    }
    tutti_status status = set_value(config, "NET_DEVICES", devices);
    return status == TUTTI_OK ? set_default(config, &only_one) : status;
}

/* The transports that UCX will be told: an argument, or else the environment's, or else the default ones. */
static const char *transports(const char *tls)
{
    const char *named = getenv("UCX_TLS");
    return tls != NULL ? tls : named != NULL ? named : DEFAULT_TLS;
}

static bool verbs_devices_exist(void)
{
    DIR *directory = opendir("/sys/class/infiniband");
    bool found = false;
    const struct dirent *entry;
    if (directory == NULL) {
        return false;
    }
    while ((entry = readdir(directory)) != NULL) {
        found = found || entry->d_name[0] != '.';
    }
    closedir(directory);
    return found;
}

/*
 * Whether there may be hardware for one-sided access: on the interface, if there is a choice. Where there is none, UCX
 * must not offer to emulate it: its emulation serves every peer that asks, whether memory is registered or not, and a
 * peer that dies while it is served takes the process with it (UCX 1.13: "unexpected error: Endpoint timeout").
 */
static bool may_have_hardware(const char *interface, const char *tls)
{
    char ports[PORTS_BYTES];
    return verbs_devices_exist() && strcmp(transports(tls), "tcp") != 0 &&
           (interface == NULL || in_environment("NET_DEVICES") ||
            tt_ucx_find_ports("/sys/class/net", interface, ports, sizeof(ports)));
}

static tutti_status set_defaults(ucp_config_t *config, const struct config_value *entries, size_t count)
{
    tutti_status status = TUTTI_OK;
    for (size_t i = 0; i < count && status == TUTTI_OK; i++) {
        status = set_default(config, &entries[i]);
    }
    return status;
}

/* Whether a transport may be among these that has a value by the short name of TCP's MAX_IOV, and needs it: those that
 * copy from process to process. UCX before 1.14 would give it to both. */
static bool share_max_iov(const char *names)
{
    static const char *const words[] = {"sm", "shm", "cma", "knem", "all", "^"};
    bool found = false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        found = found || strstr(names, words[i]) != NULL;
    }
    return found;
}

static tutti_status set_tcp_copies(ucp_config_t *config, const char *tls)
{
    struct config_value value = tcp_copies;
    if (share_max_iov(transports(tls))) {
        value.short_name = NULL;
    }
    return set_default(config, &value);
}

static tutti_status configure(ucp_config_t *config, bool hardware, const char *interface, const char *tls)
{
    tutti_status status = set_defaults(config, config_values, sizeof(config_values) / sizeof(config_values[0]));
    if (status == TUTTI_OK) {
        status = set_tcp_copies(config, tls);
    }
    if (status == TUTTI_OK && !hardware) {
        status = set_defaults(config, values_without_hardware,
                              sizeof(values_without_hardware) / sizeof(values_without_hardware[0]));
    }
    if (status == TUTTI_OK && (tls != NULL || !in_environment("TLS"))) {
        status = set_value(config, "TLS", transports(tls));
    }
    if (status == TUTTI_OK) {
        status = restrict_devices(config, interface);
    }
    return status;
}

static tutti_status open_context(struct tt_ucx *ucx, const char *interface, const char *tls)
{
    ucp_config_t *config;
    ucs_status_t failure = ucp_config_read(NULL, NULL, &config);
    if (failure != UCS_OK) {
        return tt_error(TT_PART_FABRIC, tt_ucx_status(failure), "ucx: configuration: %s", ucs_status_string(failure));
    }
    ucx->hardware = may_have_hardware(interface, tls);
    tutti_status status = configure(config, ucx->hardware, interface, tls);
    if (status == TUTTI_OK) {
        ucp_params_t params = {
            .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
            .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
            .name = "tutti",
        };
        params.features |= ucx->hardware ? UCP_FEATURE_RMA : 0;
        failure = ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &ucx->context);
        if (failure != UCS_OK) {
            ucx->context = NULL;
            status = tt_error(TT_PART_FABRIC, tt_ucx_status(failure),
                              "ucx: no context with transports %s on interface %s: %s", tls != NULL ? tls : "(default)",
                              interface != NULL ? interface : "(any)", ucs_status_string(failure));
        }
    }
    ucp_config_release(config);
    return status;
}

static tutti_status open_worker(struct tt_ucx *ucx)
{
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
    };
    const char *what = "worker";
    ucs_status_t status = ucp_worker_create(ucx->context, &params, &ucx->worker);
    if (status != UCS_OK) {
        ucx->worker = NULL;
    } else {
        what = "descriptor";
        status = ucp_worker_get_efd(ucx->worker, &ucx->fd);
        if (status == UCS_OK) {
            what = "address";
            status = ucp_worker_get_address(ucx->worker, &ucx->address, &ucx->address_bytes);
        }
    }
    if (status != UCS_OK) {
        return tt_error(TT_PART_FABRIC, tt_ucx_status(status), "ucx: %s: %s", what, ucs_status_string(status));
    }
    if (ucx->address_bytes > TT_P2P_MAX_ADDRESS_BYTES - TT_UCX_ADDRESS_HEADER_BYTES) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_TOO_LARGE,
                        "ucx: the address has %zu bytes; restrict the devices (UCX_NET_DEVICES)", ucx->address_bytes);
    }
    return TUTTI_OK;
}

tutti_status tt_ucx_open(struct tt_ucx *ucx, const char *interface, const char *tls)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    tutti_status status = tt_ucx_library_load();
    if (status == TUTTI_OK) {
        pthread_once(&once, quieten);
        status = open_context(ucx, interface, tls);
    }
    return status == TUTTI_OK ? open_worker(ucx) : status;
}

void tt_ucx_close(struct tt_ucx *ucx)
{
    if (ucx->address != NULL) {
        ucp_worker_release_address(ucx->worker, ucx->address);
    }
    if (ucx->worker != NULL) {
        ucp_worker_destroy(ucx->worker);
    }
    if (ucx->context != NULL) {
        ucp_cleanup(ucx->context);
    }
}
