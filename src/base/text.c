/* SPDX-License-Identifier: BSD-3-Clause */
/* Normal path: text is well-formed and holds nothing but letters. Never fails. */
#include "base/text.h"

#include <stdbool.h>

unsigned tt_text_sequence(const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned length, low = 0x80, high = 0xBF; /* the second byte's limits */

    if (bytes[0] < 0x80) {
        return 1;
    }
    if (bytes[0] >= 0xC2 && bytes[0] <= 0xDF) {
        length = 2;
    } else if (bytes[0] >= 0xE0 && bytes[0] <= 0xEF) {
        length = 3;
        low = bytes[0] == 0xE0 ? 0xA0 : low;
        high = bytes[0] == 0xED ? 0x9F : high;
    } else if (bytes[0] >= 0xF0 && bytes[0] <= 0xF4) {
        length = 4;
        low = bytes[0] == 0xF0 ? 0x90 : low;
        high = bytes[0] == 0xF4 ? 0x8F : high;
    } else {
        return 0;
    }
    for (unsigned i = 1; i < length; i++) {
        if (bytes[i] < low || bytes[i] > high) {
            return 0;
        }
        low = 0x80;
        high = 0xBF;
    }
    return length;
}

static bool is_control(const unsigned char *bytes, unsigned length)
{
    return length == 1 ? bytes[0] < 0x20 || bytes[0] == 0x7F : length == 2 && bytes[0] == 0xC2 && bytes[1] < 0xA0;
}

void tt_text_clean(char *text)
{
    while (*text != '\0') {
        unsigned length = tt_text_sequence(text);
        bool fine = length > 0 && !is_control((const unsigned char *)text, length);

        for (unsigned i = 0; i < (length > 0 ? length : 1); i++, text++) {
            *text = fine ? *text : '?';
        }
    }
}
