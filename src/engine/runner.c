/* One step over the programs (see runner.h). */
#include "engine/runner_internal.h"

const tn_runner_info *tn_runner_describe(const tn_runner *runner) {
  return &runner->info;
}

const tn_graph *tn_runner_graph(const tn_runner *runner) {
  return runner->shapes[0].graph;
}

const char *tn_runner_device_name(const tn_runner *runner, uint32_t device) {
  return device < runner->device_count ? runner->devices[device].spec : NULL;
}

uint64_t tn_runner_value_bytes(const tn_runner *runner, uint32_t device, uint32_t ref) {
  const tn_graph_value *value = runner->shapes[0].graph->values + ref;
  if (value->kind == TN_VALUE_WEIGHT) return weight_of(runner, device, ref)->memory.bytes;
  if (value->kind != TN_VALUE_STATE) return 0;
  uint64_t bytes = runner->shapes[0].states[ref].bytes;
  if (value->rank == 3) return runner->info.state_slots ? bytes / runner->info.state_slots : 0;
  uint64_t positions = has_profile(runner) ? (uint64_t)value->dims[3]
                                           : (uint64_t)runner->info.groups[value->group].pages * TN_PAGE_SLOTS;
  return bytes / positions;
}

bool tn_runner_supports(const tn_runner *runner, uint32_t device, const tn_graph_op *op) {
  tn_op_query query;
  tn_graph_query(runner->shapes[0].graph, op, &query);
  return tn_device_supports(opened_of(runner, device), &query);
}

/* ---- a step ---- */

static tn_status check_batch(const tn_runner *runner, const tn_batch *batch, tn_error *error) {
  const tn_runner_info *info = &runner->info;
  const tn_program maxima = {.max_rows = info->max_rows,
                             .max_sequences = info->max_sequences,
                             .max_logits_rows = info->max_logits_rows,
                             .max_context = info->max_context};
  if (tn_batch_check(batch, &maxima) != TN_OK)
    return tn_fail(error, TN_E_INVALID, "batch: rows and sequences do not agree, or exceed the runner's maxima");
  for (uint32_t r = 0; r < batch->row_count; r++)
    if ((uint32_t)batch->rows[r].token >= info->vocabulary || batch->rows[r].position[0] < 0 ||
        (uint32_t)batch->rows[r].position[0] >= info->max_context)
      return tn_fail(error, TN_E_INVALID, "batch: row %u: token %d of %u or position %d of %u is out of range", r,
                     batch->rows[r].token, info->vocabulary, batch->rows[r].position[0], info->max_context);
  for (uint32_t s = 0; s < batch->sequence_count; s++) {
    const tn_sequence *sequence = batch->sequences + s;
    uint32_t pages = (sequence->kv_length + sequence->row_count + TN_PAGE_SLOTS - 1) / TN_PAGE_SLOTS;
    if (info->state_slots && (sequence->state_read >= info->state_slots || sequence->state_write >= info->state_slots))
      return tn_fail(error, TN_E_INVALID, "batch: sequence %u: state slots %u and %u of %u", s, sequence->state_read,
                     sequence->state_write, info->state_slots);
    for (uint32_t g = 0; g < info->group_count && !has_profile(runner); g++) {
      if (sequence->pages[g] > batch->page_count || pages > batch->page_count - sequence->pages[g])
        return tn_fail(error, TN_E_INVALID, "batch: sequence %u: its page table lies outside", s);
      for (uint32_t i = 0; i < pages; i++)
        if (batch->pages[sequence->pages[g] + i] >= info->groups[g].pages)
          return tn_fail(error, TN_E_INVALID, "batch: sequence %u: page %u of %u", s,
                         batch->pages[sequence->pages[g] + i], info->groups[g].pages);
    }
  }
  return TN_OK;
}

static tn_status execute_part(tn_runner *runner, const runner_part *part, const tn_batch *batch, tn_error *error) {
  uint32_t device = part->partition->device;
  const runner_device *on = runner->devices + device;
  const tn_program *program = part->partition->program;
  const tn_execution execution = {.size = sizeof execution,
                                  .input_count = program->input_count,
                                  .output_count = program->output_count,
                                  .state_count = program->state_count,
                                  .inputs = part->inputs,
                                  .outputs = part->outputs,
                                  .states = part->states,
                                  .scratch = {on->scratch, 0, on->scratch_bytes},
                                  .batch = batch};
  return tn_device_execute(on->opened, on->queue, part->executable, &execution, error);
}

