/* POST /v1/messages and /v1/messages/count_tokens: Anthropic's words into those of chat completions. */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "server/conversion.h"
#include "server/generation.h"

static bool bad_block(tn_conversion *to, const char *parameter, size_t message, size_t block, const char *what) {
  return tn_refuse(&to->refusal, parameter, TN_E_INVALID, "%s: element %zu: content: block %zu: %s", parameter, message,
                   block, what);
}

/* ---- the conversation ---- */

/* Appends a text or a list of text blocks to a message's content. */
static bool add_texts(tn_conversion *to, json_t *message, const json_t *content, const char *parameter) {
  if (json_is_string(content)) return tn_convert_text(to, message, TN_MESSAGE_CONTENT, json_string_value(content));
  for (size_t i = 0; i < json_array_size(content); i++) {
    const json_t *block = json_array_get(content, i);
    const char *text = tn_is(tn_field_text(block, "type"), "text") ? tn_field_text(block, "text") : NULL;
    if (!text)
      return tn_refuse(&to->refusal, parameter, TN_E_UNSUPPORTED,
                       "%s: block %zu: expected a text; nothing else is taken", parameter, i);
    if (!tn_convert_text(to, message, TN_MESSAGE_CONTENT, text)) return false;
  }
  return tn_convert_has_text(to, message, TN_MESSAGE_CONTENT) || tn_convert_text(to, message, TN_MESSAGE_CONTENT, "");
}

static bool add_result(tn_conversion *to, const json_t *block, size_t number, size_t i) {
  const char *id = tn_field_text(block, "tool_use_id");
  const json_t *content = tn_field(block, "content");
  if (!id) return bad_block(to, "messages", number, i, "tool_use_id: expected a text");
  if (content && !json_is_string(content) && !json_is_array(content))
    return bad_block(to, "messages", number, i, "content: expected a text or text blocks");
  json_t *message = tn_convert_message(to, "tool");
  return message && tn_convert_set(to, message, "tool_call_id", json_string(id)) &&
         add_texts(to, message, content, "messages");
}

/* Results of tools become messages of their own; texts in between one each. */
static bool add_user(tn_conversion *to, const json_t *content, size_t number) {
  json_t *message = NULL;
  for (size_t i = 0; i < json_array_size(content); i++) {
    const json_t *block = json_array_get(content, i);
    const char *type = tn_field_text(block, "type");
    if (tn_is(type, "tool_result")) {
      message = NULL;
      if (!add_result(to, block, number, i)) return false;
    } else if (tn_is(type, "text") && tn_field_text(block, "text")) {
      if (!message && !(message = tn_convert_turn(to, "user"))) return false;
      if (!tn_convert_text(to, message, TN_MESSAGE_CONTENT, tn_field_text(block, "text"))) return false;
    } else {
      return bad_block(to, "messages", number, i, "expected a text or a tool_result; nothing else is taken");
    }
  }
  return true;
}

static bool add_assistant_block(tn_conversion *to, json_t *message, const json_t *block, size_t number, size_t i) {
  const char *type = tn_field_text(block, "type"), *text = tn_field_text(block, "text");
  const char *thinking = tn_field_text(block, "thinking");
  const char *id = tn_field_text(block, "id"), *name = tn_field_text(block, "name");
  json_t *input = tn_field(block, "input");
  if (tn_is(type, "text") && text) return tn_convert_text(to, message, TN_MESSAGE_CONTENT, text);
  if (tn_is(type, "thinking") && thinking) return tn_convert_text(to, message, TN_MESSAGE_REASONING, thinking);
  if (!tn_is(type, "tool_use"))
    return bad_block(to, "messages", number, i, "expected a text, thinking or a tool_use; nothing else is taken");
  if (!id || !name || !json_is_object(input))
    return bad_block(to, "messages", number, i, "expected id, name and input, an object");
  return tn_convert_call(to, message, id, name, json_incref(input));
}

static bool add_assistant(tn_conversion *to, const json_t *content, size_t number) {
  json_t *message = tn_convert_turn(to, "assistant");
  if (!message) return false;
  for (size_t i = 0; i < json_array_size(content); i++)
    if (!add_assistant_block(to, message, json_array_get(content, i), number, i)) return false;
  return true;
}

