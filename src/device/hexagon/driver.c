/* The hexagon driver's table: opening, properties, queues, copies, events. */
#include "device/hexagon/driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "device/hexagon/image.h"
#include "device/hexagon/internal.h"

#define DEFAULT_MOST_THREADS 4u
#define DEFAULT_PATIENCE_MS 60000u

/* What last_error(NULL) tells: failures before there is a device, of each thread. */
static _Thread_local char open_error[256];

tn_status tn_hexagon_fail(tn_device *device, tn_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(device ? device->error : open_error, device ? sizeof device->error : sizeof open_error, format, arguments);
  va_end(arguments);
  return status;
}

static const char *last_error(tn_device *device) {
  return device ? device->error : open_error;
}

/* ---- opening ---- */

/* Whether there is a DSP here; if not, why is noted for the thread. */
static tn_status find_dsp(void) {
  char message[200];
  size_t bytes;
  if (!tn_hexagon_image(&bytes))
    return tn_hexagon_fail(NULL, TN_E_UNSUPPORTED,
                           "tenon was built without a compiler for Hexagon: install clang-19 and lld-19, configure and "
                           "build again");
  tn_status status = tn_transport_check(message, sizeof message);
  return status == TN_OK ? TN_OK : tn_hexagon_fail(NULL, status, "%s", message);
}

static tn_status enumerate_devices(uint32_t *count) {
  open_error[0] = 0;
  *count = find_dsp() == TN_OK ? TN_HEXAGON_SESSIONS : 0;
  return TN_OK;
}

/* A whole number of an option, from `least` to `most`. */
static tn_status read_number(const tn_option *option, uint32_t least, uint32_t most, uint32_t *number) {
  char *end;
  unsigned long value = strtoul(option->value, &end, 10);
  if (*end || end == option->value || option->value[0] == '-' || value < least || value > most)
    return tn_hexagon_fail(NULL, TN_E_INVALID, "%s=%s isn't a number from %u to %u", option->key, option->value, least,
                           most);
  *number = (uint32_t)value;
  return TN_OK;
}

static tn_status read_options(const tn_option *options, uint32_t count, tn_device *device) {
  uint32_t patience_ms = DEFAULT_PATIENCE_MS;
  unsigned cpus = tn_machine_cpus();
  device->threads = cpus < DEFAULT_MOST_THREADS ? cpus : DEFAULT_MOST_THREADS;
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < count && status == TN_OK; i++) {
    if (!strcmp(options[i].key, "threads"))
      status = read_number(&options[i], 1, TN_HEXAGON_MAX_THREADS, &device->threads);
    else if (!strcmp(options[i].key, "patience-ms"))
      status = read_number(&options[i], 1, UINT32_MAX, &patience_ms);
    else
      status =
          tn_hexagon_fail(NULL, TN_E_INVALID, "no option \"%s\" (there are: threads, patience-ms)", options[i].key);
  }
  device->patience_ns = (uint64_t)patience_ms * 1000000u;
  return status;
}

/* A process has so many sessions, however many devices are opened. */
static _Atomic uint32_t sessions_taken;

static tn_status take_session(tn_device *device) {
  if (sessions_taken++ < TN_HEXAGON_SESSIONS) {
    device->has_session = true;
    return TN_OK;
  }
  sessions_taken--;
  return tn_hexagon_fail(NULL, TN_E_LIMIT, "all %u sessions that a process may have are open", TN_HEXAGON_SESSIONS);
}

static void close_device(tn_device *device) {
  if (!device) return;
  tn_hexagon_session_stop(device);
  if (device->has_session) sessions_taken--;
  tn_hexagon_forget_buffers(device);
  tn_mutex_destroy(device->mutex);
  free(device);
}

static tn_status open_device(uint32_t index, const tn_option *options, uint32_t option_count, tn_device **device) {
  *device = NULL;
  if (index >= TN_HEXAGON_SESSIONS)
    return tn_hexagon_fail(NULL, TN_E_NOT_FOUND, "no session %u, there are %u", index, TN_HEXAGON_SESSIONS);
  tn_status status = find_dsp();
  if (status != TN_OK) return status;
  tn_device *made = tn_calloc(1, sizeof *made);
  if (made) made->mutex = tn_mutex_create();
  if (!made || !made->mutex) {
    free(made);
    return tn_hexagon_fail(NULL, TN_E_MEMORY, "out of memory");
  }
  status = read_options(options, option_count, made);
  if (status == TN_OK) status = take_session(made);
  if (status == TN_OK) status = tn_hexagon_session_start(made);
  if (status != TN_OK) {
    close_device(made);
    return status;
  }
  *device = made;
  return TN_OK;
}

