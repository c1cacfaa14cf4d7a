#include "engine/plan.h"

typedef struct budget {
  uint32_t rows, logits;
} budget;

/* Gives a sequence up to `most` more rows, and a logits row with each of them that is not silent. */
static void grant(uint32_t pending, uint32_t silent, uint32_t *planned, budget most, budget *left) {
  uint32_t rows = pending - *planned, still_silent = silent > *planned ? silent - *planned : 0;
  if (rows > most.rows) rows = most.rows;
  uint32_t loud = rows > still_silent ? rows - still_silent : 0;
  if (loud > most.logits) {
    rows -= loud - most.logits;
    loud = most.logits;
  }
  *planned += rows;
  left->rows -= rows;
  left->logits -= loud;
}

static void plan_decoding(const uint32_t *pending, const uint32_t *silent, uint32_t *planned, uint32_t count,
                          uint32_t *turn, budget *left) {
  uint32_t begin = *turn < count ? *turn : 0, next = begin;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = (begin + i) % count;
    if (pending[at] != 1) continue;
    grant(1, silent[at], &planned[at], *left, left);
    if (planned[at]) continue;
    next = at;
    break;
  }
  *turn = next;
}

/* The sequence that prefills, can still be given rows, and has the fewest to go; `count` if there is none. */
static uint32_t shortest(const uint32_t *pending, const uint32_t *silent, const uint32_t *planned, uint32_t count,
                         const budget *left) {
  uint32_t best = count;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t to_go = pending[i] - planned[i];
    if (pending[i] < 2 || to_go == 0 || (planned[i] >= silent[i] && left->logits == 0)) continue;
    if (best == count || to_go < pending[best] - planned[best]) best = i;
  }
  return best;
}

void tn_plan(const uint32_t *pending, const uint32_t *silent, uint32_t *planned, uint32_t count, uint32_t rows,
             uint32_t logits, uint32_t *turn) {
  budget left = {rows, logits};
  for (uint32_t i = 0; i < count; i++) planned[i] = 0;
  if (count > 0 && pending[0] > 1) grant(pending[0], silent[0], &planned[0], (budget){1, 1}, &left);
  plan_decoding(pending, silent, planned, count, turn, &left);
  for (uint32_t i = 0; i < count; i++) {
    if (pending[i] < 2) continue;
    grant(pending[i], silent[i], &planned[i], (budget){left.rows / 4, (left.logits + 3) / 4}, &left);
    break;
  }
  while (left.rows > 0) {
    uint32_t at = shortest(pending, silent, planned, count, &left);
    if (at == count) break;
    grant(pending[at], silent[at], &planned[at], left, &left);
  }
}
