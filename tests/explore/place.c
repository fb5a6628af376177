/* SPDX-License-Identifier: BSD-3-Clause */
/* Where in the source a step of a schedule is. Failure: without the tool that knows, nowhere. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "explore.h"

/* Of the program's code, as its file and line, if the tool for that is there. */
const char *explore_place_of(const void *where)
{
    extern const char __executable_start; /* the linker's */
    static struct {
        const void *where;
        char text[64];
    } places[512];
    char command[1200], program[1024];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program);
    uint32_t i = 0;
    FILE *reader;

    while (i < 511 && places[i].where != NULL && places[i].where != where) {
        i++;
    }
    if (places[i].where == where) {
        return places[i].text;
    }
    places[i].where = where;
    snprintf(command, sizeof command, "addr2line -s -e '%.*s' 0x%zx 2>/dev/null", length > 0 ? (int)length : 0, program,
             (size_t)((const char *)where - &__executable_start - 1));
    reader = popen(command, "r"); // NOLINT(cert-env33-c): a tool that PATH finds, and this program's own name
    if (reader == NULL || fgets(places[i].text, sizeof places[i].text, reader) == NULL) {
        places[i].text[0] = '\0';
    }
    if (reader != NULL) {
        pclose(reader);
    }
    places[i].text[strcspn(places[i].text, " \n")] = '\0';
    return places[i].text;
}
