/* Integers of any size: sign and magnitude in 32-bit limbs, schoolbook algorithms (Knuth, The Art of Computer
 * Programming 2, 4.3.1). Results that fit 64 bits become plain integers. Magnitudes are bounded, so that a template
 * can't make us multiply for minutes. */
#include <math.h>
#include <string.h>
#include "text/jinja/number.h"
#include "text/jinja/text.h"

/* 2^65536: beyond what any template prints (Python refuses to print more than 4300 digits). */
#define MAX_LIMBS ((size_t)2048)
#define MAX_DIGITS ((size_t)4300)

typedef struct magnitude {
  const uint32_t *limbs;
  size_t count;
  bool negative;
  uint32_t small[2]; /* the limbs of a plain integer */
} magnitude;

static void open_magnitude(magnitude *m, tnj_value v) {
  if (v.kind == TNJ_BIG) {
    *m = (magnitude){v.big->limbs, v.big->count, v.big->negative, {0, 0}};
    return;
  }
  int64_t integer = v.kind == TNJ_BOOL ? v.boolean : v.integer;
  uint64_t absolute = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
  m->small[0] = (uint32_t)absolute;
  m->small[1] = (uint32_t)(absolute >> 32);
  m->limbs = m->small;
  m->count = m->small[1] ? 2 : m->small[0] ? 1 : 0;
  m->negative = integer < 0;
}

static tnj_big *new_big(tnj_state *s, size_t count) {
  if (count > MAX_LIMBS) tnj_fail(s, TN_E_LIMIT, "an integer of more than %zu bits", MAX_LIMBS * 32);
  tnj_big *big = tnj_alloc(s, sizeof *big + count * sizeof big->limbs[0]);
  big->count = count;
  return big;
}

static tnj_value finish(tnj_big *big) {
  while (big->count && !big->limbs[big->count - 1]) big->count--;
  if (big->count <= 2) {
    uint64_t absolute = big->count ? big->limbs[0] : 0;
    if (big->count == 2) absolute |= (uint64_t)big->limbs[1] << 32;
    if (absolute <= INT64_MAX) return tnj_int(big->negative ? -(int64_t)absolute : (int64_t)absolute);
    if (big->negative && absolute == (uint64_t)1 << 63) return tnj_int(INT64_MIN);
  }
  return (tnj_value){.kind = TNJ_BIG, .big = big};
}

static int compare_magnitudes(const magnitude *a, const magnitude *b) {
  if (a->count != b->count) return a->count < b->count ? -1 : 1;
  for (size_t i = a->count; i-- > 0;)
    if (a->limbs[i] != b->limbs[i]) return a->limbs[i] < b->limbs[i] ? -1 : 1;
  return 0;
}

static tnj_value add_magnitudes(tnj_state *s, const magnitude *a, const magnitude *b, bool negative) {
  size_t count = (a->count > b->count ? a->count : b->count) + 1;
  tnj_big *sum = new_big(s, count);
  uint64_t carry = 0;
  for (size_t i = 0; i < count; i++) {
    carry += (i < a->count ? a->limbs[i] : 0) + (uint64_t)(i < b->count ? b->limbs[i] : 0);
    sum->limbs[i] = (uint32_t)carry;
    carry >>= 32;
  }
  sum->negative = negative;
  return finish(sum);
}

/* |a| - |b| where |a| >= |b| */
static tnj_value subtract_magnitudes(tnj_state *s, const magnitude *a, const magnitude *b, bool negative) {
  tnj_big *difference = new_big(s, a->count);
  int64_t borrow = 0;
  for (size_t i = 0; i < a->count; i++) {
    int64_t limb = (int64_t)a->limbs[i] - (i < b->count ? b->limbs[i] : 0) + borrow;
    difference->limbs[i] = (uint32_t)limb;
    borrow = limb < 0 ? -1 : 0;
  }
  difference->negative = negative;
  return finish(difference);
}

