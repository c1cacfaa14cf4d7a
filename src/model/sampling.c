/* Reading advice on sampling (see sampling.h). */
#include "model/sampling.h"

#include <stddef.h>
#include <stdio.h>
#include "base/error.h"
#include "base/os.h"

static const struct {
  const char *config, *gguf;
  size_t offset;
  float least, most;
} numbers[] = {
    {"temperature", "general.sampling.temp", offsetof(tn_sampling_advice, temperature), 0, 100},
    {"top_p", "general.sampling.top_p", offsetof(tn_sampling_advice, top_p), 0, 1},
    {"min_p", "general.sampling.min_p", offsetof(tn_sampling_advice, min_p), 0, 1},
    {"repetition_penalty", "general.sampling.penalty_repeat", offsetof(tn_sampling_advice, repeat_penalty), 0.01f, 100},
};

static float *field(tn_sampling_advice *advice, size_t number) {
  return (float *)((char *)advice + numbers[number].offset);
}

/* A number of generation_config.json, `otherwise` where it isn't there. */
static tn_status config_number(const tn_config *config, const char *name, double *value, tn_error *error) {
  const tn_config_value *found = tn_config_find(config, name);
  if (!found) return TN_OK;
  if (found->kind != TN_JSON_NUMBER)
    return tn_fail(error, TN_E_FORMAT, "%s: %s is %s, expected a number", config->path, name,
                   tn_config_kind_name(found->kind));
  *value = found->number;
  return TN_OK;
}

static tn_status read_config(tn_sampling_advice *advice, const tn_config *config, tn_error *error) {
  double top_k = -1;
  tn_status status = TN_OK;
  for (size_t i = 0; i < TN_COUNT(numbers) && status == TN_OK; i++) {
    double value = -1;
    status = config_number(config, numbers[i].config, &value, error);
    *field(advice, i) = (float)value;
  }
  if (status == TN_OK) status = config_number(config, "top_k", &top_k, error);
  if (status == TN_OK && !(top_k >= -1 && top_k <= 1 << 24))
    status = tn_fail(error, TN_E_FORMAT, "%s: top_k is %g, expected -1 .. 2^24", config->path, top_k);
  if (status == TN_OK) advice->top_k = top_k < 0 && tn_config_find(config, "top_k") ? 0 : (int32_t)top_k;
  return status;
}

static tn_status read_gguf(tn_sampling_advice *advice, const tn_gguf *gguf, tn_error *error) {
  uint32_t top_k = UINT32_MAX;
  tn_status status = TN_OK;
  for (size_t i = 0; i < TN_COUNT(numbers) && status == TN_OK; i++)
    status = tn_gguf_opt_f32(gguf, NULL, numbers[i].gguf, field(advice, i), error);
  if (status == TN_OK && tn_gguf_find(gguf, "general.sampling.top_k"))
    status = tn_gguf_opt_u32(gguf, NULL, "general.sampling.top_k", &top_k, error);
  if (status == TN_OK && top_k <= 1 << 24) advice->top_k = (int32_t)top_k;
  return status;
}

tn_status tn_sampling_read(tn_sampling_advice *advice, const tn_container *file, tn_error *error) {
  *advice = (tn_sampling_advice){-1, -1, -1, -1, -1};
  tn_status status = TN_OK;
  bool is_folder = tn_container_is_folder(file);
  if (!is_folder) {
    status = read_gguf(advice, file->gguf, error);
  } else {
    char path[4096];
    tn_config config;
    int bytes = snprintf(path, sizeof path, "%s/generation_config.json", file->path);
    if (bytes < 0 || (size_t)bytes >= sizeof path || !tn_path_exists(path)) return TN_OK;
    status = tn_config_open(&config, path, error);
    if (status == TN_OK) status = read_config(advice, &config, error);
    tn_config_close(&config);
  }
  for (size_t i = 0; i < TN_COUNT(numbers) && status == TN_OK; i++) {
    float value = *field(advice, i);
    if (value != -1 && !(value >= numbers[i].least && value <= numbers[i].most))
      status = tn_fail(error, TN_E_FORMAT, "%s%s: %s is %g, expected %g .. %g", file->path,
                       is_folder ? "/generation_config.json" : "", is_folder ? numbers[i].config : numbers[i].gguf,
                       (double)value, (double)numbers[i].least, (double)numbers[i].most);
  }
  return status;
}
