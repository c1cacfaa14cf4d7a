/* Looking weights through for floats, and scales of blocks, that are no numbers (see sound.h). */
#include "model/sound.h"

#include "base/error.h"
#include "tensor/blocks.h"
#include "tensor/decode.h"
#include "tensor/half.h"

typedef uint16_t __attribute__((aligned(1), may_alias)) loose_u16;
typedef uint32_t __attribute__((aligned(1), may_alias)) loose_u32;

/* Looked through at once for the largest; only a run that has something wrong is looked at one by one. */
#define RUN 4096u

#define F16_EXPONENT 0x7c00u /* all ones: infinite, or no number */
#define E8M0_NONE 255

const tn_file_tensor *tn_sound_tensor_at(const tn_container *file, const void *data) {
  const uint8_t *at = data;
  for (size_t i = 0; i < file->tensor_count; i++) {
    const tn_file_tensor *tensor = file->tensors + i;
    if (tensor->data && at >= tensor->data && at < tensor->data + tensor->bytes) return tensor;
  }
  return NULL;
}

/* ---- plain floats ---- */

/* The first of `count` floats of a type whose exponent is all ones (and, if `nan_only`, whose fraction isn't 0);
 * `count`: there is none. */
static uint64_t first_float(tn_dtype dtype, const void *data, uint64_t count, bool nan_only) {
  const uint32_t exponent = dtype == TN_F32 ? 0x7f800000u : dtype == TN_BF16 ? 0x7f80u : F16_EXPONENT;
  const uint32_t magnitude = dtype == TN_F32 ? 0x7fffffffu : 0x7fffu, least = exponent + nan_only;
  const loose_u32 *wide = data;
  const loose_u16 *narrow = data;
  for (uint64_t begin = 0; begin < count; begin += RUN) {
    uint64_t end = count - begin < RUN ? count : begin + RUN;
    uint32_t largest = 0;
    if (dtype == TN_F32)
      for (uint64_t i = begin; i < end; i++) largest = (wide[i] & magnitude) > largest ? wide[i] & magnitude : largest;
    else
      for (uint64_t i = begin; i < end; i++)
        largest = (narrow[i] & magnitude) > largest ? narrow[i] & magnitude : largest;
    if (largest < least) continue;
    while (((dtype == TN_F32 ? wide[begin] : narrow[begin]) & magnitude) < least) begin++;
    return begin;
  }
  return count;
}

static tn_status bad_float(const tn_container *file, const char *name, tn_dtype dtype, const uint8_t *data,
                           tn_error *error) {
  const tn_file_tensor *tensor = tn_sound_tensor_at(file, data);
  uint64_t at = tensor ? (uint64_t)(data - tensor->data) / tn_dtype_block_bytes(dtype) : 0;
  float value = 0;
  tn_decode_row(dtype, data, &value, 1);
  return tn_fail(error, TN_E_FORMAT, "%s: tensor %s: value %llu is %g, expected a number", file->path,
                 tensor ? tensor->name : name, (unsigned long long)at, (double)value);
}

/* ---- blocks ---- */

/* Where a block keeps what its elements are multiplied by. */
typedef struct block_scales {
  uint8_t count; /* of f16 numbers; 0: one E8M0 in front, or the format isn't known */
  uint8_t at[2];
} block_scales;

#define ONE(type)                          \
  {                                        \
    1, {                                   \
      offsetof(type, d), offsetof(type, d) \
    }                                      \
  }
#define TWO(type)                          \
  {                                        \
    2, {                                   \
      offsetof(type, d), offsetof(type, m) \
    }                                      \
  }
static const block_scales places[TN_DTYPE_COUNT] = {
    [TN_Q8_0] = ONE(tn_block_q8_0), [TN_Q4_0] = ONE(tn_block_q4_0),     [TN_Q4_1] = TWO(tn_block_q4_1),
    [TN_Q5_0] = ONE(tn_block_q5_0), [TN_Q5_1] = TWO(tn_block_q5_1),     [TN_Q2_K] = TWO(tn_block_q2_k),
    [TN_Q3_K] = ONE(tn_block_q3_k), [TN_Q4_K] = TWO(tn_block_q4_k),     [TN_Q5_K] = TWO(tn_block_q5_k),
    [TN_Q6_K] = ONE(tn_block_q6_k), [TN_IQ4_NL] = ONE(tn_block_iq4_nl), [TN_IQ4_XS] = ONE(tn_block_iq4_xs),
};

