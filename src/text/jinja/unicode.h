/* What the interpreter must know of Unicode, as Python's str sees it (internal). */
#ifndef TENON_TEXT_JINJA_UNICODE_H
#define TENON_TEXT_JINJA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Encodes into `out`; returns the bytes written. Not a scalar value: as U+FFFD. */
size_t tnj_encode(uint32_t codepoint, char out[4]);

bool tnj_is_space(uint32_t c);    /* str.isspace and \s */
bool tnj_is_line_end(uint32_t c); /* where str.splitlines splits; \r\n is one */
bool tnj_is_alpha(uint32_t c);
bool tnj_is_decimal(uint32_t c);
bool tnj_is_digit(uint32_t c);
bool tnj_is_numeric(uint32_t c);
bool tnj_is_lower(uint32_t c);
bool tnj_is_upper(uint32_t c);
bool tnj_is_title(uint32_t c); /* a title-case letter */
bool tnj_is_cased(uint32_t c);
bool tnj_is_printable(uint32_t c);
bool tnj_is_word(uint32_t c); /* \w */
bool tnj_is_identifier(const char *data, size_t size);
bool tnj_is_case_ignorable(uint32_t c);
int tnj_digit_value(uint32_t c); /* of a decimal digit of any script, else -1 */

/* Full case mappings: up to 3 code points; return how many. (The final sigma is str.lower's affair.) */
size_t tnj_to_upper(uint32_t c, uint32_t out[3]);
size_t tnj_to_lower(uint32_t c, uint32_t out[3]);
size_t tnj_to_fold(uint32_t c, uint32_t out[3]);
size_t tnj_to_title(uint32_t c, uint32_t out[3]);

#endif
