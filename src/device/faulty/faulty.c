/* The faulty driver: every call goes to the wrapped device unless it is one that was chosen to fail.
 *
 * Calls are counted by kind, from 1, over the life of the device, reopening included:
 *   alloc, copy (in, out, within, fill), pack, prepare, execute, synchronize
 * Options:
 *   fail-KIND=N      the N-th call of this kind fails once, without doing anything
 *   fail-count=N     ... and so do the N - 1 calls of the kind behind it
 *   garbage-KIND=N   it answers a status that doesn't exist
 *   late=1           an execute that fails does its work first
 *   delay-ms=N       work on a queue is finished N ms after each execute; synchronize waits for it, or for its deadline
 *   lose-at=N        the N-th execute loses the device: every call fails from then on, until it is opened again
 *   fault=NAME       the device does everything a little wrong in one way; the list is in internal.h (fault=list names
 *                    them)
 *   fault-at=N       ... only in the N-th program that is prepared
 * Properties "calls_KIND" say how many calls there were, so a test can fail each in turn.
 *
 * Faults that change a program act in `prepare`, those in a batch or in results in `execute` (fault_results.c), those
 * in weights in `weight_pack` (faults.c). Kernel launches and collectives are not passed on. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "device/faulty/driver.h"
#include "device/faulty/internal.h"

#define KIND_BYTES 16
static const char kind_names[TN_CALL_KINDS][KIND_BYTES] = {"alloc",   "copy",    "pack",
                                                           "prepare", "execute", "synchronize"};

/* What a chosen call fails with. */
static const tn_status kind_failures[TN_CALL_KINDS] = {TN_E_MEMORY, TN_E_IO, TN_E_IO, TN_E_MEMORY, TN_E_IO, TN_E_IO};
#define GARBAGE_STATUS 12345

struct tn_event {
  tn_device *owner;
  tn_event *event;
};

/* last_error(NULL): of this thread's last wrap. */
static _Thread_local char wrap_error[1000];

/* ---- options ---- */

/* Where the value of option `key` is kept; NULL: not ours. */
static uint64_t *option_place(tn_device *d, const char *key) {
  if (strcmp(key, "late") == 0) return &d->late;
  if (strcmp(key, "delay-ms") == 0) return &d->delay_ms;
  if (strcmp(key, "lose-at") == 0) return &d->lose_at;
  if (strcmp(key, "fault-at") == 0) return &d->fault_at;
  if (strcmp(key, "fail-count") == 0) return &d->fail_count;
  bool fail = strncmp(key, "fail-", 5) == 0, garbage = strncmp(key, "garbage-", 8) == 0;
  const char *kind = key + (fail ? 5 : 8);
  for (int k = 0; k < TN_CALL_KINDS && (fail || garbage); k++) {
    if (strcmp(kind, kind_names[k]) == 0) return fail ? &d->fail[k] : &d->garbage[k];
  }
  return NULL;
}

bool tn_faulty_takes(const char *key) {
  tn_device probe;
  return strcmp(key, "fault") == 0 || option_place(&probe, key) != NULL;
}

static tn_status read_fault(tn_device *d, const char *name) {
  d->fault = tn_fault_find(name);
  if (d->fault != TN_FAULT_NONE) return TN_OK;
  int size = snprintf(wrap_error, sizeof wrap_error, "fault=%.40s: faults are ", name);
  tn_fault_list(wrap_error + size, sizeof wrap_error - (size_t)size);
  return TN_E_INVALID;
}

static tn_status read_options(tn_device *d, const tn_option *options, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (strcmp(options[i].key, "fault") == 0) {
      tn_status status = read_fault(d, options[i].value);
      if (status) return status;
      continue;
    }
    uint64_t *place = option_place(d, options[i].key);
    char *end;
    unsigned long long value = strtoull(options[i].value, &end, 10);
    if (!place || end == options[i].value || *end || value > 1000000000ull) {
      snprintf(wrap_error, sizeof wrap_error, "%s=%s: not an option of faulty, or not a number", options[i].key,
               options[i].value);
      return TN_E_INVALID;
    }
    *place = value;
  }
  return TN_OK;
}

