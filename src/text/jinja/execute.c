/* Running statements, and calling what templates define and what is built in. */
#include <string.h>
#include "text/jinja/program.h"
#include "text/jinja/text.h"

/* ---- assignment ---- */

static void assign(tnj_state *s, tnj_frame *frame, const tnj_node *target, tnj_value value);

static void unpack(tnj_state *s, tnj_frame *frame, const tnj_node *target, tnj_value value) {
  if (!tnj_is_iterable(value)) tnj_error(s, "cannot unpack non-iterable %s object", tnj_type_name(value));
  const tnj_list *list = tnj_items(s, value);
  if (list->count > target->count) tnj_error(s, "too many values to unpack (expected %zu)", target->count);
  if (list->count < target->count)
    tnj_error(s, "not enough values to unpack (expected %zu, got %zu)", target->count, list->count);
  tnj_enter(s);
  for (size_t i = 0; i < target->count; i++) assign(s, frame, target->items[i], list->items[i]);
  tnj_leave(s);
}

static void assign(tnj_state *s, tnj_frame *frame, const tnj_node *target, tnj_value value) {
  s->offset = target->offset;
  if (target->kind == TNJ_N_NAME) {
    tnj_frame_set(s, frame, target->name, value);
  } else if (target->kind == TNJ_N_MEMBER) {
    tnj_value object = tnj_evaluate(s, frame, target->first);
    if (object.kind != TNJ_NAMESPACE) tnj_error(s, "cannot assign attribute on non-namespace object");
    tnj_dict_set(s, object.dict, target->name, value);
  } else {
    unpack(s, frame, target, value);
  }
}

/* ---- output ---- */

static void check_output(tnj_state *s) {
  if (s->out->used > s->limits.output_bytes)
    tnj_fail(s, TN_E_LIMIT, "makes more than the %zu bytes of output allowed", s->limits.output_bytes);
}

static void output(tnj_state *s, tnj_value value) {
  if (s->autoescape && value.kind != TNJ_INT && value.kind != TNJ_FLOAT) value = tnj_escape(s, tnj_str(s, value));
  tnj_append_str(s, s->out, value);
  check_output(s);
}

tnj_value tnj_capture(tnj_state *s, tnj_frame *frame, const tnj_node *body) {
  tnj_buffer *outer = s->out;
  s->out = tnj_buffer_new(s, 64);
  tnj_execute(s, frame, body);
  tnj_value text = tnj_buffer_string(s, s->out);
  s->out = outer;
  if (s->autoescape) text.flag = TNJ_MARKUP;
  return text;
}

/* ---- loops ---- */

/* The items for which the loop's filter holds. */
static const tnj_list *filter_items(tnj_state *s, tnj_frame *frame, const tnj_node *node, const tnj_list *items) {
  tnj_list_builder kept = tnj_list_start(s, 0);
  tnj_frame *inner = tnj_frame_new(s, frame);
  for (size_t i = 0; i < items->count; i++) {
    inner->count = 0;
    assign(s, inner, node->first, items->items[i]);
    if (tnj_truth(s, tnj_evaluate(s, inner, node->third))) tnj_list_add(s, &kept, items->items[i]);
  }
  return tnj_list_end(s, &kept);
}

tnj_flow tnj_run_loop(tnj_state *s, tnj_frame *frame, const tnj_node *node, tnj_value iterable, size_t depth) {
  s->offset = node->second->offset;
  const tnj_list *items = tnj_items(s, iterable);
  if (node->third) items = filter_items(s, frame, node, items);
  tnj_loop *loop = tnj_alloc(s, sizeof *loop);
  *loop = (tnj_loop){.items = items, .depth = depth, .node = node, .frame = frame};
  tnj_frame *inner = NULL;
  bool finished = false;
  for (; loop->index < items->count; loop->index++) {
    if (!inner || node->captures) inner = tnj_frame_new(s, frame);
    tnj_frame_start(s, inner, node->items[0]);
    assign(s, inner, node->first, items->items[loop->index]);
    tnj_frame_set(s, inner, node->name, (tnj_value){.kind = TNJ_LOOP, .loop = loop});
    tnj_flow flow = tnj_execute(s, inner, node->items[0]);
    if (flow == TNJ_BREAK) break;
    finished |= flow == TNJ_NEXT;
  }
  /* jinja2 runs the else part unless a round came to its end: break and continue don't count as one */
  if (!finished && node->items[1]) return tnj_execute(s, tnj_frame_for(s, frame, node->items[1]), node->items[1]);
  return TNJ_NEXT;
}

