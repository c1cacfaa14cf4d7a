/* tenon quantize: a GGUF file or a folder of safetensors becomes a GGUF file with its matrices in another format, one
 * tensor in memory at a time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "cli/options.h"
#include "model/export.h"
#include "tensor/decode.h"
#include "tensor/encode.h"

#define MAX_WORKERS 16u

/* PATTERN=TYPE of --tensor: which tensors, in which type. */
typedef struct override {
  const char *pattern;
  size_t pattern_bytes;
  tn_dtype dtype;
  bool used;
} override;

typedef struct quantizer {
  const char *path;  /* of the source: */
  tn_gguf *gguf;     /* a file, */
  tn_model *model;   /* or a folder, */
  tn_export folder;  /* as GGUF */
  bool no_tokenizer; /* of a folder: leave it out */
  size_t count;      /* tensors */
  uint32_t alignment;
  tn_dtype dtype;
  override overrides[TN_CLI_MAX_TEXTS];
  size_t override_count;
  tn_gguf_tensor_plan *tensors;
  double error_squares[TN_DTYPE_COUNT], squares[TN_DTYPE_COUNT]; /* of what was converted, by type */
} quantizer;

/* ---- which type for which tensor ---- */

/* Does the pattern, in which '*' stands for anything, match the name? */
static bool matches(const char *pattern, size_t bytes, const char *name) {
  const char *star = NULL, *resume = NULL, *end = pattern + bytes;
  while (*name) {
    if (pattern < end && *pattern == '*') {
      star = ++pattern;
      resume = name;
    } else if (pattern < end && *pattern == *name) {
      pattern++;
      name++;
    } else if (star) {
      pattern = star;
      name = ++resume;
    } else {
      return false;
    }
  }
  while (pattern < end && *pattern == '*') pattern++;
  return pattern == end;
}

/* Matrices that stay as they are unless named. */
static bool stays(const tn_file_tensor *tensor) {
  return !tensor->bytes || tn_convert_stays(tensor->name, tensor->rank, (uint64_t)tensor->dims[0]);
}

static tn_status choose_type(quantizer *q, tn_gguf_tensor_plan *plan, tn_error *error) {
  const tn_file_tensor *from = plan->from;
  plan->dtype = !stays(from) ? q->dtype : q->model ? TN_F32 : from->dtype;
  for (size_t i = 0; i < q->override_count && from->rank >= 2; i++) /* vectors are never quantised */
    if (matches(q->overrides[i].pattern, q->overrides[i].pattern_bytes, from->name)) {
      plan->dtype = q->overrides[i].dtype;
      q->overrides[i].used = true;
    }
  size_t cols = (size_t)from->dims[0], row_bytes, block = tn_dtype_block_elements(plan->dtype);
  if (!q->model && plan->dtype == from->dtype) {
    plan->bytes = from->bytes;
    return TN_OK;
  }
  if (!tn_dtype_row_bytes(plan->dtype, cols, &row_bytes))
    return tn_fail(error, TN_E_UNSUPPORTED,
                   "%s: tensor %s has rows of %zu values, %s needs a multiple of %zu; give it another type with "
                   "--tensor '%s=TYPE'",
                   q->path, from->name, cols, tn_dtype_name(plan->dtype), block, from->name);
  plan->bytes = row_bytes;
  for (uint32_t d = 1; d < from->rank; d++) plan->bytes *= (uint64_t)from->dims[d];
  return TN_OK;
}

static tn_status plan_tensors(quantizer *q, tn_error *error) {
  q->tensors = tn_calloc(q->count + 1, sizeof *q->tensors);
  if (!q->tensors) return tn_fail(error, TN_E_MEMORY, "out of memory");
  tn_status status = TN_OK;
  for (size_t i = 0; i < q->count && status == TN_OK; i++) {
    q->tensors[i].from = q->gguf ? q->gguf->tensors + i : &q->folder.tensors[i].about;
    status = choose_type(q, q->tensors + i, error);
  }
  for (size_t i = 0; i < q->override_count && status == TN_OK; i++)
    if (!q->overrides[i].used)
      status = tn_fail(error, TN_E_NOT_FOUND, "--tensor: no matrix of %s matches \"%.*s\"", q->path,
                       (int)q->overrides[i].pattern_bytes, q->overrides[i].pattern);
  return status;
}

static tn_status parse_type(const char *name, tn_dtype *dtype, tn_error *error) {
  *dtype = tn_dtype_find(name);
  if (*dtype != TN_DTYPE_COUNT && tn_can_encode(*dtype)) return TN_OK;
  tn_buf known;
  tn_buf_init(&known);
  for (int type = 0; type < TN_DTYPE_COUNT; type++)
    if (tn_can_encode((tn_dtype)type))
      tn_buf_printf(&known, "%s%s", known.size ? ", " : "", tn_dtype_name((tn_dtype)type));
  tn_status status = tn_fail(error, TN_E_INVALID, "type \"%.40s\" given, expected one of %s", name, known.data);
  tn_buf_finish(&known);
  return status;
}

