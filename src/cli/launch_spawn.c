/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: from a program's name to the processes of its ranks.
 *
 * Normal path: a socket that listens on loopback (launch_door.c) for rank 0 to inherit; an environment for each rank,
 * made before its process, which shares the launcher's memory until it is the program, and so may do little. Each rank
 * leads a process group, so that a signal reaches what it has started, too.
 *
 * Failures: what cannot be started is named, with the reason. Ranks that run by then are the caller's to end.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/shortage.h"
#include "cli/launch_private.h"

enum { VARIABLE_BYTES = 48, OWN_COUNT = 4, EXEC_FAILED = 127, PAGE_BYTES = 4096, STACK_BYTES = 64 * 1024 };

enum own { OWN_RANK, OWN_SIZE, OWN_ROOT, OWN_ROOT_FD };

static const char *const own_names[OWN_COUNT] = {"TUTTI_RANK", "TUTTI_SIZE", "TUTTI_ROOT", "TUTTI_ROOT_FD"};

/* The ranks' environment: what is inherited and added, then the variables of the job; ROOT_FD is last, and only rank
 * 0's. */
struct environment {
    char **variables;
    char own[OWN_COUNT][VARIABLE_BYTES];
    size_t own_index; /* of the first of them in variables */
};

static bool has_name(const char *variable, const char *name, size_t length)
{
    return strncmp(variable, name, length) == 0 && variable[length] == '=';
}

/* Whether an inherited variable is replaced by another. */
static bool is_replaced(const char *variable, const char *const *added)
{
    for (int i = 0; i < OWN_COUNT; i++) {
        if (has_name(variable, own_names[i], strlen(own_names[i]))) {
            return true;
        }
    }
    for (; added != NULL && *added != NULL; added++) {
        if (has_name(variable, *added, strcspn(*added, "="))) {
            return true;
        }
    }
    return false;
}

static tutti_status make_environment(struct environment *made, const char *const *added, uint32_t size, uint16_t port,
                                     int listener)
{
    size_t count = OWN_COUNT + 1;
    for (char **variable = environ; *variable != NULL; variable++) {
        count++;
    }
    for (const char *const *variable = added; variable != NULL && *variable != NULL; variable++) {
        count++;
    }
    made->variables = calloc(count, sizeof(*made->variables));
    if (made->variables == NULL) {
        return tt_error_note(TUTTI_ERR_NO_MEMORY, "out of memory");
    }
    count = 0;
    for (char **variable = environ; *variable != NULL; variable++) {
        if (!is_replaced(*variable, added)) {
            made->variables[count++] = *variable;
        }
    }
    for (const char *const *variable = added; variable != NULL && *variable != NULL; variable++) {
        if (!is_replaced(*variable, NULL)) {
            made->variables[count++] = (char *)(uintptr_t)*variable;
        }
    }
    made->own_index = count;
    snprintf(made->own[OWN_SIZE], VARIABLE_BYTES, "%s=%u", own_names[OWN_SIZE], size);
    snprintf(made->own[OWN_ROOT], VARIABLE_BYTES, "%s=127.0.0.1:%u", own_names[OWN_ROOT], port);
    snprintf(made->own[OWN_ROOT_FD], VARIABLE_BYTES, "%s=%d", own_names[OWN_ROOT_FD], listener);
    return TUTTI_OK;
}

static void set_rank(struct environment *environment, uint32_t rank)
{
    snprintf(environment->own[OWN_RANK], VARIABLE_BYTES, "%s=%u", own_names[OWN_RANK], rank);
    for (int i = 0; i < OWN_COUNT; i++) {
        bool given = i != OWN_ROOT_FD || rank == 0;
        environment->variables[environment->own_index + (size_t)i] = given ? environment->own[i] : NULL;
    }
}

/* What a rank's process gets before it becomes the program. Descriptors are -1 where there is nothing to do. */
struct plan {
    char *const *argv;
    char *const *environment;
    int input, output, error; /* become the standard descriptors */
    int listener;             /* to be inherited */
    pid_t launcher;
    const sigset_t *mask;
    const struct sigaction *child_action, *pipe_action;
    const struct rlimit *descriptors;
    int reason; /* why it has not become the program; 0: it has */
};

