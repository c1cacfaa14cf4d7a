/* model/gguf.h: what the reader describes, and that it refuses what is wrong by name. Files are built here byte by
 * byte. (The folder tests/model is for tests that need the default model.) byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/os.h"
#include "model/gguf.h"

static void put_u32(tn_buf *b, uint32_t v) {
  assert_true(tn_buf_append(b, &v, sizeof v));
}
static void put_u64(tn_buf *b, uint64_t v) {
  assert_true(tn_buf_append(b, &v, sizeof v));
}
static void put_text(tn_buf *b, const char *text) {
  put_u64(b, strlen(text));
  assert_true(tn_buf_append(b, text, strlen(text)));
}
static void put_header(tn_buf *b, uint32_t version, uint64_t tensors, uint64_t keys) {
  tn_buf_init(b);
  tn_buf_append(b, "GGUF", 4);
  put_u32(b, version);
  put_u64(b, tensors);
  put_u64(b, keys);
}
static void put_key(tn_buf *b, const char *name, tn_gguf_type type) {
  put_text(b, name);
  put_u32(b, type);
}
static void put_tensor(tn_buf *b, const char *name, uint32_t rank, const uint64_t *dims, uint32_t type,
                       uint64_t offset) {
  put_text(b, name);
  put_u32(b, rank);
  for (uint32_t d = 0; d < rank; d++) put_u64(b, dims[d]);
  put_u32(b, type);
  put_u64(b, offset);
}
static void put_data(tn_buf *b, size_t alignment, size_t bytes) {
  while (b->size % alignment) tn_buf_putc(b, 0);
  for (size_t i = 0; i < bytes; i++) tn_buf_putc(b, (char)i);
}

/* Opens a copy of exactly the bytes (so that a sanitizer sees any step beyond them) and frees the buffer. */
static tn_gguf *must_open(tn_buf *b, char **copy) {
  *copy = malloc(b->size + 1);
  memcpy(*copy, b->data, b->size);
  tn_error error = {0};
  tn_gguf *gguf = NULL;
  tn_status status = tn_gguf_open_memory(&gguf, "test.gguf", *copy, b->size, &error);
  if (status != TN_OK) fail_msg("%s", error.message);
  tn_buf_finish(b);
  return gguf;
}

/* The bytes must be refused with `status` and a message that names the file and contains `part`. */
static void must_refuse_bytes(const void *data, size_t size, tn_status status, const char *part) {
  char *copy = malloc(size ? size : 1);
  if (size) memcpy(copy, data, size);
  tn_error error = {0};
  tn_gguf *gguf = (tn_gguf *)1;
  assert_int_equal(tn_gguf_open_memory(&gguf, "test.gguf", copy, size, &error), status);
  assert_null(gguf);
  assert_int_equal(error.status, status);
  if (strncmp(error.message, "test.gguf: ", 11) != 0 || !strstr(error.message, part) || strchr(error.message, '\n'))
    fail_msg("message '%s' lacks '%s'", error.message, part);
  free(copy);
}
static void must_refuse(tn_buf *b, tn_status status, const char *part) {
  must_refuse_bytes(b->data, b->size, status, part);
  tn_buf_finish(b);
}

/* ---- what is legal ---- */

