/* SPDX-License-Identifier: BSD-3-Clause */
/* Which port, GID and P_Key of a device are taken, and whether by itself: over a libibverbs whose devices are made up.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/settings.h"
#include "engine/locality.h"
#include "fabric/verbs/device.h"

enum { MOST_GIDS = 8, MOST_KEYS = 4, SOFT = 0xffffff, MELLANOX = 0x02c9, INTERFACE = 7 };

enum { OTHER_ADDRESS = 0x0A540701, OWN_ADDRESS = 0x0A540801, STRANGE_ADDRESS = 0x0A540901 }; /* host order */

static struct {
    struct ibv_device device;
    struct ibv_device *list[2];
    struct ibv_context context;
    struct ibv_pd pd;
    struct ibv_gid_entry gids[MOST_GIDS];
    uint32_t gid_count;
    uint16_t keys[MOST_KEYS];
    uint32_t vendor;
    uint32_t opened, domains;
} fake;

/* --- These take the place of the library's own functions of the same names ---------------------------------------- */

#undef ibv_get_device_list
struct ibv_device **ibv_get_device_list(int *num_devices)
{
    *num_devices = 1;
    return fake.list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    assert_ptr_equal(list, fake.list);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    assert_ptr_equal(device, &fake.device);
    fake.opened++;
    return &fake.context;
}

int ibv_close_device(struct ibv_context *context)
{
    assert_ptr_equal(context, &fake.context);
    fake.opened--;
    return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    fake.domains++;
    fake.pd.context = context;
    return &fake.pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    assert_ptr_equal(pd, &fake.pd);
    fake.domains--;
    return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr)
{
    assert_ptr_equal(context, &fake.context);
    *device_attr = (struct ibv_device_attr){.phys_port_cnt = 1, .vendor_id = fake.vendor};
    return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *port_attr)
{
    struct ibv_port_attr *attributes = (struct ibv_port_attr *)(void *)port_attr;

    assert_ptr_equal(context, &fake.context);
    assert_int_equal(port_num, 1);
    attributes->state = IBV_PORT_ACTIVE;
    attributes->active_mtu = IBV_MTU_4096;
    attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
    attributes->gid_tbl_len = MOST_GIDS;
    attributes->pkey_tbl_len = MOST_KEYS;
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries,
                             uint32_t flags, size_t entry_size)
{
    assert_ptr_equal(context, &fake.context);
    assert_int_equal(flags, 0);
    assert_int_equal(entry_size, sizeof *entries);
    assert_true(max_entries >= fake.gid_count);
    memcpy(entries, fake.gids, fake.gid_count * sizeof *entries);
    return (ssize_t)fake.gid_count;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
    assert_ptr_equal(context, &fake.context);
    assert_int_equal(port_num, 1);
    assert_in_range(index, 0, MOST_KEYS - 1);
    *pkey = htons(fake.keys[index]);
    return 0;
}

/* --- A device ----------------------------------------------------------------------------------------------------- */

static void add_gid(uint32_t type, uint32_t address)
{
    struct ibv_gid_entry *entry = &fake.gids[fake.gid_count];

    *entry = (struct ibv_gid_entry){
        .gid_index = fake.gid_count++, .port_num = 1, .gid_type = type, .ndev_ifindex = INTERFACE};
    if (address == 0) {
        entry->gid.raw[0] = 0xFE; /* link-local */
        entry->gid.raw[1] = 0x80;
        return;
    }
    uint32_t address_be = htonl(address);
    entry->gid.raw[10] = entry->gid.raw[11] = 0xFF;
    memcpy(entry->gid.raw + 12, &address_be, sizeof address_be);
}

/* As mlx5 lists them: each address once for RoCE v1 and once for v2. */
static int set_up(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    strcpy(fake.device.name, "mlx5_0");
    fake.device.transport_type = IBV_TRANSPORT_IB;
    fake.list[0] = &fake.device;
    fake.context.device = &fake.device;
    fake.context.async_fd = eventfd(0, EFD_CLOEXEC);
    fake.vendor = MELLANOX;
    fake.keys[0] = 0xFFFF;
    fake.keys[2] = 0x8001; /* nothing is at 1 */
    add_gid(IBV_GID_TYPE_ROCE_V2, 0);
    add_gid(IBV_GID_TYPE_ROCE_V1, OTHER_ADDRESS);
    add_gid(IBV_GID_TYPE_ROCE_V2, OTHER_ADDRESS);
    add_gid(IBV_GID_TYPE_ROCE_V1, OWN_ADDRESS);
    add_gid(IBV_GID_TYPE_ROCE_V2, OWN_ADDRESS);
    return fake.context.async_fd >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    close(fake.context.async_fd);
    return fake.opened == 0 && fake.domains == 0 ? 0 : -1;
}

static struct tt_verbs_device_options options_of(const char *name, uint32_t address)
{
    return (struct tt_verbs_device_options){
        .name = name, .gid_index = TT_AUTO, .interface_index = INTERFACE, .address_be = htonl(address)};
}