/* In the launcher's memory, on a stack of its own, while the launcher waits. */
static int become(void *argument)
{
    struct plan *plan = argument;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != plan->launcher) {
        return EXEC_FAILED; /* the launcher died before the kernel was told to tell */
    }
    if ((plan->input < 0 || dup2(plan->input, STDIN_FILENO) >= 0) &&
        (plan->output < 0 || dup2(plan->output, STDOUT_FILENO) >= 0) &&
        (plan->error < 0 || dup2(plan->error, STDERR_FILENO) >= 0) &&
        (plan->listener < 0 || fcntl(plan->listener, F_SETFD, 0) == 0)) {
        sigaction(SIGCHLD, plan->child_action, NULL);
        sigaction(SIGPIPE, plan->pipe_action, NULL);
        sigprocmask(SIG_SETMASK, plan->mask, NULL);
        setrlimit(RLIMIT_NOFILE, plan->descriptors);
        execvpe(plan->argv[0], plan->argv, plan->environment);
    }
    plan->reason = errno;
    return EXEC_FAILED;
}

/* A stack for that: a script without a first line that names its interpreter makes exec copy the arguments there. */
static size_t stack_bytes(char *const *argv)
{
    size_t count = 0;

    while (argv[count] != NULL) {
        count++;
    }
    return STACK_BYTES + (count * sizeof(*argv) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* Waits until the child is the program, or has said why it is not. Its memory is the launcher's until then, as with
 * vfork: to copy it takes longer than all else. */
static tutti_status start_process(struct plan *plan, pid_t *pid)
{
    size_t length_bytes = stack_bytes(plan->argv);
    uint8_t *stack = mmap(NULL, length_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pid_t child;
    int reason;

    if (stack == MAP_FAILED) {
        return tt_error_note(TUTTI_ERR_NO_MEMORY, "no memory to start a process: %s", strerror(errno));
    }
    plan->reason = 0;
    child = clone(become, stack + length_bytes, CLONE_VM | CLONE_VFORK | SIGCHLD, plan);
    reason = errno;
    munmap(stack, length_bytes);
    if (child < 0) {
        return tt_error_note(TUTTI_ERR_NO_RESOURCE, "no process: %s", strerror(reason));
    }
    *pid = child;
    if (plan->reason != 0) {
        return tt_error_note(TUTTI_ERR_INVALID_ARGUMENT, "cannot run '%s': %s", plan->argv[0], strerror(plan->reason));
    }
    return TUTTI_OK;
}

/* Output with prefixes takes two descriptors a rank, which may be more than the soft limit allows. */
static bool make_pipe(int ends[2])
{
    return pipe2(ends, O_CLOEXEC) == 0 || (tt_shortage_raise_descriptors(errno) && pipe2(ends, O_CLOEXEC) == 0);
}

static tutti_status start_rank(struct tt_launch *launch, uint32_t rank, struct plan *plan)
{
    int ends[2][2] = {{-1, -1}, {-1, -1}};
    tutti_status status = TUTTI_OK;

    for (int i = 0; i < 2 && launch->streams != NULL && status == TUTTI_OK; i++) {
        struct tt_launch_stream *stream = &launch->streams[TT_LAUNCH_TARGETS * rank + (uint32_t)i];
        if (!make_pipe(ends[i])) {
            status =
                tt_error_note(TUTTI_ERR_NO_RESOURCE, "no pipe for the output of rank %u: %s", rank, strerror(errno));
        } else {
            stream->fd = ends[i][0];
        }
    }
    plan->output = ends[0][1];
    plan->error = ends[1][1];
    if (status == TUTTI_OK) {
        pid_t pid = -1;
        status = start_process(plan, &pid);
        if (pid > 0) {
            launch->processes[rank].pid = pid;
            launch->processes[rank].running = true;
            launch->started_count++;
            launch->running_count++;
        }
    }
    for (int i = 0; i < 2; i++) {
        if (ends[i][1] >= 0) {
            close(ends[i][1]);
        }
    }
    return status;
}

tutti_status tt_launch_spawn(struct tt_launch *launch)
{
    const struct tt_launch_options *options = launch->options;
    struct environment environment = {.variables = NULL};
    tutti_status status = tt_launch_door_open(&launch->door);

    if (status == TUTTI_OK) {
        status = make_environment(&environment, options->environment, options->rank_count, launch->door.port,
                                  launch->door.listener);
    }
    bool terminal = isatty(STDIN_FILENO) == 1;
    for (uint32_t rank = 0; rank < options->rank_count && status == TUTTI_OK; rank++) {
        set_rank(&environment, rank);
        struct plan plan = {.argv = options->argv,
                            .environment = environment.variables,
                            .input = rank == 0 && !terminal ? -1 : launch->null,
                            .listener = rank == 0 ? launch->door.listener : -1,
                            .launcher = getpid(),
                            .mask = &launch->old_mask,
                            .child_action = &launch->old_child_action,
                            .pipe_action = &launch->old_pipe_action,
                            .descriptors = &launch->old_descriptors};
        status = start_rank(launch, rank, &plan);
    }
    free(environment.variables);
    return status;
}
