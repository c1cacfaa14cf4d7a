#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static int current_level = -1;

static int level_from_environment(void) {
  const char *wanted = getenv("TENON_LOG");
  for (int i = 0; wanted && i < 4; i++)
    if (!strcmp(wanted, level_names[i])) return i;
  return TN_LOG_WARN;
}

void tn_log_set_level(tn_log_level level) {
  __atomic_store_n(&current_level, (int)level, __ATOMIC_RELAXED);
}

void tn_log(tn_log_level level, const char *format, ...) {
  int shown = __atomic_load_n(&current_level, __ATOMIC_RELAXED);
  if (shown < 0) {
    shown = level_from_environment();
    tn_log_set_level((tn_log_level)shown);
  }
  if ((int)level > shown) return;
  char line[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(line, sizeof line, format, list);
  va_end(list);
  fprintf(stderr, "tenon: %s: %s\n", level_names[level], line);
}
