/* The DSP's program, as it was built into this library. */
#ifndef TENON_DEVICE_HEXAGON_IMAGE_H
#define TENON_DEVICE_HEXAGON_IMAGE_H

#include <stddef.h>

/* The bytes of an executable file, *bytes of them; NULL: no compiler for it was there when tenon was built. */
const void *tn_hexagon_image(size_t *bytes);

#endif
