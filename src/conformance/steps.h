/* Cutting the rows of a case into steps, and gathering and scattering what belongs to them. */
#ifndef TENON_CONFORMANCE_STEPS_H
#define TENON_CONFORMANCE_STEPS_H

#include "conformance/case.h"

/* How rows are cut: at most `rows` of a sequence a step (0: all), of all unfinished sequences or of one at a time. */
typedef struct tn_schedule {
  uint32_t rows;
  bool alone;
  const char *name; /* for messages */
} tn_schedule;

/* The step at hand. `case_rows[t]` is the case's row that stands as row t of the batch. */
typedef struct tn_step_plan {
  const tn_case *c;
  tn_schedule schedule;
  uint32_t done[TN_CASE_SEQUENCES];  /* rows of each sequence that are behind */
  uint32_t slots[TN_CASE_SEQUENCES]; /* where its recurrent state is, of two */
  tn_batch batch;
  tn_row *rows;
  uint32_t *case_rows, *logits_rows, *pages;
  tn_sequence sequences[TN_CASE_SEQUENCES];
} tn_step_plan;

bool tn_step_plan_init(tn_step_plan *plan, const tn_case *c, tn_schedule schedule); /* false: out of memory */
void tn_step_plan_finish(tn_step_plan *plan);
/* Makes the next step; false when all rows are behind. */
bool tn_step_plan_next(tn_step_plan *plan);

/* Rows of a value in this step: T or R. */
uint32_t tn_step_rows(const tn_step_plan *plan, const tn_case_value *value);
/* The case's row that row `i` of a value of this step is. */
uint32_t tn_step_case_row(const tn_step_plan *plan, const tn_case_value *value, uint32_t i);
/* Copies the rows of an input into `to`, or rows out of `from` into the results of a whole case ([row_count] rows). */
void tn_step_gather(const tn_step_plan *plan, const tn_case_value *value, uint8_t *to);
void tn_step_scatter(const tn_step_plan *plan, const tn_case_value *value, const uint8_t *from, uint8_t *results);

/* What a run gave: for each output, by binding number, a row for each row of the case; rows that were not to be
 * written are zero. */
typedef struct tn_case_results {
  uint8_t *rows[TN_CASE_VALUES];
} tn_case_results;
bool tn_case_results_init(tn_case_results *results, const tn_case *c);
void tn_case_results_finish(tn_case_results *results);

#endif
