/* Calls as Gemma 4 writes them: call:NAME{key:<|"|>text<|"|>,list:[1,2],object:{k:true}}. */
#include "text/tools/parts.h"

#define QUOTE "<|\"|>"
#define DEEPEST 64 /* values in values; also bounds the recursion */

typedef struct reader {
  tn_text text;
  tn_buf *json;
} reader;

static void skip_blank(reader *r) {
  while (r->text.bytes && tn_is_blank(r->text.data[0])) r->text = tn_from(r->text, r->text.data + 1);
}

static bool take_char(reader *r, char c) {
  skip_blank(r);
  if (!r->text.bytes || r->text.data[0] != c) return false;
  r->text = tn_from(r->text, r->text.data + 1);
  return true;
}

static bool read_string(reader *r) {
  const char *end = tn_find(r->text, QUOTE);
  if (!end) return false;
  tn_put_json_string(r->json, tn_before(r->text, end));
  r->text = tn_from(r->text, end + strlen(QUOTE));
  return true;
}

static bool read_key(reader *r) {
  skip_blank(r);
  if (tn_take(&r->text, QUOTE)) return read_string(r);
  const char *end = tn_find(r->text, ":");
  if (!end) return false;
  const tn_text key = tn_trim(tn_before(r->text, end));
  tn_put_json_string(r->json, key);
  r->text = tn_from(r->text, end);
  for (size_t i = 0; i < key.bytes; i++)
    if (strchr("{}[]<>,\"", key.data[i])) return false;
  return key.bytes > 0;
}

/* Numbers and constants. */
static bool read_plain(reader *r) {
  size_t bytes = 0;
  while (bytes < r->text.bytes && !strchr(",}]", r->text.data[bytes])) bytes++;
  tn_text word = tn_trim(tn_before(r->text, r->text.data + bytes));
  r->text = tn_from(r->text, r->text.data + bytes);
  if (tn_text_is(word, "None")) word = TN_TEXT("null");
  if (!(tn_json_text_kind(word) & (TN_IS_NUMBER | TN_IS_BOOLEAN | TN_IS_NULL))) return false;
  return tn_buf_append(r->json, word.data, word.bytes);
}

static bool read_value(reader *r, unsigned depth);

/* Members up to the closing bracket. */
static bool read_members(reader *r, char close, unsigned depth) {
  for (bool first = true; !take_char(r, close); first = false) {
    if (!first && !take_char(r, ',')) return false;
    if (!first) tn_buf_puts(r->json, ", ");
    if (close == '}') {
      if (!read_key(r) || !take_char(r, ':')) return false;
      tn_buf_puts(r->json, ": ");
    }
    if (!read_value(r, depth + 1)) return false;
  }
  return tn_buf_putc(r->json, close);
}

static bool read_value(reader *r, unsigned depth) {
  skip_blank(r);
  if (depth > DEEPEST) return false;
  if (tn_take(&r->text, QUOTE)) return read_string(r);
  if (tn_take(&r->text, "{")) return tn_buf_putc(r->json, '{') && read_members(r, '}', depth);
  if (tn_take(&r->text, "[")) return tn_buf_putc(r->json, '[') && read_members(r, ']', depth);
  return read_plain(r);
}

bool tn_calls_read_gemma(tn_calls *calls, tn_text body) {
  tn_buf json;
  reader r = {tn_trim(body), &json};
  if (!tn_take(&r.text, "call:")) return false;
  const char *open = tn_find(r.text, "{");
  if (!open) return false;
  const tn_text name = tn_trim(tn_before(r.text, open));
  tn_buf_init(&json);
  r.text = tn_from(r.text, open);
  bool read = read_value(&r, 0);
  skip_blank(&r);
  read = read && !r.text.bytes && !json.failed && tn_calls_add(calls, name, (tn_text){json.data, json.size});
  calls->text.failed |= json.failed;
  tn_buf_finish(&json);
  return read;
}
