#include "server/conversion.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"

static bool out_of_memory(tn_conversion *to) {
  return tn_refuse(&to->refusal, NULL, TN_E_MEMORY, "no memory for the request");
}

bool tn_conversion_init(tn_conversion *to) {
  *to = (tn_conversion){.chat = json_object(), .messages = json_array()};
  for (size_t i = 0; i < TN_COUNT(to->texts); i++) tn_buf_init(&to->texts[i].text);
  return tn_convert_set(to, to->chat, "messages", to->messages);
}

void tn_conversion_finish(tn_conversion *to) {
  json_decref(to->chat);
  for (size_t i = 0; i < TN_COUNT(to->texts); i++) tn_buf_finish(&to->texts[i].text);
}

bool tn_convert_set(tn_conversion *to, json_t *object, const char *key, json_t *value) {
  return json_object_set_new(object, key, value) == 0 || out_of_memory(to);
}

bool tn_convert_append(tn_conversion *to, json_t *array, json_t *value) {
  return json_array_append_new(array, value) == 0 || out_of_memory(to);
}

bool tn_convert_copy(tn_conversion *to, const json_t *body, const char *name, const char *as) {
  json_t *value = tn_field(body, name);
  return !value || tn_convert_set(to, to->chat, as, json_incref(value));
}

bool tn_convert_copies(tn_conversion *to, const json_t *body, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!tn_convert_copy(to, body, names[i], names[i])) return false;
  return true;
}

json_t *tn_convert_turn(tn_conversion *to, const char *role) {
  size_t count = json_array_size(to->messages);
  json_t *last = count ? json_array_get(to->messages, count - 1) : NULL;
  return last && !strcmp(json_string_value(json_object_get(last, "role")), role) ? last : tn_convert_message(to, role);
}

json_t *tn_convert_message(tn_conversion *to, const char *role) {
  json_t *message = json_pack("{s:s, s:n}", "role", role, "content");
  return tn_convert_append(to, to->messages, message) ? message : NULL;
}

bool tn_convert_end_texts(tn_conversion *to) {
  static const char *const keys[] = {"content", "reasoning_content"};
  bool good = true;
  for (size_t i = 0; i < TN_COUNT(keys); i++) {
    tn_buf *text = &to->texts[i].text;
    if (text->failed) good = out_of_memory(to);
    if (good && to->texts[i].is_there)
      good = tn_convert_set(to, to->open, keys[i], json_stringn(text->size ? text->data : "", text->size));
    tn_buf_clear(text);
    to->texts[i].is_there = false;
  }
  to->open = NULL;
  return good;
}

bool tn_convert_text(tn_conversion *to, json_t *message, tn_message_text which, const char *text) {
  if (to->open != message && !tn_convert_end_texts(to)) return false;
  to->open = message;
  if (to->texts[which].is_there) tn_buf_putc(&to->texts[which].text, '\n');
  to->texts[which].is_there = true;
  return tn_buf_puts(&to->texts[which].text, text) || out_of_memory(to);
}

bool tn_convert_has_text(const tn_conversion *to, const json_t *message, tn_message_text which) {
  return to->open == message && to->texts[which].is_there;
}

/* The array of that name, made if it isn't there. */
static json_t *array_of(json_t *object, const char *key) {
  json_t *array = json_object_get(object, key);
  if (!array) {
    array = json_array();
    if (json_object_set_new(object, key, array) != 0) return NULL;
  }
  return array;
}

bool tn_convert_call(tn_conversion *to, json_t *message, const char *id, const char *name, json_t *arguments) {
  json_t *calls = array_of(message, "tool_calls");
  return tn_convert_append(to, calls,
                           json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id, "type", "function", "function", "name", name,
                                     "arguments", arguments));
}

bool tn_convert_tool(tn_conversion *to, const char *name, const json_t *tool, const json_t *parameters) {
  json_t *strict = tn_field(tool, "strict");
  json_t *function = json_pack("{s:s, s:O*, s:O*, s:O*}", "name", name, "description", tn_field(tool, "description"),
                               "parameters", parameters, "strict", json_is_false(strict) ? NULL : strict);
  json_t *offered = json_pack("{s:s, s:o}", "type", "function", "function", function);
  return tn_convert_append(to, array_of(to->chat, "tools"), offered);
}

bool tn_convert_choice(tn_conversion *to, const char *name) {
  return tn_convert_set(to, to->chat, "tool_choice",
                        json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", name));
}

bool tn_convert_schema(tn_conversion *to, const json_t *schema) {
  return tn_convert_set(
      to, to->chat, "response_format",
      json_pack("{s:s, s:{s:s, s:O}}", "type", "json_schema", "json_schema", "name", "answer", "schema", schema));
}
