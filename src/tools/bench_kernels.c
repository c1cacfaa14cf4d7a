/* tenon bench kernels: the cpu device's linear kernels alone, against the peaks measured of the machine.
 *
 * For each format and shape: the speed at one row (bound by memory), the time of 2, 4 and 8 rows relative to one, and
 * 64 and 512 rows (bound by arithmetic). The weights are repeated until they are far larger than the caches, as those
 * of a model are. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "cli/options.h"
#include "device/cpu/driver.h"
#include "device/cpu/internal.h"
#include "device/cpu/pack.h"
#include "tensor/dtype.h"
#include "tools/bench.h"

#define STREAM_BYTES ((uint64_t)256 << 20)
#define MOST_ROWS 512u
#define TRIES 5

static const uint32_t row_counts[] = {1, 2, 4, 8, 64, MOST_ROWS};

typedef struct kernel_shape {
  uint32_t x_dtype, w_dtype, rows, columns;
} kernel_shape;

/* Matrices of SmolLM2-135M and of Qwen3-0.6B. */
static const kernel_shape shapes[] = {
    {TN_Q8A, TN_Q4_1, 3072, 576},  {TN_Q8A, TN_Q4_1, 576, 1536},  {TN_Q8A, TN_Q8_0, 49152, 576},
    {TN_Q8A, TN_Q4_0, 3072, 1024}, {TN_Q8A, TN_Q8_0, 3072, 1024}, {TN_Q8A, TN_Q5_0, 3072, 1024},
    {TN_Q8A, TN_Q4_K, 3072, 1024}, {TN_Q8A, TN_Q6_K, 3072, 1024}, {TN_BF16, TN_BF16, 3072, 1024},
    {TN_F32, TN_BF16, 3072, 1024}, {TN_F32, TN_F16, 3072, 1024},  {TN_F32, TN_F32, 3072, 1024},
    {TN_F32, TN_Q4_1, 3072, 576},  {TN_F32, TN_Q8_0, 3072, 1024},
};

/* A kernel under measurement: its operands, and the weights as often as they are repeated. */
typedef struct kernel_bench {
  tn_device *device;
  const kernel_shape *shape;
  tn_kernel_call call;
  tn_linear_attributes attributes;
  tn_buffer *weights;
  uint64_t bytes, copies; /* of one matrix; how many there are */
  void *floats, *activations, *result;
} kernel_bench;

static double peak(tn_device *device, const char *name) {
  tn_property value = {.size = sizeof value};
  return tn_cpu_driver()->get(device, name, &value) == TN_OK ? value.f64 : 0;
}

static double arithmetic_peak(const kernel_bench *bench) {
  double found = 0;
  if (bench->shape->x_dtype == TN_Q8A) return peak(bench->device, "peak_int8_ops");
  if (bench->shape->x_dtype == TN_BF16) found = peak(bench->device, "peak_bf16_ops");
  return found > 0 ? found : peak(bench->device, "peak_f32_ops");
}

/* Best time in seconds of one call with `rows` rows of activations. */
static double best_time(kernel_bench *bench, uint32_t rows) {
  tn_kernel_call *call = &bench->call;
  uint64_t copies = rows <= 8 ? bench->copies : bench->copies * 8 / rows + 1;
  double best = 1e9;
  call->inputs[0].dims[0] = call->outputs[0].dims[0] = rows;
  for (int i = 0; i < TRIES; i++) {
    uint64_t begin = tn_clock_ns();
    for (uint64_t c = 0; c < copies; c++) {
      call->inputs[1].data = (uint8_t *)bench->weights->data + c * bench->bytes;
      bench->device->kernels->table->kernel[TN_OP_LINEAR](call);
    }
    double seconds = (double)(tn_clock_ns() - begin) * 1e-9 / (double)copies;
    if (seconds < best) best = seconds;
  }
  return best;
}