/* loop(items): the recursive loop's body once more, one level down. */
static tnj_value call_loop(tnj_state *s, const tnj_loop *loop, const tnj_arguments *arguments) {
  if (!loop->node->recursive) tnj_error(s, "The loop must have the 'recursive' marker to be called recursively.");
  if (arguments->count != 1 || arguments->keyword_count) tnj_error(s, "loop() takes exactly one argument");
  tnj_buffer *outer = s->out;
  s->out = tnj_buffer_new(s, 64);
  tnj_run_loop(s, loop->frame, loop->node, arguments->items[0], loop->depth + 1);
  tnj_value text = tnj_buffer_string(s, s->out);
  s->out = outer;
  return text;
}

/* ---- calls ---- */

static const tnj_value *keyword(const tnj_arguments *a, tnj_value name, bool *used) {
  for (size_t i = 0; i < a->keyword_count; i++) {
    if (!tnj_text_equal(a->keywords[i].name, name)) continue;
    used[i] = true;
    return &a->keywords[i].value;
  }
  return NULL;
}

static int shown(tnj_value name) {
  return (int)(tnj_size(name) < 99 ? tnj_size(name) : 99);
}

/* What a macro got beyond its parameters: varargs, kwargs and caller, or an error. */
static void bind_rest(tnj_state *s, tnj_frame *frame, const tnj_node *node, const tnj_arguments *a, const bool *used) {
  const tnj_signature *signature = node->signature;
  if (a->count > signature->count && !tnj_given(signature->more))
    tnj_error(s, "macro '%.*s' takes not more than %zu argument(s)", shown(node->name), tnj_data(node->name),
              signature->count);
  if (tnj_given(signature->more)) {
    tnj_value *items;
    size_t count = a->count > signature->count ? a->count - signature->count : 0;
    tnj_value more = tnj_list_new(s, TNJ_TUPLE, count, &items);
    for (size_t i = 0; i < count; i++) items[i] = a->items[signature->count + i];
    tnj_frame_set(s, frame, signature->more, more);
  }
  tnj_dict *keywords = tnj_dict_new(s, 0);
  tnj_value caller = tnj_given(signature->caller) ? tnj_undefined_said(s, "No caller defined") : tnj_absent();
  for (size_t i = 0; i < a->keyword_count; i++) {
    tnj_value name = a->keywords[i].name;
    if (used[i]) continue;
    if (tnj_text_is(name, "caller") && tnj_given(caller))
      caller = a->keywords[i].value;
    else if (tnj_given(signature->keywords))
      tnj_dict_set(s, keywords, name, a->keywords[i].value);
    else
      tnj_error(s, "macro '%.*s' takes no keyword argument '%.*s'", shown(node->name), tnj_data(node->name),
                shown(name), tnj_data(name));
  }
  if (tnj_given(signature->keywords)) tnj_frame_set(s, frame, signature->keywords, tnj_dict_value(keywords));
  for (size_t i = 0; i < signature->count && tnj_given(caller); i++)
    if (tnj_text_is(signature->names[i], "caller")) return; /* a parameter of that name */
  if (tnj_given(caller)) tnj_frame_set(s, frame, signature->caller, caller);
}

tnj_value tnj_call_macro(tnj_state *s, const tnj_macro *macro, const tnj_arguments *a) {
  const tnj_signature *signature = macro->node->signature;
  tnj_frame *frame = tnj_frame_for(s, macro->frame, macro->node->first);
  bool *used = tnj_alloc(s, a->keyword_count);
  const tnj_value **given = tnj_array(s, signature->count, sizeof *given);
  for (size_t i = 0; i < signature->count; i++)
    given[i] = i < a->count ? &a->items[i] : keyword(a, signature->names[i], used);
  bind_rest(s, frame, macro->node, a, used);
  tnj_enter(s);
  for (size_t i = 0; i < signature->count; i++) {
    tnj_value name = signature->names[i];
    tnj_value value = given[i]                 ? *given[i]
                      : signature->defaults[i] ? tnj_evaluate(s, frame, signature->defaults[i])
                                               : tnj_undefined_name(s, name);
    tnj_frame_set(s, frame, name, value);
  }
  tnj_value text = tnj_capture(s, frame, macro->node->first);
  tnj_leave(s);
  return text;
}

