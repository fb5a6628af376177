/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large objects from rank 0 to all others, by blocks between two ranks each: an object group.
 *
 * Rank 0 sends three objects of different sizes. The others do not know these before: they are asked for memory, and
 * told when an object is there. All of them close, which says that every object has reached everybody. Start it as four
 * ranks of this machine with `tutti run -n 4 ./object`; started alone it is a group of one.
 *
 * Failures: every call's status is looked at; the first bad one is printed with the library's sentence about it, and
 * ends this rank with status 1. What a rank cannot take (no memory) ends the group for all, with the rank that refused.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tutti/object.h>

enum { OBJECTS = 3 };

static const size_t sizes[OBJECTS] = {1, 5 << 20, 40 << 20};

static void check(tutti_status status, const char *what)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, tutti_status_text(status), tutti_last_error());
        exit(1);
    }
}

/* The byte that belongs at this place of this object. */
static unsigned char pattern(size_t offset, uint64_t sequence)
{
    return (unsigned char)(offset * 31 + (offset >> 12) + sequence * 7);
}

/* A receiver gives memory for what is coming ... */
static tutti_status incoming(void *argument, uint64_t sequence, uint64_t size_bytes, void **memory)
{
    (void)argument, (void)sequence;
    *memory = malloc(size_bytes > 0 ? size_bytes : 1);
    return *memory != NULL ? TUTTI_OK : TUTTI_ERR_NO_MEMORY;
}

/* ... and has it back with the object in it. At rank 0 this says that the data is no longer needed. */
static void completion(void *argument, uint64_t sequence, void *memory, uint64_t size_bytes)
{
    const unsigned char *bytes = memory;
    unsigned *count = argument;

    for (size_t i = 0; i < size_bytes; i++) {
        if (bytes[i] != pattern(i, sequence)) {
            fprintf(stderr, "object %llu: wrong byte at offset %zu\n", (unsigned long long)sequence, i);
            exit(1);
        }
    }
    free(memory);
    (*count)++;
}

static void failure(void *argument, tutti_status status, int rank)
{
    (void)argument;
    fprintf(stderr, "the group has failed: %s, rank %d\n", tutti_status_text(status), rank);
}

int main(void)
{
    tutti_context *context = NULL;
    tutti_group *group = NULL;
    tutti_object_group *objects = NULL;
    unsigned count = 0;
    tutti_object_options options = {.struct_size = sizeof options,
                                    .argument = &count,
                                    .incoming = incoming,
                                    .completion = completion,
                                    .failure = failure};

    check(tutti_context_create(NULL, &context), "context");
    check(tutti_group_create_from_environment(context, &group), "group");
    check(tutti_object_group_create(group, &options, &objects), "object group");
    for (uint64_t sequence = 0; tutti_group_rank(group) == 0 && sequence < OBJECTS; sequence++) {
        unsigned char *data = malloc(sizes[sequence]);

        if (data == NULL) {
            fprintf(stderr, "out of memory\n");
            return 1;
        }
        for (size_t i = 0; i < sizes[sequence]; i++) {
            data[i] = pattern(i, sequence);
        }
        check(tutti_object_send(objects, data, sizes[sequence]), "send"); /* completion frees the data */
    }
    check(tutti_object_group_close(objects), "close"); /* the callbacks run in here */
    printf("rank %u of %u: %u objects, every byte right\n", tutti_group_rank(group), tutti_group_size(group), count);
    check(tutti_object_group_destroy(objects), "object group");
    check(tutti_group_destroy(group), "group");
    check(tutti_context_destroy(context), "context");
    return 0;
}
