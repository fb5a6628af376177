/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What creating a group comes to, and what a group is then asked for that it cannot do: settings that differ, what the
 * ranks send each other meanwhile, collectives too large for multicast, algorithms that do not fit.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "job.h"
#include "tutti/reduction.h"

enum { LIMIT_S = 60 };

/* --- Settings that differ ----------------------------------------------------------------------------------------- */

struct difference {
    const char *name, *usual, *odd; /* the odd value is rank 1's */
    const char *words;
};

static void difference_body(struct job_rank *rank)
{
    const struct difference *what = rank->argument;
    tutti_setting settings[] = {{"LOG", "none"}, {what->name, rank->rank == 1 ? what->odd : what->usual}};
    tutti_context_options options = {.struct_size = sizeof options, .settings = settings, .setting_count = 2};
    tutti_group_options members = {.struct_size = sizeof members,
                                   .rank = rank->rank,
                                   .size = rank->size,
                                   .allgather = job_allgather,
                                   .argument = rank};
    tutti_context *context;
    tutti_group *group;
    tutti_status status;

    JOB_OK(rank, tutti_context_create(&options, &context));
    status = tutti_group_create(context, &members, &group);
    JOB_CHECK(rank, status == TUTTI_ERR_MISMATCH, "%s: %s", tutti_status_name(status), tutti_last_error());
    JOB_CHECK(rank, strcmp(tutti_last_error(), what->words) == 0, "%s", tutti_last_error());
    JOB_OK(rank, tutti_context_destroy(context));
}

