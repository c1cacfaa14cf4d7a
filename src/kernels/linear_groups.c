/* moe_linear and head_linear: several matrices, each for some of the parts that rows are made of.
 *
 * A part is one row's share of one matrix: of moe_linear what a row sends to an expert it has chosen, of head_linear a
 * head of a row. A task is one matrix and a run of its panels; it looks for the parts that go there, a few at a time,
 * and takes them through the float tile like linear: one fma a column, in order. */
#include "kernels/internal.h"
#include "kernels/vector_math.h"

#define TASKS_A_MATRIX 2u
#define LEAST_UNITS 4u

typedef struct group_part {
  const float *x;
  float *y;
} group_part;

typedef struct group_job {
  const tn_kernel_call *call;
  const tn_moe_linear_attributes *moe; /* NULL: head_linear */
  uint32_t pass;                       /* of head_linear */
  const float *bias;                   /* of all matrices, NULL: none */
  tn_matrix matrix;
  uint32_t columns; /* of the output of one part */
  uint32_t parts;   /* of all rows, whatever matrix they go to */
  uint32_t parts_a_row;
  uint32_t units, units_a_task, step; /* as of linear: panels, or pairs of them */
} group_job;

typedef struct group_space {
  float tile[TN_MAX_TILE_PANELS * TN_MAX_TILE_ROWS * TN_LANES];
  float slab[];
} group_space;

uint64_t tn_groups_workspace(const tn_op_query *query) {
  return sizeof(group_space) + (uint64_t)query->inputs[1].dims[2] * TN_FLOAT_ROWS * sizeof(float);
}

/* Part `index` if it goes to matrix `number`. */
static bool part_of(const group_job *job, uint32_t number, uint32_t index, group_part *part) {
  uint32_t row = index / job->parts_a_row, which = index % job->parts_a_row, K = job->matrix.columns;
  const tn_tensor *x = &job->call->inputs[0], *y = &job->call->outputs[0];
  if (job->moe) {
    const int32_t *experts = (const int32_t *)(const void *)tn_row_at(&job->call->inputs[2], row);
    if ((uint32_t)experts[which] != number) return false;
    part->x = tn_floats(x, row) + (job->moe->each ? (uint64_t)which * K : 0);
    part->y = tn_floats(y, row) + (uint64_t)which * job->columns;
  } else {
    part->x = tn_floats(x, row) + (uint64_t)number * (K + job->pass);
    part->y = tn_floats(y, row) + (uint64_t)number * (job->columns + job->pass) + job->pass;
  }
  return true;
}

/* gate and value to y, as moe_linear's attributes say. */
TN_INLINE vf gated(const tn_moe_linear_attributes *a, vf gate, vf value) {
  if (!(a->limit > 0.0f)) return vf_mul(tn_activated(gate, a->activation), value);
  const vf limit = vf_set1(a->limit), one = vf_set1(1.0f);
  vf g = vf_min(limit, gate), v = vf_max(vf_set1(-a->limit), vf_min(limit, value));
  return vf_mul(vf_div(g, vf_add(one, tn_exps(vf_mul(vf_set1(-a->alpha), g)))), vf_add(v, one));
}

/* Stores one tile (of a gated matrix: gate, and behind it value) of matrix `number`, columns from `column` on. */
static void finish(const group_job *job, uint32_t number, const float *tile, const group_part *parts, uint32_t count,
                   uint32_t column) {
  uint32_t left = job->columns - column;
  const float *bias = job->bias ? job->bias + (uint64_t)number * job->matrix.rows : NULL;
  for (uint32_t i = 0; i < count; i++) {
    vf y = vf_load(tile + i * TN_LANES);
    if (bias) y = vf_add(y, tn_load_some(bias + column, left));
    if (job->matrix.gated) {
      vf value = vf_load(tile + (count + i) * TN_LANES);
      if (bias) value = vf_add(value, tn_load_some(bias + job->columns + column, left));
      y = gated(job->moe, y, value);
    } else if (job->moe) {
      y = tn_activated(y, job->moe->activation);
    }
    tn_store_some(parts[i].y + column, left, y);
  }
}

