#include "engine/constraint.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "engine/parts.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer.h"

struct tn_constraint {
  const tn_vocabulary *vocabulary;
  tn_grammar_vocab *trie; /* the engine's */
  tn_grammar_matcher *matcher;
  uint32_t *mask;
  bool has_mask; /* `mask` is that of where the grammar stands */
  uint32_t token_count;
};

tn_status tn_constraints_init(tn_constraints *constraints, const tn_vocabulary *vocabulary, tn_error *error) {
  *constraints = (tn_constraints){.vocabulary = vocabulary, .lock = tn_mutex_create()};
  return constraints->lock ? TN_OK : tn_fail(error, TN_E_MEMORY, "no memory for an engine");
}

void tn_constraints_finish(tn_constraints *constraints) {
  tn_grammar_vocab_release(constraints->trie);
  tn_mutex_destroy(constraints->lock);
  *constraints = (tn_constraints){0};
}

/* ---- the trie of the vocabulary ---- */

/* Tokens that the model can give: those of the tokenizer within the rows of the logits. */
static uint32_t count_tokens(const tn_vocabulary *vocabulary) {
  size_t count = tn_tokenizer_size(vocabulary->tokenizer);
  return count < vocabulary->size ? (uint32_t)count : vocabulary->size;
}

static tn_status make_trie(const tn_vocabulary *vocabulary, tn_grammar_vocab **trie, tn_error *error) {
  uint32_t count = count_tokens(vocabulary), end_count = 0;
  tn_grammar_token *tokens = tn_calloc(count, sizeof *tokens);
  size_t *offsets = tn_calloc((size_t)count + 1, sizeof *offsets);
  uint32_t *ends = tn_calloc(vocabulary->end_count, sizeof *ends);
  tn_buf bytes;
  tn_buf_init(&bytes);
  bool complete = tokens && offsets && ends;
  for (uint32_t id = 0; complete && id < count; id++) {
    complete = tn_tokenizer_token_bytes(vocabulary->tokenizer, (int32_t)id, &bytes);
    offsets[id + 1] = bytes.size;
  }
  tn_status status = complete ? TN_OK : tn_fail(error, TN_E_MEMORY, "no memory for the vocabulary of a grammar");
  if (complete) {
    for (uint32_t id = 0; id < count; id++)
      tokens[id] =
          (tn_grammar_token){bytes.data ? bytes.data + offsets[id] : "", (uint32_t)(offsets[id + 1] - offsets[id]),
                             tn_tokenizer_is_special(vocabulary->tokenizer, (int32_t)id)};
    for (size_t i = 0; i < vocabulary->end_count; i++)
      if ((uint32_t)vocabulary->end_tokens[i] < count) ends[end_count++] = (uint32_t)vocabulary->end_tokens[i];
    status = tn_grammar_vocab_create(trie, tokens, count, ends, end_count, error);
  }
  tn_buf_finish(&bytes);
  free(tokens);
  free(offsets);
  free(ends);
  return status;
}

static tn_status get_trie(tn_constraints *constraints, tn_grammar_vocab **trie, tn_error *error) {
  tn_mutex_lock(constraints->lock);
  tn_status status = TN_OK;
  if (!constraints->trie) status = make_trie(constraints->vocabulary, &constraints->trie, error);
  *trie = constraints->trie;
  tn_mutex_unlock(constraints->lock);
  return status;
}

/* ---- what a request asks for ---- */

static tn_status compile_choices(const tn_request_options *options, tn_grammar **grammar, tn_error *error) {
  tn_grammar_text *choices = tn_calloc(options->choice_count, sizeof *choices);
  if (!choices) return tn_fail(error, TN_E_MEMORY, "no memory for %zu choices", options->choice_count);
  for (size_t i = 0; i < options->choice_count; i++)
    choices[i] = (tn_grammar_text){options->choices[i], strlen(options->choices[i])};
  tn_status status = tn_grammar_from_choices(grammar, choices, options->choice_count, error);
  free(choices);
  return status;
}

/* Messages begin with the option's name. */
static tn_status compile(const tn_request_options *options, tn_grammar **grammar, tn_error *error) {
  tn_status status;
  const char *name = "choices";
  if (options->json_schema) {
    name = "json_schema";
    status = tn_grammar_from_schema(grammar, options->json_schema, strlen(options->json_schema), error);
  } else if (options->grammar) {
    name = "grammar";
    status = tn_grammar_from_gbnf(grammar, options->grammar, strlen(options->grammar), error);
  } else if (options->pattern) {
    name = "pattern";
    status = tn_grammar_from_regex(grammar, options->pattern, strlen(options->pattern), error);
  } else {
    status = compile_choices(options, grammar, error);
  }
  if (status != TN_OK) tn_error_prefix(error, "%s", name);
  return status;
}

