/* SPDX-License-Identifier: BSD-3-Clause */
/* Member 0 sends, the others take what comes into memory of that size and compare it with what was sent. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lane.h"
#include "reference.h"

static const struct collective bytes_of = {.kind = BROADCAST, .type = TUTTI_UINT8};

struct exchange {
    struct lane *lane;
    const struct object_turn *turn;
    uint64_t salt;
    bool sends;
    uint32_t completed;
    uint8_t *memory[MOST_OBJECTS];
};

static tutti_status give_memory(void *argument, uint64_t sequence, uint64_t size_bytes, void **memory)
{
    struct exchange *exchange = argument;

    LANE_CHECK(exchange->lane, sequence < exchange->turn->count && size_bytes == exchange->turn->sizes[sequence],
               "object %" PRIu64 " of %" PRIu64 " bytes", sequence, size_bytes);
    *memory = exchange->memory[sequence] = malloc(size_bytes + 1);
    return *memory != NULL ? TUTTI_OK : TUTTI_ERR_NO_MEMORY;
}

static void complete(void *argument, uint64_t sequence, void *memory, uint64_t size_bytes)
{
    struct exchange *exchange = argument;
    uint64_t equal = reference_compare_one(memory, &bytes_of, 0, sequence << 32, size_bytes, exchange->salt);

    LANE_CHECK(exchange->lane, sequence == exchange->completed, "object %" PRIu64 " after %u", sequence,
               exchange->completed);
    LANE_CHECK(exchange->lane, equal == size_bytes, "byte %" PRIu64 " of object %" PRIu64 " of %" PRIu64 " is wrong",
               equal, sequence, size_bytes);
    exchange->completed++;
    exchange->lane->objects++;
}

void objects_run(struct lane *lane, uint32_t group, const struct object_turn *turn, uint64_t salt)
{
    struct exchange exchange = {.lane = lane, .turn = turn, .salt = salt, .sends = lane->own[group] == 0};
    tutti_object_options options = {.struct_size = sizeof options,
                                    .algorithm = turn->algorithm,
                                    .block_bytes = turn->block_bytes,
                                    .argument = &exchange,
                                    .incoming = give_memory,
                                    .completion = complete};
    tutti_object_group *objects;

    LANE_OK(lane, tutti_object_group_create(lane->groups[group], &options, &objects));
    for (uint32_t i = 0; i < turn->count && exchange.sends; i++) {
        exchange.memory[i] = malloc(turn->sizes[i] + 1);
        LANE_CHECK(lane, exchange.memory[i] != NULL, "no memory");
        reference_fill(exchange.memory[i], &bytes_of, 0, (uint64_t)i << 32, turn->sizes[i], salt);
        LANE_OK(lane, tutti_object_send(objects, exchange.memory[i], turn->sizes[i]));
    }
    LANE_OK(lane, tutti_object_group_close(objects));
    LANE_CHECK(lane, exchange.completed == turn->count, "%u of %u objects", exchange.completed, turn->count);
    LANE_OK(lane, tutti_object_group_destroy(objects));
    for (uint32_t i = 0; i < turn->count; i++) {
        free(exchange.memory[i]);
    }
}
