/* POST /v1/chat/completions and /v1/completions: from a request's fields to the engine's options. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/hash.h"
#include "server/generation.h"

#define MAX_STOPS 16
#define MAX_CHOICES 256
#define MAX_BIASES 4096
#define MAX_SCHEMA_BYTES ((size_t)1 << 20)
#define DEFAULT_TEXT_TOKENS 16 /* of /v1/completions, as the API says */

/* A request as it is read. What the options point to lives in the body and the arena. */
typedef struct tn_reading {
  tn_arena arena;
  tn_request_options options;
  const char *stops[MAX_STOPS];
  char *messages, *extra, *schema, *tools, *tool_choice; /* JSON texts, free() them */
  tn_refusal refusal;
} tn_reading;

/* ---- options ---- */

static bool read_stop(tn_reading *reading, const json_t *body) {
  const json_t *stop = tn_field(body, "stop");
  size_t count = json_is_string(stop) ? 1 : json_array_size(stop);
  if (count > MAX_STOPS)
    return tn_refuse(&reading->refusal, "stop", TN_E_LIMIT, "stop: %zu texts given, at most %d are taken", count,
                     MAX_STOPS);
  for (size_t i = 0; i < count; i++) {
    const char *text = json_string_value(json_is_string(stop) ? stop : json_array_get(stop, i));
    if (!text || !*text)
      return tn_refuse(&reading->refusal, "stop", TN_E_INVALID,
                       "stop: expected a text or a list of texts, none of them empty");
    reading->stops[i] = text;
  }
  reading->options.stop = reading->stops;
  reading->options.stop_count = count;
  return true;
}

static bool read_bias(tn_reading *reading, const json_t *body) {
  json_t *bias = tn_field(body, "logit_bias"), *value;
  const char *name;
  size_t count = json_object_size(bias), at = 0;
  if (count > MAX_BIASES)
    return tn_refuse(&reading->refusal, "logit_bias", TN_E_LIMIT, "logit_bias: %zu given, at most %d are taken", count,
                     MAX_BIASES);
  tn_logit_bias *list = count ? tn_arena_array(&reading->arena, count, sizeof *list) : NULL;
  if (count && !list) return tn_refuse(&reading->refusal, NULL, TN_E_MEMORY, "no memory for the request");
  json_object_foreach(bias, name, value) {
    char *end;
    long token = strtol(name, &end, 10);
    double number = json_number_value(value);
    if (*name < '0' || *name > '9' || *end || token > INT32_MAX || !json_is_number(value) || fabs(number) > 100)
      return tn_refuse(&reading->refusal, "logit_bias", TN_E_INVALID,
                       "logit_bias: \"%.20s\": expected token ids with numbers from -100 to 100", name);
    list[at++] = (tn_logit_bias){(int32_t)token, (float)number};
  }
  reading->options.logit_bias = list;
  reading->options.logit_bias_count = count;
  return true;
}

static bool read_schema(tn_reading *reading, const json_t *format) {
  const json_t *wrapper = tn_field(format, "json_schema"), *schema = tn_field(wrapper, "schema");
  if (!json_is_object(schema) && !json_is_boolean(schema))
    return tn_refuse(&reading->refusal, "response_format", TN_E_INVALID,
                     "response_format: expected json_schema to be an object with a schema");
  reading->schema = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
  if (reading->schema && strlen(reading->schema) > MAX_SCHEMA_BYTES)
    return tn_refuse(&reading->refusal, "response_format", TN_E_LIMIT,
                     "response_format: the schema is larger than %zu bytes", MAX_SCHEMA_BYTES);
  return true;
}

static bool read_format(tn_reading *reading, const json_t *body) {
  const json_t *format = tn_field(body, "response_format");
  const char *type = tn_field_text(format, "type");
  reading->options.grammar = tn_field_text(body, "grammar");
  if (!format) return true;
  if (!type)
    return tn_refuse(&reading->refusal, "response_format", TN_E_INVALID,
                     "response_format: expected an object with a type");
  if (!strcmp(type, "text")) return true;
  if (reading->options.grammar)
    return tn_refuse(&reading->refusal, "grammar", TN_E_INVALID, "grammar and response_format are both given");
  if (!strcmp(type, "json_object")) {
    reading->schema = tn_copy_text("{\"type\":\"object\"}", 17);
  } else if (strcmp(type, "json_schema") != 0) {
    return tn_refuse(&reading->refusal, "response_format", TN_E_UNSUPPORTED,
                     "response_format: type \"%.40s\" is not supported; expected text, json_object or json_schema",
                     type);
  } else if (!read_schema(reading, format)) {
    return false;
  }
  if (!reading->schema) return tn_refuse(&reading->refusal, NULL, TN_E_MEMORY, "no memory for the request");
  reading->options.json_schema = reading->schema;
  return true;
}

