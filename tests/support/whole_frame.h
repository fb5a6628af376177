/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames in one piece, where the library sends what is behind a head from where it lies. */
#ifndef TT_TESTS_SUPPORT_WHOLE_FRAME_H
#define TT_TESTS_SUPPORT_WHOLE_FRAME_H

#include <string.h>

#include "wire/trigger_frame.h"

/* Writes the head and the piece; returns the length of both. */
static inline size_t whole_trigger_frame(const struct tt_trigger_frame *frame, uint8_t *bytes)
{
    tt_trigger_frame_encode(frame, bytes);
    if (frame->piece_bytes > 0) {
        memcpy(bytes + TT_TRIGGER_FRAME_HEAD_BYTES, frame->piece, frame->piece_bytes);
    }
    return TT_TRIGGER_FRAME_HEAD_BYTES + (size_t)frame->piece_bytes;
}

#endif
