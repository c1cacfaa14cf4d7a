/* Python's numbers: arithmetic across bool, int and float, reading and writing them. */
#include "text/jinja/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

double tnj_to_double(tnj_value number) {
  switch (number.kind) {
    case TNJ_BOOL: return number.boolean;
    case TNJ_INT: return (double)number.integer;
    case TNJ_BIG: return tnj_big_to_double(number.big);
    default: return number.real;
  }
}

static int64_t small(tnj_value v) {
  return v.kind == TNJ_BOOL ? v.boolean : v.integer;
}

int tnj_number_compare(tnj_value a, tnj_value b) {
  if (tnj_is_integer(a) && tnj_is_integer(b)) {
    if (a.kind == TNJ_BIG || b.kind == TNJ_BIG) return tnj_big_compare(a, b);
    return (small(a) > small(b)) - (small(a) < small(b));
  }
  double x = tnj_to_double(a), y = tnj_to_double(b);
  return x < y ? -1 : x == y ? 0 : 1;
}

bool tnj_number_equal(tnj_value a, tnj_value b) {
  return tnj_number_compare(a, b) == 0;
}

static tnj_value float_result(tnj_state *s, tnj_operator operation, double a, double b) {
  bool divides = operation == TNJ_DIVIDE || operation == TNJ_FLOOR_DIVIDE || operation == TNJ_MODULO;
  if (divides && b == 0)
    tnj_error(s, operation == TNJ_DIVIDE ? "float division by zero" : "float floor division by zero");
  double rest = divides ? fmod(a, b) : 0;
  bool adjust = rest != 0 && (rest < 0) != (b < 0);
  switch (operation) {
    case TNJ_ADD: return tnj_float(a + b);
    case TNJ_SUBTRACT: return tnj_float(a - b);
    case TNJ_MULTIPLY: return tnj_float(a * b);
    case TNJ_DIVIDE: return tnj_float(a / b);
    case TNJ_FLOOR_DIVIDE:
      return tnj_float(rest != 0 || isinf(b) ? floor((a - rest) / b - (adjust ? 1 : 0) + 0.5) : a / b);
    case TNJ_MODULO: return tnj_float(adjust ? rest + b : rest != 0 ? rest : copysign(0, b));
    case TNJ_POWER: break;
  }
  if (a == 0 && b < 0) tnj_error(s, "0.0 cannot be raised to a negative power");
  if (a < 0 && b != floor(b)) tnj_error(s, "complex numbers are not supported");
  double power = pow(a, b);
  if (isinf(power) && !isinf(a) && !isinf(b)) tnj_error(s, "(34, 'Numerical result out of range')");
  return tnj_float(power);
}

/* By squaring; exponent >= 0. */
static tnj_value integer_power(tnj_state *s, tnj_value base, int64_t exponent) {
  tnj_value result = tnj_int(1);
  while (exponent) {
    if (exponent & 1) result = tnj_big_multiply(s, result, base);
    exponent >>= 1;
    if (exponent) base = tnj_big_multiply(s, base, base);
    tnj_step(s);
  }
  return result;
}

static tnj_value power(tnj_state *s, tnj_value a, tnj_value b) {
  int64_t exponent;
  if (!tnj_to_int64(b, &exponent)) exponent = tnj_number_compare(b, tnj_int(0)) < 0 ? INT64_MIN : INT64_MAX;
  if (exponent < 0) return float_result(s, TNJ_POWER, tnj_to_double(a), tnj_to_double(b));
  return integer_power(s, a, exponent);
}

static tnj_value divide_exactly(tnj_state *s, tnj_value a, tnj_value b) {
  double x = tnj_to_double(a), y = tnj_to_double(b);
  if (y == 0) tnj_error(s, "division by zero");
  if (isinf(x) || isinf(y)) tnj_error(s, "integer division result too large for a float");
  return tnj_float(x / y);
}

