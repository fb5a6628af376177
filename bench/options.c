/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads options until one is refused. Whoever refuses it may say why before; how it would be right is said here. */
#include "options.h"

#include <stdio.h>

#include "cli/command.h"

bool bench_options_read(const struct bench_command *command, int argc, char **argv, void *target, int *status)
{
    int letter;

    do {
        letter = getopt_long(argc, argv, "", command->options, NULL);
        if (letter == 'h') {
            fputs(command->help, stdout);
            *status = TT_EXIT_OK;
            return false;
        }
    } while (letter != -1 && command->read(letter, target));
    if (letter == -1 && optind == argc) {
        return true;
    }
    if (letter == -1) {
        fprintf(stderr, "%s: %s: takes no argument\n", command->name, argv[optind]);
    }
    fputs(command->help, stderr);
    *status = TT_EXIT_USAGE;
    return false;
}
