/* JSON: writing values as Python's json.dumps does, and building values from JSON text or from jansson's values. */
#include "text/jinja/json.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "text/jinja/number.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

enum { MAX_LEVELS = 200 };

/* ---- writing ---- */

static void append_unit(tnj_state *s, tnj_buffer *out, unsigned unit) {
  char text[8];
  snprintf(text, sizeof text, "\\u%04x", unit & 0xffff);
  tnj_append_text(s, out, text);
}

static void append_json_codepoint(tnj_state *s, tnj_buffer *out, uint32_t c, bool trusted, void *user) {
  static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
  const tnj_json_style *style = user;
  const char *simple = c && c < 0x80 ? strchr(from, (int)c) : NULL;
  if (simple) {
    char escape[2] = {'\\', to[simple - from]};
    tnj_append(s, out, escape, 2, trusted);
  } else if (c < 0x20 || (style->ascii && c >= 0x7f && c < 0x10000)) {
    if (c == 0x7f)
      tnj_append_codepoint(s, out, c, trusted);
    else
      append_unit(s, out, c);
  } else if (style->ascii && c >= 0x10000) {
    append_unit(s, out, 0xd800 + ((c - 0x10000) >> 10));
    append_unit(s, out, 0xdc00 + ((c - 0x10000) & 0x3ff));
  } else {
    tnj_append_codepoint(s, out, c, trusted);
  }
}

static void append_json_string(tnj_state *s, tnj_buffer *out, tnj_value v, const tnj_json_style *style) {
  tnj_append(s, out, "\"", 1, false);
  tnj_append_string(s, out, tnj_map(s, v, append_json_codepoint, (void *)style));
  tnj_append(s, out, "\"", 1, false);
}

static void append_json_number(tnj_state *s, tnj_buffer *out, tnj_value v) {
  if (v.kind != TNJ_FLOAT || isfinite(v.real)) {
    tnj_append_number(s, out, v);
    return;
  }
  tnj_append_text(s, out, isnan(v.real) ? "NaN" : v.real > 0 ? "Infinity" : "-Infinity");
}

static void append_level(tnj_state *s, tnj_buffer *out, const tnj_json_style *style, size_t level) {
  if (!tnj_given(style->indent)) return;
  tnj_append_text(s, out, "\n");
  tnj_append_fill(s, out, style->indent, level);
}

static void append_json_key(tnj_state *s, tnj_buffer *out, tnj_value key, const tnj_json_style *style) {
  if (tnj_is_string(key)) {
    append_json_string(s, out, key, style);
    return;
  }
  if (!tnj_is_number(key) && key.kind != TNJ_NONE)
    tnj_error(s, "keys must be str, int, float, bool or None, not %s", tnj_type_name(key));
  tnj_append_text(s, out, "\"");
  if (key.kind == TNJ_NONE || key.kind == TNJ_BOOL)
    tnj_append_text(s, out, key.kind == TNJ_NONE ? "null" : key.boolean ? "true" : "false");
  else
    append_json_number(s, out, key);
  tnj_append_text(s, out, "\"");
}

static void append_value(tnj_state *s, tnj_buffer *out, tnj_value v, const tnj_json_style *style, size_t level);

static bool key_less(tnj_state *s, void *user, tnj_value a, tnj_value b) {
  (void)user;
  return tnj_order(s, a.list->items[0], b.list->items[0], "<");
}

static const tnj_list *sorted_items(tnj_state *s, tnj_value dict) {
  dict.kind = TNJ_VIEW;
  dict.flag = TNJ_ITEMS;
  const tnj_list *items = tnj_items(s, dict);
  tnj_sort(s, (tnj_value *)items->items, items->count, key_less, NULL);
  return items;
}

static void append_object(tnj_state *s, tnj_buffer *out, tnj_value v, const tnj_json_style *style, size_t level) {
  const tnj_list *sorted = style->sort_keys ? sorted_items(s, v) : NULL;
  tnj_append_text(s, out, "{");
  for (size_t i = 0; i < v.dict->count; i++) {
    tnj_value key = sorted ? sorted->items[i].list->items[0] : v.dict->entries[i].key;
    tnj_value value = sorted ? sorted->items[i].list->items[1] : v.dict->entries[i].value;
    if (i) tnj_append_string(s, out, style->item_separator);
    append_level(s, out, style, level + 1);
    append_json_key(s, out, key, style);
    tnj_append_string(s, out, style->key_separator);
    append_value(s, out, value, style, level + 1);
  }
  if (v.dict->count) append_level(s, out, style, level);
  tnj_append_text(s, out, "}");
}

