/* One step over the programs (see runner.h). */
#include "engine/runner_internal.h"

const tn_runner_info *tn_runner_describe(const tn_runner *runner) {
  return &runner->info;
}

const tn_graph *tn_runner_graph(const tn_runner *runner) {
  return runner->graph;
}

const char *tn_runner_device_name(const tn_runner *runner, uint32_t device) {
  return device < runner->device_count ? opened_of(runner, device)->label : NULL;
}

/* ---- a step ---- */

static tn_status check_batch(const tn_runner *runner, const tn_batch *batch, tn_error *error) {
  const tn_runner_info *info = &runner->info;
  if (tn_batch_check(batch, runner->plan.partitions[0].program) != TN_OK)
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
    for (uint32_t g = 0; g < info->group_count; g++) {
      if (sequence->pages[g] > batch->page_count || pages > batch->page_count - sequence->pages[g])
        return tn_fail(error, TN_E_INVALID, "batch: sequence %u: its page table lies outside", s);
      for (uint32_t i = 0; i < pages; i++)
        if (batch->pages[sequence->pages[g] + i] >= info->pages)
          return tn_fail(error, TN_E_INVALID, "batch: sequence %u: page %u of %u", s,
                         batch->pages[sequence->pages[g] + i], info->pages);
    }
  }
  return TN_OK;
}

static uint64_t rows_now(const tn_runner *runner, tn_ref value, const tn_batch *batch) {
  return runner->graph->values[value].dims[0] == TN_DIM_R ? batch->logits_count : batch->row_count;
}

/* Brings the inputs of a part that another device wrote over to its device, through the host. */
static tn_status carry_inputs(tn_runner *runner, const runner_part *part, const tn_batch *batch, tn_error *error) {
  uint32_t to = part->partition->device;
  for (uint32_t i = 0; i < part->partition->program->input_count; i++) {
    tn_ref value = part->partition->inputs[i];
    size_t producer = tn_graph_producer(runner->graph, value);
    uint32_t from = runner->graph->ops[producer].device;
    if (from == to) continue;
    border_value *border = runner->borders;
    while (border->value != value) border++;
    uint64_t bytes = border->row_bytes * rows_now(runner, value, batch);
    const runner_device *source = runner->devices + from, *target = runner->devices + to;
    tn_status status =
        tn_device_copy_out(source->opened, source->queue, runner->staging, border->buffers[from], 0, bytes, error);
    if (status == TN_OK) status = tn_device_synchronize(source->opened, source->queue, UINT64_MAX, error);
    if (status == TN_OK)
      status = tn_device_copy_in(target->opened, target->queue, border->buffers[to], 0, runner->staging, bytes, error);
    if (status != TN_OK) return status;
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
static tn_status fetch_logits(tn_runner *runner, const tn_batch *batch, tn_error *error) {
  const runner_part *last = runner->parts + runner->plan.partition_count - 1;
  uint32_t device = last->partition->device;
  border_value *border = runner->borders;
  while (border->value != runner->graph->logits) border++;
  void *host = tn_device_host_pointer(opened_of(runner, device), border->buffers[device]);
  runner->logits = host ? host : (const void *)runner->staging;
  if (host || !batch->logits_count) return TN_OK;
  return tn_device_copy_out(opened_of(runner, device), runner->devices[device].queue, runner->staging,
                            border->buffers[device], 0, border->row_bytes * batch->logits_count, error);
}

tn_status tn_runner_submit(tn_runner *runner, const tn_batch *batch, tn_error *error) {
  if (runner->options.plan_only) return tn_fail(error, TN_E_INVALID, "runner: made to plan only");
  if (!runner->parts) return tn_fail(error, TN_E_DEVICE_LOST, "the device is lost and could not be reopened");
  if (runner->in_flight) return tn_fail(error, TN_E_BUSY, "runner: a step is in flight");
  tn_status status = check_batch(runner, batch, error);
  for (size_t p = 0; p < runner->plan.partition_count && status == TN_OK; p++) {
    status = carry_inputs(runner, runner->parts + p, batch, error);
    if (status == TN_OK) status = execute_part(runner, runner->parts + p, batch, error);
  }
  if (status == TN_OK) status = fetch_logits(runner, batch, error);
  runner->in_flight = status == TN_OK;
  return status;
}

tn_status tn_runner_wait(tn_runner *runner, uint64_t deadline_ns, const float **logits, tn_error *error) {
  if (!runner->in_flight) return tn_fail(error, TN_E_INVALID, "runner: no step is in flight");
  uint32_t device = runner->parts[runner->plan.partition_count - 1].partition->device;
  tn_status status =
      tn_device_synchronize(opened_of(runner, device), runner->devices[device].queue, deadline_ns, error);
  if (status != TN_E_TIMEOUT) runner->in_flight = false;
  if (status == TN_OK) *logits = runner->logits;
  return status;
}

tn_status tn_runner_copy_page(tn_runner *runner, uint32_t group, uint32_t from, uint32_t to, tn_error *error) {
  if (!runner->parts) return tn_fail(error, TN_E_DEVICE_LOST, "the device is lost and could not be reopened");
  for (size_t p = 0; p < runner->plan.partition_count; p++) {
    const runner_part *part = runner->parts + p;
    uint32_t device = part->partition->device;
    for (uint32_t i = 0; i < part->partition->program->state_count; i++) {
      const tn_graph_value *value = runner->graph->values + part->partition->states[i];
      if (value->rank != 4 || value->group != group) continue;
      const tn_binding *state = part->states + i;
      uint64_t page = state->bytes / runner->info.pages;
      tn_status status =
          tn_device_copy(opened_of(runner, device), runner->devices[device].queue, state->buffer,
                         state->offset + to * page, state->buffer, state->offset + from * page, page, error);
      if (status != TN_OK) return status;
    }
  }
  return TN_OK;
}
