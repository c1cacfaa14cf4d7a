#include "cli/draft.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"

tn_status tn_cli_read_draft_k(const char *text, uint32_t *k, tn_error *error) {
  *k = 0;
  if (!text || !strcmp(text, "auto")) return TN_OK;
  char *end;
  unsigned long value = strtoul(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || !value || value > TN_DRAFT_POSITIONS)
    return tn_fail(error, TN_E_INVALID, "--draft-k: \"%.20s\" given, expected auto or a number from 1 to %d", text,
                   TN_DRAFT_POSITIONS);
  *k = (uint32_t)value;
  return TN_OK;
}
