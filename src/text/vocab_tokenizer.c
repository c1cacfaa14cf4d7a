/* Builds a tokenizer from a vocabulary as GGUF files hold it (tn_vocab). */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/pre_names.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

void tn_vocab_init(tn_vocab *vocab, tn_vocab_kind kind) {
  *vocab = (tn_vocab){.kind = kind};
  for (int role = 0; role < TN_ROLE_COUNT; role++) vocab->roles[role] = TN_UNSET;
  vocab->add_bos = vocab->add_eos = vocab->add_separator = TN_UNSET;
  vocab->add_space_prefix = vocab->remove_extra_whitespaces = TN_UNSET;
  vocab->lowercase = vocab->strip_accents = TN_UNSET;
}

static bool flag(int value, bool usual) {
  return value == TN_UNSET ? usual : value != 0;
}

static tn_status out_of_memory(tn_error *error) {
  return tn_fail(error, TN_E_MEMORY, "out of memory for a vocabulary");
}

/* Some files call the tokens that end a turn user-defined; those must not be made from what a user types. */
static tn_token_type type_of(const tn_vocab *vocab, size_t id) {
  tn_token_type type = vocab->types ? (tn_token_type)vocab->types[id] : TN_TOKEN_NORMAL;
  return type == TN_TOKEN_USER_DEFINED && tn_tokenizer_is_end_name(vocab->tokens[id]) ? TN_TOKEN_CONTROL : type;
}

static bool is_special(tn_token_type type) {
  return type == TN_TOKEN_CONTROL || type == TN_TOKEN_UNKNOWN;
}

/* ---- tokens ---- */

static tn_status add_texts(tn_tokenizer *tokenizer, const tn_vocab *vocab, tn_error *error) {
  size_t bytes = 0;
  for (size_t id = 0; id < vocab->count; id++) bytes += vocab->tokens[id].bytes;
  if (vocab->count == 0 || vocab->count >= INT32_MAX)
    return tn_fail(error, TN_E_FORMAT, "a vocabulary of %zu tokens", vocab->count);
  if (bytes > UINT32_MAX) return tn_fail(error, TN_E_LIMIT, "a vocabulary of %zu bytes of text", bytes);
  if (!tn_token_table_reserve(&tokenizer->texts, vocab->count, bytes)) return out_of_memory(error);
  for (size_t id = 0; id < vocab->count; id++)
    if (!tn_token_table_set(&tokenizer->texts, id, vocab->tokens[id], vocab->tokens[id].bytes > 0))
      return out_of_memory(error);
  if (!tn_tokenizer_fix_vocabulary(tokenizer)) return out_of_memory(error);
  for (size_t id = 0; id < vocab->count; id++) {
    tn_token_type type = type_of(vocab, id);
    tokenizer->special[id] = is_special(type);
    if (is_special(type) || type == TN_TOKEN_USER_DEFINED) tokenizer->flags[id] |= TN_FLAG_PLAIN;
  }
  return TN_OK;
}

static bool contains(tn_text text, const char *word) {
  size_t bytes = strlen(word);
  for (size_t i = 0; i + bytes <= text.bytes; i++) {
    size_t same = 0;
    while (same < bytes && (text.data[i + same] | 0x20) == (word[same] | 0x20)) same++;
    if (same == bytes) return true;
  }
  return false;
}

/* Which white space around a found token goes with it: most files don't say, then it is known by model. */
static void white_space_rules(const tn_vocab *vocab, tn_added_token *token) {
  if (vocab->strips) {
    token->left = vocab->strips[token->id] & TN_STRIPS_LEFT;
    token->right = vocab->strips[token->id] & TN_STRIPS_RIGHT;
    return;
  }
  bool phi3 = contains(vocab->name, "phi-3") || contains(vocab->name, "phi3");
  if (phi3)
    token->right = !tn_text_is(token->text, "<unk>") && !tn_text_is(token->text, "<s>") &&
                   !tn_text_is(token->text, "<|endoftext|>");
  bool mask = contains(vocab->pre, "jina-v2") || tn_text_is(vocab->architecture, "nomic-bert-moe") ||
              tn_text_is(vocab->architecture, "jina-bert-v3");
  if (mask && !phi3) token->left = tn_text_is(token->text, "<mask>");
  if (contains(vocab->name, "modern-bert")) token->left = tn_text_is(token->text, "[MASK]");
}

