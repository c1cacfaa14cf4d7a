/* Methods of strings that ask: where something is, how often, what the text consists of. */
#include <string.h>
#include "text/jinja/builtins.h"
#include "text/jinja/number.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#define METHOD(name) static tnj_value name(tnj_state *s, tnj_value self, const tnj_value *p, const tnj_arguments *a)
#define UNUSED (void)s, (void)p, (void)a

/* The bytes [*start, *end) that the optional arguments start and end (in code points) leave of the text. */
static void window(tnj_state *s, tnj_value self, tnj_value from, tnj_value to, size_t *start, size_t *end) {
  *start = 0;
  *end = tnj_size(self);
  bool all = (!tnj_given(from) || from.kind == TNJ_NONE) && (!tnj_given(to) || to.kind == TNJ_NONE);
  if (all) return;
  int64_t count = (int64_t)tnj_codepoints(s, self);
  int64_t first = tnj_integer_or(s, from, 0, "start"), last = tnj_integer_or(s, to, count, "end");
  if (first < 0) first = first < -count ? 0 : first + count;
  if (last < 0) last = last < -count ? 0 : last + count;
  *end = tnj_position(s, self, (size_t)last);
  *start = first > count ? SIZE_MAX : tnj_position(s, self, (size_t)first);
}

static tnj_value find_text(tnj_state *s, tnj_value self, const tnj_value *p, bool last, bool must) {
  size_t start, end;
  tnj_need_string(s, p[0], "the text to find");
  window(s, self, p[1], p[2], &start, &end);
  size_t found = start > end ? SIZE_MAX
                 : last      ? tnj_find_last(s, self, start, end, tnj_data(p[0]), tnj_size(p[0]))
                             : tnj_find(s, self, start, end, tnj_data(p[0]), tnj_size(p[0]));
  if (found == SIZE_MAX && must) tnj_error(s, "substring not found");
  if (found == SIZE_MAX) return tnj_int(-1);
  return tnj_int((int64_t)tnj_codepoints(s, tnj_part(s, self, 0, found)));
}

METHOD(find_first) {
  UNUSED;
  return find_text(s, self, p, false, false);
}

METHOD(find_last) {
  UNUSED;
  return find_text(s, self, p, true, false);
}

METHOD(first_index_of) {
  UNUSED;
  return find_text(s, self, p, false, true);
}

METHOD(last_index_of) {
  UNUSED;
  return find_text(s, self, p, true, true);
}

METHOD(count) {
  UNUSED;
  size_t start, end;
  int64_t found = 0;
  tnj_need_string(s, p[0], "the text to count");
  window(s, self, p[1], p[2], &start, &end);
  if (start > end) return tnj_int(0);
  if (!tnj_size(p[0])) return tnj_int((int64_t)tnj_codepoints(s, tnj_part(s, self, start, end)) + 1);
  for (;;) {
    size_t at = tnj_find(s, self, start, end, tnj_data(p[0]), tnj_size(p[0]));
    if (at == SIZE_MAX) return tnj_int(found);
    found++;
    start = at + tnj_size(p[0]);
    tnj_step(s);
  }
}

static bool stands_at(tnj_value self, size_t start, size_t end, tnj_value part, bool at_end) {
  size_t size = tnj_size(part);
  if (start > end || end - start < size) return false;
  return !size || memcmp(tnj_data(self) + (at_end ? end - size : start), tnj_data(part), size) == 0;
}

/* startswith and endswith: one text, or a tuple of which one must fit. */
static tnj_value stands(tnj_state *s, tnj_value self, const tnj_value *p, bool at_end) {
  size_t start, end;
  window(s, self, p[1], p[2], &start, &end);
  if (p[0].kind != TNJ_TUPLE)
    return tnj_bool(stands_at(self, start, end, tnj_need_string(s, p[0], "the first argument"), at_end));
  for (size_t i = 0; i < p[0].list->count; i++)
    if (stands_at(self, start, end, tnj_need_string(s, p[0].list->items[i], "the first argument"), at_end))
      return tnj_bool(true);
  return tnj_bool(false);
}

