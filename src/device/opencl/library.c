/* Finding OpenCL (see library.h). */
#include "device/opencl/library.h"

#include <stdio.h>
#include <string.h>
#include "base/os.h"

#define PLATFORMS 16u

tn_status tn_opencl_load(cl_api *api, tn_error *error) {
  tn_error why = {0};
  void *library = tn_library_open("libOpenCL.so.1", &why);
  if (!library) library = tn_library_open("libOpenCL.so", &why);
  if (!library)
    return tn_fail(error, TN_E_NOT_FOUND,
                   "there is no OpenCL on this machine (libOpenCL.so.1): install a loader (Debian: ocl-icd-libopencl1) "
                   "and your device's driver (the vendor's, or pocl-opencl-icd for the processor)");
  const struct {
    const char *name;
    size_t at;
  } functions[] = {
#define X(result, name, parameters) {#name, offsetof(cl_api, name)},
      CL_FUNCTIONS(X)
#undef X
  };
  for (size_t i = 0; i < TN_COUNT(functions); i++) {
    void *symbol = tn_library_symbol(library, functions[i].name);
    if (!symbol)
      return tn_fail(error, TN_E_UNSUPPORTED, "libOpenCL.so.1 lacks %s: OpenCL 1.2 is needed", functions[i].name);
    memcpy((char *)api + functions[i].at, &symbol, sizeof symbol);
  }
  return TN_OK;
}

static void trim(char *text) {
  size_t begin = strspn(text, " \t\n"), end = strlen(text);
  while (end > begin && strchr(" \t\n", text[end - 1])) end--;
  memmove(text, text + begin, end - begin);
  text[end - begin] = 0;
}

void tn_opencl_device_text(const cl_api *api, cl_device device, uint32_t what, char *out, size_t capacity) {
  char text[1024] = "";
  if (api->clGetDeviceInfo(device, what, sizeof text - 1, text, NULL) != CL_SUCCESS) text[0] = 0;
  trim(text);
  snprintf(out, capacity, "%s", text);
}

void tn_opencl_platform_text(const cl_api *api, cl_platform platform, uint32_t what, char *out, size_t capacity) {
  char text[1024] = "";
  if (api->clGetPlatformInfo(platform, what, sizeof text - 1, text, NULL) != CL_SUCCESS) text[0] = 0;
  trim(text);
  snprintf(out, capacity, "%s", text);
}

uint64_t tn_opencl_device_number(const cl_api *api, cl_device device, uint32_t what) {
  uint64_t value = 0; /* little endian: a number of 4 bytes fills the lower half */
  if (api->clGetDeviceInfo(device, what, sizeof value, &value, NULL) != CL_SUCCESS) return 0;
  return value;
}

/* "OpenCL 1.2 ..." or later, with a compiler. */
static bool is_usable(const cl_api *api, cl_device device) {
  char version[64];
  unsigned major = 0, minor = 0;
  tn_opencl_device_text(api, device, CL_DEVICE_VERSION, version, sizeof version);
  if (sscanf(version, "OpenCL %u.%u", &major, &minor) != 2 || major * 10 + minor < 12) return false;
  return tn_opencl_device_number(api, device, CL_DEVICE_AVAILABLE) &&
         tn_opencl_device_number(api, device, CL_DEVICE_COMPILER_AVAILABLE) &&
         tn_opencl_device_number(api, device, CL_DEVICE_ENDIAN_LITTLE);
}

static void add_devices(const cl_api *api, cl_platform platform, tn_opencl_found *found, uint32_t *count) {
  cl_device devices[TN_OPENCL_DEVICES];
  uint32_t present = 0;
  if (api->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, TN_OPENCL_DEVICES, devices, &present) != CL_SUCCESS) return;
  if (present > TN_OPENCL_DEVICES) present = TN_OPENCL_DEVICES;
  for (uint32_t i = 0; i < present && *count < TN_OPENCL_DEVICES; i++) {
    if (!is_usable(api, devices[i])) continue;
    tn_opencl_found *one = &found[(*count)++];
    *one = (tn_opencl_found){.platform = platform, .device = devices[i]};
    tn_opencl_device_text(api, devices[i], CL_DEVICE_NAME, one->name, sizeof one->name);
  }
}

tn_status tn_opencl_find(const cl_api *api, tn_opencl_found *found, uint32_t *count, tn_error *error) {
  cl_platform platforms[PLATFORMS];
  uint32_t present = 0;
  char names[200] = "";
  *count = 0;
  if (api->clGetPlatformIDs(PLATFORMS, platforms, &present) != CL_SUCCESS) present = 0;
  if (!present)
    return tn_fail(error, TN_E_NOT_FOUND,
                   "OpenCL's loader is there, but no driver (nothing usable in /etc/OpenCL/vendors): install your "
                   "device's (the vendor's, or pocl-opencl-icd for the processor)");
  if (present > PLATFORMS) present = PLATFORMS;
  for (uint32_t i = 0; i < present; i++) {
    char name[64];
    size_t used = strlen(names);
    tn_opencl_platform_text(api, platforms[i], CL_PLATFORM_NAME, name, sizeof name);
    snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", name);
    add_devices(api, platforms[i], found, count);
  }
  if (*count) return TN_OK;
  return tn_fail(error, TN_E_NOT_FOUND,
                 "OpenCL's drivers (%s) see no device of OpenCL 1.2 with a compiler: is it there, and may you use it?",
                 names);
}
