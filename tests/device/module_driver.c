/* A driver library for tests/device/test_registry.c: the reference driver under another name, with one fault that the
 * environment variable TEST_DRIVER names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/reference/driver.h"

static tn_driver table;
static const char *text = "";

static const char *own_error(tn_device *device) {
  (void)device;
  return text;
}
static tn_status no_devices(uint32_t *count) {
  *count = 0;
  text = "nothing is plugged in";
  return TN_OK;
}
static tn_status enumerate_fails(uint32_t *count) {
  *count = 7;
  text = "the bus is down";
  return TN_E_IO;
}
static tn_status open_fails(uint32_t index, const tn_option *options, uint32_t count, tn_device **device) {
  (void)index, (void)options, (void)count, (void)device;
  text = "it is broken";
  return TN_E_DEVICE_LOST;
}
static tn_status open_garbage(uint32_t index, const tn_option *options, uint32_t count, tn_device **device) {
  (void)index, (void)options, (void)count, (void)device;
  return 77;
}
static tn_status open_nothing(uint32_t index, const tn_option *options, uint32_t count, tn_device **device) {
  (void)index, (void)options, (void)count, (void)device;
  return TN_OK;
}
static tn_status get_nothing(tn_device *device, const char *name, tn_property *value) {
  (void)device, (void)name, (void)value;
  return TN_E_NOT_FOUND;
}
static tn_status get_wrong(tn_device *device, const char *name, tn_property *value) {
  const char *fault = getenv("TEST_DRIVER");
  tn_status status = tn_reference_driver()->get(device, name, value);
  if (!strcmp(fault, "bad-alignment") && !strcmp(name, "alignment")) value->u64 = 48;
  if (!strcmp(fault, "bad-kv") && !strcmp(name, "kv")) snprintf(value->text, sizeof value->text, "magnetic");
  if (!strcmp(fault, "wrong-type") && !strcmp(name, "cores")) value->type = TN_PROPERTY_F64;
  return status;
}
static tn_status alloc_garbage(tn_device *device, uint64_t bytes, tn_buffer **buffer) {
  (void)device, (void)bytes, (void)buffer;
  return -1000;
}
static tn_status alloc_nothing(tn_device *device, uint64_t bytes, tn_buffer **buffer) {
  (void)device, (void)bytes, (void)buffer;
  return TN_OK;
}

__attribute__((visibility("default"))) const tn_driver *tn_driver_entry(uint32_t abi) {
  (void)abi;
  const char *fault = getenv("TEST_DRIVER");
  table = *tn_reference_driver();
  table.name = "module";
  table.size = offsetof(tn_driver, record);
  table.record = (void *)1; /* beyond its size: must not be looked at */
  if (!strcmp(fault, "null")) return NULL;
  if (!strcmp(fault, "newer")) table.abi_min = 2, table.abi_max = 3;
  if (!strcmp(fault, "longer")) table.record = NULL, table.size = sizeof table;
  if (!strcmp(fault, "short")) table.size = offsetof(tn_driver, release);
  if (!strcmp(fault, "hole")) table.execute = NULL;
  if (!strcmp(fault, "nameless")) table.name = NULL;
  if (!strcmp(fault, "no-devices")) table.enumerate = no_devices, table.last_error = own_error;
  if (!strcmp(fault, "enumerate-fails")) table.enumerate = enumerate_fails, table.last_error = own_error;
  if (!strcmp(fault, "open-fails")) table.open = open_fails, table.last_error = own_error;
  if (!strcmp(fault, "open-garbage")) table.open = open_garbage;
  if (!strcmp(fault, "open-nothing")) table.open = open_nothing;
  if (!strcmp(fault, "no-properties")) table.get = get_nothing;
  if (!strcmp(fault, "bad-alignment") || !strcmp(fault, "bad-kv") || !strcmp(fault, "wrong-type"))
    table.get = get_wrong;
  if (!strcmp(fault, "alloc-garbage")) table.alloc = alloc_garbage;
  if (!strcmp(fault, "alloc-nothing")) table.alloc = alloc_nothing;
  return &table;
}
