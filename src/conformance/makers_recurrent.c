/* Cases of recurrent layers: short_conv, delta_rule. Their state goes from slot to slot from step to step, so a
 * sequence cut into steps shows what was kept. */
#include "conformance/makers.h"

static const uint32_t sequence_rows[] = {1, 2, 7, 37};

static tn_case *conv_case(uint32_t channels, uint32_t taps, uint32_t activation, uint32_t rows, tn_fill fill) {
  tn_case *c = tn_case_create(TN_OP_SHORT_CONV, rows, rows > 4 ? 2 : 1);
  if (!c) return NULL;
  const tn_short_conv_attributes attributes = {sizeof attributes, taps, activation};
  uint32_t x = tn_case_input(c, TN_F32, TN_DIM_T, channels), w = tn_case_vector(c, channels * taps);
  uint32_t s = tn_case_recurrent(c, 1, taps - 1, channels), y = tn_case_output(c, TN_F32, TN_DIM_T, channels);
  tn_case_fill(c, x, fill, channels);
  tn_case_fill_range(c, w, -1, 1, taps);
  tn_case_op(c, TN_OP_SHORT_CONV, &attributes, TN_CASE_LIST(x, w, s), TN_CASE_LIST(y));
  tn_case_say(c, "%u channels, %u taps, act=%u rows=%u%s", channels, taps, activation, rows, tn_fill_name(fill));
  return c;
}

void tn_make_short_conv(tn_maker *maker) {
  static const struct {
    uint32_t channels, taps, activation;
  } shapes[] = {{1, 2, 0}, {31, 3, 0}, {72, 4, TN_ACTIVATION_SILU}, {300, 4, TN_ACTIVATION_NONE}, {64, 9, 0}};
  if (maker->perf) {
    tn_maker_emit(maker, conv_case(2048, 4, TN_ACTIVATION_SILU, 512, TN_FILL_RANDOM));
    return;
  }
  for (size_t k = 0; k < TN_COUNT(shapes); k++)
    for (size_t i = 0; i < TN_COUNT(sequence_rows) && !maker->stopped; i++)
      tn_maker_emit(
          maker, conv_case(shapes[k].channels, shapes[k].taps, shapes[k].activation, sequence_rows[i], TN_FILL_RANDOM));
  tn_maker_emit(maker, conv_case(72, 4, TN_ACTIVATION_SILU, 7, TN_FILL_ZERO));
  tn_maker_emit(maker, conv_case(72, 4, TN_ACTIVATION_NONE, 7, TN_FILL_LARGE));
}

typedef struct delta_shape {
  uint32_t key_heads, value_heads, key_dim, value_dim, tiled;
} delta_shape;

static tn_case *delta_case(const delta_shape *s, uint32_t rows, tn_fill fill) {
  tn_case *c = tn_case_create(TN_OP_DELTA_RULE, rows, rows > 4 ? 2 : 1);
  if (!c) return NULL;
  const tn_delta_rule_attributes attributes = {sizeof attributes, s->key_heads, s->value_heads, s->key_dim,
                                               s->value_dim,      s->tiled,     1e-6f};
  uint32_t width = 2 * s->key_heads * s->key_dim + s->value_heads * s->value_dim;
  uint32_t qkv = tn_case_input(c, TN_F32, TN_DIM_T, width), a = tn_case_input(c, TN_F32, TN_DIM_T, s->value_heads);
  uint32_t b = tn_case_input(c, TN_F32, TN_DIM_T, s->value_heads), decay = tn_case_vector(c, s->value_heads);
  uint32_t dt = tn_case_vector(c, s->value_heads);
  uint32_t state = tn_case_recurrent(c, s->value_heads, s->key_dim, s->value_dim);
  uint32_t y = tn_case_output(c, TN_F32, TN_DIM_T, s->value_heads * s->value_dim);
  tn_case_fill(c, qkv, fill, width);
  tn_case_fill_range(c, a, -3, 3, 1);
  tn_case_fill_range(c, b, -3, 3, 2);
  tn_case_fill_range(c, decay, -2, 0, 3);
  tn_case_fill_range(c, dt, -1, 1, 4);
  tn_case_op(c, TN_OP_DELTA_RULE, &attributes, TN_CASE_LIST(qkv, a, b, decay, dt, state), TN_CASE_LIST(y));
  tn_case_say(c, "%u/%u heads of %u,%u%s rows=%u%s", s->key_heads, s->value_heads, s->key_dim, s->value_dim,
              s->tiled ? " tiled" : "", rows, tn_fill_name(fill));
  return c;
}

void tn_make_delta_rule(tn_maker *maker) {
  static const delta_shape shapes[] = {{1, 1, 4, 4, 0}, {2, 4, 16, 24, 0}, {2, 4, 16, 24, 1}, {3, 3, 32, 64, 0}};
  static const delta_shape large = {8, 16, 128, 128, 0};
  if (maker->perf) {
    tn_maker_emit(maker, delta_case(&large, 128, TN_FILL_RANDOM));
    return;
  }
  for (size_t k = 0; k < TN_COUNT(shapes); k++)
    for (size_t i = 0; i < TN_COUNT(sequence_rows) && !maker->stopped; i++)
      tn_maker_emit(maker, delta_case(&shapes[k], sequence_rows[i], TN_FILL_RANDOM));
  tn_maker_emit(maker, delta_case(&shapes[1], 7, TN_FILL_ZERO));
}
