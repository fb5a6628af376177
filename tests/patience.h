/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many times longer than in a plain build a test lets things take. A bound that the product promises (survivors are
 * told within so many seconds) holds as it is where nothing is instrumented; a sanitizer makes everything slower, and
 * what is tried many times is tried as many times less often.
 */
#ifndef TT_TESTS_PATIENCE_H
#define TT_TESTS_PATIENCE_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TT_PATIENCE 5
#endif
#endif
#if !defined(TT_PATIENCE) && (defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__))
#define TT_PATIENCE 5
#endif
#ifndef TT_PATIENCE
#define TT_PATIENCE 1
#endif

#endif
