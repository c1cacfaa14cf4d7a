/* How the rows of a step are shared out. A pure function, so that it can be tested and simulated alone. */
#ifndef TENON_ENGINE_PLAN_H
#define TENON_ENGINE_PLAN_H

#include <stdint.h>

/* Gives each of `count` sequences, the oldest first, planned[i] <= pending[i] of at most `rows` rows. The first
 * silent[i] of a sequence's pending rows give no logits; each of the others takes one of `logits` logits rows as well.
 *
 * The oldest, if it prefills, has a row whatever the others want: the engine relies on its going on, as the only one
 * that never lacks pages. Sequences with one pending row (they are decoding) come next, in a circle that begins at
 * *turn; *turn moves to the first one left out. Of what is left a quarter goes to the oldest that prefills, so that it
 * can't starve, and the rest to those with the fewest rows to go, which keeps the mean wait short. */
void tn_plan(const uint32_t *pending, const uint32_t *silent, uint32_t *planned, uint32_t count, uint32_t rows,
             uint32_t logits, uint32_t *turn);

#endif
