/* The KV page of the fast kernels: TN_PAGE_SLOTS slots of keys and values of every kv head.
 *
 *     keys    [key dim][32 slots]                     a dimension of 32 keys is two vectors: scores need no reduction
 *     values  [32 slots][value dim, padded to 16]
 *
 * for each kv head in turn: what one task reads lies together. Elements are f32, f16 or bf16. Pages of int8, each plus
 * 128, have what a dot product of bytes takes at once together: four dimensions of a key, four slots of a value.
 *
 *     keys    [key dim / 4, rounded up][32 slots][4]
 *     values  [32 slots / 4][value dim, padded to 16][4]
 *     scales  f32 [32 slots] of keys, then of values */
#ifndef TENON_KERNELS_PAGE_H
#define TENON_KERNELS_PAGE_H

#include <stdbool.h>
#include "tenon/device.h"

/* The layout's id. 1 is the plain one, 2 had the keys of all heads first, 3 int8 as it has floats. */
#define TN_PAGE_LAYOUT 4u

typedef struct tn_page {
  uint32_t dtype, element_bytes;
  uint32_t key_dim, value_dim, value_stride; /* stride: values of a slot, and from slot to slot where they are floats */
  uint64_t head_bytes;                       /* from head to head */
  uint64_t values, key_scales, value_scales; /* bytes from a head's keys to its values; int8: to the scales */
  uint64_t bytes;                            /* of the page, a multiple of 64 */
} tn_page;

/* False for shapes or dtypes that there are no pages of. */
static inline bool tn_page_of(tn_page *page, uint32_t dtype, uint32_t kv_heads, uint32_t key_dim, uint32_t value_dim) {
  const uint32_t most = 1u << 20;
  if (!kv_heads || !key_dim || !value_dim || kv_heads > most || key_dim > most || value_dim > most) return false;
  if (dtype != TN_F32 && dtype != TN_F16 && dtype != TN_BF16 && dtype != TN_I8) return false;
  page->dtype = dtype;
  page->element_bytes = dtype == TN_F32 ? 4 : dtype == TN_I8 ? 1 : 2;
  page->key_dim = key_dim;
  page->value_dim = value_dim;
  page->value_stride = (value_dim + 15) / 16 * 16;
  uint64_t scales = dtype == TN_I8 ? TN_PAGE_SLOTS * sizeof(float) : 0;
  uint64_t key_stride = dtype == TN_I8 ? (key_dim + 3) / 4 * 4 : key_dim;
  page->values = key_stride * TN_PAGE_SLOTS * page->element_bytes;
  page->key_scales = page->values + (uint64_t)page->value_stride * TN_PAGE_SLOTS * page->element_bytes;
  page->value_scales = page->key_scales + scales;
  page->head_bytes = page->value_scales + scales;
  page->bytes = (page->head_bytes * kv_heads + 63) / 64 * 64;
  return true;
}

#endif
