/* attention: causal softmax attention over pages of keys and values.
 *
 * The positions a row sees are cut in tiles of 256, counted from position 0 of its sequence. A tile on its own gives
 *   m = max score, s = sum of exp(score - m), a[d] = sum of exp(score - m) v[d]     (positions in order)
 * and is merged into the running (M, S, A), tiles in order: with N = max(M, m),
 *   S = S exp(M - N) + s exp(m - N), A likewise, M = N
 * (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018). So a row's result depends on its own
 * positions alone. Positions that a row doesn't see are never touched for it, whatever lies in their slots.
 *
 * Over int8 pages all sums are of integers, and exact. A query becomes integers of 16 bits with one scale; a score is
 * their sum of products with the key's, times the key's scale and the query's. After the weights' sum was taken they
 * are multiplied by the scales of their values, and those of a page become integers of 16 bits with one scale; what a
 * page adds is their sum of products times that scale, pages in order.
 *
 * A task is some rows of one sequence times the query heads of one kv head: its queries share the loads of keys and
 * values. When a step has few rows and long sequences, tasks are cut further into tiles, and merged afterwards in the
 * same order. */
#include "kernels/attention_bytes.h"
#include "kernels/attention_tile.h"
#include "kernels/page.h"
#include "kernels/vector_math.h"

#define TILE TN_ATTENTION_TILE
#define TILE_PAGES (TILE / TN_PAGE_SLOTS)
#define TASK_QUERIES 48u /* of a task: as many rows as fit */
#define SPLIT_ROWS 2u    /* a step of at most so many rows may be cut into tiles */
#define SPLIT_TILES 3u   /* if there are at least so many */

typedef struct attention_job {
  const tn_kernel_call *call;
  const tn_attention_attributes *attributes;
  tn_page page;
  uint32_t ratio; /* query heads of a kv head */
  uint32_t rows_a_task;
  uint32_t tasks;          /* row runs of all sequences, times kv heads */
  uint32_t tiles;          /* of the longest sequence */
  uint64_t task_bytes;     /* of a worker's workspace: what a task needs; behind it are the partial results */
  uint64_t partial_floats; /* of one query of one tile: max, sum, value_stride sums */
} attention_job;

/* What one task is about. */
typedef struct attention_task {
  const tn_sequence *sequence;
  uint32_t first_row, rows, kv_head;
} attention_task;

/* Running result of one query, or the result of one tile. */
typedef struct partial {
  float max, sum;
} partial;

/* A worker's memory. */
typedef struct task_space {
  float *weights; /* [TN_QUERIES][TILE] */
  float *sums;    /* [TN_QUERIES][value_stride] */
  partial *running;
  float *totals; /* [TASK_QUERIES][value_stride] */
  /* int8 pages only: integers, and what they are, of the task's queries, and of the weights of a tile */
  uint8_t *wide_queries; /* [TASK_QUERIES][wide bytes of key_dim] */
  tn_wide *queries;      /* [TASK_QUERIES] */
  uint8_t *wide_weights; /* [TN_QUERIES][wide bytes of TILE] */
  tn_wide *page_weights; /* [TN_QUERIES][TILE_PAGES] */
} task_space;

static uint32_t most_queries(uint32_t ratio) {
  uint32_t rows = TASK_QUERIES / ratio ? TASK_QUERIES / ratio : 1;
  return rows * ratio;
}

static uint64_t task_bytes(uint32_t ratio, uint32_t key_dim, uint32_t value_stride) {
  uint64_t queries = most_queries(ratio);
  uint64_t floats = TN_QUERIES * TILE + (uint64_t)TN_QUERIES * value_stride + queries * 2 + queries * value_stride;
  uint64_t wide = queries * tn_wide_bytes(key_dim) + TN_QUERIES * tn_wide_bytes(TILE);
  uint64_t factors = (queries + TN_QUERIES * TILE_PAGES) * sizeof(tn_wide);
  return (floats * sizeof(float) + wide + factors + 64 * 8 + 63) / 64 * 64;
}

static uint64_t partial_floats(uint32_t value_stride) {
  return (uint64_t)value_stride + 16;
}

