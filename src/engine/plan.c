#include "engine/plan.h"

typedef struct budget {
  uint32_t rows, logits;
} budget;

/* Gives a sequence up to `most` more rows, the last of them only together with a logits row. */
static void grant(uint32_t pending, uint32_t *planned, uint32_t most, budget *left) {
  uint32_t rows = pending - *planned;
  if (rows > most) rows = most;
  if (rows > left->rows) rows = left->rows;
  if (rows > 0 && *planned + rows == pending) {
    if (left->logits > 0) {
      left->logits--;
    } else {
      rows--;
    }
  }
  *planned += rows;
  left->rows -= rows;
}

static void plan_decoding(const uint32_t *pending, uint32_t *planned, uint32_t count, uint32_t *turn, budget *left) {
  uint32_t begin = *turn < count ? *turn : 0, next = begin;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = (begin + i) % count;
    if (pending[at] != 1) continue;
    grant(1, &planned[at], 1, left);
    if (planned[at]) continue;
    next = at;
    break;
  }
  *turn = next;
}

/* The sequence that prefills, can still be given rows, and has the fewest to go; `count` if there is none. */
static uint32_t shortest(const uint32_t *pending, const uint32_t *planned, uint32_t count, const budget *left) {
  uint32_t best = count;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t to_go = pending[i] - planned[i];
    if (pending[i] < 2 || to_go == 0 || (to_go == 1 && left->logits == 0)) continue;
    if (best == count || to_go < pending[best] - planned[best]) best = i;
  }
  return best;
}

void tn_plan(const uint32_t *pending, uint32_t *planned, uint32_t count, uint32_t rows, uint32_t logits,
             uint32_t *turn) {
  budget left = {rows, logits};
  for (uint32_t i = 0; i < count; i++) planned[i] = 0;
  plan_decoding(pending, planned, count, turn, &left);
  for (uint32_t i = 0; i < count; i++) {
    if (pending[i] < 2) continue;
    grant(pending[i], &planned[i], left.rows / 4, &left);
    break;
  }
  while (left.rows > 0) {
    uint32_t at = shortest(pending, planned, count, &left);
    if (at == count) break;
    grant(pending[at], &planned[at], left.rows, &left);
  }
}
