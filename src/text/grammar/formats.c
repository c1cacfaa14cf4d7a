/* String formats as patterns that match the whole string. Where a format's own definition is looser than what checkers
 * accept, the pattern is the stricter of the two: what is generated must pass everywhere. */
#include <string.h>
#include "base/memory.h"
#include "text/grammar/schema_parts.h"

#define MONTHS \
  "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))"
/* Years divisible by 4; by 400 among the hundreds; never the year 0. */
#define LEAP_YEARS "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define YEARS "(?:000[1-9]|00[1-9]\\d|0[1-9]\\d\\d|[1-9]\\d{3})"
#define DATE "(?:" YEARS "-" MONTHS "|" LEAP_YEARS "-02-29)"
#define CLOCK "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define BYTE "(?:\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])"
#define IPV4 BYTE "(?:\\." BYTE "){3}"
#define H16 "[0-9A-Fa-f]{1,4}"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define LOOSE_HOST "[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*"
#define HOST LABEL "(?:\\." LABEL ")*"
#define ESCAPED "%[0-9A-Fa-f]{2}"
#define PATH_CHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" ESCAPED ")"
#define AUTHORITY "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" ESCAPED ")+@)?" LOOSE_HOST "(?::\\d{1,5})?"
#define TAIL "(?:\\?(?:" PATH_CHAR "|[/?])*)?(?:#(?:" PATH_CHAR "|[/?])*)?"
#define SCHEME "[A-Za-z][A-Za-z0-9+.-]*:"
#define AFTER_SCHEME "(?://" AUTHORITY "(?:/" PATH_CHAR "*)*|/?" PATH_CHAR "+(?:/" PATH_CHAR "*)*)" TAIL
#define REFERENCE                                                                                             \
  "(?:" SCHEME AFTER_SCHEME "|//" AUTHORITY "(?:/" PATH_CHAR "*)*" TAIL "|(?:/" PATH_CHAR "+)?(?:/" PATH_CHAR \
  "*)*" TAIL ")"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define POINTER "(?:/(?:[^~/]|~[01])*)*"

const char *tn_schema_format_pattern(const char *format) {
  static const struct {
    const char *name, *pattern;
  } formats[] = {
      {"date", DATE},
      {"time", CLOCK},
      {"date-time", DATE "T" CLOCK},
      {"duration",
       "P(?:\\d+W|\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D|"
       "(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)?"
       "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S))"},
      {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
      {"email", ATOM "(?:\\." ATOM ")*@" LOOSE_HOST},
      {"hostname", HOST},
      {"ipv4", IPV4},
      {"ipv6", "(?:(?:" H16 ":){7}" H16 "|(?:" H16 ":){6}" IPV4 "|::(?:" H16 "(?::" H16 "){0,6})?|"
               "::(?:" H16 ":){0,5}" IPV4 "|" H16 "::(?:" H16 "(?::" H16 "){0,5})?|" H16 "(?::" H16 "){1}::(?:" H16
               "(?::" H16 "){0,4})?|" H16 "(?::" H16 "){2}::(?:" H16 "(?::" H16 "){0,3})?|" H16 "(?::" H16
               "){3}::(?:" H16 "(?::" H16 "){0,2})?|" H16 "(?::" H16 "){4}::(?:" H16 "(?::" H16 ")?)?|" H16 "(?::" H16
               "){5}::(?:" H16 ")?|" H16 "(?::" H16 "){6}::)"},
      {"uri", SCHEME AFTER_SCHEME},
      {"iri", SCHEME AFTER_SCHEME},
      {"uri-reference", REFERENCE},
      {"idn-email", ATOM "(?:\\." ATOM ")*@" LOOSE_HOST},
      {"idn-hostname", HOST},
      {"iri-reference", REFERENCE},
      {"byte", "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"},
      {"binary", "[^]*"},
      {"password", "[^]*"},
      {"json-pointer", POINTER},
      {"relative-json-pointer", "(?:0|[1-9]\\d*)(?:#|" POINTER ")"},
  };
  for (size_t i = 0; i < TN_COUNT(formats); i++)
    if (!strcmp(format, formats[i].name)) return formats[i].pattern;
  return NULL;
}
