/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what ranks leave behind, and the kernel hands to the launcher.
 *
 * Normal path: the launcher's children that are no ranks are orphans. Those that end meanwhile are reaped when it is
 * looked who has ended, so that a long job leaves no heap of them; in the end the rest are killed.
 *
 * Failures: an orphan that has become another user may be none that the launcher may kill; it is left behind, and said.
 * Where /proc does not say who the children are, orphans stay until the launcher has ended.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/launch_private.h"

enum { PATH_BYTES = 300, FIRST_CAPACITY = 64 };

/* Some of this process's children, by their numbers. */
struct children {
    pid_t *pids;
    size_t count, capacity;
};

static bool add(struct children *children, pid_t pid)
{
    if (children->count == children->capacity) {
        size_t capacity = children->capacity != 0 ? 2 * children->capacity : FIRST_CAPACITY;
        pid_t *pids = realloc(children->pids, capacity * sizeof(*pids));
        if (pids == NULL) {
            return false; /* then there are fewer to see to, this time */
        }
        children->pids = pids;
        children->capacity = capacity;
    }
    children->pids[children->count++] = pid;
    return true;
}

/* Adds those of one of this process's threads. */
static void add_children_of(const char *thread, struct children *children)
{
    char path[PATH_BYTES];
    char *word = NULL;
    size_t word_bytes = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%s/children", thread);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return;
    }
    while (getdelim(&word, &word_bytes, ' ', file) > 0) {
        pid_t pid = (pid_t)strtol(word, NULL, 10);
        if (pid > 0 && !add(children, pid)) {
            break;
        }
    }
    free(word);
    fclose(file);
}

/* All, as far as the kernel lists them while they come and go; the caller frees their numbers. */
static struct children list_children(void)
{
    struct children children = {.pids = NULL};
    DIR *threads = opendir("/proc/self/task");
    if (threads == NULL) {
        return children;
    }
    for (struct dirent *entry = readdir(threads); entry != NULL; entry = readdir(threads)) {
        if (entry->d_name[0] != '.') {
            add_children_of(entry->d_name, &children);
        }
    }
    closedir(threads);
    return children;
}

bool tt_launch_has_children(void)
{
    struct children children = list_children();
    free(children.pids);
    return children.count > 0;
}

static int compare(const void *left, const void *right)
{
    pid_t a = *(const pid_t *)left, b = *(const pid_t *)right;
    return (a > b) - (a < b);
}

void tt_launch_orphans_begin(struct tt_launch *launch)
{
    for (uint32_t rank = 0; rank < launch->started_count; rank++) {
        launch->rank_pids[rank] = launch->processes[rank].pid;
    }
    qsort(launch->rank_pids, launch->started_count, sizeof(*launch->rank_pids), compare);
}

static bool is_rank(const struct tt_launch *launch, pid_t pid)
{
    return bsearch(&pid, launch->rank_pids, launch->started_count, sizeof(pid), compare) != NULL;
}

void tt_launch_orphans_reap(const struct tt_launch *launch)
{
    struct children children = list_children();
    for (size_t i = 0; i < children.count; i++) {
        if (!is_rank(launch, children.pids[i])) {
            (void)waitpid(children.pids[i], NULL, WNOHANG);
        }
    }
    free(children.pids);
}

bool tt_launch_end_child(pid_t pid)
{
    if (waitpid(pid, NULL, WNOHANG) != 0) {
        return true;
    }
    if (kill(pid, SIGKILL) != 0 && errno == EPERM) {
        return false;
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return true;
}

/* The kernel hands a process's children over when it ends, so there may be new ones for as long as some end. */
void tt_launch_orphans_end(struct tt_launch *launch)
{
    bool some_ended;
    pid_t lasting = 0;
    size_t lasting_count;
    do {
        struct children children = list_children();
        some_ended = false;
        lasting_count = 0;
        for (size_t i = 0; i < children.count; i++) {
            if (tt_launch_end_child(children.pids[i])) {
                some_ended = true;
            } else {
                lasting = children.pids[i];
                lasting_count++;
            }
        }
        free(children.pids);
    } while (some_ended);
    if (lasting_count > 1) {
        tt_launch_say(launch, "process %d and %zu more: cannot be ended: %s\n", (int)lasting, lasting_count - 1,
                      strerror(EPERM));
    } else if (lasting_count == 1) {
        tt_launch_say(launch, "process %d: cannot be ended: %s\n", (int)lasting, strerror(EPERM));
    }
}
