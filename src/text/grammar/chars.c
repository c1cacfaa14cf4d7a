#include "text/grammar/chars.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/utf8.h"

void tn_chars_finish(tn_chars *set) {
  free(set->ranges);
  *set = (tn_chars){0};
}

bool tn_chars_add(tn_chars *set, uint32_t first, uint32_t last) {
  tn_char_range *range = TN_PUSH(set->ranges, set->count, set->capacity);
  if (range) *range = (tn_char_range){first, last};
  return range != NULL;
}

bool tn_chars_add_all(tn_chars *set, const tn_chars *more) {
  for (size_t i = 0; i < more->count; i++)
    if (!tn_chars_add(set, more->ranges[i].first, more->ranges[i].last)) return false;
  return true;
}

static int by_first(const void *p, const void *q) {
  const tn_char_range *a = p, *b = q;
  return (a->first > b->first) - (a->first < b->first);
}

void tn_chars_settle(tn_chars *set) {
  if (!set->count) return;
  qsort(set->ranges, set->count, sizeof *set->ranges, by_first);
  size_t kept = 0;
  for (size_t i = 1; i < set->count; i++) {
    tn_char_range *last = &set->ranges[kept], *next = &set->ranges[i];
    if (next->first > last->last + 1) {
      set->ranges[++kept] = *next;
    } else if (next->last > last->last) {
      last->last = next->last;
    }
  }
  set->count = kept + 1;
}

bool tn_chars_negate(tn_chars *set) {
  tn_chars result = {0};
  bool done = true;
  uint32_t next = 0;
  tn_chars_settle(set);
  for (size_t i = 0; i < set->count; i++) {
    if (set->ranges[i].first > next) done = done && tn_chars_add(&result, next, set->ranges[i].first - 1);
    next = set->ranges[i].last + 1;
  }
  if (next <= TN_CHAR_LAST) done = done && tn_chars_add(&result, next, TN_CHAR_LAST);
  tn_chars_finish(set);
  *set = result;
  return done;
}

/* ---- bytes ---- */

static unsigned utf8_size(uint32_t c) {
  return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

/* The end of the longest range from `first` within [first, last] that is a product of byte ranges. */
static uint32_t product_end(uint32_t first, uint32_t last) {
  static const uint32_t ends[] = {0x7F, 0x7FF, 0xD7FF, 0xFFFF};
  for (unsigned i = 0; i < TN_COUNT(ends); i++)
    if (first <= ends[i] && last > ends[i]) last = ends[i];
  for (unsigned shift = 6 * (utf8_size(first) - 1); shift; shift -= 6) {
    uint32_t low = ((uint32_t)1 << shift) - 1;
    if ((first & ~low) == (last & ~low)) continue;
    if (first & low)
      last = first | low;
    else if ((last & low) != low)
      last = (last & ~low) - 1;
  }
  return last;
}

/* Pushes one expression a product on the scratch stack. */
static void push_utf8(tn_exprs *x, uint32_t first, uint32_t last) {
  while (first <= last && x->status == TN_OK) {
    if (first >= 0xD800 && first <= 0xDFFF) {
      first = 0xE000;
      continue;
    }
    uint32_t end = product_end(first, last);
    unsigned size = utf8_size(first);
    char low[4], high[4];
    tn_utf8_write(first, low);
    tn_utf8_write(end, high);
    tn_expr e = TN_EXPR_EMPTY;
    for (unsigned i = size; i-- > 0;) e = tn_expr_concat(x, tn_expr_range(x, (uint8_t)low[i], (uint8_t)high[i]), e);
    tn_exprs_scratch(x, e);
    first = end + 1;
  }
}

/* A control character's escape in JSON. */
static tn_expr json_escape(tn_exprs *x, uint32_t c) {
  static const char *const brief[] = {['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f", ['\r'] = "\\r"};
  if (c < TN_COUNT(brief) && brief[c]) return tn_expr_text(x, brief[c]);
  char digits[8];
  snprintf(digits, sizeof digits, "\\u00%u", c >> 4);
  tn_expr last = c % 16 < 10
                     ? tn_expr_range(x, (uint8_t)('0' + c % 16), (uint8_t)('0' + c % 16))
                     : tn_expr_alt(x, tn_expr_range(x, (uint8_t)('a' + c % 16 - 10), (uint8_t)('a' + c % 16 - 10)),
                                   tn_expr_range(x, (uint8_t)('A' + c % 16 - 10), (uint8_t)('A' + c % 16 - 10)));
  return tn_expr_concat(x, tn_expr_text(x, digits), last);
}

/* As push_utf8 for the inside of a JSON string. */
static void push_json(tn_exprs *x, uint32_t first, uint32_t last) {
  while (first <= last && x->status == TN_OK) {
    uint32_t end = last;
    if (first < 0x20) {
      tn_exprs_scratch(x, json_escape(x, first));
      end = first;
    } else if (first == '"' || first == '\\') {
      tn_exprs_scratch(x, tn_expr_text(x, first == '"' ? "\\\"" : "\\\\"));
      end = first;
    } else {
      if (first < '"' && end >= '"') end = '"' - 1;
      if (first < '\\' && end >= '\\') end = '\\' - 1;
      push_utf8(x, first, end);
    }
    first = end + 1;
  }
}

tn_expr tn_chars_expr(tn_exprs *x, tn_chars *set, tn_spelling spelling) {
  size_t base = x->scratch_count;
  tn_chars_settle(set);
  for (size_t i = 0; i < set->count; i++)
    (spelling == TN_SPELL_JSON ? push_json : push_utf8)(x, set->ranges[i].first, set->ranges[i].last);
  return tn_expr_combine(x, TN_EXPR_IS_ALT, base);
}

tn_expr tn_any_char(tn_exprs *x, tn_spelling spelling) {
  tn_char_range all = {0, TN_CHAR_LAST};
  return tn_chars_expr(x, &(tn_chars){&all, 1, 1}, spelling);
}

tn_expr tn_one_char(tn_exprs *x, uint32_t c, tn_spelling spelling) {
  tn_char_range one = {c, c};
  return tn_chars_expr(x, &(tn_chars){&one, 1, 1}, spelling);
}

uint32_t tn_next_char(const char **at, const char *end) {
  size_t length;
  uint32_t c;
  tn_utf8_state state = tn_utf8_read(*at, (size_t)(end - *at), &length, &c);
  *at += length;
  return state == TN_UTF8_GOOD ? c : UINT32_MAX;
}

tn_expr tn_spelled_text(tn_exprs *x, const char *text, size_t size, tn_spelling spelling) {
  uint32_t *chars = NULL;
  size_t count = 0, capacity = 0;
  for (const char *at = text, *end = text + size; at < end;) {
    uint32_t c = tn_next_char(&at, end), *slot = TN_PUSH(chars, count, capacity);
    if (!slot || c == UINT32_MAX) {
      free(chars);
      return tn_exprs_fail(x, slot ? TN_E_INVALID : TN_E_MEMORY);
    }
    *slot = c;
  }
  tn_expr result = TN_EXPR_EMPTY;
  while (count && x->status == TN_OK) result = tn_expr_concat(x, tn_one_char(x, chars[--count], spelling), result);
  free(chars);
  return result;
}
