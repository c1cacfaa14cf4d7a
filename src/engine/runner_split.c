/* Spreading the layers of a model over the devices of one driver by their free memory (see runner.h).
 *
 * What each layer takes is measured on a plan of the whole model on the first device: its weights as that device packs
 * them, and its part of a page of KV. Layers stay in order, each device gets a run of them, what stands before and
 * behind the layers goes with the first and the last. As few devices as hold everything are used: programs run one
 * after the other, so that more of them would bring nothing but copies. */
#include <stdlib.h>
#include <string.h>
#include "engine/runner_internal.h"

/* What a run of layers takes on a device. */
typedef struct run_cost {
  uint64_t weights, page, slot; /* page: of one page of all groups; slot: of one slot of all recurrent states */
} run_cost;

typedef struct splitter {
  tn_runner *runner;
  runner_shape shape; /* the plan that is measured */
  run_cost *layers;   /* [layers] */
  uint32_t layer_count, device_count;
  uint64_t fixed;             /* what each device takes beside them */
  uint64_t free[MAX_DEVICES]; /* what each has */
  uint64_t pages, slots;      /* that are wanted */
  uint32_t ends[MAX_DEVICES]; /* layers of the devices: [ends[d - 1], ends[d]) */
} splitter;

/* ---- measuring ---- */

/* The layer that an op's memory counts for. */
static run_cost *cost_of(const splitter *s, const tn_graph_op *op) {
  if (op->layer < s->layer_count) return s->layers + op->layer;
  return op->layer == TN_BEFORE_LAYERS ? s->layers : s->layers + s->layer_count - 1;
}

static tn_status weigh_weight(splitter *s, tn_ref ref, run_cost *cost, tn_error *error) {
  const tn_graph_value *value = s->shape.graph->values + ref;
  tn_weight_desc desc = {
      .size = sizeof desc, .dtype = value->dtype, .rank = value->rank, .uses = tn_weight_uses(s->shape.graph, ref, 0)};
  tn_weight_layout layout = {.size = sizeof layout};
  for (uint32_t d = 0; d < value->rank; d++) desc.dims[d] = (uint64_t)value->dims[d];
  if (!desc.uses) return TN_OK; /* the fallback has it */
  tn_status status = tn_device_weight_layout(opened_of(s->runner, 0), &desc, &layout, error);
  if (status == TN_OK) cost->weights += tn_round_up(layout.bytes, layout.alignment ? layout.alignment : 1);
  return status;
}

static tn_status weigh_state(splitter *s, tn_ref ref, run_cost *cost, tn_error *error) {
  const tn_graph_value *value = s->shape.graph->values + ref;
  const tn_state_desc desc = tn_runner_state_desc(value);
  tn_state_layout layout = {.size = sizeof layout};
  tn_status status = tn_device_state_layout(opened_of(s->runner, 0), &desc, &layout, error);
  if (status == TN_OK) *(desc.slots ? &cost->page : &cost->slot) += layout.page_bytes;
  return status;
}

/* Adds up what the ops take of weights and states; each value counts where it is met first, a weight that stands both
 * before the layers and behind them (tied embeddings) in both places. */
static tn_status weigh(splitter *s, tn_error *error) {
  const tn_graph *graph = s->shape.graph;
  run_cost **seen = tn_calloc(graph->value_count, sizeof *seen);
  tn_status status = seen ? TN_OK : tn_fail(error, TN_E_MEMORY, "out of memory");
  for (size_t i = 0; i < graph->op_count && status == TN_OK; i++) {
    const tn_graph_op *op = graph->ops + i;
    run_cost *cost = cost_of(s, op);
    for (uint32_t k = 0; k < op->input_count && status == TN_OK && op->device == 0; k++) {
      tn_ref ref = op->inputs[k];
      if (ref == TN_NO_VALUE || seen[ref] == cost) continue;
      const tn_graph_value *value = graph->values + ref;
      bool is_new = !seen[ref];
      seen[ref] = cost;
      if (value->kind == TN_VALUE_WEIGHT) status = weigh_weight(s, ref, cost, error);
      if (value->kind == TN_VALUE_STATE && is_new) status = weigh_state(s, ref, cost, error);
    }
  }
  free(seen);
  return status;
}

