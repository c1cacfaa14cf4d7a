#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "engine/cache_file.h"
#include "engine/prompt.h"
#include "engine/scheduler.h"

#define DEFAULT_QUEUE 256u

/* Something to be done by the engine's thread between two steps. */
typedef struct engine_task {
  tn_status (*run)(tn_engine *engine, void *argument, tn_error *error);
  void *argument;
  tn_status status;
  tn_error error;
  bool is_done;
} engine_task;

struct tn_engine {
  /* fixed after the start */
  const tn_model *model;
  tn_vocabulary vocabulary;
  tn_constraints constraints;
  tn_request_limits limits;
  uint32_t queue_limit;
  tn_runner *runner;
  tn_model *draft_model; /* NULL: none */
  tn_mutex *lock;
  tn_cond *wake; /* work has come, or the end */
  tn_thread *thread;

  tn_scheduler scheduler; /* the engine's thread alone */
  bool has_scheduler;

  /* under the lock */
  bool is_ending;
  uint64_t step_began_ns; /* 0: the engine's thread waits */
  engine_task *task;      /* NULL: none */
  tn_cond *task_done;
  tn_request *incoming; /* submitted since the last step, the last one first */
  uint32_t incoming_count;
  uint64_t arrivals;
  tn_engine_info info; /* as after the last step, or after the last end of a request within it */
  tn_engine_costs costs;
};

/* ---- the engine's thread ---- */

static void take_speculation(tn_engine *engine) {
  const tn_speculation *speculation = &engine->scheduler.speculation;
  const tn_speculation_counters *counters = &speculation->counters;
  tn_engine_info *info = &engine->info;
  tn_drafter *drafter = speculation->drafter;
  if (!drafter) return;
  info->drafted_tokens = counters->drafted;
  info->accepted_tokens = counters->accepted;
  memcpy(info->drafted_at, counters->drafted_at, sizeof info->drafted_at);
  memcpy(info->accepted_at, counters->accepted_at, sizeof info->accepted_at);
  info->draft_steps = counters->steps;
  info->draft_ns = counters->draft_ns;
  info->draft_pages_used = drafter->pages_used ? drafter->pages_used(drafter) : 0;
  memcpy(engine->costs.pass_ns, speculation->policy.pass_ns, sizeof engine->costs.pass_ns);
  memcpy(engine->costs.passes, speculation->policy.passes, sizeof engine->costs.passes);
  engine->costs.round_ns = speculation->policy.round_ns;
}

static void take_snapshot(tn_engine *engine) {
  const tn_scheduler *scheduler = &engine->scheduler;
  tn_engine_info *info = &engine->info;
  const tn_pages *pages = scheduler->kv.pages;
  info->pages = info->pages_used = info->pages_cached = 0;
  for (uint32_t g = 0; g < tn_pages_groups(pages); g++) {
    uint32_t cached = tn_pages_cached(pages, g), free_pages = tn_pages_free(pages, g);
    info->pages += tn_pages_total(pages, g);
    info->pages_cached += cached;
    info->pages_used += tn_pages_total(pages, g) - free_pages - cached;
  }
  info->states_cached = scheduler->kv.states ? tn_states_cached(scheduler->kv.states) : 0;
  info->running = scheduler->running_count;
  info->waiting = scheduler->waiting_count;
  info->steps = scheduler->counters.steps;
  info->rows = scheduler->counters.rows;
  info->preemptions = scheduler->counters.preemptions;
  info->cached_tokens = scheduler->counters.cached_tokens;
  info->failed_steps = scheduler->counters.failures;
  info->reopenings = scheduler->counters.reopenings;
  info->device_ns = scheduler->counters.device_ns;
  info->second_steps = scheduler->counters.second_steps;
  take_speculation(engine);
}

/* A request is about to say that it is over: whoever hears it finds its pages given back. */
static void on_released(void *context) {
  tn_engine *engine = context;
  tn_mutex_lock(engine->lock);
  take_snapshot(engine);
  tn_mutex_unlock(engine->lock);
}

