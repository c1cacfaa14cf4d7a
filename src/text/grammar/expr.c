/* Making and interning expressions; the laws that keep equal languages at equal ids where that is cheap. */
#include "text/grammar/expr.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"

#define MAX_DEPTH 200          /* nesting of an expression: recursion over it stays within a small stack */
#define MAX_NODES 2000000      /* expressions, and pool entries, of one grammar */
#define STEPS_TO_MAKE 30000000 /* work for making a grammar: two or three seconds */
#define FIRST_TABLE 1024       /* slots of the table to begin with; a power of two */
#define INTEGER_PART 255u      /* position of `multiple` before the decimal point */

void tn_exprs_init(tn_exprs *x) {
  *x = (tn_exprs){.limit = MAX_NODES, .classes = 1};
  tn_exprs_begin(x, STEPS_TO_MAKE);
  tn_expr_intern(x, TN_EXPR_IS_NOTHING, 0, 0, 0);
  tn_expr_intern(x, TN_EXPR_IS_EMPTY, 0, 0, 0);
}

void tn_exprs_finish(tn_exprs *x) {
  free(x->nodes);
  free(x->pool);
  free(x->sets);
  free(x->table);
  free(x->rules);
  free(x->scratch);
  free(x->derivatives);
  free(x->marks);
  *x = (tn_exprs){0};
}

static bool copy_array(void **out, const void *data, size_t capacity, size_t count, size_t size) {
  if (!data) return true;
  *out = malloc(capacity * size);
  if (!*out) return false;
  memcpy(*out, data, count * size);
  return true;
}

bool tn_exprs_clone(tn_exprs *copy, const tn_exprs *x) {
  *copy = *x;
  copy->nodes = NULL, copy->pool = NULL, copy->sets = NULL, copy->table = NULL, copy->rules = NULL;
  copy->scratch = NULL, copy->scratch_count = copy->scratch_capacity = 0;
  copy->derivatives = NULL, copy->marks = NULL, copy->mark_capacity = 0, copy->stamp = 0;
  bool done = copy_array((void **)&copy->nodes, x->nodes, x->capacity, x->count, sizeof *x->nodes) &&
              copy_array((void **)&copy->pool, x->pool, x->pool_capacity, x->pool_count, sizeof *x->pool) &&
              copy_array((void **)&copy->sets, x->sets, x->set_capacity, x->set_count, sizeof *x->sets) &&
              copy_array((void **)&copy->rules, x->rules, x->rule_capacity, x->rule_count, sizeof *x->rules) &&
              copy_array((void **)&copy->table, x->table, x->table_size, x->table_size, sizeof *x->table);
  if (!done) tn_exprs_finish(copy);
  return done;
}

size_t tn_exprs_bytes(const tn_exprs *x) {
  return x->capacity * sizeof *x->nodes + x->pool_capacity * sizeof *x->pool + x->table_size * sizeof *x->table +
         x->set_capacity * sizeof *x->sets + x->rule_capacity * sizeof *x->rules;
}

tn_expr tn_exprs_fail(tn_exprs *x, tn_status status) {
  if (x->status == TN_OK) x->status = status;
  return TN_EXPR_NOTHING;
}

void tn_exprs_begin(tn_exprs *x, uint64_t steps) {
  x->steps = steps;
  x->status = TN_OK;
  x->scratch_count = 0;
}

bool tn_exprs_scratch(tn_exprs *x, uint32_t value) {
  uint32_t *slot = TN_PUSH(x->scratch, x->scratch_count, x->scratch_capacity);
  if (!slot) {
    tn_exprs_fail(x, TN_E_MEMORY);
    return false;
  }
  *slot = value;
  return true;
}

/* ---- interning ---- */

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

static bool is_list(tn_expr_kind kind) {
  return kind == TN_EXPR_IS_ALT || kind == TN_EXPR_IS_AND;
}

