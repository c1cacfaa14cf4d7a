/* Kernels that work value by value - add, mul, activation, scale, softcap - and those that only move rows and columns -
 * slice, concat, select_rows. An output may be the very input. */
#include "kernels/internal.h"
#include "kernels/vector_math.h"

/* How many operations a piece should have to be worth handing out. */
#define PIECE 16384u

typedef struct rows_job {
  const tn_kernel_call *call;
  tn_row_body *each;
  uint32_t rows, rows_a_piece;
} rows_job;

static void run_rows(void *argument, uint32_t index, uint32_t worker) {
  const rows_job *job = (const rows_job *)argument;
  uint32_t begin = index * job->rows_a_piece, end = begin + job->rows_a_piece;
  if (end > job->rows) end = job->rows;
  for (uint32_t row = begin; row < end; row++) job->each(job->call, row, worker);
}

void tn_share_rows(const tn_kernel_call *call, tn_row_body *each, uint32_t rows, uint64_t work) {
  rows_job job = {.call = call, .each = each, .rows = rows, .rows_a_piece = (uint32_t)(PIECE / (work + 1) + 1)};
  tn_share(call, run_rows, &job, (rows + job.rows_a_piece - 1) / job.rows_a_piece, rows * work);
}

/* Where row `row` of b[M,K], W[K] or W[1] begins. */
static const float *second_operand(const tn_tensor *b, uint32_t row) {
  return b->rank > 1 ? tn_floats(b, row) : (const float *)b->data;
}

static void add_row(const tn_kernel_call *call, uint32_t row, uint32_t worker) {
  (void)worker;
  uint32_t columns = tn_columns(&call->inputs[0]);
  const float *a = tn_floats(&call->inputs[0], row), *b = second_operand(&call->inputs[1], row);
  float *y = tn_floats(&call->outputs[0], row);
  for (uint32_t k = 0; k < columns; k += TN_LANES)
    tn_store_some(y + k, columns - k, vf_add(tn_load_some(a + k, columns - k), tn_load_some(b + k, columns - k)));
}

tn_status tn_add(const tn_kernel_call *call) {
  tn_share_rows(call, add_row, tn_rows(&call->inputs[0]), tn_columns(&call->inputs[0]));
  return TN_OK;
}

static void mul_row(const tn_kernel_call *call, uint32_t row, uint32_t worker) {
  (void)worker;
  uint32_t columns = tn_columns(&call->inputs[0]);
  const float *a = tn_floats(&call->inputs[0], row), *b = second_operand(&call->inputs[1], row);
  float *y = tn_floats(&call->outputs[0], row);
  int single = tn_columns(&call->inputs[1]) == 1;
  for (uint32_t k = 0; k < columns; k += TN_LANES) {
    vf factor = single ? vf_set1(b[0]) : tn_load_some(b + k, columns - k);
    tn_store_some(y + k, columns - k, vf_mul(tn_load_some(a + k, columns - k), factor));
  }
}

tn_status tn_mul(const tn_kernel_call *call) {
  tn_share_rows(call, mul_row, tn_rows(&call->inputs[0]), tn_columns(&call->inputs[0]));
  return TN_OK;
}

static void activate_row(const tn_kernel_call *call, uint32_t row, uint32_t worker) {
  (void)worker;
  const tn_activation_attributes *attributes = (const tn_activation_attributes *)call->attributes;
  const tn_tensor *second = tn_input(call, 1);
  uint32_t columns = tn_columns(&call->inputs[0]);
  const float *x = tn_floats(&call->inputs[0], row), *b = second ? tn_floats(second, row) : NULL;
  float *y = tn_floats(&call->outputs[0], row);
  for (uint32_t k = 0; k < columns; k += TN_LANES) {
    vf value = tn_activated(tn_load_some(x + k, columns - k), attributes->activation);
    if (b) value = vf_mul(value, tn_load_some(b + k, columns - k));
    tn_store_some(y + k, columns - k, value);
  }
}

tn_status tn_activate(const tn_kernel_call *call) {
  tn_share_rows(call, activate_row, tn_rows(&call->inputs[0]), (uint64_t)tn_columns(&call->inputs[0]) * 4);
  return TN_OK;
}

static void scale_row(const tn_kernel_call *call, uint32_t row, uint32_t worker) {
  (void)worker;
  const vf factor = vf_set1(((const tn_scalar_attributes *)call->attributes)->value);
  uint32_t columns = tn_columns(&call->inputs[0]);
  const float *x = tn_floats(&call->inputs[0], row);
  float *y = tn_floats(&call->outputs[0], row);
  for (uint32_t k = 0; k < columns; k += TN_LANES)
    tn_store_some(y + k, columns - k, vf_mul(tn_load_some(x + k, columns - k), factor));
}

tn_status tn_scale(const tn_kernel_call *call) {
  tn_share_rows(call, scale_row, tn_rows(&call->inputs[0]), tn_columns(&call->inputs[0]));
  return TN_OK;
}

static void softcap_row(const tn_kernel_call *call, uint32_t row, uint32_t worker) {
  (void)worker;
  const vf cap = vf_set1(((const tn_scalar_attributes *)call->attributes)->value);
  uint32_t columns = tn_columns(&call->inputs[0]);
  const float *x = tn_floats(&call->inputs[0], row);
  float *y = tn_floats(&call->outputs[0], row);
  for (uint32_t k = 0; k < columns; k += TN_LANES)
    tn_store_some(y + k, columns - k, vf_mul(cap, tn_tanhs(vf_div(tn_load_some(x + k, columns - k), cap))));
}

tn_status tn_softcap(const tn_kernel_call *call) {
  tn_share_rows(call, softcap_row, tn_rows(&call->inputs[0]), (uint64_t)tn_columns(&call->inputs[0]) * 4);
  return TN_OK;
}

static void copy_floats(float *to, const float *from, uint32_t count) {
  for (uint32_t k = 0; k < count; k += TN_LANES) tn_store_some(to + k, count - k, tn_load_some(from + k, count - k));
}

static void slice_row(const tn_kernel_call *call, uint32_t row, uint32_t worker) {
  (void)worker;
  const tn_slice_attributes *attributes = (const tn_slice_attributes *)call->attributes;
  const tn_tensor *y = &call->outputs[0];
  copy_floats(tn_floats(y, row), tn_floats(&call->inputs[0], row) + attributes->begin, tn_columns(y));
}

tn_status tn_slice(const tn_kernel_call *call) {
  tn_share_rows(call, slice_row, tn_rows(&call->outputs[0]), tn_columns(&call->outputs[0]));
  return TN_OK;
}

static void concat_row(const tn_kernel_call *call, uint32_t row, uint32_t worker) {
  (void)worker;
  float *to = tn_floats(&call->outputs[0], row);
  for (uint32_t i = 0; i < call->input_count; i++) {
    const tn_tensor *x = &call->inputs[i];
    copy_floats(to, tn_floats(x, row), tn_columns(x));
    to += tn_columns(x);
  }
}

tn_status tn_concat(const tn_kernel_call *call) {
  tn_share_rows(call, concat_row, tn_rows(&call->outputs[0]), tn_columns(&call->outputs[0]));
  return TN_OK;
}

tn_status tn_select_rows(const tn_kernel_call *call) {
  const tn_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  for (uint32_t r = 0; r < call->batch->logits_count; r++)
    copy_floats(tn_floats(y, r), tn_floats(x, call->batch->logits_rows[r]), tn_columns(x));
  return TN_OK;
}