static void append_array(tnj_state *s, tnj_buffer *out, const tnj_list *list, const tnj_json_style *style,
                         size_t level) {
  tnj_append_text(s, out, "[");
  for (size_t i = 0; i < list->count; i++) {
    if (i) tnj_append_string(s, out, style->item_separator);
    append_level(s, out, style, level + 1);
    append_value(s, out, list->items[i], style, level + 1);
  }
  if (list->count) append_level(s, out, style, level);
  tnj_append_text(s, out, "]");
}

static void append_value(tnj_state *s, tnj_buffer *out, tnj_value v, const tnj_json_style *style, size_t level) {
  tnj_enter(s);
  switch (v.kind) {
    case TNJ_NONE: tnj_append_text(s, out, "null"); break;
    case TNJ_BOOL: tnj_append_text(s, out, v.boolean ? "true" : "false"); break;
    case TNJ_INT:
    case TNJ_BIG:
    case TNJ_FLOAT: append_json_number(s, out, v); break;
    case TNJ_STRING: append_json_string(s, out, v, style); break;
    case TNJ_LIST:
    case TNJ_TUPLE: append_array(s, out, v.list, style, level); break;
    case TNJ_DICT: append_object(s, out, v, style, level); break;
    default: tnj_error(s, "Object of type %s is not JSON serializable", tnj_type_name(v));
  }
  tnj_leave(s);
}

void tnj_append_json(tnj_state *s, tnj_buffer *out, tnj_value value, const tnj_json_style *style) {
  append_value(s, out, value, style, 0);
}

/* ---- building ---- */

struct tn_jinja_values {
  tnj_state state;
};

tn_jinja_values *tn_jinja_values_create(size_t memory_limit) {
  tn_jinja_values *values = tn_calloc(1, sizeof *values);
  if (values) tnj_state_init(&values->state, &(tn_jinja_limits){.memory_bytes = memory_limit});
  return values;
}

void tn_jinja_values_destroy(tn_jinja_values *values) {
  if (!values) return;
  tnj_state_finish(&values->state);
  free(values);
}

/* Strings and lists of a context are shared between threads: nobody may append to them in place. */
static tnj_value shared_string(tnj_state *s, const char *data, size_t size, const tn_jinja_trust *trust,
                               const char *key, size_t depth) {
  bool trusted = trust && key && trust->trusted(trust->user, key, depth, data, size);
  tnj_value string = tnj_string_new(s, data, size, trusted);
  string.string->buffer->frozen = true;
  return string;
}

static tnj_value shared_list(tnj_state *s, tnj_list_builder *items) {
  items->store->frozen = true;
  return tnj_list_of(s, TNJ_LIST, tnj_list_end(s, items));
}

/* Text being read. `key` and `depth` of the functions below: where the value stands, for the trust callback. */
typedef struct parser {
  tnj_state *s;
  const char *text;
  size_t size, at;
  const tn_jinja_trust *trust;
  size_t levels;
} parser;

static tnj_value parse_value(parser *p, const char *key, size_t depth);

_Noreturn static void bad_json(parser *p, const char *wanted) {
  tnj_error(p->s, "JSON, byte %zu: %s expected", p->at, wanted);
}

static char peek(const parser *p) {
  return p->at < p->size ? p->text[p->at] : 0;
}

static void skip_space(parser *p) {
  while (peek(p) && strchr(" \t\n\r", peek(p))) p->at++;
}

static bool skip_char(parser *p, char c) {
  skip_space(p);
  if (peek(p) != c) return false;
  p->at++;
  return true;
}

static unsigned parse_unit(parser *p) {
  unsigned unit = 0;
  for (int i = 0; i < 4; i++) {
    char c = peek(p), low = (char)(c | 32);
    int digit = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
    if (digit < 0) bad_json(p, "four hexadecimal digits");
    unit = unit * 16 + (unsigned)digit;
    p->at++;
  }
  return unit;
}

static void parse_escape(parser *p, tnj_buffer *out) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  char c = peek(p);
  const char *simple = c ? strchr(from, c) : NULL;
  p->at++;
  if (simple) {
    tnj_append(p->s, out, &to[simple - from], 1, false);
    return;
  }
  if (c != 'u') bad_json(p, "an escape");
  uint32_t code = parse_unit(p);
  bool pair =
      code >= 0xd800 && code < 0xdc00 && p->size - p->at >= 6 && p->text[p->at] == '\\' && p->text[p->at + 1] == 'u';
  if (pair) {
    size_t back = p->at;
    p->at += 2;
    uint32_t low = parse_unit(p);
    if (low >= 0xdc00 && low < 0xe000)
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    else
      p->at = back;
  }
  tnj_append_codepoint(p->s, out, code, false);
}

