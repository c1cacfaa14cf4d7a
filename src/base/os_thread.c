/* Threads (see os.h). */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "base/os.h"

struct tn_mutex {
  pthread_mutex_t handle;
};
struct tn_cond {
  pthread_cond_t handle;
};
struct tn_thread {
  pthread_t handle;
  void (*run)(void *argument);
  void *argument;
};

tn_mutex *tn_mutex_create(void) {
  tn_mutex *mutex = malloc(sizeof *mutex);
  if (mutex && pthread_mutex_init(&mutex->handle, NULL) != 0) {
    free(mutex);
    mutex = NULL;
  }
  return mutex;
}

void tn_mutex_destroy(tn_mutex *mutex) {
  if (!mutex) return;
  pthread_mutex_destroy(&mutex->handle);
  free(mutex);
}

void tn_mutex_lock(tn_mutex *mutex) {
  pthread_mutex_lock(&mutex->handle);
}
void tn_mutex_unlock(tn_mutex *mutex) {
  pthread_mutex_unlock(&mutex->handle);
}

tn_cond *tn_cond_create(void) {
  tn_cond *cond = malloc(sizeof *cond);
  if (!cond) return NULL;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  int failed = pthread_cond_init(&cond->handle, &attributes);
  pthread_condattr_destroy(&attributes);
  if (failed) {
    free(cond);
    cond = NULL;
  }
  return cond;
}

void tn_cond_destroy(tn_cond *cond) {
  if (!cond) return;
  pthread_cond_destroy(&cond->handle);
  free(cond);
}

bool tn_cond_wait(tn_cond *cond, tn_mutex *mutex, uint64_t deadline_ns) {
  if (deadline_ns == UINT64_MAX) return pthread_cond_wait(&cond->handle, &mutex->handle) == 0;
  struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u), .tv_nsec = (long)(deadline_ns % 1000000000u)};
  return pthread_cond_timedwait(&cond->handle, &mutex->handle, &until) == 0;
}

void tn_cond_broadcast(tn_cond *cond) {
  pthread_cond_broadcast(&cond->handle);
}

static void *thread_main(void *argument) {
  tn_thread *thread = argument;
  thread->run(thread->argument);
  return NULL;
}

tn_thread *tn_thread_start(const char *name, void (*run)(void *argument), void *argument) {
  tn_thread *thread = malloc(sizeof *thread);
  if (!thread) return NULL;
  thread->run = run;
  thread->argument = argument;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&thread->handle, NULL, thread_main, thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) {
    free(thread);
    return NULL;
  }
  char short_name[16];
  snprintf(short_name, sizeof short_name, "%s", name);
  pthread_setname_np(thread->handle, short_name);
  return thread;
}

void tn_thread_join(tn_thread *thread) {
  if (!thread) return;
  pthread_join(thread->handle, NULL);
  free(thread);
}