static tn_status parse_overrides(quantizer *q, const tn_cli_texts *texts, tn_error *error) {
  for (size_t i = 0; i < texts->count; i++) {
    const char *equals = strrchr(texts->items[i], '=');
    if (!equals || equals == texts->items[i])
      return tn_fail(error, TN_E_INVALID, "--tensor: \"%.60s\" given, expected PATTERN=TYPE", texts->items[i]);
    override *o = q->overrides + q->override_count++;
    *o = (override){.pattern = texts->items[i], .pattern_bytes = (size_t)(equals - texts->items[i])};
    tn_status status = parse_type(equals + 1, &o->dtype, error);
    if (status != TN_OK) return status;
  }
  return TN_OK;
}

/* ---- converting ---- */

/* The rows that one thread converts. */
typedef struct row_range {
  const tn_gguf_tensor_plan *plan;
  uint8_t *out;
  size_t begin, end;
  double error_squares, squares;
  bool failed;
} row_range;

static void convert_rows(void *argument) {
  row_range *range = argument;
  const tn_file_tensor *from = range->plan->from;
  size_t cols = (size_t)from->dims[0], from_bytes = 0, to_bytes = 0;
  float *values = tn_calloc(2 * cols, sizeof *values), *back = values + cols;
  range->failed = !values || !tn_dtype_row_bytes(from->dtype, cols, &from_bytes) ||
                  !tn_dtype_row_bytes(range->plan->dtype, cols, &to_bytes);
  for (size_t row = range->begin; row < range->end && !range->failed; row++) {
    uint8_t *to = range->out + row * to_bytes;
    range->failed = !tn_decode_row(from->dtype, from->data + row * from_bytes, values, cols) ||
                    !tn_encode_row(range->plan->dtype, values, to, cols) ||
                    !tn_decode_row(range->plan->dtype, to, back, cols);
    for (size_t k = 0; k < cols && !range->failed; k++) {
      double difference = (double)values[k] - (double)back[k];
      range->error_squares += difference * difference;
      range->squares += (double)values[k] * (double)values[k];
    }
  }
  free(values);
}

/* Converts one tensor into `out`, its rows shared out over the processors. */
static tn_status convert(quantizer *q, const tn_gguf_tensor_plan *plan, uint8_t *out, tn_error *error) {
  size_t rows = 1;
  for (uint32_t d = 1; d < plan->from->rank; d++) rows *= (size_t)plan->from->dims[d];
  unsigned workers = tn_machine_cpus() < MAX_WORKERS ? tn_machine_cpus() : MAX_WORKERS;
  if (workers > rows) workers = (unsigned)rows;
  row_range ranges[MAX_WORKERS];
  tn_thread *threads[MAX_WORKERS] = {NULL};
  for (unsigned i = 0; i < workers; i++) {
    ranges[i] = (row_range){.plan = plan, .out = out, .begin = rows * i / workers, .end = rows * (i + 1) / workers};
    if (i) threads[i] = tn_thread_start("quantize", convert_rows, ranges + i);
  }
  bool failed = false;
  for (unsigned i = 0; i < workers; i++) {
    if (threads[i])
      tn_thread_join(threads[i]);
    else
      convert_rows(ranges + i);
    failed = failed || ranges[i].failed;
    q->error_squares[plan->dtype] += ranges[i].error_squares;
    q->squares[plan->dtype] += ranges[i].squares;
  }
  if (!failed) return TN_OK;
  return tn_fail(error, TN_E_FORMAT, "%s: tensor %s can't become %s: a value is no number or too large", q->path,
                 plan->from->name, tn_dtype_name(plan->dtype));
}

static tn_status append_padding(tn_file_writer *writer, uint64_t written, uint32_t alignment, tn_error *error) {
  static const uint8_t zeros[4096];
  for (size_t left = tn_round_up(written, alignment) - written; left;) {
    size_t part = left < sizeof zeros ? left : sizeof zeros;
    tn_status status = tn_file_writer_append(writer, zeros, part, error);
    if (status != TN_OK) return status;
    left -= part;
  }
  return TN_OK;
}

/* Puts the columns of every row in their order. */
static tn_status reorder_columns(const uint32_t *map, const tn_weight_source *source, float *values, tn_error *error) {
  float *row = tn_calloc(source->cols, sizeof *row);
  if (!row) return tn_fail(error, TN_E_MEMORY, "out of memory");
  for (uint64_t r = 0; r < source->rows; r++, values += source->cols) {
    memcpy(row, values, source->cols * sizeof *row);
    for (uint64_t c = 0; c < source->cols; c++) values[c] = row[map[c]];
  }
  free(row);
  return TN_OK;
}

