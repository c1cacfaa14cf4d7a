#include "base/utf8.h"

#include <string.h>

tn_utf8_state tn_utf8_read(const char *text, size_t bytes, size_t *length, uint32_t *codepoint) {
  const unsigned char *p = (const unsigned char *)text;
  unsigned first = p[0];
  *length = 1;
  *codepoint = 0xfffd;
  if (first < 0x80) {
    *codepoint = first;
    return TN_UTF8_GOOD;
  }
  if (first < 0xc2 || first > 0xf4) return TN_UTF8_BAD;
  size_t need = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  /* The second byte has a narrower range after four of the first bytes. */
  unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  uint32_t value = first & (0xffu >> (need + 1));
  for (size_t i = 1; i < need; i++) {
    if (i == bytes) {
      *length = i;
      return TN_UTF8_INCOMPLETE;
    }
    if (p[i] < low || p[i] > high) {
      *length = i;
      return TN_UTF8_BAD;
    }
    value = value << 6 | (p[i] & 0x3fu);
    low = 0x80;
    high = 0xbf;
  }
  *length = need;
  *codepoint = value;
  return TN_UTF8_GOOD;
}

size_t tn_utf8_write(uint32_t codepoint, char out[4]) {
  if (codepoint < 0x80) {
    out[0] = (char)codepoint;
    return 1;
  }
  size_t length = codepoint < 0x800 ? 2 : codepoint < 0x10000 ? 3 : 4;
  for (size_t i = length; i-- > 1; codepoint >>= 6) out[i] = (char)(0x80 | (codepoint & 0x3f));
  out[0] = (char)((0xf00u >> length & 0xf0) | codepoint);
  return length;
}

size_t tn_utf8_valid_prefix(const char *text, size_t bytes) {
  size_t at = 0;
  while (at < bytes) {
    uint64_t eight;
    if (bytes - at >= 8) {
      memcpy(&eight, text + at, 8);
      if (!(eight & UINT64_C(0x8080808080808080))) {
        at += 8;
        continue;
      }
    }
    size_t length;
    uint32_t codepoint;
    if (tn_utf8_read(text + at, bytes - at, &length, &codepoint) != TN_UTF8_GOOD) break;
    at += length;
  }
  return at;
}
