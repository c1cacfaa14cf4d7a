/* Filling operands (see fill.h). */
#include "conformance/fill.h"

#include <math.h>
#include <string.h>
#include "tensor/dtype.h"
#include "tensor/half.h"

const char *tn_fill_name(tn_fill fill) {
  static const char *const names[TN_FILL_COUNT] = {"", " zeros", " large", " tiny", " largest", " smallest", " nan"};
  return names[fill];
}

/* ---- random numbers: a 64 bit linear congruence, its upper half stirred ---- */

static uint32_t next(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = *state >> 20;
  return (uint32_t)(x ^ x >> 19);
}

static float between(uint64_t *state, float low, float high) {
  return low + (float)(next(state) >> 8) * 0x1p-24f * (high - low);
}

/* ---- floats ---- */

static float value_of(tn_fill fill, uint64_t *state, uint32_t row, uint32_t column) {
  float random = between(state, -1, 1);
  switch (fill) {
    case TN_FILL_ZERO: return column % 2 ? -0.0f : 0.0f;
    case TN_FILL_LARGE: return random * 1e4f;
    case TN_FILL_TINY: return random * 0x1p-126f;
    case TN_FILL_LARGEST: return 1e4f;
    case TN_FILL_SMALLEST: return -1e4f;
    case TN_FILL_NAN_ROW:
      if (row == 1 && column == 3) return NAN;
      if (row == 2 && column == 2) return INFINITY;
      return random;
    default: return row % 5 == 4 ? random * 10 : random;
  }
}

static void fill_floats(float *to, uint32_t row, uint32_t cols, tn_fill fill, uint64_t *state) {
  for (uint32_t i = 0; i < cols; i++) to[i] = value_of(fill, state, row, i);
}

/* ---- q8a rows ---- */

static int8_t quant_of(tn_fill fill, uint64_t *state) {
  int random = (int)(next(state) % 255) - 127;
  switch (fill) {
    case TN_FILL_ZERO: return 0;
    case TN_FILL_LARGE: return random < 0 ? -127 : 127;
    case TN_FILL_LARGEST: return 127;
    case TN_FILL_SMALLEST: return -127;
    default: return (int8_t)random;
  }
}

/* `exact`: the scale of all blocks; 0: random ones. */
static void fill_q8a(uint8_t *to, uint32_t cols, tn_fill fill, float exact, uint64_t *state) {
  uint32_t blocks = (cols + 31) / 32;
  memset(to, 0, TN_Q8A_ROW_BYTES(cols));
  for (uint32_t b = 0; b < blocks; b++) {
    int32_t sum = 0;
    float scale = fill == TN_FILL_ZERO ? 0 : between(state, 0.001f, 0.02f);
    if (exact > 0) scale = exact;
    for (uint32_t i = b * 32; i < b * 32 + 32 && i < cols; i++) {
      int8_t q = quant_of(fill, state);
      to[i] = (uint8_t)q;
      sum += q;
    }
    memcpy(to + blocks * 32 + b * 4, &scale, 4);
    memcpy(to + blocks * 36 + b * 4, &sum, 4);
  }
}

/* ---- weights in blocks: any bits are quants, only the scales must make sense ---- */

/* What all numbers of a block are multiplied by, what is added to all of them (or multiplied by what is), and the
 * exponent that MX formats have instead. */
typedef struct block_scales {
  float factor, offset;
  uint8_t exponent;
} block_scales;

static void put_scales(uint32_t dtype, uint8_t *block, size_t bytes, block_scales scales) {
  uint16_t d = tn_f32_to_f16(scales.factor), m = tn_f32_to_f16(scales.offset);
  switch (dtype) {
    case TN_Q4_1:
    case TN_Q5_1:
    case TN_Q4_K:
    case TN_Q5_K:
      memcpy(block, &d, 2);
      memcpy(block + 2, &m, 2);
      break;
    case TN_Q2_K:
      memcpy(block + bytes - 4, &d, 2);
      memcpy(block + bytes - 2, &m, 2);
      break;
    case TN_Q3_K:
    case TN_Q6_K: memcpy(block + bytes - 2, &d, 2); break;
    case TN_MXFP4:
    case TN_MXFP6: block[0] = scales.exponent; break;
    default: memcpy(block, &d, 2); break;
  }
}

static uint8_t block_byte(tn_fill fill, uint32_t dtype, uint64_t *state) {
  uint8_t random = (uint8_t)next(state);
  bool bytes = dtype == TN_Q8_0; /* signed bytes; the rest are unsigned fields of bits */
  switch (fill) {
    case TN_FILL_LARGE: return random & 1 ? (bytes ? 0x7f : 0xff) : (bytes ? 0x80 : 0x00);
    case TN_FILL_LARGEST: return bytes ? 0x7f : 0xff;
    case TN_FILL_SMALLEST: return bytes ? 0x80 : 0x00;
    default: return random;
  }
}

static block_scales random_scales(const uint8_t *block, uint64_t *state) {
  block_scales scales = {.exponent = (uint8_t)(118 + block[0] % 8)};
  scales.factor = between(state, 0.01f, 0.06f);
  scales.offset = between(state, -0.5f, 0.5f);
  return scales;
}

