/* Device specs, and opening devices by them (registry.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/builtin.h"
#include "device/check_status.h"
#include "device/registry.h"

#define MAX_OPTIONS 32u
#define MAX_SPEC 4096u

/* A spec taken apart. All texts lie in `text`. */
typedef struct tn_device_spec {
  char *text;
  const tn_device_wrapper *wrapper; /* NULL: none */
  const char *name;
  uint32_t index;
  bool has_index;                 /* it is given */
  tn_option options[MAX_OPTIONS]; /* the driver's first, then from `inner_count` on the wrapper's */
  uint32_t inner_count, count;
} tn_device_spec;

typedef struct tn_opened_internals {
  tn_device_spec spec;
  tn_loaded_driver loaded;
  uint64_t memory[TN_WRAPPER_MEMORY]; /* what the wrapper wants to know of the device before a reopen */
} tn_opened_internals;

/* ---- specs ---- */

/* Cuts the index from the end of NAME:INDEX. */
static tn_status cut_index(const char *spec, char *name, tn_device_spec *out, tn_error *error) {
  char *colon = strrchr(name, ':');
  if (!colon || strchr(colon, '/')) return TN_OK; /* none, or a path with a colon in it */
  char *end;
  unsigned long value = strtoul(colon + 1, &end, 10);
  if (end == colon + 1 || *end || value > 1000 || colon[1] < '0' || colon[1] > '9') {
    return tn_fail(error, TN_E_INVALID, "device spec '%s': '%s' is no device number", spec, colon + 1);
  }
  *colon = 0;
  out->index = (uint32_t)value;
  out->has_index = true;
  return TN_OK;
}

static bool has_option(const tn_option *options, uint32_t count, const char *key) {
  for (uint32_t i = 0; i < count; i++) {
    if (strcmp(options[i].key, key) == 0) return true;
  }
  return false;
}

/* Splits "key=value,key=value" into options; the texts stay where they are. */
static tn_status cut_options(const char *spec, char *text, tn_option *options, uint32_t *count, tn_error *error) {
  while (text) {
    char *next = strchr(text, ',');
    if (next) *next++ = 0;
    char *equals = strchr(text, '=');
    if (!equals || equals == text) {
      return tn_fail(error, TN_E_INVALID, "device spec '%s': '%s' is not key=value", spec, text);
    }
    *equals = 0;
    if (has_option(options, *count, text)) {
      return tn_fail(error, TN_E_INVALID, "device spec '%s': '%s' is given twice", spec, text);
    }
    if (*count == MAX_OPTIONS) return tn_fail(error, TN_E_INVALID, "device spec '%s': too many options", spec);
    options[(*count)++] = (tn_option){text, equals + 1};
    text = next;
  }
  return TN_OK;
}

/* The driver's options come first, the wrapper's behind them, each in their order. */
static void sort_options(tn_device_spec *out, const tn_option *all, uint32_t count) {
  out->count = 0;
  for (int wrapper_turn = 0; wrapper_turn < 2; wrapper_turn++) {
    for (uint32_t i = 0; i < count; i++) {
      bool is_wrappers = out->wrapper && out->wrapper->takes(all[i].key);
      if (is_wrappers == (wrapper_turn == 1)) out->options[out->count++] = all[i];
    }
    if (wrapper_turn == 0) out->inner_count = out->count;
  }
}

/* Copies `more` options behind all[count] unless their key is there. Their texts must outlive the spec, so they are
 * put into `store`, which has room for them. */
static uint32_t add_defaults(tn_option *all, uint32_t count, const tn_option *more, uint32_t more_count, char *store) {
  for (uint32_t i = 0; i < more_count && count < MAX_OPTIONS; i++) {
    if (has_option(all, count, more[i].key)) continue;
    size_t key_size = strlen(more[i].key) + 1, value_size = strlen(more[i].value) + 1;
    memcpy(store, more[i].key, key_size);
    memcpy(store + key_size, more[i].value, value_size);
    all[count++] = (tn_option){store, store + key_size};
    store += key_size + value_size;
  }
  return count;
}

