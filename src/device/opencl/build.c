/* Building kernels: all of them when the first program is prepared, linear's once more for each format of weights where
 * the device gains by it (a GPU's compiler makes less of a kernel that can do every format). What is built is kept on
 * disk in the form the device's compiler made of it.
 *
 * A file of the cache: | head | key: what it was made of, as text | the compiler's binary |. The head seals both; a
 * file that isn't exactly what is looked for is as good as none, and written anew. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/log.h"
#include "device/opencl/internal.h"

#define CACHE_VERSION 1u
#define MOST_BINARY ((size_t)64 << 20)
#define LOG_BYTES 3000u /* of a compiler's messages are shown */

static const char magic[8] = {'T', 'N', 'O', 'P', 'E', 'N', 'C', 'L'};

typedef struct cache_head {
  char magic[8];
  uint64_t key_bytes, binary_bytes, seal;
} cache_head;

/* Everything of kernels/, one file behind the other (build.cmake). */
static const unsigned char kernels_text[] = {
#include "device/opencl/kernels.inc"
};

static const char *const kernel_names[TN_OPENCL_KERNEL_COUNT] = {
#define X(NAME, name, x, y, z) #name,
    TN_OPENCL_KERNELS(X)
#undef X
};

/* The numbers that the kernels share with device.h. */
static void put_numbers(tn_buf *text) {
  const struct {
    const char *name;
    uint32_t number;
  } numbers[] = {{"PAGE_SLOTS", TN_PAGE_SLOTS},
                 {"ACTIVATION_SILU", TN_ACTIVATION_SILU},
                 {"ACTIVATION_GELU_TANH", TN_ACTIVATION_GELU_TANH},
                 {"ACTIVATION_GELU", TN_ACTIVATION_GELU},
                 {"ACTIVATION_RELU", TN_ACTIVATION_RELU},
                 {"ACTIVATION_SIGMOID", TN_ACTIVATION_SIGMOID},
                 {"ACTIVATION_TANH", TN_ACTIVATION_TANH},
                 {"NORM_LAYER", TN_NORM_LAYER},
                 {"ROPE_HALF", TN_ROPE_HALF},
                 {"EMBED_TOKEN", TN_EMBED_TOKEN},
                 {"MOE_SOFTMAX", TN_MOE_SOFTMAX},
                 {"MOE_SIGMOID", TN_MOE_SIGMOID},
                 {"MOE_SOFTMAX_OF_CHOSEN", TN_MOE_SOFTMAX_OF_CHOSEN},
#define X(number, NAME, name, elements, bytes) {"DTYPE_" #NAME, number},
                 TN_DTYPES(X)
#undef X
  };
  for (size_t i = 0; i < TN_COUNT(numbers); i++)
    tn_buf_printf(text, "#define %s %u\n", numbers[i].name, numbers[i].number);
  tn_buf_puts(text, "#line 1 \"kernels\"\n");
}

/* ---- the cache ---- */

static uint64_t seal_of(const char *key, size_t key_bytes, const void *binary, size_t binary_bytes) {
  return tn_hash_bytes(binary, binary_bytes, tn_hash_bytes(key, key_bytes, CACHE_VERSION));
}

static void put_key(const tn_device *device, const tn_buf *source, const char *options, tn_buf *key) {
  const cl_api *api = &device->api;
  char platform[128], version[128], driver[128], name[128];
  tn_opencl_platform_text(api, device->found.platform, CL_PLATFORM_VERSION, platform, sizeof platform);
  tn_opencl_device_text(api, device->found.device, CL_DEVICE_VERSION, version, sizeof version);
  tn_opencl_device_text(api, device->found.device, CL_DRIVER_VERSION, driver, sizeof driver);
  tn_opencl_device_text(api, device->found.device, CL_DEVICE_NAME, name, sizeof name);
  tn_buf_printf(key, "%s\n%s\n%s\n%s\n%s\n%zu bytes, %016llx\n", platform, version, driver, name, options, source->size,
                (unsigned long long)tn_hash_bytes(source->data, source->size, 0));
}

