/* Which kernel set: the best the processor has, or the one TENON_CPU names. */
#include <stdlib.h>
#include <string.h>
#include "device/cpu/internal.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

typedef struct choice {
  const tn_kernel_set *(*set)(void);
  bool (*present)(void);
} choice;

static bool always(void) {
  return true;
}

#if defined(__x86_64__)
/* Bit 29 of ecx of leaf 1; clang 14 has no name for it. */
static bool has_f16c(void) {
  unsigned eax, ebx, ecx = 0, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & 1u << 29);
}

static bool has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
         has_f16c();
}

/* Bit 4 of eax of leaf 7, subleaf 1; gcc 12 has no name for it. */
static bool has_avxvnni(void) {
  unsigned eax = 0, ebx, ecx, edx;
  return has_avx2() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax & 1u << 4);
}

static bool has_avx512vnni(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
#endif

#if defined(__aarch64__)
static bool has_dotprod(void) {
  return tn_machine_has(TN_CPU_DOTPROD);
}
static bool has_i8mm(void) {
  return has_dotprod() && tn_machine_has(TN_CPU_I8MM);
}
#endif

/* Best first. */
static const choice choices[] = {
#if defined(__x86_64__)
    {tn_kernel_set_avx512vnni, has_avx512vnni},
    {tn_kernel_set_avxvnni, has_avxvnni},
    {tn_kernel_set_avx2, has_avx2},
#elif defined(__aarch64__)
    {tn_kernel_set_neon_i8mm, has_i8mm},
    {tn_kernel_set_neon_dotprod, has_dotprod},
    {tn_kernel_set_neon, always},
#endif
    {tn_kernel_set_portable, always},
};

const tn_kernel_set *tn_cpu_choose_kernels(void) {
  const char *forced = getenv("TENON_CPU");
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
    const tn_kernel_set *set = choices[i].set();
    if (forced && *forced) {
      if (strcmp(forced, set->name)) continue;
      if (choices[i].present()) return set;
      tn_cpu_fail(NULL, TN_E_UNSUPPORTED, "TENON_CPU asks for %s, which this processor doesn't have", set->name);
      return NULL;
    }
    if (choices[i].present()) return set;
  }
  tn_cpu_fail(NULL, TN_E_INVALID, "TENON_CPU names %s, which is no instruction set built in", forced);
  return NULL;
}
