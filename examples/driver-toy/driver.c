/* A toy of a fixed-shape accelerator: what an NPU with a compiler and its own memory looks like behind tenon/device.h.
 *
 *   cc -O2 -shared -fPIC driver.c $(pkg-config --cflags --libs tenon-driver) -o toy.so
 *   tenon test-device --driver ./toy.so
 *   tenon run MODEL -p PROMPT --device ./toy.so
 *
 * - Its memory is its own: a card of 1 GiB that the host gets no pointer into. A buffer is an offset.
 * - Its programs have fixed shapes: 1 or 32 token rows of one sequence, contiguous KV of 128 or 512 slots.
 * - It has no embed, select_rows and softcap: those run on the cpu. Nor has it what no fixed-shape device is asked for:
 *   pages (kv_write, attention), positions (rope_table) and recurrent states.
 * - Options: length=128 or length=512, only that KV length; lacks=OP, one op less; lacks=OP@ROWS, only with that many.
 *
 * The card computes with the reference kernels, at once and on one thread: replace run_on_card() by a command to the
 * silicon and synchronize() by a wait for its answer. docs/porting-a-device.md walks through this file. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tenon/driver.h>

#define CARD_BYTES (UINT64_C(1) << 30)
#define ALIGNMENT 128u
#define WORKSPACE_BYTES 4096u

static const int32_t card_rows[] = {1, 32};
static const int32_t card_lengths[] = {128, 512};

struct tn_buffer {
  uint64_t offset, bytes, room; /* on the card; what was asked for, and with the alignment's rest */
  tn_buffer *next;              /* by rising offset */
};
struct tn_device {
  char error[256];
  unsigned char *card; /* the card's view of its memory: only what runs "on" it may use this */
  tn_buffer *buffers;
  int32_t only_length; /* 0: all of card_lengths */
  char lacks[32];      /* the name of an op */
  int32_t lacks_rows;  /* 0: it is lacking with any number of rows */
};
struct tn_queue {
  tn_device *device;
};
struct tn_executable {
  tn_device *device;
  tn_program *program;
  tn_tensor *weights;   /* by binding number, as all of these */
  uint64_t *page_bytes; /* of a state */
  void **addresses;     /* inputs, outputs, states of the execution that runs */
  _Alignas(64) unsigned char workspace[WORKSPACE_BYTES];
};

static char open_error[256] = "nothing has failed";

__attribute__((format(printf, 3, 4))) static tn_status fail(tn_device *device, tn_status status, const char *format,
                                                            ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(device ? device->error : open_error, sizeof open_error, format, arguments);
  va_end(arguments);
  return status;
}

/* ---- driver ---- */

static int is_listed(const int32_t *list, size_t count, int32_t number) {
  for (size_t i = 0; i < count; i++)
    if (list[i] == number) return 1;
  return 0;
}

static tn_status toy_enumerate(uint32_t *count) {
  *count = 1;
  return TN_OK;
}

static tn_status read_option(tn_device *device, const tn_option *option) {
  if (!strcmp(option->key, "length")) {
    for (size_t i = 0; i < sizeof card_lengths / sizeof *card_lengths; i++)
      if (atoi(option->value) == card_lengths[i]) device->only_length = card_lengths[i];
    if (device->only_length) return TN_OK;
    return fail(NULL, TN_E_INVALID, "length=%s: the lengths are 128 and 512", option->value);
  }
  if (!strcmp(option->key, "lacks")) {
    const char *rows = strchr(option->value, '@');
    snprintf(device->lacks, sizeof device->lacks, "%.*s", (int)strcspn(option->value, "@"), option->value);
    device->lacks_rows = rows ? atoi(rows + 1) : 0;
    if (!rows || is_listed(card_rows, sizeof card_rows / sizeof *card_rows, device->lacks_rows)) return TN_OK;
    return fail(NULL, TN_E_INVALID, "lacks=%s: the rows are 1 and 32", option->value);
  }
  return fail(NULL, TN_E_INVALID, "no option '%s'; there are length and lacks", option->key);
}

static void toy_close(tn_device *device) {
  if (!device) return;
  while (device->buffers) {
    tn_buffer *next = device->buffers->next;
    free(device->buffers);
    device->buffers = next;
  }
  if (device->card) munmap(device->card, CARD_BYTES);
  free(device);
}

