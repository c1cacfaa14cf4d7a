/* Filters on text. Most turn their input into a string first. */
#include <string.h>
#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/json.h"
#include "text/jinja/number.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

/* The signature of every filter. */
#define FILTER(name) static tnj_value name(tnj_state *s, tnj_value self, const tnj_value *p, const tnj_arguments *a)
#define UNUSED (void)p, (void)a

FILTER(upper) {
  UNUSED;
  return tnj_change_case(s, tnj_str(s, self), TNJ_UPPER);
}

FILTER(lower) {
  UNUSED;
  return tnj_change_case(s, tnj_str(s, self), TNJ_LOWER);
}

FILTER(title) {
  UNUSED;
  return tnj_change_case(s, tnj_str(s, self), TNJ_WORD_TITLE);
}

FILTER(capitalize) {
  UNUSED;
  return tnj_change_case(s, tnj_str(s, self), TNJ_CAPITALIZE);
}

FILTER(trim) {
  UNUSED;
  if (tnj_given(p[0]) && p[0].kind != TNJ_NONE) tnj_need_string(s, p[0], "trim: chars");
  return tnj_strip(s, tnj_str(s, self), p[0], true, true);
}

FILTER(string) {
  UNUSED;
  return tnj_str(s, self);
}

FILTER(replace) {
  UNUSED;
  int64_t count = tnj_integer_or(s, p[2], -1, "replace: count");
  return tnj_replace(s, tnj_str(s, self), tnj_str(s, p[0]), tnj_str(s, p[1]), count < 0 ? SIZE_MAX : (size_t)count);
}

FILTER(center) {
  UNUSED;
  return tnj_pad(s, tnj_str(s, self), tnj_integer_or(s, p[0], 80, "center: width"), tnj_absent(), '^');
}

FILTER(format) {
  (void)p;
  tnj_value text = tnj_str(s, self);
  if (a->count && a->keyword_count) tnj_error(s, "can't handle positional and keyword arguments at the same time");
  if (!a->keyword_count) {
    tnj_list list = {a->items, a->count, NULL};
    tnj_list *kept = tnj_alloc(s, sizeof *kept);
    *kept = list;
    return tnj_format_percent(s, text, tnj_list_of(s, TNJ_TUPLE, kept));
  }
  tnj_dict *dict = tnj_dict_new(s, a->keyword_count);
  for (size_t i = 0; i < a->keyword_count; i++) tnj_dict_set(s, dict, a->keywords[i].name, a->keywords[i].value);
  return tnj_format_percent(s, text, tnj_dict_value(dict));
}

FILTER(indent) {
  UNUSED;
  tnj_value text = tnj_need_string(s, self, "indent: the text"), newline = tnj_string_new(s, "\n", 1, true),
            unit = p[0];
  bool first = tnj_bool_or(s, p[1], false), blank = tnj_bool_or(s, p[2], false);
  if (!tnj_given(unit) || !tnj_is_string(unit)) {
    tnj_buffer *spaces = tnj_buffer_new(s, 8);
    int64_t width = tnj_integer_or(s, unit, 4, "indent: width");
    tnj_append_fill(s, spaces, tnj_string_new(s, " ", 1, true), width > 0 ? (size_t)width : 0);
    unit = tnj_buffer_string(s, spaces);
  }
  const tnj_list *lines = tnj_split_lines(s, tnj_concat(s, text, newline), false);
  tnj_buffer *out = tnj_buffer_new(s, tnj_size(text) * 2);
  for (size_t i = 0; i < lines->count; i++) {
    if (i) tnj_append_string(s, out, newline);
    if (i ? blank || tnj_size(lines->items[i]) : first) tnj_append_string(s, out, unit);
    tnj_append_string(s, out, lines->items[i]);
  }
  return tnj_buffer_string(s, out);
}

