/* The device interface: what silicon implements, and the only thing tenon asks of it.
 *
 * A driver is a shared library that exports `tn_driver_entry`; built-in drivers use the very same table. This
 * header needs <stddef.h>, <stdint.h> and ops.def, nothing else. `driver.h` adds help for driver writers (an
 * interpreter and reference kernels), but a driver can do without it.
 *
 * Rules that hold for every function of the table
 * - It returns TN_OK or a negative status and never aborts the process, prints, or leaves the device half changed.
 *   After a failure `last_error` gives one line of text.
 * - Every struct begins with `size`, set by whoever fills it to sizeof of the struct he knows. Structs only grow;
 *   opcodes are only appended. An op or attribute a driver does not know means `supports` answers no.
 * - One thread drives a queue; different queues may be driven by different threads.
 * - Everything on a queue happens in order, may be asynchronous, and may as well be complete on return.
 * - TN_E_DEVICE_LOST says the device is gone. Everything already on the host is still usable; `close` still works.
 */
#ifndef TENON_DEVICE_H
#define TENON_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_DEVICE_ABI 1

/* The same definitions as tenon/status.h, so that this header stands alone (both may be included). */
#ifndef TENON_STATUS_H
typedef int32_t tn_status;
#endif
#define TN_OK 0
#define TN_E_INVALID (-1)
#define TN_E_UNSUPPORTED (-2)
#define TN_E_MEMORY (-3)
#define TN_E_TIMEOUT (-4)
#define TN_E_DEVICE_LOST (-5)
#define TN_E_IO (-6)
#define TN_E_FORMAT (-7)
#define TN_E_NOT_FOUND (-8)
#define TN_E_LIMIT (-9)
#define TN_E_CANCELLED (-10)
#define TN_E_BUSY (-11)
#define TN_E_INTERNAL (-12)

/* ---- element types: X(number, NAME, "name", elements per block, bytes per block) -----------------------------
 * Numbers are part of the program format and never change. Block formats are those of GGUF files, bit for bit
 * (src/tensor/ draws them); Q8A is the activation type, see below. Bytes 0: sized by a rule, not by blocks. */
#define TN_DTYPES(X)                \
  X(0, F32, "f32", 1, 4)            \
  X(1, F16, "f16", 1, 2)            \
  X(2, BF16, "bf16", 1, 2)          \
  X(3, I8, "i8", 1, 1)              \
  X(4, I32, "i32", 1, 4)            \
  X(5, Q8A, "q8a", 32, 0)           \
  X(6, Q4_0, "q4_0", 32, 18)        \
  X(7, Q4_1, "q4_1", 32, 20)        \
  X(8, Q5_0, "q5_0", 32, 22)        \
  X(9, Q5_1, "q5_1", 32, 24)        \
  X(10, Q8_0, "q8_0", 32, 34)       \
  X(11, Q2_K, "q2_k", 256, 84)      \
  X(12, Q3_K, "q3_k", 256, 110)     \
  X(13, Q4_K, "q4_k", 256, 144)     \
  X(14, Q5_K, "q5_k", 256, 176)     \
  X(15, Q6_K, "q6_k", 256, 210)     \
  X(16, IQ4_NL, "iq4_nl", 32, 18)   \
  X(17, IQ4_XS, "iq4_xs", 256, 136) \
  X(18, MXFP4, "mxfp4", 32, 17)     \
  X(19, F8_E4M3, "f8_e4m3", 1, 1)   \
  X(20, F8_E5M2, "f8_e5m2", 1, 1)   \
  X(21, MXFP6, "mxfp6", 32, 25)     \
  X(22, F64, "f64", 1, 8)           \
  X(23, I16, "i16", 1, 2)           \
  X(24, I64, "i64", 1, 8)           \
  X(25, U8, "u8", 1, 1)

typedef enum tn_dtype {
#define X(number, NAME, name, elements, bytes) TN_##NAME = number,
  TN_DTYPES(X)
#undef X
      TN_DTYPE_COUNT
} tn_dtype;

