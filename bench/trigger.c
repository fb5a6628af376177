/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what a packet costs the triggered engine: read as it comes, through the hash buffer, or fetched.
 *
 *     trigger [--early] [--announced] [--rounds N] [--bytes B]
 *
 * Normal path: N rounds (10000) of a sequence of 32 descriptors, each of which reads a packet of B bytes (8) from
 * another node and adds its integers to its operand. The packets come in order, each when it is waited for; or, with
 * --early, all of them before the sequence is posted, the last one first. With --announced they have references of 8
 * bytes instead, and what is fetched is there at once. Prints nanoseconds a packet, with all that
 * belongs to it: posting, answers, completions. Under `valgrind --tool=callgrind --collect-atstart=no
 * --toggle-collect='run_round*'` the instructions of the rounds are counted, which are the same in every run; the
 * compiler may call the function run_round.constprop.0.
 *
 * Failures: a result that is wrong is one line and status 1. A command line that makes no sense: status 2.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/settings.h"
#include "offload/offload.h"

enum { STEPS = TT_TRIGGER_STEPS, PACKET_BYTES = 4096, UNIT_BYTES = 512 << 10, PEER = 7, EXIT_USAGE = 2 };

struct trigger {
    bool early, announced;
    uint64_t rounds, bytes;
    struct tt_offload *offload;
    uint8_t descriptors[STEPS * TT_DESCRIPTOR_BYTES];
    _Alignas(16) int64_t sums[PACKET_BYTES / 8], operand[PACKET_BYTES / 8];
    uint64_t completed;
};

static struct tt_reduction sums_of_int64;

static void write_sequence(struct trigger *trigger)
{
    for (uint32_t i = 0; i < STEPS; i++) {
        struct tt_descriptor d = {.collective = true,
                                  .head = i == 0,
                                  .tail = i + 1 == STEPS,
                                  .count = (uint8_t)(i + 1),
                                  .reduce = true,
                                  .length_bytes = trigger->bytes,
                                  .source_count = 1,
                                  .sources = {PEER}};

        tt_descriptor_encode(&d, trigger->descriptors + (size_t)i * TT_DESCRIPTOR_BYTES);
    }
}

static void take_step(struct trigger *trigger, struct tt_offload_event event)
{
    struct tt_offload_action actions[4];
    bool has_more = true;

    while (has_more) {
        struct tt_offload_actions list = {.actions = actions, .capacity = 4};

        has_more = false;
        if (tt_offload_step(trigger->offload, &event, &list) != TUTTI_OK) {
            abort();
        }
        for (uint32_t i = 0; i < list.count; i++) {
            trigger->completed += actions[i].kind == TT_OFFLOAD_COMPLETE && actions[i].status == TUTTI_OK;
            if (actions[i].kind == TT_OFFLOAD_FETCH) {
                memcpy(actions[i].destination, trigger->operand, trigger->bytes);
                event = (struct tt_offload_event){.kind = TT_OFFLOAD_FETCHED, .port = actions[i].port};
                has_more = true;
            }
        }
    }
}

static void step(struct trigger *trigger, const struct tt_trigger_packet *packet)
{
    take_step(trigger, (struct tt_offload_event){.kind = packet == NULL ? TT_OFFLOAD_TICK : TT_OFFLOAD_PACKET,
                                                 .packet = packet,
                                                 .payload = trigger->operand});
}

static void send_packet(struct trigger *trigger, uint32_t index)
{
    struct tt_trigger_packet packet = {.kind = trigger->announced ? TT_TRIGGER_REMOTE : TT_TRIGGER_DATA,
                                       .reference_bytes = trigger->announced ? 8 : 0,
                                       .node = PEER,
                                       .sequence = (uint8_t)index,
                                       .triggers = true,
                                       .collective_end = index + 1 == STEPS,
                                       .length_bytes = (uint32_t)trigger->bytes};

    step(trigger, &packet);
}

