/* Unicode as Python's str sees it. Categories and simple case mappings come from utf8proc; what it doesn't have
 * (mappings to several code points, the properties Other_Lowercase, Other_Uppercase and Numeric_Type) is tabled here,
 * from the Unicode character database. */
#include "text/jinja/unicode.h"

#include <string.h>
#include <utf8proc.h>
#include "base/memory.h"
#include "base/utf8.h"

typedef struct range {
  uint32_t first, last;
} range;

static const struct special_case {
  uint32_t codepoint, upper[3], title[3];
} special_cases[] = {
#include "text/jinja/unicode_special.inc"
};

/* Numeric_Type=Digit that isn't Decimal */
static const range digits[] = {{0xb2, 0xb3},       {0xb9, 0xb9},       {0x1369, 0x1371},   {0x19da, 0x19da},
                               {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
                               {0x2474, 0x247c},   {0x2488, 0x2490},   {0x24ea, 0x24ea},   {0x24f5, 0x24fd},
                               {0x24ff, 0x24ff},   {0x2776, 0x277e},   {0x2780, 0x2788},   {0x278a, 0x2792},
                               {0x10a40, 0x10a43}, {0x10e60, 0x10e68}, {0x11052, 0x1105a}, {0x1f100, 0x1f10a}};

/* Han characters that are numbers, those below U+A000 */
static const range han_numbers[] = {
    {0x3405, 0x3405}, {0x3483, 0x3483}, {0x382a, 0x382a}, {0x3b4d, 0x3b4d}, {0x4e00, 0x4e00}, {0x4e03, 0x4e03},
    {0x4e07, 0x4e07}, {0x4e09, 0x4e09}, {0x4e5d, 0x4e5d}, {0x4e8c, 0x4e8c}, {0x4e94, 0x4e94}, {0x4e96, 0x4e96},
    {0x4ebf, 0x4ec0}, {0x4edf, 0x4edf}, {0x4ee8, 0x4ee8}, {0x4f0d, 0x4f0d}, {0x4f70, 0x4f70}, {0x5104, 0x5104},
    {0x5146, 0x5146}, {0x5169, 0x5169}, {0x516b, 0x516b}, {0x516d, 0x516d}, {0x5341, 0x5341}, {0x5343, 0x5345},
    {0x534c, 0x534c}, {0x53c1, 0x53c4}, {0x56db, 0x56db}, {0x58f1, 0x58f1}, {0x58f9, 0x58f9}, {0x5e7a, 0x5e7a},
    {0x5efe, 0x5eff}, {0x5f0c, 0x5f0e}, {0x5f10, 0x5f10}, {0x62fe, 0x62fe}, {0x634c, 0x634c}, {0x67d2, 0x67d2},
    {0x6f06, 0x6f06}, {0x7396, 0x7396}, {0x767e, 0x767e}, {0x8086, 0x8086}, {0x842c, 0x842c}, {0x8cae, 0x8cae},
    {0x8cb3, 0x8cb3}, {0x8d30, 0x8d30}, {0x9621, 0x9621}, {0x9646, 0x9646}, {0x964c, 0x964c}, {0x9678, 0x9678},
    {0x96f6, 0x96f6}};

static const range other_lower[] = {
    {0xaa, 0xaa},     {0xba, 0xba},     {0x2b0, 0x2b8},     {0x2c0, 0x2c1},     {0x2e0, 0x2e4},     {0x345, 0x345},
    {0x37a, 0x37a},   {0x1d2c, 0x1d6a}, {0x1d78, 0x1d78},   {0x1d9b, 0x1dbf},   {0x2071, 0x2071},   {0x207f, 0x207f},
    {0x2090, 0x209c}, {0x2170, 0x217f}, {0x24d0, 0x24e9},   {0x2c7c, 0x2c7d},   {0xa69c, 0xa69d},   {0xa770, 0xa770},
    {0xa7f8, 0xa7f9}, {0xab5c, 0xab5f}, {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba}};

static const range other_upper[] = {
    {0x2160, 0x216f}, {0x24b6, 0x24cf}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};

static bool in_ranges(const range *ranges, size_t count, uint32_t c) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (c > ranges[middle].last)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && c >= ranges[low].first;
}

static utf8proc_category_t category(uint32_t c) {
  return utf8proc_category((utf8proc_int32_t)c);
}

