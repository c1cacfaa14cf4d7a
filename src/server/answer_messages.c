/* The surface of /v1/messages: an answer's pieces are content blocks (see generation.h). */
#include <string.h>
#include "server/generation.h"

static const char *stop_reason(const tn_choice *choice) {
  const json_t *asked = choice->generation->asked;
  if (choice->end.finish == TN_FINISH_LENGTH) {
    bool is_asked_for = choice->end.completion_tokens >= (uint64_t)tn_field_integer(asked, "max_tokens", 0);
    return is_asked_for ? "max_tokens" : "model_context_window_exceeded";
  }
  if (choice->calls) return "tool_use";
  return choice->end.stop_string ? "stop_sequence" : "end_turn";
}

/* The stop sequence that ended the answer, or null. */
static json_t *stop_sequence(const tn_choice *choice) {
  uint32_t number = choice->end.stop_string;
  json_t *text =
      number ? json_array_get(json_object_get(choice->generation->asked, "stop_sequences"), number - 1) : NULL;
  return text ? json_incref(text) : json_null();
}

/* What was found in the cache doesn't count as input, as Anthropic has it. */
static json_t *usage_json(const tn_generation *generation) {
  tn_usage usage = tn_answer_usage(generation);
  return json_pack("{s:I, s:i, s:I, s:I}", "input_tokens", (json_int_t)usage.prompt - (json_int_t)usage.cached,
                   "cache_creation_input_tokens", 0, "cache_read_input_tokens", (json_int_t)usage.cached,
                   "output_tokens", (json_int_t)usage.answered);
}

static json_t *message(const tn_generation *generation, json_t *content, const char *reason, json_t *sequence) {
  return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s?, s:o, s:o}", "id", generation->id, "type", "message", "role",
                   "assistant", "model", generation->exchange->server->options.name, "content", content, "stop_reason",
                   reason, "stop_sequence", sequence, "usage", usage_json(generation));
}

/* A call's arguments. Numbers beyond 64 bits become floats; those beyond a float leave the arguments a text. */
static json_t *arguments_json(const char *text, size_t bytes) {
  json_t *arguments = json_loadb(text, bytes, JSON_ALLOW_NUL, NULL);
  if (!arguments) arguments = json_loadb(text, bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
  return arguments ? arguments : tn_json_text(text, bytes);
}

/* The content block of a piece, with its text or as it begins. */
static json_t *block(const tn_piece *piece, bool is_whole) {
  const char *text = is_whole && piece->text.size ? piece->text.data : "";
  size_t bytes = is_whole ? piece->text.size : 0;
  if (piece->kind == TN_OUTPUT_TOOL_CALL) {
    json_t *input = is_whole ? arguments_json(text, bytes) : json_object();
    return json_pack("{s:s, s:s, s:o, s:o}", "type", "tool_use", "id", piece->id, "name",
                     tn_json_text(piece->name.data, piece->name.size), "input", input);
  }
  if (piece->kind == TN_OUTPUT_REASONING)
    return json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking", tn_json_text(text, bytes), "signature", "");
  return json_pack("{s:s, s:o, s:n}", "type", "text", "text", tn_json_text(text, bytes), "citations");
}

/* ---- a stream ---- */

static void send_event(tn_choice *choice, const char *type, const char *key, json_t *value) {
  json_t *event = json_pack("{s:s, s:o}", "type", type, key, value);
  tn_answer_send(choice->generation, type, event);
}

/* Ends the block that is open. */
static void end_block(tn_choice *choice) {
  if (choice->begun) send_event(choice, "content_block_stop", "index", json_integer((json_int_t)choice->begun - 1));
}

static void begin_choice(tn_choice *choice) {
  tn_generation *generation = choice->generation;
  if (!generation->is_stream) return;
  send_event(choice, "message_start", "message", message(generation, json_array(), NULL, json_null()));
  tn_answer_send(generation, "ping", json_pack("{s:s}", "type", "ping"));
}

static void send_delta(tn_choice *choice, const tn_event *event) {
  static const char *const types[] = {[TN_OUTPUT_TEXT] = "text_delta",
                                      [TN_OUTPUT_REASONING] = "thinking_delta",
                                      [TN_OUTPUT_TOOL_CALL] = "input_json_delta"};
  static const char *const keys[] = {
      [TN_OUTPUT_TEXT] = "text", [TN_OUTPUT_REASONING] = "thinking", [TN_OUTPUT_TOOL_CALL] = "partial_json"};
  json_t *delta = json_pack("{s:s, s:o}", "type", types[event->kind], keys[event->kind],
                            tn_json_text(event->text, event->text_bytes));
  tn_answer_send(choice->generation, "content_block_delta",
                 json_pack("{s:s, s:I, s:o}", "type", "content_block_delta", "index", (json_int_t)choice->begun - 1,
                           "delta", delta));
}

static void take(tn_choice *choice, const tn_event *event) {
  if (!choice->generation->is_stream || choice->generation->is_overflowed) return;
  if (choice->piece_count > choice->begun) {
    end_block(choice);
    const tn_piece *piece = choice->pieces + choice->begun;
    tn_answer_send(choice->generation, "content_block_start",
                   json_pack("{s:s, s:I, s:o}", "type", "content_block_start", "index", (json_int_t)choice->begun,
                             "content_block", block(piece, false)));
    choice->begun++;
  }
  if (event->text_bytes) send_delta(choice, event);
}

static void end_choice(tn_choice *choice) {
  tn_generation *generation = choice->generation;
  end_block(choice);
  json_t *delta = json_pack("{s:s, s:o}", "stop_reason", stop_reason(choice), "stop_sequence", stop_sequence(choice));
  tn_answer_send(
      generation, "message_delta",
      json_pack("{s:s, s:o, s:o}", "type", "message_delta", "delta", delta, "usage", usage_json(generation)));
}

static void end(tn_generation *generation) {
  tn_answer_send(generation, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

static void fail(tn_generation *generation, json_t *error) {
  tn_answer_send(generation, "error", error);
}

/* ---- whole ---- */

static json_t *whole(tn_generation *generation) {
  const tn_choice *choice = generation->choices;
  json_t *content = json_array();
  for (size_t i = 0; i < choice->piece_count; i++) json_array_append_new(content, block(choice->pieces + i, true));
  return message(generation, content, stop_reason(choice), stop_sequence(choice));
}

static const char *const looked_at[] = {"max_tokens", "stop_sequences", NULL};

const tn_surface tn_surface_messages = {.looked_at = looked_at,
                                        .id_prefix = "msg",
                                        .is_chat = true,
                                        .keeps_whole = true,
                                        .begin_choice = begin_choice,
                                        .take = take,
                                        .end_choice = end_choice,
                                        .end = end,
                                        .fail = fail,
                                        .whole = whole};
