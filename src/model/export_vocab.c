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

static bool same_ids(const tn_tokenizer *a, const tn_tokenizer *b, const char *text) {
  const tn_span span = {tn_text_of(text), false};
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
  bool same = same_ids(a, b, probe);
  for (size_t i = 0; i < TN_COUNT(beginnings) && same; i++) same = same_ids(a, b, beginnings[i]);
  return same;
}

typedef struct vocab_export {
  const tn_tokenizer *tokenizer;
  size_t count;
  tn_text *tokens;
  int32_t *types;
  tn_text *merges;
  size_t merge_count, merge_capacity;
  float *scores; /* of SentencePiece's vocabularies */
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
  for (size_t i = 0; i < added->count; i++)
    if (!added->tokens[i].special && (size_t)added->tokens[i].id < count)
      v->types[added->tokens[i].id] = TN_TOKEN_USER_DEFINED;
  return true;
}

/* ---- the name of the pre-tokenizer ---- */

static void fill_roles(const vocab_export *v, tn_vocab *vocab) {
  for (int role = 0; role < TN_ROLE_COUNT; role++)
    vocab->roles[role] = tn_tokenizer_role(v->tokenizer, (tn_token_role)role);
  vocab->add_bos = tn_tokenizer_adds_bos(v->tokenizer);
  vocab->add_eos = v->tokenizer->after.count > 0;
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

/* ---- writing ---- */

static void put_roles(const vocab_export *v, tn_gguf_keys *keys) {
  static const struct {
    tn_token_role role;
    const char *key;
  } roles[] = {{TN_ROLE_BOS, "tokenizer.ggml.bos_token_id"},
               {TN_ROLE_EOS, "tokenizer.ggml.eos_token_id"},
               {TN_ROLE_UNKNOWN, "tokenizer.ggml.unknown_token_id"},
               {TN_ROLE_PADDING, "tokenizer.ggml.padding_token_id"}};
  int32_t eos = tn_tokenizer_role(v->tokenizer, TN_ROLE_EOS);
  for (size_t i = 0; i < TN_COUNT(roles); i++) {
    int32_t id = tn_tokenizer_role(v->tokenizer, roles[i].role);
    if (id >= 0) tn_gguf_put_u32(keys, roles[i].key, (uint32_t)id);
  }
  size_t count;
  const int32_t *ends = tn_tokenizer_ends(v->tokenizer, &count);
  for (size_t i = 0; i < count; i++) {
    if (ends[i] == eos) continue;
    tn_gguf_put_u32(keys, "tokenizer.ggml.eot_token_id", (uint32_t)ends[i]);
    break;
  }
  tn_gguf_put_bool(keys, "tokenizer.ggml.add_bos_token", tn_tokenizer_adds_bos(v->tokenizer));
  if (v->tokenizer->after.count) tn_gguf_put_bool(keys, "tokenizer.ggml.add_eos_token", true);
}

static void put_sentencepiece(const tn_vocab *vocab, tn_gguf_keys *keys) {
  bool has_merges = vocab->kind == TN_VOCAB_BPE;
  tn_gguf_put_text(keys, "tokenizer.ggml.model", has_merges ? TN_TEXT("gemma4") : TN_TEXT("llama"));
  tn_gguf_put_text(keys, "tokenizer.ggml.pre", has_merges ? TN_TEXT("gemma4") : TN_TEXT("default"));
  if (!has_merges) tn_gguf_put_bool(keys, "tokenizer.ggml.add_space_prefix", vocab->add_space_prefix);
  tn_gguf_put_array(keys, "tokenizer.ggml.scores", TN_GGUF_F32, vocab->count, vocab->scores,
                    vocab->count * sizeof *vocab->scores);
}

static tn_status no_name(const vocab_export *v, const char *folder) {
  return tn_fail(v->error, TN_E_UNSUPPORTED,
                 "%s: no pre-tokenizer that GGUF has a name for cuts words as its tokenizer.json does; --no-tokenizer "
                 "leaves it out",
                 folder);
}

static tn_status put_vocabulary(vocab_export *v, tn_gguf_keys *keys, const tn_model *model) {
  const char *folder = tn_model_container(model)->path;
  bool is_byte_level = v->tokenizer->bpe.byte_level, has_merges = is_byte_level;
  if (v->tokenizer->model != TN_MODEL_BPE)
    return tn_fail(v->error, TN_E_UNSUPPORTED,
                   "%s: only BPE tokenizers can be written as GGUF; --no-tokenizer leaves it out", folder);
  if (!read_merges(v, folder) || !read_tokens(v, tn_model_hyper(model)->vocabulary)) return v->error->status;
  if (is_byte_level) {
    tn_text pre = find_pre(v);
    if (!pre.bytes) return no_name(v, folder);
    tn_gguf_put_text(keys, "tokenizer.ggml.model", TN_TEXT("gpt2"));
    tn_gguf_put_text(keys, "tokenizer.ggml.pre", pre);
  } else {
    tn_vocab found;
    if (!read_scores(v)) return v->error->status;
    if (!find_sentencepiece(v, !strcmp(tn_model_family(model)->name, "gemma4"), &found)) return no_name(v, folder);
    put_sentencepiece(&found, keys);
    has_merges = found.kind == TN_VOCAB_BPE;
  }
  tn_gguf_put_texts(keys, "tokenizer.ggml.tokens", v->tokens, v->count);
  tn_gguf_put_array(keys, "tokenizer.ggml.token_type", TN_GGUF_I32, v->count, v->types, v->count * sizeof *v->types);
  if (has_merges) tn_gguf_put_texts(keys, "tokenizer.ggml.merges", v->merges, v->merge_count);
  put_roles(v, keys);
  return TN_OK;
}

tn_status tn_export_text(tn_gguf_keys *keys, const tn_model *model, tn_error *error) {
  const tn_model_text *text = tn_model_texts(model);
  if (!text->tokenizer && text->no_tokenizer.status == TN_E_UNSUPPORTED) {
    *error = text->no_tokenizer;
    return error->status;
  }
  vocab_export v = {.tokenizer = text->tokenizer, .error = error};
  tn_arena_init(&v.arena, 0);
  tn_status status = text->tokenizer ? put_vocabulary(&v, keys, model) : TN_OK;
  if (status == TN_OK && text->chat)
    tn_gguf_put_text(keys, "tokenizer.chat_template", tn_text_of(tn_chat_template_source(text->chat)));
  free(v.tokens);
  free(v.types);
  free(v.merges);
  free(v.scores);
  tn_arena_finish(&v.arena);
  return status;
}
