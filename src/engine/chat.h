/* A chat rendered by the model's template (text/chat_template.h), from the JSON text of a request. */
#ifndef TENON_ENGINE_CHAT_H
#define TENON_ENGINE_CHAT_H

#include "model/model.h"

/* `messages`: JSON text of an array of messages; `extra`: of an object, or NULL. Of its members `tools`, `documents`
 * and `add_generation_prompt` (true without it) are what templates know under these names, the others are further
 * variables; `tools` (or NULL) go before a member of that name. TN_E_UNSUPPORTED: the model has no template;
 * TN_E_INVALID: JSON that isn't that, or what the template says. The caller finishes `output` in any case. */
tn_status tn_chat_output(const tn_model *model, const char *messages, const char *extra, const struct json_t *tools,
                         tn_jinja_output *output, tn_error *error);

#endif
