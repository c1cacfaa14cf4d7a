/* Cases on the host, and how results are compared (see host.h). */
#include "conformance/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tensor/decode.h"

/* Host memory of one run: by binding number. */
typedef struct host_run {
  void *inputs[TN_CASE_VALUES], *outputs[TN_CASE_VALUES], *states[TN_CASE_VALUES];
  tn_tensor weights[TN_CASE_VALUES];
  uint64_t page_bytes[TN_CASE_VALUES];
  void *scratch;
} host_run;

tn_weight_desc tn_case_weight_desc(const tn_case_value *value) {
  tn_weight_desc desc = {.size = sizeof desc, .dtype = value->dtype, .rank = value->rank, .uses = value->uses};
  for (uint32_t d = 0; d < value->rank; d++) desc.dims[d] = (uint64_t)value->dims[d];
  return desc;
}

static tn_status pack_weight(const tn_case_value *value, tn_tensor *tensor, tn_error *error) {
  const tn_weight_desc desc = tn_case_weight_desc(value);
  tn_weight_layout layout = {.size = sizeof layout};
  tn_status status = tn_plain_layout(&desc, &layout);
  if (status != TN_OK) return tn_fail(error, status, "a weight of the case has no plain layout");
  tensor->data = tn_calloc(layout.bytes, 1);
  if (!tensor->data) return tn_fail(error, TN_E_MEMORY, "out of memory");
  tensor->layout = layout.id;
  tensor->row_bytes = tn_plain_row_bytes(&desc);
  status = tn_plain_pack(&desc, value->sources, value->source_count, tensor->data);
  return status == TN_OK ? TN_OK : tn_fail(error, status, "the sources of a weight of the case don't make it up");
}

static tn_status take_pages(const tn_case *c, const tn_case_value *value, host_run *run, tn_error *error) {
  const tn_state_desc desc = tn_case_state_desc(value);
  tn_state_layout layout = {.size = sizeof layout};
  tn_status status = tn_plain_state_layout(&desc, &layout);
  if (status != TN_OK) return tn_fail(error, status, "a state of the case has no plain page");
  run->page_bytes[value->index] = layout.page_bytes;
  run->states[value->index] = tn_calloc(tn_case_pages(c), layout.page_bytes);
  if (!run->states[value->index]) return tn_fail(error, TN_E_MEMORY, "out of memory");
  if (value->data) memcpy(run->states[value->index], value->data, value->row_bytes);
  return TN_OK;
}

static tn_status start(const tn_case *c, host_run *run, tn_error *error) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < c->value_count && status == TN_OK; i++) {
    const tn_case_value *value = &c->values[i];
    void **matrix = value->kind == TN_VALUE_INPUT    ? &run->inputs[value->index]
                    : value->kind == TN_VALUE_OUTPUT ? &run->outputs[value->index]
                                                     : NULL;
    if (value->kind == TN_VALUE_WEIGHT) status = pack_weight(value, &run->weights[value->index], error);
    if (value->kind == TN_VALUE_STATE) status = take_pages(c, value, run, error);
    if (matrix && !(*matrix = tn_calloc(tn_case_rows(c, value), tn_case_row_bytes(value))))
      status = tn_fail(error, TN_E_MEMORY, "out of memory");
  }
  run->scratch = tn_calloc(c->scratch_bytes + 64, 1);
  return status == TN_OK && !run->scratch ? tn_fail(error, TN_E_MEMORY, "out of memory") : status;
}

static void finish(host_run *run) {
  for (uint32_t i = 0; i < TN_CASE_VALUES; i++) {
    free(run->inputs[i]);
    free(run->outputs[i]);
    free(run->states[i]);
    free(run->weights[i].data);
  }
  free(run->scratch);
}

static void run_in_order(void *context, void (*body)(void *argument, uint32_t index, uint32_t worker), void *argument,
                         uint32_t count) {
  (void)context;
  for (uint32_t i = 0; i < count; i++) body(argument, i, 0);
}

static tn_status run_step(const tn_step_plan *plan, const tn_program *program, host_run *run, tn_error *error) {
  static const tn_parallel one = {.workers = 1, .run = run_in_order};
  _Alignas(64) uint8_t workspace[4096];
  const tn_interpretation interpretation = {.program = program,
                                            .table = tn_reference_kernels(),
                                            .inputs = run->inputs,
                                            .outputs = run->outputs,
                                            .states = run->states,
                                            .weights = run->weights,
                                            .page_bytes = run->page_bytes,
                                            .scratch = run->scratch,
                                            .batch = &plan->batch,
                                            .parallel = &one,
                                            .workspace = workspace,
                                            .workspace_bytes = sizeof workspace};
  uint32_t failed = 0;
  tn_status status = tn_interpret(&interpretation, &failed);
  if (status == TN_OK) return TN_OK;
  return tn_fail(error, status, "case %s: the reference kernel of op %u failed", plan->c->name, failed);
}

tn_status tn_case_run_on_host(const tn_case *c, tn_schedule schedule, tn_case_results *results, tn_error *error) {
  host_run run = {0};
  tn_step_plan plan;
  tn_program *program = tn_case_program(c, error);
  if (!program) return TN_E_INTERNAL;
  if (!tn_step_plan_init(&plan, c, schedule)) {
    free(program);
    return tn_fail(error, TN_E_MEMORY, "out of memory");
  }
  tn_status status = start(c, &run, error);
  while (status == TN_OK && tn_step_plan_next(&plan)) {
    for (uint32_t i = 0; i < c->value_count; i++)
      if (c->values[i].kind == TN_VALUE_INPUT) tn_step_gather(&plan, &c->values[i], run.inputs[c->values[i].index]);
    status = run_step(&plan, program, &run, error);
    for (uint32_t i = 0; status == TN_OK && i < c->value_count; i++)
      if (c->values[i].kind == TN_VALUE_OUTPUT)
        tn_step_scatter(&plan, &c->values[i], run.outputs[c->values[i].index], results->rows[c->values[i].index]);
  }
  finish(&run);
  tn_step_plan_finish(&plan);
  free(program);
  return status;
}