/* ---- tools ---- */

/* {"type": "function", "function": {"name": NAME}}: the name; NULL when it isn't that. */
static const char *named_tool(const json_t *choice) {
  const char *type = tn_field_text(choice, "type");
  return type && !strcmp(type, "function") ? tn_field_text(tn_field(choice, "function"), "name") : NULL;
}

static bool read_tool_choice(tn_reading *reading, const json_t *body) {
  const json_t *choice = tn_field(body, "tool_choice");
  const char *word = json_string_value(choice), *name = named_tool(choice);
  if (!choice) return true;
  if (!word && !name)
    return tn_refuse(&reading->refusal, "tool_choice", TN_E_INVALID,
                     "tool_choice: expected auto, none, required, or an object that names a function");
  if (word && strcmp(word, "auto") && strcmp(word, "none") && strcmp(word, "required"))
    return tn_refuse(&reading->refusal, "tool_choice", TN_E_INVALID,
                     "tool_choice: \"%.40s\" given, expected auto, none, required, or an object that names a function",
                     word);
  if (!reading->tools && (name || !strcmp(word, "required")))
    return tn_refuse(&reading->refusal, "tool_choice", TN_E_INVALID,
                     "tool_choice wants a call, and no tools are given");
  tn_buf text;
  tn_buf_init(&text);
  if (name) tn_buf_puts(&text, "function:");
  tn_buf_puts(&text, name ? name : word);
  reading->tool_choice = tn_buf_take(&text);
  reading->options.tool_choice = reading->tool_choice;
  return reading->tool_choice || tn_refuse(&reading->refusal, NULL, TN_E_MEMORY, "no memory for the request");
}

/* An empty list of tools is none. */
static bool read_tools(tn_reading *reading, const json_t *body) {
  const json_t *tools = tn_field(body, "tools");
  reading->options.split_reasoning = 1;
  reading->options.tool_call_deltas = tn_field_boolean(body, "stream", false);
  reading->options.single_tool_call = !tn_field_boolean(body, "parallel_tool_calls", true);
  if (json_array_size(tools)) {
    reading->tools = json_dumps(tools, JSON_COMPACT);
    if (!reading->tools) return tn_refuse(&reading->refusal, NULL, TN_E_MEMORY, "no memory for the request");
    reading->options.tools_json = reading->tools;
  }
  return read_tool_choice(reading, body);
}

/* Without a seed each request draws its own. */
static uint64_t read_seed(const json_t *body, const tn_exchange *exchange) {
  if (tn_field(body, "seed")) return (uint64_t)tn_field_integer(body, "seed", 0);
  return tn_hash_pair((uint32_t)exchange->number, (uint32_t)tn_clock_ns()) ^ (uint64_t)exchange->server->started;
}

static bool read_logprobs(tn_reading *reading, tn_generation *generation, const json_t *body) {
  json_int_t top = tn_field_integer(body, generation->surface->is_chat ? "top_logprobs" : "logprobs", 0);
  generation->has_logprobs =
      generation->surface->is_chat ? tn_field_boolean(body, "logprobs", false) : tn_field(body, "logprobs") != NULL;
  if (top && !generation->has_logprobs)
    return tn_refuse(&reading->refusal, "top_logprobs", TN_E_INVALID, "top_logprobs needs logprobs: true");
  generation->top_logprobs = (uint32_t)top;
  reading->options.logprobs = generation->has_logprobs;
  reading->options.top_logprobs = (uint32_t)top;
  return true;
}

static bool read_stream_options(tn_reading *reading, tn_generation *generation, const json_t *body) {
  const json_t *wanted = tn_field(body, "stream_options"), *value;
  const char *name;
  generation->is_stream = tn_field_boolean(body, "stream", false);
  if (wanted && !generation->is_stream)
    return tn_refuse(&reading->refusal, "stream_options", TN_E_INVALID, "stream_options needs stream: true");
  json_object_foreach((json_t *)wanted, name, value) {
    bool is_known = !strcmp(name, "include_usage") || !strcmp(name, "continuous_usage_stats");
    if (!is_known || !(json_is_boolean(value) || json_is_null(value)))
      return tn_refuse(&reading->refusal, "stream_options", TN_E_INVALID,
                       "stream_options: \"%.40s\": expected include_usage or continuous_usage_stats, a boolean", name);
  }
  generation->has_usage = tn_field_boolean(wanted, "include_usage", false);
  return true;
}

