/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast over UC in the simulator: chunks of several packets, and memory that they are written to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim_world.h"

/* A packet takes 3200 ns on a link, the last of a chunk of 1000 bytes 1600. */
enum { PACKET = 400, CHUNK = 1000, KEY = 5, OFFSET = 50, WINDOW = 2 * CHUNK, UNTOUCHED = 0x5C };

struct uc_world {
    struct sim_world *sim;
    struct tt_mcast_queue *sender, *receiver;
    unsigned char window[WINDOW];
};

static struct uc_world begin(const struct tt_sim_options *options)
{
    struct uc_world world = {.sim = sim_create_world(options)};

    world.sender = world.sim->queues[0];
    world.receiver = world.sim->queues[1];
    memset(world.window, UNTOUCHED, sizeof world.window);
    return world;
}

static struct tt_sim_options uc_options(void)
{
    struct tt_sim_options options = sim_plain_options(2);

    options.uc_packet_bytes = PACKET;
    return options;
}

static void post_at(struct uc_world *world, uint32_t imm, uint32_t key, uint64_t offset)
{
    const struct tt_send_chunk chunk = {.imm = imm,
                                        .length_bytes = CHUNK,
                                        .address = world->sim->memory[0],
                                        .window_key = key,
                                        .window_offset_bytes = offset};

    assert_int_equal(world->sender->ops->post(world->sender, &chunk, 1), 1);
}

static void bind_key(struct uc_world *world, uint32_t key)
{
    world->receiver->ops->bind(world->receiver, key, world->window, WINDOW);
}

static void assert_written(const struct uc_world *world, uint32_t first, uint32_t end)
{
    for (uint32_t i = 0; i < WINDOW; i++) {
        bool written = i >= OFFSET + first && i < OFFSET + end;

        assert_int_equal(world->window[i], written ? world->sim->memory[0][i - OFFSET] : UNTOUCHED);
    }
}

static void packets_are_written_as_they_arrive_and_the_last_completes_the_chunk(void **state)
{
    struct tt_sim_options options = uc_options();
    struct uc_world world = begin(&options);
    struct tt_receive_chunk chunk[SIM_CAPACITY];

    (void)state;
    bind_key(&world, KEY);
    post_at(&world, 9, KEY, OFFSET);
    tt_sim_advance(world.sim->sim, 6599); /* 3200 + 100 + 3200 + 100 */
    assert_written(&world, 0, 0);
    tt_sim_advance(world.sim->sim, 6600);
    assert_written(&world, 0, PACKET);
    assert_int_equal(world.sender->ops->sent(world.sender), 0);
    tt_sim_advance(world.sim->sim, 8000);
    assert_int_equal(world.sender->ops->sent(world.sender), 1);
    tt_sim_advance(world.sim->sim, 9800);
    assert_written(&world, 0, 2 * PACKET);
    tt_sim_advance(world.sim->sim, 11399); /* 6600 + 3200 + 1600 */
    assert_int_equal(sim_drain(world.sim, 1, NULL), 0);
    tt_sim_advance(world.sim->sim, 11400);
    assert_int_equal(world.receiver->ops->poll(world.receiver, chunk, SIM_CAPACITY), 1);
    assert_int_equal(chunk[0].imm, 9);
    assert_int_equal(chunk[0].length_bytes, CHUNK);
    assert_ptr_equal(chunk[0].address, world.window + OFFSET);
    world.receiver->ops->repost(world.receiver, chunk, 1);
    assert_written(&world, 0, CHUNK);
    sim_destroy_world(world.sim);
}

static void chunk_that_lost_a_packet_does_not_complete_and_the_next_one_does(void **state)
{
    struct tt_sim_options options = uc_options();
    struct uc_world world = begin(&options);
    uint32_t imms[SIM_CAPACITY];

    (void)state;
    bind_key(&world, KEY);
    post_at(&world, 9, KEY, OFFSET);
    tt_sim_advance(world.sim->sim, 4000); /* the first packet has passed the switch */
    tt_sim_drop_chunk(world.sim->sim, 1, 9, 1);
    tt_sim_advance(world.sim->sim, TT_NS_PER_MS);
    assert_int_equal(sim_port_of(world.sim, 1).lost, 1);
    assert_int_equal(sim_port_of(world.sim, 1).broken_packets, 1);
    assert_int_equal(sim_drain(world.sim, 1, NULL), 0);
    assert_written(&world, 0, PACKET);
    post_at(&world, 10, KEY, OFFSET);
    tt_sim_advance(world.sim->sim, 2 * TT_NS_PER_MS);
    assert_int_equal(sim_drain(world.sim, 1, imms), 1);
    assert_int_equal(imms[0], 10);
    sim_destroy_world(world.sim);
}

static void chunk_whose_first_packet_is_lost_is_lost_though_the_one_before_was_as_long(void **state)
{
    struct tt_sim_options options = uc_options();
    struct uc_world world = begin(&options);

    (void)state;
    bind_key(&world, KEY);
    post_at(&world, 9, KEY, OFFSET);
    tt_sim_advance(world.sim->sim, TT_NS_PER_MS);
    tt_sim_drop_chunk(world.sim->sim, 1, 10, 1);
    post_at(&world, 10, KEY, OFFSET + CHUNK / 2);
    tt_sim_advance(world.sim->sim, 2 * TT_NS_PER_MS);
    assert_int_equal(sim_drain(world.sim, 1, NULL), 1);
    assert_int_equal(sim_port_of(world.sim, 1).broken_packets, 2);
    assert_written(&world, 0, CHUNK);
    sim_destroy_world(world.sim);
}

