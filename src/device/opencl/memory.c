/* Device memory: buffers, copies, and weights and states in the plain layouts of driver.h. No memory is ever mapped to
 * the host.
 *
 * What the host hands in is free again when a call returns: small pieces are copied and kept until the device has read
 * them, large ones are waited for. */
#include <stdlib.h>
#include <string.h>
#include "device/opencl/internal.h"

#define COPIED_BYTES ((uint64_t)1 << 20)   /* larger copies are waited for */
#define WAITING_BYTES ((uint64_t)64 << 20) /* of uploads under way; more are waited for */
#define MOST_BYTES ((uint64_t)1 << TN_OPENCL_OFFSET_BITS)

tn_status tn_opencl_inside(tn_device *device, const tn_buffer *buffer, uint64_t offset, uint64_t bytes) {
  if (buffer && offset <= buffer->bytes && bytes <= buffer->bytes - offset) return TN_OK;
  return tn_opencl_fail(device, TN_E_INVALID, "%llu bytes at offset %llu do not lie in a buffer of %llu",
                        (unsigned long long)bytes, (unsigned long long)offset,
                        (unsigned long long)(buffer ? buffer->bytes : 0));
}

/* ---- buffers ---- */

/* Gives `memory` a number. NULL when memory is out. The caller holds the mutex. */
static tn_buffer *number_buffer(tn_device *device, cl_mem memory, uint64_t bytes) {
  tn_buffer *buffer = tn_calloc(1, sizeof *buffer);
  if (!buffer) return NULL;
  size_t number = 1;
  while (number < device->buffer_count && device->buffers[number]) number++;
  while (device->buffer_count <= number) {
    if (TN_PUSH(device->buffers, device->buffer_count, device->buffer_capacity)) continue;
    free(buffer);
    return NULL;
  }
  *buffer = (tn_buffer){.memory = memory, .bytes = bytes, .number = (uint32_t)number};
  device->buffers[number] = buffer;
  return buffer;
}

static tn_status zero(tn_device *device, cl_mem memory, uint64_t bytes) {
  const uint32_t nothing = 0;
  int32_t error =
      device->api.clEnqueueFillBuffer(device->own, memory, &nothing, sizeof nothing, 0, bytes, 0, NULL, NULL);
  if (error == CL_SUCCESS) error = device->api.clFinish(device->own);
  return tn_opencl_check(device, error, "zeroing memory");
}

tn_status tn_opencl_alloc(tn_device *device, uint64_t bytes, tn_buffer **buffer) {
  *buffer = NULL;
  uint64_t rounded = bytes <= MOST_BYTES ? tn_round_up(bytes ? bytes : 1, device->alignment) : UINT64_MAX;
  tn_mutex_lock(device->mutex);
  int32_t error = CL_INVALID_BUFFER_SIZE;
  cl_mem memory = NULL;
  bool fits = bytes <= device->max_allocation && rounded <= device->memory_total &&
              device->allocated <= device->memory_total - rounded;
  if (fits) memory = device->api.clCreateBuffer(device->context, CL_MEM_READ_WRITE, rounded, NULL, &error);
  tn_status status = TN_OK;
  if (!memory) {
    status = tn_opencl_fail(device, tn_opencl_status(error),
                            "%llu bytes wanted, %llu of %llu are taken, one piece may have %llu",
                            (unsigned long long)bytes, (unsigned long long)device->allocated,
                            (unsigned long long)device->memory_total, (unsigned long long)device->max_allocation);
  } else {
    status = zero(device, memory, rounded);
    if (status == TN_OK && !(*buffer = number_buffer(device, memory, bytes)))
      status = tn_opencl_fail(device, TN_E_MEMORY, "out of memory");
    if (status == TN_OK)
      device->allocated += rounded;
    else
      device->api.clReleaseMemObject(memory);
  }
  tn_mutex_unlock(device->mutex);
  return status;
}

