/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connecting queue pairs of one port with each other.
 *
 * Normal path: INIT, RTR and RTS of both ends, one after the other; each knows the other by its number alone, as the
 * address is the own one.
 *
 * Failures: what the device refuses is named.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "endpoint/traffic_private.h"

enum {
    ACK_TIMEOUT = 16, /* 4.096 us << 16 = 268 ms, and up to four times as long on some devices */
    RETRIES = 6,      /* 7 would never end on some */
    RNR_RETRIES = 6,
    RNR_TIMER = 12,
    HOP_LIMIT = 64,
    READS_MOST = 16,
    PSN_MASK = 0xFFFFFF
};

static tutti_status refused(const char *device, const char *what, int error)
{
    return tt_error(TT_PART_FABRIC, TUTTI_ERR_IO, "%s: %s: %s", device, what, strerror(error));
}

static uint8_t least_of(int one, int other)
{
    int least = one < other ? one : other;

    return (uint8_t)(least < READS_MOST ? least : READS_MOST);
}

tutti_status tt_traffic_find_path(const struct tt_traffic_options *options, struct ibv_context *context,
                                  struct tt_traffic_path *path)
{
    const struct tt_endpoint_calls *calls = options->calls;
    struct ibv_device_attr device;

    *path = (struct tt_traffic_path){.device = options->device,
                                     .port = (uint8_t)options->port,
                                     .gid_index = (uint8_t)options->gid_index,
                                     .pkey_index = (uint16_t)options->pkey_index};
    int error = calls->query_device(context, &device);
    if (error != 0) {
        return refused(path->device, "asking for its limits", error);
    }
    path->reads = least_of(device.max_qp_rd_atom, device.max_qp_init_rd_atom);
    error = calls->query_port(context, path->port, &path->attributes);
    if (error != 0) {
        return refused(path->device, "asking for its port", error);
    }
    if (path->attributes.state != IBV_PORT_ACTIVE) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NOT_SUPPORTED, "%s: port %u is not active", path->device, path->port);
    }
    if (calls->query_gid(context, path->port, path->gid_index, &path->gid) != 0) {
        return refused(path->device, "asking for its GID", errno);
    }
    return TUTTI_OK;
}

/* INIT; then the device knows what may be done over it. */
static tutti_status prepare(const struct tt_endpoint_calls *calls, const struct tt_traffic_path *path,
                            struct ibv_qp *qp)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = path->pkey_index,
                               .port_num = path->port,
                               .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
    int error = calls->modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

    return error != 0 ? refused(path->device, "INIT of a queue pair", error) : TUTTI_OK;
}

static tutti_status lead_to(const struct tt_endpoint_calls *calls, const struct tt_traffic_path *path,
                            struct ibv_qp *qp, const struct ibv_qp *other, uint32_t psn)
{
    struct ibv_qp_attr receive = {.qp_state = IBV_QPS_RTR,
                                  .path_mtu = path->attributes.active_mtu,
                                  .dest_qp_num = other->qp_num,
                                  .rq_psn = psn,
                                  .max_dest_rd_atomic = path->reads,
                                  .min_rnr_timer = RNR_TIMER,
                                  .ah_attr = {.dlid = path->attributes.lid, .port_num = path->port}};
    struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS,
                               .timeout = ACK_TIMEOUT,
                               .retry_cnt = RETRIES,
                               .rnr_retry = RNR_RETRIES,
                               .sq_psn = psn,
                               .max_rd_atomic = path->reads};

    if (path->attributes.link_layer == IBV_LINK_LAYER_ETHERNET) {
        receive.ah_attr.is_global = 1;
        receive.ah_attr.grh.dgid = path->gid;
        receive.ah_attr.grh.sgid_index = path->gid_index;
        receive.ah_attr.grh.hop_limit = HOP_LIMIT;
    }
    int error = calls->modify_qp(qp, &receive,
                                 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error != 0) {
        return refused(path->device, "RTR of a queue pair", error);
    }
    error = calls->modify_qp(qp, &send,
                             IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                 IBV_QP_MAX_QP_RD_ATOMIC);
    return error != 0 ? refused(path->device, "RTS of a queue pair", error) : TUTTI_OK;
}

tutti_status tt_traffic_connect(const struct tt_endpoint_calls *calls, const struct tt_traffic_path *path,
                                struct ibv_qp *one, struct ibv_qp *other)
{
    uint32_t
        psn; /* a random one, as numbers of queue pairs come again and packets of their last users may be under way */

    if (getrandom(&psn, sizeof(psn), 0) != sizeof(psn)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_IO, "no random number for a connection");
    }
    psn &= PSN_MASK;
    tutti_status status = prepare(calls, path, one);
    if (status == TUTTI_OK) {
        status = prepare(calls, path, other);
    }
    if (status == TUTTI_OK) {
        status = lead_to(calls, path, one, other, psn);
    }
    return status == TUTTI_OK ? lead_to(calls, path, other, one, psn) : status;
}
