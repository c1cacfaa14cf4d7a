/* Cases of linear: every format with float and 8-bit activations, epilogues, several outputs, extremes, and weights
 * made up from several sources. */
#include "conformance/makers.h"

#include <string.h>
#include "tensor/dtype.h"

typedef struct linear_shape {
  uint32_t x_dtype, format, cols, widths[4], outputs;
  uint32_t activation, gated;
  float scale;
  bool bias, residual, exact;
  tn_fill x_fill, w_fill;
} linear_shape;

static uint32_t width_of(const linear_shape *shape) {
  uint32_t total = 0;
  for (uint32_t i = 0; i < shape->outputs; i++) total += shape->widths[i];
  return total;
}

static void say(tn_case *c, const linear_shape *shape, uint32_t rows, uint32_t weight_rows) {
  tn_case_say(c, "%s x %s [%u,%u] rows=%u", tn_dtype_name((tn_dtype)shape->x_dtype),
              tn_dtype_name((tn_dtype)shape->format), weight_rows, shape->cols, rows);
  if (shape->outputs > 1) tn_case_say(c, " outputs=%u", shape->outputs);
  if (shape->activation) tn_case_say(c, " act=%u", shape->activation);
  tn_case_say(c, "%s%s%s%s", shape->gated ? " gated" : "", shape->bias ? " bias" : "",
              shape->residual ? " residual" : "", shape->scale != 1 ? " scale" : "");
  if (shape->exact) tn_case_say(c, " exact");
  if (shape->x_fill) tn_case_say(c, " x%s", tn_fill_name(shape->x_fill));
  if (shape->w_fill) tn_case_say(c, " w%s", tn_fill_name(shape->w_fill));
}

/* The case, and the number of its weight in `*weight`. */
static tn_case *linear_case(const linear_shape *shape, uint32_t rows, uint32_t *weight) {
  tn_case *c = tn_case_create(TN_OP_LINEAR, rows, rows > 4 ? 2 : 1);
  if (!c) return NULL;
  uint32_t width = width_of(shape), weight_rows = shape->gated ? 2 * width : width;
  const tn_linear_attributes attributes = {sizeof attributes, shape->activation, shape->gated, shape->scale};
  uint32_t uses = (shape->x_dtype == TN_Q8A ? TN_USE_LINEAR_Q8A : TN_USE_LINEAR) | (shape->gated ? TN_USE_GATED : 0);
  uint32_t x = tn_case_input(c, shape->x_dtype, TN_DIM_T, shape->cols);
  uint32_t w = tn_case_matrix(c, shape->format, weight_rows, shape->cols, uses);
  int64_t inputs[5] = {x, w, -1, -1, -1}, outputs[5] = {-1, -1, -1, -1, -1};
  if (shape->exact) {
    tn_case_fill_exact(c, x, shape->cols + rows, w, shape->format * 31 + width);
  } else {
    tn_case_fill(c, x, shape->x_fill, shape->cols + rows);
    tn_case_fill(c, w, shape->w_fill, shape->format * 31 + width);
  }
  if (shape->bias || shape->residual) inputs[2] = shape->bias ? tn_case_vector(c, weight_rows) : TN_NO_VALUE;
  if (shape->bias) tn_case_fill_range(c, (uint32_t)inputs[2], -4, 4, 5);
  if (shape->residual) {
    inputs[3] = tn_case_input(c, TN_F32, TN_DIM_T, width);
    tn_case_fill(c, (uint32_t)inputs[3], TN_FILL_RANDOM, 9);
  }
  for (uint32_t i = 0; i < shape->outputs; i++) outputs[i] = tn_case_output(c, TN_F32, TN_DIM_T, shape->widths[i]);
  tn_case_op(c, TN_OP_LINEAR, &attributes, inputs, outputs);
  c->dtype = (uint8_t)shape->format;
  say(c, shape, rows, weight_rows);
  if (weight) *weight = w;
  return c;
}

