#include "engine/context.h"

tn_status tn_context_init(tn_context *context, tn_runner *runner, const tn_kv_options *options, tn_error *error) {
  *context = (tn_context){0};
  tn_status status = tn_kv_init(&context->kv, runner, options, error);
  if (status != TN_OK) return status;
  status = tn_step_init(&context->step, &context->kv, error);
  if (status == TN_OK) status = tn_ledger_init(&context->ledger, &context->kv, tn_kv_capacity(&context->kv), error);
  if (status != TN_OK) tn_context_finish(context);
  return status;
}

void tn_context_finish(tn_context *context) {
  tn_ledger_finish(&context->ledger);
  tn_step_finish(&context->step);
  tn_kv_finish(&context->kv);
}

static uint32_t least(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

tn_status tn_context_feed(tn_context *context, const int32_t *tokens, uint32_t count, uint32_t chunk,
                          uint32_t first_logits, tn_context_logits on_logits, void *user, tn_error *error) {
  const tn_runner_info *info = &context->kv.info;
  if (!on_logits || first_logits > count) first_logits = count;
  chunk = chunk ? least(chunk, info->max_rows) : info->max_rows;
  for (uint32_t done = 0; done < count;) {
    uint32_t length = context->ledger.length;
    uint32_t most = least(chunk, tn_ledger_next_snapshot(&context->ledger, length) - length);
    uint32_t silent = done < first_logits ? least(first_logits - done, most) : 0;
    uint32_t loud = least(least(count - done - silent, most - silent), info->max_logits_rows);
    uint32_t position = context->ledger.length, entry;
    tn_step_begin(&context->step);
    tn_status status =
        tn_step_add(&context->step, &context->ledger, tokens + done, silent + loud, silent, &entry, error);
    if (status == TN_OK) status = tn_step_run(&context->step, error);
    if (status != TN_OK) return status;
    for (uint32_t i = silent; i < silent + loud && status == TN_OK; i++)
      status = on_logits(user, position + i, tn_step_logits(&context->step, entry, i), error);
    tn_step_commit(&context->step, entry);
    if (status != TN_OK) return status;
    done += silent + loud;
  }
  return TN_OK;
}
