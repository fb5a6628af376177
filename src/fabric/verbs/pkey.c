/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which entry of a port's P_Key table queue pairs use (setting PKEY): ports talk to those of the same partition only.
 *
 * Normal path: the key is looked for in the table, all 16 bits of it; without a wish it is the first entry, which is
 * the default partition's on most fabrics, and the only one over RoCE. Failures: a text that is no P_Key, and a key
 * that the port does not have, whose keys are listed then.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fabric/verbs/device.h"

enum { LIST_BYTES = 128, PARTITION_MASK = 0x7FFF };

static bool read_key(const char *text, uint16_t *key)
{
    char *end;
    unsigned long value = strtoul(text, &end, 0);

    *key = (uint16_t)value;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && value <= UINT16_MAX && (value & PARTITION_MASK) != 0;
}

/* Whether the entry has a key; those that nothing is in are zero. */
static bool has_key(struct ibv_context *context, uint8_t port, uint16_t index, uint16_t *key)
{
    uint16_t key_be = 0;
    bool is_read = ibv_query_pkey(context, port, index, &key_be) == 0;

    *key = ntohs(key_be);
    return is_read && (*key & PARTITION_MASK) != 0;
}

/* "0xffff, 0x8001", as many as fit. */
static const char *list_keys(struct ibv_context *context, uint8_t port, uint16_t count, char text[LIST_BYTES])
{
    size_t length = 0;
    uint16_t key;

    snprintf(text, LIST_BYTES, "none");
    for (uint32_t i = 0; i < count; i++) {
        if (!has_key(context, port, (uint16_t)i, &key)) {
            continue;
        }
        if (length + sizeof(", 0xffff, ...") > LIST_BYTES) {
            snprintf(text + length, LIST_BYTES - length, ", ...");
            break;
        }
        length += (size_t)snprintf(text + length, LIST_BYTES - length, "%s0x%04x", length == 0 ? "" : ", ", key);
    }
    return text;
}

tutti_status tt_verbs_find_pkey(struct tt_verbs_device *device, uint16_t count, const char *wish)
{
    struct ibv_context *context = tt_verbs_lane(device, 0)->context;
    char keys[LIST_BYTES];
    uint16_t wished, key;

    device->pkey_index = 0;
    if (wish == NULL || strcmp(wish, "auto") == 0) {
        return TUTTI_OK;
    }
    if (!read_key(wish, &wished)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_PKEY=%s: not a P_Key, as 0x8001", wish);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (has_key(context, device->port, (uint16_t)i, &key) && key == wished) {
            device->pkey_index = (uint16_t)i;
            return TUTTI_OK;
        }
    }
    return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                    "TUTTI_PKEY=%s: port %u of RDMA device %s does not have this P_Key (it has: %s)", wish,
                    device->port, device->name, list_keys(context, device->port, count, keys));
}