/* Turns of one role that follow each other are one. */
static bool add_message(tn_conversion *to, const json_t *turn, size_t number) {
  const char *role = tn_field_text(turn, "role");
  const json_t *content = tn_field(turn, "content");
  bool is_user = tn_is(role, "user");
  if (!is_user && !tn_is(role, "assistant"))
    return tn_refuse(&to->refusal, "messages", TN_E_INVALID,
                     "messages: element %zu: role: expected user or assistant; the system's words are the "
                     "field system",
                     number);
  if (json_is_string(content)) {
    json_t *message = tn_convert_turn(to, role);
    return message && tn_convert_text(to, message, TN_MESSAGE_CONTENT, json_string_value(content));
  }
  if (!json_is_array(content) || !json_array_size(content))
    return tn_refuse(&to->refusal, "messages", TN_E_INVALID,
                     "messages: element %zu: content: expected a text or a list of blocks", number);
  return is_user ? add_user(to, content, number) : add_assistant(to, content, number);
}

static bool add_conversation(tn_conversion *to, const json_t *body) {
  const json_t *messages = tn_field(body, "messages"), *system = tn_field(body, "system");
  size_t count = json_array_size(messages);
  if (json_is_string(system) || json_array_size(system)) {
    json_t *message = tn_convert_message(to, "system");
    if (!message || !add_texts(to, message, system, "system")) return false;
  }
  for (size_t i = 0; i < count; i++)
    if (!add_message(to, json_array_get(messages, i), i)) return false;
  if (tn_is(tn_field_text(json_array_get(messages, count - 1), "role"), "assistant"))
    return tn_refuse(&to->refusal, "messages", TN_E_UNSUPPORTED,
                     "messages: the last turn must be the user's; an answer can't be begun for the model");
  return true;
}

/* ---- the rest ---- */

static bool add_tools(tn_conversion *to, const json_t *body) {
  const json_t *tools = tn_field(body, "tools");
  for (size_t i = 0; i < json_array_size(tools); i++) {
    const json_t *tool = json_array_get(tools, i), *schema = tn_field(tool, "input_schema");
    const char *type = tn_field_text(tool, "type"), *name = tn_field_text(tool, "name");
    if (type && strcmp(type, "custom") != 0)
      return tn_refuse(&to->refusal, "tools", TN_E_UNSUPPORTED,
                       "tools: element %zu: \"%.60s\": only the client's own tools can be offered", i, type);
    if (!name || !json_is_object(schema))
      return tn_refuse(&to->refusal, "tools", TN_E_INVALID,
                       "tools: element %zu: expected a name and input_schema, an object", i);
    if (!tn_convert_tool(to, name, tool, schema)) return false;
  }
  return true;
}

static bool add_choice(tn_conversion *to, const json_t *body) {
  const json_t *choice = tn_field(body, "tool_choice"), *single = tn_field(choice, "disable_parallel_tool_use");
  const char *type = tn_field_text(choice, "type"), *name = tn_field_text(choice, "name");
  if (!choice) return true;
  if (single && !tn_convert_set(to, to->chat, "parallel_tool_calls", json_boolean(!json_is_true(single)))) return false;
  if (tn_is(type, "tool") && name) return tn_convert_choice(to, name);
  if (tn_is(type, "any")) return tn_convert_set(to, to->chat, "tool_choice", json_string("required"));
  if (tn_is(type, "auto") || tn_is(type, "none")) return tn_convert_set(to, to->chat, "tool_choice", json_string(type));
  return tn_refuse(&to->refusal, "tool_choice", TN_E_INVALID,
                   "tool_choice: type: expected auto, any, none, or tool with a name");
}

/* Variables of the template: those that are given, and what `thinking` says. */
static bool add_thinking(tn_conversion *to, const json_t *body) {
  const json_t *thinking = tn_field(body, "thinking");
  const char *type = tn_field_text(thinking, "type");
  json_t *given = tn_field(body, "chat_template_kwargs");
  if (!tn_convert_set(to, to->chat, "chat_template_kwargs", given ? json_copy(given) : json_object())) return false;
  if (!thinking || tn_is(type, "adaptive")) return true;
  if (!tn_is(type, "enabled") && !tn_is(type, "disabled"))
    return tn_refuse(&to->refusal, "thinking", TN_E_INVALID, "thinking: type: expected enabled, disabled or adaptive");
  bool thinks = tn_is(type, "enabled");
  json_t *variables = json_object_get(to->chat, "chat_template_kwargs");
  return tn_convert_set(to, variables, "enable_thinking", json_boolean(thinks)) &&
         tn_convert_set(to, variables, "thinking", json_boolean(thinks));
}

