/* Finding the OpenCL library of the system and the devices that its drivers bring. */
#ifndef TENON_DEVICE_OPENCL_LIBRARY_H
#define TENON_DEVICE_OPENCL_LIBRARY_H

#include "base/error.h"
#include "device/opencl/cl_api.h"

#define TN_OPENCL_DEVICES 64u /* more are not looked at */
#define TN_OPENCL_NAME 96u

typedef struct tn_opencl_found {
  cl_platform platform;
  cl_device device;
  char name[TN_OPENCL_NAME];
} tn_opencl_found;

/* Loads the library and its functions into *api. It stays loaded: drivers behind it have threads of their own.
 * TN_E_NOT_FOUND with what to install where there is none. */
tn_status tn_opencl_load(cl_api *api, tn_error *error);

/* The devices of all platforms that can compile and are little endian, in the platforms' order, at most
 * TN_OPENCL_DEVICES. With none, TN_E_NOT_FOUND and what is missing. */
tn_status tn_opencl_find(const cl_api *api, tn_opencl_found *found, uint32_t *count, tn_error *error);

/* A text property, cut at `capacity`, blanks at its ends left out; "" where it can't be had. */
void tn_opencl_device_text(const cl_api *api, cl_device device, uint32_t what, char *out, size_t capacity);
void tn_opencl_platform_text(const cl_api *api, cl_platform platform, uint32_t what, char *out, size_t capacity);
/* A number of 4 or 8 bytes; 0 where it can't be had. */
uint64_t tn_opencl_device_number(const cl_api *api, cl_device device, uint32_t what);

#endif
