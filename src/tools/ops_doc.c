/* The op table as docs/ops.md, from ops.def alone. */
#include "tools/ops_doc.h"

#include <stdio.h>
#include "base/memory.h"
#include "tenon/device.h"

typedef struct op_row {
  unsigned number, revision, min_inputs, max_inputs, max_outputs;
  const char *name, *attributes;
  double tolerance;
  const char *text;
} op_row;

static const op_row ops[] = {
#define TN_OP(number, NAME, name, revision, min_in, max_in, max_out, attributes, tolerance, text) \
  {number, revision, min_in, max_in, max_out, #name, #attributes, tolerance, text},
#include "tenon/ops.def"
#undef TN_OP
};

static const struct {
  const char *name;
  unsigned elements, bytes;
} dtypes[] = {
#define X(number, NAME, name, elements, bytes) {name, elements, bytes},
    TN_DTYPES(X)
#undef X
};

static void print_tolerance(double tolerance) {
  if (tolerance > 0)
    printf("%.0e", tolerance);
  else
    printf("exact");
}

void tn_print_ops(void) {
  printf(
      "# Ops\n\nWhat a program may ask of a device. Written by `tenon devices --ops` from "
      "[ops.def](../include/tenon/ops.def); the attributes are structs of\n[device.h](../include/tenon/device.h). In "
      "the texts `[..]` are shapes, T token rows, R rows that want logits, M either of them; `f` is f32, W a weight,\n"
      "S a state, `?` an operand that may be absent. Tolerance: the normalised mean square error against the "
      "reference kernel that\n`tenon test-device` allows.\n\n");
  printf("| number | op | revision | inputs | outputs | attributes | tolerance |\n|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < TN_COUNT(ops); i++) {
    const op_row *op = &ops[i];
    printf("| %u | [%s](#%s) | %u | ", op->number, op->name, op->name, op->revision);
    if (op->min_inputs == op->max_inputs)
      printf("%u", op->min_inputs);
    else
      printf("%u to %u", op->min_inputs, op->max_inputs);
    printf(" | %u | `%s` | ", op->max_outputs, op->attributes);
    print_tolerance(op->tolerance);
    printf(" |\n");
  }
  for (size_t i = 0; i < TN_COUNT(ops); i++) printf("\n## %s\n\n    %s\n", ops[i].name, ops[i].text);
  printf("\n## Element types\n\n| type | values in a block | bytes of a block |\n|---|---|---|\n");
  for (size_t i = 0; i < TN_COUNT(dtypes); i++) {
    printf("| %s | %u | ", dtypes[i].name, dtypes[i].elements);
    if (dtypes[i].bytes)
      printf("%u |\n", dtypes[i].bytes);
    else
      printf("40 for each 32 values of a row |\n");
  }
}
