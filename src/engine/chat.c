#include "engine/chat.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"

/* ---- the request's JSON ---- */

static tn_status load(const char *what, const char *text, bool is_array, json_t **value, tn_error *error) {
  json_error_t why;
  *value = json_loads(text, JSON_ALLOW_NUL, &why);
  if (!*value) return tn_fail(error, TN_E_INVALID, "%s: %s at byte %d", what, why.text, why.position);
  if (is_array ? json_is_array(*value) : json_is_object(*value)) return TN_OK;
  return tn_fail(error, TN_E_INVALID, "%s must be %s", what, is_array ? "an array" : "an object");
}

/* The texts of a list of text parts, one behind the other; NULL when it is something else. */
static json_t *join_parts(const json_t *parts) {
  if (!json_is_array(parts)) return NULL;
  tn_buf text;
  tn_buf_init(&text);
  json_t *joined = NULL;
  for (size_t i = 0; i < json_array_size(parts); i++) {
    const json_t *part = json_array_get(parts, i);
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *value = json_object_get(part, "text");
    if (!type || strcmp(type, "text") != 0 || !json_is_string(value)) goto done;
    tn_buf_append(&text, json_string_value(value), json_string_length(value));
  }
  if (!text.failed) joined = json_stringn(text.size ? text.data : "", text.size);
done:
  tn_buf_finish(&text);
  return joined;
}

static void normalise_content(json_t *message) {
  json_t *content = json_object_get(message, "content");
  if (json_is_null(content)) {
    json_object_set_new(message, "content", json_string(""));
    return;
  }
  json_t *joined = join_parts(content);
  if (joined) json_object_set_new(message, "content", joined);
}

static void normalise_calls(const json_t *message) {
  const json_t *calls = json_object_get(message, "tool_calls");
  for (size_t i = 0; i < json_array_size(calls); i++) {
    json_t *function = json_object_get(json_array_get(calls, i), "function");
    const json_t *arguments = json_object_get(function, "arguments");
    if (!json_is_string(arguments)) continue;
    json_t *parsed = json_loads(json_string_value(arguments), JSON_ALLOW_NUL, NULL);
    if (json_is_object(parsed)) json_object_set(function, "arguments", parsed);
    json_decref(parsed);
  }
}

static tn_status normalise(const json_t *messages, tn_error *error) {
  if (json_array_size(messages) == 0) return tn_fail(error, TN_E_INVALID, "messages is empty");
  for (size_t i = 0; i < json_array_size(messages); i++) {
    json_t *message = json_array_get(messages, i);
    if (!json_is_object(message)) return tn_fail(error, TN_E_INVALID, "messages[%zu] must be an object", i);
    if (!json_is_string(json_object_get(message, "role")))
      return tn_fail(error, TN_E_INVALID, "messages[%zu].role must be a text", i);
    normalise_content(message);
    normalise_calls(message);
  }
  return TN_OK;
}

/* ---- the template's variables ---- */

static const struct {
  const char *name;
  tn_token_role role;
} token_variables[] = {{"bos_token", TN_ROLE_BOS},
                       {"eos_token", TN_ROLE_EOS},
                       {"unk_token", TN_ROLE_UNKNOWN},
                       {"pad_token", TN_ROLE_PADDING}};

/* The variables that name special tokens are the model's own words; all else came with the request. */
static bool is_trusted(void *user, const char *key, size_t depth, const char *text, size_t size) {
  (void)text;
  (void)size;
  const json_t *extra = user;
  if (depth != 0 || json_object_get(extra, key)) return false;
  for (size_t i = 0; i < TN_COUNT(token_variables); i++)
    if (strcmp(key, token_variables[i].name) == 0) return true;
  return false;
}

static json_t *variables(const tn_model *model, json_t *messages, json_t *extra) {
  json_t *all = json_object();
  json_object_set(all, "messages", messages);
  json_object_set_new(all, "add_generation_prompt", json_true());
  json_object_set_new(all, "tools", json_null());
  json_object_set_new(all, "documents", json_null());
  const tn_tokenizer *tokenizer = tn_model_tokenizer(model);
  for (size_t i = 0; tokenizer && i < TN_COUNT(token_variables); i++) {
    int32_t id = tn_tokenizer_role(tokenizer, token_variables[i].role);
    if (id < 0) continue;
    tn_text text = tn_tokenizer_token_text(tokenizer, id);
    json_object_set_new(all, token_variables[i].name, json_stringn(text.data, text.bytes));
  }
  if (extra) json_object_update(all, extra);
  return all;
}

/* ---- rendering ---- */

static tn_jinja_time present(void) {
  char text[64];
  tn_jinja_time now = {1970, 1, 1, 0, 0, 0};
  tn_local_time("%Y %m %d %H %M %S", text, sizeof text);
  if (sscanf(text, "%d %d %d %d %d %d", &now.year, &now.month, &now.day, &now.hour, &now.minute, &now.second) != 6)
    now = (tn_jinja_time){1970, 1, 1, 0, 0, 0};
  return now;
}

static tn_status render(const tn_model *model, const json_t *context, json_t *extra, tn_jinja_output *output,
                        tn_error *error) {
  const tn_model_text *text = tn_model_texts(model);
  tn_jinja_template *jinja = NULL;
  tn_jinja_values *values = tn_jinja_values_create(0);
  if (!values) return tn_fail(error, TN_E_MEMORY, "no memory for the chat");
  const tn_jinja_value *value;
  const tn_jinja_trust trust = {is_trusted, extra};
  const tn_jinja_time now = present();
  tn_status status = tn_jinja_value_convert(values, context, &trust, &value, error);
  if (status == TN_OK) status = tn_jinja_compile(text->chat_template, text->chat_template_bytes, NULL, &jinja, error);
  if (status == TN_OK) status = tn_jinja_render(jinja, value, &(tn_jinja_options){.now = &now}, output, error);
  if (status != TN_OK) tn_error_prefix(error, "chat template");
  tn_jinja_template_destroy(jinja);
  tn_jinja_values_destroy(values);
  return status;
}

tn_status tn_chat_output(const tn_model *model, const char *messages_json, const char *extra_json,
                         tn_jinja_output *output, tn_error *error) {
  *output = (tn_jinja_output){0};
  if (!tn_model_texts(model)->chat_template) return tn_fail(error, TN_E_UNSUPPORTED, "the model has no chat template");
  json_t *messages = NULL, *extra = NULL, *context = NULL;
  tn_status status = load("messages", messages_json, true, &messages, error);
  if (status == TN_OK) status = normalise(messages, error);
  if (status == TN_OK && extra_json) status = load("the chat's variables", extra_json, false, &extra, error);
  if (status == TN_OK) {
    context = variables(model, messages, extra);
    status = render(model, context, extra, output, error);
  }
  json_decref(context);
  json_decref(messages);
  json_decref(extra);
  return status;
}
