/* The faulty driver: every call goes to the wrapped device unless it is one that was chosen to fail.
 *
 * Calls are counted by kind, from 1, over the life of the device, reopening included:
 *   alloc, copy (in, out, within, fill), pack, prepare, execute, synchronize
 * Options:
 *   fail-KIND=N      the N-th call of this kind fails once, without doing anything
 *   garbage-KIND=N   it answers a status that doesn't exist
 *   late=1           an execute that fails does its work first
 *   delay-ms=N       work on a queue is finished N ms after each execute; synchronize waits for it, or for its deadline
 *   lose-at=N        the N-th execute loses the device: every call fails from then on, until it is opened again
 * Properties "calls_KIND" say how many calls there were, so a test can fail each in turn.
 *
 * Where other faults go: a program can be changed in `prepare`, a batch or the outputs in `execute`, a weight in
 * `weight_pack`; the objects below stand between the caller's and the driver's for that. Buffers are the driver's
 * own. Kernel launches and collectives are not passed on. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/os.h"
#include "device/faulty/driver.h"

#define KIND_BYTES 16
enum { ALLOC, COPY, PACK, PREPARE, EXECUTE, SYNCHRONIZE, KINDS };
static const char kind_names[KINDS][KIND_BYTES] = {"alloc", "copy", "pack", "prepare", "execute", "synchronize"};

/* What a chosen call fails with. */
static const tn_status kind_failures[KINDS] = {TN_E_MEMORY, TN_E_IO, TN_E_IO, TN_E_MEMORY, TN_E_IO, TN_E_IO};
#define GARBAGE_STATUS 12345

struct tn_device {
  const tn_driver *inner;
  tn_device *device;
  _Atomic uint64_t calls[KINDS]; /* made so far, on all queues */
  uint64_t fail[KINDS];          /* number of the call that fails; 0: none */
  uint64_t garbage[KINDS];       /* ... that answers garbage */
  uint64_t late, delay_ms, lose_at;
  _Atomic bool lost;
  _Atomic bool own_error; /* the last failure was ours: `error` tells it */
  char error[160];
};
struct tn_queue {
  tn_device *owner;
  tn_queue *queue;
  uint64_t ready_ns; /* when the work handed in is finished */
};
struct tn_executable {
  tn_device *owner;
  tn_executable *executable;
};
struct tn_event {
  tn_device *owner;
  tn_event *event;
};

/* last_error(NULL): of this thread's last wrap. */
static _Thread_local char wrap_error[160];

/* ---- options ---- */

/* Where the value of option `key` is kept; NULL: not ours. */
static uint64_t *option_place(tn_device *d, const char *key) {
  if (strcmp(key, "late") == 0) return &d->late;
  if (strcmp(key, "delay-ms") == 0) return &d->delay_ms;
  if (strcmp(key, "lose-at") == 0) return &d->lose_at;
  bool fail = strncmp(key, "fail-", 5) == 0, garbage = strncmp(key, "garbage-", 8) == 0;
  const char *kind = key + (fail ? 5 : 8);
  for (int k = 0; k < KINDS && (fail || garbage); k++) {
    if (strcmp(kind, kind_names[k]) == 0) return fail ? &d->fail[k] : &d->garbage[k];
  }
  return NULL;
}

bool tn_faulty_takes(const char *key) {
  tn_device probe;
  return option_place(&probe, key) != NULL;
}

static tn_status read_options(tn_device *d, const tn_option *options, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
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
  for (int k = 0; k < KINDS; k++) d->calls[k] = memory[k];
  tn_status status = read_options(d, options, option_count);
  if (status) {
    free(d);
    return status;
  }
  *device = d;
  return TN_OK;
}