static void scalars_are_read(void **state) {
  (void)state;
  tn_buf b;
  put_header(&b, 3, 0, 9);
  put_key(&b, "i8", TN_GGUF_I8);
  tn_buf_putc(&b, (char)-5);
  put_key(&b, "u16", TN_GGUF_U16);
  tn_buf_append(&b, "\xfe\xff", 2);
  put_key(&b, "i32", TN_GGUF_I32);
  put_u32(&b, (uint32_t)-7);
  put_key(&b, "u64", TN_GGUF_U64);
  put_u64(&b, UINT64_MAX);
  put_key(&b, "f32", TN_GGUF_F32);
  put_u32(&b, 0x3fc00000u);
  put_key(&b, "f64", TN_GGUF_F64);
  put_u64(&b, 0x4004000000000000u);
  put_key(&b, "bool", TN_GGUF_BOOL);
  tn_buf_putc(&b, 1);
  put_key(&b, "string", TN_GGUF_STRING);
  put_text(&b, "h\xc3\xa9llo");
  put_key(&b, "empty", TN_GGUF_STRING);
  put_text(&b, "");
  char *copy;
  tn_gguf *gguf = must_open(&b, &copy);
  tn_error error;
  int64_t i = 0;
  uint32_t u = 0;
  uint64_t u64 = 0;
  float f = 0;
  bool yes = false;
  tn_text text;
  assert_int_equal(tn_gguf_get_i64(gguf, NULL, "i8", &i, &error), TN_OK);
  assert_int_equal(i, -5);
  assert_int_equal(tn_gguf_get_u32(gguf, NULL, "u16", &u, &error), TN_OK);
  assert_int_equal(u, 65534);
  assert_int_equal(tn_gguf_get_i64(gguf, NULL, "i32", &i, &error), TN_OK);
  assert_int_equal(i, -7);
  assert_int_equal(tn_gguf_get_u64(gguf, NULL, "u64", &u64, &error), TN_OK);
  assert_true(u64 == UINT64_MAX);
  assert_int_equal(tn_gguf_get_f32(gguf, NULL, "f32", &f, &error), TN_OK);
  assert_true(f == 1.5f);
  assert_int_equal(tn_gguf_get_f32(gguf, NULL, "f64", &f, &error), TN_OK);
  assert_true(f == 2.5f);
  assert_int_equal(tn_gguf_get_bool(gguf, NULL, "bool", &yes, &error), TN_OK);
  assert_true(yes);
  assert_int_equal(tn_gguf_get_string(gguf, NULL, "string", &text, &error), TN_OK);
  assert_int_equal(text.bytes, 6);
  assert_memory_equal(text.data, "h\xc3\xa9llo", 6);
  assert_int_equal(tn_gguf_get_string(gguf, NULL, "empty", &text, &error), TN_OK);
  assert_int_equal(text.bytes, 0);
  tn_gguf_close(gguf);
  free(copy);
}

static void getters_name_key_and_type(void **state) {
  (void)state;
  tn_buf b;
  put_header(&b, 2, 0, 3);
  put_key(&b, "negative", TN_GGUF_I32);
  put_u32(&b, (uint32_t)-7);
  put_key(&b, "large", TN_GGUF_U64);
  put_u64(&b, 1ull << 40);
  put_key(&b, "name", TN_GGUF_STRING);
  put_text(&b, "x");
  char *copy;
  tn_gguf *gguf = must_open(&b, &copy);
  assert_int_equal(gguf->version, 2);
  tn_error error;
  uint32_t u = 77;
  float f = 1;
  tn_gguf_array array;
  tn_gguf_use use;
  assert_int_equal(tn_gguf_use_init(&use, gguf, &error), TN_OK);
  assert_int_equal(tn_gguf_get_u32(gguf, &use, "absent", &u, &error), TN_E_NOT_FOUND);
  assert_string_equal(error.message, "test.gguf: key 'absent' is missing, expected an unsigned 32-bit integer");
  assert_int_equal(tn_gguf_opt_u32(gguf, &use, "absent", &u, &error), TN_OK);
  assert_int_equal(u, 77);
  assert_int_equal(tn_gguf_opt_u32(gguf, &use, "negative", &u, &error), TN_E_FORMAT);
  assert_string_equal(error.message, "test.gguf: key 'negative' is i32 -7, expected an unsigned 32-bit integer");
  assert_int_equal(tn_gguf_get_u32(gguf, NULL, "large", &u, &error), TN_E_FORMAT);
  assert_int_equal(tn_gguf_opt_f32(gguf, NULL, "name", &f, &error), TN_E_FORMAT);
  assert_string_equal(error.message, "test.gguf: key 'name' is string, expected a floating-point number");
  assert_int_equal(tn_gguf_get_array(gguf, NULL, "name", TN_GGUF_STRING, &array, &error), TN_E_FORMAT);
  assert_true(u == 77 && f == 1);
  assert_true(use.keys[0] == 1 && use.keys[1] == 0 && use.keys[2] == 0);
  tn_gguf_use_finish(&use);
  tn_gguf_close(gguf);
  free(copy);
}

