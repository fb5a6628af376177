/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening a port of an RDMA device.
 *
 * Normal path: every port that is active and every GID of it gets a score; the best one of all devices is opened. A
 * network interface, where one is given, must be the port's: on RoCE the GID holds its address, on InfiniBand librdmacm
 * knows which port its IPoIB interface is on.
 * The system fills a RoCE port's GID table a moment after its interface got an address, and until then there is only
 * the link-local GID: a port that could have a better GID soon is looked at again for a while.
 * Failures: each error names the device, and the setting where one led here. A port with nothing but a link-local GID
 * is taken in the end: it connects queue pairs, though it joins no IPv4 group.
 */
#include "fabric/verbs/device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"
#include "endpoint/rdma_library.h"

enum {
    ANY_PORT = 0,
    LONGEST_PORT_DIGITS = 3,
    LOOK_AGAIN_MS = 10,
    NAMES_BYTES = 256,
    /* Scores. A GID that is asked for by its index is taken whatever it is. */
    SCORE_NONE = 0,
    SCORE_LINK_LOCAL,
    SCORE_GOOD,
    SCORE_OWN, /* of the network interface's address */
    SCORE_ASKED
};

#define GID_PATIENCE_NS (1500 * TT_NS_PER_MS) /* for the GID of an address that the interface has already */

/* The best GID that was found so far, and whether a better one may come. */
struct candidate {
    int score;
    bool may_improve;
    bool is_soft;
    struct ibv_device *device;
    uint8_t port;
    struct ibv_gid_entry gid;
};

/* What a search is for: the options, with the name taken apart. */
struct wish {
    const struct tt_verbs_device_options *options;
    char name[TT_VERBS_NAME_BYTES]; /* "": any */
    uint32_t port;                  /* ANY_PORT: any */
};

bool tt_verbs_gid_is_ipv4(const union ibv_gid *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xFF, [11] = 0xFF};

    return memcmp(gid->raw, prefix, sizeof prefix) == 0;
}

bool tt_verbs_is_soft(const struct ibv_device_attr *attributes)
{
    enum { SOFT_ROCE_VENDOR = 0xffffff };

    return attributes->vendor_id == SOFT_ROCE_VENDOR;
}

static uint32_t gid_address(const union ibv_gid *gid)
{
    uint32_t address_be = 0;

    if (tt_verbs_gid_is_ipv4(gid)) {
        memcpy(&address_be, gid->raw + 12, sizeof address_be);
    }
    return address_be;
}

/* --- Which GID ---------------------------------------------------------------------------------------------------- */

/* The port, as librdmacm sees it, of the interface with this address: for IPoIB, whose address is in no GID. */
static bool serves_address(const struct ibv_device *device, uint8_t port, uint32_t address_be)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = address_be};
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id = NULL;
    bool serves = false;

    if (channel != NULL && rdma_create_id(channel, &id, NULL, RDMA_PS_UDP) == 0) {
        serves = rdma_bind_addr(id, (struct sockaddr *)&address) == 0 && id->verbs != NULL && id->port_num == port &&
                 strcmp(ibv_get_device_name(id->verbs->device), device->name) == 0;
        rdma_destroy_id(id);
    }
    if (channel != NULL) {
        rdma_destroy_event_channel(channel);
    }
    return serves;
}

static int score_roce(const struct wish *wish, const struct ibv_gid_entry *entry)
{
    uint32_t address_be = wish->options->address_be, interface_index = wish->options->interface_index;

    if (entry->gid_type != IBV_GID_TYPE_ROCE_V2) {
        return SCORE_NONE;
    }
    if (address_be != 0 && gid_address(&entry->gid) == address_be) {
        return SCORE_OWN;
    }
    /* An interface without an address of IPv4 is known by its index. */
    if (wish->name[0] == '\0' &&
        (address_be != 0 || (interface_index != 0 && entry->ndev_ifindex != interface_index))) {
        return SCORE_NONE;
    }
    return tt_verbs_gid_is_ipv4(&entry->gid) ? SCORE_GOOD : SCORE_LINK_LOCAL;
}