static bool read_breakers(tn_reading *reading, const json_t *body) {
  const json_t *list = tn_field(body, "dry_sequence_breakers");
  size_t count = json_array_size(list);
  if (!list) return true;
  const char **texts = tn_arena_array(&reading->arena, count + 1, sizeof *texts);
  if (!texts) return tn_refuse(&reading->refusal, NULL, TN_E_MEMORY, "no memory for the request");
  for (size_t i = 0; i < count; i++) {
    texts[i] = json_string_value(json_array_get(list, i));
    if (!texts[i] || !*texts[i])
      return tn_refuse(&reading->refusal, "dry_sequence_breakers", TN_E_INVALID,
                       "dry_sequence_breakers: element %zu: expected a text that is not empty", i);
  }
  reading->options.dry_sequence_breakers = texts;
  reading->options.dry_sequence_breaker_count = count;
  return true;
}

/* DRY and XTC. */
static bool read_stages(tn_reading *reading, const json_t *body) {
  tn_request_options *options = &reading->options;
  json_int_t last = tn_field_integer(body, "dry_penalty_last_n", -1);
  options->dry_multiplier = (float)tn_field_number(body, "dry_multiplier", 0);
  options->dry_base = (float)tn_field_number(body, "dry_base", 1.75);
  options->dry_allowed_length = (uint32_t)tn_field_integer(body, "dry_allowed_length", 2);
  options->dry_penalty_last_n = last < 0 ? UINT32_MAX : (uint32_t)last;
  options->xtc_probability = (float)tn_field_number(body, "xtc_probability", 0);
  options->xtc_threshold = (float)tn_field_number(body, "xtc_threshold", 0.1);
  return read_breakers(reading, body);
}

/* A field of the request, or what the model's makers advise, or what clients of OpenAI's API expect. */
static float advised(const json_t *body, const char *name, float advice, double otherwise) {
  return (float)tn_field_number(body, name, advice >= 0 ? (double)advice : otherwise);
}

static bool read_options(tn_reading *reading, tn_generation *generation, const json_t *body) {
  tn_request_options *options = &reading->options;
  json_int_t most = tn_field_integer(body, "max_completion_tokens", tn_field_integer(body, "max_tokens", 0));
  tn_model_info advice = TN_MODEL_INFO;
  tn_model_describe(generation->exchange->server->model, &advice);
  json_int_t top_k = tn_field_integer(body, "top_k", advice.top_k);
  if (!generation->surface->is_chat && !tn_field(body, "max_tokens")) most = DEFAULT_TEXT_TOKENS;
  options->max_tokens = (uint32_t)most;
  options->no_answer = tn_field(body, "max_tokens") != NULL && most == 0;
  options->min_tokens = (uint32_t)tn_field_integer(body, "min_tokens", 0);
  options->ignore_eos = tn_field_boolean(body, "ignore_eos", false);
  options->temperature = advised(body, "temperature", advice.temperature, 1);
  options->top_p = advised(body, "top_p", advice.top_p, 1);
  options->top_k = top_k > 0 ? (uint32_t)top_k : 0;
  options->min_p = advised(body, "min_p", advice.min_p, 0);
  options->presence_penalty = (float)tn_field_number(body, "presence_penalty", 0);
  options->frequency_penalty = (float)tn_field_number(body, "frequency_penalty", 0);
  options->repeat_penalty = advised(body, "repetition_penalty", advice.repeat_penalty, 1);
  options->seed = read_seed(body, generation->exchange);
  options->timeout_ns = (uint64_t)generation->exchange->server->options.timeout_seconds * 1000000000u;
  if (tn_field_boolean(body, "store", false))
    return tn_refuse(&reading->refusal, "store", TN_E_UNSUPPORTED,
                     "store: nothing is stored; give false or leave it out");
  return read_stop(reading, body) && read_bias(reading, body) && read_stages(reading, body) &&
         read_format(reading, body) && read_logprobs(reading, generation, body) &&
         read_stream_options(reading, generation, body);
}

/* ---- prompts ---- */

static bool read_tokens(tn_reading *reading, const json_t *list) {
  size_t count = json_array_size(list);
  int32_t *tokens = tn_arena_array(&reading->arena, count + 1, sizeof *tokens);
  if (!tokens) return tn_refuse(&reading->refusal, NULL, TN_E_MEMORY, "no memory for the request");
  for (size_t i = 0; i < count; i++) {
    const json_t *value = json_array_get(list, i);
    json_int_t token = json_integer_value(value);
    if (!json_is_integer(value) || token < 0 || token > INT32_MAX)
      return tn_refuse(&reading->refusal, "prompt", TN_E_INVALID, "prompt: element %zu: expected a token id", i);
    tokens[i] = (int32_t)token;
  }
  reading->options.tokens = tokens;
  reading->options.token_count = count;
  return true;
}

