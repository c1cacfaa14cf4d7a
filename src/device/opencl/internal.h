/* What the files of the OpenCL driver share.
 *
 * An address, as the interpreter hands it to the launches in tn_tensor.data, is no pointer: it is the number of a
 * buffer and an offset in it, since what a kernel is given is a memory object of the runtime.
 *
 *     bits 63..40  number of the buffer, from 1     bits 39..0  byte offset
 */
#ifndef TENON_DEVICE_OPENCL_INTERNAL_H
#define TENON_DEVICE_OPENCL_INTERNAL_H

#include <stdbool.h>
#include "base/memory.h"
#include "base/os.h"
#include "device/opencl/kernels/arguments.h"
#include "device/opencl/library.h"
#include "tenon/driver.h"

#define TN_OPENCL_OFFSET_BITS 40u

/* X(NAME, name, work-items of a group in each dimension) */
#define TN_OPENCL_KERNELS(X)                      \
  X(LINEAR_ROWS, linear_rows, 16, 4, 1)           \
  X(LINEAR_TILE, linear_tile, 64, 1, 1)           \
  X(EMBED, embed, 32, 1, 1)                       \
  X(COPY_COLUMNS, copy_columns, 64, 1, 1)         \
  X(VALUE_BY_VALUE, value_by_value, 64, 1, 1)     \
  X(QUANTISE, quantise, 32, 1, 1)                 \
  X(NORM, norm, 64, 1, 1)                         \
  X(ROPE_TABLE, rope_table, 32, 1, 1)             \
  X(ROPE, rope, 32, 1, 1)                         \
  X(KV_WRITE, kv_write, 32, 1, 1)                 \
  X(ATTENTION, attention, 32, 1, 1)               \
  X(ATTENTION_MASKED, attention_masked, 32, 1, 1) \
  X(MOE_ROUTE, moe_route, 32, 1, 1)               \
  X(MOE_COMBINE, moe_combine, 64, 1, 1)           \
  X(SHORT_CONV, short_conv, 32, 1, 1)             \
  X(DELTA_RULE, delta_rule, 32, 1, 1)

typedef enum tn_opencl_kernel {
#define X(NAME, name, x, y, z) TN_OPENCL_##NAME,
  TN_OPENCL_KERNELS(X)
#undef X
      TN_OPENCL_KERNEL_COUNT
} tn_opencl_kernel;

struct tn_buffer {
  cl_mem memory;
  uint64_t bytes; /* as asked for */
  uint32_t number;
  bool is_part; /* of another buffer's memory */
};

/* Built kernels; NULL: not there. */
typedef struct tn_opencl_program {
  cl_program program;
  cl_kernel kernels[TN_OPENCL_KERNEL_COUNT];
} tn_opencl_program;

/* The number of the program of all kernels. */
#define TN_OPENCL_ALL TN_DTYPE_COUNT

struct tn_device {
  cl_api api;
  tn_opencl_found found;
  cl_context context;
  cl_queue own;                                   /* for what belongs to no queue: zeroing */
  bool cached;                                    /* the built kernels are kept on disk */
  bool specialise;                                /* a program of linear's kernels for each format of weights */
  tn_opencl_program programs[TN_DTYPE_COUNT + 1]; /* those by format, and the one of all kernels; made when needed */
  bool exact_division; /* divisions and roots are correctly rounded: 8-bit activations are the cpu's */
  uint64_t alignment, memory_total, max_allocation, local_memory;
  tn_mutex *mutex;     /* guards all below, and the arguments of the kernels */
  tn_buffer **buffers; /* by number; [0] is none */
  size_t buffer_count, buffer_capacity;
  uint64_t allocated;
  char error[512];
};

/* Memory of the host that the device reads from, until `event`. */
typedef struct tn_opencl_upload {
  cl_event event;
  void *data;
  uint64_t bytes;
} tn_opencl_upload;

/* A kernel of a counted op. */
typedef struct tn_opencl_measure {
  cl_event event;
  uint64_t enqueued_ns;
  uint32_t counter;
} tn_opencl_measure;

struct tn_queue {
  tn_device *device;
  cl_queue commands;
  tn_opencl_upload *uploads;
  size_t upload_count, upload_capacity;
  uint64_t upload_bytes;
  cl_mem batch; /* of the execution that runs or ran last */
  uint64_t batch_bytes;
  tn_counting counting; /* its memory is there once counters were asked for */
  tn_opencl_measure *measures;
  size_t measure_count, measure_capacity;
};

