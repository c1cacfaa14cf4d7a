/* What a model's makers advise on sampling reaches the public description of the model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tenon/tenon.h"

static tn_model_info describe(const char *path) {
  tn_model *model;
  tn_error error;
  tn_model_info info = TN_MODEL_INFO;
  if (tn_model_open(path, &model, &error) != TN_OK) fail_msg("%s", error.message);
  tn_model_describe(model, &info);
  tn_model_close(model);
  return info;
}

static void generation_config_is_offered(void **state) {
  (void)state;
  tn_model_info info = describe(TEST_SHAPES "/llama-one-kv");
  assert_true(info.temperature == 0.6f && info.top_p == 0.9f && info.repeat_penalty == 1.25f);
  assert_int_equal(info.top_k, 20);
  assert_true(info.min_p < 0);
}

static void no_advice_is_said_so(void **state) {
  (void)state;
  tn_model_info info = describe(TEST_SHAPES "/llama-groups3");
  assert_true(info.temperature < 0 && info.top_p < 0 && info.min_p < 0 && info.repeat_penalty < 0 && info.top_k < 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(generation_config_is_offered),
                                     cmocka_unit_test(no_advice_is_said_so)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
