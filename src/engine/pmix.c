/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the few words that a rank exchanges with its launcher through PMIx.
 *
 * Only two things come from PMIx: who this process is, and where rank 0 listens. Everything else goes over the TCP
 * rendezvous (bootstrap.c), which says who never came, bounds every wait and takes contributions of any size, where a
 * PMIx fence would hang on the first rank that is missing without a word about which. So the servers carry one short
 * value, no fence and no collected data, at any number of ranks.
 *
 * Normal path: libpmix is loaded when a launcher is there, not before, so that programs that run without one need not
 * have it. PMIx_Init, the job's size; rank 0 puts and commits its text, the others ask for it, which the servers answer
 * when it is there ("direct modex"). PMIx_Finalize when the last user leaves.
 *
 * Failures: PMIx has no deadline of its own that every server keeps, so calls that may wait run aside, each on a thread
 * (PMIx_Get_nb answers on PMIx's, but first waits for the server where the cache is to be refreshed), and are left
 * alone when time is over; what they still read and write belongs to them. While one has not returned the library is
 * neither finalized nor initialized; who comes after it has returned does both. A server that answers "not found" has
 * looked before rank 0 had put it: ask again.
 */
#include "engine/pmix.h"

#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <pmix.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/library.h"
#include "base/log.h"
#include "base/settings.h"
#include "engine/thread.h"

#define PAUSE_NS (50 * TT_NS_PER_MS) /* between two questions for what is not there yet */

static const char root_key[] = "tutti.root";

/* libpmix's functions, once it is loaded. */
static struct {
    __typeof__(&PMIx_Init) init;
    __typeof__(&PMIx_Finalize) finalize;
    __typeof__(&PMIx_Put) put;
    __typeof__(&PMIx_Commit) commit;
    __typeof__(&PMIx_Get_nb) get_nb;
    __typeof__(&PMIx_Error_string) error_string;
} pmix;

static struct {
    pthread_mutex_t lock;
    uint32_t users;
    bool loaded;
    _Atomic uint32_t away;  /* calls whose time was over before they returned, and that have not returned yet */
    _Atomic uint32_t inits; /* that have succeeded and are not finalized */
    pmix_proc_t self;
    uint32_t size;
} session = {.lock = PTHREAD_MUTEX_INITIALIZER};

const char *tt_pmix_built_version(void)
{
    static char version[32];
    if (version[0] == '\0') {
        /* The numbers are written with a suffix (4L). */
        snprintf(version, sizeof(version), "%ld.%ld.%ld", (long)PMIX_VERSION_MAJOR, (long)PMIX_VERSION_MINOR,
                 (long)PMIX_VERSION_RELEASE);
    }
    return version;
}

/* --- Calls that may not return ------------------------------------------------------------------------------------ */

struct reply {
    pmix_status_t result;
    bool has_count, has_text;
    uint32_t count;
    char text[2 * TT_SETTING_TEXT_BYTES]; /* longer than what is accepted, so that a longer one shows; or what is put */
};

/* Shared by who waits and who is waited for; the last of them frees it. */
struct call {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int holders;
    bool done;
    bool returned;     /* from the library, which may answer later */
    bool away;         /* its time was over before */
    struct call *next; /* of those that nobody waits for any more */
    pmix_proc_t who;   /* of PMIx_Init: this process */
    const char *key;   /* of PMIx_Get_nb, which reads it and the attributes until it answers; static storage */
    pmix_info_t info[2];
    size_t info_count;
    struct reply reply;
};

/* NULL: no memory. */
static struct call *begin_call(void)
{
    struct call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        return NULL;
    }
    pthread_mutex_init(&call->lock, NULL);
    tt_thread_condition_init(&call->changed);
    call->holders = 2;
    return call;
}

static void let_go(struct call *call)
{
    pthread_mutex_lock(&call->lock);
    assert(call->holders > 0);
    bool last = --call->holders == 0;
    pthread_mutex_unlock(&call->lock);
    if (last) {
        pthread_cond_destroy(&call->changed);
        pthread_mutex_destroy(&call->lock);
        free(call);
    }
}

static tutti_status no_memory(void)
{
    return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory to talk to the launcher");
}

