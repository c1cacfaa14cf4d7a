/* The memory of sequences on a runner's devices: pages of KV, slots of recurrent states, or regions of contiguous KV.
 * Each device has those of the layers whose attention runs there (see runner.h). */
#include "engine/kv.h"
#include "engine/runner_internal.h"

#define UNPLACED UINT64_MAX

tn_state_desc tn_runner_state_desc(const tn_graph_value *value) {
  return (tn_state_desc){.size = sizeof(tn_state_desc),
                         .dtype = value->dtype,
                         .kv_heads = (uint32_t)value->dims[0],
                         .key_dim = (uint32_t)value->dims[1],
                         .value_dim = (uint32_t)value->dims[2],
                         .slots = value->rank == 3 ? 0 : (uint32_t)value->dims[3]};
}

/* Bytes of a page (a slot, of a recurrent one; all, of contiguous KV) of a state, asked from its device once. */
static tn_status ask_layout(tn_runner *runner, runner_shape *shape, uint32_t device, tn_ref state, bool *is_new,
                            tn_error *error) {
  const tn_state_desc desc = tn_runner_state_desc(shape->graph->values + state);
  tn_state_layout layout = {.size = sizeof layout};
  *is_new = shape->states[state].bytes == 0;
  if (!*is_new) return TN_OK;
  tn_status status = tn_device_state_layout(opened_of(runner, device), &desc, &layout, error);
  if (status == TN_OK) shape->states[state] = (tn_binding){NULL, UNPLACED, layout.page_bytes};
  return status;
}

static tn_status size_state(tn_runner *runner, uint32_t device, tn_ref state, tn_error *error) {
  tn_runner_info *info = &runner->info;
  runner_shape *shape = runner->shapes;
  const tn_graph_value *value = shape->graph->values + state;
  bool is_new;
  tn_status status = ask_layout(runner, shape, device, state, &is_new, error);
  if (status != TN_OK || !is_new) return status;
  uint64_t page_bytes = shape->states[state].bytes;
  runner_device *on = runner->devices + device;
  *(value->rank == 3 ? &on->slot_bytes : &on->page_bytes[value->group]) += tn_round_up(page_bytes, 256);
  if (value->rank == 3) {
    info->state_bytes += page_bytes;
    return TN_OK;
  }
  info->groups[value->group].page_bytes += page_bytes;
  return TN_OK;
}

/* Two slots of recurrent states a sequence, and as many more as were asked for and fit. */
static void count_slots(tn_runner *runner) {
  const tn_runner_options *options = &runner->options;
  tn_runner_info *info = &runner->info;
  if (!info->state_bytes) return;
  uint64_t more = options->snapshots;
  if (options->snapshot_bytes && more > options->snapshot_bytes / info->state_bytes)
    more = options->snapshot_bytes / info->state_bytes;
  info->state_slots = (options->state_slots ? options->state_slots : 2 * options->max_sequences) + (uint32_t)more;
}

/* What a device's programs take beside weights and states: scratch, and memory for what crosses, at most. */
static uint64_t step_bytes(const tn_runner *runner, uint32_t device) {
  const runner_shape *shape = runner->shapes;
  uint64_t scratch = 0, borders = 0;
  for (size_t p = 0; p < shape->plan.partition_count; p++) {
    const tn_partition *partition = shape->plan.partitions + p;
    if (partition->device != device) continue;
    if (partition->program->scratch_bytes > scratch) scratch = partition->program->scratch_bytes;
    for (uint32_t i = 0; i < partition->program->input_count; i++)
      borders += tn_runner_border_bytes(shape->graph, partition->inputs[i]);
    for (uint32_t i = 0; i < partition->program->output_count; i++)
      borders += tn_runner_border_bytes(shape->graph, partition->outputs[i]);
  }
  return scratch + borders;
}

/* Pages of a group when those without a window have `pages`. */
static uint32_t pages_of_group(const tn_runner *runner, uint32_t group, uint32_t pages) {
  const tn_runner_options *options = &runner->options;
  uint32_t window = runner->shapes[0].graph->groups[group].window;
  if (!window || !options->windows) return pages;
  uint64_t most = (uint64_t)options->windows * tn_kv_window_pages(window, options->max_rows);
  return most < pages ? (uint32_t)most : pages;
}

/* What all groups take when those without a window have `pages`, a page of group g taking page_bytes[g]; UINT64_MAX
 * where that is more than can be told. */
static uint64_t bytes_of_pages(const tn_runner *runner, const uint64_t *page_bytes, uint32_t pages) {
  uint64_t all = 0, some;
  for (uint32_t g = 0; g < runner->shapes[0].graph->group_count; g++)
    if (__builtin_mul_overflow(page_bytes[g], pages_of_group(runner, g, pages), &some) ||
        __builtin_add_overflow(all, some, &all))
      return UINT64_MAX;
  return all;
}

