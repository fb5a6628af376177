/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A received file: there whole or not at all, however it ends. All of it with files that have no name until then, and
 * again as on a file system that knows no such files, which this program plays by its own openat().
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/catch_file.h"

static bool knows_unnamed, knows_links = true, knows_exchange = true; /* the file system */
static int directory_error;                                           /* of fsync() for a directory; 0: it can */
static int close_error;                                               /* of close() for a file; 0: it can */
static bool ends_at_rename;                                           /* a SIGTERM comes just before it */
static char place[64];
static struct tt_catch_file file;

/* In the place of the C library's. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the system's header has reserved names */
int openat(int directory, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    unsigned mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, unsigned) : 0;
    va_end(arguments);
    if ((flags & O_TMPFILE) == O_TMPFILE && !knows_unnamed) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_openat, directory, path, flags, mode);
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): as above */
int linkat(int directory, const char *path, int new_directory, const char *new_path, int flags)
{
    if (!knows_links) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_linkat, directory, path, new_directory, new_path, flags);
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): as above */
int renameat(int directory, const char *path, int new_directory, const char *new_path)
{
    if (ends_at_rename) {
        raise(SIGTERM);
    }
    return (int)syscall(SYS_renameat2, directory, path, new_directory, new_path, 0);
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): as above */
int renameat2(int directory, const char *path, int new_directory, const char *new_path, unsigned flags)
{
    if (!knows_exchange && flags != 0) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_renameat2, directory, path, new_directory, new_path, flags);
}

int fsync(int fd)
{
    struct stat about;
    if (directory_error != 0 && fstat(fd, &about) == 0 && S_ISDIR(about.st_mode)) {
        errno = directory_error;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

/* It is closed, too. */
int close(int fd)
{
    struct stat about;
    bool is_told = close_error != 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
    int result = (int)syscall(SYS_close, fd);
    if (is_told) {
        errno = close_error;
        return -1;
    }
    return result;
}

static void prepare_place(void)
{
    strcpy(place, "/tmp/tutti-catch-XXXXXX");
    assert_non_null(mkdtemp(place));
}

static int setup_unnamed(void **state)
{
    (void)state;
    knows_unnamed = true;
    prepare_place();
    return 0;
}

static int setup_named(void **state)
{
    (void)state;
    knows_unnamed = false;
    prepare_place();
    return 0;
}

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", place, name);
    return path;
}

/* The entries of the place. */
static int entry_count(void)
{
    int count = 0;
    DIR *directory = opendir(place);
    assert_non_null(directory);
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count - 2;
}

static int teardown(void **state)
{
    DIR *directory = opendir(place);
    (void)state;
    tt_catch_file_abandon(&file);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (entry->d_name[0] != '.' || strlen(entry->d_name) > 2) {
            unlinkat(dirfd(directory), entry->d_name, 0);
            unlinkat(dirfd(directory), entry->d_name, AT_REMOVEDIR);
        }
    }
    closedir(directory);
    return rmdir(place);
}

static void write_file(const char *name, const char *text)
{
    FILE *stream = fopen(path_of(name), "w");
    assert_non_null(stream);
    fputs(text, stream);
    fclose(stream);
}

static void assert_content(const char *name, const char *expected)
{
    char text[64] = "";
    FILE *stream = fopen(path_of(name), "r");
    assert_non_null(stream);
    assert_true(fread(text, 1, sizeof(text) - 1, stream) == strlen(expected));
    fclose(stream);
    assert_string_equal(text, expected);
}

static void open_and_write(const char *name, bool force, const char *text)
{
    assert_int_equal(tt_catch_file_open(&file, path_of(name), "", force), TUTTI_OK);
    assert_int_equal(write(file.fd, text, strlen(text)), strlen(text));
}

