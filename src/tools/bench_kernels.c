/* tenon bench kernels: the linear op alone on a device, by format, against the peaks that the device measured.
 *
 * For each format: the speed at one row (bound by memory), the time of 2, 4 and 8 rows relative to one, and 64 and 512
 * rows (bound by arithmetic). With few rows eight matrices follow each other, together far larger than the caches, as
 * those of a model are. The cases are the conformance kit's, so they run on every device. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "cli/options.h"
#include "conformance/bench.h"
#include "conformance/fill.h"
#include "device/registry.h"
#include "tensor/dtype.h"
#include "tools/bench.h"

#define FEW_ROWS 8u
#define STREAM_BYTES ((uint64_t)128 << 20) /* of weights, with few rows */
#define MATRICES TN_CASE_OPS               /* that they are shared out over */
#define MANY_OUTPUTS 3072u                 /* of the one matrix, with many rows */
#define REPEATS 5
#define TIMEOUT_NS UINT64_C(60000000000)

static const uint32_t row_counts[] = {1, 2, 4, 8, 64, 512};

/* Formats, and the widths of SmolLM2-135M and Qwen3-0.6B. */
static const struct {
  uint32_t x_dtype, format, columns;
} shapes[] = {
    {TN_Q8A, TN_Q4_1, 576},  {TN_Q8A, TN_Q8_0, 576},  {TN_Q8A, TN_Q4_0, 1024}, {TN_Q8A, TN_Q8_0, 1024},
    {TN_Q8A, TN_Q5_0, 1024}, {TN_Q8A, TN_Q4_K, 1024}, {TN_Q8A, TN_Q6_K, 1024}, {TN_BF16, TN_BF16, 1024},
    {TN_F32, TN_BF16, 1024}, {TN_F32, TN_F16, 1024},  {TN_F32, TN_F32, 1024},  {TN_F32, TN_Q4_1, 576},
    {TN_F32, TN_Q8_0, 1024},
};

typedef struct kernel_bench {
  tn_opened_device *device;
  uint32_t threads;
  bool json;
  json_t *results;
} kernel_bench;

/* `matrices` linears of one input. */
static tn_case *make_case(uint32_t x_dtype, uint32_t format, uint32_t columns, uint32_t outputs, uint32_t matrices,
                          uint32_t rows) {
  tn_case *c = tn_case_create(TN_OP_LINEAR, rows, 1);
  if (!c) return NULL;
  const tn_linear_attributes attributes = {.size = sizeof attributes, .scale = 1};
  uint32_t x = tn_case_input(c, x_dtype, TN_DIM_T, columns);
  tn_case_fill(c, x, TN_FILL_RANDOM, 1);
  for (uint32_t i = 0; i < matrices; i++) {
    uint32_t w = tn_case_matrix(c, format, outputs, columns, x_dtype == TN_Q8A ? TN_USE_LINEAR_Q8A : TN_USE_LINEAR);
    tn_case_fill(c, w, TN_FILL_RANDOM, i);
    uint32_t y = tn_case_output(c, TN_F32, TN_DIM_T, outputs);
    tn_case_op(c, TN_OP_LINEAR, &attributes, TN_CASE_LIST(x, w), TN_CASE_LIST(y));
  }
  return c;
}

/* " 87 %", or " -" where the device declares no peak. */
static const char *percent_of(double value, double peak, char text[16]) {
  if (peak > 0)
    snprintf(text, 16, "%3.0f %%", 100 * value / peak);
  else
    snprintf(text, 16, "  -");
  return text;
}

