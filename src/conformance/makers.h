/* The lists of cases, one maker for each op of ops.def. A maker is data and a loop over it: which element types, shapes
 * and attributes the op is tried with. An op without a maker fails the kit's own test. */
#ifndef TENON_CONFORMANCE_MAKERS_H
#define TENON_CONFORMANCE_MAKERS_H

#include "conformance/fill.h"

#define TN_MAKER_PROFILE 8u

typedef struct tn_maker {
  bool perf; /* a few large cases for timing, instead of the many small ones */
  /* Takes a finished case (the maker destroys it); false ends the making. */
  bool (*emit)(void *context, const tn_case *c);
  void *context;
  /* Of a device with a shape profile: the row counts that cases are pinned to, and the lengths of contiguous KV. None:
   * any. Read with tn_maker_read_profile. */
  uint32_t rows[TN_MAKER_PROFILE], lengths[TN_MAKER_PROFILE];
  uint32_t row_count, length_count;
  bool stopped, out_of_memory;
} tn_maker;

typedef void tn_make(tn_maker *maker);

/* The maker of an opcode; NULL when there is none. */
tn_make *tn_maker_of(uint32_t opcode);

/* Reads lists like "1,32" and "128,512"; "any" or what is no list: none. */
void tn_maker_read_profile(tn_maker *maker, const char *rows, const char *lengths);

/* Hands a case on and destroys it. NULL is noted as out of memory. True while cases are wanted. */
bool tn_maker_emit(tn_maker *maker, tn_case *c);

/* By file: makers_rows.c, */
tn_make tn_make_embed, tn_make_select_rows, tn_make_slice, tn_make_concat;
/* makers_elementwise.c, */
tn_make tn_make_add, tn_make_mul, tn_make_activation, tn_make_scale, tn_make_softcap, tn_make_quantise, tn_make_norm;
/* makers_linear.c, */
tn_make tn_make_linear, tn_make_head_linear;
/* makers_attention.c, */
tn_make tn_make_rope_table, tn_make_rope, tn_make_kv_write, tn_make_attention;
/* makers_fixed.c, */
tn_make tn_make_kv_columns, tn_make_attention_masked;
/* makers_experts.c, */
tn_make tn_make_moe_route, tn_make_moe_linear, tn_make_moe_combine;
/* makers_recurrent.c */
tn_make tn_make_short_conv, tn_make_delta_rule;

/* Row counts that every op is tried with: one, few, a whole page of them and a bit. */
#define TN_MAKER_ROWS 4
extern const uint32_t tn_maker_rows[TN_MAKER_ROWS];
/* Widths: odd ones, whole vectors, vectors with tails. */
#define TN_MAKER_COLS 6
extern const uint32_t tn_maker_cols[TN_MAKER_COLS];
/* Every element type a weight matrix may have. */
extern const uint8_t tn_maker_formats[];
extern const uint32_t tn_maker_format_count;

#endif