static void formats(tn_maker *maker) {
  for (uint32_t i = 0; i < tn_maker_format_count; i++) {
    for (uint32_t q8a = 0; q8a < 2 && !maker->stopped; q8a++) {
      linear_shape shape = {.x_dtype = q8a ? TN_Q8A : TN_F32,
                            .format = tn_maker_formats[i],
                            .cols = 256,
                            .widths = {37},
                            .outputs = 1,
                            .scale = 1};
      tn_maker_emit(maker, linear_case(&shape, 1, NULL));
      tn_maker_emit(maker, linear_case(&shape, 7, NULL));
      shape.cols = 768;
      shape.widths[0] = 48;
      tn_maker_emit(maker, linear_case(&shape, 37, NULL));
    }
  }
}

static void shapes(tn_maker *maker) {
  static const uint32_t float_cols[] = {1, 8, 33, 72}, block_cols[] = {32, 64, 96, 576};
  static const uint32_t widths[] = {1, 15, 17, 100};
  for (uint32_t k = 0; k < 4; k++)
    for (uint32_t n = 0; n < 4 && !maker->stopped; n++) {
      linear_shape shape = {
          .x_dtype = TN_F32, .format = TN_F16, .cols = float_cols[k], .widths = {widths[n]}, .outputs = 1, .scale = 1};
      tn_maker_emit(maker, linear_case(&shape, tn_maker_rows[n], NULL));
      shape.x_dtype = TN_Q8A;
      shape.format = TN_F32;
      tn_maker_emit(maker, linear_case(&shape, tn_maker_rows[3 - n], NULL));
      shape.cols = block_cols[k];
      shape.format = n % 2 ? TN_Q4_1 : TN_Q8_0;
      tn_maker_emit(maker, linear_case(&shape, tn_maker_rows[n], NULL));
      shape.x_dtype = TN_F32;
      shape.format = TN_Q5_0;
      tn_maker_emit(maker, linear_case(&shape, tn_maker_rows[3 - n], NULL));
    }
}

/* Integers against integers: scales that are powers of two leave nothing to round, so every device gives the same bits,
 * in whatever order it adds. */
static void integers(tn_maker *maker) {
  for (uint32_t i = 0; i < tn_maker_format_count; i++)
    for (uint32_t m = 0; m < TN_MAKER_ROWS && !maker->stopped; m++) {
      linear_shape shape = {.x_dtype = TN_Q8A,
                            .format = tn_maker_formats[i],
                            .cols = 256,
                            .widths = {m % 2 ? 48 : 37},
                            .outputs = 1,
                            .scale = 1,
                            .exact = true};
      if (tn_dtype_block_elements((tn_dtype)shape.format) == 1 || tn_maker_rows[m] == 2) continue;
      tn_maker_emit(maker, linear_case(&shape, tn_maker_rows[m], NULL));
    }
}

/* bf16 against bf16: pairs of columns, so odd ones too. */
static void pairs(tn_maker *maker) {
  static const uint32_t cols[] = {1, 2, 33, 72, 255, 768}, widths[] = {1, 16, 33, 100, 64, 72};
  for (uint32_t k = 0; k < TN_COUNT(cols); k++)
    for (uint32_t m = 0; m < 4 && !maker->stopped; m++) {
      linear_shape shape = {.x_dtype = TN_BF16,
                            .format = TN_BF16,
                            .cols = cols[k],
                            .widths = {widths[k]},
                            .outputs = 1,
                            .scale = 1,
                            .gated = m == 1};
      tn_maker_emit(maker, linear_case(&shape, tn_maker_rows[m], NULL));
    }
}

static void epilogues(tn_maker *maker) {
  for (uint32_t activation = 0; activation <= TN_ACTIVATION_TANH; activation++)
    for (uint32_t gated = 0; gated < 2 && !maker->stopped; gated++) {
      linear_shape shape = {.x_dtype = TN_Q8A,
                            .format = TN_Q4_1,
                            .cols = 64,
                            .widths = {40},
                            .outputs = 1,
                            .activation = activation,
                            .gated = gated,
                            .scale = 1.5f,
                            .bias = true,
                            .residual = true};
      tn_maker_emit(maker, linear_case(&shape, 7, NULL));
      shape.x_dtype = TN_F32;
      shape.format = TN_F16;
      shape.bias = activation % 2;
      shape.residual = !shape.bias;
      tn_maker_emit(maker, linear_case(&shape, 7, NULL));
    }
  static const uint32_t parts[][4] = {{16, 16, 32}, {48, 5, 5}, {1, 2, 3, 4}, {90, 30, 30}};
  for (uint32_t i = 0; i < 4 && !maker->stopped; i++) {
    linear_shape shape = {.format = TN_Q4_0, .cols = 96, .outputs = i == 2 ? 4 : 3, .scale = 1, .bias = true};
    memcpy(shape.widths, parts[i], sizeof shape.widths);
    for (uint32_t q8a = 0; q8a < 2; q8a++) {
      shape.x_dtype = q8a ? TN_Q8A : TN_F32;
      tn_maker_emit(maker, linear_case(&shape, 7, NULL));
    }
  }
}

