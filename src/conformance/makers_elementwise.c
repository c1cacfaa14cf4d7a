/* Cases of ops over single values and over rows: add, mul, activation, scale, softcap, quantise, norm. */
#include "conformance/makers.h"

static const char *const activation_names[] = {"none", "silu", "gelu_tanh", "gelu", "relu", "sigmoid", "tanh"};

/* One op with an input x[rows, cols] and attributes; `b`: 0 no second operand, 1 rows, 2 a vector, 3 one number. */
static tn_case *plain_case(uint32_t opcode, const void *attributes, uint32_t rows, uint32_t cols, tn_fill fill,
                           uint32_t b, uint32_t out_dtype) {
  static const char *const words[] = {"", " by rows", " by vector", " by number"};
  tn_case *c = tn_case_create(opcode, rows, 1);
  if (!c) return NULL;
  uint32_t x = tn_case_input(c, TN_F32, TN_DIM_T, cols);
  tn_case_fill(c, x, fill, cols + opcode);
  int64_t inputs[3] = {x, -1, -1};
  if (b == 1) inputs[1] = tn_case_input(c, TN_F32, TN_DIM_T, cols);
  if (b == 2) inputs[1] = tn_case_vector(c, cols);
  if (b == 3) inputs[1] = tn_case_vector(c, 1);
  if (b) tn_case_fill(c, (uint32_t)inputs[1], TN_FILL_RANDOM, 3 * cols + b);
  uint32_t y = tn_case_output(c, out_dtype, TN_DIM_T, cols);
  tn_case_op(c, opcode, attributes, inputs, TN_CASE_LIST(y));
  tn_case_say(c, "[%u,%u]%s%s", rows, cols, words[b], tn_fill_name(fill));
  return c;
}

/* All shapes with random numbers, then one shape with each kind of extreme. */
static void plain_cases(tn_maker *maker, uint32_t opcode, const void *attributes, uint32_t b, uint32_t out_dtype) {
  if (maker->perf) {
    tn_maker_emit(maker, plain_case(opcode, attributes, 512, 2048, TN_FILL_RANDOM, b, out_dtype));
    return;
  }
  for (uint32_t k = 0; k < TN_MAKER_COLS; k++)
    for (uint32_t i = 0; i < TN_MAKER_ROWS && !maker->stopped; i++)
      tn_maker_emit(maker,
                    plain_case(opcode, attributes, tn_maker_rows[i], tn_maker_cols[k], TN_FILL_RANDOM, b, out_dtype));
  for (tn_fill fill = TN_FILL_ZERO; fill < TN_FILL_COUNT && !maker->stopped; fill++)
    tn_maker_emit(maker, plain_case(opcode, attributes, 4, 72, fill, b, out_dtype));
}

static const tn_no_attributes none = {sizeof none};

void tn_make_add(tn_maker *maker) {
  plain_cases(maker, TN_OP_ADD, &none, 1, TN_F32);
  plain_cases(maker, TN_OP_ADD, &none, 2, TN_F32);
}

void tn_make_mul(tn_maker *maker) {
  for (uint32_t b = 1; b <= 3; b++) plain_cases(maker, TN_OP_MUL, &none, b, TN_F32);
}

void tn_make_activation(tn_maker *maker) {
  for (uint32_t kind = TN_ACTIVATION_NONE; kind <= TN_ACTIVATION_TANH && !maker->stopped; kind++) {
    const tn_activation_attributes attributes = {sizeof attributes, kind};
    for (uint32_t b = 0; b < 2 && !maker->stopped; b++) {
      for (tn_fill fill = TN_FILL_RANDOM; fill < TN_FILL_COUNT && !maker->perf && !maker->stopped; fill++) {
        tn_case *c = plain_case(TN_OP_ACTIVATION, &attributes, 4, fill % 2 ? 72 : 31, fill, b, TN_F32);
        if (c) tn_case_say(c, " %s", activation_names[kind]);
        tn_maker_emit(maker, c);
      }
    }
    if (kind == TN_ACTIVATION_SILU) plain_cases(maker, TN_OP_ACTIVATION, &attributes, 1, TN_F32);
  }
}

void tn_make_scale(tn_maker *maker) {
  const tn_scalar_attributes attributes = {sizeof attributes, -0.37f};
  plain_cases(maker, TN_OP_SCALE, &attributes, 0, TN_F32);
}

void tn_make_softcap(tn_maker *maker) {
  const tn_scalar_attributes attributes = {sizeof attributes, 3.0f};
  plain_cases(maker, TN_OP_SOFTCAP, &attributes, 0, TN_F32);
}

