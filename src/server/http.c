/* HTTP on libmicrohttpd: bodies, keys, routes, replies. Every reply but the page and the metrics is JSON. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/error.h"
#include "base/socket.h"
#include "base/utf8.h"
#include "server/generation.h"
#include "server/internal.h"

static const tn_route routes[] = {
    {"/v1/chat/completions", "POST", TN_ON_CHAT, false, true,
     "an answer to a conversation, whole or as server-sent events", tn_endpoint_chat},
    {"/v1/completions", "POST", TN_ON_COMPLETIONS, false, true, "continues texts or token ids",
     tn_endpoint_completions},
    {"/v1/responses", "POST", TN_ON_RESPONSES, false, true,
     "an answer to a conversation in the words of OpenAI's newer API; nothing is stored", tn_endpoint_responses},
    {"/v1/messages", "POST", TN_ON_MESSAGES, false, true, "an answer to a conversation in the words of Anthropic's API",
     tn_endpoint_messages},
    {"/v1/messages/count_tokens", "POST", TN_ON_COUNT, false, false, "tokens of such a conversation",
     tn_endpoint_count_tokens},
    {"/v1/models/{name}", "GET", 0, false, false, "the same, by its name", tn_endpoint_model},
    {"/v1/models", "GET", 0, false, false, "the model that is served, in a list", tn_endpoint_models},
    {"/tokenize", "POST", TN_ON_TOKENIZE, false, false, "token ids of a text", tn_endpoint_tokenize},
    {"/detokenize", "POST", TN_ON_DETOKENIZE, false, false, "the text of token ids", tn_endpoint_detokenize},
    {"/health", "GET", 0, true, false,
     "200 `ok`, or `degraded` when a step of the engine failed within the last 30 seconds; 503 `stopping`, or "
     "`stalled` "
     "when a step doesn't come to an end",
     tn_endpoint_health},
    {"/metrics", "GET", 0, false, false, "counters and histograms in Prometheus' text form", tn_endpoint_metrics},
    {"/version", "GET", 0, true, false, "tenon's version", tn_endpoint_version},
    {"/openapi.json", "GET", 0, true, false, "this API's description", tn_endpoint_openapi},
    {"/", "GET", 0, true, false, "a chat page, one file without outside resources", tn_endpoint_page},
};

const tn_route *tn_routes(size_t *count) {
  *count = TN_COUNT(routes);
  return routes;
}

/* ---- replies ---- */

/* Lets pages of the allowed origin read the answer. */
static void allow_origin(const tn_exchange *exchange, struct MHD_Response *response) {
  const char *origin = exchange->server->options.cors;
  if (!origin) return;
  MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
  MHD_add_response_header(response, "Access-Control-Expose-Headers", "x-request-id, request-id, Retry-After");
  if (strcmp(origin, "*") != 0) MHD_add_response_header(response, "Vary", "Origin");
}

#define TN_REQUEST_ID_BYTES 48

static const char *request_id(const tn_exchange *exchange, char *id) {
  snprintf(id, TN_REQUEST_ID_BYTES, "req_%" PRIx64 "_%" PRIu64, (uint64_t)exchange->server->started, exchange->number);
  return id;
}

static enum MHD_Result send_response(tn_exchange *exchange) {
  enum MHD_Result result = MHD_queue_response(exchange->connection, exchange->status, exchange->response);
  MHD_destroy_response(exchange->response);
  exchange->response = NULL;
  return result;
}

enum MHD_Result tn_http_queue(tn_exchange *exchange, unsigned status, struct MHD_Response *response, const char *type) {
  char id[TN_REQUEST_ID_BYTES];
  if (!response) return MHD_NO;
  MHD_add_response_header(response, exchange->speaks_anthropic ? "request-id" : "x-request-id",
                          request_id(exchange, id));
  if (type) MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  allow_origin(exchange, response);
  exchange->status = status;
  tn_metrics_reply(&exchange->server->metrics, status);
  exchange->response = response;
  return exchange->is_at_desk ? MHD_YES : send_response(exchange);
}

static struct MHD_Response *json_response(json_t *json) {
  char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
  json_decref(json);
  return text ? MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE) : NULL;
}

