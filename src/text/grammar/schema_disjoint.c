/* Whether two sets of schemas exclude each other, as far as can be shown with little effort: kinds of values,
 * constants, ranges, lengths, patterns, and properties that tell objects apart. What can't be shown counts as "no". */
#include <string.h>
#include "base/memory.h"
#include "text/grammar/schema_parts.h"

#define MAX_DEPTH 3 /* properties in properties looked at */

/* The least upper or the greatest lower bound on numbers; `none` when there is none. */
static double number_bound(const tn_schema *s, const tn_schema_set *set, bool low, double none) {
  double bound = none;
  for (size_t i = 0; i < set->count; i++)
    for (int exclusive = 0; exclusive < 2; exclusive++) {
      const char *keyword = low         ? exclusive ? "exclusiveMinimum" : "minimum"
                            : exclusive ? "exclusiveMaximum"
                                        : "maximum";
      const json_t *json = tn_schema_keyword(s, set->members[i], keyword);
      double value = json_number_value(json);
      if (json_is_number(json) && (low ? value > bound : value < bound)) bound = value;
    }
  return bound;
}

static bool numbers_disjoint(const tn_schema *s, const tn_schema_set *a, const tn_schema_set *b) {
  const double far = 1e308;
  return number_bound(s, a, true, -far) > number_bound(s, b, false, far) ||
         number_bound(s, b, true, -far) > number_bound(s, a, false, far);
}

static bool strings_disjoint(tn_schema *s, const tn_schema_set *a, const tn_schema_set *b) {
  bool unused;
  tn_expr p = tn_schema_string_inside(s, a, &unused), q = tn_schema_string_inside(s, b, &unused);
  return tn_expr_is_barren(s->x, tn_expr_and(s->x, p, q));
}

static bool arrays_disjoint(tn_schema *s, const tn_schema_set *a, const tn_schema_set *b) {
  uint32_t least[2] = {0, 0}, most[2] = {TN_EXPR_MANY, TN_EXPR_MANY};
  const tn_schema_set *sets[2] = {a, b};
  for (int k = 0; k < 2; k++)
    for (size_t i = 0; i < sets[k]->count; i++) {
      uint32_t low, high;
      if (!tn_schema_count(s, sets[k]->members[i], "minItems", 0, &low)) return false;
      if (!tn_schema_count(s, sets[k]->members[i], "maxItems", TN_EXPR_MANY, &high)) return false;
      if (low > least[k]) least[k] = low;
      if (high < most[k]) most[k] = high;
    }
  return least[0] > most[1] || least[1] > most[0];
}

/* True when objects made under `a` always break `b` because of property `name` alone. */
static bool property_parts(tn_schema *s, const tn_schema_set *a, const tn_schema_set *b, const char *name,
                           unsigned depth) {
  bool in_a = tn_schema_is_required(s, a, name), in_b = tn_schema_is_required(s, b, name);
  if (in_b && !in_a && !tn_schema_may_carry(s, a, name)) return true;
  tn_schema_set p = {0}, q = {0};
  bool parts = false;
  if (in_a && tn_schema_property_set(s, a, name, &p) && tn_schema_property_set(s, b, name, &q)) {
    if (q.never || p.never)
      parts = true;
    else if (in_b && depth < MAX_DEPTH)
      parts = tn_schema_expand(s, &p) && tn_schema_expand(s, &q) && tn_schema_disjoint(s, &p, &q, depth + 1);
  }
  tn_schema_set_finish(&p);
  tn_schema_set_finish(&q);
  return parts;
}

/* True when objects made under `a` never satisfy `b`. (What is made is narrower than the schema: keys that aren't
 * named are left out, see schema_nest.c. So both directions are asked for.) */
