/* attention: causal softmax attention over the pages, one task per row and query head.
 *
 * The slots a row sees are cut in tiles of TN_PAGE_SLOTS, counted from slot 0 of the sequence, whatever the window
 * closes; attend.h says what is computed of each. So a row's result depends on its own slots alone: not on the batch,
 * on how the prompt was cut, or on who computed which tile. */
#include "kernels/reference/attend.h"

/* Slots first .. last of the tile that begins at slot `begin`. */
static void fill_tile(const tn_kernel_call *call, const tn_sequence *sequence, uint32_t kv_head, uint32_t begin,
                      uint32_t first, uint32_t last, tn_tile *tile) {
  const tn_attention_attributes *a = call->attributes;
  const tn_tensor *state = &call->inputs[1];
  uint32_t within;
  void *page = tn_page_of(state, call->batch, sequence, a->group, begin, &within);
  uint32_t open = first > begin ? first - begin : 0;
  uint32_t end = last - begin < TN_PAGE_SLOTS ? last - begin + 1 : TN_PAGE_SLOTS;
  tile->dtype = state->dtype;
  tile->count = 0;
  for (uint32_t j = open; j < end; j++, tile->count++) {
    uint32_t i = tile->count;
    tile->column[i].key = tile->column[i].value = page;
    tile->column[i].key_at = tn_key_index(state, kv_head, j);
    tile->column[i].value_at = tn_value_index(state, kv_head, j);
    tile->column[i].key_scale = state->dtype == TN_I8 ? *tn_key_scale(state, page, kv_head, j) : 1.0f;
    tile->column[i].value_scale = state->dtype == TN_I8 ? *tn_value_scale(state, page, kv_head, j) : 1.0f;
  }
}

static void attention_head(void *argument, uint32_t index, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_attention_attributes *a = call->attributes;
  const tn_batch *batch = call->batch;
  uint32_t t = index / a->heads, head = index % a->heads, kv_head = head / (a->heads / a->kv_heads);
  const tn_sequence *sequence = &batch->sequences[batch->rows[t].sequence];
  uint32_t last = tn_slot_of_row(batch, t);
  uint32_t first = a->window && last >= a->window ? last - a->window + 1 : 0;
  const float *q = tn_floats(&call->inputs[0], t) + head * a->key_dim;
  tn_attended attended = tn_attended_begin(a, tn_floats(&call->outputs[0], t) + head * a->value_dim);
  for (uint32_t begin = first / TN_PAGE_SLOTS * TN_PAGE_SLOTS; begin <= last; begin += TN_PAGE_SLOTS) {
    tn_tile tile;
    fill_tile(call, sequence, kv_head, begin, first, last, &tile);
    tn_attend_tile(a, q, &tile, &attended);
  }
  tn_attended_finish(a, tn_input(call, 2), head, &attended);
}

/* q[T,H*Dk], pages, sinks[H]? -> y[T,H*Dv] */
tn_status tn_reference_attention(const tn_kernel_call *call) {
  const tn_attention_attributes *a = call->attributes;
  tn_for_each(call, attention_head, call->batch->row_count * a->heads);
  return TN_OK;
}