static void run_parts(const group_job *job, group_space *space, uint32_t number, uint32_t begin, uint32_t end,
                      const group_part *parts, uint32_t count) {
  const tn_matrix *m = &job->matrix;
  const uint8_t *weights = (const uint8_t *)job->call->inputs[1].data + (uint64_t)number * m->panels * m->panel_bytes;
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; k < m->columns; k++) space->slab[(uint64_t)k * count + i] = parts[i].x[k];
  for (uint32_t panel = begin * job->step; panel < end * job->step;) {
    uint32_t left = end * job->step - panel, panels = left < TN_MAX_TILE_PANELS ? left : TN_MAX_TILE_PANELS;
    tn_tile_floats(m, weights + panel * m->panel_bytes, panels, space->slab, count, space->tile);
    for (uint32_t p = 0; p < panels; p += job->step)
      finish(job, number, space->tile + p * count * TN_LANES, parts, count, (panel + p) / job->step * TN_LANES);
    panel += panels;
  }
}

static void run_task(void *argument, uint32_t index, uint32_t worker) {
  const group_job *job = (const group_job *)argument;
  group_space *space = (group_space *)(void *)((uint8_t *)job->call->workspace + worker * job->call->workspace_bytes);
  uint32_t runs = (job->units + job->units_a_task - 1) / job->units_a_task, number = index / runs;
  uint32_t begin = index % runs * job->units_a_task, end = begin + job->units_a_task;
  group_part parts[TN_FLOAT_ROWS];
  uint32_t count = 0;
  if (end > job->units) end = job->units;
  for (uint32_t i = 0; i < job->parts; i++) {
    if (!part_of(job, number, i, &parts[count])) continue;
    if (job->pass && begin == 0)
      for (uint32_t k = 0; k < job->pass; k++)
        parts[count].y[(int64_t)k - job->pass] = parts[count].x[job->matrix.columns + k];
    if (++count < TN_FLOAT_ROWS) continue;
    run_parts(job, space, number, begin, end, parts, count);
    count = 0;
  }
  if (count) run_parts(job, space, number, begin, end, parts, count);
}

static tn_status run(group_job *job) {
  const tn_tensor *w = &job->call->inputs[1];
  job->matrix = tn_matrix_of(w->layout, w->dims[1], w->dims[2]);
  job->step = job->matrix.gated ? 2 : 1;
  job->columns = w->dims[1] / job->step;
  job->units = job->matrix.panels / job->step;
  job->units_a_task = (job->units + TASKS_A_MATRIX - 1) / TASKS_A_MATRIX;
  if (job->units_a_task < LEAST_UNITS) job->units_a_task = LEAST_UNITS;
  uint32_t runs = (job->units + job->units_a_task - 1) / job->units_a_task;
  tn_share(job->call, run_task, job, w->dims[0] * runs, (uint64_t)job->parts * job->matrix.panels * w->dims[2]);
  return TN_OK;
}

tn_status tn_moe_linear(const tn_kernel_call *call) {
  const tn_tensor *choice = &call->inputs[2], *bias = tn_input(call, 3);
  group_job job = {.call = call, .moe = (const tn_moe_linear_attributes *)call->attributes};
  job.parts_a_row = tn_columns(choice);
  job.parts = tn_rows(choice) * job.parts_a_row;
  if (bias) job.bias = (const float *)bias->data;
  for (uint32_t i = 0; i < job.parts; i++) {
    const int32_t *experts = (const int32_t *)(const void *)tn_row_at(choice, i / job.parts_a_row);
    if ((uint32_t)experts[i % job.parts_a_row] >= call->inputs[1].dims[0]) return TN_E_INVALID;
  }
  return run(&job);
}

tn_status tn_head_linear(const tn_kernel_call *call) {
  group_job job = {.call = call, .parts_a_row = 1, .parts = tn_rows(&call->inputs[0])};
  job.pass = ((const tn_head_linear_attributes *)call->attributes)->pass;
  return run(&job);
}
