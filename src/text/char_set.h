/* Sets of characters as sorted ranges: what a character class of a pattern stands for. */
#ifndef TENON_TEXT_CHAR_SET_H
#define TENON_TEXT_CHAR_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tn_char_range {
  uint32_t first, last;
} tn_char_range;

/* A zeroed one is the empty set. `ranges` is sorted and disjoint after tn_char_set_tidy and after every operation but
 * the adding ones. A failed allocation sets `failed`, to be looked at once in the end. */
typedef struct tn_char_set {
  tn_char_range *ranges;
  size_t count, capacity;
  bool failed;
} tn_char_set;

void tn_char_set_finish(tn_char_set *set);

void tn_char_set_add(tn_char_set *set, uint32_t first, uint32_t last);
void tn_char_set_add_set(tn_char_set *set, const tn_char_set *other);
/* All characters whose category is among `categories` (bits as in unicode.h). */
void tn_char_set_add_categories(tn_char_set *set, uint32_t categories);
void tn_char_set_add_script(tn_char_set *set, unsigned script);
void tn_char_set_add_space(tn_char_set *set); /* White_Space */
/* As tn_unicode_pattern_word; `alone`: or without the six characters of Latin-1 that are word characters only outside
 * of classes. */
void tn_char_set_add_word(tn_char_set *set, bool alone);
/* All characters that differ from one of the set only by case (simple folding). */
void tn_char_set_add_case(tn_char_set *set);

void tn_char_set_tidy(tn_char_set *set);
void tn_char_set_invert(tn_char_set *set);
void tn_char_set_intersect(tn_char_set *set, const tn_char_set *other);

bool tn_char_set_equal(const tn_char_set *a, const tn_char_set *b); /* both tidy */

#endif
