/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A live instance of the tcp provider whose other side is the input. It greets as it should and is welcomed, for frames
 * and, if it likes, for bulk; from then on it sends any bytes on both sockets, and messages and bulk that are nearly
 * right, while the instance sends, gets, puts, registers and releases memory and makes progress in between. Whatever
 * comes, every get and put ends once, a peer is down once, nothing outside of registrations and of the memory of gets
 * under way is touched (each has a block of its own size), and the instance ends without waiting for who is gone.
 *
 * The sockets are pairs of the system's local ones, which the instance accepts as if they had come over its listener:
 * they need no ports, and are an order of magnitude faster.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "fabric/tcp/instance.h"
#include "fabric/tcp/tcp.h"
#include "script.h"
#include "wire/cursor.h"

enum {
    COOKIE = 7,
    MEMORIES = 3,
    OPERATIONS = 100,
    EVENTS = 16,
    STEPS = 400,
    CHUNK_BYTES = 4096,
    SOCKETS = 24,
    IDS = 8
};

struct operation {
    uint8_t *local;
    bool under_way;
};

static struct world {
    struct tt_p2p *p2p;
    struct tt_p2p_peer *peer;
    uint8_t own[TT_TCP_ADDRESS_BYTES], other[TT_TCP_ADDRESS_BYTES];
    int frames, bulk; /* the input's ends; -1: closed */
    int strangers[SOCKETS];
    uint32_t stranger_count;
    struct tt_p2p_memory *memories[MEMORIES];
    uint8_t *blocks[MEMORIES];
    struct tt_tcp_place places[MEMORIES];
    struct operation operations[OPERATIONS];
    uint32_t operation_count, under_way;
    uint64_t tend_ns;
    bool down;
} world;

/* --- Sockets ---------------------------------------------------------------------------------------------------- */

static int waiting = -1; /* to be accepted */

/* Stands before the system's. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the system's header has reserved names */
int accept4(int fd, struct sockaddr *restrict address, socklen_t *restrict length_bytes, int flags)
{
    (void)fd, (void)address, (void)length_bytes, (void)flags;
    int accepted = waiting;
    waiting = -1;
    errno = EAGAIN;
    return accepted;
}

/* A socket that the instance has accepted: the other end of it. */
static int dial(void)
{
    const int room_bytes = 4096; /* so that it is full now and then */
    int ends[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    FUZZ_CHECK(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room_bytes, sizeof(room_bytes)) == 0);
    waiting = ends[1];
    tt_tcp_accept(tt_tcp_of(world.p2p));
    FUZZ_CHECK(waiting == -1);
    return ends[0];
}

