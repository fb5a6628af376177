/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Object groups between real processes over loopback, through the public functions: every size by every algorithm,
 * groups with members in common at once, refusals, deaths, and what is wrong to ask for.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "job.h"
#include "patience.h"
#include "tutti/object.h"

enum { LIMIT_S = 60, MOST_OBJECTS = 64, BLOCK = 65536 };

/* A member's application: memory for each object, and what it has been told. */
struct user {
    struct job_rank *rank;
    uint32_t salt; /* of the contents: which group it is */
    bool is_sender;
    uint64_t refuse_at; /* the object that it refuses; UINT64_MAX: none */
    uint8_t *memory[MOST_OBJECTS];
    uint64_t sizes[MOST_OBJECTS];
    uint64_t asked, completed;
    uint32_t failures;
    tutti_status status;
    int failed_rank;
};

/* By rank. Of the library's own, those in the middle would be about somebody else; the last rank gives no memory. */
static const tutti_status refusals[] = {TUTTI_OK, TUTTI_ERR_NO_MEMORY, TUTTI_ERR_TIMED_OUT, TUTTI_ERR_MISMATCH,
                                        TUTTI_OK};

static tutti_status incoming(void *argument, uint64_t sequence, uint64_t size_bytes, void **memory)
{
    struct user *user = argument;

    JOB_CHECK(user->rank, !user->is_sender && sequence == user->asked && sequence < MOST_OBJECTS, "object %llu asked",
              (unsigned long long)sequence);
    user->asked++;
    if (sequence == user->refuse_at) {
        return refusals[user->rank->rank];
    }
    user->sizes[sequence] = size_bytes;
    user->memory[sequence] = malloc(size_bytes + 1);
    user->memory[sequence][size_bytes] = 0xA5;
    *memory = size_bytes > 0 ? user->memory[sequence] : NULL;
    return TUTTI_OK;
}

static void completion(void *argument, uint64_t sequence, void *memory, uint64_t size_bytes)
{
    struct user *user = argument;

    JOB_CHECK(user->rank, sequence == user->completed && size_bytes == user->sizes[sequence], "object %llu completes",
              (unsigned long long)sequence);
    JOB_CHECK(user->rank, memory == (size_bytes > 0 ? user->memory[sequence] : NULL), "memory of another");
    if (!user->is_sender) {
        JOB_CHECK(user->rank, job_check(memory, size_bytes, user->salt, (uint32_t)sequence), "object %llu",
                  (unsigned long long)sequence);
        JOB_CHECK(user->rank, user->memory[sequence][size_bytes] == 0xA5, "written behind the end");
    }
    free(user->memory[sequence]);
    user->memory[sequence] = NULL;
    user->completed++;
}

static void failure(void *argument, tutti_status status, int rank)
{
    struct user *user = argument;

    user->failures++;
    user->status = status;
    user->failed_rank = rank;
    for (uint32_t i = 0; i < MOST_OBJECTS; i++) {
        free(user->memory[i]);
        user->memory[i] = NULL;
    }
}

static void user_init(struct user *user, struct job_rank *rank, uint32_t salt, bool is_sender)
{
    *user = (struct user){.rank = rank, .salt = salt, .is_sender = is_sender, .refuse_at = UINT64_MAX};
}

static tutti_object_options options_for(struct user *user)
{
    return (tutti_object_options){.struct_size = sizeof(tutti_object_options),
                                  .argument = user,
                                  .incoming = incoming,
                                  .completion = completion,
                                  .failure = failure};
}

/* Sends objects of these sizes, waiting where the queue is full; ends early if the group has failed with `failing`. */
static void send_until(struct user *user, tutti_object_group *objects, const uint64_t *sizes, uint32_t count,
                       tutti_status failing)
{
    for (uint32_t i = 0; i < count; i++) {
        tutti_status status;

        user->sizes[i] = sizes[i];
        user->memory[i] = sizes[i] > 0 ? malloc(sizes[i]) : NULL;
        job_fill(user->memory[i], sizes[i], user->salt, i);
        while ((status = tutti_object_send(objects, user->memory[i], sizes[i])) == TUTTI_ERR_BUSY) {
            JOB_OK(user->rank, tutti_object_wait(objects, UINT64_MAX, NULL));
        }
        if (status != TUTTI_OK && status == failing) {
            free(user->memory[i]);
            user->memory[i] = NULL;
            return;
        }
        JOB_OK(user->rank, status);
    }
}

