/* The cpu driver's table: opening, queues, copies. Everything is complete when a call returns. */
#include "device/cpu/driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device/cpu/internal.h"
#include "kernels/pack/pack.h"

/* What last_error(NULL) tells: failures before there is a device, of each thread. */
static _Thread_local char open_error[256];

tn_status tn_cpu_fail(tn_device *device, tn_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(device ? device->error : open_error, device ? sizeof device->error : sizeof open_error, format, arguments);
  va_end(arguments);
  return status;
}

static const char *cpu_last_error(tn_device *device) {
  return device ? device->error : open_error;
}

static tn_status cpu_enumerate(uint32_t *count) {
  *count = 1;
  return TN_OK;
}

static void cpu_close(tn_device *device) {
  if (!device) return;
  tn_pool_destroy(device->pool);
  tn_mutex_destroy(device->mutex);
  free(device);
}

/* Reads "threads" into *threads; any other option is refused. */
static tn_status read_options(const tn_option *options, uint32_t count, uint32_t *threads) {
  for (uint32_t i = 0; i < count; i++) {
    if (strcmp(options[i].key, "threads"))
      return tn_cpu_fail(NULL, TN_E_INVALID, "no option \"%s\" (there is: threads)", options[i].key);
    char *end;
    unsigned long number = strtoul(options[i].value, &end, 10);
    if (*end || end == options[i].value || options[i].value[0] == '-' || !number || number > TN_CPU_MAX_THREADS)
      return tn_cpu_fail(NULL, TN_E_INVALID, "threads=%s isn't a number from 1 to %u", options[i].value,
                         TN_CPU_MAX_THREADS);
    *threads = (uint32_t)number;
  }
  return TN_OK;
}

static tn_status cpu_open(uint32_t index, const tn_option *options, uint32_t option_count, tn_device **device) {
  uint32_t threads = tn_machine_cpus();
  *device = NULL;
  if (threads > TN_CPU_MAX_THREADS) threads = TN_CPU_MAX_THREADS;
  if (index) return tn_cpu_fail(NULL, TN_E_NOT_FOUND, "no device %u, there is one", index);
  tn_status status = read_options(options, option_count, &threads);
  if (status != TN_OK) return status;
  const tn_kernel_set *kernels = tn_cpu_choose_kernels();
  if (!kernels) return TN_E_UNSUPPORTED;
  tn_device *made = calloc(1, sizeof *made);
  if (made) {
    made->kernels = kernels;
    made->threads = threads;
    made->mutex = tn_mutex_create();
    made->pool = tn_pool_create(threads);
  }
  if (!made || !made->mutex || !made->pool) {
    cpu_close(made);
    return tn_cpu_fail(NULL, TN_E_MEMORY, "no memory or threads for %u threads", threads);
  }
  *device = made;
  return TN_OK;
}

static void *cpu_host_pointer(tn_device *device, tn_buffer *buffer) {
  (void)device;
  return buffer->data;
}

static tn_status cpu_queue_create(tn_device *device, tn_queue **queue) {
  *queue = calloc(1, sizeof **queue);
  if (!*queue) return tn_cpu_fail(device, TN_E_MEMORY, "no memory for a queue");
  (*queue)->device = device;
  return TN_OK;
}

static void cpu_queue_destroy(tn_queue *queue) {
  if (queue) free(queue->counting.counters);
  free(queue);
}

tn_status tn_cpu_inside(tn_device *device, const tn_buffer *buffer, uint64_t offset, uint64_t bytes) {
  if (buffer && offset <= buffer->bytes && bytes <= buffer->bytes - offset) return TN_OK;
  return tn_cpu_fail(device, TN_E_INVALID, "%llu bytes at %llu do not lie in a buffer of %llu",
                     (unsigned long long)bytes, (unsigned long long)offset,
                     (unsigned long long)(buffer ? buffer->bytes : 0));
}

static bool inside(tn_queue *queue, const tn_buffer *buffer, uint64_t offset, uint64_t bytes) {
  return tn_cpu_inside(queue->device, buffer, offset, bytes) == TN_OK;
}

static tn_status cpu_copy_in(tn_queue *queue, tn_buffer *to, uint64_t offset, const void *from, uint64_t bytes) {
  if (!inside(queue, to, offset, bytes)) return TN_E_INVALID;
  if (bytes) memcpy(to->data + offset, from, bytes);
  return TN_OK;
}