/* The values of a folder's tensor in F32, blocks that stay in their format as they are; *memory is the caller's. */
static tn_status materialise(quantizer *q, const tn_gguf_tensor_plan *plan, tn_file_tensor *tensor, uint8_t **memory,
                             tn_error *error) {
  const tn_export_tensor *described = q->folder.tensors + (plan - q->tensors);
  tn_graph_value value = described->value;
  tn_weight_source source;
  bool keeps = plan->dtype == TN_MXFP4 && plan->from->dtype == TN_MXFP4;
  value.dtype = keeps ? TN_MXFP4 : TN_F32;
  tn_status status = tn_model_convert(q->model, &value, memory, &source, error);
  if (status == TN_OK && described->col_map)
    status = reorder_columns(described->col_map, &source, (float *)(void *)*memory, error);
  *tensor = *plan->from;
  tensor->dtype = value.dtype;
  tensor->data = *memory;
  tensor->bytes = keeps ? plan->bytes : status == TN_OK ? source.rows * source.cols * sizeof(float) : 0;
  for (uint32_t s = 0; s < value.source_count; s++) tn_model_release(q->model, value.sources[s].data);
  return status;
}

static tn_status write_tensor(quantizer *q, const tn_gguf_tensor_plan *plan, tn_file_writer *writer, tn_error *error) {
  tn_gguf_tensor_plan now = *plan;
  tn_file_tensor made;
  uint8_t *values = NULL, *converted = NULL;
  tn_status status = TN_OK;
  if (q->model) {
    status = materialise(q, plan, &made, &values, error);
    now.from = &made;
  }
  if (status == TN_OK && now.dtype != now.from->dtype) {
    converted = tn_calloc(now.bytes, 1);
    status = converted ? convert(q, &now, converted, error)
                       : tn_fail(error, TN_E_MEMORY, "out of memory for tensor %s", now.from->name);
  }
  const uint8_t *data = converted ? converted : status == TN_OK ? now.from->data : NULL;
  if (status == TN_OK && now.bytes) status = tn_file_writer_append(writer, data, now.bytes, error);
  if (status == TN_OK) status = append_padding(writer, now.bytes, q->alignment, error);
  free(converted);
  free(values);
  if (q->gguf) tn_gguf_release(q->gguf, plan->from);
  return status;
}

static tn_status write_file(quantizer *q, const char *path, tn_error *error) {
  tn_buf head;
  tn_file_writer *writer = NULL;
  tn_buf_init(&head);
  bool shows = tn_is_terminal(2);
  tn_status status =
      q->gguf ? tn_gguf_write_head(q->gguf, q->dtype, q->tensors, q->count, &head, error)
              : tn_gguf_write_keys(&q->folder.keys, q->alignment, q->dtype, q->tensors, q->count, &head, error);
  if (status == TN_OK) status = tn_file_writer_open(&writer, path, error);
  if (status == TN_OK) status = tn_file_writer_append(writer, head.data, head.size, error);
  for (size_t i = 0; i < q->count && status == TN_OK; i++) {
    if (shows) fprintf(stderr, "\r%zu/%zu %-50.50s", i + 1, q->count, q->tensors[i].from->name);
    status = write_tensor(q, q->tensors + i, writer, error);
  }
  if (shows) fprintf(stderr, "\r%-70s\r", "");
  tn_buf_finish(&head);
  if (status == TN_OK) return tn_file_writer_commit(writer, error);
  tn_file_writer_discard(writer);
  return status;
}

/* ---- the report ---- */

/* The file of a folder opens as a model, and computes the same. */
static tn_status verify_model(const quantizer *q, const char *path, tn_error *error) {
  tn_model *made;
  tn_status status = tn_model_open(path, &made, error);
  if (status != TN_OK) return status;
  status = tn_export_compare(q->model, made, !q->no_tokenizer, error);
  tn_model_close(made);
  return status;
}

/* Reads the file back: every tensor is there in the type that was asked for. */
static tn_status verify(const quantizer *q, const char *path, tn_error *error) {
  tn_gguf *made;
  tn_status status = tn_gguf_open(&made, path, error);
  if (status != TN_OK) return status;
  for (size_t i = 0; i < q->count && status == TN_OK; i++) {
    const tn_file_tensor *tensor = tn_gguf_find_tensor(made, q->tensors[i].from->name);
    if (!tensor || tensor->dtype != q->tensors[i].dtype || tensor->bytes != q->tensors[i].bytes)
      status = tn_fail(error, TN_E_INTERNAL, "%s: tensor %s is not what was asked for", path, q->tensors[i].from->name);
  }
  tn_gguf_close(made);
  return status == TN_OK && q->model ? verify_model(q, path, error) : status;
}

