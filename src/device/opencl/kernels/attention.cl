/* attention over pages, and attention_masked over contiguous KV: fused, one query head of one row for each work-group.
 *
 * Columns are taken in tiles of PAGE_SLOTS positions counted from 0, each lane one column; a tile yields its maximum, sum
 * and weighted values, and tiles are merged in order (kernels/reference/attend.h). What a row gets depends on its own
 * columns alone. */

#define ATTENTION_LANES PAGE_SLOTS

/* What the work-group has so far; y[value_dim] lies in local memory. */
typedef struct attended {
  float most, sum;
} attended;

/* One column: where its key and value begin, and the scales of int8. */
typedef struct column {
  constant_memory key, value;
  ulong key_at, value_at;
  float key_scale, value_scale;
} column;

static float score_of(const attention_arguments *a, __global const float *q, const column *c) {
  float16 products = 0.0f;
  uint d = 0;
  for (; d + 16 <= a->key_dim; d += 16)
    products = MULTIPLY_ADD(vload16(0, q + d), load16(a->dtype, c->key, c->key_at + d), products);
  float dot = sum16(products);
  for (; d < a->key_dim; d++) dot += q[d] * load_value(a->dtype, c->key, c->key_at + d);
  float score = dot * c->key_scale * a->scale;
  return a->softcap > 0.0f ? a->softcap * tn_tanh(score / a->softcap) : score;
}

/* Where the values of the tile's columns begin, for all lanes to read. */
typedef struct tile_values {
  constant_memory base[PAGE_SLOTS];
  ulong at[PAGE_SLOTS];
} tile_values;

/* Merges a tile: lane i has column i, which takes part if `open`. Every lane calls this. */
static void attend_tile(const attention_arguments *a, uint lane, int open, float score, const column *c,
                        __local float *weights, __local float *scales, __local uint *opened,
                        __local tile_values *values, __local float *y, attended *so_far) {
  opened[lane] = open;
  weights[lane] = score;
  scales[lane] = c->value_scale;
  values->base[lane] = c->value;
  values->at[lane] = c->value_at;
  barrier(CLK_LOCAL_MEM_FENCE);
  float most = -INFINITY, sum = 0.0f;
  for (uint j = 0; j < PAGE_SLOTS; j++)
    if (opened[j] && weights[j] > most) most = weights[j];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (open) weights[lane] = tn_exp(score - most);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint j = 0; j < PAGE_SLOTS; j++)
    if (opened[j]) sum += weights[j];
  float merged = most > so_far->most ? most : so_far->most;
  float keep = tn_exp(so_far->most - merged), take = tn_exp(most - merged);
  uint fours = a->value_dim / 4;
  for (uint i = lane; i < fours; i += ATTENTION_LANES) {
    float4 partial = 0.0f;
    for (uint j = 0; j < PAGE_SLOTS; j++)
      if (opened[j]) partial += weights[j] * scales[j] * load4(a->dtype, values->base[j], values->at[j] + 4 * i);
    vstore4(vload4(i, y) * keep + partial * take, i, y);
  }
  for (uint d = 4 * fours + lane; d < a->value_dim; d += ATTENTION_LANES) {
    float partial = 0.0f;
    for (uint j = 0; j < PAGE_SLOTS; j++)
      if (opened[j]) partial += weights[j] * scales[j] * load_value(a->dtype, values->base[j], values->at[j] + d);
    y[d] = y[d] * keep + partial * take;
  }
  so_far->sum = so_far->sum * keep + sum * take;
  so_far->most = merged;
  barrier(CLK_LOCAL_MEM_FENCE);
}

/* y /= sum, with the head's sink in the denominator where there is one. */
static void finish_attention(const attention_arguments *a, uint lane, uint head, constant_memory sinks,
                             __local const float *y, attended so_far, __global float *to) {
  float keep = 1.0f, sum = so_far.sum;
  if (a->has_sinks) {
    float sink = ((__global const float *)(sinks + a->sinks))[head];
    float merged = sink > so_far.most ? sink : so_far.most;
    keep = tn_exp(so_far.most - merged);
    sum = sum * keep + tn_exp(sink - merged);
  }
  for (uint d = lane; d < a->value_dim; d += ATTENTION_LANES) to[d] = y[d] * keep / sum;
}