uint64_t tn_attention_workspace(const tn_op_query *query, uint32_t context, uint32_t workers) {
  const tn_attention_attributes *a = (const tn_attention_attributes *)query->attributes;
  uint32_t stride = (a->value_dim + 15) / 16 * 16, tiles = (context + TILE - 1) / TILE;
  uint64_t slots = (tiles + workers - 1) / workers;
  uint64_t partials = workers > 1 ? slots * SPLIT_ROWS * a->heads * partial_floats(stride) * sizeof(float) : 0;
  return task_bytes(a->heads / a->kv_heads, a->key_dim, stride) + partials;
}

static void *take(uint8_t **at, uint64_t bytes) {
  void *taken = *at;
  *at += (bytes + 63) / 64 * 64;
  return taken;
}

static task_space space_of(const attention_job *job, uint32_t worker) {
  uint8_t *at = (uint8_t *)job->call->workspace + worker * job->call->workspace_bytes;
  uint64_t queries = most_queries(job->ratio), stride = job->page.value_stride;
  task_space space;
  space.weights = (float *)take(&at, TN_QUERIES * TILE * sizeof(float));
  space.sums = (float *)take(&at, TN_QUERIES * stride * sizeof(float));
  space.running = (partial *)take(&at, queries * sizeof(partial));
  space.totals = (float *)take(&at, queries * stride * sizeof(float));
  space.wide_queries = (uint8_t *)take(&at, queries * tn_wide_bytes(job->page.key_dim));
  space.queries = (tn_wide *)take(&at, queries * sizeof(tn_wide));
  space.wide_weights = (uint8_t *)take(&at, TN_QUERIES * tn_wide_bytes(TILE));
  space.page_weights = (tn_wide *)take(&at, TN_QUERIES * TILE_PAGES * sizeof(tn_wide));
  return space;
}

/* Where the result of query `query` (counted over rows and heads) in tile `tile` is kept: max, sum, then from the 16th
 * float on the sums. */
static float *partial_of(const attention_job *job, uint32_t query, uint32_t tile) {
  uint32_t workers = job->call->parallel->workers;
  uint8_t *base = (uint8_t *)job->call->workspace + (tile % workers) * job->call->workspace_bytes + job->task_bytes;
  uint64_t at = (uint64_t)(tile / workers) * SPLIT_ROWS * job->attributes->heads + query;
  return (float *)(void *)base + at * job->partial_floats;
}

static attention_task find_task(const attention_job *job, uint32_t index) {
  const tn_batch *batch = job->call->batch;
  attention_task task = {.kv_head = index % job->attributes->kv_heads};
  uint32_t run = index / job->attributes->kv_heads;
  for (uint32_t s = 0; s < batch->sequence_count; s++) {
    const tn_sequence *sequence = &batch->sequences[s];
    uint32_t runs = (sequence->row_count + job->rows_a_task - 1) / job->rows_a_task;
    if (run < runs) {
      uint32_t begin = run * job->rows_a_task, left = sequence->row_count - begin;
      task.sequence = sequence;
      task.first_row = sequence->first_row + begin;
      task.rows = left < job->rows_a_task ? left : job->rows_a_task;
      break;
    }
    run -= runs;
  }
  return task;
}

/* The first position that a row sees, and the one behind its last. */
static void seen(const attention_job *job, const attention_task *task, uint32_t row, uint32_t *first, uint32_t *end) {
  uint32_t window = job->attributes->window;
  *end = task->sequence->kv_length + (row - task->sequence->first_row) + 1;
  *first = window && *end > window ? *end - window : 0;
}

static const float *query_at(const attention_job *job, const attention_task *task, uint32_t query) {
  uint32_t head = task->kv_head * job->ratio + query % job->ratio;
  return tn_floats(&job->call->inputs[0], task->first_row + query / job->ratio) + (uint64_t)head * job->page.key_dim;
}

/* The integers of all queries of a task over int8 pages. */
static void widen_queries(const attention_job *job, const attention_task *task, const task_space *space) {
  if (job->page.dtype != TN_I8) return;
  uint64_t bytes = tn_wide_bytes(job->page.key_dim);
  for (uint32_t i = 0; i < task->rows * job->ratio; i++)
    space->queries[i] = tn_wide_query(query_at(job, task, i), job->page.key_dim, space->wide_queries + i * bytes);
}