static void arrays_are_read_in_place(void **state) {
  (void)state;
  tn_buf b;
  put_header(&b, 3, 0, 4);
  put_key(&b, "texts", TN_GGUF_ARRAY);
  put_u32(&b, TN_GGUF_STRING);
  put_u64(&b, 100);
  for (int i = 0; i < 100; i++) {
    char text[16];
    snprintf(text, sizeof text, "%.*d", i % 7, i);
    put_text(&b, text);
  }
  put_key(&b, "numbers", TN_GGUF_ARRAY);
  put_u32(&b, TN_GGUF_I16);
  put_u64(&b, 3);
  tn_buf_append(&b, "\x01\x00\xff\xff\x00\x80", 6);
  put_key(&b, "nested", TN_GGUF_ARRAY);
  put_u32(&b, TN_GGUF_ARRAY);
  put_u64(&b, 2);
  put_u32(&b, TN_GGUF_STRING);
  put_u64(&b, 2);
  put_text(&b, "same");
  put_text(&b, "same");
  put_u32(&b, TN_GGUF_F32);
  put_u64(&b, 1);
  put_u32(&b, 0x40000000u);
  put_key(&b, "none", TN_GGUF_ARRAY);
  put_u32(&b, TN_GGUF_STRING);
  put_u64(&b, 0);
  char *copy;
  tn_gguf *gguf = must_open(&b, &copy);
  tn_error error;
  tn_gguf_array array;
  assert_int_equal(tn_gguf_get_array(gguf, NULL, "texts", TN_GGUF_STRING, &array, &error), TN_OK);
  assert_int_equal(array.count, 100);
  tn_gguf_cursor cursor = {&array, 0, 0};
  for (int i = 0; i < 100; i++) {
    char wanted[16];
    int size = snprintf(wanted, sizeof wanted, "%.*d", i % 7, i);
    tn_text text = tn_gguf_array_text(&array, (size_t)i), next;
    assert_int_equal(text.bytes, size);
    assert_memory_equal(text.data, wanted, text.bytes);
    assert_true(tn_gguf_next_text(&cursor, &next));
    assert_true(next.data == text.data && next.bytes == text.bytes);
  }
  tn_text text;
  assert_false(tn_gguf_next_text(&cursor, &text));
  assert_int_equal(tn_gguf_get_array(gguf, NULL, "numbers", TN_GGUF_I64, &array, &error), TN_OK);
  assert_int_equal(tn_gguf_array_i64(&array, 0), 1);
  assert_int_equal(tn_gguf_array_i64(&array, 1), -1);
  assert_true(tn_gguf_array_f64(&array, 2) == -32768.0);
  assert_int_equal(tn_gguf_get_array(gguf, NULL, "nested", TN_GGUF_ARRAY, &array, &error), TN_OK);
  tn_gguf_array inner = tn_gguf_array_array(&array, 0);
  assert_int_equal(inner.count, 2);
  assert_memory_equal(tn_gguf_array_text(&inner, 1).data, "same", 4);
  inner = tn_gguf_array_array(&array, 1);
  assert_true(inner.type == TN_GGUF_F32 && tn_gguf_array_f64(&inner, 0) == 2.0);
  assert_int_equal(tn_gguf_opt_array(gguf, NULL, "none", TN_GGUF_STRING, &array, &error), TN_OK);
  assert_int_equal(array.count, 0);
  tn_gguf_close(gguf);
  free(copy);
}

