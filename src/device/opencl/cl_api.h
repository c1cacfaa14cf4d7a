/* The part of OpenCL 1.2 that this driver calls, declared here so that building needs no headers of an SDK (Khronos
 * OpenCL specification 1.2; names and numbers are the standard's). The library is found at run time, see library.h. */
#ifndef TENON_DEVICE_OPENCL_CL_API_H
#define TENON_DEVICE_OPENCL_CL_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct cl_platform_object *cl_platform;
typedef struct cl_device_object *cl_device;
typedef struct cl_context_object *cl_context;
typedef struct cl_queue_object *cl_queue;
typedef struct cl_mem_object *cl_mem;
typedef struct cl_program_object *cl_program;
typedef struct cl_kernel_object *cl_kernel;
typedef struct cl_event_object *cl_event;

#define CL_SUCCESS 0
#define CL_DEVICE_NOT_FOUND (-1)
#define CL_DEVICE_NOT_AVAILABLE (-2)
#define CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)
#define CL_OUT_OF_RESOURCES (-5)
#define CL_OUT_OF_HOST_MEMORY (-6)
#define CL_MEM_COPY_OVERLAP (-8)
#define CL_BUILD_PROGRAM_FAILURE (-11)
#define CL_INVALID_DEVICE (-33)
#define CL_INVALID_CONTEXT (-34)
#define CL_INVALID_COMMAND_QUEUE (-36)
#define CL_INVALID_BUFFER_SIZE (-61)
#define CL_PLATFORM_NOT_FOUND_KHR (-1001)

#define CL_PLATFORM_VERSION 0x0901u
#define CL_PLATFORM_NAME 0x0902u
#define CL_CONTEXT_PLATFORM 0x1084
#define CL_DEVICE_TYPE_CPU (UINT64_C(1) << 1)
#define CL_DEVICE_TYPE_ALL UINT64_C(0xffffffff)
#define CL_DEVICE_TYPE 0x1000u
#define CL_DEVICE_MAX_COMPUTE_UNITS 0x1002u
#define CL_DEVICE_MAX_WORK_GROUP_SIZE 0x1004u
#define CL_DEVICE_MAX_MEM_ALLOC_SIZE 0x1010u
#define CL_DEVICE_MEM_BASE_ADDR_ALIGN 0x1019u
#define CL_DEVICE_SINGLE_FP_CONFIG 0x101bu
#define CL_DEVICE_GLOBAL_MEM_SIZE 0x101fu
#define CL_DEVICE_LOCAL_MEM_SIZE 0x1023u
#define CL_DEVICE_ENDIAN_LITTLE 0x1026u
#define CL_DEVICE_AVAILABLE 0x1027u
#define CL_DEVICE_COMPILER_AVAILABLE 0x1028u
#define CL_DEVICE_NAME 0x102bu
#define CL_DEVICE_VENDOR 0x102cu
#define CL_DRIVER_VERSION 0x102du
#define CL_DEVICE_VERSION 0x102fu
#define CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT (UINT64_C(1) << 7)
#define CL_QUEUE_PROFILING_ENABLE (UINT64_C(1) << 1)
#define CL_MEM_READ_WRITE (UINT64_C(1) << 0)
#define CL_BUFFER_CREATE_TYPE_REGION 0x1220u
#define CL_PROGRAM_BINARY_SIZES 0x1165u
#define CL_PROGRAM_BINARIES 0x1166u
#define CL_PROGRAM_BUILD_LOG 0x1183u
#define CL_EVENT_COMMAND_EXECUTION_STATUS 0x11d3u
#define CL_COMPLETE 0
#define CL_PROFILING_COMMAND_QUEUED 0x1280u
#define CL_PROFILING_COMMAND_START 0x1282u
#define CL_PROFILING_COMMAND_END 0x1283u

typedef struct cl_buffer_region {
  size_t origin, size;
} cl_buffer_region;

typedef void cl_context_notify(const char *text, const void *more, size_t bytes, void *user);
typedef void cl_build_notify(cl_program program, void *user);

