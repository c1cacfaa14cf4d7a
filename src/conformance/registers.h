/* The processor's vector registers and floating-point modes around a call of a driver: a kernel that reads a register
 * before it wrote it meets NaNs, and one that leaves another rounding mode behind is noticed. */
#ifndef TENON_CONFORMANCE_REGISTERS_H
#define TENON_CONFORMANCE_REGISTERS_H

#include <stdint.h>

/* The modes of floating-point arithmetic of this thread, without the flags of what has happened; 0 where unknown. */
static inline uint32_t tn_registers_state(void) {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr() & ~0x3fu;
#elif defined(__aarch64__)
  uint64_t fpcr;
  __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
  return (uint32_t)fpcr;
#else
  return 0;
#endif
}

/* Sets all bits of the vector registers that a callee may use; returns tn_registers_state. */
static inline uint32_t tn_registers_poison(void) {
#if defined(__x86_64__)
#define TN_POISON(n) "pcmpeqd %%xmm" #n ", %%xmm" #n "\n\t"
  __asm__ volatile(TN_POISON(0) TN_POISON(1) TN_POISON(2) TN_POISON(3) TN_POISON(4) TN_POISON(5) TN_POISON(6)
                       TN_POISON(7) TN_POISON(8) TN_POISON(9) TN_POISON(10) TN_POISON(11) TN_POISON(12) TN_POISON(13)
                           TN_POISON(14) TN_POISON(15)::
                               : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                                 "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
#undef TN_POISON
#endif
  return tn_registers_state();
}

#endif