static tn_status add_found_tokens(tn_tokenizer *tokenizer, const tn_vocab *vocab, tn_error *error) {
  for (size_t id = 0; id < vocab->count; id++) {
    tn_token_type type = type_of(vocab, id);
    if (!is_special(type) && type != TN_TOKEN_USER_DEFINED) continue;
    tn_added_token token = {
        .id = (int32_t)id, .text = tn_token_table_text(&tokenizer->texts, id), .special = is_special(type)};
    white_space_rules(vocab, &token);
    tn_status status = tn_added_tokens_add(&tokenizer->added, &token, error);
    if (status != TN_OK) return status;
  }
  return TN_OK;
}

/* ---- steps ---- */

static tn_status replace_step(tn_tokenizer *tokenizer, const char *from, const char *to, tn_error *error) {
  tn_normal_step *step = tn_add_normal_step(&tokenizer->normalizer, TN_NORMAL_REPLACE);
  if (!step) return out_of_memory(error);
  step->from = tn_text_of(from);
  step->to = tn_text_of(to);
  return TN_OK;
}

/* Back from U+2581 and <0xXX>. */
static tn_status sentencepiece_decoding(tn_tokenizer *tokenizer, tn_error *error) {
  tn_decode_step *step = tn_add_decode_step(&tokenizer->decode, TN_DECODE_REPLACE);
  if (!step) return out_of_memory(error);
  step->from = TN_TEXT(TN_SPACE_MARK);
  step->to = TN_TEXT(" ");
  return tn_add_decode_step(&tokenizer->decode, TN_DECODE_BYTE_FALLBACK) ? TN_OK : out_of_memory(error);
}

static tn_status add_pre_cut(tn_tokenizer *tokenizer, const char *pattern, tn_error *error) {
  bool aya = strcmp(pattern, "aya-digits") == 0, between = strcmp(pattern, "between-digits") == 0;
  if (!aya && !between && strcmp(pattern, "digits") != 0)
    return tn_add_pattern_cut(&tokenizer->pretokenizer, tn_text_of(pattern), TN_SPLIT_ISOLATED, false, error);
  tn_cut *cut = tn_add_cut(&tokenizer->pretokenizer, TN_CUT_DIGIT_TRIPLES);
  if (!cut) return out_of_memory(error);
  cut->between = between;
  cut->categories = aya || between ? TN_CATEGORY_BIT(TN_ND) : TN_CATEGORIES_N;
  cut->boundary = aya;
  return TN_OK;
}

/* A normal form in front of all other steps. */
static tn_status add_normal_form(tn_tokenizer *tokenizer, tn_text name, tn_error *error) {
  if (!name.bytes) return TN_OK;
  tn_normal_form form;
  if (!tn_normal_form_named(name, &form))
    return tn_fail(error, TN_E_UNSUPPORTED, "normal form '%.*s', expected nfc, nfd, nfkc or nfkd",
                   (int)(name.bytes < 20 ? name.bytes : 20), name.data);
  tn_normal_step *step = tn_add_normal_step(&tokenizer->normalizer, TN_NORMAL_FORM);
  if (!step) return out_of_memory(error);
  step->form = form;
  return TN_OK;
}

/* ---- models ---- */

static void init_bpe(tn_tokenizer *tokenizer) {
  tokenizer->model = TN_MODEL_BPE;
  tokenizer->bpe.table = &tokenizer->texts;
  tokenizer->bpe.vocab_count = tokenizer->vocab_count;
  tokenizer->bpe.special = tokenizer->special;
  tokenizer->bpe.unknown = TN_BPE_UNKNOWN_KEEP;
  tokenizer->bpe.unknown_id = tokenizer->roles[TN_ROLE_UNKNOWN];
}

