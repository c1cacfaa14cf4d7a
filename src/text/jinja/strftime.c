/* strftime of a time that the caller gives: no clock, no locale, no time zone. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "text/jinja/builtins.h"
#include "text/jinja/text.h"

typedef struct date {
  tn_jinja_time time;
  int weekday; /* Sunday = 0 */
  int day;     /* of the year, from 0 */
} date;

static const char *const weekdays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                     "July",    "August",   "September", "October", "November", "December"};

/* Days since 1970-01-01 of a date of the Gregorian calendar, counted in eras of 400 years that begin in March (Howard
 * Hinnant, "chrono-compatible low-level date algorithms"). */
static int64_t days_from_civil(int64_t year, int month, int day) {
  year -= month <= 2;
  int64_t era = (year >= 0 ? year : year - 399) / 400, year_of_era = year - era * 400;
  int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

static int clamped(int value, int low, int high) {
  return value < low ? low : value > high ? high : value;
}

static date complete(const tn_jinja_time *given) {
  date d = {.time = *given};
  d.time.year = clamped(given->year, 0, 9999);
  d.time.month = clamped(given->month, 1, 12);
  d.time.day = clamped(given->day, 1, 31);
  int64_t days = days_from_civil(d.time.year, d.time.month, d.time.day);
  d.weekday = (int)(((days + 4) % 7 + 7) % 7);
  d.day = (int)(days - days_from_civil(d.time.year, 1, 1));
  return d;
}

/* ISO 8601's week number; `*year` is the year it belongs to. */
static int iso_week(const date *d, int *year) {
  int monday = (d->weekday + 6) % 7, week = (d->day - monday + 10) / 7;
  *year = d->time.year;
  if (week < 1) {
    date last = complete(&(tn_jinja_time){.year = --*year, .month = 12, .day = 31});
    return iso_week(&last, year);
  }
  int64_t days = days_from_civil(*year + 1, 1, 1) - days_from_civil(*year, 1, 1);
  if (week == 53 && d->day - monday + 3 >= days) {
    ++*year;
    return 1;
  }
  return week;
}

static const char *composed(char conversion) {
  switch (conversion) {
    case 'c': return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x': return "%m/%d/%y";
    case 'F': return "%Y-%m-%d";
    case 'r': return "%I:%M:%S %p";
    case 'R': return "%H:%M";
    case 'T':
    case 'X': return "%H:%M:%S";
    default: return NULL;
  }
}

/* A conversion that gives a number: its value and width, and what it is padded with. */
static bool number(const date *d, char conversion, int *value, int *width, char *pad) {
  const tn_jinja_time *t = &d->time;
  int year;
  *width = 2;
  *pad = '0';
  switch (conversion) {
    case 'C': return *value = t->year / 100, true;
    case 'd': return *value = t->day, true;
    case 'e': return *value = t->day, *pad = ' ', true;
    case 'g': return iso_week(d, &year), *value = year % 100, true;
    case 'G': return iso_week(d, &year), *value = year, *width = 4, true;
    case 'H': return *value = t->hour, true;
    case 'I': return *value = (t->hour + 11) % 12 + 1, true;
    case 'j': return *value = d->day + 1, *width = 3, true;
    case 'k': return *value = t->hour, *pad = ' ', true;
    case 'l': return *value = (t->hour + 11) % 12 + 1, *pad = ' ', true;
    case 'm': return *value = t->month, true;
    case 'M': return *value = t->minute, true;
    case 'S': return *value = t->second, true;
    case 'f': return *value = 0, *width = 6, true;
    case 'u': return *value = (d->weekday + 6) % 7 + 1, *width = 1, true;
    case 'U': return *value = (d->day + 7 - d->weekday) / 7, true;
    case 'V': return *value = iso_week(d, &year), true;
    case 'w': return *value = d->weekday, *width = 1, true;
    case 'W': return *value = (d->day + 7 - (d->weekday + 6) % 7) / 7, true;
    case 'y': return *value = t->year % 100, true;
    case 'Y': return *value = t->year, *width = 1, true;
    default: return false;
  }
}

/* A conversion that gives a word; NULL when it doesn't. `size` bytes of it count. */
static const char *word(const date *d, char conversion, int *size) {
  *size = 3;
  switch (conversion) {
    case 'a': return weekdays[d->weekday];
    case 'b':
    case 'h': return months[d->time.month - 1];
    case 'A': *size = 16; return weekdays[d->weekday];
    case 'B': *size = 16; return months[d->time.month - 1];
    case 'p': return d->time.hour >= 12 ? "PM" : "AM";
    case 'P': return d->time.hour >= 12 ? "pm" : "am";
    case 'n': return "\n";
    case 't': return "\t";
    case '%': return "%";
    case 'z':
    case 'Z': return "";
    default: return NULL;
  }
}

static void append_time(tnj_state *s, tnj_buffer *out, const char *format, size_t size, const date *d);

/* Appends what one conversion gives; false when there is no such conversion. */
static bool append_conversion(tnj_state *s, tnj_buffer *out, const date *d, char flag, char conversion) {
  int value, width, size;
  char pad, text[32];
  const char *format = composed(conversion), *letters = word(d, conversion, &size);
  if (format) {
    append_time(s, out, format, strlen(format), d);
  } else if (letters) {
    snprintf(text, sizeof text, "%.*s", size, letters);
    for (char *c = text; flag == '^' && *c; c++) *c = (char)toupper((unsigned char)*c);
    tnj_append_text(s, out, text);
  } else if (number(d, conversion, &value, &width, &pad)) {
    if (flag == '_') pad = ' ';
    if (flag == '0') pad = '0';
    if (flag == '-') width = 1;
    snprintf(text, sizeof text, pad == '0' ? "%0*d" : "%*d", width, value);
    tnj_append_text(s, out, text);
  } else {
    return false;
  }
  return true;
}

static void append_time(tnj_state *s, tnj_buffer *out, const char *format, size_t size, const date *d) {
  for (size_t at = 0; at < size;) {
    size_t start = at++;
    if (format[start] != '%' || at >= size) {
      tnj_append(s, out, format + start, 1, false);
      continue;
    }
    char flag = strchr("-_0^", format[at]) && at + 1 < size ? format[at++] : 0;
    if (!append_conversion(s, out, d, flag, format[at++])) tnj_append(s, out, format + start, at - start, false);
    tnj_step(s);
  }
}

tnj_value tnj_format_time(tnj_state *s, tnj_value format, const tn_jinja_time *time) {
  tnj_buffer *out = tnj_buffer_new(s, 64);
  date d = complete(time);
  append_time(s, out, tnj_data(format), tnj_size(format), &d);
  return tnj_buffer_string(s, out);
}
