/* Sockets (see socket.h). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/error.h"
#include "base/socket.h"

#define BACKLOG 1024

static struct addrinfo *addresses_of(const char *host, uint16_t port, int *fault) {
  char service[8];
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
  struct addrinfo *list = NULL;
  snprintf(service, sizeof service, "%u", port);
  *fault = getaddrinfo(host, service, &hints, &list);
  return *fault ? NULL : list;
}

static bool is_loopback(const struct sockaddr *address) {
  if (address->sa_family == AF_INET)
    return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

bool tn_host_is_loopback(const char *host) {
  int fault;
  struct addrinfo *list = addresses_of(host, 0, &fault);
  bool all = list != NULL;
  for (const struct addrinfo *at = list; at; at = at->ai_next) all = all && is_loopback(at->ai_addr);
  if (list) freeaddrinfo(list);
  return all;
}

/* The port a socket is bound to; 0 when the system doesn't say. */
static uint16_t port_of(int descriptor) {
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  if (getsockname(descriptor, (struct sockaddr *)&address, &size) != 0) return 0;
  if (address.ss_family == AF_INET6) return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
  return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

tn_status tn_socket_listen(const char *host, uint16_t port, int *descriptor, uint16_t *bound, tn_error *error) {
  int fault, yes = 1;
  struct addrinfo *address = addresses_of(host, port, &fault);
  *descriptor = -1;
  if (!address) return tn_fail(error, TN_E_NOT_FOUND, "cannot listen on %s: %s", host, gai_strerror(fault));
  int made = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bool ok = made >= 0 && setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
            bind(made, address->ai_addr, address->ai_addrlen) == 0 && listen(made, BACKLOG) == 0;
  int cause = errno;
  freeaddrinfo(address);
  if (!ok) {
    if (made >= 0) close(made);
    return tn_fail(error, TN_E_IO, "cannot listen on %s port %u: %s%s", host, port, strerror(cause),
                   cause == EADDRINUSE ? "; take another port, or 0 for a free one" : "");
  }
  *descriptor = made;
  *bound = port_of(made);
  return TN_OK;
}

/* Whether a socket file is left over from somebody who is gone. */
static bool is_left_over(const struct sockaddr_un *address) {
  struct stat file;
  if (stat(address->sun_path, &file) != 0 || !S_ISSOCK(file.st_mode)) return false;
  int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); /* whoever listens may not take it now */
  if (made < 0) return false;
  bool is_refused = connect(made, (const struct sockaddr *)address, sizeof *address) != 0 && errno == ECONNREFUSED;
  close(made);
  return is_refused;
}

tn_status tn_socket_listen_unix(const char *path, int *descriptor, tn_error *error) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  *descriptor = -1;
  if (!*path || strlen(path) >= sizeof address.sun_path)
    return tn_fail(error, TN_E_INVALID, "cannot listen on unix:%s: expected a path of 1 to %zu bytes", path,
                   sizeof address.sun_path - 1);
  strcpy(address.sun_path, path);
  if (is_left_over(&address)) unlink(path);
  int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bool is_bound = made >= 0 && bind(made, (const struct sockaddr *)&address, sizeof address) == 0;
  if (is_bound && listen(made, BACKLOG) == 0) {
    *descriptor = made;
    return TN_OK;
  }
  int cause = errno;
  if (is_bound) unlink(path);
  if (made >= 0) close(made);
  return tn_fail(error, cause == EADDRINUSE ? TN_E_BUSY : TN_E_IO, "cannot listen on unix:%s: %s", path,
                 strerror(cause));
}

void tn_socket_remove_unix(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  if (is_left_over(&address)) unlink(path);
}

void tn_socket_close(int descriptor) {
  close(descriptor);
}

int tn_socket_accept(int listener, uint64_t timeout_ns, tn_socket_address *from) {
  struct pollfd one = {.fd = listener, .events = POLLIN};
  if (poll(&one, 1, (int)(timeout_ns / 1000000u)) <= 0) return -1;
  socklen_t length = sizeof from->bytes;
  int made = accept4(listener, (struct sockaddr *)(void *)from->bytes, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
  from->length = length;
  return made;
}

void tn_socket_shut(int descriptor) {
  shutdown(descriptor, SHUT_RDWR);
}

bool tn_socket_hung_up(int descriptor) {
  struct pollfd one = {.fd = descriptor, .events = POLLRDHUP};
  return poll(&one, 1, 0) > 0 && (one.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

void tn_descriptors_raise_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}
