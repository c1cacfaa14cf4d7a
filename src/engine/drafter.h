/* Drafters guess how sequences go on, so that the target model can check several positions in one step.
 *
 * A drafter is a table of functions behind one struct, the first field of each kind's own. What it guesses never
 * changes an answer, only how fast it comes: the target draws each position itself and a guess counts while it equals
 * that draw. So a drafter may fail, forget, or guess nothing at any time.
 *
 *   n-gram   what followed the last tokens where they stood before in the same sequence (drafter_ngram.c)
 *   model    a smaller model with executables, KV and perhaps a device of its own (drafter_model.c)
 *
 * A model's own extra heads (multi-token prediction) would be a third kind: it is a drafter whose `draft` runs a
 * program of the target's runner. */
#ifndef TENON_ENGINE_DRAFTER_H
#define TENON_ENGINE_DRAFTER_H

#include <stdbool.h>
#include <stdint.h>
#include "engine/constraint.h"
#include "engine/salt.h"
#include "engine/sampler.h"

struct tn_runner;

#define TN_MAX_DRAFT TN_DRAFT_POSITIONS /* tokens drafted behind a sequence at once */
#define TN_DRAFT_CLASSES 4u             /* how sure drafters are: class 0 least */

/* A sequence to be continued, and how. */
typedef struct tn_draft {
  uint32_t sequence; /* its number, below the most that run together; the same until it is forgotten */
  int32_t *tokens;   /* drafts are written behind the first token_count, where there is room for `wanted` */
  uint32_t token_count, prompt_count;
  const tn_sampling *sampling; /* how the target will draw */
  tn_salt *salt;               /* whose cached prefixes may be used */
  tn_constraint *constraint;   /* rules the drafts, and is left as it was; NULL: nothing does */
  uint32_t wanted;             /* tokens at most, 1 .. TN_MAX_DRAFT */
  uint32_t count;              /* drafted: 0 .. wanted */
  uint32_t confidence;         /* the class of these drafts */
  uint32_t behind;             /* tokens that had to be computed before the first draft could be made */
} tn_draft;

typedef struct tn_drafter tn_drafter;
struct tn_drafter {
  const char *name;
  bool is_free;        /* drafting costs next to nothing: ask for as much as there is and use what pays */
  uint32_t confidence; /* of drafts that cost something: the class of all of them */
  /* Continues `count` sequences as far as each one wants or the drafter can tell; sets `count` and `confidence` of
   * each. On failure no drafts count. */
  tn_status (*draft)(tn_drafter *drafter, tn_draft *drafts, uint32_t count, tn_error *error);
  /* The sequences just drafted are about to be verified, on another device: whatever can be prepared in the meantime
   * may be, until the next call of any function. NULL: nothing. */
  void (*look_ahead)(tn_drafter *drafter);
  /* The sequence has ended, or begins anew. */
  void (*forget)(tn_drafter *drafter, uint32_t sequence);
  /* Pages of KV memory that it holds for sequences. NULL: it has none. */
  uint32_t (*pages_used)(tn_drafter *drafter);
  /* The runner that it drafts with. NULL: it has none. */
  const struct tn_runner *(*runner)(const tn_drafter *drafter);
  void (*destroy)(tn_drafter *drafter);
};

/* The last tokens looked up in the sequence itself. With `always`, where nothing is found, it drafts all the same: the
 * last token again; for measurements with synthetic acceptance. NULL when memory is out. */
tn_drafter *tn_drafter_ngram_create(bool always);

typedef struct tn_drafter_model_options {
  uint32_t max_sequences; /* at most the runner's */
  uint32_t vocabulary;    /* rows of the target's logits */
  bool looks_ahead;       /* on a thread of its own while the target verifies */
} tn_drafter_model_options;

/* A model on `runner`, which the drafter owns from then on, also when this fails. */
tn_status tn_drafter_model_create(struct tn_runner *runner, const tn_drafter_model_options *options,
                                  tn_drafter **drafter, tn_error *error);

#endif
