/* Runs a fuzz target over every file of a folder: replay FOLDER. The target's own checks and the sanitizers decide;
 * a folder without a file is an error, so that a lost corpus is noticed. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads a whole file into exactly as many bytes as it has, so that a read past the end is seen. */
static uint8_t *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  uint8_t *data = NULL;
  if (fseek(file, 0, SEEK_END) == 0) {
    long end = ftell(file);
    rewind(file);
    data = end < 0 ? NULL : malloc(end ? (size_t)end : 1);
    *size = data ? fread(data, 1, (size_t)end, file) : 0;
    if (data && *size != (size_t)end) {
      free(data);
      data = NULL;
    }
  }
  fclose(file);
  return data;
}

int main(int count, char **arguments) {
  DIR *folder = count == 2 ? opendir(arguments[1]) : NULL;
  if (!folder) {
    fprintf(stderr, "usage: %s FOLDER (of corpus files)\n", arguments[0]);
    return 2;
  }
  int files = 0, failed = 0;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", arguments[1], entry->d_name);
    size_t size = 0;
    uint8_t *data = read_file(path, &size);
    if (!data) {
      fprintf(stderr, "can't read %s\n", path);
      failed = 1;
      break;
    }
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    files++;
  }
  closedir(folder);
  printf("%d files\n", files);
  return failed || files == 0;
}
