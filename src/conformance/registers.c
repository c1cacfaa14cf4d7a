/* Registers of the processors that we know (see registers.h). */
#include "conformance/registers.h"

uint32_t tn_registers_state(void) {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr() & ~0x3fu;
#elif defined(__aarch64__)
  uint64_t modes;
  __asm__ volatile("mrs %0, fpcr" : "=r"(modes));
  return (uint32_t)modes;
#else
  return 0;
#endif
}

#define EACH_TO_7(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define EACH_TO_15(X) EACH_TO_7(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define EACH_FROM_16(X) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)

#if defined(__x86_64__)

static void poison_128(void) {
#define X(n) __asm__ volatile("pcmpeqd %%xmm" #n ", %%xmm" #n ::: "xmm" #n);
  EACH_TO_15(X)
#undef X
}

__attribute__((target("avx2"))) static void poison_256(void) {
#define X(n) __asm__ volatile("vpcmpeqd %%ymm" #n ", %%ymm" #n ", %%ymm" #n ::: "xmm" #n);
  EACH_TO_15(X)
#undef X
}

__attribute__((target("avx512f"))) static void poison_512(void) {
#define X(n) __asm__ volatile("vpternlogd $255, %%zmm" #n ", %%zmm" #n ", %%zmm" #n ::: "xmm" #n);
  EACH_TO_15(X)
  EACH_FROM_16(X)
#undef X
}

uint32_t tn_registers_poison(void) {
  if (__builtin_cpu_supports("avx512f"))
    poison_512();
  else if (__builtin_cpu_supports("avx2"))
    poison_256();
  else
    poison_128();
  return tn_registers_state();
}

#elif defined(__aarch64__)

uint32_t tn_registers_poison(void) {
#define X(n) __asm__ volatile("movi v" #n ".16b, #255" ::: "v" #n);
  EACH_TO_7(X)
  EACH_FROM_16(X)
#undef X
  return tn_registers_state();
}

#else

uint32_t tn_registers_poison(void) {
  return tn_registers_state();
}

#endif
