/* Help for driver writers: the program reader, the interpreter and the reference kernels (libtenon-driver.a).
 *
 * A device that has kernels but no compiler fills a table op -> kernel and lets tn_interpret() run programs over it.
 * Everything here is freestanding: no libc, no malloc, no threads, no globals. Memory and parallelism come
 * from the caller, so that the same code runs inside a DSP.
 */
#ifndef TENON_DRIVER_H
#define TENON_DRIVER_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a kernel is given ---- */

/* A resolved operand: `dims` are numbers, slowest first; row r begins at data + r * row_bytes. A weight's `data` is
 * packed in `layout` (its row_bytes is 0 unless the layout has rows). A state's `data` is its first page, row_bytes the
 * bytes of a page. */
typedef struct tn_tensor {
  void *data; /* NULL: an optional input that is absent */
  uint32_t dtype, rank;
  uint32_t dims[4];
  uint64_t row_bytes;
  uint32_t layout;
  uint32_t kind; /* tn_value_kind */
} tn_tensor;

/* Runs body(argument, index, worker) for every index in [0, count), in any order, on up to `workers` threads; returns
 * when all are done. `worker` < workers is unique among bodies running at the same time. */
typedef struct tn_parallel {
  void *context;
  uint32_t workers;
  void (*run)(void *context, void (*body)(void *argument, uint32_t index, uint32_t worker), void *argument,
              uint32_t count);
} tn_parallel;

typedef struct tn_kernel_call {
  uint32_t opcode;
  uint32_t input_count, output_count;
  tn_tensor inputs[TN_MAX_OPERANDS], outputs[TN_MAX_OPERANDS];
  const void *attributes; /* the op's attribute struct */
  const tn_batch *batch;
  const tn_parallel *parallel;
  void *workspace; /* workspace_bytes for each worker, one behind the other, aligned to 64 */
  uint64_t workspace_bytes;
} tn_kernel_call;

/* Computes one op; operands never overlap, but an output may be the very residual, a or x it is elementwise in. */
typedef tn_status (*tn_kernel)(const tn_kernel_call *call);

typedef struct tn_kernel_table {
  tn_kernel kernel[TN_OP_LIMIT]; /* by opcode; NULL: not supported */
} tn_kernel_table;

/* ---- programs ---- */

/* Checks that `bytes` bytes at `data` (8-byte aligned) are a whole, consistent program: every offset, value number, op,
 * attribute size and shape. On failure writes one line to `message` (zero-terminated, cut at capacity) and returns
 * TN_E_FORMAT. Everything below needs a checked program. */
tn_status tn_program_check(const void *data, uint64_t bytes, char *message, uint64_t capacity);

static inline const tn_value *tn_program_values(const tn_program *program) {
  return (const tn_value *)(const void *)((const char *)program + program->values);
}
static inline const tn_op *tn_program_ops(const tn_program *program) {
  return (const tn_op *)(const void *)((const char *)program + program->ops);
}
static inline const void *tn_program_attributes(const tn_program *program, const tn_op *op) {
  return (const char *)program + program->attributes + op->attributes;
}
static inline const char *tn_program_name(const tn_program *program, uint32_t name) {
  return (const char *)program + program->names + name;
}

/* What the op table says of an opcode; NULL for a number it doesn't have. */
typedef struct tn_op_info {
  uint16_t opcode, revision;
  uint8_t min_inputs, max_inputs, max_outputs;
  uint32_t attribute_bytes;
  double tolerance;
  const char *name, *text;
} tn_op_info;
const tn_op_info *tn_op_info_of(uint32_t opcode);

/* Bytes of one row of `cols` values of a dtype (block formats: cols must be a multiple of the block, else 0). */
uint64_t tn_row_bytes(uint32_t dtype, uint64_t cols);

/* Checks the operands of one op against its shape rule, symbolic dims allowed. TN_OK, or TN_E_INVALID with one line in
 * `message`. */
tn_status tn_shape_check(const tn_op_query *query, char *message, uint64_t capacity);

/* Fills a query for op `op` of a checked program. */
void tn_program_query(const tn_program *program, const tn_op *op, tn_op_query *query);

/* ---- the interpreter ---- */

/* Addresses that one run works on, in the address space the kernels run in. */
typedef struct tn_interpretation {
  const tn_program *program;
  const tn_kernel_table *table;
  void *const *inputs, *const *outputs, *const *states; /* by binding number */
  const tn_tensor *weights;   /* by binding number: data, layout, row_bytes as the kernels want them */
  const uint64_t *page_bytes; /* by state binding number */
  void *scratch;
  const tn_batch *batch;
  const tn_parallel *parallel;
  void *workspace;
  uint64_t workspace_bytes;
  /* Called before and after each op where not NULL (profiling, bisecting). */
  void (*observe)(void *context, uint32_t op, int after, const tn_kernel_call *call);
  void *observe_context;
} tn_interpretation;

/* Checks the batch against the program's maxima and runs every op in order. An op without a kernel is TN_E_UNSUPPORTED.
 * The first kernel that fails ends the run with its status; *failed_op then has its number (may be NULL). */
tn_status tn_interpret(const tn_interpretation *run, uint32_t *failed_op);

