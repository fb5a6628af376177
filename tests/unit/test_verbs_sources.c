/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fabric/verbs/sources.h"

static struct tt_verbs_sources *create(uint32_t count)
{
    void *memory = malloc(tt_verbs_sources_bytes(count));
    assert_non_null(memory);
    return tt_verbs_sources_init(memory, count);
}

static void empty_table_knows_nobody(void **state)
{
    const uint64_t gid[2] = {0, 0};
    struct tt_verbs_sources *sources = create(0);
    (void)state;
    assert_int_equal(tt_verbs_sources_find(sources, gid, 0), TT_VERBS_NOBODY);
    assert_int_equal(tt_verbs_sources_find(sources, gid, UINT32_MAX), TT_VERBS_NOBODY);
    free(sources);
}

static void queue_pair_number_and_both_words_of_the_gid_count(void **state)
{
    struct tt_verbs_sources *sources = create(1);
    const struct tt_verbs_source member = {{7, 9}, 17, 0};
    uint32_t other;
    (void)state;
    assert_true(tt_verbs_sources_add(sources, &member, &other));
    assert_int_equal(tt_verbs_sources_find(sources, (uint64_t[]){7, 9}, 17), 0);
    assert_int_equal(tt_verbs_sources_find(sources, (uint64_t[]){7, 9}, 18), TT_VERBS_NOBODY);
    assert_int_equal(tt_verbs_sources_find(sources, (uint64_t[]){7, 8}, 17), TT_VERBS_NOBODY);
    assert_int_equal(tt_verbs_sources_find(sources, (uint64_t[]){6, 9}, 17), TT_VERBS_NOBODY);
    assert_int_equal(tt_verbs_sources_find(sources, (uint64_t[]){9, 7}, 17), TT_VERBS_NOBODY);
    free(sources);
}

static void second_member_with_the_same_queue_pair_is_refused_and_the_first_named(void **state)
{
    struct tt_verbs_sources *sources = create(3);
    const struct tt_verbs_source first = {{1, 2}, 3, 40}, second = {{1, 2}, 3, 41};
    uint32_t other = 99;
    (void)state;
    assert_true(tt_verbs_sources_add(sources, &first, &other));
    assert_int_equal(other, 99);
    assert_false(tt_verbs_sources_add(sources, &second, &other));
    assert_int_equal(other, 40);
    assert_int_equal(tt_verbs_sources_find(sources, (uint64_t[]){1, 2}, 3), 40);
    free(sources);
}

/* Queue pairs as they come: counted up on each of a few hosts. */
static void every_member_of_a_full_table_is_found(void **state)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 63, 64, 65, 65535};
    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct tt_verbs_sources *sources = create(counts[i]);
        uint32_t other;
        for (uint32_t rank = 0; rank < counts[i]; rank++) {
            const struct tt_verbs_source member = {
                {0, UINT64_C(0x0A00FFFF0000) + ((uint64_t)(rank % 48) << 56)}, 0x11 + rank / 48, rank};
            assert_true(tt_verbs_sources_add(sources, &member, &other));
        }
        for (uint32_t rank = 0; rank < counts[i]; rank++) {
            const uint64_t gid[2] = {0, UINT64_C(0x0A00FFFF0000) + ((uint64_t)(rank % 48) << 56)};
            assert_int_equal(tt_verbs_sources_find(sources, gid, 0x11 + rank / 48), rank);
            assert_int_equal(tt_verbs_sources_find(sources, gid, 0x11 + counts[i]), TT_VERBS_NOBODY);
        }
        free(sources);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_table_knows_nobody),
        cmocka_unit_test(queue_pair_number_and_both_words_of_the_gid_count),
        cmocka_unit_test(second_member_with_the_same_queue_pair_is_refused_and_the_first_named),
        cmocka_unit_test(every_member_of_a_full_table_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
