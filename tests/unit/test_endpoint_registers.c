/* SPDX-License-Identifier: BSD-3-Clause */
/* Which doorbell register the model of the driver gives to which queue pair. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "endpoint/assignment.h"

static struct tt_registers fresh(enum tt_endpoint_driver driver, uint32_t total, uint32_t low_latency)
{
    struct tt_registers registers;

    tt_registers_init(&registers, driver, total, low_latency);
    return registers;
}

static struct tt_register take(struct tt_registers *registers)
{
    struct tt_register taken;

    tt_registers_take(registers, &taken);
    return taken;
}

static struct tt_register take_domain(struct tt_registers *registers)
{
    struct tt_register taken;

    tt_registers_take_domain(registers, &taken);
    return taken;
}

/* The next `count` queue pairs get these uUARs. */
static void expect(struct tt_registers *registers, const uint32_t *uuars, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct tt_register taken = take(registers);

        if (taken.uuar != uuars[i]) {
            fail_msg("queue pair %u got uUAR %u, not %u", i, taken.uuar, uuars[i]);
        }
        assert_int_equal(taken.page, uuars[i] / 2);
    }
}

static void legacy_gives_12_to_15_then_goes_round_1_to_11(void **state)
{
    static const uint32_t uuars[] = {12, 13, 14, 15, 1, 2, 3, 4, 5, 6, 7,  8,  9, 10,
                                     11, 1,  2,  3,  4, 5, 6, 7, 8, 9, 10, 11, 1};
    struct tt_registers registers = fresh(TT_ENDPOINT_LEGACY, 16, 4);

    (void)state;
    expect(&registers, uuars, sizeof(uuars) / sizeof(uuars[0]));
    assert_int_equal(registers.page_count, 8);
}

static void legacy_gives_the_5th_and_the_16th_the_same(void **state)
{
    struct tt_registers registers = fresh(TT_ENDPOINT_LEGACY, 16, 4);
    uint32_t uuars[17];

    (void)state;
    for (uint32_t i = 1; i <= 16; i++) {
        struct tt_register taken = take(&registers);

        uuars[i] = taken.uuar;
        assert_int_equal(taken.load, i == 16 ? 2 : 1);
        assert_int_equal(taken.class, i <= 4 ? TT_REGISTER_LOW_LATENCY : TT_REGISTER_MEDIUM_LATENCY);
        assert_int_equal(taken.locked, i > 4);
    }
    assert_int_equal(uuars[5], 1);
    assert_int_equal(uuars[16], 1);
}

/* Figure 16: six static uUARs, two of them low-latency, seven queue pairs and three thread domains. */
static void figure_16_of_the_paper_comes_out(void **state)
{
    static const uint32_t uuars[] = {4, 5, 1, 2, 3, 1, 2};
    struct tt_registers registers = fresh(TT_ENDPOINT_LEGACY, 6, 2);

    (void)state;
    expect(&registers, uuars, 7);
    assert_int_equal(registers.page_count, 3);
    assert_int_equal(take_domain(&registers).page, 3);
    assert_int_equal(take_domain(&registers).page, 3);
    assert_int_equal(take_domain(&registers).page, 4);
    assert_int_equal(registers.page_count, 5);
}

static void legacy_uses_uuar_0_only_when_all_others_are_low_latency(void **state)
{
    struct tt_registers registers = fresh(TT_ENDPOINT_LEGACY, 16, 15);

    (void)state;
    for (uint32_t i = 1; i <= 15; i++) {
        assert_int_equal(take(&registers).uuar, i);
    }
    for (uint32_t i = 1; i <= 3; i++) {
        struct tt_register taken = take(&registers);

        assert_int_equal(taken.uuar, 0);
        assert_int_equal(taken.class, TT_REGISTER_HIGH_LATENCY);
        assert_int_equal(taken.load, i);
        assert_false(taken.locked);
    }
    registers = fresh(TT_ENDPOINT_LEGACY, 16, 14);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_not_equal(take(&registers).uuar, 0);
    }
}

static void there_are_never_more_than_12_that_are_not_low_latency(void **state)
{
    (void)state;
    assert_int_equal(tt_registers_low_latency(16, 4), 4);
    assert_int_equal(tt_registers_low_latency(16, 0), 4);
    assert_int_equal(tt_registers_low_latency(16, 9), 9);
    assert_int_equal(tt_registers_low_latency(12, 0), 0);
    assert_int_equal(tt_registers_low_latency(6, 2), 2);
    assert_int_equal(tt_registers_low_latency(512, 4), 500);
}