static tnj_value add_signed(tnj_state *s, const magnitude *a, const magnitude *b) {
  if (a->negative == b->negative) return add_magnitudes(s, a, b, a->negative);
  return compare_magnitudes(a, b) >= 0 ? subtract_magnitudes(s, a, b, a->negative)
                                       : subtract_magnitudes(s, b, a, b->negative);
}

tnj_value tnj_big_add(tnj_state *s, tnj_value a, tnj_value b) {
  magnitude x, y;
  open_magnitude(&x, a);
  open_magnitude(&y, b);
  return add_signed(s, &x, &y);
}

tnj_value tnj_big_subtract(tnj_state *s, tnj_value a, tnj_value b) {
  magnitude x, y;
  open_magnitude(&x, a);
  open_magnitude(&y, b);
  y.negative = !y.negative;
  return add_signed(s, &x, &y);
}

tnj_value tnj_big_multiply(tnj_state *s, tnj_value a, tnj_value b) {
  magnitude x, y;
  open_magnitude(&x, a);
  open_magnitude(&y, b);
  tnj_big *product = new_big(s, x.count + y.count);
  tnj_work(s, x.count * y.count * 4);
  for (size_t i = 0; i < x.count; i++) {
    uint64_t carry = 0;
    for (size_t j = 0; j < y.count; j++) {
      carry += (uint64_t)x.limbs[i] * y.limbs[j] + product->limbs[i + j];
      product->limbs[i + j] = (uint32_t)carry;
      carry >>= 32;
    }
    product->limbs[i + y.count] = (uint32_t)carry;
  }
  product->negative = x.negative != y.negative;
  return finish(product);
}

/* limbs := limbs / divisor; returns the remainder. */
static uint32_t divide_by_limb(uint32_t *limbs, size_t count, uint32_t divisor) {
  uint64_t rest = 0;
  for (size_t i = count; i-- > 0;) {
    rest = rest << 32 | limbs[i];
    limbs[i] = (uint32_t)(rest / divisor);
    rest %= divisor;
  }
  return (uint32_t)rest;
}

/* One bit of the quotient at a time: simple, and quick enough for what templates do. `rest` has room for y.count + 1.
 */
static void divide_magnitudes(tnj_state *s, const magnitude *x, const magnitude *y, tnj_big *quotient, tnj_big *rest) {
  tnj_work(s, x->count * y->count * 256);
  for (size_t bit = x->count * 32; bit-- > 0;) {
    uint32_t in = x->limbs[bit / 32] >> (bit % 32) & 1;
    for (size_t i = 0; i < rest->count; i++) {
      uint32_t out = rest->limbs[i] >> 31;
      rest->limbs[i] = rest->limbs[i] << 1 | in;
      in = out;
    }
    magnitude r = {rest->limbs, rest->count, false, {0, 0}};
    while (r.count && !r.limbs[r.count - 1]) r.count--;
    if (compare_magnitudes(&r, y) < 0) continue;
    int64_t borrow = 0;
    for (size_t i = 0; i < rest->count; i++) {
      int64_t limb = (int64_t)rest->limbs[i] - (i < y->count ? y->limbs[i] : 0) + borrow;
      rest->limbs[i] = (uint32_t)limb;
      borrow = limb < 0 ? -1 : 0;
    }
    quotient->limbs[bit / 32] |= (uint32_t)1 << (bit % 32);
  }
}

void tnj_big_divide(tnj_state *s, tnj_value a, tnj_value b, tnj_value *quotient, tnj_value *remainder) {
  magnitude x, y;
  open_magnitude(&x, a);
  open_magnitude(&y, b);
  tnj_big *q = new_big(s, x.count), *r = new_big(s, y.count + 1);
  divide_magnitudes(s, &x, &y, q, r);
  q->negative = x.negative != y.negative;
  r->negative = x.negative;
  *quotient = finish(q);
  *remainder = finish(r);
  bool exact = remainder->kind == TNJ_INT && remainder->integer == 0;
  if (!exact && x.negative != y.negative) { /* truncated so far; floor is one less */
    *quotient = tnj_big_subtract(s, *quotient, tnj_int(1));
    *remainder = tnj_big_add(s, *remainder, b);
  }
}

