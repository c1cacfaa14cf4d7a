/* moe_route and moe_combine; kernels/reference/moe.c tells what they compute. Each score is made once for a row, and
 * the same experts are chosen as there. */
#include "kernels/internal.h"
#include "kernels/math.h"
#include "kernels/vector_math.h"

/* The row that is routed; score[E] and left[E] are the worker's. */
typedef struct router {
  const tn_moe_route_attributes *a;
  const float *x, *bias; /* bias NULL: none */
  uint32_t count;        /* E */
  float max;             /* of x */
  float *score;          /* what weights are made of */
  float *left;           /* what experts are compared by; NaN for one that can't be chosen (any more) */
} router;

static void fill_scores(const router *r) {
  float sum = 0.0f;
  if (r->a->scoring == TN_MOE_SOFTMAX_OF_CHOSEN) {
    __builtin_memcpy(r->score, r->x, r->count * sizeof(float));
    return;
  }
  for (uint32_t e = 0; e < r->count; e += TN_LANES) {
    const vf x = tn_load_some(r->x + e, r->count - e), one = vf_set1(1.0f);
    const vf y = r->a->scoring == TN_MOE_SIGMOID ? vf_div(one, vf_add(one, tn_exps(vf_sub(vf_zero(), x))))
                                                 : tn_exps(vf_sub(x, vf_set1(r->max)));
    tn_store_some(r->score + e, r->count - e, y);
  }
  if (r->a->scoring == TN_MOE_SIGMOID) return;
  for (uint32_t e = 0; e < r->count; e++) sum += r->score[e];
  for (uint32_t e = 0; e < r->count; e += TN_LANES)
    tn_store_some(r->score + e, r->count - e, vf_div(tn_load_some(r->score + e, r->count - e), vf_set1(sum)));
}

/* Score plus bias, which groups add up. */
static float biased(const router *r, uint32_t e) {
  return r->score[e] + (r->bias ? r->bias[e] : 0.0f);
}

static float worth_of_group(const router *r, uint32_t group) {
  uint32_t size = r->count / r->a->groups;
  float best = -TN_INFINITY, second = -TN_INFINITY;
  for (uint32_t e = group * size; e < (group + 1) * size; e++) {
    float w = biased(r, e);
    if (w > best) {
      second = best;
      best = w;
    } else if (w > second) {
      second = w;
    }
  }
  return size > 1 ? best + second : best;
}

/* Takes the experts of all but the best groups out of the choice. `worth`: room for the groups' worths. */
static void close_groups(const router *r, float *worth) {
  uint32_t groups = r->a->groups, size = r->count / groups;
  for (uint32_t g = 0; g < groups; g++) worth[g] = worth_of_group(r, g);
  for (uint32_t g = 0; g < groups; g++) {
    uint32_t better = 0;
    for (uint32_t o = 0; o < groups; o++) better += worth[o] > worth[g] || (worth[o] == worth[g] && o < g);
    for (uint32_t e = g * size; better >= r->a->groups_used && e < (g + 1) * size; e++) r->left[e] = TN_NAN;
  }
}

/* The best that is left, ties to the lower number. */
static uint32_t take_best(const router *r) {
  uint32_t best = r->count;
  for (uint32_t e = 0; e < r->count; e++)
    if (best == r->count ? r->left[e] == r->left[e] : r->left[e] > r->left[best]) best = e;
  if (best < r->count) r->left[best] = TN_NAN;
  return best;
}

static void weigh(const router *r, const int32_t *experts, uint32_t used, const float *expert_scale, float *weights) {
  const int of_chosen = r->a->scoring == TN_MOE_SOFTMAX_OF_CHOSEN;
  float sum = 0.0f;
  for (uint32_t u = 0; u < used; u++) {
    float score = r->score[experts[u]];
    weights[u] = of_chosen ? tn_exp(score - r->max) : score;
    sum += weights[u];
  }
  for (uint32_t u = 0; u < used; u++) {
    if (r->a->normalise || of_chosen) weights[u] /= sum;
    weights[u] *= r->a->scale;
    if (expert_scale) weights[u] *= expert_scale[experts[u]];
  }
}

static void route_row(const tn_kernel_call *call, uint32_t row, uint32_t worker) {
  const tn_tensor *bias = tn_input(call, 1), *scale = tn_input(call, 2);
  router r = {.a = (const tn_moe_route_attributes *)call->attributes, .x = tn_floats(&call->inputs[0], row)};
  r.count = tn_columns(&call->inputs[0]);
  r.bias = bias ? (const float *)bias->data : NULL;
  r.score = (float *)(void *)((uint8_t *)call->workspace + worker * call->workspace_bytes);
  r.left = r.score + r.count;
  r.max = r.x[0];
  for (uint32_t e = 1; e < r.count; e++)
    if (r.x[e] > r.max) r.max = r.x[e];
  fill_scores(&r);
  for (uint32_t e = 0; e < r.count; e++) {
    float worth = r.bias ? r.score[e] + r.bias[e] : r.x[e]; /* without a bias the raw score has the same order */
    r.left[e] = worth == worth ? worth : -TN_INFINITY;      /* no number: the worst */
  }
  if (r.a->groups > 1) close_groups(&r, r.left + r.count);
  uint32_t used = tn_columns(&call->outputs[0]);
  int32_t *experts = (int32_t *)(void *)tn_row_at(&call->outputs[1], row);
  for (uint32_t u = 0; u < used; u++) experts[u] = (int32_t)take_best(&r);
  weigh(&r, experts, used, scale ? (const float *)scale->data : NULL, tn_floats(&call->outputs[0], row));
}

uint64_t tn_moe_route_workspace(const tn_op_query *query) {
  return (uint64_t)query->inputs[0].dims[1] * 3 * sizeof(float);
}

tn_status tn_moe_route(const tn_kernel_call *call) {
  uint64_t work = (uint64_t)tn_columns(&call->inputs[0]) * (tn_columns(&call->outputs[0]) + 4);
  tn_share_rows(call, route_row, tn_rows(&call->inputs[0]), work);
  return TN_OK;
}

static void combine_row(const tn_kernel_call *call, uint32_t row, uint32_t worker) {
  (void)worker;
  const float *y = tn_floats(&call->inputs[0], row), *weights = tn_floats(&call->inputs[1], row);
  float *z = tn_floats(&call->outputs[0], row);
  uint32_t columns = tn_columns(&call->outputs[0]), used = tn_columns(&call->inputs[1]);
  for (uint32_t n = 0; n < columns; n += TN_LANES) {
    vf sum = vf_zero();
    for (uint32_t u = 0; u < used; u++)
      sum = vf_fma(tn_load_some(y + (uint64_t)u * columns + n, columns - n), vf_set1(weights[u]), sum);
    tn_store_some(z + n, columns - n, sum);
  }
}

tn_status tn_moe_combine(const tn_kernel_call *call) {
  tn_share_rows(call, combine_row, tn_rows(&call->inputs[0]), tn_columns(&call->inputs[0]));
  return TN_OK;
}
