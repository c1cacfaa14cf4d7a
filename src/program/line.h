/* One line of text built without libc, for the error messages of freestanding code. */
#ifndef TENON_PROGRAM_LINE_H
#define TENON_PROGRAM_LINE_H

#include <stdint.h>

typedef struct tn_line {
  char *text; /* zero-terminated, cut at capacity; NULL: everything is dropped */
  uint64_t size, capacity;
} tn_line;

static inline tn_line tn_line_begin(char *text, uint64_t capacity) {
  if (text && capacity) text[0] = 0;
  return (tn_line){capacity ? text : 0, 0, capacity};
}

static inline void tn_line_put(tn_line *line, const char *text) {
  if (!line->text) return;
  while (*text && line->size + 1 < line->capacity) line->text[line->size++] = *text++;
  line->text[line->size] = 0;
}

static inline void tn_line_number(tn_line *line, int64_t value) {
  char digits[24];
  int at = sizeof digits;
  uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  digits[--at] = 0;
  do digits[--at] = (char)('0' + left % 10);
  while (left /= 10);
  if (value < 0) digits[--at] = '-';
  tn_line_put(line, digits + at);
}

#endif