int tnj_big_compare(tnj_value a, tnj_value b) {
  magnitude x, y;
  open_magnitude(&x, a);
  open_magnitude(&y, b);
  if (x.negative != y.negative) return x.negative ? -1 : 1;
  int order = compare_magnitudes(&x, &y);
  return x.negative ? -order : order;
}

double tnj_big_to_double(const tnj_big *big) {
  /* The top 64 bits with a sticky bit below decide the rounding. */
  uint64_t top = 0;
  size_t used = 0, i = big->count;
  int shift = 0;
  while (i > 0 && used < 2) {
    top = top << 32 | big->limbs[--i];
    used++;
  }
  shift = (int)i * 32;
  if (i > 0 && top >> 32) {
    int room = __builtin_clzll(top);
    if (room) {
      top = top << room | big->limbs[i - 1] >> (32 - room);
      shift -= room;
      if (big->limbs[i - 1] << room) top |= 1;
    } else if (big->limbs[i - 1]) {
      top |= 1;
    }
    for (size_t k = 0; k + 1 < i; k++)
      if (big->limbs[k]) top |= 1;
  }
  double value = ldexp((double)top, shift);
  return big->negative ? -value : value;
}

tnj_value tnj_big_from_double(tnj_state *s, double whole) {
  int exponent;
  double fraction = frexp(fabs(whole), &exponent); /* whole = fraction * 2^exponent, fraction in [0.5, 1) */
  uint64_t mantissa = (uint64_t)ldexp(fraction, 53);
  int shift = exponent - 53;
  tnj_big *big = new_big(s, (size_t)(exponent > 0 ? exponent : 0) / 32 + 3);
  if (shift < 0) {
    mantissa = shift > -64 ? mantissa >> -shift : 0;
    shift = 0;
  }
  size_t limb = (size_t)shift / 32, bit = (size_t)shift % 32;
  __uint128_t wide = (__uint128_t)mantissa << bit;
  for (size_t i = 0; i < 3 && limb + i < big->count; i++) big->limbs[limb + i] = (uint32_t)(wide >> (32 * i));
  big->negative = whole < 0;
  return finish(big);
}

tnj_value tnj_integer_from_digits(tnj_state *s, const char *digits, size_t size, int base, bool negative) {
  tnj_big *big = new_big(s, size / 6 + 2); /* 36^6 < 2^32 */
  size_t count = 0;
  tnj_work(s, size * (size / 6 + 1) * 4);
  for (size_t i = 0; i < size; i++) {
    char c = digits[i];
    uint64_t carry = (uint64_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    for (size_t k = 0; k < count; k++) {
      carry += (uint64_t)big->limbs[k] * (uint64_t)base;
      big->limbs[k] = (uint32_t)carry;
      carry >>= 32;
    }
    if (carry) big->limbs[count++] = (uint32_t)carry;
  }
  big->negative = negative;
  return finish(big);
}

void tnj_big_append(tnj_state *s, tnj_buffer *out, tnj_value v, unsigned base) {
  magnitude m;
  open_magnitude(&m, v);
  size_t room = m.count * 32 + 2, at = room;
  char *text = tnj_alloc(s, room);
  uint32_t *limbs = tnj_array(s, m.count, sizeof *limbs);
  if (m.count) memcpy(limbs, m.limbs, m.count * sizeof *limbs);
  tnj_work(s, m.count * m.count * 64);
  for (size_t count = m.count; count;) {
    text[--at] = "0123456789abcdef"[divide_by_limb(limbs, count, base)];
    while (count && !limbs[count - 1]) count--;
  }
  if (at == room) text[--at] = '0';
  if (base == 10 && room - at > MAX_DIGITS)
    tnj_error(s, "Exceeds the limit (%zu digits) for integer string conversion", MAX_DIGITS);
  if (m.negative) text[--at] = '-';
  tnj_append(s, out, text + at, room - at, false);
}

size_t tnj_big_bits(tnj_value v) {
  magnitude m;
  open_magnitude(&m, v);
  return m.count ? m.count * 32 - (size_t)__builtin_clz(m.limbs[m.count - 1]) : 0;
}
