/* The reference driver's table: the one to copy when a new device is begun.
 *
 * It runs the reference kernels on the calling thread, over the interpreter and the plain layouts of driver.h, and does
 * everything before a call returns. A driver for real silicon replaces, in this order: memory.c (the silicon's
 * memory), the copies below (its queue), weight_layout and weight_pack (its layout), and kernels one by one in the
 * table that program.c runs.
 * Option: private-memory=1 hides device memory from the host (memory.c), as silicon with its own memory does. */
#include "device/reference/driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/reference/internal.h"

/* last_error(NULL): of this thread's last open. */
static _Thread_local char open_error[256];

tn_status tn_reference_fail(tn_device *device, tn_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(device ? device->error : open_error, device ? sizeof device->error : sizeof open_error, format, arguments);
  va_end(arguments);
  return status;
}

tn_status tn_reference_inside(tn_device *device, const tn_buffer *buffer, uint64_t offset, uint64_t bytes) {
  if (buffer && offset <= buffer->bytes && bytes <= buffer->bytes - offset) return TN_OK;
  return tn_reference_fail(device, TN_E_INVALID, "%llu bytes at offset %llu do not lie in a buffer of %llu",
                           (unsigned long long)bytes, (unsigned long long)offset,
                           (unsigned long long)(buffer ? buffer->bytes : 0));
}

/* ---- driver ---- */

static tn_status enumerate_devices(uint32_t *count) {
  *count = 1;
  return TN_OK;
}

static const char *last_error(tn_device *device) {
  return device ? device->error : open_error;
}

static tn_status read_options(tn_device *device, const tn_option *options, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const char *key = options[i].key, *value = options[i].value;
    if (strcmp(key, "private-memory") == 0 && (strcmp(value, "0") == 0 || strcmp(value, "1") == 0)) {
      device->private_memory = *value == '1';
    } else if (strcmp(key, "threads") == 0 && strcmp(value, "1") == 0) {
      continue; /* it never has more */
    } else {
      return tn_reference_fail(NULL, TN_E_INVALID, "%s=%s: options are private-memory=0|1 and threads=1", key, value);
    }
  }
  return TN_OK;
}

static void close_device(tn_device *device) {
  if (!device) return;
  tn_reference_free_all(device);
  tn_mutex_destroy(device->mutex);
  free(device);
}

static tn_status open_device(uint32_t index, const tn_option *options, uint32_t option_count, tn_device **device) {
  *device = NULL;
  if (index > 0) return tn_reference_fail(NULL, TN_E_NOT_FOUND, "there is one device, number 0");
  tn_device *made = tn_calloc(1, sizeof *made);
  if (made) made->mutex = tn_mutex_create();
  if (!made || !made->mutex) {
    free(made);
    return tn_reference_fail(NULL, TN_E_MEMORY, "out of memory");
  }
  tn_status status = read_options(made, options, option_count);
  if (status) {
    close_device(made);
    return status;
  }
  *device = made;
  return TN_OK;
}

static tn_status get_property(tn_device *device, const char *name, tn_property *value) {
  const tn_named_property properties[] = {
      {"name", device->private_memory ? "reference, private memory" : "reference", 0},
      {"kv", "paged", 0},
      {"rows", "any", 0},
      {"memory_total", NULL, tn_machine_memory_total()},
      {"memory_free", NULL, tn_machine_memory_free()},
      {"max_allocation", NULL, tn_machine_memory_total()},
      {"alignment", NULL, TN_REFERENCE_ALIGNMENT},
      {"cores", NULL, 1},
      {"threads", NULL, 1},
      {"batch_invariant", NULL, 1}};
  tn_status status = tn_property_find(properties, TN_COUNT(properties), name, value);
  return status == TN_OK ? TN_OK : tn_reference_fail(device, TN_E_NOT_FOUND, "there is no property %s", name);
}

static void *host_pointer(tn_device *device, tn_buffer *buffer) {
  return device->private_memory ? NULL : buffer->data;
}

/* ---- queue: everything is complete on return ---- */

static tn_status queue_create(tn_device *device, tn_queue **queue) {
  *queue = tn_calloc(1, sizeof **queue);
  if (!*queue) return tn_reference_fail(device, TN_E_MEMORY, "out of memory");
  (*queue)->device = device;
  return TN_OK;
}

static void queue_destroy(tn_queue *queue) {
  if (queue) free(queue->counting.counters);
  free(queue);
}

static tn_status copy_in(tn_queue *queue, tn_buffer *to, uint64_t offset, const void *from, uint64_t bytes) {
  tn_status status = tn_reference_inside(queue->device, to, offset, bytes);
  if (status == TN_OK) status = tn_reference_enter(queue->device);
  if (status) return status;
  if (bytes) memcpy(to->data + offset, from, bytes);
  tn_reference_leave(queue->device);
  return TN_OK;
}