/* For a call that has got no thread, but this error. */
static tutti_status no_thread(struct call *call, int error)
{
    call->holders = 1;
    let_go(call);
    return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_RESOURCE, "no thread to talk to the launcher: %s", strerror(error));
}

/* Its time is over. */
static void let_run(struct call *call, pthread_t thread)
{
    pthread_detach(thread);
    pthread_mutex_lock(&call->lock);
    call->away = !call->returned;
    session.away += call->away;
    pthread_mutex_unlock(&call->lock);
}

/* By the thread that was in the library. */
static void come_back(struct call *call)
{
    pthread_mutex_lock(&call->lock);
    call->returned = true;
    session.away -= call->away;
    pthread_mutex_unlock(&call->lock);
}

/* The answer may come at any time, or never: what it is made from and will write to stays. Each took a deadline to get
 * here. */
static void leave_behind(struct call *call, pthread_t thread)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct call *left;

    let_run(call, thread);
    pthread_mutex_lock(&lock);
    call->next = left;
    left = call;
    pthread_mutex_unlock(&lock);
}

static void finish_call(struct call *call, pmix_status_t result)
{
    pthread_mutex_lock(&call->lock);
    assert(!call->done); /* each call is answered once */
    call->reply.result = result;
    call->done = true;
    pthread_cond_signal(&call->changed);
    pthread_mutex_unlock(&call->lock);
    let_go(call);
}

/* Whether the call has returned before the deadline. */
static bool wait_for(struct call *call, uint64_t deadline_ns)
{
    struct timespec deadline = tt_clock_timespec(deadline_ns);
    pthread_mutex_lock(&call->lock);
    while (!call->done && pthread_cond_timedwait(&call->changed, &call->lock, &deadline) == 0) {
    }
    bool done = call->done;
    pthread_mutex_unlock(&call->lock);
    return done;
}

static void *run_init(void *argument)
{
    struct call *call = argument;
    pmix_status_t result = pmix.init(&call->who, NULL, 0);
    session.inits += result == PMIX_SUCCESS;
    come_back(call);
    finish_call(call, result);
    return NULL;
}

static void *run_publish(void *argument)
{
    struct call *call = argument;
    pmix_value_t value;

    memset(&value, 0, sizeof(value));
    value.type = PMIX_STRING;
    value.data.string = call->reply.text; /* it is copied */
    pmix_status_t result = pmix.put(PMIX_GLOBAL, root_key, &value);
    if (result == PMIX_SUCCESS) {
        result = pmix.commit();
    }
    come_back(call);
    finish_call(call, result);
    return NULL;
}

/* On PMIx's thread; the value is PMIx's. */
static void take_value(pmix_status_t result, pmix_value_t *value, void *argument)
{
    struct call *call = argument;
    if (result == PMIX_SUCCESS && value != NULL) {
        call->reply.has_text = value->type == PMIX_STRING && value->data.string != NULL;
        call->reply.has_count = value->type == PMIX_UINT32;
        if (call->reply.has_text) {
            snprintf(call->reply.text, sizeof(call->reply.text), "%s", value->data.string);
        } else if (call->reply.has_count) {
            call->reply.count = value->data.uint32;
        }
    }
    finish_call(call, result);
}

static void *run_get(void *argument)
{
    struct call *call = argument;
    pmix_status_t result = pmix.get_nb(&call->who, call->key, call->info, call->info_count, take_value, call);
    come_back(call);
    if (result != PMIX_SUCCESS) {
        finish_call(call, result); /* nobody will call back */
    }
    return NULL;
}

/* --- Errors ------------------------------------------------------------------------------------------------------- */

static const char *name_of_job(void)
{
    const char *name = getenv("PMIX_NAMESPACE");
    return name != NULL ? name : "";
}

static tutti_status fail(tutti_status status, const char *what, const char *reason)
{
    return tt_error(TT_PART_ENGINE, status, "the launcher's PMIx server (PMIX_NAMESPACE=%s): %s: %s", name_of_job(),
                    what, reason);
}

/* Of a call that nobody waits for any more. */
static tutti_status give_up(struct call *call, pthread_t thread, const char *what, uint64_t timeout_ns)
{
    char waited[48], reason[80];

    let_run(call, thread);
    let_go(call);
    snprintf(reason, sizeof(reason), "no answer in %s", tt_format_time(timeout_ns, waited, sizeof(waited)));
    return fail(TUTTI_ERR_TIMED_OUT, what, reason);
}