/* Moves what was submitted to the scheduler, which sorts by arrival. */
static void take_incoming(tn_engine *engine) {
  while (engine->incoming) {
    tn_request *request = engine->incoming;
    engine->incoming = request->next;
    request->next = NULL;
    tn_scheduler_add(&engine->scheduler, request);
  }
  engine->incoming_count = 0;
}

/* Under the lock, which is let go meanwhile. */
static void run_task(tn_engine *engine) {
  engine_task *task = engine->task;
  engine->step_began_ns = tn_clock_ns();
  tn_mutex_unlock(engine->lock);
  tn_scheduler_settle(&engine->scheduler);
  task->status = task->run(engine, task->argument, &task->error);
  tn_mutex_lock(engine->lock);
  engine->step_began_ns = 0;
  take_snapshot(engine);
  task->is_done = true;
  engine->task = NULL;
  tn_cond_broadcast(engine->task_done);
}

static void run_engine(void *argument) {
  tn_engine *engine = argument;
  bool has_work = false;
  tn_mutex_lock(engine->lock);
  while (!engine->is_ending) {
    if (engine->task) run_task(engine);
    if (!has_work && !engine->incoming) {
      tn_cond_wait(engine->wake, engine->lock, UINT64_MAX);
      continue;
    }
    take_incoming(engine);
    engine->info.waiting = engine->scheduler.waiting_count;
    engine->step_began_ns = tn_clock_ns();
    tn_mutex_unlock(engine->lock);
    has_work = tn_scheduler_step(&engine->scheduler);
    tn_mutex_lock(engine->lock);
    engine->step_began_ns = 0;
    take_snapshot(engine);
  }
  take_incoming(engine);
  tn_mutex_unlock(engine->lock);
}

/* ---- start and end ---- */

static void describe_runner(tn_engine *engine) {
  const tn_runner_info *from = tn_runner_describe(engine->runner);
  tn_engine_info *info = &engine->info;
  info->size = sizeof *info;
  info->context = engine->limits.capacity;
  info->max_sequences = engine->scheduler.max_running;
  info->chunk = engine->scheduler.chunk;
  info->threads = from->threads;
  info->overlaps = from->overlaps;
  info->weight_bytes = from->weight_bytes;
  info->kv_bytes = from->kv_bytes;
  info->arena_bytes = from->arena_bytes;
  info->states = from->state_bytes ? from->state_slots : 0;
  info->state_bytes = from->state_bytes;
  memcpy(info->device, from->device, sizeof info->device);
  const tn_drafter *drafter = engine->scheduler.speculation.drafter;
  if (drafter && drafter->runner) {
    const tn_runner_info *drafting = tn_runner_describe(drafter->runner(drafter));
    info->draft_weight_bytes = drafting->weight_bytes;
    info->draft_kv_bytes = drafting->kv_bytes;
    info->draft_arena_bytes = drafting->arena_bytes;
  }
  take_snapshot(engine);
}

static uint32_t least_set(uint32_t wanted, uint32_t most) {
  return wanted && wanted < most ? wanted : most;
}

static void give_up_drafting(tn_engine_drafting drafting) {
  if (drafting.drafter) drafting.drafter->destroy(drafting.drafter);
  tn_model_close(drafting.model);
}

