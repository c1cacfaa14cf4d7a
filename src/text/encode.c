/* Text to ids: the steps of tokenizer.h in order. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/tokenizer_parts.h"

/* Texts of this size and more keep their recent words. */
#define CACHE_FROM_BYTES 4096

/* One call's working memory. */
typedef struct encoder {
  const tn_tokenizer *tokenizer;
  tn_bpe_work bpe;
  tn_unigram_work unigram;
  tn_pretokenizer_work words;
  tn_pattern_run run;
  tn_marked_text marked, spare;
  tn_ids *ids;
  tn_error *error;
} encoder;

/* A text with its marks, as in tn_added_search. */
typedef struct marked_view {
  tn_text text;
  const char *trust;
  bool trusted;
} marked_view;

static marked_view part_of(const marked_view *view, size_t start, size_t end) {
  return (marked_view){{view->text.data + start, end - start}, view->trust ? view->trust + start : NULL, view->trusted};
}

static tn_status out_of_memory(encoder *e, tn_text text) {
  return tn_fail(e->error, TN_E_MEMORY, "out of memory for the tokens of %zu bytes of text", text.bytes);
}

/* What a word comes to at least, of the words that take long: those of megabytes. */
static size_t least_ids(const tn_tokenizer *tokenizer, tn_text word) {
  bool is_long = tokenizer->model == TN_MODEL_BPE && word.bytes > tokenizer->bpe.longest;
  return is_long ? tn_bpe_least(&tokenizer->bpe, word) : 0;
}

/* Whether there are more ids than wanted, `least` that are sure to come included. */
static bool is_over(const encoder *e, size_t least) {
  return e->ids->limit && (e->ids->count > e->ids->limit || least > e->ids->limit - e->ids->count);
}

static tn_status too_many(encoder *e) {
  return tn_fail(e->error, TN_E_TOO_LONG, "the text has more than %zu tokens", e->ids->limit);
}

static tn_status encode_words(encoder *e, tn_text text, bool at_start) {
  const tn_tokenizer *tokenizer = e->tokenizer;
  if (!text.bytes) return TN_OK;
  if (text.bytes >= INT32_MAX) return tn_fail(e->error, TN_E_LIMIT, "a text of %zu bytes is too long", text.bytes);
  tn_text cut;
  tn_status status = tn_pretokenize(&tokenizer->pretokenizer, &e->words, &e->run, text, at_start, &cut, e->error);
  bool good = true;
  for (size_t i = 0; i < e->words.words.count && status == TN_OK && good; i++) {
    tn_word place = e->words.words.words[i];
    tn_text word = {cut.data + place.start, place.end - place.start};
    if (e->ids->limit && is_over(e, least_ids(tokenizer, word))) return too_many(e);
    switch (tokenizer->model) {
      case TN_MODEL_BPE: good = tn_bpe_encode(&tokenizer->bpe, &e->bpe, word, e->ids); break;
      case TN_MODEL_UNIGRAM: good = tn_unigram_encode(&tokenizer->unigram, &e->unigram, word, e->ids); break;
      case TN_MODEL_WORDPIECE: good = tn_wordpiece_encode(&tokenizer->wordpiece, word, e->ids); break;
    }
  }
  return good ? status : out_of_memory(e, text);
}

/* Text between the tokens that are found in the raw text. */
static tn_status encode_fragment(encoder *e, marked_view view, bool at_start) {
  const tn_tokenizer *tokenizer = e->tokenizer;
  if (!view.text.bytes) return TN_OK;
  if (tokenizer->normalizer.count) {
    tn_buf_clear(&e->marked.text);
    tn_buf_clear(&e->marked.trust);
    e->marked.mixed = view.trust != NULL;
    e->marked.trusted = view.trusted;
    e->marked.lost_front = false;
    tn_buf_append(&e->marked.text, view.text.data, view.text.bytes);
    if (view.trust) tn_buf_append(&e->marked.trust, view.trust, view.text.bytes);
    if (e->marked.text.failed || e->marked.trust.failed) return out_of_memory(e, view.text);
    tn_status status = tn_normalize(&tokenizer->normalizer, &e->run, &e->marked, &e->spare, e->error);
    if (status != TN_OK) return status;
    at_start = at_start && !e->marked.lost_front; /* the reference asks for the place in the original */
    view = (marked_view){
        {e->marked.text.data, e->marked.text.size}, view.trust ? e->marked.trust.data : NULL, view.trusted};
  }
  tn_added_search search = {&tokenizer->added, true, view.text, view.trust, view.trusted};
  size_t from = 0, start, end;
  const tn_added_token *token;
  while ((token = tn_added_tokens_find(&search, from, &start, &end))) {
    tn_status status = encode_words(e, part_of(&view, from, start).text, at_start && from == 0);
    if (status != TN_OK) return status;
    if (!tn_ids_add(e->ids, token->id)) return out_of_memory(e, view.text);
    from = end;
  }
  return encode_words(e, part_of(&view, from, view.text.bytes).text, at_start && from == 0);
}