static int score_of(const struct wish *wish, const struct ibv_device *device, const struct ibv_gid_entry *entry)
{
    if (wish->options->gid_index != TT_AUTO) {
        return entry->gid_index == wish->options->gid_index ? SCORE_ASKED : SCORE_NONE;
    }
    if (entry->gid_type != IBV_GID_TYPE_IB) {
        return score_roce(wish, entry);
    }
    if (entry->gid_index != 0) {
        return SCORE_NONE;
    }
    if (wish->name[0] != '\0' || (wish->options->address_be == 0 && wish->options->interface_index == 0)) {
        return SCORE_GOOD;
    }
    /* Whose port it is, is not known of an interface without an address of IPv4. */
    return wish->options->address_be != 0 && serves_address(device, (uint8_t)entry->port_num, wish->options->address_be)
               ? SCORE_GOOD
               : SCORE_NONE;
}

/* Whether the system may yet add the GID that is wished for: this one belongs to the interface, or to any. */
static bool promises_more(const struct wish *wish, const struct ibv_gid_entry *entry)
{
    if (entry->gid_type == IBV_GID_TYPE_IB || wish->options->gid_index != TT_AUTO) {
        return false;
    }
    return wish->options->interface_index == 0 || wish->name[0] != '\0' ||
           entry->ndev_ifindex == wish->options->interface_index;
}

static bool port_is_active(struct ibv_context *context, uint32_t port)
{
    struct ibv_port_attr attributes;

    return ibv_query_port(context, (uint8_t)port, &attributes) == 0 && attributes.state == IBV_PORT_ACTIVE;
}

/* All GIDs of a device, in memory that the caller frees; NULL if there are none. */
static struct ibv_gid_entry *list_gids(struct ibv_context *context, const struct ibv_device_attr *attributes,
                                       size_t *count)
{
    size_t capacity = 0;

    for (uint32_t port = 1; port <= attributes->phys_port_cnt; port++) {
        struct ibv_port_attr port_attributes;
        if (ibv_query_port(context, (uint8_t)port, &port_attributes) == 0 && port_attributes.gid_tbl_len > 0) {
            capacity += (size_t)port_attributes.gid_tbl_len;
        }
    }
    struct ibv_gid_entry *entries = calloc(capacity > 0 ? capacity : 1, sizeof(*entries));
    if (entries == NULL) {
        return NULL;
    }
    ssize_t found = ibv_query_gid_table(context, entries, capacity, 0);
    if (found <= 0) {
        free(entries);
        return NULL;
    }
    *count = (size_t)found;
    return entries;
}

/* Betters the candidate by what an open device has. */
static void examine(const struct wish *wish, struct ibv_device *device, struct ibv_context *context,
                    struct candidate *best)
{
    struct ibv_device_attr attributes;
    size_t count = 0;

    if (ibv_query_device(context, &attributes) != 0) {
        return;
    }
    struct ibv_gid_entry *entries = list_gids(context, &attributes, &count);
    if (entries == NULL) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if ((wish->port != ANY_PORT && entries[i].port_num != wish->port) ||
            !port_is_active(context, entries[i].port_num)) {
            continue;
        }
        int score = score_of(wish, device, &entries[i]);
        best->may_improve = best->may_improve || promises_more(wish, &entries[i]);
        if (score > best->score) {
            best->score = score;
            best->is_soft = tt_verbs_is_soft(&attributes);
            best->device = device;
            best->port = (uint8_t)entries[i].port_num;
            best->gid = entries[i];
        }
    }
    free(entries);
}

static void examine_all(const struct wish *wish, struct ibv_device **devices, int count, struct candidate *best)
{
    *best = (struct candidate){.score = SCORE_NONE};
    for (int i = 0; i < count; i++) {
        if (devices[i]->transport_type != IBV_TRANSPORT_IB ||
            (wish->name[0] != '\0' && strcmp(wish->name, ibv_get_device_name(devices[i])) != 0)) {
            continue;
        }
        struct ibv_context *context = ibv_open_device(devices[i]);
        if (context != NULL) {
            examine(wish, devices[i], context, best);
            ibv_close_device(context);
        }
    }
}

/* Looks until there is a good GID, or none is to be expected any more. */
static void search(const struct wish *wish, struct ibv_device **devices, int count, struct candidate *best)
{
    uint64_t deadline_ns = tt_clock_now_ns() + GID_PATIENCE_NS;

    examine_all(wish, devices, count, best);
    while (best->score < SCORE_GOOD && best->may_improve && tt_clock_now_ns() < deadline_ns) {
        (void)poll(NULL, 0, LOOK_AGAIN_MS);
        examine_all(wish, devices, count, best);
    }
}