/* The logits: read in place where the host reaches them, else copied to the staging memory. */
static tn_status fetch_logits(tn_runner *runner, const runner_shape *shape, const tn_batch *batch, uint32_t set,
                              const float **logits, tn_error *error) {
  const runner_part *last = shape->parts + shape->plan.partition_count - 1;
  uint32_t device = last->partition->device;
  const border_value *border = border_of(shape, shape->graph->logits);
  unsigned char *host = tn_device_host_pointer(opened_of(runner, device), border->buffers[device]);
  unsigned char *staged = host ? NULL : runner->staging + runner->carried_bytes + set * border->bytes;
  *logits = (const void *)(host ? host + set * border->bytes : staged);
  if (host || !batch->logits_count) return TN_OK;
  return tn_device_copy_out(opened_of(runner, device), runner->devices[device].queue, staged, border->buffers[device],
                            set * border->bytes, border->row_bytes * batch->logits_count, error);
}

/* The last program is to write its logits into set `set`. */
static void place_logits(const runner_shape *shape, uint32_t set) {
  runner_part *last = shape->parts + shape->plan.partition_count - 1;
  for (uint32_t i = 0; i < last->partition->program->output_count; i++)
    if (last->partition->outputs[i] == shape->graph->logits)
      last->outputs[i].offset = set * border_of(shape, shape->graph->logits)->bytes;
}

tn_status tn_runner_run_shape(tn_runner *runner, const runner_shape *shape, const tn_batch *batch, uint32_t set,
                              const float **logits, tn_error *error) {
  tn_status status = TN_OK;
  place_logits(shape, set);
  tn_runner_clear_borders(shape);
  for (size_t p = 0; p < shape->plan.partition_count && status == TN_OK; p++) {
    const runner_part *part = shape->parts + p;
    status = tn_runner_carry_inputs(runner, shape, part, batch, error);
    const tn_batch *own = part->partition->is_unpadded ? runner->unpadded : batch;
    if (status == TN_OK) status = execute_part(runner, part, own, error);
  }
  return status == TN_OK ? fetch_logits(runner, shape, batch, set, logits, error) : status;
}

tn_status tn_runner_finish_shape(tn_runner *runner, const runner_shape *shape, uint64_t deadline_ns, tn_error *error) {
  uint32_t last = shape->parts[shape->plan.partition_count - 1].partition->device;
  tn_status status = tn_device_synchronize(opened_of(runner, last), runner->devices[last].queue, deadline_ns, error);
  for (uint32_t device = 0; device < runner->device_count && status == TN_OK; device++)
    if (device != last)
      status = tn_device_synchronize(opened_of(runner, device), runner->devices[device].queue, deadline_ns, error);
  return status;
}

tn_status tn_runner_submit(tn_runner *runner, const tn_batch *batch, tn_error *error) {
  if (runner->options.plan_only) return tn_fail(error, TN_E_INVALID, "runner: made to plan only");
  if (!runner->shapes) return tn_fail(error, TN_E_DEVICE_LOST, "the device is lost and could not be reopened");
  runner_lane *lane = &runner->lane;
  if (lane->submitted - lane->waited == runner->logits_sets)
    return tn_fail(error, TN_E_BUSY, "runner: %u step%s in flight", runner->logits_sets,
                   runner->logits_sets == 1 ? " is" : "s are");
  tn_status status = check_batch(runner, batch, error);
  return status == TN_OK ? tn_runner_hand_over(runner, batch, error) : status;
}

tn_status tn_runner_copy_page(tn_runner *runner, uint32_t group, uint32_t from, uint32_t to, tn_error *error) {
  if (!runner->shapes) return tn_fail(error, TN_E_DEVICE_LOST, "the device is lost and could not be reopened");
  if (has_profile(runner)) return tn_fail(error, TN_E_UNSUPPORTED, "contiguous KV has no pages to copy");
  tn_runner_settle(runner);
  const runner_shape *shape = runner->shapes;
  for (size_t p = 0; p < shape->plan.partition_count; p++) {
    const runner_part *part = shape->parts + p;
    uint32_t device = part->partition->device;
    for (uint32_t i = 0; i < part->partition->program->state_count; i++) {
      const tn_graph_value *value = shape->graph->values + part->partition->states[i];
      if (value->rank != 4 || value->group != group) continue;
      const tn_binding *state = part->states + i;
      uint64_t page = state->bytes / runner->info.groups[group].pages;
      tn_status status =
          tn_device_copy(opened_of(runner, device), runner->devices[device].queue, state->buffer,
                         state->offset + to * page, state->buffer, state->offset + from * page, page, error);
      if (status != TN_OK) return status;
    }
  }
  return TN_OK;
}
