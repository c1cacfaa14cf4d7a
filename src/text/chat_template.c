#include "text/chat_template.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"

/* Deeper arguments of a tool call stay text: parsing them would take stack by their depth. */
enum { MAX_ARGUMENT_LEVELS = 100 };

struct tn_chat_template {
  tn_jinja_template *jinja;
  char *source;
  bool wants_text_arguments; /* arguments of tool calls as JSON text */
  bool wants_null_content;   /* beside tool calls, null and not "" */
  bool wants_parts;          /* content as a list of parts */
};

static const char chatml[] =
    "{%- for message in messages -%}\n"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";

/* ---- content ---- */

static const char *part_text(const json_t *part) {
  const char *type = json_string_value(json_object_get(part, "type"));
  if (json_is_string(part)) return json_string_value(part);
  return type && strcmp(type, "text") == 0 ? json_string_value(json_object_get(part, "text")) : NULL;
}

static size_t part_size(const json_t *part) {
  return json_string_length(json_is_string(part) ? part : json_object_get(part, "text"));
}

/* The text of a list of text parts as a new string; NULL when there is another part in it. `*failed` when memory is
 * out. */
static json_t *flatten(const json_t *parts, bool *failed) {
  tn_buf text;
  json_t *string = NULL;
  tn_buf_init(&text);
  tn_buf_reserve(&text, 0);
  bool all_text = true;
  for (size_t i = 0; i < json_array_size(parts) && all_text; i++) {
    const json_t *part = json_array_get(parts, i);
    const char *data = part_text(part);
    all_text = data != NULL;
    if (data) tn_buf_append(&text, data, part_size(part));
  }
  if (all_text) string = json_stringn(text.data ? text.data : "", text.size);
  *failed = text.failed || (all_text && !string);
  tn_buf_finish(&text);
  return string;
}

/* The content as this template wants it, a new reference; NULL when it stays as it is. */
static json_t *fixed_content(const tn_chat_template *chat, const json_t *message, bool *failed) {
  json_t *content = json_object_get(message, "content"), *fixed = NULL;
  bool empty = !content || json_is_null(content) || (json_is_string(content) && !json_string_length(content));
  if (empty && chat->wants_null_content && json_array_size(json_object_get(message, "tool_calls"))) return json_null();
  if (chat->wants_parts) {
    const char *text = empty ? "" : json_string_value(content);
    if (!text) return NULL;
    fixed = json_pack("[{s:s, s:s%}]", "type", "text", "text", text, empty ? (size_t)0 : json_string_length(content));
    *failed = !fixed;
    return fixed;
  }
  if (json_is_array(content)) return flatten(content, failed);
  return empty ? json_string("") : NULL;
}

static bool fix_content(const tn_chat_template *chat, json_t *message) {
  bool failed = false;
  json_t *content = fixed_content(chat, message, &failed);
  if (!content) return !failed;
  return json_object_set_new(message, "content", content) == 0;
}

/* ---- tool calls ---- */

static bool too_deep(const char *text) {
  size_t depth = 0;
  bool inside = false;
  for (; *text; text++) {
    if (*text == '\\' && inside && text[1])
      text++;
    else if (*text == '"')
      inside = !inside;
    else if (!inside && (*text == '{' || *text == '['))
      depth++;
    else if (!inside && (*text == '}' || *text == ']') && depth)
      depth--;
    if (depth > MAX_ARGUMENT_LEVELS) return true;
  }
  return false;
}

