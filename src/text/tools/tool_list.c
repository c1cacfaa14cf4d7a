/* The tools that a request offers. */
#include <jansson.h>
#include <stdlib.h>
#include "base/error.h"
#include "text/tools/parts.h"

#define MOST_TOOLS 1024u
#define MAX_NESTING 200 /* brackets in brackets: the JSON parser recurses */

struct tn_tool_list {
  json_t *json;
  const json_t **functions;
  size_t count;
  bool is_strict;
};

/* Brackets within brackets; strings are not told apart, so it may count too many. */
static bool nests_too_deeply(const char *text) {
  size_t depth = 0;
  for (; *text; text++) {
    if (*text == '[' || *text == '{') {
      if (++depth > MAX_NESTING) return true;
    } else if ((*text == ']' || *text == '}') && depth) {
      depth--;
    }
  }
  return false;
}

/* Whether a schema allows an object, as far as its type says. */
static bool allows_object(const json_t *schema) {
  const json_t *type = json_object_get(schema, "type");
  if (!json_is_array(type)) return !type || (json_is_string(type) && !strcmp(json_string_value(type), "object"));
  for (size_t i = 0; i < json_array_size(type); i++) {
    const char *word = json_string_value(json_array_get(type, i));
    if (word && !strcmp(word, "object")) return true;
  }
  return false;
}

static tn_status read_tool(tn_tool_list *list, size_t i, tn_error *error) {
  const json_t *tool = json_array_get(list->json, i), *type = json_object_get(tool, "type");
  const json_t *function = json_object_get(tool, "function"), *name = json_object_get(function, "name");
  const json_t *parameters = json_object_get(function, "parameters"), *strict = json_object_get(function, "strict");
  if (type && (!json_is_string(type) || strcmp(json_string_value(type), "function")))
    return tn_fail(error, TN_E_INVALID, "tools[%zu].type: expected \"function\"", i);
  if (!json_is_object(function))
    return tn_fail(error, TN_E_INVALID, "tools[%zu].function: expected an object with a name and parameters", i);
  if (!json_is_string(name) || !json_string_length(name))
    return tn_fail(error, TN_E_INVALID, "tools[%zu].function.name: expected a text", i);
  if (parameters && !json_is_object(parameters) && !json_is_null(parameters))
    return tn_fail(error, TN_E_INVALID, "tools[%zu].function.parameters: expected a schema, an object", i);
  if (!allows_object(parameters))
    return tn_fail(error, TN_E_INVALID, "tools[%zu].function.parameters: type: expected object", i);
  if (strict && !json_is_boolean(strict) && !json_is_null(strict))
    return tn_fail(error, TN_E_INVALID, "tools[%zu].function.strict: expected a boolean", i);
  if (tn_tool_list_find(list, (tn_text){json_string_value(name), json_string_length(name)}) >= 0)
    return tn_fail(error, TN_E_INVALID, "tools[%zu].function.name: \"%.60s\" is there twice", i,
                   json_string_value(name));
  list->is_strict |= json_is_true(strict);
  list->functions[list->count++] = function;
  return TN_OK;
}

tn_status tn_tool_list_create(tn_tool_list **made, const char *json, tn_error *error) {
  json_error_t why;
  *made = NULL;
  if (nests_too_deeply(json))
    return tn_fail(error, TN_E_LIMIT, "tools: more than %d brackets in brackets", MAX_NESTING);
  tn_tool_list *list = tn_calloc(1, sizeof *list);
  if (!list) return tn_fail(error, TN_E_MEMORY, "no memory for tools");
  list->json = json_loads(json, JSON_REJECT_DUPLICATES, &why);
  size_t count = json_array_size(list->json);
  tn_status status = TN_OK;
  if (!list->json)
    status = tn_fail(error, TN_E_INVALID, "tools: %s at byte %d", why.text, why.position);
  else if (!json_is_array(list->json) || !count || count > MOST_TOOLS)
    status = tn_fail(error, TN_E_INVALID, "tools: expected an array of 1 to %u tools", MOST_TOOLS);
  else if (!(list->functions = tn_calloc(count, sizeof *list->functions)))
    status = tn_fail(error, TN_E_MEMORY, "no memory for tools");
  for (size_t i = 0; status == TN_OK && i < count; i++) status = read_tool(list, i, error);
  if (status != TN_OK) {
    tn_tool_list_destroy(list);
    return status;
  }
  *made = list;
  return TN_OK;
}

