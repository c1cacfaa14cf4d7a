/* The cpu driver: fast kernels on the processor that tenon runs on. */
#ifndef TENON_DEVICE_CPU_DRIVER_H
#define TENON_DEVICE_CPU_DRIVER_H

#include "tenon/device.h"

/* The driver's table. Options of `open`: threads=N (1..256; default: the processors this process may really use). The
 * environment variable TENON_CPU forces an instruction set: portable, on x86 avx2, avxvnni, avx512vnni, on Arm neon,
 * neon-dotprod, neon-i8mm. */
const tn_driver *tn_cpu_driver(void);

#endif
