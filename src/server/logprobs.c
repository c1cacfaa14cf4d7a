/* Log-probabilities of tokens as the APIs show them (see generation.h). */
#include <math.h>
#include <string.h>
#include "base/utf8.h"
#include "server/generation.h"

size_t tn_count_characters(const char *text, size_t bytes) {
  size_t count = 0;
  uint32_t codepoint;
  for (size_t at = 0; at < bytes; count++) at += tn_utf8_step(text + at, bytes - at, &codepoint);
  return count;
}

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

#define SKIPPED_BYTES ((size_t)16) /* of the prompt that its tokens may spell differently, or a space not at all */

/* Goes on over `text` if it comes next in the prompt, or at most `slack` bytes later; *begin is where. */
static bool pass(tn_choice *choice, const char *text, size_t bytes, size_t slack, size_t *begin) {
  tn_placing *at = &choice->placing;
  const char *next = choice->echo + at->bytes;
  size_t left = choice->echo_bytes - at->bytes, skipped = 0;
  while (skipped + bytes <= left && skipped <= slack && memcmp(next + skipped, text, bytes) != 0) skipped++;
  if (skipped + bytes > left || skipped > slack) return false;
  *begin = at->characters + tn_count_characters(next, skipped);
  at->characters = *begin + tn_count_characters(next + skipped, bytes);
  at->bytes += skipped + bytes;
  at->open_count = 0;
  return true;
}

/* The same for the open tokens; *is_part: their text ends within a character. */
static bool pass_open(tn_choice *choice, bool *is_part, size_t *begin) {
  const tn_placing *at = &choice->placing;
  size_t bytes = 0;
  char *text = NULL;
  if (tn_detokenize(choice->generation->exchange->server->model, at->open, at->open_count, &text, &bytes, NULL) !=
      TN_OK)
    return false;
  *is_part = bytes >= 3 && !memcmp(text + bytes - 3, "\xef\xbf\xbd", 3); /* U+FFFD */
  bool has_passed = pass(choice, text, bytes, *is_part ? 0 : SKIPPED_BYTES, begin);
  tn_free(text);
  return has_passed;
}

/* Where a token of the prompt begins in its text: that of a part of a character where the character does. A token that
 * the text doesn't show, as one that was put in front of it, takes no room. */
static size_t place_in_echo(tn_choice *choice, int32_t token) {
  tn_placing *at = &choice->placing;
  size_t begin = at->characters;
  bool is_part = false;
  at->open[at->open_count++] = token;
  bool has_room = at->open_count < TN_COUNT(at->open);
  if (pass_open(choice, &is_part, &begin) || (is_part && has_room)) return begin;
  at->open[0] = token;
  at->open_count = 1;
  if (!pass_open(choice, &is_part, &begin)) at->open_count = 0;
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