/* The bytes of the string that starts behind the quote, unescaped. */
static tnj_value parse_string(parser *p) {
  tnj_buffer *out = tnj_buffer_new(p->s, 16);
  for (;;) {
    size_t start = p->at;
    while (p->at < p->size && p->text[p->at] != '"' && p->text[p->at] != '\\' && (unsigned char)p->text[p->at] >= 0x20)
      p->at++;
    tnj_append(p->s, out, p->text + start, p->at - start, false);
    if (p->at >= p->size) bad_json(p, "the end of a string");
    char c = p->text[p->at++];
    if (c == '"') return tnj_buffer_string(p->s, out);
    if (c != '\\') bad_json(p, "no control character");
    parse_escape(p, out);
  }
}

static tnj_value parse_number(parser *p) {
  size_t start = p->at;
  bool real = false;
  if (peek(p) == '-') p->at++;
  size_t digits = p->at;
  while (peek(p) >= '0' && peek(p) <= '9') p->at++;
  if (p->at == digits || (p->text[digits] == '0' && p->at > digits + 1)) bad_json(p, "a value");
  if (peek(p) == '.') {
    real = true;
    digits = ++p->at;
    while (peek(p) >= '0' && peek(p) <= '9') p->at++;
    if (p->at == digits) bad_json(p, "a digit");
  }
  if ((peek(p) | 32) == 'e') {
    real = true;
    p->at++;
    if (peek(p) == '+' || peek(p) == '-') p->at++;
    digits = p->at;
    while (peek(p) >= '0' && peek(p) <= '9') p->at++;
    if (p->at == digits) bad_json(p, "a digit");
  }
  tnj_value text = tnj_string_new(p->s, p->text + start, p->at - start, false), value;
  double number;
  if (real && tnj_parse_float(p->s, text, &number)) return tnj_float(number);
  if (!real && tnj_parse_integer(p->s, text, 10, &value)) return value;
  bad_json(p, "a number");
}

static tnj_value parse_array(parser *p, size_t depth) {
  tnj_list_builder items = tnj_list_start(p->s, 0);
  p->at++;
  if (!skip_char(p, ']')) {
    do tnj_list_add(p->s, &items, parse_value(p, NULL, depth));
    while (skip_char(p, ','));
    if (!skip_char(p, ']')) bad_json(p, "',' or ']'");
  }
  return shared_list(p->s, &items);
}

static tnj_value parse_object(parser *p, size_t depth) {
  tnj_dict *dict = tnj_dict_new(p->s, 0);
  p->at++;
  if (skip_char(p, '}')) return tnj_dict_value(dict);
  do {
    if (!skip_char(p, '"')) bad_json(p, "a key");
    tnj_value key = parse_string(p);
    key.string->buffer->frozen = true;
    char *name = tnj_alloc(p->s, tnj_size(key) + 1);
    memcpy(name, tnj_data(key), tnj_size(key));
    if (!skip_char(p, ':')) bad_json(p, "':'");
    tnj_dict_set(p->s, dict, key, parse_value(p, name, depth));
  } while (skip_char(p, ','));
  if (!skip_char(p, '}')) bad_json(p, "',' or '}'");
  return tnj_dict_value(dict);
}

static bool skip_word(parser *p, const char *word) {
  size_t size = strlen(word);
  if (p->size - p->at < size || memcmp(p->text + p->at, word, size) != 0) return false;
  p->at += size;
  return true;
}

static tnj_value parse_value(parser *p, const char *key, size_t depth) {
  tnj_value value;
  tnj_step(p->s);
  skip_space(p);
  if (++p->levels > MAX_LEVELS) tnj_fail(p->s, TN_E_LIMIT, "JSON, byte %zu: more than %d levels", p->at, MAX_LEVELS);
  switch (peek(p)) {
    case '{': value = parse_object(p, p->levels - 1); break;
    case '[': value = parse_array(p, p->levels - 1); break;
    case '"':
      p->at++;
      value = parse_string(p);
      value = shared_string(p->s, tnj_data(value), tnj_size(value), p->trust, key, depth);
      break;
    default:
      if (skip_word(p, "null"))
        value = tnj_none();
      else if (skip_word(p, "true"))
        value = tnj_bool(true);
      else if (skip_word(p, "false"))
        value = tnj_bool(false);
      else if (skip_word(p, "NaN"))
        value = tnj_float(NAN);
      else if (skip_word(p, "Infinity"))
        value = tnj_float(INFINITY);
      else if (skip_word(p, "-Infinity"))
        value = tnj_float(-INFINITY);
      else
        value = parse_number(p);
  }
  p->levels--;
  return value;
}

