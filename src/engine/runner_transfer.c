/* Pages and recurrent states between a device and the host, and what tells one runner's from another's (see runner.h).
 * The layout of the bytes is the device's affair; the order of the layers is that of the graph's values. */
#include <string.h>
#include "base/hash.h"
#include "engine/runner_internal.h"
#include "model/model.h"
#include "tenon/tenon.h"

/* ---- bytes ---- */

typedef enum direction { TO_HOST, TO_DEVICE } direction;

/* The device whose buffer holds the states of a value. */
static runner_device *device_with(tn_runner *runner, const tn_binding *state) {
  runner_device *device = runner->devices;
  while (device->states != state->buffer) device++;
  return device;
}

static tn_status move_bytes(const runner_device *on, const tn_binding *state, uint64_t offset, uint64_t bytes,
                            unsigned char *host, direction way, tn_error *error) {
  return way == TO_HOST
             ? tn_device_copy_out(on->opened, on->queue, host, state->buffer, state->offset + offset, bytes, error)
             : tn_device_copy_in(on->opened, on->queue, state->buffer, state->offset + offset, host, bytes, error);
}

/* Moves piece `number` of each state that is one of `group`, or of each recurrent one (`recurs`). */
static tn_status move_pieces(tn_runner *runner, bool recurs, uint32_t group, uint32_t number, unsigned char *host,
                             direction way, tn_error *error) {
  if (!runner->shapes) return tn_fail(error, TN_E_DEVICE_LOST, "the device is lost and could not be reopened");
  if (has_profile(runner)) return tn_fail(error, TN_E_UNSUPPORTED, "contiguous KV has no pages to read or write");
  tn_runner_settle(runner);
  const runner_shape *shape = runner->shapes;
  tn_status status = TN_OK;
  for (tn_ref v = 0; v < shape->graph->value_count && status == TN_OK; v++) {
    const tn_graph_value *value = shape->graph->values + v;
    const tn_binding *state = shape->states + v;
    if (value->kind != TN_VALUE_STATE || !state->bytes || (value->rank == 3) != recurs) continue;
    if (!recurs && value->group != group) continue;
    uint64_t bytes = state->bytes / (recurs ? runner->info.state_slots : runner->info.groups[group].pages);
    status = move_bytes(device_with(runner, state), state, number * bytes, bytes, host, way, error);
    host += bytes;
  }
  for (uint32_t d = 0; d < runner->device_count && status == TN_OK; d++)
    status = tn_device_synchronize(opened_of(runner, d), runner->devices[d].queue, UINT64_MAX, error);
  return status;
}

tn_status tn_runner_read_page(tn_runner *runner, uint32_t group, uint32_t page, void *to, tn_error *error) {
  return move_pieces(runner, false, group, page, to, TO_HOST, error);
}

tn_status tn_runner_write_page(tn_runner *runner, uint32_t group, uint32_t page, const void *from, tn_error *error) {
  return move_pieces(runner, false, group, page, (unsigned char *)from, TO_DEVICE, error);
}

tn_status tn_runner_read_state(tn_runner *runner, uint32_t slot, void *to, tn_error *error) {
  return move_pieces(runner, true, 0, slot, to, TO_HOST, error);
}

tn_status tn_runner_write_state(tn_runner *runner, uint32_t slot, const void *from, tn_error *error) {
  return move_pieces(runner, true, 0, slot, (unsigned char *)from, TO_DEVICE, error);
}

/* ---- fingerprints ---- */

static uint64_t add(uint64_t hash, const void *data, size_t bytes) {
  return tn_hash_bytes(data, bytes, hash);
}

static uint64_t add_number(uint64_t hash, uint64_t number) {
  return add(hash, &number, sizeof number);
}

/* Of models whose weights are larger than this in all, the largest matrices aren't read whole: they may not even fit in
 * memory. */
#define WHOLE_BYTES ((uint64_t)2 << 30)
#define SAMPLES 256u
#define SAMPLE_BYTES 4096u

static uint64_t source_bytes(const tn_weight_source *source) {
  return source->rows * tn_row_bytes(source->dtype, source->cols);
}

/* Evenly spread samples, among them the first bytes and the last: models that were trained differently differ in more
 * than a few rows of a matrix. */
static uint64_t add_samples(uint64_t hash, const unsigned char *from, uint64_t bytes) {
  for (uint64_t i = 0; i < SAMPLES; i++)
    hash = add(hash, from + (bytes - SAMPLE_BYTES) * i / (SAMPLES - 1), SAMPLE_BYTES);
  return hash;
}

