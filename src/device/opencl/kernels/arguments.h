/* What the kernels are given beside their memory: one struct for each, read by the host (C) and by the kernels
 * (OpenCL C) alike, so 64-bit fields stand first and every size is a multiple of 8.
 *
 * Memory comes as (object, byte offset): an object of the runtime, and in the struct where in it the operand begins. A
 * row is `..._row` bytes long. */
#ifndef TENON_DEVICE_OPENCL_ARGUMENTS_H
#define TENON_DEVICE_OPENCL_ARGUMENTS_H

#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
typedef uint cl_number;
typedef ulong cl_place;
typedef float cl_value;
#else
#include <stdint.h>
typedef uint32_t cl_number;
typedef uint64_t cl_place;
typedef float cl_value;
#endif

/* Where the parts of the batch begin in its memory, in 32-bit words. */
typedef struct batch_arguments {
  cl_place at; /* byte offset of the whole */
  cl_number sequences, pages, logits_rows, row_count;
} batch_arguments;

/* linear, moe_linear, head_linear: y[m][part] = f(x[m][part] . W[matrix]^T). A linear has one part and one matrix; a
 * row of moe_linear a part for each chosen expert, whose number says which matrix; of head_linear one for each head. */
typedef struct linear_arguments {
  cl_place x, w, bias, residual, experts, y[4];
  cl_place x_row, w_row;          /* bytes */
  cl_number rows, columns, depth; /* M; N of y; K */
  cl_number x_dtype, w_dtype;
  cl_number parts, matrices, by_expert;
  cl_number x_part;             /* values from part to part of x */
  cl_number y_stride, y_begin;  /* one output: values from part to part of y, and before the first column */
  cl_number widths[4], outputs; /* several outputs share the columns in order */
  cl_number activation, gated;
  cl_number has_bias, has_residual;
  cl_value scale, limit, alpha;
} linear_arguments;

/* Columns of rows, copied: y[r][y_begin + i] = x[map[r]][x_begin + i], i < columns. */
typedef struct copy_arguments {
  cl_place x, y, map;
  cl_number x_stride, y_stride, x_begin, y_begin; /* values */
  cl_number rows, columns, mapped, reserved;
} copy_arguments;

typedef struct embed_arguments {
  cl_place table, y, table_row;
  batch_arguments batch;
  cl_number columns, dtype, source;
  cl_value scale;
} embed_arguments;

#define VALUES_ADD 0
#define VALUES_MUL 1
#define VALUES_ACTIVATION 2
#define VALUES_SCALE 3
#define VALUES_SOFTCAP 4
#define VALUES_BF16 5
/* One value at a time: y = op(a, b); b is absent, or of a row of `b_columns` values that every row meets, or as a. */
typedef struct values_arguments {
  cl_place a, b, y, count;
  cl_number op, activation, has_b, b_columns, columns;
  cl_value value;
} values_arguments;

typedef struct norm_arguments {
  cl_place x, weight, bias, y, y_row;
  cl_number columns, group, weight_columns, bias_columns; /* 0: absent */
  cl_number kind, to_q8a;
  cl_value epsilon;
  cl_number reserved;
} norm_arguments;

typedef struct quantise_arguments {
  cl_place x, y, y_row;
  cl_number rows, columns;
} quantise_arguments;

typedef struct rope_arguments {
  cl_place x, table, y;
  batch_arguments batch; /* of a rope table */
  cl_number rows, columns, head_dim, rotary, pairing;
  cl_value magnitude;
} rope_arguments;

/* kv_write (a state in pages) and kv_columns. */
typedef struct kv_write_arguments {
  cl_place k, v, table, keys, values, page_bytes, keys_row, values_row;
  batch_arguments batch;
  cl_number rows, group, kv_heads, key_dim, value_dim, rotary, pairing, dtype, paged, reserved;
} kv_write_arguments;

typedef struct attention_arguments {
  cl_place q, state, sinks, y, page_bytes, keys, values, mask, keys_row, values_row;
  batch_arguments batch;
  cl_number rows, group, heads, kv_heads, key_dim, value_dim, dtype, window, has_sinks, slots;
  cl_value scale, softcap;
} attention_arguments;

typedef struct route_arguments {
  cl_place x, bias, expert_scale, weights, experts;
  cl_number rows, count, used, scoring, normalise, groups, groups_used, has_bias, has_scale;
  cl_value scale;
} route_arguments;

typedef struct combine_arguments {
  cl_place y, weights, z;
  cl_number rows, columns, parts, reserved;
} combine_arguments;

typedef struct conv_arguments {
  cl_place x, w, state, y, slot_bytes;
  batch_arguments batch;
  cl_number channels, taps, activation, reserved;
} conv_arguments;

typedef struct delta_arguments {
  cl_place qkv, a, b, decay, dt, state, y, slot_bytes;
  batch_arguments batch;
  cl_number key_heads, value_heads, key_dim, value_dim, tiled;
  cl_value epsilon;
} delta_arguments;

#endif
