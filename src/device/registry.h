/* Devices as the portable layer sees them: finding a driver, opening a device by its spec, and calling it with
 * errors that say which device it was and what it was asked.
 *
 * A spec is NAME[:INDEX][,key=value...]. NAME is a built-in driver or the path of a driver library (it has a slash or
 * ends in .so; commas can't be part of it). `faulty:SPEC` wraps what SPEC names (src/device/faulty/). Examples:
 *   cpu      cpu,threads=2      reference,private-memory=1      ./mine.so:1     faulty:cpu,fail-alloc=3
 * Options go to the driver, which refuses those it doesn't know. */
#ifndef TENON_DEVICE_REGISTRY_H
#define TENON_DEVICE_REGISTRY_H

#include <stdbool.h>
#include "tenon/device.h"
#include "tenon/status.h"

/* ---- drivers ---- */

/* A driver's table, checked: every mandatory function is there, optional ones beyond the table's own size are NULL. */
typedef struct tn_loaded_driver {
  tn_driver table;
  void *library; /* NULL: built in */
} tn_loaded_driver;

/* The built-in drivers, in the order they are listed to people; NULL past the last. */
const tn_driver *tn_builtin_driver(size_t index);
/* The name of the first of them: it runs what no device is named for, and what others lack. */
const char *tn_default_driver(void);

/* Loads a built-in driver by name or a library by path. Errors name the path or list the names: TN_E_NOT_FOUND,
 * TN_E_IO, TN_E_FORMAT (no driver, or one with holes), TN_E_UNSUPPORTED (no common abi version; both are named). */
tn_status tn_driver_load(const char *name, tn_loaded_driver *driver, tn_error *error);
void tn_driver_unload(tn_loaded_driver *driver);

/* Devices the driver sees now. With none, `reason` (of `capacity` bytes, zero-terminated) may say why. */
tn_status tn_driver_count(const tn_loaded_driver *driver, uint32_t *count, char *reason, size_t capacity,
                          tn_error *error);

/* Does a device spec name a device of this driver, wrapped or not? */
bool tn_device_spec_is(const char *spec, const char *driver);
/* How many devices the driver that a spec names sees now; TN_E_NOT_FOUND, with its reason, when there is none.
 * *has_index: the spec names one of them by number. Other errors as tn_driver_load, and for a malformed spec. */
tn_status tn_device_count(const char *spec, uint32_t *count, bool *has_index, tn_error *error);

/* ---- an opened device ---- */

/* What every driver answers, asked once when the device is opened. */
typedef struct tn_device_properties {
  char name[104];
  uint64_t memory_total, memory_free, max_allocation, alignment;
  uint64_t cores, threads;
  bool batch_invariant;
  bool contiguous_kv; /* false: paged */
  char rows[104];     /* token rows it accepts: "any", or a list like "1,32" */
} tn_device_properties;

typedef struct tn_opened_device {
  const tn_driver *driver; /* the table that calls go to; a wrapper's where the device is wrapped */
  tn_device *device;       /* NULL after a reopen that failed */
  tn_device_properties properties;
  char label[64]; /* the spec without its options: what errors call the device */
  struct tn_opened_internals *internals;
} tn_opened_device;

/* Opens the device that `spec` names. `options` are added to the spec's own, which win where both have a key. The
 * device is closed by tn_device_close. Errors: as tn_driver_load; TN_E_INVALID for a malformed spec; TN_E_NOT_FOUND for
 * an index the driver doesn't have; what the driver's `open` gave. */
tn_status tn_device_open(const char *spec, const tn_option *options, uint32_t option_count, tn_opened_device **device,
                         tn_error *error);
/* Everything made on the device is gone afterwards. NULL is allowed. */
void tn_device_close(tn_opened_device *device);
/* Closes the driver's device and opens it again as it was first opened: after TN_E_DEVICE_LOST. After a failure the
 * handle can only be reopened again or closed. */
tn_status tn_device_reopen(tn_opened_device *device, tn_error *error);

/* ---- calls: as in tenon/device.h, with errors like "device cpu: alloc of 123 bytes: out of memory" ----
 * A status that doesn't exist becomes TN_E_INTERNAL, and so does TN_OK without a result. */
