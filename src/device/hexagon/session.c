/* A session: the DSP's program, started and watched, and the commands it is given.
 *
 * Whether the DSP still lives is looked at while somebody waits for it, and before each command. It is lost when its
 * process has ended; when its heartbeat stands still for LIFELESS_NS; and when none of its threads has ended a piece of
 * work within the session's patience. The waiting thread looks every TICK_NS. On a machine with too much to do nobody
 * is lost: time in which the waiting thread was itself kept from running doesn't count, and a process that only lacks a
 * processor has until STARVED_NS. */
#include <stdarg.h>
#include <stdio.h>
#include "device/hexagon/image.h"
#include "device/hexagon/internal.h"

#define START_NS 20000000000ull /* for the program to come up */
#define STOP_NS 500000000ull    /* to end by itself */
#define TICK_NS 50000000ull
#define LIFELESS_NS 800000000ull
#define STARVED_NS 20000000000ull

/* ---- watching ---- */

/* What one waiting thread has seen. */
typedef struct watch {
  uint64_t looked_ns; /* when it looked last; 0: never */
  uint32_t heartbeat, progress;
  uint64_t still_ns, stuck_ns; /* how long neither has moved */
} watch;

static uint32_t progress_of(const tn_hexagon_control *control, uint32_t threads) {
  uint32_t sum = __atomic_load_n(&control->completed.value, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < threads; i++) sum += __atomic_load_n(&control->progress[i].value, __ATOMIC_RELAXED);
  return sum;
}

__attribute__((format(printf, 2, 3))) static tn_status lose(tn_device *device, const char *format, ...) {
  if (!atomic_exchange(&device->lost, true)) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(device->reason, sizeof device->reason, format, arguments);
    va_end(arguments);
    tn_transport_kill(device->transport);
  }
  return tn_hexagon_fail(device, TN_E_DEVICE_LOST, "%s", device->reason);
}

tn_status tn_hexagon_session_check(tn_device *device) {
  char how[200];
  if (device->lost) return tn_hexagon_fail(device, TN_E_DEVICE_LOST, "%s", device->reason);
  if (tn_transport_ended(device->transport, how, sizeof how)) return lose(device, "%s", how);
  return TN_OK;
}

/* One look at the DSP. */
static tn_status look(tn_device *device, watch *w) {
  tn_status status = tn_hexagon_session_check(device);
  if (status != TN_OK) return status;
  uint64_t now = tn_clock_ns();
  uint32_t heartbeat = __atomic_load_n(&device->control->heartbeat.value, __ATOMIC_RELAXED);
  uint32_t progress = progress_of(device->control, device->threads);
  if (w->looked_ns && now - w->looked_ns < TICK_NS / 2) return TN_OK;
  uint64_t passed = w->looked_ns ? now - w->looked_ns : 0;
  if (passed > 2 * TICK_NS) passed = TICK_NS;
  w->still_ns = heartbeat == w->heartbeat ? w->still_ns + passed : 0;
  w->stuck_ns = progress == w->progress ? w->stuck_ns + passed : 0;
  w->looked_ns = now;
  w->heartbeat = heartbeat;
  w->progress = progress;
  if (w->still_ns >= STARVED_NS || (w->still_ns >= LIFELESS_NS && !tn_transport_is_runnable(device->transport)))
    return lose(device, "the DSP's process stands still");
  if (w->stuck_ns >= device->patience_ns)
    return lose(device, "the DSP hangs: no piece of work was done for %llu ms",
                (unsigned long long)(device->patience_ns / 1000000u));
  return TN_OK;
}

/* ---- commands ---- */

/* Are the commands before number `last` answered? Numbers go round. */
static bool is_answered(const tn_device *device, uint32_t last, uint32_t *completed) {
  *completed = __atomic_load_n(&device->control->completed.value, __ATOMIC_SEQ_CST);
  return (int32_t)(*completed - last) >= 0;
}

tn_status tn_hexagon_wait(tn_device *device, uint32_t last, uint64_t deadline_ns) {
  watch w = {0};
  uint32_t completed;
  while (!is_answered(device, last, &completed)) {
    tn_status status = look(device, &w);
    if (status != TN_OK) return status;
    uint64_t now = tn_clock_ns(), until = now + TICK_NS < deadline_ns ? now + TICK_NS : deadline_ns;
    if (now >= deadline_ns) return tn_hexagon_fail(device, TN_E_TIMEOUT, "the work isn't done by the deadline");
    tn_transport_wait(device->transport, &device->control->completed.value, completed, until);
  }
  return TN_OK;
}

