/* Reading and flattening config.json (see config.h). */
#include "model/config.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/os.h"

#define MAX_FILE ((size_t)16 << 20)
#define MAX_PATH_BYTES 400
#define MAX_DEPTH 16
#define TEXT_ROOT "text_config."

static tn_text keep_text(tn_config *config, tn_json *json, tn_text text) {
  char *copy = tn_arena_copy(&config->arena, text.data ? text.data : "", text.bytes);
  if (!copy) tn_json_fail(json, TN_E_MEMORY, "out of memory");
  return (tn_text){copy ? copy : "", copy ? text.bytes : 0};
}

/* One value that is no container. */
static void read_scalar(tn_config *config, tn_json *json, tn_config_value *value) {
  tn_text text;
  value->kind = tn_json_peek(json);
  switch (value->kind) {
    case TN_JSON_STRING:
      if (tn_json_string(json, &text)) value->text = keep_text(config, json, text);
      break;
    case TN_JSON_NUMBER: tn_json_number(json, &value->number); break;
    case TN_JSON_BOOLEAN: tn_json_boolean(json, &value->boolean); break;
    default: tn_json_skip(json, NULL); break;
  }
}

static void read_array(tn_config *config, tn_json *json, tn_config_value *value) {
  tn_config_value *items = NULL;
  size_t count = 0, capacity = 0;
  value->kind = TN_JSON_ARRAY;
  if (tn_json_array(json))
    while (tn_json_item(json)) {
      tn_config_value *item = TN_PUSH(items, count, capacity);
      if (!item) {
        tn_json_fail(json, TN_E_MEMORY, "out of memory");
        break;
      }
      item->path = "";
      read_scalar(config, json, item);
    }
  tn_config_value *kept = tn_arena_array(&config->arena, count, sizeof *kept);
  if (kept && count) {
    memcpy(kept, items, count * sizeof *kept);
    value->items = kept;
    value->item_count = count;
  } else if (count) {
    tn_json_fail(json, TN_E_MEMORY, "out of memory");
  }
  free(items);
}

/* Appends a value under the first `bytes` bytes of `path`; NULL with the reader failed when memory is out. */
static tn_config_value *push_value(tn_config *config, tn_json *json, const char *path, size_t bytes) {
  tn_config_value *value = TN_PUSH(config->values, config->count, config->capacity);
  const char *copy = value ? tn_arena_copy(&config->arena, path, bytes) : NULL;
  if (copy)
    value->path = copy;
  else
    tn_json_fail(json, TN_E_MEMORY, "out of memory");
  return copy ? value : NULL;
}

/* Appends all values of an object whose path is the first `bytes` bytes of `path`, and a '.' in front of its keys. */
static void read_object(tn_config *config, tn_json *json, char *path, size_t bytes, unsigned depth) {
  tn_text key;
  bool is_empty = true;
  if (!tn_json_object(json)) return;
  if (depth > MAX_DEPTH) {
    tn_json_fail(json, TN_E_LIMIT, "objects are more than %d deep", MAX_DEPTH);
    return;
  }
  while (tn_json_key(json, &key)) {
    if (bytes + key.bytes + 2 > MAX_PATH_BYTES) {
      tn_json_fail(json, TN_E_LIMIT, "a key's path is longer than %d bytes", MAX_PATH_BYTES);
      return;
    }
    is_empty = false;
    memcpy(path + bytes, key.data, key.bytes);
    size_t end = bytes + key.bytes;
    if (tn_json_peek(json) == TN_JSON_OBJECT) {
      path[end] = '.';
      read_object(config, json, path, end + 1, depth + 1);
      continue;
    }
    tn_config_value *value = push_value(config, json, path, end);
    if (!value) return;
    if (tn_json_peek(json) == TN_JSON_ARRAY)
      read_array(config, json, value);
    else
      read_scalar(config, json, value);
  }
  tn_config_value *empty =
      is_empty && bytes && json->status == TN_OK ? push_value(config, json, path, bytes - 1) : NULL;
  if (empty) empty->kind = TN_JSON_OBJECT;
}

tn_status tn_config_open_memory(tn_config *config, const char *name, const void *data, size_t size, tn_error *error) {
  char scratch[MAX_PATH_BYTES];
  *config = (tn_config){.path = name};
  tn_arena_init(&config->arena, 0);
  config->path = tn_arena_copy(&config->arena, name, strlen(name));
  if (!config->path) return tn_fail(error, TN_E_MEMORY, "%s: out of memory", name);
  tn_json json;
  tn_json_init(&json, data, size, error);
  read_object(config, &json, scratch, 0, 0);
  if (tn_json_end(&json) != TN_OK) return tn_error_prefix(error, "%s", name);
  for (size_t i = 0; i < config->count; i++)
    if (!strncmp(config->values[i].path, TEXT_ROOT, strlen(TEXT_ROOT))) config->nested = true;
  return TN_OK;
}

tn_status tn_config_open(tn_config *config, const char *path, tn_error *error) {
  char *data;
  size_t size;
  *config = (tn_config){0};
  tn_status status = tn_file_read(path, MAX_FILE, &data, &size, error);
  if (status != TN_OK) return status;
  status = tn_config_open_memory(config, path, data, size, error);
  free(data);
  return status;
}

void tn_config_close(tn_config *config) {
  free(config->values);
  tn_arena_finish(&config->arena);
  *config = (tn_config){0};
}

static const tn_config_value *find_path(const tn_config *config, const char *path) {
  for (size_t i = config->count; i-- > 0;) /* of two the last counts, as everywhere */
    if (!strcmp(config->values[i].path, path))
      return config->values[i].kind == TN_JSON_NULL ? NULL : config->values + i;
  return NULL;
}

const tn_config_value *tn_config_find_top(const tn_config *config, const char *name) {
  return find_path(config, name);
}

const tn_config_value *tn_config_find(const tn_config *config, const char *name) {
  char path[MAX_PATH_BYTES];
  const tn_config_value *value = NULL;
  if (config->nested) {
    snprintf(path, sizeof path, TEXT_ROOT "%s", name);
    value = find_path(config, path);
  }
  return value ? value : find_path(config, name);
}

bool tn_config_has(const tn_config *config, const char *name) {
  size_t root = strlen(TEXT_ROOT);
  for (size_t i = 0; i < config->count; i++) {
    const char *path = config->values[i].path;
    if (!strcmp(path, name) || (config->nested && !strncmp(path, TEXT_ROOT, root) && !strcmp(path + root, name)))
      return true;
  }
  return false;
}

bool tn_config_has_object(const tn_config *config, const char *name) {
  char inside[MAX_PATH_BYTES];
  snprintf(inside, sizeof inside, TEXT_ROOT "%s.", name);
  const char *path = config->nested ? inside : inside + strlen(TEXT_ROOT);
  for (size_t i = 0; i < config->count; i++)
    if (!strncmp(config->values[i].path, path, strlen(path))) return true;
  return false;
}

const char *tn_config_kind_name(tn_json_kind kind) {
  static const char *const names[] = {"nothing", "an object", "an array", "a string", "a number", "a boolean", "null"};
  return names[kind];
}