static uint64_t hash_of(const tn_exprs *x, const tn_expr_node *node) {
  uint64_t hash = mix(node->kind, node->b);
  if (node->kind == TN_EXPR_IS_BYTES) {
    for (int w = 0; w < 4; w++) hash = mix(hash, x->sets[node->a].bits[w]);
    return hash;
  }
  if (!is_list(node->kind)) return mix(mix(hash, node->a), node->c);
  for (uint32_t i = 0; i < node->b; i++) hash = mix(hash, x->pool[node->a + i]);
  return hash;
}

static bool same_node(const tn_exprs *x, const tn_expr_node *p, const tn_expr_node *q) {
  if (p->kind != q->kind || p->b != q->b) return false;
  if (p->kind == TN_EXPR_IS_BYTES) return !memcmp(&x->sets[p->a], &x->sets[q->a], sizeof *x->sets);
  if (is_list(p->kind)) return !memcmp(x->pool + p->a, x->pool + q->a, p->b * sizeof *x->pool);
  return p->a == q->a && p->c == q->c;
}

static bool grow_table(tn_exprs *x) {
  size_t size = x->table_size ? x->table_size * 2 : FIRST_TABLE;
  uint32_t *table = tn_calloc(size, sizeof *table);
  if (!table) return false;
  for (size_t id = 1; id < x->count; id++) {
    size_t at = hash_of(x, &x->nodes[id]) & (size - 1);
    while (table[at]) at = (at + 1) & (size - 1);
    table[at] = (uint32_t)id;
  }
  free(x->table);
  x->table = table;
  x->table_size = size;
  return true;
}

/* Flags and depth follow from the children. */
static void settle_node(const tn_exprs *x, tn_expr_node *node) {
  uint8_t inherited = TN_EXPR_CALLS | TN_EXPR_FILTERS;
  unsigned depth = 0;
  bool nullable = false;
  const tn_expr_node *a = &x->nodes[node->a < x->count ? node->a : 0], *b = &x->nodes[node->b < x->count ? node->b : 0];
  node->flags = 0;
  switch ((tn_expr_kind)node->kind) {
    case TN_EXPR_IS_EMPTY: nullable = true; break;
    case TN_EXPR_IS_CONCAT:
      node->flags = (a->flags | b->flags) & inherited;
      nullable = a->flags & b->flags & TN_EXPR_NULLABLE;
      depth = a->depth + 1u > b->depth ? a->depth + 1u : b->depth;
      break;
    case TN_EXPR_IS_ALT:
    case TN_EXPR_IS_AND:
      nullable = node->kind == TN_EXPR_IS_AND;
      for (uint32_t i = 0; i < node->b; i++) {
        const tn_expr_node *child = &x->nodes[x->pool[node->a + i]];
        node->flags |= child->flags & inherited;
        bool has = child->flags & TN_EXPR_NULLABLE;
        nullable = node->kind == TN_EXPR_IS_AND ? nullable && has : nullable || has;
        if (child->depth + 1u > depth) depth = child->depth + 1u;
      }
      if (node->kind == TN_EXPR_IS_AND) node->flags |= TN_EXPR_FILTERS;
      break;
    case TN_EXPR_IS_REPEAT:
      node->flags = a->flags & inherited;
      nullable = node->b == 0 || (a->flags & TN_EXPR_NULLABLE);
      depth = a->depth + 1u;
      break;
    case TN_EXPR_IS_NOT:
      node->flags = (a->flags & inherited) | TN_EXPR_FILTERS;
      nullable = !(a->flags & TN_EXPR_NULLABLE);
      depth = a->depth + 1u;
      break;
    case TN_EXPR_IS_CALL:
      node->flags = TN_EXPR_CALLS;
      nullable = x->rules[node->a].nullable;
      break;
    case TN_EXPR_IS_MULTIPLE: {
      node->flags = TN_EXPR_FILTERS;
      uint64_t value = node->b;
      uint32_t place = (node->c & 255u) == INTEGER_PART ? 0 : node->c & 255u;
      for (uint32_t i = place; i < node->c >> 8; i++) value = value * 10 % node->a;
      nullable = value % node->a == 0;
      break;
    }
    default: break;
  }
  if (nullable) node->flags |= TN_EXPR_NULLABLE;
  node->depth = (uint16_t)(depth > UINT16_MAX ? UINT16_MAX : depth);
}

