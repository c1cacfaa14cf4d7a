#include "model/scales.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "model/names.h"
#include "tensor/decode.h"

#define PREFIX "quantization_config."

/* ---- quantization_config ---- */

static tn_status refuse(const tn_container *file, const tn_config_value *value, const char *expected, tn_error *error) {
  return tn_fail(error, TN_E_UNSUPPORTED, "%s: %s: expected %s; it may change the mathematics", file->config.path,
                 value->path, expected);
}

static bool is_text(const tn_config_value *value, const char *text) {
  return value->kind == TN_JSON_STRING && tn_text_is(value->text, text);
}

/* The number of rows and columns of a block, where the value is a pair of numbers. */
static bool read_block(const tn_config_value *value, tn_scales *scales) {
  if (value->kind != TN_JSON_ARRAY || value->item_count != 2) return false;
  double rows = value->items[0].number, cols = value->items[1].number;
  if (!(rows >= 1 && rows <= 65536 && cols >= 1 && cols <= 65536)) return false;
  scales->block_rows = (uint32_t)rows;
  scales->block_cols = (uint32_t)cols;
  return true;
}

static bool begins_with_any(const char *name, const char *const *begins, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!strncmp(name, begins[i], strlen(begins[i]))) return true;
  return false;
}

static tn_status read_fp8(const tn_container *file, const tn_config_value *value, tn_scales *scales, tn_error *error) {
  static const char *const harmless[] = {"quant_method",   "activation_scheme", "modules_to_not_convert",
                                         "ignored_layers", "dequantize",        "scale_fmt"};
  const char *name = value->path + strlen(PREFIX);
  if (!strcmp(name, "weight_block_size"))
    return read_block(value, scales) ? TN_OK : refuse(file, value, "two numbers", error);
  if (!strcmp(name, "fmt"))
    return is_text(value, "e4m3") || is_text(value, "e5m2") ? TN_OK : refuse(file, value, "e4m3 or e5m2", error);
  return begins_with_any(name, harmless, TN_COUNT(harmless)) ? TN_OK : refuse(file, value, "a key of fp8", error);
}

/* A key of config_groups.NAME.weights. */
static tn_status read_weights_group(const tn_container *file, const tn_config_value *value, const char *name,
                                    tn_scales *scales, tn_error *error) {
  static const char *const harmless[] = {"strategy", "observer", "actorder", "scale_dtype", "zp_dtype"};
  if (!strcmp(name, "num_bits"))
    return value->kind == TN_JSON_NUMBER && value->number == 8 ? TN_OK : refuse(file, value, "8", error);
  if (!strcmp(name, "type")) return is_text(value, "float") ? TN_OK : refuse(file, value, "float", error);
  if (!strcmp(name, "symmetric"))
    return value->kind == TN_JSON_BOOLEAN && value->boolean ? TN_OK : refuse(file, value, "true", error);
  if (!strcmp(name, "dynamic"))
    return value->kind == TN_JSON_BOOLEAN && !value->boolean ? TN_OK : refuse(file, value, "false", error);
  if (!strcmp(name, "block_structure"))
    return read_block(value, scales) ? TN_OK : refuse(file, value, "two numbers", error);
  return begins_with_any(name, harmless, TN_COUNT(harmless)) ? TN_OK : refuse(file, value, "null", error);
}

static tn_status read_compressed(const tn_container *file, const tn_config_value *value, tn_scales *scales,
                                 tn_error *error) {
  static const char *const harmless[] = {"quant_method", "quantization_status", "global_compression_ratio", "version",
                                         "ignore",       "kv_cache_scheme"};
  const char *name = value->path + strlen(PREFIX), *part = strstr(name, ".weights.");
  size_t bytes = strlen(name);
  bool in_group = !strncmp(name, "config_groups.", 14);
  if (in_group && part) return read_weights_group(file, value, part + 9, scales, error);
  if (in_group && (strstr(name, ".input_activations.") || (bytes > 8 && !strcmp(name + bytes - 8, ".targets"))))
    return TN_OK;
  if (!strcmp(name, "format") || (in_group && bytes > 7 && !strcmp(name + bytes - 7, ".format")))
    return is_text(value, "float-quantized") ? TN_OK : refuse(file, value, "float-quantized", error);
  if (!strcmp(name, "sparsity_config.format"))
    return is_text(value, "dense") ? TN_OK : refuse(file, value, "dense", error);
  return begins_with_any(name, harmless, TN_COUNT(harmless)) ? TN_OK
                                                             : refuse(file, value, "a key of float-quantized", error);
}

