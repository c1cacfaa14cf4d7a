/* A chat rendered by the model's template.
 *
 * The template is given `messages`, `add_generation_prompt` (true), `tools` and `documents` (null), `bos_token`,
 * `eos_token`, `unk_token` and `pad_token` as far as the tokenizer has them, and the members of `extra`, which go
 * before these. What clients send in several forms is brought to the one that all templates take: a content that is a
 * list of text parts becomes their text, a null content an empty text, the arguments of a tool call an object where
 * their text is one. Text from the request stays untrusted: special tokens in it are text (see jinja.h). */
#ifndef TENON_ENGINE_CHAT_H
#define TENON_ENGINE_CHAT_H

#include "model/model.h"
#include "text/jinja/jinja.h"

/* `messages`: JSON text of an array of objects; `extra`: of an object, or NULL. TN_E_UNSUPPORTED: the model has no
 * template; TN_E_INVALID: JSON that isn't that, or what the template says. The caller finishes `output`, in any case.
 */
tn_status tn_chat_output(const tn_model *model, const char *messages, const char *extra, tn_jinja_output *output,
                         tn_error *error);

#endif
