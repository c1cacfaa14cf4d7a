/* Masks of states, and the memory of those that were made. */
#ifndef TENON_TEXT_GRAMMAR_MASK_H
#define TENON_TEXT_GRAMMAR_MASK_H

#include "text/grammar/automaton.h"
#include "text/grammar/vocab.h"

typedef struct tn_masks tn_masks;

/* For one automaton; NULL when memory is out. */
tn_masks *tn_masks_create(void);
void tn_masks_destroy(tn_masks *masks);
/* The mask of `state` (vocab->words words), valid until the next call; NULL after a failure, told by
 * a->exprs.status. */
const uint32_t *tn_masks_of(tn_masks *masks, tn_automaton *a, tn_grammar_vocab *vocab, uint32_t state);

#endif
