/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The triggered engine's rules for packets without room, for all orders in which things may happen (Spin).
 *
 * RANKS nodes in a ring, JOBS jobs, each with a port at every node. A sequence has STEPS rounds of one message to the right
 * neighbour and one from the left, whose data overwrites what was sent; every sequence is done TIMES times. The buffer of a
 * node has ROOM slots, which its ports share. A packet on its way may be accepted at any time, in any order: read at once,
 * kept in the buffer, or kept in the port's own place if it is the next one that its sequence reads. A refused packet that
 * is sent again is one that is still on its way. So a state in which nobody can go on is a deadlock of the engine.
 *
 * Checked: no such state but the end; nothing is overwritten while it is on its way; a packet is read by the round and
 * the repetition that it was sent in, although keys come again with every repetition.
 *
 * With REMOTE defined packets are announced: the buffer keeps references, and data is fetched, for as long as it takes,
 * when its packet is the next one that is read; only then is it accepted. (Straight to the operand is no other case: a
 * port that may write there waits for just this, and sends nothing meanwhile.)
 *
 * With one of these defined, Spin must find a fault: NO_OWN_PLACE, OVERWRITES, SAME_KEY, EARLY_ACCEPT (with REMOTE), and
 * TWO_FIRST, which is not the engine's but a schedule's: two messages are sent before any is read, with a window of one.
 */
#ifndef RANKS
#define RANKS 3
#endif
#ifndef JOBS
#define JOBS 2
#endif
#ifndef STEPS
#define STEPS 2
#endif
#ifndef TIMES
#define TIMES 2
#endif
#ifndef ROOM
#define ROOM 1
#endif
#ifdef TWO_FIRST
#define WINDOW 1
#else
#define WINDOW 2
#endif

#define LEFT(rank) ((rank + RANKS - 1) % RANKS)
#define AT(job, rank, step) (((job) * RANKS + (rank)) * STEPS + (step))
#define PORT(job, rank) ((job) * RANKS + (rank))

/* By job, sender and step: whether a packet is on its way, or at the receiver, and which repetition it is of. */
bool on_its_way[JOBS * RANKS * STEPS];
bool kept[JOBS * RANKS * STEPS];
bool apart[JOBS * RANKS * STEPS];
byte sent_in[JOBS * RANKS * STEPS];
byte kept_of[JOBS * RANKS * STEPS];

#ifdef REMOTE
bool noted[JOBS * RANKS * STEPS];    /* the reference is in the buffer */
bool fetching[JOBS * RANKS * STEPS];
byte needed[JOBS * RANKS];           /* packets of a port whose data has not been fetched */
#endif

byte used[RANKS];             /* slots of the buffer */
byte open[JOBS * RANKS];      /* packets of a port that are not accepted */
byte reads[JOBS * RANKS];     /* the step whose packet a port reads next; STEPS: it executes nothing */
byte ended;

inline accept(job, sender, step)
{
    on_its_way[AT(job, sender, step)] = false;
    open[PORT(job, sender)]--;
}

inline send(job, rank, step, repetition)
{
    atomic {
        (open[PORT(job, rank)] < WINDOW && !on_its_way[AT(job, rank, step)]);
        on_its_way[AT(job, rank, step)] = true;
        sent_in[AT(job, rank, step)] = repetition;
        open[PORT(job, rank)]++;
#ifdef REMOTE
        needed[PORT(job, rank)]++;
#endif
    }
}

#ifdef OVERWRITES
#define MAY_WRITE(job, rank) true
#else
#define MAY_WRITE(job, rank) (open[PORT(job, rank)] == 0)
#endif
#ifdef REMOTE
#define HAS_COME(at) apart[at]
#else
#define HAS_COME(at) (kept[at] || apart[at] || on_its_way[at])
#endif

