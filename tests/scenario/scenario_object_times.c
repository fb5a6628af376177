/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long object groups take, in virtual time: the steps of the plans, on equal links; and the paper's section 4.5, a
 * late block and a slow link. The table in docs/rdmc.md is what `scenario_object_times table` prints;
 * `scenario_object_times every` tries the pipeline with every number of members from 2 to 512, which takes minutes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "plan/rdmc_rule.h"
#include "support/object_world.h"

/* Links on which frames and latency hardly count: a block takes 5.2 ms. */
enum { BLOCK = 65536, PACKET = 512 };
#define RATE     UINT64_C(100000000)
#define BLOCK_NS (BLOCK * UINT64_C(8) * TT_NS_PER_S / RATE)

struct terms {
    enum tt_rdmc_algorithm algorithm;
    uint32_t members, blocks, block_bytes, packet_bytes;
    struct tt_sim_link link;
    struct object_world_delay delay;
};

static struct terms slow_links(enum tt_rdmc_algorithm algorithm, uint32_t members, uint32_t blocks)
{
    return (struct terms){.algorithm = algorithm,
                          .members = members,
                          .blocks = blocks,
                          .block_bytes = BLOCK,
                          .packet_bytes = PACKET,
                          .link = {.bits_per_second = RATE, .latency_ns = 1000}};
}

/* From the send to the last completion. */
static uint64_t time_of(const struct terms *terms)
{
    struct object_world_options options;
    struct object_world *world;
    uint64_t end_ns;

    object_world_options_init(&options, terms->members);
    options.objects.algorithm = terms->algorithm;
    options.objects.block_bytes = terms->block_bytes;
    options.sim.p2p_packet_bytes = terms->packet_bytes;
    options.sim.uplink = options.sim.downlink = terms->link;
    options.objects.silence_ns = 1000 * TT_NS_PER_S;
    world = object_world_create(&options);
    if (terms->delay.times > 0) {
        object_world_delay_puts(world, terms->delay);
    }
    assert_int_equal(object_world_send(world, (uint64_t)terms->blocks * terms->block_bytes), TUTTI_OK);
    object_world_run(world, 100 * TT_NS_PER_S);
    end_ns = object_world_end_of(world, 0);
    object_world_close_all(world);
    object_world_run(world, 200 * TT_NS_PER_S);
    object_world_end(world);
    return end_ns;
}

static void assert_within_two_percent(uint64_t time_ns, uint64_t blocks)
{
    assert_in_range(time_ns, blocks * BLOCK_NS, blocks * BLOCK_NS + blocks * BLOCK_NS / 50);
}

/* With so many members, which is within two percent of the formula, or ends the test. */
static double ratio_of_pipeline(uint32_t n)
{
    struct terms terms = slow_links(TT_RDMC_BINOMIAL_PIPELINE, n, 4);
    uint64_t time_ns = time_of(&terms), blocks = 4 + tt_log2_up(n) - 1, formula_ns = blocks * BLOCK_NS;

    assert_within_two_percent(time_ns, blocks);
    return (double)time_ns / (double)formula_ns;
}

static void a_pipeline_takes_k_and_the_logarithm_less_one_blocks(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 64; n++) {
        ratio_of_pipeline(n);
    }
    ratio_of_pipeline(200);
    ratio_of_pipeline(512);
}

static void a_pipeline_does_so_with_every_number_of_members(void **state)
{
    double worst = 0;

    (void)state;
    for (uint32_t n = 2; n <= 512; n++) {
        double ratio = ratio_of_pipeline(n);

        worst = ratio > worst ? ratio : worst;
    }
    printf("# every n from 2 to 512: at most %.4f of the formula's time\n", worst);
}

static void a_chain_takes_k_and_n_less_two_blocks(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 32; n += 5) {
        struct terms terms = slow_links(TT_RDMC_CHAIN, n, 8);

        assert_within_two_percent(time_of(&terms), 8 + n - 2);
    }
}

static void a_sequence_takes_k_times_n_less_one_blocks(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 32; n += 5) {
        struct terms terms = slow_links(TT_RDMC_SEQUENTIAL, n, 8);

        assert_within_two_percent(time_of(&terms), UINT64_C(8) * (n - 1));
    }
}

static void a_tree_takes_k_times_the_logarithm_blocks(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 32; n += 5) {
        struct terms terms = slow_links(TT_RDMC_BINOMIAL_TREE, n, 8);

        assert_within_two_percent(time_of(&terms), UINT64_C(8) * tt_log2_up(n));
    }
}

/*
 * Section 4.5, 1: a delay of e in sending a block delays the whole by at most e. What comes on top: members are out of
 * step then, and READY, which else goes out between two blocks, waits for a packet of one on either link, at each of up
 * to K + 3 steps: 2 / 128 of a block.
 */
static void one_late_block_delays_the_whole_by_no_more_than_it_is_late(void **state)
{
    enum { N = 16, K = 8 };
    struct terms terms = slow_links(TT_RDMC_BINOMIAL_PIPELINE, N, K);
    uint64_t undisturbed_ns = time_of(&terms), late_by_ns[] = {BLOCK_NS / 2, BLOCK_NS, 3 * BLOCK_NS};
    uint32_t later = 0;

    (void)state;
    for (uint32_t from = 0; from < N; from += 5) {
        for (uint32_t direction = 1; direction < N; direction *= 2) {
            for (uint32_t i = 0; i < 3; i++) {
                uint64_t time_ns;

                terms.delay = (struct object_world_delay){from, from ^ direction, i, 1, late_by_ns[i]};
                time_ns = time_of(&terms);
                assert_in_range(time_ns, 1, undisturbed_ns + late_by_ns[i] + BLOCK_NS / 4);
                later += time_ns > undisturbed_ns + late_by_ns[i] / 2;
            }
        }
    }
    assert_true(later > 10); /* it does delay */
}

