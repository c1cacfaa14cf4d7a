/* The pull JSON reader: walking a text value by value and skipping it whole must agree on whether it is well-formed. */
#include <stdlib.h>
#include "base/json_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads the value that comes next, whatever it is; at most TN_JSON_DEPTH deep, which the reader holds. */
static void walk(tn_json *json) {
  tn_text text;
  double number;
  bool boolean;
  switch (tn_json_peek(json)) {
    case TN_JSON_OBJECT:
      if (tn_json_object(json))
        while (tn_json_key(json, &text)) walk(json);
      break;
    case TN_JSON_ARRAY:
      if (tn_json_array(json))
        while (tn_json_item(json)) walk(json);
      break;
    case TN_JSON_STRING: tn_json_string(json, &text); break;
    case TN_JSON_NUMBER: tn_json_number(json, &number); break;
    case TN_JSON_BOOLEAN: tn_json_boolean(json, &boolean); break;
    case TN_JSON_NULL: tn_json_null(json); break;
    case TN_JSON_NONE: tn_json_skip(json, NULL); break;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn_json json;
  tn_error error = {0};
  tn_json_init(&json, data, size, &error);
  walk(&json);
  tn_status walked = tn_json_end(&json);
  tn_json_init(&json, data, size, NULL);
  tn_json_skip(&json, NULL);
  tn_status skipped = tn_json_end(&json);
  if (walked != skipped || walked != error.status) abort();
  return 0;
}
