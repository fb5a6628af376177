/* SPDX-License-Identifier: BSD-3-Clause */
/* Marks what the shared library exports; everything else is hidden. */
#ifndef TUTTI_EXPORT_H
#define TUTTI_EXPORT_H

#if defined(__GNUC__)
#define TUTTI_EXPORT __attribute__((visibility("default")))
#else
#define TUTTI_EXPORT
#endif

#endif
