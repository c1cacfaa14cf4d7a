/* Files and shared libraries (see os.h). */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "base/error.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/os_file.h"

static tn_status fail_errno(tn_error *error, const char *path, const char *doing) {
  int code = errno;
  return tn_fail(error, code == ENOENT ? TN_E_NOT_FOUND : TN_E_IO, "%s: cannot %s: %s", path, doing, strerror(code));
}

/* A file that can't be mapped, mostly for want of addresses (ulimit -v). */
static tn_status fail_map(tn_error *error, const char *path, size_t size) {
  if (errno != ENOMEM) return fail_errno(error, path, "map");
  return tn_fail(error, TN_E_MEMORY, "%s: cannot map it: %zu bytes wanted, %llu are free", path, size,
                 (unsigned long long)tn_machine_memory_free());
}

/* What something that is no regular file is, for messages. */
static const char *irregular(mode_t mode) {
  return S_ISDIR(mode) ? "a directory" : "a pipe or a device";
}

static int64_t nanoseconds(struct timespec time) {
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

tn_status tn_file_map_open(tn_file_map *map, const char *path, tn_error *error) {
  *map = (tn_file_map){0};
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a named pipe is refused, not waited for */
  if (descriptor < 0) return fail_errno(error, path, "open");
  tn_status status = TN_OK;
  struct stat info;
  if (fstat(descriptor, &info) != 0) {
    status = fail_errno(error, path, "read");
  } else if (!S_ISREG(info.st_mode)) {
    status = tn_fail(error, TN_E_IO, "%s: is %s, expected a regular file", path, irregular(info.st_mode));
  } else if (info.st_size > 0) {
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) {
      status = fail_map(error, path, (size_t)info.st_size);
    } else {
      map->data = data;
      map->size = (size_t)info.st_size;
      map->modified_ns = nanoseconds(info.st_mtim);
      map->changed_ns = nanoseconds(info.st_ctim);
    }
  }
  close(descriptor);
  return status;
}

void tn_file_map_close(tn_file_map *map) {
  if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
  *map = (tn_file_map){0};
}

void tn_file_map_stamp(const tn_file_map *map, const char *path, tn_buf *out) {
  char *absolute = tn_path_absolute(path);
  tn_buf_printf(out, "file %s %zu %lld %lld\n", absolute ? absolute : path, map->size, (long long)map->modified_ns,
                (long long)map->changed_ns);
  free(absolute);
}

bool tn_file_map_place(const tn_file_map *map, const void *data, uint64_t *offset) {
  uintptr_t begin = (uintptr_t)map->data, at = (uintptr_t)data;
  if (!map->data || at < begin || at - begin >= map->size) return false;
  *offset = at - begin;
  return true;
}

void tn_file_map_release(const tn_file_map *map, size_t offset, size_t size) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (!map->data || offset >= map->size) return;
  if (size > map->size - offset) size = map->size - offset;
  size_t first = tn_round_up(offset, page), last = (offset + size) / page * page;
  if (first < last) madvise((void *)(uintptr_t)(map->data + first), last - first, MADV_DONTNEED);
}

