/* Methods of strings, as Python's str has them. */
#include <string.h>
#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/number.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#define METHOD(name) static tnj_value name(tnj_state *s, tnj_value self, const tnj_value *p, const tnj_arguments *a)
#define UNUSED (void)p, (void)a

METHOD(upper) {
  UNUSED;
  return tnj_change_case(s, self, TNJ_UPPER);
}

METHOD(lower) {
  UNUSED;
  return tnj_change_case(s, self, TNJ_LOWER);
}

METHOD(title) {
  UNUSED;
  return tnj_change_case(s, self, TNJ_TITLE);
}

METHOD(capitalize) {
  UNUSED;
  return tnj_change_case(s, self, TNJ_CAPITALIZE);
}

METHOD(swapcase) {
  UNUSED;
  return tnj_change_case(s, self, TNJ_SWAP);
}

METHOD(casefold) {
  UNUSED;
  return tnj_change_case(s, self, TNJ_FOLD);
}

static tnj_value strip_characters(tnj_state *s, tnj_value v) {
  if (!tnj_given(v) || v.kind == TNJ_NONE) return tnj_absent();
  return tnj_need_string(s, v, "strip arg");
}

METHOD(strip) {
  UNUSED;
  return tnj_strip(s, self, strip_characters(s, p[0]), true, true);
}

METHOD(lstrip) {
  UNUSED;
  return tnj_strip(s, self, strip_characters(s, p[0]), true, false);
}

METHOD(rstrip) {
  UNUSED;
  return tnj_strip(s, self, strip_characters(s, p[0]), false, true);
}

/* ---- parts ---- */

static tnj_value as_list(tnj_state *s, const tnj_list *list) {
  return tnj_list_of(s, TNJ_LIST, list);
}

static tnj_value separator_of(tnj_state *s, tnj_value v) {
  tnj_need_string(s, v, "separator");
  if (!tnj_size(v)) tnj_error(s, "empty separator");
  return v;
}

METHOD(split) {
  UNUSED;
  int64_t limit = tnj_integer_or(s, p[1], -1, "maxsplit");
  if (!tnj_given(p[0]) || p[0].kind == TNJ_NONE) return as_list(s, tnj_split_space(s, self, limit, false));
  tnj_value separator = separator_of(s, p[0]);
  tnj_list_builder out = tnj_list_start(s, 0);
  size_t at = 0, size = tnj_size(self);
  while (limit-- != 0) {
    size_t found = tnj_find(s, self, at, size, tnj_data(separator), tnj_size(separator));
    if (found == SIZE_MAX) break;
    tnj_list_add(s, &out, tnj_part(s, self, at, found));
    at = found + tnj_size(separator);
  }
  tnj_list_add(s, &out, tnj_part(s, self, at, size));
  return as_list(s, tnj_list_end(s, &out));
}

METHOD(rsplit) {
  UNUSED;
  int64_t limit = tnj_integer_or(s, p[1], -1, "maxsplit");
  if (!tnj_given(p[0]) || p[0].kind == TNJ_NONE) return as_list(s, tnj_split_space(s, self, limit, true));
  tnj_value separator = separator_of(s, p[0]);
  tnj_list_builder out = tnj_list_start(s, 0);
  size_t end = tnj_size(self);
  while (limit-- != 0) {
    size_t found = tnj_find_last(s, self, 0, end, tnj_data(separator), tnj_size(separator));
    if (found == SIZE_MAX) break;
    tnj_list_add(s, &out, tnj_part(s, self, found + tnj_size(separator), end));
    end = found;
  }
  tnj_list_add(s, &out, tnj_part(s, self, 0, end));
  tnj_value *items = out.store->items;
  for (size_t i = 0, j = out.store->used - 1; i < j; i++, j--) {
    tnj_value swap = items[i];
    items[i] = items[j];
    items[j] = swap;
  }
  return as_list(s, tnj_list_end(s, &out));
}

METHOD(splitlines) {
  UNUSED;
  return as_list(s, tnj_split_lines(s, self, tnj_bool_or(s, p[0], false)));
}

static tnj_value three(tnj_state *s, tnj_value first, tnj_value second, tnj_value third) {
  tnj_value *items, tuple = tnj_list_new(s, TNJ_TUPLE, 3, &items);
  items[0] = first;
  items[1] = second;
  items[2] = third;
  return tuple;
}

METHOD(partition) {
  UNUSED;
  tnj_value separator = separator_of(s, p[0]), empty = tnj_part(s, self, 0, 0);
  size_t found = tnj_find(s, self, 0, tnj_size(self), tnj_data(separator), tnj_size(separator));
  if (found == SIZE_MAX) return three(s, self, empty, empty);
  size_t behind = found + tnj_size(separator);
  return three(s, tnj_part(s, self, 0, found), tnj_part(s, self, found, behind),
               tnj_part(s, self, behind, tnj_size(self)));
}

METHOD(rpartition) {
  UNUSED;
  tnj_value separator = separator_of(s, p[0]), empty = tnj_part(s, self, 0, 0);
  size_t found = tnj_find_last(s, self, 0, tnj_size(self), tnj_data(separator), tnj_size(separator));
  if (found == SIZE_MAX) return three(s, empty, empty, self);
  size_t behind = found + tnj_size(separator);
  return three(s, tnj_part(s, self, 0, found), tnj_part(s, self, found, behind),
               tnj_part(s, self, behind, tnj_size(self)));
}

METHOD(join) {
  UNUSED;
  if (tnj_is_undefined(p[0])) return tnj_string_text(s, "");
  if (!tnj_is_iterable(p[0])) tnj_error(s, "can only join an iterable");
  const tnj_list *items = tnj_items(s, p[0]);
  for (size_t i = 0; i < items->count; i++)
    if (!tnj_is_string(items->items[i]))
      tnj_error(s, "sequence item %zu: expected str instance, %s found", i, tnj_type_name(items->items[i]));
  return tnj_join(s, self, items);
}

