/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti info -d`: each port of each RDMA device, and the GID and the endpoints that a group would have there.
 *
 * Normal path: the ports are listed by the verbs provider, then printed as a table, or as one JSON object.
 *
 * Failures: a build without libibverbs says so; exit status 1. A machine without devices is none: the list is empty.
 */
#include "cli/info_devices.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/table.h"
#include "engine/worker.h"
#include "fabric/verbs/verbs.h"

enum { PORT_LIMIT = 64, COLUMN_COUNT = 10 };

static const char *or_dash(const char *text)
{
    return text[0] != '\0' ? text : "-";
}

static void print_ports(const struct tt_verbs_port *ports, size_t count)
{
    static const struct tt_column columns[COLUMN_COUNT] = {{"device", NULL, 0, true}, {"port", NULL, 0, false},
                                                           {"state", NULL, 0, true},  {"transport", NULL, 0, true},
                                                           {"MTU", NULL, 0, false},   {"GID index", NULL, 0, false},
                                                           {"GID", NULL, 0, true},    {"interface", NULL, 0, true},
                                                           {"driver", NULL, 0, true}, {"endpoints", NULL, 0, true}};
    static char numbers[PORT_LIMIT][3][TT_CELL_BYTES];
    static const char *cells[PORT_LIMIT * COLUMN_COUNT];

    for (size_t i = 0; i < count; i++) {
        const struct tt_verbs_port *port = &ports[i];
        const char *row[COLUMN_COUNT] = {port->device,
                                         tt_cell_count(numbers[i][0], port->port),
                                         port->state,
                                         port->transport,
                                         port->mtu_bytes != 0 ? tt_cell_count(numbers[i][1], port->mtu_bytes) : "-",
                                         port->usable ? tt_cell_count(numbers[i][2], port->gid_index) : "-",
                                         or_dash(port->gid),
                                         or_dash(port->interface),
                                         port->driver,
                                         port->endpoints};
        memcpy(&cells[i * COLUMN_COUNT], row, sizeof row);
    }
    if (count == 0) {
        printf("no RDMA devices\n");
    } else {
        tt_table_print(stdout, columns, COLUMN_COUNT, cells, count);
    }
}

static void print_ports_json(const struct tt_verbs_port *ports, size_t count)
{
    struct tt_json json;

    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_json_begin_array(&json, "devices");
    for (size_t i = 0; i < count; i++) {
        tt_json_begin_object(&json, NULL);
        tt_json_text(&json, "device", ports[i].device);
        tt_json_count(&json, "port", ports[i].port);
        tt_json_text(&json, "state", ports[i].state);
        tt_json_text(&json, "transport", ports[i].transport);
        tt_json_count(&json, "mtu_bytes", ports[i].mtu_bytes);
        tt_json_flag(&json, "usable", ports[i].usable);
        if (ports[i].usable) {
            tt_json_count(&json, "gid_index", ports[i].gid_index);
        }
        tt_json_text(&json, "gid", ports[i].gid);
        tt_json_text(&json, "interface", ports[i].interface);
        tt_json_text(&json, "driver", ports[i].driver);
        tt_json_text(&json, "endpoints", ports[i].endpoints);
        tt_json_end_object(&json);
    }
    tt_json_end_array(&json);
    tt_json_end_object(&json);
}

int tt_info_devices(const struct tt_settings *settings, bool json)
{
    struct tt_verbs_device_options options = {.endpoints = settings->endpoints,
                                              .threads = tt_workers_threads(settings->workers)};
    static struct tt_verbs_port ports[PORT_LIMIT];
    size_t count = 0;

    if (tt_verbs_list(&options, ports, PORT_LIMIT, &count) != TUTTI_OK) {
        fprintf(stderr, "tutti info: %s\n", tt_last_error());
        return TT_EXIT_FAILED;
    }
    if (count > PORT_LIMIT) {
        fprintf(stderr, "tutti info: there are %zu ports, the first %d are shown\n", count, PORT_LIMIT);
        count = PORT_LIMIT;
    }
    (json ? print_ports_json : print_ports)(ports, count);
    return TT_EXIT_OK;
}
