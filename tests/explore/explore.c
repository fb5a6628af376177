/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Schedules, one after the other. Normal path: a schedule is a list of steps, each the thread that went on at a point
 * where several could; the scenario runs along the list and beyond it as it comes (who runs goes on); then the last
 * step that had another thread to choose takes that, and all behind it is forgotten: depth first. Switching away from a
 * thread that could go on is a preemption, and so are a yield that does not yield, and time that passes though somebody
 * could go on; first come all
 * schedules without one, then with one, and so on, so that what is found is found in its shortest form. A violation
 * ends the scenario, and its schedule is printed as a command that repeats it with a trace. Failure: a scenario that
 * does not do the same twice is told apart from a violation.
 */
#include "explore.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { STACK_BYTES = 256 * 1024, MOST_STEPS = 20000 };

struct step {
    uint8_t thread;  /* that was at a point */
    uint8_t chosen;  /* that goes on */
    uint8_t usual;   /* that would, if nothing else is asked for */
    uint8_t options; /* a bit a thread */
    uint8_t untried; /* of these */
    const char *operation;
    const void *where;
};

struct thread {
    const char *name, *operation;
    void *(*run)(void *argument);
    void *argument;
    ucontext_t context;
    bool ended;
    bool (*may_go_on)(void *argument); /* NULL: it may */
    void *its_argument;
    uint64_t until_ns;
    uint32_t went;  /* threads that went on since it yielded last */
    uint32_t first; /* threads that have to go on before it does, as it yields and yields */
};

static uint8_t stacks[EXPLORE_THREADS][STACK_BYTES] __attribute__((aligned(64)));
static struct thread threads[EXPLORE_THREADS];
static uint32_t thread_count;
static int current = -1; /* outside of a schedule: -1 */
static bool ending;      /* all threads have ended */
static uint64_t now_ns;
static ucontext_t driver;

static const struct explore_scenario *scenario;
static struct step steps[MOST_STEPS];
static uint32_t depth, planned; /* steps that were taken, and that are given */
static uint32_t budget, preemptions;
static bool replaying;
static char violation[1024];

static uint32_t bit(uint32_t thread)
{
    return UINT32_C(1) << thread;
}

/* --- Who goes on -------------------------------------------------------------------------------------------------- */

static uint32_t those_who_may(void)
{
    uint32_t able = 0;

    for (uint32_t t = 0; t < thread_count; t++) {
        const struct thread *thread = &threads[t];

        if (!thread->ended &&
            (thread->may_go_on == NULL || thread->until_ns <= now_ns || thread->may_go_on(thread->its_argument))) {
            able |= bit(t);
        }
    }
    return able;
}

/* Those who sleep until some time; only the first of them, or all. */
static uint32_t those_with_a_time(uint32_t able, bool first_only)
{
    uint64_t least_ns = EXPLORE_NEVER;
    uint32_t found = 0;

    for (uint32_t t = 0; t < thread_count; t++) {
        uint64_t until_ns = threads[t].until_ns;

        if (threads[t].ended || (able & bit(t)) || until_ns == EXPLORE_NEVER || (first_only && until_ns > least_ns)) {
            continue;
        }
        found = first_only && until_ns < least_ns ? bit(t) : found | bit(t);
        least_ns = until_ns;
    }
    return found;
}

/* Without those who yield again and again, while others have not gone on meanwhile: they would do so for ever. */
static uint32_t those_in_turn(uint32_t able)
{
    uint32_t found = 0;

    for (uint32_t t = 0; t < thread_count; t++) {
        found |= (able & bit(t)) && (threads[t].first & able) == 0 ? bit(t) : 0;
    }
    return found != 0 ? found : able;
}

static void fail_with_threads(const char *what)
{
    char text[sizeof violation];
    size_t length = 0;

    for (uint32_t t = 0; t < thread_count; t++) {
        if (!threads[t].ended) {
            length += (size_t)snprintf(text + length, sizeof text - length, "; %u %s is in %s", t, threads[t].name,
                                       threads[t].operation);
        }
    }
    explore_fail("%s%s", what, text);
}

/* The step after the given ones that is the usual, or the given one. */
static uint32_t take_step(const struct step *found)
{
    struct step *step = &steps[depth];

    if (depth == MOST_STEPS) {
        fail_with_threads("it does not end");
    }
    if (depth >= planned) {
        *step = *found;
        step->chosen = found->usual;
        step->untried = found->options & ~bit(found->usual);
    } else if (!(found->options & bit(step->chosen)) || (!replaying && found->options != step->options)) {
        fprintf(stderr, "%s does not do the same twice, or the schedule is not one of it: step %u\n", scenario->name,
                depth);
        exit(2);
    } else {
        uint8_t chosen = step->chosen, untried = step->untried;

        *step = *found;
        step->chosen = chosen;
        step->untried = untried;
    }
    depth++;
    return step->chosen;
}