tn_expr tn_expr_intern(tn_exprs *x, tn_expr_kind kind, uint32_t a, uint32_t b, uint32_t c) {
  if (x->status != TN_OK) return TN_EXPR_NOTHING;
  if (!x->steps) return tn_exprs_fail(x, TN_E_LIMIT);
  x->steps--;
  if (x->count * 2 >= x->table_size && !grow_table(x)) return tn_exprs_fail(x, TN_E_MEMORY);
  tn_expr_node node = {.kind = (uint8_t)kind, .a = a, .b = b, .c = c};
  size_t at = hash_of(x, &node) & (x->table_size - 1);
  for (; x->table[at]; at = (at + 1) & (x->table_size - 1))
    if (same_node(x, &x->nodes[x->table[at]], &node)) return x->table[at];
  if (x->count >= x->limit) return tn_exprs_fail(x, TN_E_LIMIT);
  if (x->count) settle_node(x, &node);
  if (node.depth > MAX_DEPTH) return tn_exprs_fail(x, TN_E_LIMIT);
  tn_expr_node *slot = TN_PUSH(x->nodes, x->count, x->capacity);
  if (!slot) return tn_exprs_fail(x, TN_E_MEMORY);
  *slot = node;
  uint32_t id = (uint32_t)(x->count - 1);
  if (id) x->table[at] = id;
  return id;
}

/* ---- bytes and their classes ---- */

/* Splits every class that `set` cuts. */
static void refine_classes(tn_exprs *x, const tn_byte_set *set) {
  int twin[256]; /* class -> the class of those of its bytes that lie in the set */
  bool keeps[256] = {false};
  for (uint32_t c = 0; c < 256; c++) twin[c] = -1;
  for (uint32_t byte = 0; byte < 256; byte++)
    if (!(set->bits[byte >> 6] >> (byte & 63) & 1)) keeps[x->class_of[byte]] = true;
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint8_t c = x->class_of[byte];
    if (!(set->bits[byte >> 6] >> (byte & 63) & 1) || !keeps[c]) continue;
    if (twin[c] < 0) twin[c] = (int)x->classes++;
    x->class_of[byte] = (uint8_t)twin[c];
  }
  for (int byte = 255; byte >= 0; byte--) x->sample_of[x->class_of[byte]] = (uint8_t)byte;
}

tn_expr tn_expr_bytes(tn_exprs *x, const tn_byte_set *set) {
  static const tn_byte_set none;
  if (!memcmp(set, &none, sizeof none)) return TN_EXPR_NOTHING;
  tn_byte_set *slot = TN_PUSH(x->sets, x->set_count, x->set_capacity);
  if (!slot) return tn_exprs_fail(x, TN_E_MEMORY);
  *slot = *set;
  size_t before = x->count;
  tn_expr result = tn_expr_intern(x, TN_EXPR_IS_BYTES, (uint32_t)(x->set_count - 1), 0, 0);
  if (x->count == before) { /* known already, or failed */
    x->set_count--;
    return result;
  }
  uint32_t classes = x->classes;
  refine_classes(x, set);
  if (x->classes > classes) { /* never while deriving: sets made then are unions of classes */
    free(x->derivatives);
    x->derivatives = NULL;
  }
  return result;
}

tn_expr tn_expr_range(tn_exprs *x, uint8_t first, uint8_t last) {
  tn_byte_set set = {{0}};
  for (unsigned byte = first; byte <= last; byte++) set.bits[byte >> 6] |= (uint64_t)1 << (byte & 63);
  return tn_expr_bytes(x, &set);
}

