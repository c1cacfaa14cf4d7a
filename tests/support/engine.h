/* Engines and requests that a test can't do without: where one can't be had, the test fails with the reason. */
#ifndef TENON_TESTS_ENGINE_H
#define TENON_TESTS_ENGINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h wants the four above */
#include <cmocka.h>

#include "tenon/tenon.h"

static inline tn_engine *must_start(const tn_model *model, const tn_engine_options *options) {
  tn_engine *engine = NULL;
  tn_error error;
  if (tn_engine_create(model, options, &engine, &error) != TN_OK) fail_msg("%s", error.message);
  return engine;
}

static inline tn_request *must_submit(tn_engine *engine, const tn_request_options *options) {
  tn_request *request = NULL;
  tn_error error;
  if (tn_engine_submit(engine, options, &request, &error) != TN_OK) fail_msg("%s", error.message);
  return request;
}

#endif
