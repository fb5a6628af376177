/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pacing. Normal path of a sender: a chunk is due every so many nanoseconds; one that is late catches up, but not by
 * more than a burst. Normal path of the estimate: without losses nothing is believed about the port, and nothing is
 * held back.
 *
 * When more is lost than noise explains, the port was full, and a full port delivers at exactly its rate: so the rate
 * at which the chunks came becomes the limit, or, if that is far below what was known, is approached by halves. From
 * time to time a collective tries a quarter more; if that goes well it is the new limit, and the next attempt is
 * bolder; if not, what was delivered meanwhile is a better estimate than the old one.
 *
 * Loss that comes from elsewhere (a bad cable) must slow nobody down: a cut that does not make the loss less is taken
 * back after a few collectives, and that much loss counts as noise from then on, until it is seen to go away.
 */
#include "proto/pace.h"

#include <string.h>

enum {
    LEAST_KBIT = 1000,          /* no rank may hold all others up for ever */
    BURST_BYTES = 512 * 1024,   /* of all senders together: what a switch has for a port */
    BURST_MOST_BYTES = 2 << 20, /* and a fast one */
    BURST_NS = 500 * 1000,      /* a sleeping sender is late by this much at times */
    GATHER_NS = 50 * 1000,      /* waking up takes about as long as a few chunks */
    GATHER_ALONE_NS = 500 * 1000,
    LEAST_SAMPLE = 64,  /* chunks */
    LOSS_PPM = 15000,   /* less than this is fetched in less time than being slower for it takes */
    LOSS_CHUNKS = 4,    /* and a few chunks say nothing */
    DEVIATIONS = 3,     /* nor does what may be chance, where it happens thousands of times */
    LEAST_INTERVAL = 2, /* the first estimate is the worst */
    MOST_INTERVAL = 256,
    MOST_STEP = 16,
    TRIALS = 3,
    HALVINGS = 5, /* of what was known */
    AWAY_PART = 3 /* of the time in which chunks came */
};

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* --- One sender --------------------------------------------------------------------------------------------------- */

static uint64_t wire_ns(const struct tt_pacer *pacer, uint32_t chunk_bytes, uint64_t chunks)
{
    return chunks * (chunk_bytes + TT_PACE_OVERHEAD_BYTES) * UINT64_C(1000000000) / pacer->rate_bytes;
}

void tt_pacer_start(struct tt_pacer *pacer, uint32_t rate_kbit, uint32_t heard, uint32_t index, uint32_t chunk_bytes,
                    uint64_t now_ns)
{
    uint64_t link_bytes = (uint64_t)(rate_kbit < LEAST_KBIT ? LEAST_KBIT : rate_kbit) * 125;
    uint64_t burst_bytes = link_bytes * BURST_NS / UINT64_C(1000000000), chunk_ns, gather_ns;

    memset(pacer, 0, sizeof *pacer);
    if (rate_kbit == TT_PACE_UNKNOWN || heard == 0) {
        return;
    }
    pacer->share = 1;
    burst_bytes = burst_bytes < BURST_BYTES ? BURST_BYTES : burst_bytes;
    burst_bytes = burst_bytes > BURST_MOST_BYTES ? BURST_MOST_BYTES : burst_bytes;
    /* A little is left for frames, and for clocks that differ. */
    pacer->rate_bytes = (link_bytes - link_bytes / 128) / heard;
    pacer->whole_bytes = pacer->rate_bytes;
    pacer->burst_ns = burst_bytes / heard * UINT64_C(1000000000) / pacer->rate_bytes;
    chunk_ns = wire_ns(pacer, chunk_bytes, 1);
    gather_ns = least_of(pacer->burst_ns / 4, heard > 1 ? GATHER_NS : GATHER_ALONE_NS);
    pacer->gather_ns = gather_ns > chunk_ns ? gather_ns - chunk_ns : 0;
    if (heard > 1) {
        /* What gathers goes at once, so the senders' first turns are spread over that, too. */
        pacer->next_ns = now_ns + index * ((pacer->gather_ns + chunk_ns) / heard);
    } else {
        pacer->next_ns = now_ns > pacer->burst_ns ? now_ns - pacer->burst_ns : 0;
    }
}

void tt_pacer_follow(struct tt_pacer *pacer, uint64_t next_ns)
{
    if (pacer->next_ns < next_ns) {
        pacer->next_ns = next_ns;
    }
}

void tt_pacer_share(struct tt_pacer *pacer, uint32_t transmissions)
{
    if (pacer->rate_bytes == 0 || transmissions == 0 || transmissions == pacer->share) {
        return;
    }
    /* The burst is a time: of bytes there are fewer in it now. */
    pacer->share = transmissions;
    pacer->rate_bytes = pacer->whole_bytes / transmissions + 1;
}