tn_expr tn_expr_literal(tn_exprs *x, const char *bytes, size_t size) {
  tn_expr result = TN_EXPR_EMPTY;
  while (size--) result = tn_expr_concat(x, tn_expr_range(x, (uint8_t)bytes[size], (uint8_t)bytes[size]), result);
  return result;
}

tn_expr tn_expr_text(tn_exprs *x, const char *text) {
  return tn_expr_literal(x, text, strlen(text));
}

tn_expr tn_expr_control(tn_exprs *x, const char *bytes, size_t size) {
  tn_expr mark = tn_expr_range(x, (uint8_t)TN_CONTROL_MARK, (uint8_t)TN_CONTROL_MARK);
  return tn_expr_concat3(x, mark, tn_expr_literal(x, bytes, size), mark);
}

/* ---- concat ---- */

tn_expr tn_expr_concat(tn_exprs *x, tn_expr a, tn_expr b) {
  if (x->status != TN_OK || a == TN_EXPR_NOTHING || b == TN_EXPR_NOTHING) return TN_EXPR_NOTHING;
  if (a == TN_EXPR_EMPTY) return b;
  if (b == TN_EXPR_EMPTY) return a;
  size_t base = x->scratch_count;
  for (; x->nodes[a].kind == TN_EXPR_IS_CONCAT; a = x->nodes[a].b)
    if (!tn_exprs_scratch(x, x->nodes[a].a)) return TN_EXPR_NOTHING;
  b = tn_expr_intern(x, TN_EXPR_IS_CONCAT, a, b, 0);
  while (x->scratch_count > base && x->status == TN_OK)
    b = tn_expr_intern(x, TN_EXPR_IS_CONCAT, x->scratch[--x->scratch_count], b, 0);
  return x->status == TN_OK ? b : TN_EXPR_NOTHING;
}

tn_expr tn_expr_concat3(tn_exprs *x, tn_expr a, tn_expr b, tn_expr c) {
  return tn_expr_concat(x, a, tn_expr_concat(x, b, c));
}

/* ---- alt, and, not ---- */

static int by_value(const void *p, const void *q) {
  uint32_t a = *(const uint32_t *)p, b = *(const uint32_t *)q;
  return (a > b) - (a < b);
}

/* Appends the children of scratch entries of the same kind and drops the neutral ones; true when the whole is
 * decided already and *decided says what it is. */
static bool flatten(tn_exprs *x, tn_expr_kind kind, size_t base, tn_expr all, tn_expr *decided) {
  bool is_alt = kind == TN_EXPR_IS_ALT;
  tn_expr neutral = is_alt ? TN_EXPR_NOTHING : all, absorbing = is_alt ? all : TN_EXPR_NOTHING;
  size_t end = x->scratch_count, kept = base;
  for (size_t i = base; i < end; i++) {
    tn_expr e = x->scratch[i];
    if (e == absorbing) {
      *decided = absorbing;
      return true;
    }
    const tn_expr_node *node = &x->nodes[e];
    if (node->kind == kind) {
      for (uint32_t j = 0; j < node->b; j++)
        if (!tn_exprs_scratch(x, x->pool[node->a + j])) return *decided = TN_EXPR_NOTHING, true;
    } else if (e != neutral) {
      x->scratch[kept++] = e;
    }
  }
  size_t added = x->scratch_count - end;
  if (added) memmove(x->scratch + kept, x->scratch + end, added * sizeof *x->scratch);
  x->scratch_count = kept + added;
  return false;
}

/* Joins the byte sets among the sorted entries into one (union or intersection), drops doubles, and an empty text
 * beside another nullable choice. */
