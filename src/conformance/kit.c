/* Running the kit (see kit.h). */
#include "conformance/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/os.h"
#include "conformance/bench.h"
#include "conformance/host.h"
#include "conformance/makers.h"

#define POISON_NAN 0xffu   /* NaN in every float format */
#define POISON_LARGE 0x7eu /* a large finite number in most */
#define TIMEOUT_MS 10000u
#define TIMING_REPEATS 5u

static const tn_schedule whole = {0, false, "all rows together"};
static const tn_schedule pieces[] = {{1, true, "row by row"}, {3, false, "three rows a step"}};

/* ---- one case ---- */

typedef struct three_results {
  tn_case_results want, got, again;
} three_results;

static bool take_results(three_results *r, const tn_case *c) {
  *r = (three_results){0};
  return tn_case_results_init(&r->want, c) && tn_case_results_init(&r->got, c) && tn_case_results_init(&r->again, c);
}

static void drop_results(three_results *r) {
  tn_case_results_finish(&r->want);
  tn_case_results_finish(&r->got);
  tn_case_results_finish(&r->again);
}

static tn_status compare(const tn_case *c, const tn_case_results *got, const tn_case_results *want,
                         tn_kit_result *result, tn_error *error) {
  tn_case_error worst;
  tn_status status = tn_case_compare(c, got, want, &worst, error);
  if (status != TN_OK) return status;
  if (worst.error > result->error) result->error = worst.error;
  if (!worst.same_kind)
    return tn_fail(error, TN_E_INTERNAL, "row %u, column %u: %g instead of %g", worst.row, worst.column,
                   (double)worst.got, (double)worst.want);
  uint32_t output, row;
  if (worst.error == 0 && c->tolerance == 0 && !tn_case_same_bits(c, got, want, &output, &row))
    return tn_fail(error, TN_E_INTERNAL, "output %u, row %u: other bits than the reference's, which are exact", output,
                   row);
  if (worst.error <= c->tolerance) return TN_OK;
  return tn_fail(error, TN_E_INTERNAL, "error %.3g, allowed %.3g; row %u, column %u: %.9g instead of %.9g", worst.error,
                 c->tolerance, worst.row, worst.column, (double)worst.got, (double)worst.want);
}

/* The first output row that isn't the same, byte for byte. */
static tn_status compare_bytes(const tn_case *c, const three_results *r, const char *what, tn_error *error) {
  for (uint32_t i = 0; i < c->value_count; i++) {
    const tn_case_value *value = &c->values[i];
    if (value->kind != TN_VALUE_OUTPUT) continue;
    uint64_t bytes = tn_case_row_bytes(value);
    for (uint32_t row = 0; row < tn_case_rows(c, value); row++)
      if (memcmp(r->got.rows[value->index] + row * bytes, r->again.rows[value->index] + row * bytes, bytes) != 0)
        return tn_fail(error, TN_E_INTERNAL, "output %u, row %u: other bits %s", value->index, row, what);
  }
  return TN_OK;
}

static tn_status check_runs(tn_bench *bench, three_results *r, tn_kit_result *result, tn_error *error) {
  const tn_case *c = bench->c;
  tn_status status = tn_bench_run(bench, whole, POISON_NAN, &r->got, error);
  if (status == TN_OK) status = tn_case_run_on_host(c, whole, &r->want, error);
  if (status == TN_OK) status = compare(c, &r->got, &r->want, result, error);
  if (status == TN_OK) status = tn_bench_run(bench, whole, POISON_LARGE, &r->again, error);
  if (status == TN_OK) status = compare_bytes(c, r, "when other bytes lay in memory before", error);
  for (size_t i = 0; i < TN_COUNT(pieces) && status == TN_OK && c->row_count > 1 && !c->fixed; i++) {
    char what[48];
    snprintf(what, sizeof what, "%s", pieces[i].name);
    status = tn_bench_run(bench, pieces[i], i ? POISON_LARGE : POISON_NAN, &r->again, error);
    if (status != TN_OK) break;
    status = bench->device->properties.batch_invariant ? compare_bytes(c, r, what, error)
                                                       : compare(c, &r->again, &r->want, result, error);
  }
  return status;
}