uint64_t tt_pacer_due(const struct tt_pacer *pacer, uint32_t chunk_bytes, uint32_t limit)
{
    uint64_t all_ns;

    if (pacer->rate_bytes == 0) {
        return 0;
    }
    all_ns = wire_ns(pacer, chunk_bytes, limit - 1);
    return pacer->next_ns + (all_ns < pacer->gather_ns ? all_ns : pacer->gather_ns);
}

uint32_t tt_pacer_allowed(const struct tt_pacer *pacer, uint32_t chunk_bytes, uint32_t limit, uint64_t now_ns)
{
    uint64_t late_ns, chunks;

    if (pacer->rate_bytes == 0) {
        return limit;
    }
    if (limit == 0 || now_ns < tt_pacer_due(pacer, chunk_bytes, limit)) {
        return 0;
    }
    late_ns = now_ns - pacer->next_ns;
    late_ns = late_ns < pacer->burst_ns ? late_ns : pacer->burst_ns;
    chunks = late_ns * pacer->rate_bytes / UINT64_C(1000000000) / (chunk_bytes + TT_PACE_OVERHEAD_BYTES) + 1;
    return chunks < limit ? (uint32_t)chunks : limit;
}

void tt_pacer_took(struct tt_pacer *pacer, uint32_t chunk_bytes, uint32_t chunks, uint64_t now_ns)
{
    if (pacer->rate_bytes == 0) {
        return;
    }
    if (now_ns > pacer->next_ns + pacer->burst_ns) { /* what is later than that is lost */
        pacer->next_ns = now_ns - pacer->burst_ns;
    }
    pacer->next_ns += wire_ns(pacer, chunk_bytes, chunks);
}

/* --- What a port can take ----------------------------------------------------------------------------------------- */

void tt_pace_init(struct tt_pace *pace, uint32_t ceiling_kbit)
{
    memset(pace, 0, sizeof *pace);
    pace->ceiling_kbit = ceiling_kbit != TT_PACE_UNKNOWN && ceiling_kbit < LEAST_KBIT ? LEAST_KBIT : ceiling_kbit;
    pace->limit_kbit = pace->ceiling_kbit;
    pace->interval = LEAST_INTERVAL;
    pace->step = 1;
}

/* Spread evenly, so that no rhythm in which an application mixes its collectives keeps the large ones from trying. What
 * is chosen for an interval is chosen for all shorter ones too: ranks that differ in it still meet. */
static bool is_attempt(const struct tt_pace *pace, uint64_t sequence)
{
    uint64_t mixed = (sequence + 1) * UINT64_C(0x9E3779B97F4A7C15);

    return ((mixed >> 32) & (pace->interval - 1)) == 0;
}

uint32_t tt_pace_offer(const struct tt_pace *pace, uint64_t sequence)
{
    uint64_t more;

    if (pace->limit_kbit >= pace->ceiling_kbit || pace->trials + pace->halvings > 0 || !is_attempt(pace, sequence)) {
        return pace->limit_kbit;
    }
    more = pace->limit_kbit + (uint64_t)(pace->limit_kbit / 4) * pace->step;
    return more < pace->ceiling_kbit ? (uint32_t)more : pace->ceiling_kbit;
}

void tt_pace_saw(struct tt_pace_sample *sample, uint32_t received, uint64_t now_ns)
{
    if (received == sample->received) {
        return;
    }
    if (sample->received == 0) {
        sample->first_received = received;
        sample->first_ns = now_ns;
    } else if (now_ns - sample->last_ns > sample->longest_ns) {
        sample->longest_ns = now_ns - sample->last_ns;
    }
    sample->received = received;
    sample->last_ns = now_ns;
}

/* Rounded down. */
static uint64_t root_of(uint64_t value)
{
    uint64_t root = 0;

    while ((root + 1) * (root + 1) <= value) {
        root++;
    }
    return root;
}

/* On the wire, between the first and the last look that brought something. UNKNOWN: too short to tell, or this rank
 * came so late that most was there already, and what it then waited for was anything but the port. */
static uint32_t delivered_kbit(const struct tt_pace_sample *sample)
{
    uint32_t since = sample->received - sample->first_received;
    uint64_t bytes = since * ((uint64_t)sample->chunk_bytes + TT_PACE_OVERHEAD_BYTES);
    uint64_t taken_ns = sample->last_ns - sample->first_ns;
    double kbit;

    if (since < LEAST_SAMPLE / 2 || since < sample->first_received || taken_ns == 0) {
        return TT_PACE_UNKNOWN;
    }
    kbit = (double)bytes * 8e6 / (double)taken_ns;
    if (sample->share > 1) {
        kbit *= sample->share; /* the others' chunks came through the same port */
    }
    return kbit >= (double)TT_PACE_UNKNOWN ? TT_PACE_UNKNOWN : kbit < LEAST_KBIT ? LEAST_KBIT : (uint32_t)kbit;
}

