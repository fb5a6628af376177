/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library in real processes over real sockets on loopback: collectives of many shapes, overlapping requests and
 * groups, threads, failures, and strangers at the multicast port.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "job.h"
#include "patience.h"

enum { LIMIT_S = 60 };

/* One collective, `iterations` times, every byte checked, in place or not. */
struct shape {
    bool allgather, in_place;
    uint64_t bytes;
    uint32_t root, iterations;
    const char *const *settings;
};

static void run_shape(struct job_rank *rank, tutti_group *group, const struct shape *shape)
{
    uint32_t blocks = shape->allgather ? rank->size : 1;
    bool has_block = shape->allgather || rank->rank == shape->root;
    uint8_t *receive = malloc(shape->bytes * blocks + 1), *send = malloc(shape->bytes + 1);
    uint8_t *own = shape->allgather ? receive + rank->rank * shape->bytes : receive;
    const void *source = shape->in_place ? TUTTI_IN_PLACE : send;
    tutti_request *request;

    if (shape->allgather) {
        JOB_OK(rank, tutti_allgather_init(group, source, receive, shape->bytes, NULL, &request));
    } else {
        JOB_OK(rank, tutti_broadcast_init(group, source, receive, shape->bytes, shape->root, NULL, &request));
    }
    for (uint32_t i = 0; i < shape->iterations; i++) {
        memset(receive, 0xEE, shape->bytes * blocks + 1);
        if (has_block) {
            job_fill(shape->in_place ? own : send, shape->bytes, shape->allgather ? rank->rank : shape->root, i);
        }
        JOB_OK(rank, tutti_post(request));
        JOB_OK(rank, tutti_wait(request));
        for (uint32_t block = 0; block < blocks; block++) {
            uint32_t from = shape->allgather ? block : shape->root;

            JOB_CHECK(rank, job_check(receive + block * shape->bytes, shape->bytes, from, i), "%llu bytes",
                      (unsigned long long)shape->bytes);
        }
        JOB_CHECK(rank, receive[shape->bytes * blocks] == 0xEE, "the byte behind the buffer was written");
    }
    JOB_OK(rank, tutti_finalize(request));
    free(receive);
    free(send);
}

static void shapes_body(struct job_rank *rank)
{
    static const uint64_t sizes[] = {0, 1, 7, 1451, 1452, 1453, 8191, 8192, 8193, 65537, 300001};
    const char *const *settings = rank->argument;
    tutti_context *context;
    tutti_group *group;

    job_group(rank, settings, &context, &group);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int variant = 0; variant < 4; variant++) {
            struct shape shape = {.allgather = variant & 1,
                                  .in_place = variant & 2,
                                  .bytes = sizes[i],
                                  .root = (uint32_t)(i % rank->size),
                                  .iterations = 2};
            run_shape(rank, group, &shape);
        }
    }
    job_end(context, group);
}

static void run_shapes(uint32_t size, const char *const *settings)
{
    assert_int_equal(job_run(size, shapes_body, (void *)(uintptr_t)settings, LIMIT_S), 0);
}

static void every_size_arrives_at_1_rank(void **state)
{
    (void)state;
    run_shapes(1, NULL);
}

static void every_size_arrives_at_2_ranks(void **state)
{
    (void)state;
    run_shapes(2, NULL);
}

static void every_size_arrives_at_5_ranks_with_chains_and_subgroups(void **state)
{
    static const char *const settings[] = {"CHAINS", "2", "SUBGROUPS", "3", "CHUNK", "1452", NULL};

    (void)state;
    run_shapes(5, settings);
}

static void every_size_arrives_with_workers(void **state)
{
    static const char *const settings[] = {"WORKERS", "2", NULL};

    (void)state;
    run_shapes(3, settings);
}

static void every_size_arrives_with_workers_and_loss(void **state)
{
    static const char *const settings[] = {"WORKERS", "1", "SUBGROUPS", "2", "LOSS", "20", NULL};

    (void)state;
    run_shapes(4, settings);
}

static void every_size_arrives_with_a_third_lost(void **state)
{
    static const char *const settings[] = {"LOSS", "33", "CHAINS", "4", NULL};

    (void)state;
    run_shapes(4, settings);
}

static void every_size_arrives_with_everything_lost(void **state)
{
    static const char *const settings[] = {"LOSS", "100", NULL};

    (void)state;
    run_shapes(3, settings);
}

