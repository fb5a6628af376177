/* SPDX-License-Identifier: BSD-3-Clause */
/* The command lines of programs that are started a rank each: options, no operands. */
#ifndef TT_BENCH_OPTIONS_H
#define TT_BENCH_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>

struct bench_command {
    const char *name, *help;
    const struct option *options; /* "help" is 'h', and is not given to `read` */
    /* Takes the option of this letter, its value is `optarg`; false: usage is printed. */
    bool (*read)(int letter, void *target);
};

/* False: the program is to end, with this status. */
bool bench_options_read(const struct bench_command *command, int argc, char **argv, void *target, int *status);

#endif