static tn_status toy_open(uint32_t index, const tn_option *options, uint32_t option_count, tn_device **out) {
  *out = NULL;
  if (index != 0) return fail(NULL, TN_E_NOT_FOUND, "there is one card, number 0");
  tn_device *device = calloc(1, sizeof *device);
  if (!device) return fail(NULL, TN_E_MEMORY, "out of host memory");
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < option_count && status == TN_OK; i++) status = read_option(device, &options[i]);
  if (status == TN_OK) {
    device->card = mmap(NULL, CARD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (device->card == MAP_FAILED) {
      device->card = NULL;
      status = fail(NULL, TN_E_MEMORY, "no address space for the card");
    }
  }
  if (status == TN_OK)
    *out = device;
  else
    toy_close(device);
  return status;
}

static const char *toy_last_error(tn_device *device) {
  return device ? device->error : open_error;
}

static uint64_t free_bytes(const tn_device *device) {
  uint64_t left = CARD_BYTES;
  for (const tn_buffer *b = device->buffers; b; b = b->next) left -= b->room;
  return left;
}

static tn_status toy_get(tn_device *device, const char *name, tn_property *value) {
  const char *lengths = device->only_length == 128 ? "128" : device->only_length == 512 ? "512" : "128,512";
  const tn_named_property properties[] = {
      {"name", "toy: a card of fixed shapes with memory of its own", 0},
      {"kv", "contiguous", 0},
      {"kv_lengths", lengths, 0},
      {"rows", "1,32", 0},
      {"memory_total", NULL, CARD_BYTES},
      {"memory_free", NULL, free_bytes(device)},
      {"max_allocation", NULL, CARD_BYTES},
      {"alignment", NULL, ALIGNMENT},
      {"cores", NULL, 1},
      {"threads", NULL, 1},
      {"batch_invariant", NULL, 1},
  };
  tn_status status = tn_property_find(properties, sizeof properties / sizeof *properties, name, value);
  return status == TN_OK ? TN_OK : fail(device, TN_E_NOT_FOUND, "no property %.80s", name);
}

/* ---- memory: first fit on the card ---- */

static tn_status toy_alloc(tn_device *device, uint64_t bytes, tn_buffer **out) {
  uint64_t room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, offset = 0;
  tn_buffer **at = &device->buffers;
  *out = NULL;
  if (bytes == 0) return fail(device, TN_E_INVALID, "a buffer of no bytes");
  while (*at && (room < bytes || (*at)->offset - offset < room)) {
    offset = (*at)->offset + (*at)->room;
    at = &(*at)->next;
  }
  if (room < bytes || room > CARD_BYTES - offset)
    return fail(device, TN_E_MEMORY, "%llu bytes wanted, %llu free", (unsigned long long)bytes,
                (unsigned long long)free_bytes(device));
  tn_buffer *made = malloc(sizeof *made);
  if (!made) return fail(device, TN_E_MEMORY, "out of host memory");
  *made = (tn_buffer){offset, bytes, room, *at};
  *at = made;
  memset(device->card + offset, 0, room);
  *out = made;
  return TN_OK;
}

static void toy_free(tn_device *device, tn_buffer *buffer) {
  tn_buffer **at = &device->buffers;
  while (*at && *at != buffer) at = &(*at)->next;
  if (*at) *at = buffer->next;
  free(buffer);
}

static void *toy_host_pointer(tn_device *device, tn_buffer *buffer) {
  (void)device;
  (void)buffer;
  return NULL;
}

/* The card's address of [offset, offset + bytes) of a buffer; NULL with an error where that lies outside. */
static unsigned char *on_card(tn_device *device, const tn_buffer *buffer, uint64_t offset, uint64_t bytes) {
  if (buffer && offset <= buffer->bytes && bytes <= buffer->bytes - offset)
    return device->card + buffer->offset + offset;
  fail(device, TN_E_INVALID, "bytes %llu and %llu on lie outside their buffer of %llu", (unsigned long long)offset,
       (unsigned long long)bytes, (unsigned long long)(buffer ? buffer->bytes : 0));
  return NULL;
}

/* ---- queue ---- */

static tn_status toy_queue_create(tn_device *device, tn_queue **queue) {
  *queue = calloc(1, sizeof **queue);
  if (!*queue) return fail(device, TN_E_MEMORY, "out of host memory");
  (*queue)->device = device;
  return TN_OK;
}

