/* POST /v1/chat/completions and /v1/completions: the prompts, and handing everything to the engine. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "server/reading.h"

#define MAX_CHOICES 256
#define MAX_KEPT_BYTES ((size_t)2 << 20) /* of a request, as long as its answer lasts */

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

/* A role of a conversation; templates may know fewer. */
static bool is_role(const char *role) {
  static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
  for (size_t i = 0; i < TN_COUNT(roles); i++)
    if (!strcmp(role, roles[i])) return true;
  return false;
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
  if (!is_role(role))
    return tn_refuse(&reading->refusal, "messages", TN_E_INVALID,
                     "messages: element %zu: role \"%.40s\": expected system, developer, user, assistant or tool",
                     number, role);
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

/* The fields that an option of the engine may come from, by the word that its messages about the option begin with. */
static const struct {
  const char *option, *fields[4];
} origins[] = {{"json_schema", {"response_format", "structured_outputs", "text", "output_config"}},
               {"grammar", {"grammar", "structured_outputs"}},
               {"pattern", {"structured_outputs"}},
               {"choices", {"structured_outputs"}},
               {"stop", {"stop", "stop_sequences"}}, /* stop string 0 ... */
               {"repeat_penalty", {"repetition_penalty", "repeat_penalty"}},
               {"chat", {"messages", "input"}}, /* chat template: ... */
               {"messages", {"messages", "input"}},
               {"prompt", {"prompt", "messages", "input"}},
               {"tools", {"tools"}},
               {"tool_choice", {"tool_choice"}},
               {"ignore_eos", {"ignore_eos"}},
               {"logit_bias", {"logit_bias"}},
               {"dry_sequence_breakers", {"dry_sequence_breakers"}}};

/* The field of the request that a fault found by the engine is about; NULL where its message doesn't tell. */
static const char *field_at_fault(const json_t *asked, const tn_error *error) {
  size_t bytes = strcspn(error->message, " :[");
  bool is_prompt = error->status == TN_E_TOO_LONG || !strncmp(error->message, "the prompt ", 11);
  for (size_t i = 0; i < TN_COUNT(origins); i++) {
    const char *option = origins[i].option;
    bool is_it =
        is_prompt ? !strcmp(option, "prompt") : strlen(option) == bytes && !strncmp(option, error->message, bytes);
    for (size_t k = 0; is_it && k < TN_COUNT(origins[i].fields) && origins[i].fields[k]; k++)
      if (tn_field(asked, origins[i].fields[k])) return origins[i].fields[k];
  }
  return NULL;
}

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
         tn_read_tools(reading, body) && submit_prompt(reading, generation, 0, generation->count, false);
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

/* A body may be large and its JSON many times that, and answers last: of it only what they look at stays. */
static bool keep_asked(tn_reading *reading, tn_generation *generation, const json_t *asked) {
  const char *const *names = generation->surface->looked_at;
  if (!names) return true;
  generation->asked = json_object();
  for (; *names; names++) {
    json_t *value = tn_field(asked, *names);
    if (value && json_object_set(generation->asked, *names, value) != 0)
      return tn_refuse(&reading->refusal, NULL, TN_E_MEMORY, "no memory for the request");
  }
  return json_dumpb(generation->asked, NULL, 0, JSON_COMPACT) <= MAX_KEPT_BYTES ||
         tn_refuse(&reading->refusal, NULL, TN_E_LIMIT,
                   "what is kept beside the answer (metadata, tools, user, ...) is "
                   "larger than %zu bytes",
                   MAX_KEPT_BYTES);
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
  generation->prompts = prompts;
  generation->created = tn_unix_time();
  snprintf(generation->id, sizeof generation->id, "%s-%" PRIx64 "-%" PRIu64, surface->id_prefix,
           (uint64_t)server->started, exchange->number);
  tn_reading reading = {.options = TN_REQUEST_OPTIONS};
  tn_arena_init(&reading.arena, 0);
  bool is_submitted = keep_asked(&reading, generation, asked) && tn_read_options(&reading, generation, body) &&
                      (is_chat ? submit_chat : submit_prompts)(&reading, generation, body);
  bool has_entered = is_submitted && tn_generation_enter(generation);
  enum MHD_Result result = MHD_YES; /* it is started when the exchange is back from the desk */
  if (!has_entered && is_submitted) {
    result = tn_http_error(exchange, 503, NULL, NULL, "the server is stopping");
  } else if (!has_entered) {
    if (!reading.refusal.parameter) reading.refusal.parameter = field_at_fault(asked, &reading.refusal.error);
    result = tn_http_refused(exchange, &reading.refusal);
  }
  if (!has_entered) tn_generation_destroy(generation);
  tn_reading_finish(&reading);
  return result;
}

enum MHD_Result tn_endpoint_chat(tn_exchange *exchange, const json_t *body) {
  return tn_complete(exchange, body, body, &tn_surface_chat);
}

enum MHD_Result tn_endpoint_completions(tn_exchange *exchange, const json_t *body) {
  return tn_complete(exchange, body, body, &tn_surface_text);
}
