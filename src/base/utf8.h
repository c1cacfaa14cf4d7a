/* UTF-8, strictly: no surrogates, no overlong forms, nothing above U+10FFFF (Unicode standard, table 3-7). */
#ifndef TENON_BASE_UTF8_H
#define TENON_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What stands at the start of `text`. */
typedef enum tn_utf8_state {
  TN_UTF8_GOOD,      /* one whole character */
  TN_UTF8_BAD,       /* bytes that can't become a character, whatever follows */
  TN_UTF8_INCOMPLETE /* the start of a character, cut off by the end of the text */
} tn_utf8_state;

/* Looks at the first character of `bytes` > 0 bytes of `text`. `*length` is the number of bytes it covers: the
 * character's (1..4), or for BAD and INCOMPLETE those of the maximal part that is replaced by one U+FFFD.
 * `*codepoint` is U+FFFD unless GOOD. */
tn_utf8_state tn_utf8_read(const char *text, size_t bytes, size_t *length, uint32_t *codepoint);

/* As tn_utf8_read for callers that only step: the length, and `*codepoint` = U+FFFD for one invalid *byte*. */
static inline size_t tn_utf8_step(const char *text, size_t bytes, uint32_t *codepoint) {
  unsigned char first = (unsigned char)*text;
  if (first < 0x80) {
    *codepoint = first;
    return 1;
  }
  size_t length;
  return tn_utf8_read(text, bytes, &length, codepoint) == TN_UTF8_GOOD ? length : 1;
}

/* Writes `codepoint` (a valid one) into `out` and returns its length. */
size_t tn_utf8_write(uint32_t codepoint, char out[4]);

/* The number of bytes at the start of `text` that are valid UTF-8. */
size_t tn_utf8_valid_prefix(const char *text, size_t bytes);

#endif