static const tnj_value *keep(tnj_state *s, tnj_value value) {
  tnj_value *kept = tnj_alloc(s, sizeof *kept);
  *kept = value;
  return kept;
}

tn_status tn_jinja_value_parse(tn_jinja_values *values, const char *json, size_t size, const tn_jinja_trust *trust,
                               const tn_jinja_value **value, tn_error *error) {
  tnj_state *s = &values->state;
  *value = NULL;
  s->stack_base = __builtin_frame_address(0);
  s->steps = s->depth = 0;
  jmp_buf here;
  s->escape = &here;
  if (setjmp(here)) return tn_fail(error, s->status, "%s", s->message.data ? s->message.data : "");
  parser p = {.s = s, .text = json, .size = size, .trust = trust};
  tnj_value parsed = parse_value(&p, NULL, 0);
  skip_space(&p);
  if (p.at < p.size) bad_json(&p, "the end of the text");
  *value = keep(s, parsed);
  return TN_OK;
}

static tnj_value convert(tnj_state *s, const json_t *json, const tn_jinja_trust *trust, const char *key, size_t depth,
                         size_t level);

static tnj_value convert_object(tnj_state *s, const json_t *json, const tn_jinja_trust *trust, size_t level) {
  tnj_dict *dict = tnj_dict_new(s, json_object_size(json));
  const char *key;
  json_t *member;
  json_object_foreach((json_t *)json, key, member) {
    tnj_value name = shared_string(s, key, strlen(key), NULL, NULL, 0);
    tnj_dict_set(s, dict, name, convert(s, member, trust, key, level, level + 1));
  }
  return tnj_dict_value(dict);
}

static tnj_value convert_array(tnj_state *s, const json_t *json, const tn_jinja_trust *trust, size_t level) {
  tnj_list_builder items = tnj_list_start(s, json_array_size(json));
  for (size_t i = 0; i < json_array_size(json); i++)
    tnj_list_add(s, &items, convert(s, json_array_get(json, i), trust, NULL, level, level + 1));
  return shared_list(s, &items);
}

static tnj_value convert(tnj_state *s, const json_t *json, const tn_jinja_trust *trust, const char *key, size_t depth,
                         size_t level) {
  if (level > MAX_LEVELS) tnj_fail(s, TN_E_LIMIT, "JSON with more than %d levels", MAX_LEVELS);
  tnj_step(s);
  switch (json_typeof(json)) {
    case JSON_OBJECT: return convert_object(s, json, trust, level);
    case JSON_ARRAY: return convert_array(s, json, trust, level);
    case JSON_STRING: return shared_string(s, json_string_value(json), json_string_length(json), trust, key, depth);
    case JSON_INTEGER: return tnj_int(json_integer_value(json));
    case JSON_REAL: return tnj_float(json_real_value(json));
    case JSON_TRUE: return tnj_bool(true);
    case JSON_FALSE: return tnj_bool(false);
    case JSON_NULL: break;
  }
  return tnj_none();
}

tn_status tn_jinja_value_convert(tn_jinja_values *values, const struct json_t *json, const tn_jinja_trust *trust,
                                 const tn_jinja_value **value, tn_error *error) {
  tnj_state *s = &values->state;
  *value = NULL;
  s->stack_base = __builtin_frame_address(0);
  s->steps = s->depth = 0;
  jmp_buf here;
  s->escape = &here;
  if (setjmp(here)) return tn_fail(error, s->status, "%s", s->message.data ? s->message.data : "");
  *value = keep(s, convert(s, json, trust, NULL, 0, 0));
  return TN_OK;
}

const tn_jinja_value *tn_jinja_value_member(const tn_jinja_value *value, const char *key) {
  return value && value->kind == TNJ_DICT ? tnj_dict_get_text(value->dict, key, strlen(key)) : NULL;
}

const char *tn_jinja_value_text(const tn_jinja_value *value, size_t *size) {
  if (!value || !tnj_is_string(*value)) return NULL;
  *size = tnj_size(*value);
  return tnj_data(*value);
}