static uint32_t scale_at(const uint8_t *block, uint32_t offset) {
  return *(const loose_u16 *)(const void *)(block + offset) & 0x7fffu;
}

/* The first of `count` blocks with a scale that is none; `count`: there is none. */
static uint64_t first_block(const block_scales *scales, const uint8_t *data, size_t bytes, uint64_t count) {
  for (uint64_t begin = 0; begin < count; begin += RUN) {
    uint64_t end = count - begin < RUN ? count : begin + RUN;
    uint32_t largest = 0;
    for (uint64_t i = begin; i < end; i++) {
      uint32_t first = scale_at(data + i * bytes, scales->at[0]), second = scale_at(data + i * bytes, scales->at[1]);
      largest = first > largest ? first : largest;
      largest = scales->count > 1 && second > largest ? second : largest;
    }
    if (largest < F16_EXPONENT) continue;
    while (scale_at(data + begin * bytes, scales->at[0]) < F16_EXPONENT &&
           scale_at(data + begin * bytes, scales->at[scales->count - 1]) < F16_EXPONENT)
      begin++;
    return begin;
  }
  return count;
}

/* The first of `count` E8M0 numbers, `step` bytes apart, that is none; `count`: there is none. */
static uint64_t first_e8m0(const uint8_t *data, size_t step, uint64_t count) {
  for (uint64_t i = 0; i < count; i++)
    if (data[i * step] == E8M0_NONE) return i;
  return count;
}

static tn_status bad_block(const tn_container *file, const char *name, const uint8_t *data, size_t bytes,
                           tn_error *error) {
  const tn_file_tensor *tensor = tn_sound_tensor_at(file, data);
  uint64_t at = tensor ? (uint64_t)(data - tensor->data) / bytes : 0;
  return tn_fail(error, TN_E_FORMAT, "%s: tensor %s: block %llu has a scale that is no number", file->path,
                 tensor ? tensor->name : name, (unsigned long long)at);
}

/* ---- weights ---- */

static tn_status check_rows(const tn_weight_source *source, const char *name, bool is_vector, const tn_container *file,
                            tn_error *error) {
  tn_dtype dtype = (tn_dtype)source->dtype;
  bool is_run = !source->row_map && !source->transposed;
  uint64_t first = is_run ? source->row_begin : 0, rows = is_run ? source->row_count : source->rows;
  size_t row_bytes, bytes = tn_dtype_block_bytes(dtype);
  if (!bytes || !tn_dtype_row_bytes(dtype, source->cols, &row_bytes)) return TN_OK;
  const uint8_t *data = (const uint8_t *)source->data + first * row_bytes;
  uint64_t count = rows * (row_bytes / bytes), at = count;
  if (dtype == TN_F32 || dtype == TN_F16 || dtype == TN_BF16) {
    at = first_float(dtype, data, count, is_vector);
    return at == count ? TN_OK : bad_float(file, name, dtype, data + at * bytes, error);
  }
  if (places[dtype].count)
    at = first_block(places + dtype, data, bytes, count);
  else if (dtype == TN_MXFP4 || dtype == TN_MXFP6)
    at = first_e8m0(data, bytes, count);
  return at == count ? TN_OK : bad_block(file, name, data + at * bytes, bytes, error);
}

tn_status tn_sound_check(const tn_graph_value *weight, const tn_container *file, const tn_scales *scales,
                         tn_error *error) {
  tn_status status = TN_OK;
  for (uint32_t s = 0; s < weight->source_count && status == TN_OK; s++) {
    const tn_weight_source *source = weight->sources + s;
    const tn_tensor_scales *by = source->dtype == TN_U8 ? tn_scales_at(scales, source->data) : NULL;
    if (!by) {
      status = check_rows(source, weight->name, weight->rank < 2, file, error);
      continue;
    }
    uint64_t count = by->scales->bytes, at = first_e8m0(by->scales->data, 1, count);
    if (at != count) status = bad_block(file, by->scales->name, by->scales->data + at, 1, error);
  }
  return status;
}
