/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs whose allreduces go in parts, once in each of them. */
#ifndef TT_TESTS_PARTS_ORDER_H
#define TT_TESTS_PARTS_ORDER_H

/*
 * What the thread sanitizer cannot see here: that another process makes the order. An allreduce in parts and in place:
 * a receiving thread writes a part that has come by multicast where the control thread had the same part read for its
 * root to combine. The root multicasts what it has made of all that it has read, so the read came first. A suppression
 * matches any frame of a report, so it is of this program, and not of all.
 */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TT_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(TT_THREAD_SANITIZER)
const char *__tsan_default_suppressions(void);
__attribute__((used, visibility("default"))) const char *__tsan_default_suppressions(void)
{
    return "race:^send_piece$\n";
}
#endif

#endif
