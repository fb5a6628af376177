/* SPDX-License-Identifier: BSD-3-Clause */
/* What the public handles hold. */
#ifndef TT_API_HANDLES_H
#define TT_API_HANDLES_H

#include <stdatomic.h>

#include "engine/bootstrap.h"
#include "engine/engine.h"
#include "engine/environment.h"
#include "engine/group.h"
#include "engine/request.h"
#include "tutti/object.h"
#include "tutti/tutti.h"

struct tutti_context {
    struct tt_settings settings;
    struct tt_engine *engine;
    pthread_mutex_t bootstrap_lock;
    struct tt_environment environment; /* with bootstrap_lock: the job, once it was needed */
    struct tt_bootstrap *bootstrap;    /* likewise; NULL for a job of one */
    bool has_environment;
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
