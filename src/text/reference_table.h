/* The generated tables of reference_table.c: sorted ranges, used through tn_in_ranges, and lower case. */
#ifndef TENON_TEXT_REFERENCE_TABLE_H
#define TENON_TEXT_REFERENCE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const size_t tn_bert_unknown_count, tn_bert_more_count, tn_accents_unknown_count, tn_accents_more_count,
    tn_forms_unknown_count;
extern const uint32_t tn_bert_unknown[][2], tn_bert_more[][2], tn_accents_unknown[][2], tn_accents_more[][2],
    tn_forms_unknown[][2];
extern const size_t tn_lowercase_count;
extern const uint32_t tn_lowercase[][2]; /* {character, its lower case}, sorted */

static inline bool tn_in_ranges(const uint32_t (*ranges)[2], size_t count, uint32_t codepoint) {
  size_t low = 0;
  while (low < count) {
    size_t middle = low + (count - low) / 2;
    if (ranges[middle][1] < codepoint)
      low = middle + 1;
    else if (ranges[middle][0] > codepoint)
      count = middle;
    else
      return true;
  }
  return false;
}

#endif