tn_status tn_engine_start(tn_runner *runner, tn_engine_drafting drafting, const tn_model *model,
                          const tn_vocabulary *vocabulary, const tn_engine_options *options, tn_engine **made,
                          tn_error *error) {
  *made = NULL;
  tn_status status = TN_OK;
  tn_engine *engine = calloc(1, sizeof *engine);
  if (!engine) {
    tn_runner_destroy(runner);
    give_up_drafting(drafting);
    return tn_fail(error, TN_E_MEMORY, "no memory for an engine");
  }
  engine->runner = runner;
  engine->draft_model = drafting.model;
  engine->model = model;
  engine->vocabulary = *vocabulary;
  engine->queue_limit = options->queue ? options->queue : DEFAULT_QUEUE;
  const tn_runner_info *info = tn_runner_describe(runner);
  tn_scheduler_options scheduling = {.max_running = least_set(options->max_sequences, info->max_sequences),
                                     .chunk = least_set(options->chunk, info->max_rows),
                                     .kv = TN_KV_OPTIONS,
                                     .drafter = drafting.drafter,
                                     .speculation = {.k = options->draft_k, .accept = (double)options->draft_accept}};
  scheduling.kv.prefix_cache = !options->no_prefix_cache;
  status = tn_scheduler_init(&engine->scheduler, runner, &scheduling, error);
  if (status != TN_OK) goto fail;
  engine->has_scheduler = true;
  status = tn_constraints_init(&engine->constraints, &engine->vocabulary, error);
  if (status != TN_OK) goto fail;
  engine->limits =
      (tn_request_limits){&engine->vocabulary, tn_kv_capacity(&engine->scheduler.kv), &engine->constraints};
  describe_runner(engine);
  engine->lock = tn_mutex_create();
  engine->wake = tn_cond_create();
  engine->task_done = tn_cond_create();
  engine->scheduler.on_released = on_released;
  engine->scheduler.context = engine;
  if (engine->lock && engine->wake && engine->task_done)
    engine->thread = tn_thread_start("tenon-engine", run_engine, engine);
  if (!engine->thread) {
    status = tn_fail(error, TN_E_MEMORY, "the engine's thread can't be started");
    goto fail;
  }
  *made = engine;
  return TN_OK;
fail:
  tn_engine_destroy(engine);
  return status;
}

void tn_engine_destroy(tn_engine *engine) {
  if (!engine) return;
  if (engine->thread) {
    tn_mutex_lock(engine->lock);
    engine->is_ending = true;
    tn_cond_broadcast(engine->wake);
    tn_mutex_unlock(engine->lock);
    tn_thread_join(engine->thread);
  }
  if (engine->has_scheduler) tn_scheduler_finish(&engine->scheduler);
  tn_constraints_finish(&engine->constraints);
  tn_runner_destroy(engine->runner);
  tn_model_close(engine->draft_model);
  tn_cond_destroy(engine->wake);
  tn_cond_destroy(engine->task_done);
  tn_mutex_destroy(engine->lock);
  free(engine);
}

void tn_engine_describe(tn_engine *engine, tn_engine_info *info) {
  uint32_t size = info->size && info->size < sizeof *info ? info->size : (uint32_t)sizeof *info;
  tn_mutex_lock(engine->lock);
  tn_engine_info all = engine->info;
  all.waiting += engine->incoming_count;
  if (engine->step_began_ns) all.step_ns = tn_clock_ns() - engine->step_began_ns + 1;
  tn_mutex_unlock(engine->lock);
  all.size = size;
  memcpy(info, &all, size);
}

void tn_engine_measured(tn_engine *engine, tn_engine_costs *costs) {
  tn_mutex_lock(engine->lock);
  *costs = engine->costs;
  tn_mutex_unlock(engine->lock);
}

/* ---- requests ---- */

static tn_status hand_over(tn_engine *engine, tn_request *request, tn_error *error) {
  tn_status status = TN_OK;
  tn_mutex_lock(engine->lock);
  const tn_engine_info *info = &engine->info;
  uint32_t waiting = info->waiting + engine->incoming_count;
  uint32_t places = info->running < info->max_sequences ? info->max_sequences - info->running : 0;
  if (waiting >= (uint64_t)engine->queue_limit + places) { /* who has a place is only about to enter */
    status = tn_fail(error, TN_E_BUSY, "%u requests are waiting already, the limit of the queue", waiting);
  } else {
    request->arrival = engine->arrivals++;
    request->next = engine->incoming;
    engine->incoming = request;
    engine->incoming_count++;
    tn_cond_broadcast(engine->wake);
  }
  tn_mutex_unlock(engine->lock);
  return status;
}