static void join(tn_exprs *x, tn_expr_kind kind, size_t base) {
  bool is_alt = kind == TN_EXPR_IS_ALT, any = false, null_beside = false;
  tn_byte_set set = {{0}};
  size_t kept = base;
  for (size_t i = base; i < x->scratch_count; i++) {
    tn_expr e = x->scratch[i];
    if (kept > base && x->scratch[kept - 1] == e) continue;
    if (x->nodes[e].kind == TN_EXPR_IS_BYTES) {
      const tn_byte_set *more = &x->sets[x->nodes[e].a];
      for (int w = 0; w < 4; w++)
        set.bits[w] = !any ? more->bits[w] : is_alt ? set.bits[w] | more->bits[w] : set.bits[w] & more->bits[w];
      any = true;
      continue;
    }
    if (e != TN_EXPR_EMPTY && tn_expr_nullable(x, e)) null_beside = true;
    x->scratch[kept++] = e;
  }
  if (is_alt && null_beside && kept > base && x->scratch[base] == TN_EXPR_EMPTY)
    memmove(x->scratch + base, x->scratch + base + 1, (--kept - base) * sizeof *x->scratch);
  x->scratch_count = kept;
  if (any) tn_exprs_scratch(x, tn_expr_bytes(x, &set));
}

tn_expr tn_expr_combine(tn_exprs *x, tn_expr_kind kind, size_t base) {
  tn_expr all = tn_expr_intern(x, TN_EXPR_IS_NOT, TN_EXPR_NOTHING, 0, 0), result = TN_EXPR_NOTHING;
  if (x->status != TN_OK || flatten(x, kind, base, all, &result)) goto done;
  if (x->scratch_count == base) {
    result = kind == TN_EXPR_IS_ALT ? TN_EXPR_NOTHING : all;
    goto done;
  }
  qsort(x->scratch + base, x->scratch_count - base, sizeof *x->scratch, by_value);
  join(x, kind, base);
  size_t count = x->scratch_count - base;
  if (x->status != TN_OK) goto done;
  if (count > 1) qsort(x->scratch + base, count, sizeof *x->scratch, by_value);
  if (kind == TN_EXPR_IS_AND && x->scratch[base] <= TN_EXPR_EMPTY) {
    bool nullable = x->scratch[base] == TN_EXPR_EMPTY;
    for (size_t i = base; i < x->scratch_count; i++) nullable = nullable && tn_expr_nullable(x, x->scratch[i]);
    result = nullable ? TN_EXPR_EMPTY : TN_EXPR_NOTHING;
    goto done;
  }
  if (count == 1) {
    result = x->scratch[base];
    goto done;
  }
  if (x->steps < count || x->pool_count + count > x->limit) {
    result = tn_exprs_fail(x, TN_E_LIMIT);
    goto done;
  }
  x->steps -= count;
  size_t first = x->pool_count, before = x->count;
  for (size_t i = 0; i < count; i++) {
    uint32_t *slot = TN_PUSH(x->pool, x->pool_count, x->pool_capacity);
    if (!slot) {
      result = tn_exprs_fail(x, TN_E_MEMORY);
      goto done;
    }
    *slot = x->scratch[base + i];
  }
  result = tn_expr_intern(x, kind, (uint32_t)first, (uint32_t)count, 0);
  if (x->count == before) x->pool_count = first; /* it was known already */
done:
  if (x->scratch_count > base) x->scratch_count = base;
  return x->status == TN_OK ? result : TN_EXPR_NOTHING;
}

tn_expr tn_expr_alt_of(tn_exprs *x, const tn_expr *children, size_t count) {
  size_t base = x->scratch_count;
  for (size_t i = 0; i < count; i++)
    if (!tn_exprs_scratch(x, children[i])) return TN_EXPR_NOTHING;
  return tn_expr_combine(x, TN_EXPR_IS_ALT, base);
}

tn_expr tn_expr_alt(tn_exprs *x, tn_expr a, tn_expr b) {
  if (a == b || b == TN_EXPR_NOTHING) return a;
  if (a == TN_EXPR_NOTHING) return b;
  tn_expr both[2] = {a, b};
  return tn_expr_alt_of(x, both, 2);
}

