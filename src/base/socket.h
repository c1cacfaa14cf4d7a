/* Sockets, as far as a server needs them beside its HTTP library. */
#ifndef TENON_BASE_SOCKET_H
#define TENON_BASE_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include "tenon/status.h"

/* Whether every address of `host` (a name or a numeric address) is this machine's loopback; false for names that are
 * not known. */
bool tn_host_is_loopback(const char *host);

/* A listening TCP socket on the first address of `host`; port 0 takes a free one. *descriptor is closed by the caller,
 * *bound is the port. Errors name host and port: TN_E_NOT_FOUND (no such host), TN_E_IO. */
tn_status tn_socket_listen(const char *host, uint16_t port, int *descriptor, uint16_t *bound, tn_error *error);
void tn_socket_close(int descriptor);

/* A listening unix socket at `path`. One that nobody listens on any more is replaced. TN_E_INVALID: a path that is too
 * long; TN_E_BUSY: somebody listens there; TN_E_IO. */
tn_status tn_socket_listen_unix(const char *path, int *descriptor, tn_error *error);
/* Removes it, behind tn_socket_close; not what somebody else has put there meanwhile. */
void tn_socket_remove_unix(const char *path);

/* The other end of a connection, as the system writes it: a struct sockaddr of `length` bytes. */
typedef struct tn_socket_address {
  _Alignas(8) unsigned char bytes[128];
  uint32_t length;
} tn_socket_address;

/* The next connection that waits at a listening socket, or comes within `timeout_ns`; the caller closes it. -1: none
 * came, a signal did, or the system had no descriptor for it. */
int tn_socket_accept(int listener, uint64_t timeout_ns, tn_socket_address *from);

/* Ends both directions of a connection that somebody else closes: whoever waits for it wakes up. */
void tn_socket_shut(int descriptor);

/* Whether the other end of a connection has closed it or its sending half. Never waits. */
bool tn_socket_hung_up(int descriptor);

/* Raises the number of descriptors this process may open to what the system allows it. */
void tn_descriptors_raise_limit(void);

#endif
