/* SPDX-License-Identifier: BSD-3-Clause */
/* Text that came from somewhere: a peer, the environment, the system. Thread-safe. */
#ifndef TT_BASE_TEXT_H
#define TT_BASE_TEXT_H

/* Bytes of the UTF-8 sequence that begins here (RFC 3629), 0 if none does. Overlong forms and surrogates are none. */
unsigned tt_text_sequence(const char *text);

/* Each byte of what steers a terminal becomes '?', so that the text keeps its length: control characters of ASCII and,
 * in UTF-8 or alone, those of ISO 6429's other set (0x80 to 0x9F, of which 0x9B begins what ESC [ does), and whatever
 * else is not UTF-8. Letters of all alphabets stay. */
void tt_text_clean(char *text);

#endif
