/* Unicode normal forms (UAX 15) of text that may hold invalid bytes. */
#ifndef TENON_TEXT_NORMAL_FORM_H
#define TENON_TEXT_NORMAL_FORM_H

#include "base/memory.h"
#include "base/text.h"

typedef enum tn_normal_form { TN_NFC, TN_NFD, TN_NFKC, TN_NFKD } tn_normal_form;

/* The form called "nfc", "nfd", "nfkc" or "nfkd"; false: none is. And what one is called. */
bool tn_normal_form_named(tn_text name, tn_normal_form *form);
const char *tn_normal_form_name(tn_normal_form form);

/* Appends the normal form of `text` (valid UTF-8) to `out`. Marks are put in order by a stable n log n sort, so that a
 * text of nothing but marks is no attack. False when memory is out. */
bool tn_normal_form_append(tn_normal_form form, tn_text text, tn_buf *out);

/* How many bytes at the start of `text` form a unit whose normal form doesn't depend on what surrounds it: a character
 * below U+0300 (or any first one) and what follows from U+0300 on; or one invalid byte. `*plain`: its normal form
 * is itself. */
size_t tn_normal_form_unit(tn_normal_form form, tn_text text, bool *plain);

#endif