static struct tt_verbs_device *opened(const struct tt_verbs_device_options *options)
{
    struct tt_verbs_device *device = NULL;

    assert_int_equal(tt_verbs_device_open(options, &device), TUTTI_OK);
    return device;
}

/* --- GIDs --------------------------------------------------------------------------------------------------------- */

static uint32_t gid_taken(const char *name, uint32_t address)
{
    const struct tt_verbs_device_options options = options_of(name, address);
    struct tt_verbs_device *device = opened(&options);
    uint32_t index = device->gid_index;

    tt_verbs_device_close(device);
    return index;
}

static void gid_of_the_interfaces_address_is_taken_of_a_named_device_too(void **state)
{
    (void)state;
    assert_int_equal(gid_taken("auto", OWN_ADDRESS), 4);
    assert_int_equal(gid_taken("mlx5_0", OWN_ADDRESS), 4);
    assert_int_equal(gid_taken("mlx5_0:1", OTHER_ADDRESS), 2);
}

static void first_gid_of_ipv4_is_taken_where_none_has_the_interfaces_address(void **state)
{
    struct tt_verbs_device_options options = options_of("auto", STRANGE_ADDRESS);

    (void)state;
    assert_int_equal(gid_taken("mlx5_0", STRANGE_ADDRESS), 2);
    assert_int_equal(gid_taken("mlx5_0", 0), 2);
    options.interface_index = INTERFACE + 1; /* else it would be waited for */
    assert_false(tt_verbs_device_exists(&options, NULL));
}

static void interface_without_an_address_of_ipv4_is_found_by_its_index(void **state)
{
    struct tt_verbs_device_options options = options_of("auto", 0);

    (void)state;
    assert_int_equal(gid_taken("auto", 0), 2);
    options.interface_index = INTERFACE + 1;
    assert_false(tt_verbs_device_exists(&options, NULL));
}

/* Its GIDs name no interface. */
static void port_of_infiniband_is_not_guessed_where_the_interface_has_ipv6_only(void **state)
{
    struct tt_verbs_device_options options = options_of("auto", 0);
    struct tt_verbs_device *device = NULL;

    (void)state;
    fake.gid_count = 0;
    add_gid(IBV_GID_TYPE_IB, 0);
    assert_false(tt_verbs_device_exists(&options, NULL));
    assert_int_equal(tt_verbs_device_open(&options, &device), TUTTI_ERR_NOT_SUPPORTED);
    assert_non_null(strstr(tt_last_error(), "TUTTI_DEVICE says which (there are: mlx5_0)"));
    assert_int_equal(gid_taken("mlx5_0", 0), 0);
    options.interface_index = 0; /* loopback's: any device serves it */
    assert_true(tt_verbs_device_exists(&options, NULL));
}

/* --- P_Keys ------------------------------------------------------------------------------------------------------- */

static void key_is_looked_for_in_the_ports_table(void **state)
{
    struct tt_verbs_device_options options = options_of("mlx5_0", OWN_ADDRESS);
    static const struct {
        const char *wish;
        uint16_t index;
    } cases[] = {{NULL, 0}, {"auto", 0}, {"0xffff", 0}, {"0x8001", 2}, {"32769", 2}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        options.pkey = cases[i].wish;
        struct tt_verbs_device *device = opened(&options);
        assert_int_equal(device->pkey_index, cases[i].index);
        tt_verbs_device_close(device);
    }
}

static void key_that_the_port_does_not_have_is_refused_with_those_it_has(void **state)
{
    struct tt_verbs_device_options options = options_of("mlx5_0", OWN_ADDRESS);
    struct tt_verbs_device *device = NULL;

    (void)state;
    options.pkey = "0x8002";
    assert_int_equal(tt_verbs_device_open(&options, &device), TUTTI_ERR_INVALID_ARGUMENT);
    assert_string_equal(tt_last_error(), "TUTTI_PKEY=0x8002: port 1 of RDMA device mlx5_0 does not have this P_Key (it "
                                         "has: 0xffff, 0x8001)");
    options.pkey = "0x0001"; /* a limited member of a partition is another key */
    assert_int_equal(tt_verbs_device_open(&options, &device), TUTTI_ERR_INVALID_ARGUMENT);
}

static void what_is_no_key_is_refused(void **state)
{
    static const char *const bad[] = {"", "x", "0x", "0x8001x", "65536", "-1", "0", "0x8000", " 1"};
    struct tt_verbs_device_options options = options_of("mlx5_0", OWN_ADDRESS);
    struct tt_verbs_device *device = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        options.pkey = bad[i];
        assert_int_equal(tt_verbs_device_open(&options, &device), TUTTI_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(tt_last_error(), "not a P_Key, as 0x8001"));
    }
}

/* --- By itself ---------------------------------------------------------------------------------------------------- */