static void extremes(tn_maker *maker) {
  static const uint32_t quantised[] = {TN_Q8_0, TN_Q4_0, TN_Q4_1, TN_Q5_1, TN_Q6_K, TN_IQ4_NL};
  for (size_t i = 0; i < TN_COUNT(quantised); i++)
    for (tn_fill x = TN_FILL_LARGE; x < TN_FILL_NAN_ROW; x++)
      for (tn_fill w = TN_FILL_LARGE; w < TN_FILL_NAN_ROW && !maker->stopped; w++) {
        if (x == TN_FILL_TINY || w == TN_FILL_TINY) continue;
        linear_shape shape = {.x_dtype = TN_Q8A,
                              .format = quantised[i],
                              .cols = 512,
                              .widths = {20},
                              .outputs = 1,
                              .scale = 1,
                              .x_fill = x,
                              .w_fill = w};
        tn_maker_emit(maker, linear_case(&shape, 5, NULL));
      }
  for (tn_fill x = TN_FILL_ZERO; x < TN_FILL_COUNT && !maker->stopped; x++) {
    linear_shape shape = {
        .x_dtype = TN_F32, .format = TN_F16, .cols = 72, .widths = {33}, .outputs = 1, .scale = 1, .x_fill = x};
    tn_maker_emit(maker, linear_case(&shape, 4, NULL));
    shape.format = TN_Q8_0;
    shape.cols = 96;
    tn_maker_emit(maker, linear_case(&shape, 4, NULL));
  }
}

/* ---- weights from several sources ---- */

/* Three stored matrices, of which the weight takes rows: some of the first, a mapped choice of the second, and columns
 * out of the middle of the third where the format allows. */
static void join_sources(tn_case *c, uint32_t weight) {
  if (c->failed) return;
  tn_case_value *value = &c->values[weight];
  tn_weight_source whole = value->sources[0];
  uint32_t total = (uint32_t)whole.rows, first = total / 3;
  uint32_t *map = tn_arena_array(&c->arena, total, sizeof *map);
  if (!map) {
    c->failed = true;
    return;
  }
  for (uint32_t i = 0; i < total; i++) map[i] = (i * 5 + 2) % total;
  value->sources[0].row_begin = 1;
  value->sources[0].row_count = first;
  value->sources[1] = whole;
  value->sources[1].row_map = map;
  value->sources[1].row_count = total - first;
  value->sources[1].into_row = first;
  value->source_count = 2;
  tn_case_say(c, " mapped rows");
}

/* Stored as [cols, rows]: GPT-2's way. */
static void transpose_source(tn_case *c, uint32_t weight) {
  if (c->failed) return;
  tn_weight_source *source = &c->values[weight].sources[0];
  uint64_t rows = source->rows;
  source->rows = source->cols;
  source->cols = rows;
  source->transposed = 1;
  tn_case_say(c, " transposed");
}

/* Every value of the bias with something added, as norms stored as 1 + w have it. */
static void add_to_bias(tn_case *c) {
  for (uint32_t i = 0; i < c->value_count; i++)
    if (c->values[i].uses == TN_USE_VECTOR) c->values[i].sources[0].add = 1;
  tn_case_say(c, " added");
}

