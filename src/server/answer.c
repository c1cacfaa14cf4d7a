/* From events to JSON: chunks of a stream and whole answers, of both completion endpoints (see generation.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/utf8.h"
#include "server/generation.h"

/* ---- log-probabilities ---- */

static json_t *token_json(const tn_server *server, int32_t token, float logprob) {
  size_t bytes = 0;
  char *text = tn_token_text(server, token, &bytes);
  json_t *list = json_array(), *json = json_object();
  for (size_t i = 0; text && i < bytes; i++) json_array_append_new(list, json_integer((unsigned char)text[i]));
  json_object_set_new(json, "token", tn_json_text(text ? text : "", bytes));
  json_object_set_new(json, "logprob", json_real((double)logprob));
  json_object_set_new(json, "bytes", list);
  tn_free(text);
  return json;
}

static void add_chat_logprob(const tn_server *server, json_t *to, const tn_event *event, const tn_top_logprob *top) {
  json_t *entry = token_json(server, event->token, event->logprob), *list = json_array();
  for (uint32_t i = 0; i < event->top_count; i++)
    json_array_append_new(list, token_json(server, top[i].token, top[i].logprob));
  json_object_set_new(entry, "top_logprobs", list);
  json_array_append_new(json_object_get(to, "content"), entry);
}

static json_t *token_name(const tn_server *server, int32_t token) {
  size_t bytes = 0;
  char *text = tn_token_text(server, token, &bytes);
  json_t *json = tn_json_text(text ? text : "", bytes);
  tn_free(text);
  return json;
}

static void add_text_logprob(tn_choice *choice, json_t *to, const tn_event *event, const tn_top_logprob *top) {
  const tn_server *server = choice->generation->exchange->server;
  json_t *map = json_object();
  for (uint32_t i = 0; i < event->top_count; i++) {
    json_t *name = token_name(server, top[i].token);
    if (!json_object_get(map, json_string_value(name)))
      json_object_set_new(map, json_string_value(name), json_real((double)top[i].logprob));
    json_decref(name);
  }
  json_array_append_new(json_object_get(to, "tokens"), token_name(server, event->token));
  json_array_append_new(json_object_get(to, "token_logprobs"), json_real((double)event->logprob));
  json_array_append_new(json_object_get(to, "top_logprobs"), map);
  json_array_append_new(json_object_get(to, "text_offset"), json_integer((json_int_t)choice->characters));
}

static json_t *empty_logprobs(const tn_generation *generation) {
  if (generation->is_chat) return json_pack("{s:[], s:n}", "content", "refusal");
  return json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs", "top_logprobs", "text_offset");
}

/* Adds the event's token to *logprobs, which is made if it is NULL. */
static void add_logprob(tn_choice *choice, json_t **logprobs, const tn_event *event, const tn_top_logprob *top) {
  const tn_generation *generation = choice->generation;
  if (!generation->has_logprobs || event->token < 0) return;
  if (!*logprobs) *logprobs = empty_logprobs(generation);
  if (generation->is_chat)
    add_chat_logprob(generation->exchange->server, *logprobs, event, top);
  else
    add_text_logprob(choice, *logprobs, event, top);
}

/* ---- parts ---- */

static json_t *head(const tn_generation *generation, json_t *choices) {
  const char *object = !generation->is_chat    ? "text_completion"
                       : generation->is_stream ? "chat.completion.chunk"
                                               : "chat.completion";
  return json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", generation->id, "object", object, "created",
                   (json_int_t)generation->created, "model", generation->exchange->server->options.name, "choices",
                   choices);
}

static json_t *usage(const tn_generation *generation) {
  json_int_t prompt = 0, cached = 0, answered = 0;
  size_t answers = generation->count / generation->prompts;
  for (size_t i = 0; i < generation->count; i++) {
    const tn_output *end = &generation->choices[i].end;
    answered += end->completion_tokens;
    if (i % answers) continue;
    prompt += end->prompt_tokens;
    cached += end->cached_tokens;
  }
  return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", prompt, "completion_tokens", answered, "total_tokens",
                   prompt + answered, "prompt_tokens_details", "cached_tokens", cached);
}

static const char *finish_reason(const tn_choice *choice) {
  return choice->end.finish == TN_FINISH_LENGTH ? "length" : "stop";
}

static size_t count_characters(const char *text, size_t bytes) {
  size_t count = 0;
  uint32_t codepoint;
  for (size_t at = 0; at < bytes; count++) at += tn_utf8_step(text + at, bytes - at, &codepoint);
  return count;
}

/* ---- a stream ---- */

static void send_event(tn_generation *generation, json_t *json) {
  char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
  json_decref(json);
  if (!text) generation->out.failed = true;
  tn_buf_puts(&generation->out, "data: ");
  tn_buf_puts(&generation->out, text ? text : "");
  tn_buf_puts(&generation->out, "\n\n");
  free(text);
}

/* One chunk of a choice; `delta` is the text (or the delta of a chat) and taken over, like logprobs. */
static void send_chunk(tn_choice *choice, json_t *delta, json_t *logprobs, const char *finish) {
  tn_generation *generation = choice->generation;
  json_t *one = json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)(choice - generation->choices),
                          generation->is_chat ? "delta" : "text", delta, "logprobs", logprobs ? logprobs : json_null(),
                          "finish_reason", finish);
  send_event(generation, head(generation, json_pack("[o]", one)));
}