static void toy_queue_destroy(tn_queue *queue) {
  free(queue);
}

static tn_status toy_copy_in(tn_queue *queue, tn_buffer *to, uint64_t offset, const void *from, uint64_t bytes) {
  unsigned char *card = on_card(queue->device, to, offset, bytes);
  if (!card) return TN_E_INVALID;
  if (bytes) memcpy(card, from, bytes);
  return TN_OK;
}

static tn_status toy_copy_out(tn_queue *queue, void *to, tn_buffer *from, uint64_t offset, uint64_t bytes) {
  const unsigned char *card = on_card(queue->device, from, offset, bytes);
  if (!card) return TN_E_INVALID;
  if (bytes) memcpy(to, card, bytes);
  return TN_OK;
}

static tn_status toy_copy(tn_queue *queue, tn_buffer *to, uint64_t to_offset, tn_buffer *from, uint64_t from_offset,
                          uint64_t bytes) {
  unsigned char *target = on_card(queue->device, to, to_offset, bytes);
  const unsigned char *source = on_card(queue->device, from, from_offset, bytes);
  if (!target || !source) return TN_E_INVALID;
  memmove(target, source, bytes);
  return TN_OK;
}

static tn_status toy_fill(tn_queue *queue, tn_buffer *to, uint64_t offset, uint8_t byte, uint64_t bytes) {
  unsigned char *card = on_card(queue->device, to, offset, bytes);
  if (!card) return TN_E_INVALID;
  memset(card, byte, bytes);
  return TN_OK;
}

static tn_status toy_synchronize(tn_queue *queue, uint64_t deadline_ns) {
  (void)queue; /* everything is complete when its call returns */
  (void)deadline_ns;
  return TN_OK;
}

/* ---- weights and states: the plain layouts of driver.h ---- */

static tn_status toy_weight_layout(tn_device *device, const tn_weight_desc *desc, tn_weight_layout *layout) {
  tn_status status = tn_plain_layout(desc, layout);
  return status == TN_OK ? TN_OK : fail(device, status, "no layout for this weight");
}

static tn_status toy_weight_pack(tn_queue *queue, const tn_weight_desc *desc, const tn_weight_layout *layout,
                                 const tn_weight_source *sources, uint32_t source_count, tn_buffer *to,
                                 uint64_t offset) {
  tn_device *device = queue->device;
  unsigned char *card = on_card(device, to, offset, layout->bytes);
  if (!card) return TN_E_INVALID;
  tn_status status = tn_plain_pack(desc, sources, source_count, card);
  return status == TN_OK ? TN_OK : fail(device, status, "the sources don't make up the weight");
}

static int has_length(const tn_device *device, int32_t length) {
  return device->only_length ? length == device->only_length
                             : is_listed(card_lengths, sizeof card_lengths / sizeof *card_lengths, length);
}

static tn_status toy_state_layout(tn_device *device, const tn_state_desc *desc, tn_state_layout *layout) {
  if (!has_length(device, (int32_t)desc->slots))
    return fail(device, TN_E_UNSUPPORTED, "KV of %u slots; the lengths are 128 and 512", desc->slots);
  tn_status status = tn_plain_state_layout(desc, layout);
  return status == TN_OK ? TN_OK : fail(device, status, "no layout for this KV");
}

/* ---- programs ---- */

static int lacks(const tn_device *device, uint32_t opcode, int32_t rows) {
  switch (opcode) {
    case TN_OP_EMBED:
    case TN_OP_SELECT_ROWS:
    case TN_OP_SOFTCAP: return 1; /* the three it lacks */
    case TN_OP_KV_WRITE:
    case TN_OP_ATTENTION:
    case TN_OP_ROPE_TABLE:
    case TN_OP_SHORT_CONV:
    case TN_OP_DELTA_RULE: return 1; /* what a fixed shape has no use for */
    default:
      return !strcmp(device->lacks, tn_op_info_of(opcode)->name) && (!device->lacks_rows || device->lacks_rows == rows);
  }
}

