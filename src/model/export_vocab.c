/* The tokenizer and the chat template of a folder as GGUF's keys (see export.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/json_reader.h"
#include "base/os.h"
#include "model/export.h"
#include "text/pre_names.h"
#include "text/tokenizer_parts.h"

#define MOST_JSON ((size_t)256 << 20)

/* Where tokenizers differ: endings, numbers, blanks, lines, marks, scripts, signs. In normal form C, for GGUF has no
 * key for normalization. */
static const char probe[] =
    "Hello, World! I'M we'll They'Ve don't CAN'T  it's 1234567890 3.14159e-10 x=42;\n\n\n\ttabs\t\tand   spaces \r\n  "
    "\n"
    "camelCase HTTPServer snake_case __init__(self) => {\"key\": [1, 22, 333, 4444]} // ... --- ### $100 #tag @name\n"
    "na\xc3\xafve caf\xc3\xa9 \xc3\x85ngstr\xc3\xb6m "
    "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 "
    "\xce\x93\xce\xb5\xce\xb9\xce\xac \xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x8c\xe4\xb8\x96\xe7\x95\x8c\xe3\x80\x82 "
    "\xe3\x81\x93\xe3\x82\x93\xe3\x81\xab\xe3\x81\xa1\xe3\x81\xaf \xec\x95\x88\xeb\x85\x95 "
    "\xe0\xa4\xa8\xe0\xa4\xae\xe0\xa4"
    "\xb8\xe0\xa5\x8d\xe0\xa4\xa4\xe0\xa5\x87 \xd9\x85\xd8\xb1\xd8\xad\xd8\xa8\xd8\xa7 "
    "\xe0\xb8\xaa\xe0\xb8\xa7\xe0\xb8\xb1"
    "\xe0\xb8\xaa \xe1\x9e\x97 \xf0\x9f\x98\x80\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd "
    "\xe2\x82\xac\xc2\xa3\xc2\xbd\xe2\x85\xa7 "
    " \xd9\xa1\xd9\xa2\xd9\xa3\xd9\xa4\xd9\xa5\xd9\xa6 \xd9\xa3 \xe4\xb8\xad\xe6\x96\x87"
    "12 \xe1\x8d\xa9"
    "\xe1\x8d\xaa\xe1\x8d\xab\xe1\x8d\xa2 \xe2\x85\xa3\xe2\x85\xa8 \xe2\x85\xb7 \xc2\xbd \xc2\xb2\xc2\xb3 "
    "\xe0\xa5\xa7\xe0\xa5\xa8\xe0\xa5\xa9 x\xd9\xa3y \xe3\x80\x8c\xe5\xbc\x95\xe7\x94\xa8\xe3\x80\x8d\xe3\x80"
    "\x81\xe2\x80\xa6\xe2\x80\x94\xe2\x80\x98q\xe2\x80\x99\xe2\x80\x9cQ\xe2\x80\x9d !?;:%^&*()[]<>/\\\\|~`"
    " 'S 'RE L'\xc3\x89t\xc3\xa9 d\xe2\x80\x99o\xc3\xb9 "
    "end.   ";

static bool same_ids(const tn_tokenizer *a, const tn_tokenizer *b, tn_text text, bool trusted) {
  const tn_span span = {text, trusted};
  tn_ids first = {0}, second = {0};
  bool same = tn_tokenizer_encode(a, &span, 1, TN_ENCODE_BOS | TN_ENCODE_EOS, &first, NULL) == TN_OK &&
              tn_tokenizer_encode(b, &span, 1, TN_ENCODE_BOS | TN_ENCODE_EOS, &second, NULL) == TN_OK &&
              first.count == second.count && !memcmp(first.data, second.data, first.count * sizeof *first.data);
  free(first.data);
  free(second.data);
  return same;
}

