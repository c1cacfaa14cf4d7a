/* The built-in filters, tests, methods and global functions: their tables, and what several of them share (internal).
 */
#ifndef TENON_TEXT_JINJA_BUILTINS_H
#define TENON_TEXT_JINJA_BUILTINS_H

#include "text/jinja/program.h"

/* Tables end with a NULL name. */
extern const tnj_builtin tnj_text_filters[];
extern const tnj_builtin tnj_markup_filters[];
extern const tnj_builtin tnj_number_filters[];
extern const tnj_builtin tnj_item_filters[];
extern const tnj_builtin tnj_choice_filters[];
extern const tnj_builtin tnj_tests[];
extern const tnj_builtin tnj_globals[];
extern const tnj_builtin tnj_text_methods[];
extern const tnj_builtin tnj_text_questions[];
extern const tnj_builtin tnj_list_methods[];
extern const tnj_builtin tnj_dict_methods[];
extern const tnj_builtin tnj_integer_methods[];
extern const tnj_builtin tnj_float_methods[];
extern const tnj_builtin tnj_loop_methods[];
extern const tnj_builtin tnj_cycler_methods[];

/* The entry of `table` with this name, or NULL. */
const tnj_builtin *tnj_find_builtin(const tnj_builtin *table, tnj_value name);

/* ---- arguments ---- */
/* An integer argument, `missing` when it wasn't given or is None. */
int64_t tnj_integer_or(tnj_state *s, tnj_value argument, int64_t missing, const char *name);
bool tnj_bool_or(tnj_state *s, tnj_value argument, bool missing);
/* An argument that must be a string. */
tnj_value tnj_need_string(tnj_state *s, tnj_value argument, const char *name);

/* ---- items by attribute ---- */
/* item.attribute for "a.b.0", an integer or a string; absent or None: the item itself. With `missing` given it stands
 * for what is undefined. */
tnj_value tnj_by_attribute(tnj_state *s, tnj_value item, tnj_value attribute, tnj_value missing);
/* A string in lower case, for comparing without case; other values as they are. */
tnj_value tnj_fold(tnj_state *s, tnj_value v);

/* ---- generators ---- */
/* A filter that is a generator in Python: an error of the template's in it comes when its items are used, if they are.
 * Limits and lack of memory leave at once. */
typedef tnj_value (*tnj_filter)(tnj_state *s, tnj_value self, const tnj_value *p, const tnj_arguments *a);
tnj_value tnj_lazily(tnj_state *s, tnj_filter filter, tnj_value self, const tnj_value *p, const tnj_arguments *a);
#define TNJ_LAZY(name)                                                                                     \
  static tnj_value name##_lazy(tnj_state *s, tnj_value self, const tnj_value *p, const tnj_arguments *a) { \
    return tnj_lazily(s, name, self, p, a);                                                                \
  }

/* ---- whole filters ---- */
tnj_value tnj_pretty(tnj_state *s, tnj_value v); /* pprint */
/* How urlize writes its links. */
typedef struct tnj_link_style {
  int64_t limit;        /* code points of an address that are shown; -1: all */
  tnj_value attributes; /* what stands behind href="...", with a blank in front */
} tnj_link_style;
tnj_value tnj_urlize(tnj_state *s, tnj_value text, const tnj_link_style *style);

/* ---- time ---- */
/* strftime in the C locale, with GNU's flags "-", "_", "0" and "^". */
tnj_value tnj_format_time(tnj_state *s, tnj_value format, const tn_jinja_time *time);

/* ---- case ---- */
typedef enum tnj_case {
  TNJ_UPPER,
  TNJ_LOWER,
  TNJ_FOLD,       /* str.casefold */
  TNJ_TITLE,      /* str.title: each run of letters */
  TNJ_WORD_TITLE, /* the filter: each word */
  TNJ_CAPITALIZE,
  TNJ_SWAP
} tnj_case;
tnj_value tnj_change_case(tnj_state *s, tnj_value text, tnj_case wanted);

/* ---- text ---- */
/* The lines of a text as str.splitlines gives them. */
const tnj_list *tnj_split_lines(tnj_state *s, tnj_value text, bool keep_ends);
/* The words between white space, at most `limit` + 1 parts; from the right end when `right`. */
const tnj_list *tnj_split_space(tnj_state *s, tnj_value text, int64_t limit, bool right);
tnj_value tnj_join(tnj_state *s, tnj_value separator, const tnj_list *items);
/* Centred, or to one side (`align` '<', '>', '^'), in `width` code points. */
tnj_value tnj_pad(tnj_state *s, tnj_value text, int64_t width, tnj_value fill, char align);

#endif