/* Q8A, a quantised activation row of K values, padded with zeros to P = K rounded up to 32:
 *   int8  q[P]        values -127..127
 *   float scale[P/32] amax / 127 of each block of 32
 *   int32 sum[P/32]   sum of the block's q
 * value = q * scale, q = value * (127 / amax) rounded to nearest, ties to even; amax below 2^-100 (or 0) gives
 * q = scale = 0; a block holding an infinity or NaN gives q = 0, scale = NaN. This order and rounding are defined by
 * the reference `quantise` kernel. */
#define TN_Q8A_BLOCK 32u
#define TN_Q8A_ROW_BYTES(K) (((uint64_t)(K) + 31) / 32 * 40)

/* ---- ops ----------------------------------------------------------------------------------------------------- */
#define TN_PAGE_SLOTS 32u      /* token slots in a page of KV memory */
#define TN_MAX_OPERANDS 8u     /* inputs, and outputs, of one op */
#define TN_MAX_GROUPS 8u       /* layer groups with page tables of their own */
#define TN_MAX_EXPERTS 4096u   /* of one layer */
#define TN_MAX_LOGITS_ROWS 64u /* R of one step; a step that wants more is split */

typedef enum tn_opcode {
#define TN_OP(number, NAME, name, revision, min_in, max_in, max_out, attributes, tolerance, text) TN_OP_##NAME = number,
#include "ops.def"
#undef TN_OP
  TN_OP_LIMIT = 64 /* opcodes are below this number */
} tn_opcode;

typedef enum tn_activation {
  TN_ACTIVATION_NONE = 0,
  TN_ACTIVATION_SILU = 1,      /* x / (1 + exp(-x)) */
  TN_ACTIVATION_GELU_TANH = 2, /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
  TN_ACTIVATION_GELU = 3,      /* 0.5 x (1 + erf(x / sqrt 2)) */
  TN_ACTIVATION_RELU = 4,
  TN_ACTIVATION_SIGMOID = 5,
  TN_ACTIVATION_TANH = 6
} tn_activation;

typedef enum tn_norm_kind { TN_NORM_RMS = 0, TN_NORM_LAYER = 1 } tn_norm_kind;
/* Which values turn together: (m, m + rotary/2) or (2m, 2m+1). */
typedef enum tn_rope_pairing { TN_ROPE_HALF = 0, TN_ROPE_ADJACENT = 1 } tn_rope_pairing;
typedef enum tn_embed_source { TN_EMBED_TOKEN = 0, TN_EMBED_POSITION = 1 } tn_embed_source;

/* Attributes, one struct per op; ops.def says what each op computes with them. */
typedef struct tn_no_attributes {
  uint32_t size;
} tn_no_attributes;
typedef struct tn_embed_attributes {
  uint32_t size;
  uint32_t source; /* tn_embed_source: index the table by the row's token or by its position */
  float scale;     /* the row is multiplied by it */
} tn_embed_attributes;
typedef struct tn_linear_attributes {
  uint32_t size;
  uint32_t activation; /* tn_activation, applied after the bias */
  uint32_t gated;      /* 1: the weight has 2N rows, N of the gate then N of the value; y = activation(gate) * value */
  float scale;         /* the product (with bias, activation) is multiplied by it, before the residual is added */
} tn_linear_attributes;
typedef struct tn_norm_attributes {
  uint32_t size;
  uint32_t kind;  /* tn_norm_kind */
  uint32_t group; /* values normalised together: a head's size, or 0 for the whole row */
  float epsilon;
} tn_norm_attributes;
typedef struct tn_activation_attributes {
  uint32_t size;
  uint32_t activation;
} tn_activation_attributes;
typedef struct tn_scalar_attributes {
  uint32_t size;
  float value;
} tn_scalar_attributes;
typedef struct tn_slice_attributes {
  uint32_t size;
  uint32_t begin; /* first column taken; the output's width says how many */
} tn_slice_attributes;
typedef struct tn_rope_table_attributes {
  uint32_t size;
  uint32_t rotary; /* values of a head that turn, even */
  float magnitude; /* cos and sin are multiplied by it (YaRN's attention factor), else 1 */
} tn_rope_table_attributes;
typedef struct tn_rope_attributes {
  uint32_t size;
  uint32_t head_dim;
  uint32_t rotary;
  uint32_t pairing; /* tn_rope_pairing */
} tn_rope_attributes;
typedef struct tn_kv_write_attributes {
  uint32_t size;
  uint32_t group; /* whose page table: index into tn_sequence.pages */
  uint32_t kv_heads;
  uint32_t key_dim, value_dim;
  uint32_t rotary; /* > 0: keys are turned first, by the rope table in input 3 */
  uint32_t pairing;
} tn_kv_write_attributes;
typedef struct tn_attention_attributes {
  uint32_t size;
  uint32_t group;
  uint32_t heads, kv_heads;
  uint32_t key_dim, value_dim;
  float scale;
  float softcap;   /* > 0: scores become softcap * tanh(score / softcap) */
  uint32_t window; /* > 0: position i sees j only if i - j < window */
} tn_attention_attributes;