/* One group of queries in one tile. begin[i] .. end[i]: the positions, counted within the tile, that query i sees. */
typedef struct tile_run {
  uint32_t queries, first; /* first: of the task's queries */
  uint32_t begin[TN_QUERIES], end[TN_QUERIES];
  const float *q[TN_QUERIES];
  uint32_t first_page, end_page; /* that any query sees */
  const uint8_t *keys[TILE_PAGES], *values[TILE_PAGES];
  const float *key_scales[TILE_PAGES], *value_scales[TILE_PAGES]; /* int8 pages only */
  const uint8_t *ahead[2][TILE_PAGES]; /* what is asked for while keys, and while values, are read */
} tile_run;

/* The case of n queries at v vectors of sums each; what no target takes together is never reached. */
#define QUERIES(n) ((n) <= TN_QUERIES ? (n) : 1)
#define VECTORS(n, v) ((n) * (v) <= TN_QUERY_SUMS ? (v) : 1)
#define WIDE_VECTORS(n, v) ((n) * (v) <= TN_WIDE_SUMS ? (v) : 1)
#define EACH_CASE(of, v, dtype) \
  of(1, v, dtype) of(2, v, dtype) of(3, v, dtype) of(4, v, dtype) of(5, v, dtype) of(6, v, dtype)

static uint32_t vectors_at_once(uint32_t queries, uint32_t left, uint32_t sums) {
  return left >= 4 && queries * 4 <= sums ? 4 : left >= 2 && queries * 2 <= sums ? 2 : 1;
}

/* Pages p .. of the run, two at once where registers allow. */
#define SCORE_CASE(n, v, dtype)                                                                                \
  case (n)*8 + (v):                                                                                            \
    tn_score(QUERIES(n), VECTORS(n, v) == 4 ? 2 : 1, dtype, run->keys + p, run->ahead[0] + p, key_dim, run->q, \
             scores + p * TN_PAGE_SLOTS);                                                                      \
    break;
#define SCORE_FUNCTION(name, dtype)                                                                           \
  static void name(const tile_run *run, uint32_t key_dim, float *scores) {                                    \
    for (uint32_t p = run->first_page; p < run->end_page;) {                                                  \
      uint32_t vectors = vectors_at_once(run->queries, (run->end_page - p) * 2, TN_QUERY_SUMS);               \
      switch (run->queries * 8 + vectors) { EACH_CASE(SCORE_CASE, 2, dtype) EACH_CASE(SCORE_CASE, 4, dtype) } \
      p += vectors == 4 ? 2 : 1;                                                                              \
    }                                                                                                         \
  }
SCORE_FUNCTION(score_f32, TN_F32)
SCORE_FUNCTION(score_f16, TN_F16)
SCORE_FUNCTION(score_bf16, TN_BF16)

/* Vectors at .. of the run's int8 pages. */
#define SCORE_BYTES_CASE(n, v, dtype)                                                                              \
  case (n)*8 + (v):                                                                                                \
    tn_score_bytes(QUERIES(n), WIDE_VECTORS(n, v), run->keys + at / 2, run->ahead[0] + at / 2, at % 2, key_dim, q, \
                   wide, scores + at * TN_LANES);                                                                  \
    break;
static void score_bytes(const tile_run *run, const task_space *space, uint32_t key_dim, float *scores) {
  const tn_wide *wide = space->queries + run->first;
  const uint8_t *q[TN_QUERIES];
  for (uint32_t i = 0; i < run->queries; i++) q[i] = space->wide_queries + (run->first + i) * tn_wide_bytes(key_dim);
  for (uint32_t at = run->first_page * 2; at < run->end_page * 2;) {
    uint32_t vectors = vectors_at_once(run->queries, run->end_page * 2 - at, TN_WIDE_SUMS);
    switch (run->queries * 8 + vectors) {
      EACH_CASE(SCORE_BYTES_CASE, 1, TN_I8) EACH_CASE(SCORE_BYTES_CASE, 2, TN_I8) EACH_CASE(SCORE_BYTES_CASE, 4, TN_I8)
    }
    at += vectors;
  }
}

/* All vectors of the values' dimension, as many at once as registers allow. */
#define WEIGH_CASE(n, v, dtype)                                                                                      \
  case (n)*8 + (v):                                                                                                  \
    tn_weigh(QUERIES(n), VECTORS(n, v), dtype, values + at, ahead + at * TN_PAGE_SLOTS, stride, begin, end, weights, \
             sums + d, stride);                                                                                      \
    break;
