/* Cases of the ops of expert layers: moe_route, moe_linear, moe_combine. */
#include "conformance/makers.h"
#include "tensor/dtype.h"

/* ---- routing ---- */

typedef struct route_shape {
  uint32_t experts, chosen, scoring, normalise, groups, groups_used;
  float scale;
  bool bias, expert_scale;
} route_shape;

static tn_case *route_case(const route_shape *s, uint32_t rows, tn_fill fill) {
  static const char *const scorings[] = {"softmax", "sigmoid", "softmax of chosen"};
  tn_case *c = tn_case_create(TN_OP_MOE_ROUTE, rows, 1);
  if (!c) return NULL;
  const tn_moe_route_attributes attributes = {sizeof attributes, s->scoring,     s->normalise,
                                              s->groups,         s->groups_used, s->scale};
  uint32_t x = tn_case_input(c, TN_F32, TN_DIM_T, s->experts);
  int64_t inputs[4] = {x, -1, -1, -1};
  tn_case_fill(c, x, fill, s->experts);
  if (s->bias || s->expert_scale) inputs[1] = s->bias ? tn_case_vector(c, s->experts) : TN_NO_VALUE;
  if (s->bias) tn_case_fill_range(c, (uint32_t)inputs[1], -0.5f, 0.5f, 21);
  if (s->expert_scale) {
    inputs[2] = tn_case_vector(c, s->experts);
    tn_case_fill_range(c, (uint32_t)inputs[2], 0.5f, 2, 22);
  }
  uint32_t weights = tn_case_output(c, TN_F32, TN_DIM_T, s->chosen);
  uint32_t experts = tn_case_output(c, TN_I32, TN_DIM_T, s->chosen);
  tn_case_op(c, TN_OP_MOE_ROUTE, &attributes, inputs, TN_CASE_LIST(weights, experts));
  tn_case_say(c, "%u of %u rows=%u %s%s", s->chosen, s->experts, rows, scorings[s->scoring],
              s->normalise ? " normalised" : "");
  if (s->groups > 1) tn_case_say(c, " groups %u of %u", s->groups_used, s->groups);
  tn_case_say(c, "%s%s%s", s->bias ? " bias" : "", s->expert_scale ? " expert scale" : "", tn_fill_name(fill));
  return c;
}

void tn_make_moe_route(tn_maker *maker) {
  static const route_shape shapes[] = {
      {4, 1, TN_MOE_SOFTMAX, 0, 1, 1, 1, false, false},           {8, 2, TN_MOE_SOFTMAX, 1, 1, 1, 1, false, false},
      {33, 5, TN_MOE_SOFTMAX_OF_CHOSEN, 0, 0, 0, 1, false, true}, {64, 6, TN_MOE_SIGMOID, 1, 8, 3, 2.5f, true, false},
      {128, 8, TN_MOE_SOFTMAX, 1, 1, 1, 1.5f, true, false},       {16, 16, TN_MOE_SIGMOID, 0, 1, 1, 1, false, false},
  };
  static const route_shape large = {128, 8, TN_MOE_SOFTMAX, 1, 1, 1, 1, false, false};
  if (maker->perf) {
    tn_maker_emit(maker, route_case(&large, 512, TN_FILL_RANDOM));
    return;
  }
  for (size_t k = 0; k < TN_COUNT(shapes); k++)
    for (uint32_t i = 0; i < TN_MAKER_ROWS && !maker->stopped; i++)
      tn_maker_emit(maker, route_case(&shapes[k], tn_maker_rows[i], TN_FILL_RANDOM));
  tn_maker_emit(maker, route_case(&shapes[1], 4, TN_FILL_ZERO)); /* all equal: the lower numbers win */
  tn_maker_emit(maker, route_case(&shapes[3], 4, TN_FILL_LARGE));
}

/* ---- the experts' products ---- */

typedef struct expert_shape {
  uint32_t x_dtype, format, experts, chosen, cols, width, each, activation, gated;
  float limit;
  bool bias, exact;
} expert_shape;

/* Different experts for each row, in no order. */
static void fill_choice(tn_case *c, uint32_t value, uint32_t experts) {
  if (c->failed) return;
  uint64_t bytes;
  int32_t *data = (int32_t *)(void *)tn_case_data(c, value, &bytes);
  uint32_t chosen = (uint32_t)c->values[value].dims[1];
  for (uint32_t r = 0; r < c->row_count; r++)
    for (uint32_t u = 0; u < chosen; u++) data[r * chosen + u] = (int32_t)((r * 7 + experts - 1 + u * 3) % experts);
}

