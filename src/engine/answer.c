#include "engine/answer.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "text/stop.h"
#include "text/tokenizer.h"

/* Bytes of a character that isn't complete yet, in front of the next piece. */
#define HALF_CHARACTER 8u

struct tn_answer {
  tn_decoder decoder; /* tokens to whole characters */
  tn_stop *stop;      /* NULL: no stop strings */
  tn_buf decoded;     /* what the last token gave */
  tn_buf shown;       /* what of it, and of what was held back, can't be part of a stop string */
  bool has_text;
  bool is_stopped;
  int stopped_by; /* index of the stop string, once is_stopped */
};

/* The most text that a token releases: its bytes, each of which may turn out to be invalid and become U+FFFD. */
#define MOST_REPLACED 3u

void tn_vocabulary_init(tn_vocabulary *vocabulary, uint32_t size, const tn_tokenizer *tokenizer) {
  *vocabulary = (tn_vocabulary){.size = size, .tokenizer = tokenizer};
  if (!tokenizer) return;
  vocabulary->end_tokens = tn_tokenizer_ends(tokenizer, &vocabulary->end_count);
  size_t longest = HALF_CHARACTER, count = tn_tokenizer_size(tokenizer);
  for (size_t id = 0; id < count; id++) {
    size_t bytes = tn_tokenizer_token_text(tokenizer, (int32_t)id).bytes;
    if (bytes > longest) longest = bytes;
  }
  vocabulary->longest_piece = longest * MOST_REPLACED;
}

bool tn_vocabulary_ends(const tn_vocabulary *vocabulary, int32_t token) {
  for (size_t i = 0; i < vocabulary->end_count; i++)
    if (vocabulary->end_tokens[i] == token) return true;
  return false;
}

static tn_status create_stop(tn_answer *answer, const char *const *stop, size_t count, size_t piece, tn_error *error) {
  tn_text *strings = tn_calloc(count, sizeof *strings);
  if (!strings) return tn_fail(error, TN_E_MEMORY, "no memory for %zu stop strings", count);
  for (size_t i = 0; i < count; i++) strings[i] = (tn_text){stop[i], strlen(stop[i])};
  tn_status status = tn_stop_create(&answer->stop, strings, count, error);
  free(strings);
  if (status == TN_OK && !tn_stop_reserve(answer->stop, piece))
    status = tn_fail(error, TN_E_MEMORY, "no memory for stop strings");
  return status;
}

tn_status tn_answer_create(const tn_vocabulary *vocabulary, const char *const *stop, size_t stop_count,
                           tn_answer **made, tn_error *error) {
  *made = NULL;
  if (stop_count && !vocabulary->tokenizer)
    return tn_fail(error, TN_E_INVALID, "stop strings need a tokenizer, and the model has none");
  if (stop_count > TN_STOP_MOST)
    return tn_fail(error, TN_E_LIMIT, "%zu stop strings, at most %d are taken", stop_count, TN_STOP_MOST);
  tn_answer *answer = calloc(1, sizeof *answer);
  if (!answer) return tn_fail(error, TN_E_MEMORY, "no memory for an answer's text");
  if (vocabulary->tokenizer) {
    answer->has_text = true;
    tn_decoder_init(&answer->decoder, vocabulary->tokenizer, TN_DECODE_CONTINUES | TN_DECODE_SKIP_SPECIAL);
    size_t piece = vocabulary->longest_piece + HALF_CHARACTER;
    tn_status status = TN_OK;
    if (!tn_decoder_reserve(&answer->decoder, piece) || !tn_buf_reserve(&answer->decoded, piece) ||
        !tn_buf_reserve(&answer->shown, piece + TN_STOP_LONGEST))
      status = tn_fail(error, TN_E_MEMORY, "no memory for an answer's text");
    if (status == TN_OK && stop_count) status = create_stop(answer, stop, stop_count, piece, error);
    if (status != TN_OK) {
      tn_answer_destroy(answer);
      return status;
    }
  }
  *made = answer;
  return TN_OK;
}

void tn_answer_destroy(tn_answer *answer) {
  if (!answer) return;
  if (answer->has_text) tn_decoder_finish(&answer->decoder);
  tn_stop_destroy(answer->stop);
  tn_buf_finish(&answer->decoded);
  tn_buf_finish(&answer->shown);
  free(answer);
}

/* Hands `decoded` through the stop strings. */
static void release(tn_answer *answer, const char **text, size_t *bytes) {
  const tn_buf *from = &answer->decoded;
  if (answer->stop) {
    from = &answer->shown;
    answer->stopped_by =
        tn_stop_push(answer->stop, (tn_text){answer->decoded.data, answer->decoded.size}, &answer->shown);
    answer->is_stopped = answer->stopped_by >= 0;
  }
  *text = from->size ? from->data : "";
  *bytes = from->size;
}

bool tn_answer_put(tn_answer *answer, int32_t token, const char **text, size_t *bytes) {
  *text = "";
  *bytes = 0;
  if (!answer->has_text || answer->is_stopped) return false;
  tn_buf_clear(&answer->decoded);
  tn_buf_clear(&answer->shown);
  tn_decoder_push(&answer->decoder, token, &answer->decoded);
  release(answer, text, bytes);
  return answer->is_stopped;
}

bool tn_answer_flush(tn_answer *answer, const char **text, size_t *bytes) {
  *text = "";
  *bytes = 0;
  if (!answer->has_text || answer->is_stopped) return false;
  tn_buf_clear(&answer->decoded);
  tn_buf_clear(&answer->shown);
  tn_decoder_flush(&answer->decoder, &answer->decoded);
  release(answer, text, bytes);
  if (!answer->stop || answer->is_stopped) return answer->is_stopped;
  tn_stop_flush(answer->stop, &answer->shown);
  *text = answer->shown.size ? answer->shown.data : "";
  *bytes = answer->shown.size;
  return false;
}

int tn_answer_stopped_by(const tn_answer *answer) {
  return answer->is_stopped ? answer->stopped_by : -1;
}
