/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What arrives at an instance.
 *
 * Normal path: a message of tutti is copied into the inbox if it is for the caller, or says goodbye for a peer.
 *
 * Failures: what is not a message of tutti (foreign ids, no header, too long, or announced instead of sent) is dropped
 * and counted. A message of tutti that finds no memory is a broken promise: the instance gives up its peers.
 */
#include "base/log.h"
#include "fabric/ucx/instance.h"

static void keep(struct tt_ucx *ucx, const struct tt_ucx_header *header, const void *payload)
{
    struct tt_inbox_record record = {.kind = header->kind};
    if (header->kind == TT_UCX_FRAME) {
        record.length_bytes = header->payload_bytes;
        ucx->counters.frames_received++;
        ucx->counters.bytes_received += header->payload_bytes;
    } else {
        record.value = header->value;
    }
    if (tt_inbox_push(&ucx->inbox, &record, payload) != TUTTI_OK) {
        ucx->lost = true;
        tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "ucx: no memory for a received frame; giving up all peers");
    }
}

static ucs_status_t receive(void *argument, const void *user_header, size_t user_header_bytes, void *data,
                            size_t length_bytes, const ucp_am_recv_param_t *param)
{
    struct tt_ucx *ucx = argument;
    struct tt_ucx_header header;
    (void)user_header;
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0 || user_header_bytes != 0 ||
        !tt_ucx_header_decode(data, length_bytes, &header)) {
        ucx->counters.frames_dropped++;
        TT_LOG(TT_PART_FABRIC, TT_LOG_DEBUG, "ucx: dropped a foreign message of %zu bytes", length_bytes);
        return UCS_OK;
    }
    const uint8_t *payload = (const uint8_t *)data + TT_UCX_HEADER_BYTES;
    switch (header.kind) {
    case TT_UCX_FRAME:
    case TT_UCX_IMMEDIATE:
        keep(ucx, &header, payload);
        break;
    case TT_UCX_BYE:
    case TT_UCX_BYE_HEARD:
        tt_ucx_peer_left(ucx, header.value, tt_ucx_get_u32(payload), header.kind == TT_UCX_BYE_HEARD);
        break;
    default: /* HELLO has done its work by arriving */
        break;
    }
    return UCS_OK;
}

static ucs_status_t drop_foreign(void *argument, const void *user_header, size_t user_header_bytes, void *data,
                                 size_t length_bytes, const ucp_am_recv_param_t *param)
{
    struct tt_ucx *ucx = argument;
    (void)user_header, (void)user_header_bytes, (void)data, (void)param;
    ucx->counters.frames_dropped++;
    TT_LOG(TT_PART_FABRIC, TT_LOG_DEBUG, "ucx: dropped a foreign message of %zu bytes", length_bytes);
    return UCS_OK;
}

tutti_status tt_ucx_listen(struct tt_ucx *ucx)
{
    for (unsigned id = 0; id < TT_UCX_AM_WATCHED; id++) {
        ucp_am_handler_param_t param = {
            .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                          UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
            .id = id,
            .flags = UCP_AM_FLAG_WHOLE_MSG,
            .cb = id == TT_UCX_AM_ID ? receive : drop_foreign,
            .arg = ucx,
        };
        ucs_status_t status = ucp_worker_set_am_recv_handler(ucx->worker, &param);
        if (status != UCS_OK) {
            return tt_error(TT_PART_FABRIC, tt_ucx_status(status), "ucx: message handler %u: %s", id,
                            ucs_status_string(status));
        }
    }
    return TUTTI_OK;
}
