/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the launcher's PMIx server knows: this process's rank, the size of the job, and one text that rank 0 has for all
 * others. One session a process, shared by all that enter; any thread may call.
 */
#ifndef TT_ENGINE_PMIX_H
#define TT_ENGINE_PMIX_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/status.h"

/* The version of PMIx that this was built for; NULL: it was built without, and every function is NOT_SUPPORTED. */
const char *tt_pmix_built_version(void);

/*
 * Joins the session, and begins it if nobody else has. Errors: NOT_SUPPORTED (built without, or libpmix cannot be
 * loaded), BOOTSTRAP (the server refuses, or says what cannot be), TIMED_OUT (it does not answer), NO_MEMORY,
 * NO_RESOURCE (no thread).
 */
tutti_status tt_pmix_enter(uint64_t timeout_ns, uint32_t *rank, uint32_t *size);

/* Rank 0's text. To be called once a process: a server may hand out what it has once read for as long as it likes.
 * Errors: as of enter. */
tutti_status tt_pmix_publish(uint64_t timeout_ns, const char *text);

/* Rank 0's text; waits until rank 0 has published it. Errors: TIMED_OUT, BOOTSTRAP, NO_MEMORY, NO_RESOURCE. */
tutti_status tt_pmix_lookup(uint64_t timeout_ns, char *text, size_t text_bytes);

/* Leaves, and ends the session after the last. For every successful enter. */
void tt_pmix_leave(void);

#endif
