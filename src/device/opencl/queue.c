/* Queues: waiting, events, counters. Work is handed to the runtime and goes on by itself; a wait with a deadline asks
 * for its state until it is done or the deadline is past. */
#include <stdlib.h>
#include "device/opencl/internal.h"

#define SHORTEST_SLEEP_NS 10000u
#define LONGEST_SLEEP_NS 200000u
#define MAX_COUNTERS 65536u

struct tn_event {
  tn_device *device;
  cl_event event;
};

tn_status tn_opencl_queue_create(tn_device *device, tn_queue **queue) {
  int32_t error;
  *queue = tn_calloc(1, sizeof **queue);
  if (!*queue) return tn_opencl_fail(device, TN_E_MEMORY, "out of memory");
  (*queue)->device = device;
  (*queue)->commands =
      device->api.clCreateCommandQueue(device->context, device->found.device, CL_QUEUE_PROFILING_ENABLE, &error);
  if ((*queue)->commands) return TN_OK;
  free(*queue);
  *queue = NULL;
  return tn_opencl_check(device, error, "making a queue");
}

static void drop_measures(tn_queue *queue) {
  for (size_t i = 0; i < queue->measure_count; i++) queue->device->api.clReleaseEvent(queue->measures[i].event);
  queue->measure_count = 0;
}

void tn_opencl_queue_destroy(tn_queue *queue) {
  if (!queue) return;
  const cl_api *api = &queue->device->api;
  api->clFinish(queue->commands);
  for (size_t i = 0; i < queue->upload_count; i++) {
    api->clReleaseEvent(queue->uploads[i].event);
    free(queue->uploads[i].data);
  }
  drop_measures(queue);
  if (queue->batch) api->clReleaseMemObject(queue->batch);
  api->clReleaseCommandQueue(queue->commands);
  free(queue->uploads);
  free(queue->measures);
  free(queue->counting.counters);
  free(queue);
}

/* ---- waiting ---- */

/* TN_OK: it is over; TN_E_TIMEOUT: it goes on; else how it failed. */
static tn_status ask(tn_device *device, cl_event event) {
  int32_t state = 1;
  int32_t error = device->api.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
  if (error != CL_SUCCESS) return tn_opencl_check(device, error, "asking for an event");
  if (state < 0) return tn_opencl_check(device, state, "work on the device");
  return state == CL_COMPLETE ? TN_OK : TN_E_TIMEOUT;
}

static tn_status wait_for(tn_device *device, cl_event event, uint64_t deadline_ns) {
  uint64_t sleep = SHORTEST_SLEEP_NS;
  if (deadline_ns == UINT64_MAX) device->api.clWaitForEvents(1, &event); /* how it ended is asked below */
  for (;;) {
    tn_status status = ask(device, event);
    if (status != TN_E_TIMEOUT) return status;
    if (tn_clock_ns() >= deadline_ns) return tn_opencl_fail(device, TN_E_TIMEOUT, "the work is not done yet");
    tn_sleep_ns(sleep);
    if (sleep < LONGEST_SLEEP_NS) sleep *= 2;
  }
}

/* A mark behind all that was handed in, on its way to the device. */
static tn_status mark(tn_queue *queue, cl_event *event) {
  const cl_api *api = &queue->device->api;
  int32_t error = api->clEnqueueMarkerWithWaitList(queue->commands, 0, NULL, event);
  if (error == CL_SUCCESS) error = api->clFlush(queue->commands);
  return tn_opencl_check(queue->device, error, "marking the queue");
}

tn_status tn_opencl_reap(tn_queue *queue, bool all) {
  tn_device *device = queue->device;
  tn_status status =
      all ? tn_opencl_check(device, device->api.clFinish(queue->commands), "waiting for uploads") : TN_OK;
  size_t kept = 0;
  for (size_t i = 0; i < queue->upload_count; i++) {
    tn_opencl_upload *upload = &queue->uploads[i];
    if (ask(device, upload->event) == TN_E_TIMEOUT) {
      queue->uploads[kept++] = *upload;
      continue;
    }
    device->api.clReleaseEvent(upload->event);
    queue->upload_bytes -= upload->bytes;
    free(upload->data);
  }
  queue->upload_count = kept;
  return status;
}

tn_status tn_opencl_synchronize(tn_queue *queue, uint64_t deadline_ns) {
  cl_event event = NULL;
  tn_status status = mark(queue, &event);
  if (status != TN_OK) return status;
  status = wait_for(queue->device, event, deadline_ns);
  queue->device->api.clReleaseEvent(event);
  if (status == TN_OK) status = tn_opencl_reap(queue, false);
  return status;
}

tn_status tn_opencl_record(tn_queue *queue, tn_event **event) {
  *event = tn_calloc(1, sizeof **event);
  if (!*event) return tn_opencl_fail(queue->device, TN_E_MEMORY, "out of memory");
  (*event)->device = queue->device;
  tn_status status = mark(queue, &(*event)->event);
  if (status == TN_OK) return TN_OK;
  free(*event);
  *event = NULL;
  return status;
}

tn_status tn_opencl_wait(tn_event *event, uint64_t deadline_ns) {
  return wait_for(event->device, event->event, deadline_ns);
}

void tn_opencl_event_destroy(tn_event *event) {
  if (!event) return;
  event->device->api.clReleaseEvent(event->event);
  free(event);
}

/* ---- counters ---- */

/* Puts the times of a kernel into its op's counter. The device's clock is tied to the host's where the kernel was
 * handed in. */
static void take_measure(tn_queue *queue, const tn_opencl_measure *m) {
  const cl_api *api = &queue->device->api;
  uint64_t queued = 0, begin = 0, end = 0;
  api->clGetEventProfilingInfo(m->event, CL_PROFILING_COMMAND_QUEUED, sizeof queued, &queued, NULL);
  api->clGetEventProfilingInfo(m->event, CL_PROFILING_COMMAND_START, sizeof begin, &begin, NULL);
  api->clGetEventProfilingInfo(m->event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
  if (begin < queued || end < begin) return;
  tn_op_counter *counter = &queue->counting.counters[m->counter];
  uint64_t start_ns = m->enqueued_ns + (begin - queued), end_ns = m->enqueued_ns + (end - queued);
  bool first = counter->cycles == 0; /* no kernel of it was taken yet; cycles are not measured */
  if (first || start_ns < counter->start_ns) counter->start_ns = start_ns;
  if (first || end_ns > counter->end_ns) counter->end_ns = end_ns;
  counter->cycles = 1;
}

tn_status tn_opencl_counters(tn_queue *queue, tn_op_counter *counters, uint32_t *count) {
  tn_device *device = queue->device;
  tn_counting *counting = &queue->counting;
  if (!counting->counters) { /* measuring begins */
    counting->counters = tn_calloc(MAX_COUNTERS, sizeof *counting->counters);
    if (!counting->counters) return tn_opencl_fail(device, TN_E_MEMORY, "no memory for counters");
    counting->capacity = MAX_COUNTERS;
    counting->now_ns = tn_clock_ns;
  }
  tn_status status = tn_opencl_check(device, device->api.clFinish(queue->commands), "waiting for what is counted");
  if (status != TN_OK) return status;
  for (size_t i = 0; i < queue->measure_count; i++) take_measure(queue, &queue->measures[i]);
  drop_measures(queue);
  for (uint32_t i = 0; i < counting->count; i++) counting->counters[i].cycles = 0;
  tn_counting_read(counting, counters, count);
  return TN_OK;
}
