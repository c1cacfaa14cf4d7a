/* The plain layout: what the reference kernels (and any driver without a layout of its own) read. A matrix keeps its
 * source format, row after row; a vector becomes dense f32. */
#include "kernels/reference/reference.h"
#include "tensor/decode.h"

#define PLAIN_ALIGNMENT 64u

/* Values widened at a time. */
#define CHUNK 256u

static int is_vector(const tn_weight_desc *desc) {
  return (desc->uses & TN_USE_VECTOR) != 0;
}

static uint32_t plain_dtype(const tn_weight_desc *desc) {
  return is_vector(desc) ? TN_F32 : desc->dtype;
}

/* Rows of the weight over all experts and values of a row; a vector has one value a row. False when they overflow. */
static int matrix_of(const tn_weight_desc *desc, uint64_t *rows, uint64_t *cols) {
  if (desc->rank < 1 || desc->rank > 3) return 0;
  *rows = desc->dims[0];
  *cols = 1;
  if (desc->rank > 1) *cols = desc->dims[desc->rank - 1];
  if (desc->rank == 3 && __builtin_mul_overflow(desc->dims[0], desc->dims[1], rows)) return 0;
  return 1;
}

tn_status tn_plain_layout(const tn_weight_desc *desc, tn_weight_layout *layout) {
  uint64_t rows, cols, bytes;
  uint32_t dtype = plain_dtype(desc);
  if (desc->dtype >= TN_DTYPE_COUNT || !matrix_of(desc, &rows, &cols)) return TN_E_INVALID;
  if (tn_dtype_block_bytes((tn_dtype)desc->dtype) == 0) return TN_E_UNSUPPORTED;
  if (is_vector(desc) && desc->uses != TN_USE_VECTOR) return TN_E_UNSUPPORTED; /* would need two copies */
  uint64_t row_bytes = tn_row_bytes(dtype, cols);
  if (row_bytes == 0 || __builtin_mul_overflow(row_bytes, rows, &bytes)) return TN_E_INVALID;
  layout->size = sizeof *layout;
  layout->id = TN_LAYOUT_PLAIN;
  layout->bytes = bytes;
  layout->alignment = PLAIN_ALIGNMENT;
  return TN_OK;
}

uint64_t tn_plain_row_bytes(const tn_weight_desc *desc) {
  return tn_row_bytes(plain_dtype(desc), desc->dims[desc->rank - 1]);
}

/* ---- packing ---- */

static void copy_bytes(char *to, const char *from, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i++) to[i] = from[i];
}

static uint64_t stored_row(const tn_weight_source *source, uint64_t i) {
  return source->row_map ? source->row_map[i] : source->row_begin + i;
}

/* Everything of a source that could lead outside of the weight or of the stored matrix. The view is row_count by
 * col_count; of a transposed source the stored rows are the weight's columns. */
static tn_status check_source(const tn_weight_desc *desc, const tn_weight_source *s, uint64_t rows, uint64_t cols) {
  uint64_t view_rows = s->transposed ? s->cols : s->rows, view_cols = s->transposed ? s->rows : s->cols;
  uint64_t values;
  int vector = desc->rank == 1;
  if (s->dtype >= TN_DTYPE_COUNT || !s->data) return TN_E_INVALID;
  if (__builtin_mul_overflow(s->row_count, s->col_count, &values)) return TN_E_INVALID;
  if (!vector && s->col_count != cols) return TN_E_INVALID;
  uint64_t into = vector ? values : s->row_count;
  if (s->into_row > rows || into > rows - s->into_row) return TN_E_INVALID;
  if (s->col_begin > view_cols || s->col_count > view_cols - s->col_begin) return TN_E_INVALID;
  if (!s->row_map && (s->row_begin > view_rows || s->row_count > view_rows - s->row_begin)) return TN_E_INVALID;
  for (uint64_t i = 0; s->row_map && i < s->row_count; i++) {
    if (s->row_map[i] >= view_rows) return TN_E_INVALID;
  }
  uint64_t block = tn_dtype_block_elements((tn_dtype)s->dtype);
  if (tn_dtype_block_bytes((tn_dtype)s->dtype) == 0) return TN_E_UNSUPPORTED;
  if (s->cols % block) return TN_E_INVALID;
  if (block > 1 && (s->transposed || s->col_begin % block || s->col_count % block)) return TN_E_UNSUPPORTED;
  if (!is_vector(desc) && (s->dtype != desc->dtype || s->add != 0.0f)) return TN_E_UNSUPPORTED;
  return TN_OK;
}

