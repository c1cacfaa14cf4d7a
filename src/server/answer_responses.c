/* The surface of /v1/responses: an answer's pieces are output items (see generation.h). */
#include <stdio.h>
#include <string.h>
#include "server/generation.h"

#define ITEM_ID_BYTES 80

/* ---- items ---- */

static const char *item_id(const tn_choice *choice, size_t index, char *id) {
  const uint32_t kind = choice->pieces[index].kind;
  const char *prefix = kind == TN_OUTPUT_TOOL_CALL ? "fc" : kind == TN_OUTPUT_REASONING ? "rs" : "msg";
  snprintf(id, ITEM_ID_BYTES, "%s_%zu_%s", prefix, index, choice->generation->id);
  return id;
}

static json_t *text_of(const tn_piece *piece) {
  return tn_json_text(piece->text.size ? piece->text.data : "", piece->text.size);
}

static json_t *logprobs_of(const tn_piece *piece) {
  return piece->logprobs ? json_incref(piece->logprobs) : json_array();
}

/* The one content part of a text or reasoning item, whole or as it begins. */
static json_t *part_json(const tn_piece *piece, bool is_whole) {
  json_t *text = is_whole ? text_of(piece) : json_string("");
  if (piece->kind == TN_OUTPUT_REASONING) return json_pack("{s:s, s:o}", "type", "reasoning_text", "text", text);
  return json_pack("{s:s, s:o, s:[], s:o}", "type", "output_text", "text", text, "annotations", "logprobs",
                   is_whole ? logprobs_of(piece) : json_array());
}

static json_t *item_json(const tn_choice *choice, size_t index, const char *status) {
  const tn_piece *piece = choice->pieces + index;
  bool is_whole = strcmp(status, "in_progress") != 0;
  char id[ITEM_ID_BYTES];
  item_id(choice, index, id);
  if (piece->kind == TN_OUTPUT_TOOL_CALL)
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "type", "function_call", "id", id, "status", status, "call_id",
                     piece->id, "name", tn_json_text(piece->name.data, piece->name.size), "arguments",
                     is_whole ? text_of(piece) : json_string(""));
  json_t *content = is_whole ? json_pack("[o]", part_json(piece, true)) : json_array();
  if (piece->kind == TN_OUTPUT_REASONING)
    return json_pack("{s:s, s:s, s:s, s:[], s:o}", "type", "reasoning", "id", id, "status", status, "summary",
                     "content", content);
  return json_pack("{s:s, s:s, s:s, s:s, s:o}", "type", "message", "id", id, "status", status, "role", "assistant",
                   "content", content);
}

/* The status of an item that has ended: the last one of an answer that was cut off is not whole. */
static const char *item_status(const tn_choice *choice, size_t index) {
  const tn_piece *piece = choice->pieces + index;
  bool is_last = choice->is_done && choice->end.finish == TN_FINISH_LENGTH && index + 1 == choice->piece_count;
  bool is_cut = is_last && (piece->is_open || piece->kind != TN_OUTPUT_TOOL_CALL);
  return is_cut ? "incomplete" : "completed";
}

/* ---- the response ---- */

static json_t *usage_json(const tn_generation *generation) {
  tn_usage usage = tn_answer_usage(generation);
  return json_pack("{s:I, s:{s:I, s:i}, s:I, s:{s:I}, s:I}", "input_tokens", (json_int_t)usage.prompt,
                   "input_tokens_details", "cached_tokens", (json_int_t)usage.cached, "cache_write_tokens", 0,
                   "output_tokens", (json_int_t)usage.answered, "output_tokens_details", "reasoning_tokens",
                   (json_int_t)usage.reasoning, "total_tokens", (json_int_t)usage.prompt + (json_int_t)usage.answered);
}

/* A field of the request as the response repeats it. */
static void repeat(const tn_generation *generation, json_t *response, const char *name, json_t *otherwise) {
  json_t *given = tn_field(generation->asked, name);
  if (given) json_decref(otherwise);
  json_object_set_new(response, name, given ? json_incref(given) : otherwise);
}