#define WEIGH_FUNCTION(name, dtype)                                                                                \
  static void name(uint32_t queries, const uint8_t *values, const uint8_t *ahead, uint32_t stride, uint32_t begin, \
                   uint32_t end, const float *weights, float *sums) {                                              \
    for (uint32_t d = 0; d < stride;) {                                                                            \
      uint32_t vectors = vectors_at_once(queries, (stride - d) / TN_LANES, TN_QUERY_SUMS),                         \
               at = d * tn_element_bytes(dtype);                                                                   \
      switch (queries * 8 + vectors) {                                                                             \
        EACH_CASE(WEIGH_CASE, 1, dtype) EACH_CASE(WEIGH_CASE, 2, dtype) EACH_CASE(WEIGH_CASE, 4, dtype)            \
      }                                                                                                            \
      d += vectors * TN_LANES;                                                                                     \
    }                                                                                                              \
  }
WEIGH_FUNCTION(weigh_f32, TN_F32)
WEIGH_FUNCTION(weigh_f16, TN_F16)
WEIGH_FUNCTION(weigh_bf16, TN_BF16)

/* A page of int8 values, for all queries of the run. */
#define WEIGH_BYTES_CASE(n, v, dtype)                                                                            \
  case (n)*8 + (v):                                                                                              \
    tn_weigh_bytes(QUERIES(n), WIDE_VECTORS(n, v), run->values[p] + d * 4, run->ahead[1][p] + d * TN_PAGE_SLOTS, \
                   stride, weights, wide, space->sums + d);                                                      \
    break;
static void weigh_bytes(const tile_run *run, const task_space *space, uint32_t p, uint32_t stride) {
  const uint8_t *weights = space->wide_weights + tn_wide_bytes(p * TN_PAGE_SLOTS);
  const tn_wide *wide = space->page_weights + p;
  for (uint32_t d = 0; d < stride;) {
    uint32_t vectors = vectors_at_once(run->queries, (stride - d) / TN_LANES, TN_WIDE_SUMS);
    switch (run->queries * 8 + vectors) {
      EACH_CASE(WEIGH_BYTES_CASE, 1, TN_I8) EACH_CASE(WEIGH_BYTES_CASE, 2, TN_I8) EACH_CASE(WEIGH_BYTES_CASE, 4, TN_I8)
    }
    d += vectors * TN_LANES;
  }
}

/* Times the scales of the slots from `at` on, where the pages have any. */
TN_INLINE vf scaled(vf x, const float *const *scales, uint32_t at) {
  return scales ? vf_mul(x, vf_load(scales[at / TN_PAGE_SLOTS] + at % TN_PAGE_SLOTS)) : x;
}

/* A vector of the tile from `at` on, with `other` where query `query` sees nothing. */
TN_INLINE vf seen_only(const tile_run *run, uint32_t query, uint32_t at, vf x, vf other) {
  uint32_t begin = run->begin[query], end = run->end[query];
  if (at < begin) x = vf_select(vi_first(begin - at < TN_LANES ? begin - at : TN_LANES), other, x);
  if (at + TN_LANES > end) x = vf_select(vi_first(at < end ? end - at : 0), x, other);
  return x;
}

/* Vectors of scores, from `at` on, become weights, which are added to *sum. */
TN_INLINE void weigh_scores(const int vectors, float *scores, uint32_t at, const vf max, vf *sum) {
  vf weight[4];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++) weight[v] = vf_sub(vf_load(scores + at + v * 16), max);
  tn_exps_of(vectors, weight);
#pragma GCC unroll 4
  for (int v = 0; v < vectors; v++) {
    *sum = vf_add(*sum, weight[v]);
    vf_store(scores + at + v * 16, weight[v]);
  }
}

/* The scores of what query `query` of the run sees, in units of `unit`, become weights relative to their maximum; the
 * rest of their vectors is of no use. */