static bool takes_verbs(const char *mcast, const char *device, bool loopback)
{
    struct tt_settings settings;
    struct tt_interface interface = {
        .name = "eth0", .index = INTERFACE, .ip = tt_ip_from_ipv4(htonl(OWN_ADDRESS)), .loopback = loopback};

    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    assert_int_equal(tt_settings_set(&settings, "MCAST", mcast), TUTTI_OK);
    assert_int_equal(tt_settings_set(&settings, "DEVICE", device), TUTTI_OK);
    return tt_locality_takes_verbs(&settings, &interface);
}

static void auto_takes_soft_roce_and_what_is_named(void **state)
{
    (void)state;
    fake.vendor = SOFT;
    assert_true(takes_verbs("auto", "auto", false));
    fake.vendor = MELLANOX;
    assert_false(takes_verbs("auto", "auto", false));
    assert_true(takes_verbs("auto", "mlx5_0", false));
    assert_false(takes_verbs("auto", "mlx5_1", false));
    assert_false(takes_verbs("auto", "mlx5_0", true));
    assert_false(takes_verbs("udp", "mlx5_0", false)); /* settled: nobody asks */
}

/* Groups are joined by an address of IPv4: whoever has none has to ask for the device, and say which group. */
static void auto_leaves_devices_alone_where_the_interface_has_ipv6_only(void **state)
{
    struct tt_settings settings;
    struct tt_interface interface = {.name = "eth0", .index = INTERFACE};

    (void)state;
    fake.vendor = SOFT;
    assert_true(tt_ip_parse("fd00::5", &interface.ip));
    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    assert_false(tt_locality_takes_verbs(&settings, &interface));
    assert_int_equal(tt_settings_set(&settings, "DEVICE", "mlx5_0"), TUTTI_OK);
    assert_true(tt_locality_takes_verbs(&settings, &interface));
}

/* Of the two networks that the host has, one is the device's. */
static void networks_of_a_host_are_marked_by_their_devices(void **state)
{
    struct tt_settings settings;
    struct tt_interface list[] = {
        {.name = "eth1", .index = INTERFACE + 1, .ip = tt_ip_from_ipv4(htonl(STRANGE_ADDRESS))},
        {.name = "eth0", .index = INTERFACE, .ip = tt_ip_from_ipv4(htonl(OWN_ADDRESS))}};
    struct tt_locality locality = {.net_count = 2,
                                   .nets = {{.ip = tt_ip_from_ipv4(htonl(OWN_ADDRESS)), .prefix_bits = 24},
                                            {.ip = tt_ip_from_ipv4(htonl(STRANGE_ADDRESS)), .prefix_bits = 24}}};

    (void)state;
    fake.vendor = SOFT;
    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    tt_locality_mark_verbs(&settings, list, 1, &locality);
    assert_false(locality.nets[0].verbs || locality.nets[1].verbs); /* its interface is not among them */
    tt_locality_mark_verbs(&settings, list, 2, &locality);
    assert_true(locality.nets[0].verbs);
    assert_false(locality.nets[1].verbs);
}

static void device_that_is_left_alone_is_named_once(void **state)
{
    char directory[] = "/tmp/tutti-test-device-XXXXXX", path[64], text[4096] = "", message[128];

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/log", directory);
    assert_int_equal(setenv("TUTTI_LOG", "info", 1) | setenv("TUTTI_LOG_FILE", path, 1), 0);
    assert_false(takes_verbs("auto", "auto", false));
    assert_false(takes_verbs("auto", "auto", false));
    unsetenv("TUTTI_LOG");
    unsetenv("TUTTI_LOG_FILE");
    assert_int_equal(tt_log_configure("none", NULL, message, sizeof message), TUTTI_OK);
    FILE *log = fopen(path, "re");
    assert_non_null(log);
    (void)fread(text, 1, sizeof text - 1, log);
    fclose(log);
    unlink(path);
    rmdir(directory);
    const char *line = strstr(text, "eth0 has the RDMA device mlx5_0");
    assert_non_null(line);
    assert_non_null(strstr(line, "TUTTI_DEVICE=mlx5_0"));
    assert_null(strstr(line + 1, "eth0 has the RDMA device"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(device_that_is_left_alone_is_named_once), /* first: it is once a process */
        TEST(networks_of_a_host_are_marked_by_their_devices),
        TEST(gid_of_the_interfaces_address_is_taken_of_a_named_device_too),
        TEST(first_gid_of_ipv4_is_taken_where_none_has_the_interfaces_address),
        TEST(interface_without_an_address_of_ipv4_is_found_by_its_index),
        TEST(port_of_infiniband_is_not_guessed_where_the_interface_has_ipv6_only),
        TEST(key_is_looked_for_in_the_ports_table),
        TEST(key_that_the_port_does_not_have_is_refused_with_those_it_has),
        TEST(what_is_no_key_is_refused),
        TEST(auto_takes_soft_roce_and_what_is_named),
        TEST(auto_leaves_devices_alone_where_the_interface_has_ipv6_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
