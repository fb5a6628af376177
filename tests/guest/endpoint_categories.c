/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints on a real provider: endpoint_categories [THREADS] [QUEUE-PAIRS-PER-THREAD]
 *
 * Normal path: makes all six categories, one after the other, on the first RDMA device, prints a row each (what was
 * asked, what it became, what was made) and compares with the plan of what it became, and with what the kernel counts,
 * if iproute2's `rdma` is there to say. Then it lets the provider run out of something, and expects to be told.
 *
 * Failures: a line `failed: ...` each and exit status 1. Without a device: skipped.
 */
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "endpoint/create.h"
#include "endpoint/plan.h"
#include "endpoint/rdma_library.h"
#include "tutti/endpoint.h"
#include "tutti/tutti.h"

enum { DEFAULT_THREADS = 8, LINE_BYTES = 1024, FEW_DESCRIPTORS = 24, MANY_THREADS = 64 };

static unsigned passed, failed;

static void judge(bool good, const char *what, enum tt_endpoint_category category)
{
    passed += good;
    failed += !good;
    if (!good) {
        printf("failed: %s: %s\n", tt_endpoint_category_word(category), what);
    }
}

/* --- What the kernel counts --------------------------------------------------------------------------------------- */

struct kernel_counts {
    bool known;
    long contexts, domains, regions, queue_pairs, completion_queues;
};

/* The number behind a word of "0: rxe0: qp 1 cq 3 ...", or 0: what there is none of may be left out. */
static long count_of(const char *line, const char *word)
{
    const char *found = strstr(line, word);

    return found != NULL ? strtol(found + strlen(word), NULL, 10) : 0;
}

static struct kernel_counts count_in_kernel(const char *device)
{
    struct kernel_counts counts = {0};
    char line[LINE_BYTES], name[IBV_SYSFS_NAME_MAX + 4];
    FILE *output = popen("rdma resource show 2>/dev/null", "r"); /* NOLINT(cert-env33-c): a command without input */

    snprintf(name, sizeof(name), " %s: ", device);
    while (output != NULL && fgets(line, sizeof(line), output) != NULL) {
        if (strstr(line, name) != NULL) {
            counts = (struct kernel_counts){true,
                                            count_of(line, " ctx "),
                                            count_of(line, " pd "),
                                            count_of(line, " mr "),
                                            count_of(line, " qp "),
                                            count_of(line, " cq ")};
        }
    }
    if (output != NULL) {
        pclose(output);
    }
    return counts;
}

static bool are_equal(const struct kernel_counts *a, const struct kernel_counts *b)
{
    return a->known == b->known && a->contexts == b->contexts && a->domains == b->domains && a->regions == b->regions &&
           a->queue_pairs == b->queue_pairs && a->completion_queues == b->completion_queues;
}

static void compare_with_before(const struct kernel_counts *before, const char *device, const char *what,
                                enum tt_endpoint_category category)
{
    struct kernel_counts now = count_in_kernel(device);

    if (!are_equal(before, &now)) {
        printf("left: ctx %+ld, pd %+ld, mr %+ld, qp %+ld, cq %+ld\n", now.contexts - before->contexts,
               now.domains - before->domains, now.regions - before->regions, now.queue_pairs - before->queue_pairs,
               now.completion_queues - before->completion_queues);
    }
    judge(are_equal(before, &now), what, category);
}

/* --- The categories ----------------------------------------------------------------------------------------------- */

static struct tt_endpoint_options options_of(struct ibv_device *device, enum tt_endpoint_category category,
                                             uint32_t threads, uint32_t queue_pairs)
{
    static char buffer[4096];

    return (struct tt_endpoint_options){.device = device,
                                        .category = category,
                                        .threads = threads,
                                        .queue_pairs_per_thread = queue_pairs,
                                        .queue_pair_type = IBV_QPT_RC,
                                        .send_depth = 16,
                                        .receive_depth = 1,
                                        .completion_depth = 32,
                                        .buffer = buffer,
                                        .buffer_bytes = sizeof(buffer)};
}

static void print_row(enum tt_endpoint_category asked, const struct tt_endpoint_made *made)
{
    printf("%-15s %-15s %4" PRIu32 " %4" PRIu32 " %4" PRIu32 " %4" PRIu32 " %4" PRIu32 " %4" PRIu32 " %7" PRIu32,
           tt_endpoint_category_word(asked), tt_endpoint_category_word(made->effective), made->contexts,
           made->protection_domains, made->memory_regions, made->queue_pairs, made->completion_queues,
           made->thread_domains, made->idle_domains);
    if (made->doorbell_pages > 0) {
        printf(" %5" PRIu32 "\n", made->doorbell_pages);
    } else {
        printf(" %5s\n", "-");
    }
}

