/* SPDX-License-Identifier: BSD-3-Clause */
/* Children of a process that a test ends: they live on, until the test kills them or a minute is over. */
#ifndef TT_TESTS_LIVES_ON_H
#define TT_TESTS_LIVES_ON_H

#include <spawn.h>
#include <sys/types.h>
#include <unistd.h>

/* Made by fork() alone, with all that close-on-exec would close. Its process id, or -1. */
static inline pid_t tt_fork_that_lives_on(void)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        pause();
        _exit(0);
    }
    return child;
}

/* Runs another program when this returns. Its process id, or -1. */
static inline pid_t tt_program_that_lives_on(void)
{
    char program[] = "sleep", seconds[] = "60", *const arguments[] = {program, seconds, NULL};
    pid_t child;
    return posix_spawnp(&child, program, NULL, NULL, arguments, environ) == 0 ? child : -1;
}

#endif
