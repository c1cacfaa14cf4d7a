/* The passes on the graphs of real (tiny) models: what is merged and fused, what memory is planned, that programs are
 * sound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/passes.h"
#include "model/model.h"

typedef struct fake_devices {
  uint32_t count;
  uint32_t missing;   /* opcode device 0 does not have; 0: none */
  bool float_experts; /* experts are multiplied by floats only */
} fake_devices;

static bool supports(void *context, uint32_t device, const tn_op_query *query) {
  const fake_devices *fake = context;
  char why[100];
  if (device == 0 && query->opcode == fake->missing) return false;
  if (query->opcode == TN_OP_MOE_LINEAR && fake->float_experts && query->inputs[0].dtype != TN_F32) return false;
  return tn_shape_check(query, why, sizeof why) == TN_OK;
}

static tn_graph *open_graph(const char *name, tn_model **model) {
  char path[300];
  tn_error error = {0};
  tn_graph *graph = NULL;
  snprintf(path, sizeof path, "%s/golden/%s/model.gguf", TEST_DATA, name);
  if (tn_model_open(path, model, &error) != TN_OK) fail_msg("%s", error.message);
  const tn_model_form form = {.context = 256, .kv_dtype = TN_F16};
  if (tn_model_build(*model, &form, &graph, &error) != TN_OK) fail_msg("%s", error.message);
  graph->max_rows = 32;
  graph->max_sequences = 4;
  graph->max_logits_rows = 8;
  graph->max_context = 256;
  return graph;
}

static uint32_t count_ops(const tn_graph *graph, uint32_t opcode) {
  uint32_t count = 0;
  for (size_t i = 0; i < graph->op_count; i++) count += graph->ops[i].opcode == opcode;
  return count;
}

static void compile(tn_graph *graph, fake_devices *fake, const char *passes, tn_plan *plan) {
  tn_error error = {0};
  const tn_place_target target = {
      .context = fake, .device_count = fake->count, .supports = supports, .fallback = fake->count - 1};
  const tn_pass_options options = {.quantise_activations = true, .passes = passes};
  if (tn_compile_graph(graph, &target, &options, plan, &error) != TN_OK) fail_msg("%s", error.message);
}

static void llama_is_merged_and_fused(void **state) {
  (void)state;
  tn_model *model;
  tn_plan plan;
  tn_graph *graph = open_graph("llama", &model);
  uint32_t layers = tn_model_hyper(model)->layers;
  assert_int_equal(count_ops(graph, TN_OP_LINEAR), 7 * layers + 1);
  compile(graph, &(fake_devices){.count = 1}, NULL, &plan);
  /* qkv, o, gate+up, down a layer, and the head */
  assert_int_equal(count_ops(graph, TN_OP_LINEAR), 4 * layers + 1);
  assert_int_equal(count_ops(graph, TN_OP_ADD), 0);
  assert_int_equal(count_ops(graph, TN_OP_ACTIVATION), 0);
  assert_int_equal(count_ops(graph, TN_OP_ROPE), layers); /* keys are turned by kv_write */
  assert_int_equal(count_ops(graph, TN_OP_QUANTISE), 0);  /* weights are f32 */
  assert_int_equal(plan.partition_count, 1);
  assert_int_equal(plan.partitions[0].program->state_count, layers);
  tn_plan_destroy(&plan);
  tn_graph_destroy(graph);
  tn_model_close(model);
}

/* The experts are in MXFP4, everything else in floats. */
static void experts_get_what_the_device_takes(void **state) {
  (void)state;
  for (uint32_t floats = 0; floats < 2; floats++) {
    tn_model *model;
    tn_plan plan;
    tn_graph *graph = open_graph("gptoss-mxfp4", &model);
    uint32_t layers = tn_model_hyper(model)->layers;
    compile(graph, &(fake_devices){.count = 1, .float_experts = floats}, NULL, &plan);
    assert_int_equal(count_ops(graph, TN_OP_QUANTISE), floats ? 0 : 2 * layers);
    for (size_t i = 0; i < graph->op_count; i++)
      if (graph->ops[i].opcode == TN_OP_MOE_LINEAR)
        assert_int_equal(graph->values[graph->ops[i].inputs[0]].dtype, floats ? TN_F32 : TN_Q8A);
    tn_plan_destroy(&plan);
    tn_graph_destroy(graph);
    tn_model_close(model);
  }
}