static tn_status toy_supports(tn_device *device, const tn_op_query *query) {
  tn_status status = tn_reference_supports(query);
  int32_t rows = query->inputs[0].dims[0];
  if (status != TN_OK || lacks(device, query->opcode, rows))
    return fail(device, TN_E_UNSUPPORTED, "the card lacks this op");
  if (rows != TN_DIM_R && !is_listed(card_rows, sizeof card_rows / sizeof *card_rows, rows))
    return fail(device, TN_E_UNSUPPORTED, "the card runs 1 or 32 rows");
  for (uint32_t i = 0; i < query->input_count; i++)
    if (query->inputs[i].present && query->inputs[i].kind == TN_VALUE_STATE &&
        !has_length(device, query->inputs[i].dims[3]))
      return fail(device, TN_E_UNSUPPORTED, "the card's KV has 128 or 512 slots");
  return TN_OK;
}

static void toy_release(tn_executable *executable) {
  if (!executable) return;
  free(executable->program);
  free(executable->weights);
  free(executable->page_bytes);
  free(executable->addresses);
  free(executable);
}

static tn_executable *new_executable(tn_device *device, const tn_program *program) {
  tn_executable *made = aligned_alloc(64, sizeof *made);
  if (!made) return NULL;
  memset(made, 0, sizeof *made);
  made->device = device;
  made->program = malloc(program->bytes);
  made->weights = calloc(program->weight_count + 1, sizeof *made->weights);
  made->page_bytes = calloc(program->state_count + 1, sizeof *made->page_bytes);
  made->addresses =
      calloc(program->input_count + program->output_count + program->state_count + 1, sizeof *made->addresses);
  if (made->program && made->weights && made->page_bytes && made->addresses) {
    memcpy(made->program, program, program->bytes);
    return made;
  }
  toy_release(made);
  return NULL;
}

/* The weight must be the one the program was made for, and lie in the layout of its description. */
static tn_status bind_weight(tn_executable *e, const tn_value *value, const tn_weight_binding *weight) {
  tn_device *device = e->device;
  tn_weight_layout layout = {.size = sizeof layout};
  int same = value->rank == weight->desc.rank && value->dtype == weight->desc.dtype;
  for (uint32_t d = 0; same && d < value->rank; d++) same = (uint64_t)value->dims[d] == weight->desc.dims[d];
  if (!same) return fail(device, TN_E_INVALID, "weight %u is bound with another type or shape", value->index);
  tn_status status = toy_weight_layout(device, &weight->desc, &layout);
  if (status != TN_OK) return status;
  if (weight->layout.id != layout.id || weight->memory.bytes < layout.bytes)
    return fail(device, TN_E_INVALID, "weight %u is not in the card's layout", value->index);
  void *card = on_card(device, weight->memory.buffer, weight->memory.offset, layout.bytes);
  if (!card) return TN_E_INVALID;
  e->weights[value->index] =
      (tn_tensor){.data = card, .layout = layout.id, .row_bytes = tn_plain_row_bytes(&weight->desc)};
  return TN_OK;
}

static tn_status bind_value(tn_executable *e, const tn_value *value, const tn_weight_binding *weights) {
  if (value->kind == TN_VALUE_WEIGHT) return bind_weight(e, value, &weights[value->index]);
  if (value->kind != TN_VALUE_STATE) return TN_OK;
  const uint32_t *dims = (const uint32_t *)value->dims;
  const tn_state_desc desc = {sizeof desc, value->dtype, dims[0], dims[1], dims[2], dims[3]};
  tn_state_layout layout = {.size = sizeof layout};
  tn_status status = toy_state_layout(e->device, &desc, &layout);
  e->page_bytes[value->index] = layout.page_bytes;
  return status;
}

/* A compiler would begin here; it may take minutes and tell its progress. */
static tn_status toy_prepare(tn_device *device, const tn_program *program, const tn_weight_binding *weights,
                             uint32_t weight_count, tn_progress progress, void *progress_context, tn_executable **out) {
  *out = NULL;
  if (progress && progress(progress_context, 0, 1)) return fail(device, TN_E_CANCELLED, "cancelled");
  if (tn_program_check(program, program->bytes, device->error, sizeof device->error) != TN_OK) return TN_E_FORMAT;
  if (weight_count != program->weight_count)
    return fail(device, TN_E_INVALID, "%u weights are bound, the program has %u", weight_count, program->weight_count);
  tn_executable *made = new_executable(device, program);
  if (!made) return fail(device, TN_E_MEMORY, "out of host memory");
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < program->op_count && status == TN_OK; i++) {
    tn_op_query query;
    tn_program_query(program, tn_program_ops(program) + i, &query);
    status = toy_supports(device, &query);
  }
  for (uint32_t i = 0; i < program->value_count && status == TN_OK; i++)
    status = bind_value(made, tn_program_values(program) + i, weights);
  if (status == TN_OK && progress) progress(progress_context, 1, 1);
  if (status == TN_OK)
    *out = made;
  else
    toy_release(made);
  return status;
}

