/* Cases of ops that move rows and columns: embed, select_rows, slice, concat. */
#include "conformance/makers.h"
#include "tensor/dtype.h"

#define VOCABULARY 45u

static tn_case *embed_case(uint32_t format, uint32_t cols, uint32_t rows, uint32_t source, float scale, bool tied) {
  tn_case *c = tn_case_create(TN_OP_EMBED, rows, rows > 4 ? 3 : 1);
  if (!c) return NULL;
  const tn_embed_attributes attributes = {sizeof attributes, source, scale};
  uint32_t table = tn_case_matrix(c, format, VOCABULARY, cols, TN_USE_EMBED | (tied ? TN_USE_LINEAR : 0));
  uint32_t y = tn_case_output(c, TN_F32, TN_DIM_T, cols);
  tn_case_fill(c, table, TN_FILL_RANDOM, format + cols);
  for (uint32_t r = 0; r < rows; r++) c->rows[r].token = (int32_t)((r * 29 + VOCABULARY - 1) % VOCABULARY);
  c->dtype = (uint8_t)format;
  tn_case_say(c, "%s [%u,%u] rows=%u%s%s", tn_dtype_name((tn_dtype)format), VOCABULARY, cols, rows,
              source == TN_EMBED_POSITION ? " by position" : "", scale != 1 ? " scaled" : "");
  if (tied) { /* one copy serves both: the table is the weight of a linear, too */
    const tn_linear_attributes linear = {sizeof linear, TN_ACTIVATION_NONE, 0, 1};
    uint32_t z = tn_case_output(c, TN_F32, TN_DIM_T, VOCABULARY);
    tn_case_op(c, TN_OP_EMBED, &attributes, TN_CASE_LIST(table), TN_CASE_LIST(y));
    tn_case_op(c, TN_OP_LINEAR, &linear, TN_CASE_LIST(y, table), TN_CASE_LIST(z));
    tn_case_say(c, " tied");
    c->tolerance = tn_op_info_of(TN_OP_LINEAR)->tolerance;
    return c;
  }
  tn_case_op(c, TN_OP_EMBED, &attributes, TN_CASE_LIST(table), TN_CASE_LIST(y));
  return c;
}

void tn_make_embed(tn_maker *maker) {
  if (maker->perf) {
    tn_maker_emit(maker, embed_case(TN_F16, 2048, 512, TN_EMBED_TOKEN, 1, false));
    tn_maker_emit(maker, embed_case(TN_Q8_0, 2048, 512, TN_EMBED_TOKEN, 1, false));
    return;
  }
  for (uint32_t i = 0; i < tn_maker_format_count && !maker->stopped; i++) {
    uint32_t format = tn_maker_formats[i], block = (uint32_t)tn_dtype_block_elements((tn_dtype)format);
    uint32_t cols = block > 1 ? 3 * block : 33;
    tn_maker_emit(maker, embed_case(format, cols, 1, TN_EMBED_TOKEN, 1, false));
    tn_maker_emit(maker, embed_case(format, cols, 37, TN_EMBED_TOKEN, 1.5f, false));
  }
  tn_maker_emit(maker, embed_case(TN_F32, 72, 40, TN_EMBED_POSITION, 1, false));
  tn_maker_emit(maker, embed_case(TN_F16, 64, 7, TN_EMBED_TOKEN, 1, true));
  tn_maker_emit(maker, embed_case(TN_Q8_0, 64, 7, TN_EMBED_TOKEN, 1, true));
}

/* Which rows want logits: 0 all, 1 the last of each sequence, 2 every third, 3 none. */
static tn_case *select_case(uint32_t cols, uint32_t rows, uint32_t wanted) {
  static const char *const words[] = {"all", "last", "some", "none"};
  tn_case *c = tn_case_create(TN_OP_SELECT_ROWS, rows, rows > 4 ? 3 : 1);
  if (!c) return NULL;
  const tn_no_attributes none = {sizeof none};
  uint32_t x = tn_case_input(c, TN_F32, TN_DIM_T, cols), y = tn_case_output(c, TN_F32, TN_DIM_R, cols);
  tn_case_fill(c, x, TN_FILL_RANDOM, cols);
  for (uint32_t s = 0; s < c->sequence_count; s++)
    for (uint32_t i = 0; i < c->sequences[s].count; i++)
      c->rows[c->sequences[s].first + i].wants_logits =
          wanted == 0 || (wanted == 1 && i + 1 == c->sequences[s].count) || (wanted == 2 && i % 3 == 1);
  tn_case_say(c, "[%u,%u] %s", rows, cols, words[wanted]);
  tn_case_op(c, TN_OP_SELECT_ROWS, &none, TN_CASE_LIST(x), TN_CASE_LIST(y));
  return c;
}