static tn_status read_config(tn_scales *scales, const tn_container *file, tn_error *error) {
  const tn_config_value *method = tn_config_find(&file->config, PREFIX "quant_method");
  bool is_fp8 = method && is_text(method, "fp8"), is_compressed = method && is_text(method, "compressed-tensors");
  if (!method && !tn_config_has_object(&file->config, "quantization_config")) return TN_OK;
  if (method && is_text(method, "mxfp4")) return TN_OK;
  if (!is_fp8 && !is_compressed)
    return tn_fail(error, TN_E_UNSUPPORTED,
                   "%s: quantization_config.quant_method is \"%.*s\", expected mxfp4, fp8 or compressed-tensors",
                   file->config.path, method ? (int)(method->text.bytes < 40 ? method->text.bytes : 40) : 0,
                   method && method->text.data ? method->text.data : "");
  tn_status status = TN_OK;
  for (size_t i = 0; i < file->config.count && status == TN_OK; i++) {
    const tn_config_value *value = file->config.values + i;
    if (strncmp(value->path, PREFIX, strlen(PREFIX)) || value->kind == TN_JSON_NULL || value->kind == TN_JSON_OBJECT)
      continue;
    status = is_fp8 ? read_fp8(file, value, scales, error) : read_compressed(file, value, scales, error);
  }
  scales->demanded = true;
  return status;
}

/* ---- the tensors ---- */

static bool is_f8(const tn_file_tensor *tensor) {
  return tensor->dtype == TN_F8_E4M3 || tensor->dtype == TN_F8_E5M2;
}

static uint64_t divided_up(uint64_t value, uint64_t by) {
  return (value + by - 1) / by;
}

/* The scales' tensor of the weight called `name`, or NULL. */
static const tn_file_tensor *scales_of(const tn_container *file, const char *name) {
  static const char *const ends[] = {"_scale", "_scale_inv"};
  char text[512];
  for (size_t i = 0; i < TN_COUNT(ends); i++) {
    if ((size_t)snprintf(text, sizeof text, "%s%s", name, ends[i]) >= sizeof text) return NULL;
    const tn_file_tensor *found = tn_container_find_tensor(file, text);
    if (found) return found;
  }
  return NULL;
}

/* What the shape of the scales means; false where it fits nothing. */
static bool fit_shape(const tn_scales *all, tn_tensor_scales *s) {
  const tn_file_tensor *t = s->tensor, *by = s->scales;
  uint64_t cols = (uint64_t)t->dims[0], rows = (uint64_t)t->dims[1], matrices = (uint64_t)t->dims[2], count = 1;
  for (int d = 0; d < TN_FILE_TENSOR_RANK; d++) count *= (uint64_t)by->dims[d];
  if (all->block_rows && by->rank >= 2) {
    uint64_t down = divided_up(rows, all->block_rows), across = divided_up(cols, all->block_cols);
    if ((uint64_t)by->dims[0] == across && (uint64_t)by->dims[1] == down && (uint64_t)by->dims[2] == matrices) {
      s->rows = all->block_rows;
      s->cols = all->block_cols;
      s->per_row = across;
      s->matrix_rows = matrices > 1 ? rows : 0;
      s->matrix_blocks = down;
      return true;
    }
  }
  s->cols = cols;
  s->per_row = 1;
  s->rows = count == 1 ? rows * matrices : count == matrices ? rows : 1;
  return count == 1 || count == matrices || count == rows * matrices;
}

static tn_status find_scales(tn_scales *scales, const tn_container *file, const tn_file_tensor *tensor,
                             tn_error *error) {
  const tn_file_tensor *by = scales_of(file, tensor->name);
  if (!by && !scales->demanded) return TN_OK;
  if (!by)
    return tn_fail(error, TN_E_NOT_FOUND, "%s: tensor %s is %s, but %s_scale and %s_scale_inv are missing", file->path,
                   tensor->name, tn_dtype_name(tensor->dtype), tensor->name, tensor->name);
  if (by->dtype != TN_F32 && by->dtype != TN_BF16 && by->dtype != TN_F16)
    return tn_fail(error, TN_E_UNSUPPORTED, "%s: tensor %s is %s, expected f32, bf16 or f16", file->path, by->name,
                   tn_dtype_name(by->dtype));
  tn_tensor_scales *item = TN_PUSH(scales->items, scales->count, scales->capacity);
  if (!item) return tn_fail(error, TN_E_MEMORY, "%s: out of memory", file->path);
  item->tensor = tensor;
  item->scales = by;
  if (tensor->dims[3] == 1 && by->bytes && fit_shape(scales, item)) return TN_OK;
  return tn_fail(
      error, TN_E_FORMAT,
      "%s: tensor %s has the shape [%lld, %lld, %lld], expected one number for %s, for each of its rows, or for "
      "each block of weight_block_size (fastest first)",
      file->path, by->name, (long long)by->dims[0], (long long)by->dims[1], (long long)by->dims[2], tensor->name);
}

