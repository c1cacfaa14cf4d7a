/* POST /v1/responses: OpenAI's newer words into those of chat completions. Nothing is stored between requests. */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "server/conversion.h"
#include "server/generation.h"

/* ---- input ---- */

/* The conversation as it is built: `turn` is the message of the assistant that further items may belong to. */
typedef struct conversation {
  tn_conversion *to;
  json_t *turn;
  size_t number; /* of the item */
} conversation;

static bool bad_item(const conversation *at, tn_status status, const char *what) {
  return tn_refuse(&at->to->refusal, "input", status, "input: element %zu: %s", at->number, what);
}

/* Whether a content part of this type is text. */
static bool is_text_part(const char *type) {
  return tn_is(type, "input_text") || tn_is(type, "output_text") || tn_is(type, "text") ||
         tn_is(type, "reasoning_text") || tn_is(type, "summary_text");
}

/* Appends a text or a list of text parts to a message. */
static bool add_texts(const conversation *at, json_t *message, tn_message_text which, const json_t *content) {
  if (json_is_string(content)) return tn_convert_text(at->to, message, which, json_string_value(content));
  if (!json_is_array(content)) return bad_item(at, TN_E_INVALID, "expected a text or a list of text parts");
  for (size_t i = 0; i < json_array_size(content); i++) {
    const json_t *part = json_array_get(content, i);
    const char *type = tn_field_text(part, "type");
    const char *text = is_text_part(type) ? tn_field_text(part, "text") : NULL;
    if (tn_is(type, "refusal")) text = tn_field_text(part, "refusal");
    if (!text) return bad_item(at, TN_E_UNSUPPORTED, "expected text parts; nothing else is taken");
    if (!tn_convert_text(at->to, message, which, text)) return false;
  }
  return tn_convert_has_text(at->to, message, which) || tn_convert_text(at->to, message, which, "");
}

/* The turn of the assistant, or a new one: with calls in it, it is followed by calls alone. */
static json_t *turn_of_assistant(conversation *at, bool may_have_content, bool may_have_calls) {
  bool fits = at->turn && (may_have_content || !tn_convert_has_text(at->to, at->turn, TN_MESSAGE_CONTENT)) &&
              (may_have_calls || !tn_field(at->turn, "tool_calls"));
  if (fits) return at->turn;
  at->turn = tn_convert_message(at->to, "assistant");
  return at->turn;
}

static bool add_message(conversation *at, const json_t *item) {
  const char *role = tn_field_text(item, "role");
  const json_t *content = tn_field(item, "content");
  if (tn_is(role, "assistant")) {
    json_t *turn = turn_of_assistant(at, false, false);
    return turn && add_texts(at, turn, TN_MESSAGE_CONTENT, content);
  }
  if (!tn_is(role, "user") && !tn_is(role, "system") && !tn_is(role, "developer"))
    return bad_item(at, TN_E_INVALID, "role: expected user, assistant, system or developer");
  at->turn = NULL;
  json_t *message = tn_convert_message(at->to, role);
  return message && add_texts(at, message, TN_MESSAGE_CONTENT, content);
}

static bool add_call(conversation *at, const json_t *item) {
  const char *id = tn_field_text(item, "call_id"), *name = tn_field_text(item, "name");
  json_t *arguments = tn_field(item, "arguments");
  if (!id || !name || !json_is_string(arguments))
    return bad_item(at, TN_E_INVALID, "a function_call has call_id, name and arguments, all of them texts");
  json_t *turn = turn_of_assistant(at, true, true);
  return turn && tn_convert_call(at->to, turn, id, name, json_incref(arguments));
}

static bool add_result(conversation *at, const json_t *item) {
  const char *id = tn_field_text(item, "call_id");
  if (!id) return bad_item(at, TN_E_INVALID, "call_id: expected a text");
  at->turn = NULL;
  json_t *message = tn_convert_message(at->to, "tool");
  return message && tn_convert_set(at->to, message, "tool_call_id", json_string(id)) &&
         add_texts(at, message, TN_MESSAGE_CONTENT, tn_field(item, "output"));
}

