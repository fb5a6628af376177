/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What arrives at an instance.
 *
 * Normal path: a message of tutti is copied into the inbox if it is for the caller, opens or ends a connection, or
 * belongs to a get or put. Bulk data is known by its user header, and goes from UCX's buffer to where it belongs.
 *
 * Failures: what is not a message of tutti (foreign ids, no header, too long, or announced instead of sent), or makes
 * no sense here, is dropped and counted. A message of tutti that finds no memory is a broken promise: the instance
 * gives up its peers.
 */
#include "base/log.h"
#include "fabric/ucx/instance.h"
#include "wire/cursor.h"

void tt_ucx_keep(struct tt_ucx *ucx, enum tt_ucx_message_kind kind, uint64_t value, const void *payload,
                 uint32_t length_bytes)
{
    struct tt_inbox_record record = {.kind = kind, .value = value, .length_bytes = length_bytes};
    if (tt_inbox_push(&ucx->inbox, &record, payload) != TUTTI_OK) {
        ucx->lost = true;
        tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "ucx: no memory for a received frame; giving up all peers");
    }
}

static ucs_status_t drop(struct tt_ucx *ucx, size_t length_bytes)
{
    ucx->session.counters.frames_dropped++;
    TT_LOG(TT_PART_FABRIC, TT_LOG_DEBUG, "ucx: dropped a foreign message of %zu bytes", length_bytes);
    return UCS_OK;
}

/* Returns whether the message makes sense. */
static bool take_message(struct tt_ucx *ucx, const struct tt_ucx_header *header, const uint8_t *payload)
{
    switch (header->kind) {
    case TT_UCX_FRAME:
        ucx->session.counters.frames_received++;
        ucx->session.counters.bytes_received += header->payload_bytes;
        tt_ucx_keep(ucx, header->kind, header->value, payload, header->payload_bytes);
        return true;
    case TT_UCX_IMMEDIATE:
        tt_ucx_keep(ucx, header->kind, header->value, payload, header->payload_bytes);
        return true;
    case TT_UCX_HELLO:
        tt_ucx_peer_heard(ucx, header->value, tt_bytes_get(payload, 4));
        return true;
    case TT_UCX_BYE:
    case TT_UCX_BYE_HEARD:
        tt_ucx_peer_left(ucx, header->value, tt_bytes_get(payload, 4));
        return true;
    case TT_UCX_READ:
        return tt_ucx_read_asked(ucx, header->value, payload);
    case TT_UCX_WRITTEN:
    case TT_UCX_REFUSED:
        return tt_ucx_operation_answered(ucx, header->value, header->kind == TT_UCX_REFUSED);
    case TT_UCX_PROBE:
        return true; /* TCP has seen that it came, and that what is before it did not */
    default:
        return false;
    }
}

static bool take_bulk(struct tt_ucx *ucx, const struct tt_ucx_bulk *bulk, const void *data, size_t data_bytes)
{
    return bulk->kind == TT_UCX_READ_DATA ? tt_ucx_read_arrived(ucx, bulk, data, data_bytes)
                                          : tt_ucx_write_arrived(ucx, bulk, data, data_bytes);
}

static ucs_status_t receive(void *argument, const void *user_header, size_t user_header_bytes, void *data,
                            size_t length_bytes, const ucp_am_recv_param_t *param)
{
    struct tt_ucx *ucx = argument;
    struct tt_ucx_header header;
    struct tt_ucx_bulk bulk;
    bool good = false;
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
        return drop(ucx, length_bytes);
    }
    if (user_header_bytes > 0) {
        good = tt_ucx_bulk_decode(user_header, user_header_bytes, length_bytes, &bulk) &&
               take_bulk(ucx, &bulk, data, length_bytes);
    } else {
        good = tt_ucx_header_decode(data, length_bytes, &header) &&
               take_message(ucx, &header, (const uint8_t *)data + TT_UCX_HEADER_BYTES);
    }
    return good ? UCS_OK : drop(ucx, length_bytes);
}

static ucs_status_t drop_foreign(void *argument, const void *user_header, size_t user_header_bytes, void *data,
                                 size_t length_bytes, const ucp_am_recv_param_t *param)
{
    (void)user_header, (void)user_header_bytes, (void)data, (void)param;
    return drop(argument, length_bytes);
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
