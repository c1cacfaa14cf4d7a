/* moe_route, moe_linear, moe_combine: a row goes through a few of many experts.
 *
 * Experts are chosen one after the other, each time the best that is left, ties to the lower number; so a row's choice
 * depends on its own scores alone. Products are summed like linear's. */
#include "kernels/math.h"
#include "kernels/reference/reference.h"

#define COLUMNS_A_TASK 64u

/* ---- routing ---- */

/* The scores of one row. */
typedef struct router {
  const tn_moe_route_attributes *a;
  const float *x, *bias; /* bias NULL: none */
  uint32_t count;
  float max, sum; /* of exp(x - max) */
} router;

static float score(const router *r, uint32_t e) {
  if (r->a->scoring == TN_MOE_SIGMOID) return 1.0f / (1.0f + tn_exp(-r->x[e]));
  if (r->a->scoring == TN_MOE_SOFTMAX) return tn_exp(r->x[e] - r->max) / r->sum;
  return r->x[e];
}

/* What experts are compared by; without a bias the raw score has the same order. */
static float worth(const router *r, uint32_t e) {
  return r->bias ? score(r, e) + r->bias[e] : r->x[e];
}

static float worth_of_group(const router *r, uint32_t group) {
  uint32_t size = r->count / r->a->groups;
  float best = -TN_INFINITY, second = -TN_INFINITY;
  for (uint32_t e = group * size; e < (group + 1) * size; e++) {
    /* groups add scores up, so the raw ones won't do */
    float w = score(r, e) + (r->bias ? r->bias[e] : 0.0f);
    if (w > best) {
      second = best;
      best = w;
    } else if (w > second) {
      second = w;
    }
  }
  return size > 1 ? best + second : best;
}

/* Is the expert's group among the best groups_used? */
static int is_open(const router *r, uint32_t e) {
  if (r->a->groups <= 1) return 1;
  uint32_t group = e / (r->count / r->a->groups), better = 0;
  float own = worth_of_group(r, group);
  for (uint32_t g = 0; g < r->a->groups; g++) {
    float other = worth_of_group(r, g);
    better += other > own || (other == own && g < group);
  }
  return better < r->a->groups_used;
}

static int is_taken(const int32_t *experts, uint32_t count, uint32_t e) {
  for (uint32_t i = 0; i < count; i++)
    if (experts[i] == (int32_t)e) return 1;
  return 0;
}

/* The best open expert that is not among the `count` chosen; scores that are no numbers count as the worst. */
static uint32_t best_left(const router *r, const int32_t *experts, uint32_t count) {
  uint32_t best = r->count;
  float best_worth = 0.0f;
  for (uint32_t e = 0; e < r->count; e++) {
    float w = worth(r, e);
    if (w != w) w = -TN_INFINITY;
    if ((best < r->count && w <= best_worth) || is_taken(experts, count, e) || !is_open(r, e)) continue;
    best = e;
    best_worth = w;
  }
  return best;
}

static void weigh(const router *r, const int32_t *experts, uint32_t used, const float *expert_scale, float *weights) {
  float sum = 0.0f;
  for (uint32_t u = 0; u < used; u++) {
    float s = score(r, (uint32_t)experts[u]);
    weights[u] = r->a->scoring == TN_MOE_SOFTMAX_OF_CHOSEN ? tn_exp(s - r->max) : s;
    sum += weights[u];
  }
  int divide = r->a->normalise || r->a->scoring == TN_MOE_SOFTMAX_OF_CHOSEN;
  for (uint32_t u = 0; u < used; u++) {
    if (divide) weights[u] /= sum;
    weights[u] *= r->a->scale;
    if (expert_scale) weights[u] *= expert_scale[experts[u]];
  }
}

static void route_row(void *argument, uint32_t m, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_tensor *bias = tn_input(call, 1), *scale = tn_input(call, 2);
  router r = {.a = call->attributes, .x = tn_floats(&call->inputs[0], m), .count = tn_cols(&call->inputs[0])};
  r.bias = bias ? bias->data : NULL;
  r.max = r.x[0];
  for (uint32_t e = 1; e < r.count; e++)
    if (r.x[e] > r.max) r.max = r.x[e];
  for (uint32_t e = 0; e < r.count; e++) r.sum += tn_exp(r.x[e] - r.max);
  uint32_t used = tn_cols(&call->outputs[0]);
  int32_t *experts = tn_row_at(&call->outputs[1], m);
  for (uint32_t u = 0; u < used; u++) experts[u] = (int32_t)best_left(&r, experts, u);
  weigh(&r, experts, used, scale ? scale->data : NULL, tn_floats(&call->outputs[0], m));
}

