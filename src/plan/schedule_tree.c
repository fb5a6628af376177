/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: schedules along trees, the dissemination barrier, and gather and scatter without a tree.
 *
 * Normal path: a rank finds its vertex relative to the root, and from there its parent and its children. Downwards the
 * largest subtree comes first, because it has the longest way; upwards the children come in the order of ranks, so that
 * a reduction keeps it, and the smallest subtrees are ready first.
 *
 * Failures: none; a tree of one vertex has no steps.
 */
#include "plan/dissemination.h"
#include "plan/schedule_rule.h"
#include "plan/tree.h"

/* The ranks of a tree, relative to its root. */
static uint32_t vertex_of(const struct tt_schedule_list *list)
{
    return tt_rank_subtract(list->rank, list->schedule->root, list->schedule->size);
}

static uint32_t rank_of(const struct tt_schedule_list *list, uint32_t vertex)
{
    return tt_rank_add(vertex, list->schedule->root, list->schedule->size);
}

static uint32_t child_count(uint32_t vertex, uint32_t size)
{
    uint32_t count = 0;

    while (count < 32 && tt_tree_child(vertex, size, count) != 0) {
        count++;
    }
    return count;
}

void tt_schedule_barrier(struct tt_schedule_list *list)
{
    uint32_t size = list->schedule->size;

    for (uint32_t round = 0; round < tt_dissemination_rounds(size); round++) {
        tt_schedule_add(list, TT_SCHEDULE_SEND, tt_dissemination_to(list->rank, size, round), 0, 0, false);
        tt_schedule_add(list, TT_SCHEDULE_SIGNAL, tt_dissemination_from(list->rank, size, round), 0, 0, false);
    }
}

void tt_schedule_broadcast_binomial(struct tt_schedule_list *list)
{
    uint32_t vertex = vertex_of(list), size = list->schedule->size;

    if (vertex != 0) {
        tt_schedule_add(list, TT_SCHEDULE_COPY, rank_of(list, tt_tree_parent(vertex)), 0, 1, false);
    }
    for (uint32_t i = child_count(vertex, size); i-- > 0;) {
        tt_schedule_add(list, TT_SCHEDULE_SEND, rank_of(list, tt_tree_child(vertex, size, i)), 0, 1, false);
    }
}

void tt_schedule_reduce_binomial(struct tt_schedule_list *list)
{
    uint32_t vertex = vertex_of(list), size = list->schedule->size;

    for (uint32_t i = 0; i < child_count(vertex, size); i++) {
        tt_schedule_add(list, TT_SCHEDULE_REDUCED, rank_of(list, tt_tree_child(vertex, size, i)), 0, 1, false);
    }
    if (vertex != 0) {
        tt_schedule_add(list, TT_SCHEDULE_SEND, rank_of(list, tt_tree_parent(vertex)), 0, 1, false);
    }
}

/* --- Blocks of ranks, up and down a binomial tree ----------------------------------------------------------------- */

/* The blocks of a vertex and of all below it: as many ranks as its lowest bit says, up to the last. */
static void add_subtree(struct tt_schedule_list *list, enum tt_schedule_kind kind, uint32_t peer, uint32_t top)
{
    uint32_t size = list->schedule->size, lowest = top & (~top + 1);

    tt_schedule_add(list, kind, rank_of(list, peer), rank_of(list, top), lowest < size - top ? lowest : size - top,
                    false);
}

void tt_schedule_gather(struct tt_schedule_list *list)
{
    uint32_t vertex = vertex_of(list), size = list->schedule->size;

    for (uint32_t i = 0; i < child_count(vertex, size); i++) {
        uint32_t child = tt_tree_child(vertex, size, i);

        add_subtree(list, TT_SCHEDULE_COPY, child, child);
    }
    if (vertex != 0) {
        add_subtree(list, TT_SCHEDULE_SEND, tt_tree_parent(vertex), vertex);
    }
}

void tt_schedule_scatter(struct tt_schedule_list *list)
{
    uint32_t vertex = vertex_of(list), size = list->schedule->size;

    if (vertex != 0) {
        add_subtree(list, TT_SCHEDULE_COPY, tt_tree_parent(vertex), vertex);
    }
    for (uint32_t i = child_count(vertex, size); i-- > 0;) {
        uint32_t child = tt_tree_child(vertex, size, i);

        add_subtree(list, TT_SCHEDULE_SEND, child, child);
    }
}

