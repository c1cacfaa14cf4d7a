/* Clock, the machine's limits, terminal and signals (see os.h). */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#include "base/os.h"
#include "base/os_file.h"
#ifdef __GLIBC__
#include <malloc.h>
#endif

void tn_sleep_ns(uint64_t ns) {
  struct timespec wait = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
  nanosleep(&wait, NULL);
}

int64_t tn_unix_time(void) {
  return (int64_t)time(NULL);
}

void tn_local_time(const char *format, char *out, size_t capacity) {
  time_t now = time(NULL);
  struct tm local;
  localtime_r(&now, &local);
  if (capacity && !strftime(out, capacity, format, &local)) out[0] = 0;
}

void tn_memory_give_back(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

/* The first line of a small system file, or false. */
static bool read_line(const char *path, char *out, size_t capacity) {
  FILE *file = fopen(path, "re");
  if (!file) return false;
  bool ok = fgets(out, (int)capacity, file) != NULL;
  fclose(file);
  return ok;
}

unsigned tn_machine_cpus(void) {
  unsigned count = 1;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    count = (unsigned)CPU_COUNT(&set);
  } else {
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (online > 0) count = (unsigned)online;
  }
  long long quota = -1, period = 0;
  char line[64];
  if (read_line("/sys/fs/cgroup/cpu.max", line, sizeof line)) {
    if (sscanf(line, "%lld %lld", &quota, &period) != 2) quota = -1;
  } else if (read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", line, sizeof line)) {
    quota = atoll(line);
    if (read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", line, sizeof line)) period = atoll(line);
  }
  if (quota > 0 && period > 0) {
    long long by_quota = (quota + period - 1) / period;
    if (by_quota < (long long)count) count = (unsigned)by_quota;
  }
  return count ? count : 1;
}

static uint64_t meminfo(const char *key) {
  FILE *file = fopen("/proc/meminfo", "re");
  if (!file) return 0;
  char line[128];
  unsigned long long kib = 0;
  size_t n = strlen(key);
  while (fgets(line, sizeof line, file))
    if (!strncmp(line, key, n) && sscanf(line + n, ": %llu", &kib) == 1) break;
  fclose(file);
  return (uint64_t)kib * 1024;
}

/* A number of a small system file; UINT64_MAX when there is none or it says "max". */
static uint64_t number_in(const char *path) {
  char line[64];
  if (!read_line(path, line, sizeof line) || line[0] < '0' || line[0] > '9') return UINT64_MAX;
  return strtoull(line, NULL, 10);
}

/* Bytes of a cgroup's usage that are file pages the kernel gives back on demand. */
static uint64_t reclaimable_in(const char *folder) {
  char path[4200], line[128];
  unsigned long long bytes = 0, value;
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "inactive_file %llu", &value) == 1 || sscanf(line, "active_file %llu", &value) == 1)
      bytes += value;
  fclose(file);
  return bytes;
}

/* What memory is there, and how much of it is left. */
typedef struct memory_left {
  uint64_t total, left;
} memory_left;

static void limit_memory(memory_left *memory, uint64_t total, uint64_t used) {
  uint64_t left = used < total ? total - used : 0;
  if (total < memory->total) memory->total = total;
  if (left < memory->left) memory->left = left;
}

/* One cgroup's limit, in the file names of version 2 or 1. */
static void limit_by_cgroup(memory_left *memory, const char *folder, bool v2) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", folder, v2 ? "memory.max" : "memory.limit_in_bytes");
  uint64_t limit = number_in(path);
  if (limit == UINT64_MAX) return;
  snprintf(path, sizeof path, "%s/%s", folder, v2 ? "memory.current" : "memory.usage_in_bytes");
  uint64_t used = number_in(path), reclaimable = reclaimable_in(folder);
  if (used != UINT64_MAX) limit_memory(memory, limit, used > reclaimable ? used - reclaimable : 0);
}

/* The cgroup `name` below `root` and all above it. In a container the names are those of the host and not there: then
 * the root is the group. */
