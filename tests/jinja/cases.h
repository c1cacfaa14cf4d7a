/* What the tests of the template language share: one rendering from JSON, a stack of 256 kB, lines of a case file. */
#ifndef TESTS_JINJA_CASES_H
#define TESTS_JINJA_CASES_H

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/jinja/jinja.h"

static const tn_jinja_time test_time = {2026, 1, 2, 3, 4, 5};

/* Compiles `source` and renders it with the context in JSON text. The caller finishes `output`. */
static inline tn_status render_text(const char *source, size_t size, const char *context, const tn_jinja_limits *limits,
                                    const tn_jinja_trust *trust, tn_jinja_output *output, tn_error *error) {
  tn_jinja_template *jinja = NULL;
  const tn_jinja_value *value = NULL;
  tn_jinja_values *values = tn_jinja_values_create(0);
  tn_jinja_options options = {.now = &test_time};
  *output = (tn_jinja_output){0};
  if (limits) options.limits = *limits;
  tn_status status = tn_jinja_value_parse(values, context, strlen(context), trust, &value, error);
  if (!status) status = tn_jinja_compile(source, size, limits, &jinja, error);
  if (!status) status = tn_jinja_render(jinja, value, &options, output, error);
  tn_jinja_template_destroy(jinja);
  tn_jinja_values_destroy(values);
  return status;
}

typedef struct small_stack_call {
  void (*run)(void *user);
  void *user;
} small_stack_call;

static inline void *small_stack_main(void *argument) {
  small_stack_call *call = argument;
  call->run(call->user);
  return NULL;
}

/* Runs a function on a thread whose stack has 256 kB, and waits for it. (More under a sanitizer, whose frames are
 * larger.) */
static inline void on_small_stack(void (*run)(void *user), void *user) {
  pthread_attr_t attributes;
  pthread_t thread;
  small_stack_call call = {run, user};
  assert_int_equal(pthread_attr_init(&attributes), 0);
  assert_int_equal(pthread_attr_setstacksize(&attributes, (size_t)256 << 10), 0);
  assert_int_equal(pthread_create(&thread, &attributes, small_stack_main, &call), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  pthread_attr_destroy(&attributes);
}

/* A file of tests/data/templates as a zero-terminated string; free() it. */
static inline char *read_data(const char *name, size_t *size) {
  char path[600];
  snprintf(path, sizeof path, "%s/templates/%s", TEST_DATA, name);
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("%s can't be opened", path);
  size_t capacity = (size_t)1 << 20;
  char *data = malloc(capacity + 1);
  *size = fread(data, 1, capacity, file);
  assert_true(*size < capacity);
  data[*size] = 0;
  fclose(file);
  return data;
}

/* Calls `check(line)` with each line of a case file as JSON; returns the number of lines. */
static inline size_t each_case(const char *name, void (*check)(const json_t *line, void *user), void *user) {
  size_t size, count = 0;
  char *data = read_data(name, &size);
  for (char *at = data, *end; *at; at = end) {
    end = at + strcspn(at, "\n");
    json_t *line = json_loadb(at, (size_t)(end - at), JSON_ALLOW_NUL, NULL);
    assert_non_null(line);
    check(line, user);
    json_decref(line);
    count++;
    end += *end == '\n';
  }
  free(data);
  return count;
}

#endif