static void every_size_arrives_by_ring_and_chain(void **state)
{
    static const char *const settings[] = {"ALGORITHM", "ring", NULL};

    (void)state;
    run_shapes(4, settings);
}

/* What a program is told with one rank it would be told with two. */
static void refused_alone_body(struct job_rank *rank)
{
    static const char *const settings[] = {"ALGORITHM", "ring", "LOG", "none", NULL};
    static const tutti_algorithm algorithms[] = {TUTTI_ALGORITHM_MULTICAST, TUTTI_ALGORITHM_EAGER};
    tutti_context *context;
    tutti_group *group;
    char data[64] = {0};

    job_group(rank, settings, &context, &group);
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
        const tutti_request_options options = {.struct_size = sizeof options, .algorithm = algorithms[i]};
        tutti_request *request;

        JOB_CHECK(rank,
                  tutti_broadcast_init(group, data, data, sizeof data, 0, &options, &request) ==
                      TUTTI_ERR_NOT_SUPPORTED,
                  "algorithm %d is not refused", (int)algorithms[i]);
        JOB_CHECK(rank, strstr(tutti_last_error(), "multicast is switched off") != NULL, "it says: %s",
                  tutti_last_error());
    }
    job_end(context, group);
}

static void what_the_settings_switch_off_is_refused_to_a_group_of_one_too(void **state)
{
    (void)state;
    assert_int_equal(job_run(1, refused_alone_body, NULL, LIMIT_S), 0);
    assert_int_equal(job_run(2, refused_alone_body, NULL, LIMIT_S), 0);
}

static void sixty_four_ranks_body(struct job_rank *rank)
{
    struct shape shapes[] = {{.allgather = true, .bytes = 1000, .iterations = 2},
                             {.bytes = 100000, .root = 63, .iterations = 2, .in_place = true}};
    tutti_context *context;
    tutti_group *group;

    job_group(rank, NULL, &context, &group);
    run_shape(rank, group, &shapes[0]);
    run_shape(rank, group, &shapes[1]);
    job_end(context, group);
}

static void sixty_four_ranks_fit_one_machine(void **state)
{
    (void)state;
    assert_int_equal(job_run(64, sixty_four_ranks_body, NULL, 2 * LIMIT_S), 0);
}

/* More requests posted at once than IN_FLIGHT lets run; ended in another order than posted. */
static void overlap_body(struct job_rank *rank)
{
    enum { REQUESTS = 13, ROUNDS = 5, BYTES = 50000 };
    const char *const *settings = rank->argument;
    tutti_request *requests[REQUESTS];
    uint8_t *buffers[REQUESTS];
    tutti_context *context;
    tutti_group *group;

    job_group(rank, settings, &context, &group);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        buffers[i] = malloc((size_t)BYTES * rank->size);
        if (i % 3 == 0) {
            JOB_OK(rank, tutti_allgather_init(group, TUTTI_IN_PLACE, buffers[i], BYTES, NULL, &requests[i]));
        } else {
            JOB_OK(rank,
                   tutti_broadcast_init(group, TUTTI_IN_PLACE, buffers[i], BYTES, i % rank->size, NULL, &requests[i]));
        }
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < REQUESTS; i++) {
            memset(buffers[i], 0xEE, (size_t)BYTES * rank->size);
            job_fill(buffers[i] + (i % 3 == 0 ? (size_t)BYTES * rank->rank : 0), BYTES, rank->rank, round * 100 + i);
            JOB_OK(rank, tutti_post(requests[i]));
        }
        for (uint32_t i = REQUESTS; i-- > 0;) {
            JOB_OK(rank, tutti_wait(requests[i]));
            for (uint32_t block = 0; block < (i % 3 == 0 ? rank->size : 1); block++) {
                JOB_CHECK(rank,
                          job_check(buffers[i] + (size_t)block * BYTES, BYTES, i % 3 == 0 ? block : i % rank->size,
                                    round * 100 + i),
                          "request %u, round %u", i, round);
            }
        }
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        JOB_OK(rank, tutti_finalize(requests[i]));
        free(buffers[i]);
    }
    job_end(context, group);
}