/* Scratch and what crosses: the activations of a step, some times over. */
static uint64_t fixed_bytes(const splitter *s) {
  const tn_graph *graph = s->shape.graph;
  uint64_t scratch = 0, logits = (uint64_t)tn_graph_cols(graph, graph->logits) * graph->max_logits_rows * sizeof(float);
  for (size_t p = 0; p < s->shape.plan.partition_count; p++)
    if (s->shape.plan.partitions[p].program->scratch_bytes > scratch)
      scratch = s->shape.plan.partitions[p].program->scratch_bytes;
  uint64_t borders = (uint64_t)tn_model_hyper(s->runner->model)->width * graph->max_rows * sizeof(float);
  return scratch + logits + 4 * borders + ((uint64_t)64 << 10); /* rounding */
}

static tn_status measure(splitter *s, tn_error *error) {
  tn_runner *runner = s->runner;
  tn_status status = tn_runner_make_graph(runner, &s->shape, error);
  if (status == TN_OK) status = tn_runner_complement_devices(runner, error);
  if (status == TN_OK) status = tn_runner_compile(runner, &s->shape, error);
  if (status == TN_OK) status = weigh(s, error);
  if (status != TN_OK) return status;
  s->fixed = fixed_bytes(s);
  for (uint32_t d = 0; d < s->device_count; d++) {
    s->free[d] = tn_runner_free_memory(runner, d);
    uint64_t most = opened_of(runner, d)->properties.memory_total;
    if (s->free[d] > most) s->free[d] = most;
  }
  return TN_OK;
}

/* ---- splitting ---- */

static uint64_t bytes_of(const splitter *s, uint32_t layer, uint64_t pages) {
  const run_cost *cost = s->layers + layer;
  return cost->weights + cost->page * pages + cost->slot * s->slots;
}

static uint64_t room_of(const splitter *s, uint32_t device) {
  return s->free[device] > s->fixed ? s->free[device] - s->fixed : 0;
}

/* As many layers on each device as it holds; do all find room on the first `devices`? */
static bool fill(splitter *s, uint32_t devices, uint64_t pages) {
  uint32_t layer = 0;
  for (uint32_t d = 0; d < devices; d++) {
    uint64_t left = room_of(s, d);
    for (; layer < s->layer_count && bytes_of(s, layer, pages) <= left; layer++) left -= bytes_of(s, layer, pages);
    s->ends[d] = layer;
  }
  return layer == s->layer_count;
}

/* Each of the first `devices` gets its part of all bytes by its part of all memory; does that fit? */
static bool share(splitter *s, uint32_t devices, uint64_t pages) {
  double all = 0, given = 0, memory = 0, before = 0;
  for (uint32_t layer = 0; layer < s->layer_count; layer++) all += (double)bytes_of(s, layer, pages);
  for (uint32_t d = 0; d < devices; d++) memory += (double)room_of(s, d);
  uint32_t layer = 0;
  for (uint32_t d = 0; d < devices; d++) {
    uint64_t left = room_of(s, d);
    before += (double)left;
    for (; layer < s->layer_count; layer++) {
      double own = (double)bytes_of(s, layer, pages);
      if (d + 1 < devices && given + own / 2 > all * before / memory) break;
      if (bytes_of(s, layer, pages) > left) return false;
      left -= bytes_of(s, layer, pages);
      given += own;
    }
    s->ends[d] = layer;
  }
  return layer == s->layer_count;
}

/* The fewest devices on which everything with `pages` pages finds room; 0: it doesn't. */
static uint32_t try_pages(splitter *s, uint64_t pages) {
  for (uint32_t devices = 1; devices <= s->device_count; devices++)
    if (share(s, devices, pages) || fill(s, devices, pages)) return devices;
  return 0;
}