tn_status tn_file_read(const char *path, size_t limit, char **data, size_t *size, tn_error *error) {
  *data = NULL;
  *size = 0;
  bool is_stdin = !strcmp(path, "-");
  int descriptor = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return fail_errno(error, path, "open");
  tn_buf buf;
  tn_buf_init(&buf);
  tn_status status = TN_OK;
  for (;;) {
    if (!tn_buf_reserve(&buf, 64 << 10)) {
      status = tn_fail(error, TN_E_MEMORY, "%s: out of memory after %zu bytes", path, buf.size);
      break;
    }
    ssize_t got = read(descriptor, buf.data + buf.size, buf.capacity - buf.size - 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = fail_errno(error, path, "read");
    if (got <= 0) break;
    buf.size += (size_t)got;
    if (buf.size > limit) {
      status = tn_fail(error, TN_E_LIMIT, "%s: larger than %zu bytes", path, limit);
      break;
    }
  }
  if (!is_stdin) close(descriptor);
  *size = buf.size;
  if (status == TN_OK && !(*data = tn_buf_take(&buf))) status = tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
  tn_buf_finish(&buf);
  return status;
}

/* The temporary file being written, for tn_file_abandon. */
static char *volatile unfinished;

void tn_file_abandon(void) {
  if (unfinished) unlink(unfinished);
}

static tn_status write_bytes(int descriptor, const char *path, const void *data, size_t size, tn_error *error) {
  for (size_t done = 0; done < size;) {
    ssize_t wrote = write(descriptor, (const char *)data + done, size - done);
    if (wrote >= 0)
      done += (size_t)wrote;
    else if (errno != EINTR)
      return fail_errno(error, path, "write");
  }
  return TN_OK;
}

/* Flushes, unless something failed before, and closes the descriptor in any case. */
static tn_status flush_and_close(int descriptor, const char *path, tn_status status, tn_error *error) {
  if (status == TN_OK && fsync(descriptor) != 0 && errno != EINVAL && errno != EROFS)
    status = fail_errno(error, path, "write");
  if (close(descriptor) != 0 && status == TN_OK) status = fail_errno(error, path, "write");
  return status;
}

/* Devices, pipes and the like are written in place: there is nothing to rename over. */
static tn_status write_in_place(const char *path, const void *data, size_t size, tn_error *error) {
  int descriptor = open(path, O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return fail_errno(error, path, "open");
  return flush_and_close(descriptor, path, write_bytes(descriptor, path, data, size, error), error);
}

struct tn_file_writer {
  int descriptor;
  char *path, *temporary;
};

static void free_writer(tn_file_writer *writer) {
  if (unfinished == writer->temporary) unfinished = NULL;
  free(writer->path);
  free(writer->temporary);
  free(writer);
}

static tn_status open_writer(tn_file_writer **out, const char *path, tn_error *error) {
  size_t length = strlen(path);
  tn_file_writer *writer = tn_calloc(1, sizeof *writer);
  if (writer) {
    writer->path = tn_copy_text(path, length);
    writer->temporary = tn_calloc(length + 16, 1);
  }
  if (!writer || !writer->path || !writer->temporary) {
    if (writer) free_writer(writer);
    return tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
  }
  snprintf(writer->temporary, length + 16, "%s.XXXXXX", path);
  writer->descriptor = mkstemp(writer->temporary);
  if (writer->descriptor < 0) {
    tn_status status = fail_errno(error, path, "create");
    free_writer(writer);
    return status;
  }
  unfinished = writer->temporary;
  mode_t mask = umask(0);
  umask(mask);
  fchmod(writer->descriptor, 0666 & ~mask);
  *out = writer;
  return TN_OK;
}

tn_status tn_file_writer_open(tn_file_writer **out, const char *path, tn_error *error) {
  struct stat info;
  *out = NULL;
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
    return tn_fail(error, TN_E_IO, "%s: is %s, expected a regular file or none", path, irregular(info.st_mode));
  char *target = realpath(path, NULL); /* a link stays a link: its target is replaced */
  tn_status status = open_writer(out, target ? target : path, error);
  free(target);
  return status;
}

tn_status tn_file_writer_append(tn_file_writer *writer, const void *data, size_t size, tn_error *error) {
  return write_bytes(writer->descriptor, writer->path, data, size, error);
}

/* A rename is on disk when its folder is. File systems that can't flush a folder are taken at their word. */
static tn_status flush_folder_of(const char *path, tn_error *error) {
  const char *slash = strrchr(path, '/');
  size_t length = slash ? (size_t)(slash - path) + (slash == path) : 1;
  char *folder = tn_copy_text(slash ? path : ".", length);
  if (!folder) return tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
  int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  tn_status status = TN_OK;
  if (descriptor >= 0) {
    status = flush_and_close(descriptor, folder, TN_OK, error);
  } else if (errno != EACCES) {
    status = fail_errno(error, folder, "open");
  }
  free(folder);
  return status;
}

tn_status tn_file_writer_commit(tn_file_writer *writer, tn_error *error) {
  tn_status status = flush_and_close(writer->descriptor, writer->path, TN_OK, error);
  if (status == TN_OK && rename(writer->temporary, writer->path) != 0)
    status = fail_errno(error, writer->path, "rename into place");
  if (status == TN_OK)
    status = flush_folder_of(writer->path, error);
  else
    unlink(writer->temporary);
  free_writer(writer);
  return status;
}

void tn_file_writer_discard(tn_file_writer *writer) {
  if (!writer) return;
  close(writer->descriptor);
  unlink(writer->temporary);
  free_writer(writer);
}

tn_status tn_file_writer_keep_private(tn_file_writer *writer, tn_error *error) {
  bool is_private = fchmod(writer->descriptor, S_IRUSR | S_IWUSR) == 0;
  return is_private ? TN_OK : fail_errno(error, writer->path, "set the mode");
}

tn_status tn_file_writer_check(const char *path, tn_error *error) {
  tn_file_writer *writer;
  tn_status status = tn_file_writer_open(&writer, path, error);
  if (status == TN_OK) tn_file_writer_discard(writer);
  return status;
}

static tn_status write_and_rename(const char *path, const void *data, size_t size, tn_error *error) {
  tn_file_writer *writer;
  tn_status status = tn_file_writer_open(&writer, path, error);
  if (status != TN_OK) return status;
  status = tn_file_writer_append(writer, data, size, error);
  if (status == TN_OK) return tn_file_writer_commit(writer, error);
  tn_file_writer_discard(writer);
  return status;
}

tn_status tn_file_write(const char *path, const void *data, size_t size, tn_error *error) {
  struct stat info;
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) return write_in_place(path, data, size, error);
  return write_and_rename(path, data, size, error);
}

void tn_file_remove(const char *path) {
  unlink(path);
}

bool tn_path_is_directory(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool tn_path_is_endless(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

bool tn_path_exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}

char *tn_path_absolute(const char *path) {
  return realpath(path, NULL);
}

tn_status tn_folder_make(const char *path, tn_error *error) {
  char *part = tn_copy_text(path, strlen(path));
  if (!part) return tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
  tn_status status = TN_OK;
  for (char *end = part + 1; status == TN_OK && *part; end++) {
    char kept = *end;
    if (kept && kept != '/') continue;
    *end = 0;
    if (mkdir(part, 0777) != 0 && !tn_path_is_directory(part)) status = fail_errno(error, part, "make the folder");
    *end = kept;
    if (!kept) break;
  }
  free(part);
  return status;
}

uint64_t tn_disk_free(const char *path) {
  struct statvfs info;
  return statvfs(path, &info) == 0 ? (uint64_t)info.f_bavail * info.f_frsize : 0;
}

bool tn_cache_folder(char *out, size_t capacity) {
  const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int bytes = -1;
  if (base && *base == '/')
    bytes = snprintf(out, capacity, "%s/tenon", base);
  else if (home && *home)
    bytes = snprintf(out, capacity, "%s/.cache/tenon", home);
  return bytes > 0 && (size_t)bytes < capacity;
}

/* Does the file end before what its program headers name? The loader would map it all the same, and the process would
 * die of the first touch behind the end. Files that are no library are the loader's to refuse. */
static bool is_cut_off(const char *path) {
  ElfW(Ehdr) header;
  struct stat info;
  bool is_cut = false;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) &&
      pread(file, &header, sizeof header, 0) == (ssize_t)sizeof header && !memcmp(header.e_ident, ELFMAG, SELFMAG))
    for (uint32_t i = 0; i < header.e_phnum && !is_cut; i++) {
      ElfW(Phdr) part;
      off_t at = (off_t)(header.e_phoff + (uint64_t)i * sizeof part);
      uint64_t end;
      is_cut = pread(file, &part, sizeof part, at) != (ssize_t)sizeof part ||
               __builtin_add_overflow((uint64_t)part.p_offset, (uint64_t)part.p_filesz, &end) ||
               (part.p_type == PT_LOAD && end > (uint64_t)info.st_size);
    }
  close(file);
  return is_cut;
}

void *tn_library_open(const char *path, tn_error *error) {
  if (strchr(path, '/') && is_cut_off(path)) {
    tn_fail(error, TN_E_FORMAT, "%s: cannot load: the file ends before its contents do", path);
    return NULL;
  }
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    tn_fail(error, tn_path_exists(path) ? TN_E_FORMAT : TN_E_NOT_FOUND, "%s: cannot load: %s", path, dlerror());
  return library;
}

void *tn_library_symbol(void *library, const char *name) {
  return dlsym(library, name);
}

void tn_library_close(void *library) {
  if (library) dlclose(library);
}
