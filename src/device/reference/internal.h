/* What the files of the reference driver share. */
#ifndef TENON_DEVICE_REFERENCE_INTERNAL_H
#define TENON_DEVICE_REFERENCE_INTERNAL_H

#include <stdbool.h>
#include "base/os.h"
#include "tenon/driver.h"

/* Where buffers begin, and what their length is rounded up to in private mode. */
#define TN_REFERENCE_ALIGNMENT 64u

struct tn_device {
  bool private_memory;
  tn_mutex *mutex;    /* guards all below; held while a program runs */
  uint32_t users;     /* driver calls that have the memory open now */
  tn_buffer *buffers; /* all that are allocated */
  char error[256];
};

struct tn_buffer {
  uint8_t *data;  /* the device's address of the first byte */
  uint64_t bytes; /* as asked for */
  void *mapping;  /* private mode: what `data` lies in; `mapped` bytes and a guard page */
  uint64_t mapped;
  tn_buffer *next, *previous;
};

struct tn_queue {
  tn_device *device;
  tn_counting counting; /* its memory is there once counters were asked for */
};

/* Notes a line for last_error (device NULL: of this thread) and returns `status`. */
__attribute__((format(printf, 3, 4))) tn_status tn_reference_fail(tn_device *device, tn_status status,
                                                                  const char *format, ...);

/* Is [offset, offset + bytes) inside the buffer? If not, TN_E_INVALID is noted. */
tn_status tn_reference_inside(tn_device *device, const tn_buffer *buffer, uint64_t offset, uint64_t bytes);

/* memory.c: the driver's alloc and free */
tn_status tn_reference_alloc(tn_device *device, uint64_t bytes, tn_buffer **buffer);
void tn_reference_free(tn_device *device, tn_buffer *buffer);
void tn_reference_free_all(tn_device *device);
/* Every driver call that touches device memory stands between these two. In private mode memory is accessible only
 * while some call has it open. TN_E_DEVICE_LOST when the system refuses. */
tn_status tn_reference_enter(tn_device *device);
void tn_reference_leave(tn_device *device);

/* program.c: the driver's functions for programs */
tn_status tn_reference_prepare(tn_device *device, const tn_program *program, const tn_weight_binding *weights,
                               uint32_t weight_count, tn_progress progress, void *progress_context,
                               tn_executable **executable);
tn_status tn_reference_execute(tn_queue *queue, tn_executable *executable, const tn_execution *execution);
void tn_reference_release(tn_executable *executable);

/* kernel.c: launches without a model, events, counters */
tn_status tn_reference_kernel_load(tn_device *device, const void *blob, uint64_t bytes, void **module);
tn_status tn_reference_kernel_function(void *module, const char *name, void **function);
tn_status tn_reference_kernel_launch(tn_queue *queue, void *function, const tn_launch *launch);
void tn_reference_kernel_unload(void *module);
tn_status tn_reference_record(tn_queue *queue, tn_event **event);
tn_status tn_reference_wait(tn_event *event, uint64_t deadline_ns);
void tn_reference_event_destroy(tn_event *event);
tn_status tn_reference_counters(tn_queue *queue, tn_op_counter *counters, uint32_t *count);

#endif