/* One shape: prints its line, or adds it to the results. */
static tn_status measure(kernel_bench *bench, size_t shape, tn_error *error) {
  uint32_t x_dtype = shapes[shape].x_dtype, format = shapes[shape].format, columns = shapes[shape].columns;
  double peak = tn_device_peak_ops(bench->device, x_dtype), peak_bytes = tn_device_number(bench->device, "peak_bytes");
  uint64_t row_bytes = tn_row_bytes(format, columns);
  uint32_t streamed = (uint32_t)(STREAM_BYTES / MATRICES / row_bytes) / 64 * 64;
  json_t *rows = json_array();
  char line[200], percent[16];
  double one = 0;
  tn_status status = TN_OK;
  int used = snprintf(line, sizeof line, "%-4s x %-5s K=%-5u %3u", tn_dtype_name((tn_dtype)x_dtype),
                      tn_dtype_name((tn_dtype)format), columns, bench->threads);
  for (size_t i = 0; i < TN_COUNT(row_counts) && status == TN_OK; i++) {
    bool few = row_counts[i] <= FEW_ROWS;
    uint32_t outputs = few ? streamed : MANY_OUTPUTS, matrices = few ? MATRICES : 1;
    tn_case *c = make_case(x_dtype, format, columns, outputs, matrices, row_counts[i]);
    double seconds = 0;
    status = !c || c->failed ? tn_fail(error, TN_E_MEMORY, "out of memory")
                             : tn_case_time(bench->device, c, TIMEOUT_NS, REPEATS, &seconds, error);
    tn_case_destroy(c);
    if (status != TN_OK) break;
    double products = (double)outputs * matrices * columns, bytes = (double)outputs * matrices * (double)row_bytes;
    double bytes_per_s = bytes / seconds, ops_per_s = 2 * products * row_counts[i] / seconds;
    if (i == 0) one = seconds;
    json_array_append_new(rows, json_pack("{s:i, s:f, s:f, s:f}", "rows", (int)row_counts[i], "seconds", seconds,
                                          "bytes_per_s", bytes_per_s, "ops_per_s", ops_per_s));
    char *at = line + used;
    size_t room = sizeof line - (size_t)used;
    if (i == 0)
      used += snprintf(at, room, "  %5.1f GB/s %s", bytes_per_s * 1e-9, percent_of(bytes_per_s, peak_bytes, percent));
    else if (few)
      used += snprintf(at, room, " %5.2f", seconds / one);
    else
      used += snprintf(at, room, "  %4.0f GOPS %s", ops_per_s * 1e-9, percent_of(ops_per_s, peak, percent));
  }
  if (status == TN_OK && !bench->json) {
    printf("%s\n", line);
    fflush(stdout);
  }
  json_array_append_new(
      bench->results,
      json_pack("{s:s, s:s, s:i, s:i, s:o, s:f, s:f}", "activations", tn_dtype_name((tn_dtype)x_dtype), "weights",
                tn_dtype_name((tn_dtype)format), "columns", (int)columns, "threads", (int)bench->threads, "measured",
                rows, "peak_bytes_per_s", peak_bytes, "peak_ops_per_s", peak));
  return status;
}

static tn_status run_threads(kernel_bench *bench, const char *device, uint32_t threads, tn_error *error) {
  char text[16];
  snprintf(text, sizeof text, "%u", threads);
  const tn_option option = {"threads", text};
  tn_status status = tn_device_open(device, &option, threads != 0, &bench->device, error);
  if (status != TN_OK) return status;
  bench->threads = bench->device->properties.threads;
  for (size_t i = 0; i < TN_COUNT(shapes) && status == TN_OK; i++) status = measure(bench, i, error);
  tn_device_close(bench->device);
  return status;
}

int tn_bench_kernels(int argc, char **argv) {
  const char *threads = "1", *device = tn_default_driver();
  kernel_bench bench = {0};
  const tn_cli_option options[] = {
      {"device", 0, TN_CLI_TEXT, &device, "D", "device (cpu)", 0, 0},
      {"threads", 't', TN_CLI_TEXT, &threads, "LIST", "threads (1); 0: what the device takes by itself", 0, 0},
      {"json", 0, TN_CLI_FLAG, &bench.json, NULL, "everything as JSON", 0, 0},
  };
  const tn_cli_command command = {"bench kernels",
                                  "[options]",
                                  "Measures a device's linear kernels against its peaks.",
                                  options,
                                  TN_COUNT(options),
                                  0,
                                  0};
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, NULL, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  tn_error error = {0};
  tn_bench_list list;
  tn_status status = tn_bench_parse_list("threads", threads, 0, 1024, &list, &error);
  bench.results = json_array();
  if (status == TN_OK && !bench.json)
    printf(
        "activations x weights, columns, threads; 1 row; 2, 4, 8 rows relative to it; 64 and 512 rows; percent of "
        "the peaks\n");
  for (size_t i = 0; status == TN_OK && i < list.count; i++)
    status = run_threads(&bench, device, list.items[i], &error);
  if (status == TN_OK && bench.json) {
    json_dumpf(bench.results, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    printf("\n");
  }
  json_decref(bench.results);
  return status == TN_OK ? tn_cli_finish_output() : tn_cli_fail(error.message);
}