tn_status tn_device_get(tn_opened_device *device, const char *name, tn_property *value, tn_error *error);
/* A property that is a f64; 0 where the driver has none of that name. */
double tn_device_number(tn_opened_device *device, const char *name);
/* The peak for linears whose activations are of `dtype`, operations a second; 0: unknown. bf16 falls back to f32. */
double tn_device_peak_ops(tn_opened_device *device, uint32_t dtype);
tn_status tn_device_alloc(tn_opened_device *device, uint64_t bytes, tn_buffer **buffer, tn_error *error);
/* Read-only memory from a file; TN_E_UNSUPPORTED where the driver has none. Freed as any other. */
tn_status tn_device_map(tn_opened_device *device, const char *path, uint64_t offset, uint64_t bytes, tn_buffer **buffer,
                        tn_error *error);
bool tn_device_can_map(const tn_opened_device *device);
void tn_device_free(tn_opened_device *device, tn_buffer *buffer); /* NULL is allowed */
void *tn_device_host_pointer(tn_opened_device *device, tn_buffer *buffer);
tn_status tn_device_queue_create(tn_opened_device *device, tn_queue **queue, tn_error *error);
void tn_device_queue_destroy(tn_opened_device *device, tn_queue *queue); /* NULL is allowed */
tn_status tn_device_copy_in(tn_opened_device *device, tn_queue *queue, tn_buffer *to, uint64_t offset, const void *from,
                            uint64_t bytes, tn_error *error);
tn_status tn_device_copy_out(tn_opened_device *device, tn_queue *queue, void *to, tn_buffer *from, uint64_t offset,
                             uint64_t bytes, tn_error *error);
tn_status tn_device_copy(tn_opened_device *device, tn_queue *queue, tn_buffer *to, uint64_t to_offset, tn_buffer *from,
                         uint64_t from_offset, uint64_t bytes, tn_error *error);
tn_status tn_device_fill(tn_opened_device *device, tn_queue *queue, tn_buffer *to, uint64_t offset, uint8_t byte,
                         uint64_t bytes, tn_error *error);
tn_status tn_device_execute(tn_opened_device *device, tn_queue *queue, tn_executable *executable,
                            const tn_execution *execution, tn_error *error);
tn_status tn_device_synchronize(tn_opened_device *device, tn_queue *queue, uint64_t deadline_ns, tn_error *error);
tn_status tn_device_weight_layout(tn_opened_device *device, const tn_weight_desc *desc, tn_weight_layout *layout,
                                  tn_error *error);
tn_status tn_device_weight_pack(tn_opened_device *device, tn_queue *queue, const tn_weight_desc *desc,
                                const tn_weight_layout *layout, const tn_weight_source *sources, uint32_t source_count,
                                tn_buffer *to, uint64_t offset, tn_error *error);
tn_status tn_device_state_layout(tn_opened_device *device, const tn_state_desc *desc, tn_state_layout *layout,
                                 tn_error *error);
/* False for anything but TN_OK. */
bool tn_device_supports(tn_opened_device *device, const tn_op_query *query);
tn_status tn_device_prepare(tn_opened_device *device, const tn_program *program, const tn_weight_binding *weights,
                            uint32_t weight_count, tn_progress progress, void *progress_context,
                            tn_executable **executable, tn_error *error);
void tn_device_release(tn_opened_device *device, tn_executable *executable); /* NULL is allowed */

/* ---- what a driver may lack: TN_E_UNSUPPORTED then ---- */
tn_status tn_device_record(tn_opened_device *device, tn_queue *queue, tn_event **event, tn_error *error);
tn_status tn_device_wait(tn_opened_device *device, tn_event *event, uint64_t deadline_ns, tn_error *error);
void tn_device_event_destroy(tn_opened_device *device, tn_event *event); /* NULL is allowed */
tn_status tn_device_kernel_load(tn_opened_device *device, const void *blob, uint64_t bytes, void **module,
                                tn_error *error);
tn_status tn_device_kernel_function(tn_opened_device *device, void *module, const char *name, void **function,
                                    tn_error *error);
tn_status tn_device_kernel_launch(tn_opened_device *device, tn_queue *queue, void *function, const tn_launch *launch,
                                  tn_error *error);
void tn_device_kernel_unload(tn_opened_device *device, void *module); /* NULL is allowed */
tn_status tn_device_counters(tn_opened_device *device, tn_queue *queue, tn_op_counter *counters, uint32_t *count,
                             tn_error *error);
/* Of the counters read last, all `count` of them; zeros where the driver counts none. */
tn_status tn_device_instructions(tn_opened_device *device, tn_queue *queue, uint64_t *instructions, uint32_t count,
                                 tn_error *error);

#endif