static void every_rank_names_the_setting_that_differs_and_both_values(void **state)
{
    static const struct difference differences[] = {
        {"CHUNK", "4096", "2K", "TUTTI_CHUNK is 4096 on rank 0 and 2048 on rank 1"},
        {"CHUNK", "auto", "frame", "TUTTI_CHUNK is auto on rank 0 and frame on rank 1"},
        {"SUBGROUPS", "2", "1", "TUTTI_SUBGROUPS (or TUTTI_WORKERS) is 2 on rank 0 and 1 on rank 1"},
        {"CHAINS", "2", "1", "TUTTI_CHAINS is 2 on rank 0 and 1 on rank 1"},
        {"P2P", "tcp", "auto", "TUTTI_P2P (or TUTTI_UCX_TLS) is tcp on rank 0 and auto on rank 1"},
        {"IN_FLIGHT", "8", "4", "TUTTI_IN_FLIGHT is 8 on rank 0 and 4 on rank 1"},
        {"DETERMINISTIC", "run", "strict", "TUTTI_DETERMINISTIC is run on rank 0 and strict on rank 1"},
        {"ALGORITHM", "auto", "ring", "TUTTI_ALGORITHM is auto on rank 0 and ring on rank 1"},
        {"MCAST", "udp", "auto", "TUTTI_MCAST is udp on rank 0 and auto on rank 1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof differences / sizeof differences[0]; i++) {
        assert_int_equal(job_run(3, difference_body, (void *)&differences[i], LIMIT_S), 0);
    }
}

/* --- What the ranks send each other ------------------------------------------------------------------------------- */

struct counted {
    struct job_rank *rank;
    uint64_t bytes; /* that rank 0 of a star sends */
};

static int counted_allgather(void *argument, const void *send, void *receive, size_t length_bytes)
{
    struct counted *counted = argument;

    counted->bytes += (uint64_t)length_bytes * counted->rank->size * (counted->rank->size - 1);
    return job_allgather(counted->rank, send, receive, length_bytes);
}

static void bytes_body(struct job_rank *rank)
{
    uint64_t size = rank->size, most = 100 * size * size + 4096 * size;
    struct counted counted = {.rank = rank};
    tutti_group_options members = {.struct_size = sizeof members,
                                   .rank = rank->rank,
                                   .size = rank->size,
                                   .allgather = counted_allgather,
                                   .argument = &counted};
    tutti_context *context;
    tutti_group *group;

    JOB_OK(rank, tutti_context_create(NULL, &context));
    JOB_OK(rank, tutti_group_create(context, &members, &group));
    JOB_CHECK(rank, counted.bytes <= most, "%llu bytes, not %llu at most", (unsigned long long)counted.bytes,
              (unsigned long long)most);
    JOB_CHECK(rank, counted.bytes <= 100 * size * size, "%llu bytes", (unsigned long long)counted.bytes);
    job_end(context, group);
}

static void rank_0_sends_little_while_a_group_is_created(void **state)
{
    (void)state;
    assert_int_equal(job_run(64, bytes_body, NULL, 2 * LIMIT_S), 0);
}

/* --- An exchange that goes wrong ---------------------------------------------------------------------------------- */

enum { EXCHANGES = 3, ODD_RANK = 1 }; /* on one host; and whose allgather goes wrong */

struct exchange {
    struct job_rank *rank;
    uint32_t calls;
};

/* In its last round it returns an error though all has been exchanged: the others probe already. */
static int last_refuses(void *argument, const void *send, void *receive, size_t length_bytes)
{
    struct exchange *exchange = argument;
    int result = job_allgather(exchange->rank, send, receive, length_bytes);

    exchange->calls++;
    return exchange->rank->rank == ODD_RANK && exchange->calls == EXCHANGES ? -77 : result;
}

/* What one rank gives is damaged on the way: all bits of it. */
static int first_is_damaged(void *argument, const void *send, void *receive, size_t length_bytes)
{
    struct exchange *exchange = argument;
    uint8_t bytes[256];
    bool is_odd = exchange->rank->rank == ODD_RANK && exchange->calls++ == 1;

    JOB_CHECK(exchange->rank, length_bytes <= sizeof bytes, "%zu bytes", length_bytes);
    for (size_t i = 0; i < length_bytes; i++) {
        bytes[i] = (uint8_t)(((const uint8_t *)send)[i] ^ (is_odd ? 0x5A : 0));
    }
    return job_allgather(exchange->rank, bytes, receive, length_bytes);
}

static void expect_refusal(struct job_rank *rank, tutti_oob_allgather allgather, const char *own, const char *others)
{
    struct exchange exchange = {.rank = rank};
    tutti_group_options members = {.struct_size = sizeof members,
                                   .rank = rank->rank,
                                   .size = rank->size,
                                   .allgather = allgather,
                                   .argument = &exchange};
    const char *words = rank->rank == ODD_RANK ? own : others;
    uint64_t begin_ns = tt_clock_now_ns();
    tutti_context *context;
    tutti_group *group;
    tutti_status status;

    JOB_OK(rank, tutti_context_create(NULL, &context));
    status = tutti_group_create(context, &members, &group);
    JOB_CHECK(rank, status == TUTTI_ERR_BOOTSTRAP, "%s: %s", tutti_status_name(status), tutti_last_error());
    JOB_CHECK(rank, strstr(tutti_last_error(), words) != NULL, "%s", tutti_last_error());
    JOB_CHECK(rank, tt_clock_now_ns() - begin_ns < 10 * TT_NS_PER_S, "it took too long"); /* of 30 s */
    JOB_OK(rank, tutti_context_destroy(context));
}

static void exchange_body(struct job_rank *rank)
{
    expect_refusal(rank, last_refuses, "returned -77", "bootstrap failed, at rank 1");
    job_barrier(rank);
    expect_refusal(rank, first_is_damaged, "did not deliver what rank 1 gave", "rank 1: its part of the exchange");
}

static void an_exchange_that_goes_wrong_is_told_to_all(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, exchange_body, NULL, LIMIT_S), 0);
}

/* --- A group by way of another one ---------------------------------------------------------------------------------
 */

static int gather_in_group(void *argument, const void *send, void *receive, size_t length_bytes)
{
    tutti_request *request = NULL;
    tutti_status status = tutti_allgather_init(argument, send, receive, length_bytes, NULL, &request);

    if (status == TUTTI_OK) {
        status = tutti_post(request);
    }
    if (status == TUTTI_OK) {
        status = tutti_wait(request);
    }
    tutti_finalize(request);
    return (int)status;
}

static void group_by_group_body(struct job_rank *rank)
{
    const char *const settings[] = {"WORKERS", rank->argument, NULL};
    tutti_group_options members = {
        .struct_size = sizeof members, .rank = rank->rank, .size = rank->size, .allgather = gather_in_group};
    tutti_context *context;
    tutti_group *first, *second;
    tutti_request *request;

    job_group(rank, settings, &context, &first);
    members.argument = first;
    JOB_OK(rank, tutti_group_create(context, &members, &second));
    JOB_OK(rank, tutti_barrier_init(second, NULL, &request));
    JOB_OK(rank, tutti_post(request));
    JOB_OK(rank, tutti_wait(request));
    JOB_OK(rank, tutti_finalize(request));
    JOB_OK(rank, tutti_group_destroy(second));
    job_end(context, first);
}

