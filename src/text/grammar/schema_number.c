/* Numbers: their spelling, bounds and multiples.
 *
 * A bound becomes a comparison of digits. Where one is set, numbers are written without an exponent, so that the digits
 * can be compared from left to right: an integer part with more digits is larger, one with as many is compared digit by
 * digit, then the fraction is. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "text/grammar/schema_parts.h"

#define MAX_DIGITS 360 /* of a bound, written without exponent: covers every double */

/* The absolute value of a number, digit by digit; `whole` has no leading zeros ("0" for none), `part` no trailing ones.
 */
typedef struct decimal {
  bool negative;
  char whole[MAX_DIGITS + 1], part[MAX_DIGITS + 1];
} decimal;

typedef struct bound {
  bool set, strict;
  double value;
  decimal digits;
} bound;

/* Writes the shortest text that reads back as `number`. */
static void shortest(double number, char *text, size_t size) {
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, size, "%.*e", digits - 1, number);
    if (strtod(text, NULL) == number) return;
  }
}

/* Spreads "d.ddde+xx" out. */
static bool to_decimal(const json_t *json, decimal *d) {
  char text[64], digits[40] = {0};
  *d = (decimal){0};
  if (json_is_integer(json)) {
    snprintf(text, sizeof text, "%lld", (long long)json_integer_value(json));
    d->negative = text[0] == '-';
    strcpy(d->whole, text + d->negative);
    return true;
  }
  double number = json_real_value(json);
  if (!isfinite(number)) return false;
  shortest(number, text, sizeof text);
  d->negative = text[0] == '-';
  size_t count = 0;
  const char *at = text + d->negative;
  for (; *at && *at != 'e'; at++)
    if (*at != '.') digits[count++] = *at;
  int point = 1 + atoi(at + 1); /* digits before the decimal point; may be negative */
  while (count > 1 && digits[count - 1] == '0') count--;
  size_t whole = 0, part = 0;
  for (int i = 0; i < point && whole < MAX_DIGITS; i++) d->whole[whole++] = i < (int)count ? digits[i] : '0';
  if (!whole) d->whole[0] = '0';
  for (int i = point; i < 0 && part < MAX_DIGITS; i++) d->part[part++] = '0';
  for (int i = point > 0 ? point : 0; i < (int)count && part < MAX_DIGITS; i++) d->part[part++] = digits[i];
  while (part && d->part[part - 1] == '0') d->part[--part] = 0;
  if (!strcmp(d->whole, "0") && !part) d->negative = false;
  return true;
}

/* ---- digit expressions ---- */

static tn_expr digits(tn_exprs *x, uint32_t min, uint32_t max) {
  return tn_expr_repeat(x, tn_expr_range(x, '0', '9'), min, max);
}

/* A fraction that may be there, or none in an integer. */
static tn_expr any_fraction(tn_exprs *x, bool integer) {
  if (integer) return TN_EXPR_EMPTY;
  return tn_expr_optional(x, tn_expr_concat(x, tn_expr_text(x, "."), digits(x, 1, TN_EXPR_MANY)));
}

static tn_expr nonzero_fraction_digits(tn_exprs *x) {
  return tn_expr_concat3(x, digits(x, 0, TN_EXPR_MANY), tn_expr_range(x, '1', '9'), digits(x, 0, TN_EXPR_MANY));
}

/* Fractions above `part` ("at least" unless strict). */
static tn_expr fraction_above(tn_exprs *x, const char *part, bool strict, bool integer) {
  size_t count = strlen(part);
  if (!count && !strict) return any_fraction(x, integer);
  if (integer) return TN_EXPR_NOTHING;
  tn_expr e = strict ? nonzero_fraction_digits(x) : digits(x, 0, TN_EXPR_MANY);
  while (count--) {
    uint8_t digit = (uint8_t)part[count];
    e = tn_expr_concat(x, tn_expr_range(x, digit, digit), e);
    if (digit < '9') {
      tn_expr more = tn_expr_concat(x, tn_expr_range(x, (uint8_t)(digit + 1), '9'), digits(x, 0, TN_EXPR_MANY));
      e = tn_expr_alt(x, e, more);
    }
  }
  return tn_expr_concat(x, tn_expr_text(x, "."), e);
}

/* Fractions below `part` ("at most" unless strict). */
static tn_expr fraction_below(tn_exprs *x, const char *part, bool strict, bool integer) {
  size_t count = strlen(part);
  if (!count && strict) return TN_EXPR_NOTHING;
  if (integer) return TN_EXPR_EMPTY;
  tn_expr zeros = tn_expr_repeat(x, tn_expr_text(x, "0"), 0, TN_EXPR_MANY);
  tn_expr e = strict ? TN_EXPR_NOTHING : zeros;
  for (size_t i = count; i-- > 0;) {
    uint8_t digit = (uint8_t)part[i];
    e = tn_expr_concat(x, tn_expr_range(x, digit, digit), e);
    if (i + 1 < count) e = tn_expr_alt(x, e, tn_expr_range(x, digit, digit)); /* it may end early */
    if (digit > '0') {
      tn_expr less = tn_expr_concat(x, tn_expr_range(x, '0', (uint8_t)(digit - 1)), digits(x, 0, TN_EXPR_MANY));
      e = tn_expr_alt(x, e, less);
    }
  }
  if (!count) e = tn_expr_concat(x, tn_expr_text(x, "0"), zeros);
  return tn_expr_optional(x, tn_expr_concat(x, tn_expr_text(x, "."), e));
}