static tn_status encode_text(encoder *e, marked_view view) {
  tn_added_search search = {&e->tokenizer->added, false, view.text, view.trust, view.trusted};
  size_t from = 0, start, end;
  const tn_added_token *token;
  while ((token = tn_added_tokens_find(&search, from, &start, &end))) {
    tn_status status = encode_fragment(e, part_of(&view, from, start), from == 0);
    if (status != TN_OK) return status;
    if (!tn_ids_add(e->ids, token->id)) return out_of_memory(e, view.text);
    from = end;
  }
  return encode_fragment(e, part_of(&view, from, view.text.bytes), from == 0);
}

/* The spans as one text. With more than one they are copied into `text`, and into `trust` if not all alike. */
static bool join(const tn_span *spans, size_t count, tn_buf *text, tn_buf *trust, marked_view *view) {
  *view = (marked_view){{"", 0}, NULL, count ? spans[0].trusted : false};
  if (count == 1) {
    if (spans[0].text.bytes) view->text = spans[0].text;
    return true;
  }
  bool mixed = false;
  for (size_t i = 0; i < count; i++) {
    tn_buf_append(text, spans[i].text.data, spans[i].text.bytes);
    mixed |= spans[i].trusted != view->trusted;
  }
  for (size_t i = 0; i < count && mixed; i++) {
    if (!tn_buf_reserve(trust, spans[i].text.bytes)) return false;
    memset(trust->data + trust->size, spans[i].trusted, spans[i].text.bytes);
    trust->size += spans[i].text.bytes;
  }
  if (text->size) view->text = (tn_text){text->data, text->size};
  if (mixed && text->size) view->trust = trust->data;
  return !text->failed;
}

static bool add_all(tn_ids *ids, const tn_ids *more) {
  for (size_t i = 0; i < more->count; i++)
    if (!tn_ids_add(ids, more->data[i])) return false;
  return true;
}

tn_status tn_tokenizer_encode(const tn_tokenizer *tokenizer, const tn_span *spans, size_t count, unsigned flags,
                              tn_ids *ids, tn_error *error) {
  encoder e = {.tokenizer = tokenizer, .ids = ids, .error = error};
  tn_buf text, trust;
  tn_buf_init(&text);
  tn_buf_init(&trust);
  size_t before = ids->count;
  marked_view view;
  tn_status status = TN_OK;
  if (!join(spans, count, &text, &trust, &view) || ((flags & TN_ENCODE_BOS) && !add_all(ids, &tokenizer->before)))
    status = out_of_memory(&e, (tn_text){NULL, text.size});
  e.run.bytes = view.text.bytes;
  if (view.text.bytes >= CACHE_FROM_BYTES) tn_bpe_work_use_cache(&e.bpe);
  if (status == TN_OK) status = encode_text(&e, view);
  if (status == TN_OK && is_over(&e, 0)) status = too_many(&e);
  if (status == TN_OK && (flags & TN_ENCODE_EOS) && !add_all(ids, &tokenizer->after))
    status = out_of_memory(&e, view.text);
  if (status != TN_OK) ids->count = before;
  tn_bpe_work_finish(&e.bpe);
  free(e.unigram.nodes);
  tn_pretokenizer_work_finish(&e.words);
  tn_pattern_run_finish(&e.run);
  tn_marked_text_finish(&e.marked);
  tn_marked_text_finish(&e.spare);
  tn_buf_finish(&text);
  tn_buf_finish(&trust);
  return status;
}
