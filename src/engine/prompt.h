/* From what a request was given (tokens, text or a chat) to the tokens of its prompt. */
#ifndef TENON_ENGINE_PROMPT_H
#define TENON_ENGINE_PROMPT_H

#include "tenon/tenon.h"

struct tn_tokenizer;
struct tn_tool_use;

/* The model's tokenizer, or NULL and the reason why it has none. `model` NULL: none. */
const struct tn_tokenizer *tn_prompt_tokenizer(const tn_model *model, tn_error *error);

/* The prompt's tokens; free() them. TN_E_INVALID: not exactly one of tokens, messages and prompt is given, or a
 * template error; TN_E_UNSUPPORTED: the model has no tokenizer or template; TN_E_TOO_LONG: far more than `context`
 * holds, so that they weren't all counted. `model` may be NULL if tokens are given. A chat shows the tools of `use` and
 * tells it whether it leaves reasoning open. */
tn_status tn_prompt_tokens(const tn_model *model, const tn_request_options *options, uint32_t context,
                           struct tn_tool_use *use, int32_t **tokens, size_t *count, tn_error *error);

#endif
