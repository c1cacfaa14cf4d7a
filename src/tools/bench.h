/* tenon bench: what its measurements share. */
#ifndef TENON_TOOLS_BENCH_H
#define TENON_TOOLS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tenon/status.h"

#define TN_BENCH_MAX_LIST 16
typedef struct tn_bench_list {
  uint32_t items[TN_BENCH_MAX_LIST];
  size_t count;
} tn_bench_list;

/* Parses "1,2,4"; every number within [minimum, maximum]. Errors name the option. */
tn_status tn_bench_parse_list(const char *option, const char *text, uint32_t minimum, uint32_t maximum,
                              tn_bench_list *list, tn_error *error);

/* minimum, median, maximum of values (sorted in place). */
typedef struct tn_bench_spread {
  double minimum, median, maximum;
} tn_bench_spread;
tn_bench_spread tn_bench_spread_of(double *values, size_t count);

int tn_bench_model(int argc, char **argv);
int tn_bench_serve(int argc, char **argv);
int tn_bench_kernels(int argc, char **argv);

#endif
