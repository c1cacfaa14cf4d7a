/* Kernels without a model: a blob is a shared object, a function is launched over cores x threads, here the pieces of
 * one job of the pool. */
#include <stdlib.h>
#include "base/memory.h"
#include "device/cpu/internal.h"

#define MAX_PLACES 65536u

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

/* One launch: the function, and the addresses it is given. */
typedef struct launch_job {
  tn_kernel_function function;
  const tn_launch *launch;
  void **addresses;
} launch_job;

static void run_place(void *argument, uint32_t index, uint32_t worker) {
  (void)worker;
  const launch_job *job = argument;
  const tn_launch *launch = job->launch;
  const tn_kernel_place place = {.size = sizeof place,
                                 .core = index / launch->threads,
                                 .cores = launch->cores,
                                 .thread = index % launch->threads,
                                 .threads = launch->threads};
  job->function(&place, job->addresses, launch->argument_count);
}

tn_status tn_cpu_kernel_launch(tn_queue *queue, void *function, const tn_launch *launch) {
  tn_device *device = queue->device;
  launch_job job = {.launch = launch};
  __builtin_memcpy(&job.function, &function, sizeof function);
  if (!function || !launch->cores || !launch->threads || launch->cores > MAX_PLACES / launch->threads)
    return tn_cpu_fail(device, TN_E_INVALID, "%u cores x %u threads: 1 to %u together", launch->cores, launch->threads,
                       MAX_PLACES);
  job.addresses = tn_calloc((size_t)launch->argument_count + 1, sizeof *job.addresses);
  if (!job.addresses) return tn_cpu_fail(device, TN_E_MEMORY, "out of memory");
  for (uint32_t i = 0; i < launch->argument_count; i++) {
    const tn_buffer *buffer = launch->arguments[i];
    job.addresses[i] = buffer ? buffer->data : NULL;
  }
  const tn_parallel *parallel = tn_pool_parallel(device->pool);
  tn_status status = TN_OK;
  tn_mutex_lock(device->mutex);
  parallel->run(parallel->context, run_place, &job, launch->cores * launch->threads);
  tn_mutex_unlock(device->mutex);
  free(job.addresses);
  return status;
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
