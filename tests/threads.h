/* SPDX-License-Identifier: BSD-3-Clause */
/* The threads of this process, and how often each has gone to sleep, for tests of those that should rarely wake. */
#ifndef TT_TESTS_THREADS_H
#define TT_TESTS_THREADS_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The threads' numbers, `most` of them at most. Returns how many there are; 0: the system does not say. */
static inline uint32_t tt_threads_list(int *ids, uint32_t most)
{
    DIR *tasks = opendir("/proc/self/task");
    uint32_t count = 0;

    for (struct dirent *task = tasks != NULL ? readdir(tasks) : NULL; task != NULL; task = readdir(tasks)) {
        if (task->d_name[0] != '.' && count++ < most) {
            ids[count - 1] = atoi(task->d_name);
        }
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
    return count;
}

/* UINT64_MAX: the system does not say. */
static inline uint64_t tt_thread_sleeps(int thread)
{
    char path[64], line[256];
    unsigned long long sleeps = UINT64_MAX;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "voluntary_ctxt_switches: %llu", &sleeps);
    }
    if (file != NULL) {
        fclose(file);
    }
    return sleeps;
}

#endif
