/* SPDX-License-Identifier: BSD-3-Clause */
/* What the _init functions of requests share. */
#ifndef TT_API_CREATE_H
#define TT_API_CREATE_H

#include "api/handles.h"

tutti_status tt_api_group_status(struct tt_group *group);

tutti_status tt_api_check_common(const tutti_group *group, const tutti_request_options *options,
                                 tutti_request **request);

tutti_status tt_api_check_root(const tutti_group *group, uint32_t root);

bool tt_api_overlaps(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes);

/* So many blocks of so many bytes; INVALID_ARGUMENT if they are more than memory. */
tutti_status tt_api_check_length(uint64_t bytes, uint32_t blocks);

/* A buffer for them. */
tutti_status tt_api_check_receive(const void *receive, uint64_t bytes, uint32_t blocks);

/* Where the own block comes from: NULL if it is in place already, at `block` in the receive buffer. */
tutti_status tt_api_check_send(const void *send, const uint8_t *block, const void *receive, uint64_t receive_bytes,
                               uint64_t block_bytes, const void **source);

/* Chooses the method, and makes the request. */
tutti_status tt_api_create_request(tutti_group *group, struct tt_request_options *inner,
                                   const tutti_request_options *options, tutti_request **request);

#endif
