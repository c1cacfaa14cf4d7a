#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"
#include "base/utf8.h"
#include "text/pattern_parse.h"

/* The kind of every codepoint in two steps: pages of 128 codepoints, equal pages kept once. */
#define PAGE_BITS 7
#define PAGE_SIZE (1u << PAGE_BITS)
#define PAGE_COUNT (0x110000u >> PAGE_BITS)

struct tn_pattern {
  pcre2_code *code;
  bool jit;
  uint8_t *pages;               /* [pages][PAGE_SIZE] */
  uint16_t page_of[PAGE_COUNT]; /* codepoint / PAGE_SIZE -> page */
  uint8_t ascii[128];
};

/* ---- kinds: characters that no set of the pattern tells apart ---- */

#define SET_WORDS (TN_PATTERN_MAX_SETS / 64)

typedef struct membership {
  uint64_t bits[SET_WORDS]; /* bit s: in set s */
} membership;

/* Intervals of codepoints within which nothing changes, and their kinds. */
typedef struct kind_table {
  uint32_t *starts; /* [count], sorted, starts[0] = 0 */
  uint8_t *kind_of; /* [count] */
  size_t count;
  membership kinds[256]; /* of each kind */
  size_t kind_count;
} kind_table;

static int by_value(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* The sorted places where any set begins or ends. */
static bool find_intervals(const tn_pattern_parts *parts, kind_table *table) {
  size_t most = 1;
  for (size_t s = 0; s < parts->set_count; s++) most += 2 * parts->sets[s].count;
  table->starts = tn_calloc(most, sizeof *table->starts);
  table->kind_of = tn_calloc(most, 1);
  if (!table->starts || !table->kind_of) return false;
  size_t count = 1; /* starts[0] is 0 already */
  for (size_t s = 0; s < parts->set_count; s++)
    for (size_t i = 0; i < parts->sets[s].count; i++) {
      table->starts[count++] = parts->sets[s].ranges[i].first;
      if (parts->sets[s].ranges[i].last < 0x10ffff) table->starts[count++] = parts->sets[s].ranges[i].last + 1;
    }
  qsort(table->starts, count, sizeof *table->starts, by_value);
  for (size_t i = 0; i < count; i++)
    if (i == 0 || table->starts[i] != table->starts[table->count - 1]) table->starts[table->count++] = table->starts[i];
  return true;
}

/* Gives every interval its kind. False: more than 256 kinds. */
static bool find_kinds(const tn_pattern_parts *parts, kind_table *table) {
  size_t next[TN_PATTERN_MAX_SETS] = {0}; /* the first range of each set that isn't behind the interval */
  for (size_t i = 0; i < table->count; i++) {
    uint32_t at = table->starts[i];
    membership member = {{0}};
    for (size_t s = 0; s < parts->set_count; s++) {
      const tn_char_set *set = &parts->sets[s];
      while (next[s] < set->count && set->ranges[next[s]].last < at) next[s]++;
      if (next[s] < set->count && set->ranges[next[s]].first <= at) member.bits[s / 64] |= UINT64_C(1) << (s % 64);
    }
    size_t kind = 0;
    while (kind < table->kind_count && memcmp(&table->kinds[kind], &member, sizeof member) != 0) kind++;
    if (kind == 256) return false;
    if (kind == table->kind_count) table->kinds[table->kind_count++] = member;
    table->kind_of[i] = (uint8_t)kind;
  }
  return true;
}

/* Fills the two-step table from the intervals. */
static bool build_pages(tn_pattern *pattern, const kind_table *table) {
  size_t count = 0, capacity = 0, interval = 0;
  for (uint32_t page = 0; page < PAGE_COUNT; page++) {
    uint8_t content[PAGE_SIZE];
    for (uint32_t i = 0; i < PAGE_SIZE; i++) {
      uint32_t codepoint = page << PAGE_BITS | i;
      while (interval + 1 < table->count && table->starts[interval + 1] <= codepoint) interval++;
      content[i] = table->kind_of[interval];
      /* A page inside one interval is filled at once. */
      if (i == 0 && (interval + 1 == table->count || table->starts[interval + 1] >= codepoint + PAGE_SIZE)) {
        memset(content, content[0], sizeof content);
        break;
      }
    }
    size_t same = count;
    if (count && memcmp(pattern->pages + (count - 1) * PAGE_SIZE, content, PAGE_SIZE) == 0) same = count - 1;
    if (same == count) {
      if (count == capacity) {
        capacity = capacity ? capacity * 2 : 64;
        uint8_t *grown = realloc(pattern->pages, capacity * PAGE_SIZE);
        if (!grown) return false;
        pattern->pages = grown;
      }
      memcpy(pattern->pages + count++ * PAGE_SIZE, content, PAGE_SIZE);
    }
    pattern->page_of[page] = (uint16_t)same;
  }
  for (unsigned c = 0; c < 128; c++) pattern->ascii[c] = pattern->pages[(size_t)pattern->page_of[0] * PAGE_SIZE + c];
  return true;
}

static uint8_t kind_of(const tn_pattern *pattern, uint32_t codepoint) {
  return pattern->pages[(size_t)pattern->page_of[codepoint >> PAGE_BITS] * PAGE_SIZE + (codepoint & (PAGE_SIZE - 1))];
}

/* ---- compiling ---- */

/* The byte class of the kinds in set `s`. */
static void put_class(tn_buf *text, const kind_table *table, unsigned s) {
  size_t start = text->size;
  tn_buf_putc(text, '[');
  for (size_t kind = 0; kind < table->kind_count; kind++) {
    size_t last = kind;
    while (last < table->kind_count && table->kinds[last].bits[s / 64] >> (s % 64) & 1) last++;
    if (last == kind) continue;
    tn_buf_printf(text, "\\x%02x-\\x%02x", (unsigned)kind, (unsigned)last - 1);
    kind = last;
  }
  if (!text->failed && text->size == start + 1) { /* no character is in the set */
    text->size = start;
    tn_buf_puts(text, "(?!)");
  } else {
    tn_buf_putc(text, ']');
  }
}

static tn_status compile_bytes(tn_pattern *pattern, const tn_buf *text, tn_text source, tn_error *error) {
  int number;
  size_t offset;
  uint32_t options =
      PCRE2_USE_OFFSET_LIMIT | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C;
  pattern->code = pcre2_compile((PCRE2_SPTR)text->data, text->size, options, &number, &offset, NULL);
  if (!pattern->code) {
    char message[160];
    pcre2_get_error_message(number, (PCRE2_UCHAR *)message, sizeof message);
    return tn_fail(error, number == PCRE2_ERROR_HEAP_FAILED ? TN_E_MEMORY : TN_E_FORMAT, "pattern: %s in '%.*s'",
                   message, (int)(source.bytes < 200 ? source.bytes : 200), source.data);
  }
  pattern->jit = pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE) == 0;
  return TN_OK;
}

