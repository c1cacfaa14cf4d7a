/* tenon eval speculate: what speculation gains on prompts. Each prompt is answered without and with drafts, one after
 * the other so that both see the same machine; the answers must be equal. Printed are speeds and their ratio,
 * acceptance by position, the time of a pass by its rows, and how many tokens were drafted at once. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "cli/draft.h"
#include "engine/engine.h"
#include "tools/bench.h"
#include "tools/speculation.h"

#define MAX_FILE_BYTES ((size_t)256 << 20)
#define MOST_SEQUENCES 64u

typedef struct speculate_tool {
  /* from the command line */
  tn_engine_options engine;
  tn_request_options request;
  tn_cli_texts prompts_given;
  const char *file, *schema_file, *draft_k;
  uint32_t tokens, prompt_count, sequences, repeats;
  bool raw, ignores_end, json;
  /* while running */
  tn_model *model;
  tn_engine *plain, *drafting;
  char *file_text, *schema;
  json_t **prompts; /* texts */
  size_t count, capacity;
  double *ratios; /* [count]: plain time over time with drafts */
  size_t ratio_count;
  double plain_seconds, drafting_seconds;
  uint64_t answered; /* tokens behind each answer's first */
  uint32_t unequal;
} speculate_tool;

/* A text to be gone on with, one that repeats itself, one that quotes, and one of data. */
static const char *const DEFAULT_PROMPTS[] = {
    "Write a short story about a lighthouse keeper.",
    "Write a Python class for a stack with push, pop, peek and is_empty, with a docstring for each method.",
    "Repeat this sentence word for word, three times: The quick brown fox jumps over the lazy dog.",
    "Give a JSON array of ten objects, each with the fields \"name\", \"age\" and \"city\".",
};

/* ---- prompts ---- */

static tn_status add_prompt(speculate_tool *tool, json_t *text, tn_error *error) {
  json_t **slot = json_is_string(text) ? TN_PUSH(tool->prompts, tool->count, tool->capacity) : NULL;
  if (!slot) return tn_fail(error, TN_E_INVALID, "prompt %zu: expected a text in UTF-8", tool->count + 1);
  *slot = json_incref(text);
  return TN_OK;
}

/* A line each: an object with "prompt", or the prompt itself. */
static tn_status read_lines(speculate_tool *tool, tn_error *error) {
  size_t size;
  tn_status status = tn_file_read(tool->file, MAX_FILE_BYTES, &tool->file_text, &size, error);
  char *rest = tool->file_text, *line;
  while (status == TN_OK && (line = strtok_r(rest, "\r\n", &rest))) {
    json_t *object = *line == '{' ? json_loads(line, 0, NULL) : NULL;
    json_t *text = object ? json_incref(json_object_get(object, "prompt")) : json_string(line);
    status = add_prompt(tool, text, error);
    json_decref(text);
    json_decref(object);
  }
  return status;
}

static tn_status read_prompts(speculate_tool *tool, tn_error *error) {
  tn_status status = tool->file ? read_lines(tool, error) : TN_OK;
  for (size_t i = 0; i < tool->prompts_given.count + TN_COUNT(DEFAULT_PROMPTS) && status == TN_OK; i++) {
    bool is_given = i < tool->prompts_given.count;
    if (!is_given && (tool->file || tool->prompts_given.count)) break;
    json_t *text =
        json_string(is_given ? tool->prompts_given.items[i] : DEFAULT_PROMPTS[i - tool->prompts_given.count]);
    status = add_prompt(tool, text, error);
    json_decref(text);
  }
  if (status == TN_OK && !tool->count) return tn_fail(error, TN_E_INVALID, "%s: no prompts", tool->file);
  if (tool->prompt_count && tool->prompt_count < tool->count) {
    /* evenly drawn */
    for (size_t i = 0; i < tool->prompt_count; i++) {
      json_t *text = tool->prompts[i];
      tool->prompts[i] = tool->prompts[i * tool->count / tool->prompt_count];
      tool->prompts[i * tool->count / tool->prompt_count] = text;
    }
    while (tool->count > tool->prompt_count) json_decref(tool->prompts[--tool->count]);
  }
  return status;
}

/* ---- measuring ---- */

static tn_status answer(const speculate_tool *tool, tn_engine *engine, const json_t *prompt, uint64_t seed,
                        tn_decoding *got, tn_error *error) {
  tn_request_options request = tool->request;
  request.seed += seed;
  char *messages = NULL;
  request.max_tokens = tool->tokens;
  request.json_schema = tool->schema;
  request.ignore_eos = tool->ignores_end;
  if (tool->raw) {
    request.prompt = json_string_value(prompt);
  } else {
    json_t *list = json_pack("[{s:s, s:O}]", "role", "user", "content", prompt);
    messages = list ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    if (!messages) return tn_fail(error, TN_E_MEMORY, "out of memory for a prompt");
    request.messages_json = messages;
  }
  tn_status status = tn_decode_together(engine, &request, tool->sequences, got, error);
  free(messages);
  return status;
}

