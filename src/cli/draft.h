/* The options of speculation, for all commands that make an engine. */
#ifndef TENON_CLI_DRAFT_H
#define TENON_CLI_DRAFT_H

#include "cli/options.h"
#include "tenon/tenon.h"

/* The rows of an option table: `engine` is a tn_engine_options, `k` a const char * for tn_cli_read_draft_k. */
/* clang-format off */
#define TN_DRAFT_OPTIONS(engine, k) \
  {"draft", 0, TN_CLI_TEXT, &(engine).draft, "M", "drafts tokens that the model then checks together: a smaller model, or ngram", 0, 0}, \
  {"draft-k", 0, TN_CLI_TEXT, &(k), "N", "tokens drafted at once; default auto: as many as pay", 0, 0}, \
  {"draft-device", 0, TN_CLI_TEXT, &(engine).draft_device, "D", "device that runs the drafting model; default: the same", 0, 0}, \
  {"draft-accept", 0, TN_CLI_F32, &(engine).draft_accept, "P", "for measurements: accept drafts by chance; the text is not the model's", 0, 1}
/* clang-format on */

/* "auto" (or NULL) as 0, or a number from 1 on. */
tn_status tn_cli_read_draft_k(const char *text, uint32_t *k, tn_error *error);

#endif
