/* The kernels this program has. */
#ifndef TENON_DEVICE_HEXAGON_DSP_KERNELS_H
#define TENON_DEVICE_HEXAGON_DSP_KERNELS_H

#include "tenon/driver.h"

typedef struct tn_dsp_kernels {
  const char *name;
  const tn_kernel_table *table;
  /* Bytes of workspace that the op needs for each worker; NULL: none. */
  uint64_t (*workspace)(const tn_op_query *query, uint32_t context, uint32_t workers);
} tn_dsp_kernels;

const tn_dsp_kernels *tn_dsp_kernels_here(void);

#endif
