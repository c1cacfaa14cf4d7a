#include "server/generation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/socket.h"

#define OVERDUE_SECONDS 5u /* what the engine gets on top of the time of an answer */

tn_generation *tn_generation_create(tn_exchange *exchange, size_t count) {
  tn_generation *generation = calloc(1, sizeof *generation);
  if (!generation) return NULL;
  generation->exchange = exchange;
  generation->count = count;
  generation->lock = tn_mutex_create();
  generation->choices = tn_calloc(count, sizeof *generation->choices);
  tn_buf_init(&generation->out);
  if (!generation->lock || !generation->choices) {
    tn_generation_destroy(generation);
    return NULL;
  }
  for (size_t i = 0; i < count; i++) {
    generation->choices[i].generation = generation;
    tn_buf_init(&generation->choices[i].events);
  }
  return generation;
}

static void finish_pieces(tn_choice *choice) {
  for (size_t i = 0; i < choice->piece_count; i++) {
    tn_buf_finish(&choice->pieces[i].text);
    tn_buf_finish(&choice->pieces[i].name);
    json_decref(choice->pieces[i].logprobs);
  }
  free(choice->pieces);
}

void tn_generation_destroy(tn_generation *generation) {
  if (!generation) return;
  for (size_t i = 0; generation->choices && i < generation->count; i++) {
    tn_choice *choice = generation->choices + i;
    tn_request_destroy(choice->request); /* no callback runs after it */
    if (choice->request && !choice->is_done) tn_metrics_cancelled(&generation->exchange->server->metrics);
    tn_buf_finish(&choice->events);
    finish_pieces(choice);
    json_decref(choice->logprobs);
    json_decref(choice->token_ids);
    tn_free(choice->echo);
  }
  free(generation->choices);
  json_decref(generation->asked);
  tn_mutex_destroy(generation->lock);
  tn_buf_finish(&generation->out);
  free(generation);
}

/* Lets the connection run again; under generation->lock. */
static void wake(tn_generation *generation) {
  if (!generation->is_suspended) return;
  generation->is_suspended = false;
  MHD_resume_connection(generation->exchange->connection);
}

static void cancel(tn_generation *generation) {
  for (size_t i = 0; i < generation->count; i++) tn_request_cancel(generation->choices[i].request);
}

/* ---- on the engine's thread ---- */

static void put_event(tn_choice *choice, const tn_output *output) {
  bool is_call = output->kind == TN_OUTPUT_TOOL_CALL || output->kind == TN_OUTPUT_TOOL_CALL_DELTA;
  size_t name_bytes = is_call ? strlen(output->tool_name) : 0;
  tn_event event = {.kind = output->kind,
                    .token = output->token,
                    .logprob = output->logprob,
                    .top_count = output->top_count,
                    .name_bytes = (uint32_t)name_bytes,
                    .text_bytes = (uint32_t)output->text_bytes};
  size_t top_bytes = output->top_count * sizeof *output->top;
  size_t bytes = sizeof event + top_bytes + name_bytes + output->text_bytes;
  if (is_call) snprintf(event.id, sizeof event.id, "%s", output->tool_id);
  tn_generation *generation = choice->generation;
  if (generation->is_overflowed) return;
  if ((generation->is_stream && generation->unread + bytes > TN_UNREAD_BYTES) ||
      !tn_buf_reserve(&choice->events, bytes)) {
    generation->is_overflowed = true;
    return;
  }
  generation->unread += bytes;
  tn_buf_append(&choice->events, &event, sizeof event);
  if (top_bytes) tn_buf_append(&choice->events, output->top, top_bytes);
  if (name_bytes) tn_buf_append(&choice->events, output->tool_name, name_bytes);
  if (output->text_bytes) tn_buf_append(&choice->events, output->text, output->text_bytes);
}

/* A piece of the answer, or a token of its prompt; else it is the end. */
static bool is_part(const tn_output *output) {
  return output->kind != TN_OUTPUT_DONE && output->kind != TN_OUTPUT_ERROR;
}

