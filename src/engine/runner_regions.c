/* Steps on devices with a shape profile: a fixed number of rows of one sequence over contiguous KV (see runner.h).
 *
 * A sequence's rows are cut in pieces. Each piece takes the smallest listed row count that holds what is left (or the
 * largest there is), at the smallest listed length that holds the piece; rows behind the last real one are padding and
 * repeat it. Before a piece runs, the host fills the masks and rope tables; behind it, the new columns that the
 * programs gave are copied to their slots. Recurrent states are in slots, which have no length; programs with such
 * states get the piece's rows without the padding. Promotion copies every head's slots from the region of one length to
 * that of the next: bytes, so that a promoted sequence is equal to one that began at the larger length. */
#include <stdlib.h>
#include <string.h>
#include "engine/runner_internal.h"

#define MOST_ROTARY 1024u

/* ---- the profile ---- */

/* Reads a rising list of numbers like "1,32". */
static bool read_list(const char *text, uint32_t most, uint32_t *numbers, uint32_t *count) {
  *count = 0;
  for (const char *at = text;; at++) {
    char *end;
    unsigned long value = strtoul(at, &end, 10);
    if (end == at || *at < '0' || *at > '9' || !value || value > most || *count == MAX_PROFILE) return false;
    if (*count && value <= numbers[*count - 1]) return false;
    numbers[(*count)++] = (uint32_t)value;
    if (!*end) return true;
    if (*end != ',') return false;
    at = end;
  }
}

/* The profile of one device; nothing of both where it takes any rows over paged KV. */
static tn_status read_device(tn_opened_device *device, runner_profile *profile, tn_error *error) {
  tn_property lengths = {.size = sizeof lengths};
  bool any_rows = !strcmp(device->properties.rows, "any");
  *profile = (runner_profile){0};
  if (any_rows && !device->properties.contiguous_kv) return TN_OK;
  if (any_rows != !device->properties.contiguous_kv)
    return tn_fail(error, TN_E_UNSUPPORTED, "device %s: rows \"%s\" with %s KV; a list goes with contiguous KV",
                   device->label, device->properties.rows, device->properties.contiguous_kv ? "contiguous" : "paged");
  tn_status status = tn_device_get(device, "kv_lengths", &lengths, error);
  if (status != TN_OK) return status;
  lengths.text[sizeof lengths.text - 1] = 0;
  if (!read_list(device->properties.rows, 1u << 16, profile->rows, &profile->row_count) ||
      lengths.type != TN_PROPERTY_TEXT ||
      !read_list(lengths.text, 1u << 24, profile->lengths, &profile->length_count) ||
      profile->lengths[0] <= TN_PAGE_SLOTS || profile->rows[profile->row_count - 1] > profile->lengths[0])
    return tn_fail(
        error, TN_E_UNSUPPORTED,
        "device %s: rows \"%s\", kv_lengths \"%s\"; expected rising lists of at most %d numbers, lengths above "
        "%u and not below the rows",
        device->label, device->properties.rows, lengths.text, MAX_PROFILE, TN_PAGE_SLOTS);
  return TN_OK;
}

tn_status tn_runner_read_profile(tn_runner *runner, tn_error *error) {
  runner_profile *profile = &runner->profile;
  tn_runner_options *options = &runner->options;
  for (uint32_t device = 0; device < runner->device_count; device++) {
    runner_profile own;
    tn_status status = read_device(opened_of(runner, device), &own, error);
    if (status != TN_OK) return status;
    own.device = device;
    if (!own.row_count) continue;
    if (has_profile(runner) && (memcmp(own.rows, profile->rows, sizeof own.rows) != 0 ||
                                memcmp(own.lengths, profile->lengths, sizeof own.lengths) != 0))
      return tn_fail(error, TN_E_UNSUPPORTED,
                     "devices %s and %s can't run one model: they take other numbers of rows, or other lengths of KV",
                     opened_of(runner, profile->device)->label, opened_of(runner, device)->label);
    if (!has_profile(runner)) *profile = own;
  }
  if (!has_profile(runner)) return TN_OK;
  uint32_t longest = profile->lengths[profile->length_count - 1];
  if (options->max_context > longest) options->max_context = longest;
  while (profile->length_count > 1 && profile->lengths[profile->length_count - 2] >= options->max_context)
    profile->length_count--;
  return TN_OK;
}

/* ---- what the host feeds ---- */

