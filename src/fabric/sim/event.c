/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator's events: what comes next, and the record of what was.
 *
 * A binary heap ordered by time and, within one time, by the number of the event: so the order is total, and the same
 * in every replay. Each event that fires is folded into a digest and, if there is a log, written to it as a line.
 *
 * Running out of memory ends the process: a test vehicle has nothing better to do.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fabric/sim/internal.h"

void *tt_sim_allocate(size_t bytes)
{
    void *memory = calloc(1, bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        fprintf(stderr, "tutti sim: no memory for %zu bytes\n", bytes);
        abort();
    }
    return memory;
}

void *tt_sim_reallocate(void *memory, size_t count, size_t bytes)
{
    void *moved = reallocarray(memory, count > 0 ? count : 1, bytes);
    if (moved == NULL) {
        fprintf(stderr, "tutti sim: no memory for %zu times %zu bytes\n", count, bytes);
        abort();
    }
    return moved;
}

static bool is_before(const struct tt_sim_event *a, const struct tt_sim_event *b)
{
    return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->sequence < b->sequence);
}

void tt_sim_event_push(struct tt_sim *sim, uint64_t time_ns, enum tt_sim_event_type type, uint32_t node, void *object)
{
    struct tt_sim_heap *heap = &sim->heap;
    if (heap->count == heap->capacity) {
        heap->capacity = heap->capacity > 0 ? 2 * heap->capacity : 256;
        heap->events = tt_sim_reallocate(heap->events, heap->capacity, sizeof(*heap->events));
    }
    const struct tt_sim_event event = {.time_ns = time_ns > sim->now_ns ? time_ns : sim->now_ns,
                                       .sequence = heap->next_sequence++,
                                       .object = object,
                                       .node = node,
                                       .type = type};
    size_t hole = heap->count++;
    while (hole > 0) {
        const size_t parent = (hole - 1) / 2;
        if (!is_before(&event, &heap->events[parent])) {
            break;
        }
        heap->events[hole] = heap->events[parent];
        hole = parent;
    }
    heap->events[hole] = event;
}

bool tt_sim_event_pop(struct tt_sim *sim, uint64_t until_ns, struct tt_sim_event *event)
{
    struct tt_sim_heap *heap = &sim->heap;
    if (heap->count == 0 || heap->events[0].time_ns > until_ns) {
        return false;
    }
    *event = heap->events[0];
    const struct tt_sim_event last = heap->events[--heap->count];
    size_t hole = 0;
    for (;;) {
        size_t child = 2 * hole + 1;
        if (child >= heap->count) {
            break;
        }
        if (child + 1 < heap->count && is_before(&heap->events[child + 1], &heap->events[child])) {
            child++;
        }
        if (!is_before(&heap->events[child], &last)) {
            break;
        }
        heap->events[hole] = heap->events[child];
        hole = child;
    }
    heap->events[hole] = last;
    return true;
}

static uint64_t fold(uint64_t digest, uint64_t value)
{
    digest = (digest ^ value) * UINT64_C(0x9FB21C651E98DF25);
    return digest ^ (digest >> 32);
}

/* Frames carry the protocol's decisions, so their bytes count; chunks are named by their immediate. */
static uint64_t packet_digest(const struct tt_sim_packet *packet)
{
    uint64_t digest = fold(packet->kind, ((uint64_t)packet->source << 32) | packet->destination);
    digest = fold(digest, ((uint64_t)packet->imm << 32) | packet->length_bytes);
    digest = fold(digest, packet->offset);
    if (packet->kind == TT_SIM_FRAME) {
        for (uint32_t i = 0; i < packet->length_bytes; i++) {
            digest = (digest ^ packet->data[i]) * UINT64_C(0x100000001B3);
        }
    }
    return digest;
}

static const char *event_name(enum tt_sim_event_type type)
{
    static const char *const names[] = {"uplink", "switch", "deliver", "down", "crash", "wake"};
    return names[type];
}

static void write_line(struct tt_sim *sim, const struct tt_sim_event *event, const struct tt_sim_packet *packet,
                       uint64_t content)
{
    fprintf(sim->options.log, "%llu #%llu %s node=%u", (unsigned long long)event->time_ns,
            (unsigned long long)event->sequence, event_name(event->type), event->node);
    if (packet != NULL) {
        fprintf(sim->options.log, " %s %u->%u bytes=%u imm=%08x offset=%llu content=%016llx",
                tt_sim_packet_name(packet), packet->source, packet->destination, packet->length_bytes, packet->imm,
                (unsigned long long)packet->offset, (unsigned long long)content);
    } else if (event->type == TT_SIM_EVENT_DOWN) {
        const struct tt_sim_connection *connection = event->object;
        fprintf(sim->options.log, " other=%u connection=%u", connection->pair->destination, connection->ordinal);
    }
    fputc('\n', sim->options.log);
}

void tt_sim_event_record(struct tt_sim *sim, const struct tt_sim_event *event)
{
    const struct tt_sim_packet *packet = NULL;
    if (event->type == TT_SIM_EVENT_SWITCH || event->type == TT_SIM_EVENT_DELIVER) {
        packet = event->object;
    } else if (event->type == TT_SIM_EVENT_UPLINK) {
        packet = sim->nodes[event->node].uplink.packet;
    }
    const uint64_t content = packet != NULL ? packet_digest(packet) : 0;
    sim->digest = fold(sim->digest, event->time_ns);
    sim->digest = fold(sim->digest, ((uint64_t)event->type << 32) | event->node);
    sim->digest = fold(sim->digest, content);
    if (sim->options.log != NULL) {
        write_line(sim, event, packet, content);
    }
}

void tt_sim_note(struct tt_sim *sim, const char *format, ...)
{
    if (sim->options.log == NULL) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    fputs("  ", sim->options.log);
    vfprintf(sim->options.log, format, arguments);
    fputc('\n', sim->options.log);
    va_end(arguments);
}

void tt_sim_violation(struct tt_sim *sim, const char *format, ...)
{
    char text[TT_SIM_VIOLATION_BYTES];
    va_list arguments;
    va_start(arguments, format);
    const int length = snprintf(text, sizeof(text), "%llu ns: ", (unsigned long long)sim->now_ns);
    vsnprintf(text + length, sizeof(text) - (size_t)length, format, arguments);
    va_end(arguments);
    if (sim->violation_count < TT_SIM_VIOLATIONS_KEPT) {
        memcpy(sim->violations[sim->violation_count], text, sizeof(text));
    }
    sim->violation_count++;
    TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "sim: violation at %s", text);
    tt_sim_note(sim, "violation at %s", text);
}
