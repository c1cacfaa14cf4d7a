/* model/safetensors.h: what the reader describes, and that it refuses what is wrong by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/os.h"
#include "model/gguf.h"
#include "model/safetensors.h"
#include "tensor/decode.h"

#define SHARDED TEST_DATA "/golden/llama-linear-sharded"

/* A file of a header and `data_size` bytes 0, 1, 2 ...; free() it. */
static uint8_t *build(const char *json, size_t data_size, size_t *size) {
  uint64_t bytes = strlen(json);
  *size = sizeof bytes + bytes + data_size;
  uint8_t *file = malloc(*size);
  memcpy(file, &bytes, sizeof bytes);
  memcpy(file + sizeof bytes, json, bytes);
  for (size_t i = 0; i < data_size; i++) file[sizeof bytes + bytes + i] = (uint8_t)i;
  return file;
}

static void must_refuse_bytes(const void *data, size_t size, tn_status status, const char *part) {
  uint8_t *copy = malloc(size ? size : 1); /* to the byte, for the sanitizer */
  if (size) memcpy(copy, data, size);
  tn_error error = {0};
  tn_safetensors *file = (tn_safetensors *)1;
  assert_int_equal(tn_safetensors_open_memory(&file, "test.safetensors", copy, size, &error), status);
  assert_null(file);
  assert_int_equal(error.status, status);
  if (strncmp(error.message, "test.safetensors: ", 18) != 0 || !strstr(error.message, part))
    fail_msg("message '%s' lacks '%s'", error.message, part);
  free(copy);
}

/* ---- what is legal ---- */

static void a_file_is_described(void **state) {
  (void)state;
  size_t size;
  uint8_t *bytes = build(
      "{\"__metadata__\":{\"format\":\"pt\"},"
      "\"matrix\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
      "\"scalar\":{\"data_offsets\":[0,4],\"shape\":[],\"dtype\":\"F32\",\"more\":[1,{\"x\":null}]},"
      "\"five\":{\"dtype\":\"U8\",\"shape\":[2,3,1,1,2],\"data_offsets\":[16,28]},"
      "\"mask\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[28,31]},"
      "\"empty\":{\"dtype\":\"F16\",\"shape\":[0,7],\"data_offsets\":[31,31]},"
      "\"\\u00e9\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[31,32]}}   ",
      32, &size);
  tn_safetensors *file;
  tn_error error;
  if (tn_safetensors_open_memory(&file, "test.safetensors", bytes, size, &error) != TN_OK)
    fail_msg("%s", error.message);
  assert_int_equal(file->tensor_count, 6);
  uint8_t used[6] = {0};
  const tn_file_tensor *matrix, *found;
  assert_int_equal(tn_safetensors_get(file, used, "matrix", &matrix, &error), TN_OK);
  assert_true(matrix->dtype == TN_BF16 && matrix->rank == 2 && matrix->bytes == 12);
  assert_true(matrix->dims[0] == 3 && matrix->dims[1] == 2 && matrix->dims[2] == 1 && matrix->dims[3] == 1);
  assert_int_equal(matrix->data[0], 4);
  assert_int_equal(tn_safetensors_get(file, used, "scalar", &found, &error), TN_OK);
  assert_true(found->rank == 0 && found->dims[0] == 1 && found->bytes == 4 && found->data[3] == 3);
  assert_int_equal(tn_safetensors_get(file, used, "\xc3\xa9", &found, &error), TN_OK);
  assert_true(found->dtype == TN_F8_E4M3 && found->data[0] == 31);
  assert_int_equal(tn_safetensors_get(file, used, "five", &found, &error), TN_E_UNSUPPORTED);
  assert_string_equal(error.message, "test.safetensors: tensor 'five' has 5 dimensions, expected at most 4");
  found = tn_safetensors_find(file, "five");
  assert_true(found->rank == 5 && found->dims[0] == 2 && found->dims[1] == 1 && found->dims[3] == 6);
  assert_int_equal(tn_safetensors_get(file, NULL, "mask", &found, &error), TN_E_UNSUPPORTED);
  assert_int_equal(tn_safetensors_get(file, used, "empty", &found, &error), TN_E_FORMAT);
  assert_int_equal(tn_safetensors_get(file, used, "absent", &found, &error), TN_E_NOT_FOUND);
  assert_string_equal(error.message, "test.safetensors: tensor 'absent' is missing");
  size_t count = 0;
  for (size_t i = 0; i < sizeof used; i++) count += used[i];
  assert_int_equal(count, 5); /* all but the mask */
  tn_safetensors_close(file);
  free(bytes);
}