static void packets_of_a_chunk_that_overtake_each_other_do_not_complete_it(void **state)
{
    enum { COUNT = 20 };
    struct tt_sim_options options = uc_options();
    options.faults.reorder_ppm = 500000;
    options.faults.reorder_ns = 100000;
    struct uc_world world = begin(&options);
    uint32_t came;

    (void)state;
    bind_key(&world, KEY);
    for (uint32_t i = 0; i < COUNT; i++) {
        post_at(&world, i, KEY, OFFSET);
    }
    tt_sim_advance(world.sim->sim, 10 * TT_NS_PER_MS);
    came = sim_drain(world.sim, 1, NULL);
    assert_in_range(came, 1, COUNT - 1);
    assert_true(sim_port_of(world.sim, 1).broken_packets >= COUNT - came);
    sim_destroy_world(world.sim);
}

static void window_that_is_invalidated_between_two_packets_gets_nothing_more(void **state)
{
    struct tt_sim_options options = uc_options();
    struct uc_world world = begin(&options);

    (void)state;
    bind_key(&world, KEY);
    bind_key(&world, KEY + 1);
    post_at(&world, 9, KEY, OFFSET);
    tt_sim_advance(world.sim->sim, 6600);
    world.receiver->ops->invalidate(world.receiver, KEY);
    tt_sim_advance(world.sim->sim, TT_NS_PER_MS);
    assert_int_equal(sim_drain(world.sim, 1, NULL), 0);
    assert_written(&world, 0, PACKET);
    assert_int_equal(sim_port_of(world.sim, 1).refused_packets, 1);
    assert_int_equal(sim_port_of(world.sim, 1).broken_packets, 1); /* what is behind the refused one */
    assert_int_equal(tt_sim_violations(world.sim->sim), 0);
    sim_destroy_world(world.sim);
}

static void written_chunk_that_finds_no_receive_is_lost_without_a_completion(void **state)
{
    struct tt_sim_options options = uc_options();
    options.receive_depth = 1;
    struct uc_world world = begin(&options);
    uint32_t imms[SIM_CAPACITY];

    (void)state;
    bind_key(&world, KEY);
    post_at(&world, 9, KEY, OFFSET);
    post_at(&world, 10, KEY, OFFSET);
    tt_sim_advance(world.sim->sim, TT_NS_PER_MS);
    assert_int_equal(sim_drain(world.sim, 1, imms), 1);
    assert_int_equal(imms[0], 9);
    assert_int_equal(sim_port_of(world.sim, 1).overflow_drops, 1);
    sim_destroy_world(world.sim);
}

static void detached_sender_takes_the_rest_of_its_chunk_along(void **state)
{
    struct tt_sim_options options = uc_options();
    struct uc_world world = begin(&options);

    (void)state;
    bind_key(&world, KEY);
    post_at(&world, 9, KEY, OFFSET);
    tt_sim_advance(world.sim->sim, 4000);
    world.sender->ops->detach(world.sender);
    memset(world.sim->memory[0] + PACKET, 0, CHUNK - PACKET);
    tt_sim_advance(world.sim->sim, TT_NS_PER_MS);
    assert_written(&world, 0, PACKET);
    assert_int_equal(sim_drain(world.sim, 1, NULL), 0);
    sim_destroy_world(world.sim);
}

static void binding_a_key_twice_too_many_or_none_is_a_violation(void **state)
{
    struct tt_sim_options options = uc_options();
    struct uc_world world = begin(&options);

    (void)state;
    bind_key(&world, KEY);
    bind_key(&world, KEY);
    assert_int_equal(tt_sim_violations(world.sim->sim), 1);
    bind_key(&world, 0);
    assert_int_equal(tt_sim_violations(world.sim->sim), 2);
    bind_key(&world, KEY + 1);
    assert_int_equal(tt_sim_violations(world.sim->sim), 2);
    bind_key(&world, KEY + 2);
    assert_int_equal(tt_sim_violations(world.sim->sim), 3);
    world.receiver->ops->invalidate(world.receiver, KEY + 2);
    assert_int_equal(tt_sim_violations(world.sim->sim), 4);
    sim_destroy_world(world.sim);
}

static void packets_longer_than_a_chunk_are_refused(void **state)
{
    struct tt_sim_options options = uc_options();

    (void)state;
    options.uc_packet_bytes = options.max_chunk_bytes + 1;
    assert_null(tt_sim_create(&options));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_are_written_as_they_arrive_and_the_last_completes_the_chunk),
        cmocka_unit_test(chunk_that_lost_a_packet_does_not_complete_and_the_next_one_does),
        cmocka_unit_test(chunk_whose_first_packet_is_lost_is_lost_though_the_one_before_was_as_long),
        cmocka_unit_test(packets_of_a_chunk_that_overtake_each_other_do_not_complete_it),
        cmocka_unit_test(window_that_is_invalidated_between_two_packets_gets_nothing_more),
        cmocka_unit_test(written_chunk_that_finds_no_receive_is_lost_without_a_completion),
        cmocka_unit_test(detached_sender_takes_the_rest_of_its_chunk_along),
        cmocka_unit_test(binding_a_key_twice_too_many_or_none_is_a_violation),
        cmocka_unit_test(packets_longer_than_a_chunk_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
