#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "text/tokenizer_parts.h"

tn_tokenizer *tn_tokenizer_new(void) {
  tn_tokenizer *tokenizer = tn_calloc(1, sizeof *tokenizer);
  if (!tokenizer) return NULL;
  for (int role = 0; role < TN_ROLE_COUNT; role++) tokenizer->roles[role] = TN_UNSET;
  return tokenizer;
}

void tn_tokenizer_destroy(tn_tokenizer *tokenizer) {
  if (!tokenizer) return;
  tn_token_table_finish(&tokenizer->texts);
  free(tokenizer->special);
  free(tokenizer->flags);
  tn_added_tokens_finish(&tokenizer->added);
  tn_normalizer_finish(&tokenizer->normalizer);
  tn_pretokenizer_finish(&tokenizer->pretokenizer);
  tn_bpe_finish(&tokenizer->bpe);
  tn_prefix_index_finish(&tokenizer->unigram.tokens);
  tn_prefix_index_finish(&tokenizer->wordpiece.first);
  tn_prefix_index_finish(&tokenizer->wordpiece.continuing);
  free(tokenizer->score_ranks);
  free(tokenizer->scores);
  free(tokenizer->before.data);
  free(tokenizer->after.data);
  free(tokenizer->ends.data);
  tn_decode_steps_finish(&tokenizer->decode);
  tn_arena_finish(&tokenizer->arena);
  free(tokenizer);
}

/* ---- for the builders ---- */

bool tn_tokenizer_fix_vocabulary(tn_tokenizer *tokenizer) {
  tokenizer->vocab_count = tokenizer->texts.count;
  tokenizer->special = tn_calloc(tokenizer->vocab_count, 1);
  tokenizer->flags = tn_calloc(tokenizer->vocab_count, 1);
  return tokenizer->special && tokenizer->flags;
}

tn_normal_step *tn_add_normal_step(tn_normalizer *normalizer, tn_normal_kind kind) {
  tn_normal_step *step = TN_PUSH(normalizer->steps, normalizer->count, normalizer->capacity);
  if (step) step->kind = kind;
  return step;
}

tn_cut *tn_add_cut(tn_pretokenizer *pretokenizer, tn_cut_kind kind) {
  tn_cut *cut = TN_PUSH(pretokenizer->cuts, pretokenizer->count, pretokenizer->capacity);
  if (cut) cut->kind = kind;
  return cut;
}

tn_decode_step *tn_add_decode_step(tn_decode_steps *steps, tn_decode_kind kind) {
  tn_decode_step *step = TN_PUSH(steps->steps, steps->count, steps->capacity);
  if (step) step->kind = kind;
  return step;
}

tn_status tn_add_pattern_cut(tn_pretokenizer *pretokenizer, tn_text pattern, tn_split_behavior behavior, bool invert,
                             tn_error *error) {
  tn_cut *cut = tn_add_cut(pretokenizer, TN_CUT_PATTERN);
  if (!cut) return tn_fail(error, TN_E_MEMORY, "out of memory for a pre-tokenizer");
  cut->behavior = behavior;
  cut->invert = invert;
  return tn_pattern_compile(&cut->pattern, pattern, error);
}

tn_text tn_keep_text(tn_arena *arena, tn_text text, bool *failed) {
  char *copy = tn_arena_copy(arena, text.data, text.bytes);
  if (!copy) *failed = true;
  return (tn_text){copy, copy ? text.bytes : 0};
}

/* ---- the ids that end a generation ---- */

bool tn_tokenizer_add_end(tn_tokenizer *tokenizer, int64_t id) {
  if (id < 0 || (uint64_t)id >= tokenizer->vocab_count || tn_tokenizer_is_end(tokenizer, (int32_t)id)) return true;
  return tn_ids_add(&tokenizer->ends, (int32_t)id);
}

static void drop_end(tn_tokenizer *tokenizer, int32_t id) {
  tn_ids *ends = &tokenizer->ends;
  for (size_t i = 0; i < ends->count; i++)
    if (ends->data[i] == id) ends->data[i--] = ends->data[--ends->count];
}

/* Names that have no other use than to end a generation. Files name one such id, and often not the one that ends a
 * turn, so these count as well. */
static const char *const end_names[] = {"<|eot_id|>",
                                        "<|im_end|>",
                                        "<|end|>",
                                        "<|return|>",
                                        "<|call|>",
                                        "<|flush|>",
                                        "<|calls|>",
                                        "<end_of_turn>",
                                        "<|endoftext|>",
                                        "</s>",
                                        "<|eom_id|>",
                                        "<EOT>",
                                        "_<EOT>",
                                        "[EOT]",
                                        "[EOS]",
                                        "<|end_of_text|>",
                                        "<end_of_utterance>",
                                        "<eos>",
                                        "<turn|>",
                                        "<|tool_response>",
                                        "<\xef\xbd\x9c"
                                        "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
                                        "[e~["};