static tn_status parse_spec(const char *spec, const tn_option *more, uint32_t more_count, tn_device_spec *out,
                            tn_error *error) {
  size_t size = strlen(spec), store = 0;
  for (uint32_t i = 0; i < more_count; i++) store += strlen(more[i].key) + strlen(more[i].value) + 2;
  if (size > MAX_SPEC || store > MAX_SPEC) return tn_fail(error, TN_E_LIMIT, "device spec: longer than %u", MAX_SPEC);
  out->text = tn_calloc(1, size + 1 + store);
  if (!out->text) return tn_fail(error, TN_E_MEMORY, "device spec '%s': out of memory", spec);
  memcpy(out->text, spec, size);
  char *name = out->text, *options = strchr(name, ','), *colon = strchr(name, ':');
  if (options) *options++ = 0;
  out->wrapper = colon ? tn_builtin_wrapper(name, (size_t)(colon - name)) : NULL;
  if (out->wrapper) name = colon + 1;
  tn_option all[MAX_OPTIONS];
  uint32_t count = 0;
  tn_status status = cut_index(spec, name, out, error);
  if (status == TN_OK) status = cut_options(spec, options, all, &count, error);
  if (status == TN_OK && !*name) status = tn_fail(error, TN_E_INVALID, "device spec '%s': names no driver", spec);
  if (status) return status;
  out->name = name;
  count = add_defaults(all, count, more, more_count, out->text + size + 1);
  sort_options(out, all, count);
  return TN_OK;
}

bool tn_device_spec_is(const char *spec, const char *driver) {
  size_t bytes = strcspn(spec, ",:");
  if (spec[bytes] == ':' && tn_builtin_wrapper(spec, bytes)) {
    spec += bytes + 1;
    bytes = strcspn(spec, ",:");
  }
  return strlen(driver) == bytes && memcmp(spec, driver, bytes) == 0;
}

tn_status tn_device_count(const char *spec, uint32_t *count, bool *has_index, tn_error *error) {
  tn_device_spec parsed = {0};
  tn_loaded_driver loaded = {0};
  char reason[200];
  *count = 0;
  tn_status status = parse_spec(spec, NULL, 0, &parsed, error);
  if (status == TN_OK) status = tn_driver_load(parsed.name, &loaded, error);
  if (status == TN_OK) status = tn_driver_count(&loaded, count, reason, sizeof reason, error);
  if (status == TN_OK && !*count)
    status = tn_fail(error, TN_E_NOT_FOUND, "device %s: the driver sees none%s%s", spec, *reason ? ": " : "", reason);
  *has_index = parsed.has_index;
  tn_driver_unload(&loaded);
  free(parsed.text);
  return status;
}

/* ---- opening ---- */

static tn_status open_inner(const tn_opened_device *d, tn_device **device, tn_error *error) {
  const tn_device_spec *spec = &d->internals->spec;
  const tn_loaded_driver *loaded = &d->internals->loaded;
  char reason[200];
  uint32_t count;
  tn_status status = tn_driver_count(loaded, &count, reason, sizeof reason, error);
  if (status) {
    tn_error_prefix(error, "device %s", d->label);
    return status;
  }
  if (spec->index >= count) {
    return tn_fail(error, TN_E_NOT_FOUND, "device %s: there is no device %u, the driver sees %u%s%s", d->label,
                   spec->index, count, *reason ? ": " : "", reason);
  }
  *device = NULL;
  status = loaded->table.open(spec->index, spec->options, spec->inner_count, device);
  if (status) {
    return tn_fail(error, tn_known_status(status), "device %s: open: %s", d->label,
                   tn_driver_reason(status, loaded->table.last_error(NULL)));
  }
  if (!*device) return tn_fail(error, TN_E_INTERNAL, "device %s: open: the driver gave no device", d->label);
  return TN_OK;
}

static tn_status open_device(tn_opened_device *d, tn_error *error) {
  const tn_device_spec *spec = &d->internals->spec;
  const tn_driver *inner = &d->internals->loaded.table;
  tn_device *device = NULL;
  tn_status status = open_inner(d, &device, error);
  if (status) return status;
  if (!spec->wrapper) {
    d->driver = inner;
    d->device = device;
    return TN_OK;
  }
  d->driver = spec->wrapper->driver();
  status = spec->wrapper->wrap(inner, device, spec->options + spec->inner_count, spec->count - spec->inner_count,
                               d->internals->memory, &d->device);
  if (status == TN_OK) return TN_OK;
  inner->close(device);
  return tn_fail(error, status, "device %s: open: %s", d->label, d->driver->last_error(NULL));
}

