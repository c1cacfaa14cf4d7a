/* Chat templates: from a conversation, as API clients send it, to the text the model expects.
 *
 * What clients send and what templates take differ in known ways; they are reconciled here and nowhere else:
 *  - `content` given as a list of text parts becomes one string; null or missing content becomes "", or
 *    null beside tool calls for a template that goes by that; a template that only takes lists of parts gets lists;
 *  - arguments of tool calls given as JSON text become objects, or the other way round for a template that only takes
 * text;
 *  - `tools` and `documents` are null when there are none.
 * Which way round a template wants things is found once, by rendering small conversations when it is created.
 *
 * The output says which bytes are the template's own (trusted): special tokens may be recognised only there. Besides
 * the template's text the model's token strings (`tn_chat_token`) and the usual names of roles are trusted. */
#ifndef TENON_TEXT_CHAT_TEMPLATE_H
#define TENON_TEXT_CHAT_TEMPLATE_H

#include "text/jinja/jinja.h"

struct json_t; /* jansson's */

typedef struct tn_chat_template tn_chat_template;

/* Compiles a template. `source` may be NULL for a model that has none: TN_E_NOT_FOUND. Else the errors of
 * tn_jinja_compile, with "chat template" in front. `limits` (may be NULL) hold for compiling. */
tn_status tn_chat_template_create(const char *source, size_t size, const tn_jinja_limits *limits,
                                  tn_chat_template **out, tn_error *error);

/* A built-in template, for a caller who asks for it by name: "chatml". TN_E_NOT_FOUND for other names. */
tn_status tn_chat_template_create_named(const char *name, tn_chat_template **out, tn_error *error);
void tn_chat_template_destroy(tn_chat_template *chat);

/* The template's source as it was given, zero-terminated; it lives as long as `chat`. For finding the model's syntax of
 * tool calls. */
const char *tn_chat_template_source(const tn_chat_template *chat);

/* A token string of the model that templates know by a name: {"bos_token", "<s>"}. */
typedef struct tn_chat_token {
  const char *name, *text;
} tn_chat_token;

typedef struct tn_chat_request {
  const struct json_t *messages;  /* an array of objects; not changed */
  const struct json_t *tools;     /* an array; NULL, null or empty: none */
  const struct json_t *documents; /* the same */
  const struct json_t *variables; /* further variables, an object, or NULL; the others here go before them */
  bool add_generation_prompt;
  const tn_chat_token *tokens;
  size_t token_count;
  const tn_jinja_time *now; /* NULL: the present */
  tn_jinja_limits limits;
} tn_chat_request;

/* Renders. Thread safe. `output` is overwritten; finish it in any case. Errors: TN_E_INVALID for a wrong request
 * ("messages[2]: expected an object") and when the template fails or raises ("chat template: line L, column C: ...";
 * then output->raised may hold the template's own words), TN_E_LIMIT, TN_E_MEMORY. */
tn_status tn_chat_template_render(const tn_chat_template *chat, const tn_chat_request *request, tn_jinja_output *output,
                                  tn_error *error);

/* The present, local time. */
tn_jinja_time tn_chat_present(void);

#endif