static json_t *delta_of(const tn_generation *generation, const char *text, size_t bytes) {
  json_t *json = tn_json_text(text, bytes);
  return generation->is_chat ? json_pack("{s:o}", "content", json) : json;
}

static void begin_choice(tn_choice *choice) {
  tn_generation *generation = choice->generation;
  choice->has_begun = true;
  if (generation->is_chat && generation->is_stream)
    send_chunk(choice, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL, NULL);
  if (!choice->echo) return;
  size_t bytes = strlen(choice->echo);
  choice->characters = count_characters(choice->echo, bytes);
  if (generation->is_stream)
    send_chunk(choice, delta_of(generation, choice->echo, bytes), NULL, NULL);
  else
    tn_buf_append(&choice->text, choice->echo, bytes);
}

static void take_event(tn_choice *choice, const tn_event *event, const tn_top_logprob *top, const char *text) {
  tn_generation *generation = choice->generation;
  json_t *logprobs = NULL;
  if (!choice->has_begun) begin_choice(choice);
  add_logprob(choice, generation->is_stream ? &logprobs : &choice->logprobs, event, top);
  if (!generation->is_stream)
    tn_buf_append(&choice->text, text, event->text_bytes);
  else if (event->text_bytes || logprobs)
    send_chunk(choice, delta_of(generation, text, event->text_bytes), logprobs, NULL);
  if (generation->has_logprobs) choice->characters += count_characters(text, event->text_bytes);
}

static void take_events(tn_choice *choice) {
  tn_top_logprob top[20];
  while (choice->taken < choice->events.size) {
    tn_event event;
    const char *at = choice->events.data + choice->taken;
    memcpy(&event, at, sizeof event);
    at += sizeof event;
    size_t top_bytes = event.top_count * sizeof *top;
    memcpy(top, at, top_bytes < sizeof top ? top_bytes : sizeof top);
    take_event(choice, &event, top, at + top_bytes);
    size_t bytes = sizeof event + top_bytes + event.text_bytes;
    choice->taken += bytes;
    choice->generation->unread -= bytes;
  }
  tn_buf_clear(&choice->events);
  choice->taken = 0;
}

/* The end of a choice's stream, once. */
static void end_choice(tn_choice *choice) {
  tn_generation *generation = choice->generation;
  if (!choice->is_done || choice->has_ended) return;
  if (!choice->has_begun) begin_choice(choice);
  choice->has_ended = true;
  send_chunk(choice, generation->is_chat ? json_object() : json_string(""), NULL, finish_reason(choice));
}

static void end_stream(tn_generation *generation) {
  if (generation->has_usage) {
    json_t *last = head(generation, json_array());
    json_object_set_new(last, "usage", usage(generation));
    send_event(generation, last);
  }
  tn_buf_puts(&generation->out, "data: [DONE]\n\n");
  generation->is_closed = true;
}

void tn_answer_take(tn_generation *generation) {
  unsigned status;
  if (generation->is_closed) return;
  for (size_t i = 0; i < generation->count; i++) take_events(generation->choices + i);
  if (!generation->is_stream) return;
  json_t *error = tn_answer_error(generation, &status);
  if (error) {
    send_event(generation, error);
    generation->is_closed = true;
    return;
  }
  for (size_t i = 0; i < generation->count; i++) end_choice(generation->choices + i);
  if (generation->done == generation->count) end_stream(generation);
}

/* ---- whole ---- */

json_t *tn_answer_whole(tn_generation *generation) {
  json_t *choices = json_array();
  tn_answer_take(generation);
  for (size_t i = 0; i < generation->count; i++) {
    tn_choice *choice = generation->choices + i;
    if (!choice->has_begun) begin_choice(choice);
    json_t *text = tn_json_text(choice->text.size ? choice->text.data : "", choice->text.size);
    json_t *logprobs = choice->logprobs ? json_incref(choice->logprobs) : json_null();
    json_t *body =
        generation->is_chat ? json_pack("{s:s, s:o, s:n}", "role", "assistant", "content", text, "refusal") : text;
    json_array_append_new(
        choices, json_pack("{s:i, s:o, s:o, s:s}", "index", (int)i, generation->is_chat ? "message" : "text", body,
                           "logprobs", logprobs, "finish_reason", finish_reason(choice)));
  }
  json_t *answer = head(generation, choices);
  json_object_set_new(answer, "usage", usage(generation));
  return answer;
}

json_t *tn_answer_error(const tn_generation *generation, unsigned *status) {
  if (generation->is_overflowed) {
    *status = 503;
    return tn_http_error_json(*status, NULL, NULL, "no memory for the answer");
  }
  for (size_t i = 0; i < generation->count; i++) {
    const tn_choice *choice = generation->choices + i;
    if (!choice->is_done) continue;
    if (choice->end.kind == TN_OUTPUT_ERROR) {
      *status = tn_http_status(choice->end.error.status);
      return tn_http_error_json(*status, NULL, NULL, choice->end.error.message);
    }
    if (choice->end.finish == TN_FINISH_CANCELLED) {
      *status = 503;
      return tn_http_error_json(*status, NULL, "cancelled", "the server is stopping");
    }
  }
  return NULL;
}