static bool is_fatal(tn_status status) {
  return status == TN_E_TIMEOUT || status == TN_E_DEVICE_LOST;
}

/* Notes a failure in the result; gives back what must end or repair the run. */
static tn_status note_failure(tn_kit_result *result, tn_status status, const tn_error *error) {
  if (status == TN_OK) return TN_OK;
  result->verdict = TN_KIT_FAILED;
  snprintf(result->why, sizeof result->why, "%.300s", error->message);
  return is_fatal(status) ? status : TN_OK;
}

/* Fills in the verdict where the device doesn't take the case; true when there is nothing more to do. */
static bool is_left_out(tn_opened_device *device, const tn_case *c, tn_kit_result *result, tn_status *fatal) {
  tn_error error = {0};
  bool others;
  tn_status status = tn_bench_supports(device, c, &others, &error);
  *fatal = TN_OK;
  if (status == TN_OK) return false;
  result->verdict = others ? TN_KIT_HIDDEN : TN_KIT_FALLBACK;
  if (status != TN_E_UNSUPPORTED) *fatal = note_failure(result, status, &error);
  return true;
}

static tn_kit_result result_of(const tn_case *c) {
  return (tn_kit_result){.part = tn_op_info_of(c->opcode)->name, .name = c->name, .c = c, .tolerance = c->tolerance};
}

tn_status tn_kit_check_case(tn_opened_device *device, const tn_case *c, uint64_t timeout_ns, tn_kit_result *result) {
  tn_error error = {0};
  tn_bench bench;
  three_results results = {0};
  tn_status fatal;
  *result = result_of(c);
  if (is_left_out(device, c, result, &fatal)) return fatal;
  tn_status status = tn_bench_start(&bench, device, c, timeout_ns, &error);
  if (status == TN_OK) {
    status = take_results(&results, c) ? check_runs(&bench, &results, result, &error)
                                       : tn_fail(&error, TN_E_MEMORY, "out of memory");
    tn_bench_finish(&bench);
  }
  drop_results(&results);
  return note_failure(result, status, &error);
}

/* ---- timing ---- */

/* Multiply-adds counted twice; one operation a value where an op has none. */
static double operations_of(const tn_case *c) {
  const tn_op *op = &c->ops[c->op_count - 1];
  const tn_case_value *in = &c->values[op->inputs[0]];
  if (op->opcode == TN_OP_LINEAR) {
    const tn_case_value *w = &c->values[op->inputs[1]];
    return 2.0 * c->row_count * w->dims[0] * w->dims[1];
  }
  if (op->opcode == TN_OP_ATTENTION) {
    const tn_case_value *kv = &c->values[op->inputs[1]];
    double heads = (double)in->dims[1] / kv->dims[1], pairs = 0.5 * c->row_count * (c->row_count + 1.0);
    return 2.0 * heads * pairs * (kv->dims[1] + kv->dims[2]);
  }
  if (op->opcode == TN_OP_MOE_LINEAR || op->opcode == TN_OP_HEAD_LINEAR) { /* of [experts or heads, N, K] */
    const tn_case_value *w = &c->values[op->inputs[1]];
    bool moe = op->opcode == TN_OP_MOE_LINEAR;
    double matrices = moe ? c->values[op->inputs[2]].dims[1] : w->dims[0];
    return 2.0 * c->row_count * matrices * w->dims[1] * w->dims[2];
  }
  if (op->opcode == TN_OP_DELTA_RULE) { /* decay, S^T k, the update, S^T q */
    const tn_case_value *s = &c->values[op->inputs[5]];
    return 7.0 * c->row_count * s->dims[0] * s->dims[1] * s->dims[2];
  }
  return (double)c->row_count * in->dims[in->rank - 1];
}

