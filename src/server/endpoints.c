/* The small endpoints: models, health, metrics, tokenize, detokenize. */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "server/internal.h"

/* The model as both OpenAI's and Anthropic's clients know one. */
static json_t *model_json(const tn_server *server) {
  json_int_t context = (json_int_t)server->engine_info.context;
  return json_pack("{s:s, s:s, s:I, s:s, s:I, s:s, s:s, s:s, s:I, s:s}", "id", server->options.name, "object", "model",
                   "created", (json_int_t)server->started, "owned_by", "tenon", "max_model_len", context, "type",
                   "model", "display_name", server->options.name, "created_at", server->started_text,
                   "max_input_tokens", context, "lifecycle", "active");
}

enum MHD_Result tn_endpoint_models(tn_exchange *exchange, const json_t *body) {
  const tn_server *server = exchange->server;
  const char *name = server->options.name;
  (void)body;
  return tn_http_reply(exchange, 200,
                       json_pack("{s:s, s:[o], s:b, s:s, s:s}", "object", "list", "data", model_json(server),
                                 "has_more", 0, "first_id", name, "last_id", name));
}

enum MHD_Result tn_endpoint_model(tn_exchange *exchange, const json_t *body) {
  (void)body;
  const char *asked = exchange->path + strlen("/v1/models/");
  if (strcmp(asked, exchange->server->options.name) != 0)
    return tn_http_error(exchange, 404, "model", "model_not_found", "there is no model %.200s", asked);
  return tn_http_reply(exchange, 200, model_json(exchange->server));
}

#define SLOWER 10 /* a step that takes that many times as long as any before it may be a stall */
#define DEGRADED_NS UINT64_C(30000000000) /* how long a failed step is told of */

enum MHD_Result tn_endpoint_health(tn_exchange *exchange, const json_t *body) {
  tn_server *server = exchange->server;
  (void)body;
  tn_mutex_lock(server->lock);
  bool is_degraded = server->failed_ns && tn_clock_ns() - server->failed_ns < DEGRADED_NS;
  json_int_t failed_steps = (json_int_t)server->failed_steps;
  uint64_t step_ns = server->step_ns, most_ns = server->options.step_seconds * UINT64_C(1000000000);
  bool is_stalled = step_ns > most_ns && step_ns > server->longest_ns * SLOWER;
  tn_mutex_unlock(server->lock);
  if (server->is_stopping) return tn_http_reply(exchange, 503, json_pack("{s:s}", "status", "stopping"));
  if (is_stalled)
    return tn_http_reply(exchange, 503,
                         json_pack("{s:s, s:f}", "status", "stalled", "step_seconds", (double)step_ns / 1e9));
  if (!is_degraded) return tn_http_reply(exchange, 200, json_pack("{s:s}", "status", "ok"));
  return tn_http_reply(exchange, 200, json_pack("{s:s, s:I}", "status", "degraded", "failed_steps", failed_steps));
}

enum MHD_Result tn_endpoint_metrics(tn_exchange *exchange, const json_t *body) {
  tn_buf text;
  (void)body;
  tn_buf_init(&text);
  tn_metrics_print(&exchange->server->metrics, exchange->server->engine, &text);
  size_t bytes = text.size;
  char *data = tn_buf_take(&text);
  if (!data) return tn_http_error(exchange, 503, NULL, NULL, "no memory for the answer");
  return tn_http_queue(exchange, 200, MHD_create_response_from_buffer(bytes, data, MHD_RESPMEM_MUST_FREE),
                       "text/plain; version=0.0.4; charset=utf-8");
}

enum MHD_Result tn_endpoint_version(tn_exchange *exchange, const json_t *body) {
  (void)body;
  return tn_http_reply(exchange, 200, json_pack("{s:s}", "version", tn_version()));
}

static json_t *ids_json(const int32_t *ids, size_t count) {
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++) json_array_append_new(list, json_integer(ids[i]));
  return list;
}

enum MHD_Result tn_endpoint_tokenize(tn_exchange *exchange, const json_t *body) {
  const json_t *text = tn_field(body, "content");
  uint32_t flags = tn_field_boolean(body, "add_special", false) ? 0 : TN_TOKENIZE_NO_BOS;
  int32_t *ids;
  size_t count;
  tn_error error;
  if (!text) text = tn_field(body, "prompt");
  if (!text) return tn_http_error(exchange, 400, "content", NULL, "content is missing");
  if (tn_field_boolean(body, "parse_special", false)) flags |= TN_TOKENIZE_SPECIAL;
  if (tn_tokenize(exchange->server->model, json_string_value(text), json_string_length(text), flags, &ids, &count,
                  &error) != TN_OK)
    return tn_http_error(exchange, tn_http_status(error.status), "content", NULL, "%s", error.message);
  json_t *answer = json_pack("{s:o, s:I, s:I}", "tokens", ids_json(ids, count), "count", (json_int_t)count,
                             "max_model_len", (json_int_t)exchange->server->engine_info.context);
  tn_free(ids);
  return tn_http_reply(exchange, 200, answer);
}

enum MHD_Result tn_endpoint_detokenize(tn_exchange *exchange, const json_t *body) {
  const json_t *tokens = tn_field(body, "tokens");
  size_t count = json_array_size(tokens), bytes;
  tn_error error;
  char *text;
  int32_t *ids = tn_calloc(count + 1, sizeof *ids);
  if (!ids) return tn_http_error(exchange, 503, NULL, NULL, "no memory for the request");
  for (size_t i = 0; i < count; i++) {
    const json_t *value = json_array_get(tokens, i);
    json_int_t token = json_integer_value(value);
    if (!json_is_integer(value) || token < 0 || token > INT32_MAX) {
      free(ids);
      return tn_http_error(exchange, 400, "tokens", NULL, "tokens: element %zu: expected a token id", i);
    }
    ids[i] = (int32_t)token;
  }
  tn_status status = tn_detokenize(exchange->server->model, ids, count, &text, &bytes, &error);
  free(ids);
  if (status != TN_OK) return tn_http_error(exchange, tn_http_status(status), "tokens", NULL, "%s", error.message);
  json_t *answer = json_pack("{s:o}", "content", tn_json_text(text, bytes));
  tn_free(text);
  return tn_http_reply(exchange, 200, answer);
}

char *tn_token_text(const tn_server *server, int32_t token, size_t *bytes) {
  char *text = NULL;
  *bytes = 0;
  return tn_detokenize(server->model, &token, 1, &text, bytes, NULL) == TN_OK ? text : NULL;
}
