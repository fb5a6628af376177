/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that is refused: one request of the thread that counts its requests. For programs that the linker gives the
 * functions of refuse.c in the place of libc's (meson.build). */
#ifndef TT_TESTS_REFUSE_H
#define TT_TESTS_REFUSE_H

#include <stdbool.h>
#include <stdint.h>

extern _Thread_local bool refuse_counts;
extern _Atomic uint32_t refuse_after; /* the request so many from now is refused; 0: none is, or one has been */

#endif