static void send_all(struct user *user, tutti_object_group *objects, const uint64_t *sizes, uint32_t count)
{
    send_until(user, objects, sizes, count, TUTTI_OK);
}

/* --- Every size --------------------------------------------------------------------------------------------------- */

struct shape {
    uint64_t block_bytes;
    const char *const *settings;
};

static void sizes_body(struct job_rank *rank)
{
    static const uint64_t sizes[] = {0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK, 13 * BLOCK + 7, 3, 0};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    static const uint32_t racks[][3] = {{1}, {1, 1}, {2, 1}, {2, 3}, {3, 3, 2}};
    const struct shape *shape = rank->argument;
    tutti_context *context;
    tutti_group *group;

    job_group(rank, shape->settings, &context, &group);
    for (tutti_object_algorithm algorithm = TUTTI_OBJECT_AUTO; algorithm <= TUTTI_OBJECT_HYBRID; algorithm++) {
        tutti_object_group *objects;
        struct user user;
        tutti_object_options options;

        user_init(&user, rank, (uint32_t)algorithm, rank->rank == 0);
        options = options_for(&user);
        options.algorithm = algorithm;
        options.block_bytes = shape->block_bytes;
        options.credit = 1 + algorithm % 2;
        if (algorithm == TUTTI_OBJECT_HYBRID) {
            options.rack_sizes = racks[rank->size <= 3 ? rank->size - 1 : rank->size == 5 ? 3 : 4];
            options.rack_count = rank->size == 1 ? 1 : rank->size <= 5 ? 2 : 3;
        }
        JOB_OK(rank, tutti_object_group_create(group, &options, &objects));
        if (rank->rank == 0) {
            send_all(&user, objects, sizes, COUNT);
        }
        JOB_OK(rank, tutti_object_group_close(objects));
        JOB_CHECK(rank, user.completed == COUNT, "%llu of %d objects", (unsigned long long)user.completed, COUNT);
        JOB_CHECK(rank, user.failures == 0 && tutti_object_group_failed_rank(objects) == -1, "a failure");
        JOB_OK(rank, tutti_object_group_destroy(objects));
    }
    job_end(context, group);
}

static void every_size_arrives_by_every_algorithm(void **state)
{
    static const uint32_t ranks[] = {1, 2, 3, 5, 8};
    struct shape shape = {.block_bytes = BLOCK};

    (void)state;
    for (uint32_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        assert_int_equal(job_run(ranks[i], sizes_body, &shape, LIMIT_S), 0);
    }
}

static void block_sizes_follow_from_the_size(void **state)
{
    struct shape shape = {0};

    (void)state;
    assert_int_equal(job_run(5, sizes_body, &shape, LIMIT_S), 0);
}

static void every_size_arrives_with_workers(void **state)
{
    static const char *const settings[] = {"WORKERS", "1", NULL};
    struct shape shape = {.block_bytes = BLOCK, .settings = settings};

    (void)state;
    assert_int_equal(job_run(3, sizes_body, &shape, LIMIT_S), 0);
}

/* --- Several groups ----------------------------------------------------------------------------------------------- */

/* Groups with members in common, in different orders, twice the same: all move at once, and one after the other closes.
 */
