#include "model/model_text.h"

#include <stdlib.h>
#include "base/error.h"
#include "base/os.h"
#include "model/gguf_vocab.h"

#define MOST_CONFIG ((size_t)64 << 20) /* of tokenizer_config.json, which may list many tokens */
#define MOST_TEMPLATE ((size_t)4 << 20)

static tn_status read_tokenizer(tn_model_text *text, const tn_container *file, tn_container_use *use, tn_error *error) {
  tn_status status = tn_container_is_folder(file)
                         ? tn_tokenizer_open_json(&text->tokenizer, file->path, &text->no_tokenizer)
                         : tn_tokenizer_from_gguf(&text->tokenizer, file->gguf, &use->gguf, &text->no_tokenizer);
  if (status == TN_OK || status == TN_E_NOT_FOUND || status == TN_E_UNSUPPORTED) return TN_OK;
  *error = text->no_tokenizer;
  return status;
}

/* One of several templates, {"name": ..., "template": ...}: the one called "default", else the first. */
static void read_named_template(tn_json *json, char **source, size_t *bytes) {
  tn_text key, value;
  char *template = NULL;
  size_t template_bytes = 0;
  bool is_default = false;
  if (!tn_json_object(json)) return;
  while (tn_json_key(json, &key)) {
    if (tn_text_is(key, "name") && tn_json_string(json, &value)) {
      is_default = tn_text_is(value, "default");
    } else if (tn_text_is(key, "template") && !template && tn_json_string(json, &value)) {
      template = tn_copy_text(value.data, value.bytes);
      template_bytes = value.bytes;
      if (!template) tn_json_fail(json, TN_E_MEMORY, "out of memory");
    } else if (json->status == TN_OK) {
      tn_json_skip(json, NULL);
    }
  }
  if (!template || (*source && !is_default)) {
    free(template);
    return;
  }
  free(*source);
  *source = template;
  *bytes = template_bytes;
}

/* chat_template of tokenizer_config.json: a text, or a list of named ones. */
static tn_status read_config_template(const char *path, char **source, size_t *bytes, tn_error *error) {
  char *data;
  size_t size;
  tn_text key, value;
  tn_json json;
  tn_status status = tn_file_read(path, MOST_CONFIG, &data, &size, error);
  if (status != TN_OK) return status;
  tn_json_init(&json, data, size, error);
  if (tn_json_object(&json))
    while (tn_json_key(&json, &key)) {
      bool is_template = tn_text_is(key, "chat_template") && !*source;
      if (is_template && tn_json_peek(&json) == TN_JSON_STRING && tn_json_string(&json, &value)) {
        *source = tn_copy_text(value.data, value.bytes);
        *bytes = value.bytes;
        if (!*source) tn_json_fail(&json, TN_E_MEMORY, "out of memory");
      } else if (is_template && tn_json_peek(&json) == TN_JSON_ARRAY && tn_json_array(&json)) {
        while (tn_json_item(&json)) read_named_template(&json, source, bytes);
      } else if (json.status == TN_OK) {
        tn_json_skip(&json, NULL);
      }
    }
  status = tn_json_end(&json);
  free(data);
  if (status == TN_OK) return TN_OK;
  free(*source);
  *source = NULL;
  *bytes = 0;
  return tn_error_prefix(error, "%s", path);
}

/* Of a folder: chat_template.jinja, or else chat_template in tokenizer_config.json. The caller frees *source. */
static tn_status read_folder_template(const tn_container *file, char **source, size_t *bytes, tn_error *error) {
  tn_buf path;
  tn_buf_init(&path);
  tn_buf_printf(&path, "%s/chat_template.jinja", file->path);
  tn_status status = TN_OK;
  bool found = !path.failed && tn_path_exists(path.data);
  if (found) status = tn_file_read(path.data, MOST_TEMPLATE, source, bytes, error);
  if (!found) {
    tn_buf_clear(&path);
    tn_buf_printf(&path, "%s/tokenizer_config.json", file->path);
    if (!path.failed && tn_path_exists(path.data)) status = read_config_template(path.data, source, bytes, error);
  }
  if (path.failed) status = tn_fail(error, TN_E_MEMORY, "%s: out of memory", file->path);
  tn_buf_finish(&path);
  return status;
}

/* Opens the template. One that can't be compiled is none: the model may still be used without it. */
static tn_status read_template(tn_model_text *text, const tn_container *file, tn_container_use *use, tn_error *error) {
  char *owned = NULL;
  tn_text source = {0};
  tn_status status = TN_OK;
  if (tn_container_is_folder(file)) {
    status = read_folder_template(file, &owned, &source.bytes, error);
    source.data = owned;
  } else {
    status = tn_gguf_opt_string(file->gguf, &use->gguf, "tokenizer.chat_template", &source, error);
  }
  if (status == TN_OK) {
    const char *given = source.bytes ? source.data : NULL;
    status = tn_chat_template_create(given, source.bytes, NULL, &text->chat, &text->no_chat);
    if (status == TN_E_MEMORY) *error = text->no_chat;
    if (status != TN_E_MEMORY) status = TN_OK;
  }
  free(owned);
  return status;
}

tn_status tn_model_text_open(tn_model_text *text, const tn_container *file, tn_container_use *use, tn_error *error) {
  *text = (tn_model_text){0};
  tn_status status = read_tokenizer(text, file, use, error);
  if (status == TN_OK) status = read_template(text, file, use, error);
  if (status != TN_OK) tn_model_text_close(text);
  return status;
}

void tn_model_text_close(tn_model_text *text) {
  tn_tokenizer_destroy(text->tokenizer);
  tn_chat_template_destroy(text->chat);
  *text = (tn_model_text){0};
}
