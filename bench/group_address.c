/* SPDX-License-Identifier: BSD-3-Clause */
/* The library tells the interface as text: "eth0 (10.0.0.1)". */
#include "group_address.h"

#include <arpa/inet.h>
#include <stdio.h>

int group_address(const tutti_group *group, const char *program, struct in_addr *address)
{
    tutti_group_info info = {.struct_size = sizeof info};
    char text[INET_ADDRSTRLEN] = "";

    if (tutti_group_query(group, &info) != TUTTI_OK || sscanf(info.interface, "%*[^(](%15[0-9.])", text) != 1 ||
        inet_pton(AF_INET, text, address) != 1) {
        fprintf(stderr, "%s: no address in '%s'\n", program, info.interface);
        return -1;
    }
    return 0;
}
