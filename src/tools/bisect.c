/* Device and reference side by side over a whole model (see bisect.h).
 *
 * Every op of the graph, after the passes that the device gets, becomes a case of the conformance kit: its inputs are
 * what the reference kernels made of the ops before, so an error stands where it arises and is not carried on. What
 * kv_write wrote is looked at through a plain attention with the keys as queries; an attention is run behind the
 * kv_write that fills its pages. */
#include "tools/bisect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "conformance/bench.h"
#include "conformance/case_file.h"
#include "conformance/host.h"
#include "engine/runner.h"
#include "graph/passes.h"
#include "model/model.h"
#include "tenon/tenon.h"

typedef struct bisect {
  const tn_bisect_options *options;
  tn_model *model;
  tn_runner *plan; /* never runs: it gives the graph as the device gets it */
  const tn_graph *graph;
  tn_opened_device *device;
  uint8_t **values; /* by graph value: what the reference computed, a row for each token; rows of converted weights */
  uint32_t wrong;
} bisect;

static const tn_schedule whole = {0, false, ""};

/* ---- an op as a case ---- */

typedef struct case_maker {
  const bisect *b;
  tn_case *c;
  const tn_graph_op *op;
  int64_t numbers[TN_CASE_VALUES]; /* case value -> graph value */
} case_maker;

/* The sources of a weight that gets another format than its file's: its converted rows, which stay. */
static bool convert_sources(const case_maker *m, tn_ref ref, tn_case_value *value) {
  const tn_graph_value *from = m->b->graph->values + ref;
  if (!tn_convert_needed(from)) return true;
  tn_weight_source *source = tn_arena_alloc(&m->c->arena, sizeof *source);
  free(m->b->values[ref]);
  m->b->values[ref] = NULL;
  if (!source || tn_model_convert(m->b->model, from, &m->b->values[ref], source, NULL) != TN_OK) return false;
  value->sources = source;
  value->source_count = 1;
  return true;
}

/* The case's number for a graph value. */
static int64_t number_of(case_maker *m, tn_ref ref, bool output) {
  if (ref == TN_NO_VALUE) return TN_NO_VALUE;
  tn_case *c = m->c;
  for (uint32_t i = 0; i < c->value_count; i++)
    if (m->numbers[i] == (int64_t)ref) return i;
  const tn_graph_value *from = m->b->graph->values + ref;
  uint32_t number = 0, cols = tn_graph_cols(m->b->graph, ref);
  if (c->value_count == TN_CASE_VALUES) {
    c->failed = true;
    return 0;
  }
  if (from->kind == TN_VALUE_WEIGHT) {
    number = c->value_count++;
    tn_case_value *value = &c->values[number];
    *value = (tn_case_value){.kind = TN_VALUE_WEIGHT,
                             .dtype = from->dtype,
                             .rank = from->rank,
                             .index = c->bindings[TN_VALUE_WEIGHT]++,
                             .uses = tn_weight_uses(m->b->graph, ref, m->op->device),
                             .sources = (tn_weight_source *)(uintptr_t)from->sources,
                             .source_count = from->source_count};
    memcpy(value->dims, from->dims, sizeof value->dims);
    c->failed = !convert_sources(m, ref, value) || c->failed;
  } else if (from->kind == TN_VALUE_STATE) {
    const uint32_t *d = (const uint32_t *)from->dims;
    number = from->rank == 4 ? tn_case_kv(c, from->dtype, d[0], d[1], d[2]) : tn_case_recurrent(c, d[0], d[1], d[2]);
  } else if (output) {
    number = tn_case_output(c, from->dtype, from->dims[0], cols);
  } else {
    number = tn_case_input(c, from->dtype, from->dims[0], cols);
    if (!c->failed && m->b->values[ref])
      memcpy(c->values[number].data, m->b->values[ref], c->values[number].row_bytes * c->row_count);
  }
  m->numbers[number] = ref;
  return number;
}

static void add_op(case_maker *m, const tn_graph_op *op) {
  int64_t inputs[TN_MAX_OPERANDS + 1], outputs[TN_MAX_OPERANDS + 1];
  for (uint32_t i = 0; i < op->input_count; i++) inputs[i] = number_of(m, op->inputs[i], false);
  for (uint32_t i = 0; i < op->output_count; i++) outputs[i] = number_of(m, op->outputs[i], true);
  inputs[op->input_count] = outputs[op->output_count] = -1;
  tn_case_op(m->c, op->opcode, op->attributes, inputs, outputs);
}

