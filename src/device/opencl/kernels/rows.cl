/* Ops that move rows and columns, and those that work value by value. */

/* embed: 32 columns a work-item. Dimensions: blocks of columns, rows. */
__kernel void embed(constant_memory table, constant_memory batch, memory y, embed_arguments a) {
  uint column = get_global_id(0) * 32, row = get_global_id(1);
  if (column >= a.columns) return;
  uint count = min(a.columns - column, 32u);
  int index = a.source == EMBED_TOKEN ? row_token(batch, &a.batch, row) : row_position(batch, &a.batch, row);
  float16 low, high;
  load_weights(a.dtype, table + a.table + (ulong)index * a.table_row, column, count, &low, &high);
  low *= a.scale;
  high *= a.scale;
  __global float *to = (__global float *)(y + a.y) + (ulong)row * a.columns + column;
  if (count == 32) {
    vstore16(low, 0, to);
    vstore16(high, 1, to);
    return;
  }
  float values[32];
  vstore16(low, 0, values);
  vstore16(high, 1, values);
  for (uint i = 0; i < count; i++) to[i] = values[i];
}

/* Dimensions: columns, rows. */
__kernel void copy_columns(constant_memory x, constant_memory map, memory y, copy_arguments a) {
  uint column = get_global_id(0), row = get_global_id(1);
  if (column >= a.columns) return;
  uint from = a.mapped ? ((__global const uint *)(map + a.map))[row] : row;
  ((__global float *)(y + a.y))[(ulong)row * a.y_stride + a.y_begin + column] =
      ((__global const float *)(x + a.x))[(ulong)from * a.x_stride + a.x_begin + column];
}

/* add, mul, activation, scale, softcap, and quantise to bf16. */
__kernel void value_by_value(constant_memory a_memory, constant_memory b_memory, memory y, values_arguments a) {
  ulong i = get_global_id(0);
  if (i >= a.count) return;
  float x = ((__global const float *)(a_memory + a.a))[i], b = 0.0f, result = x;
  __global const float *bs = (__global const float *)(b_memory + a.b);
  if (a.has_b) b = a.b_columns ? bs[(uint)(i % a.columns) % a.b_columns] : bs[i];
  switch (a.op) {
    case VALUES_ADD: result = x + b; break;
    case VALUES_MUL: result = x * b; break;
    case VALUES_SCALE: result = x * a.value; break;
    case VALUES_SOFTCAP: result = a.value * tn_tanh(x / a.value); break;
    case VALUES_ACTIVATION:
      result = activate(a.activation, x);
      if (a.has_b) result *= b;
      break;
    default: ((__global ushort *)(y + a.y))[i] = tn_f32_to_bf16(x); return;
  }
  ((__global float *)(y + a.y))[i] = result;
}
