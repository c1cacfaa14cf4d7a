/* What the files of the cpu driver share. */
#ifndef TENON_DEVICE_CPU_INTERNAL_H
#define TENON_DEVICE_CPU_INTERNAL_H

#include "base/os.h"
#include "device/cpu/pool.h"
#include "kernels/kernels.h"

#define TN_CPU_ALIGNMENT 64u
#define TN_CPU_MAX_THREADS 256u

struct tn_device {
  const tn_kernel_set *kernels;
  tn_pool *pool;
  tn_mutex *mutex; /* held while the pool works: queues of one device take turns */
  uint32_t threads;
  double peak_int8, peak_f32, peak_bf16, peak_bytes; /* measured when first asked for; 0: not yet */
  char error[256];
};

struct tn_buffer {
  uint8_t *data;
  uint64_t bytes;
  bool mapped; /* of a file */
};

struct tn_queue {
  tn_device *device;
  tn_counting counting; /* its memory is there once counters were asked for */
};

/* A program prepared. The arrays are by binding number. */
struct tn_executable {
  tn_device *device;
  tn_program *program;
  tn_tensor *weights;
  uint32_t *layouts; /* of the weights */
  uint64_t *page_bytes;
  void **inputs, **outputs, **states; /* addresses of the execution that runs now */
  uint8_t *workspace;
  uint64_t workspace_bytes; /* for each worker */
  bool has_run;
};

/* Notes a line for last_error (device NULL: of this thread) and returns `status`. */
__attribute__((format(printf, 3, 4))) tn_status tn_cpu_fail(tn_device *device, tn_status status, const char *format,
                                                            ...);

/* TN_OK when bytes [offset, offset + bytes) lie in the buffer; else notes it. */
tn_status tn_cpu_inside(tn_device *device, const tn_buffer *buffer, uint64_t offset, uint64_t bytes);

/* The kernel set to use: the best this processor has, or what TENON_CPU names. NULL with an error noted for this
 * thread. */
const tn_kernel_set *tn_cpu_choose_kernels(void);

/* The driver's functions, by file: memory.c, */
tn_status tn_cpu_alloc(tn_device *device, uint64_t bytes, tn_buffer **buffer);
void tn_cpu_free(tn_device *device, tn_buffer *buffer);
/* The first 2 MB of a part of a buffer will be filled bit by bit: they take memory in small pages. */
void tn_cpu_begin_small(const tn_buffer *buffer, uint64_t offset, uint64_t bytes);
tn_status tn_cpu_map(tn_device *device, const char *path, uint64_t offset, uint64_t bytes, tn_buffer **buffer);
/* program.c, */
tn_status tn_cpu_state_layout(tn_device *device, const tn_state_desc *desc, tn_state_layout *layout);
tn_status tn_cpu_supports(tn_device *device, const tn_op_query *query);
tn_status tn_cpu_prepare(tn_device *device, const tn_program *program, const tn_weight_binding *weights,
                         uint32_t weight_count, tn_progress progress, void *progress_context,
                         tn_executable **executable);
void tn_cpu_release(tn_executable *executable);
/* execute.c, */
tn_status tn_cpu_execute(tn_queue *queue, tn_executable *executable, const tn_execution *execution);
/* properties.c */
tn_status tn_cpu_get(tn_device *device, const char *name, tn_property *value);

/* kernel.c: launches without a model, events, counters */
tn_status tn_cpu_kernel_load(tn_device *device, const void *blob, uint64_t bytes, void **module);
tn_status tn_cpu_kernel_function(void *module, const char *name, void **function);
tn_status tn_cpu_kernel_launch(tn_queue *queue, void *function, const tn_launch *launch);
void tn_cpu_kernel_unload(void *module);
tn_status tn_cpu_record(tn_queue *queue, tn_event **event);
tn_status tn_cpu_wait(tn_event *event, uint64_t deadline_ns);
void tn_cpu_event_destroy(tn_event *event);
tn_status tn_cpu_counters(tn_queue *queue, tn_op_counter *counters, uint32_t *count);

#endif