static tn_status get_number(tn_opened_device *d, const char *name, uint64_t *out, tn_error *error) {
  tn_property value = {.size = sizeof value};
  tn_status status = tn_device_get(d, name, &value, error);
  if (status) return status;
  if (value.type != TN_PROPERTY_U64) {
    return tn_fail(error, TN_E_INTERNAL, "device %s: property %s is not a whole number", d->label, name);
  }
  *out = value.u64;
  return TN_OK;
}

static tn_status get_text(tn_opened_device *d, const char *name, char out[104], tn_error *error) {
  tn_property value = {.size = sizeof value};
  tn_status status = tn_device_get(d, name, &value, error);
  if (status) return status;
  if (value.type != TN_PROPERTY_TEXT || !memchr(value.text, 0, sizeof value.text)) {
    return tn_fail(error, TN_E_INTERNAL, "device %s: property %s is not a text", d->label, name);
  }
  memcpy(out, value.text, sizeof value.text);
  return TN_OK;
}

/* Asks for everything that every driver must answer. */
static tn_status get_properties(tn_opened_device *d, tn_error *error) {
  tn_device_properties *p = &d->properties;
  uint64_t invariant = 0;
  char kv[104];
  const struct {
    const char *name;
    uint64_t *out;
  } numbers[] = {{"memory_total", &p->memory_total},
                 {"memory_free", &p->memory_free},
                 {"max_allocation", &p->max_allocation},
                 {"alignment", &p->alignment},
                 {"cores", &p->cores},
                 {"threads", &p->threads},
                 {"batch_invariant", &invariant}};
  tn_status status = get_text(d, "name", p->name, error);
  for (size_t i = 0; i < TN_COUNT(numbers) && status == TN_OK; i++) {
    status = get_number(d, numbers[i].name, numbers[i].out, error);
  }
  if (status == TN_OK) status = get_text(d, "kv", kv, error);
  if (status == TN_OK) status = get_text(d, "rows", p->rows, error);
  if (status) return status;
  p->batch_invariant = invariant == 1;
  p->contiguous_kv = strcmp(kv, "contiguous") == 0;
  if (!p->contiguous_kv && strcmp(kv, "paged") != 0) {
    return tn_fail(error, TN_E_INTERNAL, "device %s: property kv is '%s', neither paged nor contiguous", d->label, kv);
  }
  if (p->alignment == 0 || (p->alignment & (p->alignment - 1))) {
    return tn_fail(error, TN_E_INTERNAL, "device %s: property alignment is %llu, not a power of two", d->label,
                   (unsigned long long)p->alignment);
  }
  return TN_OK;
}

tn_status tn_device_open(const char *spec, const tn_option *options, uint32_t option_count, tn_opened_device **device,
                         tn_error *error) {
  *device = NULL;
  tn_opened_device *d = tn_calloc(1, sizeof *d);
  tn_status status = TN_E_MEMORY;
  if (!d || !(d->internals = tn_calloc(1, sizeof *d->internals))) {
    tn_fail(error, status, "device %s: out of memory", spec);
    goto done;
  }
  snprintf(d->label, sizeof d->label, "%.*s", (int)strcspn(spec, ","), spec);
  status = parse_spec(spec, options, option_count, &d->internals->spec, error);
  if (status) goto done;
  status = tn_driver_load(d->internals->spec.name, &d->internals->loaded, error);
  if (status) goto done;
  status = open_device(d, error);
  if (status) goto done;
  status = get_properties(d, error);
done:
  if (status) {
    tn_device_close(d);
  } else {
    *device = d;
  }
  return status;
}

void tn_device_close(tn_opened_device *d) {
  if (!d) return;
  if (d->device) d->driver->close(d->device);
  if (d->internals) {
    tn_driver_unload(&d->internals->loaded);
    free(d->internals->spec.text);
  }
  free(d->internals);
  free(d);
}

tn_status tn_device_reopen(tn_opened_device *d, tn_error *error) {
  const tn_device_wrapper *wrapper = d->internals->spec.wrapper;
  if (d->device) {
    if (wrapper) wrapper->remember(d->device, d->internals->memory);
    d->driver->close(d->device);
  }
  d->device = NULL;
  tn_status status = open_device(d, error);
  if (status == TN_OK) status = get_properties(d, error);
  return status;
}
