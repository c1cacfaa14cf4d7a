/* moe_linear and head_linear: several matrices, each for some of the parts that rows are made of.
 *
 * A part is one row's share of one matrix: of moe_linear what a row sends to an expert it has chosen, of head_linear a
 * head of a row. Parts are sorted by matrix first. A task is one matrix and a run of its panels; it takes the parts
 * that go there a few at a time through the tiles of linear. So a part's result is what a linear of its row alone
 * would give. */
#include "kernels/internal.h"
#include "kernels/vector_math.h"

#define BAND_PARTS 4096u /* parts sorted at a time: rows are taken in bands of so many */

typedef struct group_job {
  const tn_kernel_call *call;
  const tn_moe_linear_attributes *moe; /* NULL: head_linear */
  uint32_t pass;                       /* of head_linear */
  const float *bias;                   /* of all matrices, NULL: none */
  tn_product product;
  uint32_t columns; /* of the output of one part */
  uint32_t parts_a_row;
  uint32_t units_a_task, runs; /* of tasks: each matrix is cut into so many */
  /* The parts of a band by matrix, those of matrix n from begins[n] to begins[n + 1], in order; matrices that have any.
   * They lie at the begin of the first worker's workspace. */
  uint32_t *begins, *parts, *used;
  uint32_t used_count;
} group_job;

/* A worker's workspace: the lists, a tile, the slab. */
typedef struct group_space {
  float tile[TN_MAX_TILE_PANELS * TN_MAX_TILE_ROWS * TN_LANES];
  float slab[];
} group_space;

static uint32_t band_parts(uint32_t parts_a_row) {
  return parts_a_row > BAND_PARTS ? parts_a_row : BAND_PARTS;
}

static uint64_t list_bytes(uint32_t matrices, uint32_t parts_a_row) {
  return ((2u * (uint64_t)matrices + 1u + band_parts(parts_a_row)) * sizeof(uint32_t) + 63u) / 64u * 64u;
}

uint64_t tn_groups_workspace(const tn_op_query *query) {
  const tn_value_desc *w = &query->inputs[1];
  uint32_t matrices = (uint32_t)w->dims[0];
  uint32_t parts_a_row = query->opcode == TN_OP_MOE_LINEAR ? (uint32_t)query->inputs[2].dims[1] : matrices;
  return list_bytes(matrices, parts_a_row) + sizeof(group_space) + tn_slab_bytes((uint64_t)w->dims[2]);
}

/* The matrix that part `index`, counted over all rows, goes to. */
static uint32_t matrix_of(const group_job *job, uint32_t index) {
  uint32_t row = index / job->parts_a_row, which = index % job->parts_a_row;
  return job->moe ? ((const uint32_t *)(const void *)tn_row_at(&job->call->inputs[2], row))[which] : which;
}

/* What part `index` is made of, and where its result goes. */
static tn_activations input_of(const group_job *job, uint32_t index) {
  uint32_t row = index / job->parts_a_row, which = index % job->parts_a_row, columns = job->product.matrix.columns;
  uint32_t column = !job->moe ? which * (columns + job->pass) : job->moe->each ? which * columns : 0;
  return tn_activations_at(&job->call->inputs[0], row, column);
}
static float *output_of(const group_job *job, uint32_t index) {
  uint32_t row = index / job->parts_a_row, which = index % job->parts_a_row;
  return tn_floats(&job->call->outputs[0], row) + (uint64_t)which * (job->columns + job->pass) + job->pass;
}

/* gate and value to y, as moe_linear's attributes say. */
TN_INLINE vf gated(const tn_moe_linear_attributes *a, vf gate, vf value) {
  if (!(a->limit > 0.0f)) return vf_mul(tn_activated(gate, a->activation), value);
  const vf limit = vf_set1(a->limit), one = vf_set1(1.0f);
  vf g = vf_min(limit, gate), v = vf_max(vf_set1(-a->limit), vf_min(limit, value));
  return vf_mul(vf_div(g, vf_add(one, tn_exps(vf_mul(vf_set1(-a->alpha), g)))), vf_add(v, one));
}

/* Stores one tile (of a gated matrix: gate, and behind it value) of matrix `number`, columns from `column` on. */
static void finish(const group_job *job, uint32_t number, const float *tile, float *const *outputs, uint32_t count,
                   uint32_t column) {
  const tn_matrix *matrix = &job->product.matrix;
  uint32_t left = job->columns - column;
  const float *bias = job->bias ? job->bias + (uint64_t)number * matrix->rows : NULL;
  for (uint32_t i = 0; i < count; i++) {
    vf y = vf_load(tile + i * TN_LANES);
    if (bias) y = vf_add(y, tn_load_some(bias + column, left));
    if (matrix->gated) {
      vf value = vf_load(tile + (count + i) * TN_LANES);
      if (bias) value = vf_add(value, tn_load_some(bias + job->columns + column, left));
      y = gated(job->moe, y, value);
    } else if (job->moe) {
      y = tn_activated(y, job->moe->activation);
    }
    tn_store_some(outputs[i] + column, left, y);
  }
}

/* What head_linear passes on of some parts. */
static void pass_on(const group_job *job, const uint32_t *parts, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const float *from = (const float *)(const void *)input_of(job, parts[i]).values + job->product.matrix.columns;
    float *to = output_of(job, parts[i]) - job->pass;
    for (uint32_t k = 0; k < job->pass; k++) to[k] = from[k];
  }
}

