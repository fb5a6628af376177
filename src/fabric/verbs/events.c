/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a device tells of itself, unasked: asynchronous events.
 *
 * Normal path: who polls a queue and finds nothing looks now and then whether there are any, without waiting; most are
 * of no interest. Ports that go down, and subnet managers that come back or move, take multicast memberships away: that
 * is said, as nothing else would explain why no chunk comes any more. The repair of chunks, and the next group's probe,
 * do the rest; memberships are not renewed, as that would keep who polls waiting for the subnet's manager.
 * Failures: a descriptor that cannot be read without waiting is left alone.
 */
#include <fcntl.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/verbs/device.h"

#define PAUSE_NS (100 * TT_NS_PER_MS)

enum { MOST_EVENTS = 16 }; /* of one look */

void tt_verbs_events_start(struct tt_verbs_device *device)
{
    struct ibv_context *context = tt_verbs_lane(device, 0)->context;
    int flags = fcntl(context->async_fd, F_GETFL);

    if (flags >= 0 && fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) == 0) {
        device->events_of = context;
    }
}

static bool takes_memberships(enum ibv_event_type type)
{
    return type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_CLIENT_REREGISTER || type == IBV_EVENT_SM_CHANGE ||
           type == IBV_EVENT_LID_CHANGE;
}

static void tell(const struct tt_verbs_device *device, const struct ibv_async_event *event)
{
    if (event->event_type == IBV_EVENT_DEVICE_FATAL) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "RDMA device %s: %s: nothing moves over it any more", device->name,
               ibv_event_type_str(event->event_type));
    } else if (takes_memberships(event->event_type) && event->element.port_num == device->port) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN,
               "RDMA device %s, port %u: %s: its memberships in multicast groups may be gone, and chunks are repaired "
               "until a new group joins again",
               device->name, device->port, ibv_event_type_str(event->event_type));
    } else {
        TT_LOG(TT_PART_FABRIC, TT_LOG_DEBUG, "RDMA device %s: %s", device->name, ibv_event_type_str(event->event_type));
    }
}

void tt_verbs_events_look(struct tt_verbs_device *device)
{
    uint64_t now_ns = tt_clock_now_ns();
    uint64_t due_ns = atomic_load_explicit(&device->events_ns, memory_order_relaxed);
    struct ibv_async_event event;

    if (device->events_of == NULL || now_ns < due_ns ||
        !atomic_compare_exchange_strong_explicit(&device->events_ns, &due_ns, now_ns + PAUSE_NS, memory_order_relaxed,
                                                 memory_order_relaxed)) {
        return; /* too soon, or another thread looks */
    }
    for (int i = 0; i < MOST_EVENTS && ibv_get_async_event(device->events_of, &event) == 0; i++) {
        tell(device, &event);
        ibv_ack_async_event(&event);
    }
}
