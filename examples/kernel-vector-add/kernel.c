/* A kernel without a model: z = x + y over cores x threads.
 *
 * Build it as a shared object, the form of a code blob on the cpu:
 *   cc -shared -fPIC -O2 $(pkg-config --cflags tenon-driver) kernel.c -o vector-add.so
 * A harness loads it with `kernel_load`, finds "vector_add" with `kernel_function` and launches it. */
#include <tenon/driver.h>

/* arguments: x, y, z [count] f32, and the count as one u64. */
void vector_add(const tn_kernel_place *place, void *const *arguments, uint32_t argument_count) {
  const float *x = arguments[0], *y = arguments[1];
  float *z = arguments[2];
  uint64_t begin, end;
  if (argument_count != 4) return;
  tn_work_range(place, *(const uint64_t *)arguments[3], &begin, &end);
  for (uint64_t i = begin; i < end; i++) z[i] = x[i] + y[i];
}
