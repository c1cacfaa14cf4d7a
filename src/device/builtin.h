/* The drivers and wrappers built into this library. Only builtin.c names the device folders. */
#ifndef TENON_DEVICE_BUILTIN_H
#define TENON_DEVICE_BUILTIN_H

#include <stdbool.h>
#include "tenon/device.h"

#define TN_WRAPPER_MEMORY 8u

/* A wrapper is a driver over an opened device of any other driver. */
typedef struct tn_device_wrapper {
  const char *name;                 /* what stands before the colon of a spec */
  const tn_driver *(*driver)(void); /* its table; devices come from `wrap`, never from its `open` */
  bool (*takes)(const char *key);   /* is this option the wrapper's? The others go to the wrapped driver */
  /* Takes over `inner_device`, which the wrapper's `close` closes. `memory`: zeros, or what `remember` gave of the
   * device that this one stands for after a reopen. On failure inner_device is still the caller's. */
  tn_status (*wrap)(const tn_driver *inner, tn_device *inner_device, const tn_option *options, uint32_t option_count,
                    const uint64_t *memory, tn_device **device);
  void (*remember)(const tn_device *device, uint64_t memory[TN_WRAPPER_MEMORY]);
} tn_device_wrapper;

/* The wrapper called by the first `size` bytes of `name`, or NULL. */
const tn_device_wrapper *tn_builtin_wrapper(const char *name, size_t size);

#endif
