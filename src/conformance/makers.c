/* Which op has which maker, and the lists they share (see makers.h). */
#include "conformance/makers.h"

#include <stdlib.h>

const uint32_t tn_maker_rows[TN_MAKER_ROWS] = {1, 2, 7, 37};
const uint32_t tn_maker_cols[TN_MAKER_COLS] = {1, 5, 31, 64, 72, 300};
const uint8_t tn_maker_formats[] = {TN_F32,    TN_F16,   TN_BF16,  TN_Q8_0,    TN_Q4_0,   TN_Q4_1, TN_Q5_0,
                                    TN_Q5_1,   TN_Q4_K,  TN_Q5_K,  TN_Q6_K,    TN_Q2_K,   TN_Q3_K, TN_IQ4_NL,
                                    TN_IQ4_XS, TN_MXFP4, TN_MXFP6, TN_F8_E4M3, TN_F8_E5M2};
const uint32_t tn_maker_format_count = TN_COUNT(tn_maker_formats);

tn_make *tn_maker_of(uint32_t opcode) {
  static tn_make *const makers[TN_OP_LIMIT] = {
      [TN_OP_EMBED] = tn_make_embed,
      [TN_OP_SELECT_ROWS] = tn_make_select_rows,
      [TN_OP_LINEAR] = tn_make_linear,
      [TN_OP_NORM] = tn_make_norm,
      [TN_OP_ADD] = tn_make_add,
      [TN_OP_MUL] = tn_make_mul,
      [TN_OP_ACTIVATION] = tn_make_activation,
      [TN_OP_SCALE] = tn_make_scale,
      [TN_OP_SOFTCAP] = tn_make_softcap,
      [TN_OP_QUANTISE] = tn_make_quantise,
      [TN_OP_SLICE] = tn_make_slice,
      [TN_OP_CONCAT] = tn_make_concat,
      [TN_OP_ROPE_TABLE] = tn_make_rope_table,
      [TN_OP_ROPE] = tn_make_rope,
      [TN_OP_KV_WRITE] = tn_make_kv_write,
      [TN_OP_ATTENTION] = tn_make_attention,
      [TN_OP_MOE_ROUTE] = tn_make_moe_route,
      [TN_OP_MOE_LINEAR] = tn_make_moe_linear,
      [TN_OP_MOE_COMBINE] = tn_make_moe_combine,
      [TN_OP_SHORT_CONV] = tn_make_short_conv,
      [TN_OP_DELTA_RULE] = tn_make_delta_rule,
      [TN_OP_HEAD_LINEAR] = tn_make_head_linear,
      [TN_OP_KV_COLUMNS] = tn_make_kv_columns,
      [TN_OP_ATTENTION_MASKED] = tn_make_attention_masked,
  };
  return opcode < TN_OP_LIMIT ? makers[opcode] : NULL;
}

static uint32_t read_list(const char *text, uint32_t *numbers) {
  uint32_t count = 0;
  while (count < TN_MAKER_PROFILE && *text >= '1' && *text <= '9') {
    char *end;
    numbers[count++] = (uint32_t)strtoul(text, &end, 10);
    text = *end == ',' ? end + 1 : end;
  }
  return count;
}

void tn_maker_read_profile(tn_maker *maker, const char *rows, const char *lengths) {
  maker->row_count = read_list(rows, maker->rows);
  maker->length_count = read_list(lengths, maker->lengths);
}

bool tn_maker_emit(tn_maker *maker, tn_case *c) {
  if (c && maker->row_count) tn_case_pin(c, maker->rows, maker->row_count);
  if (!c || c->failed) maker->out_of_memory = maker->stopped = true;
  if (!maker->stopped && !maker->emit(maker->context, c)) maker->stopped = true;
  tn_case_destroy(c);
  return !maker->stopped;
}