static tn_status build_bpe(tn_tokenizer *tokenizer, const tn_vocab *vocab, const tn_pre_rules *rules, tn_error *error) {
  init_bpe(tokenizer);
  tokenizer->bpe.byte_level = !rules->spaces_as_mark;
  tokenizer->bpe.ignore_merges = rules->ignore_merges;
  tn_status status = add_normal_form(tokenizer, vocab->normal_form, error);
  if (status == TN_OK) status = tn_bpe_prepare(&tokenizer->bpe, vocab->merge_count, error);
  for (size_t i = 0; i < vocab->merge_count && status == TN_OK; i++) {
    tn_text merge = vocab->merges[i];
    const char *blank = merge.bytes > 1 ? memchr(merge.data + 1, ' ', merge.bytes - 1) : NULL;
    if (!blank) continue; /* it can't apply */
    size_t left = (size_t)(blank - merge.data);
    status = tn_bpe_add_merge(&tokenizer->bpe, (tn_text){merge.data, left},
                              (tn_text){blank + 1, merge.bytes - left - 1}, error);
  }
  if (status == TN_OK) status = tn_bpe_finish_merges(&tokenizer->bpe, error);
  for (size_t i = 0; i < TN_PRE_PATTERNS && rules->patterns[i] && status == TN_OK; i++)
    status = add_pre_cut(tokenizer, rules->patterns[i], error);
  if (status != TN_OK) return status;
  if (!rules->spaces_as_mark)
    return tn_add_decode_step(&tokenizer->decode, TN_DECODE_BYTE_LEVEL) ? TN_OK : out_of_memory(error);
  status = replace_step(tokenizer, " ", TN_SPACE_MARK, error);
  return status == TN_OK ? sentencepiece_decoding(tokenizer, error) : status;
}

/* A rank that is lower the higher the score: the bits of a float, made to order like an integer, turned around. */
static uint32_t rank_of(float score) {
  uint32_t bits;
  memcpy(&bits, &score, sizeof bits);
  return ~(bits & 0x80000000u ? ~bits : bits | 0x80000000u);
}

static tn_status build_spm(tn_tokenizer *tokenizer, const tn_vocab *vocab, tn_error *error) {
  init_bpe(tokenizer);
  if (!vocab->scores) return tn_fail(error, TN_E_FORMAT, "a SentencePiece vocabulary without scores");
  tokenizer->score_ranks = tn_calloc(vocab->count, sizeof *tokenizer->score_ranks);
  if (!tokenizer->score_ranks) return out_of_memory(error);
  for (size_t id = 0; id < vocab->count; id++) tokenizer->score_ranks[id] = rank_of(vocab->scores[id]);
  tokenizer->bpe.score_ranks = tokenizer->score_ranks;
  tn_status status = tn_bpe_prepare(&tokenizer->bpe, 0, error);
  if (status == TN_OK && flag(vocab->add_space_prefix, true)) {
    tn_normal_step *step = tn_add_normal_step(&tokenizer->normalizer, TN_NORMAL_PREPEND);
    if (!step) return out_of_memory(error);
    step->to = TN_TEXT(" ");
    tokenizer->drops_first_blank = true;
  }
  if (status == TN_OK) status = replace_step(tokenizer, " ", TN_SPACE_MARK, error);
  return status == TN_OK ? sentencepiece_decoding(tokenizer, error) : status;
}

static tn_status unigram_tokens(tn_tokenizer *tokenizer, const tn_vocab *vocab, tn_error *error) {
  double lowest = 0;
  tn_unigram *unigram = &tokenizer->unigram;
  tokenizer->scores = tn_calloc(vocab->count, sizeof *tokenizer->scores);
  if (!tokenizer->scores) return out_of_memory(error);
  for (size_t id = 0; id < vocab->count; id++) {
    tn_token_type type = type_of(vocab, id);
    double score = (double)vocab->scores[id];
    tokenizer->scores[id] = type == TN_TOKEN_USER_DEFINED ? 0 : score;
    if (type == TN_TOKEN_NORMAL && score < lowest) lowest = score;
    if (is_special(type) || type == TN_TOKEN_BYTE) continue;
    tn_status status =
        tn_prefix_index_add(&unigram->tokens, tn_token_table_text(&tokenizer->texts, id), (int32_t)id, error);
    if (status != TN_OK) return status;
  }
  unigram->scores = tokenizer->scores;
  unigram->unknown_score = lowest - 10;
  unigram->unknown_id = tokenizer->roles[TN_ROLE_UNKNOWN];
  unigram->byte_fallback = vocab->byte_fallback;
  tn_unigram_find_bytes(unigram, &tokenizer->texts);
  tn_prefix_index_sort(&unigram->tokens);
  return TN_OK;
}