/* Rank 0 is alone for a while: nothing can have ended, so nothing may be posted again, freed or destroyed. */
static void busy_body(struct job_rank *rank)
{
    uint8_t buffer[100];
    bool done = true;
    tutti_request *request;
    tutti_context *context;
    tutti_group *group;

    job_group(rank, NULL, &context, &group);
    JOB_OK(rank, tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, sizeof buffer, 1, NULL, &request));
    if (rank->rank == 0) {
        JOB_OK(rank, tutti_post(request));
        JOB_OK(rank, tutti_test(request, &done));
        JOB_CHECK(rank, !done, "ended without the others");
        JOB_CHECK(rank, tutti_post(request) == TUTTI_ERR_BUSY, "posted twice");
        JOB_CHECK(rank, tutti_finalize(request) == TUTTI_ERR_BUSY, "freed while in progress");
        JOB_CHECK(rank, tutti_group_destroy(group) == TUTTI_ERR_INVALID_ARGUMENT, "destroyed with a request");
        JOB_CHECK(rank, tutti_context_destroy(context) == TUTTI_ERR_INVALID_ARGUMENT, "destroyed with a group");
    }
    job_barrier(rank);
    if (rank->rank != 0) {
        JOB_OK(rank, tutti_post(request));
    }
    JOB_OK(rank, tutti_wait(request));
    JOB_OK(rank, tutti_finalize(request));
    job_end(context, group);
}

static void what_is_in_progress_is_busy(void **state)
{
    (void)state;
    assert_int_equal(job_run(2, busy_body, NULL, LIMIT_S), 0);
}

static void requests_of_one_group_overlap(void **state)
{
    static const char *const settings[] = {"IN_FLIGHT", "4", NULL};

    (void)state;
    assert_int_equal(job_run(4, overlap_body, (void *)(uintptr_t)settings, LIMIT_S), 0);
}

static void requests_of_one_group_overlap_with_workers_and_loss(void **state)
{
    static const char *const settings[] = {"WORKERS", "2", "LOSS", "5", NULL};

    (void)state;
    assert_int_equal(job_run(3, overlap_body, (void *)(uintptr_t)settings, LIMIT_S), 0);
}

/* Two threads, each with a group of its own in the same context, at the same time. */
struct thread_work {
    struct job_rank *rank;
    tutti_group *group;
    uint32_t salt;
};

static void *thread_run(void *argument)
{
    struct thread_work *work = argument;
    struct shape shapes[] = {{.allgather = true, .bytes = 20000 + work->salt, .iterations = 20},
                             {.bytes = 100001, .root = work->salt % work->rank->size, .iterations = 20}};

    run_shape(work->rank, work->group, &shapes[work->salt % 2]);
    run_shape(work->rank, work->group, &shapes[1 - work->salt % 2]);
    return NULL;
}

static void threads_body(struct job_rank *rank)
{
    enum { THREADS = 3 };
    tutti_group_options members = {.struct_size = sizeof members,
                                   .rank = rank->rank,
                                   .size = rank->size,
                                   .allgather = job_allgather,
                                   .argument = rank};
    struct thread_work work[THREADS];
    pthread_t threads[THREADS];
    tutti_context *context;

    job_group(rank, rank->argument, &context, &work[0].group);
    for (uint32_t i = 0; i < THREADS; i++) {
        work[i].rank = rank;
        work[i].salt = i;
        if (i > 0) {
            JOB_OK(rank, tutti_group_create(context, &members, &work[i].group));
        }
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, thread_run, &work[i]);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (uint32_t i = 1; i < THREADS; i++) {
        JOB_OK(rank, tutti_group_destroy(work[i].group));
    }
    job_end(context, work[0].group);
}

static void threads_with_groups_of_their_own_share_a_context(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, threads_body, NULL, LIMIT_S), 0);
}

static void threads_with_groups_of_their_own_share_the_workers(void **state)
{
    static const char *const settings[] = {"WORKERS", "2", NULL};

    (void)state;
    assert_int_equal(job_run(3, threads_body, (void *)(uintptr_t)settings, LIMIT_S), 0);
}

/* Rank 1 posts something else than the others, too large to be eager: the barrier shows it. */
enum mismatch { MISMATCH_SIZE, MISMATCH_ROOT, MISMATCH_KIND, MISMATCH_ORDER };