METHOD(replace) {
  UNUSED;
  int64_t count = tnj_integer_or(s, p[2], -1, "count");
  tnj_need_string(s, p[0], "replace() argument 1");
  tnj_need_string(s, p[1], "replace() argument 2");
  tnj_value replacement = self.flag & TNJ_MARKUP ? tnj_escape(s, p[1]) : p[1];
  return tnj_replace(s, self, p[0], replacement, count < 0 ? SIZE_MAX : (size_t)count);
}

METHOD(removeprefix) {
  UNUSED;
  size_t size = tnj_size(tnj_need_string(s, p[0], "removeprefix() argument"));
  bool starts = tnj_size(self) >= size && (!size || memcmp(tnj_data(self), tnj_data(p[0]), size) == 0);
  return starts ? tnj_part(s, self, size, tnj_size(self)) : self;
}

static bool ends_with(tnj_value text, tnj_value end) {
  size_t size = tnj_size(end);
  return tnj_size(text) >= size && (!size || memcmp(tnj_data(text) + tnj_size(text) - size, tnj_data(end), size) == 0);
}

METHOD(removesuffix) {
  UNUSED;
  tnj_need_string(s, p[0], "removesuffix() argument");
  return ends_with(self, p[0]) ? tnj_part(s, self, 0, tnj_size(self) - tnj_size(p[0])) : self;
}

METHOD(expandtabs) {
  UNUSED;
  int64_t width = tnj_integer_or(s, p[0], 8, "tabsize"), column = 0;
  tnj_buffer *out = tnj_buffer_new(s, tnj_size(self));
  tnj_value blank = tnj_string_text(s, " ");
  for (size_t at = 0, next; at < tnj_size(self); at = next) {
    uint32_t c = tnj_codepoint_at(self, at, &next);
    if (c == '\t') {
      int64_t room = width > 0 ? width - column % width : 0;
      tnj_append_fill(s, out, blank, (size_t)room);
      column += room;
      continue;
    }
    tnj_append_part(s, out, self, at, next);
    column = c == '\n' || c == '\r' ? 0 : column + 1;
  }
  return tnj_buffer_string(s, out);
}

/* ---- padding ---- */

static tnj_value fill_of(tnj_state *s, tnj_value v) {
  return tnj_given(v) ? tnj_need_string(s, v, "the fill character") : v;
}

METHOD(center) {
  UNUSED;
  return tnj_pad(s, self, tnj_need_integer(s, p[0], "width"), fill_of(s, p[1]), '^');
}

METHOD(ljust) {
  UNUSED;
  return tnj_pad(s, self, tnj_need_integer(s, p[0], "width"), fill_of(s, p[1]), '<');
}

METHOD(rjust) {
  UNUSED;
  return tnj_pad(s, self, tnj_need_integer(s, p[0], "width"), fill_of(s, p[1]), '>');
}

METHOD(zfill) {
  UNUSED;
  int64_t width = tnj_need_integer(s, p[0], "width");
  bool sign = tnj_size(self) && strchr("+-", tnj_data(self)[0]) && tnj_data(self)[0];
  if (!sign) return tnj_pad(s, self, width, tnj_string_text(s, "0"), '>');
  tnj_value digits = tnj_pad(s, tnj_part(s, self, 1, tnj_size(self)), width - 1, tnj_string_text(s, "0"), '>');
  return tnj_concat(s, tnj_part(s, self, 0, 1), digits);
}

/* ---- formatting ---- */

METHOD(format) {
  (void)p;
  return tnj_format_braces(s, self, a, tnj_absent());
}

METHOD(format_map) {
  UNUSED;
  if (p[0].kind != TNJ_DICT) tnj_error(s, "format_map() argument must be a mapping");
  return tnj_format_braces(s, self, NULL, p[0]);
}

/* Methods that exist, but whose results no template could use. */
METHOD(unsupported) {
  UNUSED;
  (void)self;
  tnj_error(s, "bytes and translation tables aren't supported");
}

const tnj_builtin tnj_text_methods[] = {{"upper", upper, "", 0},
                                        {"lower", lower, "", 0},
                                        {"title", title, "", 0},
                                        {"capitalize", capitalize, "", 0},
                                        {"swapcase", swapcase, "", 0},
                                        {"casefold", casefold, "", 0},
                                        {"strip", strip, "chars", 0},
                                        {"lstrip", lstrip, "chars", 0},
                                        {"rstrip", rstrip, "chars", 0},
                                        {"split", split, "sep maxsplit", 0},
                                        {"rsplit", rsplit, "sep maxsplit", 0},
                                        {"splitlines", splitlines, "keepends", 0},
                                        {"partition", partition, "sep", 1},
                                        {"rpartition", rpartition, "sep", 1},
                                        {"join", join, "iterable", 1},
                                        {"replace", replace, "old new count", 2},
                                        {"removeprefix", removeprefix, "prefix", 1},
                                        {"removesuffix", removesuffix, "suffix", 1},
                                        {"expandtabs", expandtabs, "tabsize", 0},
                                        {"center", center, "width fillchar", 1},
                                        {"ljust", ljust, "width fillchar", 1},
                                        {"rjust", rjust, "width fillchar", 1},
                                        {"zfill", zfill, "width", 1},
                                        {"format", format, NULL, 0},
                                        {"format_map", format_map, "mapping", 1},
                                        {"encode", unsupported, NULL, 0},
                                        {"maketrans", unsupported, NULL, 0},
                                        {"translate", unsupported, NULL, 0},
                                        {0}};
