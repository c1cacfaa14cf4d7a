/* Times the linear kernels and says what share of the machine's measured peaks they reach.
 *
 *     bench-kernels [threads]          TENON_CPU=NAME forces an instruction set
 *
 * For each format and shape: one row (bound by memory), the time of 2, 4 and 8 rows relative to one, 64 and 512 rows
 * (bound by arithmetic). The weights are repeated until they are far larger than the caches, as those of a model are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "device/cpu/driver.h"
#include "device/cpu/internal.h"
#include "device/cpu/pack.h"
#include "tensor/dtype.h"

#define STREAM_BYTES ((uint64_t)256 << 20)
#define MOST_ROWS 512u
#define TRIES 5

typedef struct shape {
  uint32_t x_dtype, w_dtype, rows, columns;
} shape;

/* The shapes of SmolLM2-135M and of Qwen3-0.6B. */
static const shape shapes[] = {
    {TN_Q8A, TN_Q4_1, 3072, 576},  {TN_Q8A, TN_Q4_1, 576, 1536},  {TN_Q8A, TN_Q8_0, 49152, 576},
    {TN_Q8A, TN_Q4_0, 3072, 1024}, {TN_Q8A, TN_Q8_0, 3072, 1024}, {TN_Q8A, TN_Q4_K, 3072, 1024},
    {TN_Q8A, TN_Q6_K, 3072, 1024}, {TN_F32, TN_F16, 3072, 1024},  {TN_BF16, TN_BF16, 3072, 1024},
    {TN_F32, TN_BF16, 3072, 1024}, {TN_F32, TN_F32, 3072, 1024},  {TN_F32, TN_Q4_1, 3072, 576},
    {TN_F32, TN_Q8_0, 3072, 1024},
};

static double peak(tn_device *device, const char *name) {
  tn_property value = {.size = sizeof value};
  return tn_cpu_driver()->get(device, name, &value) == TN_OK ? value.f64 : 0;
}

static void *take(uint64_t bytes) {
  void *memory = aligned_alloc(64, tn_round_up(bytes, 64));
  if (!memory) exit(1);
  memset(memory, 0, bytes);
  return memory;
}

/* Best time in seconds of one call, over copies of the weights that follow each other in memory. */
static double best_time(tn_device *device, tn_kernel_call *call, uint8_t *weights, uint64_t bytes, uint64_t copies) {
  double best = 1e9;
  for (int i = 0; i < TRIES; i++) {
    uint64_t begin = tn_clock_ns();
    for (uint64_t c = 0; c < copies; c++) {
      call->inputs[1].data = weights + c * bytes;
      device->kernels->table->kernel[TN_OP_LINEAR](call);
    }
    double seconds = (double)(tn_clock_ns() - begin) * 1e-9 / (double)copies;
    if (seconds < best) best = seconds;
  }
  return best;
}

static void report(tn_device *device, const shape *s, tn_kernel_call *call, uint8_t *weights, uint64_t bytes,
                   uint64_t copies) {
  static const uint32_t counts[] = {1, 2, 4, 8, 64, MOST_ROWS};
  double one = 0;
  printf("%-5s x %-5s %5u x %4u ", tn_dtype_name((tn_dtype)s->x_dtype), tn_dtype_name((tn_dtype)s->w_dtype), s->rows,
         s->columns);
  for (size_t i = 0; i < TN_COUNT(counts); i++) {
    call->inputs[0].dims[0] = call->outputs[0].dims[0] = counts[i];
    uint64_t use = counts[i] <= 8 ? copies : copies * 8 / counts[i] + 1;
    double seconds = best_time(device, call, weights, bytes, use);
    double operations = 2.0 * s->rows * s->columns * counts[i] / seconds;
    double limit = peak(device, s->x_dtype == TN_Q8A    ? "peak_int8_ops"
                                : s->x_dtype == TN_BF16 ? "peak_bf16_ops"
                                                        : "peak_f32_ops");
    if (i == 0) {
      one = seconds;
      printf(" 1: %5.1f GB/s (%3.0f %%)", (double)bytes / seconds * 1e-9,
             100 * (double)bytes / seconds / peak(device, "peak_bytes"));
    } else if (counts[i] <= 8) {
      printf("  %u: x%.2f", counts[i], seconds / one);
    } else {
      printf("  %u: %.0f GOPS (%2.0f %%)", counts[i], operations * 1e-9, 100 * operations / limit);
    }
  }
  printf("\n");
  fflush(stdout);
}

