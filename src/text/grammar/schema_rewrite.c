/* Keywords that say what others say too, of 2020-12 and of the drafts before it, put into those others. The document is
 * changed in place, before anything refers into it. Nesting is bounded by the reader, and so is the recursion. */
#include <string.h>
#include "base/memory.h"
#include "text/grammar/schema_parts.h"

/* Adds a schema to the schema's allOf; takes `more` over. */
static bool add_to_all(json_t *schema, json_t *more) {
  json_t *all = json_object_get(schema, "allOf");
  if (!all && !json_object_set_new(schema, "allOf", json_array())) all = json_object_get(schema, "allOf");
  if (json_is_array(all)) return !json_array_append_new(all, more);
  json_decref(more);
  return all != NULL; /* a faulty allOf is told elsewhere */
}

/* Where the property `name` is there, `then` holds: either it isn't, or that does. */
static bool add_dependency(json_t *schema, const char *name, json_t *then) {
  json_t *either = json_is_array(then)
                       ? json_pack("{s:[{s:{s:b}}, {s:O}]}", "anyOf", "properties", name, 0, "required", then)
                       : json_pack("{s:[{s:{s:b}}, O]}", "anyOf", "properties", name, 0, then);
  return either && add_to_all(schema, either);
}

static bool rewrite_dependencies(json_t *schema) {
  static const char *const keywords[] = {"dependentRequired", "dependentSchemas", "dependencies"};
  for (size_t i = 0; i < TN_COUNT(keywords); i++) {
    json_t *all = json_object_get(schema, keywords[i]), *then;
    const char *name;
    if (!json_is_object(all)) continue;
    json_object_foreach(all, name, then) {
      if (!add_dependency(schema, name, then)) return false;
    }
    json_object_del(schema, keywords[i]);
  }
  return true;
}

/* Tuples of the drafts before 2020-12. */
static void rewrite_tuple(json_t *schema) {
  json_t *items = json_object_get(schema, "items"), *more = json_object_get(schema, "additionalItems");
  if (json_is_array(items) && !json_object_get(schema, "prefixItems")) {
    if (json_array_size(items)) json_object_set(schema, "prefixItems", items);
    json_object_del(schema, "items");
    if (more) json_object_set(schema, "items", more);
  }
  if (more) json_object_del(schema, "additionalItems"); /* beside one schema for all items it says nothing */
}

/* Draft 4's exclusiveMinimum: a flag that makes `minimum` exclusive. */
static void rewrite_bound(json_t *schema, const char *flag, const char *bound) {
  json_t *value = json_object_get(schema, flag), *limit = json_object_get(schema, bound);
  if (!json_is_boolean(value)) return;
  if (json_is_true(value) && limit) {
    json_object_set(schema, flag, limit);
    json_object_del(schema, bound);
  } else {
    json_object_del(schema, flag);
  }
}

/* What nothing has looked at is what the keyword beside it is about, as long as no other schema looks at the value. */
static void rewrite_unevaluated(json_t *schema, const char *keyword, const char *beside) {
  static const char *const lookers[] = {"$ref", "allOf", "anyOf", "oneOf", "if", "not", "contains"};
  json_t *value = json_object_get(schema, keyword);
  for (size_t i = 0; i < TN_COUNT(lookers); i++)
    if (json_object_get(schema, lookers[i])) return;
  if (!value) return;
  if (!json_object_get(schema, beside)) json_object_set(schema, beside, value);
  json_object_del(schema, keyword);
}

static bool rewrite_each(json_t *all);

bool tn_schema_rewrite(json_t *schema) {
  static const char *const of_one[] = {"items", "additionalItems", "additionalProperties", "propertyNames"};
  static const char *const of_many[] = {"allOf",
                                        "anyOf",
                                        "oneOf",
                                        "prefixItems",
                                        "items",
                                        "properties",
                                        "patternProperties",
                                        "dependentSchemas",
                                        "dependencies",
                                        "$defs",
                                        "definitions"};
  if (!json_is_object(schema)) return true;
  for (size_t i = 0; i < TN_COUNT(of_one); i++)
    if (!tn_schema_rewrite(json_object_get(schema, of_one[i]))) return false;
  for (size_t i = 0; i < TN_COUNT(of_many); i++) {
    json_t *all = json_object_get(schema, of_many[i]);
    if ((json_is_array(all) || strcmp(of_many[i], "items")) && !rewrite_each(all)) return false;
  }
  rewrite_tuple(schema);
  rewrite_bound(schema, "exclusiveMinimum", "minimum");
  rewrite_bound(schema, "exclusiveMaximum", "maximum");
  rewrite_unevaluated(schema, "unevaluatedProperties", "additionalProperties");
  rewrite_unevaluated(schema, "unevaluatedItems", "items");
  return rewrite_dependencies(schema);
}

/* The schemas of an array, or the members of an object. */
static bool rewrite_each(json_t *all) {
  const char *key;
  size_t index;
  json_t *schema;
  json_array_foreach(all, index, schema) {
    if (!tn_schema_rewrite(schema)) return false;
  }
  json_object_foreach(all, key, schema) {
    if (!tn_schema_rewrite(schema)) return false;
  }
  return true;
}
