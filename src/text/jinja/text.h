/* Strings with their origin: views, buffers, and the operations every part of the interpreter needs (internal). */
#ifndef TENON_TEXT_JINJA_TEXT_H
#define TENON_TEXT_JINJA_TEXT_H

#include <string.h>
#include "text/jinja/value.h"

static inline const char *tnj_data(tnj_value v) {
  return v.string->buffer->data + v.string->offset;
}
static inline size_t tnj_size(tnj_value v) {
  return v.string->size;
}

/* An empty buffer with room for `capacity` bytes. */
tnj_buffer *tnj_buffer_new(tnj_state *s, size_t capacity);
void tnj_append(tnj_state *s, tnj_buffer *buffer, const char *data, size_t size, bool trusted);
void tnj_append_text(tnj_state *s, tnj_buffer *buffer, const char *text); /* untrusted */
/* Appends bytes [start, end) of the string `v`, each with its origin. */
void tnj_append_part(tnj_state *s, tnj_buffer *buffer, tnj_value v, size_t start, size_t end);
void tnj_append_string(tnj_state *s, tnj_buffer *buffer, tnj_value v);
void tnj_append_codepoint(tnj_state *s, tnj_buffer *buffer, uint32_t codepoint, bool trusted);
void tnj_append_fill(tnj_state *s, tnj_buffer *buffer, tnj_value unit, size_t count); /* `unit` count times */

/* The string that a buffer holds now. */
tnj_value tnj_buffer_string(tnj_state *s, tnj_buffer *buffer);

/* A new string: a copy of `size` bytes. */
tnj_value tnj_string_new(tnj_state *s, const char *data, size_t size, bool trusted);
tnj_value tnj_string_text(tnj_state *s, const char *text); /* untrusted, zero-terminated */
__attribute__((format(printf, 2, 3))) tnj_value tnj_string_printf(tnj_state *s, const char *format, ...);

/* Bytes [start, end) of `v`, sharing them; keeps the markup flag. */
tnj_value tnj_part(tnj_state *s, tnj_value v, size_t start, size_t end);
tnj_value tnj_concat(tnj_state *s, tnj_value a, tnj_value b);

/* Whether byte `position` of `v` is trusted, and in `*end` the first position behind it where that changes. */
bool tnj_trusted_until(tnj_value v, size_t position, size_t *end);

bool tnj_text_is(tnj_value v, const char *text); /* a string that equals `text` */
bool tnj_text_equal(tnj_value a, tnj_value b);
/* Position of the first (last) `needle` in bytes [start, end) of `v`, or SIZE_MAX. */
size_t tnj_find(tnj_state *s, tnj_value v, size_t start, size_t end, const char *needle, size_t size);
size_t tnj_find_last(tnj_state *s, tnj_value v, size_t start, size_t end, const char *needle, size_t size);

/* Counts in code points. */
size_t tnj_codepoints(tnj_state *s, tnj_value v);
/* Byte position of code point number `index` (at most the number of code points). */
size_t tnj_position(tnj_state *s, tnj_value v, size_t index);
/* The code point at byte `position`; `*next` is where the following one starts. */
uint32_t tnj_codepoint_at(tnj_value v, size_t position, size_t *next);

/* `v` without white space at its ends, or without any of the code points of the string `characters` when that is given.
 */
tnj_value tnj_strip(tnj_state *s, tnj_value v, tnj_value characters, bool left, bool right);
/* Every code point through `map` (which appends its image to the buffer), origin kept. */
tnj_value tnj_map(tnj_state *s, tnj_value v,
                  void (*map)(tnj_state *s, tnj_buffer *out, uint32_t codepoint, bool trusted, void *user), void *user);
/* All (at most `limit`) `old` replaced. */
tnj_value tnj_replace(tnj_state *s, tnj_value v, tnj_value old, tnj_value replacement, size_t limit);
/* HTML-escaped, flagged as markup; a string that is markup already stays as it is. */
tnj_value tnj_escape(tnj_state *s, tnj_value v);

/* ---- str() and repr() ---- */
tnj_value tnj_str(tnj_state *s, tnj_value v); /* a string is itself; undefined is empty */
void tnj_append_str(tnj_state *s, tnj_buffer *buffer, tnj_value v);
void tnj_append_repr(tnj_state *s, tnj_buffer *buffer, tnj_value v);

#endif
