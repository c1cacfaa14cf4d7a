/* Character properties of one pinned Unicode version (16.0), and normal forms.
 *
 * The normal forms come from utf8proc, whose tables may be of another version: compositions are stable across versions,
 * so only characters newer than its tables could differ, and those have no canonical decompositions in use. */
#ifndef TENON_TEXT_UNICODE_H
#define TENON_TEXT_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

typedef enum tn_category {
  TN_LU,
  TN_LL,
  TN_LT,
  TN_LM,
  TN_LO,
  TN_MN,
  TN_MC,
  TN_ME,
  TN_ND,
  TN_NL,
  TN_NO,
  TN_PC,
  TN_PD,
  TN_PS,
  TN_PE,
  TN_PI,
  TN_PF,
  TN_PO,
  TN_SM,
  TN_SC,
  TN_SK,
  TN_SO,
  TN_ZS,
  TN_ZL,
  TN_ZP,
  TN_CC,
  TN_CF,
  TN_CS,
  TN_CO,
  TN_CN
} tn_category;

/* Sets of categories as bits. */
#define TN_CATEGORY_BIT(category) (UINT32_C(1) << (category))
#define TN_CATEGORIES_L (UINT32_C(0x1f))
#define TN_CATEGORIES_M (UINT32_C(7) << TN_MN)
#define TN_CATEGORIES_N (UINT32_C(7) << TN_ND)
#define TN_CATEGORIES_P (UINT32_C(0x7f) << TN_PC)
#define TN_CATEGORIES_S (UINT32_C(0xf) << TN_SM)
#define TN_CATEGORIES_Z (UINT32_C(7) << TN_ZS)
#define TN_CATEGORIES_C (UINT32_C(0x1f) << TN_CC)

tn_category tn_unicode_category(uint32_t codepoint);
static inline bool tn_unicode_is(uint32_t codepoint, uint32_t categories) {
  return TN_CATEGORY_BIT(tn_unicode_category(codepoint)) & categories;
}

/* The property White_Space. */
bool tn_unicode_space(uint32_t codepoint);
/* Word characters: letters, marks, decimal digits, connectors, the other alphabetic characters and the two joiners. */
bool tn_unicode_word(uint32_t codepoint);
/* What patterns call \w: without the joiners, but with the superscripts and fractions of Latin-1. */
bool tn_unicode_pattern_word(uint32_t codepoint);
/* The lower case of a character where that is one character; else itself. */
uint32_t tn_unicode_lowercase(uint32_t codepoint);
/* The ideographs that BERT puts spaces around (the gap at U+2B820 is the reference's). */
bool tn_unicode_bert_ideograph(uint32_t codepoint);
/* The index of its script in the generated table. */
unsigned tn_unicode_script(uint32_t codepoint);
/* The categories that a name in \p{...} stands for (`L`, `Lu`, `Letter`, ...), or 0 if it is no category. */
uint32_t tn_unicode_categories_named(tn_text name);
/* The index of a script by name, without regard to case, '_' and blanks; -1 if there is none. */
int tn_unicode_script_named(tn_text name);

#endif
