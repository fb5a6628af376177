/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where rank 0 listens when nobody has given it an address: the socket, and the words from which another rank finds the
 * way to it.
 */
#ifndef TT_ENGINE_MEETING_H
#define TT_ENGINE_MEETING_H

#include <stddef.h>
#include <stdint.h>

#include "base/settings.h"
#include "tutti/status.h"

/*
 * This process's listening socket at all of its addresses, at *port; 0: a free one, which is then set. It is kept, and
 * given again when the same port is asked for, because all groups of a process meet at one address. Errors: IN_USE,
 * NO_RESOURCE.
 */
tutti_status tt_meeting_listen(uint16_t *port, int *fd);

/*
 * "PORT HOST ADDRESS/BITS ...": this host's addresses, at most eight and as many as fit a setting, those first that
 * others are likely to reach: of INTERFACE only if it is set, then IPv4 before IPv6, and of each the interface with the
 * default route. Errors: those of the interface; TOO_LARGE.
 */
tutti_status tt_meeting_describe(const struct tt_settings *settings, uint16_t port, char *text, size_t text_bytes);

/*
 * From rank 0's description the "host[,host...]:port" that this rank should try, with one of IPv6 among them in
 * brackets ("[host...]:port"), in this order: loopback alone if it is on the same host, else the networks that both are
 * in, then the rest. Errors: BOOTSTRAP (that is no description).
 */
tutti_status tt_meeting_choose(const struct tt_settings *settings, const char *description, char *root,
                               size_t root_bytes);

#endif
