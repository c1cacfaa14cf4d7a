/* Normalizers, pre-tokenizers, decoders and post-processors of a tokenizer.json, as steps of a tokenizer. */
#include <stdlib.h>
#include "base/error.h"
#include "text/json_parts.h"
#include "text/reference_table.h"
#include "text/unicode.h"

static tn_status out_of_memory(tn_error *error) {
  return tn_fail(error, TN_E_MEMORY, "out of memory for a tokenizer");
}

static tn_status unsupported(const char *what, const tn_json_part *part, tn_error *error) {
  return tn_fail(error, TN_E_UNSUPPORTED, "%s '%.*s' is not supported", what,
                 (int)(part->type.bytes < 60 ? part->type.bytes : 60), part->type.data ? part->type.data : "");
}

static bool is(const tn_json_part *part, const char *type) {
  return tn_text_is(part->type, type);
}

/* ---- normalizers ---- */

static tn_status normal_step(tn_tokenizer *tokenizer, tn_normal_step fields, tn_error *error) {
  tn_normal_step *step = tn_add_normal_step(&tokenizer->normalizer, fields.kind);
  if (step) *step = fields;
  return step ? TN_OK : out_of_memory(error);
}

static tn_status form_step(tn_tokenizer *tokenizer, tn_normal_form form, tn_error *error) {
  return normal_step(tokenizer, (tn_normal_step){.kind = TN_NORMAL_FORM, .form = form}, error);
}

static tn_status bert_normalizer(tn_tokenizer *tokenizer, const tn_json_part *part, tn_error *error) {
  bool lowercase = part->lowercase != 0;
  bool strip = part->strip_accents == TN_UNSET ? lowercase : part->strip_accents;
  tn_status status = TN_OK;
  if (part->clean_text != 0)
    status = normal_step(tokenizer, (tn_normal_step){.kind = TN_NORMAL_CLEAN, .rules = TN_RULES_BERT}, error);
  if (status == TN_OK && part->handle_chinese_chars != 0)
    status = normal_step(tokenizer, (tn_normal_step){.kind = TN_NORMAL_IDEOGRAPHS}, error);
  if (status == TN_OK && strip) status = form_step(tokenizer, TN_NFD, error);
  if (status == TN_OK && strip)
    status = normal_step(
        tokenizer,
        (tn_normal_step){.kind = TN_NORMAL_REMOVE, .categories = TN_CATEGORY_BIT(TN_MN), .rules = TN_RULES_BERT},
        error);
  if (status == TN_OK && lowercase)
    status = normal_step(tokenizer, (tn_normal_step){.kind = TN_NORMAL_LOWERCASE}, error);
  return status;
}

static tn_status replace_normalizer(tn_tokenizer *tokenizer, const tn_json_part *part, tn_error *error) {
  if (!part->pattern.data || !part->content.data)
    return tn_fail(error, TN_E_FORMAT, "normalizer Replace: pattern and content are expected");
  tn_normal_step *step = tn_add_normal_step(&tokenizer->normalizer, TN_NORMAL_REPLACE);
  if (!step) return out_of_memory(error);
  step->from = part->pattern;
  step->to = part->content;
  return part->is_expression ? tn_pattern_compile(&step->pattern, part->pattern, error) : TN_OK;
}

tn_status tn_json_build_normalizer(tn_tokenizer *tokenizer, const tn_json_part *part, tn_error *error) {
  static const struct {
    const char *type;
    tn_normal_form form;
  } forms[] = {{"NFC", TN_NFC}, {"NFD", TN_NFD}, {"NFKC", TN_NFKC}, {"NFKD", TN_NFKD}};
  for (size_t i = 0; i < TN_COUNT(forms); i++)
    if (is(part, forms[i].type)) return form_step(tokenizer, forms[i].form, error);
  if (is(part, "Lowercase")) return normal_step(tokenizer, (tn_normal_step){.kind = TN_NORMAL_LOWERCASE}, error);
  if (is(part, "Strip"))
    return normal_step(
        tokenizer,
        (tn_normal_step){.kind = TN_NORMAL_STRIP, .left = part->strip_left != 0, .right = part->strip_right != 0},
        error);
  if (is(part, "StripAccents"))
    return normal_step(
        tokenizer, (tn_normal_step){.kind = TN_NORMAL_REMOVE, .categories = TN_CATEGORIES_M, .rules = TN_RULES_ACCENTS},
        error);
  if (is(part, "Replace")) return replace_normalizer(tokenizer, part, error);
  if (is(part, "Prepend"))
    return normal_step(tokenizer, (tn_normal_step){.kind = TN_NORMAL_PREPEND, .to = part->prepend}, error);
  if (is(part, "BertNormalizer")) return bert_normalizer(tokenizer, part, error);
  if (is(part, "Nmt")) return normal_step(tokenizer, (tn_normal_step){.kind = TN_NORMAL_NMT}, error);
  if (is(part, "Precompiled")) {
    tn_normal_step *step = tn_add_normal_step(&tokenizer->normalizer, TN_NORMAL_CHARSMAP);
    if (!step) return out_of_memory(error);
    step->by_cluster = true;
    return tn_charsmap_from_base64(&step->map, part->charsmap, error);
  }
  return unsupported("normalizer", part, error);
}

