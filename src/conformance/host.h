/* The reference side: a case on the host, by the interpreter and the reference kernels. */
#ifndef TENON_CONFORMANCE_HOST_H
#define TENON_CONFORMANCE_HOST_H

#include "conformance/steps.h"

/* Runs all steps of a case into `results` (initialised). */
tn_status tn_case_run_on_host(const tn_case *c, tn_schedule schedule, tn_case_results *results, tn_error *error);

/* The description of a weight value, as the portable layer would make it. */
tn_weight_desc tn_case_weight_desc(const tn_case_value *value);

/* Sum of squared differences over the sum of squares of what is wanted, for one output over all rows that want it.
 * `same_kind` false: NaNs or infinities don't stand at the same places. Integers and q8a: values as they decode. */
typedef struct tn_case_error {
  double error;
  bool same_kind;
  uint32_t row, column; /* where the largest difference stands */
  float got, want;
} tn_case_error;
tn_status tn_case_compare(const tn_case *c, const tn_case_results *got, const tn_case_results *want,
                          tn_case_error *worst, tn_error *error);
/* Are all outputs the same byte for byte, but for what NaNs are made of? Else *output and *row say where. */
bool tn_case_same_bits(const tn_case *c, const tn_case_results *got, const tn_case_results *want, uint32_t *output,
                       uint32_t *row);

#endif