/* --- Without a tree ----------------------------------------------------------------------------------------------- */

void tt_schedule_gather_direct(struct tt_schedule_list *list)
{
    uint32_t vertex = vertex_of(list);

    for (uint32_t other = 1; vertex == 0 && other < list->schedule->size; other++) {
        tt_schedule_add(list, TT_SCHEDULE_COPY, rank_of(list, other), rank_of(list, other), 1, false);
    }
    if (vertex != 0) {
        tt_schedule_add(list, TT_SCHEDULE_SEND, list->schedule->root, list->rank, 1, false);
    }
}

void tt_schedule_scatter_direct(struct tt_schedule_list *list)
{
    uint32_t vertex = vertex_of(list);

    for (uint32_t other = 1; vertex == 0 && other < list->schedule->size; other++) {
        tt_schedule_add(list, TT_SCHEDULE_SEND, rank_of(list, other), rank_of(list, other), 1, false);
    }
    if (vertex != 0) {
        tt_schedule_add(list, TT_SCHEDULE_COPY, list->schedule->root, list->rank, 1, false);
    }
}

/* --- The double tree ---------------------------------------------------------------------------------------------- */

/*
 * Binary tree over the vertices 1 .. m in which a vertex is as high as its number has zeros at the end, so that odd
 * ones are leaves; 0 stands above the top. In the second tree the vertices have other names: in the opposite order if m
 * is even, moved on by one if it is odd, so that whoever is no leaf in the first is one in the second.
 */
static uint32_t second_name(uint32_t vertex, uint32_t m)
{
    return m % 2 == 0 ? m + 1 - vertex : vertex % m + 1;
}

static uint32_t first_name(uint32_t name, uint32_t m)
{
    return m % 2 == 0 ? m + 1 - name : (name + m - 2) % m + 1;
}

static uint32_t binary_parent(uint32_t vertex, uint32_t m)
{
    uint32_t lowest = vertex & (~vertex + 1), up = (vertex ^ lowest) | lowest << 1;

    return up <= m ? up : vertex ^ lowest;
}

/* On the left, nearer to 0, or on the right, where vertices that there are not are passed over; 0: none. */
static uint32_t binary_child(uint32_t vertex, uint32_t m, bool right)
{
    uint32_t half = (vertex & (~vertex + 1)) >> 1;

    if (!right) {
        return half == 0 ? 0 : vertex - half;
    }
    while (half > 0 && vertex + half > m) {
        half >>= 1;
    }
    return half == 0 ? 0 : vertex + half;
}

/* Down one of the two trees, with the tree's half of the vector. */
static void add_tree(struct tt_schedule_list *list, uint32_t tree)
{
    uint32_t m = list->schedule->size - 1, vertex = vertex_of(list);
    uint32_t name = tree == 0 ? vertex : second_name(vertex, m);
    uint32_t parent = binary_parent(name, m);

    if (parent != 0 && tree == 1) {
        parent = first_name(parent, m);
    }
    tt_schedule_add(list, TT_SCHEDULE_COPY, rank_of(list, parent), tree, 1, false);
    for (int right = 0; right <= 1; right++) {
        uint32_t child = binary_child(name, m, right != 0);

        if (child != 0) {
            child = tree == 0 ? child : first_name(child, m);
            tt_schedule_add(list, TT_SCHEDULE_SEND, rank_of(list, child), tree, 1, false);
        }
    }
}

void tt_schedule_broadcast_double_tree(struct tt_schedule_list *list)
{
    uint32_t m = list->schedule->size - 1, vertex = vertex_of(list);

    if (m == 0) {
        return;
    }
    if (vertex == 0) {
        uint32_t top = UINT32_C(1) << (31 - __builtin_clz(m));

        tt_schedule_add(list, TT_SCHEDULE_SEND, rank_of(list, top), 0, 1, false);
        tt_schedule_add(list, TT_SCHEDULE_SEND, rank_of(list, first_name(top, m)), 1, 1, false);
        return;
    }
    /* What it passes on comes first: others wait for it. */
    uint32_t inner = second_name(vertex, m) % 2 == 0 ? 1 : 0;

    add_tree(list, inner);
    add_tree(list, 1 - inner);
}