tn_buffer *tn_opencl_part(tn_device *device, const tn_buffer *whole, uint64_t offset, uint64_t bytes) {
  int32_t error;
  if (offset % device->alignment || !bytes) return NULL;
  const cl_buffer_region region = {offset, bytes};
  cl_mem memory =
      device->api.clCreateSubBuffer(whole->memory, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
  if (!memory) return NULL;
  tn_mutex_lock(device->mutex);
  tn_buffer *part = number_buffer(device, memory, bytes);
  if (part) part->is_part = true;
  tn_mutex_unlock(device->mutex);
  if (!part) device->api.clReleaseMemObject(memory);
  return part;
}

void tn_opencl_free(tn_device *device, tn_buffer *buffer) {
  if (!buffer) return;
  tn_mutex_lock(device->mutex);
  device->buffers[buffer->number] = NULL;
  if (!buffer->is_part) device->allocated -= tn_round_up(buffer->bytes ? buffer->bytes : 1, device->alignment);
  tn_mutex_unlock(device->mutex);
  device->api.clReleaseMemObject(buffer->memory); /* the runtime keeps it while commands use it */
  free(buffer);
}

void tn_opencl_free_all(tn_device *device) {
  for (size_t i = 1; i < device->buffer_count; i++)
    if (device->buffers[i] && device->buffers[i]->is_part) tn_opencl_free(device, device->buffers[i]);
  for (size_t i = 1; i < device->buffer_count; i++) tn_opencl_free(device, device->buffers[i]);
  free(device->buffers);
}

/* ---- copies ---- */

tn_status tn_opencl_upload_own(tn_queue *queue, cl_mem to, uint64_t offset, void *data, uint64_t bytes) {
  tn_device *device = queue->device;
  tn_status status = tn_opencl_reap(queue, queue->upload_bytes > WAITING_BYTES);
  tn_opencl_upload *upload = NULL;
  if (status == TN_OK) {
    upload = TN_PUSH(queue->uploads, queue->upload_count, queue->upload_capacity);
    if (!upload) status = tn_opencl_fail(device, TN_E_MEMORY, "out of memory");
  }
  if (upload) {
    cl_event event = NULL;
    int32_t error = device->api.clEnqueueWriteBuffer(queue->commands, to, 0, offset, bytes, data, 0, NULL, &event);
    status = tn_opencl_check(device, error, "copying to the device");
    *upload = (tn_opencl_upload){event, data, bytes};
    if (status != TN_OK) queue->upload_count--;
  }
  if (status == TN_OK) {
    queue->upload_bytes += bytes;
    return TN_OK;
  }
  free(data);
  return status;
}

tn_status tn_opencl_copy_in(tn_queue *queue, tn_buffer *to, uint64_t offset, const void *from, uint64_t bytes) {
  tn_device *device = queue->device;
  tn_status status = tn_opencl_inside(device, to, offset, bytes);
  if (status != TN_OK || !bytes) return status;
  void *copy = bytes <= COPIED_BYTES ? tn_copy_text(from, bytes) : NULL;
  if (copy) return tn_opencl_upload_own(queue, to->memory, offset, copy, bytes);
  int32_t error = device->api.clEnqueueWriteBuffer(queue->commands, to->memory, 1, offset, bytes, from, 0, NULL, NULL);
  return tn_opencl_check(device, error, "copying to the device");
}

tn_status tn_opencl_copy_out(tn_queue *queue, void *to, tn_buffer *from, uint64_t offset, uint64_t bytes) {
  tn_device *device = queue->device;
  tn_status status = tn_opencl_inside(device, from, offset, bytes);
  if (status != TN_OK || !bytes) return status;
  int32_t error = device->api.clEnqueueReadBuffer(queue->commands, from->memory, 0, offset, bytes, to, 0, NULL, NULL);
  return tn_opencl_check(device, error, "copying from the device");
}

/* By way of memory that goes when it is over: source and destination overlap. */
static int32_t copy_overlapping(tn_queue *queue, cl_mem memory, uint64_t to, uint64_t from, uint64_t bytes) {
  const cl_api *api = &queue->device->api;
  int32_t error;
  cl_mem between = api->clCreateBuffer(queue->device->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
  if (!between) return error;
  error = api->clEnqueueCopyBuffer(queue->commands, memory, between, from, 0, bytes, 0, NULL, NULL);
  if (error == CL_SUCCESS)
    error = api->clEnqueueCopyBuffer(queue->commands, between, memory, 0, to, bytes, 0, NULL, NULL);
  api->clReleaseMemObject(between);
  return error;
}

tn_status tn_opencl_copy(tn_queue *queue, tn_buffer *to, uint64_t to_offset, tn_buffer *from, uint64_t from_offset,
                         uint64_t bytes) {
  tn_device *device = queue->device;
  tn_status status = tn_opencl_inside(device, to, to_offset, bytes);
  if (status == TN_OK) status = tn_opencl_inside(device, from, from_offset, bytes);
  if (status != TN_OK || !bytes) return status;
  bool overlaps = to == from && to_offset < from_offset + bytes && from_offset < to_offset + bytes;
  int32_t error = overlaps ? copy_overlapping(queue, to->memory, to_offset, from_offset, bytes)
                           : device->api.clEnqueueCopyBuffer(queue->commands, from->memory, to->memory, from_offset,
                                                             to_offset, bytes, 0, NULL, NULL);
  return tn_opencl_check(device, error, "copying within the device");
}

tn_status tn_opencl_fill(tn_queue *queue, tn_buffer *to, uint64_t offset, uint8_t byte, uint64_t bytes) {
  tn_device *device = queue->device;
  tn_status status = tn_opencl_inside(device, to, offset, bytes);
  if (status != TN_OK || !bytes) return status;
  int32_t error = device->api.clEnqueueFillBuffer(queue->commands, to->memory, &byte, 1, offset, bytes, 0, NULL, NULL);
  return tn_opencl_check(device, error, "filling memory");
}

/* ---- weights and states: the plain layouts, blocks as files have them ---- */

tn_status tn_opencl_weight_layout(tn_device *device, const tn_weight_desc *desc, tn_weight_layout *layout) {
  tn_status status = tn_plain_layout(desc, layout);
  if (status != TN_OK)
    return tn_opencl_fail(device, status, "a weight of dtype %u, rank %u can't be laid out", desc->dtype, desc->rank);
  layout->alignment = device->alignment; /* so that it can be an object of its own */
  return TN_OK;
}

tn_status tn_opencl_weight_pack(tn_queue *queue, const tn_weight_desc *desc, const tn_weight_layout *layout,
                                const tn_weight_source *sources, uint32_t source_count, tn_buffer *to,
                                uint64_t offset) {
  tn_device *device = queue->device;
  tn_weight_layout own = {.size = sizeof own};
  tn_status status = tn_opencl_weight_layout(device, desc, &own);
  if (status == TN_OK && (layout->id != own.id || layout->bytes != own.bytes))
    status = tn_opencl_fail(device, TN_E_INVALID, "this is not the weight's layout");
  if (status == TN_OK) status = tn_opencl_inside(device, to, offset, own.bytes);
  if (status == TN_OK && offset % own.alignment)
    status = tn_opencl_fail(device, TN_E_INVALID, "packed weights begin at multiples of %llu",
                            (unsigned long long)own.alignment);
  if (status != TN_OK) return status;
  void *packed = tn_calloc(1, own.bytes ? own.bytes : 1);
  if (!packed)
    return tn_opencl_fail(device, TN_E_MEMORY, "out of memory for %llu bytes on the way to the device",
                          (unsigned long long)own.bytes);
  status = tn_plain_pack(desc, sources, source_count, packed);
  if (status == TN_OK && own.bytes) return tn_opencl_upload_own(queue, to->memory, offset, packed, own.bytes);
  free(packed);
  return status == TN_OK ? TN_OK : tn_opencl_fail(device, status, "the sources do not make up the weight");
}

tn_status tn_opencl_state_layout(tn_device *device, const tn_state_desc *desc, tn_state_layout *layout) {
  tn_status status = tn_plain_state_layout(desc, layout);
  return status ? tn_opencl_fail(device, status, "KV of this type and shape has no plain page") : TN_OK;
}
