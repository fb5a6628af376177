/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads /proc/self/status line by line. Failures: what is not told counts as 0, everywhere alike. */
#include "process_status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t process_status(const char *name)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    uint64_t value = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            value = strtoull(line + strlen(name), NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return value;
}
