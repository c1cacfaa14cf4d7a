/* The weights of a runner: laid out as each device wants them, and packed, or taken from the packed form that an
 * earlier start has stored (packed.h). */
#include <stdio.h>
#include <stdlib.h>
#include "base/hash.h"
#include "base/log.h"
#include "engine/runner_internal.h"
#include "tenon/tenon.h"

#define AUTO_BYTES ((uint64_t)16 << 20) /* "auto" stores nothing smaller: packing it takes no time */

/* One packed copy serves all shapes: they must read the same weights. */
static tn_status check_weights(const tn_runner *runner, tn_error *error) {
  const tn_graph *first = runner->shapes[0].graph;
  for (uint32_t s = 1; s < runner->shape_count; s++) {
    const tn_graph *graph = runner->shapes[s].graph;
    bool same = graph->value_count == first->value_count;
    for (tn_ref value = 0; same && value < graph->value_count; value++) {
      const tn_graph_value *a = first->values + value, *b = graph->values + value;
      if (a->kind == TN_VALUE_WEIGHT || b->kind == TN_VALUE_WEIGHT)
        same = a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank && a->dims[0] == b->dims[0] &&
               a->dims[1] == b->dims[1];
    }
    if (!same)
      return tn_fail(error, TN_E_UNSUPPORTED, "device %s takes other ops at %u rows and length %u than at %u and %u",
                     opened_of(runner, runner->profile.device)->label, runner->shapes[s].fixed.rows,
                     runner->shapes[s].fixed.length, runner->shapes[0].fixed.rows, runner->shapes[0].fixed.length);
  }
  return TN_OK;
}

static uint32_t uses_of(const tn_runner *runner, tn_ref value, uint32_t device) {
  uint32_t uses = 0;
  if (runner->shapes[0].graph->values[value].kind != TN_VALUE_WEIGHT) return 0;
  for (uint32_t s = 0; s < runner->shape_count; s++) uses |= tn_weight_uses(runner->shapes[s].graph, value, device);
  return uses;
}

/* The largest buffer for weights: what can be mapped from a file is one. */
static uint64_t largest_piece(const runner_device *on) {
  return tn_device_can_map(on->opened) ? UINT64_MAX : on->opened->properties.max_allocation;
}

/* Asks the device how it lays out each weight it reads, and gives each its place: in one buffer, or where they are more
 * than the device gives at once in several, each of which begins with a weight at offset 0. */
static tn_status lay_out_weights(tn_runner *runner, uint32_t device, tn_error *error) {
  const tn_graph *graph = runner->shapes[0].graph;
  const uint64_t most = largest_piece(runner->devices + device);
  uint64_t total = 0, begin = 0; /* of the piece */
  for (tn_ref value = 0; value < graph->value_count; value++) {
    const tn_graph_value *from = graph->values + value;
    uint32_t uses = uses_of(runner, value, device);
    if (!uses) continue;
    tn_weight_binding *weight = weight_of(runner, device, value);
    weight->desc =
        (tn_weight_desc){.size = sizeof weight->desc, .dtype = from->dtype, .rank = from->rank, .uses = uses};
    for (uint32_t d = 0; d < from->rank; d++) weight->desc.dims[d] = (uint64_t)from->dims[d];
    weight->layout.size = sizeof weight->layout;
    tn_status status = tn_device_weight_layout(opened_of(runner, device), &weight->desc, &weight->layout, error);
    if (status != TN_OK) {
      tn_error_prefix(error, "weight %s", from->name);
      return status;
    }
    uint64_t alignment = weight->layout.alignment ? weight->layout.alignment : 1;
    total = (total + alignment - 1) / alignment * alignment;
    if (weight->layout.bytes > UINT64_MAX / 2 - total)
      return tn_fail(error, TN_E_LIMIT, "weight %s: too large", from->name);
    if (total + weight->layout.bytes - begin > most) begin = total;
    weight->memory = (tn_binding){NULL, total - begin, weight->layout.bytes};
    total += weight->layout.bytes;
  }
  runner->devices[device].weight_bytes = total;
  return TN_OK;
}

/* ---- the stored form ---- */

/* What the stored form is called: by the model and by what is stored of it, so that a model that has changed replaces
 * its own. NULL when memory is out, or where there is no cache folder. */