static void mismatch_body(struct job_rank *rank)
{
    enum mismatch what = *(enum mismatch *)rank->argument;
    bool odd = rank->rank == 1;
    uint64_t bytes = odd && what == MISMATCH_SIZE ? 100001 : 100000;
    uint8_t *buffer = calloc(rank->size, 100001);
    tutti_request *broadcast, *allgather, *first;
    tutti_context *context;
    tutti_group *group;
    tutti_status status;
    double start;

    static const char *const quiet[] = {"LOG", "none", NULL};
    job_group(rank, quiet, &context, &group);
    JOB_OK(rank, tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, bytes, odd && what == MISMATCH_ROOT ? 2 : 0, NULL,
                                      &broadcast));
    JOB_OK(rank, tutti_allgather_init(group, TUTTI_IN_PLACE, buffer, bytes, NULL, &allgather));
    job_barrier(rank); /* whoever posts first could fail the group while others have not got this far */
    first = odd && (what == MISMATCH_KIND || what == MISMATCH_ORDER) ? allgather : broadcast;
    start = job_now_s();
    JOB_OK(rank, tutti_post(first));
    status = tutti_wait(first);
    JOB_CHECK(rank, status == TUTTI_ERR_MISMATCH, "%s: %s", tutti_status_name(status), tutti_last_error());
    JOB_CHECK(rank, strstr(tutti_last_error(), "rank") != NULL, "%s", tutti_last_error());
    JOB_CHECK(rank, job_now_s() - start < 5 * TT_PATIENCE, "took %.1f s", job_now_s() - start);
    /* The group is over: it says so at once. */
    JOB_CHECK(rank, tutti_post(first) == TUTTI_ERR_MISMATCH, "%s", tutti_last_error());
    JOB_OK(rank, tutti_finalize(broadcast));
    JOB_OK(rank, tutti_finalize(allgather));
    job_end(context, group);
    free(buffer);
}

static void ranks_that_disagree_all_get_the_error(void **state)
{
    (void)state;
    for (enum mismatch what = MISMATCH_SIZE; what <= MISMATCH_ORDER; what++) {
        assert_int_equal(job_run(4, mismatch_body, &what, LIMIT_S), 0);
    }
}

/* All but one wait in a collective when that one dies, or stands still, at some moment of many iterations. */
static void death_body(struct job_rank *rank)
{
    const struct job_death *death = rank->argument;
    uint64_t bytes = 200000;
    uint8_t *buffer = calloc(rank->size, bytes);
    tutti_request_options options = {.struct_size = sizeof options, .timeout_ns = job_death_timeout_ns(death)};
    tutti_request *request;
    tutti_context *context;
    tutti_group *group;

    job_group(rank, death->settings, &context, &group);
    JOB_OK(rank, tutti_allgather_init(group, TUTTI_IN_PLACE, buffer, bytes, &options, &request));
    job_meet_death(rank, context, group, request);
    free(buffer);
}

static void a_killed_rank_is_named_by_every_survivor(void **state)
{
    static const char *const settings[] = {"LOG", "none", NULL};
    static const char *const workers[] = {"LOG", "none", "WORKERS", "1", NULL};
    static const char *const ring[] = {"LOG", "none", "ALGORITHM", "ring", NULL};

    (void)state;
    for (uint32_t victim = 0; victim < 4; victim++) {
        struct job_death death = {.victim = victim, .settings = settings};

        assert_int_equal(job_run_with_victim(4, death_body, &death, LIMIT_S, victim, SIGKILL), 0);
        death.settings = workers;
        assert_int_equal(job_run_with_victim(4, death_body, &death, LIMIT_S, victim, SIGKILL), 0);
        death.settings = ring;
        assert_int_equal(job_run_with_victim(4, death_body, &death, LIMIT_S, victim, SIGKILL), 0);
    }
}

static void a_stuck_rank_is_named_when_the_deadline_comes(void **state)
{
    static const char *const settings[] = {"LOG", "none", NULL};
    static const char *const ring[] = {"LOG", "none", "ALGORITHM", "ring", NULL};

    (void)state;
    for (uint32_t victim = 0; victim < 3; victim++) {
        struct job_death death = {.victim = victim, .stops = true, .settings = victim == 1 ? ring : settings};

        assert_int_equal(job_run_with_victim(5, death_body, &death, LIMIT_S, victim, SIGSTOP), 0);
    }
}

/* Sends junk to every multicast address that a UDP socket of this host is bound to. */
static void send_junk(uint32_t datagrams)
{
    FILE *table = fopen("/proc/net/udp", "r");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct in_addr loopback = {.s_addr = htonl(INADDR_LOOPBACK)};
    char line[512];
    uint8_t junk[9000];

    setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &loopback, sizeof loopback);
    while (table != NULL && fgets(line, sizeof line, table) != NULL) {
        unsigned address, port;

        if (sscanf(line, " %*d: %x:%x", &address, &port) == 2 && (ntohl(address) >> 24) == 239) {
            struct sockaddr_in to = {
                .sin_family = AF_INET, .sin_addr.s_addr = address, .sin_port = htons((uint16_t)port)};

            for (uint32_t i = 0; i < datagrams; i++) {
                size_t bytes = (size_t)random() % sizeof junk;

                for (size_t k = 0; k < bytes; k++) {
                    junk[k] = (uint8_t)random();
                }
                sendto(fd, junk, bytes, 0, (struct sockaddr *)&to, sizeof to);
            }
        }
    }
    if (table != NULL) {
        fclose(table);
    }
    close(fd);
}

