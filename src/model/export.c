/* Describing a folder as GGUF: the keys (see export.h). */
#include "model/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "model/export_parts.h"
#include "model/rope.h"
#include "text/tokenizer_parts.h"

tn_status tn_export_no_memory(const tn_exporter *e) {
  return tn_fail(e->error, TN_E_MEMORY, "%s: out of memory", e->file->path);
}

tn_status tn_export_cannot(const tn_exporter *e, const char *what) {
  return tn_fail(e->error, TN_E_UNSUPPORTED, "%s: %s can't be written as GGUF", e->file->path, what);
}

/* ---- keys ---- */

static const char *key(const tn_exporter *e, const char *name) {
  char text[160];
  int bytes = snprintf(text, sizeof text, "%s.%s", e->architecture, name);
  const char *kept = tn_arena_copy(&e->out->arena, text, (size_t)bytes);
  return kept ? kept : "";
}

static bool is_later(const tn_exporter *e, size_t at) {
  for (size_t i = at + 1; i < e->record.count; i++)
    if (!strcmp(e->record.notes[i].gguf, e->record.notes[at].gguf)) return true;
  return false;
}

tn_status tn_export_note_rare(tn_export *out, const char *name, tn_error *error) {
  const char **slot = TN_PUSH(out->rare, out->rare_count, out->rare_capacity);
  if (!slot) return tn_fail(error, TN_E_MEMORY, "out of memory for %s", name);
  *slot = name;
  return TN_OK;
}

/* A key that others don't know is told to whoever asked for the file. */
static tn_status note_rare(tn_exporter *e, const char *name) {
  return tn_export_note_rare(e->out, name, e->error);
}

static tn_status put_list(tn_exporter *e, const tn_hyper_note *note, const char *name) {
  union {
    int32_t whole;
    float number;
  } *values = tn_arena_array(&e->out->arena, note->count, sizeof *values);
  if (!values) return tn_export_no_memory(e);
  bool is_float = note->kind == TN_NOTE_FLOAT;
  for (uint32_t i = 0; i < note->count; i++) {
    if (is_float)
      values[i].number = (float)note->values[i];
    else if (note->values[i] == (double)(int32_t)note->values[i])
      values[i].whole = (int32_t)note->values[i];
    else
      return tn_export_cannot(e, note->gguf);
  }
  tn_gguf_put_array(&e->out->keys, name, is_float ? TN_GGUF_F32 : TN_GGUF_I32, note->count, values,
                    note->count * sizeof *values);
  return TN_OK;
}

static tn_status put_note(tn_exporter *e, const tn_hyper_note *note) {
  const char *name = key(e, note->gguf);
  tn_status status = TN_OK;
  if (note->count)
    status = put_list(e, note, name);
  else if (!strcmp(note->gguf, "expert_count")) /* which goes by two names in config.json */
    tn_gguf_put_u32(&e->out->keys, name, e->hyper->experts.count);
  else if (note->kind == TN_NOTE_WHOLE)
    tn_gguf_put_u32(&e->out->keys, name, (uint32_t)note->values[0]);
  else if (note->kind == TN_NOTE_FLOAT)
    tn_gguf_put_f32(&e->out->keys, name, (float)note->values[0]);
  else
    tn_gguf_put_bool(&e->out->keys, name, note->values[0] != 0);
  return status == TN_OK && note->rare ? note_rare(e, name) : status;
}

/* Positions are put_rope's. */
static bool is_of_positions(const char *gguf) {
  return !strncmp(gguf, "rope.scaling.", 13) || !strncmp(gguf, "rope.freq_base", 14);
}

/* What was read of config.json under names that GGUF has. */
static tn_status put_notes(tn_exporter *e) {
  tn_status status = e->record.failed ? tn_export_no_memory(e) : TN_OK;
  for (size_t i = 0; i < e->record.count && status == TN_OK; i++) {
    const tn_hyper_note *note = e->record.notes + i;
    if (is_later(e, i) || (!note->rare && is_of_positions(note->gguf))) continue;
    status = put_note(e, note);
  }
  return status;
}

/* YaRN's factor of cos and sin where it isn't the usual one. */
static void put_yarn_factor(tn_exporter *e, const tn_rope_hyper *rope) {
  tn_gguf_keys *keys = &e->out->keys;
  bool is_told = rope->attention_factor > 0 || rope->mscale > 0;
  if (rope->mscale_all > 0 && !strcmp(e->architecture, "deepseek2")) { /* which scales its scores by it as well */
    tn_gguf_put_f32(keys, key(e, "rope.scaling.yarn_log_multiplier"), rope->mscale_all / 10);
    is_told = is_told && rope->mscale != rope->mscale_all;
  }
  if (is_told)
    tn_gguf_put_f32(keys, key(e, "rope.scaling.yarn_attn_factor"), tn_rope_magnitude(rope, e->hyper->context));
}