/* The program made of the file at `path`, or NULL. */
static cl_program from_cache(tn_device *device, const char *path, const tn_buf *key, const char *options) {
  const cl_api *api = &device->api;
  tn_error error = {0};
  char *data = NULL;
  size_t size = 0;
  cl_program program = NULL;
  cache_head head;
  if (tn_file_read(path, MOST_BINARY, &data, &size, &error) != TN_OK) return NULL;
  bool whole = size >= sizeof head;
  if (whole) memcpy(&head, data, sizeof head);
  whole = whole && !memcmp(head.magic, magic, sizeof magic) && head.key_bytes == key->size &&
          size - sizeof head >= key->size && head.binary_bytes == size - sizeof head - key->size &&
          !memcmp(data + sizeof head, key->data, key->size);
  const unsigned char *binary = whole ? (const unsigned char *)data + sizeof head + key->size : NULL;
  if (whole && seal_of(key->data, key->size, binary, head.binary_bytes) == head.seal) {
    int32_t code, fault;
    const size_t bytes = head.binary_bytes;
    program = api->clCreateProgramWithBinary(device->context, 1, &device->found.device, &bytes, &binary, &fault, &code);
    if (program && api->clBuildProgram(program, 1, &device->found.device, options, NULL, NULL) != CL_SUCCESS) {
      api->clReleaseProgram(program);
      program = NULL;
    }
  }
  free(data);
  return program;
}

/* A cache that can't be written is no failure: the next start builds again. */
static void to_cache(tn_device *device, cl_program program, const char *folder, const char *path, const tn_buf *key) {
  const cl_api *api = &device->api;
  size_t bytes = 0;
  tn_error error = {0};
  if (api->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) != CL_SUCCESS || !bytes ||
      bytes > MOST_BINARY)
    return;
  tn_buf file;
  tn_buf_init(&file);
  cache_head head = {.key_bytes = key->size, .binary_bytes = bytes};
  memcpy(head.magic, magic, sizeof magic);
  unsigned char *binary = tn_calloc(1, bytes);
  if (binary && api->clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS) {
    head.seal = seal_of(key->data, key->size, binary, bytes);
    tn_buf_append(&file, &head, sizeof head);
    tn_buf_append(&file, key->data, key->size);
    tn_buf_append(&file, binary, bytes);
    tn_status status = file.failed ? TN_E_MEMORY : tn_folder_make(folder, &error);
    if (status == TN_OK) status = tn_file_write(path, file.data, file.size, &error);
    if (status != TN_OK) tn_log(TN_LOG_DEBUG, "opencl: the built kernels are not kept: %s", error.message);
  }
  free(binary);
  tn_buf_finish(&file);
}

/* ---- building ---- */

static tn_status build_failed(tn_device *device, cl_program program, int32_t code, tn_error *error) {
  char log[LOG_BYTES + 1] = "";
  size_t needed = 0;
  const cl_api *api = &device->api;
  api->clGetProgramBuildInfo(program, device->found.device, CL_PROGRAM_BUILD_LOG, 0, NULL, &needed);
  char *whole = tn_calloc(1, needed + 1);
  if (whole && api->clGetProgramBuildInfo(program, device->found.device, CL_PROGRAM_BUILD_LOG, needed, whole, NULL) ==
                   CL_SUCCESS)
    snprintf(log, sizeof log, "%s", whole);
  free(whole);
  tn_log(TN_LOG_ERROR, "opencl: %s: its compiler says:\n%s", device->found.name, log);
  return tn_fail(error, TN_E_UNSUPPORTED, "%s: its compiler refuses the kernels (%s, %d): %s", device->found.name,
                 tn_opencl_error_name(code), code, log);
}