bool tn_export_same_ids(const tn_tokenizer *a, const tn_tokenizer *b) {
  static const char *const beginnings[] = {" x", "   x  ", "\n x", "x"};
  bool same = same_ids(a, b, tn_text_of(probe), false);
  for (size_t i = 0; i < TN_COUNT(beginnings) && same; i++) same = same_ids(a, b, tn_text_of(beginnings[i]), false);
  return same;
}

bool tn_export_same_ids_of(const tn_tokenizer *a, const tn_tokenizer *b, tn_text text) {
  return same_ids(a, b, text, true);
}

typedef struct vocab_export {
  const tn_tokenizer *tokenizer;
  size_t count;
  tn_text *tokens;
  int32_t *types;
  tn_text *merges;
  size_t merge_count, merge_capacity;
  float *scores;       /* of SentencePiece's vocabularies */
  uint8_t *strips;     /* NULL: no token takes white space */
  tn_text normal_form; /* of byte-level BPE: what all text is brought into, where that is all that is done to it */
  tn_buf charsmap;
  bool by_cluster; /* how the map is looked up */
  tn_arena arena;
  tn_error *error;
} vocab_export;

static bool no_memory(vocab_export *v) {
  tn_fail(v->error, TN_E_MEMORY, "out of memory for the vocabulary");
  return false;
}

/* ---- merges, from tokenizer.json ---- */

/* "left right", or ["left", "right"]. */
static void read_merge(tn_json *json, vocab_export *v) {
  tn_text part;
  tn_buf text;
  tn_buf_init(&text);
  bool read;
  if (tn_json_peek(json) == TN_JSON_STRING) {
    read = tn_json_string(json, &part) && tn_buf_append(&text, part.data, part.bytes);
  } else {
    read = tn_json_array(json) && tn_json_item(json) && tn_json_string(json, &part) &&
           tn_buf_append(&text, part.data, part.bytes) && tn_buf_putc(&text, ' ') && tn_json_item(json) &&
           tn_json_string(json, &part) && tn_buf_append(&text, part.data, part.bytes);
    if (read) read = !tn_json_item(json);
  }
  tn_text *slot = read ? TN_PUSH(v->merges, v->merge_count, v->merge_capacity) : NULL;
  char *kept = slot ? tn_arena_copy(&v->arena, text.data, text.size) : NULL;
  if (kept)
    *slot = (tn_text){kept, text.size};
  else
    tn_json_fail(json, TN_E_FORMAT, "merges: a pair of texts is expected");
  tn_buf_finish(&text);
}

static void read_model(tn_json *json, vocab_export *v) {
  if (tn_json_object(json))
    for (tn_text key; tn_json_key(json, &key);) {
      if (!tn_text_is(key, "merges") || !tn_json_array(json)) {
        if (json->status == TN_OK) tn_json_skip(json, NULL);
        continue;
      }
      while (tn_json_item(json)) read_merge(json, v);
    }
}

static bool read_merges(vocab_export *v, const char *folder) {
  tn_buf path;
  char *data = NULL;
  size_t size;
  tn_buf_init(&path);
  tn_buf_printf(&path, "%s/tokenizer.json", folder);
  tn_status status = path.failed ? tn_fail(v->error, TN_E_MEMORY, "out of memory")
                                 : tn_file_read(path.data, MOST_JSON, &data, &size, v->error);
  tn_buf_finish(&path);
  if (status != TN_OK) return false;
  tn_json json;
  tn_json_init(&json, data, size, v->error);
  if (tn_json_object(&json))
    for (tn_text key; tn_json_key(&json, &key);) {
      if (tn_text_is(key, "model"))
        read_model(&json, v);
      else
        tn_json_skip(&json, NULL);
    }
  status = tn_json_end(&json);
  free(data);
  return status == TN_OK;
}

/* ---- tokens ---- */

