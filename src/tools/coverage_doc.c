#include "tools/coverage_doc.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/memory.h"
#include "conformance/kit.h"
#include "tenon/driver.h"

#define MOST_DRIVERS 16u

typedef struct column {
  const char *driver;
  tn_kit_summary *summary;
} column;

static void print_cell(const tn_kit_summary *summary, uint32_t opcode) {
  uint32_t native = 0, all = 0;
  for (uint32_t dtype = 0; dtype < TN_DTYPE_COUNT; dtype++) {
    const tn_kit_coverage *c = &summary->coverage[opcode][dtype];
    native += c->native;
    all += c->native + c->fallback + c->failed;
  }
  if (native == all)
    printf(" all |");
  else if (!native)
    printf(" none |");
  else
    printf(" %u of %u |", native, all);
}

static void print_table(const column *columns, uint32_t count) {
  printf("| op |");
  for (uint32_t i = 0; i < count; i++) printf(" %s |", columns[i].driver);
  printf("\n|---|");
  for (uint32_t i = 0; i < count; i++) printf("---|");
  putchar('\n');
  for (uint32_t opcode = 0; opcode < TN_OP_LIMIT; opcode++) {
    const tn_op_info *info = tn_op_info_of(opcode);
    if (!info) continue;
    printf("| %s |", info->name);
    for (uint32_t i = 0; i < count; i++) print_cell(columns[i].summary, opcode);
    putchar('\n');
  }
}

/* What the driver's first device says of each case; nothing is added where it has none. */
static tn_status ask(const tn_driver *driver, column *columns, uint32_t *count, tn_error *error) {
  const tn_kit_options options = {.ask_only = true};
  uint32_t devices = 0;
  if (driver->enumerate(&devices) != TN_OK || !devices) return TN_OK;
  tn_kit_summary *summary = tn_calloc(1, sizeof *summary);
  if (!summary) return tn_fail(error, TN_E_MEMORY, "out of memory");
  columns[(*count)++] = (column){driver->name, summary};
  return tn_kit_run(driver->name, &options, summary, error);
}

tn_status tn_print_coverage(tn_error *error) {
  column columns[MOST_DRIVERS];
  uint32_t count = 0;
  tn_status status = TN_OK;
  const tn_driver *driver;
  for (size_t i = 0; status == TN_OK && count < MOST_DRIVERS && (driver = tn_builtin_driver(i)); i++)
    status = ask(driver, columns, &count, error);
  if (status == TN_OK) print_table(columns, count);
  for (uint32_t i = 0; i < count; i++) free(columns[i].summary);
  return status;
}
