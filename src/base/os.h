/* The operating system, in one place: files, clock, threads, the machine. Outside this folder and the
 * device folders nothing calls the OS (a test holds that). Paths are bytes. */
#ifndef TENON_BASE_OS_H
#define TENON_BASE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/memory.h"
#include "tenon/status.h"

/* ---- files ---- */

/* A whole file mapped read-only. `data` is NULL for an empty file. */
typedef struct tn_file_map {
  const uint8_t *data;
  size_t size;
  int64_t modified_ns, changed_ns; /* when its content, and anything of it, was last changed (since 1970) */
} tn_file_map;

/* Maps `path`. Errors name the path: TN_E_NOT_FOUND, TN_E_IO (unreadable, a directory, not a regular file). */
tn_status tn_file_map_open(tn_file_map *map, const char *path, tn_error *error);
void tn_file_map_close(tn_file_map *map);
/* Appends a line to `out`: the path, its bytes, and when the file was changed. Equal lines, equal contents. */
void tn_file_map_stamp(const tn_file_map *map, const char *path, tn_buf *out);
/* Where in the file the byte at `data` lies; false when outside. */
bool tn_file_map_place(const tn_file_map *map, const void *data, uint64_t *offset);
/* Lets the pages that lie wholly inside [offset, offset + size) go; they are read again from the file if touched. */
void tn_file_map_release(const tn_file_map *map, size_t offset, size_t size);

/* Reads a whole file of at most `limit` bytes into a zero-terminated string (*data, free() it). "-" is stdin. */
tn_status tn_file_read(const char *path, size_t limit, char **data, size_t *size, tn_error *error);

/* Writes a file whole or not at all: a temporary name beside it, flushed, then renamed. What is no regular file (a
 * device, a pipe) is written in place. */
tn_status tn_file_write(const char *path, const void *data, size_t size, tn_error *error);

/* The same piece by piece: nothing new is at `path` before the commit, and what is no regular file is refused. Each
 * open writer ends with commit or discard. */
typedef struct tn_file_writer tn_file_writer;
tn_status tn_file_writer_open(tn_file_writer **writer, const char *path, tn_error *error);
tn_status tn_file_writer_append(tn_file_writer *writer, const void *data, size_t size, tn_error *error);
tn_status tn_file_writer_commit(tn_file_writer *writer, tn_error *error);
void tn_file_writer_discard(tn_file_writer *writer); /* NULL is fine */
/* Lets only its owner read what is written, whatever the umask and the file before allowed. */
tn_status tn_file_writer_keep_private(tn_file_writer *writer, tn_error *error);
/* Whether a writer could write at `path`: for finding that out before the work whose result goes there. */
tn_status tn_file_writer_check(const char *path, tn_error *error);

void tn_file_remove(const char *path); /* if it is there and may be removed */
bool tn_path_is_directory(const char *path);
bool tn_path_exists(const char *path);
/* A pipe, socket or device: reading may wait for ever. */
bool tn_path_is_endless(const char *path);
/* The path from the root on, links followed; free() it. NULL where there is no such file or memory is out. */
char *tn_path_absolute(const char *path);

/* Makes a folder, and those above it, where they are missing. */
tn_status tn_folder_make(const char *path, tn_error *error);
/* Bytes still free for this user on the disk that holds `path`; 0 when that can't be told. */
uint64_t tn_disk_free(const char *path);
/* The folder for what can be made again: $XDG_CACHE_HOME/tenon, or $HOME/.cache/tenon. False when neither variable is
 * set or the path doesn't fit. It may not exist yet. */
bool tn_cache_folder(char *out, size_t capacity);

/* ---- clock ---- */
uint64_t tn_clock_ns(void); /* monotonic */
void tn_sleep_ns(uint64_t ns);
int64_t tn_unix_time(void); /* seconds since 1970 */
/* Local wall-clock time formatted with strftime's `format` into `out` (zero-terminated, cut at `capacity`). */
void tn_local_time(const char *format, char *out, size_t capacity);

