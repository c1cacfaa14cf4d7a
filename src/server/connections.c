/* Watching connections that wait for a request (see connections.h). */
#include "server/connections.h"

#include <stdlib.h>
#include "base/socket.h"

#define WATCH_NS UINT64_C(1000000000)

struct tn_connection {
  int descriptor;
  bool is_busy;
  bool has_hung_up;  /* seen once: a request that came with its end gets until the next look */
  uint64_t since_ns; /* when it began to wait */
  tn_connection *previous, *next;
};

bool tn_connections_init(tn_connections *connections, uint64_t patience_ns) {
  *connections = (tn_connections){.lock = tn_mutex_create(), .patience_ns = patience_ns};
  return connections->lock != NULL;
}

void tn_connections_finish(tn_connections *connections) {
  tn_mutex_destroy(connections->lock);
}

static void enter(tn_connections *connections, struct MHD_Connection *connection, void **slot) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  tn_connection *entry = info ? calloc(1, sizeof *entry) : NULL;
  *slot = entry;
  if (!entry) return; /* not watched, then */
  entry->descriptor = info->connect_fd;
  entry->since_ns = tn_clock_ns();
  tn_mutex_lock(connections->lock);
  entry->next = connections->first;
  if (entry->next) entry->next->previous = entry;
  connections->first = entry;
  tn_mutex_unlock(connections->lock);
}

static void leave(tn_connections *connections, tn_connection *entry) {
  tn_mutex_lock(connections->lock);
  if (entry->previous)
    entry->previous->next = entry->next;
  else
    connections->first = entry->next;
  if (entry->next) entry->next->previous = entry->previous;
  tn_mutex_unlock(connections->lock);
  free(entry);
}

void tn_connections_notify(void *context, struct MHD_Connection *connection, void **slot,
                           enum MHD_ConnectionNotificationCode code) {
  if (code == MHD_CONNECTION_NOTIFY_STARTED)
    enter(context, connection, slot);
  else if (*slot)
    leave(context, *slot);
}

void tn_connections_set_busy(tn_connections *connections, struct MHD_Connection *connection, bool is_busy) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  tn_connection *entry = info ? info->socket_context : NULL;
  if (!entry) return;
  tn_mutex_lock(connections->lock);
  entry->is_busy = is_busy;
  entry->has_hung_up = false;
  entry->since_ns = tn_clock_ns();
  tn_mutex_unlock(connections->lock);
}

void tn_connections_watch(tn_connections *connections) {
  uint64_t now = tn_clock_ns();
  if (now - connections->watched_ns < WATCH_NS) return;
  connections->watched_ns = now;
  tn_mutex_lock(connections->lock);
  for (tn_connection *at = connections->first; at; at = at->next) {
    if (at->is_busy) continue;
    bool has_hung_up = tn_socket_hung_up(at->descriptor);
    bool is_late = now > at->since_ns && now - at->since_ns > connections->patience_ns;
    if ((has_hung_up && at->has_hung_up) || is_late) tn_socket_shut(at->descriptor); /* the library closes it */
    at->has_hung_up = has_hung_up;
  }
  tn_mutex_unlock(connections->lock);
}
