/* linear, moe_linear and head_linear.
 *
 * The order of arithmetic of one output, whatever kernel computes it and however many rows there are:
 *   K is cut in slices of SLICE columns, a slice in blocks of 32. A slice's sum is taken block after block: of floats
 *   p[i] = x[i] w[i], then x[16 + i] w[16 + i] added, the sixteen p's summed in pairs, and that added to the slice's sum;
 *   of a q8a x and a weight of blocks the exact integer dot products, each times its scales. The slices' sums are added
 *   up in order.
 * So lanes may share a row's slices (linear_rows) or one work-item may walk through all (linear_tile): the bits are the
 * same. */

#define SLICE 128u
#define LANES 16u
#define ROWS_COLUMNS 4u

static int dot16(char16 a, char16 b) {
  return sum16_int(convert_int16(a) * convert_int16(b));
}

/* What a block of q8a, with its scale and sums, adds to a weight block's product. */
static float add_integers(float sum, uint dtype, const block32 *w, char16 low, char16 high, float scale) {
  int dot_low = dot16(w->low, low), dot_high = dot16(w->high, high);
  if (has_halves(dtype)) {
    sum += (w->d0 * scale) * (float)dot_low;
    sum += (w->d1 * scale) * (float)dot_high;
  } else {
    sum += (w->d0 * scale) * (float)(dot_low + dot_high);
  }
  if (!has_offsets(dtype)) return sum;
  int sum_low = sum16_int(convert_int16(low)), sum_high = sum16_int(convert_int16(high));
  if (has_halves(dtype)) {
    sum += (w->m0 * scale) * (float)sum_low;
    return sum + (w->m1 * scale) * (float)sum_high;
  }
  return sum + (w->m0 * scale) * (float)(sum_low + sum_high);
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
      if (is_blocks(a->w_dtype)) {
        block32 b = load_block(a->w_dtype, w, column / 32);
        sum = add_integers(sum, a->w_dtype, &b, low, high, scale);
        continue;
      }
      x_low = scale * convert_float16(low);
      x_high = scale * convert_float16(high);
    } else {
      load32(a->x_dtype, x, column, count, &x_low, &x_high);
    }
    load_weights(a->w_dtype, w, column, count, &w_low, &w_high);
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

/* Few rows: LANES work-items share the slices of one output. Dimensions: lanes, columns, rows * parts. */
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
