/* A request of chat or text completions while it is read: from its fields to the engine's options. */
#ifndef TENON_SERVER_READING_H
#define TENON_SERVER_READING_H

#include "server/generation.h"

#define TN_MAX_STOPS 16

/* What the options point to lives in the body, in the arena or in the texts beside it; start with
 * {.options = TN_REQUEST_OPTIONS} and tn_arena_init. */
typedef struct tn_reading {
  tn_arena arena;
  tn_request_options options;
  const char *stops[TN_MAX_STOPS];
  char *messages, *extra, *schema, *tools, *tool_choice; /* JSON texts and words */
  tn_refusal refusal;
} tn_reading;
void tn_reading_finish(tn_reading *reading);

/* All fields but those of the prompt and tools: sampling, limits, what the answer is held to, how it is shown (into
 * `generation`). False: refused, as reading->refusal says. */
bool tn_read_options(tn_reading *reading, tn_generation *generation, const json_t *body);
/* Of a chat: tools, tool_choice, parallel_tool_calls. */
bool tn_read_tools(tn_reading *reading, const json_t *body);

#endif
