/* Starting, watching and stopping the server. */
#include "server/server.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/socket.h"
#include "server/generation.h"
#include "server/internal.h"

#define HTTP_THREADS 4
#define HEAD_BYTES ((size_t)64 << 10) /* of a request's head and a reply's, a connection */
#define WATCH_NS 10000000u            /* how often connections with running answers are looked at */
#define IDLE_NS 50000000u             /* how often signals are looked for otherwise */
#define PAUSE_NS 1000000u             /* where no connection can be taken */
#define SPARE_CONNECTIONS 64u         /* that the library may have while it still counts them */
#define CUT_NS UINT64_C(5000000000)   /* what cancelled answers may take to end */
#define GIVE_UP_NS 500000000u         /* what sending the errors of answers that the engine doesn't end may take */
#define ABANDON_NS 500000000u         /* what closing the connections of clients that don't read may take */

static tn_status check_address(const tn_server_options *options, tn_error *error) {
  if (options->key_count || options->allow_public || options->unix_path || tn_host_is_loopback(options->host))
    return TN_OK;
  return tn_fail(error, TN_E_INVALID,
                 "%s can be reached from other machines: give --api-key or --api-key-file, or --allow-public to let "
                 "everyone in",
                 options->host);
}

/* "*", or what a browser sends as a page's origin: SCHEME://HOST or SCHEME://HOST:PORT. */
static bool is_origin(const char *text) {
  const char *host = strstr(text, "://");
  if (!strcmp(text, "*")) return true;
  for (const char *at = text; *at; at++)
    if (*at <= ' ' || *at > '~' || *at == ',') return false;
  return host && host > text && host[3] && !strchr(host + 3, '/');
}

static tn_status check_options(const tn_server_options *options, tn_error *error) {
  if (options->cors && !is_origin(options->cors))
    return tn_fail(error, TN_E_INVALID, "--cors: \"%s\" given, expected * or one origin as https://example.org:8443",
                   options->cors);
  if (options->name && !*options->name) return tn_fail(error, TN_E_INVALID, "--name: the name is empty");
  return check_address(options, error);
}

static tn_status listen_on(const tn_server_options *options, int *listener, uint16_t *port, tn_error *error) {
  *port = 0;
  if (options->unix_path) return tn_socket_listen_unix(options->unix_path, listener, error);
  return tn_socket_listen(options->host, options->port, listener, port, error);
}

tn_status tn_server_check(const tn_server_options *options, tn_error *error) {
  int listener;
  uint16_t port;
  tn_status status = check_options(options, error);
  if (status == TN_OK) status = listen_on(options, &listener, &port, error);
  if (status != TN_OK) return status;
  tn_socket_close(listener);
  if (options->unix_path) tn_socket_remove_unix(options->unix_path);
  return TN_OK;
}

static void tell_address(const tn_server_options *options, uint16_t port) {
  bool is_v6 = strchr(options->host, ':') != NULL;
  const char *scheme = options->certificate ? "https" : "http";
  if (options->unix_path)
    printf("listening on %s+unix:%s\n", scheme, options->unix_path);
  else
    printf("listening on %s://%s%s%s:%u\n", scheme, is_v6 ? "[" : "", options->host, is_v6 ? "]" : "", port);
  fflush(stdout);
}

static struct MHD_Daemon *start_daemon(tn_server *server, tn_error *error) {
  const tn_server_options *options = &server->options;
  const struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)options->certificate},
                                       {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)options->private_key},
                                       {MHD_OPTION_END, 0, NULL}};
  const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME |
                   (options->certificate ? MHD_USE_TLS : 0);
  struct MHD_Daemon *daemon = MHD_start_daemon(
      flags, 0, NULL, NULL, tn_http_handle, server, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)HTTP_THREADS,
      MHD_OPTION_CONNECTION_LIMIT, (unsigned)options->connections + SPARE_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
      (unsigned)options->idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEAD_BYTES, MHD_OPTION_NOTIFY_COMPLETED,
      tn_http_completed, server, MHD_OPTION_NOTIFY_CONNECTION, tn_connections_notify, &server->connections,
      MHD_OPTION_ARRAY, options->certificate ? tls : none, MHD_OPTION_END);
  if (!daemon && options->certificate)
    tn_fail(error, TN_E_INVALID,
            "the HTTP library did not start: the certificate and its key are no pair of PEM files");
  else if (!daemon)
    tn_fail(error, TN_E_INTERNAL, "the HTTP library did not start");
  return daemon;
}

/* Notes when steps of the engine fail, and how long they take; true while one is under way. */
static bool watch_engine(tn_server *server) {
  tn_engine_info info = TN_ENGINE_INFO;
  tn_engine_describe(server->engine, &info);
  tn_mutex_lock(server->lock);
  bool is_another = info.step_ns < server->step_ns;
  if (is_another && server->step_ns > server->longest_ns) server->longest_ns = server->step_ns;
  server->step_ns = info.step_ns;
  if (info.failed_steps != server->failed_steps) server->failed_ns = tn_clock_ns();
  server->failed_steps = info.failed_steps;
  tn_mutex_unlock(server->lock);
  return info.step_ns > 0;
}

