/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The explorer: runs a scenario of a few threads in every order in which they can meet, up to a number of preemptions.
 *
 * The code under test is the library's own, compiled as for the thread sanitizer (-fsanitize=thread): the compiler then
 * puts a call before each access to memory, and instead of each atomic one. Here these calls are the explorer's
 * (accesses.c), not the sanitizer's. With points.h included before everything else, threads, locks, sleeping and
 * descriptors are the explorer's too (system.c). So there is a point, at which another thread may go on instead, before
 * every atomic operation and every one that threads meet in. Threads are coroutines: one runs at a time.
 *
 * Memory is sequentially consistent: an atomic operation is seen by all at once. What is found are errors of logic,
 * such as a look that comes too early, in whatever order the threads go on; and plain accesses that nothing puts in an
 * order, also where only a weaker memory order does not. Not found is what would take two atomic operations to be seen
 * in different orders by different threads, nor a plain access by code that is not built so. A compare-and-swap fails
 * only where the value is another one, and no wait ends for nothing.
 *
 * A scenario begins anew with each schedule, and does the same in the same schedule: what it allocates it allocates
 * before its threads begin, and it asks nobody for the time or for random numbers.
 */
#ifndef TT_TESTS_EXPLORE_H
#define TT_TESTS_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXPLORE_THREADS = 8 };

struct explore_thread {
    const char *name;
    void (*run)(void);
};

struct explore_scenario {
    const char *name;
    uint32_t preemptions; /* switches from a thread that could go on; switches from others cost nothing */
    bool counts_all; /* where many threads sleep: who goes on when one cannot counts too, but for the next in turn */
    bool time_helps; /* else it is a violation if everybody sleeps, though somebody would wake up by himself */
    void (*begin)(void);                            /* before the threads */
    void (*end)(void);                              /* after them */
    struct explore_thread threads[EXPLORE_THREADS]; /* up to one without a name; they may start others */
};

/* What main returns: explores all, or what the arguments say, and prints the counts. */
int explore_main(int argc, char **argv, const struct explore_scenario *scenarios, uint32_t count);

/* Ends the schedule with a violation. */
void explore_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* What comes now is not what the scenario is about: nobody is preempted any more in this schedule. */
void explore_no_further(void);

#define EXPLORE_CHECK(condition)                                                                                       \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            explore_fail("%s:%d: not so: %s", __func__, __LINE__, #condition);                                         \
        }                                                                                                              \
    } while (0)

/* --- For what stands in for the compiler's calls and the system's ------------------------------------------------- */

#define EXPLORE_NEVER UINT64_MAX

/* The caller's operation comes next, or another thread's. `where` is the program's, for the trace. */
void explore_point(const char *operation, const void *where);

/* The same, but others go on until may_go_on(argument), or it is `until_ns`. Returns whether it may. */
bool explore_block(const char *operation, const void *where, bool (*may_go_on)(void *argument), void *argument,
                   uint64_t until_ns);

/* Lets another go on, if one can. */
void explore_yield(const char *operation, const void *where);

/* Time passes only where somebody's sleep ends by it. */
uint64_t explore_now_ns(void);

/* The calling thread, or -1 outside of a schedule; a new one; waiting for the end of one. */
int explore_self(void);
uint32_t explore_start(const char *name, void *(*run)(void *argument), void *argument);
void explore_join(uint32_t thread, const void *where);
bool explore_is_on_stack(const void *address);

/* File and line of the program's code (place.c), or nothing; valid for good. */
const char *explore_place_of(const void *where);

/* --- Who knows of what (accesses.c) ------------------------------------------------------------------------------- */

/* A schedule begins: nobody has touched anything. */
void explore_forget(void);

/* The calling thread knows all that another one knew when it released the object; and has others know. */
void explore_acquire(const void *object);
void explore_release(const void *object);

/* The calling thread touches memory: a violation if another one did that it knows nothing of, and one of the two
 * writes. */
void explore_access(const volatile void *address, size_t bytes, bool writes, const void *where);

#endif
