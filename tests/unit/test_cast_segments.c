/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments between two threads: order, what is known ahead, and the ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cast_segments.h"

enum { BYTES = 4096, MANY = 2000 };

static struct tt_segments segments;

static int setup(void **state)
{
    (void)state;
    return tt_segments_init(&segments, BYTES) == TUTTI_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tt_segments_fini(&segments);
    return 0;
}

static void publish(uint64_t bytes)
{
    struct tt_segment *segment = tt_segments_acquire(&segments, 0);
    assert_non_null(segment);
    segment->bytes = bytes;
    tt_segments_publish(&segments);
}

static void segments_come_in_order_and_their_buffers_in_turn(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 3 * TT_SEGMENT_COUNT; number++) {
        publish(number);
        struct tt_segment *segment = tt_segments_take(&segments);
        assert_true(segment->bytes == number);
        assert_int_equal(tt_segment_index(&segments, segment), number % TT_SEGMENT_COUNT);
        memset(tt_segment_data(segment), 1, BYTES);
        tt_segments_release(&segments);
    }
}

static void no_more_segments_are_given_than_there_are(void **state)
{
    (void)state;
    for (int i = 0; i < TT_SEGMENT_COUNT; i++) {
        publish(1);
    }
    assert_null(tt_segments_acquire(&segments, 0));
    tt_segments_take(&segments);
    assert_null(tt_segments_acquire(&segments, 0)); /* in use */
    tt_segments_release(&segments);
    assert_non_null(tt_segments_acquire(&segments, 0));
}

static void fewer_are_given_before_the_first_one_is_taken(void **state)
{
    (void)state;
    tt_segments_limit_first(&segments, 3);
    for (int i = 0; i < 3; i++) {
        publish(1);
    }
    assert_null(tt_segments_acquire(&segments, 0));
    tt_segments_take(&segments);
    for (int i = 3; i < TT_SEGMENT_COUNT; i++) {
        publish(1);
    }
    assert_null(tt_segments_acquire(&segments, 0));
}

static void what_comes_later_is_seen_when_it_is_known(void **state)
{
    uint64_t bytes = 0;
    (void)state;
    assert_int_equal(tt_segments_peek(&segments, 0, false, &bytes), TT_SEGMENT_NOT_YET);
    publish(10);
    publish(11);
    assert_int_equal(tt_segments_peek(&segments, 1, true, &bytes), TT_SEGMENT_THERE);
    assert_true(bytes == 11);
    assert_int_equal(tt_segments_peek(&segments, 2, false, &bytes), TT_SEGMENT_NOT_YET);
    tt_segments_take(&segments);
    assert_int_equal(tt_segments_peek(&segments, 0, true, &bytes), TT_SEGMENT_THERE);
    assert_true(bytes == 11);
    tt_segments_end(&segments);
    assert_int_equal(tt_segments_peek(&segments, 1, true, &bytes), TT_SEGMENT_NONE);
    assert_true(tt_segments_take(&segments)->bytes == 11);
    assert_null(tt_segments_take(&segments));
}

/* How many pages of a segment's data the process has. */
static uint32_t resident_pages(const struct tt_segment *segment, uint64_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)tt_segment_data(segment) + page - 1) / page * page;
    size_t pages = ((uintptr_t)tt_segment_data(segment) + bytes - begin) / page;
    unsigned char there[64] = {0};
    uint32_t count = 0;
    assert_true(pages > 0 && pages <= sizeof(there));
    assert_int_equal(mincore((void *)begin, pages * page, there), 0);
    for (size_t i = 0; i < pages; i++) {
        count += there[i] & 1;
    }
    return count;
}

