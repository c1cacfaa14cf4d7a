/* tenon eval: quality. `eval perplexity` measures how well a model predicts a text.
 *
 * Method: the text is tokenised once and cut into chunks of --ctx ids, the rest dropped. Each chunk is run alone in an
 * empty cache (where the model begins texts with BOS, the chunk's first id is replaced by it); scored are the
 * predictions of the second half, from half + 1 on. Perplexity = exp(mean negative log-likelihood). The same method as
 * llama.cpp's llama-perplexity, so figures compare. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "engine/context.h"
#include "tools/runner_tool.h"
#include "tools/speculation.h"

#define MAX_TEXT_BYTES ((size_t)1 << 30)

typedef struct perplexity_tool {
  tn_runner_tool runner;
  const char *file;
  uint32_t context, chunks;
  uint64_t bytes;
  bool json;
  /* while running */
  const int32_t *ids; /* of the current chunk */
  double sum, sum_squares;
  uint64_t scored;
} perplexity_tool;

/* -log softmax(logits)[target] */
static double negative_log_likelihood(const float *logits, uint32_t vocabulary, int32_t target) {
  float largest = logits[0];
  for (uint32_t i = 1; i < vocabulary; i++) largest = logits[i] > largest ? logits[i] : largest;
  double sum = 0;
  for (uint32_t i = 0; i < vocabulary; i++) sum += exp((double)(logits[i] - largest));
  return log(sum) - (double)(logits[target] - largest);
}

static tn_status score(void *user, uint32_t position, const float *logits, tn_error *error) {
  perplexity_tool *tool = user;
  if (position + 1 >= tool->context) return TN_OK;
  double nll =
      negative_log_likelihood(logits, tn_runner_describe(tool->runner.runner)->vocabulary, tool->ids[position + 1]);
  if (!isfinite(nll)) return tn_fail(error, TN_E_INTERNAL, "the logits at position %u are not finite", position);
  tool->sum += nll;
  tool->sum_squares += nll * nll;
  tool->scored++;
  return TN_OK;
}

static tn_status run_chunk(perplexity_tool *tool, int32_t *ids, int32_t bos, tn_error *error) {
  tn_context context;
  const tn_kv_options options = {.prefix_cache = false};
  int32_t first = ids[0];
  if (bos >= 0) ids[0] = bos;
  tool->ids = ids;
  tn_status status = tn_context_init(&context, tool->runner.runner, &options, error);
  if (status == TN_OK) {
    status = tn_context_feed(&context, ids, tool->context, tool->runner.chunk, tool->context / 2, score, tool, error);
    tn_context_finish(&context);
  }
  ids[0] = first;
  return status;
}

/* The BOS id that the model puts in front of every text, or -1. */
static int32_t bos_of(const tn_model *model) {
  int32_t *ids = NULL, bos = -1;
  size_t count = 0;
  if (tn_tokenize(model, "", 0, 0, &ids, &count, NULL) == TN_OK && count == 1) bos = ids[0];
  tn_free(ids);
  return bos;
}

static tn_status measure(perplexity_tool *tool, tn_error *error) {
  char *text;
  size_t size, count = 0;
  int32_t *ids = NULL;
  tn_status status = tn_file_read(tool->file, MAX_TEXT_BYTES, &text, &size, error);
  if (status != TN_OK) return status;
  if (tool->bytes && tool->bytes < size) size = (size_t)tool->bytes;
  status = tn_tokenize(tool->runner.model, text, size, 0, &ids, &count, error);
  free(text);
  size_t chunks = count / tool->context;
  if (tool->chunks && tool->chunks < chunks) chunks = tool->chunks;
  if (status == TN_OK && !chunks)
    status = tn_fail(error, TN_E_INVALID, "%s: %zu tokens, expected at least one chunk of %u", tool->file, count,
                     tool->context);
  int32_t bos = bos_of(tool->runner.model);
  for (size_t i = 0; i < chunks && status == TN_OK; i++) {
    status = run_chunk(tool, ids + i * tool->context, bos, error);
    if (status == TN_OK)
      fprintf(stderr, "chunk %zu of %zu: perplexity %.4f\n", i + 1, chunks, exp(tool->sum / (double)tool->scored));
  }
  tn_free(ids);
  return status;
}

static int print_result(const perplexity_tool *tool) {
  double n = (double)tool->scored, mean = tool->sum / n;
  double variance = n > 1 ? (tool->sum_squares / n - mean * mean) * n / (n - 1) : 0;
  double perplexity = exp(mean), error = perplexity * sqrt(variance > 0 ? variance / n : 0);
  if (tool->json) {
    json_t *result = json_pack("{s:f, s:f, s:I, s:i}", "perplexity", perplexity, "standard_error", error, "predictions",
                               (json_int_t)tool->scored, "context", (int)tool->context);
    json_dumpf(result, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(result);
  } else {
    printf("perplexity %.4f +- %.4f over %llu predictions\n", perplexity, error, (unsigned long long)tool->scored);
  }
  return tn_cli_finish_output();
}

static int eval_perplexity(int argc, char **argv) {
  perplexity_tool tool = {.context = 512};
  const tn_cli_option options[] = {
      {"file", 'f', TN_CLI_TEXT, &tool.file, "F", "the text", 0, 0},
      {"ctx", 0, TN_CLI_U32, &tool.context, "N", "ids in a chunk (512)", 4, 1 << 20},
      {"chunks", 0, TN_CLI_U32, &tool.chunks, "N", "chunks at most", 1, 1 << 30},
      {"bytes", 0, TN_CLI_U64, &tool.bytes, "N", "only the first N bytes of the text", 1, 1e15},
      {"json", 0, TN_CLI_FLAG, &tool.json, NULL, "the result as JSON", 0, 0},
      TN_RUNNER_TOOL_OPTIONS(tool.runner),
  };
  const tn_cli_command command = {"eval perplexity",
                                  "MODEL --file F [options]",
                                  "How well the model predicts a text.",
                                  options,
                                  TN_COUNT(options),
                                  1,
                                  1};
  const char *path;
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, &path, &count);
  if (parsed != TN_CLI_GO) return tn_cli_exit(parsed);
  if (!tool.file) {
    fprintf(stderr, "tenon eval perplexity: give the text with --file\n");
    return 2;
  }
  tn_error error = {0};
  tn_status status = tn_runner_tool_open(&tool.runner, path, tool.context, &error);
  if (status == TN_OK) status = measure(&tool, &error);
  int result = status == TN_OK ? print_result(&tool) : tn_cli_fail(error.message);
  tn_runner_tool_close(&tool.runner);
  return result;
}

int tn_command_eval(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "perplexity")) return eval_perplexity(argc - 1, argv + 1);
  if (argc > 1 && !strcmp(argv[1], "speculate")) return tn_eval_speculate(argc - 1, argv + 1);
  const tn_cli_command command = {"eval",
                                  "perplexity MODEL --file F, or speculate MODEL --draft M [options]",
                                  "Measures quality, and what speculation gains; see tenon eval perplexity --help.",
                                  NULL,
                                  0,
                                  0,
                                  0};
  size_t count;
  tn_cli_result parsed = tn_cli_parse(&command, argc, argv, NULL, &count);
  if (parsed == TN_CLI_GO) fprintf(stderr, "tenon eval: what to measure? perplexity or speculate\n");
  return parsed == TN_CLI_DONE ? 0 : 2;
}
