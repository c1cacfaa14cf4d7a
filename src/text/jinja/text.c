/* Strings as views into buffers that know which of their bytes are trusted. */
#define _GNU_SOURCE /* memmem */
#include "text/jinja/text.h"

#include <stdarg.h>
#include <stdio.h>
#include "base/utf8.h"
#include "text/jinja/unicode.h"

tnj_buffer *tnj_buffer_new(tnj_state *s, size_t capacity) {
  tnj_buffer *buffer = tnj_alloc(s, sizeof *buffer);
  buffer->capacity = capacity;
  buffer->data = tnj_alloc(s, capacity);
  return buffer;
}

static void reserve(tnj_state *s, tnj_buffer *buffer, size_t more) {
  size_t need;
  if (!tn_add_size(buffer->used, more, &need) || need > SIZE_MAX / 4) need = SIZE_MAX / 4;
  if (need <= buffer->capacity) return;
  size_t capacity = need + need / 2 + 32;
  char *data = tnj_alloc(s, capacity);
  if (buffer->used) memcpy(data, buffer->data, buffer->used);
  buffer->data = data;
  buffer->capacity = capacity;
}

static void add_run(tnj_state *s, tnj_buffer *buffer, size_t start, size_t end) {
  tnj_run *last = buffer->run_count ? &buffer->runs[buffer->run_count - 1] : NULL;
  if (last && last->end == start) {
    last->end = end;
    return;
  }
  if (buffer->run_count == buffer->run_capacity) {
    size_t capacity = buffer->run_capacity * 2 + 2;
    tnj_run *runs = tnj_array(s, capacity, sizeof *runs);
    if (buffer->run_count) memcpy(runs, buffer->runs, buffer->run_count * sizeof *runs);
    buffer->runs = runs;
    buffer->run_capacity = capacity;
  }
  buffer->runs[buffer->run_count++] = (tnj_run){start, end};
}

void tnj_append(tnj_state *s, tnj_buffer *buffer, const char *data, size_t size, bool trusted) {
  if (!size) return;
  tnj_work(s, size);
  reserve(s, buffer, size);
  memcpy(buffer->data + buffer->used, data, size);
  if (trusted) add_run(s, buffer, buffer->used, buffer->used + size);
  buffer->used += size;
}

void tnj_append_text(tnj_state *s, tnj_buffer *buffer, const char *text) {
  tnj_append(s, buffer, text, strlen(text), false);
}

bool tnj_trusted_until(tnj_value v, size_t position, size_t *end) {
  const tnj_buffer *buffer = v.string->buffer;
  size_t at = v.string->offset + position, stop = v.string->offset + v.string->size;
  size_t low = 0, high = buffer->run_count; /* the first run that ends behind `at` */
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (buffer->runs[middle].end <= at)
      low = middle + 1;
    else
      high = middle;
  }
  bool trusted = low < buffer->run_count && buffer->runs[low].start <= at;
  size_t until = low == buffer->run_count ? stop : trusted ? buffer->runs[low].end : buffer->runs[low].start;
  *end = (until < stop ? until : stop) - v.string->offset;
  return trusted;
}

void tnj_append_part(tnj_state *s, tnj_buffer *buffer, tnj_value v, size_t start, size_t end) {
  while (start < end) {
    size_t next;
    bool trusted = tnj_trusted_until(v, start, &next);
    if (next > end) next = end;
    tnj_append(s, buffer, tnj_data(v) + start, next - start, trusted);
    start = next;
  }
}

void tnj_append_string(tnj_state *s, tnj_buffer *buffer, tnj_value v) {
  tnj_append_part(s, buffer, v, 0, tnj_size(v));
}

void tnj_append_codepoint(tnj_state *s, tnj_buffer *buffer, uint32_t codepoint, bool trusted) {
  char bytes[4];
  tnj_append(s, buffer, bytes, tnj_encode(codepoint, bytes), trusted);
}

void tnj_append_fill(tnj_state *s, tnj_buffer *buffer, tnj_value unit, size_t count) {
  size_t total;
  if (!tnj_size(unit)) return;
  if (!tn_mul_size(count, tnj_size(unit), &total)) total = SIZE_MAX / 4;
  reserve(s, buffer, total);
  for (size_t i = 0; i < count; i++) tnj_append_string(s, buffer, unit);
}

static tnj_value view(tnj_state *s, tnj_buffer *buffer, size_t offset, size_t size) {
  tnj_string *string = tnj_alloc(s, sizeof *string);
  *string = (tnj_string){buffer, offset, size};
  return (tnj_value){.kind = TNJ_STRING, .string = string};
}