static void smallest_and_largest_sets_work(void **state)
{
    struct tt_registers registers = fresh(TT_ENDPOINT_LEGACY, 2, 0);

    (void)state;
    assert_int_equal(take(&registers).uuar, 1);
    assert_int_equal(take(&registers).uuar, 1);
    registers = fresh(TT_ENDPOINT_LEGACY, 2, 1);
    assert_int_equal(take(&registers).uuar, 1);
    assert_int_equal(take(&registers).uuar, 0);
    for (unsigned driver = 0; driver < TT_ENDPOINT_DRIVER_COUNT; driver++) {
        registers = fresh((enum tt_endpoint_driver)driver, TT_UUARS_MAX, TT_UUARS_MAX - 1);
        for (uint32_t i = 0; i < 2 * TT_UUARS_MAX; i++) {
            assert_in_range(take(&registers).uuar, 0, TT_UUARS_MAX + 3);
        }
    }
}

static void current_takes_pages_as_queue_pairs_come(void **state)
{
    /* Pages 1 and 2 for one queue pair each register; then a page a queue pair, always the least loaded. */
    static const uint32_t uuars[] = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 6, 7, 8};
    static const uint32_t pages[] = {2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
    struct tt_registers registers = fresh(TT_ENDPOINT_CURRENT, 16, 4);

    (void)state;
    assert_int_equal(registers.page_count, 1);
    for (uint32_t i = 0; i < sizeof(uuars) / sizeof(uuars[0]); i++) {
        struct tt_register taken = take(&registers);

        assert_int_equal(taken.uuar, uuars[i]);
        assert_int_equal(registers.page_count, pages[i]);
        assert_int_equal(taken.class, i < 4 ? TT_REGISTER_DEDICATED : TT_REGISTER_SHARED);
        assert_int_equal(taken.locked, i >= 4);
        assert_int_equal(taken.load, i < 16 ? 1 : 2);
    }
}

static void current_rounds_dedicated_registers_up_to_whole_pages(void **state)
{
    struct tt_registers registers = fresh(TT_ENDPOINT_CURRENT, 6, 3);

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(take(&registers).class, TT_REGISTER_DEDICATED);
    }
    assert_int_equal(take(&registers).class, TT_REGISTER_SHARED);
}

static void domains_take_the_next_register_and_pairs_share_a_page(void **state)
{
    (void)state;
    for (unsigned driver = 0; driver < TT_ENDPOINT_DRIVER_COUNT; driver++) {
        struct tt_registers registers = fresh((enum tt_endpoint_driver)driver, 16, 4);
        uint32_t base = registers.page_count;

        for (uint32_t i = 0; i < 9; i++) {
            struct tt_register taken = take_domain(&registers);

            assert_int_equal(taken.uuar, 2 * base + i);
            assert_int_equal(taken.page, base + i / 2);
            assert_int_equal(taken.class, TT_REGISTER_DOMAIN);
            assert_false(taken.locked);
        }
        assert_int_equal(registers.page_count, base + 5);
        assert_int_equal(registers.domain_pages, 5);
    }
}

static void domains_and_other_queue_pairs_never_meet_on_a_page(void **state)
{
    (void)state;
    for (unsigned driver = 0; driver < TT_ENDPOINT_DRIVER_COUNT; driver++) {
        struct tt_registers registers = fresh((enum tt_endpoint_driver)driver, 16, 4);
        unsigned char kinds[128] = {0}; /* by page: bit 0 without, bit 1 with a domain */

        for (uint32_t i = 0; i < 40; i++) {
            kinds[take(&registers).page] |= 1;
            kinds[take_domain(&registers).page] |= 2;
        }
        for (uint32_t page = 0; page < registers.page_count; page++) {
            assert_int_not_equal(kinds[page], 3);
        }
    }
}

static struct tt_endpoint_assignment walk(enum tt_endpoint_category category, enum tt_endpoint_driver driver,
                                          uint32_t threads, uint32_t queue_pairs)
{
    struct tt_endpoint_terms terms = {category, driver, threads, queue_pairs, 16, 4};
    struct tt_endpoint_assignment assignment;

    tt_endpoint_assignment_init(&assignment, &terms);
    return assignment;
}

static void whole_page_domains_are_alone_on_their_pages(void **state)
{
    struct tt_endpoint_assignment walks[] = {walk(TT_ENDPOINT_2XDYNAMIC, TT_ENDPOINT_CURRENT, 8, 1),
                                             walk(TT_ENDPOINT_DYNAMIC, TT_ENDPOINT_LEGACY, 8, 1)};
    const uint32_t counts[] = {16, 8};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct tt_endpoint_place place;
        uint32_t last_page = 0, count = 0;

        while (tt_endpoint_assignment_next(&walks[i], &place)) {
            assert_int_equal(place.queue_pair, count);
            assert_true(place.place.page > last_page);
            assert_int_equal(place.place.uuar % 2, 0);
            assert_int_equal(place.idle, i == 0 && count % 2 == 1);
            last_page = place.place.page;
            count++;
        }
        assert_int_equal(count, counts[i]);
    }
}