static void repeat_request(const tn_generation *generation, json_t *response) {
  repeat(generation, response, "instructions", json_null());
  repeat(generation, response, "max_output_tokens", json_null());
  tn_model_info advice = TN_MODEL_INFO;
  tn_model_describe(generation->exchange->server->model, &advice);
  repeat(generation, response, "temperature", json_real(advice.temperature >= 0 ? (double)advice.temperature : 1));
  repeat(generation, response, "top_p", json_real(advice.top_p >= 0 ? (double)advice.top_p : 1));
  repeat(generation, response, "top_logprobs", json_integer(0));
  repeat(generation, response, "tools", json_array());
  repeat(generation, response, "tool_choice", json_string("auto"));
  repeat(generation, response, "parallel_tool_calls", json_true());
  repeat(generation, response, "text", json_pack("{s:{s:s}}", "format", "type", "text"));
  repeat(generation, response, "reasoning", json_pack("{s:n, s:n}", "effort", "summary"));
  repeat(generation, response, "metadata", json_object());
  repeat(generation, response, "user", json_null());
  repeat(generation, response, "truncation", json_string("disabled"));
  json_object_set_new(response, "previous_response_id", json_null());
  json_object_set_new(response, "store", json_false());
  json_object_set_new(response, "background", json_false());
}

/* The response, in progress or as it ended. */
static json_t *response_json(const tn_generation *generation, bool is_whole) {
  const tn_choice *choice = generation->choices;
  bool is_cut = is_whole && choice->end.finish == TN_FINISH_LENGTH;
  json_t *output = json_array();
  for (size_t i = 0; is_whole && i < choice->piece_count; i++)
    json_array_append_new(output, item_json(choice, i, item_status(choice, i)));
  json_t *cause = is_cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null();
  json_t *response = json_pack(
      "{s:s, s:s, s:I, s:s, s:s, s:n, s:o, s:o, s:o}", "id", generation->id, "object", "response", "created_at",
      (json_int_t)generation->created, "model", generation->exchange->server->options.name, "status",
      is_cut ? "incomplete" : (is_whole ? "completed" : "in_progress"), "error", "incomplete_details", cause, "output",
      output, "usage", is_whole ? usage_json(generation) : json_null());
  if (response) repeat_request(generation, response);
  return response;
}

/* ---- a stream ---- */

static void send_event(tn_choice *choice, const char *type, json_t *event) {
  tn_generation *generation = choice->generation;
  json_object_set_new(event, "type", json_string(type));
  json_object_set_new(event, "sequence_number", json_integer((json_int_t)generation->sequence++));
  tn_answer_send(generation, type, event);
}

/* An event about the item that is open. */
static void send_of_item(tn_choice *choice, const char *type, json_t *event) {
  json_object_set_new(event, "output_index", json_integer((json_int_t)choice->begun - 1));
  send_event(choice, type, event);
}

/* An event about what is in it: its content part, or a call's arguments. */
static void send_of_part(tn_choice *choice, const char *type, json_t *event) {
  char id[ITEM_ID_BYTES];
  size_t index = choice->begun - 1;
  json_object_set_new(event, "item_id", json_string(item_id(choice, index, id)));
  if (choice->pieces[index].kind != TN_OUTPUT_TOOL_CALL) json_object_set_new(event, "content_index", json_integer(0));
  send_of_item(choice, type, event);
}

static void begin_item(tn_choice *choice) {
  size_t index = choice->begun++;
  send_of_item(choice, "response.output_item.added",
               json_pack("{s:o}", "item", item_json(choice, index, "in_progress")));
  if (choice->pieces[index].kind != TN_OUTPUT_TOOL_CALL)
    send_of_part(choice, "response.content_part.added",
                 json_pack("{s:o}", "part", part_json(choice->pieces + index, false)));
}

static void end_item(tn_choice *choice) {
  if (!choice->begun) return;
  size_t index = choice->begun - 1;
  const tn_piece *piece = choice->pieces + index;
  if (piece->kind == TN_OUTPUT_TOOL_CALL) {
    send_of_part(
        choice, "response.function_call_arguments.done",
        json_pack("{s:o, s:o}", "arguments", text_of(piece), "name", tn_json_text(piece->name.data, piece->name.size)));
  } else {
    bool is_text = piece->kind == TN_OUTPUT_TEXT;
    json_t *done = json_pack("{s:o}", "text", text_of(piece));
    if (is_text) json_object_set_new(done, "logprobs", logprobs_of(piece));
    send_of_part(choice, is_text ? "response.output_text.done" : "response.reasoning_text.done", done);
    send_of_part(choice, "response.content_part.done", json_pack("{s:o}", "part", part_json(piece, true)));
  }
  send_of_item(choice, "response.output_item.done",
               json_pack("{s:o}", "item", item_json(choice, index, item_status(choice, index))));
}

