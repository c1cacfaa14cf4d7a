/* Methods of lists, dictionaries, numbers, loops and cyclers. */
#include <math.h>
#include "text/jinja/builtins.h"
#include "text/jinja/number.h"
#include "text/jinja/text.h"

#define METHOD(name) static tnj_value name(tnj_state *s, tnj_value self, const tnj_value *p, const tnj_arguments *a)
#define UNUSED (void)s, (void)self, (void)p, (void)a

/* ---- lists, tuples, ranges ---- */

METHOD(list_copy) {
  UNUSED;
  return self;
}

METHOD(list_count) {
  UNUSED;
  const tnj_list *items = tnj_items(s, self);
  int64_t found = 0;
  for (size_t i = 0; i < items->count; i++) found += tnj_equal(s, items->items[i], p[0]);
  return tnj_int(found);
}

METHOD(list_index) {
  UNUSED;
  const tnj_list *items = tnj_items(s, self);
  int64_t count = (int64_t)items->count, start = tnj_integer_or(s, p[1], 0, "start"),
          stop = tnj_integer_or(s, p[2], count, "stop");
  if (start < 0) start = start < -count ? 0 : start + count;
  if (stop < 0) stop = stop < -count ? 0 : stop + count;
  for (int64_t i = start; i < stop && i < count; i++)
    if (tnj_equal(s, items->items[i], p[0])) return tnj_int(i);
  tnj_value shown = tnj_str(s, p[0]);
  tnj_error(s, "%.*s is not in %s", (int)(tnj_size(shown) < 99 ? tnj_size(shown) : 99), tnj_data(shown),
            tnj_type_name(self));
}

const tnj_builtin tnj_list_methods[] = {
    {"copy", list_copy, "", 0}, {"count", list_count, "value", 1}, {"index", list_index, "value start stop", 1}, {0}};

/* ---- dictionaries ---- */

METHOD(dict_get) {
  UNUSED;
  const tnj_value *found = tnj_dict_get(s, self.dict, p[0]);
  return found ? *found : tnj_given(p[1]) ? p[1] : tnj_none();
}

static tnj_value view(tnj_value dict, uint8_t which) {
  dict.kind = TNJ_VIEW;
  dict.flag = which;
  return dict;
}

METHOD(dict_keys) {
  UNUSED;
  return view(self, TNJ_KEYS);
}

METHOD(dict_values) {
  UNUSED;
  return view(self, TNJ_VALUES);
}

METHOD(dict_items) {
  UNUSED;
  return view(self, TNJ_ITEMS);
}

METHOD(dict_copy) {
  UNUSED;
  return self;
}

METHOD(dict_fromkeys) {
  UNUSED;
  const tnj_list *keys = tnj_items(s, p[0]);
  tnj_dict *dict = tnj_dict_new(s, keys->count);
  for (size_t i = 0; i < keys->count; i++) tnj_dict_set(s, dict, keys->items[i], tnj_given(p[1]) ? p[1] : tnj_none());
  return tnj_dict_value(dict);
}

const tnj_builtin tnj_dict_methods[] = {{"get", dict_get, "key default", 1},
                                        {"keys", dict_keys, "", 0},
                                        {"values", dict_values, "", 0},
                                        {"items", dict_items, "", 0},
                                        {"copy", dict_copy, "", 0},
                                        {"fromkeys", dict_fromkeys, "iterable value", 1},
                                        {0}};

/* ---- numbers ---- */

METHOD(bit_length) {
  UNUSED;
  return tnj_int((int64_t)tnj_big_bits(self));
}

METHOD(bit_count) {
  UNUSED;
  int64_t bits = 0;
  if (self.kind != TNJ_BIG) {
    int64_t integer = self.kind == TNJ_BOOL ? self.boolean : self.integer;
    return tnj_int(__builtin_popcountll(integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer));
  }
  for (size_t i = 0; i < self.big->count; i++) bits += __builtin_popcount(self.big->limbs[i]);
  return tnj_int(bits);
}

METHOD(itself) {
  UNUSED;
  return self.kind == TNJ_BOOL ? tnj_int(self.boolean) : self;
}

METHOD(is_integer) {
  UNUSED;
  return tnj_bool(self.kind != TNJ_FLOAT || (isfinite(self.real) && self.real == floor(self.real)));
}