/* x[M,E], bias[E]?, scale[E]? -> weights[M,U], experts[M,U] */
tn_status tn_reference_moe_route(const tn_kernel_call *call) {
  tn_for_each(call, route_row, tn_rows(&call->inputs[0]));
  return TN_OK;
}

/* ---- the experts' products ---- */

static float gated(const tn_moe_linear_attributes *a, float gate, float value) {
  if (!(a->limit > 0.0f)) return tn_reference_activate(a->activation, gate) * value;
  float g = gate > a->limit ? a->limit : gate;
  float v = value > a->limit ? a->limit : value < -a->limit ? -a->limit : value;
  return g / (1.0f + tn_exp(-a->alpha * g)) * (v + 1.0f);
}

/* Some columns of what one expert makes of one row. */
static void linear_part(void *argument, uint32_t index, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const tn_moe_linear_attributes *a = call->attributes;
  const tn_tensor *weight = &call->inputs[1], *choice = &call->inputs[2], *bias = tn_input(call, 3);
  uint32_t used = tn_cols(choice), rows = weight->dims[1], columns = a->gated ? rows / 2 : rows;
  uint32_t parts = (columns + COLUMNS_A_TASK - 1) / COLUMNS_A_TASK;
  uint32_t m = index / parts / used, u = index / parts % used, begin = index % parts * COLUMNS_A_TASK;
  uint32_t end = begin + COLUMNS_A_TASK < columns ? begin + COLUMNS_A_TASK : columns;
  uint32_t expert = (uint32_t)((const int32_t *)tn_row_at(choice, m))[u];
  const tn_tensor *x = &call->inputs[0];
  uint32_t column = a->each ? u * tn_cols(weight) : 0;
  const float *b = bias ? (const float *)bias->data + (uint64_t)expert * rows : NULL;
  float *y = tn_floats(&call->outputs[0], m) + u * columns;
  for (uint32_t n = begin; n < end; n++) {
    float gate, value;
    tn_reference_product(x, m, 1, column, weight, expert * rows + n, &gate);
    if (b) gate += b[n];
    if (!a->gated) {
      y[n] = tn_reference_activate(a->activation, gate);
      continue;
    }
    tn_reference_product(x, m, 1, column, weight, expert * rows + columns + n, &value);
    y[n] = gated(a, gate, b ? value + b[columns + n] : value);
  }
}

/* x[M,K] or [M,U*K] in f32, bf16 or q8a, W[E,N or 2N,K], experts[M,U], bias[E*N]? -> y[M,U*N] */
tn_status tn_reference_moe_linear(const tn_kernel_call *call) {
  const tn_moe_linear_attributes *a = call->attributes;
  const tn_tensor *weight = &call->inputs[1], *choice = &call->inputs[2];
  uint32_t columns = a->gated ? weight->dims[1] / 2 : weight->dims[1];
  for (uint32_t m = 0; m < tn_rows(choice); m++) {
    const int32_t *experts = tn_row_at(choice, m);
    for (uint32_t u = 0; u < tn_cols(choice); u++)
      if ((uint32_t)experts[u] >= weight->dims[0]) return TN_E_INVALID;
  }
  tn_for_each(call, linear_part, tn_rows(choice) * tn_cols(choice) * ((columns + COLUMNS_A_TASK - 1) / COLUMNS_A_TASK));
  return TN_OK;
}

/* ---- putting together ---- */

static void combine_row(void *argument, uint32_t m, uint32_t worker) {
  (void)worker;
  const tn_kernel_call *call = argument;
  const float *y = tn_floats(&call->inputs[0], m), *weights = tn_floats(&call->inputs[1], m);
  float *z = tn_floats(&call->outputs[0], m);
  uint32_t columns = tn_cols(&call->outputs[0]), used = tn_cols(&call->inputs[1]);
  for (uint32_t n = 0; n < columns; n++) {
    float sum = 0.0f;
    for (uint32_t u = 0; u < used; u++) sum += y[u * columns + n] * weights[u];
    z[n] = sum;
  }
}

/* y[M,U*N], weights[M,U] -> z[M,N] */
tn_status tn_reference_moe_combine(const tn_kernel_call *call) {
  tn_for_each(call, combine_row, tn_rows(&call->inputs[0]));
  return TN_OK;
}