/* Row r of a piece at position P sees slots 0 .. P - 1 and new columns 0 .. r, less what the window closes. */
static void fill_mask(float *mask, tn_fixed_shape shape, uint32_t past, uint32_t rows, uint32_t window) {
  uint32_t columns = shape.length + shape.rows;
  for (uint32_t r = 0; r < shape.rows; r++, mask += columns) {
    for (uint32_t c = 0; c < columns; c++) mask[c] = -__builtin_inff();
    if (r >= rows) continue;
    uint32_t last = past + r, first = window && last >= window ? last - window + 1 : 0;
    for (uint32_t p = first; p <= last; p++) mask[p < past ? p : shape.length + (p - past)] = 0.0f;
  }
}

/* The frequencies are dense numbers that the family computed. */
static tn_status fill_rope_table(const runner_shape *shape, const tn_graph_value *value, const tn_batch *batch,
                                 float *table) {
  const tn_graph_value *from = shape->graph->values + value->frequencies;
  const uint32_t rotary = (uint32_t)value->dims[1];
  float frequencies[MOST_ROTARY / 2];
  const tn_weight_desc desc = {
      .size = sizeof desc, .dtype = from->dtype, .rank = 1, .uses = TN_USE_VECTOR, .dims = {rotary / 2}};
  if (rotary > MOST_ROTARY) return TN_E_LIMIT;
  tn_status status = tn_plain_pack(&desc, from->sources, from->source_count, frequencies);
  if (status != TN_OK) return status;
  const tn_rope_table_attributes attributes = {sizeof attributes, rotary, value->magnitude};
  const tn_kernel_call call = {.opcode = TN_OP_ROPE_TABLE,
                               .input_count = 1,
                               .output_count = 1,
                               .inputs = {{.data = frequencies, .dtype = TN_F32, .rank = 1, .dims = {rotary / 2}}},
                               .outputs = {{.data = table,
                                            .dtype = TN_F32,
                                            .rank = 2,
                                            .dims = {shape->fixed.rows, rotary},
                                            .row_bytes = rotary * sizeof *table}},
                               .attributes = &attributes,
                               .batch = batch};
  return tn_reference_kernels()->kernel[TN_OP_ROPE_TABLE](&call);
}

static tn_status feed_inputs(tn_runner *runner, const runner_shape *shape, const tn_batch *batch, uint32_t rows,
                             tn_error *error) {
  float *host = (float *)(void *)runner->staging;
  for (size_t b = 0; b < shape->border_count; b++) {
    const border_value *border = shape->borders + b;
    const tn_graph_value *value = shape->graph->values + border->value;
    if (!value->feed) continue;
    tn_status status = TN_OK;
    if (value->feed == TN_FEED_MASK)
      fill_mask(host, shape->fixed, batch->sequences[0].kv_length, rows, value->window);
    else if (fill_rope_table(shape, value, batch, host) != TN_OK)
      status = tn_fail(error, TN_E_INTERNAL, "%s: no rope table for the host to fill", value->name);
    for (uint32_t device = 0; device < runner->device_count && status == TN_OK; device++)
      if (border->on_device[device])
        status = tn_device_copy_in(opened_of(runner, device), runner->devices[device].queue, border->buffers[device], 0,
                                   host, border->bytes, error);
    if (status != TN_OK) return status;
  }
  return TN_OK;
}

/* ---- regions ---- */

static runner_shape *shape_at(const tn_runner *runner, uint32_t length, uint32_t row_count) {
  return runner->shapes + length * runner->profile.row_count + row_count;
}

static bool is_kv(const runner_shape *shape, tn_ref state) {
  return shape->graph->values[state].rank == 4;
}

/* Where KV `state` of a region begins in its device's memory. */
static uint64_t state_at(const tn_runner *runner, const runner_shape *shape, uint32_t length, uint32_t region,
                         uint32_t device, tn_ref state) {
  return shape->states[state].offset + region * runner->region_bytes[device][length];
}

static void bind_region(tn_runner *runner, runner_shape *shape, uint32_t length, uint32_t region) {
  for (size_t p = 0; p < shape->plan.partition_count; p++) {
    runner_part *part = shape->parts + p;
    for (uint32_t i = 0; i < part->partition->program->state_count; i++) {
      tn_ref state = part->partition->states[i];
      if (is_kv(shape, state))
        part->states[i].offset = state_at(runner, shape, length, region, part->partition->device, state);
    }
  }
}

/* Copies `count` slots of every head from one plain layout into another on the same device; `from` and `to` are where
 * the layouts begin, their slots and the first slot. */