tn_status tn_pattern_compile(tn_pattern **out, tn_text source, tn_error *error) {
  *out = NULL;
  kind_table table = {0};
  tn_buf text;
  tn_buf_init(&text);
  tn_pattern *pattern = tn_calloc(1, sizeof *pattern);
  tn_pattern_parts *parts = tn_calloc(1, sizeof *parts);
  tn_status status = TN_E_MEMORY;
  if (!pattern || !parts) goto done;
  status = tn_pattern_parse(parts, source, error);
  if (status != TN_OK) goto done;
  status = TN_E_MEMORY;
  if (!find_intervals(parts, &table)) goto done;
  if (!find_kinds(parts, &table)) {
    status = tn_fail(error, TN_E_LIMIT, "pattern: tells more than 256 kinds of characters apart");
    goto done;
  }
  if (!build_pages(pattern, &table)) goto done;
  for (size_t i = 0; i < parts->count; i++)
    if (*parts->parts[i].syntax)
      tn_buf_puts(&text, parts->parts[i].syntax);
    else
      put_class(&text, &table, parts->parts[i].set);
  if (text.failed) goto done;
  status = compile_bytes(pattern, &text, source, error);
done:
  if (status == TN_E_MEMORY) tn_fail(error, status, "pattern: out of memory");
  if (parts) tn_pattern_parts_finish(parts);
  free(parts);
  free(table.starts);
  free(table.kind_of);
  tn_buf_finish(&text);
  if (status == TN_OK)
    *out = pattern;
  else
    tn_pattern_free(pattern);
  return status;
}

void tn_pattern_free(tn_pattern *pattern) {
  if (!pattern) return;
  pcre2_code_free(pattern->code);
  free(pattern->pages);
  free(pattern);
}

/* ---- running ---- */