tnj_value tnj_buffer_string(tnj_state *s, tnj_buffer *buffer) {
  return view(s, buffer, 0, buffer->used);
}

tnj_value tnj_string_new(tnj_state *s, const char *data, size_t size, bool trusted) {
  tnj_buffer *buffer = tnj_buffer_new(s, size);
  tnj_append(s, buffer, data, size, trusted);
  return tnj_buffer_string(s, buffer);
}

tnj_value tnj_string_text(tnj_state *s, const char *text) {
  return tnj_string_new(s, text, strlen(text), false);
}

tnj_value tnj_string_printf(tnj_state *s, const char *format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  return tnj_string_text(s, text);
}

tnj_value tnj_part(tnj_state *s, tnj_value v, size_t start, size_t end) {
  if (start == 0 && end == tnj_size(v)) return v;
  tnj_value part = view(s, v.string->buffer, v.string->offset + start, end > start ? end - start : 0);
  part.flag = v.flag;
  return part;
}

tnj_value tnj_concat(tnj_state *s, tnj_value a, tnj_value b) {
  if ((a.flag | b.flag) & TNJ_MARKUP) {
    a = tnj_escape(s, a);
    b = tnj_escape(s, b);
  }
  tnj_buffer *buffer = a.string->buffer;
  size_t offset = a.string->offset;
  if (buffer->frozen || offset + a.string->size != buffer->used) {
    buffer = tnj_buffer_new(s, tnj_size(a) + tnj_size(b) + tnj_size(a) / 2 + 32);
    offset = 0;
    tnj_append_string(s, buffer, a);
  }
  tnj_append_string(s, buffer, b);
  tnj_value joined = view(s, buffer, offset, buffer->used - offset);
  joined.flag = a.flag;
  return joined;
}

bool tnj_text_is(tnj_value v, const char *text) {
  return tnj_is_string(v) && tnj_size(v) == strlen(text) && memcmp(tnj_data(v), text, tnj_size(v)) == 0;
}

bool tnj_text_equal(tnj_value a, tnj_value b) {
  return tnj_size(a) == tnj_size(b) && (!tnj_size(a) || memcmp(tnj_data(a), tnj_data(b), tnj_size(a)) == 0);
}

/* memmem is linear in the C libraries we build on; a step is counted for what it had to look at. */
size_t tnj_find(tnj_state *s, tnj_value v, size_t start, size_t end, const char *needle, size_t size) {
  if (start > end) return SIZE_MAX;
  if (!size) return start;
  const char *data = tnj_data(v), *found = memmem(data + start, end - start, needle, size);
  tnj_work(s, found ? (size_t)(found - data) - start + size : end - start);
  return found ? (size_t)(found - data) : SIZE_MAX;
}

size_t tnj_find_last(tnj_state *s, tnj_value v, size_t start, size_t end, const char *needle, size_t size) {
  if (start > end || end - start < size) return SIZE_MAX;
  const char *data = tnj_data(v);
  for (size_t at = end - size + 1; at-- > start;) {
    if (memcmp(data + at, needle, size) == 0) return at;
    tnj_work(s, size);
    if (at % 64 == 0) tnj_step(s);
  }
  return SIZE_MAX;
}

static bool is_ascii(const char *data, size_t size) {
  unsigned char any = 0;
  for (size_t i = 0; i < size; i++) any |= (unsigned char)data[i];
  return any < 0x80;
}

size_t tnj_codepoints(tnj_state *s, tnj_value v) {
  tnj_work(s, tnj_size(v));
  if (is_ascii(tnj_data(v), tnj_size(v))) return tnj_size(v);
  size_t count = 0;
  for (size_t at = 0, next; at < tnj_size(v); at = next) {
    tnj_codepoint_at(v, at, &next);
    count++;
  }
  return count;
}

size_t tnj_position(tnj_state *s, tnj_value v, size_t index) {
  tnj_work(s, tnj_size(v));
  if (is_ascii(tnj_data(v), tnj_size(v))) return index < tnj_size(v) ? index : tnj_size(v);
  size_t at = 0;
  for (size_t i = 0; i < index && at < tnj_size(v); i++) tnj_codepoint_at(v, at, &at);
  return at;
}

uint32_t tnj_codepoint_at(tnj_value v, size_t position, size_t *next) {
  uint32_t c;
  *next = position + tn_utf8_step(tnj_data(v) + position, tnj_size(v) - position, &c);
  return c;
}

/* Where the code point that ends at byte `end` starts. */
static size_t before(tnj_value v, size_t end) {
  const char *data = tnj_data(v);
  for (size_t back = 1; back <= 4 && back <= end; back++) {
    uint32_t c;
    if (((unsigned char)data[end - back] & 0xc0) == 0x80) continue;
    return tn_utf8_step(data + end - back, back, &c) == back ? end - back : end - 1;
  }
  return end - 1;
}

