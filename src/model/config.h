/* config.json of a model folder: every value by its path.
 *
 * The file is flattened: {"text_config": {"rope_parameters": {"factor": 4}}} gives the value 4 under
 * "text_config.rope_parameters.factor". Where there is a text_config, a name means the value inside it, else the one at
 * the top. A value that is null counts as absent; an object without keys is a value of its own. */
#ifndef TENON_MODEL_CONFIG_H
#define TENON_MODEL_CONFIG_H

#include "base/json_reader.h"
#include "base/memory.h"
#include "base/text.h"
#include "tenon/status.h"

typedef struct tn_config_value {
  const char *path; /* "" for the items of an array */
  tn_json_kind kind;
  double number;
  bool boolean;
  tn_text text;
  const struct tn_config_value *items; /* of an array: its numbers, strings and booleans */
  size_t item_count;
} tn_config_value;

typedef struct tn_config {
  const char *path; /* of the file */
  tn_config_value *values;
  size_t count, capacity;
  bool nested; /* there is a text_config */
  tn_arena arena;
} tn_config;

/* Reads `path`. Errors name the file and the place: TN_E_FORMAT, TN_E_LIMIT, TN_E_MEMORY, or what reading gives. The
 * caller closes it, after a failure too. */
tn_status tn_config_open(tn_config *config, const char *path, tn_error *error);
/* The same over `size` bytes of memory, which need not stay; `name` stands for the path in errors. */
tn_status tn_config_open_memory(tn_config *config, const char *name, const void *data, size_t size, tn_error *error);
void tn_config_close(tn_config *config);

/* The value called `name`, or NULL where it is absent or null. */
const tn_config_value *tn_config_find(const tn_config *config, const char *name);
/* The same outside text_config alone. */
const tn_config_value *tn_config_find_top(const tn_config *config, const char *name);
/* Is `name` there, if only as null? */
bool tn_config_has(const tn_config *config, const char *name);
/* Is there an object called `name`? */
bool tn_config_has_object(const tn_config *config, const char *name);

/* What a kind of value is called in error messages. */
const char *tn_config_kind_name(tn_json_kind kind);

#endif