tn_status tn_faulty_wrap(const tn_driver *inner, tn_device *inner_device, const tn_option *options,
                         uint32_t option_count, const uint64_t *memory, tn_device **device) {
  *device = NULL;
  tn_device *d = tn_calloc(1, sizeof *d);
  if (!d) {
    snprintf(wrap_error, sizeof wrap_error, "out of memory");
    return TN_E_MEMORY;
  }
  d->inner = inner;
  d->device = inner_device;
  d->fail_count = 1;
  for (int k = 0; k < TN_CALL_KINDS; k++) d->calls[k] = memory[k];
  tn_status status = read_options(d, options, option_count);
  if (status) {
    free(d);
    return status;
  }
  *device = d;
  return TN_OK;
}

void tn_faulty_remember(const tn_device *d, uint64_t memory[8]) {
  for (int k = 0; k < TN_CALL_KINDS; k++) memory[k] = d->calls[k];
}

/* ---- deciding ---- */

__attribute__((format(printf, 3, 4))) static tn_status own_failure(tn_device *d, tn_status status, const char *format,
                                                                   ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(d->error, sizeof d->error, format, arguments);
  va_end(arguments);
  d->own_error = true;
  return status;
}

/* Counts a call. TN_OK: it goes on to the driver. */
static tn_status count_call(tn_device *d, int kind) {
  uint64_t number = ++d->calls[kind];
  d->own_error = false;
  if (kind == TN_CALL_EXECUTE && number == d->lose_at) d->lost = true;
  if (d->lost) return own_failure(d, TN_E_DEVICE_LOST, "the device is lost, as asked for");
  if (number == d->garbage[kind]) return own_failure(d, GARBAGE_STATUS, "garbage");
  if (d->fail[kind] && number >= d->fail[kind] && number - d->fail[kind] < d->fail_count) {
    return own_failure(d, kind_failures[kind], "%s number %llu fails, as asked for", kind_names[kind],
                       (unsigned long long)number);
  }
  return TN_OK;
}

/* For calls that are not counted: they fail only on a lost device. */
static tn_status go_on(tn_device *d) {
  d->own_error = false;
  return d->lost ? own_failure(d, TN_E_DEVICE_LOST, "the device is lost, as asked for") : TN_OK;
}

static tn_status out_of_memory(tn_device *d) {
  return own_failure(d, TN_E_MEMORY, "out of memory");
}

/* ---- driver ---- */

static tn_status enumerate_devices(uint32_t *count) {
  *count = 0;
  snprintf(wrap_error, sizeof wrap_error, "faulty wraps a device: faulty:NAME");
  return TN_OK;
}

static tn_status open_device(uint32_t index, const tn_option *options, uint32_t option_count, tn_device **device) {
  (void)index;
  (void)options;
  (void)option_count;
  *device = NULL;
  snprintf(wrap_error, sizeof wrap_error, "faulty wraps a device: faulty:NAME");
  return TN_E_NOT_FOUND;
}

static void close_device(tn_device *d) {
  if (!d) return;
  d->inner->close(d->device);
  free(d);
}

static const char *last_error(tn_device *d) {
  if (!d) return wrap_error;
  if (d->fault == TN_FAULT_SILENT) return "";
  return d->own_error ? d->error : d->inner->last_error(d->device);
}

static tn_status get_property(tn_device *d, const char *name, tn_property *value) {
  d->own_error = false;
  for (int k = 0; k < TN_CALL_KINDS; k++) {
    if (strncmp(name, "calls_", 6) != 0 || strcmp(name + 6, kind_names[k]) != 0) continue;
    value->type = TN_PROPERTY_U64;
    value->u64 = d->calls[k];
    return TN_OK;
  }
  return d->inner->get(d->device, name, value);
}

/* ---- memory ---- */

/* dirty-memory: as if somebody had used it before. */
static tn_status dirty(tn_device *d, tn_buffer *buffer, uint64_t bytes) {
  tn_queue *queue;
  tn_status status = d->inner->queue_create(d->device, &queue);
  if (status) return status;
  status = d->inner->fill(queue, buffer, 0, 0xa5, bytes);
  if (status == TN_OK) status = d->inner->synchronize(queue, UINT64_MAX);
  d->inner->queue_destroy(queue);
  return status;
}

