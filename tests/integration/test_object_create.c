/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What can go wrong when an object group is created: terms that differ, a member that never comes, arguments that
 * cannot be. Each is an error with a sentence, and the ranks go on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "job.h"
#include "patience.h"
#include "tutti/object.h"

enum { LIMIT_S = 60, REST_US = 50000 /* long enough for a progress thread that has nothing to do to go to sleep */ };

/* When a member comes: while the group fails at the others, or when it has and they are in the library again, or not.
 */
enum late { AT_ONCE, AFTER_A_BARRIER, AFTER_A_REST, LATE_COUNT };

static const char *const quiet[] = {"LOG", "none", NULL};

static tutti_status incoming(void *argument, uint64_t sequence, uint64_t size_bytes, void **memory)
{
    (void)argument, (void)sequence, (void)size_bytes, (void)memory;
    return TUTTI_ERR_NO_MEMORY;
}

static void expect(struct job_rank *rank, tutti_group *group, const tutti_object_options *options, tutti_status status,
                   const char *words)
{
    tutti_object_group *objects;
    tutti_status said = tutti_object_group_create(group, options, &objects);

    JOB_CHECK(rank, said == status && strstr(tutti_last_error(), words) != NULL, "%s: %s", tutti_status_name(said),
              tutti_last_error());
}

static void mismatch_body(struct job_rank *rank)
{
    tutti_object_options options = {.struct_size = sizeof options, .incoming = incoming, .block_bytes = 8192};
    tutti_object_group *objects;
    tutti_context *context;
    tutti_group *group;

    job_group(rank, quiet, &context, &group);
    options.block_bytes = rank->rank == 1 ? 4096 : 8192;
    expect(rank, group, &options, TUTTI_ERR_MISMATCH, "members disagree about an object group");
    job_barrier(rank);
    options.block_bytes = 8192; /* the next one of the same members is another one */
    JOB_OK(rank, tutti_object_group_create(group, &options, &objects));
    JOB_OK(rank, tutti_object_group_close(objects));
    JOB_CHECK(rank, tutti_object_group_close(objects) == TUTTI_ERR_INVALID_ARGUMENT, "closed twice");
    JOB_OK(rank, tutti_object_group_destroy(objects));
    job_end(context, group);
}

static void members_with_other_options_are_told(void **state)
{
    (void)state;
    assert_int_equal(job_run(2, mismatch_body, NULL, LIMIT_S), 0);
}

/* A barrier by frames from every other rank: whatever they have said before has been taken, or dropped. */
static void hear_all(struct job_rank *rank, tutti_group *group)
{
    tutti_request *request;

    JOB_OK(rank, tutti_allgather_init(group, TUTTI_IN_PLACE, NULL, 0, NULL, &request));
    JOB_OK(rank, tutti_post(request));
    JOB_OK(rank, tutti_wait(request));
    JOB_OK(rank, tutti_finalize(request));
}

/* Rank 1 is the odd one; rank 2 comes late. */
static void late_body(struct job_rank *rank)
{
    static const char *const by_frames[] = {"LOG", "none", "ALGORITHM", "ring", NULL};
    enum late late = *(enum late *)rank->argument;
    tutti_object_options options = {.struct_size = sizeof options, .incoming = incoming};
    tutti_context *context;
    tutti_group *group;
    double start;

    options.block_bytes = rank->rank == 1 ? 4096 : 8192;
    job_group(rank, by_frames, &context, &group);
    hear_all(rank, group);
    if (rank->rank == 2 && late == AFTER_A_BARRIER) {
        hear_all(rank, group);
    }
    if (late == AFTER_A_REST) {
        usleep(REST_US);
    }
    if (rank->rank == 2) {
        usleep(late == AT_ONCE ? 1000 : REST_US);
    }
    start = job_now_s();
    expect(rank, group, &options, TUTTI_ERR_MISMATCH, "rank 1 has");
    JOB_CHECK(rank, job_now_s() - start < 5 * TT_PATIENCE, "took %.1f s", job_now_s() - start);
    if (rank->rank != 2 && late == AFTER_A_BARRIER) {
        hear_all(rank, group);
    }
    job_barrier(rank);
    job_end(context, group);
}

static void a_member_that_comes_late_to_other_options_is_told_whose_they_are(void **state)
{
    (void)state;
    for (enum late late = AT_ONCE; late < LATE_COUNT; late++) {
        assert_int_equal(job_run(3, late_body, &late, LIMIT_S), 0);
    }
}

/* Rank 1 broadcasts instead. */
static void absence_body(struct job_rank *rank)
{
    const tutti_request_options pipeline = {.struct_size = sizeof pipeline,
                                            .algorithm = TUTTI_ALGORITHM_BINOMIAL_PIPELINE};
    tutti_object_options options = {.struct_size = sizeof options, .incoming = incoming, .timeout_ns = 1000000000};
    tutti_context *context;
    tutti_request *request;
    tutti_group *group;
    char byte = 0;

    job_group(rank, quiet, &context, &group);
    job_barrier(rank); /* or else who comes later than that is missing too */
    if (rank->rank != 1) {
        expect(rank, group, &options, TUTTI_ERR_TIMED_OUT, "missing rank 1");
        JOB_CHECK(rank, strstr(tutti_last_error(), "which has joined") == NULL, "%s", tutti_last_error());
    } else {
        JOB_OK(rank, tutti_broadcast_init(group, TUTTI_IN_PLACE, &byte, 1, 1, &pipeline, &request));
        JOB_OK(rank, tutti_finalize(request));
    }
    job_barrier(rank);
    job_end(context, group);
}