static tn_status get_property(tn_device *device, const char *name, tn_property *value) {
  uint64_t free_bytes = strcmp(name, "memory_free") ? 0 : tn_hexagon_free_bytes(device);
  char kernels[sizeof device->control->kernels]; /* the DSP may write what it likes there */
  snprintf(kernels, sizeof kernels, "%.*s", (int)sizeof kernels - 1, device->control->kernels);
  const tn_named_property properties[] = {{"name", "Hexagon DSP in qemu", 0},
                                          {"kv", "paged", 0},
                                          {"rows", "any", 0},
                                          {"instruction_set", kernels, 0},
                                          {"memory_total", NULL, TN_HEXAGON_WINDOW_BYTES},
                                          {"memory_free", NULL, free_bytes},
                                          {"max_allocation", NULL, TN_HEXAGON_WINDOW_BYTES - TN_HEXAGON_HEAP},
                                          {"alignment", NULL, TN_HEXAGON_VECTOR},
                                          {"cores", NULL, 1},
                                          {"threads", NULL, device->threads},
                                          {"batch_invariant", NULL, 1}};
  tn_status status = tn_property_find(properties, TN_COUNT(properties), name, value);
  return status == TN_OK ? TN_OK : tn_hexagon_fail(device, TN_E_NOT_FOUND, "there is no property %s", name);
}

/* ---- queues ---- */

static tn_status queue_create(tn_device *device, tn_queue **queue) {
  *queue = tn_calloc(1, sizeof **queue);
  if (!*queue) return tn_hexagon_fail(device, TN_E_MEMORY, "out of memory");
  (*queue)->device = device;
  tn_mutex_lock(device->mutex);
  (*queue)->last = device->retired;
  tn_mutex_unlock(device->mutex);
  return TN_OK;
}

/* Waits for the work of the queue and takes its answers in. */
static tn_status settle(tn_queue *queue, uint64_t deadline_ns) {
  tn_device *device = queue->device;
  tn_status status = tn_hexagon_wait(device, queue->last, deadline_ns);
  if (status != TN_OK) return status;
  tn_mutex_lock(device->mutex);
  tn_hexagon_retire(device);
  tn_mutex_unlock(device->mutex);
  return tn_hexagon_session_check(device);
}

static void queue_destroy(tn_queue *queue) {
  if (!queue) return;
  settle(queue, UINT64_MAX);
  free(queue->counters);
  free(queue->instructions);
  free(queue);
}

static tn_status synchronize(tn_queue *queue, uint64_t deadline_ns) {
  tn_status status = settle(queue, deadline_ns);
  if (status != TN_OK) return status;
  status = queue->status;
  queue->status = TN_OK;
  return status;
}

tn_status tn_hexagon_inside(tn_device *device, const tn_buffer *buffer, uint64_t offset, uint64_t bytes) {
  if (buffer && offset <= buffer->bytes && bytes <= buffer->bytes - offset) return TN_OK;
  return tn_hexagon_fail(device, TN_E_INVALID, "%llu bytes at %llu do not lie in a buffer of %llu",
                         (unsigned long long)bytes, (unsigned long long)offset,
                         (unsigned long long)(buffer ? buffer->bytes : 0));
}

/* The host's address of a part of a buffer, once all before it on the queue is done. */
static tn_status reach(tn_queue *queue, const tn_buffer *buffer, uint64_t offset, uint64_t bytes, uint8_t **address) {
  tn_status status = tn_hexagon_inside(queue->device, buffer, offset, bytes);
  if (status == TN_OK) status = settle(queue, UINT64_MAX);
  if (status == TN_OK) *address = queue->device->window + buffer->offset + offset;
  return status;
}

static tn_status copy_in(tn_queue *queue, tn_buffer *to, uint64_t offset, const void *from, uint64_t bytes) {
  uint8_t *address;
  tn_status status = reach(queue, to, offset, bytes, &address);
  if (status == TN_OK && bytes) memcpy(address, from, bytes);
  return status;
}

static tn_status copy_out(tn_queue *queue, void *to, tn_buffer *from, uint64_t offset, uint64_t bytes) {
  uint8_t *address;
  tn_status status = reach(queue, from, offset, bytes, &address);
  if (status == TN_OK && bytes) memcpy(to, address, bytes);
  return status;
}

static tn_status copy_within(tn_queue *queue, tn_buffer *to, uint64_t to_offset, tn_buffer *from, uint64_t from_offset,
                             uint64_t bytes) {
  uint8_t *target, *source;
  tn_status status = reach(queue, to, to_offset, bytes, &target);
  if (status == TN_OK) status = reach(queue, from, from_offset, bytes, &source);
  if (status == TN_OK) memmove(target, source, bytes);
  return status;
}

