/* From a request in another API's words to one in the words of chat completions.
 *
 * Everything is built through these functions: if one fails, for a fault of the request or for want of memory, the
 * conversion has failed, and what was built is not used. Values are taken over, also then. */
#ifndef TENON_SERVER_CONVERSION_H
#define TENON_SERVER_CONVERSION_H

#include <string.h>
#include "server/internal.h"

/* Whether a word is there and is that one. */
static inline bool tn_is(const char *word, const char *expected) {
  return word && !strcmp(word, expected);
}

typedef struct tn_conversion {
  json_t *chat;     /* the body for chat completions */
  json_t *messages; /* in it */
  /* the texts of the last message that was given some: content, and reasoning_content */
  json_t *open;
  struct {
    bool is_there;
    tn_buf text;
  } texts[2];
  tn_refusal refusal;
} tn_conversion;

/* False when memory is out. */
bool tn_conversion_init(tn_conversion *to);
void tn_conversion_finish(tn_conversion *to);

/* Sets a member of an object, or appends to an array. */
bool tn_convert_set(tn_conversion *to, json_t *object, const char *key, json_t *value);
bool tn_convert_append(tn_conversion *to, json_t *array, json_t *value);
/* Gives the chat's body the value of field `name` of `body`, if there is one, as `as`. */
bool tn_convert_copy(tn_conversion *to, const json_t *body, const char *name, const char *as);

/* The same for a list of names that mean the same in both APIs. */
bool tn_convert_copies(tn_conversion *to, const json_t *body, const char *const *names, size_t count);

/* Appends a message of a role, without content, to the conversation; NULL when that failed. */
json_t *tn_convert_message(tn_conversion *to, const char *role);
/* The last message if it is of that role, else a new one. */
json_t *tn_convert_turn(tn_conversion *to, const char *role);
typedef enum tn_message_text { TN_MESSAGE_CONTENT, TN_MESSAGE_REASONING } tn_message_text;
/* Appends text to the last message, behind a newline where there is some already. */
bool tn_convert_text(tn_conversion *to, json_t *message, tn_message_text which, const char *text);
/* Whether the last message has such text. */
bool tn_convert_has_text(const tn_conversion *to, const json_t *message, tn_message_text which);
/* All messages are there: to be called before the conversation is used. */
bool tn_convert_end_texts(tn_conversion *to);
/* Appends a call to a message of the assistant; `arguments`: an object, or JSON in a text. */
bool tn_convert_call(tn_conversion *to, json_t *message, const char *id, const char *name, json_t *arguments);
/* Offers a function, as `tool` describes it (`description`, `strict`); parameters may be NULL. */
bool tn_convert_tool(tn_conversion *to, const char *name, const json_t *tool, const json_t *parameters);
/* tool_choice: that function. */
bool tn_convert_choice(tn_conversion *to, const char *name);
/* response_format: that schema. */
bool tn_convert_schema(tn_conversion *to, const json_t *schema);

#endif