static void alignment_and_empty_tensors(void **state) {
  (void)state;
  static const uint32_t alignments[] = {1, 8, 32, 4096};
  for (size_t a = 0; a < TN_COUNT(alignments); a++) {
    tn_buf b;
    put_header(&b, 3, 4, 1);
    put_key(&b, "general.alignment", TN_GGUF_U32);
    put_u32(&b, alignments[a]);
    uint64_t second = tn_round_up(72, alignments[a]);
    put_tensor(&b, "second", 2, (const uint64_t[]){3, 2}, 0, second);
    put_tensor(&b, "first", 2, (const uint64_t[]){32, 4}, 2, 0);
    put_tensor(&b, "empty", 3, (const uint64_t[]){4, 0, 5}, 0, 0);
    put_tensor(&b, "scalar", 0, NULL, 24, tn_round_up(second + 24, alignments[a]));
    put_data(&b, alignments[a], tn_round_up(second + 24, alignments[a]) + 1);
    char *copy;
    tn_gguf *gguf = must_open(&b, &copy);
    tn_error error;
    const tn_file_tensor *first, *found;
    assert_int_equal(tn_gguf_get_tensor(gguf, NULL, "first", &first, &error), TN_OK);
    assert_true(first->dtype == TN_Q4_0 && first->rank == 2 && first->bytes == 72);
    assert_true(first->dims[0] == 32 && first->dims[1] == 4 && first->dims[2] == 1 && first->dims[3] == 1);
    assert_true(first->data[0] == 0 && first->data[71] == 71);
    assert_int_equal((size_t)((const char *)first->data - copy) % alignments[a], 0);
    assert_int_equal(tn_gguf_get_tensor(gguf, NULL, "second", &found, &error), TN_OK);
    assert_true(found->data == first->data + second && found->bytes == 24);
    assert_int_equal(tn_gguf_get_tensor(gguf, NULL, "scalar", &found, &error), TN_OK);
    assert_true(found->bytes == 1 && found->rank == 0);
    assert_int_equal(tn_gguf_get_tensor(gguf, NULL, "empty", &found, &error), TN_E_FORMAT);
    assert_string_equal(error.message, "test.gguf: tensor 'empty': dimension 1 is 0, expected at least 1");
    assert_int_equal(tn_gguf_get_tensor(gguf, NULL, "absent", &found, &error), TN_E_NOT_FOUND);
    assert_string_equal(error.message, "test.gguf: tensor 'absent' is missing");
    tn_gguf_close(gguf);
    free(copy);
  }
}

static void a_real_file_is_described(void **state) {
  (void)state;
  tn_error error = {0};
  tn_gguf *gguf;
  if (tn_gguf_open(&gguf, TEST_DATA "/golden/llama/model.gguf", &error) != TN_OK) fail_msg("%s", error.message);
  tn_gguf_use use;
  assert_int_equal(tn_gguf_use_init(&use, gguf, &error), TN_OK);
  uint32_t blocks = 0;
  float base = 0;
  tn_text family;
  tn_gguf_array tokens;
  const tn_file_tensor *tensor;
  assert_int_equal(tn_gguf_get_u32(gguf, &use, "llama.block_count", &blocks, &error), TN_OK);
  assert_int_equal(blocks, 3);
  assert_int_equal(tn_gguf_get_f32(gguf, &use, "llama.rope.freq_base", &base, &error), TN_OK);
  assert_true(base == 10000.0f);
  assert_int_equal(tn_gguf_get_string(gguf, &use, "general.architecture", &family, &error), TN_OK);
  assert_memory_equal(family.data, "llama", family.bytes);
  assert_int_equal(tn_gguf_get_array(gguf, &use, "tokenizer.ggml.tokens", TN_GGUF_STRING, &tokens, &error), TN_OK);
  assert_int_equal(tokens.count, 320);
  assert_int_equal(tn_gguf_get_tensor(gguf, &use, "blk.1.ffn_down.weight", &tensor, &error), TN_OK);
  assert_true(tensor->dims[0] == 96 && tensor->dims[1] == 64 && tensor->bytes == 96 * 64 * 4);
  size_t used = 0;
  for (size_t i = 0; i < gguf->tensor_count; i++) used += use.tensors[i];
  assert_int_equal(used, 1);
  assert_true(use.tensors[tensor - gguf->tensors]);
  uint8_t before = tensor->data[5000];
  tn_gguf_release(gguf, tensor);
  assert_int_equal(tensor->data[5000], before);
  tn_gguf_use_finish(&use);
  tn_gguf_close(gguf);
}

/* ---- what is refused ---- */

