/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bootstrap: how the ranks of a job find each other over TCP, with nothing but RANK, SIZE and ROOT, and the out-of-band
 * allgather that creating a group needs.
 *
 * A star: rank 0 listens, the others keep one connection to it until destroy. One thread at a time.
 */
#ifndef TT_ENGINE_BOOTSTRAP_H
#define TT_ENGINE_BOOTSTRAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/settings.h"
#include "tutti/status.h"

struct tt_bootstrap;

/* What is said where a rank will never come: by rank 0, and by a launcher that has seen it end. */
#define TT_BOOTSTRAP_ENDED "rank %u ended before all ranks had come together"

/*
 * Blocks until all ranks are here, BOOTSTRAP_TIMEOUT at most (others than rank 0 wait half as long again and two
 * seconds, so that rank 0's sentence reaches them). Uses rank, size, root, root_fd and bootstrap_timeout_ns; without a
 * size, or with size 1, no network is touched. With a size but without a rank, rank 0 gives one: the lowest that nobody
 * has, in the order of arrival. An inherited root_fd stays open for further groups of the same ranks.
 *
 * Errors, each with its sentence in tt_last_error(): INVALID_ARGUMENT (settings missing, an address that is malformed,
 * a root_fd that does not listen), IN_USE (another process listens at the address), IO (the address is not this
 * host's), TIMED_OUT (the same sentence on all ranks that came: who is missing; or why rank 0 cannot be reached),
 * MISMATCH (rank 0 refused: another size or version), BOOTSTRAP (rank 0 refused: the rank is taken), PEER_FAILED (rank
 * 0 died, or another rank did and the launcher says so), NO_MEMORY, NO_RESOURCE (descriptors, or a port of this host to
 * reach rank 0 from).
 */
tutti_status tt_bootstrap_create(const struct tt_settings *settings, struct tt_bootstrap **bootstrap);

/*
 * The two halves of create, for who has something to do in between. After open the others find rank 0 listening, and
 * wait there; meet blocks until all are here. Which errors come from which half is not said; after one of meet's the
 * bootstrap is good for destroy only.
 */
tutti_status tt_bootstrap_open(const struct tt_settings *settings, struct tt_bootstrap **bootstrap);
tutti_status tt_bootstrap_meet(struct tt_bootstrap *bootstrap);

/*
 * Every rank contributes `length_bytes` at `send`, and gets all contributions in the order of ranks at `receive`; fits
 * tutti_oob_allgather. `send` may be the caller's own block of `receive`. 0, or a negative tutti_status:
 * PEER_FAILED (a rank died or left), TIMED_OUT (a rank did not take part within BOOTSTRAP_TIMEOUT), MISMATCH (another
 * length), TOO_LARGE. All contributions must have reached rank 0 for anybody to succeed; then every rank that is still
 * alive does. After a failure every further call fails in the same way.
 */
int tt_bootstrap_allgather(void *bootstrap, const void *send, void *receive, size_t length_bytes);

/* The own rank: that of the settings, or what rank 0 has given. */
uint32_t tt_bootstrap_rank(const struct tt_bootstrap *bootstrap);

/* The rank that a failed allgather was about; -1 if none failed, or no single rank was to blame. */
int tt_bootstrap_failed_rank(const struct tt_bootstrap *bootstrap);

/* Connections to rank 0's port that turned out not to be of this job. */
uint64_t tt_bootstrap_strangers(const struct tt_bootstrap *bootstrap);

/* Closes the connections. Ranks that call this after their last allgather do not disturb others that are still in it.
 * NULL is allowed. */
void tt_bootstrap_destroy(struct tt_bootstrap *bootstrap);

#endif