/* One execution: what the launches of an op need. */
typedef struct tn_opencl_run {
  tn_queue *queue;
  batch_arguments batch;
} tn_opencl_run;

/* driver.c: notes a line for last_error (device NULL: of this thread) and returns `status`. */
__attribute__((format(printf, 3, 4))) tn_status tn_opencl_fail(tn_device *device, tn_status status, const char *format,
                                                               ...);
/* The same for an error of the runtime: TN_OK for CL_SUCCESS; `what` was tried. */
tn_status tn_opencl_check(tn_device *device, int32_t error, const char *what);
/* The status an error of the runtime stands for, and its name. */
tn_status tn_opencl_status(int32_t error);
const char *tn_opencl_error_name(int32_t error);

/* build.c: makes sure that a program is there: of all kernels (TN_OPENCL_ALL), or of linear's for weights of a dtype.
 * The caller holds the mutex. TN_E_UNSUPPORTED with the compiler's log where it can't be built. */
tn_status tn_opencl_build(tn_device *device, uint32_t number);
void tn_opencl_drop_programs(tn_device *device);

/* memory.c */
tn_status tn_opencl_alloc(tn_device *device, uint64_t bytes, tn_buffer **buffer);
void tn_opencl_free(tn_device *device, tn_buffer *buffer);
void tn_opencl_free_all(tn_device *device);
tn_status tn_opencl_inside(tn_device *device, const tn_buffer *buffer, uint64_t offset, uint64_t bytes);
/* A part of a buffer as a buffer of its own (one object for the runtime, no memory of its own); where it can't be,
 * NULL: its begin isn't aligned as the device wants. Freed as any other. */
tn_buffer *tn_opencl_part(tn_device *device, const tn_buffer *whole, uint64_t offset, uint64_t bytes);
static inline void *tn_opencl_address(const tn_buffer *buffer, uint64_t offset) {
  return (void *)(uintptr_t)((uint64_t)buffer->number << TN_OPENCL_OFFSET_BITS | offset);
}
tn_status tn_opencl_copy_in(tn_queue *queue, tn_buffer *to, uint64_t offset, const void *from, uint64_t bytes);
tn_status tn_opencl_copy_out(tn_queue *queue, void *to, tn_buffer *from, uint64_t offset, uint64_t bytes);
tn_status tn_opencl_copy(tn_queue *queue, tn_buffer *to, uint64_t to_offset, tn_buffer *from, uint64_t from_offset,
                         uint64_t bytes);
tn_status tn_opencl_fill(tn_queue *queue, tn_buffer *to, uint64_t offset, uint8_t byte, uint64_t bytes);
/* Writes `bytes` of `data`, which becomes the queue's and is freed when they are over. */
tn_status tn_opencl_upload_own(tn_queue *queue, cl_mem to, uint64_t offset, void *data, uint64_t bytes);
tn_status tn_opencl_weight_layout(tn_device *device, const tn_weight_desc *desc, tn_weight_layout *layout);
tn_status tn_opencl_weight_pack(tn_queue *queue, const tn_weight_desc *desc, const tn_weight_layout *layout,
                                const tn_weight_source *sources, uint32_t source_count, tn_buffer *to, uint64_t offset);
tn_status tn_opencl_state_layout(tn_device *device, const tn_state_desc *desc, tn_state_layout *layout);

/* queue.c */
tn_status tn_opencl_queue_create(tn_device *device, tn_queue **queue);
void tn_opencl_queue_destroy(tn_queue *queue);
tn_status tn_opencl_synchronize(tn_queue *queue, uint64_t deadline_ns);
tn_status tn_opencl_record(tn_queue *queue, tn_event **event);
tn_status tn_opencl_wait(tn_event *event, uint64_t deadline_ns);
void tn_opencl_event_destroy(tn_event *event);
tn_status tn_opencl_counters(tn_queue *queue, tn_op_counter *counters, uint32_t *count);
/* Frees what uploads that are over have left; with `all`, waits for the others. */
tn_status tn_opencl_reap(tn_queue *queue, bool all);