/* The most of `pages` pages that fit into `bytes`. */
static uint32_t most_pages(const tn_runner *runner, const uint64_t *page_bytes, uint32_t pages, uint64_t bytes) {
  uint32_t fits = 0;
  while (fits < pages) {
    uint32_t middle = fits + (pages - fits + 1) / 2;
    if (bytes_of_pages(runner, page_bytes, middle) <= bytes)
      fits = middle;
    else
      pages = middle - 1;
  }
  return fits;
}

/* The most of `pages` pages that a device has memory for, beside its weights, recurrent states and what steps take. */
static uint32_t pages_that_fit(const tn_runner *runner, uint32_t device, uint32_t pages) {
  const runner_device *on = runner->devices + device;
  uint64_t available = tn_runner_free_memory(runner, device), most = on->opened->properties.max_allocation;
  uint64_t slots = on->slot_bytes * runner->info.state_slots, others = step_bytes(runner, device) + available / 64;
  if (runner->options.plan_only) others += on->weight_bytes;
  available = available > others ? available - others : 0;
  if (available > most) available = most; /* pages and slots are one buffer */
  return most_pages(runner, on->page_bytes, pages, available > slots ? available - slots : 0);
}

/* Bytes of a page of every state, summed by group, and from them how many pages and slots fit. */
static tn_status size_pages(tn_runner *runner, tn_error *error) {
  tn_runner_info *info = &runner->info;
  const tn_plan *plan = &runner->shapes[0].plan;
  uint64_t page_bytes[TN_MAX_GROUPS];
  for (size_t p = 0; p < plan->partition_count; p++) {
    const tn_partition *partition = plan->partitions + p;
    for (uint32_t i = 0; i < partition->program->state_count; i++) {
      tn_status status = size_state(runner, partition->device, partition->states[i], error);
      if (status != TN_OK) return status;
    }
  }
  count_slots(runner);
  info->pages = runner->options.pages;
  for (uint32_t g = 0; g < TN_MAX_GROUPS; g++) page_bytes[g] = info->groups[g].page_bytes;
  if (runner->options.kv_bytes) info->pages = most_pages(runner, page_bytes, info->pages, runner->options.kv_bytes);
  if (!info->pages)
    return tn_fail(error, TN_E_LIMIT, "KV memory: %llu bytes given, one page of %u positions needs %llu",
                   (unsigned long long)runner->options.kv_bytes, TN_PAGE_SLOTS,
                   (unsigned long long)bytes_of_pages(runner, page_bytes, 1));
  for (uint32_t device = 0; device < runner->device_count && runner->options.fit_pages; device++) {
    info->pages = pages_that_fit(runner, device, info->pages);
    if (!info->pages)
      return tn_fail(error, TN_E_MEMORY,
                     "KV memory: device %s has no room for one page of %u positions beside the rest",
                     opened_of(runner, device)->label, TN_PAGE_SLOTS);
  }
  info->kv_bytes = bytes_of_pages(runner, page_bytes, info->pages);
  if (info->kv_bytes == UINT64_MAX) return tn_fail(error, TN_E_LIMIT, "KV memory: %u pages are too many", info->pages);
  for (uint32_t g = 0; g < TN_MAX_GROUPS; g++)
    if (page_bytes[g]) info->groups[g].pages = pages_of_group(runner, g, info->pages);
  return TN_OK;
}

/* One buffer a device for all its states; state i's pages begin at its offset. */
static void place_pages(tn_runner *runner) {
  runner_shape *shape = runner->shapes;
  for (uint32_t device = 0; device < runner->device_count; device++) {
    runner_device *on = runner->devices + device;
    uint64_t total = 0;
    for (size_t p = 0; p < shape->plan.partition_count; p++) {
      const tn_partition *partition = shape->plan.partitions + p;
      for (uint32_t i = 0; partition->device == device && i < partition->program->state_count; i++) {
        tn_binding *state = shape->states + partition->states[i];
        if (state->offset != UNPLACED) continue; /* in several programs */
        state->offset = total;
        const tn_graph_value *value = shape->graph->values + partition->states[i];
        state->bytes *= value->rank == 3 ? runner->info.state_slots : runner->info.groups[value->group].pages;
        total += tn_round_up(state->bytes, 256);
      }
    }
    on->state_bytes = total;
  }
}

/* Of contiguous KV: where each state lies in region 0 of every length; `region_bytes` leads to the other regions.
 * Shapes of one length have the same memory. The KV is in plain layout (device.h), so a layout of other size is
 * refused. */
