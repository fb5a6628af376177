/* SPDX-License-Identifier: BSD-3-Clause */
/* A source that changes while it is read, and how its end is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cast_source.h"
#include "skip.h"

enum { BYTES = 4096, COUNT = 2 * TT_SEGMENT_COUNT };

static struct tt_segments segments;
static struct tt_cast_source source;
static char path[32];

static void set_length(uint64_t bytes)
{
    assert_int_equal(truncate(path, (off_t)bytes), 0);
}

static int setup(void **state)
{
    (void)state;
    strcpy(path, "/tmp/tutti-cast-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) != 0) {
        return -1;
    }
    set_length((uint64_t)COUNT * BYTES);
    return tt_segments_init(&segments, BYTES) == TUTTI_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tt_segments_cancel(&segments);
    tt_cast_source_close(&source);
    tt_segments_fini(&segments);
    return unlink(path);
}

/* Opens the file, and changes its length when the first segments have been read; returns how much is read. */
static uint64_t read_while_it_becomes(uint64_t bytes)
{
    uint64_t length = 0, total = 0;
    struct tt_segment *segment;

    assert_int_equal(tt_cast_source_open(&source, path), TUTTI_OK);
    assert_int_equal(tt_cast_source_start(&source, &segments), TUTTI_OK);
    assert_int_equal(tt_segments_peek(&segments, TT_CAST_AHEAD + 1, true, &length), TT_SEGMENT_THERE);
    set_length(bytes);
    while ((segment = tt_segments_take(&segments)) != NULL) {
        total += segment->bytes;
        tt_segments_release(&segments);
    }
    tt_cast_source_stop(&source);
    return total;
}

static void file_that_becomes_shorter_is_a_failure(void **state)
{
    (void)state;
    assert_int_equal(read_while_it_becomes((uint64_t)(TT_CAST_AHEAD + 3) * BYTES),
                     (uint64_t)(TT_CAST_AHEAD + 3) * BYTES);
    assert_true(source.report.failed);
    assert_non_null(strstr(source.report.text, ": it has become shorter while it was read: "));
}

static void file_that_grows_is_read_to_its_new_end(void **state)
{
    (void)state;
    assert_int_equal(read_while_it_becomes((uint64_t)COUNT * BYTES + 5), COUNT * BYTES + 5);
    assert_false(source.report.failed);
    assert_int_equal(source.report.bytes, COUNT * BYTES + 5);
}

/* Reads a file of this length; `firsts` and `lasts` are the sizes of its first and last segments. */
static void read_in_segments(uint64_t segment_bytes, uint64_t length, uint64_t firsts[10], uint64_t lasts[8])
{
    static struct tt_segments large;
    struct tt_segment *segment;
    uint32_t count = 0;

    set_length(length);
    assert_int_equal(tt_segments_init(&large, segment_bytes), TUTTI_OK);
    assert_int_equal(tt_cast_source_open(&source, path), TUTTI_OK);
    assert_int_equal(tt_cast_source_start(&source, &large), TUTTI_OK);
    while ((segment = tt_segments_take(&large)) != NULL) {
        assert_true(segment->bytes > 0);
        if (count < 10) {
            firsts[count++] = segment->bytes;
        }
        memmove(lasts, lasts + 1, 7 * sizeof(*lasts));
        lasts[7] = segment->bytes;
        tt_segments_release(&large);
    }
    tt_cast_source_stop(&source);
    assert_int_equal(source.report.bytes, length);
    tt_segments_fini(&large);
}

static void the_first_and_last_segments_of_a_long_file_are_smaller(void **state)
{
    enum { KIB = 1 << 10, MIB = 1 << 20 };
    const uint64_t shorts[10] = {MIB, MIB, MIB, MIB, MIB, MIB, MIB, MIB, 4 * MIB, 4 * MIB};
    uint64_t firsts[10] = {0}, lasts[8] = {0};
    (void)state;
    read_in_segments(4 * MIB, 64 * MIB, firsts, lasts);
    assert_memory_equal(firsts, shorts, sizeof(shorts));
    const uint64_t halves[8] = {4 * MIB, 4 * MIB, 4 * MIB, 4 * MIB, 2 * MIB, MIB, 512 * KIB, 512 * KIB};
    assert_memory_equal(lasts, halves, sizeof(halves));
    tt_cast_source_close(&source);

    read_in_segments(4 * MIB, 68 * MIB + 3, firsts, lasts);
    const uint64_t and_a_bit[8] = {4 * MIB, 4 * MIB, 4 * MIB, 4 * MIB, 4 * MIB, 4 * MIB, 4 * MIB, 3};
    assert_memory_equal(lasts, and_a_bit, sizeof(and_a_bit));
    tt_cast_source_close(&source);

    read_in_segments(4 * MIB, 64 * MIB - 1, firsts, lasts); /* is not long */
    const uint64_t whole[8] = {4 * MIB, 4 * MIB, 4 * MIB, 4 * MIB, 4 * MIB, 4 * MIB, 4 * MIB, 4 * MIB - 1};
    assert_memory_equal(lasts, whole, sizeof(whole));
    assert_int_equal(firsts[0], 4 * MIB);
    tt_cast_source_close(&source);

    read_in_segments(64 * KIB, 4 * MIB, firsts, lasts); /* is long, and has none that are longer than its own */
    assert_int_equal(firsts[0], 64 * KIB);
}

static void file_that_has_less_than_it_says_is_read_as_it_is(void **state)
{
    (void)state;
    if (access("/sys/kernel/uevent_seqnum", R_OK) != 0) {
        TT_SKIP("there is no /sys here");
    }
    assert_int_equal(tt_cast_source_open(&source, "/sys/kernel/uevent_seqnum"), TUTTI_OK);
    assert_int_equal(tt_cast_source_start(&source, &segments), TUTTI_OK);
    while (tt_segments_take(&segments) != NULL) {
        tt_segments_release(&segments);
    }
    tt_cast_source_stop(&source);
    assert_false(source.report.failed);
    assert_true(source.report.bytes > 0 && source.report.bytes < source.size_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(file_that_becomes_shorter_is_a_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(file_that_grows_is_read_to_its_new_end, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first_and_last_segments_of_a_long_file_are_smaller, setup, teardown),
        cmocka_unit_test_setup_teardown(file_that_has_less_than_it_says_is_read_as_it_is, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
