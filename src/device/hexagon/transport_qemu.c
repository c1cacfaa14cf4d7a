/* The DSP as a process of qemu-hexagon (see transport.h).
 *
 * The window is a memfd: no file system limits it, no name of it is left behind. The process inherits it as descriptor
 * TN_HEXAGON_WINDOW_DESCRIPTOR, and its program as another memfd. Doorbells are futexes in the window, which work
 * across the two processes.
 *
 * A thread of its own, the keeper, starts the process and waits for it: so the process's end is known when it happens,
 * and PR_SET_PDEATHSIG, which follows the thread that started a process, means the session's life and not that of
 * whichever thread opened it. When this process ends, however, the DSP ends too. */
#define _GNU_SOURCE
#include "device/hexagon/transport.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/memory.h"
#include "base/os.h"
#include "device/hexagon/protocol.h"

#define EMULATOR "qemu-hexagon"
#define PROGRAM_DESCRIPTOR 4
#define PROGRAM_PATH "/proc/self/fd/4"
#define SAID_BYTES 160 /* of what the process wrote, its last bytes */

struct tn_transport {
  uint8_t *window;
  uint64_t window_bytes;
  int window_descriptor, program_descriptor, said_descriptor; /* said: what the process writes */
  char emulator[PATH_MAX];
  tn_thread *keeper;
  _Atomic int process; /* 0: not started yet, -1: couldn't be */
  _Atomic bool ended;
  int ending;         /* of waitpid; valid once `ended` */
  tn_mutex *mutex;    /* guards sending signals against the process's number being given to another */
  tn_cond *something; /* process started, process ended */
};

/* ---- is there an emulator? ---- */

/* Looks through PATH. */
static bool find_emulator(char path[PATH_MAX]) {
  const char *folders = getenv("PATH");
  while (folders && *folders) {
    size_t length = strcspn(folders, ":");
    int written = snprintf(path, PATH_MAX, "%.*s/%s", (int)length, folders, EMULATOR);
    if (length && written < PATH_MAX && access(path, X_OK) == 0) return true;
    folders += length + (folders[length] == ':');
  }
  return false;
}

tn_status tn_transport_check(char *message, size_t capacity) {
  char path[PATH_MAX];
  if (find_emulator(path)) return TN_OK;
  snprintf(message, capacity, "there is no " EMULATOR " in PATH, which runs the DSP's program (Debian: qemu-user)");
  return TN_E_UNSUPPORTED;
}

/* ---- the process ---- */

static int move_descriptor(int from, int to) {
  return dup2(from, to) < 0 ? -1 : 0;
}

/* In the child, between fork and exec: only what is safe there. The descriptors are first copied to where no target
 * of dup2 is. */
static _Noreturn void become_dsp(const tn_transport *t, pid_t parent) {
  sigset_t none;
  const struct rlimit no_core = {0, 0};
  int window = fcntl(t->window_descriptor, F_DUPFD_CLOEXEC, 10);
  int program = fcntl(t->program_descriptor, F_DUPFD_CLOEXEC, 10);
  int said = fcntl(t->said_descriptor, F_DUPFD_CLOEXEC, 10);
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  bool ok = window >= 0 && program >= 0 && said >= 0 && nothing >= 0;
  ok = ok && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
  ok = ok && move_descriptor(nothing, 0) == 0 && move_descriptor(said, 1) == 0 && move_descriptor(said, 2) == 0;
  ok = ok && move_descriptor(window, TN_HEXAGON_WINDOW_DESCRIPTOR) == 0;
  ok = ok && move_descriptor(program, PROGRAM_DESCRIPTOR) == 0;
  setrlimit(RLIMIT_CORE, &no_core);
  setsid(); /* a terminal's interrupt or stop is for the host alone */
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  char *const arguments[] = {(char *)t->emulator, PROGRAM_PATH, NULL};
  char *const environment[] = {NULL};
  if (ok) execve(t->emulator, arguments, environment);
  _exit(127);
}