static tn_status place_region(tn_runner *runner, runner_shape *shape, uint32_t length, uint32_t device, uint64_t *total,
                              tn_error *error) {
  uint64_t bytes = 0;
  for (size_t p = 0; p < shape->plan.partition_count; p++) {
    const tn_partition *partition = shape->plan.partitions + p;
    for (uint32_t i = 0; partition->device == device && i < partition->program->state_count; i++) {
      bool is_new;
      tn_ref state = partition->states[i];
      const tn_graph_value *v = shape->graph->values + state;
      if (v->rank == 3) continue;
      tn_status status = ask_layout(runner, shape, device, state, &is_new, error);
      if (status != TN_OK) return status;
      if (!is_new) continue;
      uint64_t plain =
          tn_row_bytes(v->dtype, 1) * (uint64_t)v->dims[0] * (uint64_t)v->dims[3] * (uint64_t)(v->dims[1] + v->dims[2]);
      if (shape->states[state].bytes != plain)
        return tn_fail(error, TN_E_UNSUPPORTED, "device %s: contiguous KV of %u slots in %llu bytes, %llu expected",
                       opened_of(runner, device)->label, (uint32_t)v->dims[3],
                       (unsigned long long)shape->states[state].bytes, (unsigned long long)plain);
      shape->states[state].offset = *total + bytes;
      bytes += tn_round_up(plain, 256);
    }
  }
  runner->region_bytes[device][length] = bytes;
  return __builtin_mul_overflow(bytes, runner->options.max_sequences, &bytes) ||
                 __builtin_add_overflow(*total, bytes, total)
             ? tn_fail(error, TN_E_LIMIT, "KV memory: %u sequences are too many", runner->options.max_sequences)
             : TN_OK;
}

/* Recurrent states beside contiguous KV: slots at the begin of the device's memory, the same for all shapes. */
static tn_status place_slots(tn_runner *runner, uint32_t device, uint64_t *total, tn_error *error) {
  runner_shape *shape = runner->shapes;
  for (size_t p = 0; p < shape->plan.partition_count; p++) {
    const tn_partition *partition = shape->plan.partitions + p;
    for (uint32_t i = 0; partition->device == device && i < partition->program->state_count; i++) {
      bool is_new;
      tn_ref state = partition->states[i];
      if (shape->graph->values[state].rank != 3) continue;
      tn_status status = ask_layout(runner, shape, device, state, &is_new, error);
      if (status != TN_OK) return status;
      if (!is_new) continue;
      runner->info.state_bytes += shape->states[state].bytes;
      shape->states[state].offset = *total;
      shape->states[state].bytes *= runner->info.state_slots;
      *total += tn_round_up(shape->states[state].bytes, 256);
      for (uint32_t s = 1; s < runner->shape_count; s++) runner->shapes[s].states[state] = shape->states[state];
    }
  }
  return TN_OK;
}

static tn_status place_regions(tn_runner *runner, tn_error *error) {
  const runner_profile *profile = &runner->profile;
  runner->info.pages = runner->options.pages; /* the engine's accounts; the memory is the regions' */
  for (uint32_t g = 0; g < TN_MAX_GROUPS; g++) runner->info.groups[g].pages = runner->info.pages;
  runner->info.state_slots = 2 * runner->options.max_sequences;
  for (uint32_t device = 0; device < runner->device_count; device++) {
    uint64_t total = 0;
    tn_status status = place_slots(runner, device, &total, error);
    if (status != TN_OK) return status;
    uint64_t slots = total;
    for (uint32_t length = 0; length < profile->length_count; length++) {
      runner_shape *first = runner->shapes + length * profile->row_count;
      status = place_region(runner, first, length, device, &total, error);
      if (status != TN_OK) return status;
      for (uint32_t r = 1; r < profile->row_count; r++)
        for (tn_ref v = 0; v < first->graph->value_count; v++) first[r].states[v] = first->states[v];
    }
    runner->devices[device].state_bytes = total;
    runner->info.kv_bytes += total - slots;
  }
  if (runner->options.kv_bytes && runner->info.kv_bytes > runner->options.kv_bytes)
    return tn_fail(error, TN_E_LIMIT, "KV memory: %llu bytes given, the regions of %u sequences need %llu",
                   (unsigned long long)runner->options.kv_bytes, runner->options.max_sequences,
                   (unsigned long long)runner->info.kv_bytes);
  runner->regions = tn_calloc(runner->options.max_sequences, sizeof *runner->regions);
  return runner->regions ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory");
}

static tn_status take_state_memory(tn_runner *runner, tn_error *error) {
  for (uint32_t device = 0; device < runner->device_count; device++) {
    runner_device *on = runner->devices + device;
    tn_status status = on->state_bytes ? tn_runner_take(runner, device, on->state_bytes, &on->states, error) : TN_OK;
    if (status != TN_OK) return tn_error_prefix(error, "KV memory");
    for (uint32_t s = 0; s < runner->shape_count; s++) {
      runner_shape *shape = runner->shapes + s;
      for (size_t p = 0; p < shape->plan.partition_count; p++) {
        const tn_partition *partition = shape->plan.partitions + p;
        for (uint32_t i = 0; partition->device == device && i < partition->program->state_count; i++)
          shape->states[partition->states[i]].buffer = on->states;
      }
    }
  }
  return TN_OK;
}

tn_status tn_runner_take_states(tn_runner *runner, tn_error *error) {
  tn_status status = has_profile(runner) ? place_regions(runner, error) : size_pages(runner, error);
  if (status == TN_OK && !has_profile(runner)) place_pages(runner);
  return status == TN_OK ? take_state_memory(runner, error) : status;
}
