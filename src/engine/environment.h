/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a process's rank, its job's size and the way to the other ranks come from. The first of these that says
 * something decides:
 *
 *   1. TUTTI_SIZE, with TUTTI_RANK and TUTTI_ROOT (`tutti run` sets them).
 *   2. torchrun, if it says that it is this process's launcher (TORCHELASTIC_RUN_ID): RANK, WORLD_SIZE, MASTER_ADDR,
 *      MASTER_PORT. Before PMIx, since a torchrun that srun or mpirun has started hands their PMIx on to all its ranks.
 *   3. PMIx: PMIX_NAMESPACE and PMIX_RANK (mpirun of Open MPI, srun --mpi=pmix, prun).
 *   4. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from anybody else.
 *   5. Rank and size of a launcher that says no more (OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID): with TUTTI_ROOT.
 *      Without it an error, since otherwise every process would be a job of its own.
 *   6. Nobody: a job of one.
 *
 * TUTTI_ROOT, if it is set, says where rank 0 listens in all of them.
 */
#ifndef TT_ENGINE_ENVIRONMENT_H
#define TT_ENGINE_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "tutti/status.h"

enum tt_environment_source {
    TT_ENVIRONMENT_NONE,
    TT_ENVIRONMENT_SETTINGS,
    TT_ENVIRONMENT_PMIX,
    TT_ENVIRONMENT_TORCH,
    TT_ENVIRONMENT_RANK_ONLY
};

/* torchrun's own store listens at MASTER_PORT; rank 0 listens at this much more, or less where that is no port. */
enum { TT_ENVIRONMENT_PORT_OFFSET = 1000 };

enum { TT_ENVIRONMENT_TEXT_BYTES = 64 };

struct tt_environment {
    enum tt_environment_source source;
    uint32_t rank, size;
    char text[TT_ENVIRONMENT_TEXT_BYTES]; /* what said so, for people: "TUTTI_SIZE=4", "PMIx, 4 ranks" */
    bool in_session;                      /* of PMIx */
};

/*
 * Finds rank and size; BOOTSTRAP_TIMEOUT at most. To be released. Errors: INVALID_ARGUMENT (variables that cannot be,
 * named with their values), NOT_SUPPORTED (a launcher, but no way to the other ranks), and those of tt_pmix_enter().
 */
tutti_status tt_environment_find(const struct tt_settings *settings, struct tt_environment *environment);

/*
 * Sets what the bootstrap needs: rank, size, root and, for rank 0, root_fd. Where nobody has given an address, rank 0
 * says its own through PMIx, and the others wait for that, BOOTSTRAP_TIMEOUT at most. Errors: IN_USE (torchrun's port
 * and the offset), INVALID_ARGUMENT (TUTTI_INTERFACE), TIMED_OUT, BOOTSTRAP, NO_RESOURCE. On an error *settings is
 * unchanged.
 */
tutti_status tt_environment_meet(const struct tt_environment *environment, struct tt_settings *settings);

/* For every successful find; also for a struct of zeros. */
void tt_environment_release(struct tt_environment *environment);

#endif