/* An id without a token, or whose text an earlier one has, gets a name nobody writes. */
static bool name_gap(vocab_export *v, size_t id) {
  char text[32];
  int bytes = snprintf(text, sizeof text, "[PAD%zu]", id);
  const char *kept = tn_arena_copy(&v->arena, text, (size_t)bytes);
  v->tokens[id] = (tn_text){kept ? kept : "", (size_t)bytes};
  v->types[id] = TN_TOKEN_UNUSED;
  return kept != NULL;
}

/* `count` ids, as many as the model has rows for. */
static bool read_tokens(vocab_export *v, size_t count) {
  v->count = count;
  v->tokens = tn_calloc(count, sizeof *v->tokens);
  v->types = tn_calloc(count, sizeof *v->types);
  if (!v->tokens || !v->types) return no_memory(v);
  for (size_t i = 0; i < count; i++) {
    tn_text text =
        i < tn_tokenizer_size(v->tokenizer) ? tn_tokenizer_token_text(v->tokenizer, (int32_t)i) : TN_TEXT("");
    v->tokens[i] = text;
    v->types[i] = tn_tokenizer_is_special(v->tokenizer, (int32_t)i) ? TN_TOKEN_CONTROL : TN_TOKEN_NORMAL;
    if (!text.bytes && !name_gap(v, i)) return no_memory(v);
  }
  const tn_added_tokens *added = &v->tokenizer->added;
  for (size_t i = 0; i < added->count; i++) {
    const tn_added_token *token = added->tokens + i;
    if ((size_t)token->id >= count) continue;
    if (!token->special) v->types[token->id] = TN_TOKEN_USER_DEFINED;
    if (!token->left && !token->right) continue;
    if (!v->strips && !(v->strips = tn_calloc(count, 1))) return no_memory(v);
    v->strips[token->id] = (uint8_t)((token->left ? TN_STRIPS_LEFT : 0) | (token->right ? TN_STRIPS_RIGHT : 0));
  }
  return true;
}

/* ---- the name of the pre-tokenizer ---- */

/* What goes around a text has the roles of BOS and EOS in GGUF, whatever tokenizer_config.json calls so. */
static void fill_roles(const vocab_export *v, tn_vocab *vocab) {
  const tn_tokenizer *from = v->tokenizer;
  for (int role = 0; role < TN_ROLE_COUNT; role++) vocab->roles[role] = tn_tokenizer_role(from, (tn_token_role)role);
  size_t count;
  const int32_t *ends = tn_tokenizer_ends(from, &count);
  if (from->before.count == 1) vocab->roles[TN_ROLE_BOS] = from->before.data[0];
  if (from->after.count == 1)
    vocab->roles[TN_ROLE_EOS] = from->after.data[0];
  else if (vocab->roles[TN_ROLE_EOS] < 0 && count)
    vocab->roles[TN_ROLE_EOS] = ends[0];
  vocab->add_bos = tn_tokenizer_adds_bos(from);
  vocab->add_eos = from->after.count > 0;
  if (from->model == TN_MODEL_UNIGRAM) vocab->roles[TN_ROLE_UNKNOWN] = from->unigram.unknown_id;
}

/* Tried first: where digits have no merges, these can't be told by ids from rules that keep digits together. */
static const char *const narrow_rules[] = {"qwen2", "smollm"};

/* The i-th name to try; empty behind the last. */
static tn_text candidate(size_t i) {
  return i < TN_COUNT(narrow_rules) ? tn_text_of(narrow_rules[i]) : tn_pre_rules_name(i - TN_COUNT(narrow_rules));
}

static tn_vocab vocab_of(const vocab_export *v, tn_vocab_kind kind) {
  tn_vocab vocab;
  tn_vocab_init(&vocab, kind);
  vocab.count = v->count;
  vocab.tokens = v->tokens;
  vocab.types = v->types;
  vocab.scores = v->scores;
  vocab.strips = v->strips;
  if (kind == TN_VOCAB_BPE && v->tokenizer->bpe.byte_level) vocab.normal_form = v->normal_form;
  vocab.merges = v->merges;
  vocab.merge_count = v->merge_count;
  fill_roles(v, &vocab);
  return vocab;
}

