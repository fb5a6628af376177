/* SPDX-License-Identifier: BSD-3-Clause */
/* What the public handles hold. */
#ifndef TT_API_HANDLES_H
#define TT_API_HANDLES_H

#include <stdatomic.h>

#include "engine/bootstrap.h"
#include "engine/engine.h"
#include "engine/group.h"
#include "engine/request.h"
#include "tutti/tutti.h"

struct tutti_context {
    struct tt_settings settings;
    struct tt_engine *engine;
    pthread_mutex_t bootstrap_lock;
    struct tt_bootstrap *bootstrap; /* with bootstrap_lock: of the environment's job, once it was needed */
    _Atomic uint32_t group_count;
};

struct tutti_group {
    tutti_context *context;
    struct tt_group *group;
};

struct tutti_request {
    tutti_group *owner;
    struct tt_request *request;
};

#endif