static void sources(tn_maker *maker) {
  static const uint32_t chosen[] = {TN_F32, TN_F16, TN_Q8_0, TN_Q4_1, TN_Q6_K};
  for (size_t i = 0; i < TN_COUNT(chosen) && !maker->stopped; i++) {
    uint32_t weight;
    linear_shape shape = {
        .x_dtype = TN_F32, .format = chosen[i], .cols = 256, .widths = {36}, .outputs = 1, .scale = 1, .bias = true};
    tn_case *c = linear_case(&shape, 3, &weight);
    if (c) join_sources(c, weight);
    tn_maker_emit(maker, c);
    if (chosen[i] != TN_F32 && chosen[i] != TN_F16) continue;
    c = linear_case(&shape, 3, &weight);
    if (c) transpose_source(c, weight);
    tn_maker_emit(maker, c);
    c = linear_case(&shape, 3, &weight);
    if (c) add_to_bias(c);
    tn_maker_emit(maker, c);
  }
}

void tn_make_linear(tn_maker *maker) {
  if (maker->perf) {
    static const uint32_t timed[] = {TN_F32, TN_F16, TN_Q8_0, TN_Q4_0, TN_Q4_1, TN_Q4_K, TN_Q6_K};
    for (size_t i = 0; i < TN_COUNT(timed); i++)
      for (uint32_t rows = 1; rows <= 256 && !maker->stopped; rows *= 16) {
        linear_shape shape = {.x_dtype = timed[i] < TN_Q4_0 ? TN_F32 : TN_Q8A,
                              .format = timed[i],
                              .cols = 2048,
                              .widths = {2048},
                              .outputs = 1,
                              .scale = 1};
        tn_maker_emit(maker, linear_case(&shape, rows, NULL));
      }
    return;
  }
  formats(maker);
  shapes(maker);
  integers(maker);
  pairs(maker);
  epilogues(maker);
  extremes(maker);
  sources(maker);
}

/* ---- head_linear: a matrix for each head ---- */

static tn_case *head_case(uint32_t x_dtype, uint32_t format, uint32_t heads, uint32_t cols, uint32_t width,
                          uint32_t pass, uint32_t rows, bool exact) {
  tn_case *c = tn_case_create(TN_OP_HEAD_LINEAR, rows, 1);
  if (!c) return NULL;
  const tn_head_linear_attributes attributes = {sizeof attributes, pass};
  uint32_t x = tn_case_input(c, x_dtype, TN_DIM_T, heads * (cols + pass));
  uint32_t w = tn_case_weight(c, format, 3, (const uint32_t[]){heads, width, cols},
                              x_dtype == TN_Q8A ? TN_USE_LINEAR_Q8A : TN_USE_LINEAR);
  uint32_t y = tn_case_output(c, TN_F32, TN_DIM_T, heads * (pass + width));
  if (exact) {
    tn_case_fill_exact(c, x, cols, w, format + width);
    tn_case_say(c, "exact ");
  } else {
    tn_case_fill(c, x, TN_FILL_RANDOM, cols);
    tn_case_fill(c, w, TN_FILL_RANDOM, format + width);
  }
  tn_case_op(c, TN_OP_HEAD_LINEAR, &attributes, TN_CASE_LIST(x, w), TN_CASE_LIST(y));
  c->dtype = (uint8_t)format;
  tn_case_say(c, "%s x %s %u heads of [%u,%u], %u passed on, rows=%u", tn_dtype_name((tn_dtype)x_dtype),
              tn_dtype_name((tn_dtype)format), heads, width, cols, pass, rows);
  return c;
}

void tn_make_head_linear(tn_maker *maker) {
  if (maker->perf) {
    tn_maker_emit(maker, head_case(TN_F32, TN_F16, 16, 128, 512, 64, 64, false));
    return;
  }
  for (uint32_t i = 0; i < tn_maker_format_count && !maker->stopped; i++) {
    uint32_t format = tn_maker_formats[i], block = (uint32_t)tn_dtype_block_elements((tn_dtype)format);
    tn_maker_emit(maker, head_case(TN_F32, format, 3, block > 1 ? block : 33, 20, i % 3 * 5, 1, false));
    tn_maker_emit(maker, head_case(TN_F32, format, 2, block > 1 ? 2 * block : 72, 17, i % 2 * 8, 7, false));
    tn_maker_emit(maker, head_case(TN_Q8A, format, 3, block > 1 ? block : 32, 20, 0, 15, false));
    if (block > 1) tn_maker_emit(maker, head_case(TN_Q8A, format, 2, block, 17, 0, 15, true));
    if (format == TN_BF16) tn_maker_emit(maker, head_case(TN_BF16, format, 3, 33, 20, 0, 15, false));
  }
}
