/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of methods from a file. Normal path: the file is read as a whole and parsed (plan/choice.c). Failures: a
 * file that cannot be read, is larger than any table, or is none; the error holds file, line and word.
 */
#include "engine/choice_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/shortage.h"
#include "proto/eager.h"
#include "proto/tree.h"

enum { MOST_BYTES = 64 * 1024, SHOWN_BYTES = 64 };

/* A value of the setting that cannot be, unless it is this process that lacks something. */
static tutti_status refuse_to_read(const char *path, int error)
{
    char text[TT_SHORTAGE_TEXT_BYTES];

    return tt_error(TT_PART_ENGINE, tt_shortage_status_or(error, TUTTI_ERR_INVALID_ARGUMENT), "TUTTI_TABLE=%s: %s",
                    path, tt_shortage_text(error, text));
}

/* Reads up to MOST_BYTES + 1 bytes. */
static tutti_status read_file(const char *path, char *text, size_t *length)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t count = 1;

    if (fd < 0) {
        return refuse_to_read(path, errno);
    }
    while (used <= MOST_BYTES && count > 0) {
        count = read(fd, text + used, MOST_BYTES + 1 - used);
        used += count > 0 ? (size_t)count : 0;
        count = count < 0 && errno == EINTR ? 1 : count;
    }
    if (count < 0) {
        tutti_status status = refuse_to_read(path, errno);

        close(fd);
        return status;
    }
    close(fd);
    assert(used <= MOST_BYTES + 1);
    if (used > MOST_BYTES) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_INVALID_ARGUMENT,
                        "TUTTI_TABLE=%s: more than %d bytes: this is no table", path, MOST_BYTES);
    }
    *length = used;
    return TUTTI_OK;
}

/* What a file holds may be anything: what does not print is shown as '?'. */
static void show(char *shown, size_t capacity, const char *word, size_t word_bytes)
{
    size_t length = word_bytes < capacity - 1 ? word_bytes : capacity - 1;

    assert(capacity > 0);
    for (size_t i = 0; i < length; i++) {
        shown[i] = word[i] >= ' ' && word[i] < 0x7F ? word[i] : '?';
    }
    shown[length] = '\0';
}

static tutti_status parse(const char *path, const char *text, size_t length, struct tt_choice_source *source)
{
    struct tt_choice_fault fault;
    const char *measured;
    size_t measured_bytes;
    char word[SHOWN_BYTES];

    if (!tt_choice_parse(text, length, &source->choice, &measured, &measured_bytes, &fault)) {
        assert(fault.reason != NULL);
        show(word, sizeof word, fault.word, fault.word_bytes);
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_TABLE=%s: line %u: '%s': %s", path,
                        fault.line, word, fault.reason);
    }
    snprintf(source->path, sizeof source->path, "%s", path);
    show(source->measured, sizeof source->measured, measured, measured == NULL ? 0 : measured_bytes);
    return TUTTI_OK;
}

struct tt_choice_question tt_choice_question_for(enum tt_collective_kind kind, bool multicast, uint32_t size,
                                                 uint64_t block_bytes)
{
    return (struct tt_choice_question){.kind = kind,
                                       .multicast = multicast,
                                       .size = size,
                                       .block_bytes = block_bytes,
                                       .eager_most_bytes = tt_eager_most_bytes(kind, size),
                                       .gather_most_bytes = tt_gather_most_bytes(kind, size),
                                       .tree_most_bytes = TT_TREE_MAX_BYTES};
}

tutti_status tt_choice_load(const char *path, struct tt_choice_source *source)
{
    tutti_status status;
    size_t length = 0;
    char *text;

    if (path[0] == '\0') {
        memset(source, 0, sizeof *source);
        source->choice = *tt_choice_default();
        return TUTTI_OK;
    }
    text = malloc(MOST_BYTES + 1);
    if (text == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for the table %s", path);
    }
    status = read_file(path, text, &length);
    if (status == TUTTI_OK) {
        status = parse(path, text, length, source);
    }
    free(text);
    return status;
}
