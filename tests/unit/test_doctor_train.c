/* SPDX-License-Identifier: BSD-3-Clause */
/* Trains of datagrams as a partner orders them: how long they may take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/doctor_train.h"
#include "patience.h"

/* Sends to itself. */
static struct tt_doctor_socket doctor;

static void open_socket(struct tt_doctor_partner *partner)
{
    socklen_t length = sizeof(partner->address);
    partner->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    doctor = (struct tt_doctor_socket){.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), .multicast_fd = -1};
    assert_true(doctor.fd >= 0);
    assert_int_equal(bind(doctor.fd, (struct sockaddr *)&partner->address, length), 0);
    assert_int_equal(getsockname(doctor.fd, (struct sockaddr *)&partner->address, &length), 0);
}

/* At 1 kbit/s the second of two datagrams would be due 12 s after the first one. */
static void a_train_that_is_too_slow_ends_in_time(void **state)
{
    const struct tt_doctor_header order = {
        .kind = TT_DOCTOR_ORDER, .number = 5, .value = 2, .length_bytes = 1472, .rate_kbit = 1, .burst = 1};
    struct tt_doctor_partner partner = {.index = 0};
    struct tt_doctor_header end;
    (void)state;
    open_socket(&partner);
    uint64_t begun_ns = tt_clock_now_ns();
    tt_doctor_send_train(&doctor, &partner, &order);
    assert_in_range(tt_clock_now_ns() - begun_ns, 400 * TT_NS_PER_MS, 4 * TT_NS_PER_S * TT_PATIENCE);
    assert_int_equal(recv(doctor.fd, doctor.received, sizeof(doctor.received), MSG_DONTWAIT), 1472);
    assert_int_equal(recv(doctor.fd, &end, sizeof(end), MSG_DONTWAIT), sizeof(end));
    assert_int_equal(end.kind, TT_DOCTOR_END);
    assert_int_equal(end.value, 1);
    close(doctor.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_train_that_is_too_slow_ends_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