/* How scores become weights: softmax over all experts, a sigmoid of each, or softmax over the chosen ones. */
typedef enum tn_moe_scoring { TN_MOE_SOFTMAX = 0, TN_MOE_SIGMOID = 1, TN_MOE_SOFTMAX_OF_CHOSEN = 2 } tn_moe_scoring;
typedef struct tn_moe_route_attributes {
  uint32_t size;
  uint32_t scoring;             /* tn_moe_scoring */
  uint32_t normalise;           /* 1: weights are divided by their sum */
  uint32_t groups, groups_used; /* groups > 1: only the experts of the best groups may be chosen; a group is worth the
                                   sum of its two highest scores (plus bias) */
  float scale;                  /* weights are multiplied by it */
} tn_moe_route_attributes;
typedef struct tn_moe_linear_attributes {
  uint32_t size;
  uint32_t each;       /* 1: x has a part of its own for each chosen expert */
  uint32_t activation; /* tn_activation */
  uint32_t gated;      /* 1: the weight has 2N rows an expert, N of the gate then N of the value */
  float limit, alpha;  /* limit > 0, gated: with g = min(gate, limit), v = value held to -limit .. limit:
                          y = g / (1 + exp(-alpha g)) * (v + 1), whatever `activation` says */
} tn_moe_linear_attributes;

typedef struct tn_short_conv_attributes {
  uint32_t size;
  uint32_t taps; /* rows that a sum runs over, at least 2 */
  uint32_t activation;
} tn_short_conv_attributes;
typedef struct tn_delta_rule_attributes {
  uint32_t size;
  uint32_t key_heads, value_heads; /* a multiple of key_heads */
  uint32_t key_dim, value_dim;
  uint32_t tiled; /* value head h uses key head h % key_heads; else h / (value_heads / key_heads) */
  float epsilon;  /* q and k are divided by sqrt(sum of squares + epsilon) */
} tn_delta_rule_attributes;

typedef struct tn_head_linear_attributes {
  uint32_t size;
  uint32_t pass; /* P: values of each head that are passed on */
} tn_head_linear_attributes;

/* ---- programs: what a device runs ------------------------------------------------------------------------------
 * One block of bytes, little endian, 8-byte aligned, no pointers: the same bytes are handed to `prepare`, sent to
 * a remote core, and stored in a file. tn_program at its start, the arrays at the offsets it names. */
#define TN_PROGRAM_MAGIC 0x47504e54u /* "TNPG" */
#define TN_PROGRAM_VERSION 1u

/* Symbolic dims: token rows, sequences, rows that need logits, longest KV length of the step. */
#define TN_DIM_T (-1)
#define TN_DIM_S (-2)
#define TN_DIM_R (-3)
#define TN_DIM_C (-4)
#define TN_NO_VALUE 0xffffffffu /* an optional input that is absent */

typedef enum tn_value_kind {
  TN_VALUE_INPUT = 0,
  TN_VALUE_OUTPUT = 1,
  TN_VALUE_WEIGHT = 2,
  TN_VALUE_STATE = 3,
  TN_VALUE_SCRATCH = 4
} tn_value_kind;

