#include "text/decode.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

void tn_decode_steps_finish(tn_decode_steps *steps) {
  free(steps->steps);
  tn_arena_finish(&steps->arena);
}

/* The byte that a character of GPT-2's alphabet stands for; -1: it is none. Printable Latin-1 stands for itself, the
 * other 68 bytes, in order, for U+0100 and on. */
static int alphabet_byte(uint32_t c) {
  if ((c >= '!' && c <= '~') || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff)) return (int)c;
  if (c < 0x100 || c > 0x143) return -1;
  unsigned n = c - 0x100;
  return n < 0x21 ? (int)n : n < 0x43 ? (int)(n - 0x21 + 0x7f) : 0xad;
}

size_t tn_byte_level_character(unsigned char byte, char out[2]) {
  unsigned c = byte;
  if (byte <= 0x20)
    c = 0x100u + byte;
  else if (byte >= 0x7f && byte <= 0xa0)
    c = 0x121u + (byte - 0x7fu);
  else if (byte == 0xad)
    c = 0x143;
  char bytes[4];
  size_t length = tn_utf8_write(c, bytes); /* at most U+0143: two bytes */
  memcpy(out, bytes, 2);
  return length;
}

bool tn_byte_level_bytes(tn_text text, tn_buf *out) {
  size_t before = out->size;
  if (!tn_buf_reserve(out, text.bytes)) return false;
  for (size_t at = 0; at < text.bytes;) {
    uint32_t c;
    at += tn_utf8_step(text.data + at, text.bytes - at, &c);
    int byte = alphabet_byte(c);
    if (byte < 0) {
      out->size = before;
      return false;
    }
    tn_buf_putc(out, (char)byte);
  }
  return true;
}

/* What the steps may make of one token: replacements could double it again and again. */
#define MAX_TOKEN_BYTES ((size_t)1 << 22)

/* ---- steps on one token: data[0, size) is the token, changed in place ---- */

static bool starts_with(const tn_buf *token, size_t at, tn_text prefix) {
  return prefix.bytes && token->size - at >= prefix.bytes && memcmp(token->data + at, prefix.data, prefix.bytes) == 0;
}

static void replace(tn_buf *token, tn_buf *spare, tn_text from, tn_text to) {
  tn_buf_clear(spare);
  bool any = false;
  for (size_t at = 0; at < token->size;) {
    if (starts_with(token, at, from)) {
      tn_buf_append(spare, to.data, to.bytes);
      at += from.bytes;
      any = true;
    } else {
      tn_buf_putc(spare, token->data[at++]);
    }
  }
  if (!any) return;
  tn_buf swap = *token;
  *token = *spare;
  *spare = swap;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void byte_fallback(tn_buf *token) {
  if (token->size != 6 || memcmp(token->data, "<0x", 3) != 0 || token->data[5] != '>') return;
  int high = hex_digit(token->data[3]), low = hex_digit(token->data[4]);
  if (high < 0 || low < 0) return;
  token->data[0] = (char)(high << 4 | low);
  token->size = 1;
}

static void clean_up(tn_buf *token, tn_buf *spare) {
  static const tn_text pairs[][2] = {
      {{" .", 2}, {".", 1}},   {{" ?", 2}, {"?", 1}},     {{" !", 2}, {"!", 1}},     {{" ,", 2}, {",", 1}},
      {{" ' ", 3}, {"'", 1}},  {{" n't", 4}, {"n't", 3}}, {{" 'm", 3}, {"'m", 2}},   {{" do not", 7}, {" don't", 6}},
      {{" 's", 3}, {"'s", 2}}, {{" 've", 4}, {"'ve", 3}}, {{" 're", 4}, {"'re", 3}},
  };
  for (size_t i = 0; i < TN_COUNT(pairs); i++) replace(token, spare, pairs[i][0], pairs[i][1]);
}

static void cut_front(tn_buf *token, size_t bytes) {
  memmove(token->data, token->data + bytes, token->size - bytes);
  token->size -= bytes;
}

static void put_front(tn_buf *token, char c) {
  if (!tn_buf_putc(token, c)) return;
  memmove(token->data + 1, token->data, token->size - 1);
  token->data[0] = c;
}

static void run_step(const tn_decode_step *step, bool first, tn_buf *token, tn_buf *spare) {
  switch (step->kind) {
    case TN_DECODE_BYTE_LEVEL:
      tn_buf_clear(spare);
      if (tn_byte_level_bytes((tn_text){token->data, token->size}, spare)) {
        tn_buf swap = *token;
        *token = *spare;
        *spare = swap;
      }
      break;
    case TN_DECODE_BYTE_FALLBACK: byte_fallback(token); break;
    case TN_DECODE_REPLACE: replace(token, spare, step->from, step->to); break;
    case TN_DECODE_STRIP:
      for (size_t i = 0; !step->whole && i < step->count && starts_with(token, 0, step->from); i++)
        cut_front(token, step->from.bytes);
      break;
    case TN_DECODE_METASPACE:
      replace(token, spare, step->from, first && step->drop_first ? TN_TEXT("") : TN_TEXT(" "));
      break;
    case TN_DECODE_WORDPIECE:
      if (first) break;
      if (starts_with(token, 0, step->from))
        cut_front(token, step->from.bytes);
      else
        put_front(token, ' ');
      break;
    case TN_DECODE_CLEAN_UP: clean_up(token, spare); break;
    case TN_DECODE_SUFFIX: replace(token, spare, step->from, TN_TEXT(" ")); break;
    case TN_DECODE_SPACES:
      if (!first) put_front(token, ' ');
      break;
  }
}

bool tn_decode_token(const tn_decode_steps *steps, tn_text text, bool plain, bool first, tn_buf work[2], tn_buf *out) {
  if (plain) return tn_buf_append(out, text.data, text.bytes);
  tn_buf *token = &work[0], *spare = &work[1];
  token->limit = spare->limit = MAX_TOKEN_BYTES;
  tn_buf_clear(token);
  tn_buf_append(token, text.data, text.bytes);
  tn_buf_reserve(spare, 0);
  for (size_t i = 0; i < steps->count && !token->failed; i++) run_step(&steps->steps[i], first, token, spare);
  return !token->failed && !spare->failed && tn_buf_append(out, token->data, token->size);
}

/* The first two bytes of an encoded surrogate and nothing behind them. No character comes of them, but the reference
 * waits for the third byte before it says so. */
static bool half_surrogate(tn_text text, size_t at) {
  return text.bytes - at == 2 && (unsigned char)text.data[at] == 0xed &&
         ((unsigned char)text.data[at + 1] & 0xe0) == 0xa0;
}

size_t tn_utf8_release(tn_text text, bool keep_tail, tn_buf *out) {
  size_t at = 0;
  while (at < text.bytes) {
    size_t good = tn_utf8_valid_prefix(text.data + at, text.bytes - at), length;
    tn_buf_append(out, text.data + at, good);
    at += good;
    if (at == text.bytes) break;
    uint32_t c;
    tn_utf8_state state = tn_utf8_read(text.data + at, text.bytes - at, &length, &c);
    if (keep_tail && (state == TN_UTF8_INCOMPLETE || half_surrogate(text, at))) break;
    tn_buf_puts(out, "\xef\xbf\xbd");
    at += length;
  }
  return at;
}
