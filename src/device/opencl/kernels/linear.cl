/* linear, moe_linear and head_linear.
 *
 * The order of arithmetic of one output, whatever kernel computes it and however many rows there are:
 *   K is cut in slices of SLICE columns, a slice in blocks of 32. A slice's sum is taken block after block: of floats
 *   p[i] = x[i] w[i], then x[16 + i] w[16 + i] added, the sixteen p's summed in pairs, and that added to the slice's sum;
 *   of a q8a x and a weight of blocks the exact integer dot products, each times its scales. The slices' sums are added
 *   up in order.
 * So lanes may share a row's slices (linear_rows) or one work-item may walk through all (linear_tile): the bits are the
 * same. */

/* The weights' format: an argument, or what the program is made for. */
#ifdef WEIGHTS
#define W_DTYPE(a) WEIGHTS
#else
#define W_DTYPE(a) (a)->w_dtype
#endif

#define SLICE 128u
#define LANES 16u
#define ROWS_COLUMNS 4u

/* Products of bytes in 16 bits: two of them together stay below 2^15. */
static short16 products(char16 a, char16 b) {
  return convert_short16(a) * convert_short16(b);
}

/* What a block of q8a, with its scale and the sum of its 32 integers, adds to a weight block's product. */
static float add_integers(float sum, uint dtype, const block32 *w, char16 low, char16 high, float scale, int total) {
  short16 products_low = products(w->low, low), products_high = products(w->high, high);
  if (!has_halves(dtype)) {
    sum += (w->d0 * scale) * (float)sum16_int(convert_int16(products_low + products_high));
    return has_offsets(dtype) ? sum + (w->m0 * scale) * (float)total : sum;
  }
  sum += (w->d0 * scale) * (float)sum16_int(convert_int16(products_low));
  sum += (w->d1 * scale) * (float)sum16_int(convert_int16(products_high));
  if (!has_offsets(dtype)) return sum;
  int total_low = sum16_int(convert_int16(low));
  sum += (w->m0 * scale) * (float)total_low;
  return sum + (w->m1 * scale) * (float)(total - total_low);
}

static float add_floats(float sum, float16 x_low, float16 x_high, float16 w_low, float16 w_high) {
  return sum + sum16(MULTIPLY_ADD(x_high, w_high, x_low * w_low));
}

/* A slice of one output's sum. `x` and `w` are the rows. */
static float slice_sum(const linear_arguments *a, constant_memory x, constant_memory w, uint slice) {
  float sum = 0.0f;
  uint end = min((slice + 1) * SLICE, a->depth), padded = (a->depth + 31) / 32 * 32;
  for (uint column = slice * SLICE; column < end; column += 32) {
    float16 x_low, x_high, w_low, w_high;
    uint count = min(end - column, 32u);
    if (a->x_dtype == DTYPE_Q8A) {
      char16 low = as_char16(vload16(0, x + column)), high = as_char16(vload16(1, x + column));
      float scale = ((__global const float *)(x + padded))[column / 32];
      int total = ((__global const int *)(x + padded + padded / 8))[column / 32];
      if (is_blocks(W_DTYPE(a))) {
        block32 b = load_block(W_DTYPE(a), w, column / 32);
        sum = add_integers(sum, W_DTYPE(a), &b, low, high, scale, total);
        continue;
      }
      x_low = scale * convert_float16(low);
      x_high = scale * convert_float16(high);
    } else {
      load32(a->x_dtype, x, column, count, &x_low, &x_high);
    }
    load_weights(W_DTYPE(a), w, column, count, &w_low, &w_high);
    sum = add_floats(sum, x_low, x_high, w_low, w_high);
  }
  return sum;
}

/* Which matrix part `part` of row m meets; a number that none has becomes the last. */
static uint matrix_of(const linear_arguments *a, __global const int *experts, uint m, uint part) {
  if (!a->by_expert) return a->parts == 1 ? 0 : part;
  return min((uint)experts[m * a->parts + part], a->matrices - 1);
}

static float gated_value(const linear_arguments *a, float gate, float value) {
  if (!(a->limit > 0.0f)) return activate(a->activation, gate) * value;
  float g = gate > a->limit ? a->limit : gate;
  float v = value > a->limit ? a->limit : value < -a->limit ? -a->limit : value;
  return g / (1.0f + tn_exp(-a->alpha * g)) * (v + 1.0f);
}