static char *stored_path(const tn_runner *runner, const tn_buf *table) {
  char folder[4096];
  const char *wanted = runner->options.packed, *model = tn_model_container(runner->model)->path;
  bool has_folder = strcmp(wanted, "auto") ? snprintf(folder, sizeof folder, "%s", wanted) < (int)sizeof folder
                                           : tn_cache_folder(folder, sizeof folder - 8) && strcat(folder, "/packed");
  if (!has_folder) return NULL;
  char *absolute = tn_path_absolute(model);
  uint64_t name = tn_hash_bytes(absolute ? absolute : model, strlen(absolute ? absolute : model), 0);
  free(absolute);
  name = tn_hash_bytes(table->data, table->size, name);
  size_t length = strlen(model);
  while (length > 1 && model[length - 1] == '/') length--;
  size_t begin = length;
  while (begin > 0 && model[begin - 1] != '/') begin--;
  tn_buf path;
  tn_buf_init(&path);
  tn_buf_printf(&path, "%s/%.*s-%016llx.packed", folder, (int)(length - begin < 100 ? length - begin : 100),
                model + begin, (unsigned long long)name);
  return tn_buf_take(&path);
}

/* The lines of one source: where its values come from and how they are picked. */
static void describe_source(const tn_container *files, const tn_weight_source *s, tn_buf *key) {
  size_t file;
  uint64_t offset, map = s->row_map ? tn_hash_bytes(s->row_map, s->row_count * sizeof *s->row_map, 1) : 0;
  bool is_stored = tn_container_place(files, s->data, &file, &offset);
  if (!is_stored) {
    file = SIZE_MAX;
    offset = tn_hash_bytes(s->data, s->rows * tn_row_bytes(s->dtype, s->cols), 2);
  }
  tn_buf_printf(key, " %lld:%llx %u %llu,%llu %llu+%llu %llu+%llu %llx %u %a %llu\n",
                is_stored ? (long long)file : -1LL, (unsigned long long)offset, s->dtype, (unsigned long long)s->rows,
                (unsigned long long)s->cols, (unsigned long long)s->row_begin, (unsigned long long)s->row_count,
                (unsigned long long)s->col_begin, (unsigned long long)s->col_count, (unsigned long long)map,
                s->transposed, (double)s->add, (unsigned long long)s->into_row);
}

static void describe_weight(const tn_graph_value *value, const tn_weight_binding *weight, tn_buf *out) {
  const tn_weight_desc *desc = &weight->desc;
  tn_buf_printf(out, "%s %u [%llu,%llu,%llu] %x as %u at %llu+%llu\n", value->name, desc->dtype,
                (unsigned long long)desc->dims[0], (unsigned long long)desc->dims[1], (unsigned long long)desc->dims[2],
                desc->uses, weight->layout.id, (unsigned long long)weight->memory.offset,
                (unsigned long long)weight->memory.bytes);
}

/* Fills on->packed: the key, the pieces, the path. */
static tn_status describe_packed(tn_runner *runner, uint32_t device, tn_error *error) {
  const tn_graph *graph = runner->shapes[0].graph;
  const tn_container *files = tn_model_container(runner->model);
  runner_device *on = runner->devices + device;
  tn_packed *packed = &on->packed;
  tn_property version;
  tn_status status = tn_device_get(on->opened, "weights_version", &version, error);
  if (status != TN_OK) return status;
  tn_packed_init(packed);
  packed->data_bytes = on->weight_bytes;
  tn_buf_printf(&packed->key, "tenon %s, driver %s, weights version %llu\n", tn_version(), on->opened->driver->name,
                (unsigned long long)version.u64);
  tn_container_stamp(files, &packed->key);
  tn_buf table;
  tn_buf_init(&table);
  bool complete = true;
  for (tn_ref value = 0; value < graph->value_count && complete; value++) {
    const tn_weight_binding *weight = weight_of(runner, device, value);
    const tn_graph_value *from = graph->values + value;
    if (!weight->desc.uses) continue;
    describe_weight(from, weight, &table);
    describe_weight(from, weight, &packed->key);
    for (uint32_t s = 0; s < from->source_count; s++) describe_source(files, from->sources + s, &packed->key);
    complete = tn_packed_add(packed, weight->memory.offset, weight->memory.bytes);
  }
  packed->path = stored_path(runner, &table);
  complete = complete && !packed->key.failed && !table.failed && packed->path;
  tn_buf_finish(&table);
  return complete ? TN_OK : tn_fail(error, TN_E_MEMORY, "no memory, or no cache folder, for the packed form");
}