static void compare_with_plan(enum tt_endpoint_category asked, const struct tt_endpoint_made *made,
                              const struct tt_endpoint_options *options)
{
    struct tt_endpoint_terms terms = {.category = made->effective,
                                      .driver = TT_ENDPOINT_CURRENT,
                                      .threads = options->threads,
                                      .queue_pairs_per_thread = options->queue_pairs_per_thread,
                                      .total_uuars = TT_UUARS_DEFAULT,
                                      .low_latency_uuars = TT_UUARS_LOW_LATENCY_DEFAULT};
    bool wants_domains = tt_endpoint_recipe_of(asked)->domains != TT_ENDPOINT_NO_DOMAINS;
    struct tt_endpoint_plan plan;

    tt_endpoint_plan(&terms, 1, &plan);
    judge(made->effective == asked || (wants_domains && made->effective == TT_ENDPOINT_STATIC),
          "became something that it must not become", asked);
    judge(made->contexts == plan.contexts && made->protection_domains == plan.protection_domains &&
              made->memory_regions == plan.memory_regions && made->queue_pairs == plan.queue_pairs &&
              made->completion_queues == plan.completion_queues && made->thread_domains == plan.thread_domains &&
              made->idle_domains == plan.idle_domains,
          "not what was planned", asked);
}

static void compare_with_kernel(enum tt_endpoint_category asked, const struct tt_endpoint_made *made,
                                const struct kernel_counts *before, const struct kernel_counts *now)
{
    if (!before->known || !now->known) {
        return;
    }
    judge(now->contexts - before->contexts == made->contexts &&
              now->domains - before->domains == made->protection_domains &&
              now->regions - before->regions == made->memory_regions &&
              now->queue_pairs - before->queue_pairs == made->queue_pairs &&
              now->completion_queues - before->completion_queues == made->completion_queues,
          "the kernel counts otherwise", asked);
}

/* Each thread has queue pairs that work, of its own but with mpi+threads. */
static void look_at_queue_pairs(const struct tt_endpoints *endpoints, const struct tt_endpoint_options *options)
{
    bool is_shared = tt_endpoints_made(endpoints)->effective == TT_ENDPOINT_MPI_THREADS;
    bool good = true;

    for (uint32_t thread = 0; thread < options->threads; thread++) {
        for (uint32_t i = 0; i < options->queue_pairs_per_thread; i++) {
            struct ibv_qp *qp = tt_endpoints_lane(endpoints, thread, i)->qp;
            struct ibv_qp_attr attributes;
            struct ibv_qp_init_attr made_with;

            good &= ibv_query_qp(qp, &attributes, IBV_QP_STATE, &made_with) == 0;
            good &= qp->state == IBV_QPS_RESET && made_with.cap.max_send_wr >= options->send_depth;
            good &= thread == 0 || (qp == tt_endpoints_lane(endpoints, thread - 1, i)->qp) == is_shared;
        }
    }
    judge(good, "queue pairs are not as asked", options->category);
}

static void try_category(struct ibv_device *device, const struct tt_endpoint_options *options)
{
    struct kernel_counts before = count_in_kernel(ibv_get_device_name(device));
    struct tt_endpoints *endpoints = NULL;

    if (tt_endpoints_create(tt_endpoint_libibverbs(), options, &endpoints) != TUTTI_OK) {
        judge(false, tt_last_error(), options->category);
        return;
    }
    const struct tt_endpoint_made *made = tt_endpoints_made(endpoints);
    struct kernel_counts now = count_in_kernel(ibv_get_device_name(device));
    print_row(options->category, made);
    compare_with_plan(options->category, made, options);
    compare_with_kernel(options->category, made, &before, &now);
    look_at_queue_pairs(endpoints, options);
    tt_endpoints_destroy(endpoints);
    compare_with_before(&before, ibv_get_device_name(device), "something is left in the kernel", options->category);
}