enum MHD_Result tn_http_reply(tn_exchange *exchange, unsigned status, json_t *json) {
  return tn_http_queue(exchange, status, json_response(json), "application/json");
}

static const char *error_type(unsigned status) {
  switch (status) {
    case 401: return "authentication_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

static const char *anthropic_type(unsigned status) {
  switch (status) {
    case 401: return "authentication_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    case 504: return "timeout_error";
    default: return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

json_t *tn_http_error_json(const tn_exchange *exchange, unsigned status, const char *parameter, const char *code,
                           const char *message) {
  if (exchange->speaks_anthropic) {
    char id[TN_REQUEST_ID_BYTES];
    json_t *details = code ? json_pack("{s:s}", "error_code", code) : NULL;
    return json_pack("{s:s, s:{s:s, s:o, s:o*}, s:s}", "type", "error", "error", "type", anthropic_type(status),
                     "message", tn_json_text(message, strlen(message)), "details", details, "request_id",
                     request_id(exchange, id));
  }
  return json_pack("{s:{s:o, s:s, s:s?, s:s?}}", "error", "message", tn_json_text(message, strlen(message)), "type",
                   error_type(status), "param", parameter, "code", code);
}

enum MHD_Result tn_http_error(tn_exchange *exchange, unsigned status, const char *parameter, const char *code,
                              const char *format, ...) {
  char message[600];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  if (status >= 500)
    snprintf(exchange->cause, sizeof exchange->cause, "%.*s", (int)sizeof exchange->cause - 1, message);
  struct MHD_Response *response = json_response(tn_http_error_json(exchange, status, parameter, code, message));
  if (response && status == 401) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
  if (response && (status == 429 || status == 503)) MHD_add_response_header(response, "Retry-After", "1");
  return tn_http_queue(exchange, status, response, "application/json");
}

unsigned tn_http_status(tn_status status) {
  switch (status) {
    case TN_E_INVALID:
    case TN_E_UNSUPPORTED:
    case TN_E_FORMAT:
    case TN_E_NOT_FOUND:
    case TN_E_LIMIT:
    case TN_E_TOO_LONG: return 400;
    case TN_E_BUSY: return 429;
    case TN_E_MEMORY:
    case TN_E_DEVICE_LOST: return 503;
    case TN_E_TIMEOUT: return 504;
    default: return 500;
  }
}

bool tn_refuse(tn_refusal *refusal, const char *parameter, tn_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tn_fail_list(&refusal->error, status, format, arguments);
  va_end(arguments);
  refusal->parameter = parameter;
  return false;
}

enum MHD_Result tn_http_refused(tn_exchange *exchange, const tn_refusal *refusal) {
  unsigned status = tn_http_status(refusal->error.status);
  const char *code = refusal->code;
  /* the words that clients look for, to shorten a conversation and try again */
  if (refusal->error.status == TN_E_TOO_LONG)
    return tn_http_error(exchange, status, refusal->parameter, "context_length_exceeded",
                         "this model's maximum context length is %" PRIu32 " tokens: %s",
                         exchange->server->engine_info.context, refusal->error.message);
  if (!code && refusal->error.status == TN_E_UNSUPPORTED) code = "unsupported_value";
  if (!code && status == 429) code = "queue_full";
  return tn_http_error(exchange, status, refusal->parameter, code, "%s", refusal->error.message);
}

json_t *tn_json_text(const char *text, size_t bytes) {
  tn_buf clean;
  if (tn_utf8_valid_prefix(text, bytes) == bytes) return json_stringn(text, bytes);
  tn_buf_init(&clean);
  for (size_t at = 0; at < bytes;) {
    size_t length;
    uint32_t codepoint;
    bool is_good = tn_utf8_read(text + at, bytes - at, &length, &codepoint) == TN_UTF8_GOOD;
    tn_buf_append(&clean, is_good ? text + at : "\xef\xbf\xbd", is_good ? length : 3);
    at += length;
  }
  json_t *json = clean.failed ? NULL : json_stringn(clean.data, clean.size);
  tn_buf_finish(&clean);
  return json;
}

/* ---- keys ---- */

/* Takes as long as `given` is, whatever the key is. */
static bool same_key(const char *given, const char *key) {
  size_t given_bytes = strlen(given), key_bytes = strlen(key);
  size_t difference = given_bytes ^ key_bytes;
  for (size_t i = 0; i < given_bytes; i++) difference |= (unsigned char)(given[i] ^ key[key_bytes ? i % key_bytes : 0]);
  return difference == 0;
}

static bool may_pass(const tn_exchange *exchange) {
  const tn_server_options *options = &exchange->server->options;
  if (!options->key_count) return true;
  const char *bearer = MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, "Authorization");
  const char *key = MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, "X-Api-Key");
  if (bearer && !strncasecmp(bearer, "Bearer ", 7)) bearer += 7;
  bool known = false;
  for (size_t i = 0; i < options->key_count; i++) {
    known |= bearer && same_key(bearer, options->keys[i]);
    known |= key && same_key(key, options->keys[i]);
  }
  return known;
}

/* ---- bodies ---- */

/* What all connections may keep of bodies together, in bodies of the largest size; small ones are always taken. */
#define BODIES_AT_ONCE 16
#define SMALL_BODY_BYTES ((size_t)64 << 10)

/* Whenever it isn't needed any more; nothing is kept after it. */
static void drop_body(tn_exchange *exchange) {
  atomic_fetch_sub(&exchange->server->body_bytes, exchange->body_bytes);
  exchange->body_bytes = 0;
  tn_buf_finish(&exchange->body);
}

static void keep_body(tn_exchange *exchange, const char *data, size_t bytes) {
  tn_server *server = exchange->server;
  size_t most = BODIES_AT_ONCE * ((size_t)server->options.body_mib << 20);
  if (exchange->is_unwanted || exchange->is_crowded || exchange->is_too_large) return;
  exchange->body_bytes += bytes;
  size_t all = atomic_fetch_add(&server->body_bytes, bytes) + bytes;
  exchange->is_crowded = all > most && exchange->body_bytes > SMALL_BODY_BYTES;
  if (!exchange->is_crowded) exchange->is_too_large = !tn_buf_append(&exchange->body, data, bytes);
  if (exchange->is_crowded || exchange->is_too_large) drop_body(exchange);
}

/* ---- requests ---- */

static enum MHD_Result wrong_method(tn_exchange *exchange, const char *allowed) {
  char message[64];
  snprintf(message, sizeof message, "method not allowed; expected %s", allowed);
  struct MHD_Response *response = json_response(tn_http_error_json(exchange, 405, NULL, "method_not_allowed", message));
  if (response) MHD_add_response_header(response, "Allow", allowed);
  return tn_http_queue(exchange, 405, response, "application/json");
}

/* A browser asks what it may send from a page of another origin; without `cors` it gets no leave. */
static enum MHD_Result preflight(tn_exchange *exchange, const tn_route *route) {
  const char *headers =
      MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, "Access-Control-Request-Headers");
  struct MHD_Response *response = MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
  if (!response) return MHD_NO;
  MHD_add_response_header(response, "Allow", route->method);
  if (exchange->server->options.cors) {
    MHD_add_response_header(response, "Access-Control-Allow-Methods", route->method);
    if (headers) MHD_add_response_header(response, "Access-Control-Allow-Headers", headers);
    MHD_add_response_header(response, "Access-Control-Max-Age", "600");
  }
  return tn_http_queue(exchange, 204, response, NULL);
}

static enum MHD_Result not_json(tn_exchange *exchange, const json_error_t *fault) {
  bool is_zero = json_error_code(fault) == json_error_null_character;
  return tn_http_error(exchange, 400, NULL, "invalid_json", "%s: %s (line %d, column %d)",
                       is_zero ? "the body is not taken" : "the body is not JSON",
                       is_zero ? "a text holds the character \\u0000" : fault->text, fault->line, fault->column);
}

static void answer_body(tn_exchange *exchange) {
  json_error_t fault;
  tn_error error;
  const char *parameter;
  json_t *body = json_loadb(exchange->body.size ? exchange->body.data : "", exchange->body.size, 0, &fault);
  drop_body(exchange);
  if (!body)
    not_json(exchange, &fault);
  else if (tn_fields_check(body, exchange->route->fields, &parameter, &error) != TN_OK)
    tn_http_error(exchange, 400, parameter, error.status == TN_E_UNSUPPORTED ? "unsupported_field" : "invalid_value",
                  "%s", error.message);
  else
    exchange->route->answer(exchange, body);
  json_decref(body);
}

void tn_http_work(tn_exchange *exchange) {
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (info && tn_socket_hung_up(info->connect_fd)) return; /* nobody waits for the answer */
  if (exchange->server->is_stopping)
    tn_http_error(exchange, 503, NULL, NULL, "the server is stopping");
  else
    answer_body(exchange);
}

/* From the desk, or because an event is there. */
static enum MHD_Result go_on(tn_exchange *exchange) {
  if (exchange->response) return send_response(exchange);
  return exchange->generation ? tn_generation_answer(exchange->generation) : MHD_NO;
}

static bool is_path_of(const tn_route *route, const char *path) {
  const char *name = strchr(route->path, '{');
  if (!name) return !strcmp(route->path, path);
  size_t fixed = (size_t)(name - route->path);
  return !strncmp(route->path, path, fixed) && path[fixed];
}

static const tn_route *find_route(const char *path) {
  for (size_t i = 0; i < TN_COUNT(routes); i++)
    if (is_path_of(routes + i, path)) return routes + i;
  return NULL;
}

static bool is_encoded(const tn_exchange *exchange) {
  const char *encoding = MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, "Content-Encoding");
  return encoding && strcasecmp(encoding, "identity") != 0;
}

