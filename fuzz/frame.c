/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a control frame. What decodes must encode to the very bytes it came from (a frame has one form only),
 * and what it points to must lie inside of them. The input is copied to a block of its own size, so that a read past
 * its end is seen.
 */
#include <string.h>

#include "check.h"
#include "wire/frame.h"

static void check_inside(const uint8_t *bytes, size_t size, const uint8_t *start, size_t length)
{
    FUZZ_CHECK(length == 0 || (start >= bytes && length <= size && (size_t)(start - bytes) <= size - length));
}

static void check_pointers(const uint8_t *bytes, size_t size, const struct tt_frame *frame)
{
    if (frame->type == TT_FRAME_AVAILABLE) {
        FUZZ_CHECK(frame->body.available.key_bytes <= TT_FRAME_MAX_KEY_BYTES);
        check_inside(bytes, size, frame->body.available.key, frame->body.available.key_bytes);
    }
    if (frame->type == TT_FRAME_DATA) {
        FUZZ_CHECK(frame->body.data.length_bytes <= TT_FRAME_DATA_BYTES);
        check_inside(bytes, size, frame->body.data.bytes, frame->body.data.length_bytes);
    }
    if (frame->type == TT_FRAME_GATHER) {
        check_inside(bytes, size, frame->body.gather.bytes, frame->body.gather.length_bytes);
    }
    if (frame->type == TT_FRAME_ROLLCALL) {
        FUZZ_CHECK(frame->body.rollcall.first == 0 || frame->body.rollcall.first < frame->body.rollcall.rank_count);
        check_inside(bytes, size, frame->body.rollcall.present,
                     (tt_rollcall_ranks(frame->body.rollcall.rank_count, frame->body.rollcall.first) + 7U) / 8);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    uint8_t *again = malloc(size > 0 ? size : 1);
    struct tt_frame frame;

    FUZZ_CHECK(bytes != NULL && again != NULL);
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    if (size > 2) {
        bytes[2] = TT_FRAME_VERSION; /* so that the corpus stays good */
    }
    if (tt_frame_decode(bytes, size, &frame)) {
        FUZZ_CHECK(size <= TT_FRAME_MAX_BYTES || frame.type == TT_FRAME_GATHER);
        FUZZ_CHECK(frame.type >= TT_FRAME_BARRIER && frame.type < TT_FRAME_TYPE_COUNT);
        FUZZ_CHECK(tt_frame_name(frame.type) != NULL);
        check_pointers(bytes, size, &frame);
        FUZZ_CHECK(tt_frame_encode(&frame, again, size) == size);
        FUZZ_CHECK(memcmp(again, bytes, size) == 0);
        FUZZ_CHECK(tt_frame_encode(&frame, again, size - 1) == 0);
    }
    free(again);
    free(bytes);
    return 0;
}
