/* Placements: which layers of a model run on which device, as people write it.
 *
 *   "layers 0-11=./npu.so:0, 12-23=./npu.so:1, rest=cpu,threads=4"
 *
 * Items are separated by commas. An item is a range and a device: `layers 0-11`, `layer 3` (the word may be left out)
 * or `rest`, then `=`, then a device spec as --device takes it (device/registry.h). A spec may have commas of its own:
 * what follows a comma begins an item only if it begins with a digit, with `layer`, `layers` or `rest`; else it is an
 * option of the spec before. The same spec twice is one device.
 *
 * Every layer has one device. `rest` takes the layers that are not named, and what belongs to none: the embeddings, the
 * last norm, the head. Without it these go with the first layer and with the last. */
#ifndef TENON_ENGINE_PLACEMENT_H
#define TENON_ENGINE_PLACEMENT_H

#include "graph/passes.h"

#define TN_MOST_PLACED 8u /* devices of one placement */

typedef struct tn_placement {
  char *texts;
  const char *specs[TN_MOST_PLACED];
  uint32_t spec_count;
  uint8_t *layers;
  tn_layer_devices wanted; /* `layers`, by number of the spec */
} tn_placement;

/* Reads a placement of a model of `layers` layers. `rest` (may be NULL) is the spec of the rest where the text doesn't
 * say. TN_E_INVALID, with the place in the text and what is expected there: an item that is none, layers that the model
 * doesn't have, or that are placed twice or not at all; TN_E_LIMIT: too many devices. */
tn_status tn_placement_parse(const char *text, const char *rest, uint32_t layers, tn_placement *placement,
                             tn_error *error);
/* One that is filled layer by layer: `layers` of them, all on device 0, and no specs yet. */
tn_status tn_placement_init(tn_placement *placement, uint32_t layers, tn_error *error);
void tn_placement_finish(tn_placement *placement);

#endif