/* The arguments as this template wants them, a new reference; NULL when they stay as they are. */
static json_t *fixed_arguments(const tn_chat_template *chat, const json_t *arguments, bool *failed) {
  json_t *fixed = NULL;
  if (chat->wants_text_arguments) {
    if (!json_is_object(arguments)) return NULL;
    char *text = json_dumps(arguments, 0);
    fixed = text ? json_string(text) : NULL;
    free(text);
    *failed = !fixed;
    return fixed;
  }
  const char *text = json_string_value(arguments);
  if (!text || too_deep(text)) return NULL;
  if (text[strspn(text, " \t\r\n")] == 0) return json_object(); /* how some clients say "none" */
  fixed = json_loadb(text, json_string_length(arguments), JSON_ALLOW_NUL, NULL);
  /* Integers of more than 64 bits: as floats rather than not at all. */
  if (!fixed) fixed = json_loadb(text, json_string_length(arguments), JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
  if (json_is_object(fixed)) return fixed;
  json_decref(fixed);
  return NULL;
}

/* `*call` replaced by a copy with its arguments fixed, where there is something to fix. */
static bool fix_call(const tn_chat_template *chat, json_t *calls, size_t i) {
  json_t *call = json_array_get(calls, i), *function = json_object_get(call, "function");
  bool failed = false;
  json_t *holder = function ? function : call; /* some clients leave the function's own object out */
  json_t *arguments = fixed_arguments(chat, json_object_get(holder, "arguments"), &failed);
  if (!arguments) return !failed;
  json_t *new_holder = json_copy(holder), *new_call = function ? json_copy(call) : json_incref(new_holder);
  bool good = new_holder && new_call && json_object_set(new_holder, "arguments", arguments) == 0 &&
              (!function || json_object_set(new_call, "function", new_holder) == 0) &&
              json_array_set(calls, i, new_call) == 0;
  json_decref(arguments);
  json_decref(new_holder);
  json_decref(new_call);
  return good;
}

static bool fix_calls(const tn_chat_template *chat, json_t *message) {
  json_t *given = json_object_get(message, "tool_calls");
  if (!json_is_array(given)) return true;
  json_t *calls = json_copy(given);
  bool good = calls != NULL;
  for (size_t i = 0; good && i < json_array_size(calls); i++) good = fix_call(chat, calls, i);
  return json_object_set_new(message, "tool_calls", calls) == 0 && good;
}

/* ---- the context ---- */

static tn_status fix_messages(const tn_chat_template *chat, const json_t *given, json_t **out, tn_error *error) {
  if (!json_is_array(given)) return tn_fail(error, TN_E_INVALID, "messages: expected an array");
  json_t *messages = json_array();
  *out = messages;
  for (size_t i = 0; i < json_array_size(given); i++) {
    json_t *message = json_array_get(given, i);
    if (!json_is_object(message)) return tn_fail(error, TN_E_INVALID, "messages[%zu]: expected an object", i);
    message = json_copy(message);
    bool good = message && fix_content(chat, message) && fix_calls(chat, message);
    if (json_array_append_new(messages, message) || !good)
      return tn_fail(error, TN_E_MEMORY, "out of memory for messages[%zu]", i);
  }
  return messages ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory for messages");
}

static tn_status set_list(json_t *context, const char *name, const json_t *list, tn_error *error) {
  if (list && !json_is_array(list) && !json_is_null(list))
    return tn_fail(error, TN_E_INVALID, "%s: expected an array", name);
  json_t *value = json_array_size(list) ? json_incref((json_t *)list) : json_null();
  if (json_object_set_new(context, name, value)) return tn_fail(error, TN_E_MEMORY, "out of memory for %s", name);
  return TN_OK;
}

static tn_status build_context(const tn_chat_template *chat, const tn_chat_request *request, json_t **out,
                               tn_error *error) {
  json_t *messages = NULL;
  if (request->variables && !json_is_object(request->variables))
    return tn_fail(error, TN_E_INVALID, "the template's variables: expected an object");
  json_t *context = request->variables ? json_copy((json_t *)request->variables) : json_object();
  *out = context;
  tn_status status = fix_messages(chat, request->messages, &messages, error);
  bool good = json_object_set_new(context, "messages", messages) == 0 &&
              json_object_set_new(context, "add_generation_prompt", json_boolean(request->add_generation_prompt)) == 0;
  for (size_t i = 0; i < request->token_count; i++)
    good &= json_object_set_new(context, request->tokens[i].name, json_string(request->tokens[i].text)) == 0;
  if (!status) status = set_list(context, "tools", request->tools, error);
  if (!status) status = set_list(context, "documents", request->documents, error);
  if (!status && !good) status = tn_fail(error, TN_E_MEMORY, "out of memory for the template's context");
  return status;
}

/* Trusted: the model's token strings, and the roles that templates write into their markup ("<|" + role + "|>"). */
static bool trusted(void *user, const char *key, size_t depth, const char *text, size_t size) {
  static const char *const roles[] = {"system",    "user",     "assistant", "tool",
                                      "developer", "function", "model",     "ipython"};
  const tn_chat_request *request = user;
  for (size_t i = 0; depth == 0 && i < request->token_count; i++)
    if (strcmp(request->tokens[i].name, key) == 0) return true;
  if (depth != 2 || strcmp(key, "role") != 0) return false;
  for (size_t i = 0; i < TN_COUNT(roles); i++)
    if (strlen(roles[i]) == size && memcmp(roles[i], text, size) == 0) return true;
  return false;
}

tn_jinja_time tn_chat_present(void) {
  tn_jinja_time now = {1970, 1, 1, 0, 0, 0};
  char text[64];
  tn_local_time("%Y %m %d %H %M %S", text, sizeof text);
  sscanf(text, "%d %d %d %d %d %d", &now.year, &now.month, &now.day, &now.hour, &now.minute, &now.second);
  return now;
}

tn_status tn_chat_template_render(const tn_chat_template *chat, const tn_chat_request *request, tn_jinja_output *output,
                                  tn_error *error) {
  json_t *json = NULL;
  const tn_jinja_value *context = NULL;
  tn_jinja_time present = tn_chat_present();
  const tn_jinja_options options = {.limits = request->limits, .now = request->now ? request->now : &present};
  const tn_jinja_trust trust = {trusted, (void *)request};
  *output = (tn_jinja_output){0};
  tn_jinja_values *values = tn_jinja_values_create(request->limits.memory_bytes);
  tn_status status = values ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory for the template's context");
  if (!status) status = build_context(chat, request, &json, error);
  if (!status) status = tn_jinja_value_convert(values, json, &trust, &context, error);
  if (!status) {
    status = tn_jinja_render(chat->jinja, context, &options, output, error);
    if (status) tn_error_prefix(error, "chat template");
  }
  json_decref(json);
  tn_jinja_values_destroy(values);
  return status;
}

/* ---- finding out what a template wants ---- */

/* Whether the conversation renders with these tools and the word "needle" is in the text. Without memory for it
 * nothing is known: *status. */
static bool shows_with(const tn_chat_template *chat, const json_t *messages, const json_t *tools, tn_status *status) {
  static const tn_chat_token tokens[] = {{"bos_token", ""}, {"eos_token", ""}, {"unk_token", ""}, {"pad_token", ""}};
  static const tn_jinja_time now = {2026, 1, 2, 3, 4, 5};
  tn_jinja_output output;
  const tn_chat_request request = {
      .messages = messages,
      .tools = tools,
      .tokens = tokens,
      .token_count = TN_COUNT(tokens),
      .now = &now,
      .add_generation_prompt = true,
      .limits = {.steps = 200000, .memory_bytes = (size_t)8 << 20, .output_bytes = (size_t)1 << 20}};
  if (*status != TN_OK) return false;
  tn_status rendered = tn_chat_template_render(chat, &request, &output, NULL);
  bool shown = rendered == TN_OK && strstr(output.text, "needle");
  if (rendered == TN_E_MEMORY) *status = TN_E_MEMORY;
  tn_jinja_output_finish(&output);
  return shown;
}

/* The same with a tool or, for templates that can't list tools, without. Takes `messages`. */
static bool shows_needle(const tn_chat_template *chat, json_t *messages, tn_status *status) {
  json_t *tools = json_pack("[{s:s, s:{s:s, s:s, s:{s:s, s:{}}}}]", "type", "function", "function", "name", "f",
                            "description", "d", "parameters", "type", "object", "properties");
  if (!tools || !messages) *status = TN_E_MEMORY;
  bool shown = shows_with(chat, messages, tools, status) || shows_with(chat, messages, NULL, status);
  json_decref(tools);
  json_decref(messages);
  return shown;
}

static json_t *plain_conversation(void) {
  return json_pack("[{s:s, s:s}]", "role", "user", "content", "needle");
}

/* A call and its answer; the needle is in the call's arguments. */
static json_t *tool_conversation(void) {
  return json_pack("[{s:s, s:s}, {s:s, s:n, s:[{s:s, s:s, s:{s:s, s:{s:s}}}]}, {s:s, s:s, s:s, s:s}]", "role", "user",
                   "content", "x", "role", "assistant", "content", "tool_calls", "id", "call00001", "type", "function",
                   "function", "name", "f", "arguments", "k", "needle", "role", "tool", "tool_call_id", "call00001",
                   "name", "f", "content", "y");
}

/* The usual forms (text content, "" beside tool calls, arguments as objects) stay unless they lose the text and another
 * one shows it. */
static tn_status find_forms(tn_chat_template *chat) {
  static const struct {
    bool null_content, text_arguments;
  } forms[] = {{false, false}, {false, true}, {true, false}, {true, true}};
  tn_status status = TN_OK;
  if (!shows_needle(chat, plain_conversation(), &status)) {
    chat->wants_parts = true;
    chat->wants_parts = shows_needle(chat, plain_conversation(), &status);
  }
  for (size_t i = 0; i < TN_COUNT(forms); i++) {
    chat->wants_null_content = forms[i].null_content;
    chat->wants_text_arguments = forms[i].text_arguments;
    if (shows_needle(chat, tool_conversation(), &status) || status != TN_OK) return status;
  }
  chat->wants_null_content = chat->wants_text_arguments = false;
  return status;
}

/* ---- */

tn_status tn_chat_template_create(const char *source, size_t size, const tn_jinja_limits *limits,
                                  tn_chat_template **out, tn_error *error) {
  *out = NULL;
  if (!source)
    return tn_fail(error, TN_E_NOT_FOUND, "the model has no chat template; name one (chatml) to use it all the same");
  tn_chat_template *chat = tn_calloc(1, sizeof *chat);
  if (!chat) return tn_fail(error, TN_E_MEMORY, "out of memory for a chat template");
  tn_status status = tn_jinja_compile(source, size, limits, &chat->jinja, error);
  if (status) {
    tn_error_prefix(error, "chat template");
    goto fail;
  }
  chat->source = tn_copy_text(source, size);
  if (!chat->source) {
    status = tn_fail(error, TN_E_MEMORY, "out of memory for a chat template");
    goto fail;
  }
  status = find_forms(chat);
  if (status) {
    tn_fail(error, status, "out of memory for a chat template");
    goto fail;
  }
  *out = chat;
  return TN_OK;
fail:
  tn_chat_template_destroy(chat);
  return status;
}

tn_status tn_chat_template_create_named(const char *name, tn_chat_template **out, tn_error *error) {
  *out = NULL;
  if (strcmp(name, "chatml") == 0) return tn_chat_template_create(chatml, sizeof chatml - 1, NULL, out, error);
  return tn_fail(error, TN_E_NOT_FOUND, "there is no built-in chat template \"%.60s\", only \"chatml\"", name);
}

void tn_chat_template_destroy(tn_chat_template *chat) {
  if (!chat) return;
  tn_jinja_template_destroy(chat->jinja);
  free(chat->source);
  free(chat);
}

const char *tn_chat_template_source(const tn_chat_template *chat) {
  return chat->source;
}
