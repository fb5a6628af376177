/* SPDX-License-Identifier: BSD-3-Clause */
/* Which RDMA ports are behind an interface, in a tree of files as the kernel's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/ucx/ports.h"

static char net[] = "/tmp/tutti-ports-XXXXXX";

/* A directory, or, with content, a file. */
static void put(const char *path, const char *content)
{
    char whole[256];

    snprintf(whole, sizeof whole, "%s/%s", net, path);
    if (content == NULL) {
        assert_int_equal(mkdir(whole, 0700), 0);
        return;
    }
    FILE *file = fopen(whole, "we");

    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void put_adapter(const char *interface, const char *device, const char *port)
{
    char path[128];

    put(interface, NULL);
    snprintf(path, sizeof path, "%s/dev_port", interface);
    put(path, port);
    snprintf(path, sizeof path, "%s/device", interface);
    put(path, NULL);
    if (device != NULL) {
        snprintf(path, sizeof path, "%s/device/infiniband", interface);
        put(path, NULL);
        snprintf(path, sizeof path, "%s/device/infiniband/%s", interface, device);
        put(path, NULL);
    }
}

static void put_above(const char *interface, const char *lower)
{
    char path[128], below[128];

    snprintf(path, sizeof path, "%s/%s/lower_%s", net, interface, lower);
    snprintf(below, sizeof below, "../%s", lower);
    assert_int_equal(symlink(below, path), 0);
}

static int make_tree(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(net));
    put_adapter("eth0", "mlx5_0", "0\n");
    put_adapter("eth1", "mlx5_1", "1\n");
    put_adapter("plain", NULL, "0\n");
    put("bond0", NULL);
    put("bond0/dev_port", "0\n");
    put_above("bond0", "eth0");
    put_above("bond0", "eth1");
    put("bond0.7", NULL);
    put_above("bond0.7", "bond0");
    put("vlan", NULL);
    put_above("vlan", "plain");
    put("ring", NULL);
    put_above("ring", "ring");
    return 0;
}

static int remove_tree(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", net);
    return system(command); /* NOLINT(cert-env33-c): a name of our own */
}

static void adapter_has_its_own_port(void **state)
{
    char text[64];

    (void)state;
    assert_true(tt_ucx_find_ports(net, "eth0", text, sizeof text));
    assert_string_equal(text, "mlx5_0:1");
    assert_true(tt_ucx_find_ports(net, "eth1", text, sizeof text));
    assert_string_equal(text, "mlx5_1:2");
}

/* In whatever order the directory has them. */
static void bond_and_what_is_on_it_have_the_ports_of_its_adapters(void **state)
{
    static const char *const interfaces[] = {"bond0", "bond0.7"};
    char text[64];

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_true(tt_ucx_find_ports(net, interfaces[i], text, sizeof text));
        assert_true(strcmp(text, "mlx5_0:1,mlx5_1:2") == 0 || strcmp(text, "mlx5_1:2,mlx5_0:1") == 0);
    }
}

static void others_have_none(void **state)
{
    static const char *const interfaces[] = {"plain", "vlan", "ring", "absent"};
    char text[64];

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_false(tt_ucx_find_ports(net, interfaces[i], text, sizeof text));
        assert_string_equal(text, "");
    }
}

/* Half of a bond's ports would make the other half of its traffic go another way. */
static void names_that_do_not_fit_are_none(void **state)
{
    char text[17];

    (void)state;
    assert_false(tt_ucx_find_ports(net, "bond0", text, sizeof text));
    assert_string_equal(text, "");
    assert_true(tt_ucx_find_ports(net, "eth0", text, 9));
    assert_false(tt_ucx_find_ports(net, "eth0", text, 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapter_has_its_own_port),
        cmocka_unit_test(bond_and_what_is_on_it_have_the_ports_of_its_adapters),
        cmocka_unit_test(others_have_none),
        cmocka_unit_test(names_that_do_not_fit_are_none),
    };

    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