static void the_allgather_of_a_group_makes_another_one(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, group_by_group_body, (void *)(uintptr_t) "0", LIMIT_S), 0);
    assert_int_equal(job_run(3, group_by_group_body, (void *)(uintptr_t) "2", LIMIT_S), 0);
}

/* --- One context for two ranks ------------------------------------------------------------------------------------ */

struct shared_context {
    tutti_context *context;
    pthread_barrier_t barrier;
    uint8_t bytes[2][4096];
};

struct sharer {
    struct shared_context *shared;
    uint32_t rank;
    bool is_refused;
};

static int shared_allgather(void *argument, const void *send, void *receive, size_t length_bytes)
{
    struct sharer *sharer = argument;

    memcpy(sharer->shared->bytes[sharer->rank], send, length_bytes);
    pthread_barrier_wait(&sharer->shared->barrier);
    memcpy(receive, sharer->shared->bytes[0], length_bytes);
    memcpy((uint8_t *)receive + length_bytes, sharer->shared->bytes[1], length_bytes);
    pthread_barrier_wait(&sharer->shared->barrier);
    return 0;
}

static void *share(void *argument)
{
    struct sharer *sharer = argument;
    tutti_group_options members = {.struct_size = sizeof members,
                                   .rank = sharer->rank,
                                   .size = 2,
                                   .allgather = shared_allgather,
                                   .argument = sharer};
    tutti_group *group;

    sharer->is_refused =
        tutti_group_create(sharer->shared->context, &members, &group) == TUTTI_ERR_INVALID_ARGUMENT &&
        strcmp(tutti_last_error(), "ranks 0 and 1 of the group have one context: each needs its own") == 0;
    return NULL;
}

static void two_ranks_of_one_context_are_refused(void **state)
{
    static struct shared_context shared;
    struct sharer sharers[2];
    pthread_t threads[2];

    (void)state;
    assert_int_equal(pthread_barrier_init(&shared.barrier, NULL, 2), 0);
    assert_int_equal(tutti_context_create(NULL, &shared.context), TUTTI_OK);
    for (uint32_t rank = 0; rank < 2; rank++) {
        sharers[rank] = (struct sharer){.shared = &shared, .rank = rank};
        assert_int_equal(pthread_create(&threads[rank], NULL, share, &sharers[rank]), 0);
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
        pthread_join(threads[rank], NULL);
        assert_true(sharers[rank].is_refused);
    }
    assert_int_equal(tutti_context_destroy(shared.context), TUTTI_OK);
    pthread_barrier_destroy(&shared.barrier);
}

/* --- Too large for multicast -------------------------------------------------------------------------------------- */

static bool log_has(const char *path, const char *words)
{
    char text[4096] = "";
    FILE *file = fopen(path, "r");
    size_t length = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;

    text[length] = '\0';
    if (file != NULL) {
        fclose(file);
    }
    return strstr(text, words) != NULL;
}

static void too_large_body(struct job_rank *rank)
{
    const char *path = rank->argument;
    const char *const settings[] = {"LOG", "warn", "LOG_FILE", path, "CHUNK", "64", NULL};
    uint64_t bytes = (UINT64_C(1) << 30) + 64; /* one chunk of 64 bytes more than there are PSNs, and then some */
    void *buffer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    tutti_group_info info = {.struct_size = sizeof info};
    tutti_request *request;
    tutti_context *context;
    tutti_group *group;

    JOB_CHECK(rank, buffer != MAP_FAILED, "no address space");
    job_group(rank, settings, &context, &group);
    JOB_OK(rank, tutti_group_query(group, &info));
    JOB_OK(rank, tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, bytes, 0, NULL, &request));
    JOB_CHECK(rank, !info.multicast || tutti_request_algorithm(request) == TUTTI_ALGORITHM_CHAIN, "algorithm %d",
              (int)tutti_request_algorithm(request));
    JOB_OK(rank, tutti_finalize(request));
    if (rank->rank == 0 && info.multicast) {
        JOB_CHECK(rank, log_has(path, "broadcast of 1073741888 bytes from each root"), "nothing in %s", path);
        JOB_CHECK(rank, log_has(path, "TUTTI_CHUNK"), "no setting in %s", path);
        JOB_CHECK(rank, !log_has(path, "] error "), "an error in %s", path);
    }
    job_end(context, group);
}