static void truncated_files(void **state) {
  (void)state;
  tn_error error = {0};
  char *data;
  size_t size;
  assert_int_equal(tn_file_read(TEST_DATA "/golden/llama/model.gguf", 1 << 20, &data, &size, &error), TN_OK);
  for (size_t cut = 0; cut < size; cut += 4096) must_refuse_bytes(data, cut, TN_E_FORMAT, "");
  for (size_t cut = 1; cut < 2048; cut++) must_refuse_bytes(data, cut, TN_E_FORMAT, "the file");
  must_refuse_bytes(data, size - 1, TN_E_FORMAT, "beyond the end of the file");
  free(data);
}

static void wrong_headers(void **state) {
  (void)state;
  tn_buf b;
  must_refuse_bytes("GGML\3\0\0\0", 8, TN_E_FORMAT, "47 47 4d 4c, expected the magic 'GGUF'");
  put_header(&b, 1, 0, 0);
  must_refuse(&b, TN_E_UNSUPPORTED, "GGUF version 1, expected 2 or 3");
  put_header(&b, 4, 0, 0);
  must_refuse(&b, TN_E_UNSUPPORTED, "GGUF version 4");
  put_header(&b, 0x03000000, 0, 0);
  must_refuse(&b, TN_E_UNSUPPORTED, "big-endian");
  put_header(&b, 3, UINT64_MAX, 0);
  must_refuse(&b, TN_E_FORMAT, "the number of tensors is 18446744073709551615");
  put_header(&b, 3, 0, 1ull << 60);
  must_refuse(&b, TN_E_FORMAT, "the number of keys is 1152921504606846976");
  put_header(&b, 3, 0, 1 + (1 << 20));
  put_data(&b, 1, 13 << 20);
  put_data(&b, 1, 1 << 20);
  must_refuse(&b, TN_E_LIMIT, "at most 1048576");
}

static void wrong_keys(void **state) {
  (void)state;
  tn_buf b;
  put_header(&b, 3, 0, 2);
  for (int i = 0; i < 2; i++) {
    put_key(&b, "a.key", TN_GGUF_U8);
    tn_buf_putc(&b, 1);
  }
  must_refuse(&b, TN_E_FORMAT, "key 'a.key' appears twice");
  put_header(&b, 3, 0, 1);
  put_key(&b, "a.key", (tn_gguf_type)13);
  put_u64(&b, 0);
  must_refuse(&b, TN_E_FORMAT, "key 'a.key': its type is 13, expected 0 to 12");
  put_header(&b, 3, 0, 1);
  put_key(&b, "flag", TN_GGUF_BOOL);
  tn_buf_putc(&b, 2);
  must_refuse(&b, TN_E_FORMAT, "key 'flag': boolean is 2");
  put_header(&b, 3, 0, 1);
  put_key(&b, "list", TN_GGUF_ARRAY);
  put_u32(&b, TN_GGUF_F64);
  put_u64(&b, 1ull << 61);
  must_refuse(&b, TN_E_FORMAT, "key 'list': an array of 2305843009213693952 f64 elements");
  put_header(&b, 3, 0, 1);
  put_key(&b, "text", TN_GGUF_STRING);
  put_u64(&b, UINT64_MAX);
  must_refuse(&b, TN_E_FORMAT, "key 'text': its value needs 18446744073709551615 bytes");
  put_header(&b, 3, 0, 1);
  put_u64(&b, 3);
  tn_buf_append(&b, "a\0b\0\0\0\0\0\0\0", 10);
  must_refuse(&b, TN_E_FORMAT, "key 1 of 1: its name contains a zero byte");
  put_header(&b, 3, 0, 1);
  put_key(&b, "deep", TN_GGUF_ARRAY);
  for (int i = 0; i < 1000; i++) {
    put_u32(&b, TN_GGUF_ARRAY);
    put_u64(&b, 1);
  }
  must_refuse(&b, TN_E_LIMIT, "key 'deep': arrays are nested more than 4 deep");
  put_header(&b, 3, 0, 1);
  put_u64(&b, 70000);
  put_data(&b, 1, 80000);
  must_refuse(&b, TN_E_LIMIT, "key 1 of 1: its name is 70000 bytes long");
  static const uint32_t alignments[] = {0, 3, 24, 0x80000000u};
  for (size_t i = 0; i < TN_COUNT(alignments); i++) {
    put_header(&b, 3, 0, 1);
    put_key(&b, "general.alignment", TN_GGUF_U32);
    put_u32(&b, alignments[i]);
    must_refuse(&b, TN_E_FORMAT, "expected a power of two");
  }
}

