#include "engine/prompt.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "engine/chat.h"
#include "engine/parts.h"

const tn_tokenizer *tn_prompt_tokenizer(const tn_model *model, tn_error *error) {
  const tn_tokenizer *tokenizer = model ? tn_model_tokenizer(model) : NULL;
  if (tokenizer) return tokenizer;
  const char *why = model ? tn_model_texts(model)->no_tokenizer.message : "";
  tn_fail(error, TN_E_UNSUPPORTED, "the model has no tokenizer%s%s", *why ? ": " : "", why);
  return NULL;
}

/* Hands the ids over, or frees them. */
static tn_status give(tn_status status, tn_ids *ids, int32_t **tokens, size_t *count) {
  if (status != TN_OK) {
    free(ids->data);
    return status;
  }
  *tokens = ids->data;
  *count = ids->count;
  return TN_OK;
}

/* Prompts up to this are counted whole, for the message that tells how much too long they are. */
static size_t counted(uint32_t context) {
  return (size_t)context * 4 + 65536;
}

static tn_status encode(const tn_tokenizer *tokenizer, const tn_span *spans, size_t span_count, unsigned flags,
                        uint32_t context, tn_ids *ids, tn_error *error) {
  ids->limit = counted(context);
  tn_status status = tn_tokenizer_encode(tokenizer, spans, span_count, flags, ids, error);
  if (status != TN_E_TOO_LONG) return status;
  return tn_fail(error, status, "the prompt has more than %zu tokens; the context holds %u, one of them for the answer",
                 ids->limit, context);
}

/* Plain text, with what the tokenizer puts in front of texts. Special tokens in it stay text. */
static tn_status encode_text(const tn_model *model, const char *text, size_t bytes, uint32_t context, int32_t **tokens,
                             size_t *count, tn_error *error) {
  const tn_tokenizer *tokenizer = tn_prompt_tokenizer(model, error);
  if (!tokenizer) return TN_E_UNSUPPORTED;
  tn_ids ids = {0};
  const tn_span span = {{text, bytes}, false};
  return give(encode(tokenizer, &span, 1, TN_ENCODE_BOS, context, &ids, error), &ids, tokens, count);
}

/* Whether the template's own words at the end open reasoning. */
static bool opens_reasoning(const tn_tool_use *use, const tn_jinja_output *output) {
  const tn_jinja_span *last = output->span_count ? &output->spans[output->span_count - 1] : NULL;
  if (!use->is_wanted || !last || !last->trusted) return false;
  return tn_prompt_opens_reasoning(use->template_source, (tn_text){output->text + last->offset, last->size});
}

/* A rendered chat: the template says itself what stands in front. */
static tn_status encode_chat(const tn_model *model, const tn_request_options *options, uint32_t context,
                             tn_tool_use *use, int32_t **tokens, size_t *count, tn_error *error) {
  const tn_tokenizer *tokenizer = tn_prompt_tokenizer(model, error);
  if (!tokenizer) return TN_E_UNSUPPORTED;
  tn_jinja_output output;
  tn_ids ids = {0};
  tn_span *spans = NULL;
  const json_t *tools = use->tools ? tn_tool_list_json(use->tools) : NULL;
  tn_status status = tn_chat_output(model, options->messages_json, options->extra_json, tools, &output, error);
  if (status == TN_OK) {
    spans = tn_calloc(output.span_count, sizeof *spans);
    if (!spans) status = tn_fail(error, TN_E_MEMORY, "no memory for the chat's tokens");
  }
  if (status == TN_OK) {
    for (size_t i = 0; i < output.span_count; i++) {
      const tn_jinja_span *from = &output.spans[i];
      spans[i] = (tn_span){{output.text + from->offset, from->size}, from->trusted};
    }
    status = encode(tokenizer, spans, output.span_count, 0, context, &ids, error);
    use->opens_reasoning = opens_reasoning(use, &output);
  }
  free(spans);
  tn_jinja_output_finish(&output);
  return give(status, &ids, tokens, count);
}

static tn_status copy_tokens(const tn_request_options *options, int32_t **tokens, size_t *count, tn_error *error) {
  *tokens = tn_calloc(options->token_count, sizeof **tokens);
  if (!*tokens) return tn_fail(error, TN_E_MEMORY, "no memory for a prompt of %zu tokens", options->token_count);
  if (options->token_count) memcpy(*tokens, options->tokens, options->token_count * sizeof **tokens);
  *count = options->token_count;
  return TN_OK;
}

tn_status tn_prompt_tokens(const tn_model *model, const tn_request_options *options, uint32_t context, tn_tool_use *use,
                           int32_t **tokens, size_t *count, tn_error *error) {
  *tokens = NULL;
  *count = 0;
  int given = (options->tokens != NULL) + (options->messages_json != NULL) + (options->prompt != NULL);
  if (given != 1)
    return tn_fail(error, TN_E_INVALID, "a request needs exactly one of tokens, messages and prompt; %d are given",
                   given);
  if (options->tokens) return copy_tokens(options, tokens, count, error);
  if (options->messages_json) return encode_chat(model, options, context, use, tokens, count, error);
  size_t bytes = options->prompt_bytes ? options->prompt_bytes : strlen(options->prompt);
  return encode_text(model, options->prompt, bytes, context, tokens, count, error);
}
