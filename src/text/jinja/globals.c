/* Functions that every template can call. */
#include "text/jinja/builtins.h"
#include "text/jinja/number.h"
#include "text/jinja/text.h"

#define FUNCTION(name) static tnj_value name(tnj_state *s, tnj_value self, const tnj_value *p, const tnj_arguments *a)
#define UNUSED (void)self, (void)p, (void)a

enum { MAX_RANGE = 100000 }; /* jinja2's sandbox has the same limit */

FUNCTION(range) {
  UNUSED;
  bool only_stop = !tnj_given(p[1]);
  int64_t start = only_stop ? 0 : tnj_need_integer(s, p[0], "range"),
          stop = tnj_need_integer(s, only_stop ? p[0] : p[1], "range");
  int64_t step = tnj_given(p[2]) ? tnj_need_integer(s, p[2], "range") : 1;
  if (step == 0) tnj_error(s, "range() arg 3 must not be zero");
  uint64_t distance = 0, by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  if (step > 0 ? stop > start : stop < start)
    distance = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
  uint64_t count = distance / by + (distance % by != 0);
  if (count > MAX_RANGE)
    tnj_fail(s, TN_E_LIMIT, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", MAX_RANGE);
  tnj_range *made = tnj_alloc(s, sizeof *made);
  *made = (tnj_range){start, stop, step, (size_t)count};
  return (tnj_value){.kind = TNJ_RANGE, .range = made};
}

/* A dictionary from a mapping or pairs, and keywords. */
FUNCTION(dict) {
  UNUSED;
  tnj_dict *made = tnj_dict_new(s, a->keyword_count);
  if (a->count > 1) tnj_error(s, "dict expected at most 1 argument, got %zu", a->count);
  if (a->count && a->items[0].kind == TNJ_DICT) {
    const tnj_dict *from = a->items[0].dict;
    for (size_t i = 0; i < from->count; i++) tnj_dict_set(s, made, from->entries[i].key, from->entries[i].value);
  } else if (a->count) {
    const tnj_list *pairs = tnj_items(s, a->items[0]);
    for (size_t i = 0; i < pairs->count; i++) {
      if (!tnj_is_iterable(pairs->items[i]))
        tnj_error(s, "cannot convert dictionary update sequence element #%zu to a sequence", i);
      const tnj_list *pair = tnj_items(s, pairs->items[i]);
      if (pair->count != 2)
        tnj_error(s, "dictionary update sequence element #%zu has length %zu; 2 is required", i, pair->count);
      tnj_dict_set(s, made, pair->items[0], pair->items[1]);
    }
  }
  for (size_t i = 0; i < a->keyword_count; i++) tnj_dict_set(s, made, a->keywords[i].name, a->keywords[i].value);
  return tnj_dict_value(made);
}

FUNCTION(namespace) {
  tnj_value made = dict(s, self, p, a);
  made.kind = TNJ_NAMESPACE;
  return made;
}

FUNCTION(cycler) {
  UNUSED;
  if (!a->count) tnj_error(s, "at least one item has to be provided");
  tnj_list *items = tnj_alloc(s, sizeof *items);
  *items = (tnj_list){a->items, a->count, NULL};
  tnj_cycler *made = tnj_alloc(s, sizeof *made);
  made->items = items;
  return (tnj_value){.kind = TNJ_CYCLER, .cycler = made};
}

FUNCTION(joiner) {
  UNUSED;
  tnj_joiner *made = tnj_alloc(s, sizeof *made);
  made->separator = tnj_given(p[0]) ? p[0] : tnj_string_text(s, ", ");
  return (tnj_value){.kind = TNJ_JOINER, .joiner = made};
}

/* The message reaches the caller byte for byte. */
FUNCTION(raise_exception) {
  UNUSED;
  tnj_value message = tnj_str(s, p[0]);
  tn_buf_clear(&s->message);
  tn_buf_append(&s->message, tnj_data(message), tnj_size(message));
  s->raised = true;
  tnj_error(s, "raised");
}

FUNCTION(strftime_now) {
  UNUSED;
  tnj_need_string(s, p[0], "strftime_now: the format");
  if (!s->now) tnj_error(s, "strftime_now: this rendering has no clock");
  return tnj_format_time(s, p[0], s->now);
}

const tnj_builtin tnj_globals[] = {{"range", range, "start stop step", 1},
                                   {"dict", dict, NULL, 0},
                                   {"namespace", namespace, NULL, 0},
                                   {"cycler", cycler, NULL, 0},
                                   {"joiner", joiner, "sep", 0},
                                   {"raise_exception", raise_exception, "message", 1},
                                   {"strftime_now", strftime_now, "format", 1},
                                   {0}};
