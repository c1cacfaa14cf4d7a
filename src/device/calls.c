/* Calls of an opened device, with errors that name it (registry.h). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "device/check_status.h"
#include "device/registry.h"

/* TN_OK, or an error "device LABEL: WHAT: REASON" where WHAT is the format's text. */
__attribute__((format(printf, 4, 5))) static tn_status answer(tn_opened_device *d, tn_status status, tn_error *error,
                                                              const char *format, ...) {
  if (status == TN_OK) return TN_OK;
  char what[160];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  return tn_fail(error, tn_known_status(status), "device %s: %s: %s", d->label, what,
                 tn_driver_reason(status, d->driver->last_error(d->device)));
}

static tn_status no_result(tn_opened_device *d, tn_error *error, const char *what) {
  return tn_fail(error, TN_E_INTERNAL, "device %s: %s: the driver gave no result", d->label, what);
}

static unsigned long long big(uint64_t value) {
  return value;
}

tn_status tn_device_get(tn_opened_device *d, const char *name, tn_property *value, tn_error *error) {
  value->size = sizeof *value;
  return answer(d, d->driver->get(d->device, name, value), error, "property %s", name);
}

double tn_device_number(tn_opened_device *d, const char *name) {
  tn_property value;
  return tn_device_get(d, name, &value, NULL) == TN_OK && value.type == TN_PROPERTY_F64 ? value.f64 : 0;
}

double tn_device_peak_ops(tn_opened_device *d, uint32_t dtype) {
  double bf16 = dtype == TN_BF16 ? tn_device_number(d, "peak_bf16_ops") : 0;
  if (bf16 > 0) return bf16;
  return tn_device_number(d, dtype == TN_Q8A ? "peak_int8_ops" : "peak_f32_ops");
}

tn_status tn_device_alloc(tn_opened_device *d, uint64_t bytes, tn_buffer **buffer, tn_error *error) {
  *buffer = NULL;
  tn_status status = answer(d, d->driver->alloc(d->device, bytes, buffer), error, "alloc of %llu bytes", big(bytes));
  if (status == TN_OK && !*buffer) return no_result(d, error, "alloc");
  return status;
}

void tn_device_free(tn_opened_device *d, tn_buffer *buffer) {
  if (buffer) d->driver->free(d->device, buffer);
}

void *tn_device_host_pointer(tn_opened_device *d, tn_buffer *buffer) {
  return d->driver->host_pointer(d->device, buffer);
}

tn_status tn_device_queue_create(tn_opened_device *d, tn_queue **queue, tn_error *error) {
  *queue = NULL;
  tn_status status = answer(d, d->driver->queue_create(d->device, queue), error, "creating a queue");
  if (status == TN_OK && !*queue) return no_result(d, error, "creating a queue");
  return status;
}

void tn_device_queue_destroy(tn_opened_device *d, tn_queue *queue) {
  if (queue) d->driver->queue_destroy(queue);
}

tn_status tn_device_copy_in(tn_opened_device *d, tn_queue *queue, tn_buffer *to, uint64_t offset, const void *from,
                            uint64_t bytes, tn_error *error) {
  return answer(d, d->driver->copy_in(queue, to, offset, from, bytes), error, "copy in of %llu bytes to offset %llu",
                big(bytes), big(offset));
}

tn_status tn_device_copy_out(tn_opened_device *d, tn_queue *queue, void *to, tn_buffer *from, uint64_t offset,
                             uint64_t bytes, tn_error *error) {
  return answer(d, d->driver->copy_out(queue, to, from, offset, bytes), error,
                "copy out of %llu bytes from offset %llu", big(bytes), big(offset));
}

tn_status tn_device_copy(tn_opened_device *d, tn_queue *queue, tn_buffer *to, uint64_t to_offset, tn_buffer *from,
                         uint64_t from_offset, uint64_t bytes, tn_error *error) {
  return answer(d, d->driver->copy(queue, to, to_offset, from, from_offset, bytes), error,
                "copy of %llu bytes from offset %llu to %llu", big(bytes), big(from_offset), big(to_offset));
}

tn_status tn_device_fill(tn_opened_device *d, tn_queue *queue, tn_buffer *to, uint64_t offset, uint8_t byte,
                         uint64_t bytes, tn_error *error) {
  return answer(d, d->driver->fill(queue, to, offset, byte, bytes), error, "fill of %llu bytes at offset %llu",
                big(bytes), big(offset));
}

tn_status tn_device_execute(tn_opened_device *d, tn_queue *queue, tn_executable *executable,
                            const tn_execution *execution, tn_error *error) {
  return answer(d, d->driver->execute(queue, executable, execution), error, "execute");
}

tn_status tn_device_synchronize(tn_opened_device *d, tn_queue *queue, uint64_t deadline_ns, tn_error *error) {
  return answer(d, d->driver->synchronize(queue, deadline_ns), error, "synchronize");
}

tn_status tn_device_weight_layout(tn_opened_device *d, const tn_weight_desc *desc, tn_weight_layout *layout,
                                  tn_error *error) {
  layout->size = sizeof *layout;
  return answer(d, d->driver->weight_layout(d->device, desc, layout), error, "layout of a weight");
}