static uint32_t choose(const char *operation, const void *where, bool yields)
{
    uint32_t able = those_who_may(), self = current >= 0 ? bit(current) : 0, usual, options, chosen;
    bool stays = !yields && (able & self), counts = stays || (current >= 0 && scenario->counts_all);

    if (able == 0) {
        able = those_with_a_time(0, true);
        if (able == 0 || !scenario->time_helps) {
            fail_with_threads("nobody can go on");
        }
    }
    options = those_in_turn(able);
    if (yields && (options & ~self) && preemptions == budget) {
        options &= ~self;
    }
    usual = stays ? (uint32_t)current : (uint32_t)(current + 1) % thread_count;
    while (!stays && !(options & bit(usual))) {
        usual = (usual + 1) % thread_count;
    }
    if (counts) {
        options = preemptions < budget ? options | bit(usual) : bit(usual);
    }
    if (preemptions < budget) {
        options |= those_with_a_time(able, false);
    }
    chosen = take_step(&(struct step){.thread = (uint8_t)current,
                                      .usual = (uint8_t)usual,
                                      .options = (uint8_t)options,
                                      .operation = operation,
                                      .where = where});
    preemptions += chosen != usual && (counts || chosen == (uint32_t)current || !(able & bit(chosen)));
    if (threads[chosen].may_go_on != NULL && threads[chosen].until_ns > now_ns &&
        !threads[chosen].may_go_on(threads[chosen].its_argument)) {
        now_ns = threads[chosen].until_ns;
    }
    for (uint32_t t = 0; t < thread_count; t++) {
        threads[t].went |= bit(chosen);
        threads[t].first &= ~bit(chosen);
    }
    return chosen;
}

static void pass_on(const char *operation, const void *where, bool yields)
{
    int self = current;

    threads[self].operation = operation;
    current = (int)choose(operation, where, yields);
    if (current != self) {
        swapcontext(&threads[self].context, &threads[current].context);
    }
}

void explore_point(const char *operation, const void *where)
{
    if (explore_self() >= 0) {
        pass_on(operation, where, false);
    }
}

bool explore_block(const char *operation, const void *where, bool (*may_go_on)(void *argument), void *argument,
                   uint64_t until_ns)
{
    struct thread *self = &threads[current];

    if (explore_self() < 0) {
        return may_go_on(argument);
    }
    self->may_go_on = may_go_on;
    self->its_argument = argument;
    self->until_ns = until_ns;
    pass_on(operation, where, false);
    self->may_go_on = NULL;
    self->until_ns = EXPLORE_NEVER;
    return may_go_on(argument);
}

void explore_yield(const char *operation, const void *where)
{
    struct thread *self = &threads[current];

    if (explore_self() < 0) {
        return;
    }
    self->first |= those_who_may() & ~self->went;
    self->went = bit((uint32_t)current);
    pass_on(operation, where, true);
}

void explore_no_further(void)
{
    preemptions = budget;
}

uint64_t explore_now_ns(void)
{
    return now_ns;
}

int explore_self(void)
{
    return ending ? -1 : current;
}

bool explore_is_on_stack(const void *address)
{
    return (uintptr_t)address - (uintptr_t)stacks < sizeof stacks;
}

/* --- A schedule --------------------------------------------------------------------------------------------------- */

void explore_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(violation, sizeof violation, format, arguments);
    va_end(arguments);
    if (current < 0) {
        fprintf(stderr, "before a schedule: %s\n", violation);
        exit(2);
    }
    current = -1;
    setcontext(&driver);
    abort();
}

/* What assert calls, in the code under test. */
void __assert_fail(const char *assertion, const char *file, unsigned line, const char *function)
{
    explore_fail("%s:%u: %s: %s", file, line, function, assertion);
}

static void run_thread(void)
{
    struct thread *self = &threads[current];
    bool all = true;

    explore_acquire(self);
    self->run(self->argument);
    explore_release(self);
    self->ended = true;
    for (uint32_t t = 0; t < thread_count; t++) {
        all &= threads[t].ended;
    }
    if (!all) {
        pass_on("its end", NULL, false);
        abort();
    }
    ending = true;
    scenario->end();
    current = -1;
    setcontext(&driver);
}

static bool has_ended(void *thread)
{
    return ((const struct thread *)thread)->ended;
}

void explore_join(uint32_t thread, const void *where)
{
    explore_block("pthread_join", where, has_ended, &threads[thread], EXPLORE_NEVER);
    explore_acquire(&threads[thread]);
}

uint32_t explore_start(const char *name, void *(*run)(void *argument), void *argument)
{
    struct thread *thread = &threads[thread_count];

    if (thread_count == EXPLORE_THREADS) {
        explore_fail("more than %d threads", EXPLORE_THREADS);
    }
    *thread =
        (struct thread){.name = name, .run = run, .argument = argument, .until_ns = EXPLORE_NEVER, .went = UINT32_MAX};
    getcontext(&thread->context);
    thread->context.uc_stack.ss_sp = stacks[thread_count];
    thread->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&thread->context, run_thread, 0);
    explore_release(thread);
    return thread_count++;
}

static void *run_first(void *argument)
{
    ((const struct explore_thread *)argument)->run();
    return NULL;
}

