/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How requests are made. Normal path: what all collectives' arguments have in common is checked, the method is chosen
 * from what all ranks know alike, and the engine makes the request. Failures: what is wrong with an argument is said
 * before anything is made; a group that has failed refuses with its own error.
 */
#include "api/create.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/setup.h"

tutti_status tt_api_group_status(struct tt_group *group)
{
    if (atomic_load_explicit(&group->failed, memory_order_acquire)) {
        atomic_store(&group->failure_told, true);
        return tt_error_note(group->member.status, "%s", group->failure_text);
    }
    return TUTTI_OK;
}

tutti_status tt_api_check_common(const tutti_group *group, const tutti_request_options *options,
                                 tutti_request **request)
{
    if (group == NULL || request == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%s is NULL", group == NULL ? "group" : "request");
    }
    if (options != NULL && options->struct_size < sizeof *options) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "struct_size of the request options is %zu, not %zu",
                        options->struct_size, sizeof *options);
    }
    if (options != NULL && (unsigned)options->algorithm > TUTTI_ALGORITHM_EAGER_PARTS) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "algorithm %d does not exist",
                        (int)options->algorithm);
    }
    return tt_api_group_status(group->group);
}

tutti_status tt_api_check_root(const tutti_group *group, uint32_t root)
{
    return root < group->group->size ? TUTTI_OK
                                     : tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT,
                                                "root %u in a group of %u ranks", root, group->group->size);
}

bool tt_api_overlaps(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return a_bytes > 0 && b_bytes > 0 && x < y + b_bytes && y < x + a_bytes;
}

tutti_status tt_api_check_length(uint64_t bytes, uint32_t blocks)
{
    uint64_t limit = (UINT64_C(1) << 47) / blocks;

    if (bytes > limit) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%llu bytes from each of %u roots: more than memory",
                        (unsigned long long)bytes, blocks);
    }
    return TUTTI_OK;
}

tutti_status tt_api_check_receive(const void *receive, uint64_t bytes, uint32_t blocks)
{
    tutti_status status = tt_api_check_length(bytes, blocks);

    if (status != TUTTI_OK) {
        return status;
    }
    if ((receive == NULL || receive == TUTTI_IN_PLACE) && bytes > 0) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "receive is %s for %llu bytes",
                        receive == NULL ? "NULL" : "TUTTI_IN_PLACE, which only send may be,",
                        (unsigned long long)bytes);
    }
    return TUTTI_OK;
}

/* Where the own block comes from: NULL if it is in place already. */
tutti_status tt_api_check_send(const void *send, const uint8_t *block, const void *receive, uint64_t receive_bytes,
                               uint64_t block_bytes, const void **source)
{
    if (send == TUTTI_IN_PLACE || send == block || block_bytes == 0) {
        *source = NULL;
        return TUTTI_OK;
    }
    if (send == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT,
                        "send is NULL for %llu bytes (TUTTI_IN_PLACE is another value)",
                        (unsigned long long)block_bytes);
    }
    if (tt_api_overlaps(send, block_bytes, receive, receive_bytes)) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT,
                        "send (%llu bytes at %p) overlaps receive (%llu bytes at %p)", (unsigned long long)block_bytes,
                        send, (unsigned long long)receive_bytes, receive);
    }
    *source = send;
    return TUTTI_OK;
}

/* What the setting ALGORITHM, where it can serve that, or the table says; all ranks know the same. */
static enum tt_method choose_by_size(const struct tt_group *group, const struct tt_choice_question *question)
{
    enum tt_algorithm algorithm = group->engine->settings.algorithm;
    enum tt_method method = tt_method_of_algorithm(algorithm);

    if (algorithm == TT_ALGORITHM_AUTO || !tt_method_serves(TT_METHOD_RING, question->kind)) {
        bool serves = algorithm != TT_ALGORITHM_AUTO && tt_choice_possible(question, method);

        return serves ? method : tt_choice_of(&group->choice, question);
    }
    if (tt_choice_possible(question, method) && (group->size > 1 || !tt_method_row(method)->by_objects)) {
        return method;
    }
    return group->multicast ? TT_METHOD_MULTICAST : TT_METHOD_RING;
}

static bool is_strict(const struct tt_group *group, const struct tt_request_options *options)
{
    return tt_kind_row(options->kind)->combines && strcmp(group->engine->settings.deterministic, "strict") == 0;
}

static tutti_status check_tree(const struct tt_group *group, const struct tt_request_options *options,
                               enum tt_method method)
{
    if (is_strict(group, options) && !tt_method_row(method)->one_tree && options->block_bytes > 0) {
        return tt_error(TT_PART_API, TUTTI_ERR_NOT_SUPPORTED,
                        "algorithm %s: TUTTI_DETERMINISTIC=strict needs one that combines along one tree of the ranks "
                        "(gather, eager, recursive-doubling, rabenseifner)",
                        tt_method_word(options->kind, method));
    }
    return TUTTI_OK;
}

/* The setting ALGORITHM, if it names one that has this collective: strict does not put another one in its place. */
static tutti_status check_setting(const struct tt_group *group, const struct tt_request_options *options)
{
    enum tt_algorithm algorithm = group->engine->settings.algorithm;
    enum tt_method method = tt_method_of_algorithm(algorithm);
    bool serves = algorithm != TT_ALGORITHM_AUTO && tt_method_serves(method, options->kind);

    return serves ? check_tree(group, options, method) : TUTTI_OK;
}