static tn_case *expert_case(const expert_shape *s, uint32_t rows) {
  tn_case *c = tn_case_create(TN_OP_MOE_LINEAR, rows, 1);
  if (!c) return NULL;
  const tn_moe_linear_attributes attributes = {sizeof attributes, s->each, s->activation, s->gated, s->limit, 1.702f};
  const uint32_t dims[3] = {s->experts, s->gated ? 2 * s->width : s->width, s->cols};
  uint32_t uses = (s->x_dtype == TN_Q8A ? TN_USE_LINEAR_Q8A : TN_USE_LINEAR) | (s->gated ? TN_USE_GATED : 0);
  uint32_t x = tn_case_input(c, s->x_dtype, TN_DIM_T, s->each ? s->cols * s->chosen : s->cols);
  uint32_t w = tn_case_weight(c, s->format, 3, dims, uses);
  uint32_t choice = tn_case_input(c, TN_I32, TN_DIM_T, s->chosen);
  uint32_t y = tn_case_output(c, TN_F32, TN_DIM_T, s->chosen * s->width);
  int64_t bias = -1;
  if (s->exact) {
    tn_case_fill_exact(c, x, s->cols, w, s->format + s->width);
  } else {
    tn_case_fill(c, x, TN_FILL_RANDOM, s->cols);
    tn_case_fill(c, w, TN_FILL_RANDOM, s->format + s->width);
  }
  fill_choice(c, choice, s->experts);
  if (s->bias) {
    bias = tn_case_vector(c, dims[0] * dims[1]);
    tn_case_fill_range(c, (uint32_t)bias, -2, 2, 5);
  }
  tn_case_op(c, TN_OP_MOE_LINEAR, &attributes, TN_CASE_LIST(x, w, choice, bias), TN_CASE_LIST(y));
  c->dtype = (uint8_t)s->format;
  tn_case_say(c, "%s x %s [%u,%u,%u] %u chosen rows=%u", tn_dtype_name((tn_dtype)s->x_dtype),
              tn_dtype_name((tn_dtype)s->format), dims[0], dims[1], dims[2], s->chosen, rows);
  if (s->activation) tn_case_say(c, " act=%u", s->activation);
  tn_case_say(c, "%s%s%s%s%s", s->each ? " each" : "", s->gated ? " gated" : "", s->limit > 0 ? " limit" : "",
              s->bias ? " bias" : "", s->exact ? " exact" : "");
  return c;
}

/* Every format with each type of activations: one row, a few, and so many that experts have more than a tile takes. */
static void expert_formats(tn_maker *maker) {
  static const uint32_t x_dtypes[] = {TN_F32, TN_Q8A, TN_BF16};
  for (uint32_t i = 0; i < tn_maker_format_count; i++)
    for (uint32_t k = 0; k < TN_COUNT(x_dtypes) && !maker->stopped; k++) {
      if (x_dtypes[k] == TN_BF16 && tn_maker_formats[i] != TN_BF16) continue;
      expert_shape shape = {x_dtypes[k], tn_maker_formats[i], 6, 2, 256,   20,
                            i % 2,       TN_ACTIVATION_NONE,  0, 0, false, false};
      tn_maker_emit(maker, expert_case(&shape, 1));
      shape.each = !shape.each;
      tn_maker_emit(maker, expert_case(&shape, 7));
      if (shape.x_dtype == TN_F32) continue;
      shape.gated = 1;
      shape.activation = TN_ACTIVATION_SILU;
      tn_maker_emit(maker, expert_case(&shape, 41));
      if (tn_dtype_block_elements((tn_dtype)shape.format) == 1) continue;
      shape.gated = 0;
      shape.activation = TN_ACTIVATION_NONE;
      shape.exact = true; /* integers: as of linear, nothing is rounded */
      tn_maker_emit(maker, expert_case(&shape, 15));
    }
}

void tn_make_moe_linear(tn_maker *maker) {
  static const uint32_t timed[] = {TN_Q8_0, TN_Q4_K, TN_MXFP4};
  if (maker->perf) {
    for (size_t i = 0; i < TN_COUNT(timed) && !maker->stopped; i++) {
      expert_shape large = {TN_Q8A, timed[i], 16, 4, 1024, 512, 0, TN_ACTIVATION_SILU, 1, 0, false, false};
      tn_maker_emit(maker, expert_case(&large, 1));
      tn_maker_emit(maker, expert_case(&large, 64));
    }
    return;
  }
  expert_formats(maker);
  for (uint32_t activation = 0; activation <= TN_ACTIVATION_TANH && !maker->stopped; activation++) {
    expert_shape shape = {TN_F32, TN_F32, 5, 3, 33, 17, 0, activation, 1, 0, activation % 2, false};
    tn_maker_emit(maker, expert_case(&shape, 7));
    shape.format = TN_Q8_0;
    shape.x_dtype = activation % 2 ? TN_F32 : TN_Q8A;
    shape.cols = 64;
    shape.limit = 0.5f;
    tn_maker_emit(maker, expert_case(&shape, 3));
  }
}

static tn_case *combine_case(uint32_t parts, uint32_t width, uint32_t rows, tn_fill fill) {
  tn_case *c = tn_case_create(TN_OP_MOE_COMBINE, rows, 1);
  if (!c) return NULL;
  const tn_no_attributes none = {sizeof none};
  uint32_t y = tn_case_input(c, TN_F32, TN_DIM_T, parts * width), w = tn_case_input(c, TN_F32, TN_DIM_T, parts);
  uint32_t z = tn_case_output(c, TN_F32, TN_DIM_T, width);
  tn_case_fill(c, y, fill, width);
  tn_case_fill_range(c, w, 0, 1, parts);
  tn_case_op(c, TN_OP_MOE_COMBINE, &none, TN_CASE_LIST(y, w), TN_CASE_LIST(z));
  tn_case_say(c, "%u parts of %u rows=%u%s", parts, width, rows, tn_fill_name(fill));
  return c;
}

void tn_make_moe_combine(tn_maker *maker) {
  if (maker->perf) {
    tn_maker_emit(maker, combine_case(8, 2048, 64, TN_FILL_RANDOM));
    return;
  }
  for (uint32_t k = 0; k < TN_MAKER_COLS; k++)
    for (uint32_t i = 0; i < TN_MAKER_ROWS && !maker->stopped; i++)
      tn_maker_emit(maker, combine_case(i * 2 + 1, tn_maker_cols[k], tn_maker_rows[i], TN_FILL_RANDOM));
  tn_maker_emit(maker, combine_case(3, 31, 4, TN_FILL_NAN_ROW));
}