/* Rows of a matrix weight that a case must read: of a table those looked up, of experts those chosen. */
static double weight_rows(const tn_case *c, const tn_case_value *w) {
  if (c->opcode == TN_OP_EMBED) return c->row_count;
  if (w->rank == 2) return w->dims[0];
  double matrices = w->dims[0];
  if (c->opcode == TN_OP_MOE_LINEAR) {
    double chosen = (double)c->row_count * c->values[c->ops[0].inputs[2]].dims[1];
    if (chosen < matrices) matrices = chosen;
  }
  return matrices * w->dims[1];
}

/* Inputs and outputs once, weights once in the file's format. */
static double bytes_of(const tn_case *c) {
  double bytes = 0;
  for (uint32_t i = 0; i < c->value_count; i++) {
    const tn_case_value *value = &c->values[i];
    if (value->kind == TN_VALUE_INPUT || value->kind == TN_VALUE_OUTPUT)
      bytes += (double)tn_case_row_bytes(value) * c->row_count;
    if (value->kind == TN_VALUE_WEIGHT && value->rank > 1)
      bytes += (double)tn_case_row_bytes(value) * weight_rows(c, value);
  }
  return bytes;
}

static tn_status time_case(tn_opened_device *device, const tn_case *c, uint64_t timeout_ns, tn_kit_result *result) {
  tn_error error = {0};
  tn_status fatal;
  *result = result_of(c);
  if (is_left_out(device, c, result, &fatal)) return fatal;
  tn_status status = tn_case_time(device, c, timeout_ns, TIMING_REPEATS, &result->seconds, &error);
  if (status != TN_OK) return note_failure(result, status, &error);
  double peak_bytes = tn_device_number(device, "peak_bytes");
  double peak_ops = tn_device_peak_ops(device, c->values[c->ops[0].inputs[0]].dtype);
  result->bytes = bytes_of(c);
  result->operations = operations_of(c);
  double memory = peak_bytes > 0 ? result->bytes / peak_bytes : 0;
  double compute = peak_ops > 0 ? result->operations / peak_ops : 0;
  result->memory_bound = memory > compute;
  if (result->seconds > 0) result->percent = 100 * (memory > compute ? memory : compute) / result->seconds;
  return TN_OK;
}

/* ---- all of them ---- */

typedef struct kit {
  tn_opened_device *device;
  const char *spec;
  const tn_kit_options *options;
  tn_kit_summary *summary;
  tn_error *error;
  tn_status status;
  uint64_t timeout_ns;
  uint32_t hangs;
} kit;

static void count(kit *k, const tn_kit_result *result) {
  tn_kit_summary *s = k->summary;
  uint32_t *counters[] = {&s->passed, &s->failed, &s->fallback, &s->hidden};
  ++*counters[result->verdict];
  if (result->c) {
    tn_kit_coverage *coverage = &s->coverage[result->c->opcode][result->c->dtype];
    uint32_t *covered[] = {&coverage->native, &coverage->failed, &coverage->fallback, &coverage->native};
    ++*covered[result->verdict];
  }
  if (k->options->on_result) k->options->on_result(k->options->context, result);
}

/* After a step that didn't finish or a loss: another try on the device opened again, but not many. */
static bool recover(kit *k, tn_status fatal) {
  if (fatal == TN_OK) return true;
  if (fatal == TN_E_TIMEOUT && ++k->hangs >= 2) {
    k->status = tn_fail(k->error, TN_E_TIMEOUT, "device %s: twice a step did not finish within %llu ms; giving up",
                        k->device->label, (unsigned long long)(k->timeout_ns / 1000000));
    return false;
  }
  k->status = tn_device_reopen(k->device, k->error);
  if (k->status == TN_OK) return true;
  tn_error_prefix(k->error, "opening the device again");
  return false;
}

