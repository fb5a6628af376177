/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests that have stand-ins for some functions of libibverbs and librdmacm: the others are the libraries' own. */
#ifndef TT_TESTS_RDMA_LOADED_H
#define TT_TESTS_RDMA_LOADED_H

#include "base/log.h"
#include "endpoint/rdma_library.h"

/* cmocka's setup of a group of tests. */
static inline int rdma_load(void **state)
{
    (void)state;
    if (tt_rdma_library_load() != TUTTI_OK) {
        print_error("%s\n", tt_last_error());
        return -1;
    }
    return 0;
}

#endif
