#include "tools/speculation.h"

#include <stdlib.h>
#include "base/error.h"
#include "base/memory.h"

static tn_status pull(tn_request *request, tn_decoding *got, tn_error *error) {
  tn_output output = TN_OUTPUT;
  size_t count = 0, capacity = 0;
  *got = (tn_decoding){0};
  while (tn_request_next(request, &output, UINT64_MAX) == TN_OK && output.kind != TN_OUTPUT_DONE &&
         output.kind != TN_OUTPUT_ERROR) {
    if (output.token < 0) continue;
    int32_t *slot = TN_PUSH(got->tokens, count, capacity);
    if (!slot) return tn_fail(error, TN_E_MEMORY, "out of memory for an answer");
    *slot = output.token;
  }
  got->count = (uint32_t)count;
  got->seconds = (double)output.decode_ns / 1e9;
  if (output.kind == TN_OUTPUT_DONE) return TN_OK;
  *error = output.error;
  return output.error.status;
}

tn_status tn_decode_together(tn_engine *engine, const tn_request_options *options, uint32_t count, tn_decoding *got,
                             tn_error *error) {
  tn_request **requests = tn_calloc(count, sizeof *requests);
  if (!requests) return tn_fail(error, TN_E_MEMORY, "out of memory for %u requests", count);
  tn_request_options own = *options;
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < count; i++) got[i] = (tn_decoding){0};
  for (uint32_t i = 0; i < count && status == TN_OK; i++, own.seed++)
    status = tn_engine_submit(engine, &own, &requests[i], error);
  for (uint32_t i = 0; i < count && status == TN_OK; i++) status = pull(requests[i], &got[i], error);
  for (uint32_t i = 0; i < count; i++) tn_request_destroy(requests[i]);
  free(requests);
  return status;
}