static tn_status cannot_fit(const splitter *s, tn_error *error) {
  uint64_t weights = 0, page = 0, slots = 0, present = 0;
  for (uint32_t layer = 0; layer < s->layer_count; layer++) {
    weights += s->layers[layer].weights;
    page += s->layers[layer].page;
    slots += s->layers[layer].slot * s->slots;
  }
  for (uint32_t d = 0; d < s->device_count; d++) present += s->free[d];
  const uint64_t kv = page * s->pages, needed = weights + kv + slots + s->fixed * s->device_count;
  return tn_fail(error, TN_E_MEMORY,
                 "place: the model does not fit on %u device%s %s: %llu bytes are needed (weights %llu, KV at least "
                 "%llu, states %llu, and %llu on each device for the steps), %llu are free, %llu on the first",
                 s->device_count, s->device_count == 1 ? " of" : "s of", opened_of(s->runner, 0)->driver->name,
                 (unsigned long long)needed, (unsigned long long)weights, (unsigned long long)kv,
                 (unsigned long long)slots, (unsigned long long)s->fixed, (unsigned long long)present,
                 (unsigned long long)s->free[0]);
}

/* Pages that are wanted: what was asked for, cut by the limit as the runner will cut them. */
static void count_wanted(splitter *s) {
  const tn_runner_options *options = &s->runner->options;
  uint64_t page = 0, slot = 0;
  for (uint32_t layer = 0; layer < s->layer_count; layer++) {
    page += s->layers[layer].page;
    slot += s->layers[layer].slot;
  }
  s->pages = options->pages;
  if (options->kv_bytes && page && s->pages > options->kv_bytes / page) s->pages = options->kv_bytes / page;
  if (!slot) return;
  uint64_t more = options->snapshots;
  if (options->snapshot_bytes && more > options->snapshot_bytes / slot) more = options->snapshot_bytes / slot;
  s->slots = (options->state_slots ? options->state_slots : 2 * options->max_sequences) + more;
}

/* Where not all pages fit and fewer will do: as many as do, on all devices. */
static uint32_t find_split(splitter *s) {
  uint32_t devices = try_pages(s, s->pages);
  if (devices || !s->runner->options.fit_pages) return devices;
  uint64_t fits = 0, too_many = s->pages;
  while (too_many - fits > 1) {
    uint64_t middle = fits + (too_many - fits) / 2;
    if (try_pages(s, middle))
      fits = middle;
    else
      too_many = middle;
  }
  s->pages = fits ? fits : 1;
  return fits ? try_pages(s, fits) : 0;
}

tn_status tn_runner_split(tn_runner *runner, tn_error *error) {
  uint32_t opened = runner->placement.spec_count;
  splitter s = {.runner = runner, .layer_count = runner->placement.wanted.layer_count, .device_count = opened};
  if (!s.layer_count || has_profile(runner))
    return tn_fail(error, TN_E_UNSUPPORTED, "place: auto needs a model with layers, and devices with paged KV");
  s.layers = tn_calloc(s.layer_count, sizeof *s.layers);
  tn_status status = s.layers ? measure(&s, error) : tn_fail(error, TN_E_MEMORY, "out of memory");
  if (status == TN_OK) {
    count_wanted(&s);
    uint32_t used = find_split(&s);
    if (!used) status = cannot_fit(&s, error);
    for (uint32_t d = 0, layer = 0; d < used; d++)
      for (; layer < s.ends[d]; layer++) runner->placement.layers[layer] = (uint8_t)d;
    runner->placement.wanted.behind = used ? used - 1 : 0;
    runner->placement.spec_count = used ? used : 1;
    tn_runner_close_devices(runner, runner->placement.spec_count);
  }
  tn_plan_destroy(&s.shape.plan);
  tn_graph_destroy(s.shape.graph);
  free(s.layers);
  return status;
}