typedef struct tn_value {
  uint8_t kind;  /* tn_value_kind */
  uint8_t dtype; /* tn_dtype; of a weight: the format its values came in */
  uint8_t rank;  /* 1..4 */
  uint8_t reserved;
  int32_t dims[4]; /* slowest first; a negative number is symbolic. A state: kv heads, key dim, value dim, slots of a
                      page; a recurrent state has rank 3: heads, key dim, value dim */
  uint32_t index;  /* inputs, outputs, weights, states: which binding */
  uint32_t name;   /* offset of a zero-terminated name in the names */
  uint64_t offset; /* scratch: byte offset in the arena, planned for the maxima */
} tn_value;

typedef struct tn_op {
  uint16_t opcode, revision;
  uint8_t input_count, output_count;
  uint16_t reserved;
  uint32_t inputs[TN_MAX_OPERANDS]; /* value numbers or TN_NO_VALUE */
  uint32_t outputs[TN_MAX_OPERANDS];
  uint32_t attributes; /* byte offset of the op's attribute struct in the attributes, multiple of 4 */
  uint32_t name;
} tn_op;

typedef struct tn_program {
  uint32_t magic, version;
  uint32_t bytes; /* of the whole program */
  uint32_t value_count, op_count;
  uint32_t input_count, output_count, weight_count, state_count;
  uint32_t attribute_bytes, name_bytes;
  uint32_t values, ops, attributes, names; /* byte offsets from the start */
  uint32_t max_rows, max_sequences, max_logits_rows, max_context;
  uint32_t reserved;
  uint64_t scratch_bytes; /* of the arena, for the maxima */
} tn_program;

/* ---- the batch: the ragged set of token rows of one step ------------------------------------------------------- */
typedef struct tn_row {
  int32_t token;       /* >= 0 */
  int32_t position[4]; /* all equal for text; four for multi-section rope */
  uint32_t sequence;   /* index into sequences */
  uint32_t wants_logits;
} tn_row;

/* The rows of a sequence are contiguous and in order; row i of it writes KV slot kv_length + i. Slot s lies in page
 * pages[group][s / TN_PAGE_SLOTS] at s % TN_PAGE_SLOTS. A row sees slots 0..its own, less what a window closes. */
typedef struct tn_sequence {
  uint32_t first_row, row_count;
  uint32_t kv_length;               /* slots filled before this step */
  uint32_t state_read, state_write; /* slots of recurrent states; nothing is read where kv_length is 0 */
  uint32_t adapter;                 /* reserved, 0 */
  uint32_t pages[TN_MAX_GROUPS];    /* per group: where its page table begins in tn_batch.pages */
} tn_sequence;

typedef struct tn_batch {
  uint32_t size;
  uint32_t row_count;      /* T */
  uint32_t sequence_count; /* S */
  uint32_t logits_count;   /* R */
  uint32_t context;        /* C: the longest kv_length + row_count */
  uint32_t page_count;     /* entries of `pages` */
  const tn_row *rows;
  const tn_sequence *sequences;
  const uint32_t *pages;       /* all page tables, one behind the other */
  const uint32_t *logits_rows; /* [R] the rows that want logits, ascending */
} tn_batch;

/* ---- driver objects ---------------------------------------------------------------------------------------------- */
typedef struct tn_device tn_device;         /* one opened piece of silicon */
typedef struct tn_buffer tn_buffer;         /* device memory */
typedef struct tn_queue tn_queue;           /* an in-order stream of work */
typedef struct tn_executable tn_executable; /* a program prepared, with its weights bound */
typedef struct tn_event tn_event;           /* a mark on a queue */

typedef struct tn_option {
  const char *key, *value;
} tn_option;