FILTER(truncate) {
  UNUSED;
  tnj_value end = tnj_given(p[2]) ? tnj_str(s, p[2]) : tnj_string_new(s, "...", 3, true);
  int64_t length = tnj_integer_or(s, p[0], 255, "truncate: length");
  int64_t leeway = tnj_integer_or(s, p[3], 5, "truncate: leeway");
  int64_t tail = (int64_t)tnj_codepoints(s, end), count = tnj_length(s, self);
  if (length < tail) tnj_error(s, "expected length >= %lld, got %lld", (long long)tail, (long long)length);
  if (leeway < 0) tnj_error(s, "expected leeway >= 0, got %lld", (long long)leeway);
  if (count < 0) tnj_error(s, "object of type '%s' has no len()", tnj_type_name(self));
  if (count - leeway <= length) return self;
  tnj_value text = tnj_need_string(s, self, "truncate: the text");
  text = tnj_part(s, text, 0, tnj_position(s, text, (size_t)(length - tail)));
  size_t blank = tnj_bool_or(s, p[1], false) ? SIZE_MAX : tnj_find_last(s, text, 0, tnj_size(text), " ", 1);
  if (blank != SIZE_MAX) text = tnj_part(s, text, 0, blank);
  return tnj_concat(s, text, end);
}

FILTER(wordcount) {
  UNUSED;
  tnj_value text = tnj_str(s, self);
  int64_t count = 0;
  bool inside = false;
  tnj_work(s, tnj_size(text) * 4);
  for (size_t at = 0, next; at < tnj_size(text); at = next) {
    bool word = tnj_is_word(tnj_codepoint_at(text, at, &next));
    count += word && !inside;
    inside = word;
  }
  return tnj_int(count);
}

/* ---- word wrap, as Python's textwrap.wrap does it ---- */

typedef struct wrapper {
  tnj_value text;
  int64_t width;
  bool break_words;
  tnj_list_builder chunks, lines;
} wrapper;

/* Whether a word may be broken behind the hyphen at `at`: between letters. */
static bool breakable_hyphen(tnj_value word, size_t at) {
  const char *data = tnj_data(word);
  size_t size = tnj_size(word), next;
  if (data[at] != '-' || at < 2 || at + 2 >= size) return false;
  uint32_t before, after = tnj_codepoint_at(word, at + 1, &next), second;
  size_t from = at - 1;
  while (from > 0 && ((unsigned char)data[from] & 0xc0) == 0x80) from--;
  before = tnj_codepoint_at(word, from, &next);
  tnj_codepoint_at(word, at + 1, &next);
  second = next < size ? tnj_codepoint_at(word, next, &next) : 0;
  return from > 0 && tnj_is_alpha(before) && tnj_is_word(after) && tnj_is_alpha(second);
}

static void add_word(tnj_state *s, wrapper *w, tnj_value word, bool hyphens) {
  size_t start = 0;
  for (size_t at = 0; hyphens && at < tnj_size(word); at++) {
    if (!breakable_hyphen(word, at)) continue;
    tnj_list_add(s, &w->chunks, tnj_part(s, word, start, at + 1));
    start = at + 1;
  }
  tnj_list_add(s, &w->chunks, tnj_part(s, word, start, tnj_size(word)));
}

/* textwrap knows only these as white space. */
static bool wrap_space(uint32_t c) {
  return c == ' ' || (c >= 9 && c <= 13);
}

static void split_chunks(tnj_state *s, wrapper *w, bool hyphens) {
  for (size_t at = 0, next, end; at < tnj_size(w->text); at = end) {
    bool space = wrap_space(tnj_codepoint_at(w->text, at, &end));
    while (end < tnj_size(w->text) && wrap_space(tnj_codepoint_at(w->text, end, &next)) == space) end = next;
    tnj_value chunk = tnj_part(s, w->text, at, end);
    if (space)
      tnj_list_add(s, &w->chunks, chunk);
    else
      add_word(s, w, chunk, hyphens);
  }
}

static bool is_blank(tnj_value chunk) {
  size_t next;
  return tnj_size(chunk) && wrap_space(tnj_codepoint_at(chunk, 0, &next));
}

/* Fills one line from chunk number `at`; returns the number of the first chunk that is left. */
static size_t fill_line(tnj_state *s, wrapper *w, size_t at) {
  tnj_value *chunks = w->chunks.store->items;
  size_t count = w->chunks.store->used;
  tnj_list_builder line = tnj_list_start(s, 0);
  int64_t used = 0;
  if (w->lines.store->used && is_blank(chunks[at])) at++;
  for (; at < count; at++) {
    int64_t length = (int64_t)tnj_codepoints(s, chunks[at]);
    if (used + length > w->width) break;
    tnj_list_add(s, &line, chunks[at]);
    used += length;
  }
  if (at < count && (int64_t)tnj_codepoints(s, chunks[at]) > w->width) { /* a word that fits no line */
    size_t cut = tnj_position(s, chunks[at], (size_t)(w->width - used));
    if (w->break_words) {
      tnj_list_add(s, &line, tnj_part(s, chunks[at], 0, cut));
      chunks[at] = tnj_part(s, chunks[at], cut, tnj_size(chunks[at]));
    } else if (!line.store->used) {
      tnj_list_add(s, &line, chunks[at++]);
    }
  }
  size_t kept = line.store->used;
  if (kept && is_blank(line.store->items[kept - 1])) line.store->used--;
  if (line.store->used) tnj_list_add(s, &w->lines, tnj_join(s, tnj_string_text(s, ""), tnj_list_end(s, &line)));
  return at;
}