/* The same through the public functions. */
static void try_publicly(struct ibv_device *device, const struct tt_endpoint_options *options)
{
    tutti_endpoint_options public_options = {.struct_size = sizeof(public_options),
                                             .device = ibv_get_device_name(device),
                                             .category = (tutti_endpoint_category)options->category,
                                             .threads = options->threads,
                                             .queue_pairs_per_thread = options->queue_pairs_per_thread,
                                             .queue_pair_type = options->queue_pair_type,
                                             .send_depth = options->send_depth,
                                             .completion_depth = options->completion_depth,
                                             .buffer = options->buffer,
                                             .buffer_bytes = options->buffer_bytes};
    tutti_endpoint_resources planned = {.struct_size = sizeof(planned)}, made = {.struct_size = sizeof(made)};
    tutti_endpoint_lane lane = {.struct_size = sizeof(lane)};
    tutti_endpoints *endpoints = NULL;

    if (tutti_endpoints_create(&public_options, &endpoints) != TUTTI_OK) {
        judge(false, tutti_last_error(), options->category);
        return;
    }
    judge(tutti_endpoints_query(endpoints, &made) == TUTTI_OK &&
              tutti_endpoints_plan(made.category, options->threads, options->queue_pairs_per_thread, &planned) ==
                  TUTTI_OK &&
              made.contexts == planned.contexts && made.queue_pairs == planned.queue_pairs &&
              made.memory_regions == planned.memory_regions && made.bytes == planned.bytes,
          "the public functions say otherwise", options->category);
    judge(tutti_endpoints_lane(endpoints, options->threads - 1, 0, &lane) == TUTTI_OK && lane.qp->pd != NULL &&
              lane.qp->context == lane.context && lane.mr->pd == lane.pd && lane.cq == lane.qp->send_cq,
          "a lane does not belong together", options->category);
    judge(tutti_endpoints_lane(endpoints, options->threads, 0, &lane) == TUTTI_ERR_INVALID_ARGUMENT,
          "a thread too many has a lane", options->category);
    tutti_endpoints_destroy(endpoints);
    public_options.buffer = NULL;
    public_options.buffer_bytes = 0;
    endpoints = NULL;
    judge(tutti_endpoints_create(&public_options, &endpoints) == TUTTI_OK &&
              tutti_endpoints_query(endpoints, &made) == TUTTI_OK && made.memory_regions == 0 &&
              made.bytes == planned.bytes - planned.memory_regions * TT_ENDPOINT_REGION_BYTES,
          "without a buffer memory regions are counted", options->category);
    tutti_endpoints_destroy(endpoints);
}

/* Contexts need file descriptors, of which there are few for a moment. */
static void run_out(struct ibv_device *device)
{
    struct tt_endpoint_options options = options_of(device, TT_ENDPOINT_MPI_EVERYWHERE, MANY_THREADS, 1);
    struct kernel_counts before = count_in_kernel(ibv_get_device_name(device));
    struct tt_endpoints *endpoints = NULL;
    struct rlimit limit, low;

    getrlimit(RLIMIT_NOFILE, &limit);
    low = limit;
    low.rlim_cur = FEW_DESCRIPTORS;
    setrlimit(RLIMIT_NOFILE, &low);
    tutti_status status = tt_endpoints_create(tt_endpoint_libibverbs(), &options, &endpoints);
    setrlimit(RLIMIT_NOFILE, &limit);
    printf("with %d descriptors: %s\n", FEW_DESCRIPTORS, status != TUTTI_OK ? tt_last_error() : "everything was made");
    judge(status == TUTTI_ERR_NO_RESOURCE && strstr(tt_last_error(), "context ") != NULL && endpoints == NULL,
          "running out of descriptors is not told so", options.category);
    tt_endpoints_destroy(endpoints);
    compare_with_before(&before, ibv_get_device_name(device), "running out leaves something in the kernel",
                        options.category);
}

static uint32_t number(const char *text, uint32_t most)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*text == '\0' || *end != '\0' || value < 1 || value > most) {
        fprintf(stderr, "usage: endpoint_categories [THREADS] [QUEUE-PAIRS-PER-THREAD]; '%s' is not from 1 to %u\n",
                text, most);
        exit(2);
    }
    return (uint32_t)value;
}

int main(int argc, char **argv)
{
    uint32_t threads = argc > 1 ? number(argv[1], TT_ENDPOINT_THREADS_MAX) : DEFAULT_THREADS;
    uint32_t queue_pairs = argc > 2 ? number(argv[2], TT_ENDPOINT_QUEUE_PAIRS_MAX) : 1;
    int count = 0;
    struct ibv_device **devices = tt_rdma_library_load() == TUTTI_OK ? ibv_get_device_list(&count) : NULL;

    if (devices == NULL || count == 0) {
        puts("skipped: there is no RDMA device\n0 passed, 0 failed, 1 skipped");
        return 0;
    }
    printf("%s, %" PRIu32 " threads, %" PRIu32 " queue pairs each%s\n", ibv_get_device_name(devices[0]), threads,
           queue_pairs,
           count_in_kernel(ibv_get_device_name(devices[0])).known ? "" : "; the kernel's counts are not known");
    puts("asked           effective        CTX   PD   MR   QP   CQ   TD idle TD pages");
    for (unsigned i = 0; i < TT_ENDPOINT_CATEGORY_COUNT; i++) {
        struct tt_endpoint_options options = options_of(devices[0], (enum tt_endpoint_category)i, threads, queue_pairs);

        try_category(devices[0], &options);
        try_publicly(devices[0], &options);
    }
    run_out(devices[0]);
    ibv_free_device_list(devices);
    printf("%u passed, %u failed, 0 skipped\n", passed, failed);
    return failed > 0 ? 1 : 0;
}