/* Does the vocabulary give the probe the ids that the folder's tokenizer does? */
static bool fits(const vocab_export *v, const tn_vocab *vocab) {
  tn_tokenizer *tokenizer = NULL;
  bool same = tn_tokenizer_create(&tokenizer, vocab, NULL) == TN_OK && tn_export_same_ids(v->tokenizer, tokenizer);
  tn_tokenizer_destroy(tokenizer);
  return same;
}

/* The name whose rules cut the probe as the folder's tokenizer does; empty: none does. */
static tn_text find_pre(const vocab_export *v) {
  tn_vocab vocab = vocab_of(v, TN_VOCAB_BPE);
  for (size_t i = 0;; i++) {
    vocab.pre = candidate(i);
    if (!vocab.pre.bytes || fits(v, &vocab)) return vocab.pre;
  }
}

/* ---- SentencePiece ---- */

static bool is_byte_name(tn_text text) {
  return text.bytes == 6 && !memcmp(text.data, "<0x", 3) && text.data[5] == '>';
}

/* Scores and types as SentencePiece has them: the score is that of the first merge that makes a token, and what none
 * makes comes last. */
static bool read_scores(vocab_export *v) {
  const tn_tokenizer *from = v->tokenizer;
  v->scores = tn_calloc(v->count, sizeof *v->scores);
  if (!v->scores) return no_memory(v);
  for (size_t i = 0; i < v->count; i++) {
    if (is_byte_name(v->tokens[i])) v->types[i] = TN_TOKEN_BYTE;
    if ((int32_t)i == from->bpe.unknown_id) v->types[i] = TN_TOKEN_UNKNOWN;
    v->scores[i] = -1e9f;
  }
  for (size_t m = v->merge_count; m-- > 0;) {
    char text[512];
    tn_text merge = v->merges[m];
    const char *blank = merge.bytes > 1 ? memchr(merge.data + 1, ' ', merge.bytes - 1) : NULL;
    if (!blank || merge.bytes >= sizeof text) continue;
    size_t left = (size_t)(blank - merge.data);
    memcpy(text, merge.data, left);
    memcpy(text + left, blank + 1, merge.bytes - left - 1);
    int32_t id = tn_tokenizer_find(from, (tn_text){text, merge.bytes - 1});
    if (id >= 0 && (size_t)id < v->count) v->scores[id] = -(float)m;
  }
  return true;
}

/* Which of GGUF's kinds fits, and with a blank in front or without; false: none. Gemma 4 has a kind of its own. */
static bool find_sentencepiece(const vocab_export *v, bool is_gemma4, tn_vocab *found) {
  for (int i = 0; i < 3; i++) {
    bool has_merges = i == (is_gemma4 ? 0 : 2);
    *found = vocab_of(v, has_merges ? TN_VOCAB_BPE : TN_VOCAB_SPM);
    if (has_merges)
      found->pre = TN_TEXT("gemma4");
    else
      found->add_space_prefix = i % 2;
    if (fits(v, found)) return true;
  }
  return false;
}

/* ---- unigram ---- */

/* Each token's own score. What the model doesn't know is found in the text itself or never. */
static bool read_unigram_scores(vocab_export *v) {
  const tn_tokenizer *from = v->tokenizer;
  v->scores = tn_calloc(v->count, sizeof *v->scores);
  if (!v->scores) return no_memory(v);
  for (size_t i = 0; i < v->count; i++) {
    bool known =
        i < from->vocab_count && tn_tokenizer_token_text(from, (int32_t)i).bytes && !(from->flags[i] & TN_FLAG_APART);
    v->scores[i] = known ? (float)from->scores[i] : -1e9f;
    if (from->unigram.byte_fallback && is_byte_name(v->tokens[i])) v->types[i] = TN_TOKEN_BYTE;
    if ((int32_t)i == from->unigram.unknown_id) v->types[i] = TN_TOKEN_UNKNOWN;
  }
  return true;
}