static tn_status alloc_buffer(tn_device *d, uint64_t bytes, tn_buffer **buffer) {
  *buffer = NULL;
  tn_status status = count_call(d, TN_CALL_ALLOC);
  if (status) return status;
  status = d->inner->alloc(d->device, bytes, buffer);
  if (status && d->fault == TN_FAULT_ENDLESS_MEMORY) return d->inner->alloc(d->device, 64, buffer);
  return status == TN_OK && d->fault == TN_FAULT_DIRTY_MEMORY ? dirty(d, *buffer, bytes) : status;
}

static void free_buffer(tn_device *d, tn_buffer *buffer) {
  for (uint32_t i = 0; i < d->packed_count; i++)
    if (d->packed[i].buffer == buffer) d->packed[i] = d->packed[--d->packed_count];
  d->inner->free(d->device, buffer);
}

static void *host_pointer(tn_device *d, tn_buffer *buffer) {
  return d->inner->host_pointer(d->device, buffer);
}

/* ---- queue ---- */

static tn_status queue_create(tn_device *d, tn_queue **queue) {
  *queue = NULL;
  tn_status status = go_on(d);
  if (status) return status;
  tn_queue *made = tn_calloc(1, sizeof *made);
  if (!made) return out_of_memory(d);
  made->owner = d;
  status = d->inner->queue_create(d->device, &made->queue);
  if (status) {
    free(made);
    return status;
  }
  *queue = made;
  return TN_OK;
}

static void queue_destroy(tn_queue *q) {
  if (!q) return;
  tn_fault_drop_held(q);
  q->owner->inner->queue_destroy(q->queue);
  free(q);
}

/* wrong-order: the fill that was held back, behind the call that should have come after it. */
static tn_status let_fill_go(tn_queue *q, tn_status status) {
  tn_buffer *to = q->held_fill.buffer;
  q->held_fill.buffer = NULL;
  if (status || !to) return status;
  return q->owner->inner->fill(q->queue, to, q->held_fill.offset, q->held_fill.byte, q->held_fill.bytes);
}

/* odd-copy and rounded-offset. */
static uint64_t copied(const tn_queue *q, uint64_t bytes) {
  return q->owner->fault == TN_FAULT_ODD_COPY && bytes < UINT32_MAX ? bytes / 2 * 2 : bytes;
}
static uint64_t begun(const tn_queue *q, uint64_t offset) {
  return q->owner->fault == TN_FAULT_ROUNDED_OFFSET && offset < UINT32_MAX ? offset / 4 * 4 : offset;
}

static tn_status copy_in(tn_queue *q, tn_buffer *to, uint64_t offset, const void *from, uint64_t bytes) {
  tn_status status = count_call(q->owner, TN_CALL_COPY);
  if (status) return status;
  return let_fill_go(q, q->owner->inner->copy_in(q->queue, to, begun(q, offset), from, copied(q, bytes)));
}

static tn_status copy_out(tn_queue *q, void *to, tn_buffer *from, uint64_t offset, uint64_t bytes) {
  tn_status status = count_call(q->owner, TN_CALL_COPY);
  if (status) return status;
  return let_fill_go(q, q->owner->inner->copy_out(q->queue, to, from, offset, bytes));
}

static tn_status copy_within(tn_queue *q, tn_buffer *to, uint64_t to_offset, tn_buffer *from, uint64_t from_offset,
                             uint64_t bytes) {
  tn_status status = count_call(q->owner, TN_CALL_COPY);
  if (status) return status;
  return let_fill_go(q, q->owner->inner->copy(q->queue, to, to_offset, from, from_offset, copied(q, bytes)));
}

