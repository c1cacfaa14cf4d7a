/* tenon devices: the drivers, their devices and what each says of itself. */
#include <jansson.h>
#include <stdio.h>
#include "base/memory.h"
#include "base/error.h"
#include "cli/options.h"
#include "device/registry.h"
#include "tools/coverage_doc.h"
#include "tools/ops_doc.h"

static const char *const property_names[] = {"name",
                                             "memory_total",
                                             "memory_free",
                                             "max_allocation",
                                             "alignment",
                                             "cores",
                                             "threads",
                                             "batch_invariant",
                                             "kv",
                                             "kv_lengths",
                                             "rows",
                                             "instruction_set",
                                             "peak_int8_ops",
                                             "peak_f32_ops",
                                             "peak_bf16_ops",
                                             "peak_bytes"};

static json_t *describe_device(const char *driver, uint32_t index, tn_error *error) {
  char spec[300];
  tn_opened_device *device;
  snprintf(spec, sizeof spec, "%s:%u", driver, index);
  if (tn_device_open(spec, NULL, 0, &device, error) != TN_OK) return NULL;
  json_t *properties = json_object();
  for (size_t i = 0; i < TN_COUNT(property_names); i++) {
    tn_property value = {.size = sizeof value};
    if (tn_device_get(device, property_names[i], &value, NULL) != TN_OK) continue;
    json_t *item = value.type == TN_PROPERTY_TEXT  ? json_string(value.text)
                   : value.type == TN_PROPERTY_F64 ? json_real(value.f64)
                                                   : json_integer((json_int_t)value.u64);
    json_object_set_new(properties, property_names[i], item);
  }
  tn_device_close(device);
  return json_pack("{s:s, s:o}", "device", spec, "properties", properties);
}

static tn_status describe_driver(const char *name, json_t *out, tn_error *error) {
  tn_loaded_driver driver;
  char reason[200] = "";
  uint32_t count = 0;
  tn_status status = tn_driver_load(name, &driver, error);
  if (status != TN_OK) return status;
  status = tn_driver_count(&driver, &count, reason, sizeof reason, error);
  json_t *devices = json_array();
  for (uint32_t i = 0; status == TN_OK && i < count; i++) {
    json_t *device = describe_device(name, i, error);
    if (device)
      json_array_append_new(devices, device);
    else
      status = error->status;
  }
  json_array_append_new(out, json_pack("{s:s, s:s, s:s, s:o}", "driver", driver.table.name, "summary",
                                       driver.table.summary, "reason", reason, "devices", devices));
  tn_driver_unload(&driver);
  return status;
}

static void print_text(const json_t *drivers) {
  size_t i, k;
  const json_t *driver, *device;
  json_array_foreach(drivers, i, driver) {
    printf("%s: %s\n", json_string_value(json_object_get(driver, "driver")),
           json_string_value(json_object_get(driver, "summary")));
    const json_t *devices = json_object_get(driver, "devices");
    if (!json_array_size(devices)) printf("  no device: %s\n", json_string_value(json_object_get(driver, "reason")));
    json_array_foreach(devices, k, device) {
      printf("  %s\n", json_string_value(json_object_get(device, "device")));
      const char *name;
      json_t *value;
      json_object_foreach(json_object_get(device, "properties"), name, value) {
        if (json_is_string(value))
          printf("    %-16s %s\n", name, json_string_value(value));
        else if (json_is_real(value))
          printf("    %-16s %.4g\n", name, json_real_value(value));
        else
          printf("    %-16s %lld\n", name, (long long)json_integer_value(value));
      }
    }
  }
}

int tn_command_devices(int argc, char **argv) {
  const char *path = NULL;
  bool json = false, ops = false, coverage = false;
  const tn_cli_option options[] = {
      {"driver", 0, TN_CLI_TEXT, &path, "PATH", "only this driver: a name, or the path of a driver library", 0, 0},
      {"json", 0, TN_CLI_FLAG, &json, NULL, "as JSON", 0, 0},
      {"coverage", 0, TN_CLI_FLAG, &coverage, NULL, "how many cases of each op the drivers take, as in docs/devices.md",
       0, 0},
      {"ops", 0, TN_CLI_FLAG, &ops, NULL, "the ops that devices are asked for, as docs/ops.md", 0, 0},
  };
  const tn_cli_command command = {
      "devices", "[options]", "The drivers, their devices and properties.", options, TN_COUNT(options), 0, 0};
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, NULL, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  if (ops) {
    tn_print_ops();
    return tn_cli_finish_output();
  }
  tn_error error = {0};
  if (coverage) return tn_print_coverage(&error) == TN_OK ? tn_cli_finish_output() : tn_cli_fail(error.message);
  tn_status status = TN_OK;
  json_t *drivers = json_array();
  if (path) {
    status = describe_driver(path, drivers, &error);
  } else {
    const tn_driver *driver;
    for (size_t i = 0; status == TN_OK && (driver = tn_builtin_driver(i)); i++)
      status = describe_driver(driver->name, drivers, &error);
  }
  if (status == TN_OK && json)
    json_dumpf(drivers, stdout, JSON_INDENT(2)), putchar('\n');
  else if (status == TN_OK)
    print_text(drivers);
  json_decref(drivers);
  return status == TN_OK ? tn_cli_finish_output() : tn_cli_fail(error.message);
}