/* The shards hold the weights of the GGUF file next to them, narrowed to bf16 (which they were drawn in). */
static void shards_agree_with_gguf(void **state) {
  (void)state;
  static const char *const names[][2] = {{"model.embed_tokens.weight", "token_embd.weight"},
                                         {"lm_head.weight", "output.weight"},
                                         {"model.layers.2.mlp.down_proj.weight", "blk.2.ffn_down.weight"}};
  static const char *const paths[] = {SHARDED, SHARDED "/model.safetensors.index.json"};
  tn_error error;
  tn_gguf *gguf;
  assert_int_equal(tn_gguf_open(&gguf, SHARDED "/model.gguf", &error), TN_OK);
  for (size_t p = 0; p < TN_COUNT(paths); p++) {
    tn_safetensors *file;
    if (tn_safetensors_open(&file, paths[p], &error) != TN_OK) fail_msg("%s", error.message);
    assert_int_equal(file->tensor_count, gguf->tensor_count);
    for (size_t n = 0; n < TN_COUNT(names); n++) {
      const tn_file_tensor *ours, *theirs;
      assert_int_equal(tn_safetensors_get(file, NULL, names[n][0], &ours, &error), TN_OK);
      assert_int_equal(tn_gguf_get_tensor(gguf, NULL, names[n][1], &theirs, &error), TN_OK);
      assert_memory_equal(ours->dims, theirs->dims, sizeof ours->dims);
      size_t count = theirs->bytes / sizeof(float);
      float *values = malloc(theirs->bytes);
      assert_true(tn_decode_row(ours->dtype, ours->data, values, count));
      assert_memory_equal(values, theirs->data, theirs->bytes);
      tn_safetensors_release(file, ours);
      assert_true(tn_decode_row(ours->dtype, ours->data, values, count));
      assert_memory_equal(values, theirs->data, theirs->bytes);
      free(values);
    }
    tn_safetensors_close(file);
  }
  tn_gguf_close(gguf);
}

/* ---- what is refused ---- */