static tn_status open_source(quantizer *q, const char *path, tn_error *error) {
  q->path = path;
  q->alignment = 32;
  if (tn_path_is_directory(path)) {
    tn_status status = tn_model_open(path, &q->model, error);
    if (status == TN_OK) status = tn_export_open(&q->folder, q->model, !q->no_tokenizer, error);
    q->count = q->folder.count;
    return status;
  }
  if (q->no_tokenizer) return tn_fail(error, TN_E_INVALID, "--no-tokenizer: %s is a file, which keeps its own", path);
  tn_status status = tn_gguf_open(&q->gguf, path, error);
  if (status != TN_OK) return status;
  q->count = q->gguf->tensor_count;
  q->alignment = q->gguf->alignment;
  if (tn_gguf_find(q->gguf, "split.count"))
    return tn_fail(error, TN_E_UNSUPPORTED, "%s: is a part of a split file, expected a whole one", path);
  return TN_OK;
}

static void report(const quantizer *q, const char *path) {
  uint64_t before = 0, after = 0;
  printf("%s\n  %-8s %8s %14s %14s  %s\n", path, "type", "tensors", "bytes before", "bytes after",
         "relative error of what was converted");
  for (int type = 0; type < TN_DTYPE_COUNT; type++) {
    uint64_t tensors = 0, from = 0, to = 0;
    for (size_t i = 0; i < q->count; i++) {
      if ((int)q->tensors[i].dtype != type) continue;
      tensors++;
      from += q->tensors[i].from->bytes;
      to += q->tensors[i].bytes;
    }
    if (!tensors) continue;
    before += from;
    after += to;
    printf("  %-8s %8llu %14llu %14llu", tn_dtype_name((tn_dtype)type), (unsigned long long)tensors,
           (unsigned long long)from, (unsigned long long)to);
    if (q->squares[type] > 0) printf("  %.3e", sqrt(q->error_squares[type] / q->squares[type]));
    putchar('\n');
  }
  for (size_t i = 0; i < q->folder.rare_count; i++)
    printf("  note: %s is a key of tenon's: other readers compute without it\n", q->folder.rare[i]);
  if (q->folder.drops_normalizer)
    puts(
        "  note: tokenizer.json normalizes text first, which GGUF has no key for: readers get other ids for decomposed "
        "text");
  printf("  %-8s %8zu %14llu %14llu\n", "all", q->count, (unsigned long long)before, (unsigned long long)after);
}

int tn_command_quantize(int argc, char **argv) {
  const char *type = NULL, *arguments[2];
  tn_cli_texts tensors = {0};
  quantizer q = {0};
  const tn_cli_option options[] = {
      {.name = "type",
       .letter = 't',
       .type = TN_CLI_TEXT,
       .target = &type,
       .value = "TYPE",
       .help = "format of the matrices: f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q4_k q5_k q6_k mxfp4 mxfp6"},
      {.name = "tensor",
       .type = TN_CLI_TEXTS,
       .target = &tensors,
       .value = "PATTERN=TYPE",
       .help = "another type for the matrices that match ('*' stands for anything); the last one counts"},
      {.name = "no-tokenizer",
       .type = TN_CLI_FLAG,
       .target = &q.no_tokenizer,
       .help = "of a folder: leave tokenizer and chat template out"},
  };
  const tn_cli_command command = {"quantize",
                                  "IN OUT.gguf --type TYPE [options]",
                                  "Writes a model with its weights in another format.",
                                  options,
                                  TN_COUNT(options),
                                  2,
                                  2};
  size_t count;
  tn_cli_result result = tn_cli_parse(&command, argc, argv, arguments, &count);
  if (result != TN_CLI_GO) return tn_cli_exit(result);
  if (!type) {
    fprintf(stderr, "tenon quantize: give the format of the matrices with --type\n");
    return 2;
  }
  tn_error error = {0};
  tn_status status = parse_type(type, &q.dtype, &error);
  if (status == TN_OK) status = parse_overrides(&q, &tensors, &error);
  if (status == TN_OK) status = open_source(&q, arguments[0], &error);
  if (status == TN_OK) status = plan_tensors(&q, &error);
  if (status == TN_OK) status = write_file(&q, arguments[1], &error);
  bool written = status == TN_OK;
  if (status == TN_OK) status = verify(&q, arguments[1], &error);
  if (written && status != TN_OK) tn_file_remove(arguments[1]);
  if (status == TN_OK) report(&q, arguments[1]);
  free(q.tensors);
  tn_gguf_close(q.gguf);
  tn_export_finish(&q.folder);
  tn_model_close(q.model);
  return status == TN_OK ? tn_cli_finish_output() : tn_cli_fail(error.message);
}