static tn_status fill(tn_queue *q, tn_buffer *to, uint64_t offset, uint8_t byte, uint64_t bytes) {
  tn_status status = count_call(q->owner, TN_CALL_COPY);
  if (status) return status;
  status = let_fill_go(q, TN_OK);
  if (status || q->owner->fault != TN_FAULT_WRONG_ORDER || bytes > 1000)
    return status ? status : q->owner->inner->fill(q->queue, to, offset, byte, bytes);
  q->held_fill.buffer = to;
  q->held_fill.offset = offset;
  q->held_fill.bytes = bytes;
  q->held_fill.byte = byte;
  return TN_OK;
}

static tn_status execute(tn_queue *q, tn_executable *e, const tn_execution *execution) {
  tn_device *d = q->owner;
  tn_status status = count_call(d, TN_CALL_EXECUTE);
  if (status && !d->late) return status;
  tn_status real = let_fill_go(q, TN_OK);
  if (real == TN_OK)
    real = e->program || !e->executable ? tn_fault_execute(q, e, execution)
                                        : d->inner->execute(q->queue, e->executable, execution);
  if (status) return status;
  if (real == TN_OK && d->delay_ms) q->ready_ns = tn_clock_ns() + d->delay_ms * 1000000u;
  return real == TN_E_INVALID && d->fault == TN_FAULT_UNCHECKED ? TN_OK : real;
}

static tn_status synchronize(tn_queue *q, uint64_t deadline_ns) {
  tn_device *d = q->owner;
  tn_status status = count_call(d, TN_CALL_SYNCHRONIZE);
  if (status == TN_OK) status = let_fill_go(q, TN_OK);
  if (status) return status;
  uint64_t now = tn_clock_ns(), until = q->ready_ns < deadline_ns ? q->ready_ns : deadline_ns;
  if (d->fault == TN_FAULT_IGNORED_DEADLINE && deadline_ns < now + 200000000u) tn_sleep_ns(1500000000u);
  if (now < until) tn_sleep_ns(until - now);
  if (q->ready_ns > deadline_ns && now < q->ready_ns) return own_failure(d, TN_E_TIMEOUT, "the deadline passed");
  tn_fault_release_held(q);
  return d->inner->synchronize(q->queue, deadline_ns);
}

/* ---- weights, states, programs ---- */

static tn_status weight_layout(tn_device *d, const tn_weight_desc *desc, tn_weight_layout *layout) {
  tn_status status = go_on(d);
  return status ? status : d->inner->weight_layout(d->device, desc, layout);
}

static tn_status weight_pack(tn_queue *q, const tn_weight_desc *desc, const tn_weight_layout *layout,
                             const tn_weight_source *sources, uint32_t source_count, tn_buffer *to, uint64_t offset) {
  tn_device *d = q->owner;
  tn_status status = count_call(d, TN_CALL_PACK);
  if (status == TN_OK) status = let_fill_go(q, TN_OK);
  if (status) return status;
  if (d->fault == TN_FAULT_STALE_WEIGHT && tn_fault_is_stale(d, to, offset)) return TN_OK;
  tn_weight_source *changed = tn_calloc(source_count + 1, sizeof *changed);
  if (!changed) return out_of_memory(d);
  memcpy(changed, sources, source_count * sizeof *changed);
  tn_fault_in_sources(d->fault, changed, source_count);
  status = d->inner->weight_pack(q->queue, desc, layout, changed, source_count, to, offset);
  free(changed);
  return status;
}

static tn_status state_layout(tn_device *d, const tn_state_desc *desc, tn_state_layout *layout) {
  tn_status status = go_on(d);
  return status ? status : d->inner->state_layout(d->device, desc, layout);
}

static tn_status supports(tn_device *d, const tn_op_query *query) {
  tn_status status = go_on(d);
  return status ? status : d->inner->supports(d->device, query);
}

static void release(tn_executable *e) {
  if (!e) return;
  if (e->executable) e->owner->inner->release(e->executable);
  free(e->program);
  free(e);
}