static void measure(tn_choice *choice, const tn_output *output) {
  tn_metrics *metrics = &choice->generation->exchange->server->metrics;
  uint64_t now = tn_clock_ns();
  if (!is_part(output)) {
    tn_metrics_end(metrics, output);
  } else if (output->token >= 0 && output->kind != TN_OUTPUT_PROMPT) {
    tn_metrics_token(metrics, !choice->has_token, now - choice->last_ns);
    choice->has_token = true;
    choice->last_ns = now;
  }
}

static void on_output(void *context, const tn_output *output) {
  tn_choice *choice = context;
  tn_generation *generation = choice->generation;
  measure(choice, output);
  tn_mutex_lock(generation->lock);
  if (is_part(output)) {
    choice->end.prompt_tokens = output->prompt_tokens;
    choice->end.cached_tokens = output->cached_tokens;
    put_event(choice, output);
  } else if (!choice->is_done) {
    choice->is_done = true;
    choice->end = *output;
    generation->done++;
  }
  if (generation->is_stream || generation->done == generation->count) wake(generation);
  tn_mutex_unlock(generation->lock);
}

tn_status tn_generation_submit(tn_generation *generation, size_t number, tn_request_options *options, tn_error *error) {
  tn_choice *choice = generation->choices + number;
  options->on_output = on_output;
  options->context = choice;
  choice->last_ns = tn_clock_ns();
  return tn_engine_submit(generation->exchange->server->engine, options, &choice->request, error);
}

/* ---- on libmicrohttpd's threads ---- */

static void suspend(tn_generation *generation) {
  generation->is_suspended = true;
  MHD_suspend_connection(generation->exchange->connection);
}

/* Breaks a stream off, visibly for its client. The library forgets to clean a connection up whose reader tells of an
 * error (until the next timeout, its descriptor stays open), so the reader tells of an end, and sending that fails. */
static ssize_t break_off(tn_generation *generation) {
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(generation->exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (!info) return MHD_CONTENT_READER_END_WITH_ERROR;
  tn_socket_shut(info->connect_fd);
  return MHD_CONTENT_READER_END_OF_STREAM;
}

/* The stream's next bytes; libmicrohttpd calls it for a body whose length isn't known. */
static ssize_t read_stream(void *context, uint64_t position, char *to, size_t capacity) {
  tn_generation *generation = context;
  ssize_t result = 0;
  (void)position;
  tn_mutex_lock(generation->lock);
  if (generation->sent == generation->out.size) {
    tn_buf_clear(&generation->out);
    generation->sent = 0;
    tn_answer_take(generation);
  }
  size_t left = generation->out.size - generation->sent;
  if (generation->is_gone || generation->is_overflowed || generation->out.failed) {
    result = break_off(generation);
  } else if (left) {
    size_t bytes = left < capacity ? left : capacity;
    memcpy(to, generation->out.data + generation->sent, bytes);
    generation->sent += bytes;
    result = (ssize_t)bytes;
  } else if (generation->is_closed) {
    result = MHD_CONTENT_READER_END_OF_STREAM;
  } else {
    suspend(generation);
  }
  tn_mutex_unlock(generation->lock);
  return result;
}

static enum MHD_Result start_stream(tn_generation *generation) {
  struct MHD_Response *response =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, (size_t)16 << 10, read_stream, generation, NULL);
  if (!response) return MHD_NO;
  MHD_add_response_header(response, "Cache-Control", "no-cache");
  MHD_add_response_header(response, "X-Accel-Buffering", "no");
  return tn_http_queue(generation->exchange, 200, response, "text/event-stream");
}

bool tn_generation_enter(tn_generation *generation) {
  tn_exchange *exchange = generation->exchange;
  tn_server *server = exchange->server;
  tn_mutex_lock(server->lock);
  bool may_enter = !server->is_stopping;
  if (may_enter) {
    exchange->generation = generation;
    exchange->next = server->active;
    if (server->active) server->active->previous = exchange;
    server->active = exchange;
  }
  tn_mutex_unlock(server->lock);
  return may_enter;
}

