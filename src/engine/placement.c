#include "engine/placement.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

#define NOWHERE UINT8_MAX
#define MOST_TEXT 65536u

/* One item: text[begin, end) of `whole`, and what it says. */
typedef struct placement_item {
  const char *text;
  size_t at; /* in the whole, from 1 on */
  bool is_rest;
  uint32_t first, last;
  const char *spec;
  size_t spec_bytes;
} placement_item;

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}

static const char *skip_blanks(const char *at) {
  while (is_blank(*at)) at++;
  return at;
}

/* Does `word` stand here by itself? Moves behind it. */
static bool take_word(const char **at, const char *word) {
  size_t bytes = strlen(word);
  if (strncmp(*at, word, bytes) != 0) return false;
  char next = (*at)[bytes];
  if (!is_blank(next) && next != '=' && next != ',' && next) return false;
  *at = skip_blanks(*at + bytes);
  return true;
}

static bool begins_item(const char *at) {
  at = skip_blanks(at);
  return (*at >= '0' && *at <= '9') || take_word(&at, "layers") || take_word(&at, "layer") || take_word(&at, "rest");
}

/* A whole number of at most six digits. */
static bool take_number(const char **at, uint32_t *number) {
  size_t digits = strspn(*at, "0123456789");
  if (!digits || digits > 6) return false;
  *number = (uint32_t)strtoul(*at, NULL, 10);
  *at = skip_blanks(*at + digits);
  return true;
}

/* Reads `layers A-B`, `A`, `rest` up to behind the `=`. */
static bool take_range(const char **at, placement_item *item) {
  item->is_rest = take_word(at, "rest");
  if (!item->is_rest) {
    if (!take_word(at, "layers")) take_word(at, "layer");
    if (!take_number(at, &item->first)) return false;
    item->last = item->first;
    if (**at == '-') {
      *at = skip_blanks(*at + 1);
      if (!take_number(at, &item->last)) return false;
    }
  }
  if (**at != '=') return false;
  *at = skip_blanks(*at + 1);
  return true;
}

/* Reads the item at *at and moves behind it and its comma; *at is NULL behind the last. */
static tn_status take_item(const char *whole, const char **at, placement_item *item, tn_error *error) {
  const char *from = skip_blanks(*at);
  item->text = from;
  item->at = (size_t)(from - whole) + 1;
  const char *spec = from;
  if (!take_range(&spec, item))
    return tn_fail(error, TN_E_INVALID,
                   "place: \"%.24s\" at %zu: expected \"layers A-B=DEVICE\", \"A-B=DEVICE\" or \"rest=DEVICE\"", from,
                   item->at);
  const char *end = strchr(spec, ',');
  while (end && !begins_item(end + 1)) end = strchr(end + 1, ',');
  *at = end ? end + 1 : NULL;
  if (!end) end = spec + strlen(spec);
  while (end > spec && is_blank(end[-1])) end--;
  item->spec = spec;
  item->spec_bytes = (size_t)(end - spec);
  if (!item->spec_bytes || *spec == ',')
    return tn_fail(error, TN_E_INVALID, "place: \"%.24s\" at %zu: names no device", from, item->at);
  return TN_OK;
}

/* The number of a spec, new or known. */
static tn_status number_of(tn_placement *placement, const char *spec, size_t bytes, char **store, uint8_t *number,
                           tn_error *error) {
  for (uint32_t i = 0; i < placement->spec_count; i++) {
    *number = (uint8_t)i;
    if (strlen(placement->specs[i]) == bytes && !memcmp(placement->specs[i], spec, bytes)) return TN_OK;
  }
  if (placement->spec_count == TN_MOST_PLACED)
    return tn_fail(error, TN_E_LIMIT, "place: \"%.*s\": at most %u devices", (int)(bytes < 60 ? bytes : 60), spec,
                   TN_MOST_PLACED);
  memcpy(*store, spec, bytes);
  (*store)[bytes] = 0;
  *number = (uint8_t)placement->spec_count;
  placement->specs[placement->spec_count++] = *store;
  *store += bytes + 1;
  return TN_OK;
}

