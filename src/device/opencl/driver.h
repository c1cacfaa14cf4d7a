/* OpenCL devices (docs/opencl.md). */
#ifndef TENON_DEVICE_OPENCL_DRIVER_H
#define TENON_DEVICE_OPENCL_DRIVER_H

#include "tenon/device.h"

const tn_driver *tn_opencl_driver(void);

#endif
