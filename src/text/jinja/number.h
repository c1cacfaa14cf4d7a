/* Numbers as Python has them: integers of any size, floats, and how both are read, written and combined (internal). */
#ifndef TENON_TEXT_JINJA_NUMBER_H
#define TENON_TEXT_JINJA_NUMBER_H

#include "text/jinja/value.h"

typedef enum tnj_operator {
  TNJ_ADD,
  TNJ_SUBTRACT,
  TNJ_MULTIPLY,
  TNJ_DIVIDE,
  TNJ_FLOOR_DIVIDE,
  TNJ_MODULO,
  TNJ_POWER
} tnj_operator;

double tnj_to_double(tnj_value number); /* infinite when an integer is too large */
bool tnj_number_equal(tnj_value a, tnj_value b);
int tnj_number_compare(tnj_value a, tnj_value b); /* NaN: 1 */
/* Two numbers combined; fails for division by zero and for integers beyond tnj_big's limit. */
tnj_value tnj_arithmetic(tnj_state *s, tnj_operator operation, tnj_value a, tnj_value b);
tnj_value tnj_negate(tnj_state *s, tnj_value number);

/* The integer that a bool, int or big is, when it fits. */
bool tnj_to_int64(tnj_value v, int64_t *integer);
/* An argument that must be an integer; cut to the range of int64_t. Fails for other types; `what` is for the message.
 */
int64_t tnj_need_integer(tnj_state *s, tnj_value v, const char *what);

/* str() of a number; `text` needs TNJ_DOUBLE_BYTES. */
enum { TNJ_DOUBLE_BYTES = 32 };
void tnj_append_number(tnj_state *s, tnj_buffer *out, tnj_value number);
size_t tnj_format_double(double real, char *text);

/* int(text, base) and float(text) of Python: white space around, sign, underscores between digits. Base 0 reads 0x, 0o,
 * 0b; 2 to 36 accept their prefix too. False when the text isn't one. */
bool tnj_parse_integer(tnj_state *s, tnj_value text, int base, tnj_value *out);
bool tnj_parse_float(tnj_state *s, tnj_value text, double *out);
/* Digits of base 2 to 36, without sign or underscore, to an integer. */
tnj_value tnj_integer_from_digits(tnj_state *s, const char *digits, size_t size, int base, bool negative);
/* A float with its fraction dropped. Fails for infinities and NaN. */
tnj_value tnj_truncate(tnj_state *s, double real);

/* round(value, digits): half to even of the exact decimal value. */
double tnj_round(double real, int digits);

/* ---- integers of any size (big.c); operands are of kind BOOL, INT or BIG, results as small as they can be ---- */
tnj_value tnj_big_add(tnj_state *s, tnj_value a, tnj_value b);
tnj_value tnj_big_subtract(tnj_state *s, tnj_value a, tnj_value b);
tnj_value tnj_big_multiply(tnj_state *s, tnj_value a, tnj_value b);
/* Floor division; b isn't 0. */
void tnj_big_divide(tnj_state *s, tnj_value a, tnj_value b, tnj_value *quotient, tnj_value *remainder);
int tnj_big_compare(tnj_value a, tnj_value b);
double tnj_big_to_double(const tnj_big *big);
tnj_value tnj_big_from_double(tnj_state *s, double whole);
/* Digits in base 2 to 16, lower case, with a minus sign. */
void tnj_big_append(tnj_state *s, tnj_buffer *out, tnj_value v, unsigned base);
size_t tnj_big_bits(tnj_value v); /* int.bit_length() */

#endif
