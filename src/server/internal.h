/* Inside the server: what its files share.
 *
 * An exchange is one HTTP request and its answer; libmicrohttpd's threads own it. A generation is the part of an
 * exchange that the engine works on: its choices are filled by the engine's thread under generation->lock and read by
 * libmicrohttpd's. What a request asks for is read at the desk (desk.h), which hands it to the engine; meanwhile the
 * exchange is the desk's. While nothing is there to send, the connection is suspended; the engine's thread resumes it.
 * Locks are taken in this order: server->lock, generation->lock. No tn_request is destroyed under either. */
#ifndef TENON_SERVER_INTERNAL_H
#define TENON_SERVER_INTERNAL_H

#include <jansson.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include "base/memory.h"
#include "base/os.h"
#include "server/connections.h"
#include "server/desk.h"
#include "server/fields.h"
#include "server/metrics.h"
#include "server/server.h"

typedef struct tn_generation tn_generation;
typedef struct tn_exchange tn_exchange;

typedef struct tn_server {
  const tn_model *model;
  tn_engine *engine;
  tn_server_options options;
  tn_engine_info engine_info; /* as it was at the start: the limits */
  tn_metrics metrics;
  tn_connections connections;
  tn_desk desk;
  int64_t started; /* seconds since 1970 */
  char started_text[40];
  tn_mutex *lock;
  atomic_bool is_stopping;
  uint64_t failed_steps;    /* of the engine, when it was last looked at */
  uint64_t failed_ns;       /* when there were new ones; 0: never */
  uint64_t step_ns;         /* the step under way, as it was seen last; 0: none */
  uint64_t longest_ns;      /* of the steps before, as far as they were seen */
  uint64_t exchanges;       /* so far */
  atomic_size_t body_bytes; /* of all bodies that are kept at the moment */
  atomic_size_t unsent;     /* exchanges that were given to the desk and whose answers are not sent whole */
  tn_exchange *active;      /* those with a generation */
} tn_server;

struct tn_exchange {
  tn_server *server;
  struct MHD_Connection *connection;
  const char *path, *method; /* valid until the exchange is completed */
  uint64_t number, start_ns;
  tn_buf body;
  const struct tn_route *route; /* of an exchange that was given to the desk; else NULL */
  bool is_at_desk;
  tn_exchange *next_at_desk;
  struct MHD_Response *response; /* made at the desk, not sent yet */
  size_t body_bytes;             /* of them, this exchange's */
  bool is_unwanted;              /* its body isn't kept: it has no known key */
  bool is_crowded;               /* its body isn't kept: others are too much already */
  bool is_too_large;
  bool speaks_anthropic; /* its errors look as Anthropic's do */
  unsigned status;       /* what was answered; 0: nothing yet */
  char cause[160];       /* of a status from 500 on, for the log */
  tn_generation *generation;
  tn_exchange *previous, *next; /* in server->active */
};

/* ---- http.c ---- */

typedef struct tn_route {
  const char *path, *method; /* a path ends with {NAME} where any text may stand */
  unsigned fields;           /* TN_ON_... of its body; 0: it has none */
  bool is_open;              /* needs no key */
  bool streams;              /* its answer may be server-sent events */
  const char *meaning;
  enum MHD_Result (*answer)(tn_exchange *exchange, const json_t *body);
} tn_route;

/* All of them. */
const tn_route *tn_routes(size_t *count);

/* Reads the body of an exchange and answers it, or hands it to the engine: the desk's work. */
void tn_http_work(tn_exchange *exchange);

/* libmicrohttpd's callbacks; `server` is the tn_server. */
enum MHD_Result tn_http_handle(void *server, struct MHD_Connection *connection, const char *url, const char *method,
                               const char *version, const char *data, size_t *bytes, void **exchange);
void tn_http_completed(void *server, struct MHD_Connection *connection, void **exchange,
                       enum MHD_RequestTerminationCode code);

/* Answer an exchange. A reply takes `json` over. An error's `parameter` and `code` may be NULL; the type follows from
 * the status. */
enum MHD_Result tn_http_reply(tn_exchange *exchange, unsigned status, json_t *json);
/* `type`: the content's; NULL: there is none. */
enum MHD_Result tn_http_queue(tn_exchange *exchange, unsigned status, struct MHD_Response *response, const char *type);
__attribute__((format(printf, 5, 6))) enum MHD_Result tn_http_error(tn_exchange *exchange, unsigned status,
                                                                    const char *parameter, const char *code,
                                                                    const char *format, ...);
/* An error as the exchange's API gives it: {"error": {...}}. */
json_t *tn_http_error_json(const tn_exchange *exchange, unsigned status, const char *parameter, const char *code,
                           const char *message);
/* The HTTP status for a tenon status. */
unsigned tn_http_status(tn_status status);

/* Why a request is refused. */
typedef struct tn_refusal {
  const char *parameter; /* the field at fault, a constant; NULL: none */
  const char *code;      /* of the error; NULL: by its status */
  tn_error error;
} tn_refusal;

/* Fills it; always false, so that `return tn_refuse(...)` reads naturally. */
__attribute__((format(printf, 4, 5))) bool tn_refuse(tn_refusal *refusal, const char *parameter, tn_status status,
                                                     const char *format, ...);
/* The reply to a request that was refused. */
enum MHD_Result tn_http_refused(tn_exchange *exchange, const tn_refusal *refusal);

/* ---- endpoints: `body` is the checked request ---- */
enum MHD_Result tn_endpoint_chat(tn_exchange *exchange, const json_t *body);
enum MHD_Result tn_endpoint_completions(tn_exchange *exchange, const json_t *body);
enum MHD_Result tn_endpoint_messages(tn_exchange *exchange, const json_t *body);
enum MHD_Result tn_endpoint_responses(tn_exchange *exchange, const json_t *body);
enum MHD_Result tn_endpoint_count_tokens(tn_exchange *exchange, const json_t *body);
enum MHD_Result tn_endpoint_tokenize(tn_exchange *exchange, const json_t *body);
enum MHD_Result tn_endpoint_detokenize(tn_exchange *exchange, const json_t *body);
enum MHD_Result tn_endpoint_model(tn_exchange *exchange, const json_t *body);
enum MHD_Result tn_endpoint_models(tn_exchange *exchange, const json_t *body);
enum MHD_Result tn_endpoint_health(tn_exchange *exchange, const json_t *body);
enum MHD_Result tn_endpoint_metrics(tn_exchange *exchange, const json_t *body);
enum MHD_Result tn_endpoint_version(tn_exchange *exchange, const json_t *body);
enum MHD_Result tn_endpoint_openapi(tn_exchange *exchange, const json_t *body);
enum MHD_Result tn_endpoint_page(tn_exchange *exchange, const json_t *body);

/* A JSON string of any bytes; what isn't UTF-8 becomes U+FFFD. */
json_t *tn_json_text(const char *text, size_t bytes);
/* A token's text, tn_free() it; never NULL but when memory is out. */
char *tn_token_text(const tn_server *server, int32_t token, size_t *bytes);

#endif