static tutti_status refuse_multicast(enum tt_algorithm algorithm)
{
    return tt_error(TT_PART_API, TUTTI_ERR_NOT_SUPPORTED,
                    "algorithm %s: multicast is switched off in this group, or does not get through to every rank",
                    tt_algorithm_name(algorithm));
}

/* A rank alone only copies. What it is asked for has to be possible all the same: a program that is tried with one rank
 * finds out what it would be told with two. */
static tutti_status choose_alone(const struct tt_group *group, const struct tt_request_options *options,
                                 const struct tt_choice_question *question, enum tt_algorithm algorithm,
                                 enum tt_method *method)
{
    const struct tt_method_row *row = tt_method_row(*method);
    const struct tt_collective_terms terms = tt_request_terms(options, *method, group->size);
    tutti_status status = tt_request_check_method(&terms, 2);

    if (status == TUTTI_OK) {
        status = check_tree(group, options, *method);
    }
    if (status == TUTTI_OK && row->multicasts && !tt_setup_may_multicast(group->engine)) {
        status = refuse_multicast(algorithm);
    }
    if (status == TUTTI_OK && (row->multicasts || row->by_objects)) {
        *method =
            tt_method_serves(TT_METHOD_RING, options->kind) ? TT_METHOD_RING : tt_choice_of(&group->choice, question);
    }
    return status;
}

/* Sizes that an algorithm cannot serve are the engine's to refuse. */
static tutti_status choose_method(const struct tt_group *group, const struct tt_request_options *options,
                                  enum tt_algorithm algorithm, enum tt_method *method)
{
    struct tt_choice_question question =
        tt_choice_question_for(options->kind, group->multicast, group->size, options->block_bytes);
    const struct tt_method_row *row;

    question.element_bytes = options->combining.element_bytes;
    question.uneven = tt_request_terms(options, TT_METHOD_EAGER, group->size).counts != 0;
    question.one_tree = is_strict(group, options) || options->combining.keeps_order; /* which it keeps */
    if (algorithm == TT_ALGORITHM_AUTO) {
        *method = choose_by_size(group, &question);
        return check_setting(group, options);
    }
    *method = tt_method_of_algorithm(algorithm);
    row = tt_method_row(*method);
    if (group->size == 1) {
        return choose_alone(group, options, &question, algorithm, method);
    }
    if (row->multicasts && !group->multicast) {
        return refuse_multicast(algorithm);
    }
    if (options->block_bytes == 0 && row->multicasts && !tt_choice_possible(&question, *method)) {
        *method = TT_METHOD_MULTICAST; /* a barrier */
    }
    return check_tree(group, options, *method);
}

/* More chunks than PSNs: what goes point to point has no such limit. Said once a group, by one rank. */
static void go_point_to_point(struct tt_group *group, struct tt_request_options *options, enum tt_method method)
{
    if (group->rank == 0 && !group->warned_of_psns) {
        TT_LOG(
            TT_PART_API, TT_LOG_WARN,
            "%s of %llu bytes from each root: these are more than %u chunks of %u bytes for each of %u subgroups, so "
            "it goes point to point (%s); a larger TUTTI_CHUNK or more TUTTI_SUBGROUPS would do",
            tt_kind_word(options->kind), (unsigned long long)options->block_bytes, TT_PSN_LIMIT, group->chunk_bytes,
            group->queue_count, tt_method_word(options->kind, method));
    }
    group->warned_of_psns = true;
    options->method = method;
}

/* What has no limit of sizes. */
static enum tt_method otherwise_by(enum tt_collective_kind kind)
{
    static const enum tt_method methods[] = {TT_METHOD_RING, TT_METHOD_DIRECT, TT_METHOD_RABENSEIFNER};
    size_t i = 0;

    while (i + 1 < sizeof methods / sizeof methods[0] && !tt_method_serves(methods[i], kind)) {
        i++;
    }
    return methods[i];
}

tutti_status tt_api_create_request(tutti_group *group, struct tt_request_options *inner,
                                   const tutti_request_options *options, tutti_request **request)
{
    struct tt_engine *engine = group->context->engine;
    enum tt_algorithm algorithm = options != NULL ? (enum tt_algorithm)options->algorithm : TT_ALGORITHM_AUTO;
    enum tt_method otherwise = otherwise_by(inner->kind);
    tutti_request *made;
    tutti_status status = choose_method(group->group, inner, algorithm, &inner->method);

    if (status != TUTTI_OK) {
        return status;
    }
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_NO_MEMORY, "no memory for a request");
    }
    inner->timeout_ns = options != NULL ? options->timeout_ns : 0;
    tt_engine_lock(engine);
    if (algorithm == TT_ALGORITHM_AUTO && !tt_request_fits(group->group, inner)) {
        go_point_to_point(group->group, inner, otherwise);
    }
    status = tt_request_create(group->group, inner, &made->request);
    if (status == TUTTI_ERR_TOO_LARGE && algorithm == TT_ALGORITHM_AUTO && inner->method != otherwise &&
        tt_method_serves(otherwise, inner->kind)) {
        inner->method = otherwise; /* what a table names may have limits of its own, which have been logged */
        tt_clear_error();
        status = tt_request_create(group->group, inner, &made->request);
    }
    tt_engine_unlock(engine);
    if (status != TUTTI_OK) {
        free(made);
        return status;
    }
    made->owner = group;
    *request = made;
    return TUTTI_OK;
}
