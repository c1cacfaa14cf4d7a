/* Steps of a case (see steps.h). */
#include "conformance/steps.h"

#include <stdlib.h>
#include <string.h>

/* Page numbers: scattered, so that a table read wrongly leads to another page; group g's tables are turned by g. One
 * page belongs to nobody. */
static uint32_t page_number(const tn_case *c, uint32_t group, uint32_t sequence, uint32_t i) {
  uint32_t total = tn_case_pages(c);
  return total - 1 - (i * c->sequence_count + (sequence + group) % c->sequence_count);
}

bool tn_step_plan_init(tn_step_plan *plan, const tn_case *c, tn_schedule schedule) {
  uint32_t each = tn_case_pages_each(c), tables = c->sequence_count * each;
  *plan = (tn_step_plan){.c = c, .schedule = schedule};
  plan->rows = tn_calloc(c->row_count, sizeof *plan->rows);
  plan->case_rows = tn_calloc(c->row_count, sizeof *plan->case_rows);
  plan->logits_rows = tn_calloc(c->row_count, sizeof *plan->logits_rows);
  plan->pages = tn_calloc((size_t)tables * TN_MAX_GROUPS, sizeof *plan->pages);
  if (!plan->rows || !plan->case_rows || !plan->logits_rows || !plan->pages) {
    tn_step_plan_finish(plan);
    return false;
  }
  for (uint32_t g = 0; g < TN_MAX_GROUPS; g++)
    for (uint32_t s = 0; s < c->sequence_count; s++)
      for (uint32_t i = 0; i < each; i++) plan->pages[g * tables + s * each + i] = page_number(c, g, s, i);
  return true;
}

void tn_step_plan_finish(tn_step_plan *plan) {
  free(plan->rows);
  free(plan->case_rows);
  free(plan->logits_rows);
  free(plan->pages);
  *plan = (tn_step_plan){0};
}

/* Adds the next rows of sequence `s`, which stands as number `number` of the batch. */
static void add_sequence(tn_step_plan *plan, uint32_t s, uint32_t number) {
  const tn_case *c = plan->c;
  tn_batch *batch = &plan->batch;
  uint32_t each = tn_case_pages_each(c), left = c->sequences[s].count - plan->done[s];
  uint32_t count = plan->schedule.rows && plan->schedule.rows < left ? plan->schedule.rows : left;
  tn_sequence *sequence = &plan->sequences[number];
  *sequence = (tn_sequence){
      .first_row = batch->row_count, .row_count = count, .kv_length = plan->done[s], .state_read = s, .state_write = s};
  for (uint32_t g = 0; g < TN_MAX_GROUPS; g++) sequence->pages[g] = (g * c->sequence_count + s) * each;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t from = c->sequences[s].first + plan->done[s] + i, t = batch->row_count++;
    plan->rows[t] = c->rows[from];
    plan->rows[t].sequence = number;
    plan->case_rows[t] = from;
    if (plan->rows[t].wants_logits) plan->logits_rows[batch->logits_count++] = t;
  }
  if (sequence->kv_length + count > batch->context) batch->context = sequence->kv_length + count;
  plan->done[s] += count;
}

bool tn_step_plan_next(tn_step_plan *plan) {
  const tn_case *c = plan->c;
  plan->batch = (tn_batch){.size = sizeof plan->batch,
                           .page_count = c->sequence_count * tn_case_pages_each(c) * TN_MAX_GROUPS,
                           .rows = plan->rows,
                           .sequences = plan->sequences,
                           .pages = plan->pages,
                           .logits_rows = plan->logits_rows};
  for (uint32_t s = 0; s < c->sequence_count; s++) {
    if (plan->done[s] == c->sequences[s].count) continue;
    add_sequence(plan, s, plan->batch.sequence_count++);
    if (plan->schedule.alone) break;
  }
  return plan->batch.sequence_count > 0;
}

uint32_t tn_step_rows(const tn_step_plan *plan, const tn_case_value *value) {
  if (value->dims[0] > 0) return (uint32_t)value->dims[0];
  return value->dims[0] == TN_DIM_R ? plan->batch.logits_count : plan->batch.row_count;
}

uint32_t tn_step_case_row(const tn_step_plan *plan, const tn_case_value *value, uint32_t i) {
  if (value->dims[0] > 0) return i;
  return plan->case_rows[value->dims[0] == TN_DIM_R ? plan->logits_rows[i] : i];
}

void tn_step_gather(const tn_step_plan *plan, const tn_case_value *value, uint8_t *to) {
  uint64_t bytes = tn_case_row_bytes(value);
  for (uint32_t i = 0; i < tn_step_rows(plan, value); i++)
    memcpy(to + i * bytes, value->data + tn_step_case_row(plan, value, i) * bytes, bytes);
}

void tn_step_scatter(const tn_step_plan *plan, const tn_case_value *value, const uint8_t *from, uint8_t *results) {
  uint64_t bytes = tn_case_row_bytes(value);
  for (uint32_t i = 0; i < tn_step_rows(plan, value); i++)
    memcpy(results + tn_step_case_row(plan, value, i) * bytes, from + i * bytes, bytes);
}

bool tn_case_results_init(tn_case_results *results, const tn_case *c) {
  *results = (tn_case_results){0};
  for (uint32_t i = 0; i < c->value_count; i++) {
    const tn_case_value *value = &c->values[i];
    if (value->kind != TN_VALUE_OUTPUT) continue;
    results->rows[value->index] = tn_calloc(tn_case_rows(c, value), tn_case_row_bytes(value));
    if (results->rows[value->index]) continue;
    tn_case_results_finish(results);
    return false;
  }
  return true;
}

void tn_case_results_finish(tn_case_results *results) {
  for (uint32_t i = 0; i < TN_CASE_VALUES; i++) free(results->rows[i]);
  *results = (tn_case_results){0};
}
