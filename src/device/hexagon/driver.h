/* The hexagon device: a DSP with its own program, reached over shared memory. */
#ifndef TENON_DEVICE_HEXAGON_DRIVER_H
#define TENON_DEVICE_HEXAGON_DRIVER_H

#include "tenon/device.h"

/* The driver's table. Devices 0 to 3 are sessions of 2 GiB each. Options of `open`: threads=N (1..8; default: the
 * processors this process may really use, at most 4), patience-ms=N (how long a piece of work may take before the DSP
 * counts as hung; default 60000). */
const tn_driver *tn_hexagon_driver(void);

#endif