static bool strips(tnj_state *s, tnj_value v, size_t start, size_t end, tnj_value characters) {
  size_t next;
  if (!tnj_is_string(characters)) return tnj_is_space(tnj_codepoint_at(v, start, &next));
  return tnj_find(s, characters, 0, tnj_size(characters), tnj_data(v) + start, end - start) != SIZE_MAX;
}

tnj_value tnj_strip(tnj_state *s, tnj_value v, tnj_value characters, bool left, bool right) {
  size_t start = 0, end = tnj_size(v), next;
  while (left && start < end) {
    tnj_codepoint_at(v, start, &next);
    if (!strips(s, v, start, next, characters)) break;
    start = next;
  }
  while (right && end > start) {
    size_t from = before(v, end);
    if (!strips(s, v, from, end, characters)) break;
    end = from;
  }
  tnj_work(s, tnj_size(v) - (end - start));
  return tnj_part(s, v, start, end);
}

tnj_value tnj_map(tnj_state *s, tnj_value v,
                  void (*map)(tnj_state *s, tnj_buffer *out, uint32_t codepoint, bool trusted, void *user),
                  void *user) {
  tnj_buffer *out = tnj_buffer_new(s, tnj_size(v) + tnj_size(v) / 8);
  bool trusted = false;
  tnj_work(s, tnj_size(v) * 4);
  for (size_t at = 0, next, until = 0; at < tnj_size(v); at = next) {
    if (at >= until) trusted = tnj_trusted_until(v, at, &until);
    uint32_t c = tnj_codepoint_at(v, at, &next);
    if (c == 0xfffd && next == at + 1)
      tnj_append(s, out, tnj_data(v) + at, 1, trusted); /* a byte that isn't UTF-8 stays as it is */
    else
      map(s, out, c, trusted, user);
  }
  tnj_value mapped = tnj_buffer_string(s, out);
  mapped.flag = v.flag;
  return mapped;
}

/* With an empty `old` the replacement goes between all code points and at both ends. */
static tnj_value interleave(tnj_state *s, tnj_value v, tnj_value replacement, size_t limit) {
  tnj_buffer *out = tnj_buffer_new(s, tnj_size(v));
  size_t at = 0, next;
  tnj_work(s, tnj_size(v) * 16);
  for (; at < tnj_size(v); at = next) {
    if (limit) {
      tnj_append_string(s, out, replacement);
      limit--;
    }
    tnj_codepoint_at(v, at, &next);
    tnj_append_part(s, out, v, at, next);
  }
  if (limit) tnj_append_string(s, out, replacement);
  return tnj_buffer_string(s, out);
}

tnj_value tnj_replace(tnj_state *s, tnj_value v, tnj_value old, tnj_value replacement, size_t limit) {
  if (!tnj_size(old)) return interleave(s, v, replacement, limit);
  size_t at = 0, found = tnj_find(s, v, 0, tnj_size(v), tnj_data(old), tnj_size(old));
  if (found == SIZE_MAX || !limit) return v;
  tnj_buffer *out = tnj_buffer_new(s, tnj_size(v));
  while (limit-- && found != SIZE_MAX) {
    tnj_append_part(s, out, v, at, found);
    tnj_append_string(s, out, replacement);
    tnj_step(s);
    at = found + tnj_size(old);
    found = tnj_find(s, v, at, tnj_size(v), tnj_data(old), tnj_size(old));
  }
  tnj_append_part(s, out, v, at, tnj_size(v));
  tnj_value replaced = tnj_buffer_string(s, out);
  replaced.flag = v.flag;
  return replaced;
}

static void escape_codepoint(tnj_state *s, tnj_buffer *out, uint32_t c, bool trusted, void *user) {
  (void)user;
  const char *entity = c == '&'    ? "&amp;"
                       : c == '<'  ? "&lt;"
                       : c == '>'  ? "&gt;"
                       : c == '"'  ? "&#34;"
                       : c == '\'' ? "&#39;"
                                   : NULL;
  if (entity)
    tnj_append(s, out, entity, strlen(entity), trusted);
  else
    tnj_append_codepoint(s, out, c, trusted);
}

tnj_value tnj_escape(tnj_state *s, tnj_value v) {
  if (v.flag & TNJ_MARKUP) return v;
  tnj_value escaped = tnj_map(s, v, escape_codepoint, NULL);
  escaped.flag = TNJ_MARKUP;
  return escaped;
}