/* The packet of the left neighbour, from where it is; and its data is written. */
inline read(job, rank, step, repetition)
{
    atomic {
        (MAY_WRITE(job, rank) && HAS_COME(AT(job, LEFT(rank), step)));
        assert(open[PORT(job, rank)] == 0);
#ifdef REMOTE
        assert(needed[PORT(job, rank)] == 0);
#endif
        if
        :: kept[AT(job, LEFT(rank), step)] ->
            kept[AT(job, LEFT(rank), step)] = false;
            used[rank]--;
            assert(kept_of[AT(job, LEFT(rank), step)] == repetition)
        :: else ->
            if
            :: apart[AT(job, LEFT(rank), step)] ->
                apart[AT(job, LEFT(rank), step)] = false;
                assert(kept_of[AT(job, LEFT(rank), step)] == repetition)
            :: else ->
                assert(sent_in[AT(job, LEFT(rank), step)] == repetition);
                accept(job, LEFT(rank), step)
            fi
        fi;
        reads[PORT(job, rank)] = step + 1;
    }
}

proctype port(byte job; byte rank)
{
    byte repetition = 0, step;

    do
    :: repetition < TIMES ->
        reads[PORT(job, rank)] = 0;
        step = 0;
#ifdef TWO_FIRST
        do
        :: step < STEPS -> send(job, rank, step, repetition); step++
        :: else -> break
        od;
        step = 0;
        do
        :: step < STEPS -> read(job, rank, step, repetition); step++
        :: else -> break
        od;
#else
        do
        :: step < STEPS ->
            send(job, rank, step, repetition);
            read(job, rank, step, repetition);
            step++
        :: else -> break
        od;
#endif
        (open[PORT(job, rank)] == 0); /* all is accepted: the sequence ends */
        reads[PORT(job, rank)] = STEPS;
        repetition++
    :: else -> break
    od;
    ended++
}

#ifdef SAME_KEY
#define IS_HERE(at) false
#else
#define IS_HERE(at) (kept[at] || apart[at])
#endif

/* Accepts packets that are not read at once: a process for each job, sender and step. */
proctype network(byte job; byte rank; byte step)
{
    byte receiver = (rank + 1) % RANKS, at = AT(job, rank, step);

    do
#ifdef REMOTE
    :: atomic {
        (on_its_way[at] && used[receiver] < ROOM && !IS_HERE(at) && !noted[at] && !fetching[at]) ->
        noted[at] = true;
        used[receiver]++
       }
    :: atomic {
        (on_its_way[at] && reads[PORT(job, receiver)] == step && !IS_HERE(at) && !fetching[at]) ->
        if
        :: noted[at] -> noted[at] = false; used[receiver]--
        :: else
        fi;
        fetching[at] = true;
#ifdef EARLY_ACCEPT
        accept(job, rank, step)
#endif
       }
    :: atomic {
        fetching[at] ->
        fetching[at] = false;
        apart[at] = true;
        kept_of[at] = sent_in[at];
        needed[PORT(job, rank)]--;
#ifndef EARLY_ACCEPT
        accept(job, rank, step)
#endif
       }
#else
    :: atomic {
        (on_its_way[at] && used[receiver] < ROOM && !IS_HERE(at)) ->
        kept[at] = true;
        kept_of[at] = sent_in[at];
        used[receiver]++;
        accept(job, rank, step)
       }
#ifndef NO_OWN_PLACE
    :: atomic {
        (on_its_way[at] && used[receiver] == ROOM && reads[PORT(job, receiver)] == step && !IS_HERE(at)) ->
        apart[at] = true;
        kept_of[at] = sent_in[at];
        accept(job, rank, step)
       }
#endif
#endif
    :: ended == JOBS * RANKS -> break
    od
}

init
{
    byte job = 0, rank, step;

    atomic {
        do
        :: job < JOBS ->
            rank = 0;
            do
            :: rank < RANKS ->
                reads[PORT(job, rank)] = STEPS;
                run port(job, rank);
                step = 0;
                do
                :: step < STEPS -> run network(job, rank, step); step++
                :: else -> break
                od;
                rank++
            :: else -> break
            od;
            job++
        :: else -> break
        od
    }
}
