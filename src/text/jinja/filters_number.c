/* Filters on numbers, and those that make numbers. */
#include <math.h>
#include <stdio.h>
#include "text/jinja/builtins.h"
#include "text/jinja/number.h"
#include "text/jinja/text.h"

#define FILTER(name) static tnj_value name(tnj_state *s, tnj_value self, const tnj_value *p, const tnj_arguments *a)
#define UNUSED (void)p, (void)a

FILTER(absolute) {
  UNUSED;
  if (tnj_is_undefined(self)) tnj_fail_undefined(s, self);
  if (!tnj_is_number(self)) tnj_error(s, "bad operand type for abs(): '%s'", tnj_type_name(self));
  if (self.kind == TNJ_FLOAT) return tnj_float(fabs(self.real));
  if (self.kind == TNJ_BOOL) return tnj_int(self.boolean);
  return tnj_number_compare(self, tnj_int(0)) < 0 ? tnj_negate(s, self) : self;
}

FILTER(to_float) {
  UNUSED;
  double real;
  if (tnj_is_undefined(self)) tnj_fail_undefined(s, self);
  if (tnj_is_number(self)) {
    real = tnj_to_double(self);
    if (self.kind == TNJ_BIG && isinf(real)) tnj_error(s, "int too large to convert to float");
    return tnj_float(real);
  }
  if (tnj_is_string(self) && tnj_parse_float(s, self, &real)) return tnj_float(real);
  return tnj_given(p[0]) ? p[0] : tnj_float(0);
}

FILTER(to_int) {
  UNUSED;
  tnj_value integer, missing = tnj_given(p[0]) ? p[0] : tnj_int(0);
  double real;
  if (tnj_is_undefined(self)) tnj_fail_undefined(s, self);
  if (self.kind == TNJ_BOOL) return tnj_int(self.boolean);
  if (tnj_is_integer(self)) return self;
  if (self.kind == TNJ_FLOAT) return isnan(self.real) ? missing : tnj_truncate(s, self.real);
  if (!tnj_is_string(self)) return missing;
  int64_t base = tnj_integer_or(s, p[1], 10, "int: base");
  if ((base >= 2 && base <= 36) || base == 0)
    if (tnj_parse_integer(s, self, (int)base, &integer)) return integer;
  if (tnj_parse_float(s, self, &real) && isfinite(real)) return tnj_truncate(s, real);
  return missing;
}

/* A large integer's digits beyond `precision` < 0 rounded half to even. */
static tnj_value round_integer(tnj_state *s, tnj_value v, int64_t precision) {
  if (v.kind == TNJ_BOOL) v = tnj_int(v.boolean);
  if (precision >= 0) return v;
  if (precision < -400) return tnj_int(0);
  tnj_value unit = tnj_arithmetic(s, TNJ_POWER, tnj_int(10), tnj_int(-precision));
  tnj_value rest = tnj_arithmetic(s, TNJ_MODULO, v, unit), down = tnj_arithmetic(s, TNJ_SUBTRACT, v, rest);
  int half = tnj_number_compare(tnj_arithmetic(s, TNJ_MULTIPLY, rest, tnj_int(2)), unit);
  tnj_value odd = tnj_arithmetic(s, TNJ_MODULO, tnj_arithmetic(s, TNJ_FLOOR_DIVIDE, down, unit), tnj_int(2));
  bool up = half > 0 || (half == 0 && tnj_number_equal(odd, tnj_int(1)));
  return up ? tnj_arithmetic(s, TNJ_ADD, down, unit) : down;
}

FILTER(round_number) {
  UNUSED;
  int64_t precision = tnj_integer_or(s, p[0], 0, "round: precision");
  bool common = !tnj_given(p[1]) || tnj_text_is(p[1], "common"), up = tnj_given(p[1]) && tnj_text_is(p[1], "ceil");
  if (!common && !up && !tnj_text_is(p[1], "floor")) tnj_error(s, "method must be common, ceil or floor");
  if (tnj_is_undefined(self)) tnj_fail_undefined(s, self);
  if (!tnj_is_number(self)) tnj_error(s, "type %s doesn't define __round__ method", tnj_type_name(self));
  if (common && tnj_is_integer(self)) return round_integer(s, self, precision);
  if (precision > 400 || precision < -400) precision = precision < 0 ? -400 : 400;
  if (common) return tnj_float(tnj_round(self.real, (int)precision));
  double unit = pow(10, (double)precision), scaled = tnj_to_double(self) * unit;
  return tnj_float((up ? ceil(scaled) : floor(scaled)) / unit);
}

FILTER(filesizeformat) {
  static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  static const char *const binary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  bool by_two = tnj_bool_or(s, p[0], false);
  tnj_value number = to_float(s, self, (tnj_value[]){tnj_none()}, a);
  if (number.kind != TNJ_FLOAT) tnj_error(s, "could not convert to float: '%s'", tnj_type_name(self));
  double bytes = number.real, base = by_two ? 1024 : 1000;
  if (bytes == 1) return tnj_string_text(s, "1 Byte");
  if (bytes < base) return tnj_string_printf(s, "%.0f Bytes", trunc(bytes));
  double unit = base * base;
  for (size_t i = 0; i < 8; i++, unit *= base)
    if (bytes < unit || i == 7)
      return tnj_string_printf(s, "%.1f %s", base * bytes / unit, by_two ? binary[i] : decimal[i]);
  return tnj_none();
}

const tnj_builtin tnj_number_filters[] = {{"abs", absolute, "", 0},
                                          {"float", to_float, "default", 0},
                                          {"int", to_int, "default base", 0},
                                          {"round", round_number, "precision method", 0},
                                          {"filesizeformat", filesizeformat, "binary", 0},
                                          {0}};
