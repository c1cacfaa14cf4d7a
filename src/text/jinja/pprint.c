/* The filter pprint: Python's pprint.pformat, which breaks what doesn't fit into 80 columns. */
#include "text/jinja/builtins.h"
#include "text/jinja/number.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

enum { WIDTH = 80 };

/* Where a value is written: the column it starts at, the columns kept free behind it, and how many values are around
 * it. */
typedef struct place {
  int64_t indent, allowance;
  size_t level;
} place;

static void format(tnj_state *s, tnj_buffer *out, tnj_value v, place at);

static tnj_value repr(tnj_state *s, tnj_value v) {
  tnj_buffer *text = tnj_buffer_new(s, 32);
  tnj_append_repr(s, text, v);
  return tnj_buffer_string(s, text);
}

static int64_t repr_length(tnj_state *s, tnj_value v) {
  return (int64_t)tnj_codepoints(s, repr(s, v));
}

static void new_line(tnj_state *s, tnj_buffer *out, int64_t indent) {
  tnj_append_text(s, out, "\n");
  tnj_append_fill(s, out, tnj_string_text(s, " "), (size_t)indent);
}

static void format_items(tnj_state *s, tnj_buffer *out, const tnj_list *list, place at) {
  at.indent++;
  for (size_t i = 0; i < list->count; i++) {
    bool last = i + 1 == list->count;
    if (i) {
      tnj_append_text(s, out, ",");
      new_line(s, out, at.indent);
    }
    format(s, out, list->items[i], (place){at.indent, last ? at.allowance : 1, at.level});
  }
}

/* Keys in order; keys that have none go by the names of their types. */
static bool key_less(tnj_state *s, void *user, tnj_value a, tnj_value b) {
  (void)user;
  tnj_value x = a.list->items[0], y = b.list->items[0];
  bool ordered = (tnj_is_number(x) && tnj_is_number(y)) || (tnj_is_string(x) && tnj_is_string(y));
  if (ordered) return tnj_order(s, x, y, "<");
  return tnj_order(s, tnj_string_text(s, tnj_type_name(x)), tnj_string_text(s, tnj_type_name(y)), "<");
}

static const tnj_list *sorted_items(tnj_state *s, tnj_value dict) {
  dict.kind = TNJ_VIEW;
  dict.flag = TNJ_ITEMS;
  const tnj_list *items = tnj_items(s, dict);
  tnj_sort(s, (tnj_value *)items->items, items->count, key_less, NULL);
  return items;
}

static void format_dict(tnj_state *s, tnj_buffer *out, tnj_value dict, place at) {
  const tnj_list *items = sorted_items(s, dict);
  tnj_append_text(s, out, "{");
  at.indent++;
  for (size_t i = 0; i < items->count; i++) {
    const tnj_value *pair = items->items[i].list->items;
    bool last = i + 1 == items->count;
    tnj_value key = repr(s, pair[0]);
    if (i) {
      tnj_append_text(s, out, ",");
      new_line(s, out, at.indent);
    }
    tnj_append_string(s, out, key);
    tnj_append_text(s, out, ": ");
    int64_t column = at.indent + (int64_t)tnj_codepoints(s, key) + 2;
    format(s, out, pair[1], (place){column, last ? at.allowance + 1 : 1, at.level});
  }
  tnj_append_text(s, out, "}");
}

/* The end of a word and the white space behind it. */
static size_t word_end(tnj_value text, size_t at) {
  size_t next;
  while (at < tnj_size(text) && !tnj_is_space(tnj_codepoint_at(text, at, &next))) at = next;
  while (at < tnj_size(text) && tnj_is_space(tnj_codepoint_at(text, at, &next))) at = next;
  return at;
}

