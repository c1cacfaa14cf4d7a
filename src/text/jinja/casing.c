/* Upper, lower and title case of whole strings, by the full mappings of Unicode. */
#include <string.h>
#include "text/jinja/builtins.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

enum { CAPITAL_SIGMA = 0x3a3, SMALL_SIGMA = 0x3c3, FINAL_SIGMA = 0x3c2 };

/* A capital sigma is a final one behind a letter and not in front of one; marks in between don't count. */
static bool final_sigma(tnj_value text, size_t at, size_t next) {
  bool letter_before = false;
  for (size_t i = 0, n; i < at; i = n) {
    uint32_t c = tnj_codepoint_at(text, i, &n);
    if (!tnj_is_case_ignorable(c)) letter_before = tnj_is_cased(c);
  }
  if (!letter_before) return false;
  for (size_t i = next, n; i < tnj_size(text); i = n) {
    uint32_t c = tnj_codepoint_at(text, i, &n);
    if (!tnj_is_case_ignorable(c)) return !tnj_is_cased(c);
  }
  return true;
}

static bool starts_word(uint32_t c) {
  return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || tnj_is_space(c);
}

/* The mapping for the code point `c`; `start`: it begins what the wanted case treats as a word. */
static size_t image(uint32_t c, tnj_case wanted, bool start, uint32_t out[3]) {
  switch (wanted) {
    case TNJ_UPPER: return tnj_to_upper(c, out);
    case TNJ_LOWER: return tnj_to_lower(c, out);
    case TNJ_FOLD: return tnj_to_fold(c, out);
    case TNJ_SWAP: return tnj_is_upper(c) ? tnj_to_lower(c, out) : tnj_to_upper(c, out);
    case TNJ_WORD_TITLE: return start ? tnj_to_upper(c, out) : tnj_to_lower(c, out);
    default: return start ? tnj_to_title(c, out) : tnj_to_lower(c, out);
  }
}

tnj_value tnj_change_case(tnj_state *s, tnj_value text, tnj_case wanted) {
  tnj_buffer *out = tnj_buffer_new(s, tnj_size(text) + 4);
  bool trusted = false, start = true;
  tnj_work(s, tnj_size(text) * 4);
  for (size_t at = 0, next, until = 0; at < tnj_size(text); at = next) {
    uint32_t mapped[3];
    if (at >= until) trusted = tnj_trusted_until(text, at, &until);
    uint32_t c = tnj_codepoint_at(text, at, &next);
    if (c == 0xfffd) {
      tnj_append(s, out, tnj_data(text) + at, next - at, trusted);
      start = wanted == TNJ_TITLE;
      continue;
    }
    size_t count = image(c, wanted, start, mapped);
    if (c == CAPITAL_SIGMA && mapped[0] == SMALL_SIGMA && wanted != TNJ_FOLD) {
      tnj_work(s, tnj_size(text) * 4);
      if (final_sigma(text, at, next)) mapped[0] = FINAL_SIGMA;
    }
    for (size_t i = 0; i < count; i++) tnj_append_codepoint(s, out, mapped[i], trusted);
    start = wanted == TNJ_TITLE ? !tnj_is_cased(c) : wanted == TNJ_WORD_TITLE ? starts_word(c) : false;
  }
  tnj_value changed = tnj_buffer_string(s, out);
  changed.flag = text.flag;
  return changed;
}

tnj_value tnj_fold(tnj_state *s, tnj_value v) {
  return tnj_is_string(v) ? tnj_change_case(s, v, TNJ_LOWER) : v;
}