static tn_status place_layers(tn_placement *placement, const placement_item *item, uint8_t number, tn_error *error) {
  uint32_t count = placement->wanted.layer_count;
  if (item->first > item->last)
    return tn_fail(error, TN_E_INVALID, "place: layers %u-%u at %zu: they end before they begin", item->first,
                   item->last, item->at);
  if (item->last >= count)
    return tn_fail(error, TN_E_INVALID, "place: layers %u-%u at %zu: the model has layers 0 to %u", item->first,
                   item->last, item->at, count - 1);
  for (uint32_t layer = item->first; layer <= item->last; layer++) {
    if (placement->layers[layer] != NOWHERE)
      return tn_fail(error, TN_E_INVALID, "place: layers %u-%u at %zu: layer %u has a device already", item->first,
                     item->last, item->at, layer);
    placement->layers[layer] = number;
  }
  return TN_OK;
}

/* What no item names goes to `rest` (NOWHERE: there is none). */
static tn_status place_rest(tn_placement *placement, uint8_t rest, tn_error *error) {
  tn_layer_devices *wanted = &placement->wanted;
  for (uint32_t layer = 0; layer < wanted->layer_count; layer++) {
    if (placement->layers[layer] == NOWHERE) placement->layers[layer] = rest;
    if (placement->layers[layer] == NOWHERE)
      return tn_fail(error, TN_E_INVALID, "place: layer %u of 0 to %u has no device: give it one, or rest=DEVICE",
                     layer, wanted->layer_count - 1);
  }
  wanted->before = rest == NOWHERE ? placement->layers[0] : rest;
  wanted->behind = rest == NOWHERE ? placement->layers[wanted->layer_count - 1] : rest;
  return TN_OK;
}

static tn_status read_items(const char *text, const char *rest, tn_placement *placement, tn_error *error) {
  char *store = placement->texts;
  uint8_t rest_number = NOWHERE, number;
  const char *at = text;
  tn_status status = TN_OK;
  do {
    placement_item item = {0};
    status = take_item(text, &at, &item, error);
    if (status == TN_OK) status = number_of(placement, item.spec, item.spec_bytes, &store, &number, error);
    if (status == TN_OK && item.is_rest && rest_number != NOWHERE)
      status = tn_fail(error, TN_E_INVALID, "place: rest at %zu: it has a device already", item.at);
    if (status == TN_OK && item.is_rest && rest)
      status = tn_fail(error, TN_E_INVALID, "place: rest at %zu: it has a device already, %s (device)", item.at, rest);
    if (status == TN_OK && item.is_rest) rest_number = number;
    if (status == TN_OK && !item.is_rest) status = place_layers(placement, &item, number, error);
  } while (status == TN_OK && at);
  if (status == TN_OK && rest) status = number_of(placement, rest, strlen(rest), &store, &rest_number, error);
  return status == TN_OK ? place_rest(placement, rest_number, error) : status;
}

tn_status tn_placement_init(tn_placement *placement, uint32_t layers, tn_error *error) {
  *placement = (tn_placement){.layers = tn_calloc(layers, sizeof *placement->layers)};
  if (!placement->layers) return tn_fail(error, TN_E_MEMORY, "place: out of memory");
  placement->wanted = (tn_layer_devices){.layers = placement->layers, .layer_count = layers};
  return TN_OK;
}

tn_status tn_placement_parse(const char *text, const char *rest, uint32_t layers, tn_placement *placement,
                             tn_error *error) {
  *placement = (tn_placement){0};
  size_t bytes = strlen(text) + (rest ? strlen(rest) : 0);
  if (!layers) return tn_fail(error, TN_E_INVALID, "place: the model has no layers to place");
  if (bytes > MOST_TEXT) return tn_fail(error, TN_E_LIMIT, "place: longer than %u bytes", MOST_TEXT);
  tn_status status = tn_placement_init(placement, layers, error);
  if (status == TN_OK) {
    memset(placement->layers, NOWHERE, layers);
    placement->texts = tn_calloc(bytes + 2, 1); /* every spec takes a range or a comma's place with its zero */
    if (!placement->texts) status = tn_fail(error, TN_E_MEMORY, "place: out of memory");
  }
  if (status == TN_OK) status = read_items(text, rest, placement, error);
  if (status != TN_OK) tn_placement_finish(placement);
  return status;
}

void tn_placement_finish(tn_placement *placement) {
  free(placement->texts);
  free(placement->layers);
  *placement = (tn_placement){0};
}
