/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the program `tutti`: finds the subcommand and leaves the rest of the command line to it.
 *
 * Normal path: tutti COMMAND ARGUMENTS; or --help or --version, which print to standard output.
 *
 * Failures: no command, or an unknown one: one line on standard error, exit status 2.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/least.h"
#include "base/log.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "tutti/tutti.h"

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *purpose;
    bool is_rank; /* or starts ranks of its own: warns of what the library finds, where TUTTI_LOG is not set, and takes
                     the descriptors that it may have */
};

static const struct command commands[] = {
    {"bench", tt_command_bench, "measure a collective, and check every byte of it", true},
    {"run", tt_command_run, "start a program's ranks on this machine", false},
    {"info", tt_command_info, "version, build, network interfaces and settings", false},
    {"cast", tt_command_cast, "send a file to every host at once", true},
    {"catch", tt_command_catch, "receive what tutti cast sends", true},
    {"plan", tt_command_plan, "print a schedule of transfers, or a choice of resources, without using it", false},
    {"sim", tt_command_sim, "simulate collectives by hardware that this machine has not", false},
    {"doctor", tt_command_doctor, "find out what keeps this machine from working well", false},
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static void print_help(void)
{
    puts("Usage: tutti COMMAND [ARGUMENT]...\n"
         "Collective operations that move every byte over every link once.\n\n"
         "Commands:");
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        printf("  %-10s%s\n", commands[i].name, commands[i].purpose);
    }
    puts("\n  --help      this text; tutti COMMAND --help: a command's options\n"
         "  --version   the version");
}

/* A socket that gets the number of a standard stream that is closed would be written to as one. What stands there
 * instead gives the error that a closed one would. */
static void reserve_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* takes the lowest number: this one */
        }
    }
}

/* A rank of a large job needs three for each other rank. What it cannot have it will miss, and say so. Libraries that
 * are loaded may have a table of all that there may be, so it is not as many as a hard limit without an end allows. */
static void take_descriptors(void)
{
    enum { DESCRIPTORS = 1 << 16 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < DESCRIPTORS) {
        limit.rlim_cur = tt_least(limit.rlim_max, DESCRIPTORS);
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    reserve_standard_streams();
    if (argc < 2) {
        tt_usage_error("", "no command given");
        return TT_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "--version") == 0) {
        if (argc > 2) {
            tt_usage_error("", "unexpected argument '%s'", argv[2]);
            return TT_EXIT_USAGE;
        }
        if (strcmp(name, "--version") == 0) {
            printf("tutti %s\n", tutti_version());
        } else {
            print_help();
        }
        return tt_command_finish(name, TT_EXIT_OK);
    }
    for (unsigned i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            if (commands[i].is_rank) {
                take_descriptors();
            }
            if (commands[i].is_rank && getenv("TUTTI_LOG") == NULL) {
                tt_log_show_warnings();
            }
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    tt_usage_error("", "unknown %s '%s'", name[0] == '-' ? "option" : "command", name);
    return TT_EXIT_USAGE;
}
