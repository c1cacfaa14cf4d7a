/* The schema compiler's main loop: sets of schemas become rules, choices become alternatives of sets. */
#include "text/grammar/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "text/grammar/schema_parts.h"

#define MAX_TEXT ((size_t)8 << 20) /* bytes of a schema */
#define MAX_NESTING 200            /* brackets in brackets */
#define MAX_RULES 20000            /* sets of schemas that occur: choices within choices multiply */

/* ---- kinds of values ---- */

static unsigned kind_named(const char *name) {
  static const struct {
    const char *name;
    unsigned kinds;
  } types[] = {{"null", KIND_NULL},       {"boolean", KIND_BOOLEAN},
               {"integer", KIND_INTEGER}, {"number", KIND_INTEGER | KIND_FRACTION},
               {"string", KIND_STRING},   {"array", KIND_ARRAY},
               {"object", KIND_OBJECT}};
  for (size_t i = 0; i < TN_COUNT(types); i++)
    if (name && !strcmp(name, types[i].name)) return types[i].kinds;
  return 0;
}

static unsigned kinds_of_type(tn_schema *s, uint32_t member, const json_t *type) {
  unsigned kinds = kind_named(json_string_value(type));
  for (size_t i = 0; i < json_array_size(type); i++) {
    unsigned more = kind_named(json_string_value(json_array_get(type, i)));
    if (!more) kinds = 0, type = NULL;
    kinds |= more;
  }
  if (!kinds) tn_schema_fail(s, TN_E_INVALID, member >> MEMBER_BITS, "\"type\" must name types of JSON values");
  if (json_is_true(tn_schema_keyword(s, member, "nullable"))) kinds |= KIND_NULL;
  return kinds;
}

unsigned tn_schema_kinds(tn_schema *s, const tn_schema_set *set) {
  static const char *const of_objects[] = {"properties", "required", "additionalProperties", "patternProperties"};
  static const char *const of_arrays[] = {"items", "prefixItems"};
  unsigned kinds = set->never ? 0 : KIND_ALL, shape = 0;
  bool typed = false;
  for (size_t i = 0; i < set->count; i++) {
    const json_t *type = tn_schema_keyword(s, set->members[i], "type");
    if (type) kinds &= kinds_of_type(s, set->members[i], type), typed = true;
    if (tn_schema_keyword(s, set->members[i], "enum") || tn_schema_keyword(s, set->members[i], "const")) typed = true;
    for (size_t k = 0; k < TN_COUNT(of_objects); k++)
      if (tn_schema_keyword(s, set->members[i], of_objects[k])) shape |= KIND_OBJECT;
    for (size_t k = 0; k < TN_COUNT(of_arrays); k++)
      if (tn_schema_keyword(s, set->members[i], of_arrays[k])) shape |= KIND_ARRAY;
  }
  return typed || !shape ? kinds : kinds & shape; /* a schema of properties means objects */
}

/* ---- sets and their rules ---- */

static int by_value(const void *p, const void *q) {
  uint32_t a = *(const uint32_t *)p, b = *(const uint32_t *)q;
  return (a > b) - (a < b);
}

static size_t hash_set(const tn_schema_set *set) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < set->count; i++) {
    hash = (hash ^ set->members[i]) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return (size_t)hash;
}

static bool grow_rules(tn_schema *s) {
  size_t slots = s->rule_slots ? s->rule_slots * 2 : 64;
  uint32_t *table = tn_calloc(slots, sizeof *table);
  if (!table) return false;
  for (size_t i = 0; i < s->rule_count; i++) {
    size_t at = hash_set(&s->rules[i].set) & (slots - 1);
    while (table[at]) at = (at + 1) & (slots - 1);
    table[at] = (uint32_t)i + 1;
  }
  free(s->rule_table);
  s->rule_table = table;
  s->rule_slots = slots;
  return true;
}