/* Numbers without sign on one side of `d`. */
static tn_expr above_or_below(tn_exprs *x, const decimal *d, bool above, bool strict, bool integer) {
  uint32_t count = (uint32_t)strlen(d->whole);
  tn_expr fraction = any_fraction(x, integer);
  tn_expr e = above ? fraction_above(x, d->part, strict, integer) : fraction_below(x, d->part, strict, integer);
  for (uint32_t i = count; i-- > 0;) {
    uint8_t digit = (uint8_t)d->whole[i], least = i == 0 && count > 1 ? '1' : '0';
    tn_expr rest = tn_expr_concat(x, digits(x, count - 1 - i, count - 1 - i), fraction);
    e = tn_expr_concat(x, tn_expr_range(x, digit, digit), e);
    if (above && digit < '9')
      e = tn_expr_alt(x, e, tn_expr_concat(x, tn_expr_range(x, (uint8_t)(digit + 1), '9'), rest));
    if (!above && digit > least)
      e = tn_expr_alt(x, e, tn_expr_concat(x, tn_expr_range(x, least, (uint8_t)(digit - 1)), rest));
  }
  tn_expr lead = tn_expr_range(x, '1', '9');
  if (above) return tn_expr_alt(x, e, tn_expr_concat3(x, lead, digits(x, count, TN_EXPR_MANY), fraction));
  if (count > 1) e = tn_expr_alt(x, e, tn_expr_concat(x, tn_expr_range(x, '0', '9'), fraction));
  if (count > 2) e = tn_expr_alt(x, e, tn_expr_concat3(x, lead, digits(x, 1, count - 2), fraction));
  return e;
}

static tn_expr unsigned_number(tn_exprs *x, bool integer) {
  tn_expr whole =
      tn_expr_alt(x, tn_expr_text(x, "0"), tn_expr_concat(x, tn_expr_range(x, '1', '9'), digits(x, 0, TN_EXPR_MANY)));
  return tn_expr_concat(x, whole, any_fraction(x, integer));
}

/* An exponent that keeps the number within the range of a double (of usual lengths): parsers refuse others. */
static tn_expr any_exponent(tn_exprs *x) {
  tn_byte_set e = {{0}}, sign = {{0}};
  e.bits['e' >> 6] |= (uint64_t)1 << ('e' & 63), e.bits['E' >> 6] |= (uint64_t)1 << ('E' & 63);
  sign.bits[0] |= (uint64_t)1 << '+' | (uint64_t)1 << '-';
  tn_expr value = tn_expr_concat(x, tn_expr_repeat(x, tn_expr_text(x, "0"), 0, 2), digits(x, 1, 2));
  value = tn_expr_alt(x, value, tn_expr_concat(x, tn_expr_range(x, '1', '2'), digits(x, 2, 2)));
  value = tn_expr_alt(x, value, tn_expr_concat(x, tn_expr_text(x, "30"), tn_expr_range(x, '0', '7')));
  tn_expr exponent = tn_expr_concat3(x, tn_expr_bytes(x, &e), tn_expr_optional(x, tn_expr_bytes(x, &sign)), value);
  return tn_expr_optional(x, exponent);
}

/* Numbers without sign between two bounds, either of which may be unset. */
static tn_expr between(tn_exprs *x, const bound *low, const bound *high, bool integer) {
  tn_expr e = unsigned_number(x, integer);
  if (low->set) e = above_or_below(x, &low->digits, true, low->strict, integer);
  if (high->set) {
    tn_expr below = above_or_below(x, &high->digits, false, high->strict, integer);
    e = low->set ? tn_expr_and(x, e, below) : below;
  }
  return e;
}

/* ---- keywords ---- */

static const char *const number_keywords[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                                              "multipleOf"};

bool tn_schema_number_limited(const tn_schema *s, const tn_schema_set *set) {
  for (size_t i = 0; i < set->count; i++)
    for (size_t k = 0; k < TN_COUNT(number_keywords); k++)
      if (tn_schema_keyword(s, set->members[i], number_keywords[k])) return true;
  return false;
}

/* Tightens `b` by one keyword of a member. */
static bool tighten(tn_schema *s, uint32_t member, const char *keyword, bool is_low, bool strict, bound *b) {
  const json_t *json = tn_schema_keyword(s, member, keyword);
  if (!json) return true;
  double value = json_number_value(json);
  decimal d;
  if (!json_is_number(json) || !to_decimal(json, &d))
    return tn_schema_fail(s, TN_E_INVALID, member >> MEMBER_BITS, "\"%s\" must be a number", keyword);
  bool tighter = !b->set || (is_low ? value > b->value : value < b->value) || (value == b->value && strict);
  if (tighter) *b = (bound){true, strict, value, d};
  return true;
}

