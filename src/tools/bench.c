/* tenon bench: dispatch, lists, spreads (see bench.h). */
#include "tools/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "cli/options.h"

tn_status tn_bench_parse_list(const char *option, const char *text, uint32_t minimum, uint32_t maximum,
                              tn_bench_list *list, tn_error *error) {
  list->count = 0;
  for (const char *at = text;;) {
    char *end;
    errno = 0;
    unsigned long value = strtoul(at, &end, 10);
    bool number = *at >= '0' && *at <= '9' && errno == 0 && (*end == 0 || *end == ',');
    if (!number || value < minimum || value > maximum)
      return tn_fail(error, TN_E_INVALID, "--%s: \"%.40s\" given, expected numbers from %u to %u, comma separated",
                     option, text, minimum, maximum);
    if (list->count == TN_BENCH_MAX_LIST)
      return tn_fail(error, TN_E_INVALID, "--%s: more than %d numbers", option, TN_BENCH_MAX_LIST);
    list->items[list->count++] = (uint32_t)value;
    if (*end == 0) return TN_OK;
    at = end + 1;
  }
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

tn_bench_spread tn_bench_spread_of(double *values, size_t count) {
  qsort(values, count, sizeof *values, by_value);
  double median = count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
  return (tn_bench_spread){values[0], median, values[count - 1]};
}

int tn_command_bench(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "model")) return tn_bench_model(argc - 1, argv + 1);
  if (argc > 1 && !strcmp(argv[1], "serve")) return tn_bench_serve(argc - 1, argv + 1);
  if (argc > 1 && !strcmp(argv[1], "kernels")) return tn_bench_kernels(argc - 1, argv + 1);
  const tn_cli_command command = {
      "bench",
      "model MODEL | serve | kernels [options]",
      "Measures speed; see tenon bench model --help, bench serve --help, bench kernels --help.",
      NULL,
      0,
      0,
      0};
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, NULL, &count);
  if (parsed == TN_CLI_GO) fprintf(stderr, "tenon bench: what to measure? model, serve or kernels\n");
  return parsed == TN_CLI_DONE ? 0 : 2;
}
