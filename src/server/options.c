/* From a request's fields to the engine's options (see reading.h). */
#include "server/reading.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/hash.h"

#define MAX_BIASES 4096
#define MAX_SCHEMA_BYTES ((size_t)1 << 20)
#define ANY_OBJECT "{\"type\":\"object\"}" /* a schema */
#define DEFAULT_TEXT_TOKENS 16             /* of /v1/completions, as the API says */

void tn_reading_finish(tn_reading *reading) {
  free(reading->messages);
  free(reading->extra);
  free(reading->schema);
  free(reading->tools);
  free(reading->tool_choice);
  tn_arena_finish(&reading->arena);
}

static bool read_stop(tn_reading *reading, const json_t *body) {
  const json_t *stop = tn_field(body, "stop");
  size_t count = json_is_string(stop) ? 1 : json_array_size(stop);
  if (count > TN_MAX_STOPS)
    return tn_refuse(&reading->refusal, "stop", TN_E_LIMIT, "stop: %zu texts given, at most %d are taken", count,
                     TN_MAX_STOPS);
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
  return true;
}

/* The schema that was read becomes an option. */
static bool use_schema(tn_reading *reading, const char *field) {
  if (!reading->schema) return tn_refuse(&reading->refusal, NULL, TN_E_MEMORY, "no memory for the request");
  if (strlen(reading->schema) > MAX_SCHEMA_BYTES)
    return tn_refuse(&reading->refusal, field, TN_E_LIMIT, "%s: the schema is larger than %zu bytes", field,
                     MAX_SCHEMA_BYTES);
  reading->options.json_schema = reading->schema;
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
    reading->schema = tn_copy_text(ANY_OBJECT, strlen(ANY_OBJECT));
  } else if (strcmp(type, "json_schema") != 0) {
    return tn_refuse(&reading->refusal, "response_format", TN_E_UNSUPPORTED,
                     "response_format: type \"%.40s\" is not supported; expected text, json_object or json_schema",
                     type);
  } else if (!read_schema(reading, format)) {
    return false;
  }
  return use_schema(reading, "response_format");
}

/* A list of texts, none of them empty, that lives as long as the request; NULL when it isn't one, and refused. */
static const char **read_texts(tn_reading *reading, const json_t *list, const char *field, const char *name) {
  size_t count = json_array_size(list);
  const char **texts = tn_arena_array(&reading->arena, count + 1, sizeof *texts);
  if (!texts) {
    tn_refuse(&reading->refusal, NULL, TN_E_MEMORY, "no memory for the request");
    return NULL;
  }
  for (size_t i = 0; i < count; i++) {
    texts[i] = json_string_value(json_array_get(list, i));
    if (!texts[i] || !*texts[i]) {
      tn_refuse(&reading->refusal, field, TN_E_INVALID, "%s: element %zu: expected a text that is not empty", name, i);
      return NULL;
    }
  }
  return texts;
}

/* One member of structured_outputs; false: refused. */
static bool read_structure(tn_reading *reading, const char *name, const json_t *value) {
  static const char field[] = "structured_outputs";
  tn_request_options *options = &reading->options;
  const char *text = json_string_value(value);
  if (!strcmp(name, "regex") && text) {
    options->pattern = text;
  } else if (!strcmp(name, "grammar") && text) {
    options->grammar = text;
  } else if (!strcmp(name, "choice") && json_array_size(value)) {
    options->choices = read_texts(reading, value, field, "structured_outputs: choice");
    options->choice_count = json_array_size(value);
    return options->choices != NULL;
  } else if (!strcmp(name, "json") && (text || json_is_object(value))) {
    reading->schema = text ? tn_copy_text(text, strlen(text)) : json_dumps(value, JSON_COMPACT);
    return use_schema(reading, field);
  } else if (!strcmp(name, "json_object") && json_is_true(value)) {
    reading->schema = tn_copy_text(ANY_OBJECT, strlen(ANY_OBJECT));
    return use_schema(reading, field);
  } else {
    return tn_refuse(&reading->refusal, field, TN_E_UNSUPPORTED,
                     "structured_outputs: \"%.40s\": expected json (a schema), json_object (true), regex, grammar "
                     "(texts) or choice (a list of texts)",
                     name);
  }
  return true;
}

