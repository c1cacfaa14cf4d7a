#include "engine/chat.h"

#include <jansson.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/memory.h"

static const struct {
  const char *name;
  tn_token_role role;
} TOKEN_NAMES[] = {{"bos_token", TN_ROLE_BOS},
                   {"eos_token", TN_ROLE_EOS},
                   {"unk_token", TN_ROLE_UNKNOWN},
                   {"pad_token", TN_ROLE_PADDING}};

/* The model's token strings. Their texts are copies, which the caller frees. */
typedef struct token_texts {
  tn_chat_token tokens[TN_COUNT(TOKEN_NAMES)];
  char *copies[TN_COUNT(TOKEN_NAMES)];
  size_t count;
} token_texts;

static bool read_tokens(const tn_tokenizer *tokenizer, token_texts *texts) {
  *texts = (token_texts){.count = 0};
  for (size_t i = 0; tokenizer && i < TN_COUNT(TOKEN_NAMES); i++) {
    int32_t id = tn_tokenizer_role(tokenizer, TOKEN_NAMES[i].role);
    if (id < 0) continue;
    tn_text text = tn_tokenizer_token_text(tokenizer, id);
    char *copy = tn_copy_text(text.data, text.bytes);
    if (!copy) return false;
    texts->copies[texts->count] = copy;
    texts->tokens[texts->count++] = (tn_chat_token){TOKEN_NAMES[i].name, copy};
  }
  return true;
}

static void free_tokens(token_texts *texts) {
  for (size_t i = 0; i < texts->count; i++) free(texts->copies[i]);
}

static tn_status load(const char *what, const char *text, bool is_array, json_t **value, tn_error *error) {
  json_error_t why;
  *value = json_loads(text, JSON_ALLOW_NUL, &why);
  if (!*value) return tn_fail(error, TN_E_INVALID, "%s: %s at byte %d", what, why.text, why.position);
  if (is_array ? json_is_array(*value) : json_is_object(*value)) return TN_OK;
  return tn_fail(error, TN_E_INVALID, "%s must be %s", what, is_array ? "an array" : "an object");
}

static tn_status render(const tn_model *model, const json_t *messages, json_t *extra, const json_t *tools,
                        tn_jinja_output *output, tn_error *error) {
  const json_t *prompt = json_object_get(extra, "add_generation_prompt");
  if (prompt && !json_is_boolean(prompt))
    return tn_fail(error, TN_E_INVALID, "add_generation_prompt must be true or false");
  token_texts texts;
  tn_chat_request request = {.messages = messages,
                             .tools = tools ? tools : json_object_get(extra, "tools"),
                             .documents = json_object_get(extra, "documents"),
                             .variables = extra,
                             .add_generation_prompt = !json_is_false(prompt)};
  tn_status status = TN_OK;
  if (!read_tokens(tn_model_tokenizer(model), &texts)) {
    status = tn_fail(error, TN_E_MEMORY, "no memory for the chat");
  } else {
    request.tokens = texts.tokens;
    request.token_count = texts.count;
    status = tn_chat_template_render(tn_model_texts(model)->chat, &request, output, error);
  }
  free_tokens(&texts);
  return status;
}

tn_status tn_chat_output(const tn_model *model, const char *messages_json, const char *extra_json, const json_t *tools,
                         tn_jinja_output *output, tn_error *error) {
  *output = (tn_jinja_output){0};
  const tn_model_text *text = tn_model_texts(model);
  if (!text->chat) return tn_fail(error, TN_E_UNSUPPORTED, "the model has no chat template: %s", text->no_chat.message);
  json_t *messages = NULL, *extra = NULL;
  tn_status status = load("messages", messages_json, true, &messages, error);
  if (status == TN_OK && json_array_size(messages) == 0) status = tn_fail(error, TN_E_INVALID, "messages is empty");
  if (status == TN_OK && extra_json) status = load("the chat's variables", extra_json, false, &extra, error);
  if (status == TN_OK) status = render(model, messages, extra, tools, output, error);
  json_decref(messages);
  json_decref(extra);
  return status;
}
