/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive: how fast one receive path is. Not installed; see docs/performance.md.
 *
 * What is measured is what a receive worker does with one subgroup: poll of the udp provider over loopback, or of the
 * verbs provider over an RDMA device, the receive kernel, repost. `stream`: a process on another core sends blocks as
 * fast as the receiver allows, which says how fast chunks go through. `turns`: one process sends a burst, and then
 * receives it; its time is the processor time of receiving, step by step, which says what the receive path alone costs.
 * Every block is compared with what was sent; nothing may be lost, because the sender never runs ahead of what the
 * receive queue holds. Failures: a chunk that does not arrive, or a block with a wrong byte, ends the program with
 * status 1 and a sentence.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "cli/command.h"
#include "cli/json.h"
#include "options.h"
#include "receive_path.h"

static void report(const struct receive_options *options, const struct receive_result *result)
{
    double bytes = (double)options->block_bytes, chunks = (double)result->chunks;
    double chunks_per_block = chunks / options->blocks, full_polls = (double)(result->polls - result->dry_polls);
    struct tt_json json;

    if (!options->json) {
        printf("%-7s %7llu %9.2f %9.2f %9.0f %9.0f %9.0f %9.0f %9.1f\n", result->mode,
               (unsigned long long)options->chunk_bytes, bytes / result->median_s / 1e9, bytes / result->best_s / 1e9,
               chunks_per_block / result->median_s / 1e3, (double)result->cpu_ns / chunks,
               (double)result->poll_ns / chunks, (double)result->place_ns / chunks, chunks / full_polls);
        return;
    }
    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_json_text(&json, "mode", result->mode);
    tt_json_text(&json, "provider", options->verbs ? "verbs" : "udp");
    tt_json_count(&json, "chunk_bytes", options->chunk_bytes);
    tt_json_count(&json, "block_bytes", options->block_bytes);
    tt_json_count(&json, "blocks", options->blocks);
    tt_json_number(&json, "bytes_per_second", bytes / result->median_s);
    tt_json_number(&json, "best_bytes_per_second", bytes / result->best_s);
    tt_json_number(&json, "chunks_per_second", chunks_per_block / result->median_s);
    tt_json_number(&json, "cpu_ns_per_chunk", (double)result->cpu_ns / chunks);
    tt_json_number(&json, "poll_ns_per_chunk", (double)result->poll_ns / chunks);
    tt_json_number(&json, "place_ns_per_chunk", (double)result->place_ns / chunks);
    tt_json_number(&json, "chunks_per_poll", chunks / full_polls);
    tt_json_count(&json, "polls", result->polls);
    tt_json_count(&json, "dry_polls", result->dry_polls);
    tt_json_end_object(&json);
}

/* --- Arguments ---------------------------------------------------------------------------------------------------- */

static bool misuse(const char *option, const char *value)
{
    fprintf(stderr, "receive: --%s=%s makes no sense\n", option, value);
    return false;
}

static bool read_size(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
    return (tt_parse_size(text, value) == TUTTI_OK && *value >= least && *value <= most) || misuse(option, text);
}

static bool read_mode(const char *text, struct receive_options *options)
{
    options->stream = strcmp(text, "stream") == 0 || strcmp(text, "both") == 0;
    options->turns = strcmp(text, "turns") == 0 || strcmp(text, "both") == 0;
    return options->stream || options->turns || misuse("mode", text);
}

static bool read_provider(const char *text, struct receive_options *options)
{
    options->verbs = strcmp(text, "verbs") == 0;
    return options->verbs || strcmp(text, "udp") == 0 || misuse("provider", text);
}

static bool read_option(int letter, void *target)
{
    struct receive_options *options = target;
    uint64_t blocks;
    bool fine;

    switch (letter) {
    case 'v':
        return read_provider(optarg, options);
    case 'c':
        return read_size("chunk", optarg, 1, 65491, &options->chunk_bytes);
    case 'b':
        return read_size("block", optarg, 1, UINT64_C(1) << 32, &options->block_bytes);
    case 'n':
        fine = read_size("blocks", optarg, 1, RECEIVE_BLOCKS_LIMIT, &blocks);
        options->blocks = fine ? (uint32_t)blocks : 0;
        return fine;
    case 'r':
        return read_size("buffer", optarg, 1, 1 << 30, &options->buffer_bytes);
    case 'u':
        return read_size("burst", optarg, 1, 1 << 20, &options->burst_chunks);
    case 'm':
        return read_mode(optarg, options);
    case 't':
        return options->untimed = true;
    case 'p':
        return options->plain = true;
    case 'j':
        return options->json = true;
    default:
        return false;
    }
}

static const struct option known[] = {
    {"provider", required_argument, NULL, 'v'}, {"chunk", required_argument, NULL, 'c'},
    {"block", required_argument, NULL, 'b'},    {"blocks", required_argument, NULL, 'n'},
    {"buffer", required_argument, NULL, 'r'},   {"burst", required_argument, NULL, 'u'},
    {"mode", required_argument, NULL, 'm'},     {"plain", no_argument, NULL, 'p'},
    {"untimed", no_argument, NULL, 't'},        {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},           {0}};

static const struct bench_command command = {
    .name = "receive",
    .help =
        "usage: receive [OPTION]...\n"
        "How fast one receive path is.\n"
        "  --provider NAME udp, over loopback, or verbs, over the device of TUTTI_DEVICE and TUTTI_INTERFACE (udp)\n"
        "  --chunk SIZE    of a chunk (8K; with verbs 4K)\n"
        "  --block SIZE    of a block, which is what one figure is about (16M)\n"
        "  --blocks N      how many, 1 to 1000 (20)\n"
        "  --buffer SIZE   of the socket, or staging (4M)\n"
        "  --burst N       chunks sent before they are received, with turns (64)\n"
        "  --mode MODE     stream, turns or both (both)\n"
        "  --untimed       no clock within a block, for tools that count instructions\n"
        "  --plain         without segmentation offload; udp only\n"
        "  --json          a line for each mode\n",
    .options = known,
    .read = read_option};

int main(int argc, char **argv)
{
    struct receive_options options = {.blocks = 20,
                                      .block_bytes = 16 << 20,
                                      .buffer_bytes = 4 << 20,
                                      .burst_chunks = 64,
                                      .stream = true,
                                      .turns = true};
    int status;

    if (!bench_options_read(&command, argc, argv, &options, &status)) {
        return status;
    }
    if (options.verbs && options.plain) {
        (void)misuse("provider", "verbs --plain");
        fputs(command.help, stderr);
        return TT_EXIT_USAGE;
    }
    if (options.chunk_bytes == 0) {
        options.chunk_bytes = options.verbs ? 4096 : 8192;
    }
    if (!options.json) {
        printf("%-7s %7s %9s %9s %9s %9s %9s %9s %9s\n%-7s %7s %9s %9s %9s %9s %9s %9s %9s\n", "mode", "chunk",
               "median", "best", "thousand", "cpu", "in poll", "placing", "chunks", "", "bytes", "GB/s", "GB/s",
               "chunks/s", "ns/chunk", "ns/chunk", "ns/chunk", "a poll");
    }
    if (options.stream) {
        struct receive_result result = receive_stream(&options);
        report(&options, &result);
    }
    if (options.turns) {
        struct receive_result result = receive_turns(&options);
        report(&options, &result);
    }
    return 0;
}