/* The index of the set's entry in s->rules, which takes the set over. SIZE_MAX after a failure. */
static size_t rule_of(tn_schema *s, tn_schema_set *set) {
  if (set->count) qsort(set->members, set->count, sizeof *set->members, by_value);
  if (s->rule_count * 2 >= s->rule_slots && !grow_rules(s)) goto no_memory;
  size_t at = hash_set(set) & (s->rule_slots - 1);
  for (; s->rule_table[at]; at = (at + 1) & (s->rule_slots - 1)) {
    const tn_schema_set *known = &s->rules[s->rule_table[at] - 1].set;
    if (known->count != set->count) continue;
    if (set->count && memcmp(known->members, set->members, set->count * sizeof *set->members)) continue;
    tn_schema_set_finish(set);
    return s->rule_table[at] - 1;
  }
  if (s->rule_count >= MAX_RULES) {
    tn_schema_fail(s, TN_E_LIMIT, UINT32_MAX, "more than %d different combinations of subschemas", MAX_RULES);
    tn_schema_set_finish(set);
    return SIZE_MAX;
  }
  uint32_t rule = tn_rule_add(s->x);
  tn_schema_rule *slot = rule == UINT32_MAX ? NULL : TN_PUSH(s->rules, s->rule_count, s->rule_capacity);
  if (!slot) goto no_memory;
  *slot = (tn_schema_rule){*set, rule};
  s->rule_table[at] = (uint32_t)s->rule_count;
  *set = (tn_schema_set){0};
  return s->rule_count - 1;
no_memory:
  tn_schema_fail(s, TN_E_MEMORY, UINT32_MAX, "out of memory");
  tn_schema_set_finish(set);
  return SIZE_MAX;
}

tn_expr tn_schema_value(tn_schema *s, tn_schema_set *set) {
  if (set->never || s->status != TN_OK) {
    tn_schema_set_finish(set);
    return TN_EXPR_NOTHING;
  }
  size_t index = rule_of(s, set);
  return index == SIZE_MAX ? TN_EXPR_NOTHING : tn_expr_call(s->x, s->rules[index].rule);
}

/* ---- choices ---- */

static bool copy_set(tn_schema *s, const tn_schema_set *from, tn_schema_set *to) {
  *to = (tn_schema_set){.members = tn_calloc(from->count + 1, sizeof *to->members), .capacity = from->count + 1};
  if (!to->members) return tn_schema_fail(s, TN_E_MEMORY, UINT32_MAX, "out of memory");
  if (from->count) memcpy(to->members, from->members, from->count * sizeof *to->members);
  to->count = from->count;
  to->never = from->never;
  return true;
}

/* The set of one branch: the members, of which number `chooser` has made its choice, and the branch. */
static bool branch_set(tn_schema *s, const tn_schema_set *set, size_t chooser, const char *keyword, size_t index,
                       tn_schema_set *branch) {
  if (!copy_set(s, set, branch)) return false;
  uint32_t place = set->members[chooser] >> MEMBER_BITS;
  branch->members[chooser] |= !strcmp(keyword, "anyOf") ? MEMBER_ANY_DONE : MEMBER_ONE_DONE;
  char step[24];
  snprintf(step, sizeof step, "%zu", index);
  const json_t *branches = tn_schema_keyword(s, set->members[chooser], keyword);
  return tn_schema_set_add(s, branch, json_array_get(branches, index), place, keyword, step);
}

/* oneOf means exactly one: unless no text can satisfy two of the branches we can't promise that. */
static bool check_exclusive(tn_schema *s, const tn_schema_set *set, size_t chooser, size_t count) {
  tn_schema_set *branches = tn_calloc(count, sizeof *branches);
  bool sound = branches || tn_schema_fail(s, TN_E_MEMORY, UINT32_MAX, "out of memory");
  for (size_t i = 0; sound && i < count; i++)
    sound = branch_set(s, set, chooser, "oneOf", i, &branches[i]) && tn_schema_expand(s, &branches[i]);
  for (size_t i = 0; sound && i < count; i++)
    for (size_t j = 0; sound && j < i; j++)
      if (!tn_schema_disjoint(s, &branches[i], &branches[j], 0))
        sound = tn_schema_fail(s, TN_E_UNSUPPORTED, set->members[chooser] >> MEMBER_BITS,
                               "\"oneOf\" is not supported here: a value might satisfy both branch %zu and branch %zu",
                               j, i);
  for (size_t i = 0; branches && i < count; i++) tn_schema_set_finish(&branches[i]);
  free(branches);
  return sound && s->status == TN_OK;
}