typedef struct slot_range {
  tn_buffer *keys, *values; /* one buffer, or one for each */
  uint64_t key_offset, value_offset;
  uint32_t slots, first;
} slot_range;

static tn_status copy_slots(const runner_device *on, const tn_graph_value *state, const slot_range *from,
                            const slot_range *to, uint32_t count, tn_error *error) {
  uint64_t element = tn_row_bytes(state->dtype, 1);
  for (uint32_t head = 0; head < (uint32_t)state->dims[0]; head++)
    for (uint32_t part = 0; part < 2; part++) {
      uint64_t column = element * (uint64_t)state->dims[1 + part];
      uint64_t source =
          (part ? from->value_offset : from->key_offset) + ((uint64_t)head * from->slots + from->first) * column;
      uint64_t target = (part ? to->value_offset : to->key_offset) + ((uint64_t)head * to->slots + to->first) * column;
      tn_status status = tn_device_copy(on->opened, on->queue, part ? to->values : to->keys, target,
                                        part ? from->values : from->keys, source, count * column, error);
      if (status != TN_OK) return status;
    }
  return TN_OK;
}

static slot_range region_slots(const tn_runner *runner, uint32_t length, uint32_t region, uint32_t device, tn_ref ref,
                               uint32_t first) {
  const runner_shape *shape = shape_at(runner, length, 0);
  const tn_graph_value *state = shape->graph->values + ref;
  uint64_t at = state_at(runner, shape, length, region, device, ref);
  uint64_t keys =
      tn_row_bytes(state->dtype, 1) * (uint64_t)state->dims[0] * (uint64_t)state->dims[3] * (uint64_t)state->dims[1];
  tn_buffer *memory = runner->devices[device].states;
  return (slot_range){memory, memory, at, at + keys, (uint32_t)state->dims[3], first};
}

/* Moves a region's first `filled` slots to the length `to`. A state of several programs is copied more than once, which
 * does no harm. */
static tn_status promote(tn_runner *runner, uint32_t region, uint32_t to, uint32_t filled, tn_error *error) {
  uint32_t from = runner->regions[region].length;
  const runner_shape *shape = shape_at(runner, to, 0);
  for (size_t p = 0; p < shape->plan.partition_count && filled; p++) {
    const tn_partition *partition = shape->plan.partitions + p;
    for (uint32_t i = 0; i < partition->program->state_count; i++) {
      tn_ref state = partition->states[i];
      if (!is_kv(shape, state)) continue;
      slot_range source = region_slots(runner, from, region, partition->device, state, 0);
      slot_range target = region_slots(runner, to, region, partition->device, state, 0);
      tn_status status = copy_slots(runner->devices + partition->device, shape->graph->values + state, &source, &target,
                                    filled, error);
      if (status != TN_OK) return status;
    }
  }
  runner->regions[region].length = to;
  return TN_OK;
}

/* The new columns of the piece's real rows go to their slots. */
static tn_status append_columns(tn_runner *runner, const runner_shape *shape, uint32_t region, uint32_t past,
                                uint32_t rows, tn_error *error) {
  for (size_t p = 0; p < shape->plan.partition_count; p++) {
    const tn_partition *partition = shape->plan.partitions + p;
    uint32_t device = partition->device;
    for (uint32_t i = 0; i < partition->program->state_count; i++) {
      tn_ref ref = partition->states[i];
      if (!is_kv(shape, ref)) continue;
      const tn_graph_value *state = shape->graph->values + ref;
      slot_range source = {.keys = border_of(shape, state->columns[0])->buffers[device],
                           .values = border_of(shape, state->columns[1])->buffers[device],
                           .slots = shape->fixed.rows};
      slot_range target = region_slots(runner, runner->regions[region].length, region, device, ref, past);
      tn_status status = copy_slots(runner->devices + device, state, &source, &target, rows, error);
      if (status != TN_OK) return status;
    }
  }
  return TN_OK;
}

/* ---- pieces ---- */

/* A piece of a sequence: rows [first, first + rows) of the batch. */
typedef struct piece {
  uint32_t first, rows, past, region;
  uint32_t state_read, state_write;
} piece;

