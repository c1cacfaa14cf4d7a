/* kv_write: this step's keys and values go into the pages of their sequences, rounded to the pages' dtype. */
#include "kernels/reference/pages.h"
#include "kernels/reference/rope.h"

static void write_row(void *argument, uint32_t t, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_kv_write_attributes *a = call->attributes;
  const tn_tensor *state = &call->inputs[2], *table = tn_input(call, 3);
  const tn_batch *batch = call->batch;
  const tn_sequence *sequence = &batch->sequences[batch->rows[t].sequence];
  uint32_t within, half = a->rotary / 2;
  void *page = tn_page_of(state, batch, sequence, a->group, tn_slot_of_row(batch, t), &within);
  const float *turn = table && a->rotary ? tn_floats(table, t) : NULL;
  for (uint32_t head = 0; head < a->kv_heads; head++) {
    const float *key = tn_floats(&call->inputs[0], t) + head * a->key_dim;
    const float *value = tn_floats(&call->inputs[1], t) + head * a->value_dim;
    uint64_t key_at = tn_key_index(state, head, within), value_at = tn_value_index(state, head, within);
    for (uint32_t i = 0; i < a->key_dim; i++) {
      float turned = turn ? tn_turned_value(key, i, half, a->pairing, turn) : key[i];
      tn_page_set(state->dtype, page, key_at + i, turned);
    }
    for (uint32_t i = 0; i < a->value_dim; i++) tn_page_set(state->dtype, page, value_at + i, value[i]);
  }
}

/* k[T,Hk*Dk], v[T,Hk*Dv], pages, table[T,rotary]? */
tn_status tn_reference_kv_write(const tn_kernel_call *call) {
  tn_for_each(call, write_row, call->batch->row_count);
  return TN_OK;
}
