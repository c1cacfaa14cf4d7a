/* A drafter that knows what the fake runner's model will answer, and says so as often as it is told: for the scheduler,
 * drafts that are right, wrong from some position on, none at all, or failures. */
#ifndef TESTS_ENGINE_FAKE_DRAFTER_H
#define TESTS_ENGINE_FAKE_DRAFTER_H

#include "engine/drafter.h"
#include "fake_runner.h"

typedef struct fake_drafter {
  tn_drafter drafter;
  fake_config config;
  tn_sampler *sampler;
  uint64_t random;
  uint32_t right;     /* drafts of 16 that are right */
  uint32_t fail_from; /* calls from this one on fail; 0: none does */
  uint32_t calls, forgotten;
  uint32_t held[TN_MAX_LOGITS_ROWS]; /* sequences drafted since they were forgotten */
} fake_drafter;

static tn_status fake_draft(tn_drafter *drafter, tn_draft *drafts, uint32_t count, tn_error *error) {
  fake_drafter *of = (fake_drafter *)drafter;
  if (++of->calls >= of->fail_from && of->fail_from) return tn_fail(error, TN_E_INTERNAL, "fake fault of a drafter");
  for (uint32_t i = 0; i < count; i++) {
    tn_draft *draft = drafts + i;
    of->held[draft->sequence] = 1;
    draft->confidence = fake_random(&of->random) % TN_DRAFT_CLASSES;
    uint32_t wanted = fake_random(&of->random) % 5 ? draft->wanted : fake_random(&of->random) % (draft->wanted + 1);
    for (draft->count = 0; draft->count < wanted; draft->count++) {
      uint32_t at = draft->token_count + draft->count;
      float logits[FAKE_VOCABULARY];
      tn_sample sample;
      fake_expected(&of->config, draft->tokens, at, logits);
      tn_draw draw = {.sampling = draft->sampling,
                      .logits = logits,
                      .tokens = draft->tokens,
                      .token_count = at,
                      .prompt_count = draft->prompt_count};
      if (tn_sampler_draw(of->sampler, &draw, &sample, error) != TN_OK) return TN_E_INTERNAL;
      bool is_right = fake_random(&of->random) % 16 < of->right;
      draft->tokens[at] = is_right ? sample.token : (sample.token + 1) % (int32_t)FAKE_VOCABULARY;
    }
  }
  return TN_OK;
}

static void fake_forget(tn_drafter *drafter, uint32_t sequence) {
  fake_drafter *of = (fake_drafter *)drafter;
  of->held[sequence] = 0;
  of->forgotten++;
}

static uint32_t fake_held(tn_drafter *drafter) {
  uint32_t held = 0;
  for (uint32_t i = 0; i < TN_MAX_LOGITS_ROWS; i++) held += ((fake_drafter *)drafter)->held[i];
  return held;
}

static void fake_drafter_destroy(tn_drafter *drafter) {
  tn_sampler_destroy(((fake_drafter *)drafter)->sampler);
  free(drafter);
}

static fake_drafter *fake_drafter_create(const fake_config *config, uint32_t right) {
  fake_drafter *made = calloc(1, sizeof *made);
  *made = (fake_drafter){.drafter = {.name = "fake",
                                     .draft = fake_draft,
                                     .forget = fake_forget,
                                     .pages_used = fake_held,
                                     .destroy = fake_drafter_destroy},
                         .config = *config,
                         .random = 99,
                         .right = right};
  FAKE_CHECK(tn_sampler_create(FAKE_VOCABULARY, &made->sampler, NULL) == TN_OK);
  return made;
}

#endif
