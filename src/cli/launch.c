/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the launcher's watch over the ranks: from their start until no process of theirs is left.
 *
 * Normal path: sleep until a signal or output comes. Ranks that have ended stay unreaped until all have, so that their
 * numbers, which name their process groups, belong to nobody else in the meantime; what they leave behind is reaped
 * (launch_orphans.c).
 *
 * Failures: the first rank that fails decides the exit status and starts the others' grace, as a request to end does
 * that is passed on to the ranks. Output that could not be passed on is a failure, too, but ends nobody. In the end
 * every group is killed, and then every orphan, which the kernel hands to this process for as long as the call lasts.
 * Nothing but that last look waits for a reader of the output that stands still, and not for ever if asked to end.
 */
#include "cli/launch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/ranks.h"
#include "base/settings.h"
#include "cli/command.h"
#include "cli/launch_private.h"

#define DEFAULT_GRACE_NS (10 * TT_NS_PER_S)
#define LAST_GRACE_NS    (2 * TT_NS_PER_S) /* between SIGTERM and SIGKILL */

/* Between two looks at all ranks, of which many may end one after the other. */
#define LOOK_NS (10 * TT_NS_PER_MS)

enum { LAST_SIGNAL_COUNT = 3, RANKS_TEXT_BYTES = 256 };

/* What is waited for beside the ranks' streams. */
enum { OTHER_SIGNALS, OTHER_DOOR, OTHER_OUTPUT, OTHERS_COUNT = OTHER_OUTPUT + TT_LAUNCH_TARGETS };

/* --- Beginning ---------------------------------------------------------------------------------------------------- */

static tutti_status allocate(struct tt_launch *launch)
{
    size_t rank_count = launch->options->rank_count;
    launch->processes = calloc(rank_count, sizeof(*launch->processes));
    launch->rank_pids = calloc(rank_count, sizeof(*launch->rank_pids));
    launch->waiting = calloc(TT_LAUNCH_TARGETS * rank_count + OTHERS_COUNT, sizeof(*launch->waiting));
    if (launch->options->prefix_output) {
        launch->streams = calloc(TT_LAUNCH_TARGETS * rank_count, sizeof(*launch->streams));
    }
    if (launch->processes == NULL || launch->rank_pids == NULL || launch->waiting == NULL ||
        (launch->options->prefix_output && launch->streams == NULL)) {
        return tt_error_note(TUTTI_ERR_NO_MEMORY, "no memory for %zu ranks", rank_count);
    }
    for (size_t i = 0; launch->streams != NULL && i < TT_LAUNCH_TARGETS * rank_count; i++) {
        launch->streams[i].fd = -1;
        launch->streams[i].rank = (uint32_t)(i / TT_LAUNCH_TARGETS);
        launch->streams[i].target = (int)(i % TT_LAUNCH_TARGETS);
        launch->streams[i].left_bytes = -1;
    }
    return TUTTI_OK;
}

/* Opens 0, 1 and 2 if they are closed, so that no other descriptor takes their numbers. Returns /dev/null, or -1. */
static int open_null(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    return fd;
}