static partial soften(const attention_job *job, const tile_run *run, uint32_t query, float unit, float *scores) {
  const tn_attention_attributes *a = job->attributes;
  const float *const *key_scales = job->page.dtype == TN_I8 ? run->key_scales : NULL;
  const vf scale = vf_set1(a->scale * unit), cap = vf_set1(a->softcap), least = vf_set1(-TN_INFINITY);
  uint32_t end = run->end[query], first = run->begin[query] / TN_LANES * TN_LANES;
  vf largest = least;
  for (uint32_t i = first; i < end; i += TN_LANES) {
    vf score = vf_mul(scaled(vf_load(scores + i), key_scales, i), scale);
    if (a->softcap > 0.0f) score = vf_mul(cap, tn_tanhs(vf_div(score, cap)));
    score = seen_only(run, query, i, score, least);
    largest = vf_max(score, largest);
    vf_store(scores + i, score);
  }
  partial result = {.max = vf_largest(largest)};
  const vf max = vf_set1(result.max);
  vf sum = vf_zero();
  uint32_t i = first;
  for (; i + 3 * TN_LANES < end; i += 4 * TN_LANES) weigh_scores(4, scores, i, max, &sum);
  for (; i < end; i += TN_LANES) weigh_scores(1, scores, i, max, &sum);
  result.sum = vf_sum(sum);
  return result;
}

/* The integers of one query's weights, times the scales of their values, page by page; what it doesn't see weighs
 * nothing. */
static void widen_weights(const tile_run *run, uint32_t query, const task_space *space) {
  const float *weights = space->weights + query * TILE;
  uint8_t *to = space->wide_weights + query * tn_wide_bytes(TILE);
  for (uint32_t p = run->first_page; p < run->end_page; p++) {
    tn_wide *wide = &space->page_weights[query * TILE_PAGES + p];
    uint32_t at = p * TN_PAGE_SLOTS;
    *wide = (tn_wide){0.0f, 0};
    if (at + TN_PAGE_SLOTS <= run->begin[query] || at >= run->end[query]) continue;
    vf both[2];
    for (uint32_t v = 0; v < 2; v++, at += TN_LANES)
      both[v] = seen_only(run, query, at, scaled(vf_load(weights + at), run->value_scales, at), vf_zero());
    *wide = tn_wide_weights(both[0], both[1], to + tn_wide_bytes(p * TN_PAGE_SLOTS));
  }
}

static void score_tile(const attention_job *job, const tile_run *run, const task_space *space) {
  float *scores = space->weights;
  switch (job->page.dtype) {
    case TN_F16: score_f16(run, job->page.key_dim, scores); break;
    case TN_BF16: score_bf16(run, job->page.key_dim, scores); break;
    case TN_I8: score_bytes(run, space, job->page.key_dim, scores); break;
    default: score_f32(run, job->page.key_dim, scores); break;
  }
}

/* Adds positions [begin, end) of the tile for `queries` queries from `first` on. */
static void weigh_range(const attention_job *job, const tile_run *run, uint32_t first, uint32_t queries, uint32_t begin,
                        uint32_t end, const float *weights, float *sums) {
  uint32_t stride = job->page.value_stride;
  sums += first * stride;
  while (begin < end) {
    uint32_t p = begin / TN_PAGE_SLOTS, page_end = (p + 1) * TN_PAGE_SLOTS, stop = end < page_end ? end : page_end;
    uint32_t from = begin - p * TN_PAGE_SLOTS, to = stop - p * TN_PAGE_SLOTS;
    const float *w = weights + first * TILE + p * TN_PAGE_SLOTS;
    if (job->page.dtype == TN_F16)
      weigh_f16(queries, run->values[p], run->ahead[1][p], stride, from, to, w, sums);
    else if (job->page.dtype == TN_BF16)
      weigh_bf16(queries, run->values[p], run->ahead[1][p], stride, from, to, w, sums);
    else
      weigh_f32(queries, run->values[p], run->ahead[1][p], stride, from, to, w, sums);
    begin = stop;
  }
}

/* The weighted sums of values: first what only some queries see at the front, then what all see together, then what
 * only some see at the back; for each query that is its own positions in order. */
static void weigh_tile(const attention_job *job, const tile_run *run, const float *weights, float *sums) {
  uint32_t begin = 0, end = TILE;
  for (uint32_t i = 0; i < run->queries; i++) {
    if (run->begin[i] > begin) begin = run->begin[i];
    if (run->end[i] < end) end = run->end[i];
  }
  bool together = begin < end;
  for (uint32_t i = 0; i < run->queries; i++)
    weigh_range(job, run, i, 1, run->begin[i], together ? begin : run->end[i], weights, sums);
  if (!together) return;
  weigh_range(job, run, 0, run->queries, begin, end, weights, sums);
  for (uint32_t i = 0; i < run->queries; i++) weigh_range(job, run, i, 1, end, run->end[i], weights, sums);
}