/* The weights from the stored form, if there is one that is theirs. */
static void open_stored(runner_device *on) {
  uint64_t data_at, *hashes;
  char reason[400];
  tn_error error = {0};
  if (!tn_packed_find(&on->packed, &data_at, &hashes, reason, sizeof reason)) {
    tn_log(TN_LOG_INFO, "no packed weights to take: %s", reason);
    return;
  }
  if (tn_device_map(on->opened, on->packed.path, data_at, on->weight_bytes, &on->weights, &error) != TN_OK) {
    tn_log(TN_LOG_INFO, "no packed weights to take: %s", error.message);
  } else if (!tn_packed_verify(&on->packed, tn_device_host_pointer(on->opened, on->weights), hashes)) {
    tn_log(TN_LOG_WARN, "%s: is altered; the weights are packed anew", on->packed.path);
    tn_device_free(on->opened, on->weights);
    on->weights = NULL;
  } else {
    tn_log(TN_LOG_INFO, "packed weights taken from %s", on->packed.path);
    on->filled = true;
    tn_packed_finish(&on->packed);
  }
  free(hashes);
}

static bool is_auto(const tn_runner *runner) {
  return runner->options.packed && !strcmp(runner->options.packed, "auto");
}

/* Is the packed form of this device's weights to be stored? */
static bool wants_stored(const tn_runner *runner, const runner_device *on) {
  const char *packed = runner->options.packed;
  if (!packed || !strcmp(packed, "off")) return false;
  return tn_device_can_map(on->opened) && (on->weight_bytes >= AUTO_BYTES || !is_auto(runner));
}

/* ---- packing ---- */

static tn_status pack_weight(tn_runner *runner, uint32_t device, tn_ref value, tn_buffer *to, uint64_t offset,
                             tn_error *error) {
  const tn_graph_value *from = runner->shapes[0].graph->values + value;
  const runner_device *on = runner->devices + device;
  const tn_weight_binding *weight = weight_of(runner, device, value);
  tn_weight_source converted;
  uint8_t *memory = NULL;
  bool converts = tn_convert_needed(from);
  tn_status status = tn_model_check_weight(runner->model, from, error);
  if (status == TN_OK && converts) status = tn_model_convert(runner->model, from, &memory, &converted, error);
  if (status != TN_OK) return status;
  status = tn_device_weight_pack(on->opened, on->queue, &weight->desc, &weight->layout,
                                 converts ? &converted : from->sources, converts ? 1 : from->source_count, to, offset,
                                 error);
  free(memory);
  if (status != TN_OK) tn_error_prefix(error, "weight %s", from->name);
  for (uint32_t s = 0; s < from->source_count; s++) tn_model_release(runner->model, from->sources[s].data);
  return status;
}

static tn_status pack_weights(tn_runner *runner, uint32_t device, tn_error *error) {
  const runner_device *on = runner->devices + device;
  tn_status status = TN_OK;
  for (tn_ref value = 0; value < runner->shapes[0].graph->value_count && status == TN_OK; value++) {
    const tn_weight_binding *weight = weight_of(runner, device, value);
    tn_buffer *to = on->weights ? on->weights : weight->memory.buffer;
    if (weight->desc.uses) status = pack_weight(runner, device, value, to, weight->memory.offset, error);
  }
  return status == TN_OK ? tn_device_synchronize(on->opened, on->queue, UINT64_MAX, error) : status;
}

/* Packs one weight after the other into a buffer that holds the largest, and writes it to the file. */
static tn_status stream_weights(tn_runner *runner, uint32_t device, tn_packed_writer *writer, tn_error *error) {
  const runner_device *on = runner->devices + device;
  size_t count = runner->shapes[0].graph->value_count;
  uint64_t largest = 0;
  for (tn_ref value = 0; value < count; value++)
    if (weight_of(runner, device, value)->memory.bytes > largest)
      largest = weight_of(runner, device, value)->memory.bytes;
  tn_buffer *buffer;
  tn_status status = tn_device_alloc(on->opened, largest, &buffer, error);
  const uint8_t *packed = status == TN_OK ? tn_device_host_pointer(on->opened, buffer) : NULL;
  for (tn_ref value = 0; value < count && status == TN_OK; value++) {
    const tn_weight_binding *weight = weight_of(runner, device, value);
    if (!weight->desc.uses) continue;
    status = pack_weight(runner, device, value, buffer, 0, error);
    if (status == TN_OK) status = tn_device_synchronize(on->opened, on->queue, UINT64_MAX, error);
    if (status == TN_OK) status = tn_packed_writer_append(writer, packed, weight->memory.bytes, error);
  }
  tn_device_free(on->opened, buffer);
  return status;
}

/* Stores the packed form, and takes the weights from there. */
static tn_status store_and_open(tn_runner *runner, uint32_t device, tn_error *error) {
  runner_device *on = runner->devices + device;
  tn_packed_writer writer;
  tn_status status = tn_packed_writer_open(&writer, &on->packed, error);
  bool open = status == TN_OK;
  if (open) status = stream_weights(runner, device, &writer, error);
  if (open && status != TN_OK) tn_packed_writer_discard(&writer);
  if (status == TN_OK) status = tn_packed_writer_commit(&writer, error);
  if (status == TN_OK) open_stored(on);
  if (status == TN_OK && !on->weights)
    status = tn_fail(error, TN_E_IO, "%s: was written and can't be taken", on->packed.path);
  return status;
}