/* A path that nobody answers: one with /v1 too many or too few is told the right one. */
static enum MHD_Result not_found(tn_exchange *exchange) {
  const char *path = exchange->path;
  for (size_t i = 0; i < TN_COUNT(routes); i++) {
    const char *known = routes[i].path;
    size_t bytes = strlen(path), known_bytes = strlen(known);
    bool is_longer = known_bytes > 1 && bytes > known_bytes && !strcmp(path + bytes - known_bytes, known);
    if (is_longer || (!strncmp(known, "/v1", 3) && !strcmp(known + 3, path)))
      return tn_http_error(exchange, 404, NULL, "not_found", "there is no %.200s; did you mean %s?", path, known);
  }
  return tn_http_error(exchange, 404, NULL, "not_found", "there is no %.200s; /openapi.json tells what there is", path);
}

/* The whole request is there. */
static enum MHD_Result dispatch(tn_exchange *exchange) {
  const tn_route *found = find_route(exchange->path);
  if (exchange->is_too_large)
    return tn_http_error(exchange, 413, NULL, "body_too_large", "the body is larger than %" PRIu32 " MiB",
                         exchange->server->options.body_mib);
  if (found && !strcmp(exchange->method, "OPTIONS")) return preflight(exchange, found);
  if (!(found && found->is_open) && !may_pass(exchange))
    return tn_http_error(exchange, 401, NULL, "invalid_api_key", "no known API key was given");
  if (!found) return not_found(exchange);
  bool is_head = !strcmp(exchange->method, "HEAD") && !strcmp(found->method, "GET");
  if (!is_head && strcmp(exchange->method, found->method) != 0) return wrong_method(exchange, found->method);
  if (!found->fields) return found->answer(exchange, NULL);
  if (is_encoded(exchange))
    return tn_http_error(exchange, 415, NULL, "unsupported_encoding", "bodies are taken without a Content-Encoding");
  if (exchange->is_crowded) return tn_http_error(exchange, 503, NULL, NULL, "too many large bodies at once; try again");
  exchange->route = found;
  atomic_fetch_add(&exchange->server->unsent, 1);
  if (tn_desk_give(&exchange->server->desk, exchange, exchange->body.size)) return MHD_YES;
  return tn_http_error(exchange, 503, NULL, NULL, "the server is stopping");
}

