/* A driver library that lies: the reference driver with one lie, which the environment variable TEST_LIE names. */
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "device/reference/driver.h"

static tn_driver table;

static tn_status supports_all(tn_device *device, const tn_op_query *query) {
  (void)device, (void)query;
  return TN_OK;
}
static tn_status prepare_nothing(tn_device *device, const tn_program *program, const tn_weight_binding *weights,
                                 uint32_t count, tn_progress progress, void *context, tn_executable **executable) {
  (void)device, (void)program, (void)weights, (void)count, (void)progress, (void)context, (void)executable;
  return TN_E_UNSUPPORTED;
}
static tn_status execute_garbage(tn_queue *queue, tn_executable *executable, const tn_execution *execution) {
  (void)queue, (void)executable, (void)execution;
  return 4711;
}
static tn_status execute_lost(tn_queue *queue, tn_executable *executable, const tn_execution *execution) {
  (void)queue, (void)executable, (void)execution;
  return TN_E_DEVICE_LOST;
}
/* "It's all done", and nothing is. */
static tn_status execute_nothing(tn_queue *queue, tn_executable *executable, const tn_execution *execution) {
  (void)queue, (void)executable, (void)execution;
  return TN_OK;
}
static tn_status execute_never_returns(tn_queue *queue, tn_executable *executable, const tn_execution *execution) {
  (void)executable, (void)execution;
  while (queue) tn_sleep_ns(1000000000);
  return TN_OK;
}
static tn_status execute_crashes(tn_queue *queue, tn_executable *executable, const tn_execution *execution) {
  (void)queue, (void)executable, (void)execution;
  __builtin_trap();
}
static tn_status never_completes(tn_queue *queue, uint64_t deadline_ns) {
  (void)queue;
  uint64_t now = tn_clock_ns();
  if (deadline_ns != UINT64_MAX && deadline_ns > now) tn_sleep_ns(deadline_ns - now);
  return TN_E_TIMEOUT;
}

__attribute__((visibility("default"))) const tn_driver *tn_driver_entry(uint32_t abi) {
  (void)abi;
  const char *lie = getenv("TEST_LIE");
  table = *tn_reference_driver();
  table.name = "liar";
  if (!lie) return &table;
  if (!strcmp(lie, "abi")) table.abi_min = table.abi_max = 7;
  if (!strcmp(lie, "claims-all")) table.supports = supports_all, table.prepare = prepare_nothing;
  if (!strcmp(lie, "garbage")) table.execute = execute_garbage;
  if (!strcmp(lie, "lost")) table.execute = execute_lost;
  if (!strcmp(lie, "nothing")) table.execute = execute_nothing;
  if (!strcmp(lie, "never-completes")) table.synchronize = never_completes;
  if (!strcmp(lie, "crashes")) table.execute = execute_crashes;
  if (!strcmp(lie, "never-returns")) table.execute = execute_never_returns;
  return &table;
}
