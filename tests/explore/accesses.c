/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the compiler calls for each access to memory, where code is built as for the thread sanitizer. Normal path: an
 * atomic operation is a point, and then is done; it hands on what its thread knows, as its memory order says. A plain
 * access is checked against those of the other threads: each byte has, by thread, the time of the last read and write,
 * and each thread knows up to which time of each other thread it has heard (vector clocks). Failure: more bytes in a
 * schedule than there are cells for.
 */
#include <stdatomic.h>
#include <string.h>

#include "explore.h"

enum { CELLS = 1 << 16 };

/* What is known of a byte, or of an object that hands on what threads know. */
struct cell {
    const volatile uint8_t *address;
    uint64_t schedule; /* the one that it is of; else it is free */
    uint32_t read[EXPLORE_THREADS], written[EXPLORE_THREADS];
    const void *where[EXPLORE_THREADS]; /* the last of these */
    uint32_t released[EXPLORE_THREADS];
};

static struct cell cells[CELLS];
static uint64_t schedules;
static uint32_t clocks[EXPLORE_THREADS][EXPLORE_THREADS]; /* [who][of whom] */

void explore_forget(void)
{
    schedules++;
    memset(clocks, 0, sizeof clocks);
    for (uint32_t t = 0; t < EXPLORE_THREADS; t++) {
        clocks[t][t] = 1;
    }
}

static struct cell *find(const volatile void *address)
{
    uint64_t at = (uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15) >> 48;

    for (uint32_t i = 0; i < CELLS; i++) {
        struct cell *cell = &cells[(at + i) % CELLS];

        if (cell->schedule != schedules) {
            memset(cell, 0, sizeof *cell);
            cell->address = address;
            cell->schedule = schedules;
        }
        if (cell->address == address) {
            return cell;
        }
    }
    explore_fail("more than %d bytes are touched", CELLS);
}

static void learn(uint32_t *clock, const uint32_t *other)
{
    for (uint32_t t = 0; t < EXPLORE_THREADS; t++) {
        clock[t] = clock[t] < other[t] ? other[t] : clock[t];
    }
}

void explore_acquire(const void *object)
{
    if (explore_self() >= 0) {
        learn(clocks[explore_self()], find(object)->released);
    }
}

void explore_release(const void *object)
{
    int self = explore_self();

    if (self >= 0) {
        learn(find(object)->released, clocks[self]);
        clocks[self][self]++;
    }
}

void explore_access(const volatile void *address, size_t bytes, bool writes, const void *where)
{
    int self = explore_self();

    if (self < 0 || explore_is_on_stack((const void *)address)) {
        return;
    }
    for (size_t i = 0; i < bytes; i++) {
        struct cell *cell = find((const volatile uint8_t *)address + i);
        uint32_t *own = &(writes ? cell->written : cell->read)[self];

        if (*own == clocks[self][self]) { /* since then others would have found this thread's */
            continue;
        }
        for (int t = 0; t < EXPLORE_THREADS; t++) {
            if (t != self && (cell->written[t] > clocks[self][t] || (writes && cell->read[t] > clocks[self][t]))) {
                explore_fail("threads %d and %d access a byte in no order, at %s and %s", t, self,
                             explore_place_of(cell->where[t]), explore_place_of(where));
            }
        }
        *own = clocks[self][self];
        cell->where[self] = where;
    }
}

/* --- Plain accesses ----------------------------------------------------------------------------------------------- */

#define HERE __builtin_return_address(0)

#define PLAIN(name, bytes, writes)                                                                                     \
    void __tsan_##name(void *address);                                                                                 \
    void __tsan_##name(void *address)                                                                                  \
    {                                                                                                                  \
        explore_access(address, bytes, writes, HERE);                                                                  \
    }
