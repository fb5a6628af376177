/* SPDX-License-Identifier: BSD-3-Clause */
/* What the sockets of the bootstrap are set to. */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/log.h"
#include "bootstrap_fixture.h"
#include "engine/bootstrap_private.h"

static void play_look_at_the_traffic_class(struct fixture_rank *self)
{
    const struct tt_bootstrap *bootstrap = self->bootstrap;
    int fd = self->rank == 0 ? bootstrap->members[1].channel.fd : bootstrap->root_channel.fd, class = -1;
    socklen_t length = sizeof(class);

    fixture_play_once(self);
    self->wrong_data |= getsockopt(fd, IPPROTO_IP, IP_TOS, &class, &length) != 0;
    self->wrong_data |= class != (int)self->settings.traffic_class;
}

static void both_ends_have_the_traffic_class_that_is_asked_for(void **state)
{
    static const size_t classes[] = {0, 104};
    struct fixture_rank ranks[2];

    (void)state;
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        uint16_t port;
        fixture_init(ranks, 2, &port);
        for (uint32_t rank = 0; rank < 2; rank++) {
            ranks[rank].settings.traffic_class = classes[i];
            ranks[rank].play = play_look_at_the_traffic_class;
        }
        fixture_start(ranks, 2, port, 20000, NULL);
        fixture_join(ranks, 2, NULL);
        for (uint32_t rank = 0; rank < 2; rank++) {
            assert_string_equal(ranks[rank].create_error, "");
            assert_int_equal(ranks[rank].result, 0);
            assert_false(ranks[rank].wrong_data);
        }
    }
}

/* A range of ports as wide as the job is enough, though the system may give one of them to such a connection: who
 * listens sets this too. Whether listening then succeeds is not asked: connections of other processes may share the
 * port. */
static void play_look_whether_the_port_is_free(struct fixture_rank *self)
{
    int on = 0;
    socklen_t length = sizeof(on);

    fixture_play_once(self);
    if (self->rank > 0) {
        self->wrong_data |= getsockopt(self->bootstrap->root_channel.fd, SOL_SOCKET, SO_REUSEADDR, &on, &length) != 0;
        self->wrong_data |= on == 0;
    }
}

static void connections_leave_their_ports_to_who_listens(void **state)
{
    struct fixture_rank ranks[2];
    uint16_t port;

    (void)state;
    fixture_init(ranks, 2, &port);
    ranks[0].play = ranks[1].play = play_look_whether_the_port_is_free;
    fixture_start(ranks, 2, port, 20000, NULL);
    fixture_join(ranks, 2, NULL);
    assert_string_equal(ranks[1].create_error, "");
    assert_int_equal(ranks[1].result, 0);
    assert_false(ranks[1].wrong_data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_have_the_traffic_class_that_is_asked_for),
        cmocka_unit_test(connections_leave_their_ports_to_who_listens),
    };
    char message[128];

    tt_log_configure("none", NULL, message, sizeof(message));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
