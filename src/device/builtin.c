/* The list of device folders (see builtin.h). */
#include "device/builtin.h"

#include <string.h>

#include "base/memory.h"
#include "device/cpu/driver.h"
#include "device/faulty/driver.h"
#include "device/hexagon/driver.h"
#include "device/opencl/driver.h"
#include "device/reference/driver.h"
#include "device/registry.h"

const tn_driver *tn_builtin_driver(size_t index) {
  static const tn_driver *(*const drivers[])(void) = {tn_cpu_driver, tn_reference_driver, tn_opencl_driver,
                                                      tn_hexagon_driver};
  return index < TN_COUNT(drivers) ? drivers[index]() : NULL;
}

const char *tn_default_driver(void) {
  return tn_builtin_driver(0)->name;
}

const tn_device_wrapper *tn_builtin_wrapper(const char *name, size_t size) {
  static const tn_device_wrapper faulty = {"faulty", tn_faulty_driver, tn_faulty_takes, tn_faulty_wrap,
                                           tn_faulty_remember};
  return size == strlen(faulty.name) && memcmp(name, faulty.name, size) == 0 ? &faulty : NULL;
}
