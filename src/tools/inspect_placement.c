#include "tools/inspect_placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "graph/graph.h"
#include "tensor/dtype.h"

/* A run of ops on one device. */
typedef struct op_run {
  size_t first, last; /* ops [first, last) */
  uint32_t device;
} op_run;

/* What the parts so far have read: a weight, a state and a carried value count for the first part on a device. */
typedef struct counting {
  const tn_runner *runner;
  const tn_graph *graph;
  uint32_t *seen_on; /* by value: a bit for each device */
} counting;

static uint64_t row_bytes(const tn_graph_value *value) {
  return tn_row_bytes(value->dtype, (uint64_t)value->dims[value->rank - 1]);
}

/* Layers as "0-11", "embeddings 0-3", "12-23 head", "head". */
static void describe_layers(const tn_graph *graph, const op_run *p, tn_buf *out) {
  uint32_t low = UINT32_MAX, high = 0;
  bool before = false, behind = false;
  for (size_t i = p->first; i < p->last; i++) {
    uint32_t layer = graph->ops[i].layer;
    before = before || layer == TN_BEFORE_LAYERS;
    behind = behind || layer == TN_BEHIND_LAYERS;
    if (layer >= TN_BEFORE_LAYERS) continue;
    if (layer < low) low = layer;
    if (layer > high) high = layer;
  }
  if (before) tn_buf_puts(out, "embeddings");
  if (low != UINT32_MAX) tn_buf_printf(out, low == high ? "%s%u" : "%s%u-%u", before ? " " : "", low, high);
  if (behind) tn_buf_printf(out, "%shead", out->size ? " " : "");
}

/* Adds what a part's ops read to its sums; each value once on a device. */
static void count_part(counting *c, const op_run *p, json_t *item) {
  uint64_t weights = 0, position = 0, slot = 0, crossing = 0;
  json_t *carried = json_array();
  for (size_t i = p->first; i < p->last; i++) {
    const tn_graph_op *op = c->graph->ops + i;
    for (uint32_t k = 0; k < op->input_count; k++) {
      tn_ref ref = op->inputs[k];
      if (ref == TN_NO_VALUE || (c->seen_on[ref] >> p->device & 1)) continue;
      const tn_graph_value *value = c->graph->values + ref;
      uint64_t bytes = tn_runner_value_bytes(c->runner, p->device, ref);
      size_t writer = tn_graph_producer(c->graph, ref);
      c->seen_on[ref] |= 1u << p->device;
      if (value->kind == TN_VALUE_WEIGHT) weights += bytes;
      if (value->kind == TN_VALUE_STATE) *(value->rank == 3 ? &slot : &position) += bytes;
      if (writer == SIZE_MAX || c->graph->ops[writer].device == p->device) continue;
      crossing += row_bytes(value);
      json_array_append_new(
          carried, json_pack("{s:s, s:s, s:I}", "from", tn_runner_device_name(c->runner, c->graph->ops[writer].device),
                             "type", tn_dtype_name((tn_dtype)value->dtype), "row_bytes", (json_int_t)row_bytes(value)));
    }
  }
  json_object_set_new(item, "weights", json_integer((json_int_t)weights));
  json_object_set_new(item, "kv_position", json_integer((json_int_t)position));
  json_object_set_new(item, "state_slot", json_integer((json_int_t)slot));
  json_object_set_new(item, "carried_row", json_integer((json_int_t)crossing));
  json_object_set_new(item, "carried", carried);
}

static json_t *parts_json(counting *c) {
  json_t *all = json_array();
  for (op_run p = {0}; p.first < c->graph->op_count; p.first = p.last) {
    p.device = c->graph->ops[p.first].device;
    for (p.last = p.first + 1; p.last < c->graph->op_count && c->graph->ops[p.last].device == p.device;) p.last++;
    tn_buf layers;
    tn_buf_init(&layers);
    describe_layers(c->graph, &p, &layers);
    json_t *item = json_pack("{s:s, s:s, s:i}", "device", tn_runner_device_name(c->runner, p.device), "layers",
                             layers.data ? layers.data : "", "ops", (int)(p.last - p.first));
    tn_buf_finish(&layers);
    count_part(c, &p, item);
    json_array_append_new(all, item);
  }
  return all;
}

/* ---- what fell back ---- */

/* "linear (f32, q4_0)": the op and the types of what it reads. */
static void describe_op(const tn_graph *graph, const tn_graph_op *op, tn_buf *out) {
  tn_buf_puts(out, tn_op_info_of(op->opcode)->name);
  for (uint32_t k = 0; k < op->input_count; k++)
    if (op->inputs[k] != TN_NO_VALUE)
      tn_buf_printf(out, "%s%s", k ? ", " : " (", tn_dtype_name((tn_dtype)graph->values[op->inputs[k]].dtype));
  if (op->input_count) tn_buf_putc(out, ')');
}

