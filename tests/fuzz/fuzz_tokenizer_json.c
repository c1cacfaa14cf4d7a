/* tokenizer.json: the input is such a file, optionally a zero byte and a text to encode with it. Whatever loads must
 * keep what tokenizer.h promises: no control token from text that isn't trusted, ids below the size, a stream of pieces
 * that joins to the whole decoding, valid UTF-8. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good) {
  if (!good) abort();
}

static void check_decoding(const tn_tokenizer *tokenizer, const tn_ids *ids) {
  tn_buf whole, pieces;
  tn_buf_init(&whole);
  tn_buf_init(&pieces);
  tn_decoder decoder;
  tn_decoder_init(&decoder, tokenizer, 0);
  bool good = tn_tokenizer_decode(tokenizer, ids->data, ids->count, 0, &whole);
  for (size_t i = 0; i < ids->count && good; i++) {
    good = tn_decoder_push(&decoder, ids->data[i], &pieces);
    check(tn_utf8_valid_prefix(pieces.data, pieces.size) == pieces.size);
  }
  good = good && tn_decoder_flush(&decoder, &pieces);
  if (good) check(whole.size == pieces.size && (!whole.size || memcmp(whole.data, pieces.data, whole.size) == 0));
  tn_decoder_finish(&decoder);
  tn_buf_finish(&whole);
  tn_buf_finish(&pieces);
}

/* Encodes the text with its first `trusted` bytes trusted. */
static void check_encoding(const tn_tokenizer *tokenizer, tn_text text, size_t trusted) {
  tn_span spans[] = {{{text.data, trusted}, true}, {{text.data + trusted, text.bytes - trusted}, false}};
  tn_ids ids = {0};
  tn_error error = {0};
  if (tn_tokenizer_encode(tokenizer, spans, 2, TN_ENCODE_EOS, &ids, &error) != TN_OK) {
    check(error.message[0] != 0);
  } else {
    for (size_t i = 0; i < ids.count; i++)
      check(ids.data[i] >= 0 && (size_t)ids.data[i] < tn_tokenizer_size(tokenizer));
    check_decoding(tokenizer, &ids);
  }
  free(ids.data);
}

/* No control token comes from text that isn't trusted, but for the model's own token for what it doesn't know. */
static void check_untrusted(const tn_tokenizer *tokenizer, tn_text text) {
  tn_span span = {text, false};
  tn_ids ids = {0};
  int32_t unknown = -1;
  if (tn_tokenizer_encode(tokenizer, &span, 1, 0, &ids, NULL) == TN_OK)
    for (size_t i = 0; i < ids.count; i++) {
      if (!tn_tokenizer_is_special(tokenizer, ids.data[i])) continue;
      bool byte = tn_tokenizer_token_text(tokenizer, ids.data[i]).bytes == 6; /* <0xXX> marked as control */
      check(byte || unknown < 0 || unknown == ids.data[i]);
      if (!byte) unknown = ids.data[i];
    }
  free(ids.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > 1 << 16) return 0;
  const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
  size_t file_bytes = zero ? (size_t)(zero - data) : size;
  tn_text text = TN_TEXT("Hello  <s>world</s> 123 \xc3\xa9\xe2\x96\x81\xff '\xf0\x9f\x98\x80\n\n ab");
  if (zero) text = (tn_text){(const char *)zero + 1, size - file_bytes - 1};
  if (text.bytes > 4096) text.bytes = 4096;
  tn_tokenizer *tokenizer;
  tn_error error = {0};
  if (tn_tokenizer_from_json(&tokenizer, (tn_text){(const char *)data, file_bytes}, (tn_text){NULL, 0}, &error) !=
      TN_OK) {
    check(error.message[0] != 0 && tokenizer == NULL);
    return 0;
  }
  check_untrusted(tokenizer, text);
  check_encoding(tokenizer, text, 0);
  check_encoding(tokenizer, text, text.bytes);
  check_encoding(tokenizer, text, text.bytes / 2);
  tn_tokenizer_destroy(tokenizer);
  return 0;
}