static void name_running(const kit *k, const char *part, const char *name) {
  if (k->options->running) snprintf(k->options->running, TN_KIT_NAME, "%s: %s", part, name);
}

static tn_status ask_case(tn_opened_device *device, const tn_case *c, tn_kit_result *result) {
  tn_status fatal = TN_OK;
  *result = result_of(c);
  is_left_out(device, c, result, &fatal);
  return fatal;
}

static bool take_case(void *context, const tn_case *c) {
  kit *k = context;
  name_running(k, tn_op_info_of(c->opcode)->name, c->name);
  tn_kit_result result;
  tn_status fatal = k->options->ask_only
                        ? ask_case(k->device, c, &result)
                        : (k->options->perf ? time_case : tn_kit_check_case)(k->device, c, k->timeout_ns, &result);
  count(k, &result);
  return recover(k, fatal);
}

static void run_seam(kit *k) {
  for (uint32_t i = 0; i < tn_seam_check_count && k->status == TN_OK; i++) {
    tn_error error = {0};
    tn_kit_result result = {.part = "seam", .name = tn_seam_checks[i].name};
    name_running(k, "seam", tn_seam_checks[i].name);
    const tn_seam_target target = {k->device, k->spec, k->timeout_ns};
    tn_status status = tn_seam_checks[i].run(&target, &error);
    tn_status fatal = note_failure(&result, status, &error);
    count(k, &result);
    recover(k, fatal);
  }
}

static void run_op(kit *k, const tn_op_info *info) {
  tn_make *make = tn_maker_of(info->opcode);
  if (!make) {
    k->status = tn_fail(k->error, TN_E_INTERNAL, "op %s has no cases", info->name);
    return;
  }
  tn_maker maker = {.perf = k->options->perf, .emit = take_case, .context = k};
  tn_property lengths = {.size = sizeof lengths};
  bool listed = tn_device_get(k->device, "kv_lengths", &lengths, NULL) == TN_OK && lengths.type == TN_PROPERTY_TEXT;
  tn_maker_read_profile(&maker, k->device->properties.rows, listed ? lengths.text : "");
  make(&maker);
  if (maker.out_of_memory && k->status == TN_OK)
    k->status = tn_fail(k->error, TN_E_MEMORY, "out of memory for the cases of %s", info->name);
}

static bool is_known(const char *op) {
  if (!op || !strcmp(op, "seam")) return true;
  for (uint32_t opcode = 0; opcode < TN_OP_LIMIT; opcode++) {
    const tn_op_info *info = tn_op_info_of(opcode);
    if (info && !strcmp(info->name, op)) return true;
  }
  return false;
}

tn_status tn_kit_run(const char *spec, const tn_kit_options *options, tn_kit_summary *summary, tn_error *error) {
  memset(summary, 0, sizeof *summary);
  if (!is_known(options->op))
    return tn_fail(error, TN_E_INVALID, "there is no op \"%.40s\" (docs/ops.md lists them)", options->op);
  kit k = {.spec = spec, .options = options, .summary = summary, .error = error};
  k.timeout_ns = (uint64_t)(options->timeout_ms ? options->timeout_ms : TIMEOUT_MS) * 1000000u;
  uint64_t begin = tn_clock_ns();
  k.status = tn_device_open(spec, NULL, 0, &k.device, error);
  if (k.status != TN_OK) return k.status;
  bool all = !options->op;
  if (!options->perf && !options->ask_only && (all || !strcmp(options->op, "seam"))) run_seam(&k);
  for (uint32_t opcode = 0; opcode < TN_OP_LIMIT && k.status == TN_OK; opcode++) {
    const tn_op_info *info = tn_op_info_of(opcode);
    if (info && (all || !strcmp(options->op, info->name))) run_op(&k, info);
  }
  tn_device_close(k.device);
  summary->seconds = (double)(tn_clock_ns() - begin) * 1e-9;
  return k.status;
}
