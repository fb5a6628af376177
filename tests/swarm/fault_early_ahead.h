/* SPDX-License-Identifier: BSD-3-Clause */
/* Included before the protocol's sources: chunks are taken for early ones for as long as their tag has not come again.
 */
#ifndef TT_TESTS_SWARM_FAULT_EARLY_AHEAD_H
#define TT_TESTS_SWARM_FAULT_EARLY_AHEAD_H

#include "proto/early.h"

#define TT_EARLY_AHEAD TT_TAG_EAGER_COUNT

#endif