/* The batch of a piece, padded with copies of its last row. */
static tn_batch piece_batch(const tn_batch *batch, const piece *of, uint32_t padded, tn_row *rows,
                            tn_sequence *sequence, uint32_t *logits_rows) {
  uint32_t logits = 0;
  for (uint32_t r = 0; r < padded; r++) {
    rows[r] = batch->rows[of->first + (r < of->rows ? r : of->rows - 1)];
    rows[r].sequence = 0;
    if (r >= of->rows) rows[r].wants_logits = 0;
  }
  for (uint32_t i = 0; i < batch->logits_count; i++)
    if (batch->logits_rows[i] >= of->first && batch->logits_rows[i] < of->first + of->rows)
      logits_rows[logits++] = batch->logits_rows[i] - of->first;
  *sequence = (tn_sequence){
      .row_count = padded, .kv_length = of->past, .state_read = of->state_read, .state_write = of->state_write};
  return (tn_batch){.size = sizeof(tn_batch),
                    .row_count = padded,
                    .sequence_count = 1,
                    .logits_count = logits,
                    .context = of->past + padded,
                    .rows = rows,
                    .sequences = sequence,
                    .logits_rows = logits_rows};
}

static tn_status run_piece(tn_runner *runner, const tn_batch *batch, const piece *of, uint32_t row_number,
                           uint32_t *gathered, tn_error *error) {
  uint32_t length = runner->regions[of->region].length;
  runner_shape *shape = shape_at(runner, length, row_number);
  tn_sequence sequence;
  const tn_batch own =
      piece_batch(batch, of, shape->fixed.rows, runner->piece_rows, &sequence, runner->piece_logits_rows);
  tn_sequence real_sequence = sequence;
  tn_batch real = own;
  real_sequence.row_count = real.row_count = of->rows;
  real.context = of->past + of->rows;
  real.sequences = &real_sequence;
  runner->unpadded = &real;
  const float *logits;
  bind_region(runner, shape, length, of->region);
  tn_status status = feed_inputs(runner, shape, &own, of->rows, error);
  if (status == TN_OK) status = tn_runner_run_shape(runner, shape, &own, 0, &logits, error);
  if (status == TN_OK) status = append_columns(runner, shape, of->region, of->past, of->rows, error);
  for (uint32_t device = 0; device < runner->device_count && status == TN_OK; device++)
    status = tn_device_synchronize(opened_of(runner, device), runner->devices[device].queue, UINT64_MAX, error);
  runner->unpadded = NULL;
  if (status != TN_OK) return status;
  uint32_t vocabulary = runner->info.vocabulary;
  memcpy(runner->gathered + (size_t)*gathered * vocabulary, logits,
         (size_t)own.logits_count * vocabulary * sizeof *logits);
  *gathered += own.logits_count;
  return TN_OK;
}

/* The number of the smallest entry that holds `wanted`, or of the last. */
static uint32_t smallest(const uint32_t *list, uint32_t count, uint32_t wanted) {
  uint32_t i = 0;
  while (i + 1 < count && list[i] < wanted) i++;
  return i;
}

static tn_status run_sequence(tn_runner *runner, const tn_batch *batch, const tn_sequence *sequence, uint32_t *gathered,
                              tn_error *error) {
  const runner_profile *profile = &runner->profile;
  uint32_t region = sequence->state_read / 2, done = 0;
  runner_region *at = runner->regions + region;
  if (sequence->kv_length > at->filled)
    return tn_fail(error, TN_E_INVALID, "batch: region %u holds %u slots of KV, not %u", region, at->filled,
                   sequence->kv_length);
  if (!sequence->kv_length) at->length = 0;
  while (done < sequence->row_count) {
    uint32_t left = sequence->row_count - done, past = sequence->kv_length + done;
    uint32_t row_number = smallest(profile->rows, profile->row_count, left);
    uint32_t rows = left < profile->rows[row_number] ? left : profile->rows[row_number];
    uint32_t length = smallest(profile->lengths, profile->length_count, past + rows);
    const piece of = {.first = sequence->first_row + done,
                      .rows = rows,
                      .past = past,
                      .region = region,
                      .state_read = done ? sequence->state_write : sequence->state_read,
                      .state_write = sequence->state_write};
    tn_status status = length > at->length ? promote(runner, region, length, past, error) : TN_OK;
    if (status == TN_OK) status = run_piece(runner, batch, &of, row_number, gathered, error);
    if (status != TN_OK) return status;
    done += rows;
    at->filled = past + rows;
  }
  return TN_OK;
}

tn_status tn_runner_run_regions(tn_runner *runner, const tn_batch *batch, const float **logits, tn_error *error) {
  uint32_t gathered = 0;
  tn_status status = TN_OK;
  for (uint32_t s = 0; s < batch->sequence_count && status == TN_OK; s++)
    status = run_sequence(runner, batch, batch->sequences + s, &gathered, error);
  *logits = runner->gathered;
  return status;
}