/* The number of the parameter `name` in the list `parameters`, or -1. */
static int parameter_index(const char *parameters, tnj_value name) {
  int index = 0;
  for (const char *at = parameters; *at; index++) {
    size_t size = strcspn(at, " ");
    if (size == tnj_size(name) && memcmp(at, tnj_data(name), size) == 0) return index;
    at += size;
    at += *at == ' ';
  }
  return -1;
}

static size_t parameter_count(const char *parameters) {
  size_t count = *parameters != 0;
  for (; *parameters; parameters++) count += *parameters == ' ';
  return count;
}

static void bind(tnj_state *s, const tnj_builtin *builtin, const tnj_arguments *a, tnj_value *p) {
  size_t count = parameter_count(builtin->parameters);
  if (a->count > count) tnj_error(s, "%s() takes at most %zu argument(s) (%zu given)", builtin->name, count, a->count);
  for (size_t i = 0; i < a->count; i++) p[i] = a->items[i];
  for (size_t i = 0; i < a->keyword_count; i++) {
    tnj_value name = a->keywords[i].name;
    int index = parameter_index(builtin->parameters, name);
    if (index < 0)
      tnj_error(s, "%s() got an unexpected keyword argument '%.*s'", builtin->name, shown(name), tnj_data(name));
    if (tnj_given(p[index]))
      tnj_error(s, "%s() got multiple values for argument '%.*s'", builtin->name, shown(name), tnj_data(name));
    p[index] = a->keywords[i].value;
  }
  for (size_t i = 0; i < builtin->required; i++)
    if (!tnj_given(p[i])) tnj_error(s, "%s() is missing a required argument", builtin->name);
}

tnj_value tnj_call_builtin(tnj_state *s, const tnj_builtin *builtin, tnj_value self, const tnj_arguments *arguments) {
  tnj_value p[TNJ_MAX_PARAMETERS] = {0};
  tnj_enter(s);
  if (builtin->parameters) bind(s, builtin, arguments, p);
  tnj_value value = builtin->call(s, self, p, arguments);
  tnj_leave(s);
  return value;
}

bool tnj_is_callable(tnj_value v) {
  switch (v.kind) {
    case TNJ_FUNCTION:
    case TNJ_METHOD:
    case TNJ_MACRO:
    case TNJ_LOOP:
    case TNJ_JOINER:
    case TNJ_UNDEFINED: return true;
    default: return false;
  }
}

static tnj_value call_joiner(tnj_state *s, tnj_joiner *joiner) {
  if (joiner->used) return joiner->separator;
  joiner->used = true;
  return tnj_string_text(s, "");
}

tnj_value tnj_call_value(tnj_state *s, tnj_value callee, const tnj_arguments *arguments) {
  switch (callee.kind) {
    case TNJ_FUNCTION: return tnj_call_builtin(s, callee.function, tnj_absent(), arguments);
    case TNJ_METHOD: return tnj_call_builtin(s, callee.method->function, callee.method->self, arguments);
    case TNJ_MACRO: return tnj_call_macro(s, callee.macro, arguments);
    case TNJ_LOOP: return call_loop(s, callee.loop, arguments);
    case TNJ_JOINER: return call_joiner(s, callee.joiner);
    case TNJ_UNDEFINED: tnj_fail_undefined(s, callee);
    default: tnj_error(s, "'%s' object is not callable", tnj_type_name(callee));
  }
}

/* ---- statements ---- */

static tnj_value macro_value(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  tnj_macro *macro = tnj_alloc(s, sizeof *macro);
  *macro = (tnj_macro){node, frame};
  return (tnj_value){.kind = TNJ_MACRO, .macro = macro};
}

