/* SPDX-License-Identifier: BSD-3-Clause */
/* What a job will need and can be made before it has come together, while a rank waits for the others anyway. */
#ifndef TT_ENGINE_PREPARE_H
#define TT_ENGINE_PREPARE_H

#include "engine/engine.h"

/*
 * Makes the reliable provider for the interface that the setting INTERFACE names, or else the one that leads to `root`
 * (as the setting ROOT), which is where the first group's network will most likely be: UCX looks at every device of the
 * host. What turns out to be of no use is destroyed with the first network that is made. Blocks for that long, and for
 * as long as a name server takes. Does nothing where an RDMA device may be chosen instead, and after the first time.
 * Failures are logged, and come again with the network that needs it. Takes the engine's lock.
 */
void tt_engine_prepare(struct tt_engine *engine, const char *root);

/* The provider made ahead, if it is for this interface; NULL, if not, and then there is none any more. The caller holds
 * the engine's lock. */
struct tt_p2p *tt_engine_prepared(struct tt_engine *engine, const struct tt_interface *interface);

#endif