/* Sets the prompt of the options to one prompt of a request: a text or a list of ids. */
static bool read_prompt(tn_reading *reading, const json_t *prompt) {
  reading->options.prompt = NULL;
  reading->options.tokens = NULL;
  reading->options.token_count = 0;
  if (json_is_array(prompt) && json_array_size(prompt)) return read_tokens(reading, prompt);
  if (!json_is_string(prompt) || !json_string_length(prompt))
    return tn_refuse(
        &reading->refusal, "prompt", TN_E_INVALID,
        "prompt: expected a text, a list of texts, a list of token ids or a list of such lists; none empty");
  reading->options.prompt = json_string_value(prompt);
  reading->options.prompt_bytes = json_string_length(prompt);
  return true;
}

/* A role, and content that is a text, a list of text parts, or none. */
static bool check_message(tn_reading *reading, const json_t *message, size_t number) {
  const char *role = tn_field_text(message, "role");
  const json_t *content = tn_field(message, "content");
  if (!role)
    return tn_refuse(&reading->refusal, "messages", TN_E_INVALID,
                     "messages: element %zu: expected an object with a role", number);
  if (!strcmp(role, "function") || tn_field(message, "function_call"))
    return tn_refuse(&reading->refusal, "messages", TN_E_UNSUPPORTED,
                     "messages: element %zu: function calls are given as tool_calls, their results as role tool",
                     number);
  if (content && !json_is_string(content) && !json_is_array(content))
    return tn_refuse(&reading->refusal, "messages", TN_E_INVALID,
                     "messages: element %zu: content: expected a text or text parts", number);
  for (size_t i = 0; json_is_array(content) && i < json_array_size(content); i++) {
    const json_t *part = json_array_get(content, i);
    const char *type = tn_field_text(part, "type");
    if (!type || strcmp(type, "text") || !tn_field_text(part, "text"))
      return tn_refuse(&reading->refusal, "messages", TN_E_UNSUPPORTED,
                       "messages: element %zu: content: part %zu: expected a text; nothing else is taken", number, i);
  }
  return true;
}

/* The conversation as JSON text. What OpenAI calls a developer is the system to every template. */
static char *messages_text(const json_t *messages) {
  json_t *list = json_copy((json_t *)messages);
  for (size_t i = 0; i < json_array_size(list); i++) {
    json_t *message = json_array_get(list, i);
    if (strcmp(json_string_value(json_object_get(message, "role")), "developer") != 0) continue;
    json_t *system = json_copy(message);
    if (json_object_set_new(system, "role", json_string("system")) || json_array_set_new(list, i, system)) {
      json_decref(list);
      return NULL;
    }
  }
  char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
  json_decref(list);
  return text;
}

/* A message is a token at least: a conversation that can't fit isn't rendered first. */
static bool fits(tn_reading *reading, const tn_generation *generation, const json_t *messages) {
  uint32_t context = generation->exchange->server->engine_info.context;
  return json_array_size(messages) <= context ||
         tn_refuse(&reading->refusal, NULL, TN_E_TOO_LONG,
                   "the conversation has %zu messages; the context holds %" PRIu32 " tokens", json_array_size(messages),
                   context);
}

static bool read_messages(tn_reading *reading, const json_t *body) {
  const json_t *messages = tn_field(body, "messages"), *extra = tn_field(body, "chat_template_kwargs");
  for (size_t i = 0; i < json_array_size(messages); i++)
    if (!check_message(reading, json_array_get(messages, i), i)) return false;
  reading->messages = messages_text(messages);
  reading->extra = extra ? json_dumps(extra, JSON_COMPACT) : NULL;
  if (!reading->messages || (extra && !reading->extra))
    return tn_refuse(&reading->refusal, NULL, TN_E_MEMORY, "no memory for the request");
  reading->options.messages_json = reading->messages;
  reading->options.extra_json = reading->extra;
  return true;
}

/* How many prompts a request has: a list of texts or of lists is several, a list of ids is one. */
static size_t count_prompts(const json_t *prompt) {
  return json_is_array(prompt) && !json_is_integer(json_array_get(prompt, 0)) ? json_array_size(prompt) : 1;
}