static tn_status build(tn_constraint *constraint, tn_constraints *constraints, tn_grammar *grammar, tn_error *error) {
  tn_status status = get_trie(constraints, &constraint->trie, error);
  if (status != TN_OK) return status;
  constraint->vocabulary = constraints->vocabulary;
  constraint->token_count = count_tokens(constraints->vocabulary);
  constraint->mask = tn_calloc(tn_grammar_vocab_words(constraint->trie), sizeof *constraint->mask);
  if (!constraint->mask) return tn_fail(error, TN_E_MEMORY, "no memory for a grammar");
  return tn_grammar_matcher_create(&constraint->matcher, grammar, error);
}

/* A constraint of `grammar`, whose reference it takes over. */
static tn_status hold_to(tn_constraints *constraints, tn_grammar *grammar, tn_constraint **made, tn_error *error) {
  tn_constraint *constraint = calloc(1, sizeof *constraint);
  tn_status status = constraint ? build(constraint, constraints, grammar, error)
                                : tn_fail(error, TN_E_MEMORY, "no memory for a grammar");
  tn_grammar_release(grammar);
  if (status != TN_OK) {
    tn_constraint_destroy(constraint);
    return status;
  }
  *made = constraint;
  return TN_OK;
}

tn_status tn_constraint_create(tn_constraints *constraints, const tn_request_options *options, tn_constraint **made,
                               tn_error *error) {
  *made = NULL;
  int asked = (options->json_schema != NULL) + (options->grammar != NULL) + (options->pattern != NULL) +
              (options->choice_count > 0);
  if (asked == 0) return TN_OK;
  if (asked > 1)
    return tn_fail(error, TN_E_INVALID, "an answer can be held to one of schema, grammar, pattern and choices, not %d",
                   asked);
  if (options->ignore_eos)
    return tn_fail(error, TN_E_INVALID, "ignore_eos: an answer that is held to a grammar ends with it");
  if (!constraints || !constraints->vocabulary->tokenizer)
    return tn_fail(error, TN_E_UNSUPPORTED, "a grammar needs a tokenizer, and the model has none");
  tn_grammar *grammar = NULL;
  tn_status status = compile(options, &grammar, error);
  return status == TN_OK ? hold_to(constraints, grammar, made, error) : status;
}

tn_status tn_constraint_of_tools(tn_constraints *constraints, const tn_tool_use *use, tn_constraint **made,
                                 tn_error *error) {
  *made = NULL;
  tn_grammar *grammar = NULL;
  const tn_tool_grammar_options options = {.template_source = use->template_source,
                                           .tokenizer = constraints->vocabulary->tokenizer,
                                           .tools = use->tools,
                                           .only = use->only,
                                           .single_call = use->single_call,
                                           .behind_marker = !use->is_required};
  tn_status status = tn_tool_grammar(&options, &grammar, error);
  return status == TN_OK ? hold_to(constraints, grammar, made, error) : status;
}
void tn_constraint_destroy(tn_constraint *constraint) {
  if (!constraint) return;
  tn_grammar_matcher_destroy(constraint->matcher);
  free(constraint->mask);
  free(constraint);
}

/* ---- along the answer ---- */

/* Makes the mask, unless it is there since the last token. */
static tn_status make_mask(tn_constraint *constraint, tn_error *error) {
  if (constraint->has_mask) return TN_OK;
  tn_status status = tn_grammar_mask(constraint->matcher, constraint->trie, constraint->mask, error);
  constraint->has_mask = status == TN_OK;
  return status;
}

tn_status tn_constraint_allowed(tn_constraint *constraint, const uint32_t **mask, uint32_t *count, tn_error *error) {
  *mask = constraint->mask;
  *count = constraint->token_count;
  return make_mask(constraint, error);
}

bool tn_constraint_begin(tn_constraint *constraint, const char *begun, size_t bytes) {
  constraint->has_mask = false;
  tn_grammar_rollback(constraint->matcher, tn_grammar_entries(constraint->matcher));
  return !bytes || tn_grammar_accept_bytes(constraint->matcher, begun, bytes, NULL, NULL) == TN_OK;
}

tn_status tn_constraint_accept(tn_constraint *constraint, int32_t token, bool *is_over, tn_error *error) {
  *is_over = false;
  constraint->has_mask = false;
  tn_status status = tn_grammar_accept_token(constraint->matcher, constraint->trie, (uint32_t)token, error);
  if (status != TN_OK || !tn_grammar_can_end(constraint->matcher)) return status;
  if (tn_vocabulary_ends(constraint->vocabulary, token)) return TN_OK;
  status = make_mask(constraint, error);
  *is_over = status == TN_OK;
  for (uint32_t id = 0; id < constraint->token_count && *is_over; id++)
    if (constraint->mask[id / 32] >> (id % 32) & 1) *is_over = tn_vocabulary_ends(constraint->vocabulary, (int32_t)id);
  return status;
}

size_t tn_constraint_mark(const tn_constraint *constraint) {
  return tn_grammar_entries(constraint->matcher);
}

void tn_constraint_return(tn_constraint *constraint, size_t mark) {
  constraint->has_mask = false;
  tn_grammar_rollback(constraint->matcher, tn_grammar_entries(constraint->matcher) - mark);
}
