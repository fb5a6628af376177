/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMIx in a build without it. There is no normal path: who asks is told that it is missing, and what to do.
 */
#include "base/log.h"
#include "engine/pmix.h"

const char *tt_pmix_built_version(void)
{
    return NULL;
}

static tutti_status refuse(void)
{
    return tt_error(
        TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED,
        "PMIX_NAMESPACE says that a launcher with PMIx is here, but this build of tutti has no PMIx: build it "
        "with -Dpmix=enabled, or set TUTTI_RANK, TUTTI_SIZE and TUTTI_ROOT");
}

tutti_status tt_pmix_enter(uint64_t timeout_ns, uint32_t *rank, uint32_t *size)
{
    (void)timeout_ns;
    (void)rank;
    (void)size;
    return refuse();
}

tutti_status tt_pmix_publish(uint64_t timeout_ns, const char *text)
{
    (void)timeout_ns;
    (void)text;
    return refuse();
}

tutti_status tt_pmix_lookup(uint64_t timeout_ns, char *text, size_t text_bytes)
{
    (void)timeout_ns;
    (void)text;
    (void)text_bytes;
    return refuse();
}

void tt_pmix_leave(void)
{
}