bool tn_tokenizer_is_end_name(tn_text text) {
  for (size_t i = 0; i < TN_COUNT(end_names); i++)
    if (tn_text_is(text, end_names[i])) return true;
  return false;
}

static bool find_ends(tn_tokenizer *tokenizer) {
  static const tn_token_role roles[] = {TN_ROLE_EOS, TN_ROLE_EOT, TN_ROLE_EOM};
  for (size_t i = 0; i < TN_COUNT(end_names); i++) {
    int32_t id = tn_tokenizer_find(tokenizer, tn_text_of(end_names[i]));
    if (id >= 0 && tokenizer->special[id] && !tn_tokenizer_add_end(tokenizer, id)) return false;
  }
  int32_t end = tn_tokenizer_find(tokenizer, TN_TEXT("<|end|>")),
          call = tn_tokenizer_find(tokenizer, TN_TEXT("<|call|>"));
  int32_t calls = tn_tokenizer_find(tokenizer, TN_TEXT("<|calls|>"));
  /* Where calls have an end of their own, <|end|> only ends a message. */
  if ((tn_tokenizer_is_end(tokenizer, call) && tn_tokenizer_find(tokenizer, TN_TEXT("<|return|>")) >= 0) ||
      (tn_tokenizer_is_end(tokenizer, calls) && tn_tokenizer_find(tokenizer, TN_TEXT("<|flush|>")) >= 0))
    drop_end(tokenizer, end);
  if (tn_tokenizer_find(tokenizer, TN_TEXT("<|tool_response>")) >= 0)
    drop_end(tokenizer, tn_tokenizer_find(tokenizer, TN_TEXT("</s>")));
  for (size_t i = 0; i < TN_COUNT(roles); i++)
    if (!tn_tokenizer_add_end(tokenizer, tokenizer->roles[roles[i]])) return false;
  return true;
}

tn_status tn_tokenizer_complete(tn_tokenizer *tokenizer, tn_error *error) {
  tn_added_tokens_sort(&tokenizer->added);
  for (int role = 0; role < TN_ROLE_COUNT; role++)
    if (tokenizer->roles[role] < 0 || (size_t)tokenizer->roles[role] >= tokenizer->vocab_count)
      tokenizer->roles[role] = TN_UNSET;
  if (!find_ends(tokenizer)) return tn_fail(error, TN_E_MEMORY, "out of memory for a tokenizer");
  uint64_t hash = tokenizer->vocab_count;
  for (size_t id = 0; id < tokenizer->vocab_count; id++) {
    tn_text text = tn_token_table_text(&tokenizer->texts, id);
    hash = tn_hash_bytes(text.data, text.bytes, hash);
  }
  tokenizer->fingerprint = hash;
  return TN_OK;
}

/* ---- questions ---- */

size_t tn_tokenizer_size(const tn_tokenizer *tokenizer) {
  return tokenizer->vocab_count;
}

static bool is_id(const tn_tokenizer *tokenizer, int32_t id) {
  return id >= 0 && (size_t)id < tokenizer->vocab_count;
}

tn_text tn_tokenizer_token_text(const tn_tokenizer *tokenizer, int32_t id) {
  return is_id(tokenizer, id) ? tn_token_table_text(&tokenizer->texts, (size_t)id) : (tn_text){NULL, 0};
}

int32_t tn_tokenizer_find(const tn_tokenizer *tokenizer, tn_text text) {
  int32_t id = tn_token_table_find(&tokenizer->texts, text);
  for (size_t i = 0; id < 0 && i < tokenizer->added.count; i++) { /* those that only the text finds */
    const int32_t added = tokenizer->added.tokens[i].id;
    if (tn_text_equal(tn_token_table_text(&tokenizer->texts, (size_t)added), text)) id = added;
  }
  return is_id(tokenizer, id) ? id : -1;
}

bool tn_tokenizer_is_special(const tn_tokenizer *tokenizer, int32_t id) {
  return is_id(tokenizer, id) && tokenizer->special[id];
}

bool tn_tokenizer_is_end(const tn_tokenizer *tokenizer, int32_t id) {
  for (size_t i = 0; i < tokenizer->ends.count; i++)
    if (tokenizer->ends.data[i] == id) return true;
  return false;
}

const int32_t *tn_tokenizer_ends(const tn_tokenizer *tokenizer, size_t *count) {
  *count = tokenizer->ends.count;
  return tokenizer->ends.data;
}

int32_t tn_tokenizer_role(const tn_tokenizer *tokenizer, tn_token_role role) {
  return tokenizer->roles[role];
}

bool tn_tokenizer_adds_bos(const tn_tokenizer *tokenizer) {
  return tokenizer->before.count > 0;
}

uint64_t tn_tokenizer_fingerprint(const tn_tokenizer *tokenizer) {
  return tokenizer->fingerprint;
}
