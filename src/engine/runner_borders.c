/* Values that one program writes and another reads, on their way between devices (see runner.h). They go through the
 * host: where it reaches the writer's memory the bytes are copied in from there, else by way of staging memory. A value
 * is carried to a device once in a step, however many programs read it there. */
#include "engine/runner_internal.h"

static uint64_t rows_now(const runner_shape *shape, tn_ref value, const tn_batch *batch) {
  int32_t rows = shape->graph->values[value].dims[0];
  if (rows > 0) return (uint64_t)rows;
  return rows == TN_DIM_R ? batch->logits_count : batch->row_count;
}

/* The value has to be carried to the device: another one writes it, not the host. */
static bool is_foreign(const runner_shape *shape, const border_value *border, uint32_t device) {
  return !shape->graph->values[border->value].feed && border->writer != device;
}

static const unsigned char *host_memory(tn_runner *runner, const border_value *border) {
  return tn_device_host_pointer(opened_of(runner, border->writer), border->buffers[border->writer]);
}

void tn_runner_clear_borders(const runner_shape *shape) {
  for (size_t b = 0; b < shape->border_count; b++)
    for (uint32_t device = 0; device < MAX_DEVICES; device++) shape->borders[b].is_there[device] = false;
}

/* Starts to fetch a value from the device that wrote it. */
static tn_status fetch(tn_runner *runner, runner_carried *c, unsigned char **staging, tn_error *error) {
  const runner_device *source = runner->devices + c->border->writer;
  if (host_memory(runner, c->border)) return TN_OK;
  c->staged = *staging;
  *staging += tn_round_up(c->border->bytes, 64);
  return tn_device_copy_out(source->opened, source->queue, c->staged, c->border->buffers[c->border->writer], 0,
                            c->bytes, error);
}

/* Waits for each device that something is fetched from. */
static tn_status wait_for_writers(tn_runner *runner, const runner_carried *list, uint32_t count, tn_error *error) {
  bool waited[MAX_DEVICES] = {false};
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < count && status == TN_OK; i++) {
    uint32_t writer = list[i].border->writer;
    if (waited[writer]) continue;
    waited[writer] = true;
    status = tn_device_synchronize(opened_of(runner, writer), runner->devices[writer].queue, UINT64_MAX, error);
  }
  return status;
}

static tn_status deliver(tn_runner *runner, const runner_carried *c, uint32_t device, tn_error *error) {
  const runner_device *target = runner->devices + device;
  const unsigned char *from = c->staged ? c->staged : host_memory(runner, c->border);
  c->border->is_there[device] = true;
  return tn_device_copy_in(target->opened, target->queue, c->border->buffers[device], 0, from, c->bytes, error);
}

tn_status tn_runner_carry_inputs(tn_runner *runner, const runner_shape *shape, const runner_part *part,
                                 const tn_batch *batch, tn_error *error) {
  const tn_partition *partition = part->partition;
  runner_carried *list = part->carried;
  unsigned char *staging = runner->staging;
  uint32_t count = 0;
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < partition->program->input_count && status == TN_OK; i++) {
    border_value *border = border_of(shape, partition->inputs[i]);
    if (!is_foreign(shape, border, partition->device) || border->is_there[partition->device]) continue;
    list[count] = (runner_carried){border, border->row_bytes * rows_now(shape, border->value, batch), NULL};
    status = fetch(runner, list + count++, &staging, error);
  }
  if (status == TN_OK) status = wait_for_writers(runner, list, count, error);
  for (uint32_t i = 0; i < count && status == TN_OK; i++) status = deliver(runner, list + i, partition->device, error);
  return status;
}

uint64_t tn_runner_carried_bytes(tn_runner *runner) {
  uint64_t most = 0;
  for (uint32_t s = 0; s < runner->shape_count; s++) {
    const runner_shape *shape = runner->shapes + s;
    for (size_t b = 0; b < shape->border_count && has_profile(runner); b++)
      if (shape->borders[b].bytes > most) most = shape->borders[b].bytes; /* masks and rope tables are among them */
    for (size_t p = 0; p < shape->plan.partition_count; p++) {
      const tn_partition *partition = shape->plan.partitions + p;
      uint64_t bytes = 0;
      for (uint32_t i = 0; i < partition->program->input_count; i++) {
        const border_value *border = border_of(shape, partition->inputs[i]);
        if (is_foreign(shape, border, partition->device) && !host_memory(runner, border))
          bytes += tn_round_up(border->bytes, 64);
      }
      if (bytes > most) most = bytes;
    }
  }
  return tn_round_up(most, 64);
}

uint64_t tn_runner_logits_bytes(tn_runner *runner) {
  uint64_t most = 0;
  for (uint32_t s = 0; s < runner->shape_count; s++) {
    const border_value *border = border_of(runner->shapes + s, runner->shapes[s].graph->logits);
    if (!host_memory(runner, border) && border->bytes > most) most = border->bytes;
  }
  return most;
}
