/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a connection reads and writes remote memory by hardware.
 *
 * Normal path: UCX prints what it uses each lane of an endpoint for:
 *     #   lane[0]:  2:rc_verbs/mlx5_0:1.0 md[1] -> md[1]/ib/sysdev[0] rma#0 am am_bw#0
 * One-sided access runs on the lanes that are marked rma#. If all of them are reliable connections of InfiniBand or
 * RoCE (rc_verbs, rc_mlx5, dc_mlx5, ...), it is hardware's. UCX offers no other way to ask before 1.14, and none that
 * tells the use of a lane after it.
 *
 * Failures: where there is no such lane, UCX would emulate one-sided access in software that aborts the process when
 * the other one dies at the wrong moment (1.13). Whatever is not understood is therefore taken for that, and served by
 * our own messages, which are right on every transport.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fabric/ucx/instance.h"

/* The transport's name in "lane[0]:  2:rc_verbs/mlx5_0:1.0 ...", or NULL. */
static const char *transport_of(const char *lane, const char *end)
{
    const char *name = memchr(lane, ':', (size_t)(end - lane));
    name = name != NULL ? memchr(name + 1, ':', (size_t)(end - name - 1)) : NULL;
    return name != NULL ? name + 1 : NULL;
}

static bool is_verbs(const char *transport)
{
    static const char *const names[] = {"rc_", "rc/", "dc_", "dc/"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncmp(transport, names[i], 3) == 0) {
            return true;
        }
    }
    return false;
}

enum tt_ucx_path tt_ucx_path_of_text(const char *text)
{
    bool found = false;
    for (const char *lane = strstr(text, "lane["); lane != NULL; lane = strstr(lane + 1, "lane[")) {
        const char *end = strchrnul(lane, '\n');
        const char *use = strstr(lane, " rma#");
        if (use == NULL || use >= end) {
            continue;
        }
        const char *transport = transport_of(lane, end);
        if (transport == NULL || !is_verbs(transport)) {
            return TT_UCX_PATH_MESSAGES;
        }
        found = true;
    }
    return found ? TT_UCX_PATH_HARDWARE : TT_UCX_PATH_MESSAGES;
}

enum tt_ucx_path tt_ucx_path_of(ucp_ep_h ep)
{
    char *text = NULL;
    size_t text_bytes = 0;
    enum tt_ucx_path path = TT_UCX_PATH_MESSAGES;
    FILE *stream = open_memstream(&text, &text_bytes);
    if (stream == NULL) {
        return path;
    }
    ucp_ep_print_info(ep, stream);
    if (fclose(stream) == 0) {
        path = tt_ucx_path_of_text(text);
    }
    free(text);
    return path;
}

bool tt_ucx_is_hardware(struct tt_ucx_peer *peer)
{
    if (peer->ucx->hardware && peer->path == TT_UCX_PATH_UNKNOWN) {
        peer->path = tt_ucx_path_of(peer->ep);
        TT_LOG(TT_PART_FABRIC, TT_LOG_INFO, "ucx: gets and puts to instance %016llx go by %s",
               (unsigned long long)peer->remote_id, peer->path == TT_UCX_PATH_HARDWARE ? "hardware" : "messages");
    }
    return peer->path == TT_UCX_PATH_HARDWARE;
}