/* Whether it ended without a violation. */
static bool run_schedule(void)
{
    explore_forget();
    now_ns = 0;
    ending = false;
    depth = thread_count = preemptions = 0;
    violation[0] = '\0';
    scenario->begin();
    for (const struct explore_thread *thread = scenario->threads; thread->name != NULL; thread++) {
        explore_start(thread->name, run_first, (void *)(uintptr_t)thread);
    }
    current = (int)choose("the beginning", NULL, true);
    swapcontext(&driver, &threads[current].context); /* comes back at the end of the schedule */
    return violation[0] == '\0';
}

/* The next schedule; false: that was the last one. */
static bool plan_next(void)
{
    while (depth > 0 && steps[depth - 1].untried == 0) {
        depth--;
    }
    if (depth == 0) {
        return false;
    }
    planned = depth;
    steps[depth - 1].chosen = (uint8_t)__builtin_ctz(steps[depth - 1].untried);
    steps[depth - 1].untried &= ~bit(steps[depth - 1].chosen);
    return true;
}

/* --- What is printed ---------------------------------------------------------------------------------------------- */

/* Up to the last step that is not the usual one: how many times in a row a thread went on. */
static void print_schedule(void)
{
    uint32_t last = 0, run = 1;

    for (uint32_t i = 0; i < depth; i++) {
        last = steps[i].chosen != steps[i].usual ? i + 1 : last;
    }
    for (uint32_t i = 0; i < last; i += run) {
        for (run = 1; i + run < last && steps[i + run].chosen == steps[i].chosen; run++) {
        }
        printf(run > 1 ? "%s%ux%u" : "%s%u", i > 0 ? "," : "", steps[i].chosen, run);
    }
    printf("%s\n", last == 0 ? "0" : "");
}

static void read_schedule(const char *text)
{
    char *end;

    planned = 0;
    while (*text != '\0') {
        unsigned long thread = strtoul(text, &end, 10), times = *end == 'x' ? strtoul(end + 1, &end, 10) : 1;

        if (end == text || thread >= EXPLORE_THREADS || times > MOST_STEPS - planned || (*end != '\0' && *end != ',')) {
            fprintf(stderr, "no schedule: '%s'\n", text);
            exit(2);
        }
        for (; times > 0; times--) {
            steps[planned++].chosen = (uint8_t)thread;
        }
        text = *end == ',' ? end + 1 : end;
    }
}

/* A line a step: who was about to do what where, and who went on if that is another. */
static void print_trace(void)
{
    for (uint32_t i = 1; i < depth; i++) {
        const struct step *step = &steps[i];

        printf("%4u  %u %-12s %-24s %s", i, step->thread, threads[step->thread].name, step->operation,
               step->where != NULL ? explore_place_of(step->where) : "");
        printf(step->chosen != step->thread ? "   -> %u %s\n" : "\n", step->chosen, threads[step->chosen].name);
    }
}

/* --- Scenarios ---------------------------------------------------------------------------------------------------- */

static bool explore(const char *program)
{
    uint64_t schedules = 0;
    uint32_t longest = 0;
    bool passed = true, more = true;

    for (budget = 0; passed && budget <= scenario->preemptions; budget++) {
        schedules = planned = 0;
        for (more = true; passed && more; more = passed && plan_next()) {
            passed = run_schedule();
            schedules++;
            longest = depth > longest ? depth : longest;
        }
    }
    if (passed) {
        printf("%s: %llu schedules of up to %u steps with up to %u preemptions\n", scenario->name,
               (unsigned long long)schedules, longest, scenario->preemptions);
    } else {
        printf("%s: schedule %llu with up to %u preemptions: %s\nreplay: %s --test %s --schedule ", scenario->name,
               (unsigned long long)schedules, budget - 1, violation, program, scenario->name);
        print_schedule();
        printf("failed: %s\n", scenario->name);
    }
    fflush(stdout);
    return passed;
}

static bool replay(const char *schedule)
{
    bool passed;

    read_schedule(schedule);
    replaying = true;
    budget = UINT32_MAX;
    passed = run_schedule();
    print_trace();
    printf("%s: %s\n", scenario->name, passed ? "no violation" : violation);
    return passed;
}

int explore_main(int argc, char **argv, const struct explore_scenario *scenarios, uint32_t count)
{
    const char *test = NULL, *schedule = NULL;
    uint32_t passed = 0, failed = 0;

    for (int i = 1; i < argc; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--test") == 0) {
            test = argv[i + 1];
        } else if (i + 1 < argc && strcmp(argv[i], "--schedule") == 0 && test != NULL) {
            schedule = argv[i + 1];
        } else {
            fprintf(stderr, "usage: %s [--test NAME [--schedule THREAD[xTIMES],...]]\n", argv[0]);
            return 2;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        scenario = &scenarios[i];
        if (test != NULL && strcmp(test, scenario->name) != 0) {
            continue;
        }
        if (schedule != NULL ? replay(schedule) : explore(argv[0])) {
            passed++;
        } else {
            failed++;
        }
    }
    printf("%u passed, %u failed, 0 skipped\n", passed, failed);
    return failed > 0 || passed == 0 ? 1 : 0;
}
