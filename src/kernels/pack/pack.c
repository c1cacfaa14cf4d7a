/* Packing: see pack.h. Every panel of 16 rows is made on its own, straight from the stored rows of the sources. */
#include "kernels/pack/pack.h"

#include "kernels/pack/unpack.h"
#include "tensor/decode.h"
#include "tensor/half.h"

#define ALIGNMENT 64u

uint32_t tn_packed_kind(uint32_t dtype) {
  switch (dtype) {
    case TN_F32:
    case TN_F64:
    case TN_I8:
    case TN_U8:
    case TN_I16:
    case TN_Q2_K: return TN_LAYOUT_F32;
    case TN_F16:
    case TN_F8_E4M3:
    case TN_F8_E5M2: return TN_LAYOUT_F16;
    case TN_BF16: return TN_LAYOUT_BF16;
    case TN_Q4_0: return TN_LAYOUT_NIBBLE_D16;
    case TN_Q4_1: return TN_LAYOUT_NIBBLE_DM16;
    case TN_Q8_0: return TN_LAYOUT_BYTE_D16;
    case TN_Q5_0: return TN_LAYOUT_SIX_D16;
    case TN_Q5_1: return TN_LAYOUT_SIX_DM16;
    case TN_Q4_K: return TN_LAYOUT_NIBBLE_DMK;
    case TN_Q5_K: return TN_LAYOUT_SIX_DMK;
    case TN_Q3_K:
    case TN_Q6_K: return TN_LAYOUT_SIX_HALVES;
    case TN_IQ4_NL: return TN_LAYOUT_IQ4_D16;
    case TN_IQ4_XS: return TN_LAYOUT_IQ4_DK;
    case TN_MXFP4: return TN_LAYOUT_E2M1_B16;
    case TN_MXFP6: return TN_LAYOUT_BYTE_B16;
    default: return TN_LAYOUT_NONE;
  }
}

/* Experts, or heads: matrices one behind the other. */
static uint64_t matrix_count(const tn_weight_desc *desc) {
  return desc->rank == 3 ? desc->dims[0] : 1;
}

#define LINEAR_USES (TN_USE_LINEAR | TN_USE_LINEAR_Q8A | TN_USE_GATED)

tn_status tn_packed_layout(const tn_weight_desc *desc, tn_weight_layout *layout, const char **why) {
  *why = "there is no layout for a weight of this dtype, rank and uses";
  uint32_t kind = tn_packed_kind(desc->dtype);
  if (desc->uses == TN_USE_VECTOR) return tn_plain_layout(desc, layout);
  uint32_t uses = desc->rank == 3 ? LINEAR_USES : LINEAR_USES | TN_USE_EMBED;
  if (!desc->uses || desc->uses & ~uses || (desc->rank != 2 && desc->rank != 3) || kind == TN_LAYOUT_NONE) {
    return TN_E_UNSUPPORTED;
  }
  uint64_t rows = desc->dims[desc->rank - 2], columns = desc->dims[desc->rank - 1];
  bool gated = (desc->uses & TN_USE_GATED) != 0;
  if (!rows || !columns || rows > UINT32_MAX - 64 || columns > UINT32_MAX - 64 || (gated && rows % 2) ||
      columns % tn_dtype_block_elements((tn_dtype)desc->dtype)) {
    *why = "a weight of this dtype can't have these rows and columns";
    return TN_E_INVALID;
  }
  uint32_t id = kind | (gated ? TN_LAYOUT_GATED : 0);
  tn_matrix matrix = tn_matrix_of(id, (uint32_t)rows, (uint32_t)columns);
  *layout = (tn_weight_layout){.size = sizeof *layout, .id = id, .alignment = ALIGNMENT};
  if (__builtin_mul_overflow(matrix.panel_bytes, (uint64_t)matrix.panels, &layout->bytes) ||
      __builtin_mul_overflow(layout->bytes, matrix_count(desc), &layout->bytes) ||
      matrix_count(desc) * matrix.panels > UINT32_MAX)
    return TN_E_INVALID;
  return TN_OK;
}

/* ---- checking sources ---- */

static uint64_t view_row_limit(const tn_weight_source *s) {
  return s->transposed ? s->cols : s->rows;
}

