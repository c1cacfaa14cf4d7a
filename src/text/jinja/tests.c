/* The tests behind `is`. */
#include "text/jinja/builtins.h"
#include "text/jinja/number.h"
#include "text/jinja/text.h"
#include "text/jinja/unicode.h"

#define TEST(name) static tnj_value name(tnj_state *s, tnj_value self, const tnj_value *p, const tnj_arguments *a)
#define UNUSED (void)s, (void)self, (void)p, (void)a

/* A test of the value's kind alone. */
#define KIND_TEST(name, condition) \
  TEST(name) {                     \
    UNUSED;                        \
    return tnj_bool(condition);    \
  }

KIND_TEST(is_defined, !tnj_is_undefined(self))
KIND_TEST(is_undefined, tnj_is_undefined(self))
KIND_TEST(is_none, self.kind == TNJ_NONE)
KIND_TEST(is_boolean, self.kind == TNJ_BOOL)
KIND_TEST(is_true, self.kind == TNJ_BOOL && self.boolean)
KIND_TEST(is_false, self.kind == TNJ_BOOL && !self.boolean)
KIND_TEST(is_integer, self.kind == TNJ_INT || self.kind == TNJ_BIG)
KIND_TEST(is_float, self.kind == TNJ_FLOAT)
KIND_TEST(is_number, tnj_is_number(self))
KIND_TEST(is_string, tnj_is_string(self))
KIND_TEST(is_mapping, self.kind == TNJ_DICT)
KIND_TEST(is_iterable, tnj_is_iterable(self))
KIND_TEST(is_callable, tnj_is_callable(self))
KIND_TEST(is_escaped, tnj_is_string(self) && (self.flag & TNJ_MARKUP))
KIND_TEST(is_sequence, tnj_is_string(self) || tnj_is_sequence(self) || self.kind == TNJ_DICT ||
                           self.kind == TNJ_RANGE || tnj_is_undefined(self))
KIND_TEST(is_sameas, tnj_same(self, p[0]))
KIND_TEST(is_eq, tnj_equal(s, self, p[0]))
KIND_TEST(is_ne, !tnj_equal(s, self, p[0]))
KIND_TEST(is_lt, tnj_order(s, self, p[0], "<"))
KIND_TEST(is_le, tnj_order(s, self, p[0], "<="))
KIND_TEST(is_gt, tnj_order(s, self, p[0], ">"))
KIND_TEST(is_ge, tnj_order(s, self, p[0], ">="))
KIND_TEST(is_in, tnj_contains(s, p[0], self))

/* A name is looked up in a dictionary of Python's: what can't be a key is an error, other values are no names. */
static bool is_name_in(tnj_state *s, tnj_value v, const tnj_builtin *(*find)(tnj_value name)) {
  tnj_dict_set(s, tnj_dict_new(s, 1), v, tnj_none());
  return tnj_is_string(v) && find(v) != NULL;
}

KIND_TEST(is_filter, is_name_in(s, self, tnj_find_filter))
KIND_TEST(is_test, is_name_in(s, self, tnj_find_test))

static bool remainder_is(tnj_state *s, tnj_value v, tnj_value divisor, int64_t wanted) {
  return tnj_equal(s, tnj_binary(s, TNJ_MODULO, v, divisor), tnj_int(wanted));
}

KIND_TEST(is_even, remainder_is(s, self, tnj_int(2), 0))
KIND_TEST(is_odd, remainder_is(s, self, tnj_int(2), 1))
KIND_TEST(is_divisibleby, remainder_is(s, self, p[0], 0))

/* Whether the text has letters with case, and all are of the one. */
static bool all_case(tnj_state *s, tnj_value v, bool (*right)(uint32_t), bool (*wrong)(uint32_t)) {
  tnj_value text = tnj_str(s, v);
  bool any = false;
  tnj_work(s, tnj_size(text) * 4);
  for (size_t at = 0, next; at < tnj_size(text); at = next) {
    uint32_t c = tnj_codepoint_at(text, at, &next);
    if (wrong(c) || tnj_is_title(c)) return false;
    any |= right(c);
  }
  return any;
}

KIND_TEST(is_lower, all_case(s, self, tnj_is_lower, tnj_is_upper))
KIND_TEST(is_upper, all_case(s, self, tnj_is_upper, tnj_is_lower))

const tnj_builtin tnj_tests[] = {{"defined", is_defined, "", 0},
                                 {"undefined", is_undefined, "", 0},
                                 {"none", is_none, "", 0},
                                 {"boolean", is_boolean, "", 0},
                                 {"true", is_true, "", 0},
                                 {"false", is_false, "", 0},
                                 {"integer", is_integer, "", 0},
                                 {"float", is_float, "", 0},
                                 {"number", is_number, "", 0},
                                 {"string", is_string, "", 0},
                                 {"mapping", is_mapping, "", 0},
                                 {"iterable", is_iterable, "", 0},
                                 {"sequence", is_sequence, "", 0},
                                 {"callable", is_callable, "", 0},
                                 {"escaped", is_escaped, "", 0},
                                 {"sameas", is_sameas, "other", 1},
                                 {"filter", is_filter, "", 0},
                                 {"test", is_test, "", 0},
                                 {"eq", is_eq, "b", 1},
                                 {"equalto", is_eq, "b", 1},
                                 {"==", is_eq, "b", 1},
                                 {"ne", is_ne, "b", 1},
                                 {"!=", is_ne, "b", 1},
                                 {"lt", is_lt, "b", 1},
                                 {"lessthan", is_lt, "b", 1},
                                 {"<", is_lt, "b", 1},
                                 {"le", is_le, "b", 1},
                                 {"<=", is_le, "b", 1},
                                 {"gt", is_gt, "b", 1},
                                 {"greaterthan", is_gt, "b", 1},
                                 {">", is_gt, "b", 1},
                                 {"ge", is_ge, "b", 1},
                                 {">=", is_ge, "b", 1},
                                 {"in", is_in, "seq", 1},
                                 {"even", is_even, "", 0},
                                 {"odd", is_odd, "", 0},
                                 {"divisibleby", is_divisibleby, "num", 1},
                                 {"lower", is_lower, "", 0},
                                 {"upper", is_upper, "", 0},
                                 {0}};
