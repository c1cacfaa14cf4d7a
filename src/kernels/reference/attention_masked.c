/* attention_masked: attention for a number of rows and a length of KV that are known beforehand. The columns are the
 * slots of the state, which stand at positions 0, 1, ..., and behind them the new rows' own, which stand at P, P + 1,
 * ...; the mask says which of them a row sees, and so where P is.
 *
 * Open columns are taken by position in tiles of TN_PAGE_SLOTS positions, as attention takes its pages (attend.h): the
 * same slots give the same bits in both, whatever the length. */
#include "kernels/reference/attend.h"

/* Behind the last slot that row 0 sees: where the new rows begin. */
static uint32_t first_new_position(const float *mask, uint32_t slots) {
  while (slots > 0 && mask[slots - 1] < 0.0f) slots--;
  return slots;
}

/* The open columns at positions begin .. begin + TN_PAGE_SLOTS - 1. `past` slots are before the new rows. */
static void fill_tile(const tn_kernel_call *call, const float *mask, uint32_t kv_head, uint32_t begin, uint32_t past,
                      tn_tile *tile) {
  const tn_attention_attributes *a = call->attributes;
  const tn_tensor *keys = &call->inputs[1], *values = &call->inputs[2], *state = &call->inputs[3];
  uint32_t rows = tn_rows(&call->inputs[0]), slots = state->dims[3];
  tile->dtype = state->dtype;
  tile->count = 0;
  for (uint32_t p = begin; p < begin + TN_PAGE_SLOTS && p < past + rows; p++) {
    uint32_t row = p < past ? 0 : p - past, i = tile->count;
    if (mask[p < past ? p : slots + row] < 0.0f) continue;
    tile->column[i].key = p < past ? state->data : tn_row_at(keys, kv_head);
    tile->column[i].value = p < past ? state->data : tn_row_at(values, kv_head);
    tile->column[i].key_at = p < past ? tn_key_index(state, kv_head, p) : (uint64_t)row * a->key_dim;
    tile->column[i].value_at = p < past ? tn_value_index(state, kv_head, p) : (uint64_t)row * a->value_dim;
    tile->column[i].key_scale = tile->column[i].value_scale = 1.0f;
    tile->count++;
  }
}

static void masked_head(void *argument, uint32_t index, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_attention_attributes *a = call->attributes;
  uint32_t t = index / a->heads, head = index % a->heads, kv_head = head / (a->heads / a->kv_heads);
  uint32_t rows = tn_rows(&call->inputs[0]);
  const float *q = tn_floats(&call->inputs[0], t) + head * a->key_dim, *mask = tn_floats(&call->inputs[4], t);
  uint32_t past = first_new_position(tn_floats(&call->inputs[4], 0), call->inputs[3].dims[3]);
  tn_attended attended = tn_attended_begin(a, tn_floats(&call->outputs[0], t) + head * a->value_dim);
  int any = 0;
  for (uint32_t begin = 0; begin < past + rows; begin += TN_PAGE_SLOTS) {
    tn_tile tile;
    fill_tile(call, mask, kv_head, begin, past, &tile);
    if (!tile.count) continue;
    tn_attend_tile(a, q, &tile, &attended);
    any = 1;
  }
  if (any) tn_attended_finish(a, tn_input(call, 5), head, &attended);
}

/* q[T,H*Dk], keys[Hk,T*Dk], values[Hk,T*Dv], KV, mask[T,L+T], sinks[H]? -> y[T,H*Dv] */
tn_status tn_reference_attention_masked(const tn_kernel_call *call) {
  const tn_attention_attributes *a = call->attributes;
  tn_for_each(call, masked_head, tn_rows(&call->inputs[0]) * a->heads);
  return TN_OK;
}
