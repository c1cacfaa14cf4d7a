#include "model/convert.h"

#include <stdlib.h>
#include <string.h>
#include "base/os.h"
#include "model/sound.h"
#include "tensor/decode.h"
#include "tensor/dtype.h"
#include "tensor/encode.h"

#define MAX_WORKERS 16u
#define F16_LARGEST 65504.0f

/* ---- which format ---- */

bool tn_convert_stays(const char *name, uint32_t rank, uint64_t cols) {
  static const char *const parts[] = {"_norm", "ffn_gate_inp", "ssm_conv1d", "position_embd",
                                      ".bias", "rope_f",       ".scale"};
  if (rank < 2 || cols < TN_Q8A_BLOCK) return true;
  for (size_t i = 0; i < TN_COUNT(parts); i++)
    if (strstr(name, parts[i])) return true;
  return false;
}

static bool is_f8(uint32_t dtype) {
  return dtype == TN_F8_E4M3 || dtype == TN_F8_E5M2;
}

static bool is_float(uint32_t dtype) {
  return dtype == TN_F32 || dtype == TN_F16 || dtype == TN_BF16 || dtype == TN_F64 || is_f8(dtype);
}

/* What F8 becomes: f16 holds each value times its scale to 11 bits. */
static uint8_t format_of_f8(const tn_graph_value *weight, const tn_scales *scales, bool exact) {
  float largest = 0;
  for (uint32_t s = 0; s < weight->source_count; s++) {
    const tn_tensor_scales *by = tn_scales_at(scales, weight->sources[s].data);
    float scale = by ? tn_scales_largest(by) : 1;
    if (!(scale <= largest)) largest = scale;
  }
  float most = weight->dtype == TN_F8_E4M3 ? 448.0f : 57344.0f;
  return exact || !(largest * most <= F16_LARGEST) ? TN_F32 : TN_F16;
}

static tn_status parse_format(const char *name, uint8_t *dtype, tn_error *error) {
  static const uint8_t known[] = {TN_Q8_0, TN_Q4_0, TN_MXFP4, TN_MXFP6};
  for (size_t i = 0; i < TN_COUNT(known); i++) {
    *dtype = known[i];
    if (!strcmp(name, tn_dtype_name((tn_dtype)known[i]))) return TN_OK;
  }
  return tn_fail(error, TN_E_INVALID, "weights: \"%.40s\" given, expected q8_0, q4_0, mxfp4 or mxfp6", name);
}

tn_status tn_convert_plan(tn_graph *graph, const tn_container *file, const tn_scales *scales, const char *weights,
                          bool exact, tn_error *error) {
  uint8_t wanted = TN_DTYPE_COUNT;
  size_t quantised = 0;
  const char *kept = NULL;
  tn_status status = weights ? parse_format(weights, &wanted, error) : TN_OK;
  for (size_t i = 0; i < graph->value_count && status == TN_OK; i++) {
    tn_graph_value *value = graph->values + i;
    if (value->kind != TN_VALUE_WEIGHT || value->rank < 2) continue;
    uint64_t cols = (uint64_t)value->dims[value->rank - 1];
    if (!is_float(value->dtype)) {
      kept = tn_dtype_name((tn_dtype)value->dtype);
    } else if (weights && !tn_convert_stays(value->name, value->rank, cols)) {
      if (cols % tn_dtype_block_elements((tn_dtype)wanted))
        status = tn_fail(error, TN_E_UNSUPPORTED, "%s: weights: %s has rows of %llu values, %s needs a multiple of %zu",
                         file->path, value->name, (unsigned long long)cols, weights,
                         tn_dtype_block_elements((tn_dtype)wanted));
      value->dtype = wanted;
      quantised++;
    } else if (is_f8(value->dtype)) {
      value->dtype = format_of_f8(value, scales, exact);
    }
  }
  if (status == TN_OK && weights && !quantised)
    return tn_fail(error, TN_E_INVALID, "%s: weights: %s given, but no matrix is in a float format%s%s", file->path,
                   weights, kept ? ": they are " : "", kept ? kept : "");
  return status;
}

/* ---- converting ---- */

bool tn_convert_needed(const tn_graph_value *weight) {
  for (uint32_t s = 0; s < weight->source_count && weight->rank >= 2; s++)
    if (weight->sources[s].dtype != weight->dtype) return true;
  return false;
}

