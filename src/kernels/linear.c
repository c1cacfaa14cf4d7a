/* The linear op: cutting the work, and what happens to a tile before it is stored.
 *
 * A task is a group of activation rows against a run of panels. Each worker rearranges the rows of its task into its
 * workspace (the slab), once for as many tasks in a row as share the group. K is never split, and every tile kernel
 * adds in the same order, so how the work is cut changes no bit. */
#include "kernels/internal.h"
#include "kernels/vector_math.h"

typedef struct linear_job {
  const tn_kernel_call *call;
  tn_product product;
  tn_epilogue epilogue;
  uint32_t row_count; /* M */
  uint32_t groups;    /* of as many rows as a tile takes */
  uint32_t units_a_task;
} linear_job;

/* A worker's workspace: which group's slab it holds, then a tile, then the slab. */
typedef struct linear_space {
  uint32_t group;
  uint32_t reserved[15];
  float tile[TN_MAX_TILE_PANELS * TN_MAX_TILE_ROWS * TN_LANES];
} linear_space;
#define NO_GROUP 0xffffffffu

uint64_t tn_linear_workspace(const tn_op_query *query) {
  uint32_t rank = query->inputs[0].rank;
  return sizeof(linear_space) + tn_slab_bytes((uint64_t)(rank ? query->inputs[0].dims[rank - 1] : 0));
}

TN_INLINE vf load_columns(const float *from, uint32_t count) {
  return count == TN_LANES ? vf_load(from) : vf_load_part(from, count);
}

/* Stores `count` columns from `column` on of one row, cut where one output ends and the next begins. */
static void store_columns(const tn_epilogue *e, uint32_t row, uint32_t column, uint32_t count, vf values) {
  for (uint32_t o = 0; o < e->output_count; o++) {
    uint32_t begin = e->outputs[o].begin, end = e->outputs[o].end;
    if (column >= end || column + count <= begin) continue;
    float *to = (float *)(void *)(e->outputs[o].data + row * e->outputs[o].row_bytes);
    if (column >= begin && column + count <= end) {
      if (count == TN_LANES)
        vf_store(to + (column - begin), values);
      else
        vf_store_part(to + (column - begin), count, values);
      return;
    }
    float lanes[TN_LANES];
    vf_store(lanes, values);
    for (uint32_t i = 0; i < count; i++)
      if (column + i >= begin && column + i < end) to[column + i - begin] = lanes[i];
  }
}

/* A tile that is stored as it is, all of its columns in one output; false: it isn't. */
static bool copy_tile(const tn_epilogue *e, const float *tile, uint32_t first_row, uint32_t rows, uint32_t column) {
  if (e->bias || e->activation != TN_ACTIVATION_NONE || e->gated || e->scale != 1.0f || e->residual) return false;
  for (uint32_t o = 0; o < e->output_count; o++) {
    if (column < e->outputs[o].begin || column + TN_LANES > e->outputs[o].end) continue;
    uint8_t *to =
        e->outputs[o].data + first_row * e->outputs[o].row_bytes + (column - e->outputs[o].begin) * sizeof(float);
    for (uint32_t r = 0; r < rows; r++, to += e->outputs[o].row_bytes)
      vf_copy((float *)(void *)to, tile + r * TN_LANES);
    return true;
  }
  return false;
}

void tn_finish_tile(const tn_epilogue *e, const float *tile, const float *gated_value, uint32_t first_row,
                    uint32_t rows, uint32_t column) {
  uint32_t count = e->columns - column < TN_LANES ? e->columns - column : TN_LANES;
  if (copy_tile(e, tile, first_row, rows, column)) return;
  for (uint32_t r = 0; r < rows; r++) {
    vf y = vf_load((const float *)__builtin_assume_aligned(tile + r * TN_LANES, 64));
    if (e->bias) y = vf_add(y, load_columns(e->bias + column, count));
    if (e->activation != TN_ACTIVATION_NONE) y = tn_activated(y, e->activation);
    if (e->gated) {
      vf value = vf_load(gated_value + r * TN_LANES);
      if (e->bias) value = vf_add(value, load_columns(e->bias + e->columns + column, count));
      y = vf_mul(y, value);
    }
    if (e->scale != 1.0f) y = vf_mul(y, vf_set1(e->scale));
    if (e->residual) {
      const float *residual = (const float *)(const void *)(e->residual + (first_row + r) * e->residual_bytes);
      y = vf_add(y, load_columns(residual + column, count));
    }
    store_columns(e, first_row + r, column, count, y);
  }
}