typedef enum tn_property_type { TN_PROPERTY_U64 = 0, TN_PROPERTY_F64 = 1, TN_PROPERTY_TEXT = 2 } tn_property_type;
typedef struct tn_property {
  uint32_t size;
  uint32_t type; /* tn_property_type */
  uint64_t u64;
  double f64;
  char text[104];
} tn_property;
/* Properties every driver answers:
 *   "name" text; "memory_total", "memory_free", "max_allocation", "alignment" u64 bytes; "cores", "threads" u64;
 *   "batch_invariant" u64 0/1: a row's result does not depend, in any bit, on the rows beside it;
 *   "kv" text "paged" or "contiguous"; "rows" text: token rows it accepts, "any" or a list like "1,32".
 * Properties it may answer: "peak_int8_ops", "peak_f32_ops", "peak_bytes" f64 per second; "kv_lengths" text, a rising
 *   list like "128,512"; "instruction_set" text; "weights_version" u64, another number wherever weights of some layout
 * id are packed differently than before. An unknown name is TN_E_NOT_FOUND. A shape profile: "kv" contiguous; "rows"
 * and "kv_lengths" rising lists, lengths above TN_PAGE_SLOTS and not below the rows. Such a device gets programs for
 * one count of rows and one length each: every T is a number, there is one sequence, rows behind the last real one are
 * padding whose results nobody reads, R alone stays symbolic. KV is one region for each sequence and layer: key
 * [kv_heads][length][key_dim], then value [kv_heads][length][value_dim], in the state's dtype. The device only reads it
 * (attention_masked); the columns of new rows are outputs (kv_columns), and the caller copies them to their slots. Rope
 * tables and masks are inputs. */

#define TN_USE_VECTOR 1u     /* a norm weight, a bias, a table of numbers: dense f32 on the device */
#define TN_USE_EMBED 2u      /* rows are looked up */
#define TN_USE_LINEAR 4u     /* rows are output features of a linear with float input */
#define TN_USE_LINEAR_Q8A 8u /* ... of a linear with q8a input */
#define TN_USE_GATED 16u     /* with a LINEAR use: 2N rows, gate then value, combined in pairs (n, N + n) */

typedef struct tn_weight_desc {
  uint32_t size;
  uint32_t dtype;   /* tn_dtype of the values' source format */
  uint32_t rank;    /* 1: vector; 2: [rows (out features), cols (in features)]; 3: [experts, rows, cols] */
  uint32_t uses;    /* TN_USE_ bits of all ops that read it: one packed copy serves them all */
  uint64_t dims[4]; /* slowest first */
} tn_weight_desc;

typedef struct tn_weight_layout {
  uint32_t size;
  uint32_t id; /* the driver's own number, stable over runs of the same version: stored beside packed weights */
  uint64_t bytes;
  uint64_t alignment;
} tn_weight_layout;

/* Where some rows of a weight come from: a view of a matrix in host memory, stored row after row, each row `cols`
 * values. Row i of the view is stored row `row_map[i]` (or row_begin + i), its values begin at column col_begin; it
 * becomes row `into_row + i` of the weight (counted over all experts). `transposed`: the stored matrix is [cols of the
 * weight, rows of the weight]. A vector is one row; its into_row is the index of its first value. */
typedef struct tn_weight_source {
  uint32_t size;
  uint32_t dtype;
  const void *data;
  uint64_t rows, cols;           /* of the stored matrix */
  uint64_t row_begin, row_count; /* of the view, in weight rows */
  uint64_t col_begin, col_count;
  const uint32_t *row_map; /* NULL: in order */
  uint32_t transposed;
  float add; /* vectors only: added to every value ((1 + w) norms), else 0 */
  uint64_t into_row;
} tn_weight_source;

typedef struct tn_state_desc {
  uint32_t size;
  uint32_t dtype; /* f32, f16, ... of the KV values; i8 (pages only), see below */
  uint32_t kv_heads, key_dim, value_dim;
  uint32_t slots; /* of a page: TN_PAGE_SLOTS; of contiguous KV its length, and a "page" is all of it; 0: a recurrent
                     state, a matrix [key_dim, value_dim] for each head, and a "page" is all of one slot */
} tn_state_desc;

