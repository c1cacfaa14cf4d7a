/* Filters for HTML and addresses. */
#include <stdlib.h>
#include <string.h>
#include "text/jinja/builtins.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#define FILTER(name) static tnj_value name(tnj_state *s, tnj_value self, const tnj_value *p, const tnj_arguments *a)
#define UNUSED (void)p, (void)a

FILTER(safe) {
  UNUSED;
  tnj_value text = tnj_str(s, self);
  text.flag = TNJ_MARKUP;
  return text;
}

FILTER(escape) {
  UNUSED;
  return tnj_escape(s, tnj_str(s, self));
}

FILTER(forceescape) {
  UNUSED;
  tnj_value text = tnj_str(s, self);
  text.flag = 0;
  return tnj_escape(s, text);
}

/* ---- striptags ---- */

/* The text without what stands between `open` and `close`; an `open` that nothing closes stays. */
static tnj_value cut_between(tnj_state *s, tnj_value text, const char *open, const char *close) {
  tnj_buffer *out = tnj_buffer_new(s, tnj_size(text));
  size_t at = 0, size = tnj_size(text);
  while (at < size) {
    size_t start = tnj_find(s, text, at, size, open, strlen(open));
    size_t end = start == SIZE_MAX ? SIZE_MAX : tnj_find(s, text, start + strlen(open), size, close, strlen(close));
    if (end == SIZE_MAX) break;
    tnj_append_part(s, out, text, at, start);
    at = end + strlen(close);
    tnj_step(s);
  }
  tnj_append_part(s, out, text, at, size);
  return tnj_buffer_string(s, out);
}

/* The code point that the entity [at, end) (without '&' and ';') stands for, or 0. */
static uint32_t entity(const char *at, size_t size) {
  static const struct {
    const char *name;
    uint32_t codepoint;
  } entities[] = {{"amp", '&'},      {"lt", '<'},       {"gt", '>'},       {"quot", '"'},      {"apos", '\''},
                  {"nbsp", 0xa0},    {"copy", 0xa9},    {"reg", 0xae},     {"hellip", 0x2026}, {"mdash", 0x2014},
                  {"ndash", 0x2013}, {"lsquo", 0x2018}, {"rsquo", 0x2019}, {"ldquo", 0x201c},  {"rdquo", 0x201d},
                  {"bull", 0x2022},  {"euro", 0x20ac},  {"times", 0xd7},   {"deg", 0xb0},      {"middot", 0xb7},
                  {"laquo", 0xab},   {"raquo", 0xbb},   {"trade", 0x2122}, {"rarr", 0x2192},   {"larr", 0x2190}};
  char digits[16];
  for (size_t i = 0; i < TN_COUNT(entities); i++)
    if (strlen(entities[i].name) == size && memcmp(entities[i].name, at, size) == 0) return entities[i].codepoint;
  if (size < 2 || size >= sizeof digits || at[0] != '#') return 0;
  memcpy(digits, at + 1, size - 1);
  digits[size - 1] = 0;
  bool hex = (digits[0] | 32) == 'x';
  char *end;
  unsigned long code = strtoul(digits + hex, &end, hex ? 16 : 10);
  return *end || end == digits + hex || code > 0x10ffff ? 0 : (uint32_t)code;
}

static tnj_value unescape(tnj_state *s, tnj_value text) {
  tnj_buffer *out = tnj_buffer_new(s, tnj_size(text));
  size_t at = 0, size = tnj_size(text);
  while (at < size) {
    size_t start = tnj_find(s, text, at, size, "&", 1);
    if (start == SIZE_MAX) break;
    size_t end = tnj_find(s, text, start, start + 16 < size ? start + 16 : size, ";", 1);
    uint32_t code = end == SIZE_MAX ? 0 : entity(tnj_data(text) + start + 1, end - start - 1);
    tnj_append_part(s, out, text, at, code ? start : start + 1);
    if (code) tnj_append_codepoint(s, out, code, false);
    at = code ? end + 1 : start + 1;
  }
  tnj_append_part(s, out, text, at, size);
  return tnj_buffer_string(s, out);
}

FILTER(striptags) {
  UNUSED;
  tnj_value text = tnj_str(s, self);
  text.flag = 0;
  text = cut_between(s, cut_between(s, text, "<!--", "-->"), "<", ">");
  text = tnj_join(s, tnj_string_new(s, " ", 1, true), tnj_split_space(s, text, -1, false));
  return unescape(s, text);
}

/* ---- xmlattr ---- */

