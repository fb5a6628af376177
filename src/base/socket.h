/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets that no child of this process keeps, be it made by fork() alone (the workers of a data loader) or run another
 * program: while any process has a socket, those at its other end do not hear that this one has died. The child of a
 * fork() closes them before fork() returns; one that is made by _Fork() or a bare clone() has them, as has one of
 * vfork() until it runs another program.
 */
#ifndef TT_BASE_SOCKET_H
#define TT_BASE_SOCKET_H

/* All sockets close on exec and do not block. Thread-safe. Return a descriptor, or -1 with errno, which is ENOMEM also
 * where nothing could be noted about it. */
int tt_socket_open(int family, int type);
int tt_socket_accept(int listener); /* which may be another's */

/* Closes a socket from above. Does nothing where this process is a child that has lost it, whose descriptor may be
 * something else by now. errno stays. Thread-safe. */
void tt_socket_close(int socket);

#endif
