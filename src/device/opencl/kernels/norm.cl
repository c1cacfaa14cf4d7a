/* norm, and 8-bit activations. */

#define NORM_LANES 64u

/* Quantises 32 values to block `block` of a q8a row of `columns`; device.h says how. */
static void quantise_block(const float *values, memory row, uint columns, uint block) {
  uint padded = (columns + 31) / 32 * 32;
  float most = 0.0f;
  for (uint i = 0; i < 32 && most == most; i++) {
    float magnitude = tn_abs(values[i]);
    if (magnitude > most || magnitude != magnitude) most = magnitude;
  }
  int finite = most < TN_INFINITY, zero = !finite || most < TN_INT8_TINY, sum = 0;
  float inverse = zero ? 0.0f : 127.0f / most;
  __global char *q = (__global char *)(row + block * 32);
  for (uint i = 0; i < 32; i++) {
    int rounded = zero ? 0 : (int)((values[i] * inverse + TN_ROUND_MAGIC) - TN_ROUND_MAGIC);
    q[i] = (char)rounded;
    sum += rounded;
  }
  ((__global float *)(row + padded))[block] = finite ? (zero ? 0.0f : most / 127.0f) : NAN;
  ((__global int *)(row + padded + padded / 8))[block] = sum;
}

/* Dimensions: blocks, rows. */
__kernel void quantise(constant_memory x, memory y, quantise_arguments a) {
  uint block = get_global_id(0), row = get_global_id(1);
  if (block * 32 >= a.columns) return;
  uint count = min(a.columns - block * 32, 32u);
  __global const float *from = (__global const float *)(x + a.x) + (ulong)row * a.columns + block * 32;
  float values[32];
  for (uint i = 0; i < 32; i++) values[i] = i < count ? from[i] : 0.0f;
  quantise_block(values, y + a.y + row * a.y_row, a.columns, block);
}

/* The sum over a work-group's lanes, the same for all of them; always the same tree. */
static float sum_lanes(__local float *lanes, uint lane, float mine) {
  lanes[lane] = mine;
  for (uint step = NORM_LANES / 2; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < step) lanes[lane] += lanes[lane + step];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = lanes[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

/* One group of a row for each work-group. Dimensions: lanes, groups of the row, rows. */
__kernel __attribute__((reqd_work_group_size(NORM_LANES, 1, 1))) void norm(constant_memory x, constant_memory weight,
                                                                          constant_memory bias, memory y,
                                                                          norm_arguments a) {
  __local float lanes[NORM_LANES];
  uint lane = get_local_id(0), group = get_group_id(1), row = get_group_id(2), begin = group * a.group;
  __global const float *from = (__global const float *)(x + a.x) + (ulong)row * a.columns + begin;
  __global const float *w = (__global const float *)(weight + a.weight), *b = (__global const float *)(bias + a.bias);
  float mine = 0.0f, mean = 0.0f;
  if (a.kind == NORM_LAYER) {
    for (uint i = lane; i < a.group; i += NORM_LANES) mine += from[i];
    mean = sum_lanes(lanes, lane, mine) / (float)a.group;
    mine = 0.0f;
  }
  for (uint i = lane; i < a.group; i += NORM_LANES) mine += (from[i] - mean) * (from[i] - mean);
  float inverse = tn_rsqrt(sum_lanes(lanes, lane, mine) / (float)a.group + a.epsilon);
  uint step = a.to_q8a ? 32 : 1; /* a lane makes whole blocks */
  for (uint first = lane * step; first < a.group; first += NORM_LANES * step) {
    float values[32];
    for (uint i = 0; i < step; i++) {
      uint k = first + i;
      float value = 0.0f;
      if (k < a.group) {
        value = (from[k] - mean) * inverse;
        if (a.weight_columns) value *= w[(begin + k) % a.weight_columns];
        if (a.bias_columns) value += b[(begin + k) % a.bias_columns];
      }
      values[i] = value;
    }
    memory to = y + a.y + row * a.y_row;
    if (a.to_q8a)
      quantise_block(values, to, a.columns, (begin + first) / 32);
    else
      ((__global float *)to)[begin + first] = values[0];
  }
}
