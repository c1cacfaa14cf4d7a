#include "engine/answer.h"

#include <stdlib.h>
#include "base/error.h"

struct tn_answer {
  const tn_vocabulary *vocabulary;
};

bool tn_vocabulary_ends(const tn_vocabulary *vocabulary, int32_t token) {
  for (size_t i = 0; i < vocabulary->end_count; i++)
    if (vocabulary->end_tokens[i] == token) return true;
  return false;
}

tn_status tn_answer_create(const tn_vocabulary *vocabulary, const char *const *stop, size_t stop_count,
                           tn_answer **answer, tn_error *error) {
  (void)stop;
  *answer = NULL;
  if (stop_count && !vocabulary->tokenizer)
    return tn_fail(error, TN_E_INVALID, "stop strings need a tokenizer, and the model has none");
  *answer = calloc(1, sizeof **answer);
  if (!*answer) return tn_fail(error, TN_E_MEMORY, "no memory for an answer's text");
  (*answer)->vocabulary = vocabulary;
  return TN_OK;
}

void tn_answer_destroy(tn_answer *answer) {
  free(answer);
}

bool tn_answer_put(tn_answer *answer, int32_t token, const char **text, size_t *bytes) {
  (void)answer;
  (void)token;
  *text = "";
  *bytes = 0;
  return false;
}

void tn_answer_flush(tn_answer *answer, const char **text, size_t *bytes) {
  (void)answer;
  *text = "";
  *bytes = 0;
}
