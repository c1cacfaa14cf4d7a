/* Properties of the cpu device, the measured peaks among them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device/cpu/internal.h"
#include "kernels/layout.h"

#define PEAK_ROUNDS 200000u              /* about 10 ms of register arithmetic a thread */
#define PEAK_BYTES ((uint64_t)256 << 20) /* much larger than any cache */
#define PEAK_CHUNK ((uint64_t)1 << 20)
#define PEAK_TRIES 3

typedef struct peak_job {
  tn_device *device;
  const uint8_t *data;
  _Atomic uint64_t operations;
  int what; /* 0 int8, 1 f32, 2 bytes, 3 bf16 */
} peak_job;

static void peak_piece(void *argument, uint32_t index, uint32_t worker) {
  (void)worker;
  peak_job *job = argument;
  const tn_kernel_set *kernels = job->device->kernels;
  int32_t integer;
  float number;
  switch (job->what) {
    case 0: job->operations += kernels->spin_int8(PEAK_ROUNDS, &integer); break;
    case 1: job->operations += kernels->spin_f32(PEAK_ROUNDS, &number); break;
    case 3: job->operations += kernels->spin_bf16(PEAK_ROUNDS, &number); break;
    default: kernels->spin_read(job->data + index * PEAK_CHUNK, PEAK_CHUNK, &integer); job->operations += PEAK_CHUNK;
  }
}

/* Operations (bytes) a second, the best of a few tries; 0 when memory is out. */
static double measure(tn_device *device, int what) {
  tn_buffer *buffer = NULL;
  if (what == 2) {
    if (tn_cpu_alloc(device, PEAK_BYTES, &buffer) != TN_OK) return 0;
    memset(buffer->data, 1, PEAK_BYTES);
  }
  const tn_parallel *parallel = tn_pool_parallel(device->pool);
  /* more pieces than threads: a thread that is slow to wake does not halve the figure */
  uint32_t count = what == 2 ? (uint32_t)(PEAK_BYTES / PEAK_CHUNK) : 4 * device->threads;
  double best = 0;
  for (int i = 0; i < PEAK_TRIES; i++) {
    peak_job job = {.device = device, .data = buffer ? buffer->data : NULL, .what = what};
    uint64_t begin = tn_clock_ns();
    parallel->run(parallel->context, peak_piece, &job, count);
    uint64_t ns = tn_clock_ns() - begin;
    double rate = (double)job.operations * 1e9 / (double)(ns ? ns : 1);
    if (rate > best) best = rate;
  }
  tn_cpu_free(device, buffer);
  return best;
}

static tn_status put_u64(tn_property *value, uint64_t number) {
  value->type = TN_PROPERTY_U64;
  value->u64 = number;
  return TN_OK;
}

static tn_status put_text(tn_property *value, const char *text) {
  value->type = TN_PROPERTY_TEXT;
  snprintf(value->text, sizeof value->text, "%s", text);
  return TN_OK;
}

static tn_status put_peak(tn_device *device, tn_property *value, double *peak, int what) {
  tn_mutex_lock(device->mutex);
  if (*peak == 0) *peak = measure(device, what);
  value->type = TN_PROPERTY_F64;
  value->f64 = *peak;
  tn_mutex_unlock(device->mutex);
  return value->f64 > 0 ? TN_OK : TN_E_MEMORY;
}

tn_status tn_cpu_get(tn_device *device, const char *name, tn_property *value) {
  if (!strcmp(name, "name")) {
    char cpu[80];
    tn_machine_cpu_name(cpu, sizeof cpu);
    return put_text(value, cpu);
  }
  if (!strcmp(name, "memory_total")) return put_u64(value, tn_machine_memory_total());
  if (!strcmp(name, "memory_free")) return put_u64(value, tn_machine_memory_free());
  if (!strcmp(name, "max_allocation")) return put_u64(value, tn_machine_memory_total());
  if (!strcmp(name, "alignment")) return put_u64(value, TN_CPU_ALIGNMENT);
  if (!strcmp(name, "cores")) return put_u64(value, tn_machine_cpus());
  if (!strcmp(name, "threads")) return put_u64(value, device->threads);
  if (!strcmp(name, "batch_invariant")) return put_u64(value, 1);
  if (!strcmp(name, "kv")) return put_text(value, "paged");
  if (!strcmp(name, "rows")) return put_text(value, "any");
  if (!strcmp(name, "weights_version")) return put_u64(value, TN_LAYOUT_VERSION);
  if (!strcmp(name, "instruction_set")) return put_text(value, device->kernels->name);
  if (!strcmp(name, "peak_int8_ops")) return put_peak(device, value, &device->peak_int8, 0);
  if (!strcmp(name, "peak_f32_ops")) return put_peak(device, value, &device->peak_f32, 1);
  if (!strcmp(name, "peak_bf16_ops")) {
    float sink;
    if (device->kernels->spin_bf16(1, &sink)) return put_peak(device, value, &device->peak_bf16, 3);
  }
  if (!strcmp(name, "peak_bytes")) return put_peak(device, value, &device->peak_bytes, 2);
  return tn_cpu_fail(device, TN_E_NOT_FOUND, "no property \"%s\"", name);
}
