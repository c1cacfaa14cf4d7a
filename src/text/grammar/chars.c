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

/* A sequence of byte ranges, all of whose combinations are characters. */
typedef struct product {
  char low[4], high[4];
  uint8_t size;
} product;

typedef struct products {
  product *items;
  size_t count, capacity;
} products;

/* Adds the characters [first, last] in order. */
static bool add_utf8(products *all, uint32_t first, uint32_t last) {
  while (first <= last) {
    if (first >= 0xD800 && first <= 0xDFFF) {
      first = 0xE000;
      continue;
    }
    uint32_t end = product_end(first, last);
    product *p = TN_PUSH(all->items, all->count, all->capacity);
    if (!p) return false;
    p->size = (uint8_t)utf8_size(first);
    tn_utf8_write(first, p->low);
    tn_utf8_write(end, p->high);
    first = end + 1;
  }
  return true;
}

/* The expression of sorted products from their byte number `at` on, like a trie: what begins with the same bytes is one
 * branch, and branches with the same rest are one. */
static tn_expr join_products(tn_exprs *x, const product *p, size_t count, unsigned at) {
  struct branch {
    tn_byte_set bytes;
    tn_expr rest;
  } branches[256];
  size_t used = 0, base = x->scratch_count;
  for (size_t i = 0, end; i < count && x->status == TN_OK; i = end) {
    for (end = i;
         end < count && p[end].size == p[i].size && p[end].low[at] == p[i].low[at] && p[end].high[at] == p[i].high[at];)
      end++;
    tn_expr rest = at == 3 || at + 1u == p[i].size ? TN_EXPR_EMPTY : join_products(x, p + i, end - i, at + 1);
    size_t k = 0;
    while (k < used && branches[k].rest != rest) k++;
    if (k == used) branches[used++] = (struct branch){.rest = rest};
    for (unsigned byte = (uint8_t)p[i].low[at]; byte <= (uint8_t)p[i].high[at]; byte++)
      branches[k].bytes.bits[byte >> 6] |= (uint64_t)1 << (byte & 63);
  }
  for (size_t k = 0; k < used && x->status == TN_OK; k++)
    tn_exprs_scratch(x, tn_expr_concat(x, tn_expr_bytes(x, &branches[k].bytes), branches[k].rest));
  return tn_expr_combine(x, TN_EXPR_IS_ALT, base);
}

/* A control character's escape in JSON. */
static tn_expr json_escape(tn_exprs *x, uint32_t c) {
  static const char *const brief[] = {['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f", ['\r'] = "\\r"};
  if (c < TN_COUNT(brief) && brief[c]) return tn_expr_text(x, brief[c]);
  char lower[8], upper[8];
  snprintf(lower, sizeof lower, "\\u%04x", c);
  snprintf(upper, sizeof upper, "\\u%04X", c);
  return tn_expr_alt(x, tn_expr_text(x, lower), tn_expr_text(x, upper));
}

/* The characters [first, last] as they stand in a JSON string: escapes go on the scratch stack, the others into `all`.
 */
static bool add_json(tn_exprs *x, products *all, uint32_t first, uint32_t last) {
  for (uint32_t end; first <= last; first = end + 1) {
    end = first;
    if (first < 0x20) {
      tn_exprs_scratch(x, json_escape(x, first));
    } else if (first == '"' || first == '\\') {
      tn_exprs_scratch(x, tn_expr_text(x, first == '"' ? "\\\"" : "\\\\"));
    } else {
      end = last;
      if (first < '"' && end >= '"') end = '"' - 1;
      if (first < '\\' && end >= '\\') end = '\\' - 1;
      if (!add_utf8(all, first, end)) return false;
    }
  }
  return true;
}

tn_expr tn_chars_expr(tn_exprs *x, tn_chars *set, tn_spelling spelling) {
  size_t base = x->scratch_count;
  products all = {0};
  bool done = true;
  tn_chars_settle(set);
  for (size_t i = 0; i < set->count && done; i++)
    done = spelling == TN_SPELL_JSON ? add_json(x, &all, set->ranges[i].first, set->ranges[i].last)
                                     : add_utf8(&all, set->ranges[i].first, set->ranges[i].last);
  if (!done) tn_exprs_fail(x, TN_E_MEMORY);
  tn_exprs_scratch(x, join_products(x, all.items, all.count, 0));
  free(all.items);
  return tn_expr_combine(x, TN_EXPR_IS_ALT, base);
}

tn_expr tn_any_char(tn_exprs *x, tn_spelling spelling) {
  tn_char_range all = {0, TN_CHAR_LAST};
  return tn_chars_expr(x, &(tn_chars){&all, 1, 1}, spelling);
}

tn_expr tn_text_without(tn_exprs *x, const char *literal, size_t size) {
  tn_expr any = tn_expr_repeat(x, tn_any_char(x, TN_SPELL_UTF8), 0, TN_EXPR_MANY);
  tn_expr bytes = tn_expr_repeat(x, tn_expr_range(x, 0, 255), 0, TN_EXPR_MANY);
  if (!size) return any;
  return tn_expr_and(x, any, tn_expr_not(x, tn_expr_concat3(x, bytes, tn_expr_literal(x, literal, size), bytes)));
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
