/* Answers of the default model (its path is in TENON_TEST_MODEL) under JSON schemas, sampled hot: each is JSON that the
 * schema allows, as a validator that shares nothing with the grammars sees it; or it ended by length and says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/memory.h"
#include "tenon/tenon.h"

#define SEEDS 5u
#define TOKENS 80u

static const char *const schemas[] = {
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 20}, \"age\": {\"type\":"
    " \"integer\", \"minimum\": 0, \"maximum\": 150}, \"tags\": {\"type\": \"array\", \"items\": {\"enum\": [\"a\","
    " \"b\", 3, null]}, \"minItems\": 1, \"maxItems\": 4}}, \"required\": [\"name\", \"age\"],"
    " \"additionalProperties\": false}",
    "{\"type\": \"array\", \"items\": {\"anyOf\": [{\"type\": \"boolean\"}, {\"type\": \"number\", \"minimum\": -5},"
    " {\"type\": \"string\", \"minLength\": 2, \"maxLength\": 6}]}, \"minItems\": 2, \"maxItems\": 6}",
    "{\"$ref\": \"#/$defs/node\", \"$defs\": {\"node\": {\"type\": \"object\", \"properties\": {\"value\": {\"type\":"
    " \"integer\", \"maximum\": 99, \"minimum\": -99}, \"next\": {\"anyOf\": [{\"$ref\": \"#/$defs/node\"}, {\"type\":"
    " \"null\"}]}}, \"required\": [\"value\", \"next\"], \"additionalProperties\": false}}}",
    "{\"enum\": [\"yes\", \"no\", {\"maybe\": [1, 2]}, 1.5, \"\\u00e9\\\"\"]}"};

/* ---- a validator of the keywords above ---- */

static bool is_of_type(const json_t *value, const char *type) {
  if (!strcmp(type, "object")) return json_is_object(value);
  if (!strcmp(type, "array")) return json_is_array(value);
  if (!strcmp(type, "string")) return json_is_string(value);
  if (!strcmp(type, "integer")) return json_is_integer(value);
  if (!strcmp(type, "number")) return json_is_number(value);
  if (!strcmp(type, "boolean")) return json_is_boolean(value);
  return !strcmp(type, "null") && json_is_null(value);
}

static size_t characters(const json_t *text) {
  size_t count = 0;
  for (const char *c = json_string_value(text); *c; c++) count += (*c & 0xC0) != 0x80;
  return count;
}

static bool in_bounds(const json_t *schema, const char *least, const char *most, double value) {
  const json_t *low = json_object_get(schema, least), *high = json_object_get(schema, most);
  return (!low || value >= json_number_value(low)) && (!high || value <= json_number_value(high));
}

static bool is_valid(const json_t *root, const json_t *schema, json_t *value);

static bool is_valid_object(const json_t *root, const json_t *schema, json_t *value) {
  const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
  const char *key;
  json_t *member;
  json_object_foreach(value, key, member) {
    const json_t *property = json_object_get(properties, key);
    if (!property && json_is_false(json_object_get(schema, "additionalProperties"))) return false;
    if (property && !is_valid(root, property, member)) return false;
  }
  for (size_t i = 0; i < json_array_size(required); i++)
    if (!json_object_get(value, json_string_value(json_array_get(required, i)))) return false;
  return true;
}