/* X(result, name, parameters) */
#define CL_FUNCTIONS(X)                                                                                                \
  X(int32_t, clGetPlatformIDs, (uint32_t capacity, cl_platform * platforms, uint32_t * count))                         \
  X(int32_t, clGetPlatformInfo, (cl_platform, uint32_t what, size_t bytes, void *value, size_t *needed))               \
  X(int32_t, clGetDeviceIDs, (cl_platform, uint64_t type, uint32_t capacity, cl_device * devices, uint32_t * count))   \
  X(int32_t, clGetDeviceInfo, (cl_device, uint32_t what, size_t bytes, void *value, size_t *needed))                   \
  X(cl_context, clCreateContext,                                                                                       \
    (const intptr_t *properties, uint32_t count, const cl_device *, cl_context_notify *, void *user, int32_t *error))  \
  X(int32_t, clReleaseContext, (cl_context))                                                                           \
  X(cl_queue, clCreateCommandQueue, (cl_context, cl_device, uint64_t properties, int32_t * error))                     \
  X(int32_t, clReleaseCommandQueue, (cl_queue))                                                                        \
  X(cl_mem, clCreateBuffer, (cl_context, uint64_t flags, size_t bytes, void *host, int32_t *error))                    \
  X(cl_mem, clCreateSubBuffer, (cl_mem, uint64_t flags, uint32_t type, const void *region, int32_t *error))            \
  X(int32_t, clReleaseMemObject, (cl_mem))                                                                             \
  X(cl_program, clCreateProgramWithSource,                                                                             \
    (cl_context, uint32_t count, const char **texts, const size_t *sizes, int32_t *error))                             \
  X(cl_program, clCreateProgramWithBinary,                                                                             \
    (cl_context, uint32_t count, const cl_device *, const size_t *sizes, const unsigned char **binaries,               \
     int32_t *statuses, int32_t *error))                                                                               \
  X(int32_t, clBuildProgram,                                                                                           \
    (cl_program, uint32_t count, const cl_device *, const char *options, cl_build_notify *, void *user))               \
  X(int32_t, clGetProgramInfo, (cl_program, uint32_t what, size_t bytes, void *value, size_t *needed))                 \
  X(int32_t, clGetProgramBuildInfo, (cl_program, cl_device, uint32_t what, size_t bytes, void *value, size_t *needed)) \
  X(int32_t, clReleaseProgram, (cl_program))                                                                           \
  X(cl_kernel, clCreateKernel, (cl_program, const char *name, int32_t *error))                                         \
  X(int32_t, clSetKernelArg, (cl_kernel, uint32_t index, size_t bytes, const void *value))                             \
  X(int32_t, clReleaseKernel, (cl_kernel))                                                                             \
  X(int32_t, clEnqueueNDRangeKernel,                                                                                   \
    (cl_queue, cl_kernel, uint32_t dimensions, const size_t *offset, const size_t *global, const size_t *local,        \
     uint32_t waits, const cl_event *, cl_event *event))                                                               \
  X(int32_t, clEnqueueReadBuffer,                                                                                      \
    (cl_queue, cl_mem, uint32_t blocking, size_t offset, size_t bytes, void *to, uint32_t waits, const cl_event *,     \
     cl_event *event))                                                                                                 \
  X(int32_t, clEnqueueWriteBuffer,                                                                                     \
    (cl_queue, cl_mem, uint32_t blocking, size_t offset, size_t bytes, const void *from, uint32_t waits,               \
     const cl_event *, cl_event *event))                                                                               \
  X(int32_t, clEnqueueCopyBuffer,                                                                                      \
    (cl_queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t bytes, uint32_t waits,             \
     const cl_event *, cl_event *event))                                                                               \
  X(int32_t, clEnqueueFillBuffer,                                                                                      \
    (cl_queue, cl_mem, const void *pattern, size_t pattern_bytes, size_t offset, size_t bytes, uint32_t waits,         \
     const cl_event *, cl_event *event))                                                                               \
  X(int32_t, clEnqueueMarkerWithWaitList, (cl_queue, uint32_t waits, const cl_event *, cl_event *event))               \
  X(int32_t, clWaitForEvents, (uint32_t count, const cl_event *))                                                      \
  X(int32_t, clGetEventInfo, (cl_event, uint32_t what, size_t bytes, void *value, size_t *needed))                     \
  X(int32_t, clGetEventProfilingInfo, (cl_event, uint32_t what, size_t bytes, void *value, size_t *needed))            \
  X(int32_t, clReleaseEvent, (cl_event))                                                                               \
  X(int32_t, clFlush, (cl_queue))                                                                                      \
  X(int32_t, clFinish, (cl_queue))

typedef struct cl_api {
#define X(result, name, parameters) result(*name) parameters;
  CL_FUNCTIONS(X)
#undef X
} cl_api;

#endif