bool tn_pattern_kinds(const tn_pattern *pattern, tn_text text, tn_buf *kinds) {
  if (!tn_buf_reserve(kinds, text.bytes)) return false;
  char *out = kinds->data + kinds->size;
  for (size_t at = 0; at < text.bytes;) {
    unsigned char first = (unsigned char)text.data[at];
    if (first < 0x80) {
      *out++ = (char)pattern->ascii[first];
      at++;
      continue;
    }
    uint32_t codepoint;
    at += tn_utf8_step(text.data + at, text.bytes - at, &codepoint);
    *out++ = (char)kind_of(pattern, codepoint);
  }
  kinds->size = (size_t)(out - kinds->data);
  return true;
}

void tn_pattern_run_finish(tn_pattern_run *run) {
  pcre2_match_data_free(run->data);
  pcre2_match_context_free(run->context);
  pcre2_jit_stack_free(run->stack);
  *run = (tn_pattern_run){0};
}

/* Long texts may need many steps and much stack; both limits grow with the text and stop an explosion. */
#define STEPS_AT_LEAST 1000000u
#define STEPS_PER_CHARACTER 20u
#define JIT_STACK_BYTES ((size_t)64 << 20)

/* Places that one call tries to match at; between calls the clock is looked at. */
#define PLACES_PER_CALL 4096u
#define CALLS_PER_LOOK 256u
#define NS_AT_LEAST UINT64_C(5000000000)
#define NS_PER_BYTE UINT64_C(2000) /* a usual pattern takes some tens */

static bool prepare(tn_pattern_run *run) {
  if (!run->data) run->data = pcre2_match_data_create(1, NULL);
  if (!run->context) run->context = pcre2_match_context_create(NULL);
  return run->data && run->context;
}

static bool out_of_time(tn_pattern_run *run) {
  uint64_t now = tn_clock_ns();
  if (!run->deadline) run->deadline = now + NS_AT_LEAST + NS_PER_BYTE * run->bytes;
  return now > run->deadline;
}

/* One call of PCRE2; with a larger stack, again, if the first was too small. */
static int match(const tn_pattern *pattern, tn_pattern_run *run, const char *kinds, size_t count, size_t from) {
  if (!pattern->jit) return pcre2_match(pattern->code, (PCRE2_SPTR)kinds, count, from, 0, run->data, run->context);
  int result = pcre2_jit_match(pattern->code, (PCRE2_SPTR)kinds, count, from, 0, run->data, run->context);
  if (result != PCRE2_ERROR_JIT_STACKLIMIT || run->stack) return result;
  run->stack = pcre2_jit_stack_create(32 << 10, JIT_STACK_BYTES, NULL);
  if (!run->stack) return PCRE2_ERROR_NOMEMORY;
  pcre2_jit_stack_assign(run->context, NULL, run->stack);
  return pcre2_jit_match(pattern->code, (PCRE2_SPTR)kinds, count, from, 0, run->data, run->context);
}

tn_status tn_pattern_find(const tn_pattern *pattern, tn_pattern_run *run, const char *kinds, size_t count, size_t from,
                          bool *found, size_t *start, size_t *end, tn_error *error) {
  *found = false;
  if (!prepare(run)) return tn_fail(error, TN_E_MEMORY, "pattern: out of memory");
  uint64_t steps = STEPS_AT_LEAST + (uint64_t)STEPS_PER_CHARACTER * count;
  pcre2_set_match_limit(run->context, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
  for (; from <= count; from += PLACES_PER_CALL + 1) {
    pcre2_set_offset_limit(run->context, from + PLACES_PER_CALL);
    int result = match(pattern, run, kinds, count, from);
    if (result >= 0) {
      const PCRE2_SIZE *range = pcre2_get_ovector_pointer(run->data);
      *found = true;
      *start = range[0];
      *end = range[1];
    } else if (result != PCRE2_ERROR_NOMATCH) {
      char message[160];
      pcre2_get_error_message(result, (PCRE2_UCHAR *)message, sizeof message);
      return tn_fail(error, result == PCRE2_ERROR_NOMEMORY ? TN_E_MEMORY : TN_E_LIMIT,
                     "pattern: %s on a text of %zu characters", message, count);
    }
    bool look = ++run->calls % CALLS_PER_LOOK == 0 || (!*found && count > PLACES_PER_CALL);
    if (look && out_of_time(run))
      return tn_fail(error, TN_E_LIMIT, "pattern: takes too long on a text of %zu characters", count);
    if (*found) break;
  }
  return TN_OK;
}
