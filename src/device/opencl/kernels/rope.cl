/* rope_table and rope, and the keys and values of a step on their way into KV memory. */

/* Dimensions: rotary / 2, rows. */
__kernel void rope_table(constant_memory frequencies, constant_memory batch, memory y, rope_arguments a) {
  uint m = get_global_id(0), row = get_global_id(1), count = a.rotary / 2;
  if (m >= count) return;
  float angle = (float)row_position(batch, &a.batch, row) * ((__global const float *)(frequencies + a.table))[m];
  float sine, cosine;
#ifdef cl_khr_fp64
  tn_sin_cos(angle, &sine, &cosine);
#else
  sine = sincos(angle, &cosine);
#endif
  __global float *to = (__global float *)(y + a.y) + (ulong)row * a.rotary;
  to[m] = cosine * a.magnitude;
  to[count + m] = sine * a.magnitude;
}

/* Value i of a head after its first 2 * count values were turned in pairs by a row of the rope table. */
static float turned_value(__global const float *head, uint i, uint count, uint pairing, __global const float *table) {
  if (i >= 2 * count) return head[i];
  uint pair = pairing == ROPE_HALF ? i % count : i / 2;
  uint second = pairing == ROPE_HALF ? i / count : i % 2;
  uint partner = pairing == ROPE_HALF ? (i + count) % (2 * count) : i ^ 1u;
  float cosine = table[pair], sine = table[count + pair];
  return second ? head[partner] * sine + head[i] * cosine : head[i] * cosine - head[partner] * sine;
}

/* A work-item turns one pair, or passes on values behind the turned ones: y may be x. Dimensions: per head the pairs and
 * the values behind them, heads, rows. */
__kernel void rope(constant_memory x, constant_memory table, memory y, rope_arguments a) {
  uint i = get_global_id(0), head = get_global_id(1), row = get_global_id(2), count = a.rotary / 2;
  if (i >= a.head_dim - count) return;
  ulong at = (ulong)row * a.columns + head * a.head_dim;
  __global const float *from = (__global const float *)(x + a.x) + at;
  __global const float *turn = (__global const float *)(table + a.table) + (ulong)row * a.rotary;
  __global float *to = (__global float *)(y + a.y) + at;
  if (i >= count) {
    to[i + count] = from[i + count];
    return;
  }
  uint first = a.pairing == ROPE_HALF ? i : 2 * i, second = a.pairing == ROPE_HALF ? i + count : 2 * i + 1;
  float one = turned_value(from, first, count, a.pairing, turn);
  float other = turned_value(from, second, count, a.pairing, turn);
  to[first] = one;
  to[second] = other;
}

#define WRITE_LANES 32u

/* The scale of int8 values (device.h), and what they are multiplied by before they are rounded. */
static float int8_scale(float most, float *inverse) {
  *inverse = 0.0f;
  if (!(most < TN_INFINITY)) return NAN;
  if (most < TN_INT8_TINY) return 0.0f;
  *inverse = 127.0f / most;
  return most / 127.0f;
}

/* One head's key (which 0) or value (1) of one row for each work-group. Dimensions: lanes, 2 * heads, rows. */
__kernel __attribute__((reqd_work_group_size(WRITE_LANES, 1, 1))) void kv_write(constant_memory k, constant_memory v,
                                                                               constant_memory table,
                                                                               constant_memory batch, memory keys,
                                                                               memory values, kv_write_arguments a) {
  __local float magnitudes[WRITE_LANES];
  uint lane = get_local_id(0), which = get_group_id(1) % 2, head = get_group_id(1) / 2, row = get_group_id(2);
  uint dim = which ? a.value_dim : a.key_dim, turned = which ? 0 : a.rotary / 2;
  __global const float *from = (__global const float *)(which ? v + a.v : k + a.k);
  __global const float *turn = (__global const float *)(table + a.table) + (ulong)row * a.rotary;
  from += ((ulong)row * a.kv_heads + head) * dim;
  memory to;
  ulong at;
  __global float *scale = 0;
  if (a.paged) { /* the plain page: keys [heads][slots][dim], values alike, then int8's scales */
    sequence s = sequence_of_row(batch, &a.batch, row, a.group);
    uint slot = s.kv_length + (row - s.first_row), vector = head * PAGE_SLOTS + slot % PAGE_SLOTS;
    ulong key_values = (ulong)a.kv_heads * PAGE_SLOTS * a.key_dim;
    ulong all_values = key_values + (ulong)a.kv_heads * PAGE_SLOTS * a.value_dim;
    to = keys + a.keys + page_of(batch, &a.batch, &s, slot) * a.page_bytes;
    at = (which ? key_values : 0) + (ulong)vector * dim;
    scale = (__global float *)(to + all_values) + (which ? a.kv_heads * PAGE_SLOTS : 0) + vector;
  } else {
    to = which ? values + a.values + head * a.values_row : keys + a.keys + head * a.keys_row;
    at = (ulong)row * dim;
  }
  float inverse = 1.0f, most = 0.0f, found = 0.0f;
  for (uint i = lane; a.dtype == DTYPE_I8 && i < dim; i += WRITE_LANES) {
    float magnitude = tn_abs(turned ? turned_value(from, i, turned, a.pairing, turn) : from[i]);
    if (most == most && (magnitude > most || magnitude != magnitude)) most = magnitude;
  }
  magnitudes[lane] = most;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (a.dtype == DTYPE_I8) {
    for (uint i = 0; i < WRITE_LANES; i++) {
      float magnitude = magnitudes[i];
      if (most == most && (magnitude > most || magnitude != magnitude)) most = magnitude;
    }
    found = int8_scale(most, &inverse);
  }
  for (uint i = lane; i < dim; i += WRITE_LANES) {
    float value = turned ? turned_value(from, i, turned, a.pairing, turn) : from[i];
    store_value(a.dtype, to, at + i, inverse == 0.0f ? 0.0f : value * inverse);
  }
  if (lane == 0 && a.dtype == DTYPE_I8) *scale = found;
}