/* `exact`: the scales of all blocks; NULL: random ones. */
static void fill_blocks(uint32_t dtype, uint8_t *to, uint64_t bytes, tn_fill fill, const block_scales *exact,
                        uint64_t *state) {
  size_t block = tn_dtype_block_bytes((tn_dtype)dtype);
  for (uint64_t at = 0; at < bytes; at += block) {
    for (size_t i = 0; i < block; i++) to[at + i] = block_byte(fill, dtype, state);
    put_scales(dtype, to + at, block, exact ? *exact : random_scales(to + at, state));
  }
}

/* One value of a plain type. */
static void put_plain(uint32_t dtype, float value, uint8_t *to, uint64_t *state) {
  uint16_t half;
  double wide = (double)value;
  switch (dtype) {
    case TN_F16: half = tn_f32_to_f16(value), memcpy(to, &half, 2); break;
    case TN_BF16: half = tn_f32_to_bf16(value), memcpy(to, &half, 2); break;
    case TN_F64: memcpy(to, &wide, 8); break;
    case TN_F8_E4M3:
    case TN_F8_E5M2: *to = (uint8_t)(next(state) & 0xb7); break; /* neither NaN nor infinity */
    default:
      for (size_t i = 0; i < tn_dtype_block_bytes((tn_dtype)dtype); i++) to[i] = (uint8_t)next(state);
  }
}

static uint64_t seeded(uint32_t seed) {
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (int i = 0; i < 4; i++) next(&state);
  return state;
}

static void fill_rows(uint32_t dtype, uint8_t *data, uint64_t rows, uint64_t cols, tn_fill fill, uint32_t seed) {
  uint64_t state = seeded(seed), row_bytes = tn_row_bytes(dtype, cols);
  for (uint64_t r = 0; r < rows; r++) {
    uint8_t *row = data + r * row_bytes;
    if (dtype == TN_F32) {
      fill_floats((float *)(void *)row, (uint32_t)r, (uint32_t)cols, fill, &state);
    } else if (dtype == TN_Q8A) {
      fill_q8a(row, (uint32_t)cols, fill, 0, &state);
    } else if (tn_dtype_block_elements((tn_dtype)dtype) > 1) {
      fill_blocks(dtype, row, row_bytes, fill, NULL, &state);
    } else {
      size_t bytes = tn_dtype_block_bytes((tn_dtype)dtype);
      for (uint64_t i = 0; i < cols; i++)
        put_plain(dtype, value_of(fill, &state, (uint32_t)r, (uint32_t)i), row + i * bytes, &state);
    }
  }
}

/* The rows to be filled. */
typedef struct stored_rows {
  uint8_t *data;
  uint64_t rows, cols;
  uint32_t dtype;
} stored_rows;

static stored_rows rows_of(const tn_case *c, uint32_t number) {
  const tn_case_value *value = &c->values[number];
  uint64_t bytes;
  uint8_t *data = tn_case_data(c, number, &bytes);
  if (value->kind == TN_VALUE_INPUT)
    return (stored_rows){data, tn_case_rows(c, value), (uint64_t)value->dims[1], value->dtype};
  return (stored_rows){data, value->sources[0].rows, value->sources[0].cols, value->sources[0].dtype};
}

void tn_case_fill(tn_case *c, uint32_t number, tn_fill fill, uint32_t seed) {
  if (c->failed) return;
  stored_rows to = rows_of(c, number);
  fill_rows(to.dtype, to.data, to.rows, to.cols, fill, seed);
}

static void fill_exact(const tn_case *c, uint32_t number, uint32_t seed) {
  stored_rows to = rows_of(c, number);
  uint64_t state = seeded(seed), bytes = tn_row_bytes(to.dtype, to.cols);
  for (uint64_t r = 0; r < to.rows; r++) {
    const uint8_t exponent = (uint8_t)(127 - r % 3);
    const float power = 1.0f / (float)(1u << r % 3);
    const block_scales scales = {power, r % 2 ? power : -power, exponent};
    if (to.dtype == TN_Q8A)
      fill_q8a(to.data + r * bytes, (uint32_t)to.cols, TN_FILL_RANDOM, power, &state);
    else
      fill_blocks(to.dtype, to.data + r * bytes, bytes, TN_FILL_RANDOM, &scales, &state);
  }
}

void tn_case_fill_exact(tn_case *c, uint32_t x, uint32_t x_seed, uint32_t w, uint32_t w_seed) {
  c->tolerance = 0;
  if (c->failed) return;
  fill_exact(c, x, x_seed);
  fill_exact(c, w, w_seed);
}

void tn_case_fill_range(tn_case *c, uint32_t number, float low, float high, uint32_t seed) {
  if (c->failed) return;
  uint64_t bytes, state = seed * 0x9e3779b97f4a7c15u + 77;
  float *data = (float *)(void *)tn_case_data(c, number, &bytes);
  for (uint64_t i = 0; i < bytes / sizeof *data; i++) data[i] = between(&state, low, high);
}