/* totals = totals keep + sums add, and so for the sum of weights. */
static void merge_sums(partial *total, float *totals, float keep, float sum, const float *sums, float add,
                       uint32_t count) {
  const vf kept = vf_set1(keep), added = vf_set1(add);
  for (uint32_t d = 0; d < count; d += TN_LANES)
    vf_store(totals + d, vf_add(vf_mul(vf_load(totals + d), kept), vf_mul(vf_load(sums + d), added)));
  total->sum = total->sum * keep + sum * add;
}

static void merge(partial *total, float *totals, const partial *part, const float *sums, uint32_t count) {
  float max = part->max > total->max ? part->max : total->max;
  merge_sums(total, totals, tn_exp(total->max - max), part->sum, sums, tn_exp(part->max - max), count);
  total->max = max;
}

/* What page `page` of a tile has of the task's kv head. */
static const uint8_t *page_at(const attention_job *job, const attention_task *task, uint32_t tile, uint32_t page) {
  const uint32_t *pages = job->call->batch->pages + task->sequence->pages[job->attributes->group];
  return tn_row_at(&job->call->inputs[1], pages[tile * TILE_PAGES + page]) + task->kv_head * job->page.head_bytes;
}

/* Fills in queries first .. of the task in one tile. False when none of them sees any of it. */
static bool start_run(const attention_job *job, const attention_task *task, uint32_t first, uint32_t queries,
                      uint32_t tile, tile_run *run) {
  uint32_t base = tile * TILE, lowest = TILE, highest = 0;
  run->queries = queries;
  run->first = first;
  for (uint32_t i = 0; i < queries; i++) {
    uint32_t begin, end;
    seen(job, task, task->first_row + (first + i) / job->ratio, &begin, &end);
    run->q[i] = query_at(job, task, first + i);
    run->begin[i] = begin > base ? (begin - base < TILE ? begin - base : TILE) : 0;
    run->end[i] = end > base ? (end - base < TILE ? end - base : TILE) : 0;
    if (run->begin[i] >= run->end[i])
      run->begin[i] = run->end[i] = 0;
    else if (run->begin[i] < lowest)
      lowest = run->begin[i];
    if (run->end[i] > highest) highest = run->end[i];
  }
  if (!highest) return false;
  run->first_page = lowest / TN_PAGE_SLOTS;
  run->end_page = (highest + TN_PAGE_SLOTS - 1) / TN_PAGE_SLOTS;
  for (uint32_t p = run->first_page; p < run->end_page; p++) {
    const uint8_t *memory = page_at(job, task, tile, p);
    run->ahead[0][p] = run->keys[p] = memory;
    run->ahead[1][p] = run->values[p] = memory + job->page.values;
    run->key_scales[p] = (const float *)(const void *)(memory + job->page.key_scales);
    run->value_scales[p] = (const float *)(const void *)(memory + job->page.value_scales);
  }
  return true;
}

/* Has what a tile that comes next reads brought near while this one is computed, page after page, keys and values as
 * they lie. (Pages are short, and the system's own prefetchers begin anew in each: without this a core waits more than
 * half of its time.) */
static void look_ahead(const attention_job *job, tile_run *run, const attention_task *next, uint32_t tile) {
  uint32_t begin, end, ignored, turn = 0;
  seen(job, next, next->first_row, &begin, &ignored);
  seen(job, next, next->first_row + next->rows - 1, &ignored, &end);
  for (uint32_t p = 0; p < TILE_PAGES; p++) {
    uint32_t position = tile * TILE + p * TN_PAGE_SLOTS;
    if (position + TN_PAGE_SLOTS <= begin || position >= end) continue;
    const uint8_t *memory = page_at(job, next, tile, p);
    for (uint32_t part = 0; part < 2; part++, turn++)
      run->ahead[turn / TILE_PAGES][turn % TILE_PAGES] = part ? memory + job->page.values : memory;
  }
}