/* program.c, execute.c */
tn_status tn_opencl_supports(tn_device *device, const tn_op_query *query);
tn_status tn_opencl_prepare(tn_device *device, const tn_program *program, const tn_weight_binding *weights,
                            uint32_t weight_count, tn_progress progress, void *progress_context,
                            tn_executable **executable);
void tn_opencl_release(tn_executable *executable);
tn_status tn_opencl_execute(tn_queue *queue, tn_executable *executable, const tn_execution *execution);
const tn_kernel_table *tn_opencl_launches(void);

struct tn_executable {
  tn_device *device;
  tn_program *program;
  tn_tensor *weights; /* by binding number, as are all below */
  tn_buffer **parts;  /* of the weights; NULL where the whole buffer is used */
  uint64_t *page_bytes;
  void **inputs, **outputs, **states; /* addresses of the execution that is handed in now */
};

/* ---- launches: begin, memory and values in the kernel's order, run; the first error stays ---- */

typedef struct tn_opencl_launch {
  tn_opencl_run *run;
  tn_opencl_kernel kernel;
  cl_kernel built;
  uint32_t argument;
  int32_t error;
} tn_opencl_launch;

tn_opencl_launch tn_opencl_begin(const tn_kernel_call *call, tn_opencl_kernel kernel);
/* The kernel made for weights of `dtype` where there is one. */
tn_opencl_launch tn_opencl_begin_for(const tn_kernel_call *call, tn_opencl_kernel kernel, uint32_t dtype);
/* Gives the kernel the operand's memory (NULL: none) and answers where in it the operand begins. */
uint64_t tn_opencl_memory(tn_opencl_launch *launch, const tn_tensor *tensor);
/* The batch's memory; the kernel's arguments say where in it the parts are. */
batch_arguments tn_opencl_batch(tn_opencl_launch *launch);
void tn_opencl_values(tn_opencl_launch *launch, const void *values, size_t bytes);
void tn_opencl_local(tn_opencl_launch *launch, size_t bytes);
/* Runs over at least x * y * z work-items, rounded up to whole groups. */
tn_status tn_opencl_run_over(tn_opencl_launch *launch, uint64_t x, uint64_t y, uint64_t z);

/* launch_*.c: one function an op, as entries of the kernel table */
tn_status tn_opencl_linear(const tn_kernel_call *call);
tn_status tn_opencl_moe_linear(const tn_kernel_call *call);
tn_status tn_opencl_head_linear(const tn_kernel_call *call);
tn_status tn_opencl_embed(const tn_kernel_call *call);
tn_status tn_opencl_select_rows(const tn_kernel_call *call);
tn_status tn_opencl_slice(const tn_kernel_call *call);
tn_status tn_opencl_concat(const tn_kernel_call *call);
tn_status tn_opencl_value_by_value(const tn_kernel_call *call);
tn_status tn_opencl_norm(const tn_kernel_call *call);
tn_status tn_opencl_quantise(const tn_kernel_call *call);
tn_status tn_opencl_rope_table(const tn_kernel_call *call);
tn_status tn_opencl_rope(const tn_kernel_call *call);
tn_status tn_opencl_kv_write(const tn_kernel_call *call);
tn_status tn_opencl_kv_columns(const tn_kernel_call *call);
tn_status tn_opencl_attention(const tn_kernel_call *call);
tn_status tn_opencl_attention_masked(const tn_kernel_call *call);
tn_status tn_opencl_moe_route(const tn_kernel_call *call);
tn_status tn_opencl_moe_combine(const tn_kernel_call *call);
tn_status tn_opencl_short_conv(const tn_kernel_call *call);
tn_status tn_opencl_delta_rule(const tn_kernel_call *call);

static inline uint32_t tn_opencl_columns(const tn_tensor *tensor) {
  return tensor->dims[tensor->rank - 1];
}
static inline uint32_t tn_opencl_rows(const tn_tensor *tensor) {
  uint32_t rows = 1;
  for (uint32_t i = 0; i + 1 < tensor->rank; i++) rows *= tensor->dims[i];
  return rows;
}
/* Input `index` of a call, or NULL where it is absent. */
static inline const tn_tensor *tn_opencl_input(const tn_kernel_call *call, uint32_t index) {
  return index < call->input_count && call->inputs[index].data ? &call->inputs[index] : NULL;
}

#endif
