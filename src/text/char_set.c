#include "text/char_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/unicode.h"
#include "text/unicode_table.h"

#define LAST_CODEPOINT 0x10ffffu

void tn_char_set_finish(tn_char_set *set) {
  free(set->ranges);
  *set = (tn_char_set){0};
}

void tn_char_set_add(tn_char_set *set, uint32_t first, uint32_t last) {
  tn_char_range *range = TN_PUSH(set->ranges, set->count, set->capacity);
  if (range)
    *range = (tn_char_range){first, last};
  else
    set->failed = true;
}

void tn_char_set_add_set(tn_char_set *set, const tn_char_set *other) {
  for (size_t i = 0; i < other->count; i++) tn_char_set_add(set, other->ranges[i].first, other->ranges[i].last);
  set->failed |= other->failed;
}

/* Adds the ranges of a generated table whose low bits are wanted. */
static void add_from_table(tn_char_set *set, const uint32_t *table, size_t count, unsigned shift, bool script,
                           uint32_t wanted) {
  for (size_t i = 0; i < count; i++) {
    uint32_t value = table[i] & ((1u << shift) - 1);
    if (script ? value != wanted : !(wanted >> value & 1)) continue;
    uint32_t last = i + 1 < count ? (table[i + 1] >> shift) - 1 : LAST_CODEPOINT;
    tn_char_set_add(set, table[i] >> shift, last);
  }
}

void tn_char_set_add_categories(tn_char_set *set, uint32_t categories) {
  add_from_table(set, tn_category_ranges, tn_category_range_count, 5, false, categories);
}

void tn_char_set_add_script(tn_char_set *set, unsigned script) {
  add_from_table(set, tn_script_ranges, tn_script_range_count, 8, true, script);
}

void tn_char_set_add_space(tn_char_set *set) {
  static const tn_char_range ranges[] = {{9, 13},          {' ', ' '},       {0x85, 0x85},     {0xa0, 0xa0},
                                         {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                         {0x205f, 0x205f}, {0x3000, 0x3000}};
  for (size_t i = 0; i < TN_COUNT(ranges); i++) tn_char_set_add(set, ranges[i].first, ranges[i].last);
}

void tn_char_set_add_word(tn_char_set *set, bool alone) {
  tn_char_set_add_categories(set, TN_CATEGORIES_L | TN_CATEGORIES_M | TN_CATEGORY_BIT(TN_ND) | TN_CATEGORY_BIT(TN_NL) |
                                      TN_CATEGORY_BIT(TN_PC));
  static const tn_char_range others[] = {{0x24b6, 0x24e9}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189},
                                         {0xb2, 0xb3},     {0xb9, 0xb9},       {0xbc, 0xbe}};
  for (size_t i = 0; i < (alone ? TN_COUNT(others) : 4); i++) tn_char_set_add(set, others[i].first, others[i].last);
}

static bool contains(const tn_char_set *set, uint32_t codepoint) {
  size_t low = 0, high = set->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (set->ranges[middle].last < codepoint)
      low = middle + 1;
    else
      high = middle;
  }
  return low < set->count && set->ranges[low].first <= codepoint;
}

void tn_char_set_add_case(tn_char_set *set) {
  tn_char_set_tidy(set);
  tn_char_set folded = {0};
  for (size_t i = 0; i < tn_fold_count; i++) { /* the set, folded */
    if (contains(set, tn_folds[i][0])) tn_char_set_add(&folded, tn_folds[i][1], tn_folds[i][1]);
  }
  tn_char_set_add_set(&folded, set);
  tn_char_set_tidy(&folded);
  tn_char_set_add_set(set, &folded);
  for (size_t i = 0; i < tn_fold_count; i++) /* everything that folds into it */
    if (contains(&folded, tn_folds[i][1])) tn_char_set_add(set, tn_folds[i][0], tn_folds[i][0]);
  tn_char_set_finish(&folded);
  tn_char_set_tidy(set);
}

static int by_first(const void *a, const void *b) {
  const tn_char_range *x = a, *y = b;
  return (x->first > y->first) - (x->first < y->first);
}

void tn_char_set_tidy(tn_char_set *set) {
  if (set->count < 2) return;
  qsort(set->ranges, set->count, sizeof *set->ranges, by_first);
  size_t kept = 0;
  for (size_t i = 1; i < set->count; i++) {
    tn_char_range *last = &set->ranges[kept], next = set->ranges[i];
    if (next.first <= last->last + 1) {
      if (next.last > last->last) last->last = next.last;
    } else {
      set->ranges[++kept] = next;
    }
  }
  set->count = kept + 1;
}

void tn_char_set_invert(tn_char_set *set) {
  tn_char_set_tidy(set);
  tn_char_set result = {.failed = set->failed};
  uint32_t next = 0;
  for (size_t i = 0; i < set->count; i++) {
    if (set->ranges[i].first > next) tn_char_set_add(&result, next, set->ranges[i].first - 1);
    next = set->ranges[i].last + 1;
  }
  if (next <= LAST_CODEPOINT) tn_char_set_add(&result, next, LAST_CODEPOINT);
  free(set->ranges);
  *set = result;
}

void tn_char_set_intersect(tn_char_set *set, const tn_char_set *other) {
  tn_char_set outside = {0};
  tn_char_set_add_set(&outside, other);
  tn_char_set_invert(&outside);
  tn_char_set_invert(set);
  tn_char_set_add_set(set, &outside);
  tn_char_set_invert(set);
  tn_char_set_finish(&outside);
}

bool tn_char_set_equal(const tn_char_set *a, const tn_char_set *b) {
  return a->count == b->count && (a->count == 0 || memcmp(a->ranges, b->ranges, a->count * sizeof *a->ranges) == 0);
}
