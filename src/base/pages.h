/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that a collective shall not have to wait for: its pages are there before it is used. */
#ifndef TT_BASE_PAGES_H
#define TT_BASE_PAGES_H

#include <stddef.h>

/* Zeroed, at the beginning of a page, and with all of its pages; for free(). NULL with errno: no memory. */
void *tt_pages_allocate(size_t length_bytes);

#endif