static void overlap_body(struct job_rank *rank)
{
    static const uint32_t lists[][5] = {{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 4}, {2, 0, 4}, {3, 1}};
    static const uint32_t counts[] = {5, 5, 3, 3, 2};
    enum { GROUPS = sizeof counts / sizeof counts[0] };
    uint64_t sizes[10];
    tutti_object_group *objects[GROUPS] = {NULL};
    struct user users[GROUPS];
    tutti_context *context;
    tutti_group *group;
    bool is_member[GROUPS] = {false};

    job_group(rank, rank->argument, &context, &group);
    for (uint32_t i = 0; i < 10; i++) {
        sizes[i] = 1000 + i * 77777;
    }
    for (uint32_t i = 0; i < GROUPS; i++) {
        tutti_object_options options;

        user_init(&users[i], rank, i, lists[i][0] == rank->rank);
        options = options_for(&users[i]);
        options.members = lists[i];
        options.member_count = counts[i];
        options.block_bytes = i % 2 == 0 ? 4096 : 0;
        options.algorithm = i == 1 ? TUTTI_OBJECT_CHAIN : TUTTI_OBJECT_AUTO;
        for (uint32_t k = 0; k < counts[i]; k++) {
            is_member[i] |= lists[i][k] == rank->rank;
        }
        if (is_member[i]) {
            JOB_OK(rank, tutti_object_group_create(group, &options, &objects[i]));
        }
    }
    JOB_CHECK(rank, tutti_group_destroy(group) == TUTTI_ERR_INVALID_ARGUMENT, "destroyed with object groups");
    for (uint32_t i = 0; i < GROUPS; i++) {
        if (users[i].is_sender) {
            send_all(&users[i], objects[i], sizes, 10);
        }
    }
    for (uint32_t i = GROUPS; i-- > 0;) {
        if (is_member[i]) {
            JOB_OK(rank, tutti_object_group_close(objects[i]));
            JOB_CHECK(rank, users[i].completed == 10, "%llu objects of group %u",
                      (unsigned long long)users[i].completed, i);
        }
    }
    for (uint32_t i = 0; i < GROUPS; i++) {
        JOB_OK(rank, tutti_object_group_destroy(objects[i]));
    }
    job_end(context, group);
}

static void groups_with_members_in_common_do_not_disturb_each_other(void **state)
{
    static const char *const workers[] = {"WORKERS", "1", NULL};

    (void)state;
    assert_int_equal(job_run(5, overlap_body, NULL, LIMIT_S), 0);
    assert_int_equal(job_run(5, overlap_body, (void *)(uintptr_t)workers, LIMIT_S), 0);
}

/* One thread sends, and the callback of an object sends the next one; buffers stay registered. */
static void chain_reaction(void *argument, uint64_t sequence, void *memory, uint64_t size_bytes)
{
    tutti_object_group **objects = argument;

    if (sequence + 1 < MOST_OBJECTS) {
        if (tutti_object_send(*objects, memory, size_bytes) != TUTTI_OK ||
            tutti_object_test(*objects, NULL) != TUTTI_ERR_BUSY ||
            tutti_object_group_destroy(*objects) != TUTTI_ERR_BUSY) {
            abort();
        }
    }
}

static void reaction_body(struct job_rank *rank)
{
    static uint8_t buffer[100000];
    tutti_object_group *objects = NULL;
    struct user user;
    tutti_context *context;
    tutti_group *group;
    tutti_object_options options;

    job_group(rank, NULL, &context, &group);
    user_init(&user, rank, 0, rank->rank == 0);
    options = options_for(&user);
    if (rank->rank == 0) {
        options.registrations = 2;
        options.completion = chain_reaction;
        options.argument = &objects;
    } else {
        options.completion = NULL;
    }
    JOB_OK(rank, tutti_object_group_create(group, &options, &objects));
    if (rank->rank == 0) {
        JOB_OK(rank, tutti_object_send(objects, buffer, sizeof buffer));
        for (uint32_t completed = 0, callbacks; completed < MOST_OBJECTS; completed += callbacks) {
            JOB_OK(rank, tutti_object_wait(objects, UINT64_MAX, &callbacks));
            JOB_CHECK(rank, tutti_last_error()[0] == '\0', "what only a callback was told: %s", tutti_last_error());
        }
    }
    JOB_OK(rank, tutti_object_group_close(objects));
    JOB_CHECK(rank, rank->rank == 0 || user.asked == MOST_OBJECTS, "%llu objects", (unsigned long long)user.asked);
    JOB_OK(rank, tutti_object_group_destroy(objects));
    for (uint32_t i = 0; i < MOST_OBJECTS; i++) {
        free(user.memory[i]);
    }
    job_end(context, group);
}