static void tell(tn_transport *t) {
  tn_mutex_lock(t->mutex);
  tn_cond_broadcast(t->something);
  tn_mutex_unlock(t->mutex);
}

static void keeper_main(void *argument) {
  tn_transport *t = argument;
  pid_t parent = getpid(), process = fork();
  if (process == 0) become_dsp(t, parent);
  t->process = process < 0 ? -1 : process;
  tell(t);
  if (process < 0) return;
  siginfo_t info;
  while (waitid(P_PID, (id_t)process, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) continue;
  tn_mutex_lock(t->mutex);
  while (waitpid(process, &t->ending, 0) < 0 && errno == EINTR) continue;
  t->ended = true;
  tn_cond_broadcast(t->something);
  tn_mutex_unlock(t->mutex);
}

bool tn_transport_ended(tn_transport *t, char *message, size_t capacity) {
  if (!t->ended) return false;
  char said[SAID_BYTES + 1] = "";
  off_t size = lseek(t->said_descriptor, 0, SEEK_END), from = size > SAID_BYTES ? size - SAID_BYTES : 0;
  ssize_t got = size > 0 ? pread(t->said_descriptor, said, SAID_BYTES, from) : 0;
  said[got > 0 ? got : 0] = 0;
  for (char *at = said; *at; at++)
    if ((unsigned char)*at < ' ') *at = ' ';
  const char *separator = *said ? ": " : "";
  if (WIFSIGNALED(t->ending))
    snprintf(message, capacity, "the DSP's process was ended by signal %d%s%s", WTERMSIG(t->ending), separator, said);
  else
    snprintf(message, capacity, "the DSP's process ended with status %d%s%s", WEXITSTATUS(t->ending), separator, said);
  return true;
}

/* The system shows the state of each thread behind its name, in parentheses: R is running, or waiting for a processor.
 */
static bool is_running(const char *path) {
  char text[512];
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = descriptor < 0 ? 0 : read(descriptor, text, sizeof text - 1);
  if (descriptor >= 0) close(descriptor);
  text[got > 0 ? got : 0] = 0;
  const char *name_end = strrchr(text, ')');
  return name_end && name_end[1] == ' ' && name_end[2] == 'R';
}

bool tn_transport_is_runnable(tn_transport *t) {
  char path[64];
  bool runs = false;
  snprintf(path, sizeof path, "/proc/%d/task", t->process);
  DIR *threads = opendir(path);
  for (const struct dirent *entry; threads && !runs && (entry = readdir(threads));) {
    long number = strtol(entry->d_name, NULL, 10);
    snprintf(path, sizeof path, "/proc/%d/task/%ld/stat", t->process, number);
    runs = number > 0 && is_running(path);
  }
  if (threads) closedir(threads);
  return runs;
}

void tn_transport_kill(tn_transport *t) {
  tn_mutex_lock(t->mutex);
  if (t->process > 0 && !t->ended) kill(t->process, SIGKILL);
  tn_mutex_unlock(t->mutex);
}

/* ---- the window ---- */

bool tn_transport_reserve(tn_transport *t, uint64_t offset, uint64_t bytes) {
  int failed;
  do failed = fallocate(t->window_descriptor, 0, (off_t)offset, (off_t)bytes);
  while (failed && errno == EINTR);
  return !failed;
}

void tn_transport_release(tn_transport *t, uint64_t offset, uint64_t bytes) {
  int failed;
  do failed = fallocate(t->window_descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
  while (failed && errno == EINTR);
}

uint8_t *tn_transport_window(tn_transport *t) {
  return t->window;
}

/* ---- doorbells ---- */

void tn_transport_ring(tn_transport *t, const uint32_t *word) {
  (void)t;
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void tn_transport_wait(tn_transport *t, const uint32_t *word, uint32_t value, uint64_t deadline_ns) {
  (void)t;
  uint64_t now = tn_clock_ns();
  if (now >= deadline_ns) return;
  uint64_t left = deadline_ns - now;
  const struct timespec time = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
  syscall(SYS_futex, word, FUTEX_WAIT, value, &time, NULL, 0);
}

/* ---- life ---- */

/* A memfd with `bytes` of `data` in it. */
static int memory_file(const char *name, const void *data, size_t bytes) {
  int descriptor = memfd_create(name, MFD_CLOEXEC);
  const uint8_t *at = data;
  while (descriptor >= 0 && bytes) {
    ssize_t put = write(descriptor, at, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      close(descriptor);
      return -1;
    }
    at += put;
    bytes -= (size_t)put;
  }
  return descriptor;
}

static bool map_window(tn_transport *t) {
  if (ftruncate(t->window_descriptor, (off_t)t->window_bytes) != 0) return false;
  void *window =
      mmap(NULL, t->window_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, t->window_descriptor, 0);
  if (window == MAP_FAILED) return false;
  t->window = window;
  return true;
}

/* Waits until the keeper has started the process, or couldn't. */
static bool start_process(tn_transport *t) {
  t->keeper = tn_thread_start("tenon-dsp", keeper_main, t);
  if (!t->keeper) return false;
  tn_mutex_lock(t->mutex);
  while (!t->process) tn_cond_wait(t->something, t->mutex, UINT64_MAX);
  tn_mutex_unlock(t->mutex);
  return t->process > 0;
}

tn_status tn_transport_start(const void *program, size_t program_bytes, uint64_t window_bytes, uint64_t begin_bytes,
                             void (*prepare)(void *context, uint8_t *window), void *context, tn_transport **transport,
                             char *message, size_t capacity) {
  tn_status status = tn_transport_check(message, capacity);
  *transport = NULL;
  if (status != TN_OK) return status;
  tn_transport *t = tn_calloc(1, sizeof *t);
  if (!t) {
    snprintf(message, capacity, "out of memory");
    return TN_E_MEMORY;
  }
  find_emulator(t->emulator);
  t->window_bytes = window_bytes;
  t->mutex = tn_mutex_create();
  t->something = tn_cond_create();
  t->window_descriptor = memory_file("tenon-dsp-window", NULL, 0);
  t->program_descriptor = memory_file("tenon-dsp-program", program, program_bytes);
  t->said_descriptor = memory_file("tenon-dsp-said", NULL, 0);
  bool ok = t->mutex && t->something && t->window_descriptor >= 0 && t->program_descriptor >= 0 &&
            t->said_descriptor >= 0 && map_window(t) && tn_transport_reserve(t, 0, begin_bytes);
  if (ok) {
    prepare(context, t->window);
    ok = start_process(t);
  }
  if (!ok) {
    snprintf(message, capacity, "a window of memory or a process for the DSP can't be had: %s", strerror(errno));
    tn_transport_stop(t, 0);
    return TN_E_MEMORY;
  }
  *transport = t;
  return TN_OK;
}

void tn_transport_stop(tn_transport *t, uint64_t deadline_ns) {
  if (!t) return;
  if (t->keeper) {
    tn_mutex_lock(t->mutex);
    while (t->process > 0 && !t->ended && tn_cond_wait(t->something, t->mutex, deadline_ns)) continue;
    tn_mutex_unlock(t->mutex);
    tn_transport_kill(t);
    tn_thread_join(t->keeper);
  }
  if (t->window) munmap(t->window, t->window_bytes);
  if (t->window_descriptor >= 0) close(t->window_descriptor);
  if (t->program_descriptor >= 0) close(t->program_descriptor);
  if (t->said_descriptor >= 0) close(t->said_descriptor);
  tn_cond_destroy(t->something);
  tn_mutex_destroy(t->mutex);
  free(t);
}
