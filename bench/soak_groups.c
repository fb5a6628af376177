/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups of `soak` that come and go.
 *
 * Normal path: the first group is that of the environment and stays. Later families are either the same ranks once
 * more, again through the environment, or all ranks dealt out in a random order to one to three groups, created at the
 * same time through tutti_group_create() with an allgather of our own, which is a collective of the first group. Since
 * groups may need different numbers of rounds, whoever is ready goes on taking part until all are.
 *
 * Failures: of the library, handed on.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "soak.h"

struct exchange {
    struct soak *soak;
    const uint32_t *members; /* ranks of the first group */
    uint32_t count;
};

/* A contribution on its way through the first group. */
struct contribution {
    uint64_t active;
    uint8_t bytes[SOAK_EXCHANGE_BYTES];
};

/* Returns whether any rank is still creating its group. */
static tutti_status exchange_once(struct soak *soak, const void *send, size_t length_bytes, bool *active)
{
    struct contribution *own = (struct contribution *)(void *)soak->exchange_send;
    const struct contribution *all = (const struct contribution *)(const void *)soak->exchange_receive;
    tutti_status status;

    memset(own, 0, sizeof(*own));
    own->active = send != NULL;
    if (send != NULL) {
        memcpy(own->bytes, send, length_bytes);
    }
    status = soak_gather(soak, own, soak->exchange_receive, sizeof(*own));
    *active = false;
    for (uint32_t rank = 0; rank < soak->size && status == TUTTI_OK; rank++) {
        *active |= all[rank].active != 0;
    }
    return status;
}

static int exchange(void *argument, const void *send, void *receive, size_t length_bytes)
{
    const struct exchange *exchange = argument;
    const struct contribution *all = (const struct contribution *)(const void *)exchange->soak->exchange_receive;
    bool active;

    if (length_bytes > SOAK_EXCHANGE_BYTES || exchange_once(exchange->soak, send, length_bytes, &active) != TUTTI_OK) {
        return 1;
    }
    for (uint32_t i = 0; i < exchange->count; i++) {
        memcpy((uint8_t *)receive + i * length_bytes, all[exchange->members[i]].bytes, length_bytes);
    }
    return 0;
}

/* One of `parts` groups, which the ranks in this order are dealt out to. */
static tutti_status create_part(struct soak *soak, const uint32_t *order, uint32_t parts, struct soak_family *family)
{
    struct exchange argument = {.soak = soak};
    tutti_group_options options = {.struct_size = sizeof(options), .allgather = exchange, .argument = &argument};
    tutti_status status;
    bool active = true;

    for (uint32_t part = 0; part < parts; part++) {
        uint32_t begin = part * soak->size / parts, end = (part + 1) * soak->size / parts;

        for (uint32_t i = begin; i < end; i++) {
            if (order[i] == soak->rank) {
                argument.members = order + begin;
                options.size = argument.count = end - begin;
                options.rank = i - begin;
            }
        }
    }
    status = tutti_group_create(soak->context, &options, &family->group);
    while (status == TUTTI_OK && active) {
        status = exchange_once(soak, NULL, 0, &active);
    }
    return status;
}

static tutti_status describe(struct soak *soak, struct soak_family *family)
{
    tutti_group_info info = {.struct_size = sizeof(info)};
    tutti_status status = tutti_group_query(family->group, &info);

    if (status == TUTTI_OK) {
        family->rank = tutti_group_rank(family->group);
        family->size = tutti_group_size(family->group);
        family->multicast = info.multicast;
        soak->workers = info.workers;
        soak->groups_created++;
        soak->groups_without_multicast += !info.multicast && family->size > 1;
    }
    return status;
}

tutti_status soak_groups_begin(struct soak *soak)
{
    struct soak_family *first = &soak->families[0];
    tutti_status status = tutti_group_create_from_environment(soak->context, &first->group);

    if (status == TUTTI_OK) {
        status = describe(soak, first);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    soak->rank = first->rank;
    soak->size = first->size;
    soak->exchange_send = malloc(sizeof(struct contribution));
    soak->exchange_receive = malloc(soak->size * sizeof(struct contribution));
    soak->order = calloc(soak->size + 1, sizeof(*soak->order));
    if (soak->exchange_send == NULL || soak->exchange_receive == NULL || soak->order == NULL) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "no memory for the exchange of %u ranks", soak->size);
    }
    return TUTTI_OK;
}

/*
 * Every two ranks meet in a group of their own, as in a tournament: connections outlive groups, so all that there will
 * ever be are there afterwards.
 */
tutti_status soak_groups_meet(struct soak *soak)
{
    uint32_t even = soak->size + soak->size % 2, rounds = even - 1;
    tutti_status status = TUTTI_OK;

    for (uint32_t round = 0; round < rounds && status == TUTTI_OK && soak->size > 1; round++) {
        uint32_t used = 0;

        soak->order[used++] = round;
        if (even == soak->size) {
            soak->order[used++] = even - 1;
        }
        for (uint32_t i = 1; i < even / 2; i++) {
            soak->order[used++] = (round + i) % rounds;
            soak->order[used++] = (round + rounds - i) % rounds;
        }
        status = create_part(soak, soak->order, even / 2, &soak->families[1]);
        if (status == TUTTI_OK) {
            status = soak_groups_destroy(soak, 1);
        }
    }
    return status;
}

tutti_status soak_groups_create(struct soak *soak, uint32_t index)
{
    struct soak_family *family = &soak->families[index];
    struct soak_split split;
    tutti_status status;

    soak_draw_split(&soak->common, soak->size, &split);
    if (split.environment) {
        status = tutti_group_create_from_environment(soak->context, &family->group);
    } else {
        soak_draw_order(&soak->common, soak->size, soak->order);
        status = create_part(soak, soak->order, split.parts, family);
    }
    return status == TUTTI_OK ? describe(soak, family) : status;
}

tutti_status soak_groups_destroy(struct soak *soak, uint32_t index)
{
    struct soak_family *family = &soak->families[index];
    tutti_counters counters = {.struct_size = sizeof(counters)};
    tutti_status status = tutti_group_counters(family->group, &counters);

    if (status == TUTTI_OK) {
#define ADD_COUNTER(name, help) soak->counters.name += counters.name;
        TUTTI_COUNTERS_TABLE(ADD_COUNTER)
#undef ADD_COUNTER
        status = tutti_group_destroy(family->group);
    }
    if (status == TUTTI_OK) {
        family->group = NULL;
    }
    return status;
}