static void run_with(tnj_state *s, tnj_frame *frame, const tnj_node *node, tnj_frame *inner) {
  for (size_t i = 0; i < node->count; i += 2)
    assign(s, inner, node->items[i], tnj_evaluate(s, frame, node->items[i + 1]));
}

static void set_block(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  tnj_value text = tnj_capture(s, tnj_frame_for(s, frame, node->second), node->second);
  if (node->third) text = tnj_apply_filters(s, frame, node->third, text);
  assign(s, frame, node->first, text);
}

static void filter_block(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  tnj_value text = tnj_capture(s, tnj_frame_for(s, frame, node->first), node->first);
  output(s, tnj_apply_filters(s, frame, node->second, text));
}

static tnj_flow autoescape_block(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  bool outer = s->autoescape;
  s->autoescape = tnj_truth(s, tnj_evaluate(s, frame, node->second));
  tnj_flow flow = tnj_execute(s, tnj_frame_for(s, frame, node->first), node->first);
  s->autoescape = outer;
  return flow;
}

static tnj_flow run_if(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  for (; node && node->kind == TNJ_N_IF; node = node->third)
    if (tnj_truth(s, tnj_evaluate(s, frame, node->first))) return tnj_execute(s, frame, node->second);
  return node ? tnj_execute(s, frame, node) : TNJ_NEXT;
}

static tnj_flow execute_block(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  tnj_frame *inner;
  switch (node->kind) {
    case TNJ_N_FOR: return tnj_run_loop(s, frame, node, tnj_evaluate(s, frame, node->second), 0);
    case TNJ_N_SCOPE: return tnj_execute(s, tnj_frame_for(s, frame, node->first), node->first);
    case TNJ_N_BLOCK: return tnj_execute(s, tnj_frame_for(s, s->root, node->first), node->first);
    case TNJ_N_AUTOESCAPE: return autoescape_block(s, frame, node);
    case TNJ_N_WITH:
      inner = tnj_frame_for(s, frame, node->first);
      run_with(s, frame, node, inner);
      return tnj_execute(s, inner, node->first);
    case TNJ_N_SET_BLOCK: set_block(s, frame, node); break;
    case TNJ_N_FILTER_BLOCK: filter_block(s, frame, node); break;
    case TNJ_N_CALL_BLOCK: output(s, tnj_evaluate_call(s, frame, node->second, macro_value(s, frame, node))); break;
    default:
      tnj_error(s, "no loader for this environment: '%.*s' needs other templates", shown(node->name),
                tnj_data(node->name));
  }
  return TNJ_NEXT;
}

static tnj_flow execute(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  s->offset = node->offset;
  switch (node->kind) {
    case TNJ_N_DATA: output(s, (tnj_value){.kind = TNJ_STRING, .flag = TNJ_MARKUP, .string = node->name.string}); break;
    case TNJ_N_OUTPUT: output(s, tnj_evaluate(s, frame, node->first)); break;
    case TNJ_N_IF: return run_if(s, frame, node);
    case TNJ_N_SET: assign(s, frame, node->first, tnj_evaluate(s, frame, node->second)); break;
    case TNJ_N_MACRO: tnj_frame_set(s, frame, node->name, macro_value(s, frame, node)); break;
    case TNJ_N_BREAK: return TNJ_BREAK;
    case TNJ_N_CONTINUE: return TNJ_CONTINUE;
    default: return execute_block(s, frame, node);
  }
  return TNJ_NEXT;
}

tnj_flow tnj_execute(tnj_state *s, tnj_frame *frame, const tnj_node *node) {
  tnj_flow flow = TNJ_NEXT;
  tnj_enter(s);
  if (node->kind != TNJ_N_BODY) {
    flow = execute(s, frame, node);
  } else {
    for (size_t i = 0; i < node->count && flow == TNJ_NEXT; i++) {
      const tnj_node *child = node->items[i];
      tnj_step(s);
      flow = child->kind == TNJ_N_BODY ? tnj_execute(s, frame, child) : execute(s, frame, child);
    }
  }
  tnj_leave(s);
  return flow;
}