/* Behind a kv_write: an attention that shows what it wrote. */
static void add_probe(case_maker *m, const tn_graph_op *op) {
  const tn_kv_write_attributes *w = (const void *)op->attributes;
  const tn_attention_attributes probe = {.size = sizeof probe,
                                         .group = w->group,
                                         .heads = w->kv_heads,
                                         .kv_heads = w->kv_heads,
                                         .key_dim = w->key_dim,
                                         .value_dim = w->value_dim,
                                         .scale = 1.0f / (float)w->key_dim};
  int64_t keys = number_of(m, op->inputs[0], false), state = number_of(m, op->inputs[2], false);
  uint32_t y = tn_case_output(m->c, TN_F32, TN_DIM_T, w->kv_heads * w->value_dim);
  tn_case_op(m->c, TN_OP_ATTENTION, &probe, TN_CASE_LIST(keys, state), TN_CASE_LIST(y));
}

/* The op that fills the pages which an attention at position `at` reads. */
static const tn_graph_op *writer_of(const tn_graph *graph, size_t at) {
  for (size_t i = at; i-- > 0;) {
    const tn_graph_op *op = graph->ops + i;
    if (op->opcode == TN_OP_KV_WRITE && op->inputs[2] == graph->ops[at].inputs[1]) return op;
  }
  return NULL;
}

/* What is stored in 16 bits, or in 8, may be rounded to the other side after sums in another order. */
static double tolerance_of(const bisect *b, const tn_graph_op *op) {
  double tolerance = tn_op_info_of(op->opcode)->tolerance;
  bool rounded = false;
  if (op->opcode == TN_OP_KV_WRITE) rounded = b->graph->values[op->inputs[2]].dtype != TN_F32;
  if (op->opcode == TN_OP_ATTENTION) rounded = b->graph->values[op->inputs[1]].dtype != TN_F32;
  if (op->opcode == TN_OP_NORM) rounded = b->graph->values[op->outputs[0]].dtype == TN_Q8A;
  return rounded && tolerance < 1e-6 ? 1e-6 : tolerance;
}

static tn_case *case_of(const bisect *b, size_t at) {
  const tn_graph_op *op = b->graph->ops + at, *writer;
  case_maker m = {.b = b, .op = op, .c = tn_case_create(op->opcode, b->options->rows, 1)};
  if (!m.c) return NULL;
  uint32_t vocabulary = tn_runner_describe(b->plan)->vocabulary;
  for (uint32_t i = 0; i < TN_CASE_VALUES; i++) m.numbers[i] = -1;
  for (uint32_t r = 0; r < m.c->row_count; r++) {
    m.c->rows[r].token = (int32_t)((r * 2654435761u >> 8) % vocabulary);
    m.c->rows[r].wants_logits = r + 1 == m.c->row_count;
  }
  if (op->opcode == TN_OP_ATTENTION && (writer = writer_of(b->graph, at))) add_op(&m, writer);
  add_op(&m, op);
  if (op->opcode == TN_OP_KV_WRITE) add_probe(&m, op);
  m.c->tolerance = tolerance_of(b, op);
  tn_case_say(m.c, "op %zu %s", at, op->name ? op->name : "");
  return m.c;
}

/* ---- the walk ---- */

/* Results of the reference become the values of the graph. */
static tn_status keep_values(bisect *b, const tn_graph_op *op, const tn_case *c, const tn_case_results *results,
                             tn_error *error) {
  for (uint32_t i = 0; i < op->output_count; i++) {
    uint64_t bytes = tn_row_bytes(b->graph->values[op->outputs[i]].dtype, tn_graph_cols(b->graph, op->outputs[i]));
    uint8_t *copy = tn_calloc(c->row_count, bytes);
    if (!copy) return tn_fail(error, TN_E_MEMORY, "out of memory");
    memcpy(copy, results->rows[i], c->row_count * bytes);
    free(b->values[op->outputs[i]]);
    b->values[op->outputs[i]] = copy;
  }
  return TN_OK;
}

static tn_status run_on_device(bisect *b, const tn_case *c, tn_case_results *got, tn_error *error) {
  tn_bench bench;
  tn_status status = tn_bench_start(&bench, b->device, c, (uint64_t)b->options->timeout_ms * 1000000u, error);
  if (status != TN_OK) return status;
  status = tn_bench_run(&bench, whole, 0xff, got, error);
  tn_bench_finish(&bench);
  return status;
}

static tn_status note_wrong(bisect *b, const tn_case *c, const char *why, tn_error *error) {
  printf("       ^ %s\n", why);
  if (b->wrong++) return TN_OK;
  tn_status status = tn_case_write(c, b->options->save, error);
  if (status == TN_OK)
    printf("       saved; run it alone with: tenon test-device %s --replay %s\n", b->options->device, b->options->save);
  return status;
}