static tn_exchange *begin(tn_server *server, struct MHD_Connection *connection, const char *url, const char *method) {
  tn_exchange *exchange = calloc(1, sizeof *exchange);
  if (!exchange) return NULL;
  exchange->server = server;
  exchange->connection = connection;
  exchange->path = url;
  exchange->method = method;
  exchange->speaks_anthropic = !strncmp(url, "/v1/messages", strlen("/v1/messages"));
  exchange->start_ns = tn_clock_ns();
  tn_buf_init(&exchange->body);
  exchange->body.limit = ((size_t)server->options.body_mib << 20) + 1;
  tn_mutex_lock(server->lock);
  exchange->number = ++server->exchanges;
  tn_mutex_unlock(server->lock);
  return exchange;
}

/* Whether the head already says that the body is larger than allowed. */
static bool announces_too_much(const tn_exchange *exchange) {
  const char *length = MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, "Content-Length");
  return length && strtoull(length, NULL, 10) > (unsigned long long)exchange->server->options.body_mib << 20;
}

#define TOO_MANY 2 /* lengths */

static enum MHD_Result count_lengths(void *context, enum MHD_ValueKind kind, const char *name, const char *value) {
  unsigned *count = context;
  (void)kind;
  bool is_encoding = !strcasecmp(name, "Transfer-Encoding");
  if (is_encoding || !strcasecmp(name, "Content-Length")) ++*count;
  if (name[strcspn(name, " \t")] || (is_encoding && value && strcasecmp(value, "chunked") != 0)) *count += TOO_MANY;
  return MHD_YES;
}

