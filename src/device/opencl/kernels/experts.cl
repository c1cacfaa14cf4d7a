/* moe_route and moe_combine. Experts are chosen one after the other, each time the best that is left, ties to the lower
 * number. */

/* The scores of one row. */
typedef struct router {
  __global const float *x, *bias;
  float most, sum; /* of exp(x - most) */
} router;

static float router_score(const route_arguments *a, const router *r, uint e) {
  if (a->scoring == MOE_SIGMOID) return 1.0f / (1.0f + tn_exp(-r->x[e]));
  if (a->scoring == MOE_SOFTMAX) return tn_exp(r->x[e] - r->most) / r->sum;
  return r->x[e];
}

/* What experts are compared by; without a bias the raw score has the same order. */
static float router_worth(const route_arguments *a, const router *r, uint e) {
  return a->has_bias ? router_score(a, r, e) + r->bias[e] : r->x[e];
}

/* The two highest scores of a group, added up. */
static float worth_of_group(const route_arguments *a, const router *r, uint group) {
  uint size = a->count / a->groups;
  float best = -INFINITY, second = -INFINITY;
  for (uint e = group * size; e < (group + 1) * size; e++) {
    float w = router_score(a, r, e) + (a->has_bias ? r->bias[e] : 0.0f);
    if (w > best) {
      second = best;
      best = w;
    } else if (w > second) {
      second = w;
    }
  }
  return size > 1 ? best + second : best;
}

/* Is the group among the best groups_used? */
static int group_is_open(const route_arguments *a, const router *r, uint group) {
  uint better = 0;
  if (a->groups <= 1) return 1;
  float own = worth_of_group(a, r, group);
  for (uint g = 0; g < a->groups; g++) {
    float other = worth_of_group(a, r, g);
    better += other > own || (other == own && g < group);
  }
  return better < a->groups_used;
}

static int is_taken(__global const int *experts, uint count, uint e) {
  for (uint i = 0; i < count; i++)
    if (experts[i] == (int)e) return 1;
  return 0;
}

/* The best open expert that is not among the `count` chosen; scores that are no numbers count as the worst. */
static uint best_left(const route_arguments *a, const router *r, __global const int *experts, uint count) {
  uint best = a->count, size = a->groups > 1 ? a->count / a->groups : a->count;
  float best_worth = 0.0f;
  for (uint group = 0; group < a->count / size; group++) {
    if (!group_is_open(a, r, group)) continue;
    for (uint e = group * size; e < (group + 1) * size; e++) {
      float w = router_worth(a, r, e);
      if (w != w) w = -INFINITY;
      if ((best < a->count && w <= best_worth) || is_taken(experts, count, e)) continue;
      best = e;
      best_worth = w;
    }
  }
  return best;
}

/* Dimensions: rows. */
__kernel void moe_route(constant_memory x, constant_memory bias, constant_memory expert_scale, memory weights,
                        memory experts, route_arguments a) {
  uint m = get_global_id(0);
  if (m >= a.rows) return;
  router r = {(__global const float *)(x + a.x) + (ulong)m * a.count, (__global const float *)(bias + a.bias), 0.0f,
              0.0f};
  __global const float *scale = (__global const float *)(expert_scale + a.expert_scale);
  __global float *w = (__global float *)(weights + a.weights) + (ulong)m * a.used;
  __global int *chosen = (__global int *)(experts + a.experts) + (ulong)m * a.used;
  float sum = 0.0f;
  r.most = r.x[0];
  for (uint e = 1; e < a.count; e++)
    if (r.x[e] > r.most) r.most = r.x[e];
  for (uint e = 0; e < a.count; e++) r.sum += tn_exp(r.x[e] - r.most);
  for (uint u = 0; u < a.used; u++) chosen[u] = (int)best_left(&a, &r, chosen, u);
  for (uint u = 0; u < a.used; u++) {
    float s = router_score(&a, &r, (uint)chosen[u]);
    w[u] = a.scoring == MOE_SOFTMAX_OF_CHOSEN ? tn_exp(s - r.most) : s;
    sum += w[u];
  }
  for (uint u = 0; u < a.used; u++) {
    float value = a.normalise || a.scoring == MOE_SOFTMAX_OF_CHOSEN ? w[u] / sum : w[u];
    value *= a.scale;
    w[u] = a.has_scale ? value * scale[chosen[u]] : value;
  }
}

/* Dimensions: columns, rows. */
__kernel void moe_combine(constant_memory y, constant_memory weights, memory z, combine_arguments a) {
  uint n = get_global_id(0), m = get_global_id(1);
  if (n >= a.columns) return;
  __global const float *from = (__global const float *)(y + a.y) + (ulong)m * a.parts * a.columns + n;
  __global const float *w = (__global const float *)(weights + a.weights) + (ulong)m * a.parts;
  float sum = 0.0f;
  for (uint u = 0; u < a.parts; u++) sum += from[u * a.columns] * w[u];
  ((__global float *)(z + a.z))[(ulong)m * a.columns + n] = sum;
}