/* Looks at every running answer once; true when there is one, or something else is under way. */
static bool watch(tn_server *server, tn_watch how) {
  tn_mutex_lock(server->lock);
  for (tn_exchange *at = server->active; at; at = at->next) tn_generation_watch(at->generation, how);
  bool is_busy = server->active != NULL;
  tn_mutex_unlock(server->lock);
  is_busy |= tn_desk_is_busy(&server->desk) || server->unsent > 0;
  tn_connections_watch(&server->connections);
  return watch_engine(server) || is_busy;
}

/* Watches until no answer runs, a signal more than `signals` comes, or the deadline. */
static void watch_until(tn_server *server, uint64_t deadline_ns, unsigned signals, tn_watch how) {
  while (tn_clock_ns() < deadline_ns && tn_interrupts() <= signals && watch(server, how)) tn_sleep_ns(WATCH_NS);
}

/* Hands connections to the library for `period_ns`, as long as there are fewer than allowed; more of them wait. (The
 * library could listen by itself, but how it stops that may abort the process: its threads take the socket out of their
 * epoll sets, and whoever stops it does so too.) */
static void take_connections(tn_server *server, struct MHD_Daemon *daemon, int listener, uint64_t period_ns) {
  for (uint64_t now = tn_clock_ns(), end = now + period_ns; now < end && !tn_interrupts(); now = tn_clock_ns()) {
    const union MHD_DaemonInfo *there = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    tn_socket_address from;
    int taken = -1;
    if (there->num_connections < server->options.connections) taken = tn_socket_accept(listener, end - now, &from);
    if (taken >= 0)
      MHD_add_connection(daemon, taken, (const struct sockaddr *)(const void *)from.bytes, from.length);
    else
      tn_sleep_ns(PAUSE_NS);
  }
}

static void serve(tn_server *server, struct MHD_Daemon *daemon, int listener) {
  while (!tn_interrupts())
    take_connections(server, daemon, listener, watch(server, TN_WATCH_CLIENT) ? WATCH_NS : IDLE_NS);
  tn_mutex_lock(server->lock);
  server->is_stopping = true;
  tn_mutex_unlock(server->lock);
  tn_socket_close(listener);
  watch_until(server, tn_clock_ns() + server->options.stop_seconds * UINT64_C(1000000000), 1, TN_WATCH_CLIENT);
  watch_until(server, tn_clock_ns() + CUT_NS, UINT32_MAX, TN_WATCH_CUT);
  watch_until(server, tn_clock_ns() + GIVE_UP_NS, UINT32_MAX, TN_WATCH_GIVE_UP);
  /* what is abandoned is resumed and never suspended again, as the library wants it when it is stopped */
  watch_until(server, tn_clock_ns() + ABANDON_NS, UINT32_MAX, TN_WATCH_ABANDON);
}

/* Whether something doesn't come to an end that would have to be waited for. */
static bool is_held_up(tn_server *server) {
  tn_engine_info info = TN_ENGINE_INFO;
  tn_engine_describe(server->engine, &info);
  return info.step_ns > 0 || tn_desk_is_busy(&server->desk);
}

/* Ends the process although its threads are at work. */
static void leave(const tn_server_options *options) {
  if (options->unix_path) tn_socket_remove_unix(options->unix_path);
  fprintf(stderr,
          "tenon: a step of the device, or a request that is being read, does not come to an end; ended without "
          "waiting for it\n");
  tn_exit_now(1);
}

tn_status tn_serve(const tn_model *model, tn_engine *engine, const tn_server_options *options, tn_error *error) {
  tn_server server = {.model = model, .engine = engine, .options = *options, .engine_info = TN_ENGINE_INFO};
  struct MHD_Daemon *daemon = NULL;
  int listener = -1;
  uint16_t port;
  tn_engine_describe(engine, &server.engine_info);
  server.started = tn_unix_time();
  tn_local_time("%Y-%m-%dT%H:%M:%S%z", server.started_text, sizeof server.started_text);
  tn_descriptors_raise_limit();
  server.lock = tn_mutex_create();
  tn_status status = TN_OK;
  /* a request may take as long as a connection may be silent, and begin at the end of that */
  uint64_t patience_ns = 2 * options->idle_seconds * UINT64_C(1000000000);
  if (!server.lock || !tn_metrics_init(&server.metrics) || !tn_connections_init(&server.connections, patience_ns) ||
      !tn_desk_init(&server.desk, tn_http_work))
    status = tn_fail(error, TN_E_MEMORY, "no memory for the server");
  if (status == TN_OK) status = check_options(options, error);
  if (status == TN_OK) status = listen_on(options, &listener, &port, error);
  bool is_listening = status == TN_OK;
  if (status == TN_OK && !(daemon = start_daemon(&server, error))) status = error->status;
  if (daemon) {
    tell_address(options, port);
    serve(&server, daemon, listener);
    listener = -1;
    if (is_held_up(&server)) leave(options);
    tn_desk_stop(&server.desk);
    MHD_stop_daemon(daemon);
  }
  if (listener >= 0) tn_socket_close(listener);
  if (is_listening && options->unix_path) tn_socket_remove_unix(options->unix_path);
  tn_desk_finish(&server.desk);
  tn_connections_finish(&server.connections);
  tn_metrics_finish(&server.metrics);
  tn_mutex_destroy(server.lock);
  return status;
}
