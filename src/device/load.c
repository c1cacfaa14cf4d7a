/* Loading drivers: built in by name, or out of tree by path (registry.h). */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "device/check_status.h"
#include "device/registry.h"

/* A table must reach at least to the last mandatory function. */
#define MANDATORY_BYTES offsetof(tn_driver, record)

static bool is_path(const char *name) {
  size_t size = strlen(name);
  return strchr(name, '/') || (size > 3 && strcmp(name + size - 3, ".so") == 0);
}

/* The first mandatory function that is missing, or NULL. */
static const char *missing_function(const tn_driver *t) {
  const struct {
    const char *name;
    bool present;
  } mandatory[] = {
      {"enumerate", t->enumerate != NULL},
      {"open", t->open != NULL},
      {"close", t->close != NULL},
      {"last_error", t->last_error != NULL},
      {"get", t->get != NULL},
      {"alloc", t->alloc != NULL},
      {"free", t->free != NULL},
      {"host_pointer", t->host_pointer != NULL},
      {"queue_create", t->queue_create != NULL},
      {"queue_destroy", t->queue_destroy != NULL},
      {"copy_in", t->copy_in != NULL},
      {"copy_out", t->copy_out != NULL},
      {"copy", t->copy != NULL},
      {"fill", t->fill != NULL},
      {"execute", t->execute != NULL},
      {"synchronize", t->synchronize != NULL},
      {"weight_layout", t->weight_layout != NULL},
      {"weight_pack", t->weight_pack != NULL},
      {"state_layout", t->state_layout != NULL},
      {"supports", t->supports != NULL},
      {"prepare", t->prepare != NULL},
      {"release", t->release != NULL},
  };
  for (size_t i = 0; i < TN_COUNT(mandatory); i++) {
    if (!mandatory[i].present) return mandatory[i].name;
  }
  return NULL;
}

/* Copies a table that may be shorter or longer than ours, and checks it. `label` is what errors call the driver. */
static tn_status take_table(const tn_driver *table, const char *label, tn_driver *out, tn_error *error) {
  if (table->abi_min > TN_DEVICE_ABI || table->abi_max < TN_DEVICE_ABI) {
    return tn_fail(error, TN_E_UNSUPPORTED, "driver %s: speaks abi %u to %u of the device interface, tenon speaks %d",
                   label, table->abi_min, table->abi_max, TN_DEVICE_ABI);
  }
  if (table->size < MANDATORY_BYTES) {
    return tn_fail(error, TN_E_FORMAT, "driver %s: its table has %u bytes, expected at least %zu", label, table->size,
                   (size_t)MANDATORY_BYTES);
  }
  memset(out, 0, sizeof *out);
  memcpy(out, table, table->size < sizeof *out ? table->size : sizeof *out);
  out->size = sizeof *out;
  const char *missing = missing_function(out);
  if (missing) return tn_fail(error, TN_E_FORMAT, "driver %s: its table lacks the function %s", label, missing);
  if (!out->name || !out->summary) return tn_fail(error, TN_E_FORMAT, "driver %s: its table lacks a name", label);
  return TN_OK;
}

static tn_status load_library(const char *path, tn_loaded_driver *driver, tn_error *error) {
  if (!tn_path_exists(path)) return tn_fail(error, TN_E_NOT_FOUND, "driver %s: no such file", path);
  /* A name without a slash is a file here, not one to be searched for in the system's folders. */
  char here[4100];
  snprintf(here, sizeof here, "%s%s", strchr(path, '/') ? "" : "./", path);
  driver->library = tn_library_open(here, error);
  if (!driver->library) return TN_E_FORMAT;
  /* A function pointer kept in data is what every loader gives. */
  tn_driver_entry_function entry;
  void *symbol = tn_library_symbol(driver->library, "tn_driver_entry");
  memcpy(&entry, &symbol, sizeof entry);
  tn_status status = TN_E_FORMAT;
  const tn_driver *table = entry ? entry(TN_DEVICE_ABI) : NULL;
  if (!entry) {
    tn_fail(error, status, "driver %s: the library does not export tn_driver_entry", path);
  } else if (!table) {
    tn_fail(error, status, "driver %s: tn_driver_entry gave no table", path);
  } else {
    status = take_table(table, path, &driver->table, error);
  }
  if (status) tn_driver_unload(driver);
  return status;
}

static tn_status unknown_driver(const char *name, tn_error *error) {
  char names[200] = "";
  const tn_driver *driver;
  for (size_t i = 0; (driver = tn_builtin_driver(i)); i++) {
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", driver->name);
  }
  return tn_fail(error, TN_E_NOT_FOUND, "no driver is called '%s': there are %s, and libraries by their path", name,
                 names);
}

tn_status tn_driver_load(const char *name, tn_loaded_driver *driver, tn_error *error) {
  memset(driver, 0, sizeof *driver);
  if (is_path(name)) return load_library(name, driver, error);
  const tn_driver *table;
  for (size_t i = 0; (table = tn_builtin_driver(i)); i++) {
    if (strcmp(table->name, name) == 0) return take_table(table, name, &driver->table, error);
  }
  return unknown_driver(name, error);
}

void tn_driver_unload(tn_loaded_driver *driver) {
  if (driver->library) tn_library_close(driver->library);
  memset(driver, 0, sizeof *driver);
}

tn_status tn_driver_count(const tn_loaded_driver *driver, uint32_t *count, char *reason, size_t capacity,
                          tn_error *error) {
  *count = 0;
  if (capacity) reason[0] = 0;
  tn_status status = driver->table.enumerate(count);
  const char *text = driver->table.last_error(NULL);
  if (status) {
    return tn_fail(error, tn_known_status(status), "driver %s: enumerate: %s", driver->table.name,
                   tn_driver_reason(status, text));
  }
  if (*count == 0 && capacity && text) snprintf(reason, capacity, "%s", text);
  return TN_OK;
}