/* Where the value (row, col) of a source is stored, in its tensor's own rows and columns. */
typedef struct stored_source {
  const tn_weight_source *source;
  const tn_tensor_scales *scales;
  uint64_t first_row; /* of the tensor, where the source's data begins */
  uint64_t row_bytes;
} stored_source;

static stored_source open_source(const tn_weight_source *source, const tn_scales *scales) {
  stored_source stored = {.source = source, .scales = tn_scales_at(scales, source->data)};
  size_t bytes = 0;
  if (tn_dtype_row_bytes((tn_dtype)source->dtype, source->cols, &bytes)) stored.row_bytes = bytes;
  if (stored.scales && bytes)
    stored.first_row = (uint64_t)((const uint8_t *)source->data - stored.scales->tensor->data) / bytes;
  return stored;
}

/* Multiplies the view's values of stored row `row` by their scales, run by run. */
static void scale_row(const stored_source *stored, uint64_t row, float *values) {
  const tn_weight_source *s = stored->source;
  for (uint64_t k = 0; k < s->col_count;) {
    uint64_t col = s->col_begin + k, run = stored->scales->cols - col % stored->scales->cols;
    float scale = tn_scale_of(stored->scales, stored->first_row + row, col);
    for (; run && k < s->col_count; run--, k++) values[k] *= scale;
  }
}

/* Row `within` of a view of MXFP4 blocks whose scales lie apart, as whole blocks. */
static bool join_row(const stored_source *stored, uint64_t within, uint8_t *blocks) {
  const tn_weight_source *s = stored->source;
  uint64_t row = s->row_map ? s->row_map[within] : s->row_begin + within, count = s->col_count / 32;
  if (!stored->scales || s->col_begin || s->transposed) return false;
  tn_scales_join_blocks(stored->scales, (stored->first_row + row) * count, count, blocks);
  return true;
}

/* Row `within` of the view into `values`. */
static bool read_row(const stored_source *stored, uint64_t within, float *values) {
  const tn_weight_source *s = stored->source;
  uint64_t row = s->row_map ? s->row_map[within] : s->row_begin + within, count = s->col_count;
  const uint8_t *data = s->data;
  size_t skip = 0;
  bool read = true;
  if (s->transposed) {
    size_t step = tn_dtype_block_bytes((tn_dtype)s->dtype);
    for (uint64_t k = 0; k < count && read; k++)
      read =
          tn_decode_row((tn_dtype)s->dtype, data + (s->col_begin + k) * stored->row_bytes + row * step, values + k, 1);
  } else {
    read = tn_dtype_row_bytes((tn_dtype)s->dtype, s->col_begin, &skip) &&
           tn_decode_row((tn_dtype)s->dtype, data + row * stored->row_bytes + skip, values, count);
  }
  for (uint64_t k = 0; k < count && read && s->add != 0; k++) values[k] += s->add;
  if (read && stored->scales && s->transposed)
    for (uint64_t k = 0; k < count; k++)
      values[k] *= tn_scale_of(stored->scales, stored->first_row + s->col_begin + k, row);
  else if (read && stored->scales)
    scale_row(stored, row, values);
  return read;
}

/* The rows of a weight that one thread converts. */
typedef struct row_range {
  const tn_graph_value *weight;
  const stored_source *sources;
  uint8_t *out;
  uint64_t begin, end, cols, row_bytes;
  const stored_source *failed;
} row_range;

/* Row `row` of the view in the weight's format; `values` is working memory. */
static bool convert_row(const stored_source *stored, uint64_t row, tn_dtype dtype, float *values, uint8_t *to,
                        uint64_t cols) {
  if (stored->source->dtype != TN_U8) return read_row(stored, row, values) && tn_encode_row(dtype, values, to, cols);
  if (dtype == TN_MXFP4) return join_row(stored, row, to);
  uint8_t *blocks = tn_calloc(cols / 32, 17);
  bool done = blocks && join_row(stored, row, blocks) && tn_decode_row(TN_MXFP4, blocks, values, cols) &&
              tn_encode_row(dtype, values, to, cols);
  free(blocks);
  return done;
}

static void convert_rows(void *argument) {
  row_range *range = argument;
  float *values = tn_calloc(range->cols, sizeof *values);
  if (!values) range->failed = range->sources;
  for (uint32_t i = 0; i < range->weight->source_count && !range->failed; i++) {
    const stored_source *stored = range->sources + i;
    uint64_t first = stored->source->into_row, last = first + stored->source->row_count;
    if (first < range->begin) first = range->begin;
    if (last > range->end) last = range->end;
    for (uint64_t row = first; row < last && !range->failed; row++) {
      uint8_t *to = range->out + row * range->row_bytes;
      if (!convert_row(stored, row - stored->source->into_row, (tn_dtype)range->weight->dtype, values, to, range->cols))
        range->failed = stored;
    }
  }
  free(values);
}