/* Units [begin, end) for one group of rows, as many panels at once as the tile takes. */
static void run_units(const linear_job *job, linear_space *space, void *slab, uint32_t first_row, uint32_t rows,
                      uint32_t begin, uint32_t end) {
  const tn_product *product = &job->product;
  const uint8_t *weights = (const uint8_t *)job->call->inputs[1].data;
  uint32_t step = product->step;
  for (uint32_t panel = begin * step; panel < end * step;) {
    uint32_t left = end * step - panel, panels = left < product->panels ? left : product->panels;
    tn_product_tile(product, weights + panel * product->matrix.panel_bytes, panels, slab, rows, space->tile);
    for (uint32_t p = 0; p < panels; p += step) {
      const float *tile = space->tile + p * rows * TN_LANES;
      tn_finish_tile(&job->epilogue, tile, tile + rows * TN_LANES, first_row, rows, (panel + p) / step * TN_LANES);
    }
    panel += panels;
  }
}

static void run_task(void *argument, uint32_t index, uint32_t worker) {
  const linear_job *job = (const linear_job *)argument;
  const tn_product *product = &job->product;
  uint32_t group = index % job->groups, begin = index / job->groups * job->units_a_task;
  uint32_t end = begin + job->units_a_task < product->units ? begin + job->units_a_task : product->units;
  uint32_t first_row = group * product->rows, rows = job->row_count - first_row;
  if (rows > product->rows) rows = product->rows;
  uint8_t *bytes = (uint8_t *)job->call->workspace + worker * job->call->workspace_bytes;
  linear_space *space = (linear_space *)(void *)bytes;
  void *slab = bytes + sizeof *space;
  if (space->group != group) {
    tn_activations x[TN_MAX_TILE_ROWS];
    for (uint32_t r = 0; r < rows; r++) x[r] = tn_activations_at(&job->call->inputs[0], first_row + r, 0);
    tn_product_slab(product, slab, x, rows);
    space->group = group;
  }
  run_units(job, space, slab, first_row, rows, begin, end);
}

static void fill_epilogue(const tn_kernel_call *call, tn_epilogue *e) {
  const tn_linear_attributes *attributes = (const tn_linear_attributes *)call->attributes;
  const tn_tensor *bias = call->input_count > 2 ? &call->inputs[2] : NULL;
  const tn_tensor *residual = call->input_count > 3 ? &call->inputs[3] : NULL;
  *e = (tn_epilogue){.activation = attributes->activation, .gated = attributes->gated != 0, .scale = attributes->scale};
  if (bias) e->bias = (const float *)bias->data;
  if (residual && residual->data) {
    e->residual = (const uint8_t *)residual->data;
    e->residual_bytes = residual->row_bytes;
  }
  e->output_count = call->output_count;
  for (uint32_t o = 0; o < call->output_count; o++) {
    const tn_tensor *y = &call->outputs[o];
    e->outputs[o].data = (uint8_t *)y->data;
    e->outputs[o].row_bytes = y->row_bytes;
    e->outputs[o].begin = e->columns;
    e->columns += y->dims[y->rank - 1];
    e->outputs[o].end = e->columns;
  }
}

/* The work is cut so: few rows: the weights are read once, so tasks only need to be many enough. Many rows: a task's
 * weights stay in the cache while the groups of rows go by. */
tn_status tn_linear(const tn_kernel_call *call) {
  const tn_tensor *x = &call->inputs[0], *w = &call->inputs[1];
  linear_job job = {.call = call, .row_count = x->dims[0]};
  job.product = tn_product_of(x, w);
  fill_epilogue(call, &job.epilogue);
  const tn_matrix *matrix = &job.product.matrix;
  uint32_t workers = call->parallel->workers, units = job.product.units;
  if (!job.row_count || !units) return TN_OK;
  job.groups = (job.row_count + job.product.rows - 1) / job.product.rows;
  job.units_a_task = tn_units_a_task(&job.product, (uint64_t)units * job.groups, workers, job.groups > 1);
  for (uint32_t i = 0; i < workers; i++)
    *(uint32_t *)(void *)((uint8_t *)call->workspace + i * call->workspace_bytes) = NO_GROUP;
  uint32_t tasks = (units + job.units_a_task - 1) / job.units_a_task * job.groups;
  uint64_t work = matrix->panel_bytes * matrix->panels * job.groups;
  tn_share(call, run_task, &job, tasks, work);
  return TN_OK;
}