/* --- Opening ------------------------------------------------------------------------------------------------------ */

/* Takes "mlx5_0:2" apart. */
static tutti_status read_wish(const struct tt_verbs_device_options *options, struct wish *wish)
{
    *wish = (struct wish){.options = options, .port = ANY_PORT};
    if (strcmp(options->name, "auto") == 0) {
        return TUTTI_OK;
    }
    size_t length = strcspn(options->name, ":");
    const char *digits = options->name[length] == ':' ? options->name + length + 1 : "1";
    size_t digit_count = strspn(digits, "0123456789");
    unsigned long port = digit_count <= LONGEST_PORT_DIGITS ? strtoul(digits, NULL, 10) : 0;
    if (length == 0 || length >= sizeof wish->name || digits[digit_count] != '\0' || port == 0 || port > UINT8_MAX) {
        return tt_error_note(TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_DEVICE=%s: not a device, as mlx5_0 or mlx5_0:1",
                             options->name);
    }
    memcpy(wish->name, options->name, length);
    wish->port = options->name[length] == ':' ? (uint32_t)port : ANY_PORT;
    return TUTTI_OK;
}

/* "rxe0, rxe1", as many as fit. */
static const char *join_names(struct ibv_device **devices, int count, char text[NAMES_BYTES])
{
    size_t length = 0;

    snprintf(text, NAMES_BYTES, "none");
    for (int i = 0; i < count; i++) {
        const char *name = ibv_get_device_name(devices[i]);
        if (length + strlen(name) + sizeof(", ...") > NAMES_BYTES) {
            snprintf(text + length, NAMES_BYTES - length, ", ...");
            break;
        }
        length += (size_t)snprintf(text + length, NAMES_BYTES - length, "%s%s", length == 0 ? "" : ", ", name);
    }
    return text;
}

/* The error where a search found nothing. */
static tutti_status explain(const struct wish *wish, struct ibv_device **devices, int count)
{
    const struct tt_verbs_device_options *options = wish->options;
    const char *asked_by = options->asked_by != NULL ? options->asked_by : "";
    char names[NAMES_BYTES], address[INET_ADDRSTRLEN] = "";
    bool known = wish->name[0] == '\0';

    join_names(devices, count, names);
    for (int i = 0; i < count; i++) {
        known = known || strcmp(wish->name, ibv_get_device_name(devices[i])) == 0;
    }
    if (!known) {
        return tt_error_note(TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_DEVICE=%s: no such RDMA device (there are: %s)",
                             options->name, names);
    }
    if (options->gid_index != TT_AUTO && count > 0) {
        return tt_error_note(TUTTI_ERR_INVALID_ARGUMENT,
                             "TUTTI_GID=%llu: no active port of the RDMA devices (%s) has a GID with this index",
                             (unsigned long long)options->gid_index, wish->name[0] != '\0' ? options->name : names);
    }
    if (wish->name[0] != '\0') {
        return tt_error_note(TUTTI_ERR_NOT_SUPPORTED, "TUTTI_DEVICE=%s: has no active port with a GID", options->name);
    }
    if (options->address_be != 0) {
        inet_ntop(AF_INET, &options->address_be, address, sizeof address);
        return tt_error_note(TUTTI_ERR_NOT_SUPPORTED, "%sno active RDMA device has the address %s (there are: %s)",
                             asked_by, address, names);
    }
    if (options->interface_index != 0) {
        return tt_error_note(TUTTI_ERR_NOT_SUPPORTED,
                             "%sno active RDMA device is known to be the interface's, which has no IPv4 address: "
                             "TUTTI_DEVICE says which (there are: %s)",
                             asked_by, names);
    }
    return tt_error_note(TUTTI_ERR_NOT_SUPPORTED, "%sno RDMA device is active (there are: %s)", asked_by, names);
}

/* The port's and the device's limits. */
static tutti_status ask_limits(struct tt_verbs_device *device, uint8_t index, struct ibv_port_attr *port)
{
    struct ibv_context *context = tt_verbs_lane(device, 0)->context;
    int error = ibv_query_device(context, &device->attributes);

    if (error == 0) {
        error = ibv_query_port(context, index, port);
    }
    return error == 0 ? TUTTI_OK
                      : tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_RESOURCE, "RDMA device %s: asking for its limits: %s",
                                 device->name, strerror(error));
}