static tutti_status refuse_to_call(const char *what)
{
    return fail(TUTTI_ERR_TIMED_OUT, what, "not called, because an earlier call has not returned");
}

/* --- The session -------------------------------------------------------------------------------------------------- */

static tutti_status load(void)
{
    static const struct tt_library_function functions[] = {
        {"PMIx_Init", &pmix.init},     {"PMIx_Finalize", &pmix.finalize}, {"PMIx_Put", &pmix.put},
        {"PMIx_Commit", &pmix.commit}, {"PMIx_Get_nb", &pmix.get_nb},     {"PMIx_Error_string", &pmix.error_string}};

    if (session.loaded) {
        return TUTTI_OK;
    }
    /* Global, because libpmix's own plug-ins look for its functions there. It stays: it may have threads. */
    const char *why =
        tt_library_load("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL, functions, sizeof(functions) / sizeof(functions[0]));
    if (why != NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED,
                        "PMIX_NAMESPACE=%s: a launcher with PMIx, but its library cannot be loaded: %s", name_of_job(),
                        why);
    }
    session.loaded = true;
    return TUTTI_OK;
}

static tutti_status start(uint64_t deadline_ns, uint64_t timeout_ns)
{
    static const char what[] = "PMIx_Init";
    struct call *call = begin_call();
    pthread_t thread;

    if (call == NULL) {
        return no_memory();
    }
    int error = pthread_create(&thread, NULL, run_init, call);
    if (error != 0) {
        return no_thread(call, error);
    }
    if (!wait_for(call, deadline_ns)) {
        return give_up(call, thread, what, timeout_ns);
    }
    pthread_join(thread, NULL);
    pmix_status_t result = call->reply.result;
    session.self = call->who;
    let_go(call);
    return result == PMIX_SUCCESS ? TUTTI_OK : fail(TUTTI_ERR_BOOTSTRAP, what, pmix.error_string(result));
}

/* The attributes of a question. */
static void describe_question(struct call *call, bool again, uint64_t deadline_ns)
{
    uint64_t now_ns = tt_clock_now_ns();
    pmix_info_t *info = call->info;

    snprintf(info[0].key, sizeof(info[0].key), "%s", PMIX_TIMEOUT);
    info[0].value.type = PMIX_INT;
    info[0].value.data.integer = 1 + (int)((deadline_ns > now_ns ? deadline_ns - now_ns : 0) / TT_NS_PER_S % INT_MAX);
    call->info_count = 1;
#ifdef PMIX_GET_REFRESH_CACHE
    snprintf(info[1].key, sizeof(info[1].key), "%s", PMIX_GET_REFRESH_CACHE);
    info[1].value.type = PMIX_BOOL;
    info[1].value.data.flag = true;
    call->info_count += again;
#else
    (void)again;
#endif
}

/* Asks once, and copies what came into *reply: a server that has no answer is no error, but what is missing here is. */
static tutti_status ask(pmix_rank_t rank, const char *key, bool again, uint64_t deadline_ns, struct reply *reply)
{
    struct call *call = begin_call();
    pthread_t thread;

    if (call == NULL) {
        return no_memory();
    }
    call->who = session.self;
    call->who.rank = rank;
    call->key = key;
    describe_question(call, again, deadline_ns);
    int error = tt_thread_start(&thread, run_get, call);
    if (error != 0) {
        return no_thread(call, error);
    }
    if (!wait_for(call, deadline_ns)) {
        leave_behind(call, thread);
        *reply = (struct reply){.result = PMIX_ERR_TIMEOUT};
        return TUTTI_OK;
    }
    pthread_join(thread, NULL);
    *reply = call->reply;
    let_go(call);
    return TUTTI_OK;
}