static bool add_reasoning(conversation *at, const json_t *item) {
  const json_t *content = tn_field(item, "content");
  if (!json_array_size(content)) content = tn_field(item, "summary");
  if (!json_array_size(content)) return true;
  json_t *turn = turn_of_assistant(at, false, false);
  return turn && add_texts(at, turn, TN_MESSAGE_REASONING, content);
}

static bool add_item(conversation *at, const json_t *item) {
  const char *type = tn_field_text(item, "type");
  if (tn_is(type, "message") || (json_is_object(item) && !type)) return add_message(at, item);
  if (tn_is(type, "function_call")) return add_call(at, item);
  if (tn_is(type, "function_call_output")) return add_result(at, item);
  if (tn_is(type, "reasoning")) return add_reasoning(at, item);
  return bad_item(at, TN_E_UNSUPPORTED,
                  "expected a message, reasoning, a function_call or a function_call_output; nothing else is taken");
}

static bool add_input(tn_conversion *to, const json_t *body) {
  const json_t *input = tn_field(body, "input");
  const char *instructions = tn_field_text(body, "instructions");
  conversation at = {.to = to};
  if (json_is_array(input) && !json_array_size(input))
    return tn_refuse(&to->refusal, "input", TN_E_INVALID, "input: the list is empty");
  if (instructions) {
    json_t *message = tn_convert_message(to, "system");
    if (!message || !tn_convert_text(to, message, TN_MESSAGE_CONTENT, instructions)) return false;
  }
  if (json_is_string(input)) {
    json_t *message = tn_convert_message(to, "user");
    return message && tn_convert_text(to, message, TN_MESSAGE_CONTENT, json_string_value(input));
  }
  for (at.number = 0; at.number < json_array_size(input); at.number++)
    if (!add_item(&at, json_array_get(input, at.number))) return false;
  return true;
}

/* ---- tools ---- */

static bool add_tools(tn_conversion *to, const json_t *body) {
  const json_t *tools = tn_field(body, "tools");
  for (size_t i = 0; i < json_array_size(tools); i++) {
    const json_t *tool = json_array_get(tools, i);
    const char *type = tn_field_text(tool, "type"), *name = tn_field_text(tool, "name");
    if (!tn_is(type, "function"))
      return tn_refuse(&to->refusal, "tools", TN_E_UNSUPPORTED,
                       "tools: element %zu: \"%.60s\": only functions can be offered", i, type ? type : "");
    if (!name) return tn_refuse(&to->refusal, "tools", TN_E_INVALID, "tools: element %zu: name: expected a text", i);
    if (!tn_convert_tool(to, name, tool, tn_field(tool, "parameters"))) return false;
  }
  return tn_convert_copy(to, body, "parallel_tool_calls", "parallel_tool_calls");
}

static bool add_choice(tn_conversion *to, const json_t *body) {
  const json_t *choice = tn_field(body, "tool_choice");
  const char *name = tn_is(tn_field_text(choice, "type"), "function") ? tn_field_text(choice, "name") : NULL;
  if (name) return tn_convert_choice(to, name);
  if (choice && !json_is_string(choice))
    return tn_refuse(&to->refusal, "tool_choice", TN_E_UNSUPPORTED,
                     "tool_choice: expected auto, none, required, or type function with a name");
  return tn_convert_copy(to, body, "tool_choice", "tool_choice");
}

/* ---- the rest ---- */

/* text: {"format": ...} */
static bool add_format(tn_conversion *to, const json_t *body) {
  const json_t *text = tn_field(body, "text"), *format = tn_field(text, "format"), *value;
  const json_t *schema = tn_field(format, "schema");
  const char *type = tn_field_text(format, "type"), *name;
  json_object_foreach((json_t *)text, name, value) {
    if (strcmp(name, "format") != 0 && !json_is_null(value))
      return tn_refuse(&to->refusal, "text", TN_E_UNSUPPORTED, "text: %.60s is not supported", name);
  }
  if (!format || tn_is(type, "text")) return true;
  if (tn_is(type, "json_object"))
    return tn_convert_set(to, to->chat, "response_format", json_pack("{s:s}", "type", type));
  if (!tn_is(type, "json_schema") || !json_is_object(schema))
    return tn_refuse(&to->refusal, "text", TN_E_INVALID,
                     "text: format: expected text, json_object, or json_schema with a schema");
  return tn_convert_schema(to, schema);
}