tn_expr tn_expr_and(tn_exprs *x, tn_expr a, tn_expr b) {
  size_t base = x->scratch_count;
  if (!tn_exprs_scratch(x, a) || !tn_exprs_scratch(x, b)) return TN_EXPR_NOTHING;
  return tn_expr_combine(x, TN_EXPR_IS_AND, base);
}

tn_expr tn_expr_not(tn_exprs *x, tn_expr a) {
  if (x->nodes[a].kind == TN_EXPR_IS_NOT) return x->nodes[a].a;
  return tn_expr_intern(x, TN_EXPR_IS_NOT, a, 0, 0);
}

/* ---- the rest ---- */

tn_expr tn_expr_repeat(tn_exprs *x, tn_expr a, uint32_t min, uint32_t max) {
  const tn_expr_node *node = &x->nodes[a];
  if (a == TN_EXPR_NOTHING) return min ? TN_EXPR_NOTHING : TN_EXPR_EMPTY;
  if (max == 0 || a == TN_EXPR_EMPTY) return TN_EXPR_EMPTY;
  if (max == 1 && (min == 1 || node->flags & TN_EXPR_NULLABLE)) return a;
  if (node->kind == TN_EXPR_IS_REPEAT && node->c == TN_EXPR_MANY && (node->b == 0 || (node->b == 1 && min <= 1)))
    return min && node->b ? a : tn_expr_intern(x, TN_EXPR_IS_REPEAT, node->a, 0, TN_EXPR_MANY);
  if (node->flags & TN_EXPR_NULLABLE) min = 0;
  return tn_expr_intern(x, TN_EXPR_IS_REPEAT, a, min, max);
}

tn_expr tn_expr_repeat_rest(tn_exprs *x, const tn_expr_node *repeat) {
  uint32_t min = repeat->b ? repeat->b - 1 : 0;
  return tn_expr_repeat(x, repeat->a, min, repeat->c == TN_EXPR_MANY ? TN_EXPR_MANY : repeat->c - 1);
}

tn_expr tn_expr_optional(tn_exprs *x, tn_expr a) {
  return tn_expr_alt(x, a, TN_EXPR_EMPTY);
}

tn_expr tn_expr_call(tn_exprs *x, uint32_t rule) {
  if (rule >= x->rule_count) return TN_EXPR_NOTHING;
  return tn_expr_intern(x, TN_EXPR_IS_CALL, rule, 0, 0);
}

tn_expr tn_expr_multiple(tn_exprs *x, uint32_t divisor, uint32_t scale) {
  for (const char *c = "0123456789.-"; *c; c++) tn_expr_range(x, (uint8_t)*c, (uint8_t)*c); /* a class each */
  return tn_expr_intern(x, TN_EXPR_IS_MULTIPLE, divisor, 0, scale << 8 | INTEGER_PART);
}

uint32_t tn_rule_add(tn_exprs *x) {
  tn_rule *rule = x->rule_count < x->limit ? TN_PUSH(x->rules, x->rule_count, x->rule_capacity) : NULL;
  if (!rule) {
    tn_exprs_fail(x, x->rule_count < x->limit ? TN_E_MEMORY : TN_E_LIMIT);
    return UINT32_MAX;
  }
  return (uint32_t)(x->rule_count - 1);
}

uint32_t tn_exprs_new_stamp(tn_exprs *x) {
  if (x->mark_capacity < x->count || x->stamp == UINT32_MAX) {
    free(x->marks);
    x->mark_capacity = x->count * 2;
    x->marks = tn_calloc(x->mark_capacity, sizeof *x->marks);
    x->stamp = 0;
    if (!x->marks) {
      x->mark_capacity = 0;
      tn_exprs_fail(x, TN_E_MEMORY);
      return 0;
    }
  }
  return ++x->stamp;
}