/* Alternatives for the member number `chooser`, which has an open anyOf or oneOf. */
static tn_expr compile_choice(tn_schema *s, const tn_schema_set *set, size_t chooser, const char *keyword) {
  const json_t *branches = tn_schema_keyword(s, set->members[chooser], keyword);
  size_t count = json_array_size(branches), base = s->x->scratch_count;
  if (!count) {
    tn_schema_fail(s, TN_E_INVALID, set->members[chooser] >> MEMBER_BITS, "\"%s\" must be an array of schemas",
                   keyword);
    return TN_EXPR_NOTHING;
  }
  if (!strcmp(keyword, "oneOf") && !check_exclusive(s, set, chooser, count)) return TN_EXPR_NOTHING;
  for (size_t i = 0; i < count && s->status == TN_OK; i++) {
    tn_schema_set branch = {0};
    if (branch_set(s, set, chooser, keyword, i, &branch)) tn_exprs_scratch(s->x, tn_schema_value(s, &branch));
    tn_schema_set_finish(&branch);
  }
  return tn_expr_combine(s->x, TN_EXPR_IS_ALT, base);
}

/* ---- one set ---- */

static tn_expr compile_kinds(tn_schema *s, const tn_schema_set *set, unsigned kinds) {
  tn_exprs *x = s->x;
  tn_expr e = TN_EXPR_NOTHING;
  if (kinds & KIND_NULL) e = tn_expr_alt(x, e, tn_expr_text(x, "null"));
  if (kinds & KIND_BOOLEAN) e = tn_expr_alt(x, e, tn_expr_alt(x, tn_expr_text(x, "true"), tn_expr_text(x, "false")));
  if (kinds & KIND_INTEGER) e = tn_expr_alt(x, e, tn_schema_number(s, set, !(kinds & KIND_FRACTION)));
  if (kinds & KIND_STRING) e = tn_expr_alt(x, e, tn_schema_string(s, set));
  if (kinds & KIND_ARRAY) e = tn_expr_alt(x, e, tn_schema_array(s, set));
  if (kinds & KIND_OBJECT) e = tn_expr_alt(x, e, tn_schema_object(s, set));
  return e;
}

static tn_expr compile_set(tn_schema *s, tn_schema_set *set) {
  if (!tn_schema_expand(s, set) || set->never) return TN_EXPR_NOTHING;
  for (size_t i = 0; i < set->count; i++) {
    uint32_t member = set->members[i];
    if (tn_schema_keyword(s, member, "anyOf") && !(member & MEMBER_ANY_DONE)) return compile_choice(s, set, i, "anyOf");
    if (tn_schema_keyword(s, member, "oneOf") && !(member & MEMBER_ONE_DONE)) return compile_choice(s, set, i, "oneOf");
  }
  unsigned kinds = tn_schema_kinds(s, set);
  json_t *values = tn_schema_constants(s, set);
  tn_expr e = TN_EXPR_NOTHING;
  if (values)
    e = tn_schema_constant_values(s, set, values, kinds);
  else if (s->status == TN_OK)
    e = compile_kinds(s, set, kinds);
  json_decref(values);
  return e;
}

/* ---- the document ---- */

/* Brackets within brackets, so that the JSON parser's recursion is bounded. */
static bool nests_too_deeply(const char *text, size_t size) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < size; i++) {
    char c = text[i];
    if (in_string) {
      if (c == '\\')
        i++;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > MAX_NESTING) return true;
    } else if ((c == ']' || c == '}') && depth) {
      depth--;
    }
  }
  return false;
}