tn_status tn_engine_submit(tn_engine *engine, const tn_request_options *given, tn_request **request, tn_error *error) {
  *request = NULL;
  tn_request_options options = TN_REQUEST_OPTIONS;
  if (given) memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
  int32_t *tokens = NULL;
  size_t count = 0;
  tn_request *made = NULL;
  tn_tool_use use;
  tn_status status = tn_tool_use_init(engine->model, &options, &use, error);
  if (status != TN_OK) return status;
  status = tn_prompt_tokens(engine->model, &options, engine->limits.capacity, &use, &tokens, &count, error);
  if (status == TN_OK) status = tn_request_create(&engine->limits, &options, tokens, count, &made, error);
  if (status == TN_OK && use.is_wanted) status = tn_request_take_apart(made, &engine->limits, &options, &use, error);
  if (status == TN_OK) status = hand_over(engine, made, error);
  tn_tool_use_finish(&use);
  free(tokens);
  if (status != TN_OK && made) {
    tn_request_release(made);
    tn_request_release(made);
    return status;
  }
  *request = made;
  return status;
}

/* ---- the prefix cache on disk ---- */

/* Has the engine's thread do something, and waits for it. */
static tn_status do_between_steps(tn_engine *engine, tn_status (*run)(tn_engine *, void *, tn_error *), void *argument,
                                  tn_error *error) {
  engine_task task = {.run = run, .argument = argument};
  tn_mutex_lock(engine->lock);
  while (engine->task) tn_cond_wait(engine->task_done, engine->lock, UINT64_MAX);
  engine->task = &task;
  tn_cond_broadcast(engine->wake);
  while (!task.is_done) tn_cond_wait(engine->task_done, engine->lock, UINT64_MAX);
  tn_mutex_unlock(engine->lock);
  if (task.status != TN_OK && error) *error = task.error;
  return task.status;
}

typedef struct cache_task {
  const char *path;
  bool is_session;
  const tn_request *request;
  const char *note;
  char **loaded_note;
} cache_task;

static tn_status save(tn_engine *engine, void *argument, tn_error *error) {
  static const int32_t none[1];
  const cache_task *task = argument;
  tn_cache_saving saving = {.tokens = task->is_session ? none : NULL, .note = task->note};
  if (task->request) {
    saving.tokens = task->request->tokens;
    saving.count = task->request->token_count;
    saving.salt = task->request->salt;
  }
  return tn_cache_save(&engine->scheduler.kv, &saving, task->path, error);
}

static tn_status load(tn_engine *engine, void *argument, tn_error *error) {
  const cache_task *task = argument;
  uint64_t tokens;
  tn_status status = tn_cache_load(&engine->scheduler.kv, task->path, task->loaded_note, &tokens, error);
  if (status == TN_OK) tn_log(TN_LOG_INFO, "%s: %llu tokens of KV loaded", task->path, (unsigned long long)tokens);
  return status;
}

tn_status tn_engine_save_cache(tn_engine *engine, const char *path, tn_error *error) {
  return do_between_steps(engine, save, &(cache_task){.path = path}, error);
}

tn_status tn_engine_load_cache(tn_engine *engine, const char *path, tn_error *error) {
  return do_between_steps(engine, load, &(cache_task){.path = path}, error);
}

tn_status tn_engine_save_session(tn_engine *engine, const tn_request *request, const char *note, const char *path,
                                 tn_error *error) {
  cache_task task = {.path = path, .is_session = true, .request = request, .note = note};
  return do_between_steps(engine, save, &task, error);
}

tn_status tn_engine_load_session(tn_engine *engine, const char *path, char **note, tn_error *error) {
  return do_between_steps(engine, load, &(cache_task){.path = path, .loaded_note = note}, error);
}