/* Rows of activations in the dtype of the shape, quantised from floats by the device's own kernel. */
static tn_status make_activations(kernel_bench *bench, tn_error *error) {
  const kernel_shape *s = bench->shape;
  uint64_t row_bytes = s->x_dtype == TN_Q8A ? TN_Q8A_ROW_BYTES(s->columns) : tn_row_bytes(s->x_dtype, s->columns);
  float *x = bench->floats = tn_calloc((size_t)MOST_ROWS * s->columns, sizeof *x);
  bench->activations = tn_calloc(MOST_ROWS, row_bytes);
  bench->result = tn_calloc((size_t)MOST_ROWS * s->rows, sizeof(float));
  if (!x || !bench->activations || !bench->result) return tn_fail(error, TN_E_MEMORY, "out of memory");
  for (uint32_t i = 0; i < MOST_ROWS * s->columns; i++) x[i] = (float)(i * 7919u % 255u) - 127.0f;
  const tn_tensor floats = {
      .data = x, .dtype = TN_F32, .rank = 2, .dims = {MOST_ROWS, s->columns}, .row_bytes = s->columns * 4};
  tn_tensor *in = &bench->call.inputs[0];
  *in = floats;
  if (s->x_dtype == TN_F32) return TN_OK;
  *in = (tn_tensor){.data = bench->activations,
                    .dtype = s->x_dtype,
                    .rank = 2,
                    .dims = {MOST_ROWS, s->columns},
                    .row_bytes = row_bytes};
  tn_kernel_call quantise = {
      .input_count = 1, .output_count = 1, .inputs = {floats}, .outputs = {*in}, .parallel = bench->call.parallel};
  return bench->device->kernels->table->kernel[TN_OP_QUANTISE](&quantise);
}

static void finish(kernel_bench *bench) {
  free(bench->floats);
  free(bench->activations);
  free(bench->result);
  free(bench->call.workspace);
  tn_cpu_free(bench->device, bench->weights);
}

/* Everything that `shape` needs; finish() frees it, also after a failure. */
static tn_status prepare(tn_device *device, const kernel_shape *shape, kernel_bench *bench, tn_error *error) {
  *bench = (kernel_bench){.device = device, .shape = shape};
  tn_weight_layout layout;
  tn_weight_desc desc = {.size = sizeof desc,
                         .dtype = shape->w_dtype,
                         .rank = 2,
                         .dims = {shape->rows, shape->columns},
                         .uses = shape->x_dtype == TN_Q8A ? TN_USE_LINEAR_Q8A : TN_USE_LINEAR};
  char message[160];
  tn_status status = tn_cpu_weight_layout(&desc, &layout, message, sizeof message);
  if (status != TN_OK) return tn_fail(error, status, "%s", message);
  bench->bytes = layout.bytes;
  bench->copies = STREAM_BYTES / layout.bytes + 1;
  status = tn_cpu_alloc(device, bench->copies * layout.bytes, &bench->weights);
  if (status != TN_OK) return tn_fail(error, status, "%s", tn_cpu_driver()->last_error(device));
  memset(bench->weights->data, 0x2c, bench->copies * layout.bytes); /* finite in every format */
  bench->attributes = (tn_linear_attributes){.size = sizeof bench->attributes, .scale = 1};
  tn_kernel_call *call = &bench->call;
  *call = (tn_kernel_call){.input_count = 2, .output_count = 1, .attributes = &bench->attributes};
  call->parallel = tn_pool_parallel(device->pool);
  status = make_activations(bench, error);
  if (status != TN_OK) return status;
  call->inputs[1] =
      (tn_tensor){.dtype = shape->w_dtype, .rank = 2, .dims = {shape->rows, shape->columns}, .layout = layout.id};
  call->outputs[0] = (tn_tensor){.data = bench->result,
                                 .dtype = TN_F32,
                                 .rank = 2,
                                 .dims = {MOST_ROWS, shape->rows},
                                 .row_bytes = shape->rows * 4};
  tn_op_query query = {.opcode = TN_OP_LINEAR};
  query.inputs[0] = (tn_value_desc){1, TN_VALUE_SCRATCH, shape->x_dtype, 2, {TN_DIM_T, (int32_t)shape->columns}};
  call->workspace_bytes = tn_round_up(device->kernels->workspace(&query, 0, call->parallel->workers), 64);
  call->workspace = tn_calloc(call->parallel->workers, call->workspace_bytes);
  return call->workspace ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory");
}

