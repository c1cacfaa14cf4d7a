/* Every case file: the text must be jinja2's, byte for byte, and what jinja2 refuses must be refused. */
#include "jinja/cases.h"

typedef struct tally {
  size_t failures;
} tally;

static const char *text_of(const json_t *line, const char *key) {
  return json_string_value(json_object_get(line, key));
}

static void complain(tally *t, const json_t *line, const tn_jinja_output *output, const tn_error *error) {
  const char *id = text_of(line, "id") ? text_of(line, "id") : text_of(line, "case");
  if (t->failures++ < 10)
    print_error("%s %s: got %s, wanted %s\n", text_of(line, "template"), id,
                output->text ? output->text : error->message,
                text_of(line, "expected") ? text_of(line, "expected") : "an error");
}

static void check(tally *t, const json_t *line, const char *source, size_t size) {
  tn_error error = {0};
  tn_jinja_output output;
  char *context = json_dumps(json_object_get(line, "context"), JSON_COMPACT);
  const json_t *expected = json_object_get(line, "expected"), *wanted = json_object_get(line, "error");
  tn_status status = render_text(source, size, context, NULL, NULL, &output, &error);
  const char *kind = text_of(wanted, "kind"), *message = text_of(wanted, "message");
  if (expected) {
    bool same = !status && output.size == json_string_length(expected) &&
                memcmp(output.text, json_string_value(expected), output.size) == 0;
    if (!same) complain(t, line, &output, &error);
  } else if (!status) {
    complain(t, line, &output, &error);
  } else {
    assert_true(strncmp(error.message, "line ", 5) == 0);
    if (kind && strcmp(kind, "raise_exception") == 0) {
      assert_non_null(output.raised);
      assert_string_equal(output.raised, message);
    } else {
      assert_null(output.raised);
    }
  }
  free(context);
  tn_jinja_output_finish(&output);
}

static void check_snippet(const json_t *line, void *user) {
  const json_t *source = json_object_get(line, "template");
  check(user, line, json_string_value(source), json_string_length(source));
}

static void check_template(const json_t *line, void *user) {
  size_t size;
  char *source = read_data(text_of(line, "template"), &size);
  check(user, line, source, size);
  free(source);
}

typedef struct run {
  const char *file;
  void (*check)(const json_t *line, void *user);
  size_t at_least;
} run;

static void run_file(void *user) {
  const run *r = user;
  tally t = {0};
  assert_true(each_case(r->file, r->check, &t) >= r->at_least);
  assert_int_equal(t.failures, 0);
}

static void templates(void **state) {
  (void)state;
  on_small_stack(run_file, &(run){"vectors.jsonl", check_template, 270});
}

static void language(void **state) {
  (void)state;
  on_small_stack(run_file, &(run){"jinja.jsonl", check_snippet, 210});
}

static void more_language(void **state) {
  (void)state;
  on_small_stack(run_file, &(run){"more.jsonl", check_snippet, 100});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(templates), cmocka_unit_test(language),
                                     cmocka_unit_test(more_language)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