static tn_status compare(bisect *b, const tn_case *c, const tn_case_results *got, const tn_case_results *want,
                         tn_error *error) {
  tn_case_error worst;
  char why[200];
  tn_status status = tn_case_compare(c, got, want, &worst, error);
  if (status != TN_OK) return status;
  bool right = worst.same_kind && worst.error <= c->tolerance;
  printf("%10.2e %9.0e  %s\n", worst.error, c->tolerance, right ? "" : "OUT OF TOLERANCE");
  if (right) return TN_OK;
  snprintf(why, sizeof why, "row %u, column %u: %.9g instead of %.9g", worst.row, worst.column, (double)worst.got,
           (double)worst.want);
  return note_wrong(b, c, why, error);
}

static tn_status visit(bisect *b, size_t at, tn_error *error) {
  const tn_graph_op *op = b->graph->ops + at;
  tn_case_results want = {0}, got = {0};
  bool others;
  tn_case *c = case_of(b, at);
  tn_status status = TN_OK;
  if (!c || !tn_case_results_init(&want, c) || !tn_case_results_init(&got, c))
    status = tn_fail(error, TN_E_MEMORY, "out of memory");
  if (status == TN_OK) status = tn_case_run_on_host(c, whole, &want, error);
  if (status == TN_OK) status = keep_values(b, op, c, &want, error);
  if (status == TN_OK) {
    printf("%5zu  %-12s %-28.28s ", at, tn_op_info_of(op->opcode)->name, op->name ? op->name : "");
    status = tn_bench_supports(b->device, c, &others, error);
    if (status == TN_E_UNSUPPORTED) {
      printf("%20s\n", "falls back");
      status = TN_OK;
    } else if (status == TN_OK) {
      status = run_on_device(b, c, &got, error);
      if (status == TN_OK) {
        status = compare(b, c, &got, &want, error);
      } else if (status != TN_E_DEVICE_LOST && status != TN_E_TIMEOUT && error) {
        char why[320];
        snprintf(why, sizeof why, "%.300s", error->message);
        printf("%20s\n", "FAILED");
        status = note_wrong(b, c, why, error);
      } else {
        printf("%20s\n", "FAILED");
      }
    }
  }
  tn_case_results_finish(&want);
  tn_case_results_finish(&got);
  tn_case_destroy(c);
  return status;
}

static tn_status open_all(bisect *b, tn_error *error) {
  const tn_bisect_options *o = b->options;
  tn_status status = tn_model_open(o->model, &b->model, error);
  if (status != TN_OK) return status;
  const tn_runner_options options = {.device = o->device,
                                     .kv = o->kv,
                                     .activations = o->activations,
                                     .passes = o->passes,
                                     .max_rows = o->rows,
                                     .max_sequences = 1,
                                     .max_context = o->rows,
                                     .pages = (o->rows + TN_PAGE_SLOTS - 1) / TN_PAGE_SLOTS,
                                     .plan_only = true};
  status = tn_runner_create(b->model, &options, &b->plan, error);
  if (status == TN_OK) status = tn_device_open(o->device, NULL, 0, &b->device, error);
  if (status != TN_OK) return status;
  if (b->device->properties.contiguous_kv)
    return tn_fail(error, TN_E_UNSUPPORTED, "device %s has a shape profile: its programs can't be taken apart op by op",
                   b->device->label);
  b->graph = tn_runner_graph(b->plan);
  b->values = tn_calloc(b->graph->value_count, sizeof *b->values);
  return b->values ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory");
}

static void close_all(bisect *b) {
  for (size_t i = 0; b->values && i < b->graph->value_count; i++) free(b->values[i]);
  free(b->values);
  tn_device_close(b->device);
  tn_runner_destroy(b->plan);
  tn_model_close(b->model);
}

tn_status tn_bisect(const tn_bisect_options *options, uint32_t *wrong, tn_error *error) {
  bisect b = {.options = options};
  tn_status status = open_all(&b, error);
  if (status == TN_OK) printf("%5s  %-12s %-28s %10s %9s\n", "op", "", "layer", "error", "allowed");
  for (size_t at = 0; status == TN_OK && at < b.graph->op_count; at++) {
    status = visit(&b, at, error);
    fflush(stdout);
    if (b.wrong && !options->all) break;
  }
  if (status == TN_OK && !b.wrong) printf("all %zu ops are within tolerance\n", b.graph->op_count);
  *wrong = b.wrong;
  close_all(&b);
  return status;
}