/* The entry of the list for the same op from and to the same devices, made if new. */
static json_t *entry_of(json_t *list, const char *what, const char *wanted, const char *device, const char *why) {
  size_t i;
  json_t *item;
  json_array_foreach(list, i, item) if (!strcmp(json_string_value(json_object_get(item, "op")), what) &&
                                        !strcmp(json_string_value(json_object_get(item, "wanted")), wanted) &&
                                        !strcmp(json_string_value(json_object_get(item, "device")), device) &&
                                        !strcmp(json_string_value(json_object_get(item, "why")), why)) return item;
  item = json_pack("{s:s, s:s, s:s, s:s, s:i, s:[]}", "op", what, "wanted", wanted, "device", device, "why", why,
                   "count", 0, "layers");
  json_array_append_new(list, item);
  return item;
}

static json_t *fallbacks_json(const counting *c) {
  json_t *list = json_array();
  for (size_t i = 0; i < c->graph->op_count; i++) {
    const tn_graph_op *op = c->graph->ops + i;
    if (op->device == op->wanted) continue;
    bool lacks = !tn_runner_supports(c->runner, op->wanted, op);
    tn_buf what;
    tn_buf_init(&what);
    describe_op(c->graph, op, &what);
    json_t *item =
        entry_of(list, what.data ? what.data : "", tn_runner_device_name(c->runner, op->wanted),
                 tn_runner_device_name(c->runner, op->device), lacks ? "lacks it" : "its KV or state lies there");
    tn_buf_finish(&what);
    json_object_set_new(item, "count", json_integer(json_integer_value(json_object_get(item, "count")) + 1));
    if (op->layer < TN_BEFORE_LAYERS) json_array_append_new(json_object_get(item, "layers"), json_integer(op->layer));
  }
  return list;
}

json_t *tn_placement_json(const tn_runner *runner) {
  counting c = {.runner = runner, .graph = tn_runner_graph(runner)};
  c.seen_on = tn_calloc(c.graph->value_count, sizeof *c.seen_on);
  if (!c.seen_on) return NULL;
  json_t *parts = parts_json(&c);
  free(c.seen_on);
  return json_pack("{s:o, s:o}", "parts", parts, "fallbacks", fallbacks_json(&c));
}

/* ---- for people ---- */

static long long number_of(const json_t *item, const char *name) {
  return (long long)json_integer_value(json_object_get(item, name));
}

static const char *text_of(const json_t *item, const char *name) {
  return json_string_value(json_object_get(item, name));
}

static int longest(const json_t *list, const char *name, int floor) {
  size_t i;
  const json_t *item;
  json_array_foreach(list, i, item) {
    int length = (int)strlen(text_of(item, name));
    if (length > floor) floor = length;
  }
  return floor;
}

static void print_carried(const json_t *part) {
  const json_t *carried = json_object_get(part, "carried");
  size_t count = json_array_size(carried);
  if (count) printf("  %zu value%s, %lld", count, count == 1 ? "" : "s", number_of(part, "carried_row"));
}

static void print_fallback(const json_t *item) {
  const json_t *layers = json_object_get(item, "layers");
  size_t count = json_array_size(layers);
  printf("  %lld x %s", number_of(item, "count"), text_of(item, "op"));
  if (count) {
    long long first = (long long)json_integer_value(json_array_get(layers, 0)),
              last = (long long)json_integer_value(json_array_get(layers, count - 1));
    printf(first == last ? " in layer %lld" : " in layers %lld to %lld", first, last);
  }
  printf(": on %s, not %s: %s\n", text_of(item, "device"), text_of(item, "wanted"), text_of(item, "why"));
}

void tn_placement_print(const json_t *placement) {
  const json_t *parts = json_object_get(placement, "parts"), *fallbacks = json_object_get(placement, "fallbacks"),
               *item;
  int device = longest(parts, "device", 6), layers = longest(parts, "layers", 6);
  size_t i;
  printf("\nPlacement\n  %-*s  %-*s  %5s  %14s  %11s  %10s%s\n", device, "device", layers, "layers", "ops",
         "weights, bytes", "KV/position", "state/slot",
         json_array_size(parts) > 1 ? "  carried here, bytes a row" : "");
  json_array_foreach(parts, i, item) {
    printf("  %-*s  %-*s  %5lld  %14lld  %11lld  %10lld", device, text_of(item, "device"), layers,
           text_of(item, "layers"), number_of(item, "ops"), number_of(item, "weights"), number_of(item, "kv_position"),
           number_of(item, "state_slot"));
    print_carried(item);
    putchar('\n');
  }
  if (json_array_size(fallbacks)) printf("\nNot where their layer is wanted\n");
  json_array_foreach(fallbacks, i, item) print_fallback(item);
}