static tn_status copy_out(tn_queue *queue, void *to, tn_buffer *from, uint64_t offset, uint64_t bytes) {
  tn_status status = tn_reference_inside(queue->device, from, offset, bytes);
  if (status == TN_OK) status = tn_reference_enter(queue->device);
  if (status) return status;
  if (bytes) memcpy(to, from->data + offset, bytes);
  tn_reference_leave(queue->device);
  return TN_OK;
}

static tn_status copy_within(tn_queue *queue, tn_buffer *to, uint64_t to_offset, tn_buffer *from, uint64_t from_offset,
                             uint64_t bytes) {
  tn_status status = tn_reference_inside(queue->device, to, to_offset, bytes);
  if (status == TN_OK) status = tn_reference_inside(queue->device, from, from_offset, bytes);
  if (status == TN_OK) status = tn_reference_enter(queue->device);
  if (status) return status;
  memmove(to->data + to_offset, from->data + from_offset, bytes);
  tn_reference_leave(queue->device);
  return TN_OK;
}

static tn_status fill(tn_queue *queue, tn_buffer *to, uint64_t offset, uint8_t byte, uint64_t bytes) {
  tn_status status = tn_reference_inside(queue->device, to, offset, bytes);
  if (status == TN_OK) status = tn_reference_enter(queue->device);
  if (status) return status;
  memset(to->data + offset, byte, bytes);
  tn_reference_leave(queue->device);
  return TN_OK;
}

static tn_status synchronize(tn_queue *queue, uint64_t deadline_ns) {
  (void)queue;
  (void)deadline_ns;
  return TN_OK;
}

/* ---- weights and states: the plain layouts ---- */

static tn_status weight_layout(tn_device *device, const tn_weight_desc *desc, tn_weight_layout *layout) {
  tn_status status = tn_plain_layout(desc, layout);
  return status ? tn_reference_fail(device, status, "a weight of this type and shape has no plain layout") : TN_OK;
}

static tn_status weight_pack(tn_queue *queue, const tn_weight_desc *desc, const tn_weight_layout *layout,
                             const tn_weight_source *sources, uint32_t source_count, tn_buffer *to, uint64_t offset) {
  tn_device *device = queue->device;
  tn_weight_layout own = {.size = sizeof own};
  tn_status status = weight_layout(device, desc, &own);
  if (status == TN_OK && (layout->id != own.id || layout->bytes != own.bytes)) {
    status = tn_reference_fail(device, TN_E_INVALID, "this is not the weight's layout");
  }
  if (status == TN_OK) status = tn_reference_inside(device, to, offset, own.bytes);
  if (status == TN_OK && offset % TN_REFERENCE_ALIGNMENT) {
    status = tn_reference_fail(device, TN_E_INVALID, "packed weights begin at multiples of %u", TN_REFERENCE_ALIGNMENT);
  }
  if (status == TN_OK) status = tn_reference_enter(device);
  if (status) return status;
  status = tn_plain_pack(desc, sources, source_count, to->data + offset);
  tn_reference_leave(device);
  return status ? tn_reference_fail(device, status, "the sources do not make up the weight") : TN_OK;
}

static tn_status state_layout(tn_device *device, const tn_state_desc *desc, tn_state_layout *layout) {
  tn_status status = tn_plain_state_layout(desc, layout);
  return status ? tn_reference_fail(device, status, "KV of this type and shape has no plain page") : TN_OK;
}

static tn_status supports(tn_device *device, const tn_op_query *query) {
  tn_status status = tn_reference_supports(query);
  return status ? tn_reference_fail(device, status, "no reference kernel takes these operands") : TN_OK;
}

/* ---- the table ---- */

static const tn_driver driver = {.size = sizeof(tn_driver),
                                 .abi_min = TN_DEVICE_ABI,
                                 .abi_max = TN_DEVICE_ABI,
                                 .name = "reference",
                                 .summary = "plain C kernels on one thread: what the others are measured against",
                                 .enumerate = enumerate_devices,
                                 .open = open_device,
                                 .close = close_device,
                                 .last_error = last_error,
                                 .get = get_property,
                                 .alloc = tn_reference_alloc,
                                 .free = tn_reference_free,
                                 .host_pointer = host_pointer,
                                 .queue_create = queue_create,
                                 .queue_destroy = queue_destroy,
                                 .copy_in = copy_in,
                                 .copy_out = copy_out,
                                 .copy = copy_within,
                                 .fill = fill,
                                 .execute = tn_reference_execute,
                                 .synchronize = synchronize,
                                 .weight_layout = weight_layout,
                                 .weight_pack = weight_pack,
                                 .state_layout = state_layout,
                                 .supports = supports,
                                 .prepare = tn_reference_prepare,
                                 .release = tn_reference_release,
                                 .record = tn_reference_record,
                                 .wait = tn_reference_wait,
                                 .event_destroy = tn_reference_event_destroy,
                                 .kernel_load = tn_reference_kernel_load,
                                 .kernel_function = tn_reference_kernel_function,
                                 .kernel_launch = tn_reference_kernel_launch,
                                 .kernel_unload = tn_reference_kernel_unload,
                                 .counters = tn_reference_counters};

const tn_driver *tn_reference_driver(void) {
  return &driver;
}
