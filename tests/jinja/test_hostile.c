/* Templates that try to hang or exhaust us: each ends with an error, within its limits and on a stack of 256 kB. */
#include "jinja/cases.h"

static const tn_jinja_limits tight = {
    .steps = 200000, .memory_bytes = (size_t)16 << 20, .output_bytes = (size_t)1 << 20};

/* Must end with `status`. */
static void ends_with(tn_status status, const char *source) {
  tn_error error = {0};
  tn_jinja_output output;
  tn_status got =
      render_text(source, strlen(source), "{\"l\": [1, 2, 3], \"s\": \"abc\"}", &tight, NULL, &output, &error);
  if (got != status) fail_msg("%.100s: status %d (%s), wanted %d", source, (int)got, error.message, (int)status);
  assert_null(output.text);
  assert_true(strncmp(error.message, "line ", 5) == 0);
  tn_jinja_output_finish(&output);
}

static void exploding(void *user) {
  (void)user;
  ends_with(TN_E_LIMIT, "{{ 'a' * 10**9 }}");
  ends_with(TN_E_LIMIT, "{{ 'a' * 10**30 }}");
  ends_with(TN_E_LIMIT, "{{ [0] * 10**9 }}");
  ends_with(TN_E_LIMIT, "{{ range(10**12) | list }}");
  ends_with(TN_E_LIMIT, "{% for i in range(10**12) %}{% endfor %}");
  ends_with(TN_E_LIMIT, "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}");
  ends_with(TN_E_LIMIT, "{% for i in range(90000) %}{% for j in range(90000) %}x{% endfor %}{% endfor %}");
  ends_with(TN_E_LIMIT,
            "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}");
  ends_with(TN_E_LIMIT,
            "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}");
  ends_with(
      TN_E_LIMIT,
      "{% set ns = namespace(x='aa') %}{% for i in range(60) %}{% set ns.x = ns.x.replace('a', ns.x) %}{% endfor %}");
  ends_with(TN_E_LIMIT,
            "{% set ns = namespace(x='aa') %}{% for i in range(60) %}{% set ns.x = ns.x.join(ns.x) %}{% endfor %}");
  ends_with(TN_E_LIMIT,
            "{% set ns = namespace(x='<') %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x]|string|forceescape %}{% "
            "endfor %}");
  ends_with(TN_E_LIMIT, "{{ '%999999999d' % 1 }}");
  ends_with(TN_E_LIMIT, "{{ '%.999999999f' % 1 }}");
  ends_with(TN_E_INVALID, "{{ '{:99999999999}'.format(1) }}");
  ends_with(TN_E_LIMIT, "{{ '{:999999999}'.format(1) }}");
  ends_with(TN_E_LIMIT, "{{ 'x'.center(10**10) }}");
  ends_with(TN_E_LIMIT, "{{ 'x\\ny'|indent(10**10) }}");
  ends_with(TN_E_LIMIT, "{{ l|batch(10**12, 0)|list }}");
  ends_with(TN_E_LIMIT, "{{ l|slice(10**12)|list }}");
  ends_with(TN_E_LIMIT, "{{ '\\t'.expandtabs(10**12) }}");
  ends_with(TN_E_LIMIT, "{{ 10**(10**10) }}");
  ends_with(TN_E_LIMIT,
            "{% set ns = namespace(x=3) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}");
  ends_with(TN_E_LIMIT, "{{ l|tojson(indent=10**9) }}");
  ends_with(TN_E_LIMIT, "{{ ('a' * 10**6).replace('', 'b' * 10**6) }}");
  ends_with(TN_E_LIMIT, "{% for i in range(99999) %}{% set x = ('ab' * 1000).find('ba' * 500 ~ 'c') %}{% endfor %}");
  ends_with(TN_E_LIMIT, "{% for i in range(99999) %}{% set x = ('a' * 9999)|upper %}{% endfor %}");
  ends_with(TN_E_LIMIT, "{{ ('a' * 99999).rfind('a' * 50000 ~ 'b') }}{{ ('a' * 99999).rfind('b' ~ 'a' * 50000) }}");
}