static void post(struct trigger *trigger)
{
    struct tt_sequence sequence = {.descriptors = trigger->descriptors,
                                   .count = STEPS,
                                   .buffer = trigger->sums,
                                   .buffer_bytes = sizeof(trigger->sums),
                                   .reduction = &sums_of_int64};

    if (tt_offload_post(trigger->offload, 0, &sequence) != TUTTI_OK) {
        abort();
    }
    step(trigger, NULL);
}

__attribute__((noinline)) static void run_round(struct trigger *trigger)
{
    if (!trigger->early) {
        post(trigger);
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        send_packet(trigger, trigger->early ? STEPS - 1 - i : i);
    }
    if (trigger->early) {
        post(trigger);
    }
}

static int run(struct trigger *trigger)
{
    struct tt_offload_terms terms = {.unit_count = 1,
                                     .port_count = 1,
                                     .unit_bytes = UNIT_BYTES,
                                     .packet_bytes = PACKET_BYTES,
                                     .inline_bytes = trigger->announced ? 0 : PACKET_BYTES,
                                     .window = 1,
                                     .queue_length = 1,
                                     .retry_ns = 1000};
    void *memory = malloc(tt_offload_memory_bytes(&terms));

    if (memory == NULL) {
        fprintf(stderr, "trigger: not enough memory\n");
        return EXIT_FAILURE;
    }
    trigger->offload = tt_offload_init(&terms, memory);
    for (uint64_t i = 0; i < PACKET_BYTES / 8; i++) {
        trigger->operand[i] = 1;
    }
    write_sequence(trigger);
    uint64_t begun_ns = tt_clock_now_ns();

    for (uint64_t i = 0; i < trigger->rounds; i++) {
        run_round(trigger);
    }
    double each_ns = (double)(tt_clock_now_ns() - begun_ns) / (double)(trigger->rounds * STEPS);
    const struct tt_offload_counters *counters = tt_offload_counters(trigger->offload);
    bool is_right = trigger->completed == trigger->rounds &&
                    counters->read_at_once == (trigger->early || trigger->announced ? 0 : counters->read) &&
                    counters->fetched == (trigger->announced ? counters->read : 0) &&
                    (trigger->bytes == 0 || trigger->sums[0] == (int64_t)(trigger->rounds * STEPS));

    free(memory);
    if (!is_right) {
        fprintf(stderr, "trigger: the result is wrong\n");
        return EXIT_FAILURE;
    }
    printf("%s%s, %" PRIu64 " bytes: %.1f ns a packet\n", trigger->early ? "through the buffer" : "as they come",
           trigger->announced ? ", fetched" : "", trigger->bytes, each_ns);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"early", no_argument, NULL, 'e'},
                                            {"announced", no_argument, NULL, 'a'},
                                            {"rounds", required_argument, NULL, 'r'},
                                            {"bytes", required_argument, NULL, 'b'},
                                            {NULL, 0, NULL, 0}};
    static struct trigger trigger = {.rounds = 10000, .bytes = 8};
    bool good = tt_reduction_init(&sums_of_int64, TT_TYPE_INT64, TT_REDUCE_SUM) == TUTTI_OK;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'e':
            trigger.early = true;
            break;
        case 'a':
            trigger.announced = true;
            break;
        case 'r':
            good = good && tt_parse_count(optarg, &trigger.rounds) == TUTTI_OK && trigger.rounds > 0;
            break;
        case 'b':
            good = good && tt_parse_count(optarg, &trigger.bytes) == TUTTI_OK && trigger.bytes % 8 == 0 &&
                   trigger.bytes <= PACKET_BYTES;
            break;
        default:
            good = false;
        }
    }
    if (!good || optind < argc || (trigger.announced && trigger.bytes == 0)) {
        fprintf(stderr, "usage: trigger [--early] [--announced] [--rounds N] [--bytes B], B a multiple of 8 up to %d\n",
                PACKET_BYTES);
        return EXIT_USAGE;
    }
    return run(&trigger);
}