/* KV in i8: of each slot and head the key, and the value, is a vector of integers q in -127..127 and one f32 scale of
 * its own: x = q * scale, scale = amax / 127 over the vector (keys after they were turned), q = x * (127 / amax)
 * rounded to nearest, ties to even; amax below 2^-100 (or 0) gives q = scale = 0; a vector holding an infinity or NaN
 * gives q = 0, scale = NaN. Where the scales lie is the layout's affair. */

typedef struct tn_state_layout {
  uint32_t size;
  uint32_t id;
  uint64_t page_bytes;
} tn_state_layout;

typedef struct tn_value_desc {
  uint32_t present; /* 0: an optional input that is absent */
  uint32_t kind, dtype, rank;
  int32_t dims[4];
} tn_value_desc;

/* "Could you run this op?" for every row count in [rows_min, rows_max]. */
typedef struct tn_op_query {
  uint32_t size;
  uint32_t opcode, revision;
  uint32_t input_count, output_count;
  uint32_t rows_min, rows_max;
  uint32_t attribute_bytes;
  const void *attributes;
  tn_value_desc inputs[TN_MAX_OPERANDS], outputs[TN_MAX_OPERANDS];
} tn_op_query;

typedef struct tn_binding {
  tn_buffer *buffer;
  uint64_t offset, bytes;
} tn_binding;

typedef struct tn_weight_binding {
  tn_weight_desc desc;
  tn_weight_layout layout;
  tn_binding memory;
} tn_weight_binding;

/* What one execution works on. `states[i].memory` holds pages of `states` layout; all arrays are indexed by the
 * program's binding numbers. The arrays and the batch need only live until `execute` returns. */
typedef struct tn_execution {
  uint32_t size;
  uint32_t input_count, output_count, state_count;
  const tn_binding *inputs, *outputs, *states;
  tn_binding scratch; /* at least program->scratch_bytes, exclusive until the execution is complete */
  const tn_batch *batch;
} tn_execution;

/* Progress of a long `prepare`: `done` of `total` in units of the driver's choice; a nonzero answer cancels. */
typedef int (*tn_progress)(void *context, uint64_t done, uint64_t total);

typedef struct tn_launch {
  uint32_t size;
  uint32_t cores, threads;
  void *const *arguments; /* tn_buffer pointers; the kernel gets their device addresses as one contiguous array */
  uint32_t argument_count;
} tn_launch;

typedef struct tn_op_counter {
  uint32_t op; /* number of the op in its program */
  uint32_t core;
  uint64_t start_ns, end_ns; /* on the clock of the host */
  uint64_t cycles, bytes;    /* 0 where not measured */
} tn_op_counter;

/* ---- the table ------------------------------------------------------------------------------------------------------
 * Functions marked optional may be NULL, which means TN_E_UNSUPPORTED. */