/* Units [begin, end) of matrix `number` for a few parts. */
static void run_parts(const group_job *job, group_space *space, uint32_t number, uint32_t begin, uint32_t end,
                      const uint32_t *parts, uint32_t count) {
  const tn_product *product = &job->product;
  const tn_matrix *m = &product->matrix;
  const uint8_t *weights = (const uint8_t *)job->call->inputs[1].data + (uint64_t)number * m->panels * m->panel_bytes;
  uint32_t step = product->step;
  tn_activations x[TN_MAX_TILE_ROWS];
  float *outputs[TN_MAX_TILE_ROWS];
  for (uint32_t i = 0; i < count; i++) {
    x[i] = input_of(job, parts[i]);
    outputs[i] = output_of(job, parts[i]);
  }
  tn_product_slab(product, space->slab, x, count);
  for (uint32_t panel = begin * step; panel < end * step;) {
    uint32_t left = end * step - panel, panels = left < product->panels ? left : product->panels;
    tn_product_tile(product, weights + panel * m->panel_bytes, panels, space->slab, count, space->tile);
    for (uint32_t p = 0; p < panels; p += step)
      finish(job, number, space->tile + p * count * TN_LANES, outputs, count, (panel + p) / step * TN_LANES);
    panel += panels;
  }
}

static void run_task(void *argument, uint32_t index, uint32_t worker) {
  const group_job *job = (const group_job *)argument;
  const tn_product *product = &job->product;
  uint8_t *bytes = (uint8_t *)job->call->workspace + worker * job->call->workspace_bytes;
  uint64_t lists = list_bytes(job->call->inputs[1].dims[0], job->parts_a_row);
  group_space *space = (group_space *)(void *)(bytes + lists);
  uint32_t number = job->used[index / job->runs], begin = index % job->runs * job->units_a_task;
  uint32_t end = begin + job->units_a_task < product->units ? begin + job->units_a_task : product->units;
  const uint32_t *parts = job->parts + job->begins[number];
  uint32_t count = job->begins[number + 1] - job->begins[number];
  if (job->pass && begin == 0) pass_on(job, parts, count);
  while (count) {
    uint32_t groups = (count + product->rows - 1) / product->rows, taken = (count + groups - 1) / groups;
    run_parts(job, space, number, begin, end, parts, taken);
    parts += taken;
    count -= taken;
  }
}

/* Sorts parts [first, end) by matrix; gives how many the largest list has. */
static uint32_t sort_parts(group_job *job, uint32_t first, uint32_t end) {
  uint32_t matrices = job->call->inputs[1].dims[0], largest = 0;
  for (uint32_t n = 0; n <= matrices; n++) job->begins[n] = 0;
  for (uint32_t i = first; i < end; i++) job->begins[matrix_of(job, i)]++;
  job->used_count = 0;
  for (uint32_t n = 0, total = 0; n <= matrices; n++) {
    uint32_t count = job->begins[n];
    if (count) job->used[job->used_count++] = n;
    if (count > largest) largest = count;
    job->begins[n] = total += count; /* its end, from which it is filled down to its begin */
  }
  for (uint32_t i = end; i > first; i--) job->parts[--job->begins[matrix_of(job, i - 1)]] = i - 1;
  return largest;
}

/* Parts [first, end), whole rows. */
static void run_band(group_job *job, uint32_t first, uint32_t end) {
  const tn_product *product = &job->product;
  uint32_t largest = sort_parts(job, first, end), units = product->units;
  uint32_t most = tn_units_a_task(product, (uint64_t)units * job->used_count, job->call->parallel->workers,
                                  largest > product->rows);
  job->runs = (units + most - 1) / most;
  job->units_a_task = (units + job->runs - 1) / job->runs;
  uint64_t work = (uint64_t)(end - first) * product->matrix.panels * product->matrix.columns;
  tn_share(job->call, run_task, job, job->used_count * job->runs, work);
}

static tn_status run(group_job *job) {
  const tn_tensor *x = &job->call->inputs[0], *w = &job->call->inputs[1];
  job->product = tn_product_of(x, w);
  job->columns = w->dims[1] / job->product.step;
  job->begins = (uint32_t *)job->call->workspace;
  job->used = job->begins + w->dims[0] + 1;
  job->parts = job->used + w->dims[0];
  uint32_t rows = tn_rows(x), band = band_parts(job->parts_a_row) / job->parts_a_row;
  for (uint32_t row = 0; row < rows; row += band) {
    uint32_t taken = rows - row < band ? rows - row : band;
    run_band(job, row * job->parts_a_row, (row + taken) * job->parts_a_row);
  }
  return TN_OK;
}

tn_status tn_moe_linear(const tn_kernel_call *call) {
  const tn_tensor *choice = &call->inputs[2], *bias = tn_input(call, 3);
  group_job job = {.call = call, .moe = (const tn_moe_linear_attributes *)call->attributes};
  job.parts_a_row = tn_columns(choice);
  if (bias) job.bias = (const float *)bias->data;
  for (uint32_t i = 0; i < tn_rows(choice) * job.parts_a_row; i++)
    if (matrix_of(&job, i) >= call->inputs[1].dims[0]) return TN_E_INVALID;
  return run(&job);
}

tn_status tn_head_linear(const tn_kernel_call *call) {
  group_job job = {.call = call, .parts_a_row = call->inputs[1].dims[0]};
  job.pass = ((const tn_head_linear_attributes *)call->attributes)->pass;
  return run(&job);
}