static tutti_status read_size(uint64_t deadline_ns)
{
    struct reply reply;
    char reason[80];
    tutti_status status = ask(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, false, deadline_ns, &reply);

    if (status != TUTTI_OK) {
        return status;
    }
    if (reply.result != PMIX_SUCCESS) {
        return fail(TUTTI_ERR_BOOTSTRAP, PMIX_JOB_SIZE, pmix.error_string(reply.result));
    }
    if (!reply.has_count || reply.count <= session.self.rank || reply.count > TT_MAX_RANKS) {
        snprintf(reason, sizeof(reason), "rank %u of %u ranks (there may be %d)", session.self.rank, reply.count,
                 TT_MAX_RANKS);
        return fail(TUTTI_ERR_BOOTSTRAP, PMIX_JOB_SIZE, reason);
    }
    session.size = reply.count;
    return TUTTI_OK;
}

/* Unless a thread may still be in the library. PMIx counts, so one that was left initialized is finalized with the
 * next. */
static void finish(void)
{
    while (session.away == 0 && session.inits > 0) {
        session.inits--;
        pmix.finalize(NULL, 0);
    }
}

static tutti_status begin_session(uint64_t timeout_ns)
{
    uint64_t deadline_ns = tt_clock_now_ns() + timeout_ns;

    assert(session.users == 0);
    if (session.away > 0) {
        return refuse_to_call("PMIx_Init");
    }
    tutti_status status = load();
    if (status == TUTTI_OK) {
        status = start(deadline_ns, timeout_ns);
    }
    if (status == TUTTI_OK) {
        status = read_size(deadline_ns);
    }
    if (status != TUTTI_OK) {
        finish();
    }
    return status;
}

tutti_status tt_pmix_enter(uint64_t timeout_ns, uint32_t *rank, uint32_t *size)
{
    pthread_mutex_lock(&session.lock);
    tutti_status status = session.users == 0 ? begin_session(timeout_ns) : TUTTI_OK;
    if (status == TUTTI_OK) {
        session.users++;
        *rank = session.self.rank;
        *size = session.size;
    }
    pthread_mutex_unlock(&session.lock);
    return status;
}

void tt_pmix_leave(void)
{
    pthread_mutex_lock(&session.lock);
    assert(session.users > 0);
    session.users--;
    if (session.users == 0) {
        finish();
    }
    pthread_mutex_unlock(&session.lock);
}

tutti_status tt_pmix_publish(uint64_t timeout_ns, const char *text)
{
    const uint64_t deadline_ns = tt_clock_now_ns() + timeout_ns;
    pthread_t thread;

    if (session.away > 0) {
        return refuse_to_call("PMIx_Put");
    }
    struct call *call = begin_call();
    if (call == NULL) {
        return no_memory();
    }
    snprintf(call->reply.text, sizeof(call->reply.text), "%s", text);
    int error = tt_thread_start(&thread, run_publish, call);
    if (error != 0) {
        return no_thread(call, error);
    }
    if (!wait_for(call, deadline_ns)) {
        return give_up(call, thread, "PMIx_Commit", timeout_ns);
    }
    pthread_join(thread, NULL);
    pmix_status_t result = call->reply.result;
    let_go(call);
    return result == PMIX_SUCCESS ? TUTTI_OK : fail(TUTTI_ERR_BOOTSTRAP, "PMIx_Put", pmix.error_string(result));
}

tutti_status tt_pmix_lookup(uint64_t timeout_ns, char *text, size_t text_bytes)
{
    const uint64_t deadline_ns = tt_clock_now_ns() + timeout_ns;
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    struct reply reply;
    tutti_status status = ask(0, root_key, false, deadline_ns, &reply);

    while (status == TUTTI_OK && reply.result != PMIX_SUCCESS && tt_clock_now_ns() < deadline_ns) {
        nanosleep(&pause, NULL);
        status = ask(0, root_key, true, deadline_ns, &reply);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (reply.result != PMIX_SUCCESS) {
        char waited[48];
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_TIMED_OUT,
                        "rank %u waited %s: rank 0 has not published its address through PMIx (%s)", session.self.rank,
                        tt_format_time(timeout_ns, waited, sizeof(waited)), pmix.error_string(reply.result));
    }
    if (!reply.has_text || strlen(reply.text) >= text_bytes) {
        return fail(TUTTI_ERR_BOOTSTRAP, root_key, "what rank 0 has published is no address");
    }
    snprintf(text, text_bytes, "%s", reply.text);
    return TUTTI_OK;
}