static void junk_body(struct job_rank *rank)
{
    struct shape shape = {.allgather = true, .bytes = 100000, .iterations = 3};
    tutti_counters counters = {.struct_size = sizeof counters};
    tutti_context *context;
    tutti_group *group;

    job_group(rank, NULL, &context, &group);
    for (uint32_t i = 0; i < 5; i++) {
        if (rank->rank == 0) {
            send_junk(200);
        }
        run_shape(rank, group, &shape);
    }
    JOB_OK(rank, tutti_group_counters(group, &counters));
    JOB_CHECK(rank, counters.drops_key > 0, "no junk arrived");
    job_end(context, group);
}

static void junk_at_the_multicast_port_changes_a_counter_only(void **state)
{
    (void)state;
    assert_int_equal(job_run(3, junk_body, NULL, LIMIT_S), 0);
}

/* Bytes at the sockets: a rank sends its block once, and little else. */
static void bytes_body(struct job_rank *rank)
{
    enum { ITERATIONS = 5 };
    struct shape shape = {.allgather = true, .bytes = 1000000, .iterations = ITERATIONS};
    tutti_counters before = {.struct_size = sizeof before}, after = before;
    tutti_context *context;
    tutti_group *group;
    uint64_t sent;

    /* A machine that stands still for 100 ms must not look like a loss. */
    static const char *const patient[] = {"ALPHA", "30s", NULL};
    job_group(rank, patient, &context, &group);
    JOB_OK(rank, tutti_group_counters(group, &before));
    run_shape(rank, group, &shape);
    JOB_OK(rank, tutti_group_counters(group, &after));
    sent = after.mcast_bytes_sent - before.mcast_bytes_sent + after.p2p_bytes_sent - before.p2p_bytes_sent;
    JOB_CHECK(rank, sent <= shape.bytes * ITERATIONS * 102 / 100, "%llu bytes sent for %d blocks of %llu",
              (unsigned long long)sent, ITERATIONS, (unsigned long long)shape.bytes);
    JOB_CHECK(rank, after.chunks_repaired == 0, "%llu chunks repaired", (unsigned long long)after.chunks_repaired);
    job_end(context, group);
}

static void an_allgather_sends_every_byte_once(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 16; size *= 2) {
        assert_int_equal(job_run(size, bytes_body, NULL, LIMIT_S), 0);
    }
}

/* An argument runs only the tests whose names match it (with * and ?). */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_arrives_at_1_rank),
        cmocka_unit_test(every_size_arrives_at_2_ranks),
        cmocka_unit_test(every_size_arrives_at_5_ranks_with_chains_and_subgroups),
        cmocka_unit_test(every_size_arrives_with_workers),
        cmocka_unit_test(every_size_arrives_with_workers_and_loss),
        cmocka_unit_test(every_size_arrives_with_a_third_lost),
        cmocka_unit_test(every_size_arrives_with_everything_lost),
        cmocka_unit_test(every_size_arrives_by_ring_and_chain),
        cmocka_unit_test(what_the_settings_switch_off_is_refused_to_a_group_of_one_too),
        cmocka_unit_test(sixty_four_ranks_fit_one_machine),
        cmocka_unit_test(what_is_in_progress_is_busy),
        cmocka_unit_test(requests_of_one_group_overlap),
        cmocka_unit_test(requests_of_one_group_overlap_with_workers_and_loss),
        cmocka_unit_test(threads_with_groups_of_their_own_share_a_context),
        cmocka_unit_test(threads_with_groups_of_their_own_share_the_workers),
        cmocka_unit_test(ranks_that_disagree_all_get_the_error),
        cmocka_unit_test(a_killed_rank_is_named_by_every_survivor),
        cmocka_unit_test(a_stuck_rank_is_named_when_the_deadline_comes),
        cmocka_unit_test(junk_at_the_multicast_port_changes_a_counter_only),
        cmocka_unit_test(an_allgather_sends_every_byte_once),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