static tn_status cpu_copy_out(tn_queue *queue, void *to, tn_buffer *from, uint64_t offset, uint64_t bytes) {
  if (!inside(queue, from, offset, bytes)) return TN_E_INVALID;
  if (bytes) memcpy(to, from->data + offset, bytes);
  return TN_OK;
}

static tn_status cpu_copy(tn_queue *queue, tn_buffer *to, uint64_t to_offset, tn_buffer *from, uint64_t from_offset,
                          uint64_t bytes) {
  if (!inside(queue, to, to_offset, bytes) || !inside(queue, from, from_offset, bytes)) return TN_E_INVALID;
  memmove(to->data + to_offset, from->data + from_offset, bytes);
  return TN_OK;
}

static tn_status cpu_fill(tn_queue *queue, tn_buffer *to, uint64_t offset, uint8_t byte, uint64_t bytes) {
  if (!inside(queue, to, offset, bytes)) return TN_E_INVALID;
  memset(to->data + offset, byte, bytes);
  return TN_OK;
}

static tn_status cpu_synchronize(tn_queue *queue, uint64_t deadline_ns) {
  (void)queue;
  (void)deadline_ns;
  return TN_OK;
}

static tn_status cpu_weight_layout(tn_device *device, const tn_weight_desc *desc, tn_weight_layout *layout) {
  const char *why;
  tn_status status = tn_packed_layout(desc, layout, &why);
  if (status == TN_OK) return TN_OK;
  return tn_cpu_fail(device, status, "weight of dtype %u, rank %u, uses %#x: %s", desc->dtype, desc->rank, desc->uses,
                     why);
}

static tn_status cpu_weight_pack(tn_queue *queue, const tn_weight_desc *desc, const tn_weight_layout *layout,
                                 const tn_weight_source *sources, uint32_t source_count, tn_buffer *to,
                                 uint64_t offset) {
  tn_device *device = queue->device;
  if (!inside(queue, to, offset, layout->bytes)) return TN_E_INVALID;
  if (offset % TN_CPU_ALIGNMENT)
    return tn_cpu_fail(device, TN_E_INVALID, "packed weights begin at multiples of %u", TN_CPU_ALIGNMENT);
  tn_mutex_lock(device->mutex);
  const char *why;
  tn_status status =
      tn_packed_pack(desc, layout, sources, source_count, to->data + offset, tn_pool_parallel(device->pool), &why);
  if (status != TN_OK) tn_cpu_fail(device, status, "%s", why);
  tn_mutex_unlock(device->mutex);
  return status;
}

static const tn_driver driver = {
    .size = sizeof driver,
    .abi_min = TN_DEVICE_ABI,
    .abi_max = TN_DEVICE_ABI,
    .name = "cpu",
    .summary = "the processor, with kernels for its instruction set",
    .enumerate = cpu_enumerate,
    .open = cpu_open,
    .close = cpu_close,
    .last_error = cpu_last_error,
    .get = tn_cpu_get,
    .alloc = tn_cpu_alloc,
    .free = tn_cpu_free,
    .host_pointer = cpu_host_pointer,
    .queue_create = cpu_queue_create,
    .queue_destroy = cpu_queue_destroy,
    .copy_in = cpu_copy_in,
    .copy_out = cpu_copy_out,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .execute = tn_cpu_execute,
    .synchronize = cpu_synchronize,
    .weight_layout = cpu_weight_layout,
    .weight_pack = cpu_weight_pack,
    .state_layout = tn_cpu_state_layout,
    .supports = tn_cpu_supports,
    .prepare = tn_cpu_prepare,
    .release = tn_cpu_release,
    .record = tn_cpu_record,
    .wait = tn_cpu_wait,
    .event_destroy = tn_cpu_event_destroy,
    .kernel_load = tn_cpu_kernel_load,
    .kernel_function = tn_cpu_kernel_function,
    .kernel_launch = tn_cpu_kernel_launch,
    .kernel_unload = tn_cpu_kernel_unload,
    .counters = tn_cpu_counters,
    .map = tn_cpu_map,
};

const tn_driver *tn_cpu_driver(void) {
  return &driver;
}