static void compare(speculate_tool *tool, const tn_decoding *plain, const tn_decoding *drafting) {
  double plain_seconds = 0, drafting_seconds = 0;
  for (uint32_t i = 0; i < tool->sequences; i++) {
    bool is_equal = plain[i].count == drafting[i].count &&
                    (!plain[i].count || !memcmp(plain[i].tokens, drafting[i].tokens, plain[i].count * sizeof(int32_t)));
    tool->unequal += !is_equal;
    /* answers of other lengths, as synthetic acceptance gives, count by their tokens */
    double tokens = plain[i].count > 1 ? plain[i].count - 1 : 0,
           drafted = drafting[i].count > 1 ? drafting[i].count - 1 : 0;
    if (!tokens || !drafted) continue;
    plain_seconds += plain[i].seconds;
    drafting_seconds += drafting[i].seconds * tokens / drafted;
    tool->answered += (uint64_t)tokens;
  }
  tool->plain_seconds += plain_seconds;
  tool->drafting_seconds += drafting_seconds;
  if (drafting_seconds > 0) tool->ratios[tool->ratio_count++] = plain_seconds / drafting_seconds;
}

static tn_status measure_prompt(speculate_tool *tool, size_t number, uint32_t repeat, bool is_counted,
                                tn_error *error) {
  tn_decoding plain[MOST_SEQUENCES] = {{0}}, drafting[MOST_SEQUENCES] = {{0}};
  uint64_t seed = (repeat * tool->count + number) * tool->sequences;
  tn_status status = answer(tool, tool->plain, tool->prompts[number], seed, plain, error);
  if (status == TN_OK) status = answer(tool, tool->drafting, tool->prompts[number], seed, drafting, error);
  if (status == TN_OK && is_counted) compare(tool, plain, drafting);
  for (uint32_t i = 0; i < tool->sequences; i++) {
    free(plain[i].tokens);
    free(drafting[i].tokens);
  }
  return status;
}

static tn_status measure(speculate_tool *tool, tn_error *error) {
  tool->ratios = tn_calloc(tool->count * tool->repeats, sizeof *tool->ratios);
  if (!tool->ratios) return tn_fail(error, TN_E_MEMORY, "out of memory");
  tn_status status = measure_prompt(tool, 0, 0, false, error);
  for (uint32_t r = 0; r < tool->repeats; r++)
    for (size_t i = 0; i < tool->count && status == TN_OK; i++) {
      status = measure_prompt(tool, i, r, true, error);
      if (status == TN_OK && tool->ratio_count)
        fprintf(stderr, "prompt %zu of %zu: speed-up %.2f\n", i + 1, tool->count, tool->ratios[tool->ratio_count - 1]);
    }
  if (status == TN_OK && !tool->ratio_count)
    status = tn_fail(error, TN_E_INVALID, "no answer has two tokens: nothing to measure");
  return status;
}

static tn_status open_all(speculate_tool *tool, const char *path, tn_error *error) {
  size_t size;
  tn_status status = tn_cli_read_draft_k(tool->draft_k, &tool->engine.draft_k, error);
  tn_engine_options plain = tool->engine;
  plain.draft = plain.draft_device = NULL;
  plain.draft_k = 0;
  plain.draft_accept = 0;
  if (status == TN_OK && tool->schema_file)
    status = tn_file_read(tool->schema_file, MAX_FILE_BYTES, &tool->schema, &size, error);
  if (status == TN_OK) status = read_prompts(tool, error);
  if (status == TN_OK) status = tn_model_open(path, &tool->model, error);
  if (status == TN_OK) status = tn_engine_create(tool->model, &plain, &tool->plain, error);
  if (status == TN_OK) status = tn_engine_create(tool->model, &tool->engine, &tool->drafting, error);
  return status;
}

static void close_all(speculate_tool *tool) {
  tn_engine_destroy(tool->plain);
  tn_engine_destroy(tool->drafting);
  tn_model_close(tool->model);
  for (size_t i = 0; i < tool->count; i++) json_decref(tool->prompts[i]);
  free(tool->prompts);
  free(tool->ratios);
  free(tool->file_text);
  free(tool->schema);
}

/* ---- results ---- */