static void hang_up(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/* What does not fit is lost: the input may be as rude. */
static void say(int fd, const void *bytes, size_t length_bytes)
{
    if (fd >= 0 && length_bytes > 0) {
        (void)!send(fd, bytes, length_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static void drain(int fd)
{
    static uint8_t bytes[65536];
    while (fd >= 0 && recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
    }
}

/* --- The instance ----------------------------------------------------------------------------------------------- */

static void see(const struct tt_p2p_event *event)
{
    struct operation *operation;
    switch (event->type) {
    case TT_P2P_FRAME:
        FUZZ_CHECK(event->length_bytes >= 1 && event->length_bytes <= TT_P2P_MAX_FRAME_BYTES);
        FUZZ_CHECK(event->peer_cookie == 0 || (event->peer_cookie == COOKIE && world.peer != NULL && !world.down));
        for (uint32_t i = 0; i < event->length_bytes; i++) { /* all of it may be read */
            (void)((const volatile uint8_t *)event->data)[i];
        }
        break;
    case TT_P2P_DONE:
        FUZZ_CHECK(event->cookie < world.operation_count);
        operation = &world.operations[event->cookie];
        FUZZ_CHECK(operation->under_way);
        operation->under_way = false;
        world.under_way--;
        free(operation->local); /* it is not touched any more */
        operation->local = NULL;
        break;
    case TT_P2P_IMMEDIATE:
        break;
    case TT_P2P_PEER_DOWN:
        FUZZ_CHECK(event->peer_cookie == COOKIE && world.peer != NULL && !world.down && event->length_bytes > 0);
        world.down = true;
        break;
    }
}

static uint32_t turn(uint32_t max)
{
    struct tt_p2p_event events[EVENTS];
    uint32_t count = world.p2p->ops->progress(world.p2p, events, max);
    FUZZ_CHECK(count <= max);
    for (uint32_t i = 0; i < count; i++) {
        see(&events[i]);
    }
    tt_session_check((const struct tt_session *)world.p2p);
    return count;
}

static void expose(uint32_t which, size_t length_bytes)
{
    uint8_t key[TT_TCP_KEY_BYTES];
    size_t key_bytes = sizeof(key);
    if (world.memories[which] != NULL) { /* may be read or written just now */
        world.p2p->ops->memory_release(world.memories[which]);
        free(world.blocks[which]);
    }
    world.blocks[which] = calloc(1, length_bytes > 0 ? length_bytes : 1);
    FUZZ_CHECK(world.blocks[which] != NULL);
    FUZZ_CHECK(world.p2p->ops->memory_register(world.p2p, world.blocks[which], length_bytes, &world.memories[which]) ==
               TUTTI_OK);
    FUZZ_CHECK(world.p2p->ops->memory_pack(world.memories[which], key, &key_bytes) == TUTTI_OK);
    FUZZ_CHECK(tt_tcp_key_decode(key, key_bytes, &world.places[which]));
    world.places[which].address = (uintptr_t)world.blocks[which];
    world.places[which].length_bytes = length_bytes;
}

static void operate(struct script *script)
{
    static const uint32_t lengths_bytes[] = {1, 8, 100, 5000, 70000, 1100000, 0, 48};
    uint32_t what = script_below(script, 3), length_bytes = lengths_bytes[script_below(script, 8)];
    uint8_t key[TT_TCP_KEY_BYTES];
    tutti_status status;
    if (world.peer == NULL) {
        return;
    }
    if (what == 0) {
        static const uint8_t frame[TT_P2P_MAX_FRAME_BYTES];
        (void)tt_p2p_send(world.peer, frame, length_bytes, false);
        return;
    }
    if (world.operation_count == OPERATIONS) {
        return;
    }
    struct operation *operation = &world.operations[world.operation_count];
    operation->local = calloc(1, length_bytes > 0 ? length_bytes : 1);
    FUZZ_CHECK(operation->local != NULL);
    tt_tcp_key_encode(0, 1, key);
    if (what == 1) {
        status = world.peer->ops->get(world.peer, key, sizeof(key), 4096, operation->local, length_bytes,
                                      world.operation_count);
    } else {
        status = world.peer->ops->put(world.peer, key, sizeof(key), 4096, operation->local, length_bytes,
                                      &(struct tt_p2p_immediate){.value = 9}, world.operation_count);
    }
    if (status != TUTTI_OK) {
        free(operation->local);
        operation->local = NULL;
        return;
    }
    operation->under_way = true;
    world.operation_count++;
    world.under_way++;
}

/* --- What is nearly right --------------------------------------------------------------------------------------- */

/* A place in a registration, or beside it. */
static struct tt_tcp_place place_of(struct script *script)
{
    struct tt_tcp_place place = world.places[script_below(script, MEMORIES)];
    switch (script_below(script, 8)) {
    case 0:
        place.address += script_take(script, 2) - 100;
        break;
    case 1:
        place.length_bytes += script_take(script, 1);
        break;
    case 2:
        place.length_bytes = script_take(script, 8);
        break;
    case 3:
        place.token ^= UINT64_C(1) << script_below(script, 64);
        break;
    case 4:
        place.index += (uint32_t)script_take(script, 4);
        break;
    case 5:
        place.length_bytes = script_take(script, 2);
        break;
    default:
        break;
    }
    return place;
}

static void say_message(struct script *script)
{
    uint8_t bytes[TT_TCP_MESSAGE_MAX_BYTES] = {0};
    enum tt_tcp_kind kind = (enum tt_tcp_kind)script_below(script, TT_TCP_KIND_LIMIT + 1);
    uint32_t payload_bytes = 0;
    if (kind == TT_TCP_READ) {
        struct tt_tcp_place place = place_of(script);
        payload_bytes = TT_TCP_READ_BYTES;
        tt_tcp_read_encode(script_below(script, IDS), &place, bytes + TT_TCP_HEADER_BYTES);
    } else if (kind == TT_TCP_WRITTEN || kind == TT_TCP_REFUSED) {
        payload_bytes = TT_TCP_ID_BYTES;
        tt_bytes_put(bytes + TT_TCP_HEADER_BYTES, script_below(script, IDS), TT_TCP_ID_BYTES);
    } else if (kind == TT_TCP_FRAME) {
        payload_bytes = script_below(script, TT_P2P_MAX_FRAME_BYTES + 2);
        payload_bytes = payload_bytes <= TT_P2P_MAX_FRAME_BYTES ? payload_bytes : TT_P2P_MAX_FRAME_BYTES;
    }
    tt_tcp_header_encode(kind, payload_bytes, bytes);
    say(world.frames, bytes, tt_tcp_message_bytes(payload_bytes));
}

static void say_bulk(struct script *script)
{
    static const enum tt_tcp_kind kinds[] = {TT_TCP_DATA, TT_TCP_WRITE, TT_TCP_PROBE, TT_TCP_READ};
    static const uint8_t zeros[CHUNK_BYTES];
    uint8_t bytes[TT_TCP_BULK_HEADER_BYTES];
    struct tt_tcp_bulk_header header = {.kind = kinds[script_below(script, 4)]};
    header.id = script_below(script, IDS);
    if (header.kind == TT_TCP_WRITE) {
        header.place = place_of(script);
        header.immediate.value = script_take(script, 1);
        header.immediate.data_bytes = script_below(script, TT_P2P_MAX_IMMEDIATE_BYTES + 1);
        memset(header.immediate.data, (int)header.immediate.value, header.immediate.data_bytes);
    } else if (header.kind == TT_TCP_DATA) {
        header.place.length_bytes = script_take(script, 2);
    }
    tt_tcp_bulk_encode(&header, bytes);
    say(world.bulk, bytes, sizeof(bytes));
    uint64_t follow_bytes = header.place.length_bytes;
    if (script_below(script, 3) == 0) {
        follow_bytes = script_take(script, 2);
    }
    for (uint32_t i = 0; i < 32 && follow_bytes > 0; i++) {
        uint64_t now_bytes = follow_bytes < CHUNK_BYTES ? follow_bytes : CHUNK_BYTES;
        say(world.bulk, zeros, now_bytes);
        follow_bytes -= now_bytes;
    }
}

static void say_any(int fd, struct script *script)
{
    size_t length_bytes = script_below(script, 64), left_bytes = (size_t)(script->end - script->at);
    length_bytes = length_bytes < left_bytes ? length_bytes : left_bytes;
    say(fd, script->at, length_bytes);
    script->at += length_bytes;
}

static void greet(int fd, enum tt_tcp_purpose purpose, uint32_t serial, uint8_t other)
{
    uint8_t bytes[TT_TCP_GREETING_BYTES];
    struct tt_tcp_greeting greeting = {.purpose = purpose, .version = TT_TCP_VERSION, .serial = serial};
    memcpy(greeting.to, world.own, sizeof(greeting.to));
    memcpy(greeting.from, world.other, sizeof(greeting.from));
    greeting.from[1] ^= other;
    tt_tcp_greeting_encode(&greeting, bytes);
    say(fd, bytes, sizeof(bytes));
}

static void bring_stranger(struct script *script)
{
    if (world.stranger_count == SOCKETS) {
        return;
    }
    int fd = dial();
    world.strangers[world.stranger_count++] = fd;
    if (script_below(script, 2) == 0) {
        uint32_t purpose = script_below(script, 4), serial = (uint32_t)script_take(script, 1);
        greet(fd, (enum tt_tcp_purpose)purpose, serial, (uint8_t)script_take(script, 1));
    }
    say_any(fd, script);
}

/* --- A run ------------------------------------------------------------------------------------------------------ */

static void step(struct script *script)
{
    uint32_t which;
    size_t length_bytes;
    switch (script_below(script, 16)) {
    case 0:
        say_any(world.frames, script);
        break;
    case 1:
        say_any(world.bulk, script);
        break;
    case 2:
    case 3:
        say_message(script);
        break;
    case 4:
    case 5:
        say_bulk(script);
        break;
    case 6:
        operate(script);
        break;
    case 7:
        which = script_below(script, MEMORIES);
        length_bytes = script_take(script, 2);
        expose(which, length_bytes * (1 + 30 * script_below(script, 2)));
        break;
    case 8:
        drain(world.frames);
        break;
    case 9:
        drain(world.bulk);
        break;
    case 10:
        bring_stranger(script);
        break;
    case 11:
        world.tend_ns += script_take(script, 1) * TT_NS_PER_MS;
        (void)world.p2p->ops->tend(world.p2p, world.tend_ns);
        (void)world.p2p->ops->arm(world.p2p);
        break;
    case 12:
        if (script_below(script, 8) == 0) {
            hang_up(script_below(script, 2) == 0 ? &world.frames : &world.bulk);
        }
        break;
    case 13:
        if (script_below(script, 8) == 0 && world.peer != NULL) {
            world.peer->ops->disconnect(world.peer);
            world.peer = NULL;
        }
        break;
    default:
        (void)turn(1 + script_below(script, EVENTS));
    }
    tt_session_check((const struct tt_session *)world.p2p);
}

static void begin(struct script *script)
{
    struct tt_tcp_address address = {.family = 4, .instance = 5, .port = 9, .ip = {127, 0, 0, 1}};
    size_t address_bytes = sizeof(world.own);
    uint32_t how = script_below(script, 8);
    memset(&world, 0, sizeof(world));
    world.frames = world.bulk = -1;
    FUZZ_CHECK(tt_tcp_create(NULL, &world.p2p) == TUTTI_OK);
    FUZZ_CHECK(world.p2p->ops->address(world.p2p, world.own, &address_bytes) == TUTTI_OK);
    tt_tcp_address_encode(&address, world.other);
    tt_tcp_of(world.p2p)->session.now_ns = tt_clock_now_ns();
    for (uint32_t i = 0; i < MEMORIES; i++) {
        expose(i, i == 0 ? 20000 : 1000 * i);
    }
    world.frames = dial();
    greet(world.frames, TT_TCP_FOR_FRAMES, 0, 0);
    for (int i = 0; i < 3; i++) {
        (void)turn(EVENTS);
    }
    if ((how & 1) == 0) { /* else it has no owner */
        FUZZ_CHECK(world.p2p->ops->connect(world.p2p, world.other, sizeof(world.other), COOKIE, &world.peer) ==
                   TUTTI_OK);
    }
    if ((how & 6) != 0) {
        world.bulk = dial();
        greet(world.bulk, TT_TCP_FOR_BULK, 0, 0);
        (void)turn(EVENTS);
    }
    drain(world.frames);
    drain(world.bulk);
}

static void end(void)
{
    hang_up(&world.frames);
    hang_up(&world.bulk);
    for (uint32_t i = 0; i < world.stranger_count; i++) {
        hang_up(&world.strangers[i]);
    }
    for (int i = 0; i < 1000 && world.under_way > 0; i++) {
        if (i == 2 && world.peer != NULL) { /* it ends by itself where the socket for frames was what was closed */
            world.peer->ops->disconnect(world.peer);
            world.peer = NULL;
        }
        (void)turn(EVENTS);
    }
    FUZZ_CHECK(world.under_way == 0);
    for (uint32_t i = 0; i < MEMORIES; i++) {
        world.p2p->ops->memory_release(world.memories[i]);
        free(world.blocks[i]);
    }
    uint64_t start_ns = tt_clock_now_ns();
    world.p2p->ops->destroy(world.p2p);
    FUZZ_CHECK(tt_clock_now_ns() - start_ns < TT_NS_PER_S); /* nobody is waited for: they are gone */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script = {.at = data, .end = data + size};

    begin(&script);
    for (int i = 0; i < STEPS && !script_ended(&script); i++) {
        step(&script);
    }
    end();
    return 0;
}
