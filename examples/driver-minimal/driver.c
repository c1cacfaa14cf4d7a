/* The smallest driver that runs every model: host memory, one thread, the interpreter over the reference kernels.
 *
 *   cc -shared -fPIC driver.c $(pkg-config --cflags --libs tenon-driver) -o minimal.so
 *   tenon devices --driver ./minimal.so
 *   tenon run MODEL -p PROMPT --device ./minimal.so
 *
 * It is a place to start from: give `alloc` the silicon's memory, `execute` its queue, and replace kernels one after
 * the other in the table that tn_reference_kernels() gives. Work is done before each call returns, which the
 * interface allows; so `synchronize` has nothing to wait for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/driver.h>

#define ALIGNMENT 64u
#define MEMORY_BYTES (UINT64_C(1) << 36)
#define WORKSPACE_BYTES (16u << 20) /* for kernels, one worker */

struct tn_device {
  char error[256];
};
struct tn_buffer {
  uint64_t bytes;
  unsigned char *data;
};
struct tn_queue {
  tn_device *device;
};
struct tn_executable {
  tn_device *device;
  tn_program *program;
  tn_tensor *weights;
  uint64_t *page_bytes; /* by state binding */
  void *workspace;
};

static tn_status fail(tn_device *device, tn_status status, const char *text) {
  snprintf(device->error, sizeof device->error, "%s", text);
  return status;
}

/* ---- driver ---- */

static tn_status minimal_enumerate(uint32_t *count) {
  *count = 1;
  return TN_OK;
}

static tn_status minimal_open(uint32_t index, const tn_option *options, uint32_t option_count, tn_device **device) {
  (void)options;
  *device = NULL;
  if (index != 0 || option_count != 0) return TN_E_INVALID;
  *device = calloc(1, sizeof **device);
  return *device ? TN_OK : TN_E_MEMORY;
}

static void minimal_close(tn_device *device) {
  free(device);
}

static const char *minimal_last_error(tn_device *device) {
  return device ? device->error : "there is one device, number 0, and it takes no options";
}

static tn_status minimal_get(tn_device *device, const char *name, tn_property *value) {
  static const tn_named_property properties[] = {
      {"name", "minimal: the reference kernels in host memory", 0},
      {"kv", "paged", 0},
      {"rows", "any", 0},
      {"memory_total", NULL, MEMORY_BYTES},
      {"memory_free", NULL, MEMORY_BYTES},
      {"max_allocation", NULL, MEMORY_BYTES},
      {"alignment", NULL, ALIGNMENT},
      {"cores", NULL, 1},
      {"threads", NULL, 1},
      {"batch_invariant", NULL, 1},
  };
  tn_status status = tn_property_find(properties, sizeof properties / sizeof *properties, name, value);
  return status == TN_OK ? TN_OK : fail(device, TN_E_NOT_FOUND, "no such property");
}

/* ---- memory ---- */

static tn_status minimal_alloc(tn_device *device, uint64_t bytes, tn_buffer **buffer) {
  *buffer = NULL;
  tn_buffer *made = calloc(1, sizeof *made);
  if (!made || bytes > MEMORY_BYTES) goto out_of_memory;
  made->bytes = bytes;
  made->data = aligned_alloc(ALIGNMENT, (size_t)(bytes / ALIGNMENT + 1) * ALIGNMENT);
  if (!made->data) goto out_of_memory;
  memset(made->data, 0, (size_t)bytes);
  *buffer = made;
  return TN_OK;
out_of_memory:
  free(made);
  return fail(device, TN_E_MEMORY, "out of host memory");
}

static void minimal_free(tn_device *device, tn_buffer *buffer) {
  (void)device;
  if (buffer) free(buffer->data);
  free(buffer);
}

static void *minimal_host_pointer(tn_device *device, tn_buffer *buffer) {
  (void)device;
  return buffer->data;
}

/* ---- queue ---- */

static tn_status minimal_queue_create(tn_device *device, tn_queue **queue) {
  *queue = calloc(1, sizeof **queue);
  if (!*queue) return fail(device, TN_E_MEMORY, "out of host memory");
  (*queue)->device = device;
  return TN_OK;
}

static void minimal_queue_destroy(tn_queue *queue) {
  free(queue);
}

static int inside(const tn_buffer *buffer, uint64_t offset, uint64_t bytes) {
  return offset <= buffer->bytes && bytes <= buffer->bytes - offset;
}

static tn_status outside(tn_queue *queue) {
  return fail(queue->device, TN_E_INVALID, "the range lies outside its buffer");
}