/* reasoning: {"effort": ..., "summary": ...} */
static bool add_reasoning_options(tn_conversion *to, const json_t *body) {
  const json_t *reasoning = tn_field(body, "reasoning"), *variables = tn_field(body, "chat_template_kwargs"), *value;
  json_t *all = variables ? json_copy((json_t *)variables) : json_object();
  const char *name;
  if (!tn_convert_set(to, to->chat, "chat_template_kwargs", all)) return false;
  json_object_foreach((json_t *)reasoning, name, value) {
    if (json_is_null(value) || !strcmp(name, "summary") || !strcmp(name, "generate_summary")) continue;
    if (strcmp(name, "effort") != 0 || !tn_is(json_string_value(value), "none"))
      return tn_refuse(&to->refusal, "reasoning", TN_E_UNSUPPORTED,
                       "reasoning: %.60s: expected effort none or a summary; what else the template knows is "
                       "given in chat_template_kwargs",
                       name);
    if (!tn_convert_set(to, all, "enable_thinking", json_false()) || !tn_convert_set(to, all, "thinking", json_false()))
      return false;
  }
  return true;
}

static bool add_logprobs(tn_conversion *to, const json_t *body) {
  const json_t *include = tn_field(body, "include");
  bool is_wanted = false;
  for (size_t i = 0; i < json_array_size(include); i++) {
    const char *what = json_string_value(json_array_get(include, i));
    bool is_logprobs = tn_is(what, "message.output_text.logprobs");
    if (!is_logprobs && !tn_is(what, "reasoning.encrypted_content"))
      return tn_refuse(&to->refusal, "include", TN_E_UNSUPPORTED, "include: \"%.60s\" is not supported",
                       what ? what : "");
    is_wanted |= is_logprobs;
  }
  if (tn_field_integer(body, "top_logprobs", 0) && !is_wanted)
    return tn_refuse(&to->refusal, "top_logprobs", TN_E_INVALID,
                     "top_logprobs needs include: [\"message.output_text.logprobs\"]");
  if (is_wanted && !tn_convert_set(to, to->chat, "logprobs", json_true())) return false;
  return !is_wanted || tn_convert_copy(to, body, "top_logprobs", "top_logprobs");
}

static bool check_state(tn_conversion *to, const json_t *body) {
  const char *truncation = tn_field_text(body, "truncation");
  if (tn_field_boolean(body, "store", false))
    return tn_refuse(&to->refusal, "store", TN_E_UNSUPPORTED, "store: nothing is stored; give false or leave it out");
  if (tn_field_boolean(body, "background", false))
    return tn_refuse(&to->refusal, "background", TN_E_UNSUPPORTED, "background: nothing is stored");
  if (truncation && strcmp(truncation, "disabled") != 0)
    return tn_refuse(&to->refusal, "truncation", TN_E_UNSUPPORTED,
                     "truncation: \"%.40s\": a conversation that is too long is refused, never cut", truncation);
  return true;
}

static bool convert(tn_conversion *to, const json_t *body) {
  static const char *const same[] = {"min_tokens", "ignore_eos", "seed", "stream", "temperature", "top_p"};
  return check_state(to, body) && add_input(to, body) && tn_convert_end_texts(to) && add_tools(to, body) &&
         add_choice(to, body) && add_format(to, body) && add_reasoning_options(to, body) && add_logprobs(to, body) &&
         tn_convert_copy(to, body, "max_output_tokens", "max_tokens") &&
         tn_convert_copies(to, body, same, TN_COUNT(same));
}

enum MHD_Result tn_endpoint_responses(tn_exchange *exchange, const json_t *body) {
  tn_conversion to;
  enum MHD_Result result;
  if (tn_conversion_init(&to) && convert(&to, body))
    result = tn_complete(exchange, to.chat, body, &tn_surface_responses);
  else
    result = tn_http_refused(exchange, &to.refusal);
  tn_conversion_finish(&to);
  return result;
}
