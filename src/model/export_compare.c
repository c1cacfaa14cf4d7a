/* Holding a GGUF file against the folder that it was made from (see export.h). */
#include <math.h>
#include <string.h>
#include "base/error.h"
#include "model/export.h"
#include "text/tokenizer_parts.h"

/* Attributes without what differs by the order of rows: which values are pairs, and whether value heads are tiled. */
static void plain_attributes(const tn_graph_op *op, unsigned char out[TN_MAX_ATTRIBUTE_BYTES]) {
  memcpy(out, op->attributes, TN_MAX_ATTRIBUTE_BYTES);
  if (op->opcode == TN_OP_ROPE) ((tn_rope_attributes *)(void *)out)->pairing = 0;
  if (op->opcode == TN_OP_KV_WRITE) ((tn_kv_write_attributes *)(void *)out)->pairing = 0;
  if (op->opcode == TN_OP_DELTA_RULE) ((tn_delta_rule_attributes *)(void *)out)->tiled = 0;
}

static bool same_shape(const tn_graph_value *a, const tn_graph_value *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof a->dims);
}

/* Numbers that were computed: nearly equal, for a key of GGUF is a float, and what stands still has a divisor there. */
static bool same_numbers(const tn_graph_value *a, const tn_graph_value *b) {
  const float *x = a->sources->data, *y = b->sources->data;
  for (int32_t i = 0; i < a->dims[0]; i++)
    if (fabsf(x[i] - y[i]) > 1e-5f * fabsf(x[i]) + 1e-25f) return false;
  return true;
}

static bool same_value(const tn_graph *a, const tn_graph *b, tn_ref from, tn_ref made) {
  if (from == TN_NO_VALUE || made == TN_NO_VALUE) return from == made;
  const tn_graph_value *x = a->values + from, *y = b->values + made;
  if (x->kind != y->kind || !same_shape(x, y)) return false;
  if (x->kind != TN_VALUE_WEIGHT)
    return x->kind != TN_VALUE_STATE || a->groups[x->group].window == b->groups[y->group].window;
  bool is_computed = x->rank == 1 && !strchr(x->name, ':') && strstr(x->name, "frequencies");
  return !strcmp(x->name, y->name) && (!is_computed || same_numbers(x, y));
}

static bool same_op(const tn_graph *a, const tn_graph *b, const tn_graph_op *x, const tn_graph_op *y) {
  _Alignas(8) unsigned char first[TN_MAX_ATTRIBUTE_BYTES], second[TN_MAX_ATTRIBUTE_BYTES];
  plain_attributes(x, first);
  plain_attributes(y, second);
  bool same = x->opcode == y->opcode && x->input_count == y->input_count && x->output_count == y->output_count &&
              !memcmp(first, second, sizeof first);
  for (uint32_t i = 0; same && i < x->input_count; i++) same = same_value(a, b, x->inputs[i], y->inputs[i]);
  for (uint32_t i = 0; same && i < x->output_count; i++) same = same_value(a, b, x->outputs[i], y->outputs[i]);
  return same;
}

/* Both graphs for a context. */
static tn_status compare_graphs(const tn_model *model, const tn_model *made, uint32_t context, tn_error *error) {
  const tn_model_form form = {.context = context, .kv_dtype = TN_F16};
  const char *path = tn_model_container(model)->path;
  tn_graph *a = NULL, *b = NULL;
  tn_status status = tn_model_build(model, &form, &a, error);
  if (status == TN_OK) status = tn_model_build(made, &form, &b, error);
  if (status == TN_OK && a->op_count != b->op_count)
    status =
        tn_fail(error, TN_E_UNSUPPORTED, "%s: GGUF can't say all of config.json: read back it has %zu ops, not %zu",
                path, b->op_count, a->op_count);
  for (size_t i = 0; status == TN_OK && i < a->op_count; i++)
    if (!same_op(a, b, a->ops + i, b->ops + i))
      status = tn_fail(error, TN_E_UNSUPPORTED,
                       "%s: GGUF can't say all of config.json: read back, op %zu (%s %s) is another", path, i,
                       tn_op_info_of(a->ops[i].opcode)->name, a->ops[i].name);
  tn_graph_destroy(a);
  tn_graph_destroy(b);
  return status;
}

