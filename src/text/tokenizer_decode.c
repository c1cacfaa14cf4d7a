/* Ids to text: whole, token by token, and while tokens arrive. */
#include <string.h>

#include "text/tokenizer_parts.h"

static bool append_token(const tn_tokenizer *tokenizer, int32_t id, bool first, tn_buf work[2], tn_buf *out) {
  bool plain = tokenizer->flags[id] & TN_FLAG_PLAIN;
  tn_text text = tn_token_table_text(&tokenizer->texts, (size_t)id);
  if (tokenizer->flags[id] & TN_FLAG_NORMALIZED)
    for (size_t i = 0; i < tokenizer->added.count; i++)
      if (tokenizer->added.tokens[i].id == id) text = tokenizer->added.tokens[i].text;
  return tn_decode_token(&tokenizer->decode, text, plain, first, work, out);
}

bool tn_tokenizer_token_bytes(const tn_tokenizer *tokenizer, int32_t id, tn_buf *out) {
  if (id < 0 || (size_t)id >= tokenizer->vocab_count) return true;
  tn_buf work[2] = {0};
  bool good = append_token(tokenizer, id, false, work, out);
  tn_buf_finish(&work[0]);
  tn_buf_finish(&work[1]);
  return good;
}

/* The step that takes something off the front of the whole text, or that is about the text's end. */
static const tn_decode_step *find_step(const tn_tokenizer *tokenizer, tn_decode_kind kind) {
  for (size_t i = 0; i < tokenizer->decode.count; i++) {
    const tn_decode_step *step = &tokenizer->decode.steps[i];
    if (step->kind == kind && (kind != TN_DECODE_STRIP || step->whole)) return step;
  }
  return NULL;
}

void tn_decoder_init(tn_decoder *decoder, const tn_tokenizer *tokenizer, unsigned flags) {
  *decoder = (tn_decoder){.tokenizer = tokenizer, .flags = flags};
  decoder->any = flags & TN_DECODE_CONTINUES;
  const tn_decode_step *strip = find_step(tokenizer, TN_DECODE_STRIP);
  if (strip && strip->from.bytes && !decoder->any) decoder->strip = strip->count;
}

bool tn_decoder_reserve(tn_decoder *decoder, size_t piece_bytes) {
  return tn_buf_reserve(&decoder->pending, piece_bytes) && tn_buf_reserve(&decoder->work[0], piece_bytes) &&
         tn_buf_reserve(&decoder->work[1], piece_bytes);
}

/* Takes off pending[start..] what a whole text loses at its front. */
static void strip_front(tn_decoder *decoder, size_t start) {
  tn_text from = find_step(decoder->tokenizer, TN_DECODE_STRIP)->from;
  tn_buf *pending = &decoder->pending;
  while (decoder->strip && pending->size > start) {
    if (pending->size - start < from.bytes || memcmp(pending->data + start, from.data, from.bytes) != 0) {
      decoder->strip = 0;
      break;
    }
    memmove(pending->data + start, pending->data + start + from.bytes, pending->size - start - from.bytes);
    pending->size -= from.bytes;
    decoder->strip--;
  }
}

/* Whether the blank at the token's end stands for the suffix of a word: the last one of a text is dropped. */
static bool ends_with_suffix(const tn_tokenizer *tokenizer, int32_t id) {
  const tn_decode_step *step = find_step(tokenizer, TN_DECODE_SUFFIX);
  tn_text text = tn_token_table_text(&tokenizer->texts, (size_t)id);
  return step && text.bytes >= step->from.bytes &&
         !memcmp(text.data + text.bytes - step->from.bytes, step->from.data, step->from.bytes);
}

bool tn_decoder_push(tn_decoder *decoder, int32_t id, tn_buf *out) {
  const tn_tokenizer *tokenizer = decoder->tokenizer;
  if (id < 0 || (size_t)id >= tokenizer->vocab_count) return true;
  if ((decoder->flags & TN_DECODE_SKIP_SPECIAL) && tokenizer->special[id]) return true;
  tn_buf *pending = &decoder->pending;
  if (decoder->held_blank) tn_buf_putc(pending, ' ');
  decoder->held_blank = false;
  size_t start = pending->size;
  if (!append_token(tokenizer, id, !decoder->any, decoder->work, pending)) return false;
  decoder->any = true;
  if (decoder->strip) strip_front(decoder, start);
  if (pending->size > start && pending->data[pending->size - 1] == ' ' && ends_with_suffix(tokenizer, id)) {
    decoder->held_blank = true;
    pending->size--;
  }
  if (!pending->size) return !pending->failed;
  size_t taken = tn_utf8_release((tn_text){pending->data, pending->size}, true, out);
  memmove(pending->data, pending->data + taken, pending->size - taken);
  pending->size -= taken;
  return !pending->failed && !out->failed;
}

bool tn_decoder_flush(tn_decoder *decoder, tn_buf *out) {
  tn_utf8_release((tn_text){decoder->pending.data, decoder->pending.size}, false, out);
  tn_buf_clear(&decoder->pending);
  decoder->held_blank = false;
  return !out->failed;
}

void tn_decoder_finish(tn_decoder *decoder) {
  tn_buf_finish(&decoder->pending);
  tn_buf_finish(&decoder->work[0]);
  tn_buf_finish(&decoder->work[1]);
}

bool tn_tokenizer_decode(const tn_tokenizer *tokenizer, const int32_t *ids, size_t count, unsigned flags, tn_buf *out) {
  tn_decoder decoder;
  tn_decoder_init(&decoder, tokenizer, flags);
  size_t start = out->size;
  bool good = true;
  for (size_t i = 0; i < count && good; i++) good = tn_decoder_push(&decoder, ids[i], out);
  good = good && tn_decoder_flush(&decoder, out);
  tn_decoder_finish(&decoder);
  if (good && tokenizer->drops_first_blank && !(flags & TN_DECODE_CONTINUES) && out->size > start &&
      out->data[start] == ' ') {
    memmove(out->data + start, out->data + start + 1, out->size - start - 1);
    out->data[--out->size] = 0;
  }
  return good;
}
