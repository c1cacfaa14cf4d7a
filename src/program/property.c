/* Properties out of a table (see tenon/driver.h). */
#include "tenon/driver.h"

static int same_text(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}

tn_status tn_property_find(const tn_named_property *table, uint32_t count, const char *name, tn_property *value) {
  uint32_t i = 0;
  while (i < count && !same_text(table[i].name, name)) i++;
  if (i == count) return TN_E_NOT_FOUND;
  const char *text = table[i].text;
  value->type = text ? TN_PROPERTY_TEXT : TN_PROPERTY_U64;
  value->u64 = table[i].number;
  value->f64 = 0;
  uint32_t size = 0;
  for (; text && text[size] && size + 1 < sizeof value->text; size++) value->text[size] = text[size];
  value->text[size] = 0;
  return TN_OK;
}
