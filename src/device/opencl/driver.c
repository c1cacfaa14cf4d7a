/* The OpenCL driver's table: opening devices, errors, properties. */
#include "device/opencl/driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device/opencl/internal.h"

/* last_error(NULL): of this thread's last enumerate or open. */
static _Thread_local char open_error[512];

tn_status tn_opencl_fail(tn_device *device, tn_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(device ? device->error : open_error, device ? sizeof device->error : sizeof open_error, format, arguments);
  va_end(arguments);
  return status;
}

const char *tn_opencl_error_name(int32_t error) {
  switch (error) {
    case CL_DEVICE_NOT_FOUND: return "device not found";
    case CL_DEVICE_NOT_AVAILABLE: return "device not available";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE: return "memory object allocation failure";
    case CL_OUT_OF_RESOURCES: return "out of resources";
    case CL_OUT_OF_HOST_MEMORY: return "out of host memory";
    case CL_BUILD_PROGRAM_FAILURE: return "build program failure";
    case CL_INVALID_DEVICE: return "invalid device";
    case CL_INVALID_CONTEXT: return "invalid context";
    case CL_INVALID_COMMAND_QUEUE: return "invalid command queue";
    case CL_INVALID_BUFFER_SIZE: return "invalid buffer size";
    default: return "OpenCL error";
  }
}

tn_status tn_opencl_status(int32_t error) {
  switch (error) {
    case CL_SUCCESS: return TN_OK;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE: return TN_E_MEMORY;
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_INVALID_DEVICE:
    case CL_INVALID_CONTEXT:
    case CL_INVALID_COMMAND_QUEUE: return TN_E_DEVICE_LOST;
    default: return TN_E_INTERNAL;
  }
}

tn_status tn_opencl_check(tn_device *device, int32_t error, const char *what) {
  if (error == CL_SUCCESS) return TN_OK;
  return tn_opencl_fail(device, tn_opencl_status(error), "%s: %s (%d)", what, tn_opencl_error_name(error), error);
}

/* ---- open and close ---- */

typedef struct open_options {
  const char *name; /* NULL: any */
  bool cache;
  int specialise; /* -1: as the device gains by it */
  uint64_t most;  /* bytes of one piece of memory, 0: what the device gives */
} open_options;

/* A whole number from 1 on, of at most 18 digits. */
static bool read_bytes(const char *text, uint64_t *bytes) {
  size_t digits = strspn(text, "0123456789");
  if (!digits || digits > 18 || text[digits]) return false;
  *bytes = strtoull(text, NULL, 10);
  return *bytes > 0;
}

static tn_status read_options(const tn_option *options, uint32_t count, open_options *out) {
  *out = (open_options){.cache = true, .specialise = -1};
  for (uint32_t i = 0; i < count; i++) {
    const char *key = options[i].key, *value = options[i].value;
    if (strcmp(key, "name") == 0 && *value) {
      out->name = value;
    } else if (strcmp(key, "cache") == 0 && (strcmp(value, "0") == 0 || strcmp(value, "1") == 0)) {
      out->cache = *value == '1';
    } else if (strcmp(key, "specialise") == 0 && (strcmp(value, "0") == 0 || strcmp(value, "1") == 0)) {
      out->specialise = *value == '1';
    } else if (strcmp(key, "max-allocation") != 0 || !read_bytes(value, &out->most)) {
      return tn_opencl_fail(
          NULL, TN_E_INVALID,
          "%s=%s: options are name=PART OF A DEVICE'S NAME, cache=0|1, specialise=0|1 and max-allocation=BYTES", key,
          value);
    }
  }
  return TN_OK;
}

