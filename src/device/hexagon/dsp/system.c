/* System calls by name (see system.h). */
#include "device/hexagon/dsp/system.h"

#include "device/hexagon/protocol.h"

#define CALL_EXIT_GROUP 94
#define CALL_FUTEX 98
#define CALL_NANOSLEEP 101
#define CALL_CLOCK_GETTIME 113
#define CALL_MMAP 222

#define PROT_READ_WRITE 3
#define MAP_SHARED 1
#define CLOCK_MONOTONIC 1
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_PRIVATE 128
#define EVERYBODY 0x7fffffff

#define NS_A_SECOND 1000000000u

typedef struct time_words {
  int32_t seconds, ns;
} time_words;

static uint32_t address(const volatile void *pointer) {
  return (uint32_t)(uintptr_t)pointer;
}

void *tn_dsp_map_window(uint32_t bytes) {
  int32_t at = tn_dsp_call(0, bytes, PROT_READ_WRITE, MAP_SHARED, TN_HEXAGON_WINDOW_DESCRIPTOR, 0, CALL_MMAP);
  return (uint32_t)at >= 0xfffff000u ? 0 : (void *)(uintptr_t)(uint32_t)at;
}

void tn_dsp_wait(const uint32_t *word, uint32_t value, int shared) {
  tn_dsp_call(address(word), FUTEX_WAIT | (shared ? 0 : FUTEX_PRIVATE), value, 0, 0, 0, CALL_FUTEX);
}

void tn_dsp_ring(const uint32_t *word, int shared) {
  tn_dsp_call(address(word), FUTEX_WAKE | (shared ? 0 : FUTEX_PRIVATE), EVERYBODY, 0, 0, 0, CALL_FUTEX);
}

void tn_dsp_sleep(uint32_t ns) {
  const time_words time = {(int32_t)(ns / NS_A_SECOND), (int32_t)(ns % NS_A_SECOND)};
  tn_dsp_call(address(&time), 0, 0, 0, 0, 0, CALL_NANOSLEEP);
}

uint64_t tn_dsp_clock_ns(void) {
  time_words time = {0, 0};
  tn_dsp_call(CLOCK_MONOTONIC, address(&time), 0, 0, 0, 0, CALL_CLOCK_GETTIME);
  return (uint64_t)(uint32_t)time.seconds * NS_A_SECOND + (uint32_t)time.ns;
}

_Noreturn void tn_dsp_exit(uint32_t code) {
  for (;;) tn_dsp_call(code, 0, 0, 0, 0, 0, CALL_EXIT_GROUP);
}