void tn_make_select_rows(tn_maker *maker) {
  if (maker->perf) {
    tn_maker_emit(maker, select_case(2048, 64, 0));
    return;
  }
  for (uint32_t k = 0; k < TN_MAKER_COLS; k++)
    for (uint32_t i = 0; i < TN_MAKER_ROWS; i++)
      for (uint32_t wanted = 0; wanted < 4 && !maker->stopped; wanted++)
        tn_maker_emit(maker, select_case(tn_maker_cols[k], tn_maker_rows[i], wanted));
}

static tn_case *slice_case(uint32_t cols, uint32_t begin, uint32_t width, uint32_t rows) {
  tn_case *c = tn_case_create(TN_OP_SLICE, rows, 1);
  if (!c) return NULL;
  const tn_slice_attributes attributes = {sizeof attributes, begin};
  uint32_t x = tn_case_input(c, TN_F32, TN_DIM_T, cols), y = tn_case_output(c, TN_F32, TN_DIM_T, width);
  tn_case_fill(c, x, TN_FILL_RANDOM, cols + begin);
  tn_case_say(c, "[%u,%u] columns %u..%u", rows, cols, begin, begin + width - 1);
  tn_case_op(c, TN_OP_SLICE, &attributes, TN_CASE_LIST(x), TN_CASE_LIST(y));
  return c;
}

void tn_make_slice(tn_maker *maker) {
  static const struct {
    uint32_t cols, begin, width;
  } shapes[] = {{1, 0, 1}, {31, 30, 1}, {64, 0, 64}, {72, 3, 65}, {300, 17, 130}, {96, 32, 32}};
  if (maker->perf) {
    tn_maker_emit(maker, slice_case(4096, 1024, 2048, 512));
    return;
  }
  for (size_t k = 0; k < TN_COUNT(shapes); k++)
    for (uint32_t i = 0; i < TN_MAKER_ROWS && !maker->stopped; i++)
      tn_maker_emit(maker, slice_case(shapes[k].cols, shapes[k].begin, shapes[k].width, tn_maker_rows[i]));
}

static tn_case *concat_case(const uint32_t *widths, uint32_t count, uint32_t rows) {
  tn_case *c = tn_case_create(TN_OP_CONCAT, rows, 1);
  if (!c) return NULL;
  const tn_no_attributes none = {sizeof none};
  int64_t inputs[TN_MAX_OPERANDS + 1];
  uint32_t total = 0;
  tn_case_say(c, "%u rows of", rows);
  for (uint32_t i = 0; i < count; i++) {
    inputs[i] = tn_case_input(c, TN_F32, TN_DIM_T, widths[i]);
    tn_case_fill(c, (uint32_t)inputs[i], TN_FILL_RANDOM, i + widths[i]);
    tn_case_say(c, " %u", widths[i]);
    total += widths[i];
  }
  inputs[count] = -1;
  uint32_t y = tn_case_output(c, TN_F32, TN_DIM_T, total);
  tn_case_op(c, TN_OP_CONCAT, &none, inputs, TN_CASE_LIST(y));
  return c;
}

void tn_make_concat(tn_maker *maker) {
  static const struct {
    uint32_t count, widths[TN_MAX_OPERANDS];
  } shapes[] = {{1, {33}}, {2, {1, 1}}, {2, {64, 64}}, {3, {5, 72, 31}}, {8, {1, 2, 3, 4, 5, 6, 7, 8}}};
  if (maker->perf) {
    tn_maker_emit(maker, concat_case((const uint32_t[]){2048, 2048}, 2, 512));
    return;
  }
  for (size_t k = 0; k < TN_COUNT(shapes); k++)
    for (uint32_t i = 0; i < TN_MAKER_ROWS && !maker->stopped; i++)
      tn_maker_emit(maker, concat_case(shapes[k].widths, shapes[k].count, tn_maker_rows[i]));
}