static void callbacks_may_send(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, reaction_body, NULL, LIMIT_S), 0);
}

/* --- Ends --------------------------------------------------------------------------------------------------------- */

static void end_with_failure(struct user *user, tutti_object_group *objects, tutti_status status, int failed_rank)
{
    tutti_status said = tutti_object_group_close(objects);

    JOB_CHECK(user->rank, said == status, "%s: %s", tutti_status_name(said), tutti_last_error());
    JOB_CHECK(user->rank, user->failures == 1 && user->status == status, "told %u times of %s", user->failures,
              tutti_status_name(user->status));
    JOB_CHECK(user->rank, user->failed_rank == failed_rank && tutti_object_group_failed_rank(objects) == failed_rank,
              "rank %d is named: %s", user->failed_rank, tutti_last_error());
    JOB_CHECK(user->rank, tutti_object_group_close(objects) == status && user->failures == 1, "told again");
}

static void refusal_body(struct job_rank *rank)
{
    static const char *const quiet[] = {"LOG", "none", NULL};
    static const uint64_t sizes[] = {300000, 300000, 300000, 300000};
    uint32_t refuser = *(const uint32_t *)rank->argument;
    tutti_status refusal = refusals[refuser] != TUTTI_OK ? refusals[refuser] : TUTTI_ERR_INVALID_ARGUMENT;
    const char *words =
        refusals[refuser] != TUTTI_OK ? "the object group has failed: " : "incoming gave NULL for 300000 bytes";
    tutti_object_group *objects;
    struct user user;
    tutti_context *context;
    tutti_group *group;
    tutti_object_options options;

    job_group(rank, quiet, &context, &group);
    user_init(&user, rank, 0, rank->rank == 0);
    options = options_for(&user);
    user.refuse_at = rank->rank == refuser ? 2 : UINT64_MAX;
    JOB_OK(rank, tutti_object_group_create(group, &options, &objects));
    if (rank->rank == 0) { /* the refusal may come before the last one is sent */
        send_until(&user, objects, sizes, 4, TUTTI_ERR_PEER_FAILED);
    }
    end_with_failure(&user, objects, rank->rank == refuser ? refusal : TUTTI_ERR_PEER_FAILED, (int)refuser);
    JOB_CHECK(rank, rank->rank != refuser || strstr(tutti_last_error(), words) != NULL, "%s", tutti_last_error());
    JOB_CHECK(rank, user.completed <= 2, "%llu objects", (unsigned long long)user.completed);
    JOB_OK(rank, tutti_object_group_destroy(objects));
    job_barrier(rank);
    /* The ranks themselves are fine. */
    user_init(&user, rank, 1, rank->rank == 0);
    JOB_OK(rank, tutti_object_group_create(group, &options, &objects));
    if (rank->rank == 0) {
        send_all(&user, objects, sizes, 4);
    }
    JOB_OK(rank, tutti_object_group_close(objects));
    JOB_OK(rank, tutti_object_group_destroy(objects));
    job_end(context, group);
}

static void who_refuses_is_named_and_the_ranks_go_on(void **state)
{
    (void)state;
    for (uint32_t refuser = 1; refuser < 5; refuser++) {
        assert_int_equal(job_run(5, refusal_body, &refuser, LIMIT_S), 0);
    }
}

/* Objects come one after the other when a member dies, or stands still: that within one, as between two of them nobody
 * waits for their sender. */
struct death {
    uint32_t victim;
    bool stops;
    tutti_object_algorithm algorithm;
    uint64_t bytes;
};

/* All objects come to one place. */
struct sink {
    struct job_rank *rank;
    pid_t stops; /* whom rank 1 stops when an object begins; 0: nobody */
    uint8_t *data;
    uint32_t failures;
    tutti_status status;
    int failed_rank;
};

