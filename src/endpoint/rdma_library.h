/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibverbs and librdmacm, loaded when the first RDMA device is looked for. Where nobody looks for one (a job on one
 * host, TUTTI_MCAST=udp) that saves each rank 3 to 4 ms; and a host that has none needs no such libraries.
 *
 * Their functions are called as ever, by the names in their headers: those that are no inline functions are defined in
 * rdma_library.c, and go on to the libraries.
 */
#ifndef TT_ENDPOINT_RDMA_LIBRARY_H
#define TT_ENDPOINT_RDMA_LIBRARY_H

#include "tutti/status.h"

/*
 * Loads both unless that has been done. Before it has succeeded none of their functions may be called; whoever asks for
 * the list of devices calls it first. Errors: NOT_SUPPORTED (not there, or too old), which it notes and does not log.
 * Safe to call from any thread.
 */
tutti_status tt_rdma_library_load(void);

#endif