/* ---- execution ---- */

static tn_status bind(tn_device *device, const tn_binding *bindings, uint32_t count, void **addresses) {
  for (uint32_t i = 0; i < count; i++) {
    addresses[i] = on_card(device, bindings[i].buffer, bindings[i].offset, bindings[i].bytes);
    if (!addresses[i]) return TN_E_INVALID;
  }
  return TN_OK;
}

static void run_in_order(void *context, void (*body)(void *, uint32_t, uint32_t), void *argument, uint32_t count) {
  (void)context;
  for (uint32_t i = 0; i < count; i++) body(argument, i, 0);
}

/* What the silicon would do: addresses on the card, nothing of the host but the batch. */
static tn_status run_on_card(tn_executable *e, const tn_execution *x, void *scratch) {
  static const tn_parallel one = {NULL, 1, run_in_order};
  const tn_interpretation run = {.program = e->program,
                                 .table = tn_reference_kernels(),
                                 .inputs = e->addresses,
                                 .outputs = e->addresses + x->input_count,
                                 .states = e->addresses + x->input_count + x->output_count,
                                 .weights = e->weights,
                                 .page_bytes = e->page_bytes,
                                 .scratch = scratch,
                                 .batch = x->batch,
                                 .parallel = &one,
                                 .workspace = e->workspace,
                                 .workspace_bytes = WORKSPACE_BYTES};
  uint32_t failed = 0;
  tn_status status = tn_interpret(&run, &failed);
  return status == TN_OK ? TN_OK : fail(e->device, status, "op %u of the program failed", failed);
}

static tn_status toy_execute(tn_queue *queue, tn_executable *e, const tn_execution *x) {
  tn_device *device = queue->device;
  void **outputs = e->addresses + x->input_count, **states = outputs + x->output_count, *scratch = NULL;
  if (tn_execution_check(e->program, e->page_bytes, x, device->error, sizeof device->error) != TN_OK)
    return TN_E_INVALID;
  if (x->batch->row_count != e->program->max_rows)
    return fail(device, TN_E_INVALID, "%u rows for a program of %u", x->batch->row_count, e->program->max_rows);
  tn_status status = bind(device, x->inputs, x->input_count, e->addresses);
  if (status == TN_OK) status = bind(device, x->outputs, x->output_count, outputs);
  if (status == TN_OK) status = bind(device, x->states, x->state_count, states);
  if (status == TN_OK && x->scratch.bytes) status = bind(device, &x->scratch, 1, &scratch);
  return status == TN_OK ? run_on_card(e, x, scratch) : status;
}

/* ---- the table ---- */

static const tn_driver toy_driver = {
    .size = sizeof(tn_driver),
    .abi_min = TN_DEVICE_ABI,
    .abi_max = TN_DEVICE_ABI,
    .name = "toy",
    .summary = "a card of fixed shapes with memory of its own, emulated",
    .enumerate = toy_enumerate,
    .open = toy_open,
    .close = toy_close,
    .last_error = toy_last_error,
    .get = toy_get,
    .alloc = toy_alloc,
    .free = toy_free,
    .host_pointer = toy_host_pointer,
    .queue_create = toy_queue_create,
    .queue_destroy = toy_queue_destroy,
    .copy_in = toy_copy_in,
    .copy_out = toy_copy_out,
    .copy = toy_copy,
    .fill = toy_fill,
    .execute = toy_execute,
    .synchronize = toy_synchronize,
    .weight_layout = toy_weight_layout,
    .weight_pack = toy_weight_pack,
    .state_layout = toy_state_layout,
    .supports = toy_supports,
    .prepare = toy_prepare,
    .release = toy_release,
};

__attribute__((visibility("default"))) const tn_driver *tn_driver_entry(uint32_t abi) {
  (void)abi; /* the caller compares it with abi_min and abi_max */
  return &toy_driver;
}