/* The weights by way of the disk; where that fails, and nobody asked for it, empty memory. */
static tn_status fill_from_disk(tn_runner *runner, uint32_t device, tn_error *error) {
  runner_device *on = runner->devices + device;
  tn_error why = {0}, no_memory = {0};
  tn_status status = store_and_open(runner, device, &why);
  if (status == TN_OK) return TN_OK;
  *error = why;
  tn_packed_finish(&on->packed);
  if (!is_auto(runner)) return status;
  status = tn_device_alloc(on->opened, on->weight_bytes, &on->weights, &no_memory);
  if (status == TN_OK) return TN_OK;
  return tn_fail(error, status, "memory for the weights: %s; and their packed form can't be stored: %s",
                 no_memory.message, why.message);
}

/* Bytes of the piece that begins with `value`. */
static uint64_t piece_bytes(const tn_runner *runner, uint32_t device, tn_ref value) {
  uint64_t bytes = 0;
  for (tn_ref first = value; value < runner->shapes[0].graph->value_count; value++) {
    const tn_weight_binding *weight = weight_of(runner, device, value);
    if (weight->desc.uses && value != first && !weight->memory.offset) break;
    if (weight->desc.uses) bytes = weight->memory.offset + weight->memory.bytes;
  }
  return bytes;
}

/* Memory for weights that are more than the device gives at once. */
static tn_status take_pieces(tn_runner *runner, uint32_t device, tn_error *error) {
  runner_device *on = runner->devices + device;
  for (tn_ref value = 0; value < runner->shapes[0].graph->value_count; value++) {
    tn_weight_binding *weight = weight_of(runner, device, value);
    if (!weight->desc.uses) continue;
    if (!weight->memory.offset) {
      tn_buffer **piece = TN_PUSH(on->pieces, on->piece_count, on->piece_capacity);
      if (!piece) return tn_fail(error, TN_E_MEMORY, "out of memory");
      tn_status status = tn_device_alloc(on->opened, piece_bytes(runner, device, value), piece, error);
      if (status != TN_OK) return status;
    }
    weight->memory.buffer = on->pieces[on->piece_count - 1];
  }
  return TN_OK;
}

/* Memory for the weights: filled from the stored form, by way of the disk where they are to go there first, or empty.
 */
static tn_status take_weight_memory(tn_runner *runner, uint32_t device, tn_error *error) {
  runner_device *on = runner->devices + device;
  tn_error why = {0};
  if (!on->weight_bytes || runner->options.plan_only) return TN_OK;
  if (wants_stored(runner, on)) {
    tn_status status = describe_packed(runner, device, &why);
    if (status == TN_OK) {
      open_stored(on);
      if (on->weights) return TN_OK;
      if (!is_auto(runner) || tn_memory_is_tight(on->weight_bytes, tn_runner_free_memory(runner, device)))
        return fill_from_disk(runner, device, error);
    } else if (is_auto(runner)) {
      tn_packed_finish(&on->packed);
    } else {
      *error = why;
      return status;
    }
  }
  bool at_once = on->weight_bytes <= largest_piece(on);
  tn_status status =
      at_once ? tn_device_alloc(on->opened, on->weight_bytes, &on->weights, error) : take_pieces(runner, device, error);
  if (status != TN_OK) tn_error_prefix(error, "memory for the weights");
  return status;
}

tn_status tn_runner_place_weights(tn_runner *runner, tn_error *error) {
  tn_status status = check_weights(runner, error);
  for (uint32_t device = 0; device < runner->device_count && status == TN_OK; device++) {
    status = lay_out_weights(runner, device, error);
    if (status == TN_OK) status = take_weight_memory(runner, device, error);
  }
  return status;
}

tn_status tn_runner_fill_weights(tn_runner *runner, tn_error *error) {
  tn_status status = TN_OK;
  for (uint32_t device = 0; device < runner->device_count && status == TN_OK; device++) {
    runner_device *on = runner->devices + device;
    if (!on->weight_bytes) continue;
    if (!on->filled) status = pack_weights(runner, device, error);
    if (status == TN_OK && on->packed.path)
      on->store = tn_packed_store_start(&on->packed, tn_device_host_pointer(on->opened, on->weights));
    for (tn_ref value = 0; value < runner->shapes[0].graph->value_count && on->weights; value++)
      weight_of(runner, device, value)->memory.buffer = on->weights;
  }
  return status;
}
