/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: one rank of a long run in short: thousands of broadcasts, allgathers, allreduces and reduce-scatters of all
 * sizes, roots and algorithms, several in flight, in groups that come and go, each checked to the byte; and in between
 * a look at what the process holds, which must not grow. `testbed/soak` starts the ranks, loses their datagrams and
 * stops them at random.
 *
 * Normal path: all ranks draw the same from one seed. A turn is: a slot is drawn, what it has in flight is awaited and
 * checked, and another collective is begun there. Now and then a family of groups is replaced while the slots of others
 * are in flight. At every sample all that can be given back is given back first.
 *
 * Failures: a call that fails, or a sample that is above the first, ends this rank with status 1 and a line with the
 * seed. Wrong bytes are counted, the first of them described. A command line that makes no sense: status 2.
 */
#include "soak.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/settings.h"
#include "cli/command.h"
#include "options.h"

enum { REPLACE_PPM = 25000, PAUSE_PPM = 30000, PAUSE_LIMIT_NS = 3000 * 1000, TESTS = 100, LEAKED_BYTES = 1000 };

tutti_status soak_failed(const struct soak *soak, const char *what, tutti_status status)
{
    char sentence[1024]; /* valid until the next call only */

    snprintf(sentence, sizeof(sentence), "%s", tutti_last_error());
    fprintf(stderr, "soak: rank %u: seed %" PRIu64 ", collective %" PRIu64 ", %s: %s: %s\n", soak->rank,
            soak->options.seed, soak->posted, what, tutti_status_name(status), sentence);
    return status;
}

static tutti_status run_once(tutti_request *request)
{
    tutti_status ended, status = tutti_post(request);

    if (status == TUTTI_OK) {
        status = tutti_wait(request);
    }
    ended = tutti_finalize(request);
    return status == TUTTI_OK ? ended : status;
}

tutti_status soak_gather(struct soak *soak, const void *send, void *receive, uint64_t length_bytes)
{
    tutti_request *request;
    tutti_status status = tutti_allgather_init(soak->families[0].group, send, receive, length_bytes, NULL, &request);

    return status == TUTTI_OK ? run_once(request) : status;
}

/* The first group stays, and with it its triggered engine, and what that has for long messages of a ring. */
static tutti_status reduce_once(struct soak *soak)
{
    tutti_request_options options = {.struct_size = sizeof(options), .algorithm = TUTTI_ALGORITHM_TRIGGERED_RING};
    tutti_request *request;
    tutti_status status = tutti_allreduce_init(soak->families[0].group, TUTTI_IN_PLACE, soak->reference.receive,
                                               SOAK_BUFFER_BYTES, TUTTI_UINT8, TUTTI_SUM, NULL, &options, &request);

    return status == TUTTI_OK ? run_once(request) : status;
}

/* --- Slots -------------------------------------------------------------------------------------------------------- */

static void plant_leak(const struct soak *soak)
{
    static void *volatile leaked;

    if (soak->options.plant == SOAK_PLANT_DESCRIPTOR && soak->rank + 1 == soak->size && soak->done % 10 == 9 &&
        dup(STDERR_FILENO) < 0) {
        perror("soak: planting a descriptor");
    }
    if (soak->options.plant == SOAK_PLANT_MEMORY && soak->rank + 1 == soak->size) {
        leaked = malloc(LEAKED_BYTES); // NOLINT(clang-analyzer-unix.Malloc): the leak is what is to be found
        (void)leaked;
    }
}

static tutti_status complete(struct soak *soak, struct soak_slot *slot)
{
    bool done = false;
    tutti_status status = TUTTI_OK;

    if (!slot->in_flight) {
        return TUTTI_OK;
    }
    for (uint32_t i = 0; slot->draw.by_test && i < TESTS && !done && status == TUTTI_OK; i++) {
        status = tutti_test(slot->request, &done);
        sched_yield();
    }
    if (status == TUTTI_OK && !done) {
        status = tutti_wait(slot->request);
    }
    if (status != TUTTI_OK) {
        return soak_failed(soak, soak_kind_name(slot->draw.kind), status);
    }
    slot->in_flight = false;
    soak->done++;
    soak->reduced += soak_reduces(slot);
    soak_buffers_check(soak, slot);
    plant_leak(soak);
    return TUTTI_OK;
}

