#include "engine/prompt.h"

#include <string.h>
#include "base/error.h"
#include "base/memory.h"

tn_status tn_prompt_tokens(const tn_model *model, const tn_request_options *options, int32_t **tokens, size_t *count,
                           tn_error *error) {
  *tokens = NULL;
  *count = 0;
  int given = (options->tokens != NULL) + (options->messages_json != NULL) + (options->prompt != NULL);
  if (given != 1)
    return tn_fail(error, TN_E_INVALID, "a request needs exactly one of tokens, messages and prompt; %d are given",
                   given);
  if (!options->tokens)
    return tn_fail(error, TN_E_UNSUPPORTED, "the model has no tokenizer, so a request needs tokens");
  (void)model;
  *tokens = tn_calloc(options->token_count, sizeof **tokens);
  if (!*tokens) return tn_fail(error, TN_E_MEMORY, "no memory for a prompt of %zu tokens", options->token_count);
  memcpy(*tokens, options->tokens, options->token_count * sizeof **tokens);
  *count = options->token_count;
  return TN_OK;
}
