/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preparing. Normal path: ask the system which address a datagram to rank 0 would come from, and open the provider on
 * that address's interface. Failures leave things as they were.
 */
#include "engine/prepare.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/locality.h"

enum { MAX_INTERFACES = 64, ANY_PORT = 9 };

/* The address of this host that leads to another; 0: none does. */
static uint32_t address_towards(uint32_t remote_be)
{
    struct sockaddr_in remote = {.sin_family = AF_INET, .sin_port = htons(ANY_PORT), .sin_addr.s_addr = remote_be};
    struct sockaddr_in own = {.sin_family = AF_INET};
    socklen_t length = sizeof own;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return 0;
    }
    if (connect(fd, (struct sockaddr *)&remote, sizeof remote) != 0 ||
        getsockname(fd, (struct sockaddr *)&own, &length) != 0) {
        own.sin_addr.s_addr = 0;
    }
    close(fd);
    return own.sin_addr.s_addr;
}

static bool find_interface(const struct tt_settings *settings, const char *root, struct tt_interface *interface)
{
    struct tt_interface list[MAX_INTERFACES];
    size_t count = 0;
    uint32_t root_be, address_be;

    if (strcmp(settings->interface, "auto") != 0) {
        return tt_interface_find(settings->interface, interface) == TUTTI_OK;
    }
    root_be = tt_locality_root(root);
    address_be = root_be != 0 ? address_towards(root_be) : 0;
    if (address_be == 0 || tt_interface_list(list, MAX_INTERFACES, &count) != TUTTI_OK) {
        return false;
    }
    for (size_t i = 0; i < count && i < MAX_INTERFACES; i++) {
        if (list[i].address_be == address_be) {
            *interface = list[i];
            return true;
        }
    }
    return false;
}

static void prepare(struct tt_engine *engine, const char *root)
{
    if (engine->network_count > 0 || engine->prepared != NULL ||
        !find_interface(&engine->settings, root, &engine->prepared_for)) {
        return;
    }
    engine->prepared = tt_network_p2p_ahead(&engine->settings, &engine->prepared_for);
    if (engine->prepared != NULL) {
        TT_LOG(TT_PART_ENGINE, TT_LOG_DEBUG, "%s is ready on %s before the job is", engine->prepared->ops->name,
               engine->prepared_for.name);
    }
}

void tt_engine_prepare(struct tt_engine *engine, const char *root)
{
    tt_engine_lock(engine);
    prepare(engine, root);
    tt_engine_unlock(engine);
}

struct tt_p2p *tt_engine_prepared(struct tt_engine *engine, const struct tt_interface *interface)
{
    struct tt_p2p *prepared = engine->prepared;
    bool fits = interface->index == engine->prepared_for.index;

    engine->prepared = NULL;
    if (prepared != NULL && !fits) {
        prepared->ops->destroy(prepared);
    }
    return fits ? prepared : NULL;
}