static void begin_choice(tn_choice *choice) {
  if (!choice->generation->is_stream) return;
  send_event(choice, "response.created", json_pack("{s:o}", "response", response_json(choice->generation, false)));
  send_event(choice, "response.in_progress", json_pack("{s:o}", "response", response_json(choice->generation, false)));
}

/* ---- events ---- */

/* Log-probabilities wait in the choice until text comes that they belong to. */
static void keep_logprob(tn_choice *choice, const tn_event *event) {
  const tn_generation *generation = choice->generation;
  if (!generation->has_logprobs || event->token < 0 || event->kind != TN_OUTPUT_TEXT) return;
  if (!choice->logprobs) choice->logprobs = json_array();
  json_array_append_new(choice->logprobs, tn_logprob_entry(generation->exchange->server, event));
}

/* Those that wait, moved to the piece; a new reference to them. */
static json_t *take_logprobs(tn_choice *choice, tn_piece *piece) {
  json_t *list = choice->logprobs ? choice->logprobs : json_array();
  choice->logprobs = NULL;
  if (!piece->logprobs) piece->logprobs = json_array();
  json_array_extend(piece->logprobs, list);
  return list;
}

static void send_delta(tn_choice *choice, const tn_event *event, json_t *logprobs) {
  static const char *const types[] = {[TN_OUTPUT_TEXT] = "response.output_text.delta",
                                      [TN_OUTPUT_REASONING] = "response.reasoning_text.delta",
                                      [TN_OUTPUT_TOOL_CALL] = "response.function_call_arguments.delta"};
  json_t *delta = json_pack("{s:o}", "delta", tn_json_text(event->text, event->text_bytes));
  if (logprobs) json_object_set(delta, "logprobs", logprobs);
  send_of_part(choice, types[event->kind], delta);
}

static void take(tn_choice *choice, const tn_event *event) {
  bool is_call = event->kind == TN_OUTPUT_TOOL_CALL;
  keep_logprob(choice, event);
  if (choice->generation->is_overflowed || (!event->text_bytes && !is_call)) return;
  tn_piece *piece = choice->pieces + choice->piece_count - 1;
  json_t *logprobs = event->kind == TN_OUTPUT_TEXT ? take_logprobs(choice, piece) : NULL;
  if (choice->generation->is_stream) {
    if (choice->piece_count > choice->begun) {
      end_item(choice);
      begin_item(choice);
    }
    if (event->text_bytes) send_delta(choice, event, logprobs);
  }
  json_decref(logprobs);
}

static void end_choice(tn_choice *choice) {
  end_item(choice);
}

static void end(tn_generation *generation) {
  tn_choice *choice = generation->choices;
  bool is_cut = choice->end.finish == TN_FINISH_LENGTH;
  send_event(choice, is_cut ? "response.incomplete" : "response.completed",
             json_pack("{s:o}", "response", response_json(generation, true)));
}

/* The event has the error's members itself; clients that look for `error` find it too. */
static void fail(tn_generation *generation, json_t *error) {
  json_object_update_missing(error, json_object_get(error, "error"));
  send_event(generation->choices, "error", error);
}

static json_t *whole(tn_generation *generation) {
  return response_json(generation, true);
}

static const char *const looked_at[] = {"instructions", "max_output_tokens",
                                        "temperature",  "top_p",
                                        "top_logprobs", "tools",
                                        "tool_choice",  "parallel_tool_calls",
                                        "text",         "reasoning",
                                        "metadata",     "user",
                                        "truncation",   NULL};

const tn_surface tn_surface_responses = {.looked_at = looked_at,
                                         .id_prefix = "resp",
                                         .is_chat = true,
                                         .keeps_whole = true,
                                         .begin_choice = begin_choice,
                                         .take = take,
                                         .end_choice = end_choice,
                                         .end = end,
                                         .fail = fail,
                                         .whole = whole};