/* Ends and gives back what is a family's; SOAK_FAMILIES_LIMIT + 1: everybody's. */
static tutti_status release(struct soak *soak, uint32_t family)
{
    for (uint32_t i = 0; i < soak->options.slots; i++) {
        struct soak_slot *slot = &soak->slots[i];
        tutti_status status = TUTTI_OK;

        if (slot->request == NULL || (slot->family != family && family <= SOAK_FAMILIES_LIMIT)) {
            continue;
        }
        status = complete(soak, slot);
        if (status == TUTTI_OK) {
            status = tutti_finalize(slot->request);
            slot->request = NULL;
        }
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

static tutti_status create_request(struct soak *soak, struct soak_slot *slot, tutti_algorithm algorithm)
{
    tutti_request_options options = {.struct_size = sizeof(options), .algorithm = algorithm};
    const struct soak_family *family = soak_family_of(soak, slot);
    uint8_t *receive = soak_buffers_result(soak, slot);
    const void *send = NULL;

    if (soak_buffers_apart(soak, slot)) {
        send = soak_buffers_start(slot, slot->send);
    } else if (soak_buffers_given(soak, slot)) {
        send = TUTTI_IN_PLACE;
    }
    switch (slot->draw.kind) {
    case SOAK_ALLGATHER:
        return tutti_allgather_init(family->group, send, receive, slot->draw.bytes, &options, &slot->request);
    case SOAK_ALLREDUCE:
        return tutti_allreduce_init(family->group, send, receive, slot->draw.bytes, TUTTI_UINT8, TUTTI_SUM, NULL,
                                    &options, &slot->request);
    case SOAK_REDUCE_SCATTER:
        return tutti_reduce_scatter_init(family->group, send, receive, slot->draw.bytes, TUTTI_UINT8, TUTTI_SUM, NULL,
                                         &options, &slot->request);
    default:
        return tutti_broadcast_init(family->group, send, receive, slot->draw.bytes, slot->draw.root, &options,
                                    &slot->request);
    }
}

static tutti_status init_request(struct soak *soak, struct soak_slot *slot, const struct soak_draw *draw)
{
    const struct soak_family *family;
    tutti_status status;
    uint64_t room;

    slot->draw = *draw;
    slot->family = draw->family % ((uint32_t)soak->options.groups + 1);
    family = soak_family_of(soak, slot);
    room = SOAK_BUFFER_BYTES / (draw->kind == SOAK_ALLGATHER || draw->kind == SOAK_REDUCE_SCATTER ? family->size : 1);
    slot->draw.bytes = draw->bytes < room ? draw->bytes : room;
    slot->draw.root = draw->root % family->size;
    slot->draw.algorithm = draw->algorithm % soak->algorithm_counts[soak_reduces(slot)];
    status = create_request(soak, slot, soak_algorithm_of(soak, slot));
    if (status == TUTTI_ERR_TOO_LARGE || status == TUTTI_ERR_NOT_SUPPORTED) { /* of this algorithm; all ranks agree */
        slot->draw.algorithm = 0;
        status = create_request(soak, slot, soak_algorithm_of(soak, slot));
    }
    return status;
}

/* Ranks come at different times in real programs. */
static void pause_at_random(struct soak *soak)
{
    struct timespec pause = {0};

    if (tt_random_chance(&soak->private, PAUSE_PPM)) {
        pause.tv_nsec = (long)tt_random_below(&soak->private, PAUSE_LIMIT_NS);
        nanosleep(&pause, NULL);
    }
}

static tutti_status take_turn(struct soak *soak)
{
    struct soak_draw draw;
    struct soak_slot *slot;
    tutti_status status;

    soak_draw_collective(&soak->common, (uint32_t)soak->options.slots, &draw);
    slot = &soak->slots[draw.slot];
    status = complete(soak, slot);
    if (status == TUTTI_OK && slot->request != NULL && !draw.again) {
        status = tutti_finalize(slot->request);
        slot->request = NULL;
    }
    if (status == TUTTI_OK && slot->request == NULL) {
        status = init_request(soak, slot, &draw);
        if (status != TUTTI_OK) {
            return soak_failed(soak, "init", status);
        }
    }
    if (status != TUTTI_OK) {
        return status;
    }
    slot->round = soak->posted;
    soak_buffers_prepare(soak, slot);
    pause_at_random(soak);
    status = tutti_post(slot->request);
    if (status != TUTTI_OK) {
        return soak_failed(soak, "post", status);
    }
    slot->in_flight = true;
    soak->posted++;
    return TUTTI_OK;
}

/* --- The run ------------------------------------------------------------------------------------------------------ */

static tutti_status replace_family(struct soak *soak, uint32_t index)
{
    tutti_status status = release(soak, index);

    if (status == TUTTI_OK && soak->families[index].group != NULL) {
        status = soak_groups_destroy(soak, index);
        if (status != TUTTI_OK) {
            return soak_failed(soak, "destroying a group", status);
        }
    }
    if (status == TUTTI_OK) {
        status = soak_groups_create(soak, index);
        if (status != TUTTI_OK) {
            return soak_failed(soak, "creating a group", status);
        }
    }
    return status;
}

static tutti_status sample(struct soak *soak)
{
    tutti_status status = release(soak, SOAK_FAMILIES_LIMIT + 1);

    for (uint32_t index = 1; index <= soak->options.groups && status == TUTTI_OK; index++) {
        status = soak_groups_destroy(soak, index);
    }
    if (status == TUTTI_OK) {
        status = soak_sample_take(soak);
    }
    if (status != TUTTI_OK) {
        return soak_failed(soak, "taking a sample", status);
    }
    soak_sample_print(soak);
    return TUTTI_OK;
}

static bool enough(const struct soak *soak)
{
    const struct soak_sample *last = &soak->samples[(size_t)(soak->sample_count - 1) * soak->size];

    return soak->posted >= soak->options.count ||
           (soak->options.seconds > 0 && soak->posted > soak->options.from && /* rank 0's time, for all */
            last->elapsed_ns >= soak->options.seconds * TT_NS_PER_S);
}

static tutti_status run(struct soak *soak)
{
    const struct soak_options *options = &soak->options;
    tutti_status status = TUTTI_OK;

    do {
        uint64_t until = soak->posted < options->from ? options->from : soak->posted + options->every;

        until = until < options->count ? until : options->count;
        for (uint32_t index = 1; index <= options->groups && status == TUTTI_OK; index++) {
            status = replace_family(soak, index);
        }
        while (status == TUTTI_OK && soak->posted < until) {
            status = take_turn(soak);
            if (status == TUTTI_OK && options->groups > 0 && tt_random_chance(&soak->common, REPLACE_PPM)) {
                status = replace_family(soak, 1 + (uint32_t)tt_random_below(&soak->common, options->groups));
            }
        }
        if (status == TUTTI_OK) {
            status = sample(soak);
        }
    } while (status == TUTTI_OK && !enough(soak));
    return status;
}

/* The public numbers are the settings'. */
static void name_algorithms(struct soak *soak)
{
    static const char *const names[2][SOAK_ALGORITHMS_LIMIT] = {
        {"auto", "multicast", "ring", "eager", "tree", "gather"},
        {"auto", "eager", "gather", "recursive-doubling", "recursive-halving", "rabenseifner", "triggered-ring",
         "direct", "parts", "eager-parts"}};

    for (unsigned reduces = 0; reduces < 2; reduces++) {
        for (size_t i = 0; i < SOAK_ALGORITHMS_LIMIT && names[reduces][i] != NULL; i++) {
            enum tt_algorithm algorithm;

            if (tt_parse_algorithm(names[reduces][i], &algorithm) == TUTTI_OK) {
                soak->algorithms[reduces][soak->algorithm_counts[reduces]++] = (tutti_algorithm)algorithm;
            }
        }
    }
}

static tutti_status begin(struct soak *soak)
{
    tutti_status status;

    soak_sample_prepare();
    status = tutti_context_create(NULL, &soak->context);

    if (status == TUTTI_OK) {
        status = soak_groups_begin(soak);
    }
    if (status != TUTTI_OK) {
        return soak_failed(soak, "the first group", status);
    }
    tt_random_init(&soak->common, soak->options.seed);
    tt_random_init(&soak->private, soak->options.seed * TT_MAX_RANKS + soak->rank + 1);
    name_algorithms(soak);
    status = soak_buffers_init(&soak->reference);
    for (uint32_t i = 0; i < soak->options.slots && status == TUTTI_OK; i++) {
        status = soak_buffers_init(&soak->slots[i]);
    }
    if (status != TUTTI_OK) {
        return soak_failed(soak, "memory for buffers", status);
    }
    soak->samples = calloc((size_t)SOAK_SAMPLES_LIMIT * soak->size, sizeof(*soak->samples));
    if (soak->samples == NULL) {
        return soak_failed(soak, "memory for samples", TUTTI_ERR_NO_MEMORY);
    }
    memset(soak->samples, 1, (size_t)SOAK_SAMPLES_LIMIT * soak->size * sizeof(*soak->samples));
    soak->begun_ns = tt_clock_now_ns();
    return TUTTI_OK;
}

static int soak_run(struct soak *soak)
{
    const struct soak_options *options = &soak->options;
    tutti_status status = begin(soak);
    bool bad = true;

    if (status == TUTTI_OK && soak->rank == 0 && !options->json) {
        printf("soak: %u ranks, seed %" PRIu64 ", %" PRIu64 " collectives, %" PRIu64 " in flight, %" PRIu64
               " groups beside the first, %u workers; the most of all ranks:\n",
               soak->size, options->seed, options->count, options->slots, options->groups, soak->workers);
    }
    soak_sample_head(soak);
    if (status == TUTTI_OK) {
        status = soak_groups_meet(soak);
        if (status == TUTTI_OK) {
            status = reduce_once(soak);
        }
        if (status != TUTTI_OK) {
            soak_failed(soak, "groups of two, and a first reduction", status);
        }
    }
    if (status == TUTTI_OK) {
        status = run(soak);
    }
    if (status == TUTTI_OK) {
        bad = soak_sample_verdict(soak);
        status = soak_groups_destroy(soak, 0);
        if (status == TUTTI_OK) {
            status = tutti_context_destroy(soak->context);
        }
        if (status != TUTTI_OK) {
            soak_failed(soak, "the end", status);
        }
    }
    if (status == TUTTI_OK && !bad && soak->rank == 0 && !options->json) {
        printf("soak: nothing wrong, nothing grown; %" PRIu64 " groups did without multicast\n",
               soak->groups_without_multicast);
    }
    for (uint32_t i = 0; i < options->slots; i++) {
        soak_buffers_fini(&soak->slots[i]);
    }
    soak_buffers_fini(&soak->reference);
    free(soak->order);
    free(soak->exchange_send);
    free(soak->exchange_receive);
    free(soak->samples);
    return status == TUTTI_OK && !bad ? TT_EXIT_OK : TT_EXIT_FAILED;
}

/* --- Arguments ---------------------------------------------------------------------------------------------------- */

static bool read_count(const char *option, const char *text, uint64_t least, uint64_t limit, uint64_t *value)
{
    if (tt_parse_count(text, value) != TUTTI_OK || *value < least || *value > limit) {
        fprintf(stderr, "soak: --%s=%s: not a number from %" PRIu64 " to %" PRIu64 "\n", option, text, least, limit);
        return false;
    }
    return true;
}

static bool read_plant(const char *text, enum soak_plant *plant)
{
    static const char *const names[] = {"nothing", "byte", "descriptor", "memory"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            *plant = (enum soak_plant)i;
            return true;
        }
    }
    fprintf(stderr, "soak: --plant=%s: not byte, descriptor or memory\n", text);
    return false;
}

static bool read_option(int letter, void *target)
{
    struct soak_options *options = target;

    switch (letter) {
    case 's':
        return read_count("seed", optarg, 0, UINT64_MAX, &options->seed);
    case 'n':
        return read_count("count", optarg, 1, 100000000, &options->count);
    case 'f':
        return read_count("from", optarg, 1, 100000000, &options->from);
    case 'e':
        return read_count("every", optarg, 1, 100000000, &options->every);
    case 't':
        return read_count("seconds", optarg, 0, 1000000, &options->seconds);
    case 'l':
        return read_count("slots", optarg, 1, SOAK_SLOTS_LIMIT, &options->slots);
    case 'g':
        return read_count("groups", optarg, 0, SOAK_FAMILIES_LIMIT, &options->groups);
    case 'p':
        return read_plant(optarg, &options->plant);
    case 'a':
        return options->alone = true;
    case 'j':
        return options->json = true;
    default:
        return false;
    }
}

static const struct option known[] = {
    {"seed", required_argument, NULL, 's'},    {"count", required_argument, NULL, 'n'},
    {"from", required_argument, NULL, 'f'},    {"every", required_argument, NULL, 'e'},
    {"seconds", required_argument, NULL, 't'}, {"slots", required_argument, NULL, 'l'},
    {"groups", required_argument, NULL, 'g'},  {"plant", required_argument, NULL, 'p'},
    {"alone", no_argument, NULL, 'a'},         {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},          {0}};

static const struct bench_command command = {
    .name = "soak",
    .help = "usage: soak [OPTION]...\n"
            "One rank of a long run of random collectives; any launcher that tutti knows starts the ranks.\n"
            "  --seed N      what all ranks draw from (1)\n"
            "  --count N     collectives (20000)\n"
            "  --from N      from the sample after so many on nothing may grow (1000)\n"
            "  --every N     collectives between samples (1000)\n"
            "  --seconds N   enough at the first sample after this (0: never)\n"
            "  --slots N     in flight, 1 to 16 (6)\n"
            "  --groups N    that come and go, 0 to 16 (3)\n"
            "  --alone       nothing else on this host joins multicast groups: count them too\n"
            "  --plant WHAT  byte, descriptor or memory: a fault that must be found\n"
            "  --json        a line for each sample\n",
    .options = known,
    .read = read_option};

int main(int argc, char **argv)
{
    static struct soak soak = {
        .options = {.seed = 1, .count = 20000, .from = 1000, .every = 1000, .slots = 6, .groups = 3}};
    int status;

    if (!bench_options_read(&command, argc, argv, &soak.options, &status)) {
        return status;
    }
    return soak_run(&soak);
}
