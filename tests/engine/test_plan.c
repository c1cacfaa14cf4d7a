/* How rows are shared out. */
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "engine/plan.h"

#define MOST 8u

typedef struct plan_case {
  uint32_t rows, logits, count;
  uint32_t pending[MOST], planned[MOST];
} plan_case;

/* As of a prompt: only its last row gives logits. */
static void last_row_is_loud(const uint32_t *pending, uint32_t *silent, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) silent[i] = pending[i] ? pending[i] - 1 : 0;
}

static void rows_go_where_they_should(void **state) {
  (void)state;
  static const plan_case cases[] = {
      {512, 64, 3, {1, 1, 1}, {1, 1, 1}},        /* all decode */
      {512, 64, 1, {800}, {512}},                /* one prompt takes the step */
      {512, 64, 3, {1, 700, 1}, {1, 510, 1}},    /* decoding first, then prefill */
      {100, 64, 3, {500, 30, 60}, {25, 30, 45}}, /* a quarter to the oldest, then the shortest first */
      {100, 64, 2, {20, 30}, {20, 30}},          /* room for all */
      {2, 64, 4, {1, 1, 1, 1}, {1, 1, 0, 0}},    /* more sequences than rows */
      {512, 2, 4, {1, 1, 1, 90}, {1, 1, 0, 89}}, /* more than logits rows: the last row of a prompt waits */
      {512, 64, 0, {0}, {0}},
      {64, 64, 3, {0, 90, 0}, {0, 64, 0}}, /* only one may run */
      {1, 64, 2, {7, 9}, {1, 0}},
      {1, 64, 2, {9, 7}, {1, 0}}, /* the oldest always goes on, however little there is */
      {3, 64, 2, {90, 5}, {1, 2}},
      {2, 64, 3, {9, 1, 1}, {1, 1, 0}},
      {64, 1, 2, {2, 1}, {1, 1}},
  };
  for (size_t c = 0; c < TN_COUNT(cases); c++) {
    uint32_t planned[MOST] = {9, 9, 9, 9, 9, 9, 9, 9}, silent[MOST], turn = 0;
    last_row_is_loud(cases[c].pending, silent, cases[c].count);
    tn_plan(cases[c].pending, silent, planned, cases[c].count, cases[c].rows, cases[c].logits, &turn);
    for (uint32_t i = 0; i < cases[c].count; i++)
      if (planned[i] != cases[c].planned[i])
        fail_msg("case %zu: sequence %u got %u rows, expected %u", c, i, planned[i], cases[c].planned[i]);
  }
}

static void everybody_has_a_turn(void **state) {
  (void)state;
  uint32_t pending[7] = {1, 1, 1, 1, 1, 1, 1}, silent[7] = {0}, planned[7], served[7] = {0}, turn = 0;
  for (int step = 0; step < 70; step++) {
    tn_plan(pending, silent, planned, 7, 512, 3, &turn);
    uint32_t sum = 0;
    for (int i = 0; i < 7; i++) {
      served[i] += planned[i];
      sum += planned[i];
    }
    assert_int_equal(sum, 3);
  }
  for (int i = 0; i < 7; i++) assert_int_equal(served[i], 30);
}

/* Prompts whose rows all give logits leave logits to others, and get all when they are alone. */
static void loud_prompts_leave_logits(void **state) {
  (void)state;
  uint32_t pending[3] = {300, 1, 20}, silent[3] = {10, 0, 19}, planned[3], turn = 0;
  tn_plan(pending, silent, planned, 3, 512, 64, &turn);
  assert_int_equal(planned[0], 10 + 62);
  assert_int_equal(planned[1], 1);
  assert_int_equal(planned[2], 20);
  tn_plan(pending, silent, planned, 1, 512, 64, &turn);
  assert_int_equal(planned[0], 10 + 64);
}

/* Whatever the load, the budgets hold, and work is only left when one of them is used up. */
static void budgets_hold(void **state) {
  (void)state;
  uint64_t random = 5;
  uint32_t turn = 0;
  for (int round = 0; round < 20000; round++) {
    uint32_t pending[MOST], silent[MOST], planned[MOST], draws[MOST + 3], rows_used = 0, logits_used = 0, left_over = 0;
    for (uint32_t i = 0; i < MOST + 3; i++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      draws[i] = (uint32_t)(random >> 33);
    }
    uint32_t rows = 1 + draws[MOST] % 100, logits = 1 + draws[MOST + 1] % 9, count = draws[MOST + 2] % (MOST + 1);
    for (uint32_t i = 0; i < count; i++) pending[i] = draws[i] % 2 ? 1 : draws[i] / 2 % 150;
    last_row_is_loud(pending, silent, count);
    for (uint32_t i = 0; i < count; i++)
      if (draws[i] % 5 == 0) silent[i] /= 2;
    tn_plan(pending, silent, planned, count, rows, logits, &turn);
    for (uint32_t i = 0; i < count; i++) {
      assert_true(planned[i] <= pending[i]);
      rows_used += planned[i];
      if (planned[i] > silent[i]) logits_used += planned[i] - silent[i];
    }
    for (uint32_t i = 0; i < count; i++)
      left_over += planned[i] < silent[i] || (planned[i] < pending[i] && logits_used < logits);
    assert_true(rows_used <= rows && logits_used <= logits);
    if (rows_used < rows) assert_int_equal(left_over, 0);
    if (count && pending[0] > 1) assert_true(planned[0] > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_go_where_they_should),
      cmocka_unit_test(everybody_has_a_turn),
      cmocka_unit_test(loud_prompts_leave_logits),
      cmocka_unit_test(budgets_hold),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