static const json_t *prompt_at(const json_t *prompt, size_t number) {
  bool is_list = json_is_array(prompt) && !json_is_integer(json_array_get(prompt, 0));
  return is_list ? json_array_get(prompt, number) : prompt;
}

static bool keep_echo(tn_reading *reading, tn_choice *choice) {
  const tn_request_options *options = &reading->options;
  const tn_model *model = choice->generation->exchange->server->model;
  if (options->tokens) {
    if (tn_detokenize(model, options->tokens, options->token_count, &choice->echo, &choice->echo_bytes,
                      &reading->refusal.error) == TN_OK)
      return true;
    reading->refusal.parameter = "prompt";
    return false;
  }
  choice->echo = tn_copy_text(options->prompt, options->prompt_bytes);
  choice->echo_bytes = options->prompt_bytes;
  return choice->echo != NULL || tn_refuse(&reading->refusal, NULL, TN_E_MEMORY, "no memory for the request");
}

/* ---- submitting ---- */

/* Submits the n answers to the prompt in the options as choices first, first + 1, ... */
static bool submit_prompt(tn_reading *reading, tn_generation *generation, size_t first, size_t n, bool echo) {
  for (size_t i = 0; i < n; i++) {
    reading->options.choice = (uint32_t)i;
    if (echo && !keep_echo(reading, generation->choices + first + i)) return false;
    if (tn_generation_submit(generation, first + i, &reading->options, &reading->refusal.error) != TN_OK) return false;
  }
  return true;
}

static bool submit_chat(tn_reading *reading, tn_generation *generation, const json_t *body) {
  return fits(reading, generation, tn_field(body, "messages")) && read_messages(reading, body) &&
         read_tools(reading, body) && submit_prompt(reading, generation, 0, generation->count, false);
}

static bool submit_prompts(tn_reading *reading, tn_generation *generation, const json_t *body) {
  const json_t *prompt = tn_field(body, "prompt");
  bool echo = tn_field_boolean(body, "echo", false);
  size_t n = generation->count / generation->prompts;
  reading->options.prompt_logprobs = echo && generation->has_logprobs;
  for (size_t i = 0; i < generation->prompts; i++)
    if (!read_prompt(reading, prompt_at(prompt, i)) || !submit_prompt(reading, generation, i * n, n, echo))
      return false;
  return true;
}

enum MHD_Result tn_complete(tn_exchange *exchange, const json_t *body, const json_t *asked, const tn_surface *surface) {
  tn_server *server = exchange->server;
  bool is_chat = surface->is_chat;
  size_t prompts = is_chat ? 1 : count_prompts(tn_field(body, "prompt"));
  size_t n = (size_t)tn_field_integer(body, "n", 1);
  if (prompts == 0 || prompts > MAX_CHOICES / n)
    return tn_http_error(exchange, 400, "prompt", NULL, "%zu prompts with %zu answers each given, expected 1 to %d",
                         prompts, n, MAX_CHOICES);
  tn_generation *generation = tn_generation_create(exchange, prompts * n);
  if (!generation) return tn_http_error(exchange, 503, NULL, NULL, "no memory for the request");
  generation->surface = surface;
  generation->asked = json_incref((json_t *)asked);
  generation->prompts = prompts;
  generation->created = tn_unix_time();
  snprintf(generation->id, sizeof generation->id, "%s-%" PRIx64 "-%" PRIu64, surface->id_prefix,
           (uint64_t)server->started, exchange->number);
  tn_reading reading = {.options = TN_REQUEST_OPTIONS};
  tn_arena_init(&reading.arena, 0);
  bool is_submitted =
      read_options(&reading, generation, body) && (is_chat ? submit_chat : submit_prompts)(&reading, generation, body);
  bool has_entered = is_submitted && tn_generation_enter(generation);
  enum MHD_Result result;
  if (has_entered)
    result = tn_generation_start(generation);
  else if (is_submitted)
    result = tn_http_error(exchange, 503, NULL, NULL, "the server is stopping");
  else
    result = tn_http_refused(exchange, &reading.refusal);
  if (!has_entered) tn_generation_destroy(generation);
  free(reading.messages);
  free(reading.extra);
  free(reading.schema);
  free(reading.tools);
  free(reading.tool_choice);
  tn_arena_finish(&reading.arena);
  return result;
}

enum MHD_Result tn_endpoint_chat(tn_exchange *exchange, const json_t *body) {
  return tn_complete(exchange, body, body, &tn_surface_chat);
}

enum MHD_Result tn_endpoint_completions(tn_exchange *exchange, const json_t *body) {
  return tn_complete(exchange, body, body, &tn_surface_text);
}