/* Address of value (row, col) of the view; col is a multiple of the block. */
static const char *value_at(const tn_weight_source *s, uint64_t row, uint64_t col) {
  uint64_t r = stored_row(s, row), c = s->col_begin + col;
  if (s->transposed) {
    uint64_t swapped = r;
    r = c;
    c = swapped;
  }
  return (const char *)s->data + r * tn_row_bytes(s->dtype, s->cols) + tn_row_bytes(s->dtype, c);
}

/* `count` values of the view's row from col on, as f32 plus `add`. */
static void widen_run(const tn_weight_source *s, uint64_t row, uint64_t col, uint64_t count, float *to) {
  if (s->transposed) {
    for (uint64_t c = 0; c < count; c++) tn_decode_row((tn_dtype)s->dtype, value_at(s, row, col + c), to + c, 1);
  } else {
    tn_decode_row((tn_dtype)s->dtype, value_at(s, row, col), to, count);
  }
  for (uint64_t c = 0; c < count; c++) to[c] += s->add;
}

static void pack_row(const tn_weight_source *s, uint64_t row, int widen, char *to) {
  uint64_t element = tn_row_bytes(s->dtype, tn_dtype_block_elements((tn_dtype)s->dtype));
  if (widen) {
    for (uint64_t c = 0; c < s->col_count; c += CHUNK) {
      uint64_t count = s->col_count - c < CHUNK ? s->col_count - c : CHUNK;
      widen_run(s, row, c, count, (float *)(void *)to + c);
    }
  } else if (s->transposed) {
    for (uint64_t c = 0; c < s->col_count; c++) copy_bytes(to + c * element, value_at(s, row, c), element);
  } else {
    copy_bytes(to, value_at(s, row, 0), tn_row_bytes(s->dtype, s->col_count));
  }
}

tn_status tn_plain_pack(const tn_weight_desc *desc, const tn_weight_source *sources, uint32_t source_count, void *to) {
  uint64_t rows, cols;
  tn_weight_layout layout;
  tn_status status = tn_plain_layout(desc, &layout);
  if (status || !matrix_of(desc, &rows, &cols)) return status;
  for (uint32_t i = 0; i < source_count; i++) {
    status = check_source(desc, &sources[i], rows, cols);
    if (status) return status;
  }
  uint32_t dtype = plain_dtype(desc);
  for (uint32_t i = 0; i < source_count; i++) {
    const tn_weight_source *s = &sources[i];
    char *row = (char *)to + s->into_row * tn_row_bytes(dtype, cols);
    for (uint64_t r = 0; r < s->row_count; r++) {
      pack_row(s, r, is_vector(desc), row);
      row += tn_row_bytes(dtype, s->col_count);
    }
  }
  return TN_OK;
}

/* A recurrent state: f32, [heads][value_dim][key_dim] or as its op says. */
static tn_status recurrent_layout(const tn_state_desc *desc, tn_state_layout *layout) {
  uint64_t bytes;
  if (desc->dtype != TN_F32) return TN_E_UNSUPPORTED;
  if (!desc->kv_heads || !desc->key_dim || !desc->value_dim) return TN_E_INVALID;
  if (__builtin_mul_overflow((uint64_t)desc->kv_heads * 4, (uint64_t)desc->key_dim * desc->value_dim, &bytes))
    return TN_E_INVALID;
  *layout = (tn_state_layout){.size = sizeof *layout, .id = TN_LAYOUT_PLAIN, .page_bytes = bytes};
  return TN_OK;
}

tn_status tn_plain_state_layout(const tn_state_desc *desc, tn_state_layout *layout) {
  if (desc->slots == 0) return recurrent_layout(desc, layout);
  int int8 = desc->dtype == TN_I8 && desc->slots == TN_PAGE_SLOTS;
  if (desc->dtype != TN_F32 && desc->dtype != TN_F16 && desc->dtype != TN_BF16 && !int8) return TN_E_UNSUPPORTED;
  uint64_t values = (uint64_t)desc->key_dim + desc->value_dim;
  if (values == 0 || desc->kv_heads == 0) return TN_E_INVALID;
  if (__builtin_mul_overflow(values, (uint64_t)desc->kv_heads * desc->slots, &values)) return TN_E_INVALID;
  if (__builtin_mul_overflow(values, tn_row_bytes(desc->dtype, 1), &values)) return TN_E_INVALID;
  uint64_t scales = int8 ? (uint64_t)desc->kv_heads * desc->slots * 2 * sizeof(float) : 0;
  if (__builtin_add_overflow(values, scales, &values)) return TN_E_INVALID;
  layout->size = sizeof *layout;
  layout->id = TN_LAYOUT_PLAIN;
  layout->page_bytes = values;
  return TN_OK;
}