static tnj_value integer_result(tnj_state *s, tnj_operator operation, tnj_value a, tnj_value b) {
  bool plain = a.kind != TNJ_BIG && b.kind != TNJ_BIG;
  int64_t x = plain ? small(a) : 0, y = plain ? small(b) : 0, result;
  tnj_value quotient, remainder;
  switch (operation) {
    case TNJ_ADD:
      if (plain && !__builtin_add_overflow(x, y, &result)) return tnj_int(result);
      return tnj_big_add(s, a, b);
    case TNJ_SUBTRACT:
      if (plain && !__builtin_sub_overflow(x, y, &result)) return tnj_int(result);
      return tnj_big_subtract(s, a, b);
    case TNJ_MULTIPLY:
      if (plain && !__builtin_mul_overflow(x, y, &result)) return tnj_int(result);
      return tnj_big_multiply(s, a, b);
    case TNJ_POWER: return power(s, a, b);
    case TNJ_DIVIDE: return divide_exactly(s, a, b);
    default: break;
  }
  if (tnj_number_compare(b, tnj_int(0)) == 0) tnj_error(s, "integer division or modulo by zero");
  if (plain && !(x == INT64_MIN && y == -1)) {
    int64_t rest = x % y, whole = x / y;
    if (rest && (rest < 0) != (y < 0)) whole--, rest += y;
    return tnj_int(operation == TNJ_MODULO ? rest : whole);
  }
  tnj_big_divide(s, a, b, &quotient, &remainder);
  return operation == TNJ_MODULO ? remainder : quotient;
}

tnj_value tnj_arithmetic(tnj_state *s, tnj_operator operation, tnj_value a, tnj_value b) {
  if (tnj_is_integer(a) && tnj_is_integer(b)) return integer_result(s, operation, a, b);
  return float_result(s, operation, tnj_to_double(a), tnj_to_double(b));
}

tnj_value tnj_negate(tnj_state *s, tnj_value number) {
  if (number.kind == TNJ_FLOAT) return tnj_float(-number.real);
  return integer_result(s, TNJ_SUBTRACT, tnj_int(0), number);
}

bool tnj_to_int64(tnj_value v, int64_t *integer) {
  if (v.kind != TNJ_INT && v.kind != TNJ_BOOL) return false;
  *integer = small(v);
  return true;
}

int64_t tnj_need_integer(tnj_state *s, tnj_value v, const char *what) {
  int64_t integer;
  if (tnj_to_int64(v, &integer)) return integer;
  if (v.kind == TNJ_BIG) return v.big->negative ? INT64_MIN : INT64_MAX;
  if (tnj_is_undefined(v)) tnj_fail_undefined(s, v);
  tnj_error(s, "%s: '%s' object cannot be interpreted as an integer", what, tnj_type_name(v));
}

/* The shortest digits that read back as the same number, laid out as Python's repr does. */
size_t tnj_format_double(double real, char *text) {
  if (isnan(real)) return (size_t)snprintf(text, TNJ_DOUBLE_BYTES, "nan");
  if (isinf(real)) return (size_t)snprintf(text, TNJ_DOUBLE_BYTES, real < 0 ? "-inf" : "inf");
  char digits[TNJ_DOUBLE_BYTES];
  for (int precision = 0; precision < 17; precision++) {
    snprintf(digits, sizeof digits, "%.*e", precision, real);
    if (strtod(digits, NULL) == real) break;
  }
  int exponent = atoi(strchr(digits, 'e') + 1);
  size_t size;
  if (exponent < -4 || exponent >= 16) return (size_t)snprintf(text, TNJ_DOUBLE_BYTES, "%s", digits);
  size_t mantissa = (size_t)(strchr(digits, 'e') - digits) - (digits[0] == '-');
  int decimals = (mantissa > 1 ? (int)mantissa - 2 : 0) - exponent; /* digits behind the point */
  size = (size_t)snprintf(text, TNJ_DOUBLE_BYTES, "%.*f", decimals > 0 ? decimals : 0, real);
  if (decimals <= 0) {
    memcpy(text + size, ".0", 3);
    size += 2;
  }
  return size;
}

