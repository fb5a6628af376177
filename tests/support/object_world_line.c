/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines before the connections of object groups. Normal path: everything goes on to the connection. Failures, all on
 * purpose: puts that start late, FAIL frames that the deaf member does not hear.
 */
#include "support/object_world_line.h"

#include <stdlib.h>
#include <string.h>

#include "engine/network.h"
#include "support/world_private.h"

struct object_world_line {
    struct tt_p2p_peer peer; /* first */
    struct tt_p2p_peer *connection;
    struct object_world *world;
    struct object_world_line *next;
    uint32_t from, to;
    struct { /* puts that start late: when is 0 if there is none */
        uint64_t at_ns, remote_address, length_bytes, cookie;
        struct tt_p2p_immediate immediate;
        const void *local;
        size_t key_bytes;
        uint8_t key[TT_P2P_MAX_KEY_BYTES];
    } late[TT_OBJECT_MAX_CREDIT];
};

static tutti_status line_send(struct tt_p2p_peer *peer, const struct tt_p2p_frame *bytes, bool more)
{
    struct object_world_line *line = (struct object_world_line *)peer;
    struct tt_object_frame frame;

    if (line->world->options.plant == PLANT_DEAF && tt_object_frame_decode(bytes->head, bytes->head_bytes, &frame) &&
        frame.type == TT_OBJECT_FRAME_FAIL) {
        return TUTTI_OK;
    }
    return line->connection->ops->send(line->connection, bytes, more);
}

static tutti_status line_put(struct tt_p2p_peer *peer, const void *key, size_t key_bytes, uint64_t remote_address,
                             const void *local, uint64_t length_bytes, const struct tt_p2p_immediate *immediate,
                             uint64_t cookie)
{
    struct object_world_line *line = (struct object_world_line *)peer;
    struct object_world_delay *delay = &line->world->delay;
    uint32_t place = 0;

    if (delay->skip > 0 || delay->times == 0) {
        delay->skip -= delay->skip > 0;
        return line->connection->ops->put(line->connection, key, key_bytes, remote_address, local, length_bytes,
                                          immediate, cookie);
    }
    delay->times--;
    while (line->late[place].at_ns > 0) {
        place++;
    }
    line->late[place].at_ns = tt_world_now(line->world->world) + delay->by_ns;
    line->late[place].remote_address = remote_address;
    line->late[place].length_bytes = length_bytes;
    line->late[place].immediate = *immediate;
    line->late[place].cookie = cookie;
    line->late[place].local = local;
    line->late[place].key_bytes = key_bytes;
    memcpy(line->late[place].key, key, key_bytes);
    tt_world_wake_at(line->world->world, line->from, line->late[place].at_ns);
    return TUTTI_OK;
}

static void line_disconnect(struct tt_p2p_peer *peer)
{
    struct tt_p2p_peer *connection = ((struct object_world_line *)peer)->connection;

    connection->ops->disconnect(connection);
}

void object_world_lay_line(struct object_world *world, uint32_t from, uint32_t to)
{
    static const struct tt_p2p_ops ops = {.disconnect = line_disconnect, .send = line_send, .put = line_put};
    struct tt_objects *objects = world->members[from].objects;

    for (uint32_t i = 0; i < objects->machine.config.peer_count; i++) {
        struct object_world_line *line;

        if (objects->machine.config.peers[i].member != to) {
            continue;
        }
        line = tt_world_allocate(1, sizeof *line);
        *line = (struct object_world_line){.peer.ops = &ops,
                                           .connection = objects->peers[i]->connection,
                                           .world = world,
                                           .next = world->lines,
                                           .from = from,
                                           .to = to};
        world->lines = line;
        objects->peers[i]->connection = &line->peer;
    }
}

static void start_late(struct object_world_line *line)
{
    for (uint32_t i = 0; i < TT_OBJECT_MAX_CREDIT; i++) {
        uint64_t at_ns = line->late[i].at_ns;

        if (at_ns > tt_world_now(line->world->world)) {
            tt_world_wake_at(line->world->world, line->from, at_ns);
        } else if (at_ns > 0) {
            line->late[i].at_ns = 0;
            if (line->connection->ops->put(line->connection, line->late[i].key, line->late[i].key_bytes,
                                           line->late[i].remote_address, line->late[i].local,
                                           line->late[i].length_bytes, &line->late[i].immediate,
                                           line->late[i].cookie) != TUTTI_OK) {
                tt_world_problem(line->world->world, "a late put cannot start");
            }
        }
    }
}

void object_world_start_late_puts(struct object_world *world, uint32_t number)
{
    for (struct object_world_line *line = world->lines; line != NULL; line = line->next) {
        if (line->from == number) {
            start_late(line);
        }
    }
}

void object_world_delay_puts(struct object_world *world, struct object_world_delay delay)
{
    world->delay = delay;
    object_world_lay_line(world, delay.from, delay.to);
}

void object_world_free_lines(struct object_world *world)
{
    while (world->lines != NULL) {
        struct object_world_line *line = world->lines;

        world->lines = line->next;
        free(line);
    }
}