/* Checks a batch for itself: rows and sequences agree, every count is within the maxima of `program`. TN_OK or
 * TN_E_INVALID. Page numbers are the driver's to check: only it knows how many pages its memory holds. */
tn_status tn_batch_check(const tn_batch *batch, const tn_program *program);

/* ---- counters: an observer that measures every op ---- */

typedef struct tn_counting {
  tn_op_counter *counters; /* [capacity], the driver's; NULL: nothing is measured */
  uint32_t capacity, count;
  uint64_t (*now_ns)(void); /* on the clock of the host */
} tn_counting;

/* tn_interpretation.observe with a tn_counting as its context: each op's times and the bytes of its operands (a weight
 * in its source format, KV pages not counted). What doesn't fit is not measured. */
void tn_count_op(void *counting, uint32_t op, int after, const tn_kernel_call *call);
/* A driver's `counters`: copies all there are and forgets them when *count says there is room; else only tells how many
 * there are. */
void tn_counting_read(tn_counting *counting, tn_op_counter *to, uint32_t *count);

/* ---- kernels without a model: what a function of a blob is given ---- */

/* Which of cores x threads calls of one launch this is. They may run at once or one after the other, so none may wait
 * for another. */
typedef struct tn_kernel_place {
  uint32_t size;
  uint32_t core, cores, thread, threads;
} tn_kernel_place;

/* `arguments`: the device addresses of the buffers of the launch, in their order. */
typedef void (*tn_kernel_function)(const tn_kernel_place *place, void *const *arguments, uint32_t argument_count);

/* This place's share of `count` items, [*begin, *end): shares differ by one at most and cover all. */
static inline void tn_work_range(const tn_kernel_place *place, uint64_t count, uint64_t *begin, uint64_t *end) {
  uint64_t parts = (uint64_t)place->cores * place->threads;
  uint64_t part = (uint64_t)place->core * place->threads + place->thread, rest = count % parts;
  *begin = count / parts * part + (part < rest ? part : rest);
  *end = *begin + count / parts + (part < rest);
}

#define TN_MAX_PLACES 65536u /* cores x threads of a launch */

/* Calls the function once for each place of a launch, by `parallel`. `addresses`: of its arguments, on the device.
 * TN_E_INVALID for no function, no places, or more than TN_MAX_PLACES. */
tn_status tn_launch_run(const tn_launch *launch, tn_kernel_function function, void *const *addresses,
                        const tn_parallel *parallel);

/* ---- properties out of a table ---- */

/* With a text, or NULL and a number. */
typedef struct tn_named_property {
  const char *name, *text;
  uint64_t number;
} tn_named_property;

/* A driver's `get`: fills *value with the property of that name; texts are cut to the room there is. TN_E_NOT_FOUND. */
tn_status tn_property_find(const tn_named_property *table, uint32_t count, const char *name, tn_property *value);

/* Checks an execution against its checked program: counts of bindings, scratch, the batch, room for the rows of this
 * batch in inputs and outputs, page and slot numbers against the states' bytes (page_bytes by state binding number).
 * That bindings lie inside their buffers is for the driver to check. TN_OK, or TN_E_INVALID with one line in `message`.
 */
tn_status tn_execution_check(const tn_program *program, const uint64_t *page_bytes, const tn_execution *execution,
                             char *message, uint64_t capacity);

/* ---- reference kernels: plain scalar C, written for reading ----
 * Weights are in the plain layout: the source format row after row, merged from the sources (TN_LAYOUT_PLAIN). */
#define TN_LAYOUT_PLAIN 1u

/* A table of all reference kernels. */
const tn_kernel_table *tn_reference_kernels(void);

/* TN_OK if the reference kernels compute this op with these operands, else TN_E_UNSUPPORTED. */
tn_status tn_reference_supports(const tn_op_query *query);

/* The plain layout of a weight: its bytes (vectors are widened to f32), and packing into it. `to` is desc's rows in
 * order. A vector is a weight whose only use is TN_USE_VECTOR; of a rank 1 weight the view's values, row after row,
 * fill values into_row, into_row + 1, ..., so it may be stored as one row or as one column. Sources of a matrix have
 * the weight's dtype and all its columns; formats with blocks can't be transposed or cut inside a block. TN_E_INVALID
 * for a source that leads outside, TN_E_UNSUPPORTED for the rest; nothing is written then. */
tn_status tn_plain_layout(const tn_weight_desc *desc, tn_weight_layout *layout);
tn_status tn_plain_pack(const tn_weight_desc *desc, const tn_weight_source *sources, uint32_t source_count, void *to);

/* Bytes from one row of a packed weight to the next: tn_tensor.row_bytes for the reference kernels. */
uint64_t tn_plain_row_bytes(const tn_weight_desc *desc);

/* The plain page, and contiguous KV: key [kv_heads][slots][key_dim], then value [kv_heads][slots][value_dim], in the
 * state's dtype; of i8 pages then the scales, f32: [kv_heads][slots] of keys, [kv_heads][slots] of values. Of a
 * recurrent state (slots 0) a page is one slot: kv_heads * key_dim * value_dim f32. */
tn_status tn_plain_state_layout(const tn_state_desc *desc, tn_state_layout *layout);

#ifdef __cplusplus
}
#endif
#endif