static void wrong_headers(void **state) {
  (void)state;
  static const struct {
    const char *json, *message;
    tn_status status;
  } cases[] = {
      {"", "header: JSON line 1 column 1: expected an object", TN_E_FORMAT},
      {"[]", "header: JSON line 1 column 1: expected an object", TN_E_FORMAT},
      {"{\"t\":", "tensor 't': JSON", TN_E_FORMAT},
      {"{\"t\":{}}", "tensor 't': JSON line 1 column 8: dtype, shape or data_offsets is missing", TN_E_FORMAT},
      {"{\"t\":7}", "tensor 't': JSON line 1 column 6: expected an object", TN_E_FORMAT},
      {"{} {}", "header: JSON", TN_E_FORMAT},
      {"{\"t\":{\"dtype\":\"F13\",\"shape\":[1],\"data_offsets\":[0,4]}}", "dtype 'F13' is none of the format",
       TN_E_FORMAT},
      {"{\"t\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", "a dimension is negative", TN_E_FORMAT},
      {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", "tensor 't': JSON", TN_E_FORMAT},
      {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", "data_offsets must be two numbers",
       TN_E_FORMAT},
      {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", "more than two numbers", TN_E_FORMAT},
      {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", "data_offsets must be two numbers",
       TN_E_FORMAT},
      {"{\"t\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}",
       "tensor 't': 3 elements of F32 are 96 bits, but its data_offsets span 8 bytes", TN_E_FORMAT},
      {"{\"t\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}",
       "tensor 't': its data ends at byte 12, but the file has 8 bytes of data", TN_E_FORMAT},
      {"{\"t\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4294967296],\"data_offsets\":[0,8]}}",
       "tensor 't': the product of its dimensions overflows", TN_E_FORMAT},
      {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
       "the tensors end at byte 4 of the data, but the file has 8", TN_E_FORMAT},
      {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
       "tensor 't': 4 bytes in front of its data belong to no tensor", TN_E_FORMAT},
      {"{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"u\":{\"dtype\":\"U8\",\"shape\":[1],"
       "\"data_offsets\":[7,8]}}",
       "tensor 'u': its data overlaps that of tensor 't'", TN_E_FORMAT},
      {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"t\":{\"dtype\":\"F32\",\"shape\":[1],"
       "\"data_offsets\":[4,8]}}",
       "tensor 't' appears twice", TN_E_FORMAT},
      {"{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "zero character", TN_E_FORMAT},
  };
  for (size_t i = 0; i < TN_COUNT(cases); i++) {
    size_t size;
    uint8_t *file = build(cases[i].json, 8, &size);
    must_refuse_bytes(file, size, cases[i].status, cases[i].message);
    free(file);
  }
}

static void wrong_sizes(void **state) {
  (void)state;
  must_refuse_bytes("", 0, TN_E_FORMAT, "has 0 bytes");
  must_refuse_bytes("\1\0\0\0", 4, TN_E_FORMAT, "has 4 bytes");
  uint64_t size = 100ull << 30;
  must_refuse_bytes(&size, 8, TN_E_LIMIT, "a safetensors header of 107374182400 bytes, at most 100000000");
  size = UINT64_MAX;
  must_refuse_bytes(&size, 8, TN_E_LIMIT, "header of 18446744073709551615 bytes");
  size = 1000;
  must_refuse_bytes(&size, 8, TN_E_FORMAT, "header of 1000 bytes, but the file has 0 more");
}

static void truncated_files(void **state) {
  (void)state;
  char *data;
  size_t size;
  tn_error error;
  assert_int_equal(tn_file_read(SHARDED "/model-00002-of-00002.safetensors", 1 << 20, &data, &size, &error), TN_OK);
  for (size_t cut = 0; cut < size; cut += 509) must_refuse_bytes(data, cut, TN_E_FORMAT, "");
  must_refuse_bytes(data, size - 1, TN_E_FORMAT, "but the file has");
  free(data);
}

/* Writes an index into a folder of its own and opens it. */
static void must_refuse_index(const char *text, tn_status status, const char *part) {
  char folder[] = "/tmp/tenon-test-XXXXXX", index[64];
  assert_non_null(mkdtemp(folder));
  snprintf(index, sizeof index, "%s/model.safetensors.index.json", folder);
  tn_error error = {0};
  assert_int_equal(tn_file_write(index, text, strlen(text), &error), TN_OK);
  tn_safetensors *file;
  tn_status got = tn_safetensors_open(&file, folder, &error);
  unlink(index);
  rmdir(folder);
  assert_int_equal(got, status);
  assert_null(file);
  if (strncmp(error.message, folder, strlen(folder)) != 0 || !strstr(error.message, part))
    fail_msg("message '%s' lacks '%s'", error.message, part);
}

static void wrong_indexes(void **state) {
  (void)state;
  must_refuse_index("{\"weight_map\":{\"a\":\"model-00007-of-00009.safetensors\"}}", TN_E_NOT_FOUND,
                    "/model-00007-of-00009.safetensors");
  must_refuse_index("{\"metadata\":{}}", TN_E_FORMAT, "'weight_map' is missing or empty");
  must_refuse_index("{\"weight_map\":{\"a\":\"../secret\"}}", TN_E_FORMAT, "not that of a file beside the index");
  must_refuse_index("{\"weight_map\":{\"a\":7}}", TN_E_FORMAT, "index.json: JSON line 1");
  must_refuse_index("{\"weight_map\":{\"a\":\".\"}}", TN_E_IO, "directory");
  must_refuse_index("nonsense", TN_E_FORMAT, "index.json: JSON line 1");
}

static void an_index_must_be_true(void **state) {
  (void)state;
  char folder[] = "/tmp/tenon-test-XXXXXX", index[64], shard[64];
  static const char text[] = "{\"weight_map\":{\"there\":\"s.safetensors\",\"not.there\":\"s.safetensors\"}}";
  assert_non_null(mkdtemp(folder));
  snprintf(index, sizeof index, "%s/model.safetensors.index.json", folder);
  snprintf(shard, sizeof shard, "%s/s.safetensors", folder);
  tn_error error = {0};
  size_t size;
  uint8_t *bytes = build("{\"there\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, &size);
  assert_int_equal(tn_file_write(index, text, sizeof text - 1, &error), TN_OK);
  assert_int_equal(tn_file_write(shard, bytes, size, &error), TN_OK);
  tn_safetensors *file;
  tn_status status = tn_safetensors_open(&file, index, &error);
  unlink(index);
  unlink(shard);
  rmdir(folder);
  free(bytes);
  assert_int_equal(status, TN_E_FORMAT);
  assert_non_null(strstr(error.message, "tensor 'not.there' should be in /tmp/"));
}

static void files_that_cannot_be_opened(void **state) {
  (void)state;
  tn_error error = {0};
  tn_safetensors *file;
  assert_int_equal(tn_safetensors_open(&file, TEST_DATA "/no-such.safetensors", &error), TN_E_NOT_FOUND);
  assert_int_equal(tn_safetensors_open(&file, TEST_DATA, &error), TN_E_NOT_FOUND);
  assert_non_null(strstr(error.message, "no model.safetensors.index.json and no model.safetensors in it"));
  assert_int_equal(tn_safetensors_open(&file, "/dev/null", NULL), TN_E_IO);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_is_described),   cmocka_unit_test(shards_agree_with_gguf),
      cmocka_unit_test(wrong_headers),         cmocka_unit_test(wrong_sizes),
      cmocka_unit_test(truncated_files),       cmocka_unit_test(wrong_indexes),
      cmocka_unit_test(an_index_must_be_true), cmocka_unit_test(files_that_cannot_be_opened),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