static tutti_status sink_incoming(void *argument, uint64_t sequence, uint64_t size_bytes, void **memory)
{
    struct sink *sink = argument;

    (void)size_bytes;
    *memory = sink->data;
    if (sequence == 2 && sink->stops != 0) { /* before this rank takes a block, so the object has not been sent yet */
        job_ready(sink->rank);
        kill(sink->stops, SIGSTOP);
    }
    return TUTTI_OK;
}

static void sink_failure(void *argument, tutti_status status, int rank)
{
    struct sink *sink = argument;

    sink->failures++;
    sink->status = status;
    sink->failed_rank = rank;
}

static void death_body(struct job_rank *rank)
{
    static const char *const quiet[] = {"LOG", "none", NULL};
    const struct death *death = rank->argument;
    tutti_status expected = death->stops ? TUTTI_ERR_TIMED_OUT : TUTTI_ERR_PEER_FAILED, status = TUTTI_OK;
    struct sink sink = {.rank = rank, .data = calloc(death->bytes, 1)};
    tutti_object_options options = {.struct_size = sizeof options,
                                    .algorithm = death->algorithm,
                                    .timeout_ns = death->stops ? 1200000000 : 0,
                                    .argument = &sink,
                                    .incoming = sink_incoming,
                                    .failure = sink_failure};
    tutti_object_group *objects;
    tutti_context *context;
    tutti_group *group;
    pid_t own = getpid(), all[5];
    double start;

    job_group(rank, quiet, &context, &group);
    JOB_OK(rank, tutti_object_group_create(group, &options, &objects));
    job_allgather(rank, &own, all, sizeof own);
    if (death->stops && rank->rank == 1) {
        sink.stops = all[death->victim];
    } else {
        job_ready(rank);
    }
    start = job_now_s();
    while (status == TUTTI_OK && job_now_s() - start < 20 * TT_PATIENCE) {
        status = rank->rank == 0 ? tutti_object_send(objects, sink.data, death->bytes) : TUTTI_OK;
        if (status == TUTTI_OK || status == TUTTI_ERR_BUSY) {
            status = tutti_object_wait(objects, 10000000, NULL);
        }
    }
    JOB_CHECK(rank, job_now_s() - start < 5 * TT_PATIENCE, "told after %.1f s", job_now_s() - start);
    JOB_CHECK(rank, tutti_object_group_close(objects) == expected, "%s", tutti_last_error());
    JOB_CHECK(rank, sink.failures == 1 && sink.status == expected && sink.failed_rank == (int)death->victim,
              "told %u times of %s of rank %d", sink.failures, tutti_status_name(sink.status), sink.failed_rank);
    JOB_OK(rank, tutti_object_group_destroy(objects));
    free(sink.data);
    job_end(context, group);
}

static void a_killed_member_is_named_by_every_survivor(void **state)
{
    struct death death = {.bytes = 256 << 20};

    (void)state;
    for (death.victim = 0; death.victim < 5; death.victim++) {
        death.algorithm = TUTTI_OBJECT_AUTO + death.victim;
        death.algorithm = death.algorithm == TUTTI_OBJECT_HYBRID ? TUTTI_OBJECT_AUTO : death.algorithm;
        assert_int_equal(job_run_with_victim(5, death_body, &death, LIMIT_S, death.victim, SIGKILL), 0);
    }
}

static void a_stuck_member_is_named_by_every_survivor(void **state)
{
    struct death death = {.bytes = 8 << 20, .stops = true};

    (void)state;
    for (death.victim = 0; death.victim < 2; death.victim++) {
        assert_int_equal(job_run_with_victim(3, death_body, &death, LIMIT_S, death.victim, SIGSTOP), 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_arrives_by_every_algorithm),
        cmocka_unit_test(block_sizes_follow_from_the_size),
        cmocka_unit_test(every_size_arrives_with_workers),
        cmocka_unit_test(groups_with_members_in_common_do_not_disturb_each_other),
        cmocka_unit_test(callbacks_may_send),
        cmocka_unit_test(who_refuses_is_named_and_the_ranks_go_on),
        cmocka_unit_test(a_killed_member_is_named_by_every_survivor),
        cmocka_unit_test(a_stuck_member_is_named_by_every_survivor),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