/* A line's words in pieces whose repr fits into `width` columns; the very last one has `reserve` columns less. */
static void add_pieces(tnj_state *s, tnj_list_builder *pieces, tnj_value line, int64_t width, int64_t reserve) {
  size_t start = 0, end = 0;
  while (end < tnj_size(line)) {
    size_t next = word_end(line, end);
    if (next == tnj_size(line)) width -= reserve;
    if (repr_length(s, tnj_part(s, line, start, next)) > width && end > start) {
      tnj_list_add(s, pieces, tnj_part(s, line, start, end));
      start = end;
    }
    end = next;
  }
  tnj_list_add(s, pieces, tnj_part(s, line, start, end));
}

/* A long string as several, one a line. */
static void format_string(tnj_state *s, tnj_buffer *out, tnj_value text, place at) {
  const tnj_list *lines = tnj_split_lines(s, text, true);
  tnj_list_builder pieces = tnj_list_start(s, 0);
  bool outermost = at.level == 1;
  at.indent += outermost;
  at.allowance += outermost;
  for (size_t i = 0; i < lines->count; i++) {
    int64_t reserve = i + 1 == lines->count ? at.allowance : 0;
    if (repr_length(s, lines->items[i]) <= WIDTH - at.indent - reserve)
      tnj_list_add(s, &pieces, lines->items[i]);
    else
      add_pieces(s, &pieces, lines->items[i], WIDTH - at.indent, reserve);
  }
  bool several = pieces.store->used > 1;
  if (outermost && several) tnj_append_text(s, out, "(");
  for (size_t i = 0; i < pieces.store->used; i++) {
    if (i) new_line(s, out, at.indent);
    tnj_append_repr(s, out, pieces.store->items[i]);
  }
  if (outermost && several) tnj_append_text(s, out, ")");
}

/* The value with the keys of every dictionary in order, for one line. */
static tnj_value with_sorted_keys(tnj_state *s, tnj_value v) {
  tnj_enter(s);
  if (tnj_is_sequence(v)) {
    tnj_value *items, list = tnj_list_new(s, v.kind, v.list->count, &items);
    for (size_t i = 0; i < v.list->count; i++) items[i] = with_sorted_keys(s, v.list->items[i]);
    v = list;
  } else if (v.kind == TNJ_DICT) {
    const tnj_list *items = sorted_items(s, v);
    tnj_dict *dict = tnj_dict_new(s, items->count);
    for (size_t i = 0; i < items->count; i++) {
      const tnj_value *pair = items->items[i].list->items;
      tnj_dict_set(s, dict, pair[0], with_sorted_keys(s, pair[1]));
    }
    v = tnj_dict_value(dict);
  }
  tnj_leave(s);
  return v;
}

static void format(tnj_state *s, tnj_buffer *out, tnj_value v, place at) {
  tnj_value text = repr(s, with_sorted_keys(s, v));
  tnj_enter(s);
  at.level++;
  if ((int64_t)tnj_codepoints(s, text) <= WIDTH - at.indent - at.allowance) {
    tnj_append_string(s, out, text);
  } else if (v.kind == TNJ_DICT) {
    format_dict(s, out, v, at);
  } else if (v.kind == TNJ_LIST) {
    tnj_append_text(s, out, "[");
    at.allowance++;
    format_items(s, out, v.list, at);
    tnj_append_text(s, out, "]");
  } else if (v.kind == TNJ_TUPLE) {
    const char *end = v.list->count == 1 ? ",)" : ")";
    tnj_append_text(s, out, "(");
    at.allowance += end[1] ? 2 : 1;
    format_items(s, out, v.list, at);
    tnj_append_text(s, out, end);
  } else if (tnj_is_string(v) && !(v.flag & TNJ_MARKUP)) {
    format_string(s, out, v, at);
  } else {
    tnj_append_string(s, out, text);
  }
  tnj_leave(s);
}

tnj_value tnj_pretty(tnj_state *s, tnj_value v) {
  tnj_buffer *out = tnj_buffer_new(s, 64);
  format(s, out, v, (place){0, 0, 0});
  return tnj_buffer_string(s, out);
}