static void link_that_leads_nowhere_is_there_already(void **state)
{
    struct stat there;
    (void)state;
    assert_int_equal(symlink("nowhere", path_of("link")), 0);
    assert_int_equal(tt_catch_file_open(&file, path_of("link"), "", false), TUTTI_ERR_IO);
    assert_non_null(strstr(tt_last_error(), "there already (--force replaces it)"));
    open_and_write("link", true, "data");
    assert_int_equal(tt_catch_file_commit(&file, TT_CAST_MODE_UNKNOWN, false), TUTTI_OK);
    assert_content("link", "data");
    assert_int_equal(lstat(path_of("link"), &there), 0);
    assert_true(S_ISREG(there.st_mode));
}

static void nothing_has_the_name_before_the_commit(void **state)
{
    struct stat there;
    (void)state;
    open_and_write("new", false, "data");
    assert_int_equal(access(path_of("new"), F_OK), -1);
    assert_int_equal(entry_count(), knows_unnamed ? 0 : 1);
    assert_int_equal(tt_catch_file_commit(&file, 0604, true), TUTTI_OK);
    assert_content("new", "data");
    assert_int_equal(stat(path_of("new"), &there), 0);
    assert_int_equal(there.st_mode & 07777, 0604);
    assert_int_equal(entry_count(), 1);
}

static unsigned mode_of(const char *name)
{
    struct stat there;
    assert_int_equal(stat(path_of(name), &there), 0);
    return there.st_mode & 07777;
}

static void only_its_owner_may_read_what_is_not_finished(void **state)
{
    struct stat there;
    (void)state;
    mode_t mask = umask(0);
    open_and_write("new", false, "data");
    assert_int_equal(fstat(file.fd, &there), 0);
    assert_int_equal(there.st_mode & 07777, 0600);
    umask(mask);
}

static void mode_is_the_senders_or_that_of_a_new_file(void **state)
{
    (void)state;
    mode_t mask = umask(027);
    open_and_write("none", false, "data");
    assert_int_equal(tt_catch_file_commit(&file, 0, false), TUTTI_OK);
    assert_int_equal(mode_of("none"), 0);
    open_and_write("all", false, "data");
    assert_int_equal(tt_catch_file_commit(&file, 0777, false), TUTTI_OK);
    assert_int_equal(mode_of("all"), 0777);
    open_and_write("unknown", false, "data");
    assert_int_equal(tt_catch_file_commit(&file, TT_CAST_MODE_UNKNOWN, false), TUTTI_OK);
    assert_int_equal(mode_of("unknown"), 0640);
    assert_int_equal(umask(mask), 027); /* is as it was */
}

static void file_in_a_directory_is_named_with_it(void **state)
{
    char expected[300];
    (void)state;
    write_file("file", "theirs");
    for (int with_slash = 0; with_slash < 2; with_slash++) {
        snprintf(expected, sizeof(expected), "%s/", place);
        expected[strlen(place) + (size_t)with_slash] = '\0';
        assert_int_equal(tt_catch_file_open(&file, expected, "file", false), TUTTI_ERR_IO);
        snprintf(expected, sizeof(expected), "%s/file: there already (--force replaces it)", place);
        assert_string_equal(tt_last_error(), expected);
    }
}

static void an_abandoned_file_leaves_nothing(void **state)
{
    (void)state;
    open_and_write("new", false, "data");
    tt_catch_file_abandon(&file);
    assert_int_equal(entry_count(), 0);
}

static void a_file_that_is_there_is_replaced_only_by_force(void **state)
{
    (void)state;
    write_file("old", "old");
    assert_int_equal(tt_catch_file_open(&file, path_of("old"), "", false), TUTTI_ERR_IO);
    assert_non_null(strstr(tt_last_error(), "/old: there already"));
    open_and_write("old", true, "new");
    assert_content("old", "old");
    assert_int_equal(tt_catch_file_commit(&file, TT_CAST_MODE_UNKNOWN, false), TUTTI_OK);
    assert_content("old", "new");
    assert_int_equal(entry_count(), 1);
}

