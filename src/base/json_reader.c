#include "base/json_reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

void tn_json_init(tn_json *json, const void *data, size_t bytes, tn_error *error) {
  *json = (tn_json){.start = data, .at = data, .error = error};
  json->end = bytes ? json->start + bytes : json->start;
}

tn_status tn_json_end(tn_json *json) {
  if (json->status == TN_OK && json->depth == 0 && tn_json_peek(json) != TN_JSON_NONE)
    tn_json_fail(json, TN_E_FORMAT, "something follows the value");
  tn_buf_finish(&json->strings);
  tn_buf_finish(&json->keys);
  return json->status;
}

bool tn_json_fail(tn_json *json, tn_status status, const char *format, ...) {
  if (json->status != TN_OK) return false;
  json->status = status;
  size_t line = 1, column = 1;
  for (const char *p = json->start; p && p < json->at; p++) {
    column = *p == '\n' ? 1 : column + 1;
    line += *p == '\n';
  }
  char text[400];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  tn_fail(json->error, status, "JSON line %zu column %zu: %s", line, column, text);
  return false;
}

/* The next byte that isn't white space, or 0 at the end and after a fault. */
static unsigned char next_byte(tn_json *json) {
  if (json->status != TN_OK) return 0;
  const char *at = json->at;
  if (at < json->end && (unsigned char)*at > ' ') return (unsigned char)*at;
  for (uint64_t eight; json->end - at >= 8; at += 8) { /* indentation */
    memcpy(&eight, at, 8);
    if (eight != UINT64_C(0x2020202020202020)) break;
  }
  while (at < json->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
  json->at = at;
  return at < json->end ? (unsigned char)*at : 0;
}

tn_json_kind tn_json_peek(tn_json *json) {
  unsigned char byte = next_byte(json);
  switch (byte) {
    case '{': return TN_JSON_OBJECT;
    case '[': return TN_JSON_ARRAY;
    case '"': return TN_JSON_STRING;
    case 't':
    case 'f': return TN_JSON_BOOLEAN;
    case 'n': return TN_JSON_NULL;
    default: break;
  }
  if (byte == '-' || (byte >= '0' && byte <= '9')) return TN_JSON_NUMBER;
  if (json->status == TN_OK && json->at < json->end) tn_json_fail(json, TN_E_FORMAT, "expected a value");
  return TN_JSON_NONE;
}

static const char *kind_name(tn_json_kind kind) {
  static const char *const names[] = {"the end", "an object", "an array", "a string", "a number", "a boolean", "null"};
  return names[kind];
}

static bool expect(tn_json *json, tn_json_kind wanted) {
  tn_json_kind kind = tn_json_peek(json);
  if (kind == wanted) return true;
  return tn_json_fail(json, TN_E_FORMAT, "expected %s, found %s", kind_name(wanted), kind_name(kind));
}

static bool enter(tn_json *json, tn_json_kind kind) {
  if (!expect(json, kind)) return false;
  if (json->depth == TN_JSON_DEPTH) return tn_json_fail(json, TN_E_LIMIT, "deeper than %d levels", TN_JSON_DEPTH);
  uint64_t bit = UINT64_C(1) << json->depth++;
  json->objects = kind == TN_JSON_OBJECT ? json->objects | bit : json->objects & ~bit;
  json->at++;
  json->first = true;
  return true;
}

bool tn_json_object(tn_json *json) {
  return enter(json, TN_JSON_OBJECT);
}

bool tn_json_array(tn_json *json) {
  return enter(json, TN_JSON_ARRAY);
}

/* Moves to the next element of the innermost container; false at its end, which is consumed. */
static bool next_element(tn_json *json) {
  if (json->status != TN_OK || json->depth == 0) return false;
  bool object = json->objects >> (json->depth - 1) & 1;
  unsigned char byte = next_byte(json);
  if (byte == (object ? '}' : ']')) {
    json->at++;
    json->depth--;
    json->first = false;
    return false;
  }
  if (!json->first) {
    if (byte != ',') return tn_json_fail(json, TN_E_FORMAT, "expected ',' or '%c'", object ? '}' : ']');
    json->at++;
  }
  json->first = false;
  return true;
}

/* Four hexadecimal digits at json->at, consumed; -1 on a fault. */
static int32_t hex4(tn_json *json) {
  int32_t value = 0;
  for (int i = 0; i < 4; i++) {
    char c = json->at < json->end ? *json->at : 0;
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) {
      tn_json_fail(json, TN_E_FORMAT, "expected four hexadecimal digits after \\u");
      return -1;
    }
    value = value << 4 | digit;
    json->at++;
  }
  return value;
}