static void each_threads_context_begins_anew(void **state)
{
    struct tt_endpoint_assignment assignment = walk(TT_ENDPOINT_MPI_EVERYWHERE, TT_ENDPOINT_LEGACY, 3, 2);
    struct tt_endpoint_place place;

    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(tt_endpoint_assignment_next(&assignment, &place));
        assert_int_equal(place.queue_pair, i);
        assert_int_equal(place.thread, i / 2);
        assert_int_equal(place.context, i / 2);
        assert_int_equal(place.place.uuar, 12 + i % 2);
        assert_int_equal(place.context_pages, 8);
    }
    assert_false(tt_endpoint_assignment_next(&assignment, &place));
    assert_false(tt_endpoint_assignment_next(&assignment, &place));
}

static void mpi_threads_gives_its_queue_pairs_to_all(void **state)
{
    struct tt_endpoint_assignment assignment = walk(TT_ENDPOINT_MPI_THREADS, TT_ENDPOINT_LEGACY, 16, 2);
    struct tt_endpoint_place place;

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(tt_endpoint_assignment_next(&assignment, &place));
        assert_int_equal(place.thread, TT_ENDPOINT_ALL_THREADS);
        assert_int_equal(place.place.uuar, 12 + i);
        assert_int_equal(place.shares, TT_ENDPOINT_SHARES_QUEUE_PAIR);
    }
    assert_false(tt_endpoint_assignment_next(&assignment, &place));
}

/* Section VI: the 5th and the 16th are at level 3, the others at level 2. */
static void static_with_16_threads_mixes_levels_2_and_3(void **state)
{
    struct tt_endpoint_assignment assignment = walk(TT_ENDPOINT_STATIC, TT_ENDPOINT_LEGACY, 16, 1);
    struct tt_endpoint_place place;
    uint32_t levels[4] = {0};

    (void)state;
    while (tt_endpoint_assignment_next(&assignment, &place)) {
        levels[tt_endpoint_sharing_level(place.shares)]++;
        assert_int_equal(tt_endpoint_sharing_level(place.shares) == 3, place.thread == 15);
    }
    assert_int_equal(levels[3], 1);
    /* On each of seven pages the second comer finds the first; uUAR1 is alone on its page until then. */
    assert_int_equal(levels[2], 7);
    assert_int_equal(levels[1], 8);
}

static void sharing_has_the_papers_numbers(void **state)
{
    (void)state;
    assert_int_equal(tt_endpoint_sharing_level(TT_ENDPOINT_SHARES_NOTHING), 1);
    assert_int_equal(tt_endpoint_sharing_level(TT_ENDPOINT_SHARES_CONTEXT), 1);
    assert_int_equal(tt_endpoint_sharing_level(TT_ENDPOINT_SHARES_PAGE), 2);
    assert_int_equal(tt_endpoint_sharing_level(TT_ENDPOINT_SHARES_UUAR), 3);
    assert_int_equal(tt_endpoint_sharing_level(TT_ENDPOINT_SHARES_QUEUE_PAIR), 4);
    assert_string_equal(tt_endpoint_sharing_word(TT_ENDPOINT_SHARES_UUAR), "uUAR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legacy_gives_12_to_15_then_goes_round_1_to_11),
        cmocka_unit_test(legacy_gives_the_5th_and_the_16th_the_same),
        cmocka_unit_test(figure_16_of_the_paper_comes_out),
        cmocka_unit_test(legacy_uses_uuar_0_only_when_all_others_are_low_latency),
        cmocka_unit_test(there_are_never_more_than_12_that_are_not_low_latency),
        cmocka_unit_test(smallest_and_largest_sets_work),
        cmocka_unit_test(current_takes_pages_as_queue_pairs_come),
        cmocka_unit_test(current_rounds_dedicated_registers_up_to_whole_pages),
        cmocka_unit_test(domains_take_the_next_register_and_pairs_share_a_page),
        cmocka_unit_test(domains_and_other_queue_pairs_never_meet_on_a_page),
        cmocka_unit_test(whole_page_domains_are_alone_on_their_pages),
        cmocka_unit_test(each_threads_context_begins_anew),
        cmocka_unit_test(mpi_threads_gives_its_queue_pairs_to_all),
        cmocka_unit_test(static_with_16_threads_mixes_levels_2_and_3),
        cmocka_unit_test(sharing_has_the_papers_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
