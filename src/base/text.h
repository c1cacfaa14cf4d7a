/* A view of text: bytes with a length, not zero-terminated, owned by somebody else. */
#ifndef TENON_BASE_TEXT_H
#define TENON_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct tn_text {
  const char *data; /* may be NULL when bytes is 0 */
  size_t bytes;
} tn_text;

#define TN_TEXT(literal) ((tn_text){literal, sizeof(literal) - 1})

static inline tn_text tn_text_of(const char *zero_terminated) {
  return (tn_text){zero_terminated, strlen(zero_terminated)};
}
static inline bool tn_text_equal(tn_text a, tn_text b) {
  return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}
static inline bool tn_text_is(tn_text a, const char *zero_terminated) {
  return tn_text_equal(a, tn_text_of(zero_terminated));
}

#endif