/* One escape, json->at behind its backslash, decoded onto `out`. */
static bool escape(tn_json *json, tn_buf *out) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  char c = json->at < json->end ? *json->at : 0;
  const char *simple = c ? strchr(from, c) : NULL;
  if (simple) {
    json->at++;
    return tn_buf_putc(out, to[simple - from]);
  }
  if (c != 'u') return tn_json_fail(json, TN_E_FORMAT, "unknown escape in a string");
  json->at++;
  int32_t high = hex4(json);
  if (high < 0) return false;
  uint32_t codepoint = (uint32_t)high;
  if (high >= 0xd800 && high < 0xdc00 && json->end - json->at >= 2 && json->at[0] == '\\' && json->at[1] == 'u') {
    json->at += 2;
    int32_t low = hex4(json);
    if (low < 0) return false;
    if (low < 0xdc00 || low > 0xdfff) return tn_json_fail(json, TN_E_FORMAT, "surrogate escape without its other half");
    codepoint = 0x10000 + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
  } else if (high >= 0xd800 && high <= 0xdfff) {
    return tn_json_fail(json, TN_E_FORMAT, "surrogate escape without its other half");
  }
  char bytes[4];
  return tn_buf_append(out, bytes, tn_utf8_write(codepoint, bytes));
}

/* Not 0 if one of eight bytes is a quote, a backslash, a control character or not ASCII. A byte is zero in x exactly if
 * subtracting one borrows into its highest bit while that bit was clear; what comes before the lowest such byte is
 * exact. */
static uint64_t special_bytes(uint64_t eight) {
  const uint64_t ones = UINT64_C(0x0101010101010101), high = UINT64_C(0x8080808080808080);
  uint64_t quote = eight ^ ones * '"', backslash = eight ^ ones * '\\';
  return (eight | (eight - ones * 0x20) | (quote - ones) | (backslash - ones)) & high;
}

/* Moves json->at over plain characters of a string, up to a quote or backslash. */
static bool plain_run(tn_json *json) {
  const char *at = json->at, *end = json->end;
  for (;;) {
    for (uint64_t eight; end - at >= 8; at += 8) {
      memcpy(&eight, at, 8);
      if (special_bytes(eight)) break;
    }
    while (at < end && (unsigned char)(*at - 0x20) < 0x60 && *at != '"' && *at != '\\') at++;
    json->at = at;
    if (at == end) return tn_json_fail(json, TN_E_FORMAT, "a string without end");
    if (*at == '"' || *at == '\\') return true;
    size_t length;
    uint32_t codepoint;
    if ((unsigned char)*at < 0x20) return tn_json_fail(json, TN_E_FORMAT, "control character in a string");
    if (tn_utf8_read(at, (size_t)(end - at), &length, &codepoint) != TN_UTF8_GOOD)
      return tn_json_fail(json, TN_E_FORMAT, "a string that is not UTF-8");
    at += length;
  }
}

/* The string whose quote is at json->at; decoded into `buffer` if it has escapes. */
static bool read_string(tn_json *json, tn_buf *buffer, tn_text *value) {
  const char *start = ++json->at;
  if (!plain_run(json)) return false;
  if (*json->at == '"') {
    *value = (tn_text){start, (size_t)(json->at++ - start)};
    return true;
  }
  tn_buf_clear(buffer);
  for (;;) {
    tn_buf_append(buffer, start, (size_t)(json->at - start));
    if (*json->at++ == '"') break;
    if (!escape(json, buffer) && json->status != TN_OK) return false;
    start = json->at;
    if (!plain_run(json)) return false;
  }
  if (buffer->failed) return tn_json_fail(json, TN_E_MEMORY, "out of memory for a string of %zu bytes", buffer->size);
  *value = (tn_text){buffer->data, buffer->size};
  return true;
}

bool tn_json_key(tn_json *json, tn_text *key) {
  if (!next_element(json)) return false;
  if (next_byte(json) != '"') return tn_json_fail(json, TN_E_FORMAT, "expected a key");
  if (!read_string(json, &json->keys, key)) return false;
  if (next_byte(json) != ':') return tn_json_fail(json, TN_E_FORMAT, "expected ':'");
  json->at++;
  return true;
}

bool tn_json_item(tn_json *json) {
  return next_element(json);
}

bool tn_json_string(tn_json *json, tn_text *value) {
  return expect(json, TN_JSON_STRING) && read_string(json, &json->strings, value);
}

static void digits(tn_json *json) {
  while (json->at < json->end && *json->at >= '0' && *json->at <= '9') json->at++;
}

/* Checks and passes a number; `*integer` says whether it has neither fraction nor exponent. */
static bool pass_number(tn_json *json, bool *integer) {
  *integer = true;
  if (*json->at == '-') json->at++;
  const char *start = json->at;
  digits(json);
  if (json->at == start || (*start == '0' && json->at > start + 1)) goto bad;
  if (json->at < json->end && *json->at == '.') {
    *integer = false;
    start = ++json->at;
    digits(json);
    if (json->at == start) goto bad;
  }
  if (json->at < json->end && (*json->at == 'e' || *json->at == 'E')) {
    *integer = false;
    json->at++;
    if (json->at < json->end && (*json->at == '+' || *json->at == '-')) json->at++;
    start = json->at;
    digits(json);
    if (json->at == start) goto bad;
  }
  return true;
bad:
  return tn_json_fail(json, TN_E_FORMAT, "a number that is not JSON");
}

