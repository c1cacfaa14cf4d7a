/* Log-probabilities of tokens as the APIs show them (see generation.h). */
#include <math.h>
#include <string.h>
#include "base/utf8.h"
#include "server/generation.h"

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

json_t *tn_logprob_entry(const tn_server *server, const tn_event *event) {
  json_t *entry = token_json(server, event->token, event->logprob), *list = json_array();
  for (uint32_t i = 0; i < event->top_count; i++)
    json_array_append_new(list, token_json(server, event->top[i].token, event->top[i].logprob));
  json_object_set_new(entry, "top_logprobs", list);
  return entry;
}

static json_t *token_name(const tn_server *server, int32_t token) {
  size_t bytes = 0;
  char *text = tn_token_text(server, token, &bytes);
  json_t *json = tn_json_text(text ? text : "", bytes);
  tn_free(text);
  return json;
}

/* Where a token of the prompt begins in its text. A first token that the text doesn't show was put in front of it. */
static size_t place_in_echo(tn_choice *choice, int32_t token) {
  size_t begin = choice->echoed, bytes = 0;
  char *text = tn_token_text(choice->generation->exchange->server, token, &bytes);
  bool is_shown = text && (begin > 0 || !strncmp(choice->echo, text, bytes));
  for (size_t i = 0; is_shown && i < bytes; i++) choice->echoed += ((unsigned char)text[i] & 0xc0) != 0x80;
  tn_free(text);
  return begin;
}

static void add_text_logprob(tn_choice *choice, json_t *to, const tn_event *event) {
  const tn_server *server = choice->generation->exchange->server;
  json_t *map = json_object();
  for (uint32_t i = 0; i < event->top_count; i++) {
    json_t *name = token_name(server, event->top[i].token);
    if (!json_object_get(map, json_string_value(name)))
      json_object_set_new(map, json_string_value(name), json_real((double)event->top[i].logprob));
    json_decref(name);
  }
  json_array_append_new(json_object_get(to, "tokens"), token_name(server, event->token));
  bool has_none = isnan(event->logprob); /* the prompt's first token */
  if (has_none) json_decref(map);
  size_t offset = event->kind == TN_OUTPUT_PROMPT ? place_in_echo(choice, event->token) : choice->characters;
  json_array_append_new(json_object_get(to, "token_logprobs"),
                        has_none ? json_null() : json_real((double)event->logprob));
  json_array_append_new(json_object_get(to, "top_logprobs"), has_none ? json_null() : map);
  json_array_append_new(json_object_get(to, "text_offset"), json_integer((json_int_t)offset));
}

void tn_logprobs_add(tn_choice *choice, json_t **logprobs, const tn_event *event) {
  const tn_generation *generation = choice->generation;
  if (!generation->has_logprobs || event->token < 0) return;
  if (!generation->surface->is_chat) {
    if (!*logprobs)
      *logprobs = json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs", "top_logprobs", "text_offset");
    add_text_logprob(choice, *logprobs, event);
  } else {
    if (!*logprobs) *logprobs = json_pack("{s:[], s:n}", "content", "refusal");
    json_array_append_new(json_object_get(*logprobs, "content"), tn_logprob_entry(generation->exchange->server, event));
  }
}