/* ---- threads ---- */
typedef struct tn_mutex tn_mutex;
typedef struct tn_cond tn_cond;
typedef struct tn_thread tn_thread;
tn_mutex *tn_mutex_create(void); /* NULL when memory is out */
void tn_mutex_destroy(tn_mutex *mutex);
void tn_mutex_lock(tn_mutex *mutex);
void tn_mutex_unlock(tn_mutex *mutex);
tn_cond *tn_cond_create(void);
void tn_cond_destroy(tn_cond *cond);
/* Waits with `mutex` held until signalled or `deadline_ns` (tn_clock_ns time; UINT64_MAX = no deadline); false on the
 * deadline. */
bool tn_cond_wait(tn_cond *cond, tn_mutex *mutex, uint64_t deadline_ns);
void tn_cond_broadcast(tn_cond *cond);
/* Starts `run(argument)` on a new thread named `name` (15 bytes are kept); NULL when none can be had. Signals stay with
 * the main thread. */
tn_thread *tn_thread_start(const char *name, void (*run)(void *argument), void *argument);
void tn_thread_join(tn_thread *thread); /* waits for it and frees it */

/* ---- the machine ---- */

/* Processors this process may really use: affinity, cut by the cgroup's cpu quota (rounded up), at least 1. */
unsigned tn_machine_cpus(void);
/* Bytes this process may use and could still allocate: the least of what the host, the cgroups it is in, and the limits
 * on its data and address space (ulimit -d, -v) leave. */
uint64_t tn_machine_memory_total(void);
uint64_t tn_machine_memory_free(void);
/* Would `bytes` take so much of `free_bytes` that they had better stay in their file? */
static inline bool tn_memory_is_tight(uint64_t bytes, uint64_t free_bytes) {
  return bytes > free_bytes / 4 * 3;
}
/* Gives memory that was freed back to the system, as far as the C library can; after freeing much. */
void tn_memory_give_back(void);
/* The processor's name, zero-terminated in `out`. */
void tn_machine_cpu_name(char *out, size_t capacity);
/* What Arm processors may have beyond the baseline, as the system says; nothing is there on others. */
typedef enum tn_cpu_feature {
  TN_CPU_DOTPROD, /* dot products of bytes: sdot, udot */
  TN_CPU_I8MM     /* products of matrices of bytes: smmla, usmmla, and usdot */
} tn_cpu_feature;
bool tn_machine_has(tn_cpu_feature feature);

/* ---- terminal and signals ---- */
bool tn_is_terminal(int descriptor);
/* From now on SIGINT and SIGTERM end the process with one line on stderr and exit status 1, an unfinished temporary
 * file of tn_file_write removed. SIGPIPE is ignored, so that writes fail with an error instead. */
void tn_exit_on_interrupt(void);
/* From now on SIGINT and SIGTERM only count; tn_interrupts() gives how many came, tn_terminated() whether a SIGTERM was
 * among them. SIGPIPE is ignored. */
void tn_catch_interrupts(void);
unsigned tn_interrupts(void);
bool tn_terminated(void);

/* Ends the process at once, whatever its threads are at; unfinished temporary files of tn_file_write are removed. */
_Noreturn void tn_exit_now(int status);

/* From now on a crash (memory, instruction, arithmetic) of the process ends it with exit status 1 and "tenon: crashed
 * in WORDS" on stderr. `words` may be changed later on and must stay. For tools that run foreign code. */
void tn_say_on_crash(const char *words);

/* ---- shared libraries ---- */
void *tn_library_open(const char *path, tn_error *error); /* NULL on failure */
void *tn_library_symbol(void *library, const char *name);
void tn_library_close(void *library);

/* A shared library whose file lies in memory. NULL on failure: TN_E_FORMAT for bytes that are none, TN_E_MEMORY. */
typedef struct tn_blob tn_blob;
tn_blob *tn_blob_open(const void *data, size_t bytes, tn_error *error);
void *tn_blob_symbol(tn_blob *blob, const char *name); /* NULL: it exports no such name */
void tn_blob_close(tn_blob *blob);                     /* NULL is allowed */

#endif
