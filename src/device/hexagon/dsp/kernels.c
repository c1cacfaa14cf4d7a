/* The kernels this program has: the reference ones, on the layouts that they read. */
#include "device/hexagon/dsp/kernels.h"

const tn_dsp_kernels *tn_dsp_kernels_here(void) {
  static tn_dsp_kernels kernels = {.name = "reference"};
  kernels.table = tn_reference_kernels();
  return &kernels;
}
