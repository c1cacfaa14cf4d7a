// What can't be said in C: the begin of the program and of a thread, system calls, and the registers that qemu counts in.
// System calls: trap0(#1), the number in r6, arguments in r0 to r5, the answer (or a negative errno) in r0.

  .text

// The system enters here; its stack is only aligned to 8 bytes, vector code wants 128.
  .globl _start
  .p2align 4
_start:
  { r29 = and(r29, #-128) }
  { call tn_dsp_main }
  { jump _start }

// int32_t tn_dsp_call(a, b, c, d, e, f, number)
  .globl tn_dsp_call
  .p2align 4
tn_dsp_call:
  { r6 = memw(r29+#0) }
  { trap0(#1) }
  { jumpr r31 }

// int32_t tn_dsp_start_thread(void (*run)(void *), void *argument, void *stack_end)
// A thread of this process on a stack that ends at `stack_end` (aligned to 128). It never ends.
// 0x50f00: CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM
  .globl tn_dsp_start_thread
  .p2align 4
tn_dsp_start_thread:
  { memw(r2+#-8) = r0 }
  { memw(r2+#-4) = r1 }
  { r1 = add(r2, #-128) }
  { r0 = ##0x50f00 }
  { r2 = #0 }
  { r3 = #0 }
  { r4 = #0 }
  { r5 = #0 }
  { r6 = #220 }
  { trap0(#1) }
  { p0 = cmp.eq(r0, #0) }
  { if (!p0) jumpr r31 }
  { r1 = memw(r29+#120) }
  { r0 = memw(r29+#124) }
  { callr r1 }
  { r0 = #0 }
  { r6 = #93 }
  { trap0(#1) }

// uint32_t tn_dsp_packets(void), uint32_t tn_dsp_instructions(void): what this thread has run so far, going round. The
// control registers 20 and 21 are qemu's own.
  .globl tn_dsp_packets
  .p2align 4
tn_dsp_packets:
  .word 0x6a14c000 // r0 = c20
  { jumpr r31 }

  .globl tn_dsp_instructions
  .p2align 4
tn_dsp_instructions:
  .word 0x6a15c000 // r0 = c21
  { jumpr r31 }
