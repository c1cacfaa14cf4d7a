/* config.json: any bytes are read to a list of values or refused, and every value is found under its path. */
#include <stdlib.h>
#include <string.h>

#include "model/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn_config config;
  tn_error error = {0};
  if (tn_config_open_memory(&config, "config.json", data, size, &error) == TN_OK) {
    for (size_t i = 0; i < config.count; i++) {
      const tn_config_value *value = config.values + i;
      bool inner = !strncmp(value->path, "text_config.", 12);
      const tn_config_value *found = tn_config_find(&config, config.nested && inner ? value->path + 12 : value->path);
      if (!found && value->kind != TN_JSON_NULL && !config.nested && strlen(value->path) + 1 < 380) {
        /* only a null behind it under the same path may hide it */
        bool hidden = false;
        for (size_t k = i + 1; k < config.count; k++) hidden = hidden || !strcmp(config.values[k].path, value->path);
        if (!hidden) abort();
      }
      if (value->item_count && !value->items) abort();
    }
    tn_config_has_object(&config, "rope_parameters");
  } else if (error.status == TN_OK) {
    abort();
  }
  tn_config_close(&config);
  return 0;
}