static tn_status build_unigram(tn_tokenizer *tokenizer, const tn_vocab *vocab, tn_error *error) {
  tokenizer->model = TN_MODEL_UNIGRAM;
  if (!vocab->scores) return tn_fail(error, TN_E_FORMAT, "a unigram vocabulary without scores");
  tn_status status = unigram_tokens(tokenizer, vocab, error);
  if (status != TN_OK) return status;
  if (vocab->charsmap_bytes) {
    tn_normal_step *step = tn_add_normal_step(&tokenizer->normalizer, TN_NORMAL_CHARSMAP);
    if (!step) return out_of_memory(error);
    step->by_cluster = vocab->charsmap_by_cluster;
    status = tn_charsmap_create(&step->map, vocab->charsmap, vocab->charsmap_bytes, error);
    if (status != TN_OK) return status;
  }
  tn_normal_step *step = tn_add_normal_step(&tokenizer->normalizer, TN_NORMAL_WORDS);
  if (!step) return out_of_memory(error);
  step->to = TN_TEXT(TN_SPACE_MARK);
  step->prefix = flag(vocab->add_space_prefix, false);
  step->merge = flag(vocab->remove_extra_whitespaces, false);
  tokenizer->drops_first_blank = step->prefix || step->merge;
  return sentencepiece_decoding(tokenizer, error);
}

/* BERT's steps as GGUF's readers have them: accents go by keeping the base of each character. */
static tn_status bert_steps(tn_tokenizer *tokenizer, const tn_vocab *vocab, tn_error *error) {
  bool lowercase = flag(vocab->lowercase, true), strip = flag(vocab->strip_accents, lowercase);
  tn_normalizer *normalizer = &tokenizer->normalizer;
  tn_normal_step *step;
  if (!tn_add_normal_step(normalizer, TN_NORMAL_CLEAN) || !tn_add_normal_step(normalizer, TN_NORMAL_IDEOGRAPHS))
    return out_of_memory(error);
  if (strip) {
    if (!tn_add_normal_step(normalizer, TN_NORMAL_BASE)) return out_of_memory(error);
    if (!(step = tn_add_normal_step(normalizer, TN_NORMAL_REMOVE))) return out_of_memory(error);
    step->categories = TN_CATEGORIES_M;
  }
  if (lowercase && !tn_add_normal_step(normalizer, TN_NORMAL_LOWERCASE)) return out_of_memory(error);
  tn_status status = tn_add_pattern_cut(&tokenizer->pretokenizer, TN_TEXT("\\s+"), TN_SPLIT_REMOVED, false, error);
  if (status != TN_OK) return status;
  return tn_add_pattern_cut(&tokenizer->pretokenizer, TN_TEXT("[\\p{P}!-/:-@\\[-`{-~]"), TN_SPLIT_ISOLATED, false,
                            error);
}

static tn_status build_wordpiece(tn_tokenizer *tokenizer, const tn_vocab *vocab, tn_error *error) {
  tokenizer->model = TN_MODEL_WORDPIECE;
  tn_wordpiece *wordpiece = &tokenizer->wordpiece;
  wordpiece->unknown_id = tokenizer->roles[TN_ROLE_UNKNOWN];
  wordpiece->longest_word = SIZE_MAX;
  const size_t mark = sizeof TN_SPACE_MARK - 1;
  for (size_t id = 0; id < vocab->count; id++) {
    if (tokenizer->special[id]) continue;
    tn_text text = tn_token_table_text(&tokenizer->texts, id);
    bool begins = text.bytes >= mark && memcmp(text.data, TN_SPACE_MARK, mark) == 0;
    tn_text piece = begins ? (tn_text){text.data + mark, text.bytes - mark} : text;
    tn_status status =
        tn_prefix_index_add(begins ? &wordpiece->first : &wordpiece->continuing, piece, (int32_t)id, error);
    if (status != TN_OK) return status;
  }
  tn_prefix_index_sort(&wordpiece->first);
  tn_prefix_index_sort(&wordpiece->continuing);
  tn_decode_step *step = tn_add_decode_step(&tokenizer->decode, TN_DECODE_REPLACE);
  if (!step) return out_of_memory(error);
  step->from = TN_TEXT(TN_SPACE_MARK);
  step->to = TN_TEXT(" ");
  tokenizer->drops_first_blank = true;
  return bert_steps(tokenizer, vocab, error);
}

