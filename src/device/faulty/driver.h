/* The faulty device: wraps an opened device of any driver and makes chosen calls fail (see faulty.c). */
#ifndef TENON_DEVICE_FAULTY_H
#define TENON_DEVICE_FAULTY_H

#include <stdbool.h>
#include "tenon/device.h"

const tn_driver *tn_faulty_driver(void);

/* Is this one of the wrapper's own options? */
bool tn_faulty_takes(const char *key);

/* Wraps `inner_device`, which tn_faulty_driver()->close will close; on failure it is still the caller's and
 * last_error(NULL) says why. `memory`: the calls made so far: zeros, or what tn_faulty_remember gave. */
tn_status tn_faulty_wrap(const tn_driver *inner, tn_device *inner_device, const tn_option *options,
                         uint32_t option_count, const uint64_t *memory, tn_device **device);

/* The calls made so far, so that a device opened in place of this one goes on counting. */
void tn_faulty_remember(const tn_device *device, uint64_t memory[8]);

#endif
