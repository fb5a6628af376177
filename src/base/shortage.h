/* SPDX-License-Identifier: BSD-3-Clause */
/* What this process or its host has run out of: descriptors above all, of which a process may have more than it is
 * given at first. */
#ifndef TT_BASE_SHORTAGE_H
#define TT_BASE_SHORTAGE_H

#include <stdbool.h>

#include "tutti/status.h"

enum { TT_SHORTAGE_TEXT_BYTES = 96 };

/* NO_RESOURCE (EMFILE, ENFILE, ENOBUFS, and ENOSPC of epoll's watches) or NO_MEMORY (ENOMEM); OK: this errno says
 * nothing of the kind, and trying again may help. */
tutti_status tt_shortage_status(int error);

/* That, or `otherwise` where it says nothing of the kind. */
tutti_status tt_shortage_status_or(int error, tutti_status otherwise);

/* The system's word for an errno; for EMFILE with the limit: "Too many open files (this process may have 1024: ulimit
 * -n)". Returns `text`. */
const char *tt_shortage_text(int error, char text[TT_SHORTAGE_TEXT_BYTES]);

/* Raises the soft limit of descriptors to the hard one, after an EMFILE. False: there is nothing to raise. errno stays.
 * Thread-safe. */
bool tt_shortage_raise_descriptors(int error);

#endif