static tn_status fill(tn_queue *queue, tn_buffer *to, uint64_t offset, uint8_t byte, uint64_t bytes) {
  uint8_t *address;
  tn_status status = reach(queue, to, offset, bytes, &address);
  if (status == TN_OK) memset(address, byte, bytes);
  return status;
}

static tn_status weight_pack(tn_queue *queue, const tn_weight_desc *desc, const tn_weight_layout *layout,
                             const tn_weight_source *sources, uint32_t source_count, tn_buffer *to, uint64_t offset) {
  uint8_t *address;
  if (offset % TN_HEXAGON_VECTOR)
    return tn_hexagon_fail(queue->device, TN_E_INVALID, "packed weights begin at multiples of %u", TN_HEXAGON_VECTOR);
  tn_status status = reach(queue, to, offset, layout->bytes, &address);
  return status == TN_OK ? tn_hexagon_pack(queue->device, desc, layout, sources, source_count, address) : status;
}

/* ---- events, counters ---- */

struct tn_event {
  tn_device *device;
  uint32_t last; /* of the queue when it was recorded */
};

static tn_status record(tn_queue *queue, tn_event **event) {
  *event = tn_calloc(1, sizeof **event);
  if (!*event) return tn_hexagon_fail(queue->device, TN_E_MEMORY, "out of memory");
  **event = (tn_event){queue->device, queue->last};
  return TN_OK;
}

static tn_status wait_event(tn_event *event, uint64_t deadline_ns) {
  return tn_hexagon_wait(event->device, event->last, deadline_ns);
}

static void event_destroy(tn_event *event) {
  free(event);
}

static tn_status read_counters(tn_queue *queue, tn_op_counter *counters, uint32_t *count) {
  uint32_t capacity = *count;
  tn_status status = settle(queue, UINT64_MAX);
  if (status != TN_OK) return status;
  if (!queue->counters) { /* measuring begins */
    queue->instructions = tn_calloc(TN_HEXAGON_MAX_COUNTERS, sizeof *queue->instructions);
    if (queue->instructions) queue->counters = tn_calloc(TN_HEXAGON_MAX_COUNTERS, sizeof *queue->counters);
    if (!queue->counters) {
      free(queue->instructions);
      return tn_hexagon_fail(queue->device, TN_E_MEMORY, "no memory for counters");
    }
  }
  *count = queue->counter_count;
  if (capacity < queue->counter_count) return TN_OK;
  if (*count) memcpy(counters, queue->counters, *count * sizeof *counters);
  queue->counter_count = 0;
  return TN_OK;
}

static tn_status read_instructions(tn_queue *queue, uint64_t *instructions, uint32_t count) {
  if (!queue->instructions || count > TN_HEXAGON_MAX_COUNTERS)
    return tn_hexagon_fail(queue->device, TN_E_INVALID, "%u counters were never told", count);
  memcpy(instructions, queue->instructions, count * sizeof *instructions);
  return TN_OK;
}

/* ---- the table ---- */

static const tn_driver driver = {.size = sizeof(tn_driver),
                                 .abi_min = TN_DEVICE_ABI,
                                 .abi_max = TN_DEVICE_ABI,
                                 .name = "hexagon",
                                 .summary = "a Hexagon DSP with its own program, over shared memory (here in qemu)",
                                 .enumerate = enumerate_devices,
                                 .open = open_device,
                                 .close = close_device,
                                 .last_error = last_error,
                                 .get = get_property,
                                 .alloc = tn_hexagon_alloc,
                                 .free = tn_hexagon_free,
                                 .host_pointer = tn_hexagon_host_pointer,
                                 .queue_create = queue_create,
                                 .queue_destroy = queue_destroy,
                                 .copy_in = copy_in,
                                 .copy_out = copy_out,
                                 .copy = copy_within,
                                 .fill = fill,
                                 .execute = tn_hexagon_execute,
                                 .synchronize = synchronize,
                                 .weight_layout = tn_hexagon_weight_layout,
                                 .weight_pack = weight_pack,
                                 .state_layout = tn_hexagon_state_layout,
                                 .supports = tn_hexagon_supports,
                                 .prepare = tn_hexagon_prepare,
                                 .release = tn_hexagon_release,
                                 .record = record,
                                 .wait = wait_event,
                                 .event_destroy = event_destroy,
                                 .counters = read_counters,
                                 .instructions = read_instructions};

const tn_driver *tn_hexagon_driver(void) {
  return &driver;
}
