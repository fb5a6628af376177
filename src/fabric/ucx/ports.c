/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks for RDMA ports in sysfs. Normal path: an interface's own device has a directory with the names of its RDMA
 * devices, and dev_port says which of their ports it is. An interface without a device has a link lower_NAME for each
 * that it is made of. Failures: what cannot be read has no ports.
 */
#include "fabric/ucx/ports.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_LAYERS = 4, /* a VLAN on a bridge on a bond: three */
    PATH_BYTES = 512
};

struct text {
    char *bytes;
    size_t room, used; /* without its end */
    bool is_too_short;
};

static void add(struct text *text, const char *device, unsigned long port)
{
    size_t room = text->room - text->used;
    int length = snprintf(text->bytes + text->used, room, "%s%s:%lu", text->used > 0 ? "," : "", device, port);

    if (length < 0 || (size_t)length >= room) {
        text->is_too_short = true;
        return;
    }
    text->used += (size_t)length;
}

/* False: the interface has no such file, or no number in it. */
static bool read_port(const char *net, const char *interface, unsigned long *port)
{
    char path[PATH_BYTES], line[16] = "", *end = line;

    if (snprintf(path, sizeof path, "%s/%s/dev_port", net, interface) >= (int)sizeof path) {
        return false;
    }
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        return false;
    }
    if (fgets(line, sizeof line, file) != NULL) {
        *port = strtoul(line, &end, 10);
    }
    fclose(file);
    return end != line;
}

static DIR *open_below(const char *net, const char *interface, const char *below)
{
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s%s", net, interface, below);

    return length > 0 && length < (int)sizeof path ? opendir(path) : NULL;
}

static void add_own(const char *net, const char *interface, struct text *text)
{
    unsigned long port;
    DIR *directory = read_port(net, interface, &port) ? open_below(net, interface, "/device/infiniband") : NULL;

    if (directory == NULL) {
        return;
    }
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        if (entry->d_name[0] != '.') {
            add(text, entry->d_name, port + 1); /* the kernel counts from 0, UCX from 1 */
        }
    }
    closedir(directory);
}

/* NOLINTNEXTLINE(misc-no-recursion): MOST_LAYERS deep */
static void add_all(const char *net, const char *interface, unsigned layer, struct text *text)
{
    static const char prefix[] = "lower_";
    size_t before = text->used;

    add_own(net, interface, text);
    if (text->used > before || layer == MOST_LAYERS) {
        return;
    }
    DIR *directory = open_below(net, interface, "");

    if (directory == NULL) {
        return;
    }
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) == 0) {
            add_all(net, entry->d_name + sizeof prefix - 1, layer + 1, text);
        }
    }
    closedir(directory);
}

bool tt_ucx_find_ports(const char *net, const char *interface, char *text, size_t text_bytes)
{
    struct text found = {.bytes = text, .room = text_bytes};

    text[0] = '\0';
    add_all(net, interface, 1, &found);
    if (found.is_too_short) {
        text[0] = '\0';
    }
    return text[0] != '\0';
}
