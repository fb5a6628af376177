/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a table of algorithms is written: what is replaced, what is refused, and what is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/bench_tune_file.h"

static char place[64];
static struct tt_tune_file file;

static int setup(void **state)
{
    (void)state;
    strcpy(place, "/tmp/tutti-tune-XXXXXX");
    return mkdtemp(place) != NULL && chdir(place) == 0 && mkdir("inner", 0700) == 0 ? 0 : -1;
}

/* The entries of a directory; each is removed if `all`. */
static int entry_count(const char *path, bool all)
{
    int count = 0;
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            count++;
            if (all) {
                unlinkat(dirfd(directory), entry->d_name, 0);
            }
        }
    }
    closedir(directory);
    return count;
}

static int teardown(void **state)
{
    (void)state;
    entry_count("inner", true);
    entry_count(".", true);
    return rmdir("inner") == 0 && chdir("/") == 0 ? rmdir(place) : -1;
}

static void make(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void assert_content(const char *path, const char *expected)
{
    char text[64] = "";
    FILE *stream = fopen(path, "re");
    assert_non_null(stream);
    assert_int_equal(fread(text, 1, sizeof(text) - 1, stream), strlen(expected));
    fclose(stream);
    assert_string_equal(text, expected);
}

static mode_t mode_of(const char *path)
{
    struct stat there;
    assert_int_equal(lstat(path, &there), 0);
    return there.st_mode;
}

static void write_table(const char *path)
{
    assert_int_equal(tt_tune_file_open(&file, path), TUTTI_OK);
    fputs("table", file.stream);
    assert_int_equal(tt_tune_file_commit(&file), TUTTI_OK);
    assert_content(path, "table");
}

static void assert_refused(const char *path, const char *reason)
{
    assert_int_equal(tt_tune_file_open(&file, path), TUTTI_ERR_IO);
    assert_string_equal(tt_last_error(), reason);
}

static void new_file_has_the_mode_of_new_files(void **state)
{
    (void)state;
    mode_t mask = umask(027);
    write_table("table");
    umask(mask);
    assert_int_equal(mode_of("table"), S_IFREG | 0640);
    write_table("-"); /* no standard output */
    assert_int_equal(entry_count(".", false), 3);
}

static void file_that_is_there_keeps_its_mode_and_its_neighbours(void **state)
{
    (void)state;
    make("table", "a longer table", 0604);
    make("table.new", "theirs", 0400);
    write_table("table");
    assert_int_equal(mode_of("table"), S_IFREG | 0604);
    assert_content("table.new", "theirs");
    assert_int_equal(entry_count(".", false), 3);
}

static void symbolic_link_is_followed(void **state)
{
    (void)state;
    make("inner/table", "old", 0640);
    assert_int_equal(symlink("inner/table", "once"), 0);
    assert_int_equal(symlink("../once", "inner/twice"), 0);
    write_table("inner/twice");
    assert_true(S_ISLNK(mode_of("inner/twice")));
    assert_true(S_ISLNK(mode_of("once")));
    assert_int_equal(mode_of("inner/table"), S_IFREG | 0640);
    assert_content("inner/table", "table");
    assert_int_equal(entry_count("inner", false), 2);
    assert_int_equal(entry_count(".", false), 2);
}

static void link_that_leads_nowhere_is_refused_by_name(void **state)
{
    (void)state;
    assert_int_equal(symlink("nowhere", "link"), 0);
    assert_refused("link", "link: a dangling symbolic link");
    assert_int_equal(symlink("round", "round"), 0);
    assert_refused("round", "round: Too many levels of symbolic links");
    assert_int_equal(entry_count(".", false), 3);
}

static void what_is_no_regular_file_is_refused_by_kind(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    char expected[128];
    (void)state;
    assert_refused("inner", "inner: a directory, not a regular file");
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_refused("fifo", "fifo: a FIFO, not a regular file");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
    assert_refused("socket", "socket: a socket, not a regular file");
    assert_int_equal(symlink("fifo", "link"), 0);
    snprintf(expected, sizeof(expected), "%s/fifo: a FIFO, not a regular file", place);
    assert_refused("link", expected);
    assert_refused("/dev/null", "/dev/null: a character device, not a regular file");
    assert_int_equal(entry_count(".", false), 4);
}

static void path_that_cannot_be_is_said(void **state)
{
    (void)state;
    make("table", "old", 0600);
    assert_refused("missing/table", "missing/table: No such file or directory");
    assert_refused("table/inside", "table/inside: Not a directory");
    assert_refused("", ": no file name, and no directory");
    assert_int_equal(entry_count(".", false), 2);
}

static void nothing_is_left_of_one_that_is_abandoned(void **state)
{
    (void)state;
    make("table", "old", 0600);
    assert_int_equal(tt_tune_file_open(&file, "table"), TUTTI_OK);
    fputs("part", file.stream);
    tt_tune_file_abandon(&file);
    assert_content("table", "old");
    assert_int_equal(entry_count(".", false), 2);
}

static void nothing_is_left_where_there_is_no_room(void **state)
{
    struct rlimit old, small;
    (void)state;
    make("table", "old", 0600);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){.rlim_cur = 2, .rlim_max = old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(tt_tune_file_open(&file, "table"), TUTTI_OK);
    fputs("part", file.stream);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tutti_status status = tt_tune_file_commit(&file);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, TUTTI_ERR_IO);
    assert_string_equal(tt_last_error(), "table: File too large");
    assert_content("table", "old");
    assert_int_equal(entry_count(".", false), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(new_file_has_the_mode_of_new_files, setup, teardown),
        cmocka_unit_test_setup_teardown(file_that_is_there_keeps_its_mode_and_its_neighbours, setup, teardown),
        cmocka_unit_test_setup_teardown(symbolic_link_is_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(link_that_leads_nowhere_is_refused_by_name, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_regular_file_is_refused_by_kind, setup, teardown),
        cmocka_unit_test_setup_teardown(path_that_cannot_be_is_said, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_left_of_one_that_is_abandoned, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_left_where_there_is_no_room, setup, teardown),
    };
    char message[128];
    tt_log_configure("none", NULL, message, sizeof(message));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