/* ---- pre-tokenizers ---- */

#define GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/* Word characters as Whitespace has them: patterns' \\w has three superscripts and fractions more, and no joiners. */
#define WORD_CHARACTERS                                                                                           \
  "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{" \
  "1f189}"                                                                                                        \
  "\\x{200c}\\x{200d}"

static tn_status pattern_cut(tn_tokenizer *tokenizer, tn_text pattern, tn_split_behavior behavior, bool invert,
                             tn_error *error) {
  return tn_add_pattern_cut(&tokenizer->pretokenizer, pattern, behavior, invert, error);
}

/* Punctuation as the pre-tokenizers that look for it know it. */
static tn_status punctuation_cut(tn_tokenizer *tokenizer, tn_split_behavior behavior, tn_error *error) {
  tn_buf pattern;
  tn_buf_init(&pattern);
  tn_buf_puts(&pattern, "[[\\p{P}!-/:-@\\[-`{-~");
  for (size_t i = 0; i < tn_bert_more_count; i++)
    if (tn_unicode_category(tn_bert_more[i][0]) != TN_MC)
      tn_buf_printf(&pattern, "\\x{%x}-\\x{%x}", (unsigned)tn_bert_more[i][0], (unsigned)tn_bert_more[i][1]);
  tn_buf_puts(&pattern, "]&&[^");
  for (size_t i = 0; i < tn_bert_unknown_count; i++)
    tn_buf_printf(&pattern, "\\x{%x}-\\x{%x}", (unsigned)tn_bert_unknown[i][0], (unsigned)tn_bert_unknown[i][1]);
  tn_buf_puts(&pattern, "]]");
  tn_status status = pattern.failed
                         ? out_of_memory(error)
                         : pattern_cut(tokenizer, (tn_text){pattern.data, pattern.size}, behavior, false, error);
  tn_buf_finish(&pattern);
  return status;
}

static tn_status behavior_of(const tn_json_part *part, tn_split_behavior *behavior, tn_error *error) {
  static const char *const names[] = {
      [TN_SPLIT_REMOVED] = "Removed",
      [TN_SPLIT_ISOLATED] = "Isolated",
      [TN_SPLIT_WITH_PREVIOUS] = "MergedWithPrevious",
      [TN_SPLIT_WITH_NEXT] = "MergedWithNext",
      [TN_SPLIT_CONTIGUOUS] = "Contiguous",
  };
  *behavior = TN_SPLIT_ISOLATED;
  if (!part->behavior.data) return TN_OK;
  for (size_t i = 0; i < TN_COUNT(names); i++) {
    if (!tn_text_is(part->behavior, names[i])) continue;
    *behavior = (tn_split_behavior)i;
    return TN_OK;
  }
  return tn_fail(error, TN_E_UNSUPPORTED, "unknown behavior '%.*s'",
                 (int)(part->behavior.bytes < 60 ? part->behavior.bytes : 60), part->behavior.data);
}

/* A text as a pattern that matches it and nothing else. */
static tn_status literal_cut(tn_tokenizer *tokenizer, tn_text text, tn_split_behavior behavior, bool invert,
                             tn_error *error) {
  tn_buf pattern;
  tn_buf_init(&pattern);
  for (size_t i = 0; i < text.bytes; i++) {
    bool plain =
        (unsigned char)text.data[i] >= 0x80 || tn_unicode_word((unsigned char)text.data[i]) || text.data[i] <= ' ';
    if (!plain) tn_buf_putc(&pattern, '\\');
    tn_buf_putc(&pattern, text.data[i]);
  }
  tn_status status = pattern.failed
                         ? out_of_memory(error)
                         : pattern_cut(tokenizer, (tn_text){pattern.data, pattern.size}, behavior, invert, error);
  tn_buf_finish(&pattern);
  return status;
}