/* The index-th device whose name has `name` in it. */
static tn_status choose(tn_device *device, uint32_t index, const char *name) {
  tn_opencl_found found[TN_OPENCL_DEVICES];
  uint32_t count = 0, seen = 0;
  char names[300] = "";
  tn_error error = {0};
  tn_status status = tn_opencl_find(&device->api, found, &count, &error);
  if (status != TN_OK) return tn_opencl_fail(NULL, status, "%s", error.message);
  for (uint32_t i = 0; i < count; i++) {
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%sopencl:%u (%s)", i ? ", " : "", i, found[i].name);
    if (name && !strstr(found[i].name, name)) continue;
    if (seen++ != index) continue;
    device->found = found[i];
    return TN_OK;
  }
  if (name && seen)
    return tn_opencl_fail(NULL, TN_E_NOT_FOUND, "'%s' is in the name of %u only; there are %s", name, seen, names);
  if (name) return tn_opencl_fail(NULL, TN_E_NOT_FOUND, "no device has '%s' in its name; there are %s", name, names);
  return tn_opencl_fail(NULL, TN_E_NOT_FOUND, "there is no device %u; there are %s", index, names);
}

static void read_limits(tn_device *device) {
  const cl_api *api = &device->api;
  cl_device id = device->found.device;
  device->alignment = tn_opencl_device_number(api, id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;
  if (device->alignment < 128 || device->alignment & (device->alignment - 1)) device->alignment = 128;
  device->memory_total = tn_opencl_device_number(api, id, CL_DEVICE_GLOBAL_MEM_SIZE);
  device->max_allocation = tn_opencl_device_number(api, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  if (device->max_allocation > device->memory_total) device->max_allocation = device->memory_total;
  device->local_memory = tn_opencl_device_number(api, id, CL_DEVICE_LOCAL_MEM_SIZE);
  device->exact_division =
      tn_opencl_device_number(api, id, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
}

static bool is_processor(tn_device *device) {
  return tn_opencl_device_number(&device->api, device->found.device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU;
}

static tn_status start(tn_device *device) {
  const cl_api *api = &device->api;
  const intptr_t properties[] = {CL_CONTEXT_PLATFORM, (intptr_t)device->found.platform, 0};
  int32_t code;
  read_limits(device);
  device->context = api->clCreateContext(properties, 1, &device->found.device, NULL, NULL, &code);
  if (device->context) device->own = api->clCreateCommandQueue(device->context, device->found.device, 0, &code);
  if (!device->own)
    return tn_opencl_fail(NULL, tn_opencl_status(code), "%s: no context or queue: %s (%d)", device->found.name,
                          tn_opencl_error_name(code), code);
  return TN_OK;
}

static void close_device(tn_device *device) {
  if (!device) return;
  tn_opencl_free_all(device);
  tn_opencl_drop_programs(device);
  if (device->own) device->api.clReleaseCommandQueue(device->own);
  if (device->context) device->api.clReleaseContext(device->context);
  tn_mutex_destroy(device->mutex);
  free(device);
}

static tn_status open_device(uint32_t index, const tn_option *options, uint32_t option_count, tn_device **device) {
  open_options wanted;
  tn_error error = {0};
  *device = NULL;
  tn_status status = read_options(options, option_count, &wanted);
  if (status != TN_OK) return status;
  tn_device *made = tn_calloc(1, sizeof *made);
  if (made) made->mutex = tn_mutex_create();
  if (!made || !made->mutex) {
    free(made);
    return tn_opencl_fail(NULL, TN_E_MEMORY, "out of memory");
  }
  status = tn_opencl_load(&made->api, &error);
  if (status != TN_OK) tn_opencl_fail(NULL, status, "%s", error.message);
  if (status == TN_OK) status = choose(made, index, wanted.name);
  made->cached = wanted.cache;
  if (status == TN_OK) status = start(made);
  if (status == TN_OK) made->specialise = wanted.specialise < 0 ? !is_processor(made) : wanted.specialise;
  if (status == TN_OK && wanted.most && wanted.most < made->max_allocation) made->max_allocation = wanted.most;
  if (status != TN_OK) {
    close_device(made);
    return status;
  }
  *device = made;
  return TN_OK;
}

static tn_status enumerate_devices(uint32_t *count) {
  cl_api api;
  tn_opencl_found found[TN_OPENCL_DEVICES];
  tn_error error = {0};
  *count = 0;
  tn_opencl_fail(NULL, TN_OK, "%s", "");
  tn_status status = tn_opencl_load(&api, &error);
  if (status == TN_OK) status = tn_opencl_find(&api, found, count, &error);
  if (status != TN_OK) tn_opencl_fail(NULL, status, "%s", error.message);
  return TN_OK;
}

static const char *last_error(tn_device *device) {
  return device ? device->error : open_error;
}

/* ---- properties; "threads" are the host's processors that the device keeps busy ---- */

/* What is left: of the device's memory, and where that is the host's, of the host's. */
static uint64_t memory_free(tn_device *device) {
  tn_mutex_lock(device->mutex);
  uint64_t left = device->memory_total > device->allocated ? device->memory_total - device->allocated : 0;
  tn_mutex_unlock(device->mutex);
  uint64_t host = is_processor(device) ? tn_machine_memory_free() : UINT64_MAX;
  return left < host ? left : host;
}

static tn_status get_property(tn_device *device, const char *name, tn_property *value) {
  uint64_t units = tn_opencl_device_number(&device->api, device->found.device, CL_DEVICE_MAX_COMPUTE_UNITS);
  const tn_named_property properties[] = {{"name", device->found.name, 0},
                                          {"kv", "paged", 0},
                                          {"rows", "any", 0},
                                          {"memory_total", NULL, device->memory_total},
                                          {"memory_free", NULL, memory_free(device)},
                                          {"max_allocation", NULL, device->max_allocation},
                                          {"alignment", NULL, device->alignment},
                                          {"cores", NULL, units},
                                          {"threads", NULL, is_processor(device) ? units : 1},
                                          {"batch_invariant", NULL, 1}};
  tn_status status = tn_property_find(properties, TN_COUNT(properties), name, value);
  return status == TN_OK ? TN_OK : tn_opencl_fail(device, TN_E_NOT_FOUND, "there is no property %s", name);
}

static void *host_pointer(tn_device *device, tn_buffer *buffer) {
  (void)device;
  (void)buffer;
  return NULL;
}

/* ---- the table ---- */

static const tn_driver driver = {.size = sizeof(tn_driver),
                                 .abi_min = TN_DEVICE_ABI,
                                 .abi_max = TN_DEVICE_ABI,
                                 .name = "opencl",
                                 .summary = "GPUs, and whatever else has OpenCL 1.2",
                                 .enumerate = enumerate_devices,
                                 .open = open_device,
                                 .close = close_device,
                                 .last_error = last_error,
                                 .get = get_property,
                                 .alloc = tn_opencl_alloc,
                                 .free = tn_opencl_free,
                                 .host_pointer = host_pointer,
                                 .queue_create = tn_opencl_queue_create,
                                 .queue_destroy = tn_opencl_queue_destroy,
                                 .copy_in = tn_opencl_copy_in,
                                 .copy_out = tn_opencl_copy_out,
                                 .copy = tn_opencl_copy,
                                 .fill = tn_opencl_fill,
                                 .execute = tn_opencl_execute,
                                 .synchronize = tn_opencl_synchronize,
                                 .weight_layout = tn_opencl_weight_layout,
                                 .weight_pack = tn_opencl_weight_pack,
                                 .state_layout = tn_opencl_state_layout,
                                 .supports = tn_opencl_supports,
                                 .prepare = tn_opencl_prepare,
                                 .release = tn_opencl_release,
                                 .record = tn_opencl_record,
                                 .wait = tn_opencl_wait,
                                 .event_destroy = tn_opencl_event_destroy,
                                 .counters = tn_opencl_counters};

const tn_driver *tn_opencl_driver(void) {
  return &driver;
}