bool tn_json_number(tn_json *json, double *value) {
  if (!expect(json, TN_JSON_NUMBER)) return false;
  const char *start = json->at;
  bool integer;
  if (!pass_number(json, &integer)) return false;
  size_t bytes = (size_t)(json->at - start);
  char text[64];
  if (bytes < sizeof text) { /* strtod wants a terminated string */
    memcpy(text, start, bytes);
    text[bytes] = 0;
    *value = strtod(text, NULL);
    return true;
  }
  char *copy = tn_copy_text(start, bytes);
  if (!copy) return tn_json_fail(json, TN_E_MEMORY, "out of memory for a number of %zu digits", bytes);
  *value = strtod(copy, NULL);
  free(copy);
  return true;
}

bool tn_json_integer(tn_json *json, int64_t *value) {
  if (!expect(json, TN_JSON_NUMBER)) return false;
  const char *start = json->at;
  bool integer;
  if (!pass_number(json, &integer)) return false;
  if (!integer) return tn_json_fail(json, TN_E_FORMAT, "expected an integer");
  bool negative = *start == '-';
  int64_t result = 0;
  for (const char *p = start + negative; p < json->at; p++) {
    int digit = negative ? -(*p - '0') : *p - '0';
    if (__builtin_mul_overflow(result, 10, &result) || __builtin_add_overflow(result, digit, &result))
      return tn_json_fail(json, TN_E_LIMIT, "an integer that does not fit into 64 bits");
  }
  *value = result;
  return true;
}

static bool literal(tn_json *json, const char *word) {
  size_t bytes = strlen(word);
  if ((size_t)(json->end - json->at) < bytes || memcmp(json->at, word, bytes) != 0)
    return tn_json_fail(json, TN_E_FORMAT, "expected %s", word);
  json->at += bytes;
  return true;
}

bool tn_json_boolean(tn_json *json, bool *value) {
  if (!expect(json, TN_JSON_BOOLEAN)) return false;
  *value = *json->at == 't';
  return literal(json, *value ? "true" : "false");
}

bool tn_json_null(tn_json *json) {
  return next_byte(json) == 'n' && literal(json, "null");
}

/* Skips a value that isn't a container, or steps into one. */
static bool skip_step(tn_json *json) {
  tn_text text;
  bool flag;
  switch (tn_json_peek(json)) {
    case TN_JSON_OBJECT: return tn_json_object(json);
    case TN_JSON_ARRAY: return tn_json_array(json);
    case TN_JSON_STRING: return tn_json_string(json, &text);
    case TN_JSON_NUMBER: return pass_number(json, &flag);
    case TN_JSON_BOOLEAN: return tn_json_boolean(json, &flag);
    case TN_JSON_NULL: return tn_json_null(json);
    default: return tn_json_fail(json, TN_E_FORMAT, "expected a value");
  }
}

bool tn_json_skip(tn_json *json, tn_text *span) {
  next_byte(json);
  const char *start = json->at;
  unsigned outside = json->depth;
  if (!skip_step(json)) return false;
  while (json->depth > outside) {
    tn_text key;
    bool object = json->objects >> (json->depth - 1) & 1;
    bool more = object ? tn_json_key(json, &key) : tn_json_item(json);
    if (json->status != TN_OK || (more && !skip_step(json))) return false;
  }
  if (span) *span = (tn_text){start, (size_t)(json->at - start)};
  return true;
}

/* Behind the string whose quote is at `at`, or `end`. */
static const char *behind_string(const char *at, const char *end) {
  for (at++; at < end && *at != '"'; at++)
    if (*at == '\\') at++;
  return at < end ? at + 1 : end;
}

bool tn_json_pass_array(tn_json *json, tn_text *span, size_t *items) {
  if (!expect(json, TN_JSON_ARRAY)) return false;
  const char *at = json->at, *end = json->end;
  size_t depth = 0, commas = 0;
  bool is_empty = true;
  while (at < end) {
    const char c = *at;
    if (c == '"') {
      at = behind_string(at, end);
      is_empty = false;
      continue;
    }
    at++;
    if (c == '[' || c == '{') {
      is_empty = is_empty && !depth;
      depth++;
    } else if (c == ']' || c == '}') {
      if (--depth == 0) break;
    } else if ((unsigned char)c > ' ') {
      is_empty = false;
      commas += c == ',' && depth == 1;
    }
  }
  *items = is_empty ? 0 : commas + 1;
  *span = (tn_text){json->at, (size_t)(at - json->at)};
  json->at = at;
  return !depth || tn_json_fail(json, TN_E_FORMAT, "an array without end");
}
