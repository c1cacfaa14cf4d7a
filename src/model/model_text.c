#include "model/model_text.h"

#include <stdlib.h>
#include "base/error.h"
#include "base/os.h"
#include "model/gguf_vocab.h"

#define MOST_TEMPLATE ((size_t)4 << 20)

static tn_status read_tokenizer(tn_model_text *text, const tn_container *file, tn_container_use *use, tn_error *error) {
  tn_status status = tn_container_is_folder(file)
                         ? tn_tokenizer_open_json(&text->tokenizer, file->path, &text->no_tokenizer)
                         : tn_tokenizer_from_gguf(&text->tokenizer, file->gguf, &use->gguf, &text->no_tokenizer);
  if (status == TN_OK || status == TN_E_NOT_FOUND || status == TN_E_UNSUPPORTED) return TN_OK;
  *error = text->no_tokenizer;
  return status;
}

/* Of a folder: chat_template.jinja. (A template inside tokenizer_config.json is an older form of the same.) */
static tn_status read_folder_template(const tn_container *file, char **source, size_t *bytes, tn_error *error) {
  tn_buf path;
  tn_buf_init(&path);
  tn_buf_printf(&path, "%s/chat_template.jinja", file->path);
  tn_status status = TN_OK;
  if (path.failed)
    status = tn_fail(error, TN_E_MEMORY, "%s: out of memory", file->path);
  else if (tn_path_exists(path.data))
    status = tn_file_read(path.data, MOST_TEMPLATE, source, bytes, error);
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