static tn_status minimal_copy_in(tn_queue *queue, tn_buffer *to, uint64_t offset, const void *from, uint64_t bytes) {
  if (!inside(to, offset, bytes)) return outside(queue);
  memcpy(to->data + offset, from, (size_t)bytes);
  return TN_OK;
}

static tn_status minimal_copy_out(tn_queue *queue, void *to, tn_buffer *from, uint64_t offset, uint64_t bytes) {
  if (!inside(from, offset, bytes)) return outside(queue);
  memcpy(to, from->data + offset, (size_t)bytes);
  return TN_OK;
}

static tn_status minimal_copy(tn_queue *queue, tn_buffer *to, uint64_t to_offset, tn_buffer *from, uint64_t from_offset,
                              uint64_t bytes) {
  if (!inside(to, to_offset, bytes) || !inside(from, from_offset, bytes)) return outside(queue);
  memmove(to->data + to_offset, from->data + from_offset, (size_t)bytes);
  return TN_OK;
}

static tn_status minimal_fill(tn_queue *queue, tn_buffer *to, uint64_t offset, uint8_t byte, uint64_t bytes) {
  if (!inside(to, offset, bytes)) return outside(queue);
  memset(to->data + offset, byte, (size_t)bytes);
  return TN_OK;
}

static tn_status minimal_synchronize(tn_queue *queue, uint64_t deadline_ns) {
  (void)queue;
  (void)deadline_ns;
  return TN_OK;
}

/* ---- weights and states: the plain layouts of driver.h ---- */

static tn_status minimal_weight_layout(tn_device *device, const tn_weight_desc *desc, tn_weight_layout *layout) {
  tn_status status = tn_plain_layout(desc, layout);
  return status == TN_OK ? TN_OK : fail(device, status, "no plain layout for this weight");
}

static tn_status minimal_weight_pack(tn_queue *queue, const tn_weight_desc *desc, const tn_weight_layout *layout,
                                     const tn_weight_source *sources, uint32_t source_count, tn_buffer *to,
                                     uint64_t offset) {
  if (!inside(to, offset, layout->bytes)) return outside(queue);
  tn_status status = tn_plain_pack(desc, sources, source_count, to->data + offset);
  return status == TN_OK ? TN_OK : fail(queue->device, status, "the sources don't make up the weight");
}

static tn_status minimal_state_layout(tn_device *device, const tn_state_desc *desc, tn_state_layout *layout) {
  tn_status status = tn_plain_state_layout(desc, layout);
  return status == TN_OK ? TN_OK : fail(device, status, "no plain page for this state");
}

/* ---- programs ---- */

static tn_status minimal_supports(tn_device *device, const tn_op_query *query) {
  tn_status status = tn_reference_supports(query);
  return status == TN_OK ? TN_OK : fail(device, status, "the reference kernels can't run this op");
}

static void minimal_release(tn_executable *executable) {
  if (!executable) return;
  free(executable->program);
  free(executable->weights);
  free(executable->page_bytes);
  free(executable->workspace);
  free(executable);
}

/* What a kernel is given of a weight; its type and shape come from the program. */
static tn_tensor weight_tensor(const tn_weight_binding *weight) {
  return (tn_tensor){.data = weight->memory.buffer->data + weight->memory.offset,
                     .layout = weight->layout.id,
                     .row_bytes = tn_plain_row_bytes(&weight->desc)};
}

static tn_status minimal_prepare(tn_device *device, const tn_program *program, const tn_weight_binding *weights,
                                 uint32_t weight_count, tn_progress progress, void *progress_context,
                                 tn_executable **executable) {
  (void)progress; /* nothing here takes long enough to tell */
  (void)progress_context;
  *executable = NULL;
  if (tn_program_check(program, program->bytes, device->error, sizeof device->error) != TN_OK) return TN_E_FORMAT;
  if (weight_count != program->weight_count)
    return fail(device, TN_E_INVALID, "not as many weights as the program has");
  tn_executable *made = calloc(1, sizeof *made);
  if (!made) goto out_of_memory;
  made->device = device;
  made->program = malloc(program->bytes);
  made->weights = calloc(weight_count + 1, sizeof *made->weights);
  made->page_bytes = calloc(program->state_count + 1, sizeof *made->page_bytes);
  made->workspace = aligned_alloc(ALIGNMENT, WORKSPACE_BYTES);
  if (!made->program || !made->weights || !made->page_bytes || !made->workspace) goto out_of_memory;
  memcpy(made->program, program, program->bytes);
  for (uint32_t i = 0; i < weight_count; i++) made->weights[i] = weight_tensor(&weights[i]);
  const tn_value *values = tn_program_values(made->program);
  for (uint32_t i = 0; i < program->value_count; i++) {
    if (values[i].kind != TN_VALUE_STATE) continue;
    const int32_t *dims = values[i].dims;
    tn_state_desc desc = {sizeof desc,       values[i].dtype,   (uint32_t)dims[0],
                          (uint32_t)dims[1], (uint32_t)dims[2], (uint32_t)dims[3]};
    tn_state_layout layout = {.size = sizeof layout};
    tn_status status = minimal_state_layout(device, &desc, &layout);
    if (status != TN_OK) {
      minimal_release(made);
      return status;
    }
    made->page_bytes[values[i].index] = layout.page_bytes;
  }
  *executable = made;
  return TN_OK;
out_of_memory:
  minimal_release(made);
  return fail(device, TN_E_MEMORY, "out of host memory");
}