static void run(tn_device *device, const shape *s) {
  const tn_parallel *parallel = tn_pool_parallel(device->pool);
  tn_weight_layout layout;
  tn_weight_desc desc = {.size = sizeof desc, .dtype = s->w_dtype, .rank = 2, .dims = {s->rows, s->columns}};
  desc.uses = s->x_dtype == TN_Q8A ? TN_USE_LINEAR_Q8A : TN_USE_LINEAR;
  tn_buffer *weights;
  if (tn_cpu_weight_layout(&desc, &layout, device->error, sizeof device->error) != TN_OK) exit(1);
  uint64_t copies = STREAM_BYTES / layout.bytes + 1;
  if (tn_cpu_alloc(device, copies * layout.bytes, &weights) != TN_OK) exit(1);
  memset(weights->data, 0x2c, copies * layout.bytes); /* scales of 0.065 */

  uint64_t q8a_bytes = TN_Q8A_ROW_BYTES(s->columns);
  float *x = take((uint64_t)MOST_ROWS * s->columns * 4);
  for (uint32_t i = 0; i < MOST_ROWS * s->columns; i++) x[i] = (float)(i * 7919u % 255u) - 127.0f;
  tn_tensor floats = {
      .data = x, .dtype = TN_F32, .rank = 2, .dims = {MOST_ROWS, s->columns}, .row_bytes = s->columns * 4};
  tn_tensor bytes = {.data = take(MOST_ROWS * q8a_bytes),
                     .dtype = TN_Q8A,
                     .rank = 2,
                     .dims = {MOST_ROWS, s->columns},
                     .row_bytes = q8a_bytes};
  tn_tensor y = {.data = take((uint64_t)MOST_ROWS * s->rows * 4),
                 .dtype = TN_F32,
                 .rank = 2,
                 .dims = {MOST_ROWS, s->rows},
                 .row_bytes = s->rows * 4};
  tn_kernel_call quantise = {
      .input_count = 1, .output_count = 1, .inputs = {floats}, .outputs = {bytes}, .parallel = parallel};
  device->kernels->table->kernel[TN_OP_QUANTISE](&quantise);

  tn_linear_attributes attributes = {.size = sizeof attributes, .scale = 1};
  tn_op_query query = {.opcode = TN_OP_LINEAR};
  query.inputs[0] = (tn_value_desc){1, TN_VALUE_SCRATCH, s->x_dtype, 2, {TN_DIM_T, (int32_t)s->columns}};
  tn_kernel_call call = {.input_count = 2, .output_count = 1, .attributes = &attributes, .parallel = parallel};
  call.inputs[0] = s->x_dtype == TN_Q8A ? bytes : floats;
  call.inputs[1] = (tn_tensor){.dtype = s->w_dtype, .rank = 2, .dims = {s->rows, s->columns}, .layout = layout.id};
  call.outputs[0] = y;
  call.workspace_bytes = tn_round_up(device->kernels->workspace(&query, 0, parallel->workers), 64);
  call.workspace = take(call.workspace_bytes * parallel->workers);
  report(device, s, &call, weights->data, layout.bytes, copies);
  free(x);
  free(bytes.data);
  free(y.data);
  free(call.workspace);
  tn_cpu_free(device, weights);
}

int main(int argc, char **argv) {
  tn_device *device;
  tn_option threads = {"threads", argc > 1 ? argv[1] : "1"};
  if (tn_cpu_driver()->open(0, &threads, 1, &device) != TN_OK) {
    fprintf(stderr, "%s\n", tn_cpu_driver()->last_error(NULL));
    return 1;
  }
  printf("%s, %s threads: peaks %.0f GOPS int8, %.0f GFLOPS f32, %.1f GB/s\n", device->kernels->name, threads.value,
         peak(device, "peak_int8_ops") * 1e-9, peak(device, "peak_f32_ops") * 1e-9, peak(device, "peak_bytes") * 1e-9);
  for (size_t i = 0; i < TN_COUNT(shapes); i++) run(device, &shapes[i]);
  tn_cpu_driver()->close(device);
  return 0;
}