/* What is known once the port is open. */
static void note_port(struct tt_verbs_device *made, const struct candidate *chosen, const struct wish *wish,
                      const struct ibv_port_attr *port)
{
    made->roce = port->link_layer == IBV_LINK_LAYER_ETHERNET;
    made->lid = port->lid;
    made->gid_index = (uint8_t)chosen->gid.gid_index;
    made->gid = chosen->gid.gid;
    made->traffic_class = wish->options->traffic_class;
    made->service_level = wish->options->service_level;
    made->gid_is_ipv4 = tt_verbs_gid_is_ipv4(&made->gid);
    made->address_be = made->gid_is_ipv4 ? gid_address(&made->gid) : wish->options->address_be;
    made->mtu = port->active_mtu;
    made->mtu_bytes = UINT32_C(128) << port->active_mtu;
}

static tutti_status open_candidate(const struct candidate *chosen, const struct wish *wish,
                                   struct tt_verbs_device **device)
{
    char gid[INET6_ADDRSTRLEN] = "";
    struct ibv_port_attr port = {0};
    struct tt_verbs_device *made = calloc(1, sizeof(*made));

    if (made == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for an RDMA device");
    }
    made->users = 1;
    made->port = chosen->port;
    snprintf(made->name, sizeof made->name, "%s", ibv_get_device_name(chosen->device));
    tutti_status status = tt_verbs_endpoints_open(made, chosen->device, wish->options);
    if (status == TUTTI_OK) {
        status = ask_limits(made, chosen->port, &port);
    }
    if (status == TUTTI_OK) {
        status = tt_verbs_find_pkey(made, port.pkey_tbl_len, wish->options->pkey);
    }
    if (status != TUTTI_OK) {
        tt_verbs_device_close(made);
        return status;
    }
    note_port(made, chosen, wish, &port);
    tt_verbs_events_start(made);
    inet_ntop(AF_INET6, &made->gid, gid, sizeof gid);
    TT_LOG(TT_PART_FABRIC, TT_LOG_INFO, "RDMA device %s, port %u: GID %u is %s, MTU %u", made->name, made->port,
           made->gid_index, gid, made->mtu_bytes);
    *device = made;
    return TUTTI_OK;
}

/* Opens, or only looks (`device` is NULL), and then logs nothing and sets *found. */
static tutti_status find(const struct tt_verbs_device_options *options, struct tt_verbs_device **device,
                         struct tt_verbs_found *found)
{
    struct wish wish;
    struct candidate chosen = {.score = SCORE_NONE};
    int count = 0;
    struct ibv_device **devices = NULL;
    tutti_status status = read_wish(options, &wish);
    if (status == TUTTI_OK) {
        status = tt_rdma_library_load();
    }
    if (status == TUTTI_OK) {
        devices = ibv_get_device_list(&count);
        count = devices != NULL ? count : 0;
        search(&wish, devices, count, &chosen);
        status = chosen.score == SCORE_NONE ? explain(&wish, devices, count) : TUTTI_OK;
    }
    if (device != NULL && status != TUTTI_OK) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_ERROR, "%s", tt_last_error());
    } else if (device != NULL) {
        status = open_candidate(&chosen, &wish, device);
    } else if (status == TUTTI_OK && found != NULL) {
        snprintf(found->device, sizeof found->device, "%s", ibv_get_device_name(chosen.device));
        found->is_known = chosen.is_soft;
    }
    if (devices != NULL) {
        ibv_free_device_list(devices);
    }
    return status;
}

tutti_status tt_verbs_device_open(const struct tt_verbs_device_options *options, struct tt_verbs_device **device)
{
    return find(options, device, NULL);
}

bool tt_verbs_device_exists(const struct tt_verbs_device_options *options, struct tt_verbs_found *found)
{
    struct tt_verbs_found nobody_asks;
    bool exists = find(options, NULL, found != NULL ? found : &nobody_asks) == TUTTI_OK;

    tt_clear_error();
    return exists;
}

void tt_verbs_device_hold(struct tt_verbs_device *device)
{
    device->users++;
}

void tt_verbs_device_close(struct tt_verbs_device *device)
{
    if (device == NULL || --device->users > 0) {
        return;
    }
    tt_endpoints_destroy(device->endpoints);
    free(device);
}
