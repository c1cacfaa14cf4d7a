#include "model/model_text.h"

#include <stdlib.h>
#include <string.h>
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
static tn_status read_folder_template(tn_model_text *text, const tn_container *file, tn_error *error) {
  tn_buf path;
  tn_buf_init(&path);
  tn_buf_printf(&path, "%s/chat_template.jinja", file->path);
  tn_status status = TN_OK;
  if (path.failed)
    status = tn_fail(error, TN_E_MEMORY, "%s: out of memory", file->path);
  else if (tn_path_exists(path.data))
    status = tn_file_read(path.data, MOST_TEMPLATE, &text->chat_template, &text->chat_template_bytes, error);
  tn_buf_finish(&path);
  return status;
}

static tn_status read_template(tn_model_text *text, const tn_container *file, tn_container_use *use, tn_error *error) {
  if (tn_container_is_folder(file)) return read_folder_template(text, file, error);
  tn_text source = TN_TEXT("");
  tn_status status = tn_gguf_opt_string(file->gguf, &use->gguf, "tokenizer.chat_template", &source, error);
  if (status != TN_OK || !source.bytes) return status;
  text->chat_template = tn_copy_text(source.data, source.bytes);
  text->chat_template_bytes = source.bytes;
  return text->chat_template ? TN_OK : tn_fail(error, TN_E_MEMORY, "%s: out of memory", file->path);
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
  free(text->chat_template);
  *text = (tn_model_text){0};
}