static bool is_valid(const json_t *root, const json_t *schema, json_t *value) {
  static const char *const known[] = {
      "$ref",      "$defs",    "type",     "properties", "required", "additionalProperties",
      "items",     "minItems", "maxItems", "minimum",    "maximum",  "minLength",
      "maxLength", "enum",     "anyOf"};
  const char *key;
  json_t *rule, *each;
  size_t i;
  json_object_foreach((json_t *)schema, key, rule) {
    bool is_known = false;
    for (size_t k = 0; k < TN_COUNT(known); k++) is_known |= !strcmp(key, known[k]);
    if (!is_known) fail_msg("the validator doesn't know \"%s\"", key);
  }
  const json_t *type = json_object_get(schema, "type"), *values = json_object_get(schema, "enum");
  const json_t *branches = json_object_get(schema, "anyOf"), *items = json_object_get(schema, "items");
  if (json_object_get(schema, "$ref") &&
      !is_valid(root, json_object_get(json_object_get(root, "$defs"), "node"), value))
    return false;
  if (type && !is_of_type(value, json_string_value(type))) return false;
  bool found = !values && !branches;
  json_array_foreach(values, i, each) found |= json_equal(each, value) != 0;
  json_array_foreach(branches, i, each) found |= is_valid(root, each, value);
  if (!found) return false;
  if (json_is_number(value) && !in_bounds(schema, "minimum", "maximum", json_number_value(value))) return false;
  if (json_is_string(value) && !in_bounds(schema, "minLength", "maxLength", (double)characters(value))) return false;
  if (json_is_array(value) && !in_bounds(schema, "minItems", "maxItems", (double)json_array_size(value))) return false;
  json_array_foreach(value, i, each) if (items && !is_valid(root, items, each)) return false;
  return !json_is_object(value) || is_valid_object(root, schema, value);
}

/* ---- */

static void the_validator_can_say_no(void **state) {
  (void)state;
  static const char *const wrong[] = {"{\"name\": \"x\"}", "[true]", "{\"value\": 1, \"next\": {\"value\": 2}}",
                                      "\"x\""};
  for (size_t s = 0; s < TN_COUNT(schemas); s++) {
    json_t *schema = json_loads(schemas[s], 0, NULL), *value = json_loads(wrong[s], JSON_DECODE_ANY, NULL);
    assert_false(is_valid(schema, schema, value));
    json_decref(schema);
    json_decref(value);
  }
}

/* The answer's text; free() it. */
static char *answer(tn_request *request, tn_output *last) {
  tn_buf text = {0};
  while (tn_request_next(request, last, UINT64_MAX) == TN_OK && last->kind == TN_OUTPUT_TEXT)
    tn_buf_append(&text, last->text, last->text_bytes);
  assert_int_equal(last->kind, TN_OUTPUT_DONE);
  tn_request_destroy(request);
  tn_buf_putc(&text, 0);
  return tn_buf_take(&text);
}

static void hot_answers_are_valid(void **state) {
  (void)state;
  tn_model *model;
  tn_engine *engine;
  tn_error error = {0};
  tn_request *requests[TN_COUNT(schemas) * SEEDS];
  uint32_t whole = 0;
  if (tn_model_open(getenv("TENON_TEST_MODEL"), &model, &error) != TN_OK) fail_msg("%s", error.message);
  tn_engine_options engine_options = TN_ENGINE_OPTIONS;
  engine_options.context = 512;
  if (tn_engine_create(model, &engine_options, &engine, &error) != TN_OK) fail_msg("%s", error.message);
  for (size_t i = 0; i < TN_COUNT(requests); i++) {
    tn_request_options options = TN_REQUEST_OPTIONS;
    options.messages_json = "[{\"role\": \"user\", \"content\": \"Give me an example in JSON.\"}]";
    options.json_schema = schemas[i / SEEDS];
    options.max_tokens = TOKENS;
    options.temperature = 1.5f;
    options.seed = i;
    if (tn_engine_submit(engine, &options, &requests[i], &error) != TN_OK) fail_msg("%s", error.message);
  }
  for (size_t i = 0; i < TN_COUNT(requests); i++) {
    tn_output last = TN_OUTPUT;
    char *text = answer(requests[i], &last);
    if (last.finish == TN_FINISH_LENGTH) {
      assert_int_equal(last.completion_tokens, TOKENS);
    } else {
      json_t *schema = json_loads(schemas[i / SEEDS], 0, NULL), *value = json_loads(text, JSON_DECODE_ANY, NULL);
      assert_int_equal(last.finish, TN_FINISH_STOP);
      if (!value || !is_valid(schema, schema, value)) fail_msg("schema %zu: %s", i / SEEDS, text);
      json_decref(schema);
      json_decref(value);
      whole++;
    }
    free(text);
  }
  assert_true(whole >= TN_COUNT(requests) / 2);
  tn_engine_destroy(engine);
  tn_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_validator_can_say_no),
                                     cmocka_unit_test(hot_answers_are_valid)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
