/* Programs: made ready once, run by the interpreter (see program.h). */
#include "device/hexagon/dsp/program.h"

#include "device/hexagon/dsp/pool.h"
#include "device/hexagon/dsp/system.h"
#include "kernels/kernels.h"

/* The tables of a prepared program, at the begin of its room: pointers that this processor has. */
typedef struct program_tables {
  tn_tensor *weights;
  void **inputs, **outputs, **states;
} program_tables;

static void *at(uint8_t *window, uint32_t offset) {
  return offset ? window + offset : 0;
}

static program_tables tables_of(uint8_t *window, const tn_hexagon_program *prepared, const tn_program *program) {
  program_tables tables = {.weights = at(window, prepared->tables)};
  tables.inputs = (void **)(void *)(tables.weights + program->weight_count);
  tables.outputs = tables.inputs + program->input_count;
  tables.states = tables.outputs + program->output_count;
  return tables;
}

tn_status tn_dsp_prepare(uint8_t *window, tn_hexagon_program *prepared, uint32_t threads) {
  const tn_kernel_set *kernels = tn_kernel_set_hvx();
  const tn_program *program = at(window, prepared->program);
  const tn_hexagon_weight *weights = at(window, prepared->weights);
  program_tables tables = tables_of(window, prepared, program);
  if ((uint8_t *)(tables.states + program->state_count) > window + prepared->tables + prepared->tables_bytes)
    return TN_E_INTERNAL;
  for (uint32_t i = 0; i < program->weight_count; i++)
    tables.weights[i] = (tn_tensor){
        .data = at(window, weights[i].data), .row_bytes = weights[i].row_bytes, .layout = weights[i].layout};
  prepared->workspace_bytes = 0;
  for (uint32_t i = 0; i < program->op_count; i++) {
    tn_op_query query;
    tn_program_query(program, tn_program_ops(program) + i, &query);
    uint64_t bytes = kernels->workspace(&query, program->max_context, threads);
    if (bytes > prepared->workspace_bytes) prepared->workspace_bytes = bytes;
  }
  prepared->workspace_bytes = (prepared->workspace_bytes / TN_HEXAGON_VECTOR + 1) * TN_HEXAGON_VECTOR;
  return TN_OK;
}

/* ---- what is measured ---- */

typedef struct measuring {
  tn_counting counting; /* of the one op under way */
  tn_op_counter counter;
  uint32_t instructions, packets; /* of this thread when the op began */
  tn_dsp_spent spent;             /* of the others */
  tn_hexagon_counter *to;
  uint32_t capacity, count;
} measuring;

static void note(measuring *m, uint32_t instructions, uint32_t packets) {
  tn_dsp_spent spent = tn_dsp_pool_spent();
  if (m->count == m->capacity) return;
  m->to[m->count++] = (tn_hexagon_counter){
      .op = m->counter.op,
      .start_ns = m->counter.start_ns,
      .end_ns = m->counter.end_ns,
      .bytes = m->counter.bytes,
      .instructions = instructions + (spent.instructions - m->spent.instructions) -
                      (spent.waiting_instructions - m->spent.waiting_instructions),
      .packets = packets + (spent.packets - m->spent.packets) - (spent.waiting_packets - m->spent.waiting_packets)};
}

/* Called before and after each op. */
static void observe(void *context, uint32_t op, int after, const tn_kernel_call *call) {
  measuring *m = context;
  uint32_t instructions = tn_dsp_instructions(), packets = tn_dsp_packets();
  if (after) tn_dsp_pool_progress();
  if (!m->to) return;
  if (!after) m->counting = (tn_counting){.counters = &m->counter, .capacity = 1, .now_ns = tn_dsp_clock_ns};
  tn_count_op(&m->counting, op, after, call);
  if (after) {
    note(m, instructions - m->instructions, packets - m->packets);
    return;
  }
  m->spent = tn_dsp_pool_spent();
  m->packets = tn_dsp_packets();
  m->instructions = tn_dsp_instructions();
}

/* ---- execution ---- */

static void resolve(uint8_t *window, uint32_t offsets, uint32_t count, void **addresses) {
  const uint32_t *from = at(window, offsets);
  for (uint32_t i = 0; i < count; i++) addresses[i] = at(window, from[i]);
}

tn_status tn_dsp_execute(uint8_t *window, tn_hexagon_execution *execution, uint32_t *failed_op) {
  const tn_hexagon_program *prepared = at(window, execution->program);
  const tn_program *program = at(window, prepared->program);
  program_tables tables = tables_of(window, prepared, program);
  resolve(window, execution->inputs, program->input_count, tables.inputs);
  resolve(window, execution->outputs, program->output_count, tables.outputs);
  resolve(window, execution->states, program->state_count, tables.states);
  const tn_batch batch = {.size = sizeof batch,
                          .row_count = execution->row_count,
                          .sequence_count = execution->sequence_count,
                          .logits_count = execution->logits_count,
                          .context = execution->context,
                          .page_count = execution->page_count,
                          .rows = at(window, execution->rows),
                          .sequences = at(window, execution->sequences),
                          .pages = at(window, execution->pages),
                          .logits_rows = at(window, execution->logits_rows)};
  measuring m = {.to = at(window, execution->counters), .capacity = execution->counter_capacity};
  const tn_interpretation run = {.program = program,
                                 .table = tn_kernel_set_hvx()->table,
                                 .inputs = tables.inputs,
                                 .outputs = tables.outputs,
                                 .states = tables.states,
                                 .weights = tables.weights,
                                 .page_bytes = at(window, prepared->page_bytes),
                                 .scratch = at(window, execution->scratch),
                                 .batch = &batch,
                                 .parallel = tn_dsp_pool_parallel(),
                                 .workspace = at(window, prepared->workspace),
                                 .workspace_bytes = prepared->workspace_bytes,
                                 .observe = observe,
                                 .observe_context = &m};
  tn_status status = tn_interpret(&run, failed_op);
  execution->counter_count = m.count;
  return status;
}