/* A rank that got no processor for a while lost what its own queue could not hold, and that is nothing that senders
 * could mend; and the port has delivered more than it saw come. */
static bool was_away(const struct tt_pace *pace, const struct tt_pace_sample *sample)
{
    return pace->watches && AWAY_PART * sample->longest_ns > sample->last_ns - sample->first_ns;
}

/* What is known is not given up at once, whatever was seen; true: it should have become less than that. */
static bool cut(struct tt_pace *pace, uint32_t delivered)
{
    uint32_t before = pace->limit_kbit;
    uint32_t slower = before == TT_PACE_UNKNOWN ? delivered : before - before / 32;
    bool is_held = before != TT_PACE_UNKNOWN && delivered < before / 2;

    pace->limit_kbit = is_held ? before / 2 : least(delivered, slower);
    if (pace->limit_kbit < LEAST_KBIT) {
        pace->limit_kbit = LEAST_KBIT;
    }
    return is_held;
}

/* The next cut is the first one. */
static void forget_cuts(struct tt_pace *pace)
{
    pace->trials = 0;
    pace->halvings = 0;
}

static void lost(struct tt_pace *pace, uint32_t loss_ppm, uint32_t delivered)
{
    bool is_less = (uint64_t)loss_ppm * 5 < (uint64_t)pace->trial_loss_ppm * 3;

    if ((pace->trials == 0 && pace->halvings == 0) || is_less) {
        pace->trial_before_kbit = pace->limit_kbit;
        pace->trial_loss_ppm = loss_ppm;
        forget_cuts(pace);
    }
    if (pace->trials == TRIALS) {
        pace->noise_ppm = pace->trial_loss_ppm > loss_ppm ? pace->trial_loss_ppm : loss_ppm;
        pace->limit_kbit = pace->trial_before_kbit;
        forget_cuts(pace);
        return;
    }
    /* One that is still on its way down has not been tried. */
    if (cut(pace, delivered) && pace->halvings < HALVINGS) {
        pace->halvings++;
    } else {
        pace->trials++;
    }
}

/* More than the limit was tried. What came then is what the port takes, unless the senders did not use what they were
 * allowed: credit may have held them back before anything was lost. */
static void attempted(struct tt_pace *pace, const struct tt_pace_sample *sample, bool is_lossy, uint32_t delivered)
{
    uint32_t before = pace->limit_kbit, found = least(delivered, sample->rate_kbit);

    if (!is_lossy && found >= sample->rate_kbit - sample->rate_kbit / 16) {
        found = sample->rate_kbit;
        pace->interval = LEAST_INTERVAL;
        pace->step = least(2 * pace->step, MOST_STEP);
    } else {
        pace->step = 1;
        if (found <= before + before / 16) {
            pace->interval = least(2 * pace->interval, MOST_INTERVAL);
        }
    }
    pace->limit_kbit = found > before ? found : before;
}

/* Whether more was lost of a collective than noise explains. */
static bool is_lossy_for(const struct tt_pace *pace, const struct tt_pace_sample *sample)
{
    uint64_t tolerated = (uint64_t)sample->expected * (LOSS_PPM + 2 * (uint64_t)pace->noise_ppm) / 1000000;

    tolerated += LOSS_CHUNKS + DEVIATIONS * root_of(tolerated);
    return sample->expected - sample->received > tolerated;
}

bool tt_pace_is_found(const struct tt_pace *pace)
{
    return pace->limit_kbit < pace->ceiling_kbit;
}

static void learn(struct tt_pace *pace, const struct tt_pace_sample *sample, bool is_lossy)
{
    uint32_t loss_ppm, delivered;

    if (sample->expected < LEAST_SAMPLE) {
        return;
    }
    delivered = delivered_kbit(sample);
    loss_ppm = (uint32_t)((uint64_t)(sample->expected - sample->received) * 1000000 / sample->expected);
    if (delivered == TT_PACE_UNKNOWN || was_away(pace, sample)) {
        return;
    }
    if (pace->limit_kbit != TT_PACE_UNKNOWN && sample->rate_kbit > pace->limit_kbit) {
        attempted(pace, sample, is_lossy, delivered);
    } else if (is_lossy) {
        lost(pace, loss_ppm, delivered);
    } else {
        forget_cuts(pace);
        pace->noise_ppm -= 2 * loss_ppm < pace->noise_ppm ? (pace->noise_ppm + 15) / 16 : 0;
    }
}

bool tt_pace_ended(struct tt_pace *pace, const struct tt_pace_sample *sample)
{
    bool is_lossy = is_lossy_for(pace, sample);

    learn(pace, sample, is_lossy);
    return is_lossy;
}