static tn_status from_source(tn_device *device, const tn_buf *source, const char *options, cl_program *made,
                             tn_error *error) {
  const cl_api *api = &device->api;
  int32_t code;
  const char *text = source->data;
  cl_program program = api->clCreateProgramWithSource(device->context, 1, &text, &source->size, &code);
  if (program) code = api->clBuildProgram(program, 1, &device->found.device, options, NULL, NULL);
  if (program && code == CL_SUCCESS) {
    *made = program;
    return TN_OK;
  }
  tn_status status = program ? build_failed(device, program, code, error)
                             : tn_fail(error, tn_opencl_status(code), "no program: %s", tn_opencl_error_name(code));
  if (program) api->clReleaseProgram(program);
  return status;
}

static tn_status make_kernels(tn_device *device, tn_opencl_program *made, bool all, tn_error *error) {
  for (uint32_t i = 0; i < TN_OPENCL_KERNEL_COUNT; i++) {
    int32_t code;
    if (!all && i != TN_OPENCL_LINEAR_ROWS && i != TN_OPENCL_LINEAR_TILE) continue;
    made->kernels[i] = device->api.clCreateKernel(made->program, kernel_names[i], &code);
    if (!made->kernels[i])
      return tn_fail(error, TN_E_INTERNAL, "%s: no kernel %s: %s (%d)", device->found.name, kernel_names[i],
                     tn_opencl_error_name(code), code);
  }
  return TN_OK;
}

static tn_status build(tn_device *device, uint32_t number, const char *folder, tn_error *error) {
  tn_opencl_program *made = &device->programs[number];
  tn_buf source, key;
  char path[4200], options[120], weights[32] = "";
  if (number != TN_OPENCL_ALL) snprintf(weights, sizeof weights, " -DWEIGHTS=%u", number);
  snprintf(options, sizeof options, "-cl-std=CL1.2%s%s",
           device->exact_division ? " -cl-fp32-correctly-rounded-divide-sqrt" : "", weights);
  tn_buf_init(&source);
  tn_buf_init(&key);
  put_numbers(&source);
  tn_buf_append(&source, kernels_text, sizeof kernels_text);
  put_key(device, &source, options, &key);
  tn_status status = source.failed || key.failed ? tn_fail(error, TN_E_MEMORY, "out of memory") : TN_OK;
  if (status == TN_OK && folder) {
    snprintf(path, sizeof path, "%s/%016llx.bin", folder, (unsigned long long)tn_hash_bytes(key.data, key.size, 0));
    made->program = from_cache(device, path, &key, options);
  }
  if (status == TN_OK && !made->program) {
    status = from_source(device, &source, options, &made->program, error);
    if (status == TN_OK && folder) to_cache(device, made->program, folder, path, &key);
  }
  if (status == TN_OK) status = make_kernels(device, made, number == TN_OPENCL_ALL, error);
  tn_buf_finish(&source);
  tn_buf_finish(&key);
  return status;
}

static void drop_program(tn_device *device, tn_opencl_program *program) {
  for (uint32_t i = 0; i < TN_OPENCL_KERNEL_COUNT; i++)
    if (program->kernels[i]) device->api.clReleaseKernel(program->kernels[i]);
  if (program->program) device->api.clReleaseProgram(program->program);
  *program = (tn_opencl_program){0};
}

tn_status tn_opencl_build(tn_device *device, uint32_t number) {
  char folder[4096];
  tn_error error = {0};
  if (device->programs[number].program) return TN_OK;
  bool cached = device->cached && tn_cache_folder(folder, sizeof folder - 8);
  if (cached) strcat(folder, "/opencl");
  tn_status status = build(device, number, cached ? folder : NULL, &error);
  if (status == TN_OK) return TN_OK;
  drop_program(device, &device->programs[number]);
  return tn_opencl_fail(device, status, "%s", error.message);
}

void tn_opencl_drop_programs(tn_device *device) {
  for (uint32_t i = 0; i < TN_COUNT(device->programs); i++) drop_program(device, &device->programs[i]);
}
