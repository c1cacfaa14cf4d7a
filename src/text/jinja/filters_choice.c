/* Filters that apply other filters and tests, and those about missing values. */
#include "text/jinja/builtins.h"
#include "text/jinja/text.h"

#define FILTER(name) static tnj_value name(tnj_state *s, tnj_value self, const tnj_value *p, const tnj_arguments *a)
#define UNUSED (void)p, (void)a

FILTER(use_default) {
  UNUSED;
  bool missing = tnj_is_undefined(self) || (tnj_bool_or(s, p[1], false) && !tnj_truth(s, self));
  if (!missing) return self;
  return tnj_given(p[0]) ? p[0] : tnj_string_text(s, "");
}

FILTER(attr) {
  UNUSED;
  tnj_value name = tnj_str(s, p[0]), value;
  bool unsafe = false;
  if (tnj_is_undefined(self)) tnj_fail_undefined(s, self);
  if (tnj_find_attribute(s, self, name, &value, &unsafe)) return value;
  return unsafe ? tnj_undefined_unsafe(s, self, name) : tnj_undefined_member(s, self, name);
}

static tnj_arguments without_first(const tnj_arguments *a, size_t count) {
  tnj_arguments rest = *a;
  if (count > rest.count) count = rest.count;
  if (count) rest.items += count;
  rest.count -= count;
  return rest;
}

static const tnj_value *keyword(const tnj_arguments *a, const char *name) {
  for (size_t i = 0; i < a->keyword_count; i++)
    if (tnj_text_is(a->keywords[i].name, name)) return &a->keywords[i].value;
  return NULL;
}

/* The items; what counts as false has none, iterable or not. */
static const tnj_list *items_or_none(tnj_state *s, tnj_value v) {
  tnj_list_builder none = tnj_list_start(s, 0);
  return tnj_truth(s, v) ? tnj_items(s, v) : tnj_list_end(s, &none);
}

/* The items, their attribute taken, or a filter applied to each. */
FILTER(map) {
  (void)p;
  const tnj_value *attribute = keyword(a, "attribute"), *missing = keyword(a, "default");
  const tnj_list *items = items_or_none(s, self);
  tnj_list_builder out = tnj_list_start(s, items->count);
  if (!a->count && attribute) {
    if (a->keyword_count != 1 + (missing != NULL)) tnj_error(s, "map() got an unexpected keyword argument");
    for (size_t i = 0; i < items->count; i++)
      tnj_list_add(s, &out, tnj_by_attribute(s, items->items[i], *attribute, missing ? *missing : tnj_absent()));
    return tnj_iterator_new(s, tnj_list_end(s, &out), "generator");
  }
  if (!a->count) tnj_error(s, "map requires a filter argument");
  tnj_value name = tnj_need_string(s, a->items[0], "map: the filter's name");
  const tnj_builtin *filter = tnj_find_filter(name);
  tnj_arguments rest = without_first(a, 1);
  if (!filter)
    tnj_error(s, "No filter named '%.*s'.", (int)(tnj_size(name) < 99 ? tnj_size(name) : 99), tnj_data(name));
  for (size_t i = 0; i < items->count; i++) tnj_list_add(s, &out, tnj_call_builtin(s, filter, items->items[i], &rest));
  return tnj_iterator_new(s, tnj_list_end(s, &out), "generator");
}

/* The items for which a test, or without one their truth, is `wanted`. With `by_attribute` the first argument names
 * what is tested. */
static tnj_value choose(tnj_state *s, tnj_value self, const tnj_arguments *a, bool wanted, bool by_attribute) {
  if (by_attribute && !a->count) tnj_error(s, "Missing parameter for attribute name");
  tnj_value attribute = by_attribute ? a->items[0] : tnj_absent();
  tnj_arguments rest = without_first(a, by_attribute);
  const tnj_builtin *test = NULL;
  if (rest.count) {
    tnj_value name = tnj_need_string(s, rest.items[0], "the test's name");
    test = tnj_find_test(name);
    if (!test) tnj_error(s, "No test named '%.*s'.", (int)(tnj_size(name) < 99 ? tnj_size(name) : 99), tnj_data(name));
    rest = without_first(&rest, 1);
  }
  const tnj_list *items = items_or_none(s, self);
  tnj_list_builder out = tnj_list_start(s, 0);
  for (size_t i = 0; i < items->count; i++) {
    tnj_value tested = tnj_by_attribute(s, items->items[i], attribute, tnj_absent());
    bool holds = tnj_truth(s, test ? tnj_call_builtin(s, test, tested, &rest) : tested);
    if (holds == wanted) tnj_list_add(s, &out, items->items[i]);
    tnj_step(s);
  }
  return tnj_iterator_new(s, tnj_list_end(s, &out), "generator");
}

FILTER(select) {
  UNUSED;
  return choose(s, self, a, true, false);
}

FILTER(reject) {
  UNUSED;
  return choose(s, self, a, false, false);
}

FILTER(selectattr) {
  UNUSED;
  return choose(s, self, a, true, true);
}

FILTER(rejectattr) {
  UNUSED;
  return choose(s, self, a, false, true);
}

TNJ_LAZY(map)
TNJ_LAZY(select)
TNJ_LAZY(reject)
TNJ_LAZY(selectattr)
TNJ_LAZY(rejectattr)

const tnj_builtin tnj_choice_filters[] = {{"default", use_default, "default_value boolean", 0},
                                          {"d", use_default, "default_value boolean", 0},
                                          {"attr", attr, "name", 1},
                                          {"map", map_lazy, NULL, 0},
                                          {"select", select_lazy, NULL, 0},
                                          {"reject", reject_lazy, NULL, 0},
                                          {"selectattr", selectattr_lazy, NULL, 0},
                                          {"rejectattr", rejectattr_lazy, NULL, 0},
                                          {0}};