/* ---- comparing ---- */

/* Row `row` of an output as floats. */
static void decode(const tn_case_value *value, const uint8_t *from, float *to) {
  uint32_t cols = (uint32_t)value->dims[1], padded = (cols + 31) / 32 * 32;
  if (value->dtype == TN_F32) {
    memcpy(to, from, cols * sizeof *to);
    return;
  }
  if (value->dtype == TN_F16 || value->dtype == TN_BF16) {
    tn_decode_row((tn_dtype)value->dtype, from, to, cols);
    return;
  }
  for (uint32_t i = 0; i < cols; i++) {
    int32_t integer;
    float scale;
    if (value->dtype == TN_Q8A) {
      memcpy(&scale, from + padded + i / 32 * 4, sizeof scale);
      to[i] = (float)(int8_t)from[i] * scale;
    } else {
      memcpy(&integer, from + (size_t)i * 4, sizeof integer);
      to[i] = (float)integer;
    }
  }
}

static bool is_nan(uint32_t dtype, const uint8_t *from) {
  float value;
  uint16_t half;
  memcpy(&half, from, sizeof half);
  if (dtype == TN_F16) return (half & 0x7fff) > 0x7c00;
  if (dtype == TN_BF16) return (half & 0x7fff) > 0x7f80;
  memcpy(&value, from, sizeof value);
  return dtype == TN_F32 && isnan(value);
}

/* The same bytes, but for what NaNs are made of. */
static bool same_values(uint32_t dtype, const uint8_t *a, const uint8_t *b, size_t count) {
  size_t bytes = tn_dtype_block_bytes((tn_dtype)dtype);
  for (size_t i = 0; i < count; i++, a += bytes, b += bytes)
    if (memcmp(a, b, bytes) != 0 && !(is_nan(dtype, a) && is_nan(dtype, b))) return false;
  return true;
}

static bool same_row(const tn_case_value *value, const uint8_t *a, const uint8_t *b) {
  size_t cols = (size_t)value->dims[1], blocks = (cols + 31) / 32, scales = blocks * 32, sums = blocks * 36;
  if (value->dtype != TN_Q8A) return same_values(value->dtype, a, b, cols);
  return !memcmp(a, b, scales) && same_values(TN_F32, a + scales, b + scales, blocks) &&
         !memcmp(a + sums, b + sums, blocks * 4);
}

bool tn_case_same_bits(const tn_case *c, const tn_case_results *got, const tn_case_results *want, uint32_t *output,
                       uint32_t *row) {
  for (uint32_t i = 0; i < c->value_count; i++) {
    const tn_case_value *value = &c->values[i];
    if (value->kind != TN_VALUE_OUTPUT) continue;
    uint64_t bytes = tn_case_row_bytes(value);
    *output = value->index;
    for (*row = 0; *row < tn_case_rows(c, value); ++*row) {
      if (value->dims[0] == TN_DIM_R && !c->rows[*row].wants_logits) continue;
      if (!same_row(value, got->rows[value->index] + *row * bytes, want->rows[value->index] + *row * bytes))
        return false;
    }
  }
  return true;
}

typedef struct error_sums {
  double difference, power, largest;
} error_sums;

static void add_row(const float *got, const float *want, uint32_t cols, uint32_t row, error_sums *sums,
                    tn_case_error *out) {
  for (uint32_t i = 0; i < cols; i++) {
    bool same = isfinite(want[i]) ? isfinite(got[i]) : isnan(want[i]) ? isnan(got[i]) : want[i] == got[i];
    double d = same && isfinite(want[i]) ? (double)got[i] - (double)want[i] : 0;
    if (isfinite(want[i]) && same) sums->difference += d * d, sums->power += (double)want[i] * (double)want[i];
    bool first_wrong = !same && out->same_kind;
    if (first_wrong || (out->same_kind && fabs(d) > sums->largest)) {
      sums->largest = fabs(d);
      out->row = row, out->column = i, out->got = got[i], out->want = want[i];
    }
    if (!same) out->same_kind = false;
  }
}

tn_status tn_case_compare(const tn_case *c, const tn_case_results *got, const tn_case_results *want,
                          tn_case_error *worst, tn_error *error) {
  *worst = (tn_case_error){.same_kind = true};
  bool any = false;
  for (uint32_t i = 0; i < c->value_count; i++) {
    const tn_case_value *value = &c->values[i];
    if (value->kind != TN_VALUE_OUTPUT) continue;
    uint32_t cols = (uint32_t)value->dims[1];
    uint64_t bytes = tn_case_row_bytes(value);
    float *pair = tn_calloc((size_t)cols * 2, sizeof *pair);
    if (!pair) return tn_fail(error, TN_E_MEMORY, "out of memory");
    tn_case_error one = {.same_kind = true};
    error_sums sums = {0};
    for (uint32_t row = 0; row < tn_case_rows(c, value); row++) {
      if (value->dims[0] == TN_DIM_R && !c->rows[row].wants_logits) continue;
      decode(value, got->rows[value->index] + row * bytes, pair);
      decode(value, want->rows[value->index] + row * bytes, pair + cols);
      add_row(pair, pair + cols, cols, row, &sums, &one);
    }
    free(pair);
    one.error = sums.power > 0 ? sums.difference / sums.power : sums.difference;
    if (!any || (worst->same_kind && (!one.same_kind || one.error > worst->error))) *worst = one;
    any = true;
  }
  return TN_OK;
}
