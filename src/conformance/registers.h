/* The processor's vector registers and floating-point modes around a call of a driver: a kernel that reads a register
 * before it wrote it meets NaNs, and one that leaves another rounding mode behind is noticed. */
#ifndef TENON_CONFORMANCE_REGISTERS_H
#define TENON_CONFORMANCE_REGISTERS_H

#include <stdint.h>

/* The modes of floating-point arithmetic of this thread, without the flags of what has happened; 0 where unknown. */
uint32_t tn_registers_state(void);

/* Sets all bits of the vector registers that a callee may use; returns tn_registers_state. */
uint32_t tn_registers_poison(void);

#endif
