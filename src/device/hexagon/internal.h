/* What the host's files of the hexagon driver share. */
#ifndef TENON_DEVICE_HEXAGON_INTERNAL_H
#define TENON_DEVICE_HEXAGON_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include "base/os.h"
#include "device/hexagon/protocol.h"
#include "device/hexagon/transport.h"
#include "tenon/driver.h"

/* A command under way: whose it is. */
typedef struct pending_command {
  tn_queue *queue;
  tn_executable *executable;
} pending_command;

struct tn_device {
  tn_transport *transport;
  tn_hexagon_control *control; /* the window's begin */
  uint8_t *window;
  uint32_t threads;
  bool has_session; /* one of those that a process may have is its */
  uint64_t patience_ns;
  tn_mutex *mutex;    /* guards all below */
  tn_buffer *buffers; /* by rising offset */
  uint64_t used;      /* bytes of the window that are given out, the control block among them */
  uint32_t submitted, retired;
  pending_command pending[TN_HEXAGON_RING];
  _Atomic bool lost;
  char reason[240]; /* why it is lost */
  char error[256];
};

struct tn_buffer {
  uint64_t offset; /* in the window */
  uint64_t bytes;  /* as asked for; TN_TRANSPORT_PAGE multiples are taken */
  tn_buffer *next;
};

#define TN_HEXAGON_MAX_COUNTERS 65536u /* that a queue keeps */

struct tn_queue {
  tn_device *device;
  uint32_t last;           /* number behind that of its last command */
  tn_status status;        /* the first failure since the last synchronize */
  tn_op_counter *counters; /* there once they were asked for */
  uint64_t *instructions;  /* of the same ops */
  uint32_t counter_count;
};

/* A program prepared. */
struct tn_executable {
  tn_device *device;
  tn_program *program; /* in the window, as everything the DSP reads */
  tn_hexagon_program *prepared;
  uint64_t *page_bytes;
  tn_buffer *memory;    /* holds those three, the weights' table and the DSP's */
  tn_buffer *workspace; /* of all threads */
  tn_buffer *message;   /* the execution under way, its bindings, its batch */
  tn_buffer *counters;  /* NULL until measured */
  uint32_t last;        /* number behind that of its last execution */
};

/* Notes a line for last_error (device NULL: of this thread) and returns `status`. */
__attribute__((format(printf, 3, 4))) tn_status tn_hexagon_fail(tn_device *device, tn_status status, const char *format,
                                                                ...);
/* TN_OK when bytes [offset, offset + bytes) lie in the buffer; else notes it. */
tn_status tn_hexagon_inside(tn_device *device, const tn_buffer *buffer, uint64_t offset, uint64_t bytes);

/* ---- session.c: the DSP's life and its commands ---- */

/* Starts the DSP of a device whose threads and patience are set. Errors are noted for the thread. */
tn_status tn_hexagon_session_start(tn_device *device);
void tn_hexagon_session_stop(tn_device *device);
/* TN_OK, or TN_E_DEVICE_LOST with the reason noted. */
tn_status tn_hexagon_session_check(tn_device *device);
/* Hands a command to the DSP and gives its number plus one in *last. With the mutex held. `queue` and `executable` may
 * be NULL. */
tn_status tn_hexagon_submit(tn_device *device, uint32_t kind, const void *message, pending_command whose,
                            uint32_t *last);
/* Waits until the commands before number `last` are answered: TN_OK, TN_E_TIMEOUT past the deadline,
 * TN_E_DEVICE_LOST. What they answered is not looked at. The mutex may be held. */
tn_status tn_hexagon_wait(tn_device *device, uint32_t last, uint64_t deadline_ns);
/* Takes in what commands answered, in order, as far as they are done: failures to their queues, counters too. With the
 * mutex held. */
void tn_hexagon_retire(tn_device *device);
/* The offset of an address in the window; of NULL 0. */
static inline uint32_t tn_hexagon_offset(const tn_device *device, const void *address) {
  return address ? (uint32_t)((const uint8_t *)address - device->window) : 0;
}

/* ---- memory.c ---- */
tn_status tn_hexagon_alloc(tn_device *device, uint64_t bytes, tn_buffer **buffer);
void tn_hexagon_free(tn_device *device, tn_buffer *buffer);
void *tn_hexagon_host_pointer(tn_device *device, tn_buffer *buffer);
/* Bytes that could still be allocated. */
uint64_t tn_hexagon_free_bytes(tn_device *device);
/* Forgets all buffers: the window is gone. */
void tn_hexagon_forget_buffers(tn_device *device);

/* ---- layouts.c: how weights and states lie; which ops there are ---- */
tn_status tn_hexagon_weight_layout(tn_device *device, const tn_weight_desc *desc, tn_weight_layout *layout);
tn_status tn_hexagon_pack(tn_device *device, const tn_weight_desc *desc, const tn_weight_layout *layout,
                          const tn_weight_source *sources, uint32_t source_count, void *to);
tn_status tn_hexagon_state_layout(tn_device *device, const tn_state_desc *desc, tn_state_layout *layout);
tn_status tn_hexagon_supports(tn_device *device, const tn_op_query *query);

/* ---- program.c ---- */
tn_status tn_hexagon_prepare(tn_device *device, const tn_program *program, const tn_weight_binding *weights,
                             uint32_t weight_count, tn_progress progress, void *progress_context,
                             tn_executable **executable);
void tn_hexagon_release(tn_executable *executable);
/* execute.c */
tn_status tn_hexagon_execute(tn_queue *queue, tn_executable *executable, const tn_execution *execution);
/* Moves what the DSP measured in the executable's last execution to the queue. */
void tn_hexagon_collect(tn_queue *queue, const tn_executable *executable);

#endif
