/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti info -d`: the RDMA devices of this machine. */
#ifndef TT_CLI_INFO_DEVICES_H
#define TT_CLI_INFO_DEVICES_H

#include <stdbool.h>

#include "base/settings.h"

/* Prints them, with what the settings ENDPOINTS and WORKERS would come to there, and returns the exit status: failed,
 * after one line, in a build that knows no RDMA devices. */
int tt_info_devices(const struct tt_settings *settings, bool json);

#endif
