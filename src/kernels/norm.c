/* norm and quantise: the kernels that reduce a row. A row's sums run over four vectors in turn, then over the lanes: an
 * order that depends on nothing but the group's size. */
#include "kernels/internal.h"
#include "kernels/vector_math.h"

#define SUMS 4u

/* One block: at most 32 values. */
static void quantise_block(const float *x, uint32_t count, int8_t *q, float *scale, int32_t *sum) {
  vf low = tn_load_some(x, count);
  vf high = count > TN_LANES ? tn_load_some(x + TN_LANES, count - TN_LANES) : vf_zero();
  float largest = tn_largest_of(vi_max(vi_bits(vf_abs(low)), vi_bits(vf_abs(high))));
  if (!(largest > 0.0f)) {
    __builtin_memset(q, 0, TN_Q8A_BLOCK);
    *scale = largest;
    *sum = 0;
    return;
  }
  const vf inverse = vf_set1(127.0f / largest);
  vi a = vi_round(vf_mul(low, inverse)), b = vi_round(vf_mul(high, inverse));
  vi_store_i8(q, a);
  vi_store_i8(q + TN_LANES, b);
  *scale = largest / 127.0f;
  *sum = vi_sum(vi_add(a, b));
}

void tn_quantise_row(const float *x, uint32_t columns, void *row) {
  uint32_t blocks = (columns + TN_Q8A_BLOCK - 1) / TN_Q8A_BLOCK;
  int8_t *q = (int8_t *)row;
  float *scales = (float *)(void *)(q + (uint64_t)blocks * TN_Q8A_BLOCK);
  int32_t *sums = (int32_t *)(void *)(scales + blocks);
  for (uint32_t b = 0; b < blocks; b++) {
    uint32_t left = columns - b * TN_Q8A_BLOCK;
    quantise_block(x + b * TN_Q8A_BLOCK, left < TN_Q8A_BLOCK ? left : TN_Q8A_BLOCK, q + b * TN_Q8A_BLOCK, scales + b,
                   sums + b);
  }
}

static void quantise_row(const tn_kernel_call *call, uint32_t row, uint32_t worker) {
  (void)worker;
  const float *x = tn_floats(&call->inputs[0], row);
  uint32_t columns = tn_columns(&call->inputs[0]);
  uint8_t *y = tn_row_at(&call->outputs[0], row);
  if (call->outputs[0].dtype == TN_Q8A) {
    tn_quantise_row(x, columns, y);
    return;
  }
  uint16_t *halves = (uint16_t *)(void *)y, last[TN_LANES];
  uint32_t k = 0;
  for (; k + TN_LANES <= columns; k += TN_LANES) vf_store_bf16(halves + k, vf_load(x + k));
  if (k == columns) return;
  vf_store_bf16(last, vf_load_part(x + k, columns - k));
  for (uint32_t i = 0; k + i < columns; i++) halves[k + i] = last[i];
}

tn_status tn_quantise(const tn_kernel_call *call) {
  tn_share_rows(call, quantise_row, tn_rows(&call->inputs[0]), (uint64_t)tn_columns(&call->inputs[0]) * 2);
  return TN_OK;
}

TN_INLINE float sum_of(const vf sums[SUMS]) {
  return vf_sum(vf_add(vf_add(sums[0], sums[1]), vf_add(sums[2], sums[3])));
}

static float mean_of(const float *x, uint32_t count) {
  vf sums[SUMS] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
  for (uint32_t i = 0; i < count; i += TN_LANES * SUMS)
    for (uint32_t s = 0; s < SUMS && i + s * TN_LANES < count; s++)
      sums[s] = vf_add(sums[s], tn_load_some(x + i + s * TN_LANES, count - i - s * TN_LANES));
  return sum_of(sums) / (float)count;
}

static float mean_square(const float *x, uint32_t count, float mean) {
  vf sums[SUMS] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
  for (uint32_t i = 0; i < count; i += TN_LANES * SUMS) {
    for (uint32_t s = 0; s < SUMS && i + s * TN_LANES < count; s++) {
      uint32_t left = count - i - s * TN_LANES;
      vf centred = vf_sub(tn_load_some(x + i + s * TN_LANES, left), vf_set1(mean));
      if (left < TN_LANES) centred = vf_select(vi_first(left), centred, vf_zero());
      sums[s] = vf_fma(centred, centred, sums[s]);
    }
  }
  return sum_of(sums) / (float)count;
}

/* y = (x - mean) / deviation, times weight, plus bias, of one group. */
static void normalise(const tn_norm_attributes *attributes, const float *x, uint32_t count, const float *weight,
                      const float *bias, float *y) {
  float mean = attributes->kind == TN_NORM_LAYER ? mean_of(x, count) : 0.0f;
  const vf shift = vf_set1(mean);
  const vf inverse = vf_set1(tn_rsqrt(mean_square(x, count, mean) + attributes->epsilon));
  for (uint32_t i = 0; i < count; i += TN_LANES) {
    uint32_t left = count - i;
    vf value = vf_mul(vf_sub(tn_load_some(x + i, left), shift), inverse);
    if (weight) value = vf_mul(value, tn_load_some(weight + i, left));
    if (bias) value = vf_add(value, tn_load_some(bias + i, left));
    tn_store_some(y + i, left, value);
  }
}

static void norm_row(const tn_kernel_call *call, uint32_t row, uint32_t worker) {
  const tn_norm_attributes *attributes = (const tn_norm_attributes *)call->attributes;
  const tn_tensor *weight = tn_input(call, 1), *bias = tn_input(call, 2), *out = &call->outputs[0];
  uint32_t columns = tn_columns(&call->inputs[0]), group = attributes->group ? attributes->group : columns;
  const float *x = tn_floats(&call->inputs[0], row);
  float *y = out->dtype == TN_F32 ? tn_floats(out, row)
                                  : (float *)(void *)((uint8_t *)call->workspace + worker * call->workspace_bytes);
  for (uint32_t c = 0; c < columns; c += group) {
    const float *w = weight ? (const float *)weight->data + (tn_columns(weight) == columns ? c : 0) : NULL;
    const float *b = bias ? (const float *)bias->data + (tn_columns(bias) == columns ? c : 0) : NULL;
    normalise(attributes, x + c, group, w, b, y + c);
  }
  if (out->dtype != TN_F32) tn_quantise_row(y, columns, tn_row_at(out, row));
}

uint64_t tn_norm_workspace(const tn_op_query *query) {
  return query->outputs[0].dtype == TN_F32 ? 0 : (uint64_t)query->inputs[0].dims[1] * sizeof(float);
}

tn_status tn_norm(const tn_kernel_call *call) {
  tn_share_rows(call, norm_row, tn_rows(&call->inputs[0]), (uint64_t)tn_columns(&call->inputs[0]) * 4);
  return TN_OK;
}
