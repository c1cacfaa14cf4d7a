/* Answers held to a grammar: a JSON schema, GBNF, a regular expression or a list of choices (text/grammar/grammar.h).
 *
 * A constraint belongs to a request and walks with its tokens; which tokens may come next goes to the sampler as a
 * mask. What an engine needs for any of them, a trie of its vocabulary, is made when the first one is asked for. Unlike
 * everything else in a step, a constraint may allocate: the states of a grammar unfold as texts reach them. */
#ifndef TENON_ENGINE_CONSTRAINT_H
#define TENON_ENGINE_CONSTRAINT_H

#include <stdbool.h>
#include <stdint.h>
#include "base/os.h"
#include "engine/answer.h"
#include "tenon/tenon.h"

struct tn_grammar_vocab;
struct tn_tool_use;
typedef struct tn_constraint tn_constraint;

/* One for each engine; any thread. */
typedef struct tn_constraints {
  const tn_vocabulary *vocabulary;
  tn_mutex *lock;
  struct tn_grammar_vocab *trie; /* under the lock; NULL: not made yet */
} tn_constraints;

/* `vocabulary` must outlive it. */
tn_status tn_constraints_init(tn_constraints *constraints, const tn_vocabulary *vocabulary, tn_error *error);
void tn_constraints_finish(tn_constraints *constraints);

/* The constraint that the options ask for; *constraint is NULL when they ask for none. TN_E_INVALID: more than one, a
 * faulty grammar, or options that contradict it; TN_E_UNSUPPORTED: something that can't be enforced, or no tokenizer.
 * `constraints` may be NULL where nobody asks. It may be gone before its constraints. */
tn_status tn_constraint_create(tn_constraints *constraints, const tn_request_options *options,
                               tn_constraint **constraint, tn_error *error);
/* The same for calls of tools: of an answer that must be calls, or else of one call behind its marker, which is begun
 * with tn_constraint_begin each time. TN_E_UNSUPPORTED: see tn_tool_grammar. */
tn_status tn_constraint_of_tools(tn_constraints *constraints, const struct tn_tool_use *use, tn_constraint **constraint,
                                 tn_error *error);
void tn_constraint_destroy(tn_constraint *constraint);

/* The tokens that may come next: bit (id % 32) of *mask[id / 32] for ids below *count, until the next call. */
tn_status tn_constraint_allowed(tn_constraint *constraint, const uint32_t **mask, uint32_t *count, tn_error *error);
/* Begins anew behind the text `begun`; false when the grammar has no such text. */
bool tn_constraint_begin(tn_constraint *constraint, const char *begun, size_t bytes);
/* Goes on by a token that was allowed. *is_over: the text is complete and nothing but an end may follow. */
tn_status tn_constraint_accept(tn_constraint *constraint, int32_t token, bool *is_over, tn_error *error);

/* Where it stands, and going back there from further on. */
size_t tn_constraint_mark(const tn_constraint *constraint);
void tn_constraint_return(tn_constraint *constraint, size_t mark);

#endif
