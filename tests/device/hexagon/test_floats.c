/* The DSP's division and square roots (dsp/floats.c), compiled for this machine: the bits that its processor gives,
 * which rounds correctly. Of NaNs only that they are some. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "device/hexagon/dsp/floats.c"

#define DRAWS 300000u

/* Zeros, the smallest and largest numbers of either kind, ones and their neighbours, infinities, NaNs; a sign is put
 * before each. */
static const uint32_t singles[] = {0,          1,          2,          0x7fffff,   0x800000,   0x800001,   0x3f7fffff,
                                   0x3f800000, 0x3f800001, 0x40000000, 0x40400000, 0x7f7fffff, 0x7f800000, 0x7fc00000};
static const uint64_t doubles[] = {0,
                                   1,
                                   2,
                                   0x000fffffffffffff,
                                   0x0010000000000000,
                                   0x0010000000000001,
                                   0x3fefffffffffffff,
                                   0x3ff0000000000000,
                                   0x3ff0000000000001,
                                   0x4000000000000000,
                                   0x4008000000000000,
                                   0x7fefffffffffffff,
                                   0x7ff0000000000000,
                                   0x7ff8000000000000};

static void check_single(uint32_t a, uint32_t b) {
  float x = float32(a), y = float32(b);
  float quotient = __hexagon_divsf3(x, y), root = __hexagon_sqrtf(x);
  volatile float wanted = x / y, wanted_root = sqrtf(x);
  if (!(isnan(quotient) && isnan(wanted)) && bits32(quotient) != bits32(wanted))
    fail_msg("%a / %a: %a, not %a", (double)x, (double)y, (double)quotient, (double)wanted);
  if (!(isnan(root) && isnan(wanted_root)) && bits32(root) != bits32(wanted_root))
    fail_msg("root of %a: %a, not %a", (double)x, (double)root, (double)wanted_root);
}

static void check_double(uint64_t a, uint64_t b) {
  double x = float64(a), y = float64(b);
  double quotient = __hexagon_divdf3(x, y), root = __hexagon_sqrt(x);
  volatile double wanted = x / y, wanted_root = sqrt(x);
  if (!(isnan(quotient) && isnan(wanted)) && bits64(quotient) != bits64(wanted))
    fail_msg("%a / %a: %a, not %a", x, y, quotient, wanted);
  if (!(isnan(root) && isnan(wanted_root)) && bits64(root) != bits64(wanted_root))
    fail_msg("root of %a: %a, not %a", x, root, wanted_root);
}

static void extremes_are_rounded_correctly(void **state) {
  (void)state;
  const size_t count = sizeof singles / sizeof *singles;
  for (size_t i = 0; i < 2 * count; i++)
    for (size_t k = 0; k < 2 * count; k++) {
      check_single(singles[i / 2] | (uint32_t)(i % 2) << 31, singles[k / 2] | (uint32_t)(k % 2) << 31);
      check_double(doubles[i / 2] | (uint64_t)(i % 2) << 63, doubles[k / 2] | (uint64_t)(k % 2) << 63);
    }
}

static uint64_t draw(uint64_t *random) {
  *random = *random * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = *random;
  return (x ^ x >> 31) * 0x9e3779b97f4a7c15u;
}

/* Any bits; and pairs of like exponents, whose quotients use the whole mantissa. Every fourth number is subnormal, or
 * its quotient is likely to be. */
static void random_numbers_are_rounded_correctly(void **state) {
  (void)state;
  uint64_t random = 5;
  for (uint32_t i = 0; i < DRAWS; i++) {
    uint64_t a = draw(&random), b = draw(&random);
    uint64_t near = (b & 0x800fffffffffffff) | (a & 0x7ff0000000000000);
    uint64_t small = i % 4 ? a : a & 0x803fffffffffffff;
    check_double(a, b);
    check_double(small, near);
    check_single((uint32_t)(a >> 16), (uint32_t)(b >> 16));
    check_single((uint32_t)a & (i % 4 ? UINT32_MAX : 0x81ffffff),
                 ((uint32_t)b & 0x807fffff) | ((uint32_t)a & 0x7f800000));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(extremes_are_rounded_correctly),
      cmocka_unit_test(random_numbers_are_rounded_correctly),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