typedef struct tensor_case {
  uint32_t rank;
  uint64_t dims[4];
  uint32_t type;
  uint64_t offset;
  const char *message;
} tensor_case;

static void wrong_tensors(void **state) {
  (void)state;
  static const tensor_case cases[] = {
      {5, {0}, 0, 0, "tensor 't' has 5 dimensions, expected at most 4"},
      {UINT32_MAX, {0}, 0, 0, "tensor 't' has 4294967295 dimensions"},
      {1, {16}, 99, 0, "tensor 't' has type number 99"},
      {1, {16}, 4, 0, "tensor 't' has type number 4"},
      {1, {1ull << 63}, 0, 0, "tensor 't': dimension 0 is 9223372036854775808"},
      {2, {1ull << 40, 1ull << 40}, 0, 0, "tensor 't': the product of its dimensions overflows"},
      {4, {1ull << 62, 4, 2, 1}, 24, 0, "tensor 't': the product of its dimensions overflows"},
      {2, {48, 2}, 8, 0, "tensor 't': rows of 48 elements, expected a multiple of 32 for type q8_0"},
      {1, {128}, 14, 0, "tensor 't': rows of 128 elements, expected a multiple of 256 for type q6_k"},
      {1, {16}, 0, 8, "tensor 't': offset 8 is not a multiple of the alignment 32"},
      {1, {17}, 0, 96, "tensor 't': 68 bytes at offset 96"},
      {1, {16}, 0, 128, "beyond the end of the file"},
      {1, {16}, 0, UINT64_MAX - 31, "beyond the end of the file"},
      {1, {1}, 0, 0, "the data of tensors 'other' and 't' overlap"},
      {1, {1}, 0, 32, "the data of tensors 'other' and 't' overlap"},
  };
  for (size_t i = 0; i < TN_COUNT(cases); i++) {
    const tensor_case *c = &cases[i];
    tn_buf b;
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "other", 1, (const uint64_t[]){9}, 0, 0);
    put_tensor(&b, "t", c->rank < 5 ? c->rank : 0, c->dims, c->type, c->offset);
    if (c->rank > 4) memcpy(b.data + 24 + 8 + 5 + 4 + 8 + 4 + 8 + 8 + 1, &c->rank, sizeof c->rank);
    put_data(&b, 32, 160);
    must_refuse(&b, TN_E_FORMAT, c->message);
  }
  tn_buf b;
  put_header(&b, 3, 2, 0);
  put_tensor(&b, "same", 1, (const uint64_t[]){8}, 0, 0);
  put_tensor(&b, "same", 1, (const uint64_t[]){8}, 0, 32);
  put_data(&b, 32, 64);
  must_refuse(&b, TN_E_FORMAT, "tensor 'same' appears twice");
}

static void files_that_cannot_be_opened(void **state) {
  (void)state;
  tn_error error = {0};
  tn_gguf *gguf;
  assert_int_equal(tn_gguf_open(&gguf, TEST_DATA "/no-such-file.gguf", &error), TN_E_NOT_FOUND);
  assert_non_null(strstr(error.message, "no-such-file.gguf"));
  assert_int_equal(tn_gguf_open(&gguf, TEST_DATA, &error), TN_E_IO);
  assert_non_null(strstr(error.message, "directory"));
  assert_int_equal(tn_gguf_open(&gguf, "/dev/null", &error), TN_E_IO);
  assert_int_equal(tn_gguf_open_memory(&gguf, "test.gguf", NULL, 0, NULL), TN_E_FORMAT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scalars_are_read),
      cmocka_unit_test(getters_name_key_and_type),
      cmocka_unit_test(arrays_are_read_in_place),
      cmocka_unit_test(alignment_and_empty_tensors),
      cmocka_unit_test(a_real_file_is_described),
      cmocka_unit_test(truncated_files),
      cmocka_unit_test(wrong_headers),
      cmocka_unit_test(wrong_keys),
      cmocka_unit_test(wrong_tensors),
      cmocka_unit_test(files_that_cannot_be_opened),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