/* MXFP4 blocks and their scales (who binds them checks their shapes). */
static tn_status find_block_scales(tn_scales *scales, const tn_container *file, const tn_file_tensor *tensor,
                                   tn_error *error) {
  char name[TN_MAX_NAME];
  const tn_file_tensor *by = tn_name_of_scales(tensor->name, name) ? tn_container_find_tensor(file, name) : NULL;
  if (!by || by->dtype != TN_U8 || by->bytes != tensor->bytes / 16) return TN_OK;
  tn_tensor_scales *item = TN_PUSH(scales->items, scales->count, scales->capacity);
  if (!item) return tn_fail(error, TN_E_MEMORY, "%s: out of memory", file->path);
  *item = (tn_tensor_scales){.tensor = tensor, .scales = by};
  return TN_OK;
}

static int by_data(const void *a, const void *b) {
  const uint8_t *first = ((const tn_tensor_scales *)a)->tensor->data,
                *second = ((const tn_tensor_scales *)b)->tensor->data;
  return first < second ? -1 : first > second;
}

tn_status tn_scales_open(tn_scales *scales, const tn_container *file, tn_error *error) {
  *scales = (tn_scales){0};
  if (!tn_container_is_folder(file)) return TN_OK;
  tn_status status = read_config(scales, file, error);
  for (size_t i = 0; i < file->tensor_count && status == TN_OK; i++)
    if (is_f8(file->tensors + i) && file->tensors[i].bytes)
      status = find_scales(scales, file, file->tensors + i, error);
  bool has_f8 = scales->count > 0;
  for (size_t i = 0; i < file->tensor_count && status == TN_OK; i++)
    if (file->tensors[i].dtype == TN_U8 && file->tensors[i].bytes)
      status = find_block_scales(scales, file, file->tensors + i, error);
  if (status == TN_OK && scales->demanded && !has_f8)
    status = tn_fail(error, TN_E_FORMAT,
                     "%s: quantization_config.quant_method speaks of F8 (fp8 or compressed-tensors), "
                     "but no tensor is in F8",
                     file->config.path);
  if (scales->count) qsort(scales->items, scales->count, sizeof *scales->items, by_data);
  return status;
}

void tn_scales_finish(tn_scales *scales) {
  free(scales->items);
  *scales = (tn_scales){0};
}

const tn_tensor_scales *tn_scales_at(const tn_scales *scales, const void *data) {
  size_t low = 0, high = scales->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const tn_file_tensor *tensor = scales->items[middle].tensor;
    if ((const uint8_t *)data < tensor->data)
      high = middle;
    else if ((const uint8_t *)data >= tensor->data + tensor->bytes)
      low = middle + 1;
    else
      return scales->items + middle;
  }
  return NULL;
}

void tn_scales_join_blocks(const tn_tensor_scales *blocks, uint64_t first, uint64_t count, uint8_t *out) {
  const uint8_t *from = blocks->tensor->data + first * 16, *scale = blocks->scales->data + first;
  for (uint64_t b = 0; b < count; b++, out += 17, from += 16) {
    uint8_t element[32];
    for (uint32_t j = 0; j < 32; j++) element[j] = j % 2 ? from[j / 2] >> 4 : from[j / 2] & 15;
    out[0] = scale[b];
    for (uint32_t j = 0; j < 16; j++) out[1 + j] = (uint8_t)(element[j] | element[j + 16] << 4);
  }
}

static float number_at(const tn_file_tensor *scales, uint64_t index) {
  float value = NAN;
  tn_decode_row(scales->dtype, scales->data + index * tn_dtype_block_bytes(scales->dtype), &value, 1);
  return value;
}

float tn_scale_of(const tn_tensor_scales *s, uint64_t row, uint64_t col) {
  uint64_t line =
      s->matrix_rows ? row / s->matrix_rows * s->matrix_blocks + row % s->matrix_rows / s->rows : row / s->rows;
  return number_at(s->scales, line * s->per_row + col / s->cols);
}

float tn_scales_largest(const tn_tensor_scales *s) {
  float largest = 0;
  uint64_t count = s->scales->bytes / tn_dtype_block_bytes(s->scales->dtype);
  for (uint64_t i = 0; i < count; i++) {
    float value = fabsf(number_at(s->scales, i));
    if (!(value <= largest)) largest = value;
  }
  return largest;
}

bool tn_scales_is_scale(const tn_scales *scales, const tn_container *file, const char *name) {
  static const char *const ends[] = {".weight_scale", ".weight_scale_inv", ".input_scale",
                                     ".output_scale", ".k_scale",          ".v_scale"};
  size_t bytes = strlen(name);
  for (size_t i = 0; i < TN_COUNT(ends) && scales->count; i++) {
    size_t end = strlen(ends[i]);
    if (bytes <= end || strcmp(name + bytes - end, ends[i])) continue;
    if (i > 1) return true;
    for (size_t k = 0; k < scales->count; k++)
      if (scales->items[k].scales == tn_container_find_tensor(file, name)) return true;
  }
  return false;
}