tn_status tn_device_weight_pack(tn_opened_device *d, tn_queue *queue, const tn_weight_desc *desc,
                                const tn_weight_layout *layout, const tn_weight_source *sources, uint32_t source_count,
                                tn_buffer *to, uint64_t offset, tn_error *error) {
  return answer(d, d->driver->weight_pack(queue, desc, layout, sources, source_count, to, offset), error,
                "packing a weight of %llu bytes", big(layout->bytes));
}

tn_status tn_device_state_layout(tn_opened_device *d, const tn_state_desc *desc, tn_state_layout *layout,
                                 tn_error *error) {
  layout->size = sizeof *layout;
  return answer(d, d->driver->state_layout(d->device, desc, layout), error, "layout of KV pages");
}

bool tn_device_supports(tn_opened_device *d, const tn_op_query *query) {
  return d->driver->supports(d->device, query) == TN_OK;
}

tn_status tn_device_prepare(tn_opened_device *d, const tn_program *program, const tn_weight_binding *weights,
                            uint32_t weight_count, tn_progress progress, void *progress_context,
                            tn_executable **executable, tn_error *error) {
  *executable = NULL;
  tn_status status =
      answer(d, d->driver->prepare(d->device, program, weights, weight_count, progress, progress_context, executable),
             error, "prepare");
  if (status == TN_OK && !*executable) return no_result(d, error, "prepare");
  return status;
}

void tn_device_release(tn_opened_device *d, tn_executable *executable) {
  if (executable) d->driver->release(executable);
}

/* ---- what a driver may lack ---- */

static tn_status lacks(tn_opened_device *d, tn_error *error, const char *what) {
  return tn_fail(error, TN_E_UNSUPPORTED, "device %s: the driver has no %s", d->label, what);
}

tn_status tn_device_record(tn_opened_device *d, tn_queue *queue, tn_event **event, tn_error *error) {
  *event = NULL;
  if (!d->driver->record || !d->driver->wait || !d->driver->event_destroy) return lacks(d, error, "events");
  tn_status status = answer(d, d->driver->record(queue, event), error, "recording an event");
  return status == TN_OK && !*event ? no_result(d, error, "recording an event") : status;
}

tn_status tn_device_wait(tn_opened_device *d, tn_event *event, uint64_t deadline_ns, tn_error *error) {
  return answer(d, d->driver->wait(event, deadline_ns), error, "waiting for an event");
}

void tn_device_event_destroy(tn_opened_device *d, tn_event *event) {
  if (event) d->driver->event_destroy(event);
}

tn_status tn_device_kernel_load(tn_opened_device *d, const void *blob, uint64_t bytes, void **module, tn_error *error) {
  const tn_driver *driver = d->driver;
  *module = NULL;
  if (!driver->kernel_load || !driver->kernel_function || !driver->kernel_launch || !driver->kernel_unload)
    return lacks(d, error, "kernel launches");
  tn_status status =
      answer(d, driver->kernel_load(d->device, blob, bytes, module), error, "loading a blob of %llu bytes", big(bytes));
  return status == TN_OK && !*module ? no_result(d, error, "loading a blob") : status;
}

tn_status tn_device_kernel_function(tn_opened_device *d, void *module, const char *name, void **function,
                                    tn_error *error) {
  *function = NULL;
  tn_status status = answer(d, d->driver->kernel_function(module, name, function), error, "kernel %s", name);
  return status == TN_OK && !*function ? no_result(d, error, name) : status;
}

tn_status tn_device_kernel_launch(tn_opened_device *d, tn_queue *queue, void *function, const tn_launch *launch,
                                  tn_error *error) {
  return answer(d, d->driver->kernel_launch(queue, function, launch), error, "launch over %u cores x %u threads",
                launch->cores, launch->threads);
}

void tn_device_kernel_unload(tn_opened_device *d, void *module) {
  if (module) d->driver->kernel_unload(module);
}

tn_status tn_device_counters(tn_opened_device *d, tn_queue *queue, tn_op_counter *counters, uint32_t *count,
                             tn_error *error) {
  if (!d->driver->counters) return lacks(d, error, "counters");
  return answer(d, d->driver->counters(queue, counters, count), error, "reading counters");
}

tn_status tn_device_instructions(tn_opened_device *d, tn_queue *queue, uint64_t *instructions, uint32_t count,
                                 tn_error *error) {
  memset(instructions, 0, count * sizeof *instructions);
  if (!d->driver->instructions) return TN_OK;
  return answer(d, d->driver->instructions(queue, instructions, count), error, "reading counts of instructions");
}

bool tn_device_can_map(const tn_opened_device *d) {
  return d->driver->map != NULL;
}

tn_status tn_device_map(tn_opened_device *d, const char *path, uint64_t offset, uint64_t bytes, tn_buffer **buffer,
                        tn_error *error) {
  *buffer = NULL;
  if (!d->driver->map) return lacks(d, error, "memory from files");
  tn_status status = answer(d, d->driver->map(d->device, path, offset, bytes, buffer), error, "map of %llu bytes of %s",
                            big(bytes), path);
  return status == TN_OK && !*buffer ? no_result(d, error, "map") : status;
}