/* Intersects with the multiples that the members ask for. With a fraction at most 15 digits are written: what has more
 * is rounded by whoever reads it, and no multiple any longer. */
static tn_expr keep_multiples(tn_schema *s, const tn_schema_set *set, tn_expr e, bool integer) {
  for (size_t i = 0; i < set->count && s->status == TN_OK; i++) {
    const json_t *json = tn_schema_keyword(s, set->members[i], "multipleOf");
    if (!json) continue;
    decimal d;
    uint32_t place = set->members[i] >> MEMBER_BITS;
    if (!json_is_number(json) || json_number_value(json) <= 0 || !to_decimal(json, &d)) {
      tn_schema_fail(s, TN_E_INVALID, place, "\"multipleOf\" must be a number > 0");
      break;
    }
    size_t scale = strlen(d.part);
    char text[2 * MAX_DIGITS + 1];
    snprintf(text, sizeof text, "%s%s", d.whole, d.part);
    if (scale > 9 || strlen(text) > 10 || strtoull(text, NULL, 10) > UINT32_MAX) {
      tn_schema_fail(s, TN_E_UNSUPPORTED, place, "this \"multipleOf\" has too many digits");
      break;
    }
    tn_byte_set any = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    if (!integer) e = tn_expr_and(s->x, e, tn_expr_repeat(s->x, tn_expr_bytes(s->x, &any), 1, 16));
    e = tn_expr_and(s->x, e, tn_expr_multiple(s->x, (uint32_t)strtoull(text, NULL, 10), (uint32_t)scale));
  }
  return e;
}

tn_expr tn_schema_number(tn_schema *s, const tn_schema_set *set, bool integer) {
  tn_exprs *x = s->x;
  bound low = {0}, high = {0}, zero = {.set = true, .strict = true, .digits = {.whole = "0"}}, none = {0};
  bool multiples = false;
  for (size_t i = 0; i < set->count; i++) {
    uint32_t member = set->members[i];
    if (!tighten(s, member, "minimum", true, false, &low) ||
        !tighten(s, member, "exclusiveMinimum", true, true, &low) ||
        !tighten(s, member, "maximum", false, false, &high) ||
        !tighten(s, member, "exclusiveMaximum", false, true, &high))
      return TN_EXPR_NOTHING;
    const json_t *multiple = tn_schema_keyword(s, member, "multipleOf");
    multiples = multiples || multiple;
    integer = integer || (multiple && json_number_value(multiple) == floor(json_number_value(multiple)));
  }
  tn_expr minus = tn_expr_text(x, "-"), exponent = integer || multiples ? TN_EXPR_EMPTY : any_exponent(x);
  tn_expr e = TN_EXPR_NOTHING;
  if (!low.set && !high.set) {
    e = tn_expr_concat3(x, tn_expr_optional(x, minus), unsigned_number(x, integer), exponent);
    return keep_multiples(s, set, e, integer);
  }
  bool low_is_sign = !low.set || low.value <= 0, high_is_sign = !high.set || high.value >= 0;
  if (!high.set || high.value >= 0) {
    const bound *from = !low.set || low.value < 0 || (low.value == 0 && !low.strict) ? &none : &low;
    tn_expr some = between(x, from, &high, integer);
    e = tn_expr_concat(x, some, low_is_sign && !high.set ? exponent : TN_EXPR_EMPTY);
  }
  if (!low.set || low.value < 0) {
    const bound *from = high.set && high.value < 0 ? &high : &zero;
    tn_expr some = between(x, from, &low, integer);
    e = tn_expr_alt(x, e, tn_expr_concat3(x, minus, some, high_is_sign && !low.set ? exponent : TN_EXPR_EMPTY));
  }
  return keep_multiples(s, set, e, integer);
}

/* ---- constants ---- */

tn_expr tn_schema_number_text(tn_schema *s, const json_t *number, bool integer) {
  tn_exprs *x = s->x;
  decimal d;
  if (!to_decimal(number, &d)) return TN_EXPR_NOTHING;
  if (integer && d.part[0]) return TN_EXPR_NOTHING;
  char text[2 * MAX_DIGITS + 4];
  snprintf(text, sizeof text, "%s%s%s%s", d.negative ? "-" : "", d.whole, d.part[0] ? "." : "", d.part);
  tn_expr e = tn_expr_text(x, text);
  if (integer || json_is_integer(number)) return e;
  if (!d.part[0]) {
    strcat(text, ".0");
    e = tn_expr_alt(x, e, tn_expr_text(x, text));
  }
  char brief[64]; /* as json.dumps writes very large and very small numbers: 1e+16, 1e-05 */
  shortest(json_real_value(number), brief, sizeof brief);
  return tn_expr_alt(x, e, tn_expr_text(x, brief));
}