/* The map of characters as SentencePiece stores it. */
static bool read_charsmap(vocab_export *v) {
  const tn_normalizer *normalizer = &v->tokenizer->normalizer;
  const tn_charsmap *map = NULL;
  for (size_t i = 0; i < normalizer->count; i++)
    if (normalizer->steps[i].kind == TN_NORMAL_CHARSMAP) {
      map = normalizer->steps[i].map;
      v->by_cluster = normalizer->steps[i].by_cluster;
    }
  return !map || tn_charsmap_write(map, &v->charsmap) || no_memory(v);
}

/* With a blank in front or without, and runs of blanks kept or not; false: none fits. */
static bool find_unigram(const vocab_export *v, tn_vocab *found) {
  for (int i = 0; i < 4; i++) {
    *found = vocab_of(v, TN_VOCAB_UNIGRAM);
    found->add_space_prefix = i % 2;
    found->remove_extra_whitespaces = i / 2;
    found->charsmap = v->charsmap.data;
    found->charsmap_bytes = v->charsmap.size;
    found->charsmap_by_cluster = v->by_cluster;
    found->byte_fallback = v->tokenizer->unigram.byte_fallback;
    if (fits(v, found)) return true;
  }
  return false;
}

/* ---- writing ---- */

/* What ends a generation beside `eos`: those that no reader knows by name first, for there are keys for two. */
static void put_ends(const vocab_export *v, int32_t eos, tn_gguf_keys *keys) {
  static const char *const names[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
  size_t count, used = 0;
  const int32_t *ends = tn_tokenizer_ends(v->tokenizer, &count);
  for (int by_name = 0; by_name < 2; by_name++)
    for (size_t i = 0; i < count && used < TN_COUNT(names); i++) {
      bool is_named = tn_tokenizer_is_end_name(tn_tokenizer_token_text(v->tokenizer, ends[i]));
      if (ends[i] != eos && is_named == (by_name == 1)) tn_gguf_put_u32(keys, names[used++], (uint32_t)ends[i]);
    }
}

static void put_roles(const vocab_export *v, tn_gguf_keys *keys) {
  static const struct {
    tn_token_role role;
    const char *key;
  } roles[] = {{TN_ROLE_BOS, "tokenizer.ggml.bos_token_id"},
               {TN_ROLE_EOS, "tokenizer.ggml.eos_token_id"},
               {TN_ROLE_UNKNOWN, "tokenizer.ggml.unknown_token_id"},
               {TN_ROLE_PADDING, "tokenizer.ggml.padding_token_id"}};
  const tn_vocab vocab = vocab_of(v, TN_VOCAB_BPE);
  for (size_t i = 0; i < TN_COUNT(roles); i++)
    if (vocab.roles[roles[i].role] >= 0) tn_gguf_put_u32(keys, roles[i].key, (uint32_t)vocab.roles[roles[i].role]);
  put_ends(v, vocab.roles[TN_ROLE_EOS], keys);
  tn_gguf_put_bool(keys, "tokenizer.ggml.add_bos_token", vocab.add_bos);
  tn_gguf_put_bool(keys, "tokenizer.ggml.add_eos_token", vocab.add_eos);
}

static void put_sentencepiece(const tn_vocab *vocab, tn_gguf_keys *keys) {
  bool has_merges = vocab->kind == TN_VOCAB_BPE;
  tn_gguf_put_text(keys, "tokenizer.ggml.model", has_merges ? TN_TEXT("gemma4") : TN_TEXT("llama"));
  tn_gguf_put_text(keys, "tokenizer.ggml.pre", has_merges ? TN_TEXT("gemma4") : TN_TEXT("default"));
  if (!has_merges) tn_gguf_put_bool(keys, "tokenizer.ggml.add_space_prefix", vocab->add_space_prefix);
  tn_gguf_put_array(keys, "tokenizer.ggml.scores", TN_GGUF_F32, vocab->count, vocab->scores,
                    vocab->count * sizeof *vocab->scores);
}

static void put_unigram(const tn_vocab *vocab, tn_gguf_keys *keys) {
  tn_gguf_put_text(keys, "tokenizer.ggml.model", TN_TEXT("t5"));
  tn_gguf_put_text(keys, "tokenizer.ggml.pre", TN_TEXT("default"));
  tn_gguf_put_bool(keys, "tokenizer.ggml.add_space_prefix", vocab->add_space_prefix);
  tn_gguf_put_bool(keys, "tokenizer.ggml.remove_extra_whitespaces", vocab->remove_extra_whitespaces);
  if (vocab->charsmap_bytes)
    tn_gguf_put_array(keys, "tokenizer.ggml.precompiled_charsmap", TN_GGUF_U8, vocab->charsmap_bytes, vocab->charsmap,
                      vocab->charsmap_bytes);
  tn_gguf_put_array(keys, "tokenizer.ggml.scores", TN_GGUF_F32, vocab->count, vocab->scores,
                    vocab->count * sizeof *vocab->scores);
}

/* The ids of the tokens that take white space at one side. */
static tn_status put_strips(const vocab_export *v, tn_export *out, unsigned side, const char *key) {
  int32_t *ids = tn_calloc(v->count, sizeof *ids);
  size_t count = 0;
  if (!ids) return tn_fail(v->error, TN_E_MEMORY, "out of memory for the vocabulary");
  for (size_t i = 0; i < v->count; i++)
    if (v->strips[i] & side) ids[count++] = (int32_t)i;
  if (count) tn_gguf_put_array(&out->keys, key, TN_GGUF_I32, count, ids, count * sizeof *ids);
  free(ids);
  return count ? tn_export_note_rare(out, key, v->error) : TN_OK;
}

/* Keys that only tenon reads. */
static tn_status put_rare(const vocab_export *v, tn_export *out) {
  tn_status status = TN_OK;
  if (v->strips) {
    status = put_strips(v, out, TN_STRIPS_LEFT, "tokenizer.ggml.strips_left");
    if (status == TN_OK) status = put_strips(v, out, TN_STRIPS_RIGHT, "tokenizer.ggml.strips_right");
  }
  if (status == TN_OK && v->normal_form.bytes) {
    tn_gguf_put_text(&out->keys, "tokenizer.ggml.normal_form", v->normal_form);
    status = tn_export_note_rare(out, "tokenizer.ggml.normal_form", v->error);
  }
  const struct {
    const char *key;
    bool holds;
  } flags[] = {
      {"tokenizer.ggml.charsmap_by_cluster", v->by_cluster},
      {"tokenizer.ggml.byte_fallback", v->tokenizer->model == TN_MODEL_UNIGRAM && v->tokenizer->unigram.byte_fallback}};
  for (size_t i = 0; i < TN_COUNT(flags) && status == TN_OK; i++) {
    if (!flags[i].holds) continue;
    tn_gguf_put_bool(&out->keys, flags[i].key, true);
    status = tn_export_note_rare(out, flags[i].key, v->error);
  }
  return status;
}

static tn_status no_name(const vocab_export *v, const char *folder) {
  return tn_fail(v->error, TN_E_UNSUPPORTED,
                 "%s: no pre-tokenizer that GGUF has a name for cuts words as its tokenizer.json does; --no-tokenizer "
                 "leaves it out",
                 folder);
}

/* Byte-level BPE. */
static tn_status put_bytes(vocab_export *v, tn_gguf_keys *keys, const char *folder) {
  const tn_normalizer *normalizer = &v->tokenizer->normalizer;
  if (normalizer->count == 1 && normalizer->steps[0].kind == TN_NORMAL_FORM)
    v->normal_form = tn_text_of(tn_normal_form_name(normalizer->steps[0].form));
  tn_text pre = find_pre(v);
  if (!pre.bytes) return no_name(v, folder);
  tn_gguf_put_text(keys, "tokenizer.ggml.model", TN_TEXT("gpt2"));
  tn_gguf_put_text(keys, "tokenizer.ggml.pre", pre);
  tn_gguf_put_texts(keys, "tokenizer.ggml.merges", v->merges, v->merge_count);
  return TN_OK;
}

/* BPE of characters. */
static tn_status put_characters(vocab_export *v, tn_gguf_keys *keys, const tn_model *model) {
  tn_vocab found;
  if (!read_scores(v)) return v->error->status;
  if (!find_sentencepiece(v, !strcmp(tn_model_family(model)->name, "gemma4"), &found))
    return no_name(v, tn_model_container(model)->path);
  put_sentencepiece(&found, keys);
  if (found.kind == TN_VOCAB_BPE) tn_gguf_put_texts(keys, "tokenizer.ggml.merges", v->merges, v->merge_count);
  return TN_OK;
}

static tn_status put_pieces(vocab_export *v, tn_gguf_keys *keys, const char *folder) {
  tn_vocab found;
  if (!read_unigram_scores(v) || !read_charsmap(v)) return v->error->status;
  if (!find_unigram(v, &found))
    return tn_fail(v->error, TN_E_UNSUPPORTED,
                   "%s: GGUF can't say what its tokenizer.json (Unigram) does to a text before it is cut into tokens; "
                   "--no-tokenizer leaves it out",
                   folder);
  put_unigram(&found, keys);
  return TN_OK;
}

static tn_status put_vocabulary(vocab_export *v, tn_export *out, const tn_model *model) {
  const char *folder = tn_model_container(model)->path;
  tn_gguf_keys *keys = &out->keys;
  tn_model_kind kind = v->tokenizer->model;
  if (kind == TN_MODEL_WORDPIECE)
    return tn_fail(v->error, TN_E_UNSUPPORTED,
                   "%s: WordPiece and WordLevel tokenizers can't be written as GGUF, BPE and Unigram can; "
                   "--no-tokenizer leaves it out",
                   folder);
  if (kind == TN_MODEL_BPE && !read_merges(v, folder)) return v->error->status;
  if (!read_tokens(v, tn_model_hyper(model)->vocabulary)) return v->error->status;
  tn_status status = kind == TN_MODEL_UNIGRAM       ? put_pieces(v, keys, folder)
                     : v->tokenizer->bpe.byte_level ? put_bytes(v, keys, folder)
                                                    : put_characters(v, keys, model);
  if (status != TN_OK) return status;
  out->drops_normalizer = v->tokenizer->bpe.byte_level && v->tokenizer->normalizer.count && !v->normal_form.bytes;
  tn_gguf_put_texts(keys, "tokenizer.ggml.tokens", v->tokens, v->count);
  tn_gguf_put_array(keys, "tokenizer.ggml.token_type", TN_GGUF_I32, v->count, v->types, v->count * sizeof *v->types);
  put_roles(v, keys);
  return put_rare(v, out);
}

tn_status tn_export_text(tn_export *out, const tn_model *model, tn_error *error) {
  const tn_model_text *text = tn_model_texts(model);
  if (!text->tokenizer && text->no_tokenizer.status == TN_E_UNSUPPORTED) {
    *error = text->no_tokenizer;
    return error->status;
  }
  vocab_export v = {.tokenizer = text->tokenizer, .error = error};
  tn_arena_init(&v.arena, 0);
  tn_buf_init(&v.charsmap);
  tn_status status = text->tokenizer ? put_vocabulary(&v, out, model) : TN_OK;
  if (status == TN_OK && text->chat)
    tn_gguf_put_text(&out->keys, "tokenizer.chat_template", tn_text_of(tn_chat_template_source(text->chat)));
  free(v.tokens);
  free(v.types);
  free(v.merges);
  free(v.scores);
  free(v.strips);
  tn_buf_finish(&v.charsmap);
  tn_arena_finish(&v.arena);
  return status;
}
