/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is left of object groups that failed while their members joined. A member that comes later would wait for the
 * others until its deadline, and then blame one that did come. Normal path: of a group that is freed a few lines are
 * kept, with its connections, until its ranks' group ends or enough others have failed; a JOIN for it is answered as
 * the group would have answered it: with the terms, if ranks disagreed about these, and why it failed. For as long as
 * others may take to join, the progress thread looks whether one comes.
 *
 * Failures: without memory for it nothing is kept, and who comes late waits. What a connection that is gone was asked
 * for is dropped.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/least.h"
#include "engine/objects.h"

enum { MOST_WORDS = 16 };

struct tt_objects_word {
    struct tt_objects_word *next;
    struct tt_group *group;
    uint64_t key;
    uint32_t member; /* the own one */
    tutti_status status;
    uint32_t culprit, noticed_by;
    struct tt_object_terms terms;
    uint32_t peer_count;
    uint32_t *members; /* of the connections */
    struct tt_peer **peers;
};

static void free_word(struct tt_objects_word *word)
{
    for (uint32_t i = 0; i < word->peer_count; i++) {
        if (word->peers[i] != NULL) {
            tt_network_disconnect(word->group->network, word->peers[i]);
        }
    }
    free(word->members);
    free(word->peers);
    free(word);
}

/* Takes the place's word out of the list. */
static void drop(struct tt_objects_word **place)
{
    struct tt_objects_word *word = *place;

    *place = word->next;
    free_word(word);
}

static void drop_oldest(struct tt_engine *engine)
{
    struct tt_objects_word **place = &engine->words;

    for (uint32_t i = 0; i < MOST_WORDS && *place != NULL; i++) {
        place = &(*place)->next;
    }
    while (*place != NULL) {
        drop(place);
    }
}

/* Not of one that this rank has given up, nor of one whose members know by other means that they are through. */
static bool is_worth_telling(const struct tt_object_group *machine)
{
    return machine->is_joining && machine->status != TUTTI_OK && machine->status != TUTTI_ERR_CANCELED &&
           !machine->config.may_leave && machine->config.peer_count > 0;
}

void tt_objects_keep_word(struct tt_objects *objects)
{
    const struct tt_object_group *machine = &objects->machine;
    struct tt_engine *engine = objects->group->engine;
    struct tt_objects_word *word;
    uint64_t until_ns;

    if (!is_worth_telling(machine)) {
        return;
    }
    word = calloc(1, sizeof *word);
    if (word != NULL) {
        word->members = calloc(machine->config.peer_count, sizeof *word->members);
    }
    if (word == NULL || word->members == NULL) {
        free(word);
        return;
    }
    word->group = objects->group;
    word->key = machine->config.group;
    word->member = machine->config.member;
    word->status = machine->status;
    word->culprit = machine->culprit;
    word->noticed_by = machine->noticed_by;
    word->terms = tt_object_terms(&machine->config);
    word->peer_count = machine->config.peer_count;
    for (uint32_t i = 0; i < word->peer_count; i++) {
        word->members[i] = machine->config.peers[i].member;
    }
    word->peers = objects->peers;
    objects->peers = NULL;
    until_ns = tt_later(tt_engine_now(engine), machine->config.deadline_ns);
    engine->words_until_ns = engine->words == NULL ? until_ns : tt_most(engine->words_until_ns, until_ns);
    word->next = engine->words;
    engine->words = word;
    drop_oldest(engine);
}

static void send_to(const struct tt_objects_word *word, struct tt_peer *peer, struct tt_object_frame *frame)
{
    uint8_t bytes[TT_OBJECT_FRAME_MAX_BYTES];
    size_t length;

    if (peer->connection == NULL) { /* given up, by whomever */
        return;
    }
    frame->source = word->member;
    frame->group = word->key;
    length = tt_object_frame_encode(frame, bytes, sizeof bytes);
    assert(length > 0);
    if (tt_p2p_send(peer->connection, bytes, (uint32_t)length, false) == TUTTI_OK) {
        tt_group_count(&word->group->frames_sent, 1);
        tt_group_count(&word->group->frame_bytes_sent, length);
    }
}

static void answer(const struct tt_objects_word *word, uint32_t member)
{
    struct tt_object_frame join = {.type = TT_OBJECT_FRAME_JOIN, .body.join.terms = word->terms};
    struct tt_object_frame fail = {
        .type = TT_OBJECT_FRAME_FAIL,
        .body.fail = {.status = word->status, .member = word->culprit, .noticed_by = word->noticed_by}};
    uint32_t index = 0;

    while (index < word->peer_count && word->members[index] != member) {
        index++;
    }
    if (index == word->peer_count || word->peers[index] == NULL) {
        return;
    }
    if (word->status == TUTTI_ERR_MISMATCH) {
        send_to(word, word->peers[index], &join);
    }
    send_to(word, word->peers[index], &fail);
}

bool tt_objects_answer_late(struct tt_engine *engine, struct tt_peer *peer, uint64_t key, const uint8_t *bytes,
                            uint32_t length_bytes)
{
    const struct tt_objects_word *word = engine->words;
    struct tt_object_frame frame;

    while (word != NULL && word->key != key) {
        word = word->next;
    }
    if (!tt_object_frame_decode(bytes, length_bytes, &frame)) {
        return false;
    }
    if (frame.type != TT_OBJECT_FRAME_JOIN || frame.body.join.wants == 0) {
        return word != NULL;
    }
    /* The group will be here, too; or never, since its members are others here, or so is its number. A relay's has
     * none: its user has not made it. */
    if (peer != NULL && frame.body.join.members != 0) {
        peer->stray =
            (struct tt_stray_join){.key = key, .members = frame.body.join.members, .created = frame.body.join.created};
    }
    if (word != NULL) {
        answer(word, frame.source);
    }
    return word != NULL;
}

void tt_objects_forget(struct tt_group *group)
{
    struct tt_objects_word **place = &group->engine->words;

    while (*place != NULL) {
        if ((*place)->group == group) {
            drop(place);
        } else {
            place = &(*place)->next;
        }
    }
}