void tn_make_quantise(tn_maker *maker) {
  plain_cases(maker, TN_OP_QUANTISE, &none, 0, TN_Q8A);
  plain_cases(maker, TN_OP_QUANTISE, &none, 0, TN_BF16);
}

/* ---- norm ---- */

typedef struct norm_shape {
  uint32_t cols, kind, group;
  float epsilon;
  int weight, bias; /* 0 none, 1 as long as the group, 2 as the row */
} norm_shape;

static tn_case *norm_case(const norm_shape *shape, uint32_t rows, tn_fill fill, uint32_t out_dtype) {
  tn_case *c = tn_case_create(TN_OP_NORM, rows, 1);
  if (!c) return NULL;
  const tn_norm_attributes attributes = {sizeof attributes, shape->kind, shape->group, shape->epsilon};
  uint32_t group = shape->group ? shape->group : shape->cols;
  uint32_t x = tn_case_input(c, TN_F32, TN_DIM_T, shape->cols);
  int64_t inputs[4] = {x, -1, -1, -1};
  uint32_t count = 1;
  tn_case_fill(c, x, fill, shape->cols + rows);
  tn_case_say(c, "%s [%u,%u]", shape->kind == TN_NORM_RMS ? "rms" : "layer", rows, shape->cols);
  if (shape->group) tn_case_say(c, " groups of %u", shape->group);
  if (shape->weight || shape->bias) {
    uint32_t w = shape->weight ? tn_case_vector(c, shape->weight == 1 ? group : shape->cols) : TN_NO_VALUE;
    if (shape->weight) tn_case_fill_range(c, w, 0.5f, 1.5f, 7);
    inputs[count++] = w;
  }
  if (shape->bias) {
    uint32_t b = tn_case_vector(c, shape->bias == 1 ? group : shape->cols);
    tn_case_fill_range(c, b, -1, 1, 8);
    inputs[count++] = b;
    tn_case_say(c, " bias");
  }
  uint32_t y = tn_case_output(c, out_dtype, TN_DIM_T, shape->cols);
  tn_case_op(c, TN_OP_NORM, &attributes, inputs, TN_CASE_LIST(y));
  /* A sum in another order may move a value over the edge between two quants. */
  if (out_dtype == TN_Q8A) c->tolerance = 1e-6;
  tn_case_say(c, "%s%s", out_dtype == TN_Q8A ? " to q8a" : "", tn_fill_name(fill));
  return c;
}

void tn_make_norm(tn_maker *maker) {
  static const norm_shape shapes[] = {
      {1, TN_NORM_RMS, 0, 1e-5f, 1, 0},   {31, TN_NORM_RMS, 0, 1e-6f, 1, 0},   {72, TN_NORM_LAYER, 0, 1e-5f, 1, 1},
      {300, TN_NORM_RMS, 0, 1e-5f, 0, 0}, {300, TN_NORM_LAYER, 0, 0.1f, 1, 1}, {576, TN_NORM_RMS, 0, 0.1f, 1, 0},
      {96, TN_NORM_RMS, 32, 1e-5f, 1, 0}, {96, TN_NORM_RMS, 32, 1e-5f, 2, 0},  {120, TN_NORM_LAYER, 24, 1e-5f, 2, 2},
      {256, TN_NORM_RMS, 128, 0, 1, 1},
  };
  static const norm_shape large = {2048, TN_NORM_RMS, 0, 1e-5f, 1, 0};
  if (maker->perf) {
    tn_maker_emit(maker, norm_case(&large, 512, TN_FILL_RANDOM, TN_F32));
    tn_maker_emit(maker, norm_case(&large, 512, TN_FILL_RANDOM, TN_Q8A));
    return;
  }
  for (size_t k = 0; k < TN_COUNT(shapes); k++)
    for (uint32_t i = 0; i < TN_MAKER_ROWS && !maker->stopped; i++) {
      tn_maker_emit(maker, norm_case(&shapes[k], tn_maker_rows[i], TN_FILL_RANDOM, TN_F32));
      tn_maker_emit(maker, norm_case(&shapes[k], tn_maker_rows[i], TN_FILL_RANDOM, TN_Q8A));
    }
  for (tn_fill fill = TN_FILL_ZERO; fill < TN_FILL_COUNT && !maker->stopped; fill++) {
    if (fill == TN_FILL_TINY) continue; /* squares vanish: what is left is the epsilon's affair */
    tn_maker_emit(maker, norm_case(&shapes[1], 4, fill, TN_F32));
    tn_maker_emit(maker, norm_case(&shapes[5], 4, fill, TN_F32));
  }
}