tn_status tn_hexagon_submit(tn_device *device, uint32_t kind, const void *message, pending_command whose,
                            uint32_t *last) {
  tn_status status = tn_hexagon_session_check(device);
  if (status == TN_OK && device->submitted - device->retired >= TN_HEXAGON_RING) {
    status = tn_hexagon_wait(device, device->submitted - TN_HEXAGON_RING + 1, UINT64_MAX);
    if (status == TN_OK) tn_hexagon_retire(device);
  }
  if (status != TN_OK) return status;
  uint32_t slot = device->submitted % TN_HEXAGON_RING;
  device->control->ring[slot] =
      (tn_hexagon_command){.kind = kind, .message = tn_hexagon_offset(device, message), .failed_op = TN_NO_VALUE};
  device->pending[slot] = whose;
  *last = ++device->submitted;
  __atomic_store_n(&device->control->submitted.value, device->submitted, __ATOMIC_SEQ_CST);
  tn_transport_ring(device->transport, &device->control->submitted.value);
  return TN_OK;
}

static void take_answer(tn_device *device, const tn_hexagon_command *command, const pending_command *whose) {
  tn_queue *queue = whose->queue;
  if (!queue) return;
  if (command->status == TN_OK) {
    if (queue->counters) tn_hexagon_collect(queue, whose->executable);
    return;
  }
  if (queue->status != TN_OK) return;
  queue->status = command->status;
  uint32_t failed = command->failed_op;
  if (failed >= whose->executable->program->op_count) {
    tn_hexagon_fail(device, command->status, "the DSP refused the execution");
    return;
  }
  const tn_op *op = tn_program_ops(whose->executable->program) + failed;
  tn_hexagon_fail(device, command->status, "op %u (%s) failed", failed, tn_op_info_of(op->opcode)->name);
}

void tn_hexagon_retire(tn_device *device) {
  uint32_t completed;
  while (device->retired != device->submitted && is_answered(device, device->retired + 1, &completed)) {
    uint32_t slot = device->retired++ % TN_HEXAGON_RING;
    take_answer(device, &device->control->ring[slot], &device->pending[slot]);
  }
}

/* ---- life ---- */

static void fill_control(void *context, uint8_t *window) {
  const tn_device *device = context;
  tn_hexagon_control *control = (tn_hexagon_control *)(void *)window;
  control->magic = TN_HEXAGON_MAGIC;
  control->protocol = TN_HEXAGON_PROTOCOL;
  control->window_bytes = (uint32_t)TN_HEXAGON_WINDOW_BYTES;
  control->threads = device->threads;
}

static tn_status wait_for_start(tn_device *device) {
  const uint32_t *word = &device->control->state;
  uint64_t deadline = tn_clock_ns() + START_NS;
  uint32_t state;
  while ((state = __atomic_load_n(word, __ATOMIC_SEQ_CST)) == TN_HEXAGON_STARTING) {
    char how[200];
    if (tn_transport_ended(device->transport, how, sizeof how)) return tn_hexagon_fail(NULL, TN_E_IO, "%s", how);
    uint64_t now = tn_clock_ns();
    if (now >= deadline) return tn_hexagon_fail(NULL, TN_E_TIMEOUT, "the DSP's program doesn't start");
    tn_transport_wait(device->transport, word, state, now + TICK_NS);
  }
  if (state == TN_HEXAGON_READY) return TN_OK;
  if (state == TN_HEXAGON_NO_THREADS)
    return tn_hexagon_fail(NULL, TN_E_MEMORY, "the DSP has no %u threads", device->threads);
  return tn_hexagon_fail(NULL, TN_E_UNSUPPORTED, "the DSP's program speaks version %u of the protocol, the host %u",
                         device->control->dsp_protocol, TN_HEXAGON_PROTOCOL);
}

tn_status tn_hexagon_session_start(tn_device *device) {
  char message[200];
  size_t bytes;
  const void *image = tn_hexagon_image(&bytes);
  tn_status status = tn_transport_start(image, bytes, TN_HEXAGON_WINDOW_BYTES, TN_HEXAGON_HEAP, fill_control, device,
                                        &device->transport, message, sizeof message);
  if (status != TN_OK) return tn_hexagon_fail(NULL, status, "%s", message);
  device->window = tn_transport_window(device->transport);
  device->control = (tn_hexagon_control *)(void *)device->window;
  device->used = TN_HEXAGON_HEAP;
  return wait_for_start(device);
}

void tn_hexagon_session_stop(tn_device *device) {
  uint32_t last;
  bool ends = device->window && !device->lost && device->control->state == TN_HEXAGON_READY &&
              tn_hexagon_submit(device, TN_HEXAGON_QUIT, NULL, (pending_command){0}, &last) == TN_OK;
  tn_transport_stop(device->transport, ends ? tn_clock_ns() + STOP_NS : 0);
  device->transport = NULL;
}