/* Drafts of k tokens of a sequence, from those of at least so many. */
static uint64_t drafts_of(const tn_engine_info *info, uint32_t k) {
  return info->drafted_at[k - 1] - (k < TN_DRAFT_POSITIONS ? info->drafted_at[k] : 0);
}

static json_t *acceptance_json(const tn_engine_info *info) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < TN_DRAFT_POSITIONS && info->drafted_at[i]; i++)
    json_array_append_new(list, json_pack("{s:i, s:I, s:I, s:f, s:I}", "position", (int)i, "drafted",
                                          (json_int_t)info->drafted_at[i], "accepted", (json_int_t)info->accepted_at[i],
                                          "rate", (double)info->accepted_at[i] / (double)info->drafted_at[i],
                                          "drafts_of_this_length", (json_int_t)drafts_of(info, i + 1)));
  return list;
}

static json_t *passes_json(const tn_engine_costs *costs) {
  json_t *list = json_array();
  for (uint32_t rows = 1; rows <= TN_MAX_LOGITS_ROWS; rows++)
    if (costs->passes[rows])
      json_array_append_new(list, json_pack("{s:i, s:f, s:i}", "rows", (int)rows, "ms", costs->pass_ns[rows] / 1e6,
                                            "passes", (int)costs->passes[rows]));
  return list;
}

static json_t *as_json(speculate_tool *tool, const char *path) {
  tn_engine_info info = TN_ENGINE_INFO;
  tn_engine_costs costs;
  tn_engine_describe(tool->drafting, &info);
  tn_engine_measured(tool->drafting, &costs);
  tn_bench_spread spread = tn_bench_spread_of(tool->ratios, tool->ratio_count);
  double speed = (double)tool->answered * tool->sequences;
  return json_pack(
      "{s:s, s:s, s:s, s:i, s:i, s:I, s:b, s:f, s:f, s:f, s:{s:f, s:f, s:f}, s:I, s:I, s:I, s:I, s:f, s:o, s:o}",
      "model", path, "draft", tool->engine.draft, "draft_k", tool->draft_k ? tool->draft_k : "auto", "prompts",
      (int)tool->count, "sequences", (int)tool->sequences, "tokens", (json_int_t)tool->answered, "equal",
      tool->unequal == 0, "plain_tokens_per_s", speed / tool->plain_seconds, "tokens_per_s",
      speed / tool->drafting_seconds, "speed_up", tool->plain_seconds / tool->drafting_seconds, "speed_up_by_prompt",
      "min", spread.minimum, "median", spread.median, "max", spread.maximum, "drafted", (json_int_t)info.drafted_tokens,
      "accepted", (json_int_t)info.accepted_tokens, "steps", (json_int_t)info.steps, "steps_with_drafts",
      (json_int_t)info.draft_steps, "draft_round_ms", costs.round_ns / 1e6, "acceptance", acceptance_json(&info),
      "passes", passes_json(&costs));
}

static void print_text(speculate_tool *tool) {
  tn_engine_info info = TN_ENGINE_INFO;
  tn_engine_costs costs;
  tn_engine_describe(tool->drafting, &info);
  tn_engine_measured(tool->drafting, &costs);
  tn_bench_spread spread = tn_bench_spread_of(tool->ratios, tool->ratio_count);
  double speed = (double)tool->answered * tool->sequences, drafted = (double)info.drafted_tokens;
  printf("%zu prompts, %llu tokens, answers %s\n", tool->count, (unsigned long long)tool->answered,
         tool->engine.draft_accept > 0 ? "by synthetic acceptance"
         : tool->unequal               ? "NOT equal to those without drafts"
                                       : "equal to those without drafts");
  printf(
      "plain       %8.1f tokens/s\nwith drafts %8.1f tokens/s\nspeed-up    %8.2f (by prompt: %.2f to %.2f, median "
      "%.2f)\n",
      speed / tool->plain_seconds, speed / tool->drafting_seconds, tool->plain_seconds / tool->drafting_seconds,
      spread.minimum, spread.maximum, spread.median);
  printf("%llu of %llu steps had drafts; %llu tokens drafted, %llu accepted (%.0f %%)\n",
         (unsigned long long)info.draft_steps, (unsigned long long)info.steps, (unsigned long long)info.drafted_tokens,
         (unsigned long long)info.accepted_tokens, drafted > 0 ? 100.0 * (double)info.accepted_tokens / drafted : 0);
  printf("\nposition  drafted  accepted       k  drafts of k\n");
  for (uint32_t i = 0; i < TN_DRAFT_POSITIONS && info.drafted_at[i]; i++)
    printf("%8u %8llu    %5.1f %%  %6u  %11llu\n", i + 1, (unsigned long long)info.drafted_at[i],
           100.0 * (double)info.accepted_at[i] / (double)info.drafted_at[i], i + 1,
           (unsigned long long)drafts_of(&info, i + 1));
  printf("\n    rows  ms a pass  relative   passes\n");
  for (uint32_t rows = 1; rows <= TN_MAX_LOGITS_ROWS; rows++)
    if (costs.passes[rows])
      printf("%8u %10.3f %9.2f %8u\n", rows, costs.pass_ns[rows] / 1e6,
             costs.passes[1] ? costs.pass_ns[rows] / costs.pass_ns[1] : 0, costs.passes[rows]);
  if (costs.round_ns > 0) printf("a round of drafting: %.3f ms\n", costs.round_ns / 1e6);
}