static bool add_format(tn_conversion *to, const json_t *body) {
  const json_t *config = tn_field(body, "output_config"), *format = tn_field(config, "format"), *value;
  const json_t *schema = tn_field(format, "schema");
  const char *name;
  json_object_foreach((json_t *)config, name, value) {
    if (strcmp(name, "format") != 0 && !json_is_null(value))
      return tn_refuse(&to->refusal, "output_config", TN_E_UNSUPPORTED, "output_config: %.60s is not supported", name);
  }
  if (!format) return true;
  if (!tn_is(tn_field_text(format, "type"), "json_schema") || !json_is_object(schema))
    return tn_refuse(&to->refusal, "output_config", TN_E_INVALID,
                     "output_config: format: expected type json_schema and a schema");
  return tn_convert_schema(to, schema);
}

static bool add_stops(tn_conversion *to, const json_t *body) {
  const json_t *stops = tn_field(body, "stop_sequences");
  for (size_t i = 0; i < json_array_size(stops); i++)
    if (!json_string_length(json_array_get(stops, i)))
      return tn_refuse(&to->refusal, "stop_sequences", TN_E_INVALID,
                       "stop_sequences: element %zu: expected a text that isn't empty", i);
  return tn_convert_copy(to, body, "stop_sequences", "stop");
}

/* Clients that would leave a conversation with the server look for this code, and go on without. */
static bool check_thread(tn_conversion *to, const json_t *body) {
  if (!tn_field(body, "thread")) return true;
  to->refusal.code = "thread_unsupported_request";
  return tn_refuse(&to->refusal, "thread", TN_E_UNSUPPORTED,
                   "thread: no conversation is kept; give it whole with each request");
}

static bool convert_prompt(tn_conversion *to, const json_t *body) {
  return add_conversation(to, body) && tn_convert_end_texts(to) && add_tools(to, body) && add_choice(to, body) &&
         add_thinking(to, body) && add_format(to, body);
}

static bool convert(tn_conversion *to, const json_t *body) {
  static const char *const same[] = {"max_tokens", "min_tokens",  "ignore_eos", "seed",
                                     "stream",     "temperature", "top_p",      "top_k"};
  return check_thread(to, body) && convert_prompt(to, body) && add_stops(to, body) &&
         tn_convert_copies(to, body, same, TN_COUNT(same));
}

enum MHD_Result tn_endpoint_messages(tn_exchange *exchange, const json_t *body) {
  tn_conversion to;
  enum MHD_Result result;
  if (tn_conversion_init(&to) && convert(&to, body))
    result = tn_complete(exchange, to.chat, body, &tn_surface_messages);
  else
    result = tn_http_refused(exchange, &to.refusal);
  tn_conversion_finish(&to);
  return result;
}

/* ---- counting ---- */

/* Tokens of the rendered conversation. */
static tn_status count(const tn_model *model, json_t *chat, size_t *tokens, tn_error *error) {
  json_t *extra = json_copy(json_object_get(chat, "chat_template_kwargs")), *tools = json_object_get(chat, "tools");
  bool is_shown = !tn_is(tn_field_text(chat, "tool_choice"), "none");
  if (!extra) extra = json_object();
  if (tools && is_shown) json_object_set(extra, "tools", tools);
  char *messages = json_dumps(json_object_get(chat, "messages"), JSON_COMPACT);
  char *variables = json_dumps(extra, JSON_COMPACT), *text = NULL;
  int32_t *ids = NULL;
  size_t bytes;
  tn_status status = messages && variables ? tn_chat_render(model, messages, variables, &text, &bytes, error)
                                           : tn_fail(error, TN_E_MEMORY, "no memory for the request");
  if (status == TN_OK)
    status = tn_tokenize(model, text, bytes, TN_TOKENIZE_SPECIAL | TN_TOKENIZE_NO_BOS, &ids, tokens, error);
  json_decref(extra);
  free(messages);
  free(variables);
  tn_free(text);
  tn_free(ids);
  return status;
}

enum MHD_Result tn_endpoint_count_tokens(tn_exchange *exchange, const json_t *body) {
  tn_conversion to;
  size_t tokens;
  enum MHD_Result result;
  if (tn_conversion_init(&to) && convert_prompt(&to, body) &&
      count(exchange->server->model, to.chat, &tokens, &to.refusal.error) == TN_OK)
    result = tn_http_reply(exchange, 200, json_pack("{s:I}", "input_tokens", (json_int_t)tokens));
  else
    result = tn_http_refused(exchange, &to.refusal);
  tn_conversion_finish(&to);
  return result;
}
