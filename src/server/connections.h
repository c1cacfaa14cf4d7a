/* Connections that wait for a request: none may stay for ever, whatever its client does or doesn't send.
 *
 * libmicrohttpd closes a connection that is silent. This closes those that it would keep: whose client is gone (an end
 * that came together with data isn't noticed by a library that waits for edges), and those that send, but so slowly
 * that their request is never whole. A connection is of no interest here while its request is answered. */
#ifndef TENON_SERVER_CONNECTIONS_H
#define TENON_SERVER_CONNECTIONS_H

#include <microhttpd.h>
#include <stdbool.h>
#include "base/os.h"

typedef struct tn_connection tn_connection;

typedef struct tn_connections {
  tn_mutex *lock;
  tn_connection *first;
  uint64_t patience_ns; /* from the end of one request to the next one being there whole */
  uint64_t watched_ns;  /* when tn_connections_watch last did something */
} tn_connections;

bool tn_connections_init(tn_connections *connections, uint64_t patience_ns); /* false: memory is out */
void tn_connections_finish(tn_connections *connections);                     /* after the daemon has stopped */

/* libmicrohttpd's MHD_OPTION_NOTIFY_CONNECTION; `connections` is the tn_connections. */
void tn_connections_notify(void *connections, struct MHD_Connection *connection, void **slot,
                           enum MHD_ConnectionNotificationCode code);

/* A request is there whole and answered from now on; or its answer has ended. */
void tn_connections_set_busy(tn_connections *connections, struct MHD_Connection *connection, bool is_busy);

/* Looks at all that wait, once a second at most. */
void tn_connections_watch(tn_connections *connections);

#endif
