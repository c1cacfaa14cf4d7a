/* A case: a program of one op, or of the few that it takes to see what that op did, with everything it works on.
 *
 * Values are given for whole sequences, row after row; how the rows are cut into steps is decided when the case is run
 * (steps.h), so the same case shows that a row's bits don't depend on its neighbours. Weights keep their stored rows as
 * sources. A case owns its memory. Building is sticky: a builder call that runs out of memory or room marks the case
 * as failed, and the rest do nothing. */
#ifndef TENON_CONFORMANCE_CASE_H
#define TENON_CONFORMANCE_CASE_H

#include <stdbool.h>
#include "base/error.h"
#include "base/memory.h"
#include "tenon/driver.h"

#define TN_CASE_VALUES 24u
#define TN_CASE_OPS 8u
#define TN_CASE_SEQUENCES 6u
#define TN_CASE_SOURCES 4u
#define TN_CASE_ATTRIBUTES 512u

typedef struct tn_case_value {
  uint8_t kind, dtype, rank; /* as in tn_value */
  int32_t dims[4];
  uint32_t index;  /* its binding number among the values of its kind */
  uint64_t offset; /* scratch: where it lies in the arena */
  /* inputs: what they hold, a row for each row of the case, or as many as dims say; contiguous KV: all its bytes */
  uint8_t *data;
  uint64_t row_bytes;
  /* weights */
  uint32_t uses;
  tn_weight_source *sources; /* room for TN_CASE_SOURCES where tn_case_weight made them */
  uint32_t source_count;
} tn_case_value;

typedef struct tn_case {
  tn_arena arena;
  uint16_t opcode; /* the op that is looked at */
  uint8_t dtype;   /* what coverage counts it under: of the weight or the KV memory, else of the input */
  char name[96];
  tn_case_value values[TN_CASE_VALUES];
  tn_op ops[TN_CASE_OPS];
  uint32_t value_count, op_count;
  uint32_t bindings[5]; /* values by kind */
  _Alignas(8) uint8_t attributes[TN_CASE_ATTRIBUTES];
  uint32_t attribute_bytes;
  uint64_t scratch_bytes;
  tn_row *rows; /* sequence after sequence */
  uint32_t row_count, sequence_count;
  struct {
    uint32_t first, count;
  } sequences[TN_CASE_SEQUENCES];
  double tolerance; /* normalised mean square error allowed */
  bool fixed;       /* row counts are numbers: it can't be cut into steps */
  bool failed;
} tn_case;

/* An empty case of `rows` rows, shared out over `sequences` sequences as evenly as it goes, all wanting logits where
 * there are at most TN_MAX_LOGITS_ROWS. Tokens and positions count from 0. NULL when memory is out. */
tn_case *tn_case_create(uint32_t opcode, uint32_t rows, uint32_t sequences);
void tn_case_destroy(tn_case *c);
/* Adds words to the name. */
__attribute__((format(printf, 2, 3))) void tn_case_say(tn_case *c, const char *format, ...);

/* ---- values; each returns its number ---- */
/* [T, R or a number, cols]; the data is zero until filled (fill.h). */
uint32_t tn_case_input(tn_case *c, uint32_t dtype, int32_t rows, uint32_t cols);
uint32_t tn_case_output(tn_case *c, uint32_t dtype, int32_t rows, uint32_t cols);
uint32_t tn_case_scratch(tn_case *c, uint32_t dtype, int32_t rows, uint32_t cols);
/* A weight of `rank` dims, stored as one source with data that is zero until filled. A vector has uses
 * TN_USE_VECTOR. */
uint32_t tn_case_weight(tn_case *c, uint32_t dtype, uint32_t rank, const uint32_t *dims, uint32_t uses);
uint32_t tn_case_vector(tn_case *c, uint32_t count);
uint32_t tn_case_matrix(tn_case *c, uint32_t dtype, uint32_t rows, uint32_t cols, uint32_t uses);
uint32_t tn_case_kv(tn_case *c, uint32_t dtype, uint32_t kv_heads, uint32_t key_dim, uint32_t value_dim);
/* Contiguous KV of `slots` slots in plain layout (device.h); its data is zero until filled. */
uint32_t tn_case_region(tn_case *c, uint32_t dtype, uint32_t kv_heads, uint32_t key_dim, uint32_t value_dim,
                        uint32_t slots);
/* A recurrent state: a matrix [key_dim, value_dim] in f32 for each head. */
uint32_t tn_case_recurrent(tn_case *c, uint32_t heads, uint32_t key_dim, uint32_t value_dim);
/* The description of a state value, as the portable layer would make it. */
tn_state_desc tn_case_state_desc(const tn_case_value *value);

/* Makes the case one for devices that run only the row counts of a rising list: the first that holds its rows, or the
 * last, becomes T; rows are cut or padded with zeros, all of one sequence. A case with pages or recurrent states, which
 * such devices don't have, stays as it is. */
void tn_case_pin(tn_case *c, const uint32_t *rows, uint32_t count);

/* Rows of an input or output over all of the case. */
static inline uint32_t tn_case_rows(const tn_case *c, const tn_case_value *value) {
  return value->dims[0] > 0 ? (uint32_t)value->dims[0] : c->row_count;
}

/* The stored bytes of a weight's first source, of an input, or of contiguous KV, and how many there are. */
uint8_t *tn_case_data(const tn_case *c, uint32_t value, uint64_t *bytes);

/* ---- ops: inputs and outputs are value numbers, ended by -1; `attributes` begins with its size ---- */
void tn_case_op(tn_case *c, uint32_t opcode, const void *attributes, const int64_t *inputs, const int64_t *outputs);
#define TN_CASE_LIST(...) ((const int64_t[]){__VA_ARGS__, -1})

/* The program, to be freed: symbolic dims, planned for the case's rows. Checked; NULL with an error. */
tn_program *tn_case_program(const tn_case *c, tn_error *error);

/* Pages a sequence needs, and pages of a state: all sequences', two each at least (a recurrent state goes from one slot
 * to the other), and one that belongs to nobody. */
uint32_t tn_case_pages_each(const tn_case *c);
uint32_t tn_case_pages(const tn_case *c);

/* Bytes of one row of a value. */
uint64_t tn_case_row_bytes(const tn_case_value *value);

#endif