static void run_in_order(void *context, void (*body)(void *, uint32_t, uint32_t), void *argument, uint32_t count) {
  (void)context;
  for (uint32_t i = 0; i < count; i++) body(argument, i, 0);
}

/* Addresses of bindings, in an array that the caller frees; NULL when memory is out or one lies outside its buffer. */
static void **addresses(const tn_binding *bindings, uint32_t count) {
  void **list = calloc(count + 1, sizeof *list);
  for (uint32_t i = 0; list && i < count; i++) {
    if (!inside(bindings[i].buffer, bindings[i].offset, bindings[i].bytes)) {
      free(list);
      return NULL;
    }
    list[i] = bindings[i].buffer->data + bindings[i].offset;
  }
  return list;
}

static tn_status minimal_execute(tn_queue *queue, tn_executable *executable, const tn_execution *execution) {
  tn_device *device = queue->device;
  tn_status checked =
      tn_execution_check(executable->program, executable->page_bytes, execution, device->error, sizeof device->error);
  if (checked != TN_OK) return checked;
  void **inputs = addresses(execution->inputs, execution->input_count);
  void **outputs = addresses(execution->outputs, execution->output_count);
  void **states = addresses(execution->states, execution->state_count);
  const tn_parallel parallel = {NULL, 1, run_in_order};
  tn_status status = fail(device, TN_E_INVALID, "a binding lies outside its buffer, or host memory is out");
  if (inputs && outputs && states) {
    const tn_interpretation run = {
        .program = executable->program,
        .table = tn_reference_kernels(),
        .inputs = inputs,
        .outputs = outputs,
        .states = states,
        .weights = executable->weights,
        .page_bytes = executable->page_bytes,
        .scratch = execution->scratch.buffer ? execution->scratch.buffer->data + execution->scratch.offset : NULL,
        .batch = execution->batch,
        .parallel = &parallel,
        .workspace = executable->workspace,
        .workspace_bytes = WORKSPACE_BYTES,
    };
    uint32_t failed_op = 0;
    status = tn_interpret(&run, &failed_op);
    if (status != TN_OK) snprintf(queue->device->error, sizeof queue->device->error, "op %u failed", failed_op);
  }
  free(inputs);
  free(outputs);
  free(states);
  return status;
}

/* ---- the table ---- */

static const tn_driver minimal_driver = {
    .size = sizeof(tn_driver),
    .abi_min = TN_DEVICE_ABI,
    .abi_max = TN_DEVICE_ABI,
    .name = "minimal",
    .summary = "the smallest driver: reference kernels in host memory",
    .enumerate = minimal_enumerate,
    .open = minimal_open,
    .close = minimal_close,
    .last_error = minimal_last_error,
    .get = minimal_get,
    .alloc = minimal_alloc,
    .free = minimal_free,
    .host_pointer = minimal_host_pointer,
    .queue_create = minimal_queue_create,
    .queue_destroy = minimal_queue_destroy,
    .copy_in = minimal_copy_in,
    .copy_out = minimal_copy_out,
    .copy = minimal_copy,
    .fill = minimal_fill,
    .execute = minimal_execute,
    .synchronize = minimal_synchronize,
    .weight_layout = minimal_weight_layout,
    .weight_pack = minimal_weight_pack,
    .state_layout = minimal_state_layout,
    .supports = minimal_supports,
    .prepare = minimal_prepare,
    .release = minimal_release,
};

__attribute__((visibility("default"))) const tn_driver *tn_driver_entry(uint32_t abi) {
  (void)abi; /* the caller compares it with abi_min and abi_max */
  return &minimal_driver;
}