/* All rows, shared out over the processors; the source whose values don't fit, or NULL. */
static const stored_source *convert_all(row_range whole, uint64_t rows) {
  row_range ranges[MAX_WORKERS];
  tn_thread *threads[MAX_WORKERS] = {NULL};
  unsigned workers = tn_machine_cpus() < MAX_WORKERS ? tn_machine_cpus() : MAX_WORKERS;
  for (unsigned i = workers; i-- > 0;) {
    ranges[i] = whole;
    ranges[i].begin = rows * i / workers;
    ranges[i].end = rows * (i + 1) / workers;
    if (i) threads[i] = tn_thread_start("convert", convert_rows, ranges + i);
    if (!threads[i]) convert_rows(ranges + i);
  }
  const stored_source *failed = NULL;
  for (unsigned i = 0; i < workers; i++) {
    if (threads[i]) tn_thread_join(threads[i]);
    if (ranges[i].failed) failed = ranges[i].failed;
  }
  return failed;
}

/* Are the source's rows and columns inside what it views, and its place inside the weight? */
static bool fits(const tn_weight_source *s, uint64_t rows, uint64_t cols) {
  uint64_t stored_rows = s->transposed ? s->cols : s->rows, stored_cols = s->transposed ? s->rows : s->cols;
  if (s->dtype == TN_U8) stored_cols *= 2; /* MXFP4: two values a byte */
  bool inside = s->data && s->col_count == cols && s->col_begin <= stored_cols && cols <= stored_cols - s->col_begin &&
                s->into_row <= rows && s->row_count <= rows - s->into_row;
  if (inside && !s->row_map) return s->row_begin <= stored_rows && s->row_count <= stored_rows - s->row_begin;
  for (uint64_t i = 0; i < s->row_count && inside; i++) inside = s->row_map[i] < stored_rows;
  return inside;
}

tn_status tn_convert(const tn_graph_value *weight, const tn_container *file, const tn_scales *scales, uint8_t **memory,
                     tn_weight_source *source, tn_error *error) {
  uint64_t cols = (uint64_t)weight->dims[weight->rank - 1], rows = 1;
  for (uint32_t d = 0; d + 1 < weight->rank; d++) rows *= (uint64_t)weight->dims[d];
  size_t row_bytes = 0;
  bool possible = tn_dtype_row_bytes((tn_dtype)weight->dtype, cols, &row_bytes);
  for (uint32_t s = 0; s < weight->source_count && possible; s++) possible = fits(weight->sources + s, rows, cols);
  *memory = NULL;
  if (!possible) return tn_fail(error, TN_E_INTERNAL, "%s: %s: its parts don't fit", file->path, weight->name);
  stored_source *stored = tn_calloc(weight->source_count, sizeof *stored);
  uint8_t *out = tn_calloc(rows, row_bytes);
  const stored_source *failed = NULL;
  if (stored && out) {
    for (uint32_t s = 0; s < weight->source_count; s++) stored[s] = open_source(weight->sources + s, scales);
    const row_range whole = {.weight = weight, .sources = stored, .out = out, .cols = cols, .row_bytes = row_bytes};
    failed = convert_all(whole, rows);
  }
  tn_status status = TN_OK;
  if (!stored || !out) status = tn_fail(error, TN_E_MEMORY, "%s: out of memory for %s", file->path, weight->name);
  const tn_file_tensor *tensor = failed ? tn_sound_tensor_at(file, failed->source->data) : NULL;
  if (failed)
    status = tn_fail(error, TN_E_FORMAT, "%s: tensor %s can't become %s: a value is no number or too large", file->path,
                     tensor ? tensor->name : weight->name, tn_dtype_name((tn_dtype)weight->dtype));
  free(stored);
  if (status != TN_OK) {
    free(out);
    return status;
  }
  *memory = out;
  *source = (tn_weight_source){.size = sizeof *source,
                               .dtype = weight->dtype,
                               .data = out,
                               .rows = rows,
                               .cols = cols,
                               .row_count = rows,
                               .col_count = cols};
  return TN_OK;
}