static void limit_by_cgroups(memory_left *memory, const char *root, const char *name, bool v2) {
  char folder[4096];
  size_t root_bytes = strlen(root);
  if (snprintf(folder, sizeof folder, "%s%s", root, name) >= (int)sizeof folder) return;
  while (strlen(folder) > root_bytes) {
    limit_by_cgroup(memory, folder, v2);
    *strrchr(folder, '/') = 0;
  }
  limit_by_cgroup(memory, root, v2);
}

static void limit_by_all_cgroups(memory_left *memory) {
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (!file) return;
  char line[4096];
  while (fgets(line, sizeof line, file)) { /* NUMBER:CONTROLLERS:NAME; of version 2 without controllers */
    char *controllers = strchr(line, ':'), *name = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!name || name[1] != '/') continue;
    *name++ = 0;
    name[strcspn(name, "\n")] = 0;
    if (!controllers[1])
      limit_by_cgroups(memory, "/sys/fs/cgroup", name, true);
    else if (strstr(controllers, "memory"))
      limit_by_cgroups(memory, "/sys/fs/cgroup/memory", name, false);
  }
  fclose(file);
}

/* Limits on the data (ulimit -d) and on the whole address space (ulimit -v) of the process. */
static void limit_by_rlimits(memory_left *memory) {
  static const struct {
    int resource;
    const char *used; /* line of /proc/self/status, in kB */
  } limits[] = {{RLIMIT_DATA, "VmData: %llu"}, {RLIMIT_AS, "VmSize: %llu"}};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    struct rlimit limit;
    unsigned long long kib = 0;
    char line[256];
    if (getrlimit((__rlimit_resource_t)limits[i].resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file) && sscanf(line, limits[i].used, &kib) != 1) continue;
    if (file) fclose(file);
    limit_memory(memory, limit.rlim_cur, (uint64_t)kib * 1024);
  }
}

static memory_left machine_memory(void) {
  memory_left memory = {meminfo("MemTotal"), meminfo("MemAvailable")};
  limit_by_all_cgroups(&memory);
  limit_by_rlimits(&memory);
  return memory;
}

uint64_t tn_machine_memory_total(void) {
  return machine_memory().total;
}

uint64_t tn_machine_memory_free(void) {
  return machine_memory().left;
}

void tn_machine_cpu_name(char *out, size_t capacity) {
  if (!capacity) return;
  snprintf(out, capacity, "unknown processor");
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (!file) return;
  char line[256];
  while (fgets(line, sizeof line, file)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) || !colon) continue;
    line[strcspn(line, "\n")] = 0;
    snprintf(out, capacity, "%s", colon[1] == ' ' ? colon + 2 : colon + 1);
    break;
  }
  fclose(file);
}

bool tn_machine_has(tn_cpu_feature feature) {
#if defined(__aarch64__)
  switch (feature) {
    case TN_CPU_DOTPROD: return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
    case TN_CPU_I8MM: return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
  }
#endif
  (void)feature;
  return false;
}

bool tn_is_terminal(int descriptor) {
  return isatty(descriptor) == 1;
}

static volatile sig_atomic_t interrupts, terminated;

/* Counts, and sets an alarm: a read that was about to begin when the signal came is woken by that instead. */
static void count_interrupt(int signal_number) {
  interrupts = interrupts + 1;
  if (signal_number == SIGTERM) terminated = 1;
  alarm(1);
}

static void wake_up(int signal_number) {
  (void)signal_number;
}

static void exit_on_interrupt(int signal_number) {
  static const char line[] = "tenon: interrupted\n";
  (void)signal_number;
  tn_file_abandon();
  if (write(STDERR_FILENO, line, sizeof line - 1) < 0) _exit(1);
  _exit(1);
}

_Noreturn void tn_exit_now(int status) {
  tn_file_abandon();
  _exit(status);
}

static void handle_interrupts(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, NULL);
  sigaction(SIGXFSZ, &action, NULL); /* a file size limit is an error of write, too */
}

void tn_exit_on_interrupt(void) {
  handle_interrupts(exit_on_interrupt);
}
void tn_catch_interrupts(void) {
  struct sigaction action = {.sa_handler = wake_up};
  sigemptyset(&action.sa_mask);
  sigaction(SIGALRM, &action, NULL);
  handle_interrupts(count_interrupt);
}
unsigned tn_interrupts(void) {
  return (unsigned)interrupts;
}
bool tn_terminated(void) {
  return terminated;
}