/* Results in parts[] and space->sums. */
static void run_tile(const attention_job *job, const tile_run *run, const task_space *space, partial *parts) {
  const bool bytes = job->page.dtype == TN_I8;
  score_tile(job, run, space);
  for (uint32_t i = 0; i < run->queries; i++) {
    float unit = bytes ? space->queries[run->first + i].scale : 1.0f;
    if (run->end[i]) parts[i] = soften(job, run, i, unit, space->weights + i * TILE);
    if (bytes) widen_weights(run, i, space);
  }
  for (uint32_t d = 0; d < run->queries * job->page.value_stride; d += TN_LANES) vf_store(space->sums + d, vf_zero());
  if (!bytes) weigh_tile(job, run, space->weights, space->sums);
  for (uint32_t p = run->first_page; bytes && p < run->end_page; p++)
    weigh_bytes(run, space, p, job->page.value_stride);
}

/* y = totals / sum, with the head's sink in the denominator where there is one. */
static void finish(const attention_job *job, uint32_t row, uint32_t head, const partial *total, const float *totals) {
  const tn_tensor *sinks = tn_input(job->call, 2);
  float keep = 1.0f, sum = total->sum;
  if (sinks) {
    float sink = ((const float *)sinks->data)[head], max = sink > total->max ? sink : total->max;
    keep = tn_exp(total->max - max);
    sum = sum * keep + tn_exp(sink - max);
  }
  uint32_t value_dim = job->page.value_dim;
  float *y = tn_floats(&job->call->outputs[0], row) + (uint64_t)head * value_dim;
  for (uint32_t d = 0; d < value_dim; d += TN_LANES)
    tn_store_some(y + d, value_dim - d, vf_div(vf_mul(vf_load(totals + d), vf_set1(keep)), vf_set1(sum)));
}

static void start_running(partial *running, float *totals, uint64_t queries, uint32_t stride) {
  for (uint64_t i = 0; i < queries; i++) running[i] = (partial){.max = -TN_INFINITY};
  for (uint64_t d = 0; d < queries * stride; d += TN_LANES) vf_store(totals + d, vf_zero());
}

/* The tiles that a task sees: [*begin, *end). */
static void task_tiles(const attention_job *job, const attention_task *task, uint32_t *begin, uint32_t *end) {
  uint32_t first, last, ignored;
  seen(job, task, task->first_row, &first, &ignored);
  seen(job, task, task->first_row + task->rows - 1, &ignored, &last);
  *begin = first / TILE;
  *end = (last + TILE - 1) / TILE;
}

/* A whole task: all its tiles, merged as they come. */
static void run_task(void *argument, uint32_t index, uint32_t worker) {
  const attention_job *job = (const attention_job *)argument;
  attention_task task = find_task(job, index);
  task_space space = space_of(job, worker);
  uint32_t queries = task.rows * job->ratio, stride = job->page.value_stride, begin, end;
  start_running(space.running, space.totals, queries, stride);
  widen_queries(job, &task, &space);
  task_tiles(job, &task, &begin, &end);
  for (uint32_t tile = begin; tile < end; tile++) {
    for (uint32_t first = 0; first < queries; first += TN_QUERIES) {
      uint32_t group = queries - first < TN_QUERIES ? queries - first : TN_QUERIES;
      partial parts[TN_QUERIES];
      tile_run run;
      if (!start_run(job, &task, first, group, tile, &run)) continue;
      if (first == 0) look_ahead(job, &run, &task, tile + 1);
      run_tile(job, &run, &space, parts);
      for (uint32_t i = 0; i < group; i++)
        if (run.end[i])
          merge(&space.running[first + i], space.totals + (first + i) * stride, &parts[i], space.sums + i * stride,
                stride);
    }
  }
  for (uint32_t i = 0; i < queries; i++)
    finish(job, task.first_row + i / job->ratio, task.kv_head * job->ratio + i % job->ratio, &space.running[i],
           space.totals + i * stride);
}