static enum MHD_Result answer_whole(tn_generation *generation) {
  json_t *json = NULL;
  unsigned status = 200;
  tn_mutex_lock(generation->lock);
  bool is_gone = generation->is_gone, is_done = generation->done == generation->count || generation->given_up;
  if (!is_gone && !is_done) {
    suspend(generation);
  } else if (!is_gone) {
    json = tn_answer_error(generation, &status);
    if (!json) json = tn_answer_whole(generation);
    if (!json) json = tn_answer_error(generation, &status);
  }
  tn_mutex_unlock(generation->lock);
  if (is_gone) return MHD_NO;
  return is_done ? tn_http_reply(generation->exchange, status, json) : MHD_YES;
}

enum MHD_Result tn_generation_answer(tn_generation *generation) {
  return generation->is_stream ? start_stream(generation) : answer_whole(generation);
}

void tn_generation_leave(tn_exchange *exchange) {
  tn_server *server = exchange->server;
  if (!exchange->generation) return;
  tn_mutex_lock(server->lock);
  if (exchange->previous)
    exchange->previous->next = exchange->next;
  else
    server->active = exchange->next;
  if (exchange->next) exchange->next->previous = exchange->previous;
  tn_mutex_unlock(server->lock);
}

/* ---- on the thread that watches ---- */

/* Whether its time is long over: the engine ends it in time unless it is held up by a step. */
static bool is_overdue(const tn_generation *generation) {
  const tn_exchange *exchange = generation->exchange;
  uint64_t seconds = exchange->server->options.timeout_seconds;
  return seconds && tn_clock_ns() - exchange->start_ns > (seconds + OVERDUE_SECONDS) * UINT64_C(1000000000);
}

void tn_generation_watch(tn_generation *generation, tn_watch watch) {
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(generation->exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  bool hung_up = info && tn_socket_hung_up(info->connect_fd);
  tn_mutex_lock(generation->lock);
  generation->is_gone |= hung_up || watch == TN_WATCH_ABANDON;
  if (watch == TN_WATCH_GIVE_UP) generation->given_up = 503;
  if (is_overdue(generation)) generation->given_up = 504;
  bool is_lost = generation->is_gone || generation->is_overflowed || generation->given_up;
  bool is_over = is_lost || watch == TN_WATCH_CUT;
  if (is_lost) wake(generation);
  tn_mutex_unlock(generation->lock);
  if (is_over) cancel(generation);
}

void tn_generation_describe(tn_generation *generation, char *out, size_t capacity) {
  static const char *const reasons[] = {"none", "stop", "length", "cancelled", "error"};
  tn_mutex_lock(generation->lock);
  const tn_choice *first = generation->choices;
  const tn_output *end = &first->end;
  const char *cause = NULL;
  unsigned long long answered = 0;
  if (!first->is_done) { /* the connection went before the engine told its numbers */
    snprintf(out, capacity, " choices=%zu prompt=%u stop=cancelled", generation->count, end->prompt_tokens);
    tn_mutex_unlock(generation->lock);
    return;
  }
  for (size_t i = 0; i < generation->count; i++) {
    const tn_choice *choice = generation->choices + i;
    answered += choice->end.completion_tokens;
    if (!cause && choice->is_done && choice->end.kind == TN_OUTPUT_ERROR) cause = choice->end.error.message;
  }
  snprintf(
      out, capacity,
      " choices=%zu prompt=%u cached=%u completion=%llu queue_ms=%.1f prefill_ms=%.1f decode_ms=%.1f stop=%s%s%s%s",
      generation->count, end->prompt_tokens, end->cached_tokens, answered, (double)end->queue_ns / 1e6,
      (double)end->prefill_ns / 1e6, (double)end->decode_ns / 1e6, reasons[end->finish < 5 ? end->finish : 4],
      cause ? " cause=\"" : "", cause ? cause : "", cause ? "\"" : "");
  tn_mutex_unlock(generation->lock);
}