static bool objects_part(tn_schema *s, const tn_schema_set *a, const tn_schema_set *b, unsigned depth) {
  const tn_schema_set *sets[2] = {a, b};
  for (int k = 0; k < 2; k++)
    for (size_t i = 0; i < sets[k]->count; i++) {
      const json_t *required = tn_schema_keyword(s, sets[k]->members[i], "required");
      for (size_t n = 0; n < json_array_size(required); n++) {
        const char *name = json_string_value(json_array_get(required, n));
        if (name && property_parts(s, a, b, name, depth)) return true;
      }
    }
  return false;
}

static unsigned kind_of(const json_t *value) {
  switch (json_typeof(value)) {
    case JSON_NULL: return KIND_NULL;
    case JSON_TRUE:
    case JSON_FALSE: return KIND_BOOLEAN;
    case JSON_INTEGER: return KIND_INTEGER;
    case JSON_REAL:
      return json_real_value(value) == (double)(int64_t)json_real_value(value) ? KIND_INTEGER : KIND_FRACTION;
    case JSON_STRING: return KIND_STRING;
    case JSON_ARRAY: return KIND_ARRAY;
    default: return KIND_OBJECT;
  }
}

/* True when the value is certainly not valid under the set: its kind, a range, or a string's shape exclude it. */
static bool value_excluded(tn_schema *s, const tn_schema_set *set, const json_t *value) {
  unsigned kind = kind_of(value);
  if (!(tn_schema_kinds(s, set) & kind)) return true;
  if (json_is_number(value))
    return json_number_value(value) < number_bound(s, set, true, -1e308) ||
           json_number_value(value) > number_bound(s, set, false, 1e308);
  if (!json_is_string(value)) return false;
  bool unused;
  tn_expr inside = tn_schema_string_inside(s, set, &unused);
  tn_expr text = tn_spelled_text(s->x, json_string_value(value), json_string_length(value), s->spelling);
  return tn_expr_is_barren(s->x, tn_expr_and(s->x, inside, text));
}

/* With constants on one side or both. */
static bool constants_disjoint(tn_schema *s, const json_t *values, const json_t *others, const tn_schema_set *other) {
  for (size_t i = 0; i < json_array_size(values); i++) {
    const json_t *value = json_array_get(values, i);
    bool excluded = value_excluded(s, other, value);
    if (!excluded && others) {
      excluded = true;
      for (size_t k = 0; k < json_array_size(others); k++) {
        const json_t *one = json_array_get(others, k);
        bool same = json_is_number(value) && json_is_number(one) ? json_number_value(value) == json_number_value(one)
                                                                 : json_equal(value, one);
        excluded = excluded && !same;
      }
    }
    if (!excluded) return false;
  }
  return true;
}

bool tn_schema_disjoint(tn_schema *s, const tn_schema_set *a, const tn_schema_set *b, unsigned depth) {
  if (a->never || b->never) return true;
  unsigned both = tn_schema_kinds(s, a) & tn_schema_kinds(s, b);
  json_t *of_a = tn_schema_constants(s, a), *of_b = tn_schema_constants(s, b);
  bool disjoint = both == 0;
  if (!disjoint && of_a) disjoint = constants_disjoint(s, of_a, of_b, b);
  if (!disjoint && of_b) disjoint = constants_disjoint(s, of_b, of_a, a);
  if (!disjoint && !of_a && !of_b && !(both & (KIND_NULL | KIND_BOOLEAN))) {
    disjoint = true;
    if (both & (KIND_INTEGER | KIND_FRACTION)) disjoint = disjoint && numbers_disjoint(s, a, b);
    if (both & KIND_STRING) disjoint = disjoint && strings_disjoint(s, a, b);
    if (both & KIND_ARRAY) disjoint = disjoint && arrays_disjoint(s, a, b);
    if (both & KIND_OBJECT) disjoint = disjoint && objects_part(s, a, b, depth) && objects_part(s, b, a, depth);
  }
  json_decref(of_a);
  json_decref(of_b);
  return disjoint && s->status == TN_OK;
}