/* Dimensions: lanes, heads, rows. `y_local` has value_dim floats. */
__kernel __attribute__((reqd_work_group_size(ATTENTION_LANES, 1, 1))) void attention(
    constant_memory q, constant_memory state, constant_memory sinks, constant_memory batch, memory y,
    attention_arguments a, __local float *y_local) {
  __local float weights[PAGE_SLOTS], scales[PAGE_SLOTS];
  __local uint opened[PAGE_SLOTS];
  __local tile_values values;
  uint lane = get_local_id(0), head = get_group_id(1), row = get_group_id(2), kv_head = head / (a.heads / a.kv_heads);
  sequence s = sequence_of_row(batch, &a.batch, row, a.group);
  uint last = s.kv_length + (row - s.first_row), first = a.window && last >= a.window ? last - a.window + 1 : 0;
  ulong key_values = (ulong)a.kv_heads * PAGE_SLOTS * a.key_dim;
  ulong all_values = key_values + (ulong)a.kv_heads * PAGE_SLOTS * a.value_dim;
  uint vector = kv_head * PAGE_SLOTS + lane;
  __global const float *query = (__global const float *)(q + a.q) + ((ulong)row * a.heads + head) * a.key_dim;
  attended so_far = {-INFINITY, 0.0f};
  for (uint d = lane; d < a.value_dim; d += ATTENTION_LANES) y_local[d] = 0.0f;
  for (uint begin = first / PAGE_SLOTS * PAGE_SLOTS; begin <= last; begin += PAGE_SLOTS) {
    int open = begin + lane >= first && begin + lane <= last;
    constant_memory page = state + a.state + page_of(batch, &a.batch, &s, begin) * a.page_bytes;
    column c = {page, page, (ulong)vector * a.key_dim, key_values + (ulong)vector * a.value_dim, 1.0f, 1.0f};
    if (a.dtype == DTYPE_I8 && open) {
      __global const float *of_keys = (__global const float *)(page + all_values) + vector;
      c.key_scale = of_keys[0];
      c.value_scale = of_keys[a.kv_heads * PAGE_SLOTS];
    }
    float score = open ? score_of(&a, query, &c) : 0.0f;
    attend_tile(&a, lane, open, score, &c, weights, scales, opened, &values, y_local, &so_far);
  }
  finish_attention(&a, lane, head, sinks, y_local, so_far,
                   (__global float *)(y + a.y) + ((ulong)row * a.heads + head) * a.value_dim);
}

/* Columns are the state's slots at positions 0, 1, .. and behind the last that row 0 sees the new rows; the mask says
 * which are open. Dimensions and y_local as above. */
__kernel __attribute__((reqd_work_group_size(ATTENTION_LANES, 1, 1))) void attention_masked(
    constant_memory q, constant_memory state, constant_memory sinks, constant_memory keys, constant_memory new_values,
    constant_memory mask, memory y, attention_arguments a, __local float *y_local) {
  __local float weights[PAGE_SLOTS], scales[PAGE_SLOTS];
  __local uint opened[PAGE_SLOTS];
  __local tile_values values;
  uint lane = get_local_id(0), head = get_group_id(1), row = get_group_id(2), kv_head = head / (a.heads / a.kv_heads);
  uint columns = a.slots + a.rows, past = a.slots, any = 0;
  __global const float *masks = (__global const float *)(mask + a.mask), *own = masks + (ulong)row * columns;
  __global const float *query = (__global const float *)(q + a.q) + ((ulong)row * a.heads + head) * a.key_dim;
  __global float *to = (__global float *)(y + a.y) + ((ulong)row * a.heads + head) * a.value_dim;
  ulong key_values = (ulong)a.kv_heads * a.slots * a.key_dim;
  attended so_far = {-INFINITY, 0.0f};
  while (past > 0 && masks[past - 1] < 0.0f) past--;
  for (uint d = lane; d < a.value_dim; d += ATTENTION_LANES) y_local[d] = 0.0f;
  for (uint begin = 0; begin < past + a.rows; begin += PAGE_SLOTS) {
    uint p = begin + lane, is_new = p >= past, found = 0;
    int open = p < past + a.rows && !(own[is_new ? a.slots + (p - past) : p] < 0.0f);
    opened[lane] = open;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = 0; j < PAGE_SLOTS; j++) found |= opened[j];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!found) continue; /* all lanes alike */
    ulong vector = is_new ? p - past : (ulong)kv_head * a.slots + p;
    column c = {state + a.state, state + a.state, vector * a.key_dim, key_values + vector * a.value_dim, 1.0f, 1.0f};
    if (is_new) {
      c.key = keys + a.keys + kv_head * a.keys_row;
      c.value = new_values + a.values + kv_head * a.values_row;
      c.value_at = vector * a.value_dim;
    }
    float score = open ? score_of(&a, query, &c) : 0.0f;
    attend_tile(&a, lane, open, score, &c, weights, scales, opened, &values, y_local, &so_far);
    any = 1;
  }
  if (any) {
    finish_attention(&a, lane, head, sinks, y_local, so_far, to);
  } else {
    for (uint d = lane; d < a.value_dim; d += ATTENTION_LANES) to[d] = 0.0f;
  }
}