static bool rows_are_inside(const tn_weight_source *s) {
  if (!s->row_map) return s->row_begin <= view_row_limit(s) && s->row_count <= view_row_limit(s) - s->row_begin;
  for (uint64_t i = 0; i < s->row_count; i++)
    if (s->row_map[i] >= view_row_limit(s)) return false;
  return true;
}

/* Why source `s` can't be packed, or NULL. */
static const char *source_fault(const tn_weight_desc *desc, const tn_weight_source *s, tn_status *status) {
  uint64_t view_columns = s->transposed ? s->rows : s->cols;
  *status = TN_E_INVALID;
  if (!s->data || s->dtype >= TN_DTYPE_COUNT) return "a source has no data or no dtype";
  size_t block = tn_dtype_block_elements((tn_dtype)s->dtype), row_bytes;
  if (!tn_dtype_row_bytes((tn_dtype)s->dtype, s->cols, &row_bytes))
    return "a source has rows that are not whole blocks";
  uint64_t rows = matrix_count(desc) * desc->dims[desc->rank - 2];
  if (s->into_row > rows || s->row_count > rows - s->into_row) return "a source has more rows than the weight";
  if (s->col_count != desc->dims[desc->rank - 1]) return "a source has other columns than the weight";
  if (s->col_begin > view_columns || s->col_count > view_columns - s->col_begin)
    return "a source takes columns it doesn't have";
  if (!rows_are_inside(s)) return "a source takes rows it doesn't have";
  *status = TN_E_UNSUPPORTED;
  if (s->add != 0.0f) return "a source adds to the values of a matrix";
  if (tn_layout_shape_of(tn_packed_kind(desc->dtype)).step_bytes == 4 && !(s->transposed && block > 1))
    return s->col_begin % block || s->col_count % block ? "a source cuts blocks apart" : NULL;
  if (s->dtype != desc->dtype) return "a source has another dtype than the weight";
  if (block > 1 && (s->transposed || s->col_begin % block)) return "a source cuts blocks apart";
  return NULL;
}

/* ---- panels ---- */

typedef struct pack_job {
  const tn_weight_desc *desc;
  const tn_weight_source *sources;
  uint32_t source_count;
  tn_matrix matrix;
  tn_layout_shape shape;
  uint8_t *to;
} pack_job;

/* Where the values of one row of the weight are stored; data NULL: nowhere, it is zero. */
typedef struct stored_row {
  const uint8_t *data; /* of its first value */
  uint64_t step;       /* transposed: bytes from value to value, else 0 */
  uint32_t dtype;
} stored_row;

static stored_row find_row(const pack_job *job, uint64_t row) {
  for (uint32_t i = 0; i < job->source_count; i++) {
    const tn_weight_source *s = &job->sources[i];
    if (row < s->into_row || row - s->into_row >= s->row_count) continue;
    uint64_t within = row - s->into_row, stored = s->row_map ? s->row_map[within] : s->row_begin + within;
    uint64_t first = s->transposed ? s->col_begin : stored, second = s->transposed ? stored : s->col_begin;
    uint64_t row_bytes = tn_row_bytes(s->dtype, s->cols);
    const uint8_t *at = (const uint8_t *)s->data + first * row_bytes;
    if (second) at += tn_row_bytes(s->dtype, second);
    return (stored_row){at, s->transposed ? row_bytes : 0, s->dtype};
  }
  return (stored_row){0};
}

/* Columns decoded at a time: whole blocks of every format. */
#define CHUNK 256u
#define HALVES_RUN 128u

static void decode_values(const stored_row *row, uint32_t begin, uint32_t count, float *values) {
  if (row->step) {
    for (uint32_t k = 0; k < count; k++)
      tn_decode_row((tn_dtype)row->dtype, row->data + (begin + k) * row->step, values + k, 1);
  } else {
    uint64_t skip = begin ? tn_row_bytes(row->dtype, begin) : 0;
    tn_decode_row((tn_dtype)row->dtype, row->data + skip, values, count);
  }
}