FILTER(wordwrap) {
  UNUSED;
  int64_t width = tnj_integer_or(s, p[0], 79, "wordwrap: width");
  tnj_value separator = tnj_given(p[2]) && p[2].kind != TNJ_NONE ? tnj_str(s, p[2]) : tnj_string_new(s, "\n", 1, true);
  const tnj_list *paragraphs = tnj_split_lines(s, tnj_need_string(s, self, "wordwrap: the text"), false);
  tnj_list_builder out = tnj_list_start(s, paragraphs->count);
  if (width <= 0) tnj_error(s, "invalid width %lld (must be > 0)", (long long)width);
  for (size_t i = 0; i < paragraphs->count; i++) {
    wrapper w = {.text = paragraphs->items[i], .width = width, .break_words = tnj_bool_or(s, p[1], true)};
    w.chunks = tnj_list_start(s, 0);
    w.lines = tnj_list_start(s, 0);
    split_chunks(s, &w, tnj_bool_or(s, p[3], true));
    for (size_t at = 0; at < w.chunks.store->used;) at = fill_line(s, &w, at);
    tnj_list_add(s, &out, tnj_join(s, separator, tnj_list_end(s, &w.lines)));
  }
  return tnj_join(s, separator, tnj_list_end(s, &out));
}

/* ---- tojson ---- */

static tnj_value json_indent(tnj_state *s, tnj_value indent) {
  if (!tnj_given(indent) || indent.kind == TNJ_NONE || tnj_is_string(indent))
    return tnj_is_string(indent) ? indent : tnj_absent();
  int64_t width = tnj_need_integer(s, indent, "tojson: indent");
  tnj_buffer *out = tnj_buffer_new(s, 8);
  tnj_append_fill(s, out, tnj_string_new(s, " ", 1, false), width > 0 ? (size_t)width : 0);
  return tnj_buffer_string(s, out);
}

FILTER(tojson) {
  UNUSED;
  tnj_json_style style = {
      .ascii = tnj_bool_or(s, p[0], false), .indent = json_indent(s, p[1]), .sort_keys = tnj_bool_or(s, p[3], false)};
  style.item_separator = tnj_string_text(s, tnj_given(style.indent) ? "," : ", ");
  style.key_separator = tnj_string_text(s, ": ");
  if (tnj_given(p[2]) && p[2].kind != TNJ_NONE) {
    if (!tnj_is_iterable(p[2])) tnj_error(s, "tojson: separators must be a pair");
    const tnj_list *pair = tnj_items(s, p[2]);
    if (pair->count != 2) tnj_error(s, "tojson: separators must be a pair");
    style.item_separator = tnj_need_string(s, pair->items[0], "tojson: separators");
    style.key_separator = tnj_need_string(s, pair->items[1], "tojson: separators");
  }
  tnj_buffer *out = tnj_buffer_new(s, 256);
  tnj_append_json(s, out, self, &style);
  return tnj_buffer_string(s, out);
}

FILTER(pprint) {
  UNUSED;
  return tnj_pretty(s, self);
}

const tnj_builtin tnj_text_filters[] = {{"upper", upper, "", 0},
                                        {"lower", lower, "", 0},
                                        {"title", title, "", 0},
                                        {"capitalize", capitalize, "", 0},
                                        {"trim", trim, "chars", 0},
                                        {"string", string, "", 0},
                                        {"replace", replace, "old new count", 2},
                                        {"center", center, "width", 0},
                                        {"format", format, NULL, 0},
                                        {"indent", indent, "width first blank", 0},
                                        {"truncate", truncate, "length killwords end leeway", 0},
                                        {"wordcount", wordcount, "", 0},
                                        {"wordwrap", wordwrap, "width break_long_words wrapstring break_on_hyphens", 0},
                                        {"tojson", tojson, "ensure_ascii indent separators sort_keys", 0},
                                        {"pprint", pprint, "", 0},
                                        {0}};