static tn_status split_cut(tn_tokenizer *tokenizer, const tn_json_part *part, tn_error *error) {
  tn_split_behavior behavior;
  tn_status status = behavior_of(part, &behavior, error);
  if (status != TN_OK) return status;
  if (!part->pattern.data) return tn_fail(error, TN_E_FORMAT, "pre-tokenizer Split: a pattern is expected");
  bool invert = part->invert == 1;
  if (!part->is_expression) return literal_cut(tokenizer, part->pattern, behavior, invert, error);
  /* Two patterns that look ahead to the end of a run of digits from each of them: the same cuts, in one go. */
  bool threes = tn_text_is(part->pattern, "(?=(\\d{3})+(?!\\d))");
  bool aya = tn_text_is(part->pattern, "\\d{1,3}(?=(?:\\d{3})*\\b)");
  if ((threes || aya) && behavior == TN_SPLIT_ISOLATED && !invert) {
    tn_cut *cut = tn_add_cut(&tokenizer->pretokenizer, TN_CUT_DIGIT_TRIPLES);
    if (!cut) return out_of_memory(error);
    cut->categories = TN_CATEGORY_BIT(TN_ND);
    cut->boundary = aya;
    cut->between = threes;
    return TN_OK;
  }
  return pattern_cut(tokenizer, part->pattern, behavior, invert, error);
}

static tn_status byte_level_cut(tn_tokenizer *tokenizer, const tn_json_part *part, tn_error *error) {
  tokenizer->bpe.byte_level = true;
  if (part->add_prefix_space != 0 && !tn_add_cut(&tokenizer->pretokenizer, TN_CUT_SPACE_FIRST))
    return out_of_memory(error);
  if (part->use_regex == 0) return TN_OK;
  return pattern_cut(tokenizer, TN_TEXT(GPT2_PATTERN), TN_SPLIT_ISOLATED, false, error);
}

static tn_status metaspace_cut(tn_tokenizer *tokenizer, const tn_json_part *part, tn_error *error) {
  tn_cut *cut = tn_add_cut(&tokenizer->pretokenizer, TN_CUT_METASPACE);
  if (!cut) return out_of_memory(error);
  cut->mark = part->replacement.bytes ? part->replacement : TN_TEXT(TN_SPACE_MARK);
  cut->prefix = part->add_prefix_space != 0 && !tn_text_is(part->prepend_scheme, "never");
  cut->first_only = tn_text_is(part->prepend_scheme, "first");
  cut->split = part->split != 0;
  return TN_OK;
}

tn_status tn_json_build_pretokenizer(tn_tokenizer *tokenizer, const tn_json_part *part, tn_error *error) {
  if (tokenizer->bpe.byte_level)
    return tn_fail(error, TN_E_UNSUPPORTED, "pre-tokenizer '%.*s' behind ByteLevel",
                   (int)(part->type.bytes < 60 ? part->type.bytes : 60), part->type.data ? part->type.data : "");
  if (is(part, "ByteLevel")) return byte_level_cut(tokenizer, part, error);
  if (is(part, "Split")) return split_cut(tokenizer, part, error);
  if (is(part, "Metaspace")) return metaspace_cut(tokenizer, part, error);
  if (is(part, "Digits"))
    return pattern_cut(tokenizer, TN_TEXT("\\p{N}"),
                       part->individual_digits == 1 ? TN_SPLIT_ISOLATED : TN_SPLIT_CONTIGUOUS, false, error);
  if (is(part, "Whitespace"))
    return pattern_cut(tokenizer, TN_TEXT("[" WORD_CHARACTERS "]+|[^\\s" WORD_CHARACTERS "]+"), TN_SPLIT_REMOVED, true,
                       error);
  if (is(part, "WhitespaceSplit")) return pattern_cut(tokenizer, TN_TEXT("\\s+"), TN_SPLIT_REMOVED, false, error);
  if (is(part, "CharDelimiterSplit")) return literal_cut(tokenizer, part->delimiter, TN_SPLIT_REMOVED, false, error);
  if (is(part, "Punctuation")) {
    tn_split_behavior behavior;
    tn_status status = behavior_of(part, &behavior, error);
    return status == TN_OK ? punctuation_cut(tokenizer, behavior, error) : status;
  }
  if (is(part, "BertPreTokenizer")) {
    tn_status status = pattern_cut(tokenizer, TN_TEXT("\\s+"), TN_SPLIT_REMOVED, false, error);
    return status == TN_OK ? punctuation_cut(tokenizer, TN_SPLIT_ISOLATED, error) : status;
  }
  if (is(part, "UnicodeScripts"))
    return tn_add_cut(&tokenizer->pretokenizer, TN_CUT_SCRIPTS) ? TN_OK : out_of_memory(error);
  if (is(part, "FixedLength")) {
    if (part->length < 1)
      return tn_fail(error, TN_E_FORMAT, "pre-tokenizer FixedLength: length %lld", (long long)part->length);
    tn_cut *cut = tn_add_cut(&tokenizer->pretokenizer, TN_CUT_LENGTH);
    if (!cut) return out_of_memory(error);
    cut->length = (size_t)part->length;
    return TN_OK;
  }
  return unsupported("pre-tokenizer", part, error);
}

