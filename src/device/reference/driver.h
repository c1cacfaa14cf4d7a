/* The reference device: reference kernels on one thread. */
#ifndef TENON_DEVICE_REFERENCE_H
#define TENON_DEVICE_REFERENCE_H

#include "tenon/device.h"

const tn_driver *tn_reference_driver(void);

#endif
