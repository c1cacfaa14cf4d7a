/* Division and square roots of floats, for which the processor has no instruction: one bit of the result at a time,
 * correctly rounded, subnormal numbers included. The compiler calls them by these names. */
#include <stdint.h>

/* Of a format: bits of the mantissa below the leading one, the exponent of infinity, its bias. */
typedef struct format {
  int bits, infinite, bias;
} format;

static const format single = {23, 0xff, 127}, twofold = {52, 0x7ff, 1023};

/* A number taken apart: mantissa * 2^(exponent - bias - bits), the leading one at bit `bits`, however small it is. */
typedef struct parts {
  uint64_t mantissa;
  int exponent;
} parts;

static inline uint64_t sign_bit(const format *f) {
  return UINT64_C(1) << (f->bits == 23 ? 31 : 63);
}
static inline uint64_t infinity_of(const format *f) {
  return (uint64_t)f->infinite << f->bits;
}
static inline uint64_t nan_of(const format *f) {
  return infinity_of(f) | UINT64_C(1) << (f->bits - 1);
}

static inline parts take_apart(const format *f, uint64_t magnitude) {
  parts p = {magnitude & ((UINT64_C(1) << f->bits) - 1), (int)(magnitude >> f->bits)};
  if (p.exponent) {
    p.mantissa |= UINT64_C(1) << f->bits;
    return p;
  }
  int shift = __builtin_clzll(p.mantissa) - (63 - f->bits);
  p.mantissa <<= shift;
  p.exponent = 1 - shift;
  return p;
}

/* The number nearest to mantissa * 2^(exponent - bias - bits - 3), ties to even. The leading one is at bit bits + 3;
 * the lowest bit also stands for all that was cut off. */
static inline uint64_t put_together(const format *f, uint64_t mantissa, int exponent) {
  if (exponent >= f->infinite) return infinity_of(f);
  int begin = exponent;
  if (exponent < 1) {
    int shift = 1 - exponent;
    if (shift > f->bits + 4) shift = f->bits + 4;
    uint64_t lost = mantissa & ((UINT64_C(1) << shift) - 1);
    mantissa = mantissa >> shift | (lost != 0);
    begin = 1;
  }
  unsigned rest = (unsigned)(mantissa & 7);
  mantissa >>= 3;
  mantissa += rest > 4 || (rest == 4 && (mantissa & 1));
  return mantissa + ((uint64_t)(begin - 1) << f->bits);
}

static inline uint64_t divide(const format *f, uint64_t a, uint64_t b) {
  const uint64_t sign = (a ^ b) & sign_bit(f), infinite = infinity_of(f);
  a &= sign_bit(f) - 1;
  b &= sign_bit(f) - 1;
  if (a > infinite || b > infinite || (a == infinite && b == infinite) || (!a && !b)) return nan_of(f);
  if (a == infinite || !b) return sign | infinite;
  if (b == infinite || !a) return sign;
  parts x = take_apart(f, a), y = take_apart(f, b);
  int exponent = x.exponent - y.exponent + f->bias;
  uint64_t rest = x.mantissa, quotient = 0;
  if (rest < y.mantissa) {
    rest <<= 1;
    exponent--;
  }
  for (int i = 0; i < f->bits + 4; i++) {
    quotient <<= 1;
    if (rest >= y.mantissa) {
      rest -= y.mantissa;
      quotient |= 1;
    }
    rest <<= 1;
  }
  return sign | put_together(f, quotient | (rest != 0), exponent);
}

/* Two bits of the number for each bit of the root. */
static inline uint64_t square_root(const format *f, uint64_t a) {
  if (!(a & (sign_bit(f) - 1)) || a == infinity_of(f)) return a;
  if (a > infinity_of(f)) return nan_of(f); /* negative, or no number */
  parts x = take_apart(f, a);
  int power = x.exponent - f->bias;
  uint64_t digits = x.mantissa << (62 - f->bits), rest = 0, root = 0;
  if (power & 1) {
    digits <<= 1;
    power--;
  }
  for (int i = 0; i < f->bits + 4; i++) {
    rest = rest << 2 | digits >> 62;
    digits <<= 2;
    uint64_t trial = root << 2 | 1;
    root <<= 1;
    if (rest < trial) continue;
    rest -= trial;
    root |= 1;
  }
  return put_together(f, root | (rest != 0), power / 2 + f->bias);
}

static inline uint32_t bits32(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline float float32(uint64_t bits64) {
  uint32_t bits = (uint32_t)bits64;
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
static inline uint64_t bits64(double x) {
  uint64_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline double float64(uint64_t bits) {
  double x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

float __hexagon_divsf3(float a, float b);
double __hexagon_divdf3(double a, double b);
float __hexagon_sqrtf(float x);
double __hexagon_sqrt(double x);

float __hexagon_divsf3(float a, float b) {
  return float32(divide(&single, bits32(a), bits32(b)));
}
double __hexagon_divdf3(double a, double b) {
  return float64(divide(&twofold, bits64(a), bits64(b)));
}
float __hexagon_sqrtf(float x) {
  return float32(square_root(&single, bits32(x)));
}
double __hexagon_sqrt(double x) {
  return float64(square_root(&twofold, bits64(x)));
}