static int print_result(speculate_tool *tool, const char *path) {
  if (tool->json) {
    json_t *all = as_json(tool, path);
    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
  } else {
    print_text(tool);
  }
  int result = tn_cli_finish_output();
  if (!tool->unequal || tool->engine.draft_accept > 0) return result;
  return tn_cli_fail("answers with drafts differ from those without");
}

int tn_eval_speculate(int argc, char **argv) {
  speculate_tool tool = {
      .engine = TN_ENGINE_OPTIONS, .request = TN_REQUEST_OPTIONS, .tokens = 128, .sequences = 1, .repeats = 1};
  const tn_cli_option options[] = {
      TN_DRAFT_OPTIONS(tool.engine, tool.draft_k),
      {"prompt", 'p', TN_CLI_TEXTS, &tool.prompts_given, "TEXT", "a prompt; may be given several times", 0, 0},
      {"file", 'f', TN_CLI_TEXT, &tool.file, "F", "prompts, a line each: text, or an object with \"prompt\"", 0, 0},
      {"prompts", 0, TN_CLI_U32, &tool.prompt_count, "N", "of them at most", 1, 1 << 20},
      {"max-tokens", 'n', TN_CLI_U32, &tool.tokens, "N", "tokens of an answer at most (128)", 2, 1 << 20},
      {"sequences", 's', TN_CLI_U32, &tool.sequences, "N", "answers to each prompt at once (1)", 1, MOST_SEQUENCES},
      {"repeats", 'r', TN_CLI_U32, &tool.repeats, "N", "of everything (1)", 1, 1000},
      {"raw", 0, TN_CLI_FLAG, &tool.raw, NULL, "prompts as they are, without the chat template", 0, 0},
      {"schema", 0, TN_CLI_TEXT, &tool.schema_file, "F", "answers are JSON valid under the schema in file F", 0, 0},
      {"temp", 0, TN_CLI_F32, &tool.request.temperature, "X", "temperature (0)", 0, 100},
      {"seed", 0, TN_CLI_U64, &tool.request.seed, "N", "seed of the draws", 0, 0},
      {"ignore-eos", 0, TN_CLI_FLAG, &tool.ignores_end, NULL, "answers don't end before their last token", 0, 0},
      {"device", 0, TN_CLI_TEXT, &tool.engine.device, "D", "device that runs the model", 0, 0},
      TN_PLACE_OPTION(tool.engine.place),
      {"threads", 't', TN_CLI_U32, &tool.engine.threads, "N", "threads of the cpu device", 1, 256},
      {"ctx", 0, TN_CLI_U32, &tool.engine.context, "N", "context; default: the model's", 1, 1 << 28},
      {"kv", 0, TN_CLI_TEXT, &tool.engine.kv, "TYPE", "KV memory in f16 (default), bf16, f32 or int8", 0, 0},
      {"activations", 0, TN_CLI_TEXT, &tool.engine.activations, "MODE", "auto (default) or float", 0, 0},
      {"json", 0, TN_CLI_FLAG, &tool.json, NULL, "the result as JSON", 0, 0},
  };
  const tn_cli_command command = {"eval speculate",
                                  "MODEL --draft M [options]",
                                  "What drafting tokens gains, and whether the answers stay the same.",
                                  options,
                                  TN_COUNT(options),
                                  1,
                                  1};
  const char *path;
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, &path, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  if (!tool.engine.draft) {
    fprintf(stderr, "tenon eval speculate: give a drafter with --draft\n");
    return 2;
  }
  tool.engine.max_sequences = tool.sequences;
  tn_error error = {0};
  tn_status status = open_all(&tool, path, &error);
  if (status == TN_OK) status = measure(&tool, &error);
  int result = status == TN_OK ? print_result(&tool, path) : tn_cli_fail(error.message);
  close_all(&tool);
  return result;
}