/* One tile of one task, its results kept for merge_query; a max of -infinity and a sum of 0 where nothing is seen. */
static void run_split(void *argument, uint32_t index, uint32_t worker) {
  const attention_job *job = (const attention_job *)argument;
  uint32_t tile = index / job->tasks, stride = job->page.value_stride;
  uint32_t next_index = index + job->call->parallel->workers; /* as the workers take turns */
  attention_task task = find_task(job, index % job->tasks), next = find_task(job, next_index % job->tasks);
  task_space space = space_of(job, worker);
  uint32_t queries = task.rows * job->ratio;
  widen_queries(job, &task, &space);
  for (uint32_t first = 0; first < queries; first += TN_QUERIES) {
    uint32_t group = queries - first < TN_QUERIES ? queries - first : TN_QUERIES;
    partial parts[TN_QUERIES];
    tile_run run;
    bool any = start_run(job, &task, first, group, tile, &run);
    if (any && first == 0) look_ahead(job, &run, &next, next_index / job->tasks);
    if (any) run_tile(job, &run, &space, parts);
    for (uint32_t i = 0; i < group; i++) {
      uint32_t row = task.first_row + (first + i) / job->ratio,
               head = task.kv_head * job->ratio + (first + i) % job->ratio;
      float *kept = partial_of(job, row * job->attributes->heads + head, tile);
      bool sees = any && run.end[i];
      kept[0] = sees ? parts[i].max : -TN_INFINITY;
      kept[1] = sees ? parts[i].sum : 0.0f;
      for (uint32_t d = 0; sees && d < stride; d += TN_LANES)
        vf_store(kept + 16 + d, vf_load(space.sums + i * stride + d));
    }
  }
}

/* Merges the tiles of one query of a split step, as merge does, but the exponentials of sixteen tiles at once. */
static void merge_query(void *argument, uint32_t index, uint32_t worker) {
  const attention_job *job = (const attention_job *)argument;
  task_space space = space_of(job, worker);
  uint32_t stride = job->page.value_stride;
  start_running(space.running, space.totals, 1, stride);
  for (uint32_t first = 0; first < job->tiles; first += TN_LANES) {
    uint32_t tiles = job->tiles - first < TN_LANES ? job->tiles - first : TN_LANES;
    float keep[TN_LANES] = {0}, add[TN_LANES] = {0};
    for (uint32_t i = 0; i < tiles; i++) {
      float before = space.running->max, max = partial_of(job, index, first + i)[0];
      if (max > before) space.running->max = max;
      keep[i] = before - space.running->max;
      add[i] = max - space.running->max;
    }
    vf_store(keep, tn_exps(vf_load(keep)));
    vf_store(add, tn_exps(vf_load(add)));
    for (uint32_t i = 0; i < tiles; i++) {
      const float *kept = partial_of(job, index, first + i);
      if (kept[1] != 0.0f) merge_sums(space.running, space.totals, keep[i], kept[1], kept + 16, add[i], stride);
    }
  }
  finish(job, index / job->attributes->heads, index % job->attributes->heads, space.running, space.totals);
}

static void count_tasks(attention_job *job) {
  const tn_batch *batch = job->call->batch;
  uint32_t runs = 0, longest = 0;
  for (uint32_t s = 0; s < batch->sequence_count; s++) {
    const tn_sequence *sequence = &batch->sequences[s];
    uint32_t length = sequence->kv_length + sequence->row_count;
    runs += (sequence->row_count + job->rows_a_task - 1) / job->rows_a_task;
    if (length > longest) longest = length;
  }
  job->tasks = runs * job->attributes->kv_heads;
  job->tiles = (longest + TILE - 1) / TILE;
}

tn_status tn_attention(const tn_kernel_call *call) {
  const tn_attention_attributes *a = (const tn_attention_attributes *)call->attributes;
  const tn_batch *batch = call->batch;
  attention_job job = {.call = call, .attributes = a, .ratio = a->heads / a->kv_heads};
  if (!tn_page_of(&job.page, call->inputs[1].dtype, a->kv_heads, a->key_dim, a->value_dim)) return TN_E_UNSUPPORTED;
  job.rows_a_task = most_queries(job.ratio) / job.ratio;
  job.task_bytes = task_bytes(job.ratio, job.page.key_dim, job.page.value_stride);
  job.partial_floats = partial_floats(job.page.value_stride);
  count_tasks(&job);
  uint64_t work = (uint64_t)batch->row_count * a->heads * (a->key_dim + a->value_dim) * batch->context / 16;
  if (batch->row_count <= SPLIT_ROWS && job.tiles >= SPLIT_TILES && call->parallel->workers > 1) {
    tn_share(call, run_split, &job, job.tasks * job.tiles, work);
    tn_share(call, merge_query, &job, batch->row_count * a->heads, work / 64);
  } else {
    tn_share(call, run_task, &job, job.tasks, work);
  }
  return TN_OK;
}
