/* From the engine's events to an answer, as far as all surfaces do the same (see generation.h). */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "server/generation.h"

void tn_answer_send(tn_generation *generation, const char *name, json_t *json) {
  tn_buf *out = &generation->out;
  char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
  json_decref(json);
  if (!text) out->failed = true;
  if (name) tn_buf_printf(out, "event: %s\n", name);
  tn_buf_puts(out, "data: ");
  tn_buf_puts(out, text ? text : "");
  tn_buf_puts(out, "\n\n");
  free(text);
}

json_t *tn_answer_joined(const tn_choice *choice, uint32_t kind) {
  tn_buf text;
  tn_buf_init(&text);
  if (kind == TN_OUTPUT_TEXT && choice->echo) tn_buf_append(&text, choice->echo, choice->echo_bytes);
  for (size_t i = 0; i < choice->piece_count; i++) {
    const tn_piece *piece = choice->pieces + i;
    if (piece->kind == kind && piece->text.size) tn_buf_append(&text, piece->text.data, piece->text.size);
  }
  json_t *json = text.failed ? NULL : tn_json_text(text.size ? text.data : "", text.size);
  tn_buf_finish(&text);
  return json;
}

tn_usage tn_answer_usage(const tn_generation *generation) {
  tn_usage usage = {0};
  size_t answers = generation->count / generation->prompts;
  for (size_t i = 0; i < generation->count; i++) {
    const tn_choice *choice = generation->choices + i;
    usage.answered += choice->end.completion_tokens;
    usage.reasoning += choice->reasoning_tokens;
    if (i % answers) continue;
    usage.prompt += choice->end.prompt_tokens;
    usage.cached += choice->end.cached_tokens;
  }
  return usage;
}

/* ---- events ---- */

/* Adds an event to the pieces: to the last one if that is of its kind and no other call. */
static void keep(tn_choice *choice, const tn_event *event) {
  tn_piece *last = choice->piece_count ? choice->pieces + choice->piece_count - 1 : NULL;
  if (event->kind != TN_OUTPUT_TOOL_CALL && !event->text_bytes) return;
  if (!last || last->kind != event->kind || event->begins_call) {
    last = TN_PUSH(choice->pieces, choice->piece_count, choice->piece_capacity);
    if (!last) {
      choice->generation->is_overflowed = true;
      return;
    }
    *last = (tn_piece){.kind = event->kind};
    tn_buf_init(&last->text);
    tn_buf_init(&last->name);
    memcpy(last->id, event->id, sizeof last->id);
    if (event->name_bytes) tn_buf_append(&last->name, event->name, event->name_bytes);
  }
  if (event->text_bytes) tn_buf_append(&last->text, event->text, event->text_bytes);
  last->is_open = *choice->open_call != 0;
  if (last->text.failed || last->name.failed) choice->generation->is_overflowed = true;
}

static void begin(tn_choice *choice) {
  if (choice->has_begun) return;
  choice->has_begun = true;
  choice->generation->surface->begin_choice(choice);
}

/* Makes one thing of calls that come whole and calls that come in pieces, behind which they come whole again. */
static void join_call(tn_choice *choice, tn_event *event) {
  bool is_known = !strcmp(choice->open_call, event->id);
  bool is_piece = event->kind == TN_OUTPUT_TOOL_CALL_DELTA;
  event->begins_call = !is_known;
  if (is_known && !is_piece) event->text_bytes = 0;
  event->kind = TN_OUTPUT_TOOL_CALL;
  if (is_piece)
    memcpy(choice->open_call, event->id, sizeof choice->open_call);
  else
    *choice->open_call = 0;
  choice->calls += event->begins_call;
}

static void take_event(tn_choice *choice, tn_event *event) {
  const tn_generation *generation = choice->generation;
  begin(choice);
  if (event->kind == TN_OUTPUT_TOOL_CALL || event->kind == TN_OUTPUT_TOOL_CALL_DELTA) join_call(choice, event);
  if (event->kind == TN_OUTPUT_REASONING && event->token >= 0) choice->reasoning_tokens++;
  if (!generation->is_stream || generation->surface->keeps_whole) keep(choice, event);
  generation->surface->take(choice, event);
}

static void take_events(tn_choice *choice) {
  tn_top_logprob top[20];
  while (choice->taken < choice->events.size) {
    tn_event event;
    const char *at = choice->events.data + choice->taken;
    memcpy(&event, at, sizeof event);
    size_t top_bytes = event.top_count * sizeof *top;
    memcpy(top, at + sizeof event, top_bytes < sizeof top ? top_bytes : sizeof top);
    event.top = top;
    event.name = at + sizeof event + top_bytes;
    event.text = event.name + event.name_bytes;
    size_t bytes = sizeof event + top_bytes + event.name_bytes + event.text_bytes;
    take_event(choice, &event);
    choice->taken += bytes;
    choice->generation->unread -= bytes;
  }
  tn_buf_clear(&choice->events);
  choice->taken = 0;
}

static void end_choice(tn_choice *choice) {
  if (!choice->is_done || choice->has_ended) return;
  begin(choice);
  choice->has_ended = true;
  choice->generation->surface->end_choice(choice);
}

void tn_answer_take(tn_generation *generation) {
  unsigned status;
  if (generation->is_closed) return;
  for (size_t i = 0; i < generation->count; i++) take_events(generation->choices + i);
  if (!generation->is_stream) return;
  json_t *error = tn_answer_error(generation, &status);
  if (error) {
    generation->surface->fail(generation, error);
    generation->is_closed = true;
    return;
  }
  for (size_t i = 0; i < generation->count; i++) end_choice(generation->choices + i);
  if (generation->done < generation->count) return;
  generation->surface->end(generation);
  generation->is_closed = true;
}

json_t *tn_answer_whole(tn_generation *generation) {
  tn_answer_take(generation);
  for (size_t i = 0; i < generation->count; i++) begin(generation->choices + i);
  return generation->is_overflowed ? NULL : generation->surface->whole(generation);
}

json_t *tn_answer_error(const tn_generation *generation, unsigned *status) {
  const tn_exchange *exchange = generation->exchange;
  if (generation->is_overflowed) {
    *status = 503;
    return tn_http_error_json(exchange, *status, NULL, NULL, "no memory for the answer");
  }
  if (generation->given_up) {
    *status = generation->given_up;
    return tn_http_error_json(exchange, *status, NULL, "stalled", "the device does not come to an end with its step");
  }
  for (size_t i = 0; i < generation->count; i++) {
    const tn_choice *choice = generation->choices + i;
    if (!choice->is_done) continue;
    if (choice->end.kind == TN_OUTPUT_ERROR) {
      *status = tn_http_status(choice->end.error.status);
      return tn_http_error_json(exchange, *status, NULL, NULL, choice->end.error.message);
    }
    if (choice->end.finish == TN_FINISH_CANCELLED) {
      *status = 503;
      return tn_http_error_json(exchange, *status, NULL, "cancelled", "the server is stopping");
    }
  }
  return NULL;
}
