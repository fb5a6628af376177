/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that died comes back as another process, with the same rank and at the same address and port, while the other
 * one still has the old group. The new process is nobody that the old group knows; a new group is made with it in the
 * context in which the old one failed, and both go their ways.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "free_port.h"
#include "job.h"

enum { SURVIVOR, VICTIM, RESTARTED, PROCESSES };
enum { MEMBERS = 2, LIMIT_S = 60, EXCHANGES = 16, EXCHANGE_BYTES = 4096, BYTES = 300000, TIMES = 5 };

/* Between the processes. Groups are of two: whom the victim was, the restarted one is. */
static struct meeting {
    uint16_t port; /* of the victim, and then of the restarted one */
    _Atomic bool is_dead;
    struct {
        atomic_int arrived[EXCHANGES];
        uint8_t bytes[EXCHANGES][MEMBERS][EXCHANGE_BYTES];
    } before, after;
} * meeting;

struct seat {
    uint32_t rank;
    int exchanges;
    bool is_after;
};

static int exchange(void *argument, const void *send, void *receive, size_t length_bytes)
{
    struct seat *seat = argument;
    int i = seat->exchanges++;
    uint8_t(*bytes)[EXCHANGE_BYTES] = seat->is_after ? meeting->after.bytes[i] : meeting->before.bytes[i];
    atomic_int *arrived = seat->is_after ? &meeting->after.arrived[i] : &meeting->before.arrived[i];

    if (i == EXCHANGES || length_bytes > EXCHANGE_BYTES) {
        return -1;
    }
    memcpy(bytes[seat->rank], send, length_bytes);
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < MEMBERS) {
        usleep(200); /* the job has a time limit */
    }
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        memcpy((uint8_t *)receive + rank * length_bytes, bytes[rank], length_bytes);
    }
    return 0;
}

static tutti_context *create_context(struct job_rank *process)
{
    char port[8];
    tutti_setting settings[] = {{"LOG", "none"}, {"P2P", "tcp"}, {"PORTS", port}};
    tutti_context_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = process->rank == SURVIVOR ? 2 : 3};
    tutti_context *context;

    (void)snprintf(port, sizeof port, "%u", meeting->port);
    JOB_OK(process, tutti_context_create(&options, &context));
    return context;
}

static tutti_group *create_group(struct job_rank *process, tutti_context *context, bool is_after)
{
    struct seat seat = {.rank = process->rank == SURVIVOR ? 0 : 1, .is_after = is_after};
    tutti_group_options options = {
        .struct_size = sizeof options, .rank = seat.rank, .size = MEMBERS, .allgather = exchange, .argument = &seat};
    tutti_group *group;

    JOB_OK(process, tutti_group_create(context, &options, &group));
    return group;
}

/* An Allgather by reads, and broadcasts from both, again and again. */
static void use(struct job_rank *process, tutti_group *group, uint8_t *buffer)
{
    uint32_t own = tutti_group_rank(group);
    tutti_request_options ring = {.struct_size = sizeof ring, .algorithm = TUTTI_ALGORITHM_RING};
    tutti_request *requests[MEMBERS + 1];

    JOB_OK(process, tutti_allgather_init(group, TUTTI_IN_PLACE, buffer, BYTES, &ring, &requests[MEMBERS]));
    for (uint32_t root = 0; root < MEMBERS; root++) {
        JOB_OK(process, tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, BYTES, root, NULL, &requests[root]));
    }
    for (uint32_t i = 0; i < TIMES; i++) {
        job_fill(buffer + (size_t)own * BYTES, BYTES, own, i);
        JOB_OK(process, tutti_post(requests[MEMBERS]));
        JOB_OK(process, tutti_wait(requests[MEMBERS]));
        for (uint32_t root = 0; root < MEMBERS; root++) {
            JOB_CHECK(process, job_check(buffer + (size_t)root * BYTES, BYTES, root, i), "block %u", root);
        }
        for (uint32_t root = 0; root < MEMBERS; root++) {
            job_fill(buffer, BYTES, own, 100 + i);
            JOB_OK(process, tutti_post(requests[root]));
            JOB_OK(process, tutti_wait(requests[root]));
            JOB_CHECK(process, job_check(buffer, BYTES, root, 100 + i), "from root %u", root);
        }
    }
    for (uint32_t i = 0; i <= MEMBERS; i++) {
        JOB_OK(process, tutti_finalize(requests[i]));
    }
}

static void check_failed(struct job_rank *process, const tutti_group *group, tutti_status status)
{
    JOB_CHECK(process, status == TUTTI_ERR_PEER_FAILED, "%s: %s", tutti_status_name(status), tutti_last_error());
    JOB_CHECK(process, tutti_group_failed_rank(group) == 1, "rank %d", tutti_group_failed_rank(group));
}

static void be_survivor(struct job_rank *process, uint8_t *buffer)
{
    tutti_context *context = create_context(process);
    tutti_group *before = create_group(process, context, false), *after;
    tutti_status status = TUTTI_OK;
    tutti_request *request;

    use(process, before, buffer);
    JOB_OK(process, tutti_broadcast_init(before, TUTTI_IN_PLACE, buffer, BYTES, 1, NULL, &request));
    job_ready(process);
    while (status == TUTTI_OK) {
        status = tutti_post(request);
        status = status == TUTTI_OK ? tutti_wait(request) : status;
    }
    check_failed(process, before, status);
    atomic_store(&meeting->is_dead, true);
    after = create_group(process, context, true);
    use(process, after, buffer);
    check_failed(process, before, tutti_post(request));
    JOB_OK(process, tutti_finalize(request));
    JOB_OK(process, tutti_group_destroy(before));
    use(process, after, buffer);
    job_end(context, after);
}

static void be_victim(struct job_rank *process, uint8_t *buffer)
{
    tutti_context *context = create_context(process);
    tutti_group *group = create_group(process, context, false);
    tutti_request *request;

    use(process, group, buffer);
    JOB_OK(process, tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, BYTES, 1, NULL, &request));
    job_ready(process);
    for (;;) {
        JOB_OK(process, tutti_post(request));
        JOB_OK(process, tutti_wait(request));
    }
}

/* A process that is killed closes what it has one by one: where it listened perhaps behind what is connected. */
static bool is_free(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    bool bound = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                 bind(fd, (struct sockaddr *)&address, sizeof address) == 0;

    close(fd);
    return bound;
}

static void be_restarted(struct job_rank *process, uint8_t *buffer)
{
    tutti_context *context;
    tutti_group *group;

    job_ready(process);
    while (!atomic_load(&meeting->is_dead) || !is_free(meeting->port)) {
        usleep(1000);
    }
    context = create_context(process);
    group = create_group(process, context, true);
    use(process, group, buffer);
    use(process, group, buffer); /* while the old one is destroyed */
    job_end(context, group);
}

static void body(struct job_rank *process)
{
    static void (*const parts[PROCESSES])(struct job_rank *, uint8_t *) = {be_survivor, be_victim, be_restarted};
    uint8_t *buffer = calloc(MEMBERS, BYTES);

    JOB_CHECK(process, buffer != NULL, "no memory");
    parts[process->rank](process, buffer);
    free(buffer);
}

static void process_that_comes_back_at_the_address_of_a_dead_one_is_another_one(void **state)
{
    (void)state;
    meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(meeting != MAP_FAILED);
    meeting->port = tt_free_port();
    assert_int_equal(job_run_with_victim(PROCESSES, body, NULL, LIMIT_S, VICTIM, SIGKILL), 0);
    munmap(meeting, sizeof *meeting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(process_that_comes_back_at_the_address_of_a_dead_one_is_another_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
