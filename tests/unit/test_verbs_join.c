/* SPDX-License-Identifier: BSD-3-Clause */
/* Joining a multicast group, over a librdmacm that answers what the test says. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "fabric/verbs/mcast_queue.h"
#include "rdma_loaded.h"

enum { TTL = 7, TRAFFIC_CLASS = 104, GID_INDEX = 3, SERVICE_LEVEL = 5, SERVICE_LEVEL_OF_GROUP = 2 };

static struct {
    struct ibv_device of_system; /* whose the address is for the system */
    struct ibv_context context;
    struct rdma_cm_id id;
    struct rdma_event_channel channel;
    struct rdma_cm_event event;
    uint32_t living, joins, leaves;
} fake;

static struct tt_verbs_device device;
static struct tt_verbs_mcast mcast;
static struct tt_verbs_queue queue;

/* --- These take the place of the library's own functions of the same names ---------------------------------------- */

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
{
    assert_ptr_equal(channel, &fake.channel);
    assert_null(context);
    assert_int_equal(ps, RDMA_PS_UDP);
    fake.living++;
    *id = &fake.id;
    return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    assert_ptr_equal(id, &fake.id);
    fake.living--;
    return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    assert_ptr_equal(id, &fake.id);
    assert_int_equal(((const struct sockaddr_in *)(const void *)addr)->sin_addr.s_addr, device.address_be);
    return 0;
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
    assert_ptr_equal(id, &fake.id);
    assert_int_equal(addr->sa_family, AF_INET);
    assert_ptr_equal(context, &queue);
    fake.joins++;
    fake.event = (struct rdma_cm_event){.id = id, .event = RDMA_CM_EVENT_MULTICAST_JOIN};
    fake.event.param.ud.ah_attr.grh.dgid.raw[0] = 0xFF;
    fake.event.param.ud.ah_attr.dlid = 0xC001;
    fake.event.param.ud.ah_attr.sl = SERVICE_LEVEL_OF_GROUP;
    fake.event.param.ud.qkey = 5;
    return 0;
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
    assert_ptr_equal(id, &fake.id);
    assert_int_equal(addr->sa_family, AF_INET);
    fake.leaves++;
    return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    assert_ptr_equal(channel, &fake.channel);
    *event = &fake.event;
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    assert_ptr_equal(event, &fake.event);
    return 0;
}

/* --- The tests ---------------------------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    memset(&queue, 0, sizeof queue);
    strcpy(fake.of_system.name, "mlx5_0");
    fake.context.device = &fake.of_system;
    fake.id.verbs = &fake.context;
    fake.id.port_num = 1;
    fake.channel.fd = eventfd(1, EFD_CLOEXEC);
    device = (struct tt_verbs_device){.name = "mlx5_0",
                                      .port = 1,
                                      .roce = true,
                                      .gid_is_ipv4 = true,
                                      .gid_index = GID_INDEX,
                                      .traffic_class = TRAFFIC_CLASS,
                                      .service_level = SERVICE_LEVEL,
                                      .address_be = htonl(0x0A540701)};
    mcast = (struct tt_verbs_mcast){.device = &device, .ttl = TTL, .events = &fake.channel};
    queue.mcast = &mcast;
    queue.options.address.group_be = htonl(0xEFC00001);
    return fake.channel.fd >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tt_verbs_leave(&queue);
    close(fake.channel.fd);
    return fake.living == 0 && fake.leaves == queue.membership.joined ? 0 : -1;
}

static void group_is_joined_and_the_path_to_it_goes_as_far_as_ttl_says(void **state)
{
    (void)state;
    assert_int_equal(tt_verbs_join(&queue), TUTTI_OK);
    assert_int_equal(fake.joins, 1);
    assert_true(queue.membership.joined && queue.membership.path.is_global);
    assert_int_equal(queue.membership.path.port_num, 1);
    assert_int_equal(queue.membership.path.grh.sgid_index, GID_INDEX);
    assert_int_equal(queue.membership.path.grh.hop_limit, TTL);
    assert_int_equal(queue.membership.path.grh.traffic_class, TRAFFIC_CLASS);
    assert_int_equal(queue.membership.path.sl, SERVICE_LEVEL);
}

static void subnets_manager_says_how_a_group_of_infiniband_is_reached(void **state)
{
    (void)state;
    device.roce = false;
    assert_int_equal(tt_verbs_join(&queue), TUTTI_OK);
    assert_int_equal(queue.membership.path.sl, SERVICE_LEVEL_OF_GROUP);
    assert_int_equal(queue.membership.path.dlid, 0xC001);
    assert_int_equal(queue.membership.queue_key, 5);
}

static void address_that_the_system_takes_for_another_ports_is_refused_with_both_names(void **state)
{
    (void)state;
    fake.id.port_num = 2;
    assert_int_equal(tt_verbs_join(&queue), TUTTI_ERR_IO);
    assert_int_equal(fake.joins, 0);
    assert_non_null(strstr(tt_last_error(), "239.192.0.1 on mlx5_0 (10.84.7.1)"));
    assert_non_null(strstr(tt_last_error(), "of mlx5_0, port 2, for the system, and not of mlx5_0, port 1"));
}

static void address_that_the_system_takes_for_another_devices_is_refused_with_both_names(void **state)
{
    (void)state;
    strcpy(fake.of_system.name, "rxe0");
    assert_int_equal(tt_verbs_join(&queue), TUTTI_ERR_IO);
    assert_non_null(strstr(tt_last_error(), "of rxe0, port 1, for the system, and not of mlx5_0, port 1"));
    tt_verbs_leave(&queue);
    fake.id.verbs = NULL;
    assert_int_equal(tt_verbs_join(&queue), TUTTI_ERR_IO);
    assert_non_null(strstr(tt_last_error(), "of no RDMA device"));
    assert_int_equal(fake.joins, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(group_is_joined_and_the_path_to_it_goes_as_far_as_ttl_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(subnets_manager_says_how_a_group_of_infiniband_is_reached, set_up, tear_down),
        cmocka_unit_test_setup_teardown(address_that_the_system_takes_for_another_ports_is_refused_with_both_names,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(address_that_the_system_takes_for_another_devices_is_refused_with_both_names,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, rdma_load, NULL);
}
