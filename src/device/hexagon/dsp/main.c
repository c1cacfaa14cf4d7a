/* The DSP's program: maps the window, starts its threads, answers the host's commands one after the other. */
#include <stdbool.h>

#include "device/hexagon/dsp/pool.h"
#include "device/hexagon/dsp/program.h"
#include "device/hexagon/dsp/system.h"
#include "kernels/kernels.h"

#define LOOKS 200u /* how often the next command is looked for before the thread sleeps */
#define PULSE_STACK_BYTES 8192u

static _Alignas(128) uint8_t pulse_stack[PULSE_STACK_BYTES];

static void set_state(tn_hexagon_control *control, uint32_t state) {
  __atomic_store_n(&control->state, state, __ATOMIC_SEQ_CST);
  tn_dsp_ring(&control->state, 1);
}

/* The thread that shows that the others could run. */
static void beat(void *argument) {
  tn_hexagon_control *control = argument;
  for (;;) {
    __atomic_add_fetch(&control->heartbeat.value, 1, __ATOMIC_SEQ_CST);
    tn_dsp_sleep(TN_HEXAGON_BEAT_NS);
  }
}

static void say_kernels(tn_hexagon_control *control) {
  const tn_kernel_set *kernels = tn_kernel_set_hvx();
  for (uint32_t i = 0; i < TN_OP_LIMIT; i++)
    if (kernels->table->kernel[i]) control->ops |= UINT64_C(1) << i;
  for (uint32_t i = 0; kernels->name[i] && i + 1 < sizeof control->kernels; i++) control->kernels[i] = kernels->name[i];
}

/* The number of the command to do next, once there is one. */
static uint32_t next_command(tn_hexagon_control *control) {
  const uint32_t number = control->completed.value;
  uint32_t looks = 0;
  while (__atomic_load_n(&control->submitted.value, __ATOMIC_SEQ_CST) == number)
    if (looks++ >= LOOKS) tn_dsp_wait(&control->submitted.value, number, 1);
  return number;
}

_Noreturn void tn_dsp_main(void);

_Noreturn void tn_dsp_main(void) {
  uint8_t *window = tn_dsp_map_window((uint32_t)TN_HEXAGON_WINDOW_BYTES);
  if (!window) tn_dsp_exit(2);
  tn_hexagon_control *control = (tn_hexagon_control *)(void *)window;
  control->dsp_protocol = TN_HEXAGON_PROTOCOL;
  bool known = control->magic == TN_HEXAGON_MAGIC && control->protocol == TN_HEXAGON_PROTOCOL;
  if (!known || control->threads > TN_HEXAGON_MAX_THREADS) {
    set_state(control, TN_HEXAGON_REFUSED);
    tn_dsp_exit(3);
  }
  if (tn_dsp_start_thread(beat, control, pulse_stack + PULSE_STACK_BYTES) <= 0 ||
      !tn_dsp_pool_start(control->threads, control->progress)) {
    set_state(control, TN_HEXAGON_NO_THREADS);
    tn_dsp_exit(4);
  }
  say_kernels(control);
  set_state(control, TN_HEXAGON_READY);
  for (;;) {
    uint32_t number = next_command(control);
    tn_hexagon_command *command = &control->ring[number % TN_HEXAGON_RING];
    void *message = window + command->message;
    command->failed_op = TN_NO_VALUE;
    switch (command->kind) {
      case TN_HEXAGON_PREPARE: command->status = tn_dsp_prepare(window, message, control->threads); break;
      case TN_HEXAGON_EXECUTE: command->status = tn_dsp_execute(window, message, &command->failed_op); break;
      case TN_HEXAGON_QUIT: tn_dsp_exit(0);
      default: command->status = TN_E_UNSUPPORTED; break;
    }
    __atomic_store_n(&control->completed.value, number + 1, __ATOMIC_SEQ_CST);
    tn_dsp_ring(&control->completed.value, 1);
  }
}