static void a_collective_too_large_for_multicast_is_warned_about(void **state)
{
    char path[] = "/tmp/tutti-setup-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(job_run(2, too_large_body, path, LIMIT_S), 0);
    unlink(path);
}

/* --- One rank, and two -------------------------------------------------------------------------------------------- */

enum kind { BROADCAST, ALLGATHER, ALLREDUCE, KINDS };

static tutti_status init(tutti_group *group, enum kind kind, tutti_algorithm algorithm, uint64_t bytes, void *buffer)
{
    tutti_request_options options = {.struct_size = sizeof options, .algorithm = algorithm};
    tutti_request *request = NULL;
    tutti_status status;

    switch (kind) {
    case BROADCAST:
        status = tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, bytes, 0, &options, &request);
        break;
    case ALLGATHER:
        status = tutti_allgather_init(group, TUTTI_IN_PLACE, buffer, bytes, &options, &request);
        break;
    default:
        status = tutti_allreduce_init(group, TUTTI_IN_PLACE, buffer, bytes / 4, TUTTI_INT32, TUTTI_SUM, NULL, &options,
                                      &request);
        break;
    }
    if (status == TUTTI_OK && tutti_finalize(request) != TUTTI_OK) {
        return TUTTI_ERR_BUSY;
    }
    return status;
}

static void alone_body(struct job_rank *rank)
{
    static const uint64_t sizes[] = {0, 1024, 32768, 33000, 65536, 70000, 1000000};
    tutti_group_options members = {.struct_size = sizeof members, .size = 1};
    tutti_group_info info = {.struct_size = sizeof info};
    void *buffer = calloc(2, 1000000);
    tutti_context *context;
    tutti_group *pair, *alone;

    job_group(rank, NULL, &context, &pair);
    JOB_OK(rank, tutti_group_create(context, &members, &alone));
    JOB_OK(rank, tutti_group_query(pair, &info));
    for (int algorithm = 0; info.multicast && algorithm <= TUTTI_ALGORITHM_EAGER_PARTS; algorithm++) {
        for (enum kind kind = BROADCAST; kind < KINDS; kind++) {
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                tutti_status two = init(pair, kind, (tutti_algorithm)algorithm, sizes[i], buffer);
                tutti_status one = init(alone, kind, (tutti_algorithm)algorithm, sizes[i], buffer);

                JOB_CHECK(rank, one == two, "algorithm %d, kind %d, %llu bytes: %s alone, %s of two", algorithm,
                          (int)kind, (unsigned long long)sizes[i], tutti_status_name(one), tutti_status_name(two));
            }
        }
    }
    JOB_OK(rank, tutti_group_destroy(alone));
    free(buffer);
    job_end(context, pair);
}

static void a_rank_alone_is_refused_what_two_are_refused(void **state)
{
    (void)state;
    assert_int_equal(job_run(2, alone_body, NULL, LIMIT_S), 0);
}

/* --- A table that cannot be read ---------------------------------------------------------------------------------- */

static void a_table_that_cannot_be_read_is_an_argument_that_cannot_be(void **state)
{
    tutti_setting settings[] = {{"LOG", "none"}, {"TABLE", "/nonexistent/table"}};
    tutti_context_options options = {.struct_size = sizeof options, .settings = settings, .setting_count = 2};
    tutti_context *context;

    (void)state;
    assert_int_equal(tutti_context_create(&options, &context), TUTTI_ERR_INVALID_ARGUMENT);
    assert_string_equal(tutti_last_error(), "TUTTI_TABLE=/nonexistent/table: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_names_the_setting_that_differs_and_both_values),
        cmocka_unit_test(rank_0_sends_little_while_a_group_is_created),
        cmocka_unit_test(an_exchange_that_goes_wrong_is_told_to_all),
        cmocka_unit_test(the_allgather_of_a_group_makes_another_one),
        cmocka_unit_test(two_ranks_of_one_context_are_refused),
        cmocka_unit_test(a_collective_too_large_for_multicast_is_warned_about),
        cmocka_unit_test(a_rank_alone_is_refused_what_two_are_refused),
        cmocka_unit_test(a_table_that_cannot_be_read_is_an_argument_that_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