static void pack_floats(const pack_job *job, const stored_row rows[TN_PANEL_ROWS], uint8_t *panel) {
  float values[TN_PANEL_ROWS][CHUNK];
  for (uint32_t begin = 0; begin < job->matrix.columns; begin += CHUNK) {
    uint32_t count = job->matrix.columns - begin < CHUNK ? job->matrix.columns - begin : CHUNK;
    for (uint32_t l = 0; l < TN_PANEL_ROWS; l++) {
      if (rows[l].data)
        decode_values(&rows[l], begin, count, values[l]);
      else
        __builtin_memset(values[l], 0, count * sizeof(float));
    }
    for (uint32_t k = 0; k < count; k++) {
      for (uint32_t l = 0; l < TN_PANEL_ROWS; l++) {
        uint64_t at = tn_layout_float_at(job->matrix.kind, l, begin + k);
        if (job->matrix.kind == TN_LAYOUT_F32)
          ((float *)(void *)panel)[at] = values[l][k];
        else if (job->matrix.kind == TN_LAYOUT_F16)
          ((uint16_t *)(void *)panel)[at] = tn_f32_to_f16(values[l][k]);
        else
          ((uint16_t *)(void *)panel)[at] = tn_f32_to_bf16(values[l][k]);
      }
    }
  }
}

/* Halves that need no decoding, only interleaving: a run of columns of all lanes at a time, which the cache holds. */
static void pack_halves(const pack_job *job, const stored_row rows[TN_PANEL_ROWS], uint8_t *panel) {
  uint16_t *to = (uint16_t *)(void *)panel;
  for (uint32_t begin = 0; begin < job->matrix.columns; begin += HALVES_RUN) {
    uint32_t end = job->matrix.columns - begin < HALVES_RUN ? job->matrix.columns : begin + HALVES_RUN;
    for (uint32_t l = 0; l < TN_PANEL_ROWS; l++) {
      uint64_t step = rows[l].step ? rows[l].step : 2;
      for (uint32_t k = begin; rows[l].data && k < end; k++)
        __builtin_memcpy(to + tn_layout_float_at(job->matrix.kind, l, k), rows[l].data + k * step, 2);
    }
  }
}

/* The quants of one block of one lane, four bytes a vector. */
static void put_quants(const pack_job *job, const uint8_t q[TN_BLOCK], uint32_t lane, uint8_t *quants) {
  if (job->shape.bits == 8) {
    for (uint32_t v = 0; v < 8; v++) __builtin_memcpy(quants + v * 64 + lane * 4, q + v * 4, 4);
    return;
  }
  for (uint32_t k = 0; k < TN_BLOCK / 2; k++) {
    uint8_t *to = quants + lane * 4 + k % 4;
    to[k / 4 * 64] = (uint8_t)((q[k] & 15) | q[k + 16] << 4);
    if (job->shape.bits == 4) continue;
    to[256] = (uint8_t)(to[256] | q[k] >> 4 << k / 4 * 2);
    to[320] = (uint8_t)(to[320] | q[k + 16] >> 4 << k / 4 * 2);
  }
}

/* Block `b` of one lane. */
static void put_block(const pack_job *job, const tn_unpacked *block, uint32_t b, uint32_t lane, uint8_t *panel) {
  uint8_t *scales = panel + tn_layout_scales_at(job->shape, b), *halves = scales;
  put_quants(job, block->q, lane, panel + tn_layout_quants_at(job->shape, b));
  if (job->shape.factors) {
    halves = panel + tn_layout_group_at(job->shape, b);
    for (uint32_t i = 0; i < 2; i++) scales[16 * i + lane] = (uint8_t)block->factors[i];
  }
  __builtin_memcpy(halves + lane * 2, &block->d16, 2);
  if (job->shape.minimum) __builtin_memcpy(halves + 32 + lane * 2, &block->m16, 2);
}

/* One row of Q4_0, Q4_1 or IQ4_NL, whose nibbles already lie as the layout wants them. */
static void pack_q4_row(const pack_job *job, const uint8_t *from, uint32_t lane, uint8_t *panel) {
  const uint32_t head = job->shape.minimum ? 4 : 2;
  for (uint32_t b = 0; b < job->matrix.columns / TN_BLOCK; b++, from += head + 16) {
    uint8_t *quants = panel + tn_layout_quants_at(job->shape, b) + lane * 4;
    uint8_t *scales = panel + tn_layout_scales_at(job->shape, b) + lane * 2;
    __builtin_memcpy(scales, from, 2);
    if (head == 4) __builtin_memcpy(scales + 32, from + 2, 2);
    for (uint32_t v = 0; v < 4; v++) __builtin_memcpy(quants + v * 64, from + head + v * 4, 4);
  }
}