static void a_file_that_appears_meanwhile_is_not_replaced(void **state)
{
    (void)state;
    open_and_write("file", false, "ours");
    write_file("file", "theirs");
    assert_int_equal(tt_catch_file_commit(&file, TT_CAST_MODE_UNKNOWN, false), TUTTI_ERR_IO);
    assert_non_null(strstr(tt_last_error(), "/file: File exists"));
    assert_int_equal(strncmp(tt_last_error(), place, strlen(place)), 0);
    assert_content("file", "theirs");
    assert_int_equal(entry_count(), 1);
}

/* Some file systems of virtual machines and in user space. */
static void a_file_system_with_neither_links_nor_such_renames_does(void **state)
{
    bool knew_unnamed = knows_unnamed;

    (void)state;
    knows_unnamed = knows_links = knows_exchange = false;
    open_and_write("file", false, "ours");
    assert_int_equal(tt_catch_file_commit(&file, TT_CAST_MODE_UNKNOWN, false), TUTTI_OK);
    assert_content("file", "ours");
    assert_int_equal(entry_count(), 1);
    open_and_write("other", false, "ours");
    write_file("other", "theirs");
    assert_int_equal(tt_catch_file_commit(&file, TT_CAST_MODE_UNKNOWN, false), TUTTI_ERR_IO);
    assert_non_null(strstr(tt_last_error(), "/other: File exists"));
    assert_content("other", "theirs");
    assert_int_equal(entry_count(), 2);
    knows_links = knows_exchange = true;
    knows_unnamed = knew_unnamed;
}

static void a_directory_that_cannot_be_synced_by_itself_does(void **state)
{
    (void)state;
    directory_error = EINVAL;
    open_and_write("file", false, "ours");
    assert_int_equal(tt_catch_file_commit(&file, TT_CAST_MODE_UNKNOWN, true), TUTTI_OK);
    assert_content("file", "ours");
    directory_error = EIO;
    open_and_write("lost", false, "ours");
    assert_int_equal(tt_catch_file_commit(&file, TT_CAST_MODE_UNKNOWN, true), TUTTI_ERR_IO);
    assert_non_null(strstr(tt_last_error(), "/lost: Input/output error"));
    assert_int_equal(entry_count(), 1); /* what is said to have failed is not there */
    open_and_write("file", true, "new");
    assert_int_equal(tt_catch_file_commit(&file, TT_CAST_MODE_UNKNOWN, true), TUTTI_ERR_IO);
    assert_content("file", "new"); /* unless it has replaced another one */
    directory_error = 0;
}

/* As on a network's file system, that of a user who has no room left. */
static void what_only_close_says_is_said_and_nothing_is_there(void **state)
{
    (void)state;
    open_and_write("file", false, "ours");
    close_error = EDQUOT;
    tutti_status status = tt_catch_file_commit(&file, TT_CAST_MODE_UNKNOWN, false);
    close_error = 0;
    assert_int_equal(status, TUTTI_ERR_IO);
    assert_non_null(strstr(tt_last_error(), "/file: "));
    assert_non_null(strstr(tt_last_error(), strerror(EDQUOT)));
    assert_int_equal(entry_count(), 0);
}

