/* What all kernels stand on. Arithmetic is IEEE single precision in the order of the source: nothing is contracted, no
 * fast math. The short float formats and the elementary functions are those of the project (tensor/half.h and
 * kernels/math.h come behind this file), so they give the same bits here as on the cpu. */
#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#else
#define double float /* only tn_sin_cos is in double, and not called then */
#endif

#define half half_value /* a type in OpenCL C, a name in the files behind this one */

typedef uchar uint8_t;
typedef ushort uint16_t;
typedef uint uint32_t;
typedef char int8_t;
typedef int int32_t;
#define __builtin_inff() as_float(0x7f800000u)
#define __builtin_nanf(payload) as_float(0x7fc00000u)
#define __builtin_sqrtf(x) sqrt(x)

/* a * b + c: rounded once where that is as fast as twice, and then everywhere. */
#ifdef FP_FAST_FMAF
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

/* Functions with much in local memory: the compiler of PoCL 3.1 fails when it is to decide by itself. */
#define INLINE __attribute__((always_inline))