static void gpt2_parts_of_qkv_become_one_again(void **state) {
  (void)state;
  tn_model *model;
  tn_plan plan;
  tn_graph *graph = open_graph("gpt2", &model);
  uint32_t layers = tn_model_hyper(model)->layers;
  compile(graph, &(fake_devices){.count = 1}, NULL, &plan);
  assert_int_equal(count_ops(graph, TN_OP_LINEAR), 4 * layers + 1);
  assert_int_equal(count_ops(graph, TN_OP_ACTIVATION), 0);
  tn_plan_destroy(&plan);
  tn_graph_destroy(graph);
  tn_model_close(model);
}

static void no_passes_change_nothing(void **state) {
  (void)state;
  tn_model *model;
  tn_plan plan;
  tn_graph *graph = open_graph("llama", &model);
  size_t before = graph->op_count;
  compile(graph, &(fake_devices){.count = 1}, "none", &plan);
  assert_int_equal(graph->op_count, before);
  tn_plan_destroy(&plan);
  tn_graph_destroy(graph);
  tn_model_close(model);
}

static void missing_ops_fall_back(void **state) {
  (void)state;
  tn_model *model;
  tn_plan plan;
  tn_graph *graph = open_graph("llama", &model);
  uint32_t layers = tn_model_hyper(model)->layers;
  compile(graph, &(fake_devices){.count = 2, .missing = TN_OP_ATTENTION}, NULL, &plan);
  /* attention and its kv_write go to device 1 together, and between them nothing else */
  assert_int_equal(plan.partition_count, 2 * layers + 1);
  for (size_t i = 0; i < plan.partition_count; i++) {
    assert_int_equal(plan.partitions[i].device, i % 2);
    assert_int_equal(plan.partitions[i].program->state_count, i % 2);
  }
  tn_plan_destroy(&plan);
  tn_graph_destroy(graph);
  tn_model_close(model);
}

/* No two values that are alive at the same time overlap, but for an in-place pair. */
/* With a shape no T is left, nothing touches pages, and what comes from the host and goes to it are bindings. */
static void fixed_shapes_have_no_pages(void **state) {
  (void)state;
  static const uint32_t gone[] = {TN_OP_ROPE_TABLE, TN_OP_KV_WRITE, TN_OP_ATTENTION};
  tn_model *model;
  tn_graph *graph = open_graph("llama", &model);
  uint32_t layers = count_ops(graph, TN_OP_ATTENTION);
  fake_devices fake = {.count = 1};
  const tn_place_target target = {
      .context = &fake, .device_count = fake.count, .supports = supports, .fallback = fake.count - 1};
  const tn_pass_options options = {.shape = {32, 128}};
  tn_plan plan;
  tn_error error;
  graph->max_rows = 512; /* the shape wins */
  if (tn_compile_graph(graph, &target, &options, &plan, &error) != TN_OK) fail_msg("%s", error.message);
  for (size_t i = 0; i < TN_COUNT(gone); i++) assert_int_equal(count_ops(graph, gone[i]), 0);
  assert_int_equal(count_ops(graph, TN_OP_ATTENTION_MASKED), layers);
  assert_int_equal(count_ops(graph, TN_OP_KV_COLUMNS), layers);
  for (tn_ref ref = 0; ref < graph->value_count; ref++) assert_int_not_equal(graph->values[ref].dims[0], TN_DIM_T);
  assert_int_equal(plan.partition_count, 1);
  const tn_program *program = plan.partitions[0].program;
  assert_int_equal(program->max_rows, 32);
  assert_int_equal(program->input_count, 2);               /* one mask and one rope table for all layers */
  assert_int_equal(program->output_count, 2 * layers + 1); /* keys, values, logits */
  tn_plan_destroy(&plan);
  tn_graph_destroy(graph);
  tn_model_close(model);
}

