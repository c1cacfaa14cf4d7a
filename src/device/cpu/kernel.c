/* Kernels without a model: a blob is a shared object, a function is launched over cores x threads, here the pieces of
 * one job of the pool. */
#include <stdlib.h>
#include "base/memory.h"
#include "device/cpu/internal.h"

/* The module handle of the interface. */
typedef struct kernel_module {
  tn_device *device;
  tn_blob *blob;
} kernel_module;

tn_status tn_cpu_kernel_load(tn_device *device, const void *blob, uint64_t bytes, void **module) {
  tn_error error = {0};
  *module = NULL;
  kernel_module *made = tn_calloc(1, sizeof *made);
  if (!made) return tn_cpu_fail(device, TN_E_MEMORY, "out of memory");
  made->device = device;
  made->blob = tn_blob_open(blob, bytes, &error);
  if (!made->blob) {
    free(made);
    return tn_cpu_fail(device, error.status, "%s", error.message);
  }
  *module = made;
  return TN_OK;
}

tn_status tn_cpu_kernel_function(void *module, const char *name, void **function) {
  kernel_module *m = module;
  *function = tn_blob_symbol(m->blob, name);
  return *function ? TN_OK : tn_cpu_fail(m->device, TN_E_NOT_FOUND, "the blob exports no \"%s\"", name);
}

void tn_cpu_kernel_unload(void *module) {
  kernel_module *m = module;
  if (!m) return;
  tn_blob_close(m->blob);
  free(m);
}

tn_status tn_cpu_kernel_launch(tn_queue *queue, void *function, const tn_launch *launch) {
  tn_device *device = queue->device;
  tn_kernel_function entry;
  __builtin_memcpy(&entry, &function, sizeof function);
  void **addresses = tn_calloc((size_t)launch->argument_count + 1, sizeof *addresses);
  if (!addresses) return tn_cpu_fail(device, TN_E_MEMORY, "out of memory");
  for (uint32_t i = 0; i < launch->argument_count; i++) {
    const tn_buffer *buffer = launch->arguments[i];
    addresses[i] = buffer ? buffer->data : NULL;
  }
  tn_mutex_lock(device->mutex);
  tn_status status = tn_launch_run(launch, entry, addresses, tn_pool_parallel(device->pool));
  tn_mutex_unlock(device->mutex);
  free(addresses);
  return status == TN_OK ? TN_OK
                         : tn_cpu_fail(device, status, "%u cores x %u threads: 1 to %u together", launch->cores,
                                       launch->threads, TN_MAX_PLACES);
}

/* ---- events: work is complete before a call returns, so an event is reached when it is made ---- */

struct tn_event {
  tn_device *device;
};

tn_status tn_cpu_record(tn_queue *queue, tn_event **event) {
  *event = tn_calloc(1, sizeof **event);
  if (!*event) return tn_cpu_fail(queue->device, TN_E_MEMORY, "out of memory");
  (*event)->device = queue->device;
  return TN_OK;
}

tn_status tn_cpu_wait(tn_event *event, uint64_t deadline_ns) {
  (void)event;
  (void)deadline_ns;
  return TN_OK;
}

void tn_cpu_event_destroy(tn_event *event) {
  free(event);
}

/* ---- counters ---- */

#define MAX_COUNTERS 65536u

tn_status tn_cpu_counters(tn_queue *queue, tn_op_counter *counters, uint32_t *count) {
  tn_counting *counting = &queue->counting;
  if (!counting->counters) { /* measuring begins */
    counting->counters = tn_calloc(MAX_COUNTERS, sizeof *counting->counters);
    if (!counting->counters) return tn_cpu_fail(queue->device, TN_E_MEMORY, "no memory for counters");
    counting->capacity = MAX_COUNTERS;
    counting->now_ns = tn_clock_ns;
  }
  tn_counting_read(counting, counters, count);
  return TN_OK;
}