static void recursing(void *user) {
  (void)user;
  ends_with(TN_E_LIMIT, "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
  ends_with(TN_E_LIMIT, "{% macro f(x) %}{{ g(x) }}{% endmacro %}{% macro g(x) %}{{ f([x]) }}{% endmacro %}{{ f(1) }}");
  ends_with(TN_E_LIMIT, "{% macro f(x) %}{% call f(x) %}{% endcall %}{{ caller() }}{% endmacro %}{{ f(1) }}");
  ends_with(TN_E_LIMIT, "{% for x in [l] recursive %}{{ loop([x]) }}{% endfor %}");
  ends_with(TN_E_LIMIT,
            "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}");
  ends_with(
      TN_E_LIMIT,
      "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x|tojson }}");
  ends_with(TN_E_LIMIT,
            "{% set a = namespace(x=[]) %}{% set b = namespace(x=[]) %}{% for i in range(9999) %}{% set a.x = [a.x] "
            "%}{% set b.x = [b.x] %}{% endfor %}{{ a.x == b.x }}");
  ends_with(
      TN_E_LIMIT,
      "{% set ns = namespace(x=(1,)) %}{% for i in range(9999) %}{% set ns.x = (ns.x,) %}{% endfor %}{{ {ns.x: 1} }}");
  ends_with(TN_E_LIMIT, "{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}");
}

/* `count` times `open`, `middle`, `count` times `close`, inside an output tag unless `open` is a tag. */
static void nested(const char *open, const char *middle, const char *close, size_t count) {
  size_t room = count * (strlen(open) + strlen(close)) + strlen(middle) + 16;
  char *source = malloc(room), *at = source;
  bool tag = open[0] == '{' && open[1] == '%';
  at += sprintf(at, "%s", tag ? "" : "{{ ");
  for (size_t i = 0; i < count; i++) at = stpcpy(at, open);
  at = stpcpy(at, middle);
  for (size_t i = 0; i < count; i++) at = stpcpy(at, close);
  sprintf(at, "%s", tag ? "" : " }}");
  ends_with(TN_E_LIMIT, source);
  free(source);
}

static void deep_source(void *user) {
  (void)user;
  nested("(", "1", ")", 20000);
  nested("[", "1", "]", 20000);
  nested("{1:", "1", "}", 20000);
  nested("(", "1", ")", 400);
  nested("-", "1", "", 20000);
  nested("not ", "1", "", 20000);
  nested("", "1", " + 1", 20000);
  nested("", "1", "|abs", 20000);
  nested("", "l", "[0]", 20000);
  nested("", "l", ".x", 20000);
  nested("", "l", " if 1 else l", 20000);
  nested("", "l", " and l", 20000);
  nested("{% if 1 %}", "", "{% endif %}", 20000);
  nested("{% for x in l %}", "", "{% endfor %}", 20000);
  nested("{% set x %}", "", "{% endset %}", 20000);
}

static void source_size(void *user) {
  (void)user;
  tn_error error = {0};
  tn_jinja_template *jinja;
  assert_int_equal(tn_jinja_compile("{{ 1 }}  ", 9, &(tn_jinja_limits){.source_bytes = 8}, &jinja, &error), TN_E_LIMIT);
  assert_null(jinja);
}

/* What is large but honest passes with the default limits. */
static void honest(void *user) {
  (void)user;
  static const char *const sources[] = {
      "{% set ns = namespace(x='') %}{% for i in range(50000) %}{% set ns.x = ns.x + 'abcdefghij' %}{% endfor %}{{ "
      "ns.x|length }}",
      "{% macro f(n) %}{{ f(n - 1) if n else 'x' }}{% endmacro %}{{ f(40) }}",
      "{% for i in range(1000) %}{% for j in range(300) %}{% if i == j %}{% endif %}{% endfor %}{% endfor %}"};
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    tn_error error = {0};
    tn_jinja_output output;
    tn_status status = render_text(sources[i], strlen(sources[i]), "{}", NULL, NULL, &output, &error);
    if (status) fail_msg("%s: %s", sources[i], error.message);
    tn_jinja_output_finish(&output);
  }
}

#define ON_SMALL_STACK(name)              \
  static void name##_test(void **state) { \
    (void)state;                          \
    on_small_stack(name, NULL);           \
  }

ON_SMALL_STACK(exploding)
ON_SMALL_STACK(recursing)
ON_SMALL_STACK(deep_source)
ON_SMALL_STACK(source_size)
ON_SMALL_STACK(honest)

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(exploding_test), cmocka_unit_test(recursing_test),
                                     cmocka_unit_test(deep_source_test), cmocka_unit_test(source_size_test),
                                     cmocka_unit_test(honest_test)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
