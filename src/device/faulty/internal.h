/* What the files of the faulty driver share: its objects, and the places where a fault may act. */
#ifndef TENON_DEVICE_FAULTY_INTERNAL_H
#define TENON_DEVICE_FAULTY_INTERNAL_H

#include <stdbool.h>
#include "tenon/driver.h"

/* ---- faults: X(NAME, "name", "what the device does wrong") ---- */
#define TN_FAULTS(X)                                                                                      \
  X(TAIL, "tail", "the last value of each output row is not written")                                     \
  X(IGNORED_SCALE, "no-scale", "scales of embed, linear and scale count as 1")                            \
  X(IGNORED_ACTIVATION, "no-activation", "linear and activation leave their function out")                \
  X(IGNORED_WINDOW, "no-window", "attention sees everything")                                             \
  X(IGNORED_SOFTCAP, "no-softcap", "attention caps nothing")                                              \
  X(IGNORED_EPSILON, "no-epsilon", "norms divide by what they find")                                      \
  X(IGNORED_BIAS, "no-bias", "linear adds no bias")                                                       \
  X(IGNORED_SINKS, "no-sinks", "attention has no sinks")                                                  \
  X(WRONG_PAIRING, "wrong-pairing", "rope turns adjacent values for halves and halves for adjacent ones") \
  X(SWAPPED_HEADS, "swapped-heads", "the first two heads of an attention change places")                  \
  X(WRONG_PAGE, "wrong-page", "all pages of a sequence are its first")                                    \
  X(WRONG_POSITION, "wrong-position", "every row stands one position further")                            \
  X(WRONG_ROW, "wrong-row", "the last row that wants logits is the one before it")                        \
  X(BATCH_DEPENDENT, "batch-dependent", "the lowest bit of a result depends on the number of rows")       \
  X(LAST_BIT, "last-bit", "the lowest bit of the last value of a row is another")                         \
  X(SATURATION, "saturation", "results end at 100")                                                       \
  X(LOST_NAN, "lost-nan", "a NaN becomes 0")                                                              \
  X(UNINITIALISED, "uninitialised", "a little of what lay in scratch memory gets into the result")        \
  X(WRITES_OUTSIDE, "writes-outside", "a float behind the end of an output is overwritten")               \
  X(WRITES_INPUT, "writes-input", "the first float of an input is overwritten")                           \
  X(STALE_WEIGHT, "stale-weight", "a weight packed where one was before is the old one")                  \
  X(IGNORED_ROW_MAP, "no-row-map", "rows of a weight are taken in order whatever the map says")           \
  X(IGNORED_TRANSPOSE, "no-transpose", "a weight stored transposed is taken as it is")                    \
  X(IGNORED_ADD, "no-add", "nothing is added to a vector's values")                                       \
  X(WRONG_ORDER, "wrong-order", "a fill changes places with the call behind it")                          \
  X(LATE, "late", "results come one synchronize too late")                                                \
  X(ODD_COPY, "odd-copy", "copies of an odd number of bytes lose the last")                               \
  X(ROUNDED_OFFSET, "rounded-offset", "copies begin at multiples of 4")                                   \
  X(DIRTY_MEMORY, "dirty-memory", "new memory is not zeroed")                                             \
  X(ENDLESS_MEMORY, "endless-memory", "more memory than there is is given out")                           \
  X(IGNORED_DEADLINE, "no-deadline", "synchronize takes its time whatever the deadline")                  \
  X(SILENT, "silent", "failures have no text")                                                            \
  X(UNCHECKED, "unchecked", "executions that make no sense are taken and not run")                        \
  X(ACCEPTS_ANYTHING, "accepts-anything", "prepare takes bytes that are no program")

typedef enum tn_fault {
  TN_FAULT_NONE,
#define X(NAME, name, text) TN_FAULT_##NAME,
  TN_FAULTS(X)
#undef X
      TN_FAULT_COUNT
} tn_fault;

/* The fault of this name, TN_FAULT_NONE if there is none. */
tn_fault tn_fault_find(const char *name);
/* All names with their texts, a line each, into `out` (zero-terminated, cut at capacity). */
void tn_fault_list(char *out, size_t capacity);

/* ---- the driver's objects: they stand between the caller's and the wrapped driver's; buffers are the driver's own
 * ---- */

enum {
  TN_CALL_ALLOC,
  TN_CALL_COPY,
  TN_CALL_PACK,
  TN_CALL_PREPARE,
  TN_CALL_EXECUTE,
  TN_CALL_SYNCHRONIZE,
  TN_CALL_KINDS
};
#define TN_FAULT_PLACES 64u

struct tn_device {
  const tn_driver *inner;
  tn_device *device;
  _Atomic uint64_t calls[TN_CALL_KINDS]; /* made so far, on all queues */
  uint64_t fail[TN_CALL_KINDS];          /* number of the first call that fails; 0: none */
  uint64_t fail_count;                   /* so many do */
  uint64_t garbage[TN_CALL_KINDS];       /* ... that answers garbage */
  uint64_t late, delay_ms, lose_at, fault_at;
  tn_fault fault;
  struct {
    const tn_buffer *buffer;
    uint64_t offset;
  } packed[TN_FAULT_PLACES]; /* stale-weight: where weights have been packed */
  uint32_t packed_count;
  _Atomic bool lost;
  _Atomic bool own_error; /* the last failure was ours: `error` tells it */
  char error[160];
};

/* Bytes that are to be written into a buffer later. */
typedef struct tn_held_bytes {
  tn_buffer *buffer;
  uint64_t offset, bytes;
  uint8_t *data;
} tn_held_bytes;

struct tn_queue {
  tn_device *owner;
  tn_queue *queue;
  uint64_t ready_ns; /* when the work handed in is finished */
  struct {
    tn_buffer *buffer;
    uint64_t offset, bytes;
    uint8_t byte;
  } held_fill;                   /* wrong-order: waits for the next call; buffer NULL: none */
  tn_held_bytes held[8];         /* late */
  uint32_t held_count, held_for; /* synchronizes to go */
};

struct tn_executable {
  tn_device *owner;
  tn_executable *executable; /* NULL: accepted without being a program */
  tn_program *program;       /* as handed on, where the fault acts; else NULL */
};

/* ---- where faults act (faults.c) ---- */

/* A copy of the program as the fault has it, to be freed; the program itself stays. NULL: out of memory. */
tn_program *tn_fault_in_program(tn_fault fault, const tn_program *program);
/* Changes copies of a weight's sources. */
void tn_fault_in_sources(tn_fault fault, tn_weight_source *sources, uint32_t count);
/* stale-weight: has a weight been packed here? Notes the place. */
bool tn_fault_is_stale(tn_device *d, const tn_buffer *buffer, uint64_t offset);

/* An execution with the fault in its batch and its results (fault_results.c). */
tn_status tn_fault_execute(tn_queue *q, tn_executable *e, const tn_execution *execution);
/* late: writes what is held once its time has come. */
void tn_fault_release_held(tn_queue *q);
void tn_fault_drop_held(tn_queue *q);

#endif