/* What vLLM's clients say instead of response_format. */
static bool read_structured(tn_reading *reading, const json_t *body) {
  const json_t *wanted = tn_field(body, "structured_outputs"), *value;
  const char *name;
  size_t count = 0;
  if (!wanted) return true;
  if (reading->schema || reading->options.grammar)
    return tn_refuse(&reading->refusal, "structured_outputs", TN_E_INVALID,
                     "structured_outputs is given beside response_format or grammar");
  json_object_foreach((json_t *)wanted, name, value) {
    if (json_is_null(value)) continue;
    if (++count > 1) break;
    if (!read_structure(reading, name, value)) return false;
  }
  return count == 1 || tn_refuse(&reading->refusal, "structured_outputs", TN_E_INVALID,
                                 "structured_outputs: expected one of json, json_object, regex, grammar and choice");
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
bool tn_read_tools(tn_reading *reading, const json_t *body) {
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
    bool is_known = !strcmp(name, "include_usage") || !strcmp(name, "continuous_usage_stats") ||
                    !strcmp(name, "include_obfuscation");
    if (!is_known || !(json_is_boolean(value) || json_is_null(value)))
      return tn_refuse(&reading->refusal, "stream_options", TN_E_INVALID,
                       "stream_options: \"%.40s\": expected include_usage, continuous_usage_stats or "
                       "include_obfuscation, a boolean",
                       name);
  }
  generation->has_usage = tn_field_boolean(wanted, "include_usage", false);
  generation->has_running_usage = generation->has_usage && tn_field_boolean(wanted, "continuous_usage_stats", false);
  return true;
}

static bool read_breakers(tn_reading *reading, const json_t *body) {
  const json_t *list = tn_field(body, "dry_sequence_breakers");
  if (!list) return true;
  reading->options.dry_sequence_breakers = read_texts(reading, list, "dry_sequence_breakers", "dry_sequence_breakers");
  reading->options.dry_sequence_breaker_count = json_array_size(list);
  return reading->options.dry_sequence_breakers != NULL;
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

/* Fields that are taken with one value only, which is what happens without them. */
static bool check_fixed(tn_reading *reading, const json_t *body) {
  json_int_t n = tn_field_integer(body, "n", 1), best_of = tn_field_integer(body, "best_of", n);
  if (tn_field_boolean(body, "store", false))
    return tn_refuse(&reading->refusal, "store", TN_E_UNSUPPORTED,
                     "store: nothing is stored; give false or leave it out");
  if (!tn_field_boolean(body, "skip_special_tokens", true))
    return tn_refuse(&reading->refusal, "skip_special_tokens", TN_E_UNSUPPORTED,
                     "skip_special_tokens: special tokens have no text; give true or leave it out");
  return best_of == n ||
         tn_refuse(&reading->refusal, "best_of", TN_E_UNSUPPORTED,
                   "best_of: %" JSON_INTEGER_FORMAT " answers for %" JSON_INTEGER_FORMAT " are not made; give n alone",
                   best_of, n);
}

bool tn_read_options(tn_reading *reading, tn_generation *generation, const json_t *body) {
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
  const char *repeat = tn_field(body, "repetition_penalty") ? "repetition_penalty" : "repeat_penalty";
  options->repeat_penalty = advised(body, repeat, advice.repeat_penalty, 1);
  options->seed = read_seed(body, generation->exchange);
  options->timeout_ns = (uint64_t)generation->exchange->server->options.timeout_seconds * 1000000000u;
  options->cache_salt = tn_field_text(body, "cache_salt");
  generation->wants_token_ids = tn_field_boolean(body, "return_token_ids", false);
  return check_fixed(reading, body) && read_stop(reading, body) && read_bias(reading, body) &&
         read_stages(reading, body) && read_format(reading, body) && read_structured(reading, body) &&
         read_logprobs(reading, generation, body) && read_stream_options(reading, generation, body);
}
