/* SPDX-License-Identifier: BSD-3-Clause */
/* A number that another rank says is its status. */
#ifndef TT_BASE_STATUS_H
#define TT_BASE_STATUS_H

#include <stdbool.h>

#include "tutti/status.h"

/* Whether it is in the table. */
bool tt_status_exists(int status);

#endif
