/* The text functions of tenon.h: tokenize, detokenize, render a chat. */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "engine/chat.h"
#include "engine/prompt.h"

tn_status tn_tokenize(const tn_model *model, const char *text, size_t bytes, uint32_t flags, int32_t **ids,
                      size_t *count, tn_error *error) {
  *ids = NULL;
  *count = 0;
  const tn_tokenizer *tokenizer = tn_prompt_tokenizer(model, error);
  if (!tokenizer) return TN_E_UNSUPPORTED;
  tn_ids made = {0};
  const tn_span span = {{text, bytes}, flags & TN_TOKENIZE_SPECIAL};
  unsigned around = flags & TN_TOKENIZE_NO_BOS ? 0 : TN_ENCODE_BOS | TN_ENCODE_EOS;
  tn_status status = tn_tokenizer_encode(tokenizer, &span, 1, around, &made, error);
  if (status != TN_OK) {
    free(made.data);
    return status;
  }
  *ids = made.data;
  *count = made.count;
  return TN_OK;
}

tn_status tn_detokenize(const tn_model *model, const int32_t *ids, size_t count, char **text, size_t *bytes,
                        tn_error *error) {
  *text = NULL;
  *bytes = 0;
  const tn_tokenizer *tokenizer = tn_prompt_tokenizer(model, error);
  if (!tokenizer) return TN_E_UNSUPPORTED;
  for (size_t i = 0; i < count; i++)
    if (ids[i] < 0 || (size_t)ids[i] >= tn_tokenizer_size(tokenizer))
      return tn_fail(error, TN_E_INVALID, "token %zu is %d; the vocabulary has %zu", i, ids[i],
                     tn_tokenizer_size(tokenizer));
  tn_buf out;
  tn_buf_init(&out);
  bool is_whole = tn_tokenizer_decode(tokenizer, ids, count, 0, &out);
  *bytes = out.size;
  *text = is_whole ? tn_buf_take(&out) : NULL;
  if (*text) return TN_OK;
  *bytes = 0;
  tn_buf_finish(&out);
  return tn_fail(error, TN_E_MEMORY, "no memory for the text of %zu tokens", count);
}

tn_status tn_chat_render(const tn_model *model, const char *messages_json, const char *extra_json, char **text,
                         size_t *bytes, tn_error *error) {
  *text = NULL;
  *bytes = 0;
  tn_jinja_output output;
  tn_status status = tn_chat_output(model, messages_json, extra_json, NULL, &output, error);
  if (status == TN_OK) {
    *text = tn_copy_text(output.text, output.size);
    *bytes = *text ? output.size : 0;
    if (!*text) status = tn_fail(error, TN_E_MEMORY, "no memory for a chat of %zu bytes", output.size);
  }
  tn_jinja_output_finish(&output);
  return status;
}