size_t tnj_encode(uint32_t codepoint, char out[4]) {
  if (codepoint > 0x10ffff || (codepoint >= 0xd800 && codepoint < 0xe000)) codepoint = 0xfffd;
  return tn_utf8_write(codepoint, out);
}

bool tnj_is_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

bool tnj_is_line_end(uint32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool tnj_is_alpha(uint32_t c) {
  utf8proc_category_t k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool tnj_is_decimal(uint32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}

bool tnj_is_digit(uint32_t c) {
  return tnj_is_decimal(c) || in_ranges(digits, TN_COUNT(digits), c);
}

bool tnj_is_numeric(uint32_t c) {
  utf8proc_category_t k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO ||
         in_ranges(digits, TN_COUNT(digits), c) || in_ranges(han_numbers, TN_COUNT(han_numbers), c);
}

bool tnj_is_lower(uint32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || in_ranges(other_lower, TN_COUNT(other_lower), c);
}

bool tnj_is_upper(uint32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU || in_ranges(other_upper, TN_COUNT(other_upper), c);
}

bool tnj_is_title(uint32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LT;
}

bool tnj_is_cased(uint32_t c) {
  return tnj_is_lower(c) || tnj_is_upper(c) || tnj_is_title(c);
}

bool tnj_is_printable(uint32_t c) {
  if (c < 0x7f) return c >= ' ';
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;
  }
}

bool tnj_is_word(uint32_t c) {
  return c == '_' || tnj_is_alpha(c) || tnj_is_numeric(c);
}

bool tnj_is_identifier(const char *data, size_t size) {
  for (size_t at = 0, used; at < size; at += used) {
    uint32_t c;
    used = tn_utf8_step(data + at, size - at, &c);
    utf8proc_category_t k = category(c);
    bool start = c == '_' || tnj_is_alpha(c) || k == UTF8PROC_CATEGORY_NL;
    bool more = k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ND ||
                k == UTF8PROC_CATEGORY_PC;
    if (!start && !(at && more)) return false;
  }
  return size > 0;
}

bool tnj_is_case_ignorable(uint32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return c == '\'' || c == '.' || c == ':' || c == 0xb7 || c == 0x2018 || c == 0x2019 || c == 0x2027;
  }
}

int tnj_digit_value(uint32_t c) {
  if (c >= '0' && c <= '9') return (int)c - '0';
  if (c < 0x80 || !tnj_is_decimal(c)) return -1;
  /* Decimal digits come in runs of ten that start at 0. */
  int value = 0;
  while (value < 9 && tnj_is_decimal(c - (uint32_t)value - 1)) value++;
  return c >= 0x1d7ce && c <= 0x1d7ff ? (int)(c - 0x1d7ce) % 10 : value;
}

static const struct special_case *special_case(uint32_t c) {
  if (c < 0xdf) return NULL;
  for (size_t i = 0; i < TN_COUNT(special_cases); i++)
    if (special_cases[i].codepoint == c) return &special_cases[i];
  return NULL;
}

static size_t copy_case(const uint32_t from[3], uint32_t out[3]) {
  size_t count = 0;
  while (count < 3 && from[count]) {
    out[count] = from[count];
    count++;
  }
  return count;
}

size_t tnj_to_upper(uint32_t c, uint32_t out[3]) {
  const struct special_case *special = special_case(c);
  if (special) return copy_case(special->upper, out);
  out[0] = (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);
  return 1;
}

size_t tnj_to_title(uint32_t c, uint32_t out[3]) {
  const struct special_case *special = special_case(c);
  if (special) return copy_case(special->title, out);
  out[0] = (uint32_t)utf8proc_totitle((utf8proc_int32_t)c);
  return 1;
}

size_t tnj_to_lower(uint32_t c, uint32_t out[3]) {
  if (c == 0x130) { /* capital i with dot: i and a combining dot */
    out[0] = 'i';
    out[1] = 0x307;
    return 2;
  }
  out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
  return 1;
}

size_t tnj_to_fold(uint32_t c, uint32_t out[3]) {
  utf8proc_int32_t folded[3];
  utf8proc_ssize_t count = utf8proc_decompose_char((utf8proc_int32_t)c, folded, 3, UTF8PROC_CASEFOLD, NULL);
  if (count < 1 || count > 3) return tnj_to_lower(c, out);
  for (utf8proc_ssize_t i = 0; i < count; i++) out[i] = (uint32_t)folded[i];
  return (size_t)count;
}