/* What follows the sums of column n of part `part` of row m: gate and value are the products of matrix rows n and
 * columns + n; the latter only where there is a gate. */
static void finish(const linear_arguments *a, uint m, uint part, uint matrix, uint n, float gate, float value,
                   constant_memory bias, constant_memory residual, memory y0, memory y1, memory y2, memory y3) {
  ulong first = (ulong)matrix * (a->gated ? 2 * a->columns : a->columns) + n;
  __global const float *b = (__global const float *)(bias + a->bias);
  if (a->has_bias) gate += b[first];
  if (a->has_bias && a->gated) value += b[first + a->columns];
  float result = (a->gated ? gated_value(a, gate, value) : activate(a->activation, gate)) * a->scale;
  if (a->has_residual) result += ((__global const float *)(residual + a->residual))[(ulong)m * a->columns + n];
  memory to = y0 + a->y[0];
  ulong at = (ulong)(m * a->parts + part) * a->y_stride + a->y_begin + n;
  if (a->outputs > 1) {
    uint output = 0;
    while (n >= a->widths[output]) n -= a->widths[output++];
    if (output == 1) to = y1 + a->y[1];
    if (output == 2) to = y2 + a->y[2];
    if (output == 3) to = y3 + a->y[3];
    at = (ulong)m * a->widths[output] + n;
  }
  ((__global float *)to)[at] = result;
}

/* ---- few rows ---- */

