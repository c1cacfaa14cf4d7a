/* The surfaces of /v1/chat/completions and /v1/completions (see generation.h). */
#include <stdio.h>
#include <string.h>
#include "server/generation.h"

/* ---- parts ---- */

static json_t *head(const tn_generation *generation, json_t *choices) {
  const char *object = !generation->surface->is_chat ? "text_completion"
                       : generation->is_stream       ? "chat.completion.chunk"
                                                     : "chat.completion";
  return json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", generation->id, "object", object, "created",
                   (json_int_t)generation->created, "model", generation->exchange->server->options.name, "choices",
                   choices);
}

static json_t *usage_json(const tn_generation *generation) {
  tn_usage usage = tn_answer_usage(generation);
  return json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I}}", "prompt_tokens", (json_int_t)usage.prompt, "completion_tokens",
                   (json_int_t)usage.answered, "total_tokens", (json_int_t)usage.prompt + (json_int_t)usage.answered,
                   "prompt_tokens_details", "cached_tokens", (json_int_t)usage.cached, "completion_tokens_details",
                   "reasoning_tokens", (json_int_t)usage.reasoning);
}

static const char *finish_reason(const tn_choice *choice) {
  if (choice->end.finish == TN_FINISH_LENGTH) return "length";
  return choice->calls ? "tool_calls" : "stop";
}

static json_t *prompt_ids(const tn_choice *choice) {
  size_t count;
  const int32_t *tokens = tn_request_prompt(choice->request, &count);
  json_t *list = json_array();
  for (size_t i = 0; i < count; i++) json_array_append_new(list, json_integer(tokens[i]));
  return list;
}

static void keep_token_id(tn_choice *choice, int32_t token) {
  if (!choice->token_ids) choice->token_ids = json_array();
  json_array_append_new(choice->token_ids, json_integer(token));
}

/* ---- a stream ---- */

/* What an event tells of its choice so far, where that is wanted. */
static void add_running_usage(const tn_choice *choice, json_t *chunk) {
  json_int_t prompt = choice->end.prompt_tokens, answered = choice->answered;
  if (choice->generation->has_running_usage)
    json_object_set_new(chunk, "usage",
                        json_pack("{s:I, s:I, s:I}", "prompt_tokens", prompt, "completion_tokens", answered,
                                  "total_tokens", prompt + answered));
}

/* One chunk of a choice; `delta` is the text (or the delta of a chat) and taken over, like logprobs. */
static void send_chunk(tn_choice *choice, json_t *delta, json_t *logprobs, const char *finish) {
  tn_generation *generation = choice->generation;
  bool is_chat = generation->surface->is_chat;
  json_t *one =
      json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)(choice - generation->choices), is_chat ? "delta" : "text",
                delta, "logprobs", logprobs ? logprobs : json_null(), "finish_reason", finish);
  json_t *chunk = head(generation, json_pack("[O]", one));
  add_running_usage(choice, chunk);
  if (choice->token_ids) json_object_set_new(one, "token_ids", choice->token_ids);
  choice->token_ids = NULL;
  if (generation->wants_token_ids && !choice->has_told_prompt)
    json_object_set_new(is_chat ? chunk : one, "prompt_token_ids", prompt_ids(choice));
  choice->has_told_prompt = true;
  json_decref(one);
  tn_answer_send(generation, NULL, chunk);
}

/* A call begins with its name; its arguments follow in chunks of their own. */
static void send_call(tn_choice *choice, const tn_event *event, json_t *logprobs) {
  int index = (int)choice->calls - 1;
  if (event->begins_call) {
    json_t *name = tn_json_text(event->name, event->name_bytes);
    json_t *begin = json_pack("{s:i, s:s, s:s, s:{s:o, s:s}}", "index", index, "id", event->id, "type", "function",
                              "function", "name", name, "arguments", "");
    send_chunk(choice, json_pack("{s:[o]}", "tool_calls", begin), logprobs, NULL);
    logprobs = NULL;
  }
  if (!event->text_bytes) {
    if (logprobs) send_chunk(choice, json_object(), logprobs, NULL);
    return;
  }
  json_t *arguments = tn_json_text(event->text, event->text_bytes);
  json_t *rest = json_pack("{s:i, s:{s:o}}", "index", index, "function", "arguments", arguments);
  send_chunk(choice, json_pack("{s:[o]}", "tool_calls", rest), logprobs, NULL);
}

static void send_event(tn_choice *choice, const tn_event *event, json_t *logprobs) {
  if (event->kind == TN_OUTPUT_TOOL_CALL) {
    send_call(choice, event, logprobs);
  } else if (event->text_bytes || logprobs) {
    json_t *text = tn_json_text(event->text, event->text_bytes);
    const char *name = event->kind == TN_OUTPUT_REASONING ? "reasoning_content" : "content";
    send_chunk(choice, choice->generation->surface->is_chat ? json_pack("{s:o}", name, text) : text, logprobs, NULL);
  }
}