typedef struct tn_driver {
  uint32_t size;
  uint32_t abi_min, abi_max; /* abi versions it speaks; the caller refuses when TN_DEVICE_ABI is not among them */
  uint32_t reserved;
  const char *name;    /* "cpu", ... */
  const char *summary; /* one line for people */

  /* driver */
  tn_status (*enumerate)(uint32_t *count); /* devices present now; 0 is no error: last_error(NULL) may say why */
  tn_status (*open)(uint32_t index, const tn_option *options, uint32_t option_count, tn_device **device);
  void (*close)(tn_device *device); /* everything made on it is gone afterwards */
  const char *(*last_error)(
      tn_device *device); /* never NULL; device NULL: of the calling thread's last enumerate or open */
  tn_status (*get)(tn_device *device, const char *name, tn_property *value);

  /* memory: zeroed on allocation, aligned to "alignment" */
  tn_status (*alloc)(tn_device *device, uint64_t bytes, tn_buffer **buffer);
  void (*free)(tn_device *device, tn_buffer *buffer);
  void *(*host_pointer)(tn_device *device, tn_buffer *buffer); /* NULL: not reachable from the host */

  /* queue */
  tn_status (*queue_create)(tn_device *device, tn_queue **queue);
  void (*queue_destroy)(tn_queue *queue);
  tn_status (*copy_in)(tn_queue *queue, tn_buffer *to, uint64_t offset, const void *from,
                       uint64_t bytes); /* `from` is free again on return */
  tn_status (*copy_out)(tn_queue *queue, void *to, tn_buffer *from, uint64_t offset,
                        uint64_t bytes); /* `to` is valid after a synchronize */
  tn_status (*copy)(tn_queue *queue, tn_buffer *to, uint64_t to_offset, tn_buffer *from, uint64_t from_offset,
                    uint64_t bytes);
  tn_status (*fill)(tn_queue *queue, tn_buffer *to, uint64_t offset, uint8_t byte, uint64_t bytes);
  tn_status (*execute)(tn_queue *queue, tn_executable *executable, const tn_execution *execution);
  tn_status (*synchronize)(
      tn_queue *queue,
      uint64_t deadline_ns); /* TN_E_TIMEOUT past the deadline (CLOCK_MONOTONIC ns; UINT64_MAX: none), work goes on */

  /* weights */
  tn_status (*weight_layout)(tn_device *device, const tn_weight_desc *desc, tn_weight_layout *layout);
  tn_status (*weight_pack)(tn_queue *queue, const tn_weight_desc *desc, const tn_weight_layout *layout,
                           const tn_weight_source *sources, uint32_t source_count, tn_buffer *to,
                           uint64_t offset); /* sources are free again on return */

  /* states */
  tn_status (*state_layout)(tn_device *device, const tn_state_desc *desc, tn_state_layout *layout);

  /* programs */
  tn_status (*supports)(tn_device *device, const tn_op_query *query); /* TN_OK or TN_E_UNSUPPORTED */
  tn_status (*prepare)(tn_device *device, const tn_program *program, const tn_weight_binding *weights,
                       uint32_t weight_count, tn_progress progress, void *progress_context,
                       tn_executable **executable); /* program bytes are copied */
  void (*release)(tn_executable *executable);

  /* optional: events */
  tn_status (*record)(tn_queue *queue, tn_event **event);
  tn_status (*wait)(tn_event *event, uint64_t deadline_ns);
  void (*event_destroy)(tn_event *event);
  /* optional: kernels without a model */
  tn_status (*kernel_load)(tn_device *device, const void *blob, uint64_t bytes, void **module);
  tn_status (*kernel_function)(void *module, const char *name, void **function);
  tn_status (*kernel_launch)(tn_queue *queue, void *function, const tn_launch *launch);
  void (*kernel_unload)(void *module);
  /* optional: collectives over the queues of a group, in place, f32 */
  tn_status (*all_reduce)(tn_queue *const *queues, const tn_binding *values, uint32_t count);
  tn_status (*all_gather)(tn_queue *const *queues, const tn_binding *parts, const tn_binding *whole, uint32_t count);
  tn_status (*broadcast)(tn_queue *const *queues, const tn_binding *values, uint32_t count, uint32_t root);
  /* optional: counters of the executions since the last read; *count in: capacity, out: how many there are (none are
   * read where the capacity is less). A device may begin to measure with the first call. */
  tn_status (*counters)(tn_queue *queue, tn_op_counter *counters, uint32_t *count);
  /* optional: memory that is read only and comes from a file: `bytes` of `path` from `offset` (a multiple of 65536) on.
   * The file stays as it is. A device may map it, so that what doesn't fit in memory still runs, or read it. A driver
   * that has this answers the property "weights_version". */
  tn_status (*map)(tn_device *device, const char *path, uint64_t offset, uint64_t bytes, tn_buffer **buffer);
  /* optional: how many instructions, of all threads, each op took that `counters` told last, in the same order; `count`
   * is what it told. 0: not known. Asked before the next execution. */
  tn_status (*instructions)(tn_queue *queue, uint64_t *instructions, uint32_t count);
} tn_driver;

/* The one symbol a driver library exports. `abi` is the caller's TN_DEVICE_ABI; the table it returns names the
 * versions it speaks (it is returned even when they don't meet, so that both can be named). */
typedef const tn_driver *(*tn_driver_entry_function)(uint32_t abi);
const tn_driver *tn_driver_entry(uint32_t abi);

#ifdef __cplusplus
}
#endif
#endif