/* One row of Q8_0. */
static void pack_q8_row(const pack_job *job, const uint8_t *from, uint32_t lane, uint8_t *panel) {
  for (uint32_t b = 0; b < job->matrix.columns / TN_BLOCK; b++, from += 34) {
    uint8_t *quants = panel + tn_layout_quants_at(job->shape, b) + lane * 4;
    __builtin_memcpy(panel + tn_layout_scales_at(job->shape, b) + lane * 2, from, 2);
    for (uint32_t v = 0; v < 8; v++) {
      uint32_t four;
      __builtin_memcpy(&four, from + 2 + v * 4, 4);
      four ^= 0x80808080u; /* q + 128 */
      __builtin_memcpy(quants + v * 64, &four, 4);
    }
  }
}

static void pack_blocks(const pack_job *job, const stored_row rows[TN_PANEL_ROWS], uint8_t *panel) {
  uint32_t dtype = job->desc->dtype;
  if (dtype == TN_Q4_0 || dtype == TN_Q4_1 || dtype == TN_IQ4_NL || dtype == TN_Q8_0) {
    for (uint32_t l = 0; l < TN_PANEL_ROWS; l++) {
      if (!rows[l].data) continue;
      if (dtype == TN_Q8_0)
        pack_q8_row(job, rows[l].data, l, panel);
      else
        pack_q4_row(job, rows[l].data, l, panel);
    }
    return;
  }
  for (uint32_t b = 0; b < job->matrix.columns / TN_BLOCK; b++) {
    for (uint32_t l = 0; l < TN_PANEL_ROWS; l++) {
      if (!rows[l].data) continue;
      tn_unpacked block;
      tn_unpack_block(rows[l].dtype, rows[l].data, b, &block);
      put_block(job, &block, b, l, panel);
    }
  }
}

static void pack_panel(void *argument, uint32_t index, uint32_t worker) {
  (void)worker;
  const pack_job *job = argument;
  const tn_matrix *m = &job->matrix;
  uint32_t half = m->gated ? m->rows / 2 : m->rows, within = index % m->panels;
  uint32_t first = (m->gated ? within / 2 : within) * TN_PANEL_ROWS;
  uint64_t matrix_row = (uint64_t)(index / m->panels) * m->rows;
  uint8_t *panel = job->to + index * m->panel_bytes;
  stored_row rows[TN_PANEL_ROWS] = {0};
  for (uint32_t l = 0; l < TN_PANEL_ROWS && first + l < half; l++)
    rows[l] = find_row(job, matrix_row + first + l + (m->gated && within % 2 ? half : 0));
  __builtin_memset(panel, 0, m->panel_bytes);
  bool plain_halves = job->shape.step_bytes == 2 && (job->desc->dtype == TN_F16 || job->desc->dtype == TN_BF16);
  if (plain_halves)
    pack_halves(job, rows, panel);
  else if (job->shape.step_bytes)
    pack_floats(job, rows, panel);
  else
    pack_blocks(job, rows, panel);
}

tn_status tn_packed_pack(const tn_weight_desc *desc, const tn_weight_layout *layout, const tn_weight_source *sources,
                         uint32_t source_count, void *to, const tn_parallel *parallel, const char **why) {
  tn_weight_layout own;
  tn_status status = tn_packed_layout(desc, &own, why);
  if (status != TN_OK) return status;
  if (own.id != layout->id || own.bytes != layout->bytes) {
    *why = "this is not the layout of the weight";
    return TN_E_INVALID;
  }
  *why = "the sources do not make up the vector";
  if (own.id == TN_LAYOUT_VECTOR) return tn_plain_pack(desc, sources, source_count, to);
  for (uint32_t i = 0; i < source_count; i++) {
    const char *fault = source_fault(desc, &sources[i], &status);
    if (!fault) continue;
    *why = fault;
    return status;
  }
  pack_job job = {.desc = desc, .sources = sources, .source_count = source_count, .to = to};
  job.matrix = tn_matrix_of(own.id, (uint32_t)desc->dims[desc->rank - 2], (uint32_t)desc->dims[desc->rank - 1]);
  job.shape = tn_layout_shape_of(job.matrix.kind);
  parallel->run(parallel->context, pack_panel, &job, (uint32_t)matrix_count(desc) * job.matrix.panels);
  return TN_OK;
}