/* Section 4.5, 2: one link with T' instead of T leaves at least l T' / (T + (l - 1) T') of the bandwidth. */
static uint64_t with_slow_link(uint32_t n, uint32_t blocks, uint32_t from, uint32_t to, uint32_t times_slower)
{
    struct terms terms = slow_links(TT_RDMC_BINOMIAL_PIPELINE, n, blocks);

    /* A member sends one block at a time, so a put that starts later by the difference is a put over a slow link. */
    terms.delay = (struct object_world_delay){from, to, 0, UINT64_MAX, (times_slower - 1) * BLOCK_NS};
    return time_of(&terms);
}

static void a_slow_link_costs_no_more_than_its_share_of_the_steps(void **state)
{
    enum { N = 16, L = 4, K = 32 };
    struct terms terms = slow_links(TT_RDMC_BINOMIAL_PIPELINE, N, K);
    uint64_t undisturbed_ns = time_of(&terms);

    (void)state;
    for (uint32_t slower = 2; slower <= 8; slower *= 2) {
        for (uint32_t direction = 1; direction < N; direction *= 2) {
            uint64_t time_ns = with_slow_link(N, K, 5, 5 ^ direction, slower);

            /* 1 / slower = T' / T; a round of the pipeline more, for it need not begin with the slow link. */
            assert_in_range(time_ns, undisturbed_ns - undisturbed_ns / 100,
                            undisturbed_ns * (slower + L - 1) / L + (slower + L) * BLOCK_NS);
        }
    }
}

/* --- The table ---------------------------------------------------------------------------------------------------- */

static void print_times(const char *what, struct terms terms, const uint32_t *members, uint32_t count)
{
    double block_ns = (double)terms.block_bytes * 8 * TT_NS_PER_S / (double)terms.link.bits_per_second;

    for (uint32_t i = 0; i < count; i++) {
        struct tt_rdmc plan;

        terms.members = members[i];
        (void)tt_rdmc_init(&plan, terms.algorithm, terms.members, terms.blocks, NULL, 0);
        printf("| %s | %s | %u | %u | %llu | %.2f |\n", tt_rdmc_word(terms.algorithm), what, members[i], terms.blocks,
               (unsigned long long)plan.step_count, (double)time_of(&terms) / block_ns);
    }
}

static void print_table(void)
{
    static const uint32_t members[] = {2, 3, 7, 8, 64, 512};
    struct terms fast = slow_links(TT_RDMC_BINOMIAL_PIPELINE, 0, 16);
    uint64_t undisturbed_ns;

    for (unsigned algorithm = 0; algorithm < TT_RDMC_HYBRID; algorithm++) {
        print_times("64 KiB, 100 Mbit/s", slow_links((enum tt_rdmc_algorithm)algorithm, 0, 16), members,
                    algorithm == TT_RDMC_BINOMIAL_PIPELINE ? 6 : 5);
    }
    fast.link.bits_per_second = UINT64_C(100000000000);
    fast.packet_bytes = 4096;
    fast.block_bytes = 256 * 1024;
    print_times("256 KiB, 100 Gbit/s", fast, &members[3], 1);
    fast.block_bytes = 1024 * 1024;
    print_times("1 MiB, 100 Gbit/s", fast, &members[3], 1);
    fast.block_bytes = 8 * 1024 * 1024;
    print_times("8 MiB, 100 Gbit/s", fast, &members[3], 1);
    fast = slow_links(TT_RDMC_BINOMIAL_PIPELINE, 16, 64);
    undisturbed_ns = time_of(&fast);
    for (uint32_t slower = 2; slower <= 10; slower += slower == 2 ? 2 : 6) {
        double worst = 0;

        for (uint32_t from = 0; from < 16; from++) {
            for (uint32_t direction = 1; direction < 16; direction *= 2) {
                double ratio = (double)with_slow_link(16, 64, from, from ^ direction, slower) / (double)undisturbed_ns;

                worst = ratio > worst ? ratio : worst;
            }
        }
        printf("| 1/%u | %.3f | %.3f |\n", slower, 1 / worst, 4.0 / (slower + 3));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipeline_takes_k_and_the_logarithm_less_one_blocks),
        cmocka_unit_test(a_chain_takes_k_and_n_less_two_blocks),
        cmocka_unit_test(a_sequence_takes_k_times_n_less_one_blocks),
        cmocka_unit_test(a_tree_takes_k_times_the_logarithm_blocks),
        cmocka_unit_test(one_late_block_delays_the_whole_by_no_more_than_it_is_late),
        cmocka_unit_test(a_slow_link_costs_no_more_than_its_share_of_the_steps),
    };

    const struct CMUnitTest every[] = {cmocka_unit_test(a_pipeline_does_so_with_every_number_of_members)};

    if (argc > 1 && strcmp(argv[1], "table") == 0) {
        print_table();
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "every") == 0) {
        return cmocka_run_group_tests(every, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