/* Whether it isn't plain where the body ends: what stands behind one end may be a request behind another, which a proxy
 * in front did not see. The head tells it more than once, in an encoding that isn't known, or perhaps in a name with a
 * space, which some take for the name without. */
static bool has_many_lengths(const tn_exchange *exchange) {
  unsigned count = 0;
  MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, count_lengths, &count);
  return count >= TOO_MANY;
}

static enum MHD_Result refuse_lengths(tn_exchange *exchange) {
  struct MHD_Response *response = json_response(
      tn_http_error_json(exchange, 400, NULL, "many_lengths",
                         "expected names without spaces, and one Content-Length or Transfer-Encoding: chunked"));
  if (response) MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  return tn_http_queue(exchange, 400, response, "application/json");
}

enum MHD_Result tn_http_handle(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                               const char *version, const char *data, size_t *bytes, void **slot) {
  tn_server *server = context;
  tn_exchange *exchange = *slot;
  (void)version;
  if (!exchange) {
    *slot = exchange = begin(server, connection, url, method);
    if (!exchange) return MHD_NO;
    if (has_many_lengths(exchange)) return refuse_lengths(exchange);
    exchange->is_too_large = announces_too_much(exchange);
    exchange->is_unwanted = !may_pass(exchange);
    return exchange->is_too_large ? dispatch(exchange) : MHD_YES;
  }
  if (*bytes) {
    keep_body(exchange, data, *bytes);
    *bytes = 0;
    return MHD_YES;
  }
  if (exchange->route) return go_on(exchange);
  tn_connections_set_busy(&server->connections, connection, true);
  return dispatch(exchange);
}

static void log_exchange(const tn_exchange *exchange, enum MHD_RequestTerminationCode code) {
  char time[40], tokens[512] = "";
  tn_local_time("%Y-%m-%dT%H:%M:%S%z", time, sizeof time);
  if (exchange->generation) tn_generation_describe(exchange->generation, tokens, sizeof tokens);
  const tn_route *found = find_route(exchange->path); /* what a client made up isn't logged */
  bool is_whole = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
  fprintf(stderr, "time=%s id=%" PRIu64 " path=%s status=%u ms=%.1f%s%s%s%s%s\n", time, exchange->number,
          found ? found->path : "other", exchange->status, (double)(tn_clock_ns() - exchange->start_ns) / 1e6, tokens,
          *exchange->cause ? " cause=\"" : "", exchange->cause, *exchange->cause ? "\"" : "",
          is_whole ? "" : " closed=early");
}

void tn_http_completed(void *context, struct MHD_Connection *connection, void **slot,
                       enum MHD_RequestTerminationCode code) {
  tn_server *server = context;
  tn_exchange *exchange = *slot;
  if (!exchange) return;
  tn_connections_set_busy(&server->connections, connection, false);
  tn_generation_leave(exchange);
  if (exchange->route) atomic_fetch_sub(&server->unsent, 1);
  log_exchange(exchange, code);
  tn_generation_destroy(exchange->generation);
  drop_body(exchange);
  if (exchange->response) MHD_destroy_response(exchange->response);
  free(exchange);
  *slot = NULL;
}
