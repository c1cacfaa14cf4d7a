/* Ops that move rows and columns without computing: embed, select_rows, slice, concat. */
#include "kernels/reference/reference.h"
#include "tensor/decode.h"

/* Values decoded at a time: a whole number of blocks of every format. */
#define CHUNK 256u

static uint32_t table_index(const tn_kernel_call *call, uint32_t row) {
  const tn_embed_attributes *a = call->attributes;
  const tn_row *r = &call->batch->rows[row];
  return (uint32_t)(a->source == TN_EMBED_TOKEN ? r->token : r->position[0]);
}

static void embed_row(void *argument, uint32_t row, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_embed_attributes *a = call->attributes;
  const tn_tensor *table = &call->inputs[0];
  uint32_t cols = tn_cols(table);
  const char *from = tn_row_at(table, table_index(call, row));
  float *y = tn_floats(&call->outputs[0], row);
  for (uint32_t c = 0; c < cols; c += CHUNK) {
    uint32_t count = cols - c < CHUNK ? cols - c : CHUNK;
    tn_decode_row((tn_dtype)table->dtype, from + tn_row_bytes(table->dtype, c), y + c, count);
    for (uint32_t i = 0; i < count; i++) y[c + i] *= a->scale;
  }
}

/* table[V,K] -> y[T,K] */
tn_status tn_reference_embed(const tn_kernel_call *call) {
  for (uint32_t row = 0; row < call->batch->row_count; row++) {
    if (table_index(call, row) >= tn_rows(&call->inputs[0])) return TN_E_INVALID;
  }
  tn_for_each(call, embed_row, call->batch->row_count);
  return TN_OK;
}

static void copy_floats(float *to, const float *from, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) to[i] = from[i];
}

/* x[T,K] -> y[R,K] */
tn_status tn_reference_select_rows(const tn_kernel_call *call) {
  const tn_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  for (uint32_t r = 0; r < call->batch->logits_count; r++) {
    copy_floats(tn_floats(y, r), tn_floats(x, call->batch->logits_rows[r]), tn_cols(x));
  }
  return TN_OK;
}

/* x[M,K] -> y[M,N] */
tn_status tn_reference_slice(const tn_kernel_call *call) {
  const tn_slice_attributes *a = call->attributes;
  const tn_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  for (uint32_t m = 0; m < tn_rows(y); m++) {
    copy_floats(tn_floats(y, m), tn_floats(x, m) + a->begin, tn_cols(y));
  }
  return TN_OK;
}

/* x0[M,K0], x1[M,K1], ... -> y[M,K0+K1+..] */
tn_status tn_reference_concat(const tn_kernel_call *call) {
  const tn_tensor *y = &call->outputs[0];
  for (uint32_t m = 0; m < tn_rows(y); m++) {
    float *to = tn_floats(y, m);
    for (uint32_t i = 0; i < call->input_count; i++) {
      const tn_tensor *x = &call->inputs[i];
      copy_floats(to, tn_floats(x, m), tn_cols(x));
      to += tn_cols(x);
    }
  }
  return TN_OK;
}
