#include "text/unicode.h"

#include "base/memory.h"
#include "text/reference_table.h"
#include "text/unicode_table.h"

/* The last entry of a table sorted by its high bits whose first codepoint is at most `codepoint`. */
static uint32_t find_range(const uint32_t *ranges, size_t count, unsigned shift, uint32_t codepoint) {
  size_t low = 0;
  while (count > 1) {
    size_t half = count / 2;
    if (ranges[low + half] >> shift <= codepoint) low += half;
    count -= half;
  }
  return ranges[low];
}

tn_category tn_unicode_category(uint32_t codepoint) {
  return (tn_category)(find_range(tn_category_ranges, tn_category_range_count, 5, codepoint) & 0x1f);
}

bool tn_unicode_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

bool tn_unicode_word(uint32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  uint32_t bits =
      TN_CATEGORIES_L | TN_CATEGORIES_M | TN_CATEGORY_BIT(TN_ND) | TN_CATEGORY_BIT(TN_NL) | TN_CATEGORY_BIT(TN_PC);
  return tn_unicode_is(c, bits) || c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) ||
         (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

bool tn_unicode_pattern_word(uint32_t c) {
  if (c == 0x200c || c == 0x200d) return false;
  return tn_unicode_word(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || (c >= 0xbc && c <= 0xbe);
}

uint32_t tn_unicode_lowercase(uint32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  size_t low = 0, high = tn_lowercase_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (tn_lowercase[middle][0] < c)
      low = middle + 1;
    else
      high = middle;
  }
  return low < tn_lowercase_count && tn_lowercase[low][0] == c ? tn_lowercase[low][1] : c;
}

bool tn_unicode_bert_ideograph(uint32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) ||
         (c >= 0x2f800 && c <= 0x2fa1f);
}

unsigned tn_unicode_script(uint32_t codepoint) {
  return find_range(tn_script_ranges, tn_script_range_count, 8, codepoint) & 0xff;
}

/* Equal without regard to ASCII case, '_', '-' and blanks. */
static bool loosely_equal(tn_text a, const char *b) {
  size_t i = 0;
  for (;;) {
    while (i < a.bytes && (a.data[i] == '_' || a.data[i] == '-' || a.data[i] == ' ')) i++;
    while (*b == '_' || *b == '-' || *b == ' ') b++;
    if (i == a.bytes || !*b) return i == a.bytes && !*b;
    if ((a.data[i] | 0x20) != (*b | 0x20)) return false;
    i++;
    b++;
  }
}

uint32_t tn_unicode_categories_named(tn_text name) {
  static const struct {
    const char *name, *long_name;
    uint32_t bits;
  } table[] = {
      {"L", "Letter", TN_CATEGORIES_L},
      {"M", "Mark", TN_CATEGORIES_M},
      {"N", "Number", TN_CATEGORIES_N},
      {"P", "Punctuation", TN_CATEGORIES_P},
      {"S", "Symbol", TN_CATEGORIES_S},
      {"Z", "Separator", TN_CATEGORIES_Z},
      {"C", "Other", TN_CATEGORIES_C},
      {"Lu", "Uppercase_Letter", TN_CATEGORY_BIT(TN_LU)},
      {"Ll", "Lowercase_Letter", TN_CATEGORY_BIT(TN_LL)},
      {"Lt", "Titlecase_Letter", TN_CATEGORY_BIT(TN_LT)},
      {"LC", "Cased_Letter", TN_CATEGORY_BIT(TN_LU) | TN_CATEGORY_BIT(TN_LL) | TN_CATEGORY_BIT(TN_LT)},
      {"Lm", "Modifier_Letter", TN_CATEGORY_BIT(TN_LM)},
      {"Lo", "Other_Letter", TN_CATEGORY_BIT(TN_LO)},
      {"Mn", "Nonspacing_Mark", TN_CATEGORY_BIT(TN_MN)},
      {"Mc", "Spacing_Mark", TN_CATEGORY_BIT(TN_MC)},
      {"Me", "Enclosing_Mark", TN_CATEGORY_BIT(TN_ME)},
      {"Nd", "Decimal_Number", TN_CATEGORY_BIT(TN_ND)},
      {"Nl", "Letter_Number", TN_CATEGORY_BIT(TN_NL)},
      {"No", "Other_Number", TN_CATEGORY_BIT(TN_NO)},
      {"Pc", "Connector_Punctuation", TN_CATEGORY_BIT(TN_PC)},
      {"Pd", "Dash_Punctuation", TN_CATEGORY_BIT(TN_PD)},
      {"Ps", "Open_Punctuation", TN_CATEGORY_BIT(TN_PS)},
      {"Pe", "Close_Punctuation", TN_CATEGORY_BIT(TN_PE)},
      {"Pi", "Initial_Punctuation", TN_CATEGORY_BIT(TN_PI)},
      {"Pf", "Final_Punctuation", TN_CATEGORY_BIT(TN_PF)},
      {"Po", "Other_Punctuation", TN_CATEGORY_BIT(TN_PO)},
      {"Sm", "Math_Symbol", TN_CATEGORY_BIT(TN_SM)},
      {"Sc", "Currency_Symbol", TN_CATEGORY_BIT(TN_SC)},
      {"Sk", "Modifier_Symbol", TN_CATEGORY_BIT(TN_SK)},
      {"So", "Other_Symbol", TN_CATEGORY_BIT(TN_SO)},
      {"Zs", "Space_Separator", TN_CATEGORY_BIT(TN_ZS)},
      {"Zl", "Line_Separator", TN_CATEGORY_BIT(TN_ZL)},
      {"Zp", "Paragraph_Separator", TN_CATEGORY_BIT(TN_ZP)},
      {"Cc", "Control", TN_CATEGORY_BIT(TN_CC)},
      {"Cf", "Format", TN_CATEGORY_BIT(TN_CF)},
      {"Cs", "Surrogate", TN_CATEGORY_BIT(TN_CS)},
      {"Co", "Private_Use", TN_CATEGORY_BIT(TN_CO)},
      {"Cn", "Unassigned", TN_CATEGORY_BIT(TN_CN)},
  };
  for (size_t i = 0; i < TN_COUNT(table); i++)
    if (loosely_equal(name, table[i].name) || loosely_equal(name, table[i].long_name)) return table[i].bits;
  return 0;
}

int tn_unicode_script_named(tn_text name) {
  for (size_t i = 0; i < tn_script_name_count; i++)
    if (loosely_equal(name, tn_script_names[i])) return (int)i;
  return -1;
}