/* LANES work-items share the slices of one output. Dimensions: lanes, columns, rows * parts. */
__kernel __attribute__((reqd_work_group_size(LANES, ROWS_COLUMNS, 1))) void linear_rows(
    constant_memory x, constant_memory w, constant_memory bias, constant_memory residual, constant_memory experts,
    memory y0, memory y1, memory y2, memory y3, linear_arguments a) {
  __local float gates[ROWS_COLUMNS][LANES], values[ROWS_COLUMNS][LANES];
  uint lane = get_local_id(0), place = get_local_id(1), n = get_global_id(1);
  uint m = get_global_id(2) / a.parts, part = get_global_id(2) % a.parts;
  uint matrix = matrix_of(&a, (__global const int *)(experts + a.experts), m, part);
  uint matrix_rows = a.gated ? 2 * a.columns : a.columns, slices = (a.depth + SLICE - 1) / SLICE;
  constant_memory x_row = x + a.x + m * a.x_row + (ulong)part * a.x_part * 4;
  constant_memory w_row = w + a.w + ((ulong)matrix * matrix_rows + n) * a.w_row;
  float gate = 0.0f, value = 0.0f;
  for (uint first = 0; first < slices; first += LANES) {
    uint slice = first + lane;
    if (n < a.columns && slice < slices) {
      gates[place][lane] = slice_sum(&a, x_row, w_row, slice);
      if (a.gated) values[place][lane] = slice_sum(&a, x_row, w_row + a.columns * a.w_row, slice);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane == 0 && n < a.columns) {
      for (uint i = 0; i < LANES && first + i < slices; i++) {
        gate += gates[place][i];
        if (a.gated) value += values[place][i];
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0 && n < a.columns)
    finish(&a, m, part, matrix, n, gate, value, bias, residual, y0, y1, y2, y3);
}

/* ---- many rows: a work-item has one column, takes each of its blocks apart once and uses it for TILE_ROWS rows, whose
 * values of a slice lie in local memory ---- */

#define TILE_ROWS 16u
#define TILE_COLUMNS 64u
#define SLICE_BLOCKS (SLICE / 32)

/* A slice of TILE_ROWS rows of x: as floats, or as q8a. Rows and columns that there are not are zeros. */
typedef union tile_slice {
  float values[TILE_ROWS][SLICE];
  struct {
    char q[TILE_ROWS][SLICE];
    float scale[TILE_ROWS][SLICE_BLOCKS];
    int total[TILE_ROWS][SLICE_BLOCKS];
  } quantised;
} tile_slice;

/* Fetches rows first .. of x, columns of slice `slice`, together. */
INLINE static void fetch_slice(const linear_arguments *a, constant_memory x, uint first, uint slice, int integers,
                        __local tile_slice *tile) {
  uint padded = (a->depth + 31) / 32 * 32, begin = slice * SLICE, blocks = padded / 32;
  for (uint i = get_local_id(0); i < TILE_ROWS * SLICE; i += TILE_COLUMNS) {
    uint r = i / SLICE, k = i % SLICE, column = begin + k, m = first + r;
    constant_memory row = x + m * a->x_row;
    int inside = m < a->rows && column < a->depth;
    if (integers) {
      tile->quantised.q[r][k] = inside ? as_char(row[column]) : (char)0;
    } else if (a->x_dtype == DTYPE_Q8A) {
      tile->values[r][k] =
          inside ? ((__global const float *)(row + padded))[column / 32] * (float)as_char(row[column]) : 0.0f;
    } else {
      tile->values[r][k] = inside ? load_value(a->x_dtype, row, column) : 0.0f;
    }
  }
  for (uint i = get_local_id(0); integers && i < TILE_ROWS * SLICE_BLOCKS; i += TILE_COLUMNS) {
    uint r = i / SLICE_BLOCKS, b = i % SLICE_BLOCKS, block = begin / 32 + b, m = first + r;
    constant_memory scales = x + m * a->x_row + padded;
    int inside = m < a->rows && block < blocks;
    tile->quantised.scale[r][b] = inside ? ((__global const float *)scales)[block] : 0.0f;
    tile->quantised.total[r][b] = inside ? ((__global const int *)(scales + padded / 8))[block] : 0;
  }
}

/* Adds a slice's sums of weight row `w` with the tile's first `rows` rows to `totals`. */
INLINE static void add_slice(const linear_arguments *a, constant_memory w, uint slice, uint rows, int integers,
                      __local const tile_slice *tile, float *totals) {
  float sums[TILE_ROWS];
  uint end = min((slice + 1) * SLICE, a->depth);
  for (uint r = 0; r < TILE_ROWS; r++) sums[r] = 0.0f;
  for (uint column = slice * SLICE, b = 0; column < end; column += 32, b++) {
    if (integers) {
      block32 block = load_block(W_DTYPE(a), w, column / 32);
      for (uint r = 0; r < rows; r++)
        sums[r] = add_integers(sums[r], W_DTYPE(a), &block, vload16(0, &tile->quantised.q[r][b * 32]),
                               vload16(1, &tile->quantised.q[r][b * 32]), tile->quantised.scale[r][b],
                               tile->quantised.total[r][b]);
    } else {
      float16 low, high;
      load_weights(W_DTYPE(a), w, column, min(end - column, 32u), &low, &high);
      for (uint r = 0; r < rows; r++)
        sums[r] = add_floats(sums[r], vload16(0, &tile->values[r][b * 32]), vload16(1, &tile->values[r][b * 32]), low,
                             high);
    }
  }
  for (uint r = 0; r < rows; r++) totals[r] += sums[r];
}

/* Not for moe_linear. Dimensions: columns, tiles of rows, parts. */
__kernel __attribute__((reqd_work_group_size(TILE_COLUMNS, 1, 1))) void linear_tile(
    constant_memory x, constant_memory w, constant_memory bias, constant_memory residual, constant_memory experts,
    memory y0, memory y1, memory y2, memory y3, linear_arguments a) {
  __local tile_slice tile;
  float gates[TILE_ROWS], values[TILE_ROWS];
  uint n = get_global_id(0), first = get_group_id(1) * TILE_ROWS, part = get_group_id(2);
  uint rows = min(a.rows - first, TILE_ROWS), matrix = a.parts == 1 ? 0 : part;
  uint matrix_rows = a.gated ? 2 * a.columns : a.columns, slices = (a.depth + SLICE - 1) / SLICE;
  int integers = a.x_dtype == DTYPE_Q8A && is_blocks(W_DTYPE(&a));
  uint row = min(n, a.columns - 1); /* columns behind the last do it again, and keep it */
  constant_memory part_x = x + a.x + (ulong)part * a.x_part * 4;
  constant_memory w_row = w + a.w + ((ulong)matrix * matrix_rows + row) * a.w_row;
  for (uint r = 0; r < TILE_ROWS; r++) gates[r] = values[r] = 0.0f;
  for (uint slice = 0; slice < slices; slice++) {
    fetch_slice(&a, part_x, first, slice, integers, &tile);
    barrier(CLK_LOCAL_MEM_FENCE);
    add_slice(&a, w_row, slice, rows, integers, &tile, gates);
    if (a.gated) add_slice(&a, w_row + a.columns * a.w_row, slice, rows, integers, &tile, values);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (uint r = 0; n < a.columns && r < rows; r++)
    finish(&a, first + r, part, matrix, n, gates[r], values[r], bias, residual, y0, y1, y2, y3);
}