static void memory_plan_keeps_live_values_apart(void **state) {
  (void)state;
  tn_model *model;
  tn_graph *graph = open_graph("llama", &model);
  bool *border = calloc(graph->value_count, sizeof *border);
  uint64_t *offsets = calloc(graph->value_count, sizeof *offsets);
  uint64_t peak = tn_plan_memory(graph, 0, graph->op_count, border, false, offsets);
  for (size_t i = 0; i < graph->op_count; i++) {
    const tn_graph_op *op = graph->ops + i;
    for (uint32_t k = 0; k < op->output_count; k++) {
      tn_ref out = op->outputs[k];
      uint64_t bytes = 32u * tn_row_bytes(graph->values[out].dtype, tn_graph_cols(graph, out));
      if (graph->values[out].dims[0] == TN_DIM_R) bytes /= 4;
      assert_true(offsets[out] + bytes <= peak);
      for (uint32_t j = 0; j < op->input_count; j++) {
        tn_ref in = op->inputs[j];
        if (in == TN_NO_VALUE || graph->values[in].kind != TN_VALUE_SCRATCH) continue;
        assert_true(offsets[in] >= offsets[out] + bytes || offsets[out] >= offsets[in] + 1);
        assert_int_not_equal(offsets[in], offsets[out]);
      }
    }
  }
  uint64_t in_place = tn_plan_memory(graph, 0, graph->op_count, border, true, offsets);
  assert_true(in_place <= peak);
  free(border);
  free(offsets);
  tn_graph_destroy(graph);
  tn_model_close(model);
}

static void unknown_pass_is_refused(void **state) {
  (void)state;
  tn_model *model;
  tn_plan plan;
  tn_error error = {0};
  fake_devices fake = {.count = 1};
  tn_graph *graph = open_graph("llama", &model);
  const tn_place_target target = {.context = &fake, .device_count = 1, .supports = supports, .fallback = 0};
  const tn_pass_options options = {.passes = "merge,fuze"};
  assert_int_equal(tn_compile_graph(graph, &target, &options, &plan, &error), TN_E_INVALID);
  assert_non_null(strstr(error.message, "fuze"));
  tn_graph_destroy(graph);
  tn_model_close(model);
}

/* Every byte of a program flipped: it is refused or still sound, and never read outside. */
static void altered_programs_are_refused(void **state) {
  (void)state;
  tn_model *model;
  tn_plan plan;
  char why[200];
  tn_graph *graph = open_graph("llama", &model);
  compile(graph, &(fake_devices){.count = 1}, NULL, &plan);
  const tn_program *program = plan.partitions[0].program;
  unsigned char *copy = malloc(program->bytes);
  uint32_t refused = 0;
  for (uint32_t i = 0; i < program->bytes; i++) {
    memcpy(copy, program, program->bytes);
    copy[i] ^= 0x80;
    refused += tn_program_check(copy, program->bytes, why, sizeof why) != TN_OK;
  }
  assert_true(refused > program->bytes / 4);
  for (uint32_t n = 0; n < program->bytes; n += 7) {
    memcpy(copy, program, n);
    assert_int_equal(tn_program_check(copy, n, why, sizeof why), TN_E_FORMAT);
  }
  free(copy);
  tn_plan_destroy(&plan);
  tn_graph_destroy(graph);
  tn_model_close(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(llama_is_merged_and_fused),
      cmocka_unit_test(experts_get_what_the_device_takes),
      cmocka_unit_test(gpt2_parts_of_qkv_become_one_again),
      cmocka_unit_test(no_passes_change_nothing),
      cmocka_unit_test(missing_ops_fall_back),
      cmocka_unit_test(fixed_shapes_have_no_pages),
      cmocka_unit_test(memory_plan_keeps_live_values_apart),
      cmocka_unit_test(unknown_pass_is_refused),
      cmocka_unit_test(altered_programs_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