/* ---- decoders ---- */

static tn_status decode_step(tn_tokenizer *tokenizer, tn_decode_step fields, tn_error *error) {
  tn_decode_step *step = tn_add_decode_step(&tokenizer->decode, fields.kind);
  if (step) *step = fields;
  return step ? TN_OK : out_of_memory(error);
}

/* Decoders work on the list of tokens; behind Fuse and ByteLevel it is one text. Streaming needs each token's share on
 * its own, so there only what comes to the same is taken: one character replaced, blanks taken off the front. */
static tn_status strip_decoder(tn_tokenizer *tokenizer, const tn_json_part *part, bool fused, tn_error *error) {
  if (part->stop != 0 || part->start < 0 || part->start > 1000)
    return tn_fail(error, TN_E_UNSUPPORTED, "decoder Strip with start %lld and stop %lld is not supported",
                   (long long)part->start, (long long)part->stop);
  return decode_step(
      tokenizer,
      (tn_decode_step){.kind = TN_DECODE_STRIP, .from = part->content, .count = (size_t)part->start, .whole = fused},
      error);
}

tn_status tn_json_build_decoder(tn_tokenizer *tokenizer, const tn_json_part *part, tn_error *error) {
  if (tokenizer->fused && (is(part, "WordPiece") || is(part, "BPEDecoder") || is(part, "ByteFallback")))
    return tn_fail(error, TN_E_UNSUPPORTED, "decoder %.*s behind one that joins the tokens is not supported",
                   (int)part->type.bytes, part->type.data);
  if (is(part, "ByteLevel")) {
    tokenizer->fused = true;
    return decode_step(tokenizer, (tn_decode_step){.kind = TN_DECODE_BYTE_LEVEL}, error);
  }
  if (is(part, "ByteFallback")) return decode_step(tokenizer, (tn_decode_step){.kind = TN_DECODE_BYTE_FALLBACK}, error);
  if (is(part, "Fuse")) {
    tokenizer->fused = true;
    return TN_OK;
  }
  if (is(part, "Strip")) return strip_decoder(tokenizer, part, tokenizer->fused, error);
  if (is(part, "Replace")) {
    if (part->is_expression || !part->pattern.bytes || (tokenizer->fused && part->pattern.bytes > 4))
      return tn_fail(error, TN_E_UNSUPPORTED, "decoder Replace with this pattern is not supported");
    return decode_step(tokenizer,
                       (tn_decode_step){.kind = TN_DECODE_REPLACE, .from = part->pattern, .to = part->content}, error);
  }
  if (is(part, "Metaspace"))
    return decode_step(
        tokenizer,
        (tn_decode_step){.kind = TN_DECODE_METASPACE,
                         .from = part->replacement.bytes ? part->replacement : TN_TEXT(TN_SPACE_MARK),
                         .drop_first = part->add_prefix_space != 0 && !tn_text_is(part->prepend_scheme, "never")},
        error);
  if (is(part, "WordPiece")) {
    tn_status status = decode_step(
        tokenizer,
        (tn_decode_step){.kind = TN_DECODE_WORDPIECE, .from = part->prefix.data ? part->prefix : TN_TEXT("##")}, error);
    if (status != TN_OK || part->cleanup == 0) return status;
    return decode_step(tokenizer, (tn_decode_step){.kind = TN_DECODE_CLEAN_UP}, error);
  }
  if (is(part, "BPEDecoder"))
    return decode_step(
        tokenizer,
        (tn_decode_step){.kind = TN_DECODE_SUFFIX, .from = part->suffix.data ? part->suffix : TN_TEXT("</w>")}, error);
  return unsupported("decoder", part, error);
}