METHOD(startswith) {
  UNUSED;
  return stands(s, self, p, false);
}

METHOD(endswith) {
  UNUSED;
  return stands(s, self, p, true);
}

/* ---- what it consists of ---- */

static tnj_value all_are(tnj_state *s, tnj_value text, bool (*is)(uint32_t), bool when_empty) {
  tnj_work(s, tnj_size(text) * 4);
  for (size_t at = 0, next; at < tnj_size(text); at = next)
    if (!is(tnj_codepoint_at(text, at, &next))) return tnj_bool(false);
  return tnj_bool(when_empty || tnj_size(text));
}

static bool is_alnum(uint32_t c) {
  return tnj_is_alpha(c) || tnj_is_numeric(c);
}

static bool is_ascii(uint32_t c) {
  return c < 0x80;
}

#define QUESTION(name, is, when_empty)       \
  METHOD(name) {                             \
    UNUSED;                                  \
    return all_are(s, self, is, when_empty); \
  }

QUESTION(is_all_alpha, tnj_is_alpha, false)
QUESTION(is_all_decimal, tnj_is_decimal, false)
QUESTION(is_all_digit, tnj_is_digit, false)
QUESTION(is_all_numeric, tnj_is_numeric, false)
QUESTION(is_all_alnum, is_alnum, false)
QUESTION(is_all_space, tnj_is_space, false)
QUESTION(is_all_printable, tnj_is_printable, true)
QUESTION(is_all_ascii, is_ascii, true)

METHOD(is_all_lower) {
  UNUSED;
  return tnj_call_builtin(s, tnj_find_test(tnj_string_text(s, "lower")), self, &(tnj_arguments){0});
}

METHOD(is_all_upper) {
  UNUSED;
  return tnj_call_builtin(s, tnj_find_test(tnj_string_text(s, "upper")), self, &(tnj_arguments){0});
}

METHOD(istitle) {
  UNUSED;
  bool any = false, inside = false;
  for (size_t at = 0, next; at < tnj_size(self); at = next) {
    uint32_t c = tnj_codepoint_at(self, at, &next);
    bool large = tnj_is_upper(c) || tnj_is_title(c), little = tnj_is_lower(c);
    if ((large && inside) || (little && !inside)) return tnj_bool(false);
    inside = large || little;
    any |= inside;
  }
  tnj_work(s, tnj_size(self) * 4);
  return tnj_bool(any);
}

METHOD(isidentifier) {
  UNUSED;
  tnj_work(s, tnj_size(self));
  return tnj_bool(tnj_is_identifier(tnj_data(self), tnj_size(self)));
}

const tnj_builtin tnj_text_questions[] = {{"find", find_first, "sub start end", 1},
                                          {"rfind", find_last, "sub start end", 1},
                                          {"index", first_index_of, "sub start end", 1},
                                          {"rindex", last_index_of, "sub start end", 1},
                                          {"count", count, "sub start end", 1},
                                          {"startswith", startswith, "prefix start end", 1},
                                          {"endswith", endswith, "suffix start end", 1},
                                          {"isalpha", is_all_alpha, "", 0},
                                          {"isdecimal", is_all_decimal, "", 0},
                                          {"isdigit", is_all_digit, "", 0},
                                          {"isnumeric", is_all_numeric, "", 0},
                                          {"isalnum", is_all_alnum, "", 0},
                                          {"isspace", is_all_space, "", 0},
                                          {"isprintable", is_all_printable, "", 0},
                                          {"isascii", is_all_ascii, "", 0},
                                          {"islower", is_all_lower, "", 0},
                                          {"isupper", is_all_upper, "", 0},
                                          {"istitle", istitle, "", 0},
                                          {"isidentifier", isidentifier, "", 0},
                                          {0}};