static void take(tn_choice *choice, const tn_event *event) {
  tn_generation *generation = choice->generation;
  json_t *logprobs = NULL;
  if (event->token >= 0 && event->kind != TN_OUTPUT_PROMPT) {
    choice->answered++;
    if (generation->wants_token_ids) keep_token_id(choice, event->token);
  }
  tn_logprobs_add(choice, generation->is_stream ? &logprobs : &choice->logprobs, event);
  if (generation->is_stream) send_event(choice, event, logprobs);
  if (generation->has_logprobs) choice->characters += tn_count_characters(event->text, event->text_bytes);
}

static void begin_chat(tn_choice *choice) {
  if (choice->generation->is_stream)
    send_chunk(choice, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL, NULL);
}

static void begin_text(tn_choice *choice) {
  if (!choice->echo) return;
  choice->characters = tn_count_characters(choice->echo, choice->echo_bytes);
  if (choice->generation->is_stream) send_chunk(choice, tn_json_text(choice->echo, choice->echo_bytes), NULL, NULL);
}

static void end_choice(tn_choice *choice) {
  bool is_chat = choice->generation->surface->is_chat;
  send_chunk(choice, is_chat ? json_object() : json_string(""), NULL, finish_reason(choice));
}

static void end(tn_generation *generation) {
  if (generation->has_usage) {
    json_t *last = head(generation, json_array());
    json_object_set_new(last, "usage", usage_json(generation));
    tn_answer_send(generation, NULL, last);
  }
  tn_buf_puts(&generation->out, "data: [DONE]\n\n");
}

static void fail(tn_generation *generation, json_t *error) {
  tn_answer_send(generation, NULL, error);
}

/* ---- whole ---- */

static json_t *calls_json(const tn_choice *choice) {
  json_t *list = json_array();
  for (size_t i = 0; i < choice->piece_count; i++) {
    const tn_piece *piece = choice->pieces + i;
    if (piece->kind != TN_OUTPUT_TOOL_CALL) continue;
    json_array_append_new(list, json_pack("{s:s, s:s, s:{s:o, s:o}}", "id", piece->id, "type", "function", "function",
                                          "name", tn_json_text(piece->name.data, piece->name.size), "arguments",
                                          tn_json_text(piece->text.data, piece->text.size)));
  }
  return list;
}

static json_t *message(const tn_choice *choice) {
  json_t *content = tn_answer_joined(choice, TN_OUTPUT_TEXT);
  json_t *reasoning = tn_answer_joined(choice, TN_OUTPUT_REASONING);
  bool has_reasoning = json_string_length(reasoning) > 0;
  if (choice->calls && !json_string_length(content)) {
    json_decref(content);
    content = json_null();
  }
  json_t *json = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content", content, "refusal");
  if (has_reasoning) json_object_set(json, "reasoning_content", reasoning);
  if (choice->calls) json_object_set_new(json, "tool_calls", calls_json(choice));
  json_decref(reasoning);
  return json;
}

static json_t *whole(tn_generation *generation) {
  bool is_chat = generation->surface->is_chat;
  json_t *choices = json_array();
  for (size_t i = 0; i < generation->count; i++) {
    tn_choice *choice = generation->choices + i;
    json_t *logprobs = choice->logprobs ? json_incref(choice->logprobs) : json_null();
    json_t *one = json_pack("{s:i, s:o, s:o, s:s}", "index", (int)i, is_chat ? "message" : "text",
                            is_chat ? message(choice) : tn_answer_joined(choice, TN_OUTPUT_TEXT), "logprobs", logprobs,
                            "finish_reason", finish_reason(choice));
    if (generation->wants_token_ids) {
      json_object_set_new(one, "token_ids", choice->token_ids ? json_incref(choice->token_ids) : json_array());
      if (!is_chat) json_object_set_new(one, "prompt_token_ids", prompt_ids(choice));
    }
    json_array_append_new(choices, one);
  }
  json_t *answer = head(generation, choices);
  if (is_chat && generation->wants_token_ids)
    json_object_set_new(answer, "prompt_token_ids", prompt_ids(generation->choices));
  json_object_set_new(answer, "usage", usage_json(generation));
  return answer;
}

const tn_surface tn_surface_chat = {.id_prefix = "chatcmpl",
                                    .is_chat = true,
                                    .begin_choice = begin_chat,
                                    .take = take,
                                    .end_choice = end_choice,
                                    .end = end,
                                    .fail = fail,
                                    .whole = whole};

const tn_surface tn_surface_text = {.id_prefix = "cmpl",
                                    .begin_choice = begin_text,
                                    .take = take,
                                    .end_choice = end_choice,
                                    .end = end,
                                    .fail = fail,
                                    .whole = whole};