/* ---- post-processors: only what they put around one text counts ---- */

/* The ids of a special token of a template, from its "special_tokens". */
static bool template_ids(tn_text special_tokens, tn_text name, tn_ids *out, tn_error *error) {
  tn_json json;
  tn_json_init(&json, special_tokens.data, special_tokens.bytes, error);
  bool good = true;
  if (tn_json_object(&json))
    for (tn_text key; tn_json_key(&json, &key);) {
      bool wanted = tn_text_equal(key, name);
      if (!wanted || !tn_json_object(&json)) {
        tn_json_skip(&json, NULL);
        continue;
      }
      for (tn_text field; tn_json_key(&json, &field);) {
        if (!tn_text_is(field, "ids") || !tn_json_array(&json)) {
          tn_json_skip(&json, NULL);
          continue;
        }
        int64_t id;
        while (tn_json_item(&json))
          if (tn_json_integer(&json, &id) && id >= 0 && id < INT32_MAX) good = tn_ids_add(out, (int32_t)id) && good;
      }
    }
  return tn_json_end(&json) == TN_OK && good;
}

/* One element of a template: {"SpecialToken": {"id": NAME, ..}} or {"Sequence": {"id": "A", ..}}. */
static void template_element(tn_tokenizer *tokenizer, tn_json *json, const tn_json_part *part, bool *behind) {
  if (!tn_json_object(json)) return;
  for (tn_text key; tn_json_key(json, &key);) {
    if (tn_text_is(key, "Sequence")) {
      *behind = true;
      tn_json_skip(json, NULL);
    } else if (tn_text_is(key, "SpecialToken") && tn_json_object(json)) {
      for (tn_text field; tn_json_key(json, &field);) {
        tn_text name;
        if (!tn_text_is(field, "id")) {
          tn_json_skip(json, NULL);
        } else if (tn_json_string(json, &name)) {
          tn_ids *list = *behind ? &tokenizer->after : &tokenizer->before;
          tn_error inner = {0};
          if (!template_ids(part->special_tokens, name, list, &inner))
            tn_json_fail(json, inner.status ? inner.status : TN_E_MEMORY, "special_tokens: %s", inner.message);
        }
      }
    } else {
      tn_json_skip(json, NULL);
    }
  }
}

/* ["</s>", 2] */
static tn_status pair_id(tn_text json_text, tn_ids *list, tn_error *error) {
  tn_json json;
  tn_json_init(&json, json_text.data, json_text.bytes, error);
  int64_t id = -1;
  if (tn_json_array(&json)) {
    if (tn_json_item(&json)) tn_json_skip(&json, NULL);
    if (tn_json_item(&json)) tn_json_integer(&json, &id);
    while (tn_json_item(&json)) tn_json_skip(&json, NULL);
  }
  tn_status status = tn_json_end(&json);
  if (status != TN_OK) return status;
  if (id < 0 || id >= INT32_MAX) return tn_fail(error, TN_E_FORMAT, "post-processor: a token and its id are expected");
  return tn_ids_add(list, (int32_t)id) ? TN_OK : out_of_memory(error);
}

static tn_status build_postprocessor(tn_tokenizer *tokenizer, const tn_json_part *part, tn_error *error) {
  if (is(part, "ByteLevel")) return TN_OK;
  if (is(part, "BertProcessing") || is(part, "RobertaProcessing")) {
    tn_status status = pair_id(part->cls, &tokenizer->before, error);
    return status == TN_OK ? pair_id(part->sep, &tokenizer->after, error) : status;
  }
  if (!is(part, "TemplateProcessing")) return unsupported("post-processor", part, error);
  tn_json json;
  tn_json_init(&json, part->single.data, part->single.bytes, error);
  bool behind = false;
  if (tn_json_array(&json))
    while (tn_json_item(&json)) template_element(tokenizer, &json, part, &behind);
  return tn_json_end(&json);
}

/* In a Sequence each processor stands around what those before it made. */
tn_status tn_json_build_postprocessor(tn_tokenizer *tokenizer, const tn_json_part *part, tn_error *error) {
  tn_ids inner = tokenizer->before;
  tokenizer->before = (tn_ids){0};
  tn_status status = build_postprocessor(tokenizer, part, error);
  for (size_t i = 0; i < inner.count && status == TN_OK; i++)
    if (!tn_ids_add(&tokenizer->before, inner.data[i])) status = out_of_memory(error);
  free(inner.data);
  return status;
}
