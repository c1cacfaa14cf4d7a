/* A template and a context are shared: threads that render with them at once all get the same text, as often as they
 * like. (Under the thread sanitizer this also shows that none of them writes to what is shared.) */
#include "jinja/cases.h"

enum { THREADS = 6, ROUNDS = 20 };

static const char source[] =
    "{% macro show(x, end='!') %}{{ x ~ end }}{{ caller.name ~ 'c' if caller }}{% endmacro %}"
    "{% set ns = namespace(text=first, all=items) %}"
    "{% for i in items %}{% set ns.text = ns.text + ' ' + i %}{% set ns.all = ns.all + [i ~ '\\n'] %}{% endfor %}"
    "{{ ns.text }}{{ ns.all }}{{ 'literal' + first }}{{ 'a' 'b' ~ first }}{{ show(first) }}"
    "{% call show('x' ~ show.name) %}{% endcall %}{{ dict(shared, k=1)|tojson }}{{ shared.a + 'z' }}{{ first|upper + "
    "'.' }}";

typedef struct shared_case {
  const tn_jinja_template *jinja;
  const tn_jinja_value *context;
  const char *expected;
  size_t wrong;
} shared_case;

static char *render_once(const shared_case *shared) {
  tn_error error = {0};
  tn_jinja_output output;
  if (tn_jinja_render(shared->jinja, shared->context, NULL, &output, &error)) return strdup(error.message);
  char *text = strdup(output.text);
  tn_jinja_output_finish(&output);
  return text;
}

static void *render_often(void *argument) {
  shared_case *shared = argument;
  for (size_t i = 0; i < ROUNDS; i++) {
    char *text = render_once(shared);
    if (strcmp(text, shared->expected) != 0) __atomic_fetch_add(&shared->wrong, 1, __ATOMIC_RELAXED);
    free(text);
  }
  return NULL;
}

static void together(void **state) {
  (void)state;
  static const char json[] = "{\"first\": \"one\", \"items\": [\"two\", \"three\"], \"shared\": {\"a\": \"b\"}}";
  tn_error error = {0};
  tn_jinja_template *jinja;
  shared_case shared = {0};
  pthread_t threads[THREADS];
  tn_jinja_values *values = tn_jinja_values_create(0);
  assert_int_equal(tn_jinja_value_parse(values, json, strlen(json), NULL, &shared.context, &error), TN_OK);
  assert_int_equal(tn_jinja_compile(source, strlen(source), NULL, &jinja, &error), TN_OK);
  shared.jinja = jinja;
  char *expected = render_once(&shared);
  assert_string_equal(expected,
                      "one two three['two', 'three', 'two\\n', 'three\\n']literaloneabone"
                      "one!xshow!Nonec{\"a\": \"b\", \"k\": 1}bzONE.");
  shared.expected = expected;
  for (size_t i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, render_often, &shared), 0);
  for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(shared.wrong, 0);
  free(expected);
  tn_jinja_template_destroy(jinja);
  tn_jinja_values_destroy(values);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(together)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
