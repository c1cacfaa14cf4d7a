/* The monotonic clock (see os.h), by itself, so that a simulation can put its own in its place. */
#include <time.h>
#include "base/os.h"

uint64_t tn_clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