/* Rotary positions. Scalings that are tensors in GGUF are export_tensors.c's. */
static tn_status put_rope(tn_exporter *e) {
  const tn_rope_hyper *rope = &e->hyper->rope, *sliding = &e->hyper->rope_sliding;
  tn_gguf_keys *keys = &e->out->keys;
  if (sliding->rotary) tn_gguf_put_f32(keys, key(e, "rope.freq_base_swa"), sliding->theta);
  if (!rope->rotary) return TN_OK;
  tn_gguf_put_f32(keys, key(e, "rope.freq_base"), rope->theta);
  bool is_yarn = rope->scaling == TN_ROPE_YARN, is_long = rope->scaling == TN_ROPE_LONG;
  if (is_yarn || is_long)
    tn_gguf_put_u32(keys, key(e, "rope.scaling.original_context_length"), (uint32_t)rope->original_context);
  if (is_long) tn_gguf_put_f32(keys, key(e, "rope.scaling.attn_factor"), tn_rope_magnitude(rope, e->hyper->context));
  if (!is_yarn && rope->scaling != TN_ROPE_LINEAR) return TN_OK;
  tn_gguf_put_text(keys, key(e, "rope.scaling.type"), is_yarn ? TN_TEXT("yarn") : TN_TEXT("linear"));
  tn_gguf_put_f32(keys, key(e, "rope.scaling.factor"), rope->factor);
  if (!is_yarn) return TN_OK;
  tn_gguf_put_f32(keys, key(e, "rope.scaling.yarn_beta_fast"), rope->beta_fast);
  tn_gguf_put_f32(keys, key(e, "rope.scaling.yarn_beta_slow"), rope->beta_slow);
  put_yarn_factor(e, rope);
  return TN_OK;
}

static tn_status put_kinds(tn_exporter *e) {
  uint8_t others[TN_MAX_LAYERS];
  bool any = false;
  for (uint32_t i = 0; i < e->hyper->layers; i++) {
    others[i] = e->hyper->kinds[i] != TN_LAYER_FULL;
    any = any || others[i];
  }
  if (!any || !e->record.kinds)
    return TN_OK; /* all layers slide where there is a window, or the comparison will tell */
  const char *name = key(e, e->record.kinds);
  tn_gguf_put_array(&e->out->keys, name, TN_GGUF_BOOL, e->hyper->layers, others, e->hyper->layers);
  return e->record.rare_kinds ? note_rare(e, name) : TN_OK;
}

static tn_status put_keys(tn_exporter *e) {
  const char *path = e->file->path;
  size_t end = strlen(path);
  while (end > 1 && path[end - 1] == '/') end--;
  size_t begin = end;
  while (begin > 0 && path[begin - 1] != '/') begin--;
  tn_gguf_put_text(&e->out->keys, "general.architecture", tn_text_of(e->architecture));
  tn_gguf_put_text(&e->out->keys, "general.name", (tn_text){path + begin, end - begin});
  tn_status status = put_notes(e);
  if (status == TN_OK) status = put_rope(e);
  if (status == TN_OK) status = put_kinds(e);
  return status;
}

/* The architecture's name in GGUF; a family with one of its own for models with experts ends it in "moe". */
static const char *architecture_of(const tn_family *family, const tn_hyper *hyper) {
  for (const char *const *name = family->architectures; *name && hyper->experts.count; name++) {
    size_t bytes = strlen(*name);
    if (bytes > 3 && !strcmp(*name + bytes - 3, "moe")) return *name;
  }
  return family->architectures[0];
}

tn_status tn_export_open(tn_export *out, const tn_model *model, bool with_text, tn_error *error) {
  *out = (tn_export){0};
  tn_buf_init(&out->keys.bytes);
  tn_arena_init(&out->arena, 0);
  tn_exporter e = {.out = out,
                   .file = tn_model_container(model),
                   .hyper = tn_model_hyper(model),
                   .family = tn_model_family(model),
                   .error = error};
  e.architecture = architecture_of(e.family, e.hyper);
  tn_status status = tn_model_read_again(model, &e.record, &e.names, &out->arena, &out->graph, error);
  e.graph = out->graph;
  if (status == TN_OK) status = put_keys(&e);
  bool has_text = with_text && tn_model_tokenizer(model);
  if (status == TN_OK && with_text) status = tn_export_text(out, model, error);
  if (status == TN_OK && !has_text) tn_gguf_put_text(&out->keys, "tokenizer.ggml.model", TN_TEXT("none"));
  if (status == TN_OK) status = tn_export_tensors(&e);
  if (status == TN_OK && (out->keys.bytes.failed || e.names.failed)) status = tn_export_no_memory(&e);
  free(e.record.notes);
  free(e.names.names);
  return status;
}

void tn_export_finish(tn_export *out) {
  tn_buf_finish(&out->keys.bytes);
  tn_graph_destroy(out->graph);
  free(out->tensors);
  free(out->rare);
  tn_arena_finish(&out->arena);
  *out = (tn_export){0};
}