static void add_passed_on(sigset_t *mask)
{
    static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++) {
        /* What is ignored (nohup) stays so; blocked, it would come through the descriptor all the same. */
        if (sigaction(passed_on[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            sigaddset(mask, passed_on[i]);
        }
    }
}

/* Signals come through a descriptor from here on, and orphans come here. */
static tutti_status take_over(struct tt_launch *launch)
{
    struct sigaction child_action = {.sa_handler = SIG_DFL}; /* ignored, it would take the exit statuses away */
    struct sigaction pipe_action = {.sa_handler = SIG_IGN};  /* to write where nobody reads is an error, not the end */
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    add_passed_on(&mask);
    sigaction(SIGCHLD, &child_action, &launch->old_child_action);
    sigaction(SIGPIPE, &pipe_action, &launch->old_pipe_action);
    sigprocmask(SIG_BLOCK, &mask, &launch->old_mask);
    getrlimit(RLIMIT_NOFILE, &launch->old_descriptors);
    prctl(PR_GET_CHILD_SUBREAPER, &launch->was_subreaper);
    /* Nothing would tell the orphans of earlier children from those of the ranks. */
    launch->adopts_orphans = !tt_launch_has_children() && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
    launch->null = open_null();
    launch->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (launch->null < 0 || launch->signals < 0) {
        return tt_error_note(TUTTI_ERR_NO_RESOURCE, "no descriptor for /dev/null or for signals: %s", strerror(errno));
    }
    tt_launch_output_open(&launch->output);
    return TUTTI_OK;
}

static void give_back(struct tt_launch *launch)
{
    tt_launch_output_close(&launch->output);
    if (launch->signals >= 0) {
        close(launch->signals);
    }
    if (launch->null >= 0) {
        close(launch->null);
    }
    prctl(PR_SET_CHILD_SUBREAPER, launch->was_subreaper);
    sigaction(SIGCHLD, &launch->old_child_action, NULL);
    sigaction(SIGPIPE, &launch->old_pipe_action, NULL);
    sigprocmask(SIG_SETMASK, &launch->old_mask, NULL);
    setrlimit(RLIMIT_NOFILE, &launch->old_descriptors);
}

/* --- Watching ----------------------------------------------------------------------------------------------------- */

static bool is_running(const void *set, uint32_t rank)
{
    const struct tt_launch_process *processes = set;
    return processes[rank].running;
}

/* From here on who is killed may have been killed by this. */
static void signal_running(struct tt_launch *launch, int signal)
{
    launch->order_ns = 0;
    for (uint32_t rank = 0; rank < launch->started_count; rank++) {
        if (launch->processes[rank].running) {
            kill(-launch->processes[rank].pid, signal);
        }
    }
}

static uint64_t grace_of(const struct tt_launch *launch)
{
    return launch->options->grace_ns != 0 ? launch->options->grace_ns : DEFAULT_GRACE_NS;
}

static void kill_after(struct tt_launch *launch, uint64_t grace_ns)
{
    uint64_t kill_ns = tt_clock_now_ns() + grace_ns;
    launch->kill_ns = kill_ns < launch->kill_ns ? kill_ns : launch->kill_ns;
}

static void give_up_after(struct tt_launch *launch, uint64_t grace_ns)
{
    uint64_t give_up_ns = tt_clock_now_ns() + grace_ns;
    launch->give_up_ns = give_up_ns < launch->give_up_ns ? give_up_ns : launch->give_up_ns;
}

static void report_end(struct tt_launch *launch, uint32_t rank, const siginfo_t *info)
{
    bool was_killed = info->si_code != CLD_EXITED;
    int status = was_killed ? 128 + info->si_status : info->si_status;
    uint64_t now_ns = tt_clock_now_ns();
    tt_launch_door_ended(&launch->door, rank, status != 0, was_killed);
    if (status == 0) {
        return;
    }
    if (was_killed) {
        tt_launch_say(launch, "rank %u: killed by signal %d (%s)\n", rank, info->si_status, strsignal(info->si_status));
    } else {
        tt_launch_say(launch, "rank %u: exit status %d\n", rank, status);
    }
    if (launch->exit_status == 0) {
        launch->exit_status = status;
        launch->was_asked = launch->signal_count > 0;
        launch->order_ns = was_killed ? 0 : now_ns + TT_LAUNCH_ORDER_NS;
        launch->terminate_ns = now_ns + grace_of(launch);
    } else if (was_killed && now_ns < launch->order_ns) {
        launch->exit_status = status;
        launch->order_ns = 0;
    }
}

/* Finds which ranks have ended, without reaping; `killed_only`: and was killed. */
static void look_for(struct tt_launch *launch, bool killed_only)
{
    for (uint32_t rank = 0; rank < launch->started_count; rank++) {
        siginfo_t info = {.si_pid = 0};
        struct tt_launch_process *process = &launch->processes[rank];
        if (process->running && waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid != 0 && !(killed_only && info.si_code == CLD_EXITED)) {
            process->running = false;
            launch->running_count--;
            report_end(launch, rank, &info);
        }
    }
}

/* Of several that are found at the same time, those that were killed come first, as they do if they are found soon
 * after: what the library does in the others, when it learns of that, is to let them end by themselves. */
static void look_for_ended(struct tt_launch *launch)
{
    launch->look_ns = TT_NEVER;
    look_for(launch, true);
    look_for(launch, false);
    if (launch->adopts_orphans) {
        tt_launch_orphans_reap(launch);
    }
    launch->looked_ns = tt_clock_now_ns();
}

/* Who asks for the end by SIGTERM or SIGHUP (a batch system, a terminal that is gone) asks once; who presses Ctrl-C can
 * do so again. */
static void pass_on(struct tt_launch *launch, int signal)
{
    bool is_last = ++launch->signal_count >= LAST_SIGNAL_COUNT;
    signal_running(launch, is_last ? SIGKILL : signal);
    if (is_last) {
        give_up_after(launch, 0);
    } else if (signal == SIGTERM || signal == SIGHUP) {
        kill_after(launch, grace_of(launch));
        give_up_after(launch, grace_of(launch));
    }
}

static void handle_signals(struct tt_launch *launch)
{
    struct signalfd_siginfo info;
    while (read(launch->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD) {
            launch->look_ns = launch->looked_ns + LOOK_NS;
        } else {
            pass_on(launch, (int)info.ssi_signo);
        }
    }
}

/* Ends those who have had their time. */
static void enforce_deadlines(struct tt_launch *launch, uint64_t now_ns)
{
    char ranks[RANKS_TEXT_BYTES], grace[48];
    if (now_ns >= launch->terminate_ns) {
        tt_launch_say(launch, "%s: still running %s after the first failure, ended\n",
                      tt_ranks_format(is_running, launch->processes, launch->started_count, ranks, sizeof(ranks)),
                      tt_format_time(grace_of(launch), grace, sizeof(grace)));
        signal_running(launch, SIGTERM);
        launch->terminate_ns = TT_NEVER;
        kill_after(launch, LAST_GRACE_NS);
    }
    if (now_ns >= launch->kill_ns) {
        signal_running(launch, SIGKILL);
        launch->kill_ns = TT_NEVER;
    }
}

static uint64_t next_deadline_ns(const struct tt_launch *launch)
{
    uint64_t deadline_ns = launch->terminate_ns < launch->kill_ns ? launch->terminate_ns : launch->kill_ns;
    deadline_ns = launch->door.told_ns < deadline_ns ? launch->door.told_ns : deadline_ns;
    return launch->look_ns < deadline_ns ? launch->look_ns : deadline_ns;
}

static int sleep_ms(uint64_t deadline_ns)
{
    uint64_t now_ns = tt_clock_now_ns();
    if (deadline_ns == TT_NEVER) {
        return -1;
    }
    uint64_t wait_ms = deadline_ns > now_ns ? (deadline_ns - now_ns + TT_NS_PER_MS - 1) / TT_NS_PER_MS : 0;
    return wait_ms > INT_MAX ? INT_MAX : (int)wait_ms;
}

/* Sleeps until a signal, somebody at the door, or room for what waits to be written comes, or something in one of the
 * first `stream_count` streams whose way is clear. Whether there is somebody at the door. */
static bool wait_for_any(struct tt_launch *launch, nfds_t stream_count, uint64_t deadline_ns)
{
    struct pollfd *others = &launch->waiting[stream_count];
    for (nfds_t i = 0; i < stream_count; i++) {
        const struct tt_launch_stream *stream = &launch->streams[i];
        bool is_clear = tt_launch_output_is_clear(&launch->output, stream->target);
        launch->waiting[i] = (struct pollfd){.fd = is_clear ? stream->fd : -1, .events = POLLIN};
    }
    others[OTHER_SIGNALS] = (struct pollfd){.fd = launch->signals, .events = POLLIN};
    others[OTHER_DOOR] = (struct pollfd){.fd = tt_launch_door_waits_for(&launch->door), .events = POLLIN};
    for (int i = 0; i < TT_LAUNCH_TARGETS; i++) {
        const struct tt_launch_sink *sink = &launch->output.sinks[i];
        others[OTHER_OUTPUT + i] = (struct pollfd){.fd = sink->used_bytes > 0 ? sink->fd : -1, .events = POLLOUT};
    }
    if (poll(launch->waiting, stream_count + OTHERS_COUNT, sleep_ms(deadline_ns)) <= 0) {
        return false;
    }
    for (nfds_t i = 0; i < stream_count; i++) {
        launch->streams[i].has_come |= launch->waiting[i].revents != 0;
    }
    return others[OTHER_DOOR].revents != 0;
}

static void watch(struct tt_launch *launch)
{
    nfds_t stream_count = launch->streams != NULL ? TT_LAUNCH_TARGETS * (nfds_t)launch->options->rank_count : 0;
    tt_launch_orphans_begin(launch);
    look_for_ended(launch);
    while (launch->running_count > 0) {
        tt_launch_streams_tend(launch); /* what has been said since may have made room for more */
        bool is_called = wait_for_any(launch, stream_count, next_deadline_ns(launch));
        tt_launch_streams_tend(launch);
        if (is_called) {
            tt_launch_door_look(&launch->door, launch->options->rank_count);
        }
        handle_signals(launch);
        if (tt_clock_now_ns() >= launch->look_ns) {
            look_for_ended(launch);
        }
        enforce_deadlines(launch, tt_clock_now_ns());
        tt_launch_door_tend(&launch->door, launch->options->rank_count, tt_clock_now_ns());
    }
}

/* --- End ---------------------------------------------------------------------------------------------------------- */

/* Kills what is left of the ranks' groups while their numbers are still theirs, then reaps the ranks. */
static void end_groups(struct tt_launch *launch)
{
    for (uint32_t rank = 0; rank < launch->started_count; rank++) {
        kill(-launch->processes[rank].pid, SIGKILL);
    }
    for (uint32_t rank = 0; rank < launch->started_count; rank++) {
        launch->processes[rank].running = false;
        (void)tt_launch_end_child(launch->processes[rank].pid);
    }
}

/* Only the reader of the output is waited for now. */
static void see_output_out(struct tt_launch *launch)
{
    for (tt_launch_streams_tend(launch); !tt_launch_streams_are_done(launch); tt_launch_streams_tend(launch)) {
        (void)wait_for_any(launch, 0, launch->give_up_ns);
        handle_signals(launch);
        if (tt_clock_now_ns() >= launch->give_up_ns) {
            tt_launch_streams_tend(launch);
            tt_launch_streams_give_up(launch);
        }
    }
}

static void finish(struct tt_launch *launch)
{
    end_groups(launch);
    if (launch->adopts_orphans) {
        tt_launch_orphans_end(launch);
    }
    tt_launch_door_close(&launch->door);
    if (launch->give_up_ns != TT_NEVER) {
        /* Asked before their end: the reader has as long as ranks between SIGTERM and SIGKILL, at least. */
        uint64_t least_ns = tt_clock_now_ns() + LAST_GRACE_NS;
        launch->give_up_ns = launch->give_up_ns < least_ns ? least_ns : launch->give_up_ns;
    }
    tt_launch_streams_end(launch);
    see_output_out(launch);
    if (!tt_launch_streams_report(launch) && launch->exit_status == 0) {
        launch->exit_status = TT_EXIT_FAILED;
    }
    see_output_out(launch); /* the report */
    give_back(launch);
}

static void release(struct tt_launch *launch)
{
    free(launch->processes);
    free(launch->rank_pids);
    free(launch->streams);
    free(launch->waiting);
}

tutti_status tt_launch(const struct tt_launch_options *options, struct tt_launch_end *end)
{
    struct tt_launch launch = {
        .options = options,
        .door = {.listener = -1, .telling = -1, .failed_rank = TT_HELLO_NO_RANK, .told_ns = TT_NEVER},
        .signals = -1,
        .null = -1,
        .terminate_ns = TT_NEVER,
        .kill_ns = TT_NEVER,
        .give_up_ns = TT_NEVER};
    assert(options->rank_count > 0 && options->argv[0] != NULL);
    tutti_status status = allocate(&launch);
    if (status == TUTTI_OK) {
        status = take_over(&launch);
        if (status == TUTTI_OK) {
            status = tt_launch_spawn(&launch);
        }
        if (status == TUTTI_OK) {
            watch(&launch);
        }
        finish(&launch);
    }
    release(&launch);
    if (status == TUTTI_OK) {
        *end = (struct tt_launch_end){.exit_status = launch.exit_status, .was_asked_to_end = launch.was_asked};
    }
    return status;
}