void tn_faulty_remember(const tn_device *d, uint64_t memory[8]) {
  for (int k = 0; k < KINDS; k++) memory[k] = d->calls[k];
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
  if (kind == EXECUTE && number == d->lose_at) d->lost = true;
  if (d->lost) return own_failure(d, TN_E_DEVICE_LOST, "the device is lost, as asked for");
  if (number == d->garbage[kind]) return own_failure(d, GARBAGE_STATUS, "garbage");
  if (number == d->fail[kind]) {
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
  return d->own_error ? d->error : d->inner->last_error(d->device);
}

static tn_status get_property(tn_device *d, const char *name, tn_property *value) {
  d->own_error = false;
  for (int k = 0; k < KINDS; k++) {
    if (strncmp(name, "calls_", 6) != 0 || strcmp(name + 6, kind_names[k]) != 0) continue;
    value->type = TN_PROPERTY_U64;
    value->u64 = d->calls[k];
    return TN_OK;
  }
  return d->inner->get(d->device, name, value);
}

/* ---- memory ---- */

static tn_status alloc_buffer(tn_device *d, uint64_t bytes, tn_buffer **buffer) {
  *buffer = NULL;
  tn_status status = count_call(d, ALLOC);
  return status ? status : d->inner->alloc(d->device, bytes, buffer);
}

static void free_buffer(tn_device *d, tn_buffer *buffer) {
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
  q->owner->inner->queue_destroy(q->queue);
  free(q);
}

static tn_status copy_in(tn_queue *q, tn_buffer *to, uint64_t offset, const void *from, uint64_t bytes) {
  tn_status status = count_call(q->owner, COPY);
  return status ? status : q->owner->inner->copy_in(q->queue, to, offset, from, bytes);
}

static tn_status copy_out(tn_queue *q, void *to, tn_buffer *from, uint64_t offset, uint64_t bytes) {
  tn_status status = count_call(q->owner, COPY);
  return status ? status : q->owner->inner->copy_out(q->queue, to, from, offset, bytes);
}

static tn_status copy_within(tn_queue *q, tn_buffer *to, uint64_t to_offset, tn_buffer *from, uint64_t from_offset,
                             uint64_t bytes) {
  tn_status status = count_call(q->owner, COPY);
  return status ? status : q->owner->inner->copy(q->queue, to, to_offset, from, from_offset, bytes);
}

static tn_status fill(tn_queue *q, tn_buffer *to, uint64_t offset, uint8_t byte, uint64_t bytes) {
  tn_status status = count_call(q->owner, COPY);
  return status ? status : q->owner->inner->fill(q->queue, to, offset, byte, bytes);
}

static tn_status execute(tn_queue *q, tn_executable *e, const tn_execution *execution) {
  tn_device *d = q->owner;
  tn_status status = count_call(d, EXECUTE);
  if (status && !d->late) return status;
  tn_status real = d->inner->execute(q->queue, e->executable, execution);
  if (status) return status;
  if (real == TN_OK && d->delay_ms) q->ready_ns = tn_clock_ns() + d->delay_ms * 1000000u;
  return real;
}

static tn_status synchronize(tn_queue *q, uint64_t deadline_ns) {
  tn_device *d = q->owner;
  tn_status status = count_call(d, SYNCHRONIZE);
  if (status) return status;
  uint64_t now = tn_clock_ns(), until = q->ready_ns < deadline_ns ? q->ready_ns : deadline_ns;
  if (now < until) tn_sleep_ns(until - now);
  if (q->ready_ns > deadline_ns && now < q->ready_ns) return own_failure(d, TN_E_TIMEOUT, "the deadline passed");
  return d->inner->synchronize(q->queue, deadline_ns);
}

/* ---- weights, states, programs ---- */

static tn_status weight_layout(tn_device *d, const tn_weight_desc *desc, tn_weight_layout *layout) {
  tn_status status = go_on(d);
  return status ? status : d->inner->weight_layout(d->device, desc, layout);
}

static tn_status weight_pack(tn_queue *q, const tn_weight_desc *desc, const tn_weight_layout *layout,
                             const tn_weight_source *sources, uint32_t source_count, tn_buffer *to, uint64_t offset) {
  tn_status status = count_call(q->owner, PACK);
  return status ? status : q->owner->inner->weight_pack(q->queue, desc, layout, sources, source_count, to, offset);
}

static tn_status state_layout(tn_device *d, const tn_state_desc *desc, tn_state_layout *layout) {
  tn_status status = go_on(d);
  return status ? status : d->inner->state_layout(d->device, desc, layout);
}

static tn_status supports(tn_device *d, const tn_op_query *query) {
  tn_status status = go_on(d);
  return status ? status : d->inner->supports(d->device, query);
}

static tn_status prepare(tn_device *d, const tn_program *program, const tn_weight_binding *weights,
                         uint32_t weight_count, tn_progress progress, void *progress_context,
                         tn_executable **executable) {
  *executable = NULL;
  tn_status status = count_call(d, PREPARE);
  if (status) return status;
  tn_executable *made = tn_calloc(1, sizeof *made);
  if (!made) return out_of_memory(d);
  made->owner = d;
  status = d->inner->prepare(d->device, program, weights, weight_count, progress, progress_context, &made->executable);
  if (status) {
    free(made);
    return status;
  }
  *executable = made;
  return TN_OK;
}

static void release(tn_executable *e) {
  if (!e) return;
  e->owner->inner->release(e->executable);
  free(e);
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
                                 .counters = counters};

const tn_driver *tn_faulty_driver(void) {
  return &driver;
}
