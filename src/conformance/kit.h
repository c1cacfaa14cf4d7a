/* The conformance kit: every op with every case, and the seam itself, on one device.
 *
 * A case passes when the device's results are within the op's tolerance of the reference kernels' (equal, byte for
 * byte, where the tolerance is 0: ops that only move or round numbers, and cases of linear that are exact in floats),
 * the same bits come out whatever lay in memory before and however the rows are cut into steps (where the device says
 * it is batch invariant), and nothing was written beside the outputs. */
#ifndef TENON_CONFORMANCE_KIT_H
#define TENON_CONFORMANCE_KIT_H

#include "conformance/case.h"
#include "device/registry.h"

typedef enum tn_kit_verdict {
  TN_KIT_PASSED,
  TN_KIT_FAILED,
  TN_KIT_FALLBACK, /* the device doesn't take this op with these operands: the cpu would run it */
  TN_KIT_HIDDEN    /* it takes the op, but not another one that is needed to see what the op did */
} tn_kit_verdict;

typedef struct tn_kit_result {
  const char *part; /* name of the op, or "seam" */
  const char *name; /* of the case */
  const tn_case *c; /* NULL: of the seam */
  tn_kit_verdict verdict;
  double error, tolerance;
  char why[320]; /* what is wrong, when it failed */
  /* with perf: */
  double seconds, bytes, operations; /* of one run; bytes and operations that it can't do without */
  double percent;                    /* of the nearer peak, 0: the device declares none */
  bool memory_bound;
} tn_kit_result;

typedef struct tn_kit_coverage {
  uint32_t native, fallback, failed;
} tn_kit_coverage;

typedef struct tn_kit_summary {
  uint32_t passed, failed, fallback, hidden;
  tn_kit_coverage coverage[TN_OP_LIMIT][TN_DTYPE_COUNT];
  double seconds;
} tn_kit_summary;

#define TN_KIT_NAME 160
typedef struct tn_kit_options {
  const char *op;      /* only this op, or "seam"; NULL: all */
  bool perf;           /* time large cases instead */
  bool ask_only;       /* run nothing: what the device says it takes counts as passed */
  uint32_t timeout_ms; /* for one step; 0: 10 seconds */
  char *running;       /* NULL, or TN_KIT_NAME bytes that always name what runs now: for a last word on a crash */
  void (*on_result)(void *context, const tn_kit_result *result);
  void *context;
} tn_kit_options;

/* Runs the kit on the device that `spec` names. Failures of cases are results, counted in the summary; TN_OK then too.
 * A device that can't be opened, or that fails to finish twice, or is lost and can't be reopened, ends the run with an
 * error. TN_E_INVALID: there is no such op. */
tn_status tn_kit_run(const char *spec, const tn_kit_options *options, tn_kit_summary *summary, tn_error *error);

/* One case, all its checks; the device must be open. A timeout or loss is returned as well as noted in the result. */
tn_status tn_kit_check_case(tn_opened_device *device, const tn_case *c, uint64_t timeout_ns, tn_kit_result *result);

/* The seam (seam.c): each check is one result. */
typedef struct tn_seam_target {
  tn_opened_device *device;
  const char *spec; /* it was opened by */
  uint64_t timeout_ns;
} tn_seam_target;
typedef struct tn_seam_check {
  const char *name;
  tn_status (*run)(const tn_seam_target *target, tn_error *error);
} tn_seam_check;
extern const tn_seam_check tn_seam_checks[];
extern const uint32_t tn_seam_check_count;

#endif