METHOD(as_integer_ratio) {
  UNUSED;
  if (self.kind != TNJ_FLOAT) return tnj_pair(s, itself(s, self, p, a), tnj_int(1));
  int exponent;
  tnj_truncate(s, self.real); /* fails for what isn't finite */
  double fraction = frexp(self.real, &exponent);
  while (fraction != floor(fraction)) {
    fraction *= 2;
    exponent--;
  }
  tnj_value power = tnj_arithmetic(s, TNJ_POWER, tnj_int(2), tnj_int(exponent < 0 ? -exponent : exponent));
  tnj_value whole = tnj_truncate(s, fraction);
  if (exponent < 0) return tnj_pair(s, whole, power);
  return tnj_pair(s, tnj_arithmetic(s, TNJ_MULTIPLY, whole, power), tnj_int(1));
}

const tnj_builtin tnj_integer_methods[] = {{"bit_length", bit_length, "", 0},
                                           {"bit_count", bit_count, "", 0},
                                           {"conjugate", itself, "", 0},
                                           {"as_integer_ratio", as_integer_ratio, "", 0},
                                           {0}};
const tnj_builtin tnj_float_methods[] = {{"is_integer", is_integer, "", 0},
                                         {"conjugate", itself, "", 0},
                                         {"as_integer_ratio", as_integer_ratio, "", 0},
                                         {0}};

/* ---- loops ---- */

static tnj_value neighbour(tnj_state *s, const tnj_loop *loop, bool next) {
  if (next ? loop->index + 1 < loop->items->count : loop->index > 0)
    return loop->items->items[next ? loop->index + 1 : loop->index - 1];
  return tnj_undefined_said(s, next ? "there is no next item" : "there is no previous item");
}

bool tnj_loop_attribute(tnj_state *s, const tnj_loop *loop, tnj_value name, tnj_value *value) {
  int64_t index = (int64_t)loop->index, count = (int64_t)loop->items->count, depth = (int64_t)loop->depth;
  const struct {
    const char *name;
    tnj_value value;
  } attributes[] = {{"index", tnj_int(index + 1)},
                    {"index0", tnj_int(index)},
                    {"revindex", tnj_int(count - index)},
                    {"revindex0", tnj_int(count - index - 1)},
                    {"first", tnj_bool(index == 0)},
                    {"last", tnj_bool(index == count - 1)},
                    {"length", tnj_int(count)},
                    {"depth", tnj_int(depth + 1)},
                    {"depth0", tnj_int(depth)}};
  for (size_t i = 0; i < TN_COUNT(attributes); i++)
    if (tnj_text_is(name, attributes[i].name)) return *value = attributes[i].value, true;
  if (tnj_text_is(name, "previtem")) return *value = neighbour(s, loop, false), true;
  if (tnj_text_is(name, "nextitem")) return *value = neighbour(s, loop, true), true;
  return false;
}

METHOD(loop_cycle) {
  UNUSED;
  if (!a->count) tnj_error(s, "no items for cycling given");
  return a->items[self.loop->index % a->count];
}

METHOD(loop_changed) {
  UNUSED;
  const tnj_list *before = self.loop->changed;
  tnj_value *items;
  tnj_value now = tnj_list_new(s, TNJ_LIST, a->count, &items);
  for (size_t i = 0; i < a->count; i++) items[i] = a->items[i];
  bool same = before && tnj_equal(s, tnj_list_of(s, TNJ_LIST, before), now);
  if (!same) self.loop->changed = now.list;
  return tnj_bool(!same);
}

const tnj_builtin tnj_loop_methods[] = {{"cycle", loop_cycle, NULL, 0}, {"changed", loop_changed, NULL, 0}, {0}};

/* ---- cyclers ---- */

METHOD(cycler_next) {
  UNUSED;
  tnj_cycler *cycler = self.cycler;
  tnj_value current = cycler->items->items[cycler->position];
  cycler->position = (cycler->position + 1) % cycler->items->count;
  return current;
}

METHOD(cycler_reset) {
  UNUSED;
  self.cycler->position = 0;
  return tnj_none();
}

const tnj_builtin tnj_cycler_methods[] = {{"next", cycler_next, "", 0}, {"reset", cycler_reset, "", 0}, {0}};