/* Several sources of a value may be parts of one stored matrix, which then counts once. */
static bool was_before(const tn_graph_value *value, uint32_t source) {
  for (uint32_t s = 0; s < source; s++)
    if (value->sources[s].data == value->sources[source].data) return true;
  return false;
}

/* Of the weights as they are in the file, with their types and sizes. */
static uint64_t model_fingerprint(const tn_runner *runner) {
  const tn_graph *graph = runner->shapes[0].graph;
  uint64_t hash = 1, all = 0;
  for (tn_ref v = 0; v < graph->value_count; v++)
    for (uint32_t s = 0; graph->values[v].kind == TN_VALUE_WEIGHT && s < graph->values[v].source_count; s++)
      all += source_bytes(graph->values[v].sources + s);
  for (tn_ref v = 0; v < graph->value_count; v++) {
    const tn_graph_value *value = graph->values + v;
    if (value->kind != TN_VALUE_WEIGHT) continue;
    for (uint32_t s = 0; s < value->source_count; s++) {
      const tn_weight_source *source = value->sources + s;
      uint64_t bytes = source_bytes(source);
      hash = add_number(add_number(add_number(hash, source->dtype), source->rows), source->cols);
      if (was_before(value, s)) continue;
      if (all <= WHOLE_BYTES || bytes <= (uint64_t)SAMPLES * SAMPLE_BYTES)
        hash = add(hash, source->data, bytes);
      else
        hash = add_samples(hash, source->data, bytes);
      tn_model_release(runner->model, source->data);
    }
  }
  return hash;
}

/* The ids of the layouts that devices keep KV and states in. */
static tn_status add_layouts(tn_runner *runner, uint64_t *hash, tn_error *error) {
  const runner_shape *shape = runner->shapes;
  for (size_t p = 0; p < shape->plan.partition_count; p++) {
    const tn_partition *partition = shape->plan.partitions + p;
    for (uint32_t i = 0; i < partition->program->state_count; i++) {
      const tn_state_desc desc = tn_runner_state_desc(shape->graph->values + partition->states[i]);
      tn_state_layout layout = {.size = sizeof layout};
      tn_status status = tn_device_state_layout(opened_of(runner, partition->device), &desc, &layout, error);
      if (status != TN_OK) return status;
      *hash = add_number(*hash, layout.id);
    }
  }
  return TN_OK;
}

/* All that says how the graph is computed and what its results are kept in: ops, where they run, types of values, the
 * devices, their layouts, the version. */
static tn_status configuration_fingerprint(tn_runner *runner, uint64_t *fingerprint, tn_error *error) {
  const tn_graph *graph = runner->shapes[0].graph;
  uint64_t hash = add(2, tn_version(), strlen(tn_version()));
  for (uint32_t d = 0; d < runner->device_count; d++) {
    tn_property name = {.size = sizeof name}, kernels = {.size = sizeof kernels};
    tn_status status = tn_device_get(opened_of(runner, d), "name", &name, error);
    if (status != TN_OK) return status;
    hash = add(hash, name.text, strnlen(name.text, sizeof name.text));
    tn_error unknown;
    if (tn_device_get(opened_of(runner, d), "instruction_set", &kernels, &unknown) == TN_OK)
      hash = add(hash, kernels.text, strnlen(kernels.text, sizeof kernels.text));
  }
  for (size_t i = 0; i < graph->op_count; i++) {
    const tn_graph_op *op = graph->ops + i;
    hash = add_number(add_number(hash, op->opcode), op->device);
    hash = add(hash, op->attributes, sizeof op->attributes);
    hash = add(hash, op->inputs, op->input_count * sizeof *op->inputs);
    hash = add(hash, op->outputs, op->output_count * sizeof *op->outputs);
  }
  for (tn_ref v = 0; v < graph->value_count; v++) {
    const tn_graph_value *value = graph->values + v;
    hash = add_number(add_number(add_number(hash, value->kind), value->dtype), value->group);
    hash = add(hash, value->dims, value->rank * sizeof *value->dims);
  }
  *fingerprint = hash;
  return add_layouts(runner, fingerprint, error);
}

tn_status tn_runner_fingerprint(tn_runner *runner, uint64_t *model, uint64_t *configuration, tn_error *error) {
  if (!runner->shapes) return tn_fail(error, TN_E_DEVICE_LOST, "the device is lost and could not be reopened");
  *model = model_fingerprint(runner);
  return configuration_fingerprint(runner, configuration, error);
}