static void what_only_close_says_of_standard_output_is_said(void **state)
{
    (void)state;
    int saved = dup(STDOUT_FILENO), output = open(path_of("output"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(saved >= 0 && output >= 0);
    fflush(stdout);
    dup2(output, STDOUT_FILENO);
    tutti_status opened = tt_catch_file_open(&file, "-", "", false);
    close_error = EDQUOT;
    tutti_status status = tt_catch_file_commit(&file, TT_CAST_MODE_UNKNOWN, true);
    close_error = 0;
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(output);
    assert_int_equal(opened, TUTTI_OK);
    assert_int_equal(status, TUTTI_ERR_IO);
    assert_non_null(strstr(tt_last_error(), "standard output: "));
}

static void what_is_no_regular_file_is_not_replaced_by_force_either(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    assert_int_equal(tt_catch_file_open(&file, path_of("fifo"), "", true), TUTTI_ERR_IO);
    assert_non_null(strstr(tt_last_error(), "no regular file"));
}

static void a_name_from_another_host_stays_in_the_directory(void **state)
{
    static const char *const bad[] = {"", ".", "..", "a/", "../..", "/"};
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(tt_catch_file_open(&file, place, bad[i], false), TUTTI_ERR_IO);
    }
    assert_int_equal(tt_catch_file_open(&file, place, "../../etc/passwd", false), TUTTI_OK);
    assert_int_equal(tt_catch_file_commit(&file, TT_CAST_MODE_UNKNOWN, false), TUTTI_OK);
    assert_content("passwd", "");
    assert_int_equal(entry_count(), 1);
}

static void a_path_that_cannot_be_is_said(void **state)
{
    (void)state;
    write_file("file", "");
    static const char *const bad[][2] = {{"missing/file", "No such file or directory"},
                                         {"file/inside", "Not a directory"},
                                         {"missing/", "no file name, and no directory"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(tt_catch_file_open(&file, path_of(bad[i][0]), "", false), TUTTI_ERR_IO);
        assert_non_null(strstr(tt_last_error(), bad[i][1]));
    }
}

/* Dies by a signal in the middle of a file, or between having replaced one and the end. */
static void assert_gone_after(int number, bool after_commit)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(number, SIG_DFL); /* under nohup one is ignored, and stays so */
        if (tt_catch_file_open(&file, path_of("new"), "", true) != TUTTI_OK) {
            _exit(1);
        }
        if (after_commit && tt_catch_file_commit(&file, TT_CAST_MODE_UNKNOWN, false) != TUTTI_OK) {
            _exit(2);
        }
        raise(number);
        _exit(3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
    assert_int_equal(entry_count(), after_commit ? 1 : 0);
}

static void a_signal_leaves_nothing_unfinished(void **state)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU};
    (void)state;
    for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
        assert_gone_after(ending[i], false);
    }
    assert_gone_after(SIGTERM, true);
}

static void a_signal_leaves_no_empty_file_of_the_name(void **state)
{
    int status;
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        knows_unnamed = knows_links = knows_exchange = false;
        ends_at_rename = true;
        signal(SIGTERM, SIG_DFL);
        if (tt_catch_file_open(&file, path_of("new"), "", false) != TUTTI_OK || write(file.fd, "ours", 4) != 4) {
            _exit(1);
        }
        (void)tt_catch_file_commit(&file, TT_CAST_MODE_UNKNOWN, false);
        _exit(2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
    assert_int_equal(entry_count(), 1);
    assert_content("new", "ours");
}

#define BOTH(test)                                                                                                     \
    {"unnamed: " #test, test, setup_unnamed, teardown, NULL},                                                          \
    {                                                                                                                  \
        "named: " #test, test, setup_named, teardown, NULL                                                             \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(link_that_leads_nowhere_is_there_already),
        BOTH(nothing_has_the_name_before_the_commit),
        BOTH(only_its_owner_may_read_what_is_not_finished),
        BOTH(mode_is_the_senders_or_that_of_a_new_file),
        BOTH(file_in_a_directory_is_named_with_it),
        BOTH(an_abandoned_file_leaves_nothing),
        BOTH(a_file_that_is_there_is_replaced_only_by_force),
        BOTH(a_file_that_appears_meanwhile_is_not_replaced),
        BOTH(a_file_system_with_neither_links_nor_such_renames_does),
        BOTH(a_directory_that_cannot_be_synced_by_itself_does),
        BOTH(what_only_close_says_is_said_and_nothing_is_there),
        BOTH(what_only_close_says_of_standard_output_is_said),
        BOTH(what_is_no_regular_file_is_not_replaced_by_force_either),
        BOTH(a_name_from_another_host_stays_in_the_directory),
        BOTH(a_path_that_cannot_be_is_said),
        BOTH(a_signal_leaves_nothing_unfinished),
        BOTH(a_signal_leaves_no_empty_file_of_the_name),
    };
    char message[128];
    tt_log_configure("none", NULL, message, sizeof(message));
    file = (struct tt_catch_file){.fd = -1, .directory = -1};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