static void memory_goes_back_when_there_is_enough(void **state)
{
    enum { LARGE = 64 << 10, UNDER_WAY = 5 };
    struct tt_segments large;
    struct tt_segment *segments_taken[TT_SEGMENT_COUNT + 5];
    (void)state;
    assert_int_equal(tt_segments_init(&large, LARGE), TUTTI_OK);
    for (int number = 0; number < TT_SEGMENT_COUNT + 5; number++) {
        struct tt_segment *segment = tt_segments_acquire(&large, 0);
        assert_non_null(segment);
        memset(tt_segment_data(segment), number + 1, LARGE);
        tt_segments_publish(&large);
        segments_taken[number] = tt_segments_take(&large);
        if (number >= UNDER_WAY) {
            tt_segments_release(&large);
        }
        assert_true(resident_pages(segment, LARGE) > 10);
    }
    tt_segments_enough(&large);
    for (int number = TT_SEGMENT_COUNT + 5 - UNDER_WAY; number < TT_SEGMENT_COUNT + 5; number++) {
        /* What is in use is as it was. */
        assert_int_equal(tt_segment_data(segments_taken[number])[LARGE - 1], number + 1);
        assert_true(resident_pages(segments_taken[number], LARGE) > 10);
        tt_segments_release(&large);
        assert_int_equal(resident_pages(segments_taken[number], LARGE), 0);
    }
    for (int i = 0; i < TT_SEGMENT_COUNT; i++) {
        assert_int_equal(resident_pages(&large.segments[i], LARGE), 0);
    }
    tt_segments_fini(&large);
}

/* Publishes MANY segments, each with its number, as fast as they come free. */
static void *produce(void *unused)
{
    (void)unused;
    for (uint64_t number = 0; number < MANY; number++) {
        struct tt_segment *segment = tt_segments_acquire(&segments, TT_NEVER);
        if (segment == NULL) {
            return NULL;
        }
        memcpy(tt_segment_data(segment), &number, sizeof(number));
        segment->bytes = number;
        tt_segments_publish(&segments);
    }
    tt_segments_end(&segments);
    return NULL;
}

static void two_threads_lose_and_change_nothing(void **state)
{
    pthread_t thread;
    uint64_t expected = 0;
    (void)state;
    tt_segments_limit_first(&segments, 1);
    assert_int_equal(pthread_create(&thread, NULL, produce, NULL), 0);
    for (struct tt_segment *segment; (segment = tt_segments_take(&segments)) != NULL; expected++) {
        uint64_t number;
        memcpy(&number, tt_segment_data(segment), sizeof(number));
        assert_true(number == expected && segment->bytes == expected);
        tt_segments_release(&segments);
    }
    pthread_join(thread, NULL);
    assert_int_equal(expected, MANY);
}

static void who_waits_for_a_file_that_takes_nothing_gives_up(void **state)
{
    (void)state;
    for (int i = 0; i < TT_SEGMENT_COUNT; i++) {
        publish(1);
    }
    uint64_t begun_ns = tt_clock_now_ns();
    assert_null(tt_segments_acquire(&segments, 20 * TT_NS_PER_MS));
    assert_int_equal(tt_segments_wait_released(&segments, 20 * TT_NS_PER_MS), TT_SEGMENT_COUNT);
    assert_true(tt_clock_now_ns() - begun_ns >= 40 * TT_NS_PER_MS);
    for (int i = 0; i < TT_SEGMENT_COUNT; i++) {
        assert_int_equal(tt_segments_wait_released(&segments, 0), TT_SEGMENT_COUNT - i);
        tt_segments_take(&segments);
        tt_segments_release(&segments);
    }
    assert_int_equal(tt_segments_wait_released(&segments, 0), 0);
    assert_non_null(tt_segments_acquire(&segments, 20 * TT_NS_PER_MS));
}

static void a_cancel_ends_the_waiting_of_both(void **state)
{
    pthread_t thread;
    uint64_t bytes;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, produce, NULL), 0);
    assert_int_equal(tt_segments_peek(&segments, TT_SEGMENT_COUNT - 1, true, &bytes), TT_SEGMENT_THERE);
    tt_segments_cancel(&segments);
    pthread_join(thread, NULL); /* it waited for a free one */
    assert_null(tt_segments_take(&segments));
    assert_null(tt_segments_acquire(&segments, TT_NEVER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(segments_come_in_order_and_their_buffers_in_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(no_more_segments_are_given_than_there_are, setup, teardown),
        cmocka_unit_test_setup_teardown(fewer_are_given_before_the_first_one_is_taken, setup, teardown),
        cmocka_unit_test(memory_goes_back_when_there_is_enough),
        cmocka_unit_test_setup_teardown(what_comes_later_is_seen_when_it_is_known, setup, teardown),
        cmocka_unit_test_setup_teardown(two_threads_lose_and_change_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(who_waits_for_a_file_that_takes_nothing_gives_up, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cancel_ends_the_waiting_of_both, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