/* ---- roles ---- */

/* What each kind of vocabulary means where the file doesn't say. */
static void set_roles(tn_tokenizer *tokenizer, const tn_vocab *vocab) {
  static const int32_t usual[][TN_ROLE_COUNT] = {
      [TN_VOCAB_BPE] = {-1, -1, -1, -1, -1, -1, -1, -1},
      [TN_VOCAB_SPM] = {1, 2, -1, -1, 0, -1, -1, -1},
      [TN_VOCAB_UNIGRAM] = {-1, 1, -1, -1, 2, -1, 0, -1},
      [TN_VOCAB_WORDPIECE] = {101, -1, -1, -1, 100, 102, 0, 103},
  };
  for (int role = 0; role < TN_ROLE_COUNT; role++) {
    int32_t id = vocab->roles[role] != TN_UNSET ? vocab->roles[role] : usual[vocab->kind][role];
    tokenizer->roles[role] = id >= 0 && (size_t)id < vocab->count ? id : TN_UNSET;
  }
}

static tn_status put_around(tn_tokenizer *tokenizer, tn_ids *list, tn_token_role role, const char *what,
                            tn_error *error) {
  if (tokenizer->roles[role] == TN_UNSET)
    return tn_fail(error, TN_E_FORMAT, "the vocabulary asks for a %s token around texts but names none", what);
  return tn_ids_add(list, tokenizer->roles[role]) ? TN_OK : out_of_memory(error);
}

static tn_status set_surroundings(tn_tokenizer *tokenizer, const tn_vocab *vocab, const tn_pre_rules *rules,
                                  tn_error *error) {
  bool words = vocab->kind == TN_VOCAB_WORDPIECE;
  bool bos = flag(vocab->add_bos,
                  vocab->kind == TN_VOCAB_SPM || words || (rules && (rules->add_bos || rules->spaces_as_mark)));
  bool eos = flag(vocab->add_eos, vocab->kind == TN_VOCAB_UNIGRAM);
  bool separator = flag(vocab->add_separator, words || (rules && rules->add_separator));
  if (words) bos = separator = true;
  tn_status status = bos ? put_around(tokenizer, &tokenizer->before, TN_ROLE_BOS, "BOS", error) : TN_OK;
  if (status == TN_OK && separator && words)
    status = put_around(tokenizer, &tokenizer->after, TN_ROLE_SEPARATOR, "SEP", error);
  if (status == TN_OK && eos && !words) status = put_around(tokenizer, &tokenizer->after, TN_ROLE_EOS, "EOS", error);
  return status;
}

tn_status tn_tokenizer_create(tn_tokenizer **out, const tn_vocab *vocab, tn_error *error) {
  *out = NULL;
  const tn_pre_rules *rules = NULL;
  if (vocab->kind == TN_VOCAB_BPE && !(rules = tn_pre_rules_named(vocab->pre)))
    return tn_fail(error, TN_E_UNSUPPORTED, "unknown pre-tokenizer '%.*s'",
                   (int)(vocab->pre.bytes < 100 ? vocab->pre.bytes : 100), vocab->pre.data);
  tn_tokenizer *tokenizer = tn_tokenizer_new();
  if (!tokenizer) return out_of_memory(error);
  tn_status status = add_texts(tokenizer, vocab, error);
  if (status == TN_OK) {
    set_roles(tokenizer, vocab);
    status = set_surroundings(tokenizer, vocab, rules, error);
  }
  if (status == TN_OK) {
    switch (vocab->kind) {
      case TN_VOCAB_BPE: status = build_bpe(tokenizer, vocab, rules, error); break;
      case TN_VOCAB_SPM: status = build_spm(tokenizer, vocab, error); break;
      case TN_VOCAB_UNIGRAM: status = build_unigram(tokenizer, vocab, error); break;
      case TN_VOCAB_WORDPIECE: status = build_wordpiece(tokenizer, vocab, error); break;
    }
  }
  /* Only now: a model may add symbols to the texts, and these point into them. */
  if (status == TN_OK) status = add_found_tokens(tokenizer, vocab, error);
  if (status == TN_OK) status = tn_tokenizer_complete(tokenizer, error);
  if (status != TN_OK) {
    tn_tokenizer_destroy(tokenizer);
    return status;
  }
  *out = tokenizer;
  return TN_OK;
}
