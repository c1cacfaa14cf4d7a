/* The generated tables of unicode_table.c. Use them through unicode.h and char_set.h. */
#ifndef TENON_TEXT_UNICODE_TABLE_H
#define TENON_TEXT_UNICODE_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* first codepoint << 5 | category; each range ends where the next begins */
extern const size_t tn_category_range_count;
extern const uint32_t tn_category_ranges[];

/* first codepoint << 8 | index of the name */
extern const size_t tn_script_range_count;
extern const uint32_t tn_script_ranges[];
extern const size_t tn_script_name_count;
extern const char *const tn_script_names[]; /* sorted; words joined by '_' */

/* {codepoint, what it folds to}, where they differ; sorted by codepoint */
extern const size_t tn_fold_count;
extern const uint32_t tn_folds[][2];

#endif
