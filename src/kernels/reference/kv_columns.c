/* kv_columns: this step's keys and values as contiguous KV has them, rounded to its dtype, for the caller to copy to
 * their slots. */
#include "kernels/reference/pages.h"
#include "kernels/reference/rope.h"

static void columns_of_head(void *argument, uint32_t head, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_kv_write_attributes *a = call->attributes;
  const tn_tensor *table = tn_input(call, 2), *keys = &call->outputs[0], *values = &call->outputs[1];
  void *to_keys = tn_row_at(keys, head), *to_values = tn_row_at(values, head);
  for (uint32_t t = 0; t < tn_rows(&call->inputs[0]); t++) {
    const float *key = tn_floats(&call->inputs[0], t) + head * a->key_dim;
    const float *value = tn_floats(&call->inputs[1], t) + head * a->value_dim;
    const float *turn = table && a->rotary ? tn_floats(table, t) : NULL;
    for (uint32_t i = 0; i < a->key_dim; i++) {
      float turned = turn ? tn_turned_value(key, i, a->rotary / 2, a->pairing, turn) : key[i];
      tn_page_set(keys->dtype, to_keys, (uint64_t)t * a->key_dim + i, turned);
    }
    for (uint32_t i = 0; i < a->value_dim; i++)
      tn_page_set(values->dtype, to_values, (uint64_t)t * a->value_dim + i, value[i]);
  }
}

/* k[T,Hk*Dk], v[T,Hk*Dv], table[T,rotary]? -> keys[Hk,T*Dk], values[Hk,T*Dv] */
tn_status tn_reference_kv_columns(const tn_kernel_call *call) {
  const tn_kv_write_attributes *a = call->attributes;
  tn_for_each(call, columns_of_head, a->kv_heads);
  return TN_OK;
}
