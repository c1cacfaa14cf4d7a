/* Any bytes as a template, with limits so small that nothing takes long: it is refused, fails or renders, and what it
 * renders has its spans in order. The first byte chooses between a template and JSON text for a context. */
#include <stdlib.h>
#include <string.h>
#include "text/jinja/jinja.h"

static const char context_text[] =
    "{\"s\": \"a <|b|> \\u00e9\\ud83d\\ude00\", \"n\": 3, \"f\": 1.5, \"l\": [3, 1, 2, \"x\"], \"d\": {\"a\": 1, "
    "\"b\": [true, null]},"
    " \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": null}],"
    " \"big\": 123456789012345678901234567890, \"add_generation_prompt\": true, \"bos_token\": \"<s>\"}";

static const tn_jinja_limits limits = {
    .steps = 20000, .memory_bytes = (size_t)4 << 20, .output_bytes = (size_t)64 << 10, .nesting = 100, .depth = 300};

static void check_output(const tn_jinja_output *output) {
  size_t offset = 0;
  for (size_t i = 0; i < output->span_count; i++) {
    const tn_jinja_span *span = &output->spans[i];
    if (span->offset != offset || !span->size) abort();
    if (i && span->trusted == output->spans[i - 1].trusted) abort();
    offset += span->size;
  }
  if (offset != output->size || strlen(output->text) > output->size) abort();
}

static bool trust_tokens(void *user, const char *key, size_t depth, const char *text, size_t size) {
  (void)user, (void)text, (void)size;
  return depth == 0 && strcmp(key, "bos_token") == 0;
}

static void run(const char *source, size_t size, const char *json, size_t json_size) {
  const tn_jinja_time now = {2026, 1, 2, 3, 4, 5};
  const tn_jinja_options options = {.limits = limits, .now = &now};
  const tn_jinja_trust trust = {trust_tokens, NULL};
  tn_error error;
  tn_jinja_template *jinja = NULL;
  const tn_jinja_value *context = NULL;
  tn_jinja_output output = {0};
  tn_jinja_values *values = tn_jinja_values_create((size_t)4 << 20);
  if (!tn_jinja_value_parse(values, json, json_size, &trust, &context, &error) &&
      !tn_jinja_compile(source, size, &limits, &jinja, &error)) {
    if (!tn_jinja_render(jinja, context, &options, &output, &error))
      check_output(&output);
    else if (output.text)
      abort();
  }
  tn_jinja_output_finish(&output);
  tn_jinja_template_destroy(jinja);
  tn_jinja_values_destroy(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char show[] = "{{ x }}{{ x|tojson }}{% for k in x %}{{ k }}{% endfor %}";
  const char *text = (const char *)data;
  if (size && text[0] == '\x01')
    run(show, sizeof show - 1, text + 1, size - 1);
  else
    run(text, size, context_text, sizeof context_text - 1);
  return 0;
}