static void schema_finish(tn_schema *s) {
  for (size_t i = 0; i < s->place_count; i++) free(s->places[i].pointer);
  for (size_t i = 0; i < s->rule_count; i++) tn_schema_set_finish(&s->rules[i].set);
  free(s->places);
  free(s->place_table);
  free(s->rules);
  free(s->rule_table);
}

static const char *name_of_rule(const void *context, uint32_t rule) {
  const tn_schema *s = context;
  for (size_t i = 0; i < s->rule_count; i++)
    if (s->rules[i].rule == rule && s->rules[i].set.count)
      return s->places[s->rules[i].set.members[0] >> MEMBER_BITS].pointer;
  return "the schema";
}

static tn_status compile_document(tn_schema *s, uint32_t *root) {
  tn_exprs *x = s->x;
  tn_schema_set set = {0};
  const tn_grammar_notation *n = s->notation;
  tn_expr blank = n && n->bare_keys ? TN_EXPR_EMPTY : tn_expr_optional(x, tn_expr_text(x, " "));
  s->comma = tn_expr_concat(x, tn_expr_text(x, ","), blank);
  s->colon = tn_expr_concat(x, tn_expr_text(x, ":"), blank);
  s->quote = tn_expr_text(x, "\"");
  if (n && n->quote_is_control)
    s->quote = tn_expr_control(x, n->quote.bytes, n->quote.size);
  else if (n)
    s->quote = tn_expr_literal(x, n->quote.bytes, n->quote.size);
  tn_schema_set_add(s, &set, s->root, UINT32_MAX, NULL, NULL);
  if (set.never) tn_schema_fail(s, TN_E_INVALID, UINT32_MAX, "nothing satisfies it: it is false");
  if (s->status == TN_OK) tn_schema_value(s, &set);
  for (size_t i = 0; i < s->rule_count && s->status == TN_OK; i++) {
    tn_schema_set members = {0};
    if (copy_set(s, &s->rules[i].set, &members)) {
      tn_expr body = compile_set(s, &members);
      x->rules[s->rules[i].rule].body = body;
    }
    tn_schema_set_finish(&members);
    if (x->status != TN_OK)
      tn_schema_fail(s, x->status, UINT32_MAX, x->status == TN_E_LIMIT ? "too large or too complex" : "out of memory");
  }
  if (s->status == TN_OK) *root = s->rules[0].rule;
  tn_schema_set_finish(&set);
  return s->status;
}

static tn_status add_schema(tn_exprs *x, const char *text, size_t size, const tn_grammar_notation *notation,
                            bool is_all, uint32_t *root, tn_error *error) {
  tn_schema s = {.x = x, .error = error, .free_string = UINT32_MAX, .notation = notation};
  s.spelling = notation ? TN_SPELL_UTF8 : TN_SPELL_JSON;
  json_error_t problem;
  if (size > MAX_TEXT) return tn_fail(error, TN_E_LIMIT, "a schema of %zu bytes; %zu are allowed", size, MAX_TEXT);
  if (nests_too_deeply(text, size))
    return tn_fail(error, TN_E_LIMIT, "a schema with more than %d brackets in brackets", MAX_NESTING);
  json_t *document = json_loadb(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &problem);
  if (!document)
    return tn_fail(error, TN_E_INVALID, "the schema is not JSON: %s (byte %d)", problem.text, problem.position);
  s.root = document;
  tn_status status = tn_schema_rewrite(document) ? compile_document(&s, root)
                                                 : tn_fail(error, TN_E_MEMORY, "out of memory for a schema");
  if (status == TN_OK && is_all) status = tn_exprs_analyse(x, *root, name_of_rule, &s, error);
  json_decref(document);
  schema_finish(&s);
  return status;
}

tn_status tn_schema_rules(tn_exprs *x, const char *text, size_t size, uint32_t *root, tn_error *error) {
  return add_schema(x, text, size, NULL, true, root, error);
}

tn_status tn_schema_add(tn_exprs *x, const char *text, size_t size, const tn_grammar_notation *notation, uint32_t *root,
                        tn_error *error) {
  return add_schema(x, text, size, notation, false, root, error);
}