void tn_tool_list_destroy(tn_tool_list *list) {
  if (!list) return;
  json_decref(list->json);
  free(list->functions);
  free(list);
}

bool tn_tool_list_is_strict(const tn_tool_list *list) {
  return list->is_strict;
}

size_t tn_tool_list_count(const tn_tool_list *list) {
  return list->count;
}

const json_t *tn_tool_list_json(const tn_tool_list *list) {
  return list->json;
}

tn_text tn_tool_list_name(const tn_tool_list *list, size_t tool) {
  const json_t *name = json_object_get(list->functions[tool], "name");
  return (tn_text){json_string_value(name), json_string_length(name)};
}

const json_t *tn_tool_list_parameters(const tn_tool_list *list, size_t tool) {
  const json_t *parameters = json_object_get(list->functions[tool], "parameters");
  return json_is_object(parameters) ? parameters : NULL;
}

int tn_tool_list_find(const tn_tool_list *list, tn_text name) {
  for (size_t i = 0; i < list->count; i++)
    if (tn_text_equal(tn_tool_list_name(list, i), name)) return (int)i;
  return -1;
}

/* ---- kinds of parameters ---- */

static unsigned kind_named(const char *name) {
  static const struct {
    const char *name;
    unsigned kind;
  } kinds[] = {{"string", TN_IS_STRING},   {"number", TN_IS_NUMBER},   {"integer", TN_IS_NUMBER},
               {"boolean", TN_IS_BOOLEAN}, {"array", TN_IS_CONTAINER}, {"object", TN_IS_CONTAINER},
               {"null", TN_IS_NULL}};
  for (size_t i = 0; name && i < TN_COUNT(kinds); i++)
    if (!strcmp(name, kinds[i].name)) return kinds[i].kind;
  return 0;
}

static unsigned kind_of(const json_t *value) {
  if (json_is_string(value)) return TN_IS_STRING;
  if (json_is_number(value)) return TN_IS_NUMBER;
  if (json_is_boolean(value)) return TN_IS_BOOLEAN;
  return json_is_null(value) ? TN_IS_NULL : TN_IS_CONTAINER;
}

/* Of one schema, not looking into references. */
static unsigned kinds_of_schema(const json_t *schema) {
  const json_t *type = json_object_get(schema, "type"), *values = json_object_get(schema, "enum");
  unsigned kinds = kind_named(json_string_value(type));
  for (size_t i = 0; i < json_array_size(type); i++) kinds |= kind_named(json_string_value(json_array_get(type, i)));
  if (kinds && json_is_true(json_object_get(schema, "nullable"))) kinds |= TN_IS_NULL;
  for (size_t i = 0; !kinds && i < json_array_size(values); i++) kinds |= kind_of(json_array_get(values, i));
  return kinds;
}

unsigned tn_tool_parameter_kinds(const tn_tool_list *list, size_t tool, tn_text name) {
  const json_t *properties = json_object_get(tn_tool_list_parameters(list, tool), "properties");
  char *key = tn_copy_text(name.data, name.bytes);
  const json_t *schema = key ? json_object_get(properties, key) : NULL;
  free(key);
  unsigned kinds = kinds_of_schema(schema);
  static const char *const choices[] = {"anyOf", "oneOf"};
  for (size_t c = 0; !kinds && c < TN_COUNT(choices); c++) {
    const json_t *branches = json_object_get(schema, choices[c]);
    for (size_t i = 0; i < json_array_size(branches); i++) kinds |= kinds_of_schema(json_array_get(branches, i));
  }
  return kinds ? kinds : TN_IS_ANY;
}
