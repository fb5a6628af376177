/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive path that the benchmark `receive` measures, and its two ways of feeding it. */
#ifndef TT_BENCH_RECEIVE_PATH_H
#define TT_BENCH_RECEIVE_PATH_H

#include <stdbool.h>
#include <stdint.h>

enum { RECEIVE_BLOCKS_LIMIT = 1000 };

struct receive_options {
    uint64_t chunk_bytes, block_bytes, buffer_bytes, burst_chunks;
    uint32_t blocks;
    bool verbs; /* else udp */
    bool stream, turns, plain, untimed, json;
};

struct receive_result {
    const char *mode;
    double median_s, best_s; /* of a block */
    uint64_t polls, dry_polls, poll_ns, place_ns, cpu_ns, chunks;
};

/* Each feeds and receives options->blocks blocks. What goes wrong ends the program with status 1 and a sentence. */
struct receive_result receive_stream(const struct receive_options *options);
struct receive_result receive_turns(const struct receive_options *options);

#endif
