/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the binomial pipeline (Behrens et al., sections 4.3 and 4.4) for every n, which the paper leaves out.
 *
 * Normal path: a hypercube of l = floor(log2 n) dimensions. At step j each vertex exchanges a block with its neighbour
 * along direction j mod l. A vertex whose bit of that direction is set gets a block that it sends at all steps up to
 * and including the next set bit's, and no other block does it send; what it gets at the steps in between it keeps.
 *
 * The n - 2^l members beyond the hypercube are twins: member 2^l + v - 1 shares vertex v with member v. At each step
 * one of the two receives what the vertex receives from outside, the other one sends what the vertex sends. They change
 * places after each step along a set bit of the vertex, so the one that has just received what is to be sent next is
 * the sender. Meanwhile the receiver hands the sender the latest block that it got from outside, which at step j is
 * always block j - l - 1: the one of the step before, or, just after a change, that of its last turn, which the other
 * one had to send on meanwhile. So each lacks one block when the hypercube is done, and one more step exchanges them.
 *
 * Failures: none; a step without a block, or one that would be for member 0, has no transfer.
 */
#include "plan/rdmc_rule.h"

struct cube {
    uint32_t dimensions;
    uint32_t vertices;
    uint32_t twins; /* vertices 1 to `twins` have two members; 0 has one */
    uint64_t steps; /* along directions; twins have one more */
};

static void lay_out(struct cube *cube, uint32_t n, uint64_t k)
{
    cube->dimensions = tt_log2_down(n);
    cube->vertices = UINT32_C(1) << cube->dimensions;
    cube->twins = n - cube->vertices;
    cube->steps = k + cube->dimensions - 1;
}

static uint32_t vertex_of(const struct cube *cube, uint32_t member)
{
    return member < cube->vertices ? member : member + 1 - cube->vertices;
}

static bool is_twin(const struct cube *cube, uint32_t vertex)
{
    return vertex != 0 && vertex <= cube->twins;
}

static uint32_t member_at(const struct cube *cube, uint32_t vertex, bool second)
{
    return second && is_twin(cube, vertex) ? cube->vertices + vertex - 1 : vertex;
}

/* Whether the second member of a vertex is the one that receives from outside: the parity of set bits passed so far. */
static bool second_receives(const struct cube *cube, uint32_t vertex, uint64_t step)
{
    uint32_t passed = vertex & ((UINT32_C(1) << step % cube->dimensions) - 1);
    uint64_t rounds = step / cube->dimensions;

    return (((rounds & 1) != 0 && __builtin_parity(vertex)) ^ __builtin_parity(passed)) != 0;
}

static uint32_t rotate_right(uint32_t vertex, uint32_t by, uint32_t bits)
{
    return (vertex >> by | vertex << (bits - by)) & ((UINT32_C(1) << bits) - 1);
}

/* The paper's formula. For the sender, whose rotated number has no bit set, the rule becomes min(j, k - 1) with r = l.
 */
static bool vertex_sends(const struct cube *cube, uint64_t k, uint32_t vertex, uint64_t step, uint64_t *block)
{
    uint32_t l = cube->dimensions;
    uint32_t rotated = rotate_right(vertex, (uint32_t)(step % l), l);
    uint64_t r = rotated == 0 ? l : (uint32_t)__builtin_ctz(rotated);

    if (step >= cube->steps || rotated == 1 || step + r < l) {
        return false;
    }
    *block = step - l + r < k ? step - l + r : k - 1;
    return true;
}

/* What the twins' receiver hands to their sender. */
static bool receiver_hands_over(const struct cube *cube, uint64_t step, uint64_t *block)
{
    if (step < cube->dimensions + 1) {
        return false;
    }
    *block = step - cube->dimensions - 1;
    return true;
}

static uint64_t pipeline_steps(uint32_t n, uint64_t k)
{
    return n == 1 ? 0 : k + tt_log2_up(n) - 1;
}

/* A member's place at a step. */
struct place {
    uint32_t vertex, neighbour, twin;
    bool has_twin;
    bool receives; /* from outside, and then does not send there; without a twin both are its own */
    bool last;     /* the twins' own step */
};

static void find_place(const struct cube *cube, uint32_t member, uint64_t step, struct place *place)
{
    bool second = member >= cube->vertices;

    place->vertex = vertex_of(cube, member);
    place->neighbour = place->vertex ^ UINT32_C(1) << step % cube->dimensions;
    place->has_twin = is_twin(cube, place->vertex);
    place->twin = member_at(cube, place->vertex, !second);
    place->receives = second_receives(cube, place->vertex, step) == second;
    place->last = step == cube->steps;
}

static bool pipeline_send(uint32_t n, uint64_t k, uint32_t member, uint64_t step, struct tt_rdmc_transfer *transfer)
{
    struct cube cube;
    struct place place;

    lay_out(&cube, n, k);
    if (step >= pipeline_steps(n, k)) {
        return false;
    }
    find_place(&cube, member, step, &place);
    if (place.has_twin && (place.receives || place.last)) {
        transfer->peer = place.twin;
        if (place.receives) {
            return receiver_hands_over(&cube, step, &transfer->block);
        }
        transfer->block = k - 1;
        return true;
    }
    if (!vertex_sends(&cube, k, place.vertex, step, &transfer->block)) {
        return false;
    }
    transfer->peer = member_at(&cube, place.neighbour, second_receives(&cube, place.neighbour, step));
    return true;
}

static bool pipeline_receive(uint32_t n, uint64_t k, uint32_t member, uint64_t step, struct tt_rdmc_transfer *transfer)
{
    struct cube cube;
    struct place place;

    lay_out(&cube, n, k);
    if (member == 0 || step >= pipeline_steps(n, k)) {
        return false;
    }
    find_place(&cube, member, step, &place);
    if (place.has_twin && (!place.receives || place.last)) {
        transfer->peer = place.twin;
        if (!place.receives) {
            return receiver_hands_over(&cube, step, &transfer->block);
        }
        transfer->block = k - 1;
        return true;
    }
    if (!vertex_sends(&cube, k, place.neighbour, step, &transfer->block)) {
        return false;
    }
    transfer->peer = member_at(&cube, place.neighbour, !second_receives(&cube, place.neighbour, step));
    return true;
}

/*
 * From step l + 1 on nobody is without a send for two steps, but member 1 of two, which has nobody to send to, and at
 * the end those whose last step has come.
 */
static uint64_t pipeline_send_from(uint32_t n, uint64_t k, uint32_t member, uint64_t step)
{
    return (n == 2 && member == 1) || step >= pipeline_steps(n, k) ? TT_RDMC_NEVER : step;
}

/* From step l + 1 on everybody receives at every step, twins in the last one too. */
static uint64_t pipeline_receive_from(uint32_t n, uint64_t k, uint32_t member, uint64_t step)
{
    return member == 0 || step >= pipeline_steps(n, k) ? TT_RDMC_NEVER : step;
}

const struct tt_rdmc_rule tt_rdmc_pipeline = {pipeline_steps, pipeline_send, pipeline_receive, pipeline_send_from,
                                              pipeline_receive_from};