void tnj_append_number(tnj_state *s, tnj_buffer *out, tnj_value number) {
  char text[TNJ_DOUBLE_BYTES];
  if (number.kind == TNJ_BIG) {
    tnj_big_append(s, out, number, 10);
    return;
  }
  size_t size = number.kind == TNJ_FLOAT ? tnj_format_double(number.real, text)
                                         : (size_t)snprintf(text, sizeof text, "%lld", (long long)small(number));
  tnj_append(s, out, text, size, false);
}

/* ---- reading ---- */

/* ASCII of a number's text: white space cut, digits of any script made 0 to 9, underscores between digits dropped.
 * NULL when it can't be a number. */
static char *plain_digits(tnj_state *s, tnj_value text, size_t *size) {
  text = tnj_strip(s, text, tnj_absent(), true, true);
  char *out = tnj_alloc(s, tnj_size(text) + 1);
  size_t used = 0, next;
  for (size_t at = 0; at < tnj_size(text); at = next) {
    uint32_t c = tnj_codepoint_at(text, at, &next);
    bool between = at > 0 && next < tnj_size(text);
    if (c == '_') {
      size_t ignored;
      if (!between || out[used - 1] == '_' || tnj_codepoint_at(text, next, &ignored) == '_') return NULL;
      bool before_digit = (out[used - 1] | 32) >= 'a' || (out[used - 1] >= '0' && out[used - 1] <= '9');
      if (!before_digit) return NULL;
      continue;
    }
    int digit = tnj_digit_value(c);
    if (digit < 0 && c >= 0x80) return NULL;
    out[used++] = (char)(digit >= 0 ? '0' + digit : (int)c);
  }
  out[used] = 0;
  *size = used;
  return used ? out : NULL;
}

static int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if ((c | 32) >= 'a' && (c | 32) <= 'z') return (c | 32) - 'a' + 10;
  return 99;
}

static int prefix_base(const char *digits) {
  if (digits[0] != '0') return 0;
  char c = (char)(digits[1] | 32);
  return c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
}

bool tnj_parse_integer(tnj_state *s, tnj_value text, int base, tnj_value *out) {
  size_t size;
  char *digits = plain_digits(s, text, &size);
  if (!digits) return false;
  bool negative = digits[0] == '-';
  if (negative || digits[0] == '+') digits++, size--;
  int prefix = prefix_base(digits);
  if (prefix && (base == 0 || base == prefix)) {
    digits += 2, size -= 2;
    base = prefix;
  } else if (base == 0) {
    base = 10;
    if (size > 1 && digits[0] == '0' && strspn(digits, "0") != size) return false;
  }
  if (!size) return false;
  for (size_t i = 0; i < size; i++)
    if (digit_of(digits[i]) >= base) return false;
  *out = tnj_integer_from_digits(s, digits, size, base, negative);
  return true;
}

bool tnj_parse_float(tnj_state *s, tnj_value text, double *out) {
  size_t size;
  char *digits = plain_digits(s, text, &size), *end;
  if (!digits) return false;
  const char *body = digits + (digits[0] == '-' || digits[0] == '+');
  bool named = !strcasecmp(body, "inf") || !strcasecmp(body, "infinity") || !strcasecmp(body, "nan");
  if (!named && strspn(digits, "+-.0123456789eE") != size) return false;
  *out = strtod(digits, &end);
  return end == digits + size;
}

tnj_value tnj_truncate(tnj_state *s, double real) {
  if (isnan(real)) tnj_error(s, "cannot convert float NaN to integer");
  if (isinf(real)) tnj_error(s, "cannot convert float infinity to integer");
  double whole = trunc(real);
  if (fabs(whole) < 9e18) return tnj_int((int64_t)whole);
  return tnj_big_from_double(s, whole);
}

double tnj_round(double real, int digits) {
  char text[420 + 330];
  if (!isfinite(real) || digits > 323) return real;
  if (digits >= 0) {
    snprintf(text, sizeof text, "%.*f", digits, real);
    return strtod(text, NULL);
  }
  if (digits < -308) return copysign(0, real);
  double unit = pow(10, -digits);
  return rint(real / unit) * unit;
}