static tn_status prepare_inner(tn_device *d, tn_executable *made, const tn_program *program,
                               const tn_weight_binding *weights, uint32_t weight_count, tn_progress progress,
                               void *progress_context) {
  char why[64];
  bool here = d->fault && (!d->fault_at || d->fault_at == d->calls[TN_CALL_PREPARE]);
  bool sound = here && tn_program_check(program, program->bytes, why, sizeof why) == TN_OK;
  if (sound && !(made->program = tn_fault_in_program(d->fault, program))) return out_of_memory(d);
  tn_status status = d->inner->prepare(d->device, made->program ? made->program : program, weights, weight_count,
                                       progress, progress_context, &made->executable);
  if (status == TN_OK) return TN_OK;
  made->executable = NULL;
  return d->fault == TN_FAULT_ACCEPTS_ANYTHING ? TN_OK : status;
}

static tn_status prepare(tn_device *d, const tn_program *program, const tn_weight_binding *weights,
                         uint32_t weight_count, tn_progress progress, void *progress_context,
                         tn_executable **executable) {
  *executable = NULL;
  tn_status status = count_call(d, TN_CALL_PREPARE);
  if (status) return status;
  tn_executable *made = tn_calloc(1, sizeof *made);
  if (!made) return out_of_memory(d);
  made->owner = d;
  status = prepare_inner(d, made, program, weights, weight_count, progress, progress_context);
  if (status) {
    release(made);
    return status;
  }
  *executable = made;
  return TN_OK;
}

/* ---- events and counters: where the wrapped driver has them ---- */

static tn_status not_there(tn_device *d) {
  return own_failure(d, TN_E_UNSUPPORTED, "the wrapped driver does not have this");
}

static tn_status record(tn_queue *q, tn_event **event) {
  tn_device *d = q->owner;
  *event = NULL;
  tn_status status = go_on(d);
  if (status) return status;
  if (!d->inner->record || !d->inner->wait || !d->inner->event_destroy) return not_there(d);
  tn_event *made = tn_calloc(1, sizeof *made);
  if (!made) return out_of_memory(d);
  made->owner = d;
  status = d->inner->record(q->queue, &made->event);
  if (status) {
    free(made);
    return status;
  }
  *event = made;
  return TN_OK;
}

static tn_status wait_event(tn_event *event, uint64_t deadline_ns) {
  tn_status status = go_on(event->owner);
  return status ? status : event->owner->inner->wait(event->event, deadline_ns);
}

static void event_destroy(tn_event *event) {
  if (!event) return;
  event->owner->inner->event_destroy(event->event);
  free(event);
}

static tn_status counters(tn_queue *q, tn_op_counter *list, uint32_t *count) {
  tn_status status = go_on(q->owner);
  if (status) return status;
  if (!q->owner->inner->counters) return not_there(q->owner);
  return q->owner->inner->counters(q->queue, list, count);
}

static tn_status instructions(tn_queue *q, uint64_t *list, uint32_t count) {
  if (!q->owner->inner->instructions) return not_there(q->owner);
  return q->owner->inner->instructions(q->queue, list, count);
}

static const tn_driver driver = {.size = sizeof(tn_driver),
                                 .abi_min = TN_DEVICE_ABI,
                                 .abi_max = TN_DEVICE_ABI,
                                 .name = "faulty",
                                 .summary = "wraps any device and makes chosen calls fail, for tests",
                                 .enumerate = enumerate_devices,
                                 .open = open_device,
                                 .close = close_device,
                                 .last_error = last_error,
                                 .get = get_property,
                                 .alloc = alloc_buffer,
                                 .free = free_buffer,
                                 .host_pointer = host_pointer,
                                 .queue_create = queue_create,
                                 .queue_destroy = queue_destroy,
                                 .copy_in = copy_in,
                                 .copy_out = copy_out,
                                 .copy = copy_within,
                                 .fill = fill,
                                 .execute = execute,
                                 .synchronize = synchronize,
                                 .weight_layout = weight_layout,
                                 .weight_pack = weight_pack,
                                 .state_layout = state_layout,
                                 .supports = supports,
                                 .prepare = prepare,
                                 .release = release,
                                 .record = record,
                                 .wait = wait_event,
                                 .event_destroy = event_destroy,
                                 .counters = counters,
                                 .instructions = instructions};

const tn_driver *tn_faulty_driver(void) {
  return &driver;
}