/* Times one shape; prints its line, and adds it to `results`. */
static void measure(kernel_bench *bench, uint32_t threads, bool json, json_t *results) {
  const kernel_shape *s = bench->shape;
  const double peak_bytes = peak(bench->device, "peak_bytes"), peak_ops = arithmetic_peak(bench);
  json_t *rows = json_array();
  double one = 0;
  char line[200];
  int used = snprintf(line, sizeof line, "%-4s x %-4s %5u x %4u %3u", tn_dtype_name((tn_dtype)s->x_dtype),
                      tn_dtype_name((tn_dtype)s->w_dtype), s->rows, s->columns, threads);
  for (size_t i = 0; i < TN_COUNT(row_counts); i++) {
    double seconds = best_time(bench, row_counts[i]);
    double bytes = (double)bench->bytes / seconds, ops = 2.0 * s->rows * s->columns * row_counts[i] / seconds;
    if (i == 0) one = seconds;
    json_array_append_new(rows, json_pack("{s:i, s:f, s:f, s:f}", "rows", (int)row_counts[i], "seconds", seconds,
                                          "bytes_per_s", bytes, "ops_per_s", ops));
    char *at = line + used;
    size_t room = sizeof line - (size_t)used;
    if (i == 0)
      used += snprintf(at, room, "  %5.1f GB/s %3.0f %%", bytes * 1e-9, 100 * bytes / peak_bytes);
    else if (row_counts[i] <= 8)
      used += snprintf(at, room, " %5.2f", seconds / one);
    else
      used += snprintf(at, room, "  %4.0f GOPS %3.0f %%", ops * 1e-9, 100 * ops / peak_ops);
  }
  if (!json) {
    printf("%s\n", line);
    fflush(stdout);
  }
  json_array_append_new(
      results,
      json_pack("{s:s, s:s, s:i, s:i, s:i, s:o, s:f, s:f}", "activations", tn_dtype_name((tn_dtype)s->x_dtype),
                "weights", tn_dtype_name((tn_dtype)s->w_dtype), "outputs", (int)s->rows, "inputs", (int)s->columns,
                "threads", (int)threads, "measured", rows, "peak_bytes_per_s", peak_bytes, "peak_ops_per_s", peak_ops));
}

static tn_status run_threads(uint32_t threads, bool json, json_t *results, tn_error *error) {
  char text[16];
  tn_device *device;
  snprintf(text, sizeof text, "%u", threads);
  const tn_option option = {"threads", text};
  tn_status status = tn_cpu_driver()->open(0, &option, 1, &device);
  if (status != TN_OK) return tn_fail(error, status, "%s", tn_cpu_driver()->last_error(NULL));
  for (size_t i = 0; i < TN_COUNT(shapes) && status == TN_OK; i++) {
    kernel_bench bench;
    status = prepare(device, &shapes[i], &bench, error);
    if (status == TN_OK) measure(&bench, threads, json, results);
    finish(&bench);
  }
  tn_cpu_driver()->close(device);
  return status;
}

int tn_bench_kernels(int argc, char **argv) {
  const char *threads = "1";
  bool json = false;
  const tn_cli_option options[] = {
      {"threads", 't', TN_CLI_TEXT, &threads, "LIST", "threads (1)", 0, 0},
      {"json", 0, TN_CLI_FLAG, &json, NULL, "everything as JSON", 0, 0},
  };
  const tn_cli_command command = {"bench kernels",
                                  "[options]",
                                  "Measures the cpu device's linear kernels against the machine's peaks.",
                                  options,
                                  TN_COUNT(options),
                                  0,
                                  0};
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, NULL, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  tn_error error = {0};
  tn_bench_list list;
  tn_status status = tn_bench_parse_list("threads", threads, 1, 1024, &list, &error);
  json_t *results = json_array();
  if (status == TN_OK && !json)
    printf(
        "activations x weights [outputs x inputs], threads; 1 row; 2, 4, 8 rows relative to it; 64 and 512 rows; "
        "percent of the peaks\n");
  for (size_t i = 0; status == TN_OK && i < list.count; i++) status = run_threads(list.items[i], json, results, &error);
  if (status == TN_OK && json) {
    json_dumpf(results, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    printf("\n");
  }
  json_decref(results);
  return status == TN_OK ? tn_cli_finish_output() : tn_cli_fail(error.message);
}