static void a_member_that_does_not_come_is_named(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, absence_body, NULL, LIMIT_S), 0);
}

/* Rank 1 calls once with the members in another order: from then on it counts otherwise than the others. */
static void order_body(struct job_rank *rank)
{
    static const uint32_t odd[] = {1, 0, 2};
    tutti_object_options options = {.struct_size = sizeof options, .incoming = incoming, .timeout_ns = 1000000000};
    tutti_context *context;
    tutti_group *group;

    job_group(rank, quiet, &context, &group);
    if (rank->rank == 1) {
        options.members = odd;
        options.member_count = 3;
    }
    job_barrier(rank);
    expect(rank, group, &options, TUTTI_ERR_TIMED_OUT,
           rank->rank == 1 ? "missing rank 0, which has joined an object group of other members"
                           : "missing rank 1, which has joined an object group of other members");
    options.members = NULL;
    options.member_count = 0;
    job_barrier(rank);
    expect(rank, group, &options, TUTTI_ERR_TIMED_OUT,
           rank->rank == 1 ? "the other members have waited for this rank, 1, in vain"
                           : "missing rank 1, which has joined object group 1 of these members; here it is number 2");
    job_barrier(rank);
    job_end(context, group);
}

static void a_member_that_counts_other_groups_is_told_apart_from_one_that_is_missing(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, order_body, NULL, LIMIT_S), 0);
}

/* A call that fails at one member, before it says anything, and by its absence at the others; then they try again. */
static void retry_body(struct job_rank *rank)
{
    tutti_object_options options = {.struct_size = sizeof options, .incoming = incoming, .timeout_ns = 1000000000};
    tutti_object_group *objects;
    tutti_context *context;
    tutti_group *group;

    job_group(rank, quiet, &context, &group);
    job_barrier(rank);
    if (rank->rank == 1) {
        options.credit = 3;
        expect(rank, group, &options, TUTTI_ERR_INVALID_ARGUMENT, "credit");
    } else {
        expect(rank, group, &options, TUTTI_ERR_TIMED_OUT, "missing rank 1");
    }
    job_barrier(rank);
    options.credit = 0;
    options.timeout_ns = 0;
    JOB_OK(rank, tutti_object_group_create(group, &options, &objects));
    JOB_OK(rank, tutti_object_group_close(objects));
    JOB_OK(rank, tutti_object_group_destroy(objects));
    job_end(context, group);
}

static void a_call_that_fails_at_one_member_may_be_tried_again(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, retry_body, NULL, LIMIT_S), 0);
}

static void arguments_body(struct job_rank *rank)
{
    static const uint32_t twice[] = {0, 0}, unknown[] = {0, 1}, racks[] = {2};
    const tutti_object_options fine = {.struct_size = sizeof fine, .incoming = incoming};
    tutti_object_options options;
    tutti_object_group *objects;
    tutti_context *context;
    tutti_group *group;
    tutti_status invalid = TUTTI_ERR_INVALID_ARGUMENT;

    job_group(rank, quiet, &context, &group);
#define WITH(words, ...)                                                                                               \
    options = fine;                                                                                                    \
    __VA_ARGS__;                                                                                                       \
    expect(rank, group, &options, invalid, words)
    WITH("struct_size", options.struct_size = 1);
    WITH("algorithm 6", options.algorithm = (tutti_object_algorithm)6);
    WITH("blocks of 4095 bytes", options.block_bytes = 4095);
    WITH("blocks of 16777217 bytes", options.block_bytes = 16777217);
    WITH("credit of 3", options.credit = 3);
    WITH("65 registrations", options.registrations = 65);
    WITH("2 members in a group of 1", options.members = twice; options.member_count = 2);
    WITH("rank 1 of a group of 1", options.members = unknown + 1; options.member_count = 1);
    WITH("NULL for 1 members", options.member_count = 1);
    WITH("1 racks, which only the hybrid has", options.rack_sizes = racks; options.rack_count = 1);
    WITH("NULL for 0 racks", options.algorithm = TUTTI_OBJECT_HYBRID);
    WITH("racks of at least 2 members", options.algorithm = TUTTI_OBJECT_HYBRID; options.rack_sizes = racks;
         options.rack_count = 1);
#undef WITH
    JOB_OK(rank, tutti_object_group_create(group, &fine, &objects));
    JOB_CHECK(rank, tutti_object_send(objects, NULL, 1) == invalid, "%s", tutti_last_error());
    JOB_OK(rank, tutti_object_group_close(objects));
    JOB_CHECK(rank, tutti_object_send(objects, &fine, 1) == invalid, "%s", tutti_last_error());
    JOB_OK(rank, tutti_object_group_destroy(objects));
    JOB_OK(rank, tutti_object_group_destroy(NULL));
    job_end(context, group);
}

static void what_cannot_be_is_refused_with_its_value(void **state)
{
    (void)state;
    assert_int_equal(job_run(1, arguments_body, NULL, LIMIT_S), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_with_other_options_are_told),
        cmocka_unit_test(a_member_that_comes_late_to_other_options_is_told_whose_they_are),
        cmocka_unit_test(a_member_that_does_not_come_is_named),
        cmocka_unit_test(a_member_that_counts_other_groups_is_told_apart_from_one_that_is_missing),
        cmocka_unit_test(a_call_that_fails_at_one_member_may_be_tried_again),
        cmocka_unit_test(what_cannot_be_is_refused_with_its_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