#define PLAINS(bytes)                                                                                                  \
    PLAIN(read##bytes, bytes, false)                                                                                   \
    PLAIN(write##bytes, bytes, true)                                                                                   \
    PLAIN(unaligned_read##bytes, bytes, false)                                                                         \
    PLAIN(unaligned_write##bytes, bytes, true)

PLAINS(1)
PLAINS(2)
PLAINS(4)
PLAINS(8)
PLAINS(16)

void __tsan_read_range(void *address, size_t bytes);
void __tsan_read_range(void *address, size_t bytes)
{
    explore_access(address, bytes, false, HERE);
}

void __tsan_write_range(void *address, size_t bytes);
void __tsan_write_range(void *address, size_t bytes)
{
    explore_access(address, bytes, true, HERE);
}

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
    (void)caller;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

/* --- Atomic operations -------------------------------------------------------------------------------------------- */

static bool acquires(int order)
{
    return order != memory_order_relaxed && order != memory_order_release;
}

static bool releases(int order)
{
    return order == memory_order_release || order == memory_order_acq_rel || order == memory_order_seq_cst;
}

/* After an operation that read, wrote, or did both: then what was handed on before is handed on still. */
static void hand_on(const volatile void *object, int order, bool reads, bool writes)
{
    int self = explore_self();

    if (self >= 0 && reads && acquires(order)) {
        explore_acquire((const void *)object);
    }
    if (self >= 0 && writes && !reads) {
        memset(find(object)->released, 0, sizeof find(object)->released);
    }
    if (self >= 0 && writes && releases(order)) {
        explore_release((const void *)object);
    }
}

#define ATOMIC_MODIFY(bits, name, builtin)                                                                             \
    uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *object, uint##bits##_t value, int order);     \
    uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *object, uint##bits##_t value, int order)      \
    {                                                                                                                  \
        explore_point("atomic " #name, HERE);                                                                          \
        hand_on(object, order, true, true);                                                                            \
        return __atomic_##builtin(object, value, __ATOMIC_SEQ_CST);                                                    \
    }

#define ATOMIC_COMPARE(bits, name)                                                                                     \
    int __tsan_atomic##bits##_##name(volatile uint##bits##_t *object, uint##bits##_t *expected, uint##bits##_t value,  \
                                     int order, int failed_order);                                                     \
    int __tsan_atomic##bits##_##name(volatile uint##bits##_t *object, uint##bits##_t *expected, uint##bits##_t value,  \
                                     int order, int failed_order)                                                      \
    {                                                                                                                  \
        bool same;                                                                                                     \
                                                                                                                       \
        explore_point("atomic compare_exchange", HERE);                                                                \
        same = __atomic_compare_exchange_n(object, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);        \
        hand_on(object, same ? order : failed_order, true, same);                                                      \
        return same;                                                                                                   \
    }

#define ATOMICS(bits)                                                                                                  \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *object, int order);                       \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *object, int order)                        \
    {                                                                                                                  \
        explore_point("atomic load", HERE);                                                                            \
        hand_on(object, order, true, false);                                                                           \
        return __atomic_load_n(object, __ATOMIC_SEQ_CST);                                                              \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *object, uint##bits##_t value, int order);                \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *object, uint##bits##_t value, int order)                 \
    {                                                                                                                  \
        explore_point("atomic store", HERE);                                                                           \
        hand_on(object, order, false, true);                                                                           \
        __atomic_store_n(object, value, __ATOMIC_SEQ_CST);                                                             \
    }                                                                                                                  \
    uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                                         \
        volatile uint##bits##_t *object, uint##bits##_t expected, uint##bits##_t value, int order, int failed_order);  \
    uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                                         \
        volatile uint##bits##_t *object, uint##bits##_t expected, uint##bits##_t value, int order, int failed_order)   \
    {                                                                                                                  \
        bool same;                                                                                                     \
                                                                                                                       \
        explore_point("atomic compare_exchange", HERE);                                                                \
        same = __atomic_compare_exchange_n(object, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);       \
        hand_on(object, same ? order : failed_order, true, same);                                                      \
        return expected;                                                                                               \
    }                                                                                                                  \
    ATOMIC_COMPARE(bits, compare_exchange_strong)                                                                      \
    ATOMIC_COMPARE(bits, compare_exchange_weak)                                                                        \
    ATOMIC_MODIFY(bits, exchange, exchange_n)                                                                          \
    ATOMIC_MODIFY(bits, fetch_add, fetch_add)                                                                          \
    ATOMIC_MODIFY(bits, fetch_sub, fetch_sub)                                                                          \
    ATOMIC_MODIFY(bits, fetch_and, fetch_and)                                                                          \
    ATOMIC_MODIFY(bits, fetch_or, fetch_or)                                                                            \
    ATOMIC_MODIFY(bits, fetch_xor, fetch_xor)

ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)

/* A fence is taken for an object that all release and acquire. */
void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
    static const char fence;

    explore_point("atomic fence", HERE);
    if (acquires(order)) {
        explore_acquire(&fence);
    }
    if (releases(order)) {
        explore_release(&fence);
    }
}

void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
    (void)order;
}