/* ---- tokenizers ---- */

static bool has_end(const tn_tokenizer *tokenizer, int32_t id) {
  return id >= 0 && (size_t)id < tn_tokenizer_size(tokenizer) && tn_tokenizer_is_end(tokenizer, id);
}

/* Do the same ids end a generation? Where nothing in the folder says what does, what is usual for GGUF's kind will;
 * and GGUF's readers take some names for ends always. */
static tn_status compare_ends(const char *path, const tn_tokenizer *from, const tn_tokenizer *made, tn_error *error) {
  size_t count;
  const int32_t *ends = tn_tokenizer_ends(from, &count);
  for (size_t i = 0; i < count; i++)
    if (!has_end(made, ends[i]))
      return tn_fail(error, TN_E_UNSUPPORTED, "%s: GGUF has no more keys for tokens that end a generation: %d", path,
                     (int)ends[i]);
  if (!count) return TN_OK;
  ends = tn_tokenizer_ends(made, &count);
  for (size_t i = 0; i < count; i++)
    if (!has_end(from, ends[i]) && !tn_tokenizer_is_end_name(tn_tokenizer_token_text(made, ends[i])))
      return tn_fail(error, TN_E_UNSUPPORTED, "%s: token %d would end a generation in GGUF and doesn't in the folder",
                     path, (int)ends[i]);
  return TN_OK;
}

/* Is a token that is found in the text itself found alike, with blanks around it and within a word? */
static tn_status compare_added(const char *path, const tn_tokenizer *from, const tn_tokenizer *made, tn_error *error) {
  tn_buf text;
  tn_buf_init(&text);
  tn_status status = TN_OK;
  for (size_t i = 0; i < from->added.count && status == TN_OK; i++) {
    const tn_added_token *token = from->added.tokens + i;
    tn_text name = tn_tokenizer_token_text(from, token->id);
    tn_buf_clear(&text);
    tn_buf_printf(&text, "a  %.*s  b%.*sc", (int)name.bytes, name.data, (int)name.bytes, name.data);
    if (text.failed)
      status = tn_fail(error, TN_E_MEMORY, "%s: out of memory", path);
    else if (!tn_export_same_ids_of(from, made, (tn_text){text.data, text.size}))
      status = tn_fail(error, TN_E_UNSUPPORTED,
                       "%s: tokenizer.json: GGUF can't say how its added token %.*s is found; --no-tokenizer leaves "
                       "the tokenizer out",
                       path, (int)(name.bytes < 80 ? name.bytes : 80), name.data);
  }
  tn_buf_finish(&text);
  return status;
}

static tn_status compare_tokenizers(const tn_model *model, const tn_model *made, tn_error *error) {
  const char *path = tn_model_container(model)->path;
  const tn_tokenizer *from = tn_model_tokenizer(model), *to = tn_model_tokenizer(made);
  if (!to || !tn_export_same_ids(from, to))
    return tn_fail(error, TN_E_UNSUPPORTED, "%s: its tokenizer can't be said in GGUF", path);
  tn_status status = compare_ends(path, from, to, error);
  return status == TN_OK ? compare_added(path, from, to, error) : status;
}

tn_status tn_export_compare(const tn_model *model, const tn_model *made, bool with_text, tn_error *error) {
  const tn_hyper *hyper = tn_model_hyper(model);
  const char *path = tn_model_container(model)->path;
  if (tn_model_hyper(made)->context != hyper->context)
    return tn_fail(error, TN_E_UNSUPPORTED, "%s: its context can't be said in GGUF", path);
  tn_status status = compare_graphs(model, made, hyper->context, error);
  if (status == TN_OK && hyper->rope.scaling == TN_ROPE_LONG) /* which has other positions for short texts */
    status = compare_graphs(model, made, (uint32_t)hyper->rope.original_context, error);
  if (status == TN_OK && with_text && tn_model_tokenizer(model)) status = compare_tokenizers(model, made, error);
  return status;
}