FILTER(xmlattr) {
  UNUSED;
  if (tnj_is_undefined(self)) tnj_fail_undefined(s, self);
  if (self.kind != TNJ_DICT) tnj_error(s, "xmlattr needs a mapping, not %s", tnj_type_name(self));
  tnj_buffer *out = tnj_buffer_new(s, 64);
  bool space = tnj_bool_or(s, p[0], true);
  for (size_t i = 0; i < self.dict->count; i++) {
    tnj_value key = tnj_str(s, self.dict->entries[i].key), value = self.dict->entries[i].value;
    if (value.kind == TNJ_NONE || tnj_is_undefined(value)) continue;
    for (size_t at = 0, next; at < tnj_size(key); at = next) {
      uint32_t c = tnj_codepoint_at(key, at, &next);
      if (tnj_is_space(c) || c == '/' || c == '>' || c == '=') tnj_error(s, "Invalid character in attribute name");
    }
    if (space || out->used) tnj_append_text(s, out, " ");
    tnj_append_string(s, out, tnj_escape(s, key));
    tnj_append_text(s, out, "=\"");
    tnj_append_string(s, out, tnj_escape(s, tnj_str(s, value)));
    tnj_append_text(s, out, "\"");
  }
  return tnj_buffer_string(s, out);
}

/* ---- urlencode ---- */

static void append_quoted(tnj_state *s, tnj_buffer *out, tnj_value text, bool query) {
  for (size_t i = 0; i < tnj_size(text); i++) {
    unsigned char c = (unsigned char)tnj_data(text)[i];
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 (c && strchr("_.-~", c)) || (c == '/' && !query);
    char hex[3] = {'%', "0123456789ABCDEF"[c >> 4], "0123456789ABCDEF"[c & 15]};
    if (plain)
      tnj_append(s, out, (const char *)&c, 1, false);
    else if (c == ' ' && query)
      tnj_append(s, out, "+", 1, false);
    else
      tnj_append(s, out, hex, 3, false);
  }
  tnj_work(s, tnj_size(text) * 4);
}

FILTER(urlencode) {
  UNUSED;
  tnj_buffer *out = tnj_buffer_new(s, 64);
  if (tnj_is_string(self) || !tnj_is_iterable(self)) {
    append_quoted(s, out, tnj_str(s, self), false);
    return tnj_buffer_string(s, out);
  }
  if (self.kind == TNJ_DICT) {
    self.kind = TNJ_VIEW;
    self.flag = TNJ_ITEMS;
  }
  const tnj_list *pairs = tnj_items(s, self);
  for (size_t i = 0; i < pairs->count; i++) {
    const tnj_list *pair = tnj_items(s, pairs->items[i]);
    if (pair->count != 2) tnj_error(s, "urlencode needs pairs");
    if (i) tnj_append_text(s, out, "&");
    append_quoted(s, out, tnj_str(s, pair->items[0]), true);
    tnj_append_text(s, out, "=");
    append_quoted(s, out, tnj_str(s, pair->items[1]), true);
  }
  return tnj_buffer_string(s, out);
}

/* ---- urlize ---- */

/* The words of `rel`, "nofollow" if asked for, and jinja2's own "noopener", each once and in order. */
static tnj_value link_relations(tnj_state *s, tnj_value rel, bool nofollow) {
  tnj_dict *words = tnj_dict_new(s, 4);
  if (tnj_given(rel) && rel.kind != TNJ_NONE) {
    const tnj_list *given = tnj_split_space(s, tnj_need_string(s, rel, "urlize: rel"), -1, false);
    for (size_t i = 0; i < given->count; i++) tnj_dict_set(s, words, given->items[i], tnj_none());
  }
  if (nofollow) tnj_dict_set(s, words, tnj_string_text(s, "nofollow"), tnj_none());
  tnj_dict_set(s, words, tnj_string_text(s, "noopener"), tnj_none());
  tnj_value sorted = tnj_call_builtin(s, tnj_find_filter(tnj_string_text(s, "sort")), tnj_dict_value(words),
                                      &(tnj_arguments){.count = 0});
  return tnj_join(s, tnj_string_text(s, " "), sorted.list);
}

FILTER(urlize) {
  UNUSED;
  tnj_buffer *attributes = tnj_buffer_new(s, 32);
  tnj_append_text(s, attributes, " rel=\"");
  tnj_append_string(s, attributes, tnj_escape(s, link_relations(s, p[3], tnj_bool_or(s, p[1], false))));
  tnj_append_text(s, attributes, "\"");
  if (tnj_given(p[2]) && p[2].kind != TNJ_NONE) {
    tnj_append_text(s, attributes, " target=\"");
    tnj_append_string(s, attributes, tnj_escape(s, tnj_need_string(s, p[2], "urlize: target")));
    tnj_append_text(s, attributes, "\"");
  }
  const tnj_link_style style = {tnj_integer_or(s, p[0], -1, "urlize: trim_url_limit"),
                                tnj_buffer_string(s, attributes)};
  return tnj_urlize(s, tnj_str(s, self), &style);
}

const tnj_builtin tnj_markup_filters[] = {{"safe", safe, "", 0},
                                          {"escape", escape, "", 0},
                                          {"e", escape, "", 0},
                                          {"forceescape", forceescape, "", 0},
                                          {"striptags", striptags, "", 0},
                                          {"xmlattr", xmlattr, "autospace", 0},
                                          {"urlencode", urlencode, "", 0},
                                          {"urlize", urlize, "trim_url_limit nofollow target rel", 0},
                                          {0}};
